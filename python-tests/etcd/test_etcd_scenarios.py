"""The table of scenarios on etcd: what etcd has answers as on Redis, in every language; what it lacks is refused."""
from __future__ import annotations

from typing import Iterator

import pytest

from harness.engines import Column, ElsewhereStage, Emptied, check_refused
from harness.etcd import Etcd
from harness.scenarios import Scenario

pytestmark = pytest.mark.timeout(300)  # the first build of Go's runner takes long

COLUMN = Column("etcd")


class EmptiedEtcd(Emptied, Etcd):
    pass


@pytest.fixture(scope="module")
def stage() -> Iterator[ElsewhereStage]:
    with ElsewhereStage(EmptiedEtcd()) as stage:
        yield stage


@pytest.mark.parametrize("scenario, runner", COLUMN.cells())
def test_scenario(stage: ElsewhereStage, scenario: Scenario, runner: str) -> None:
    stage.play(scenario, runner)


@pytest.mark.parametrize("scenario", COLUMN.refused, ids=str)
def test_what_etcd_lacks_is_refused(stage: ElsewhereStage, scenario: Scenario) -> None:
    check_refused(stage, scenario)


@pytest.mark.house
def test_the_table_is_not_empty() -> None:
    assert {one.kind for one in COLUMN.has} >= {"mutex", "fair", "multi"} and len(COLUMN.has) > 60
