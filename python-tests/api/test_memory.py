"""What a held lock that nobody waits for takes of memory, and what comes of a report that needs memory when there is none."""
from __future__ import annotations

from typing import Callable

import pytest

from harness.agent import Agent, until
from harness.build import SANITIZED
from harness.kinds import rss_kb
from harness.proxy import Proxy
from harness.server import Server

MANY = 5000
MOST = 1500  # bytes for each lock: 1,220 were measured, with names of ten bytes; the rest is slack for what grows in steps


@pytest.mark.skipif(SANITIZED, reason="a sanitizer pads allocations")
@pytest.mark.parametrize("submitted", [False, True])
def test_a_held_lock(agent: Agent, redis_server: Server, submitted: bool) -> None:
    """Its exchange is over, and its event was read: nothing of them is kept. The handles are freed."""
    client = agent.open(redis_server.unix_url, lease_ms=600_000)

    def hold(first: int, count: int) -> None:
        for number in range(first, first + count):
            lock = client.lock(f"held:{number:05}")
            if submitted:
                lock.submit_acquire(1, -1, number).ok
                assert client.next(5000).ok.event.type == "ACQUIRED"
            else:
                lock.acquire(1, 0).ok
            lock.drop()

    hold(0, 500)
    before = rss_kb(agent.pid)
    hold(500, MANY)
    each = (rss_kb(agent.pid) - before) * 1024 / MANY
    print(f"{each:.0f} bytes for each held lock")
    assert client.counters()["held"] == MANY + 500
    assert each < MOST


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
