"""./dev soak --proxy MINUTES: a load of all kinds of locks on real servers whose answers are changed on their way.

    ./dev soak --proxy 60                           # an hour, shared by all set-ups
    ./dev soak --proxy 60 --engine etcd             # one of them: single, sentinel, cluster, quorum, etcd, zookeeper
    ./dev soak --proxy 60 --seed 7 --every 100      # other choices; one change in 100 chunks of bytes

The load is native/agents/storm.c, built with AddressSanitizer and UBSan: random calls of the whole ABI from several threads. It fails
when a sanitizer finds something, when it crashes or hangs, when its memory grows above a bound, when a call does not end, or when a
sentence has a password. The output of a failed run is kept in build/soak. One line for each set-up ends the run: how much was changed,
how many answers came, how many calls the library made.
"""
from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import re
import subprocess
import sys
import time

from harness.build import ROOT, native
from harness.spoil import SETUPS, Spoiled, spoiled

FOLDER = ROOT / "build/soak"
DEAD = "redis://127.0.0.1:1"
CALLS = 250
RATES = (10, 3, 40, 100)  # tenths of --every, by turns: connections that live long get farther


@dataclasses.dataclass
class Tally:
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0
    calls: int = 0
    events: int = 0
    bytes: int = 0
    answers: int = 0
    connections: int = 0
    changes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def load(url: str, seed: int, rounds: int = 2, calls: int = CALLS) -> tuple[int, str]:
    """One run of the load: its exit code and what it said."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    env["ASAN_OPTIONS"] = "detect_leaks=1:quarantine_size_mb=16:" + os.environ.get("ASAN_OPTIONS", "").replace("detect_leaks=0", "")
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1:exitcode=98"
    command = [str(native("storm")), url, DEAD, str(seed), str(rounds), str(calls), "spoiled"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=900)
    except subprocess.TimeoutExpired as late:
        return -1, f"it hangs\n{(late.stdout or b'').decode(errors='replace')}"
    return done.returncode, done.stdout.decode(errors="replace")


def run_once(tally: Tally, servers: Spoiled, seed: int) -> str:
    """Empty, or what went wrong."""
    began = time.monotonic()
    code, said = load(servers.url, seed)
    tally.runs += 1
    tally.seconds += time.monotonic() - began
    if code == 0 and (words := re.fullmatch(r"calls (\d+) events (\d+) rounds \d+ forks 0 bytes (\d+)\n", said)):
        tally.calls += int(words[1])
        tally.events += int(words[2])
        tally.bytes = max(tally.bytes, int(words[3]))
        return ""
    tally.failed += 1
    return f"exit code {code}\n{said}"


def soak(setup: str, seconds: float, seed: int, every: int) -> Tally:
    tally, end = Tally(), time.monotonic() + seconds
    with spoiled(setup, seed, every) as servers:
        while time.monotonic() < end:
            seed += 1
            servers.rate(max(2, every * RATES[seed % len(RATES)] // 10))
            if wrong := run_once(tally, servers, seed):
                log = FOLDER / f"spoiled-{setup}-{seed}.log"
                log.write_text(wrong)
                print(f"{setup}: seed {seed} FAILED, see {log.relative_to(ROOT)}\n{wrong[-3000:]}", flush=True)
        tally.answers, tally.changes, tally.connections = servers.answers, servers.changes, servers.connections
    return tally


def line(setup: str, tally: Tally) -> str:
    changed = tally.changes.total()
    words = f"{tally.seconds:.0f} s, {tally.runs} runs, {tally.calls} calls, {tally.events} events, {tally.connections} connections, {tally.answers} answers, {changed} changed, at most {tally.bytes >> 10} KiB"
    verdict = f"{tally.failed} FAILED" if tally.failed else "passed" if changed else "void: nothing was changed"
    return f"{setup}: {words}: {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak --proxy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, help="for all set-ups together")
    parser.add_argument("--engine", choices=sorted(SETUPS), help="this set-up alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=40, help="one chunk of bytes in so many is changed")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    setups = [options.engine] if options.engine else list(SETUPS)
    done = {}
    for setup in setups:
        done[setup] = soak(setup, 60 * options.minutes / len(setups), options.seed * 1000, options.every)
        print(line(setup, done[setup]), flush=True)
    return 1 if any(tally.failed or not tally.changes for tally in done.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
