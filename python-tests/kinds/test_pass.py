"""Hand-over in memory where every owner's hold has a machine of its own: semaphores, permits and write locks go to the next waiter of
the process without the server, for a while. Nobody else loses anything by it. safety_ms is long: a lost wake-up would show.
"""
from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.build import BUILD, ROOT
from harness.crowd import ENDS, events
from harness.agent import Agent, Client, Event, Lock, until
from harness.faults import times
from harness.kinds import one
from harness.proxy import Proxy
from harness.server import Server
from harness.steps.scripts import runs, teach
from harness.tally import tell

Make = Callable[..., Any]
KINDS = ["write", "semaphore", "permit_semaphore"]
PATIENT = {"safety_ms": 60_000, "handover_ms": 1000}
FIRST = 1_000


def told(client: Client) -> Iterator[Event]:
    return events(client, *ENDS, "LOST")


def warm(lock: Lock) -> None:
    """The first grant of a name reserves one token only: the counter is new."""
    lock.acquire(FIRST, 0).ok
    lock.release(FIRST).ok


def held_by(client: Client, kind: str, **options: Any) -> Lock:
    """FIRST has the lock, with tokens for other turns."""
    warm(one(client, kind))
    lock = one(client, kind, **options)
    lock.acquire(FIRST, 0).ok
    return lock


def queue(server: Server, client: Client, lock: Lock, owners: list[int]) -> None:
    """The first asks the server, and again when it is subscribed. Then it is idle like the others."""
    seen = [runs(server)]
    lock.submit_acquire(owners[0], -1, owners[0]).ok
    until(lambda: seen.append(runs(server)) or seen[-1] >= seen[0] + 2 and len(set(seen[-5:])) == 1)
    for owner in owners[1:]:
        lock.submit_acquire(owner, -1, owner).ok
    until(lambda: client.counters()["waiting"] >= len(owners))


def runs_of(tokens: list[int]) -> list[list[int]]:
    """Tokens that follow each other come from one grant of the server."""
    found: list[list[int]] = []
    for token in tokens:
        if not found or token != found[-1][-1] + 1:
            found.append([])
        found[-1].append(token)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_in_the_process_gets_it(new_agent: Make, redis_server: Server, kind: str) -> None:
    """In order, each with a token of its own above the one before, and without a script."""
    teach(redis_server)
    client = new_agent().open(redis_server, **PATIENT)
    lock = held_by(client, kind)
    queue(redis_server, client, lock, list(range(1, 51)))
    events, tokens = told(client), []
    lock.release(FIRST).ok
    assert next(events).owner == 1
    before = runs(redis_server)
    lock.release(1).ok
    for owner in range(2, 51):
        event = next(events)
        assert (event.type, event.owner) == ("ACQUIRED", owner)
        tokens.append(event.token)
        lock.release(owner).ok
    assert tokens == sorted(set(tokens)) and runs(redis_server) - before <= 8, (tokens, runs(redis_server) - before)
    assert client.counters()["handovers"] >= 45


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", [0, 3])
def test_others_have_their_turns(new_agent: Make, redis_server: Server, kind: str, turns: int) -> None:
    """A grant serves handover_turns waiters more at most. Then this process holds back, and the other one has it."""
    client, other = (new_agent().open(redis_server, handover_turns=turns, **PATIENT) for _ in range(2))
    lock, theirs = held_by(client, kind), one(other, kind)
    queue(redis_server, client, lock, list(range(1, 41)))
    queue(redis_server, other, theirs, [1])
    serving = [client.start("serve", lock.index, 40, 20_000, thread=1), other.start("serve", theirs.index, 1, 20_000)]
    lock.release(FIRST).ok
    mine, (its,) = (each.answer(30).ok.served for each in serving)
    tokens = [row[2] for row in mine]
    together = max(len(run) for run in runs_of(tokens))
    assert its[0] == 0 and sum(token < its[2] for token in tokens) <= 2 * (turns + 1)
    assert len(mine) == 40 and together <= turns + 1 and client.counters()["handovers"] >= 40 * turns // 5


@pytest.mark.parametrize("kind", KINDS)
def test_the_heir_is_renewed(new_agent: Make, redis_server: Server, kind: str) -> None:
    """The grant belongs to the heir: it outlives the lease, and the server knows of its release."""
    client, other = new_agent().open(redis_server, lease_ms=600, **PATIENT), new_agent().open(redis_server)
    lock = held_by(client, kind)
    queue(redis_server, client, lock, [1])
    lock.release(FIRST).ok
    assert next(told(client)).owner == 1
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= renewed + 9)
    assert lock.state(1) == "HELD" and one(other, kind).acquire(1, 0).status == "BUSY"
    lock.release(1).ok
    one(other, kind).acquire(1, 0).ok


@pytest.mark.parametrize("kind", KINDS)
def test_the_heir_hears_of_a_loss(new_agent: Make, redis_server: Server, kind: str) -> None:
    client = new_agent().open(redis_server, lease_ms=600, **PATIENT)
    lock = held_by(client, kind)
    queue(redis_server, client, lock, [1])
    lock.release(FIRST).ok
    events = told(client)
    assert next(events).owner == 1
    redis_server.command("FLUSHALL")
    event = next(events)
    assert (event.type, event.owner) == ("LOST", 1)
    assert lock.state(FIRST) == "NONE"


