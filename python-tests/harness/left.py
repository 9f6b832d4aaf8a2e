"""Shows on a terminal how much of a long run is left: the tests, ./dev soak and ./dev bench.

    left = Left(["a", "b"], remembered("tests"))            # the parts to run, and how long each took last time
    left.done("a")
    left.line()                                             # "1 of 2, about 1 min left"

Times of the last run are kept in build/times, one file for each kind of run.
"""
from __future__ import annotations

import json
import time
from typing import Iterable

from .build import ROOT

TIMES = ROOT / "build/times"


def remembered(run: str) -> dict[str, float]:
    """How long the parts of such a run took last time."""
    try:
        return {name: float(seconds) for name, seconds in json.loads((TIMES / f"{run}.json").read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def remember(run: str, seconds: dict[str, float]) -> None:
    TIMES.mkdir(parents=True, exist_ok=True)
    (TIMES / f"{run}.json").write_text(json.dumps({**remembered(run), **seconds}))


def spoken(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else "about a minute left" if seconds >= 30 else "less than a minute left"


class Left:
    """The parts of a run with their times of the last run. A part without a time counts as the average of the others."""

    def __init__(self, parts: Iterable[str], known: dict[str, float]) -> None:
        self.began = time.monotonic()
        named = list(parts)
        seen = [known[name] for name in named if name in known]
        usual = sum(seen) / len(seen) if seen else 1.0
        self.waiting = {name: known.get(name, usual) for name in named}
        self.total, self.all, self.over = sum(self.waiting.values()), len(named), 0.0

    def done(self, name: str) -> None:
        self.over += self.waiting.pop(name, 0.0)

    def line(self) -> str:
        """The time so far shows how fast this machine is today."""
        pace = (time.monotonic() - self.began) / self.over if self.over else 1.0
        return f"{self.all - len(self.waiting)} of {self.all}, {spoken((self.total - self.over) * pace)}"
