"""Locks in a slot that is being moved. A server that gives a slot away makes no new keys in it, and refuses a script that declares one which
it does not have; the server that gets the slot refuses a script that declares several of which one is missing.
"""
from __future__ import annotations

import pathlib
import re
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.agent import Agent, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster, Node
from harness.kinds import sides
from harness.sentinel import ask

Make = Callable[..., Any]
KINDS = ["mutex", "read", "write", "semaphore", "permit_semaphore"]
OPTIONS = {"lease_ms": 60_000, "safety_ms": 60_000, "command_timeout_ms": 3000}  # nobody probes: who waits is told
SLOT = Cluster.slot("k")


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(primaries=2, replicas=0, timeout_ms=15_000) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    _cluster.until_settled()
    _cluster.flush()
    return _cluster


def elsewhere(cluster: Cluster) -> Node:
    return next(node for node in cluster.nodes if node is not cluster.owner("k"))


def keys_of(node: Node, slot: int = SLOT) -> set[bytes]:
    return set(ask(node, "CLUSTER", "GETKEYSINSLOT", slot, 1000))


def refused(cluster: Cluster, code: str) -> int:
    found = [re.search(rf"errorstat_{code}:count=(\d+)".encode(), ask(node, "INFO", "errorstats")) for node in cluster.nodes]
    return sum(int(one_of[1]) for one_of in found if one_of)


def goes_round(mine: Lock, theirs: Lock, *, held: bool = False) -> None:
    """It is taken, and goes to who waits, by message. A turn later the first one has it again, with a higher token."""
    first = 0 if held else mine.acquire(1, 0).ok.token
    wait = theirs.start("acquire", 2, -1, thread=2)
    until(lambda: theirs.state(2) == "WAITING")
    mine.release(1).ok
    second = wait.answer(10).ok.token
    assert mine.acquire(1, 0).status == "BUSY"
    theirs.release(2).ok
    assert first < second < mine.acquire(1, 0).ok.token
    mine.release(1).ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_lock(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """No key of it is anywhere. It begins where the slot goes, and stays there."""
    asked, torn = refused(cluster, "ASK"), refused(cluster, "TRYAGAIN")
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        mine, theirs = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, "{k}new")
        goes_round(mine, theirs)
        assert keys_of(target) and not keys_of(source)
    assert refused(cluster, "ASK") > asked and refused(cluster, "TRYAGAIN") == torn
    goes_round(mine, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_whose_keys_have_moved(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """It is held meanwhile, and goes on before the servers agree who has the slot."""
    mine, theirs = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, "{k}moved")
    token = mine.acquire(1, 0).ok.token
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        cluster.move_keys(SLOT, source, target)
        assert mine.state(1) == "HELD" and theirs.acquire(2, 0).status == "BUSY"
        goes_round(mine, theirs, held=True)
    assert token < mine.acquire(1, 0).ok.token
    mine.release(1).ok


def test_one_reader_is_on_the_way(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    """The lock has moved, and one of its readers has not: no script declares the key of that hold, and nobody takes it for dead."""
    client, other = agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS)
    first, second, writer = client.lock("{k}rw", kind="read"), other.lock("{k}rw", kind="read"), other.lock("{k}rw", kind="write")
    first.acquire(1, 0).ok
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        stays = {key for key in keys_of(source) if b":rwlock_timeout:" in key}
        ask(source, "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys_of(source) - stays)
        assert keys_of(source) == stays and len(stays) == 1
        assert writer.acquire(3, 0).status == "BUSY"
        second.acquire(2, 0).ok
        second.release(2).ok
        assert writer.acquire(3, 0).status == "BUSY"
        assert keys_of(source) == stays
    assert first.state(1) == "HELD"
    assert writer.acquire(3, 0).status == "BUSY"
    first.release(1).ok
    writer.acquire(3, 0).ok
    writer.release(3).ok


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@mutants.each(mutants.MOVING)
def test_mutant(mutant: mutants.Mutant, file: str, words: str, tmp_path: pathlib.Path) -> None:
    """The tests above find a seeded defect."""
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)
