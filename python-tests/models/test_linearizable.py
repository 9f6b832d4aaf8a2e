"""Histories under faults are linearizable for a lock with fencing tokens, as porcupine judges them. Where no exclusion is promised, the
overlap is shown; a build that is broken is found.
"""
from __future__ import annotations

import os
import pathlib
from typing import Any, Callable

import pytest

import mutants
from harness.build import BUILD, ROOT
from harness.faults import times
from harness.golang import GO
from harness.history import EtcdCuts, EtcdLeaders, RedisCuts, RedisFailover, RedisForgets, RedisQuorum, RedisRestarts, World
from harness.history import ZookeeperCuts, ZookeeperLeaders, judge
from harness.tally import tell

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go"),
]

GOOD = {
    "one after the other": "a 1 acquire 5 1 2, a 1 check 5 3 4, a 1 release 5 5 6, a 2 acquire 6 7 8",
    "a grant that is answered late": "a 2 acquire 6 1 9, a 1 acquire 5 2 3, a 1 release 5 4 5",
    "two names": "a 1 acquire 5 1 2, b 2 acquire 4 1 2, a 1 check 5 3 4, b 2 check 4 3 4",
    "a lease that ends": "a 1 acquire 5 1 2, a 1 end 5 2 0, a 2 acquire 6 3 4",
}
BAD = {
    "two holders": "a 1 acquire 5 1 2, a 2 acquire 6 3 4, a 1 check 5 5 6, a 1 end 5 6 0",
    "a token that falls": "a 1 acquire 5 1 2, a 1 release 5 3 4, a 2 acquire 4 5 6",
    "the same token": "a 1 acquire 5 1 2, a 1 release 5 3 4, a 2 acquire 5 5 6",
    "a release of what another has": "a 1 acquire 5 1 2, a 1 end 5 2 0, a 2 acquire 6 3 4, a 1 release 5 5 6",
    "held after the release": "a 1 acquire 5 1 2, a 1 release 5 3 4, a 1 check 5 5 6",
}


@pytest.mark.parametrize("history", GOOD.values(), ids=list(GOOD))
def test_the_judge_accepts(history: str) -> None:
    assert judge(history.split(", "))[0] == "ok"


@pytest.mark.parametrize("history", BAD.values(), ids=list(BAD))
def test_the_judge_rejects(history: str) -> None:
    assert judge(history.split(", ")) == ["wrong", str(len(history.split(", "))), "a"]


WORLDS: dict[str, Callable[[], World]] = {
    "etcd, leaders fail": EtcdLeaders,
    "etcd, connections are cut": EtcdCuts,
    "redis, connections are cut": RedisCuts,
    "redis, quarantine, the server forgets": RedisRestarts,
    "redis, a quorum whose servers forget": RedisQuorum,
    "zookeeper, leaders fail": ZookeeperLeaders,
    "zookeeper, connections are cut": ZookeeperCuts,
}


@pytest.mark.parametrize("operations", times(600, 2000, 900, 10_000))
@pytest.mark.parametrize("world", WORLDS.values(), ids=list(WORLDS))
def test_a_history_is_linearizable(world: Callable[[], World], operations: int) -> None:
    with world() as here:
        rows = here.history(operations)
        tell(done=len(rows), fired=here.faults)
        assert here.faults > 0 and len(rows) >= operations
    assert judge(rows) == ["ok", str(len(rows))]


@pytest.mark.full
@pytest.mark.parametrize("operations", [400, 10_000])
@pytest.mark.parametrize("world", [RedisFailover, RedisForgets])
@pytest.mark.timeout(900)
def test_a_failover_that_replicas_confirm(world: Callable[[], Any], operations: int) -> None:
    """L2: the promoted replica knows every grant. L2q: it has forgotten them, and waits until they have ended."""
    with world() as here:
        if operations > 1000:
            here.hold_ms = 10
        rows = here.history(operations)
        assert here.faults > 0
    assert judge(rows)[0] == "ok"


@pytest.mark.full
def test_a_failover_that_forgets() -> None:
    """The control, L1: the promoted replica grants again what is held, and the judge sees it."""
    with RedisFailover(confirmed=False) as here:
        rows = here.history(400)
        assert here.faults > 0
    assert judge(rows)[0] == "wrong"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_server_that_forgets() -> None:
    """The control, L0: without a quarantine. A history may have no overlap: then another one."""
    for _ in range(10):
        with RedisRestarts(quarantined=False) as here:
            rows = here.history(400)
            assert here.faults > 0
        if judge(rows)[0] == "wrong":
            return
    raise AssertionError("nobody held what another one held")


BROKEN = {
    "etcd": (EtcdCuts, next(one for one, _, _ in mutants.ETCD if one.number == 802)),
    "redis": (RedisCuts, mutants.BESIDE),
    "zookeeper": (ZookeeperCuts, next(one for one, _, _ in mutants.ZOOKEEPER if one.number == 824)),
}


@pytest.mark.full
@pytest.mark.house
@pytest.mark.parametrize("engine", BROKEN)
def test_a_broken_build_is_rejected(engine: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, mutant = BROKEN[engine]
    library = mutants.library(ROOT, BUILD, tmp_path, mutant)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    with world() as here:
        rows = here.history(1000, library)
    assert judge(rows)[0] == "wrong"
