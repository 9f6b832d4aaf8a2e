"""A pytest plugin: shows every 15 seconds how much of a run is left, on a terminal only. conftest.py registers it."""
from __future__ import annotations

import sys
import time
from typing import Any, Iterable

import pytest

from .left import Left, remember, remembered

EVERY = 15.0  # seconds between two lines


class Progress:
    """For the process that shows the results."""

    def __init__(self, reporter: Any) -> None:
        self.reporter = reporter
        self.seconds: dict[str, float] = {}
        self.left: Left | None = None
        self.told = time.monotonic()

    def begin(self, names: Iterable[str]) -> None:
        if self.left is None:
            self.left = Left(names, remembered("tests"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self.begin(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self.begin(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.when != "teardown" or self.left is None:
            return
        self.left.done(report.nodeid)
        if sys.stdout.isatty() and time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            self.reporter.ensure_newline()
            self.reporter.write_line(f"-- {self.left.line()}")

    def pytest_sessionfinish(self) -> None:
        if self.seconds:
            remember("tests", self.seconds)
