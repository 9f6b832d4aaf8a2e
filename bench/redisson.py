"""Compare libdlock with Redisson: one caller, many callers, and many waiters. Left out where Java or Maven is missing."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Optional, Sequence

from chart import bars
from measure import Bench, Result, interleave, spread
from report import Section, Spread, number
from scale import limit, program as drained

from harness import java  # noqa: E402
from harness.build import clean_env  # noqa: E402

VERSION = java.VERSIONS[0]
SOURCE = pathlib.Path(__file__).resolve().parent / "redisson/Peer.java"
WAYS = {"dlock": "libdlock", "mutex": "Redisson `RLock`", "fenced": "Redisson `RFencedLock`"}
DRAINED = {"semaphore": ("semaphore, 1 permit", "`RSemaphore`"), "permits": ("permit semaphore, 1 permit", "`RPermitExpirableSemaphore`"),
           "write": ("write", "`RReadWriteLock`"), "fair": ("fair", "`RFairLock`")}
SIZES = (10, 100, 1_000)

# case, what, threads, placement, seconds
CASES = [
    ("1 caller, own lock", "own", 1, "own cores", 0.7),
    ("1 caller, own lock", "own", 1, "free", 0.7),
    ("64 callers, own locks", "own", 64, "own cores", 1.0),
    ("64 callers, one lock", "one", 64, "free", 1.0),
]


class Peer:
    """A JVM that measures: bench/redisson/Peer.java."""

    def __init__(self, url: str) -> None:
        path = java.prepare(VERSION, SOURCE)
        self.errors = tempfile.TemporaryFile()
        command = ["setpriv", "--pdeathsig", "KILL", java.program("java"), "-cp", path, "Peer", url]
        self.process = subprocess.Popen(command, env=clean_env(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def ask(self, *words: object) -> Result:
        assert self.process.stdin and self.process.stdout
        try:
            print(*words, file=self.process.stdin, flush=True)
        except OSError:
            pass  # it has ended: the loop below says so
        result: Result = {}
        for line in self.process.stdout:
            if line.strip() == "done":
                return result
            name, value = line.split()
            result[name] = float(value)
        self.errors.seek(0)
        raise SystemExit(f"Peer.java {' '.join(map(str, words))}: failed\n{self.errors.read().decode(errors='replace')[-4000:]}")

    def pin(self, cores: set[int]) -> None:
        """All threads that there are; those that they start inherit it."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                os.sched_setaffinity(int(task.name), cores)
            except ProcessLookupError:
                pass  # the thread has ended meanwhile

    def warm_up(self, bench: Bench) -> None:
        """Every case before it counts, so that the JVM has compiled what runs often."""
        for way in ("mutex", "fenced"):
            for _, what, threads, *_ in CASES:
                self.ask(what, way, threads, bench.some(4, 0.7))
        for kind in DRAINED:
            self.ask("drain", kind, SIZES[1], bench.some(4, 0.7), limit(bench))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()


# ---- callers


def called(bench: Bench, peer: Peer, way: str, case: tuple[str, str, int, str, float], cores: Optional[set[int]]) -> Result:
    """One round of one way. The fields have the names of Peer.java."""
    _, what, threads, _, seconds = case
    seconds = bench.some(seconds, 0.3)
    if way != "dlock":
        return peer.ask(what, way, threads, seconds)
    where = [threads] if what == "own" else [1, threads]
    result = bench.run(cores, what, "dlock", bench.server.urls["tcp"], *where, seconds)
    if what == "own":
        return {"per_s": result["per_s"] / 2, "p50": result["pair_p50"], "p99": result["pair_p99"]}
    return {"per_s": result["acquired_per_s"], "handoffs_per_s": result["handoffs_per_s"], "p50": result["wait_p50"], "p99": result["wait_p99"]}


def times(ours: Sequence[Result], theirs: Sequence[Result], field: str) -> str:
    """How many times the rival's rate libdlock has."""
    return f"{Spread.of([a[field] / b[field] for a, b in zip(ours, theirs) if b[field]])}x"


