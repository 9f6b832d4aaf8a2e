"""linger_ms: a mutex without waiters stays with the process for a moment after its release. On the server it is held."""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import Agent, Client, Lock, now, until
from harness.steps.redisson import Jvm, old_counter
from harness.server import Server

Make = Callable[..., Any]
LONG = {"linger_ms": 1000, "handover_ms": 1000}  # long enough for a test to be in time


@pytest.fixture(autouse=True)
def counters(redis_server: Server) -> None:
    old_counter(redis_server, "lock", "a", "b")


@pytest.fixture
def client(agent: Agent, redis_server: Server) -> Client:
    return agent.open(redis_server, **LONG)


def lingers(server: Server, name: str = "lock") -> bool:
    return server.command("EXISTS", name) == 1


def scripts(server: Server) -> int:
    """Script calls so far, in the server's statistics."""
    lines = server.command("INFO", "commandstats").decode().splitlines()
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith(("cmdstat_evalsha:", "cmdstat_eval:")))


def test_it_is_taken_up_without_the_server(client: Client, redis_server: Server) -> None:
    lock = client.lock("lock")
    tokens = [lock.acquire(1, 0).ok.token]
    lock.release(1).ok
    before, counted = scripts(redis_server), client.counters()
    for owner in (1, 2, 3):
        tokens.append(lock.acquire(owner, 0).ok.token)
        assert lock.acquire(owner, 0).ok.token == tokens[-1] == lock.token(owner).ok.token, "re-entry"
        lock.release(owner).ok
        assert lock.state(owner) == "HELD"
        lock.release(owner).ok
        assert lock.state(owner) == "NONE" and lock.release(owner).status == "NOT_HELD"
    tokens.append(lock.acquire_local(7).ok.token)
    lock.release_local(7).ok
    lock.submit_acquire(8, -1, 80).ok
    event = client.event()
    assert (event.type, event.tag) == ("ACQUIRED", 80)
    tokens.append(event.token)
    lock.submit_release(8, 81).ok
    assert client.event().type == "RELEASED"
    tokens.append(lock.acquire_local(9).ok.token)
    assert scripts(redis_server) == before and lingers(redis_server)
    assert tokens == sorted(set(tokens))
    after = client.counters()
    for name, more in {"acquired": 6, "handovers": 6, "released": 5, "wire_grants": 0, "undone": 0, "lost": 0, "held": 1}.items():
        assert after[name] - counted[name] == more, name


def test_it_goes_back_by_itself(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, linger_ms=50, handover_ms=1000)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    assert lock.release(1).ok and lingers(redis_server)
    until(lambda: not lingers(redis_server))
    until(lambda: lock.acquire_local(1).status == "WOULD_BLOCK")
    counters = client.counters()
    assert (counters["released"], counters["undone"], counters["held"]) == (1, 0, 0)
    assert not client.agent.written()


def test_without_the_option_nothing_stays(agent: Agent, redis_server: Server) -> None:
    lock = agent.open(redis_server, handover_ms=1000).lock("lock")
    lock.acquire(1, 0).ok
    assert lock.release(1).ok and not lingers(redis_server) and lock.acquire_local(1).status == "WOULD_BLOCK"


@pytest.mark.parametrize(
    "options",
    [{"handover_ms": 0}, {"handover_turns": 0}, {"renew": "false"}, {"min_hold_ms": 500, "handover_ms": 400}],
    ids=lambda options: next(iter(options)),
)
def test_it_stays_within_the_bounds_of_hand_overs(agent: Agent, redis_server: Server, options: dict[str, Any]) -> None:
    lock = agent.open(redis_server, **{**LONG, **options}).lock("lock")
    lock.acquire(1, 0).ok
    before = scripts(redis_server)
    lock.release(1).ok
    assert scripts(redis_server) == before + 1 and lock.acquire_local(1).status == "WOULD_BLOCK"


