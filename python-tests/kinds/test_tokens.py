"""Fencing tokens never fall, even if a server loses its memory: no counter runs ahead of the server's clock. docs/fencing.md.

Grants come as fast as possible, with as many tokens as options can request; then the server loses its data.
"""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Client, Lock, until
from harness.kinds import KINDS, one
from harness.steps.redisson import Jvm, token_key
from harness.server import Server

Make = Callable[..., Any]
GREEDY = {"handover_turns": 1024, "permits": 1024}
LOSSES = ["flush", "restart", "expiry"]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def micros(server: Server) -> int:
    seconds, rest = server.command("TIME")
    return int(seconds) * 1_000_000 + int(rest)


def lock_of(client: Client, kind: str) -> Lock:
    permits = {"permits": GREEDY["permits"]} if "semaphore" in kind else {"handover_turns": GREEDY["handover_turns"]} if kind == "mutex" else {}
    return one(client, kind, seats=GREEDY["permits"], **permits)


def lose(server: Server, loss: str) -> None:
    if loss == "flush":
        server.command("FLUSHALL")
    elif loss == "restart":
        server.restart()
    else:
        server.command("PEXPIRE", token_key("lock"), 1)
        until(lambda: server.command("EXISTS", token_key("lock")) == 0)


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_of_memory(agent: Agent, server: Server, loss: str, kind: str) -> None:
    """Each grant that requested 1,025 tokens, or 1,024 permits, would put the counter a millisecond ahead of the clock: 30 or 300 ms here.
    """
    client = agent.open(server, connects_per_second=1000, lease_ms=500)
    lock, last = lock_of(client, kind), 0
    for _ in range(3):
        assert lock.turns(1, 30 if kind == "permit_semaphore" else 300).ok.bad == 0  # each of its grants is 1,024 leases
        counter = int(server.command("GET", token_key("lock")))
        assert last < counter <= micros(server)
        token = lock.acquire(1, 5000).ok.token
        assert token > counter
        lock.release(1).ok
        last = int(server.command("GET", token_key("lock")))
        lose(server, loss)
        if loss == "restart":
            until(lambda: client.ping(1000).status == "OK")
        if "semaphore" in kind and loss != "expiry":
            until(lambda: lock.permits_set(GREEDY["permits"]).status == "OK")
        token = lock.acquire(1, 5000).ok.token
        assert token > last, f"falls by {last - token} us"
        lock.release(1).ok
        last = token


def test_a_failover(agent: Agent, server: Server) -> None:
    """The new primary was cut off and does not know the last grants."""
    with Server("--replicaof", f"127.0.0.1 {server.port}") as replica:
        until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"))
        old, new = agent.open(server), agent.open(replica)
        lock = lock_of(old, "mutex")
        assert lock.turns(1, 50).ok.bad == 0
        until(lambda: replica.command("EXISTS", token_key("lock")) == 1)
        replica.command("REPLICAOF", "NO", "ONE")
        assert lock.turns(1, 300).ok.bad == 0
        token = lock.acquire(1, 5000).ok.token
        after = new.lock("lock").acquire(1, 5000).ok.token
        assert after > int(server.command("GET", token_key("lock"))) >= token


def test_redissons_fenced_lock_beside(agent: Agent, redis_server: Server) -> None:
    """It counts on from our tokens by ones, so it never runs ahead of the clock either. Its own restart begins at 1: our next token is
    above all.
    """
    lock, highest = agent.open(redis_server, handover_turns=1024).lock("lock"), 0
    with Jvm(redis_server) as jvm:
        fenced = jvm.fenced_lock("lock")
        for turn in range(60):
            token = lock.acquire(1, 5000).ok.token
            assert token > highest
            lock.release(1).ok
            highest = int(redis_server.command("GET", token_key("lock")))
            for _ in range(3):
                fenced.lock(1)
                assert fenced.token == highest + 1 <= micros(redis_server)
                fenced.unlock(1)
                highest += 1
            if turn % 20 == 19:
                redis_server.command("FLUSHALL")
                fenced.lock(1)
                assert fenced.token == 1
                fenced.unlock(1)