def callers(bench: Bench, peer: Peer) -> Section:
    rows, groups = [], []
    for case in CASES:
        name, what, _, where, _ = case
        cores = bench.place(where)
        peer.pin(cores or set(bench.cores))
        found = interleave(bench.rounds(7), list(WAYS), lambda way: called(bench, peer, way, case, cores))
        field = "per_s" if what == "own" else "handoffs_per_s"
        groups.append(bars(f"{'pairs' if what == 'own' else 'hand-offs'}, {name}, {where}", WAYS, found, lambda result: result[field]))
        for way, all_ in found.items():
            rows.append([f"{name}, {where}", WAYS[way], str(spread(all_, "per_s")), str(spread(all_, field)) if what == "one" else "",
                         str(spread(all_, "p50")), str(spread(all_, "p99")), "" if way == "dlock" else times(found["dlock"], all_, field)])
    text = f"""Redisson {VERSION} with its default configuration, in one JVM that has run every case before. Its `RLock` has no token; `RFencedLock` has
one, as every grant of libdlock. One thread per caller, over TCP. One lock: hand-offs are acquisitions by another caller than the last one,
and latencies are of the wait; else they are of the pair. The last column is the rate of libdlock relative to the way, in the same rounds:
hand-offs for one lock."""
    return Section("Redisson", text, ["case", "way", "pairs/s", "hand-offs/s", "p50 us", "p99 us", "libdlock's rate"], rows, [], groups)


# ---- waiters


def waited(bench: Bench, peer: Peer, way: str, kind: str, size: int) -> Result:
    if way == "dlock":
        return drained(bench, kind, size)
    bench.fresh()
    return peer.ask("drain", kind, size, bench.some(1, 0.3), limit(bench))


def waiters(bench: Bench, peer: Peer) -> Section:
    bench.place("free")
    peer.pin(set(bench.cores))
    rows, groups = [], []
    for kind, (name, theirs) in DRAINED.items():
        for size in SIZES:
            found = interleave(bench.rounds(5), ["dlock", "redisson"], lambda way: waited(bench, peer, way, kind, size))
            names = {"dlock": "libdlock", "redisson": f"Redisson {theirs}"}
            groups.append(bars(f"grants, {size:,} wait: {name}", names, found, lambda result: result["granted_per_s"]))
            for way, all_ in found.items():
                fields = [str(spread(all_, field)) for field in ("granted_per_s", "queued_us", "granted_scripts", "granted_commands")]
                rows.append([f"{name}, {size:,}", names[way], *fields,
                             number(spread(all_, "part").low), "" if way == "dlock" else times(found["dlock"], all_, "granted_per_s")])
    text = f"""As in the section on many waiters: one owner holds, the others wait, and each releases at once what it gets. Redisson has a thread for
each waiter, which its queueing time includes. Its fair waiters subscribe to a channel each; for them `subscriptionsPerConnection` is 1,000.
A case stops after {limit(bench):g} s. A release of Redisson's write lock wakes the threads that sleep just then. A thread that is asking
meanwhile misses it, and sleeps until the lease ends: then *got it* is below 1 for few waiters, too."""
    head = ["kind, waiters", "way", "grants/s", "queued us", "scripts per grant", "commands per grant", "got it", "libdlock's rate"]
    return Section("Redisson, many waiters", text, head, rows, [], groups)


def row_redisson(bench: Bench) -> list[Section]:
    bench.place("free")
    bench.fresh()
    bench.server.load_scripts()
    try:
        for name in java.PACKAGES:
            java.program(name)
        peer = Peer(bench.server.urls["tcp"])
    except RuntimeError as error:
        text = f"Not measured in this run: {str(error).splitlines()[0]}."
        print(f"redisson: {text}", file=sys.stderr)
        return [Section("Redisson", text, [], [], [])]
    try:
        peer.warm_up(bench)
        return [callers(bench, peer), waiters(bench, peer)]
    finally:
        peer.close()
        bench.fresh()
        bench.server.load_scripts()
