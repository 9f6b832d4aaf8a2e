"""A thousand waiters in three processes, of each kind, while processes are killed and stopped, connections are cut and replies are lost.
Everybody who lives goes on getting turns, and nothing is left.
"""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import until
from harness.faults import times
from harness.kinds import image, one
from harness.proxy import Proxy
from harness.server import Server
from harness.tally import tell
from kinds.test_waitlist import Crowd

Make = Callable[..., Any]
KINDS = ["mutex", "fair", "write", "semaphore", "permit_semaphore"]
LEASE = 2000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("owners", times(30, 333, seconds=600))
def test_many_waiters_under_faults(new_agent: Make, new_proxy: Make, redis_server: Server, kind: str, owners: int) -> None:
    proxies: list[Proxy] = [new_proxy(redis_server) for _ in range(3)]
    clients = [new_agent().open(proxy, lease_ms=LEASE) for proxy in proxies]
    seats = 3 if "semaphore" in kind else 1
    crowds = [Crowd(client, one(client, kind, seats=seats), owners, seed) for seed, client in enumerate(clients)]

    def all_have_had_a_turn() -> None:
        before = [dict(crowd.turns) for crowd in crowds]
        until(lambda: all([crowd.went_on(then) for crowd, then in zip(crowds, before)]), 120)

    all_have_had_a_turn()
    for proxy in proxies:
        proxy.cut()
    all_have_had_a_turn()
    lost = [proxy.lose_reply(b":1\r\n", times=20) for proxy in proxies]
    all_have_had_a_turn()
    clients[1].agent.stop()
    before = dict(crowds[0].turns)
    until(lambda: all([crowds[0].went_on(before)]), 120)
    clients[1].agent.resume()
    all_have_had_a_turn()
    clients[2].agent.kill()
    crowds.pop()
    if kind == "semaphore":
        until(lambda: crowds[0].lock.reclaim(LEASE).ok.value == 0 and crowds[0].lock.permits().ok.value >= 0, 20)
    all_have_had_a_turn()
    for crowd in crowds:
        crowd.stop()
    until(lambda: image(redis_server) == {} or seats > 1 and crowds[0].lock.permits().ok.value == seats, 30)
    tell(done=1, fired=sum(hook.count for hook in lost) + 1)
