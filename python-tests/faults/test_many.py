"""A thousand waiters in three processes, of each kind, while processes are killed and stopped, connections are cut and replies are lost.
Everybody who lives goes on getting turns, and nothing is left.
"""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import until
from harness.crowd import Crowd
from harness.faults import always, times
from harness.kinds import image, one
from harness.proxy import Proxy
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
KINDS = ["mutex", "fair", "write", "semaphore", "permit_semaphore"]
LEASE = 2000


@pytest.mark.parametrize("kind", always("mutex", full=KINDS[1:]))
@pytest.mark.parametrize("owners", times(30, 100, seconds=600, soak=333))
def test_many_waiters_under_faults(new_agent: Make, new_proxy: Make, redis_server: Server, kind: str, owners: int) -> None:
    proxies: list[Proxy] = [new_proxy(redis_server) for _ in range(3)]
    clients = [new_agent().open(proxy, lease_ms=LEASE) for proxy in proxies]
    seats = 3 if "semaphore" in kind else 1
    crowds = [Crowd(client, one(client, kind, seats=seats), owners, seed) for seed, client in enumerate(clients)]

    def all_have_turns() -> None:
        before = [dict(crowd.turns) for crowd in crowds]
        until(lambda: all([crowd.went_on(then) for crowd, then in zip(crowds, before)]), 300)

    all_have_turns()
    for proxy in proxies:
        proxy.cut()
    all_have_turns()
    lost = [proxy.lose_reply(b":1\r\n", times=20) for proxy in proxies]  # the number at the end of an id: 1, 11, 21 ...
    all_have_turns()
    clients[1].agent.stop()
    stopped = crowds.pop(1)
    all_have_turns()
    clients[1].agent.resume()
    crowds.append(stopped)
    all_have_turns()
    clients[2].agent.kill()
    crowds.pop(1)
    if kind == "semaphore":  # its permits stay taken until somebody reclaims them
        until(lambda: any([crowd.step() for crowd in crowds]) or crowds[0].lock.permits_reclaim(0).ok.value > 0)
    all_have_turns()
    for crowd in crowds:
        crowd.stop()
    left = crowds[0].lock

    def all_is_free() -> bool:
        if kind == "semaphore":
            left.permits_reclaim(0).ok
        return bool(left.permits().ok.value == seats) if seats > 1 else image(redis_server) == {}

    until(all_is_free, 30)
    tell(done=1, fired=sum(hook.count for hook in lost) + 3)
