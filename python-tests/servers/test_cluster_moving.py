"""Locks in a slot that is being moved. A server that gives a slot away makes no new keys in it, and refuses a script that declares one which
it does not have; the server that gets the slot refuses a script that declares several of which one is missing.
"""
from __future__ import annotations

import pathlib
import re
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster, Node
from harness.kinds import one, sides
from harness.sentinel import ask

Make = Callable[..., Any]
KINDS = ["mutex", "fair", "read", "write", "semaphore", "permit_semaphore"]
OPTIONS = {"lease_ms": 60_000, "safety_ms": 60_000, "command_timeout_ms": 3000}  # nobody probes: who waits is told
SLOT = Cluster.slot("k")


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


@pytest.mark.parametrize("last", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_key_by_key(agent: Agent, new_agent: Make, cluster: Cluster, kind: str, last: int) -> None:
    """It is held and waited for. After each key nobody else gets in. Who stands in line, or listens, gets it in the end."""
    patient = {**OPTIONS, "command_timeout_ms": 300}
    mine, theirs = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, "{k}steps")
    _, other = sides(agent.open(cluster, **patient), new_agent().open(cluster, **patient), kind, "{k}steps")
    token = mine.acquire(1, 0).ok.token
    wait = theirs.start("acquire", 2, -1, thread=2)
    until(lambda: theirs.state(2) == "WAITING")
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        keys = sorted(keys_of(source))
        for key in keys[last:] + keys[:last]:  # in another order each time
            ask(source, "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", key)
            answer = other.acquire(3, 0)
            assert answer.status == "BUSY" or (answer.status != "OK" and answer.retryable), answer
            assert mine.state(1) == "HELD" and not wait.ready()
        mine.release(1).ok
        if kind != "write":  # a reader stands in no line: it listens at the old server, until that no longer has the slot
            assert wait.answer(10).ok.token > token
    assert kind != "write" or wait.answer(10).ok.token > token
    theirs.release(2).ok
    goes_round(mine, theirs)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_release_by_force(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """A client of Redisson's has deleted the hash: one of the keys that the script deletes is nowhere."""
    mine, theirs = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, "{k}forced")
    mine.acquire(1, 0).ok
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        assert ask(source, "DEL", "{k}forced") == 1
        cluster.move_keys(SLOT, source, target)
        assert theirs.acquire(2, 0).status == "BUSY" and theirs.force().status == "OK"
        assert theirs.acquire(2, 0).status == "OK" and theirs.force().status == "OK" and theirs.force().status == "NOT_HELD"


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


def test_tombstones_are_on_the_way(agent: Agent, cluster: Cluster) -> None:
    """All keys of a fair lock have moved but that of its tombstones, which its scripts do not declare: a client that may not move it waits."""
    lock = agent.open(cluster.without("migrate"), **{**OPTIONS, "command_timeout_ms": 1000}).lock("{k}fair", kind="fair")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    source, tombs = cluster.owner("k"), "dlock_fair::{k}fair:tombstones"
    ask(source, "HSET", tombs, "dlock_tombstone:x", "1 2")
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        ask(source, "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *keys_of(source) - {tombs.encode()})
        answer = lock.acquire(1, 0)
        assert answer.status == "SERVER_LOADING" and answer.retryable, answer
        assert keys_of(source) == {tombs.encode()} and tombs.encode() not in keys_of(target)
    lock.acquire(1, 0).ok
    lock.release(1).ok


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_nobody_may_move(agent: Agent, cluster: Cluster, kind: str) -> None:
    """The limit: its old server has its token counter, makes no other key, and may not be asked to MIGRATE. Calls say so, and waits go on
    until the counter has moved.
    """
    lock = one(agent.open(cluster.without("migrate"), **{**OPTIONS, "command_timeout_ms": 1000}), kind, "{k}used")
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    with cluster.moving(SLOT, elsewhere(cluster)) as (source, target):
        answer = lock.acquire(1, 0)
        assert answer.status == "SERVER_LOADING" and answer.retryable, answer
        for said in ("{k}used", f":{source.port}", "the slot is being moved", "may not move its keys"):
            assert said in answer.message, answer
        assert "canary" not in answer.message
        wait = lock.start("acquire", 1, 30_000, thread=1)
        until(lambda: lock.state(1) == "WAITING")
        assert keys_of(source) and not keys_of(target)
        cluster.move_keys(SLOT, source, target)
        assert wait.answer(10).ok.token > token
        lock.release(1).ok


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@mutants.each(mutants.MOVING)
def test_mutant(mutant: mutants.Mutant, file: str, words: str, tmp_path: pathlib.Path) -> None:
    """The tests above find a seeded defect."""
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)
