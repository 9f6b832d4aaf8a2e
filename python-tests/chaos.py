"""./dev soak --chaos MINUTES: all kinds of locks, used in all ways by several processes, while their servers fail.

    ./dev soak --chaos 60                           # an hour for each engine, one after the other
    ./dev soak --chaos 60 --engine etcd             # one: single, named, sentinel, cluster, quorum, etcd, etcd-users, zookeeper
    ./dev soak --chaos 60 --engine etcd --seed 7    # other choices

It fails when two hold a lock, when a semaphore gives more permits than it has, when a token falls, when a call takes longer than its own
bound, when an error comes that no fault explains, when a name is not held by anybody for MOST_PAUSE seconds, or when something is left at
the end. What a failed run wrote down is kept in build/soak.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import dlock
from harness.build import LIBRARY, ROOT
from harness.chaos import LEASE, WORLDS, World, judge
from harness.chaos.worker import NAMES, SEATS
from harness.waiting import until

FOLDER = ROOT / "build/soak"
WORKER = ROOT / "python-tests/harness/chaos/worker.py"
PROCESSES = 3
MOST_PAUSE = 120
MOST_SHOWN = 20


class Run:
    """The processes, and what they wrote down."""

    def __init__(self, world: World, kinds: list[str], seed: str) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-"))
        self.holds: list[judge.Hold] = []
        self.odd: list[str] = []
        self.faults: list[str] = []  # what the runner did, and when
        self.counts: collections.Counter[str] = collections.Counter()
        env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
        options = [f"{name}={value}" for name, value in world.options.items()]
        self.processes = [subprocess.Popen([sys.executable, str(WORKER), world.url, str(number), str(self.folder), ",".join(kinds), seed, *options],
                                           env=env, stdout=subprocess.PIPE, text=True) for number in range(PROCESSES)]  # fmt: skip
        self.readers = [threading.Thread(target=self.read, args=(process.stdout,)) for process in self.processes]
        for reader in self.readers:
            reader.start()

    def read(self, lines: Any) -> None:
        for line in lines:
            what, _, words = line.partition(" ")
            if what == "hold":
                self.holds.append(judge.read(line))
            elif what == "count":
                name, number = words.rsplit(" ", 1)
                self.counts[name] += int(number)
            else:
                self.odd.append(line.rstrip())

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        """No process stays, also when a fault could not be repaired."""
        for process in self.processes:
            process.kill()
            process.wait()
        for reader in self.readers:
            reader.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> list[str]:
        """What went wrong at the end."""
        (self.folder / "stop").touch()
        found = []
        for process, reader in zip(self.processes, self.readers):
            try:
                if code := process.wait(120):
                    found.append(f"a process ended with {code}")
            except subprocess.TimeoutExpired:
                found.append("a process does not end")
                process.send_signal(signal.SIGABRT)
                process.wait()
            reader.join()
        return found


def gaps(holds: list[judge.Hold], since: int, until_: int) -> list[str]:
    """Names that nobody got for too long."""
    found, last = [], collections.defaultdict(lambda: since)
    for hold in sorted(holds, key=lambda hold: hold.began):
        if hold.began - last[hold.name] > MOST_PAUSE * 10**9:
            found.append(f"{hold.name}: nobody got it for {(hold.began - last[hold.name]) // 10**9} s")
        last[hold.name] = hold.began
    return found + [f"{name}: nobody gets it any more" for name, at in last.items() if until_ - at > MOST_PAUSE * 10**9]


def prepare(client: Any, kinds: str) -> list[str]:
    """Returns the kinds that the engine has."""
    able = []
    for kind in kinds.split(","):
        with contextlib.suppress(dlock.Unsupported):
            for name in NAMES[kind]:
                lock = client.multi_lock(*map(client.lock, NAMES["mutex"])) if kind == "multi" else client.lock(name, kind=kind)
                if "semaphore" in kind:
                    getattr(client, kind)(name).set_permits(SEATS)
                assert lock.acquire(timeout=10)
                lock.release()
            able.append(kind)
    return able


def nothing_left(client: Any, kinds: list[str]) -> list[str]:
    """What an expired lease, or a reclaim, does not end."""

    def is_free(lock: Any, kind: str) -> bool:
        if "semaphore" in kind:
            with contextlib.suppress(dlock.Unsupported):
                lock.reclaim_permits(LEASE / 1000)
            return bool(lock.available_permits == SEATS)
        seen = lock.inspect()
        return not seen.holder and seen.waiters <= 0

    found = []
    for kind in kinds:
        for name in NAMES[kind] if kind != "multi" else []:
            lock = getattr(client, kind)(name) if "semaphore" in kind else client.lock(name, kind=kind)
            try:
                until(lambda: is_free(lock, kind), 60)
            except AssertionError:
                found.append(f"{kind} {name}: {lock.inspect()}, permits {lock.available_permits if 'semaphore' in kind else '-'}")
    return found


def disturb(world: World, load: Run, name: str, minutes: float, seed: str) -> collections.Counter[str]:
    """Makes faults until the time is over, or something is wrong. Returns how often each was made."""
    chance, faults = random.Random(seed), collections.Counter[str]()
    began, shown, wrong = time.monotonic(), 0.0, 0
    while time.monotonic() < began + minutes * 60 and not wrong:
        time.sleep(chance.uniform(0.2, 4))
        at, what = time.monotonic_ns(), world.fault(chance)
        load.faults.append(f"fault {what} from {at} to {time.monotonic_ns()}")
        faults[what] += 1
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            wrong = len(judge.findings(list(load.holds), SEATS) + load.odd)
            print(f"{name}: {(shown - began) / 60:.0f} min, {len(load.holds)} holds, {len(load.faults)} faults, {wrong} wrong", flush=True)
    return faults


def run(name: str, minutes: float, seed: str) -> bool:
    with WORLDS[name]() as world:
        with dlock.Client(world.url, **world.options) as client:
            kinds = prepare(client, world.kinds)
        print(f"{name}: {', '.join(kinds)}", flush=True)
        since = time.monotonic_ns()
        with Run(world, kinds, seed) as load:
            faults = disturb(world, load, name, minutes, seed)
            wrong = load.end()
        wrong += judge.findings(load.holds, SEATS) + load.odd + gaps(load.holds, since, time.monotonic_ns())
        with dlock.Client(world.url, **world.options) as client:
            wrong += nothing_left(client, kinds)
    say_all(name, load, faults, wrong, seed)
    return not wrong


def say_all(name: str, load: Run, faults: collections.Counter[str], wrong: list[str], seed: str) -> None:
    print(f"{name}: {len(load.holds)} holds, {sum(faults.values())} faults ({', '.join(f'{what} {n}' for what, n in sorted(faults.items()))})")
    print(f"{name}: " + ", ".join(f"{what} {n}" for what, n in sorted(load.counts.items())))
    for what in wrong[:MOST_SHOWN]:
        print(f"{name}: {what}")
    if wrong:
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept = FOLDER / f"chaos-{name}-{seed}.txt"
        kept.write_text("".join(f"{line}\n" for line in [*wrong, *load.faults, *map(repr, load.holds)]))
        print(f"{name}: what was written down is in {kept}")
    print(f"{name}: {'FAILED' if wrong else 'passed'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak --chaos", description="all kinds of locks, used in all ways, while their servers fail")
    parser.add_argument("minutes", type=float, help="for each engine")
    parser.add_argument("--engine", choices=list(WORLDS), help="only this one")
    parser.add_argument("--seed", default="1", help="other choices of the load and of the faults")
    given = parser.parse_args()
    engines = [given.engine] if given.engine else list(WORLDS)
    return 0 if all([run(engine, given.minutes, given.seed) for engine in engines]) else 1


if __name__ == "__main__":
    sys.exit(main())
