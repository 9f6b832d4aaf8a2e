"""Random calls of the whole ABI from several threads (native/agents/storm.c), on a server and on an address without one."""
from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from harness.agent import until
from harness.build import BUILD, native
from harness.faults import times
from harness.server import Server

LOCKS = ("storm m0", "storm m1", "storm {t}m2", "storm f0", "storm f1", "storm rw")
THREADS_CHECKED = BUILD.name == "thread"


def storm(url: str, dead: str, seed: int, rounds: int, calls: int) -> dict[str, int]:
    """ThreadSanitizer does not support forks with many threads. This program has no interpreter, so leaks are checked here."""
    command = [str(native("storm")), url, dead, str(seed), str(rounds), str(calls)]
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=1"
    if THREADS_CHECKED:
        command = ["setarch", "-R", *command, "nofork"]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=600)
    assert done.returncode == 0, (command, done.stdout)
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.parametrize("seeds, rounds, calls", times((2, 2, 400), (10, 4, 1500), 3600, (40, 4, 1500)))
def test_any_calls_in_any_order(redis_server: Server, tmp_path: pathlib.Path, seeds: int, rounds: int, calls: int) -> None:
    made = forks = 0
    for seed in range(1, seeds + 1):
        said = storm(redis_server.unix_url, f"redis+unix://{tmp_path}/nobody", seed, rounds, calls)
        assert said["rounds"] == rounds and said["events"] > 0
        made += said["calls"]
        forks += said["forks"]
    assert made > seeds * rounds * calls and (forks > 0 or THREADS_CHECKED)
    until(lambda: redis_server.command("EXISTS", *LOCKS) == 0, 30)  # locks that were abandoned without a close end with their leases
