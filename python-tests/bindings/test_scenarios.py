"""One table of scenarios, python-tests/scenarios, in every language: the same steps, the same statuses, the same tokens."""
from __future__ import annotations

import shutil
from typing import Iterator

import pytest

from harness.golang import GO, Tool, finish
from harness.kinds import KINDS
from harness.scenarios import FEATURES, FOLDER, LATE, NO_GO, RUNNERS, Scenario, Stage, cell, lacks, marks, scenarios

pytestmark = pytest.mark.timeout(300)  # the first build of Go's runner takes long

TABLE = scenarios()
CELLS = [(scenario, runner) for scenario in TABLE for runner in RUNNERS if not scenario.lacking(runner)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.mark.parametrize("scenario, runner", [cell(*one) for one in CELLS])
def test_scenario(stage: Stage, scenario: Scenario, runner: str) -> None:
    told = stage.play(scenario, runner)
    if runner in LATE and not scenario.lacking("c"):
        assert told == stage.play(scenario, "c")


@pytest.mark.house
@pytest.mark.parametrize("scenario", TABLE, ids=str)
def test_all_languages_say_the_same(stage: Stage, scenario: Scenario) -> None:
    there = [name for name in RUNNERS if name not in LATE and (name != "go" or GO)]
    told = {name: stage.play(scenario, name) for name in there if not scenario.lacking(name)}
    assert len({name.split("-")[0] for name in told}) >= 2
    first, *_ = told.values()
    for name, transcript in told.items():
        assert transcript == first, name


@pytest.mark.parametrize("runner", [pytest.param(runner, marks=marks(runner)) for runner in RUNNERS])
@pytest.mark.parametrize("feature", FEATURES)
def test_what_languages_lack(stage: Stage, feature: str, runner: str) -> None:
    lines = [stage.line(line) for line in FEATURES[feature]["proof"]]
    *_, last = [stage.runner(runner)(line) for line in lines]
    stage.runner(runner)("reset")
    assert (last == "ABSENT") == lacks(runner, feature), last


def test_the_table_is_whole() -> None:
    """Every kind, in every language; no name twice; every need is explained."""
    for runner in RUNNERS:
        kinds = {scenario.kind for scenario, name in CELLS if name == runner}
        assert kinds >= {"mutex", *KINDS, "latch", "multi"}, runner
    assert len({str(scenario) for scenario in TABLE}) == len(TABLE)
    assert {need for scenario in TABLE for need in scenario.needs} == set(FEATURES)


@pytest.mark.house
@NO_GO
def test_the_runner_in_go_is_clean() -> None:
    go = Tool()
    go("vet", ".", cwd=FOLDER / "go")
    gofmt = shutil.which("gofmt", path=f"{go('env', 'GOROOT').stdout.strip()}/bin")
    assert gofmt and finish([gofmt, "-l", "."], cwd=FOLDER / "go").stdout == ""
