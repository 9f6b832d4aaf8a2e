"""What a held lock that nobody waits for takes of memory, and what comes of a report that needs memory when there is none."""
from __future__ import annotations

import pathlib
import subprocess
from typing import Callable

import pytest

import mutants
from harness.agent import Agent, Client, until
from harness.build import BUILD, ROOT, clean_env
from harness.faults import always
from harness.kinds import rss_kb
from harness.proxy import Proxy
from harness.server import Server

MANY = 5000
MOST = 700  # resident bytes for each lock without a handle: 551 were measured; the rest is slack for what grows in steps
GIVEN = 580  # bytes of malloc for each lock with a handle: 574 were measured, with names of 12 bytes
CACHED = 65_536  # malloc counts what its caches have as given out
FIXED = 1_000_000  # what does not grow with them


def hold(client: Client, first: int, count: int, submitted: bool) -> None:
    for number in range(first, first + count):
        lock = client.lock(f"held:{number:05}")
        if submitted:
            lock.submit_acquire(1, -1, number).ok
            assert client.event().type == "ACQUIRED"
        else:
            lock.acquire(1, 0).ok
        lock.drop()


def each(agent: Agent, client: Client, submitted: bool = False, many: int = MANY) -> float:
    """The bytes that a held lock takes. Some are held before, so that what grows once has grown."""
    hold(client, 0, 500, submitted)
    before = rss_kb(agent.pid)
    hold(client, 500, many, submitted)
    taken = (rss_kb(agent.pid) - before) * 1024 / many
    print(f"{taken:.0f} bytes for each held lock")
    assert client.counters()["held"] == many + 500
    return taken


@pytest.mark.house  # a sanitizer pads allocations
@pytest.mark.parametrize("submitted", [False, True])
def test_a_held_lock(agent: Agent, redis_server: Server, submitted: bool) -> None:
    """Its exchange is over, and its event was read: nothing of them is kept. The handles are freed."""
    assert each(agent, agent.open(redis_server.unix_url, lease_ms=600_000), submitted) < MOST


def measure(server: Server, locks: int, waiters: int) -> dict[str, float]:
    """What bench/native/memory.c prints."""
    command = [BUILD / "bench/bench_memory", server.unix_url, str(locks), str(waiters)]
    done = subprocess.run(command, env=clean_env(), text=True, stdout=subprocess.PIPE, check=True, timeout=300)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


@pytest.mark.timeout(200)
@pytest.mark.house  # a sanitizer pads allocations
@pytest.mark.parametrize("count", always(60_000, full=[100_000]))
def test_memory_goes_back(redis_server: Server, count: int) -> None:
    """So many held locks and as many waiters in one client; then it is closed and freed."""
    found = measure(redis_server, count, count)
    assert found["events"] == 2 * count + 1  # each lock is lost, also the one that they wait for; each wait ends
    assert found["held_bytes"] <= GIVEN
    assert found["end_bytes"] < found["start_bytes"] + CACHED
    taken = count * (found["held_resident"] + found["waiter_resident"])
    assert found["end_resident"] - found["start_resident"] < 0.05 * taken + FIXED, found
    assert redis_server.command("KEYS", "held:*") == []


@pytest.mark.house  # it tests libraries with mutants, not the library under test
@pytest.mark.parametrize("mutant", mutants.KEPT, ids=lambda mutant: str(mutant.number))
def test_mutants_that_keep_more(new_agent: Callable[..., Agent], redis_server: Server, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutant)))
    assert each(agent, agent.open(redis_server.unix_url, lease_ms=600_000), many=2000) > MOST


def test_a_loss_needs_no_memory(new_agent: Callable[..., Agent], redis_server: Server, new_proxy: Callable[..., Proxy]) -> None:
    """AT_RISK is dropped and counted, like an event without room. LOST comes."""
    proxy, agent = new_proxy(redis_server), new_agent(shim=True)
    client = agent.open(proxy, lease_ms=1800, command_timeout_ms=200)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] >= 1)
    proxy.up.blackhole = True
    agent("shim", "alloc", 1, 1)
    answer = client.next(10_000)
    assert answer.fired > 0 and answer.event.type == "LOST" and answer.event.held_for > 0
    assert client.counters()["events_dropped"] > 0
    assert lock.state(1) == "LOST"


def test_a_release_without_memory(new_agent: Callable[..., Agent], redis_server: Server) -> None:
    """The call says so. The owner does not have the lock any more, and the release is repeated until the server has heard of it."""
    agent = new_agent(shim=True)
    client = agent.open(redis_server)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    agent("shim", "alloc", 1, 1)
    answer = lock.release(1)
    assert answer.status == "OUT_OF_MEMORY" and answer.fired > 0
    assert lock.state(1) == "NONE" and lock.release(1).status == "NOT_HELD"
    until(lambda: redis_server.command("EXISTS", "lock") == 0)
    lock.acquire(2, 0).ok


@pytest.mark.parametrize("call", ["acquire", "submit_acquire", "begin_acquire"])
def test_permits_without_memory(new_agent: Callable[..., Agent], redis_server: Server, call: str) -> None:
    """The acquisition has not begun. What it would have used is there for the next one."""
    agent = new_agent(shim=True)

    def takes(fails: bool) -> int:
        """How much is allocated when 25 permits are held, and for each, one wait was cancelled, and perhaps one acquisition failed."""
        client = agent.open(redis_server)
        one, many = (client.lock(f"{call}:{fails}", kind="semaphore", permits=permits) for permits in (1, 50))
        one.permits_set(30).ok
        for tag in range(25):
            many.submit_acquire(1, -1, tag).ok
            one.acquire(1, 1000).ok
            many.cancel(1).ok
            assert client.event().tag == tag
            if fails:
                agent("shim", "alloc", 1, 0)
                answer = one.acquire(1, 0) if call == "acquire" else getattr(one, call)(1, 0, 99)
                assert answer.status == "OUT_OF_MEMORY" and answer.fired > 0
            if tag == 0:
                before: int = agent("live").live
        return agent("live").live - before

    assert takes(True) <= takes(False) + 12  # 24 would be kept; some are in use for a moment only


def test_an_export_without_memory(new_agent: Callable[..., Agent], redis_server: Server) -> None:
    """Nothing has changed: the owner holds the lock, and may export it."""
    agent = new_agent(shim=True)
    client = agent.open(redis_server)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    agent("shim", "alloc", 1, 1)
    answer = lock.export(1, 600)
    assert answer.status == "OUT_OF_MEMORY" and answer.fired > 0 and lock.state(1) == "HELD"
    assert lock.export(1, 600).ok.grant and lock.state(1) == "NONE"
