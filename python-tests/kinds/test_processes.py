"""Processes that wait for a write lock or for a permit stand in a line on the server. The first one is called, and asks again; the others
sleep. safety_ms is long: a process that is not called would sleep on.
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
from harness.tally import tell

Make = Callable[..., Any]
CALLED = ["write", "semaphore", "permit_semaphore"]
LINE = "dlock_turns:{lock}"
FIRST, SECOND, THIRD, LAST = 1, 2, 3, 4
each = pytest.mark.parametrize("kind", CALLED)


def holder(make: Make, server: Server, kind: str) -> tuple[Client, Lock]:
    teach(server)
    client = make().open(server, safety_ms=60_000)
    lock = one(client, kind)
    lock.acquire(FIRST, 0).ok
    return client, lock


def waiter(make: Make, server: Server, kind: str, owner: int, wait_ms: int = -1, **options: Any) -> tuple[Client, Lock]:
    """A process of its own, the last in line."""
    before = server.command("ZCARD", LINE)
    client = make().open(server, **{"safety_ms": 60_000, **options})
    lock = client.lock("lock", kind=kind)
    lock.submit_acquire(owner, wait_ms, owner).ok
    until(lambda: server.command("ZCARD", LINE) == before + 1)
    return client, lock


def has_it(client: Client, owner: int) -> int:
    """The next event of the client says that the owner has the lock. Its token."""
    event = next(events(client, *ENDS))
    assert (event.type, event.owner) == ("ACQUIRED", owner), event
    return event.token


@each
def test_in_order_of_arrival(new_agent: Make, redis_server: Server, kind: str) -> None:
    lock, last = holder(new_agent, redis_server, kind)[1], 0
    line = [(*waiter(new_agent, redis_server, kind, owner), owner) for owner in range(2, 10)]
    owner = FIRST
    for client, theirs, their_owner in line:
        lock.release(owner).ok
        token = has_it(client, their_owner)
        assert token > last
        lock, owner, last = theirs, their_owner, token
    lock.release(owner).ok
    until(lambda: redis_server.command("EXISTS", LINE) == 0)


@each
def test_nobody_comes_first_that_asks_again_at_once(new_agent: Make, redis_server: Server, kind: str) -> None:
    """The process that releases asks again before the one that waits can."""
    first, lock = holder(new_agent, redis_server, kind)
    client, theirs = waiter(new_agent, redis_server, kind, SECOND)
    clients = [first, client]
    locks = [lock, theirs]
    for turn in range(20):
        here, there = turn % 2, (turn + 1) % 2
        locks[here].release(here + 1).ok
        locks[here].submit_acquire(here + 1, -1, here + 1).ok
        has_it(clients[there], there + 1)
        until(lambda: redis_server.command("ZCARD", LINE) == 1)


@each
def test_the_turn_is_kept_for_the_first(new_agent: Make, redis_server: Server, kind: str) -> None:
    """It is stopped, so it cannot come. For a moment a try of another one is refused. A slow machine may miss that moment."""
    lock = holder(new_agent, redis_server, kind)[1]

    def refused() -> bool:
        client, _ = waiter(new_agent, redis_server, kind, SECOND)
        client.agent.stop()
        lock.release(FIRST).ok
        answer = lock.acquire(FIRST, 0)
        if answer.status == "BUSY":
            return True
        answer.ok
        return False

    assert any(refused() for _ in range(5))


@each
def test_another_waiter_of_the_process_has_its_place(new_agent: Make, redis_server: Server, kind: str) -> None:
    lock = holder(new_agent, redis_server, kind)[1]
    client, theirs = waiter(new_agent, redis_server, kind, SECOND)
    theirs.submit_acquire(THIRD, -1, THIRD).ok
    other, _ = waiter(new_agent, redis_server, kind, LAST)
    before = runs(redis_server)
    theirs.cancel(SECOND).ok
    assert next(events(client, *ENDS)).status != 0
    until(lambda: runs(redis_server) >= before + 2)  # it has left, and the other one has asked
    lock.release(FIRST).ok
    has_it(client, THIRD)
    theirs.release(THIRD).ok
    has_it(other, LAST)


@each
def test_a_process_that_waits_no_longer_leaves(new_agent: Make, redis_server: Server, kind: str) -> None:
    lock = holder(new_agent, redis_server, kind)[1]
    client, theirs = waiter(new_agent, redis_server, kind, SECOND)
    other, _ = waiter(new_agent, redis_server, kind, LAST)
    theirs.cancel(SECOND).ok
    until(lambda: redis_server.command("ZCARD", LINE) == 1)
    lock.release(FIRST).ok
    has_it(other, LAST)


@each
def test_a_process_that_was_killed_is_passed_over(new_agent: Make, redis_server: Server, kind: str) -> None:
    lock = holder(new_agent, redis_server, kind)[1]
    client, _ = waiter(new_agent, redis_server, kind, SECOND)
    other, _ = waiter(new_agent, redis_server, kind, LAST)
    client.agent.kill()
    until(lambda: len(redis_server.command("PUBSUB", "CHANNELS", "dlock_client:*")) == 1)
    lock.release(FIRST).ok
    has_it(other, LAST)
    tell(done=1, fired=1)


@each
def test_a_process_that_does_not_come_is_passed_over(new_agent: Make, redis_server: Server, kind: str) -> None:
    """It is stopped. The others look for themselves every safety_ms; when it goes on, it has its turn."""
    lock = holder(new_agent, redis_server, kind)[1]
    client, stopped = waiter(new_agent, redis_server, kind, SECOND)
    other, theirs = waiter(new_agent, redis_server, kind, LAST, safety_ms=300)
    client.agent.stop()
    lock.release(FIRST).ok
    has_it(other, LAST)
    client.agent.resume()
    until(lambda: redis_server.command("ZCARD", LINE) == 1)
    theirs.release(LAST).ok
    has_it(client, SECOND)
    tell(done=1, fired=1)


@each
def test_a_grant_costs_the_same_with_many_processes(new_agent: Make, redis_server: Server, kind: str) -> None:
    """Each grant: a release, a call, an acquisition. The others hear nothing."""
    lock = holder(new_agent, redis_server, kind)[1]
    line = [(*waiter(new_agent, redis_server, kind, owner), owner) for owner in range(2, 14)]
    before, owner = runs(redis_server), FIRST
    for client, theirs, their_owner in line:
        lock.release(owner).ok
        has_it(client, their_owner)
        lock, owner = theirs, their_owner
    assert runs(redis_server) - before <= 3 * len(line)


FINDS: dict[int, Callable[[Make, Server, str], None]] = {
    651: test_the_turn_is_kept_for_the_first,
    652: test_another_waiter_of_the_process_has_its_place,
    653: test_a_process_that_does_not_come_is_passed_over,
    654: test_a_process_that_was_killed_is_passed_over,
}


@pytest.mark.house
@pytest.mark.timeout(200)
@pytest.mark.parametrize("mutant", mutants.rows(mutants.CALLED))
def test_mutant(new_agent: Make, redis_server: Server, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        FINDS[mutant.number](lambda: new_agent(LD_PRELOAD=library), redis_server, "write")
