"""Turns of a fair lock in memory: a grant serves the waiters that come next in the line on the server, as far as they are of the same
process. The order over all processes stays that of arrival. safety_ms is long: a lost wake-up would show.
"""
from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Client, Lock, until
from harness.build import BUILD, ROOT
from harness.crowd import ENDS, events
from harness.kinds import one
from harness.server import Server
from harness.steps.scripts import runs, teach

Make = Callable[..., Any]
PATIENT = {"safety_ms": 60_000, "handover_ms": 1000}
FIRST = 1_000
QUEUE = "redisson_lock_queue:{lock}"


def line(server: Server) -> int:
    return int(server.command("LLEN", QUEUE))


def joins(server: Server, lock: Lock, owner: int, wait_ms: int = -1) -> None:
    """The owner waits, and is the last in the line on the server."""
    before = line(server)
    lock.submit_acquire(owner, wait_ms, owner).ok
    until(lambda: line(server) == before + 1)


def held(make: Make, server: Server, processes: int = 1, **options: Any) -> tuple[list[Client], list[Lock]]:
    """FIRST of the first process has the lock; every process is subscribed."""
    clients = [make().open(server, **PATIENT, **options) for _ in range(processes)]
    locks = [one(client, "fair") for client in clients]
    locks[0].acquire(FIRST, 0).ok
    for number, lock in enumerate(locks):
        joins(server, lock, FIRST + 1 + number)
        until(lambda: len(server.command("PUBSUB", "CHANNELS", "dlock_client:*")) > number)
        lock.cancel(FIRST + 1 + number).ok
        assert next(events(clients[number], *ENDS)).owner == FIRST + 1 + number
        until(lambda: line(server) == 0)
    return clients, locks


def settled(server: Server) -> None:
    """Nobody has anything more to say to the server."""
    seen = [runs(server)]
    until(lambda: seen.append(runs(server)) or len(seen) > 20 and len(set(seen[-20:])) == 1)


def test_the_next_in_line_get_it_without_the_server(new_agent: Make, redis_server: Server) -> None:
    teach(redis_server)
    (client,), (lock,) = held(new_agent, redis_server)
    for owner in range(1, 31):
        joins(redis_server, lock, owner)
    settled(redis_server)
    told, tokens = events(client, *ENDS, "LOST"), []
    before = runs(redis_server)
    lock.release(FIRST).ok
    for owner in range(1, 31):
        event = next(told)
        assert (event.type, event.owner) == ("ACQUIRED", owner)
        tokens.append(event.token)
        lock.release(owner).ok
    assert tokens == sorted(set(tokens)) and client.counters()["handovers"] >= 20
    assert runs(redis_server) - before <= 12 and line(redis_server) == 0 and client.counters()["undone"] == 0


def test_the_order_is_that_of_arrival_in_all_processes(new_agent: Make, redis_server: Server) -> None:
    """Nobody of the holder's process goes before a waiter of another one that came earlier."""
    clients, locks = held(new_agent, redis_server, processes=2)
    order = [0, 0, 1, 0, 0, 0, 1, 1, 0]
    for owner, which in enumerate(order, 1):
        joins(redis_server, locks[which], owner)
    settled(redis_server)
    told = [events(client, *ENDS, "LOST") for client in clients]
    tokens = []
    locks[0].release(FIRST).ok
    for owner, which in enumerate(order, 1):
        event = next(told[which])
        assert (event.type, event.owner) == ("ACQUIRED", owner)
        tokens.append(event.token)
        locks[which].release(owner).ok
    assert tokens == sorted(set(tokens))
    assert sum(client.counters()["handovers"] for client in clients) >= 1 and line(redis_server) == 0


def test_one_that_gives_up_is_passed_over(new_agent: Make, redis_server: Server) -> None:
    """Also when the grant has named it. Its turn is nobody else's."""
    clients, (lock, theirs) = held(new_agent, redis_server, processes=2)
    for owner in 1, 2, 3:
        joins(redis_server, lock, owner)
    joins(redis_server, theirs, 4)
    joins(redis_server, lock, 5)
    settled(redis_server)
    mine, others = (events(client, *ENDS, "LOST") for client in clients)
    lock.release(FIRST).ok
    assert next(mine).owner == 1
    lock.cancel(2).ok
    assert next(mine).owner == 2
    lock.release(1).ok
    assert next(mine).owner == 3
    lock.release(3).ok
    assert next(others).owner == 4 and lock.state(5) == "WAITING"
    theirs.release(4).ok
    assert next(mine).owner == 5
    lock.release(5).ok
    until(lambda: line(redis_server) == 0)


def test_what_the_server_gives_to_one_that_was_served_goes_back(new_agent: Make, redis_server: Server) -> None:
    """The lock is taken away after a turn in memory: on the server the waiter that has had its turn is next. No renewal tells of it."""
    (client,), (lock,) = held(new_agent, redis_server, lease_ms=3_600_000)
    for owner in 1, 2, 3:
        joins(redis_server, lock, owner)
    settled(redis_server)
    told = events(client, *ENDS, "LOST")
    lock.release(FIRST).ok
    assert next(told).owner == 1
    lock.release(1).ok
    assert next(told).owner == 2 and client.counters()["handovers"] == 1
    lock.force().ok
    third = next(event for event in told if event.type == "ACQUIRED")
    assert third.owner == 3 and lock.state(3) == "HELD"
    lock.release(3).ok
    until(lambda: line(redis_server) == 0 and redis_server.command("EXISTS", "lock") == 0)


FINDS: dict[int, Callable[[Make, Server], None]] = {
    645: test_one_that_gives_up_is_passed_over,
    646: test_the_next_in_line_get_it_without_the_server,
    647: test_what_the_server_gives_to_one_that_was_served_goes_back,
}


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.rows(mutants.LINED, late={645, 647}))
def test_mutant(new_agent: Make, redis_server: Server, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        FINDS[mutant.number](lambda: new_agent(LD_PRELOAD=library), redis_server)
