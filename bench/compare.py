#!/usr/bin/env python3
"""Compare two builds of the library: bench/compare.py BEFORE AFTER [--rounds N], each a build folder with the programs of bench.

The builds take turns, so what else the machine does meets both. Prints the median of each and the spread of the ratios round by round.
"""
from __future__ import annotations

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from measure import Bench, interleave, ratio, spread  # noqa: E402

CASES = {
    "uncontended pair": (("own", "dlock", "unix", 1, 0.5), ("pair_p50", "client_us")),
    "8 x 8": (("one", "dlock", "tcp", 8, 8, 1.0), ("acquired_per_s", "wait_p50")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    bench = Bench(given.before, quick=False)
    try:
        for case, ((program, way, transport, *words), fields) in CASES.items():
            cores = bench.place("own cores" if program == "own" else "free")

            def run(build: str) -> dict[str, float]:
                bench.programs = (given.before if build == "before" else given.after) / "bench"
                return bench.run(cores, program, way, bench.server.urls[transport], *words)

            results = interleave(given.rounds, ["before", "after"], run)
            for field in fields:
                before, after = (spread(results[build], field) for build in ("before", "after"))
                print(f"{case}, {field}: before {before}, after {after}, after / before {ratio(results['after'], results['before'], field)}",
                      flush=True)
        print(f"other processes used {100 * bench.others():.0f} % of the machine")
    finally:
        bench.server.stop()


if __name__ == "__main__":
    main()
