"""The table of scenarios in memory: the same answers as on Redis, in every language, without a server."""
from __future__ import annotations

from typing import Any, Iterator

import pytest

from harness.engines import Column, ElsewhereStage, check_refused
from harness.scenarios import Scenario

pytestmark = pytest.mark.timeout(300)  # the first build of Go's runner takes long


class Nowhere:
    """What a stage wants of its server. A runner's reset closes all clients of a store in memory, and that ends it."""

    url = "memory://scenarios"

    def command(self, *words: str) -> Any:
        assert words[0] == "FLUSHALL"

    def stop(self) -> None:
        pass


COLUMN = Column("memory", url="")


@pytest.fixture(scope="module")
def stage() -> Iterator[ElsewhereStage]:
    with ElsewhereStage(Nowhere()) as stage:
        yield stage


@pytest.mark.parametrize("scenario, runner", COLUMN.cells())
def test_scenario(stage: ElsewhereStage, scenario: Scenario, runner: str) -> None:
    stage.play(scenario, runner)


@pytest.mark.parametrize("scenario", COLUMN.refused, ids=str)
def test_refused(stage: ElsewhereStage, scenario: Scenario) -> None:
    check_refused(stage, scenario)
