"""Partial partitions: rows C of the matrix where a client sees a part of what there is. Each counts that its fault fired."""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Client, now, until
from harness.fake import FakeServer
from harness.faults import SLACK_MS, Fenced, Namespace, can_drop_packets, times
from harness.proxy import Proxy
from harness.sentinel import SERVICE, Watched, ask
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
SENTINELS, LEASE = 3, 600


class Cut(Namespace):
    """A client's view: what is sent to the ports it must not see is lost."""

    watched: Watched

    @property
    def places(self) -> str:
        return self.watched.url

    def see(self, primary: bool, replica: bool, sentinels: list[bool]) -> None:
        ports = [server.port for server, seen in zip(self.watched.sentinels, sentinels) if not seen]
        ports += [] if primary else [self.watched.primary().port]
        ports += [] if replica else [self.watched.replica().port]
        self.heal()
        self.drop_to(ports)


class Front:
    """The same by proxies, and by sentinels of the client's own that name them."""

    prefix: list[str] = []
    watched: Watched

    def __init__(self, _new_server: None) -> None:
        self.guards = [FakeServer() for _ in range(SENTINELS)]
        self.proxy: Proxy | None = None
        self.hidden = 0

    @property
    def places(self) -> str:
        self.proxy = Proxy((self.watched.primary().host, self.watched.primary().port))
        port = str(self.proxy.port).encode()
        self.named = b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n" % (len(port), port)
        self.see(True, True, [True] * SENTINELS)
        return f"redis+sentinel://{','.join(f'127.0.0.1:{guard.port}' for guard in self.guards)}/{SERVICE}"

    def see(self, primary: bool, replica: bool, sentinels: list[bool]) -> None:
        assert self.proxy
        self.proxy.up.blackhole = self.proxy.down.blackhole = not primary
        for guard, seen in zip(self.guards, sentinels):
            guard.on("SENTINEL", self.named if seen else self._silence)

    def _silence(self, _link: Any, _words: Any) -> bytes:
        self.hidden += 1
        return b""

    def fired(self) -> int:
        return self.hidden + (sum(sum(way.fired.values()) for way in (self.proxy.up, self.proxy.down)) if self.proxy else 0)

    def heal(self) -> None:
        self.see(True, True, [True] * SENTINELS)

    def close(self) -> None:
        for end in (*self.guards, *([self.proxy] if self.proxy else [])):
            end.close()


VIEW: Any = Cut if can_drop_packets() else Front


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Four, of one primary with a replica and three sentinels."""
    made: list[Any] = []
    watched: Watched | None = None
    try:
        for _ in range(4):
            made.append(VIEW(None))
        if VIEW is Cut:
            monkeypatch.setattr(Server, "host", made[0].ours)
        watched = Watched(sentinels=SENTINELS, open_=True)
        for view in made:
            view.watched = watched
        yield made
    finally:
        for view in made:
            view.close()
        if watched:
            watched.stop()


@pytest.mark.parametrize("graphs", times(4, 12))
@pytest.mark.parametrize("kind", [VIEW], ids=lambda kind: kind.__name__)
def test_c14_partial_partitions(views: list[Any], new_agent: Make, kind: Any, graphs: int) -> None:
    """Who sees the primary may have the lock, one at a time; who sees a replica and sentinels alone waits or is told, and who held the lock when
    the primary went out of sight has lost it before anybody else gets it."""
    options = {"lease_ms": LEASE, "command_timeout_ms": 200, "connect_timeout_ms": 300, "release_timeout_ms": 200, "safety_ms": 100, "connects_per_second": 1000}
    watched: Watched = views[0].watched
    clients: list[Client] = [new_agent(prefix=view.prefix).open(view.places, **options) for view in views]
    locks, fenced, chance = [client.lock("c14") for client in clients], Fenced(watched.primary()), random.Random(14)
    granted = blind = taken_away = 0
    for _ in range(graphs):
        for view in views:
            view.heal()
        holder = chance.randrange(len(locks))
        until(lambda: locks[holder].acquire(1, 5000).status == "OK", 30)
        assert fenced.write("c14", locks[holder].token(1).token)
        sees = [chance.random() < 0.5 for _ in views]
        if not any(sees):
            sees[chance.randrange(len(sees))] = True
        for view, seen in zip(views, sees):
            view.see(seen, chance.random() < 0.7, [chance.random() < 0.6 for _ in range(SENTINELS)])
        waits = {i: lock.start("acquire", 1, 1500, thread=1) for i, lock in enumerate(locks) if i != holder}
        if not sees[holder]:
            until(lambda: locks[holder].state(1) == "LOST")
            taken_away += 1
        for i, wait in waits.items():
            answer = wait.answer(30)
            assert answer.status in ("OK", "TIMED_OUT", "UNREACHABLE", "BUSY"), answer
            if answer.status != "OK":
                blind += not sees[i]
                continue
            assert sees[i], "a grant without the primary"
            granted += 1
            others = [other.state(1) for n, other in enumerate(locks) if n != i]
            assert not {"HELD", "AT_RISK"} & set(others) or locks[i].state(1) not in ("HELD", "AT_RISK"), "two holders"
            fenced.write("c14", answer.token)
            locks[i].release(1)
        locks[holder].release(1)
    for view in views:
        view.heal()
    tell(done=graphs)
    seen = fenced.witness("c14")
    assert all(taken for _, taken in seen) and [token for token, _ in seen] == sorted(token for token, _ in seen)
    assert ask(watched.replica(), "INFO", "commandstats").count(b"cmdstat_evalsha") == 0, "a replica was asked for a lock"
    print(f"C-14: {graphs} graphs by {kind.__name__}, {granted} grants to who saw the primary, {blind} waited in vain without it, {taken_away} lost in time, "
          f"{sum(view.fired() for view in views)} packets lost")  # fmt: skip
    assert sum(view.fired() for view in views) > graphs and blind > 0
