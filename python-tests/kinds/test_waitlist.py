"""Many waiters of one process for one name: the first of those that wait for the same asks the server, the others are parked. Nobody is
forgotten, and the cost of a grant does not grow with the waiters. safety_ms is long: a lost wake-up would show.
"""
from __future__ import annotations

import random
from typing import Any, Callable

import pytest

from harness.agent import Client, Lock, until
from harness.crowd import ENDS, Crowd, events
from harness.faults import times
from harness.kinds import one
from harness.proxy import Proxy
from harness.server import Server
from harness.steps.scripts import runs, teach
from harness.tally import tell

Make = Callable[..., Any]
QUEUED = ["read", "write", "semaphore", "permit_semaphore"]
EXCLUSIVE = QUEUED[1:]
PATIENT = {"safety_ms": 60_000}
KEEPER = 1_000_000


def blocked(client: Client, kind: str, seats: int = 1) -> tuple[Lock, Lock]:
    """The lock, and the one that keeps everybody out by owner KEEPER."""
    lock = one(client, kind, seats=seats)
    other = one(client, "write" if kind == "read" else kind, seats=seats, **({"permits": seats} if "semaphore" in kind else {}))
    other.acquire(KEEPER, 0).ok
    return lock, other


def subscribed(server: Server) -> bool:
    """Waiters can be woken: by Redisson's channel, or because their process stands in line."""
    return bool(server.command("PUBSUB", "CHANNELS", "redisson_*") or server.command("EXISTS", "dlock_turns:{lock}"))


def queue(lock: Lock, count: int) -> None:
    for owner in range(1, count + 1):
        lock.submit_acquire(owner, -1, owner).ok


@pytest.mark.parametrize("kind", EXCLUSIVE)
@pytest.mark.parametrize("count", [10, 100, 1000])
def test_a_grant_costs_the_same(new_agent: Make, redis_server: Server, kind: str, count: int) -> None:
    """Each waiter gets it once, in order: at most two scripts each, and a few at the start. All have asked once at most. A waiter whose
    request is under way is passed over, for the rest of a turn at most."""
    teach(redis_server)
    client = new_agent().open(redis_server, **PATIENT)
    lock, other = blocked(client, kind)
    queue(lock, count)
    until(lambda: subscribed(redis_server))
    before, served = runs(redis_server), []
    other.release(KEEPER).ok
    for event in events(client, *ENDS):
        assert event.type == "ACQUIRED", event
        served.append(event.owner)
        lock.release(event.owner).ok
        if len(served) == count:
            break
    assert max(abs(owner - place) for place, owner in enumerate(served, 1)) <= 64
    assert runs(redis_server) - before <= 2 * count + count // 10 + 20


@pytest.mark.parametrize("count", [10, 300])
def test_readers_enter_together(new_agent: Make, redis_server: Server, count: int) -> None:
    teach(redis_server)
    client = new_agent().open(redis_server, **PATIENT)
    lock, other = blocked(client, "read")
    queue(lock, count)
    until(lambda: subscribed(redis_server))
    before = runs(redis_server)
    other.release(KEEPER).ok
    told = events(client, *ENDS)
    assert {next(told).owner for _ in range(count)} == set(range(1, count + 1))
    assert runs(redis_server) - before <= count + 20


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_as_many_as_permits_are_left(new_agent: Make, redis_server: Server, kind: str) -> None:
    """One message tells of 7 permits: 7 waiters get one each, and no more."""
    client, rival = new_agent().open(redis_server, **PATIENT), new_agent().open(redis_server)
    lock = client.lock("lock", kind=kind)  # no permits yet
    queue(lock, 20)
    until(lambda: subscribed(redis_server))
    rival.lock("lock", kind=kind).permits_add(7).ok
    told = events(client, *ENDS)
    assert [next(told).owner for _ in range(7)] == sorted(range(1, 8))
    assert client.poll(0).readable == 0 and rival.lock("lock", kind=kind).permits().ok.value == 0


@pytest.mark.parametrize("kind", QUEUED)
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_the_first_goes(new_agent: Make, redis_server: Server, kind: str, how: str) -> None:
    """Another one stands for the rest."""
    client = new_agent().open(redis_server, **PATIENT)
    lock, other = blocked(client, kind)
    lock.submit_acquire(1, 300 if how == "timed out" else -1, 1).ok
    for owner in (2, 3):
        lock.submit_acquire(owner, -1, owner).ok
    until(lambda: subscribed(redis_server))
    if how == "cancelled":
        lock.cancel(1).ok
    told = events(client, *ENDS)
    assert next(told).owner == 1
    other.release(KEEPER).ok
    for owner in (2, 3):
        event = next(told)
        assert (event.type, event.owner) == ("ACQUIRED", owner)
        lock.release(owner).ok