def test_processes_in_turn(new_agent: Make, redis_server: Server) -> None:
    """Hand-overs in four processes at once, and the server forgets the counter again and again: no token is used twice."""
    clients = [new_agent().open(redis_server, handover_turns=1024, handover_ms=1) for _ in range(4)]
    locks = [client.lock("lock") for client in clients]
    for lock in locks:
        for owner in range(1, 401):
            lock.submit_acquire(owner, -1, owner).ok
    serving = [client.start("serve", lock.index, 400, 20_000) for client, lock in zip(clients, locks)]
    while not all(pending.ready() for pending in serving):
        redis_server.command("DEL", token_key("lock"))
    served = sorted((at, token) for pending in serving for status, _, token, at in pending.answer().ok.served if status == 0)
    tokens = [token for _, token in served]
    assert len(tokens) == 1600 == len(set(tokens))
    assert sum(client.counters()["handovers"] for client in clients) > 100


# ---- a server whose clock was set back


def fall(server: Server, by: int) -> None:
    """As if the clock had been that many microseconds ahead until now, and the server forgot it."""
    server.command("DEL", token_key("lock"), "lock")
    assert by > 0


def ahead(server: Server, by: int) -> None:
    server.command("SET", token_key("lock"), micros(server) + by)


def test_who_waits_goes_on_when_tokens_are_higher_again(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=3000)
    lock = client.lock("lock")
    ahead(redis_server, 1_500_000)
    high = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    fall(redis_server, 1_500_000)
    answer = lock.acquire(1, 0)
    assert answer.status == "SERVER_FORGOT" and answer.retryable and "fencing token" in answer.message
    assert lock.acquire(2, 50).status == "SERVER_FORGOT"
    token = lock.acquire(3, 20_000).ok.token  # until the clock has caught up
    assert token > high
    lock.release(3).ok
    until(lambda: redis_server.command("EXISTS", "lock") == 0)
    assert lock.acquire(1, 0).ok.token > token
    lock.release(1).ok


def test_others_are_served_meanwhile(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """Owners that had no higher token are granted the lock. One that had gives it back at once, and its other locks go on."""
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    lock, near, theirs = client.lock("lock"), client.lock("near"), other.lock("lock")
    ahead(redis_server, 10**12)
    lock.acquire(1, 0).ok
    lock.release(1).ok
    fall(redis_server, 10**12)
    waits = lock.start("acquire", 1, -1, thread=1)
    for _ in range(100):
        theirs.acquire(1, 10_000).ok
        theirs.release(1).ok
        near.acquire(1, 1000).ok  # the connection is closed after the low grant: it could be an old reply
        near.release(1).ok
    assert lock.state(1) == "WAITING" and client.counters()["undone"] >= 1
    ahead(redis_server, 2 * 10**12)
    waits.answer().ok
    lock.release(1).ok


def test_who_holds_hears_that_it_is_lost(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=900)
    lock = client.lock("lock")
    ahead(redis_server, 10**12)
    token = lock.acquire(1, 0).ok.token
    fall(redis_server, 10**12)
    while (event := client.event()).type != "LOST":
        pass
    assert event.token == token and lock.acquire(2, 0).status == "SERVER_FORGOT"


def test_a_pushed_grant_with_a_lower_token(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """A message grants it to a process that has had a higher one: it is given back, and the process keeps waiting."""
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    lock, theirs = client.lock("lock"), other.lock("lock")
    ahead(redis_server, 10**12)
    high = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    fall(redis_server, 10**12)
    theirs.acquire(1, 0).ok
    waits = lock.start("acquire", 1, -1, thread=1)
    until(lambda: redis_server.command("EXISTS", "dlock_queue:{lock}") == 1)
    theirs.release(1).ok
    until(lambda: client.counters()["undone"] >= 1)
    assert lock.state(1) == "WAITING"
    theirs.acquire(1, 10_000).ok
    ahead(redis_server, 2 * 10**12)
    theirs.release(1).ok
    assert waits.answer().ok.token > high
