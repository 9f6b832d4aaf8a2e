"""The table of scenarios on etcd: what etcd has answers as on Redis, in every language; what it lacks is refused."""
from __future__ import annotations

import tomllib
from typing import Any, Iterator

import pytest

from harness.etcd import Etcd
from harness.scenarios import FOLDER, Scenario, Stage, Wrong, column, scenarios

pytestmark = pytest.mark.timeout(300)  # the first build of Go's runner takes long

LACKS = tomllib.loads((FOLDER / "engines.toml").read_text())["etcd"]
REFUSALS = {"UNSUPPORTED", "INVALID_OPTION"}


class Emptied(Etcd):
    """With the one command that a stage gives its server."""

    def command(self, *words: str) -> Any:
        if words[0] == "FLUSHALL":
            self.clear()


class EtcdStage(Stage):
    def line(self, text: str) -> str:
        return text.replace("$URL", self.server.url)


def lacks(scenario: Scenario) -> bool:
    words = {word.partition("=")[0] for step in scenario.steps for word in step.line.split()}
    return bool(words & set(LACKS["words"]))


TABLE = [one for one in scenarios() if not one.config and one.name not in LACKS["other"] and any("$URL" in step.line for step in one.steps)]
HAS = [one for one in TABLE if not lacks(one)]
REFUSED = [one for one in TABLE if lacks(one) and one.name not in LACKS["anyway"]]


@pytest.fixture(scope="module")
def stage() -> Iterator[EtcdStage]:
    with EtcdStage(Emptied()) as stage:
        yield stage


@pytest.mark.parametrize("scenario, runner", column(HAS))
def test_scenario(stage: EtcdStage, scenario: Scenario, runner: str) -> None:
    stage.play(scenario, runner)


@pytest.mark.parametrize("scenario", REFUSED, ids=str)
def test_what_etcd_lacks_is_refused(stage: EtcdStage, scenario: Scenario) -> None:
    with pytest.raises(Wrong) as wrong:
        stage.play(scenario, "c")
    assert str(wrong.value).splitlines()[-1].rsplit(": ", 1)[1].split(", not ")[0] in REFUSALS


@pytest.mark.house
def test_the_table_is_not_empty() -> None:
    assert {one.kind for one in HAS} >= {"mutex", "fair", "multi"} and len(HAS) > 60
