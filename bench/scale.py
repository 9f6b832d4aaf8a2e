"""Many waiters of one process want one lock: does the rate stay the same when there are more of them?"""
from __future__ import annotations

from typing import Sequence

from measure import Bench, Result, interleave
from report import Section, Spread, Target, number

FAIRLY = {"dlock": "mutex", "fair": "fair", "write": "write", "semaphore": "semaphore, 4 permits", "permits": "permit semaphore, 4 permits",
          "read": "read"}
CROWDS = ((8, 8, 0.7), (64, 1, 2.0))  # processes, threads of each, seconds
JUST = 0.99
FAIRNESS = """All threads of all processes want one lock all the time; the critical section is empty. *Jain* is Jain's index of how often each
thread, and each process, got it: 1 means that all got it as often."""

KINDS = {"mutex": "mutex", "fair": "fair", "write": "write", "semaphore": "semaphore, 1 permit", "permits": "permit semaphore, 1 permit",
         "read": "read, all get it"}
FEW = 10
SIZES = (FEW, 100, 1_000, 10_000)
LIMIT = 20.0

TEXT = """One process, one thread that submits calls and reads events. One owner holds the lock, and the others wait for it. Then it
releases, and each waiter releases at once what it gets. Readers get the lock together; then all release.

*Relative* is the rate beside that of ten waiters in the same round: 1 means that a grant costs the same however many wait. *Queued* is
the time until the server knows the waiters, divided by their number. Mutexes queue in memory, so the server hears nothing of most of them.
Commands are those that the server counts (`INFO commandstats`) between the first release and the last: *commands* also counts what runs
inside scripts. A case stops after {limit:g} s. Its rate is then that of the first waiters, who have most others behind them; *got it* is
the share of the waiters that got the lock. The command timeout is 20 s: ten thousand requests at once take the server longer than the
default of one second."""


def limit(bench: Bench) -> float:
    """Seconds after which a case stops."""
    return bench.some(LIMIT, LIMIT / 4)


def program(bench: Bench, kind: str, waiters: int) -> Result:
    """One run of bench/native/scale.c, on an empty server."""
    bench.fresh()
    bench.server.load_scripts()
    return bench.run(None, "scale", kind, bench.server.urls["tcp"], waiters, bench.some(1, 0.3), limit(bench))


def row(kind: str, waiters: int, phase: str, all_: Sequence[Result], few: Sequence[Result]) -> list[str]:
    def of(field: str) -> str:
        return str(Spread.of([result[field] for result in all_]))

    rate = f"{phase}_per_s"
    relative = Spread.of([a[rate] / b[rate] if b[rate] else 0 for a, b in zip(all_, few)])
    name = KINDS[kind] if phase == "granted" else "read, all release"
    return [name, f"{waiters:,}", of(rate), "" if waiters == FEW else f"{relative}x", of("queued_us") if phase == "granted" else "",
            of(f"{phase}_scripts"), of(f"{phase}_commands"), number(min(result["part"] for result in all_))]


def fairness(bench: Bench) -> Section:
    rows, targets = [], []
    for processes, threads, seconds in CROWDS:
        def run(way: str) -> Result:
            return bench.run(None, "one", way, bench.server.urls["tcp"], processes, threads, bench.some(seconds, 0.3))

        case = f"{processes} x {threads}"
        for way, all_ in interleave(bench.rounds(3), list(FAIRLY), run).items():
            just = [Spread.of([result[f"jain_{who}"] for result in all_]) for who in ("threads", "processes")]
            rows.append([case, FAIRLY[way], str(Spread.of([result["acquired_per_s"] for result in all_])), *map(str, just)])
            targets += [Target(f"{FAIRLY[way]}, {case}", f"Jain, {who}", one, JUST, False, "") for who, one in zip(("threads", "processes"), just)]
    return Section("Fairness", FAIRNESS, ["processes x threads", "kind", "acquired/s", "Jain, threads", "Jain, processes"], rows, targets)


def row_scale(bench: Bench) -> list[Section]:
    bench.place("free")
    sizes = SIZES[:-1] if bench.quick else SIZES
    rows, fell, failed = [], [], []
    for kind in KINDS:
        found = interleave(bench.rounds(3), [str(size) for size in sizes], lambda size: program(bench, kind, int(size)))
        for phase in ("granted", "released") if kind == "read" else ("granted",):
            rows += [row(kind, size, phase, found[str(size)], found[str(FEW)]) for size in sizes]
        fell += [result["fell"] for all_ in found.values() for result in all_]
        failed += [result["failed"] for all_ in found.values() for result in all_]
    bench.fresh()
    bench.server.load_scripts()
    targets = [Target("many waiters", "tokens that fell", Spread.of(fell), 0, True, ""),
               Target("many waiters", "calls that failed, or locks that were lost", Spread.of(failed), 0, True, "")]
    head = ["kind", "waiters", "grants/s", "relative", "queued us", "scripts per grant", "commands per grant", "got it"]
    return [Section("Many waiters", TEXT.format(limit=limit(bench)), head, rows, targets), fairness(bench)]
