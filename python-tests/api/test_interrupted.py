"""A signal interrupts a caller that waits. Its claim goes on: the next call of its owner finds it, wherever it is, and when the time of
the wait is over without one, nothing is left of it.
"""
from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Lock, until
from harness.build import BUILD, ROOT
from harness.kinds import KINDS, one, sides
from harness.server import Server

Make = Callable[..., Any]
SLOTS = ["semaphore", "permit_semaphore"]
SHORT = 2500  # as a wait: longer than a caller takes to be interrupted


def interrupt(agent: Agent, lock: Lock, owner: int, wait_ms: int) -> None:
    agent("signals", 5000, 0)
    assert lock.acquire(owner, wait_ms).status == "INTERRUPTED"
    agent("signals", 0, 0)


@pytest.mark.parametrize("kind", SLOTS)
@pytest.mark.parametrize("way", ["acquire", "submit", "begin"])
def test_another_place_became_free(agent: Agent, redis_server: Server, kind: str, way: str) -> None:
    """The owner waits in its second place when it is interrupted, and its first one is free when it comes back."""
    client, other = agent.open(redis_server, interruptible="true"), agent.open(redis_server)
    lock, rival = one(client, kind, seats=2), one(other, kind, seats=2)
    lock.acquire(9, 0).ok, rival.acquire(1, 0).ok
    interrupt(agent, lock, 9, -1)
    lock.release(9).ok
    until(lambda: lock.state(9) == "HELD")
    if way == "submit":
        lock.submit_acquire(9, 0, 7).ok
        assert client.event(20).tag == 7
    else:
        (lock.acquire(9, 0) if way == "acquire" else lock.begin_acquire(9, 0, 7)).ok
    assert lock.count(9).count == 1
    lock.release(9).ok
    assert lock.state(9) == "NONE" and lock.permits().value == 1


@pytest.mark.parametrize("kind", SLOTS)
def test_who_comes_back_for_more_takes_no_other_claim(agent: Agent, redis_server: Server, kind: str) -> None:
    client, other = agent.open(redis_server, interruptible="true"), agent.open(redis_server)
    rival = one(other, kind, seats=3)
    two, three = client.lock("lock", kind=kind, permits=2), client.lock("lock", kind=kind, permits=3)
    rival.acquire(1, 0).ok, rival.acquire(2, 0).ok
    interrupt(agent, two, 9, -1)
    assert three.acquire(9, 0).status == "BUSY"
    rival.release(1).ok
    two.acquire(9, 5000).ok
    assert rival.permits().value == 0


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_a_caller_that_never_comes_back(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    """Its wait ends when it would have, and so does a grant that came before."""
    client, other = agent.open(redis_server, interruptible="true"), new_agent().open(redis_server)
    lock, rival = sides(client, other, kind)
    rival.acquire(1, 0).ok
    interrupt(agent, lock, 9, SHORT)
    until(lambda: lock.state(9) == "NONE")
    interrupt(agent, lock, 9, SHORT)
    rival.release(1).ok
    until(lambda: lock.state(9) == "HELD")
    rival.acquire(2, 20_000).ok
    assert lock.state(9) == "NONE" and client.counters()["waiting"] == 0


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_a_caller_that_comes_back_keeps_its_grant(agent: Agent, redis_server: Server, kind: str) -> None:
    """Also when the time of the first wait is over."""
    client, other = agent.open(redis_server, interruptible="true"), agent.open(redis_server)
    lock, rival = sides(client, other, kind)
    clock, far = one(other, "mutex", "clock"), one(client, "mutex", "clock")
    rival.acquire(1, 0).ok, clock.acquire(1, 0).ok
    interrupt(agent, lock, 9, SHORT)
    rival.release(1).ok
    lock.acquire(9, SHORT).ok
    interrupt(agent, far, 8, SHORT)
    until(lambda: far.state(8) == "NONE")  # as long a wait that began later
    assert lock.state(9) == "HELD"
    lock.release(9).ok


@mutants.each(mutants.INTERRUPTED)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(120)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)
