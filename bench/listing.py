#!/usr/bin/env python3
"""What a listing of very many names costs others: bench/listing.py BUILD [--names N] [--rounds N]

One caller acquires and releases its own lock while `dlock list --names` reads all names again and again: in turns of its server, and of
another one. The other one takes as much of the processors, so the difference is what the server's time costs. Prints the p99 of both, how
much CPU time of the server one part of a listing takes, and how long a listing takes.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from measure import Bench, interleave, spread  # noqa: E402
from server import Server  # noqa: E402

PART = 1000
FILL = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'redisson_lock_token:{name:' .. string.format('%d', i) .. '}', i) end"


def fill(server: Server, names: int) -> None:
    """The tokens of locks that were held a moment ago: what a listing finds."""
    script = server.redis.register_script(FILL)
    for first in range(0, names, PART):
        script(args=[first, first + PART - 1])


def calls(server: Server) -> int:
    """How many parts of listings the server has answered."""
    return int(server.redis.info("commandstats").get("cmdstat_scan", {"calls": 0})["calls"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    bench = Bench(given.build, quick=False)
    other, cores = Server(), bench.place("own cores")
    other.pin({bench.cores[0]})
    took: list[float] = []

    def listing(server: Server) -> list[str]:
        return [str(given.build / "tools/dlock/dlock"), "list", "--names", "--url", server.urls["unix"]]

    def run(way: str) -> dict[str, float]:
        server = bench.server if way == "its own server" else other
        again = ["sh", "-c", 'while :; do "$@" >/dev/null || exit 1; done', "sh"]
        loop = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *again, *listing(server)], start_new_session=True,
                                preexec_fn=lambda: os.sched_setaffinity(0, cores or bench.cores))
        try:
            return bench.run(cores, "own", "dlock", bench.server.urls["unix"], 1, 3)
        finally:
            assert loop.poll() is None, "dlock list failed"
            os.killpg(loop.pid, 9)
            loop.wait()

    try:
        fill(bench.server, given.names)
        fill(other, given.names)
        cpu, parts = bench.server.cpu(), calls(bench.server)
        for _ in range(3):
            began = time.monotonic()
            found = subprocess.run(listing(bench.server), check=True, stdout=subprocess.PIPE).stdout.count(b"\n")
            took.append(time.monotonic() - began)
            assert found >= given.names, found
        part = (bench.server.cpu() - cpu) / (calls(bench.server) - parts)
        results = interleave(given.rounds, ["another server", "its own server"], run)
        for way, all_ in results.items():
            print(f"beside a listing of {way}: pair p50 {spread(all_, 'pair_p50')} us, p99 {spread(all_, 'pair_p99')} us")
        more = [b["pair_p99"] - a["pair_p99"] for a, b in zip(results["another server"], results["its own server"])]
        print(f"the p99 grows by {statistics.median(more):.0f} us [{min(more):.0f} to {max(more):.0f}]; one part of a listing takes {1e6 * part:.0f} us of the server's CPU time")
        print(f"a listing of {given.names} names takes {statistics.median(took):.1f} s; other processes used {100 * bench.others():.0f} % of the machine")
    finally:
        other.stop()
        bench.server.stop()


if __name__ == "__main__":
    main()