@pytest.mark.parametrize("kind", ["write", "permit_semaphore"])
def test_the_heir_dies(new_agent: Make, redis_server: Server, kind: str) -> None:
    """kill -9: the lock is free after the lease, and nothing is left of the owners that had it before."""
    client, other = new_agent().open(redis_server, lease_ms=900, **PATIENT), new_agent().open(redis_server)
    lock = held_by(client, kind)
    queue(redis_server, client, lock, [1, 2, 3])
    lock.release(FIRST).ok
    events = told(client)
    assert next(events).owner == 1
    lock.release(1).ok
    assert next(events).owner == 2
    client.agent.kill()
    theirs = one(other, kind)
    assert theirs.acquire(1, 0).status == "BUSY"
    theirs.acquire(1, 20_000).ok
    theirs.release(1).ok
    tell(done=1, fired=1)


def test_a_writer_that_reads_on_keeps_its_lock(new_agent: Make, redis_server: Server) -> None:
    """Its read hold lives under its write hold. So the next writer waits for both."""
    client = new_agent().open(redis_server, **PATIENT)
    write = held_by(client, "write")
    read = one(client, "read")
    read.acquire(FIRST, 0).ok
    queue(redis_server, client, write, [1])
    write.release(FIRST).ok
    assert read.state(FIRST) == "HELD" and write.state(1) == "WAITING"
    assert redis_server.command("HGET", "lock", "mode") == b"read"
    read.release(FIRST).ok
    assert next(told(client)).owner == 1 and client.counters()["handovers"] == 0


def test_a_read_on_its_way_counts(new_agent: Make, new_proxy: Make, redis_server: Server) -> None:
    """The server has granted it under the write hold, and its owner releases that before the reply is here."""
    teach(redis_server)
    proxy: Proxy = new_proxy(redis_server)
    client = new_agent().open(proxy, **PATIENT)
    write, read = held_by(client, "write"), one(client, "read")
    queue(redis_server, client, write, [1])
    proxy.down.hold()
    read.submit_acquire(FIRST, -1, 9).ok
    until(lambda: redis_server.command("HLEN", "lock") == 3)
    release = write.start("release", FIRST, thread=1)
    until(lambda: release.ready() or redis_server.command("HGET", "lock", "mode") == b"read")
    proxy.down.release()
    release.answer().ok
    assert next(told(client)).tag == 9
    assert write.state(1) == "WAITING" and read.state(FIRST) == "HELD"
    read.release(FIRST).ok
    assert next(told(client)).owner == 1
    tell(done=1, fired=proxy.down.fired["hold"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "semaphore"])  # its holds have no lease
@pytest.mark.parametrize("what", [{"lease_ms": 7000}, {"renew": "off"}])
def test_who_wants_something_else_asks_the_server(new_agent: Make, redis_server: Server, kind: str, what: dict[str, Any]) -> None:
    client = new_agent().open(redis_server, **PATIENT)
    lock, other = held_by(client, kind), one(client, kind, **what)
    queue(redis_server, client, other, [1])
    lock.release(FIRST).ok
    assert next(told(client)).owner == 1 and client.counters()["handovers"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_not_before_min_hold(new_agent: Make, redis_server: Server, kind: str) -> None:
    client = new_agent().open(redis_server, **PATIENT)
    lock = held_by(client, kind, min_hold_ms=500)
    queue(redis_server, client, lock, [1])
    lock.release(FIRST).ok
    assert next(told(client)).owner == 1 and client.counters()["handovers"] == 0


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_permits_are_all_there_in_the_end(new_agent: Make, redis_server: Server, kind: str) -> None:
    """5 permits, 60 owners who take one or two, each three times."""
    client = new_agent().open(redis_server, safety_ms=60_000)
    one(client, kind, seats=5)
    locks = [client.lock("lock", kind=kind, permits=1 + number % 2) for number in range(60)]
    for number, lock in enumerate(locks):
        lock.submit_acquire(number + 1, -1, number + 1).ok
    turns, events, tokens = [0] * 61, told(client), []
    while min(turns[1:]) < 3:
        event = next(events)
        assert event.type == "ACQUIRED"
        tokens.append(event.token)
        turns[event.owner] += 1
        locks[event.owner - 1].release(event.owner).ok
        if turns[event.owner] < 3:
            locks[event.owner - 1].submit_acquire(event.owner, -1, event.owner).ok
    assert len(tokens) == len(set(tokens)) == 180 and client.counters()["handovers"] > 0
    until(lambda: locks[0].permits().ok.value == 5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", times(2000, 6000, seconds=300))
def test_threads_take_turns(new_agent: Make, redis_server: Server, kind: str, count: int) -> None:
    """8 threads that block: nobody is inside with another one, and no token is seen twice."""
    agent: Agent = new_agent()
    client = agent.open(redis_server, safety_ms=60_000)
    lock = one(client, kind)
    before = client.counters()["handovers"]
    waits = [lock.start("turns", 100_000 * number, count // 8, thread=number) for number in range(1, 9)]
    assert [each.answer(300).ok.bad for each in waits] == [0] * 8
    assert client.counters()["handovers"] - before > count // 4


FINDS: dict[int, Callable[[Make, Make, Server], None]] = {
    641: test_a_read_on_its_way_counts,
    642: lambda new_agent, new_proxy, server: test_not_before_min_hold(new_agent, server, "write"),
    644: lambda new_agent, new_proxy, server: [test_others_have_their_turns(new_agent, server, "write", 0) for _ in range(100)],
    643: lambda new_agent, new_proxy, server: test_permits_are_all_there_in_the_end(new_agent, server, "semaphore"),
}


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.PASSED, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(new_agent: Make, new_proxy: Make, redis_server: Server, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        FINDS[mutant.number](lambda: new_agent(LD_PRELOAD=library), new_proxy, redis_server)
