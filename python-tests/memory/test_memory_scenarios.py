"""The table of scenarios in memory: the same answers as on Redis, in every language, without a server."""
from __future__ import annotations

import tomllib
from typing import Any, Iterator

import pytest

from harness.scenarios import FOLDER, Scenario, Stage, column, scenarios

pytestmark = pytest.mark.timeout(300)  # the first build of Go's runner takes long

LACKS = tomllib.loads((FOLDER / "engines.toml").read_text())["memory"]


class Nowhere:
    """What a stage wants of its server. A runner's reset closes all clients of a store in memory, and that ends it."""

    url = "memory://scenarios"

    def command(self, *words: str) -> Any:
        assert words[0] == "FLUSHALL"

    def stop(self) -> None:
        pass


class MemoryStage(Stage):
    def line(self, text: str) -> str:
        return text.replace("$URL", self.server.url)


def lacks(scenario: Scenario) -> bool:
    words = {word.partition("=")[0] for step in scenario.steps for word in step.line.split()}
    return bool(words & set(LACKS["words"])) and scenario.name not in LACKS["anyway"]


TABLE = [one for one in scenarios() if not one.config and one.name not in LACKS["other"]]
HAS = [one for one in TABLE if not lacks(one)]


@pytest.fixture(scope="module")
def stage() -> Iterator[MemoryStage]:
    with MemoryStage(Nowhere()) as stage:
        yield stage


@pytest.mark.parametrize("scenario, runner", column(HAS))
def test_scenario(stage: MemoryStage, scenario: Scenario, runner: str) -> None:
    stage.play(scenario, runner)
