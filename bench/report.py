"""The report of a benchmark run: tables, and targets with verdicts. chart.py draws its picture."""
from __future__ import annotations

import os
import pathlib
import platform
import statistics
from typing import NamedTuple, Optional, Sequence


def number(value: float) -> str:
    """Three significant digits, thousands as k."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1e5:
        return f"{value / 1e3:.0f}k"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.1f}k"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


class Spread(NamedTuple):
    """A median and the lowest and highest round."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} [{number(self.low)}-{number(self.high)}]"


class Target(NamedTuple):
    """measured must be at most (or at least) bound. The unit "x" is a ratio of two ways in one run. floor: what this machine allows at best,
    in words and as a number: a way of the same run that does less than a lock must do. It is shown beside a target that was missed.
    """

    row: str
    what: str
    measured: Spread
    bound: float
    at_most: bool
    unit: str = "x"
    floor: Optional[tuple[str, Spread]] = None

    @property
    def met(self) -> bool:
        return self.measured.median <= self.bound if self.at_most else self.measured.median >= self.bound

    def cells(self) -> list[str]:
        bound = f"{'at most' if self.at_most else 'at least'} {self.bound:g}{self.unit}"
        return [self.row, self.what, bound, f"{self.measured}{self.unit}", "met" if self.met else f"**missed**{self.beside()}"]

    def beside(self) -> str:
        return f"; {self.floor[0]}: {number(self.floor[1].median)}{self.unit}" if self.floor else ""


class Bars(NamedTuple):
    """One group of the picture: name and rate per second of each way. Ways of libdlock have the ratio to the best of the others, too."""

    case: str
    ways: list[tuple[str, Spread, Optional[Spread]]]
    others: int


class Section(NamedTuple):
    title: str
    text: str
    head: list[str]
    rows: list[list[str]]
    targets: list[Target]
    bars: Sequence[Bars] = ()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cpu_model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def system() -> str:
    names = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return names.get("PRETTY_NAME", "Linux").strip('"')


def facts(server: str, others: float) -> str:
    return (
        f"{cpu_model()}, {os.cpu_count()} cores; {system()}, Linux {platform.release().split('-')[0]}; Redis {server} without "
        f"persistence; CPython {platform.python_version()}. Other processes took {others:.0%} of the machine meanwhile."
    )


METHOD = """\
How to read the tables:

- All ways of one table run in turns against one private server: a round runs each way once.
- A cell is the median of the rounds, with the lowest and the highest round in brackets.
- A ratio is taken within each round; the median of these counts.
- Compare only inside a table. Between runs the same work takes different times, because the machine has other work, too.
- *Jain* is Jain's index of fairness: 1 means that all got the same share.
- *Same core*: client and server share one core. *Own cores*: each has its own. *Free*: the system decides.
- A target that was missed stays in the table of targets. Some of them no lock can meet on this machine. Then the table also says what a way
  reaches that does less than a lock must do: it is explained in its section.
"""


def document(sections: Sequence[Section], about: str, plot: Optional[str]) -> str:
    targets = [target for section in sections for target in section.targets]
    parts = ["# Benchmarks\n", "Written by `./dev bench`. " + about + "\n", METHOD]
    if plot and any(section.bars for section in sections):
        parts.append(f"![libdlock beside other ways to lock]({plot})\n")
    if targets:
        parts += ["## Targets\n", table(["row", "what", "target", "measured", ""], [target.cells() for target in targets])]
    for section in sections:
        parts += [f"## {section.title}\n", section.text.strip() + "\n"]
        parts += [table(section.head, section.rows)] if section.rows else []
    return "\n".join(parts)


PARTS = {"bindings": "Bindings", "engines": "etcd and ZooKeeper"}


def part(name: str, sections: Sequence[Section], about: str, plot: Optional[str]) -> str:
    """The part of the document that a run of the bindings, or of the engines, writes."""
    targets = [target.cells() for section in sections for target in section.targets]
    lines = [f"\n## {PARTS[name]}\n", f"Written by `./dev bench --{name}`, in a run of its own. " + about + "\n"]
    if plot and any(section.bars for section in sections):
        lines.append(f"![{PARTS[name]}, beside other clients]({plot})\n")
    lines += [table(["row", "what", "target", "measured", ""], targets)]
    for section in sections:
        lines += [f"### {section.title}\n", section.text.strip() + "\n", table(section.head, section.rows)]
    return "\n".join(lines)


def part_of(text: str, name: str) -> str:
    """A part in a document; "" when there is none."""
    begin = text.find(f"\n## {PARTS[name]}\n")
    end = text.find("\n## ", begin + 1)
    return "" if begin < 0 else text[begin:] if end < 0 else text[begin:end]


def with_part(text: str, name: str, new: str) -> str:
    """The document with a new part at its end."""
    old = part_of(text, name)
    return (text.replace(old, "") if old else text).rstrip("\n") + "\n" + new
