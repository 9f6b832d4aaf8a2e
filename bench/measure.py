"""A server, the programs that measure, and what is made of their results. run.py has the rows."""
from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import Callable, Optional, Sequence

from report import Spread
from server import ROOT, Server

Result = dict[str, float]


def parse(text: str) -> Result:
    return {name: float(value) for name, value in (line.split() for line in text.splitlines() if " " in line)}


def busy_seconds() -> float:
    """The CPU seconds of the whole machine until now."""
    user, nice, system, _, _, *rest = map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process until now."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    """A server, the programs, and the length of the measurements."""

    def __init__(self, build: pathlib.Path, quick: bool) -> None:
        self.programs = build / "bench"
        self.quick = quick
        self.cores = sorted(os.sched_getaffinity(0))
        self.began = time.monotonic(), busy_seconds()
        self.server = Server()
        self.environment = {**os.environ, **self.server.shas}

    def others(self) -> float:
        """The share of the machine's CPU time that other processes have used until now."""
        wall, busy = time.monotonic() - self.began[0], busy_seconds() - self.began[1]
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = children.ru_utime + children.ru_stime + time.process_time() + self.server.cpu()
        return max(0.0, busy - ours) / (wall * (os.cpu_count() or 1))

    def some(self, full: float, quick: float) -> float:
        return quick if self.quick else full

    def rounds(self, full: int) -> int:
        return 1 if self.quick else full

    def command(self, program: str, *words: object) -> list[str]:
        start = [sys.executable, str(ROOT / "bench" / "rivals.py")] if program == "rivals" else [str(self.programs / f"bench_{program}")]
        return start + [str(word) for word in words]

    def popen(self, cores: Optional[set[int]], program: str, *words: object, **more: object) -> subprocess.Popen[str]:
        pin = None if cores is None else lambda: os.sched_setaffinity(0, cores)
        process: subprocess.Popen[str] = subprocess.Popen(self.command(program, *words), env=self.environment, preexec_fn=pin, text=True,
                                                          stdout=subprocess.PIPE, **more)  # type: ignore[call-overload]
        return process

    def run(self, cores: Optional[set[int]], program: str, *words: object) -> Result:
        """Run a program to its end, and return its results."""
        process = self.popen(cores, program, *words)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        if process.returncode:
            raise SystemExit(f"{program} {' '.join(map(str, words))}: failed")
        return parse(output)

    def place(self, where: str) -> Optional[set[int]]:
        """Pin the server, and return the cores for the client. One core for both, one each, or any core."""
        everywhere, first = set(self.cores), {self.cores[0]}
        self.server.pin(everywhere if where == "free" else first)
        return {"same core": first, "own cores": {self.cores[-1]}, "free": None}[where]

    def fresh(self) -> None:
        self.server.redis.flushall()


class Steps:
    """A program that prints a word at each step, and goes on when it reads a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.text = ""

    def until(self, word: str) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.text += line
            if line.strip() == word:
                return
        raise SystemExit(f"the program ended before it said {word}")

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def interleave(rounds: int, ways: Sequence[str], run: Callable[[str], Result]) -> dict[str, list[Result]]:
    """Each way once per round, every other round in reverse order."""
    results: dict[str, list[Result]] = {way: [] for way in ways}
    for i in range(rounds):
        for way in ways if i % 2 == 0 else reversed(ways):
            results[way].append(run(way))
    return results


def spread(results: Sequence[Result], field: str, scale: float = 1) -> Spread:
    return Spread.of([result[field] * scale for result in results])


def ratio(ours: Sequence[Result], theirs: Sequence[Result], field: str) -> Spread:
    return Spread.of([a[field] / b[field] for a, b in zip(ours, theirs)])


def one(value: float) -> Spread:
    return Spread(value, value, value)
