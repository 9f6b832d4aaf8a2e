"""./dev soak: runs every fault row again and again, unattended, until its full count is reached.

    ./dev soak                                      # all rows with their full counts: many hours
    ./dev soak --minutes 60                         # as much as fits: every row once, then the rows that lack most
    ./dev soak --rows C,D-05 --minutes 10           # groups and rows
    ./dev soak --list                               # print what would run

The tests of a row are those that name it, see harness/rows.py. Of each test the full form runs (or its only form), and then the form
that takes hours. Each run is a process of its own. The output of a failed run is kept in build/soak.
A test reports with tell() of harness/tally.py how many runs of the row it made and how many faults. Without a report its number of
rounds counts. A table ends the run; it is also in build/soak/summary.md:

    passed   the count was reached          short    all passed until the time was over
    FAILED   some run failed                void     all passed, but a test that counts faults counted none
    not run  the time was over before

Ctrl-C or SIGTERM ends it early, with the table.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any, Iterable

import pytest

from harness.build import BUILD, ROOT
from harness.left import Left, remember, remembered
from harness.rows import ROWS, backing, rows_of

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = ROOT / "build/soak"
ROUNDS = ("rounds", "turns", "pairs", "forks", "copies", "names", "graphs", "count", "runs", "seconds")
LEVELS = ("soak", "full")


@dataclasses.dataclass
class Run:
    """One test with its parameters."""

    name: str
    rows: set[str]
    level: int  # place in LEVELS; 2: has no larger form
    kin: tuple[Any, ...]  # test and parameters without numbers: equal for forms of one test
    rounds: int
    longest: float  # the most seconds it may take
    times: int = 0
    failed: int = 0
    done: int = 0
    fired: int = 0
    silent: bool = True  # it reports no faults; like every test it fails when they do not happen
    seconds: float = 0.0


class Collector:
    def __init__(self) -> None:
        self.runs: list[Run] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            rows = rows_of(item.nodeid) & ROWS.keys()
            if not rows:
                continue
            values = getattr(item, "callspec").params if hasattr(item, "callspec") else {}
            level = next((place for place, mark in enumerate(LEVELS) if item.get_closest_marker(mark)), len(LEVELS))
            words = tuple(sorted((name, str(value)) for name, value in values.items() if not isinstance(value, int)))
            rounds = next((values[name] for name in ROUNDS if isinstance(values.get(name), int)), 1)
            limit = item.get_closest_marker("timeout")
            self.runs.append(Run(item.nodeid, rows, level, (item.nodeid.partition("[")[0], words), rounds, limit.args[0] if limit else 60))


def largest(runs: list[Run]) -> list[Run]:
    """Of forms that differ in numbers only: the full form and the one that takes hours. Text may be a count too: it is kept as it is."""
    has_full = {run.kin for run in runs if run.level == 1}
    return sorted((run for run in runs if run.level < 2 or run.kin not in has_full), key=lambda run: run.level == 0)


def collect(wanted: list[str]) -> list[Run]:
    files = {str(HERE / test.file) for test in backing() if any(row.startswith(word) for row in test.rows for word in wanted or [""])}
    if not files:
        return []
    FOLDER.mkdir(parents=True, exist_ok=True)
    collector = Collector()
    os.chdir(HERE)
    out = os.dup(1)
    with open(FOLDER / "collect.log", "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        code = pytest.main(["-c", str(HERE / "pytest.ini"), "--rootdir", str(ROOT), "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(files)], plugins=[collector])
        sys.stdout.flush()
        os.dup2(out, 1)
    if code:
        sys.exit("the tests cannot be collected: ./dev test says why")
    return largest(collector.runs)


def carry_out(run: Run) -> None:
    tally, began = FOLDER / "tally.json", time.monotonic()
    tally.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "--rootdir", str(ROOT), "-q", "-p", "no:cacheprovider", "--tally", str(tally), str(ROOT / run.name)]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = json.loads(tally.read_text()) if tally.exists() else {}
    passed = done.returncode == 0 and said.get("outcome") == "passed"
    run.times += 1
    run.seconds += time.monotonic() - began
    run.failed += not passed
    run.done += (said.get("done") or run.rounds) if passed else 0
    run.fired += said.get("fired") or 0
    run.silent &= said.get("fired") is None
    if not passed:
        log = FOLDER / (re.sub(r"\W+", "-", run.name.partition("::")[2]) + f"-{run.times}.log")
        log.write_text(done.stdout)
        print(done.stdout[-3000:], flush=True)
    if passed:
        remember("soak", {run.name: time.monotonic() - began})
    outcome = "passed" if passed else f"FAILED, see {log.relative_to(ROOT)}"
    print(f"{time.strftime('%H:%M:%S')} {run.name.partition('::')[2]}: {outcome}, {time.monotonic() - began:.0f} s", flush=True)


def done(row: str, runs: Iterable[Run]) -> int:
    return sum(run.done for run in runs if row in run.rows)


def lacking(runs: list[Run], left: float) -> list[Run]:
    """The next runs, most wanted first: runs that never ran, then by the part of its row's count that is done. A run of hours runs once,
    and only if its time is left.
    """

    def share(run: Run) -> float:
        return min(done(row, runs) / ROWS[row][0] for row in run.rows)

    again = [run for run in runs if run.times and not run.failed and run.level > 0 and share(run) < 1]
    return [run for run in runs if not run.times and (run.level > 0 or run.longest < left)] or sorted(again, key=lambda run: (run.times * run.seconds > 0 and share(run), run.seconds))


def verdict(row: str, runs: list[Run]) -> str:
    mine = [run for run in runs if row in run.rows]
    if any(run.failed for run in mine):
        return "FAILED"
    if not any(run.times for run in mine):
        return "not run"
    if not all(run.times for run in mine) or done(row, mine) < ROWS[row][0]:
        return "short"
    return "passed" if any(run.fired for run in mine) or all(run.silent for run in mine) else "void"


def table(runs: list[Run]) -> list[str]:
    lines = ["| row | fault | wanted | done | faults | runs | seconds | verdict |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in sorted({row for run in runs for row in run.rows}):
        mine = [run for run in runs if row in run.rows]
        fired, times, seconds = sum(run.fired for run in mine), sum(run.times for run in mine), sum(run.seconds for run in mine)
        fault = ROWS[row][1][:60]
        lines.append(f"| {row} | {fault} | {ROWS[row][0]} | {done(row, mine)} | {fired or ''} | {times} | {seconds:.0f} | {verdict(row, runs)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="no run begins later; without it: until all counts are reached")
    parser.add_argument("--rows", default="", help="groups and rows, with commas: C,D-05")
    parser.add_argument("--list", action="store_true", help="only say what would be run")
    options = parser.parse_args()
    wanted = [word.strip().upper() for word in options.rows.split(",") if word.strip()]
    runs = [run for run in collect(wanted) if not wanted or any(row.startswith(word) for row in run.rows for word in wanted)]
    if not runs:
        parser.error(f"no test has a row of {options.rows}")
    if options.list:
        for run in runs:
            print(f"{','.join(sorted(run.rows)):10} {run.name}")
        return 0
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    print(f"soak: {len(runs)} tests of {len({row for run in runs for row in run.rows})} rows, library {BUILD}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # also when it was started in the background
        signal.signal(number, signal.default_int_handler)
    try:
        left = Left((run.name for run in runs), remembered("soak"))
        while time.monotonic() < end and (following := lacking(runs, end - time.monotonic())):
            carry_out(following[0])
            left.done(following[0].name)
            if sys.stdout.isatty() and left.waiting:
                print(f"-- each once: {left.line()}", flush=True)
    except KeyboardInterrupt:
        print("ended early")
    lines = table(runs)
    (FOLDER / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    verdicts = [verdict(row, runs) for row in sorted({row for run in runs for row in run.rows})]
    print(", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)))
    return 1 if {"FAILED", "void"} & set(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