def test_other_processes_have_turns(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """One process acquires the lock again and again; with the default bounds others are served in between, before it has made 200 turns."""
    greedy, other = agent.open(redis_server, linger_ms=1000).lock("lock"), new_agent().open(redis_server).lock("lock")
    goes_on = greedy.start("turns", 1, 200_000)
    between = other.turns(1, 200).ok
    all_ = goes_on.answer(60)
    assert between.bad == all_.bad == 0 and between.done < all_.done


def test_who_waits_elsewhere_is_told(client: Client, new_agent: Make, redis_server: Server) -> None:
    """Nobody probes within the time of the test: the release after the linger grants the lock to the next process."""
    mine, theirs = client.lock("lock"), new_agent().open(redis_server, safety_ms=60_000).lock("lock")
    first = mine.acquire(1, 0).ok.token
    wait = theirs.start("acquire", 1, -1, thread=1)
    until(lambda: theirs.state(1) == "WAITING" and redis_server.command("ZCARD", "dlock_queue:{lock}") == 1)
    mine.release(1).ok
    assert wait.answer().ok.token > first
    assert mine.acquire(1, 0).status == "BUSY"


def test_redisson_has_its_turn(client: Client, redis_server: Server) -> None:
    mine = client.lock("lock")
    with Jvm(redis_server) as jvm:
        lock = jvm.lock("lock")
        mine.acquire(1, 0).ok
        mine.release(1).ok
        assert not lock.try_lock(1), "to others it is held"
        lock.lock(1)
        assert mine.acquire(1, 0).status == "BUSY"
        lock.unlock(1)
    mine.acquire(1, 5000).ok


def test_a_waiter_here_comes_first(client: Client, redis_server: Server) -> None:
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    wait = lock.start("acquire", 2, -1, thread=1)
    until(lambda: lock.state(2) == "WAITING")
    lock.release(1).ok
    wait.answer().ok
    assert lock.acquire(1, 0).status == "BUSY"
    lock.release(2).ok


def test_another_lease_asks_the_server(client: Client, redis_server: Server) -> None:
    """A handle with other terms does not get a lingering lock: the lock is released first, and acquired right after that."""
    lock, other = client.lock("lock"), client.lock("lock", lease_ms=7000)
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    before = scripts(redis_server)
    assert other.acquire_local(2).status == "WOULD_BLOCK"
    assert other.acquire(2, 0).ok.token > token and scripts(redis_server) > before
    assert redis_server.command("PTTL", "lock") <= 7000
    other.release(2).ok


def test_the_turns_are_counted(agent: Agent, redis_server: Server) -> None:
    lock = agent.open(redis_server, **LONG, handover_turns=3).lock("lock")
    tokens = []
    for _ in range(4):
        tokens.append(lock.acquire(1, 0).ok.token)
        lock.release(1).ok
    assert not lingers(redis_server), "the fourth release is the last that may stay in memory, three acquisitions did"
    tokens.append(lock.acquire(1, 0).ok.token)
    assert tokens == sorted(set(tokens))


def test_a_paused_process_does_not_take_it_up(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """Stopped while the lock lingers, beyond the lease: somebody else has it, and the next acquire is not granted from memory."""
    lock = agent.open(redis_server, **LONG, lease_ms=600).lock("lock")
    other = new_agent().open(redis_server, lease_ms=600).lock("lock")
    first = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    agent.stop()
    theirs = other.acquire(1, 5000).ok.token
    agent.resume()
    assert theirs > first and lock.acquire(1, 0).status == "BUSY" and other.state(1) == "HELD"
    other.release(1).ok
    assert lock.acquire(1, 5000).ok.token > theirs


def test_a_process_that_dies_leaves_it_to_its_lease(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    lock = agent.open(redis_server, **LONG, lease_ms=600).lock("lock")
    other = new_agent().open(redis_server).lock("lock")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    agent.kill()
    other.acquire(1, 5000).ok


def test_force_takes_it_from_this_process_too(client: Client, redis_server: Server) -> None:
    lock = client.lock("lock")
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    assert lock.force().status in ("OK", "NOT_HELD")
    assert lock.acquire_local(1).status == "WOULD_BLOCK"
    assert lock.acquire(1, 0).ok.token > token


def test_a_gate_that_was_closed_elsewhere_is_heard_of(client: Client, new_agent: Make, redis_server: Server) -> None:
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    until(lambda: redis_server.command("PUBSUB", "CHANNELS") != [])
    new_agent().open(redis_server).lock("lock").close_gate(60_000).ok
    until(lambda: lock.acquire(2, 0).status == "GATE_CLOSED")
    lock.release(1).ok
    assert lock.acquire(1, 0).status == "GATE_CLOSED" and not lingers(redis_server)


@pytest.mark.parametrize("form", ["close", "submit_close"])
def test_closing_gives_it_back(client: Client, redis_server: Server, form: str) -> None:
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    assert lingers(redis_server)
    assert getattr(client, form)(5000).ok
    until(lambda: not lingers(redis_server))


def test_the_last_handle_may_go(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, linger_ms=100, handover_ms=1000)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    lock.drop().ok
    assert client.counters()["locks"] == 1 and lingers(redis_server)
    until(lambda: client.counters()["locks"] == 0)
    assert not lingers(redis_server)


def test_a_server_that_is_gone(agent: Agent, redis_server: Server) -> None:
    """The release was done in memory; the lock goes back when the server is back."""
    client = agent.open(redis_server, linger_ms=100, handover_ms=1000, lease_ms=2000)
    lock = client.lock("lock")
    token = lock.acquire(1, 0).ok.token
    redis_server.pause()
    lock.release(1).ok
    since = now()
    until(lambda: now() - since > 200_000)
    assert lock.acquire_local(1).status == "WOULD_BLOCK"
    redis_server.resume()
    assert lock.acquire(1, 10_000).ok.token > token


def test_a_multi_lock_of_them(client: Client, redis_server: Server) -> None:
    both = client.multi(client.lock("a"), client.lock("b"))
    token = both.acquire(1, 0).ok.token
    both.release(1).ok
    assert lingers(redis_server, "a") and lingers(redis_server, "b")
    again = both.acquire(1, 0).ok.token
    assert again > token
    both.release(1).ok
    until(lambda: not lingers(redis_server, "a") and not lingers(redis_server, "b"))
