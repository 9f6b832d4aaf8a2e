"""Random calls of the whole ABI from several threads (native/agents/storm.c), on a server and on an address without one."""
from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from harness.agent import until
from harness.build import BUILD, LIBRARY, SANITIZED, native
from harness.etcd import Etcd
from harness.faults import times
from harness.server import Server
from harness.zookeeper import Zookeeper

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

LOCKS = ("storm m0", "storm m1", "storm {t}m2", "storm f0", "storm f1", "storm rw")
THREADS_CHECKED = BUILD.name == "thread"
ENGINES = {"etcd": (Etcd, "etcd://127.0.0.1:1"), "zookeeper": (Zookeeper, "zookeeper://127.0.0.1:1")}


def storm(url: str, dead: str, seed: int, rounds: int, calls: int) -> dict[str, int]:
    """Sanitizers do not support forks with many threads. This program has no interpreter, so leaks are checked here."""
    command = [str(native("storm")), url, dead, str(seed), str(rounds), str(calls)]
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=1"
    if THREADS_CHECKED:
        command = ["setarch", "-R", *command]
    if SANITIZED:
        command.append("nofork")
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=600)
    assert done.returncode == 0, (command, done.stdout)
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.parametrize("seeds, rounds, calls", times((2, 2, 400), (3, 4, 1500), 3600, (40, 4, 1500)))
def test_any_calls_in_any_order(redis_server: Server, tmp_path: pathlib.Path, seeds: int, rounds: int, calls: int) -> None:
    made = forks = 0
    for seed in range(1, seeds + 1):
        said = storm(redis_server.unix_url, f"redis+unix://{tmp_path}/nobody", seed, rounds, calls)
        assert said["rounds"] == rounds and said["events"] > 0
        made += said["calls"]
        forks += said["forks"]
    assert made > seeds * rounds * calls and (forks > 0 or SANITIZED)
    until(lambda: redis_server.command("EXISTS", *LOCKS) == 0, 30)  # locks that were abandoned without a close end with their leases


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seeds, rounds, calls", times((1, 2, 400), (3, 2, 1000), 3600, (20, 4, 1000)))
def test_on_other_engines(engine: str, seeds: int, rounds: int, calls: int) -> None:
    start, dead = ENGINES[engine]
    with start() as server:
        for seed in range(1, seeds + 1):
            assert storm(server.url, dead, seed, rounds, calls)["rounds"] == rounds


@pytest.mark.parametrize("seeds, rounds, calls", times((1, 2, 400), (3, 2, 1000), 3600, (20, 4, 1000)))
def test_in_memory(seeds: int, rounds: int, calls: int) -> None:
    for seed in range(1, seeds + 1):
        assert storm("memory://storm", "redis://127.0.0.1:1", seed, rounds, calls)["rounds"] == rounds


@pytest.mark.parametrize("engine", ENGINES)
def test_a_close_answers_every_call(engine: str) -> None:
    """Three threads end at once. One does the I/O, and the answers of the others' calls come back through it."""
    with ENGINES[engine][0]() as server:
        for _ in range(30):
            client = dlock.Client(server.url, watchdog_threads=3)
            locks = [client.lock(f"lock {number}") for number in range(40)]
            client.ping()
            for tag, lock in enumerate(locks, 1):
                client._lib.call(client._lib.dlock_lock_submit_inspect, lock._handle, tag)
            client._lib.call(client._lib.dlock_client_submit_close, client._handle, 0)
            assert {event.tag for event in client.events() if event.type == dlock.EventType.DONE} == set(range(1, 41))