@pytest.mark.parametrize("kind", EXCLUSIVE)
@pytest.mark.parametrize("how", ["cancelled", "timed out", "gate", "closed"])
def test_all_go(new_agent: Make, redis_server: Server, kind: str, how: str) -> None:
    """The process leaves the line, although the last to go has never asked: who comes later does not wait for it."""
    client, rival = new_agent().open(redis_server, **PATIENT), new_agent().open(redis_server, **PATIENT)
    lock, other = blocked(client, kind)[0], one(rival, kind)
    lock.submit_acquire(1, -1, 1).ok
    until(lambda: subscribed(redis_server))
    for owner in (2, 3, 4):
        lock.submit_acquire(owner, 300 if how == "timed out" else -1, owner).ok
    if how in ("cancelled", "timed out"):
        lock.cancel(1).ok
    for owner in (2, 3, 4) if how == "cancelled" else ():
        lock.cancel(owner).ok
    if how == "gate":
        other.close_gate(60_000).ok
    if how == "closed":
        client.close(5000).ok
    told = events(client, *ENDS)
    assert {next(told).owner for _ in range(4)} == {1, 2, 3, 4}
    until(lambda: not redis_server.command("EXISTS", "dlock_turns:{lock}"))


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_the_few_do_not_wait_for_the_many(new_agent: Make, redis_server: Server, kind: str) -> None:
    client = new_agent().open(redis_server, **PATIENT)
    few, all_ = one(client, kind, seats=3, permits=1), one(client, kind, seats=3, permits=3)
    few.acquire(1, 0).ok
    all_.submit_acquire(2, -1, 2).ok
    few.acquire(3, 5000).ok
    few.release(1).ok, few.release(3).ok
    assert next(events(client, *ENDS)).owner == 2


@pytest.mark.parametrize("kind", QUEUED)
def test_everybody_learns_of_a_failure(new_agent: Make, new_server: Make, kind: str) -> None:
    """Waits that end while the server is away end with that reason, for those who never asked as well."""
    server = new_server()
    client = new_agent().open(server, connect_timeout_ms=300, **PATIENT)
    lock, _ = blocked(client, kind)
    for owner in range(1, 21):
        lock.submit_acquire(owner, 3000, owner).ok
    until(lambda: subscribed(server))
    server.kill()
    told = events(client, *ENDS)
    ends = [next(told) for _ in range(20)]
    assert {event.type for event in ends} == {"ACQUIRE_FAILED"} and {event.status for event in ends} == {-300}, ends
    tell(done=1, fired=1)


@pytest.mark.parametrize("kind", EXCLUSIVE)
@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("seeds", times(1, 4, seconds=900))
def test_nobody_is_forgotten(new_agent: Make, new_proxy: Make, redis_server: Server, kind: str, cuts: bool, seeds: int) -> None:
    """Two processes, 30 owners each, waits of all lengths, cancels, and with cuts: lost connections. All go on getting their turns."""
    for seed in range(seeds):
        redis_server.command("FLUSHALL")
        proxy: Proxy = new_proxy(redis_server)
        clients = [new_agent().open(proxy, lease_ms=2000, **PATIENT) for _ in range(2)]
        seats = random.Random(seed).choice([1, 3])
        crowds = [Crowd(client, one(client, kind, seats=seats), 30, seed + number)
                  for number, client in enumerate(clients)]  # fmt: skip
        for round_ in range(4):
            before = [dict(crowd.turns) for crowd in crowds]
            if cuts and round_:
                proxy.cut()
            until(lambda: all([crowd.went_on(then) for crowd, then in zip(crowds, before)]), 120)
        for client in clients:
            client.agent.kill()
    tell(done=seeds, fired=seeds if cuts else 0)



class Relay:
    """Owners of a read lock in two processes who pass the baton: each releases only when the next one reads. So somebody always reads."""

    def __init__(self, locks: list[Lock]) -> None:
        self.locks, self.turns = locks, 0
        locks[0].acquire(1, 1000).ok

    def pass_on(self, wait: int) -> bool:
        """The next one asks, for wait ms. 1: it has it, and the one before it has released."""
        now, then = self.turns % 2, (self.turns + 1) % 2
        if self.locks[then].acquire(1, wait).status != "OK":
            return False
        self.locks[now].release(1).ok
        self.turns += 1
        return True


def test_endless_readers_do_not_keep_a_writer_out(new_agent: Make, redis_server: Server) -> None:
    """The baton cannot be passed on while a writer waits. So the last reader goes, and the writer has its turn; then readers read again."""
    clients = [new_agent().open(redis_server) for _ in range(3)]
    relay, write = Relay([one(client, "read") for client in clients[:2]]), one(clients[2], "write")
    assert all(relay.pass_on(1000) for _ in range(20))
    for _ in range(3):
        waits = write.start("acquire", 9, 20_000, thread=1)
        until(lambda: redis_server.command("EXISTS", "dlock_writer:{lock}"))
        before = relay.turns
        while relay.pass_on(50):
            pass
        assert relay.turns - before <= 1
        relay.locks[relay.turns % 2].release(1).ok
        waits.answer().ok
        write.release(9).ok
        relay.locks[relay.turns % 2].acquire(1, 5000).ok
        assert all(relay.pass_on(1000) for _ in range(20))


def test_a_writer_that_is_gone_keeps_nobody_out(new_agent: Make, redis_server: Server) -> None:
    clients = [new_agent().open(redis_server) for _ in range(3)]
    relay, write = Relay([one(client, "read") for client in clients[:2]]), one(clients[2], "write")
    write.start("acquire", 9, 20_000, thread=1)
    until(lambda: redis_server.command("EXISTS", "dlock_writer:{lock}"))
    clients[2].agent.kill()
    assert relay.pass_on(10_000)
    tell(done=1, fired=1)
