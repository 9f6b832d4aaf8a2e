#!/usr/bin/env python3
"""Compare two builds of the library: bench/compare.py BEFORE AFTER [--rounds N] [--only CASE...], each a build folder with the programs of bench.

The builds take turns, so what else the machine does meets both. Prints the median of each and the spread of the ratios round by round.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from measure import Bench, Result, interleave, ratio, spread  # noqa: E402
from run import kept  # noqa: E402

LOCKS, SECONDS = 100_000, 6


def one(processes: int, threads: int) -> Callable[[Bench], Result]:
    return lambda bench: bench.run(bench.place("free"), "one", "dlock", bench.server.urls["tcp"], processes, threads, 1.0)


CASES: dict[str, tuple[int, Callable[[Bench], Result], tuple[str, ...]]] = {  # rounds, one round, what is compared
    "pair": (15, lambda bench: bench.run(bench.place("own cores"), "own", "dlock", bench.server.urls["unix"], 1, 0.5), ("pair_p50", "client_us")),
    "threads": (15, one(1, 64), ("acquired_per_s", "wait_p50")),
    "processes": (15, one(8, 8), ("acquired_per_s", "wait_p50")),
    "two": (15, one(2, 1), ("acquired_per_s", "wait_p50")),
    "renewals": (3, lambda bench: kept(bench, "dlock", LOCKS, SECONDS), ("server_us", "client_s", "renewed", "late")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, help="of each case; the default is 15, and 3 for renewals")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    given = parser.parse_args()
    bench = Bench(given.before, quick=False)
    try:
        for case in given.only:
            rounds, once, fields = CASES[case]

            def run(build: str) -> Result:
                bench.programs = (given.before if build == "before" else given.after) / "bench"
                return once(bench)

            results = interleave(given.rounds or rounds, ["before", "after"], run)
            for field in fields:
                before, after = (spread(results[build], field) for build in ("before", "after"))
                change = f", after / before {ratio(results['after'], results['before'], field)}" if all(r[field] for r in results["before"]) else ""
                print(f"{case}, {field}: before {before}, after {after}{change}", flush=True)
        print(f"other processes used {100 * bench.others():.0f} % of the machine")
    finally:
        bench.server.stop()


if __name__ == "__main__":
    main()
