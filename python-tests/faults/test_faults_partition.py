"""Partitions: rows C, E and F of the matrix where clients and servers see only a part of the others. Each test counts that its fault
happened.
"""
from __future__ import annotations

import dataclasses
import random
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Client, now, until
from harness.cluster import Cluster
from harness.fake import FakeServer
from harness.faults import SLACK_MS, Fenced, Island, Namespace, can_drop_packets, times
from harness.proxy import Proxy
from harness.sentinel import SERVICE, Watched, ask
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
SENTINELS, LEASE = 3, 600


class Cut(Namespace):
    """A client's view: packets to the ports that it must not see are lost."""

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
    """The same with proxies, and with sentinels of the client's own that name the proxies."""

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
    """Four views of one primary with a replica and three sentinels."""
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


@pytest.mark.parametrize("graphs", times(4, 6))
@pytest.mark.parametrize("kind", [VIEW], ids=lambda kind: kind.__name__)
def test_c14_partial_partitions(views: list[Any], new_agent: Make, kind: Any, graphs: int) -> None:
    """Clients that see the primary may hold the lock, one at a time. Clients that see only a replica and sentinels wait or get an error. A
    holder that lost sight of the primary has lost the lock before anybody else gets it.
    """
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


# ---- E-08, F-05: the old primary lives on, in the minority, with a client


@pytest.fixture
def island(monkeypatch: pytest.MonkeyPatch) -> Iterator[Island]:
    """A network of its own for servers and clients. All others are outside and can be reached until the cut."""
    if not can_drop_packets():
        pytest.skip("servers in a network of their own need root, ip and nft")
    one = Island()
    monkeypatch.setattr(Server, "host", one.ours)
    try:
        yield one
    finally:
        one.close()


HOLDS = ("HELD", "AT_RISK")


@dataclasses.dataclass
class Split:
    """A client on the island with the primary, another outside; each one's view of the locks, and a resource that both can reach."""

    island: Island
    mine: Client
    other: Client
    fenced: Fenced
    overlaps: int = 0
    served: int = 0  # grants of the old primary after the cut
    refused: int = 0  # not confirmed by any replica

    def cut(self, held: str, new: str) -> None:
        """The cut: one lock is held before it, another is requested after it."""
        locks = [self.mine.lock(name) for name in (held, new)]
        until(lambda: locks[0].acquire(1, 5000).status == "OK", 60)
        self.other.ping(5000).ok
        before = self.mine.counters()["renewed"]
        until(lambda: self.mine.counters()["renewed"] > before)
        self.island.cut()
        answer = locks[1].acquire(1, 0)  # a wait would go on
        assert answer.status in ("OK", "NOT_REPLICATED"), answer
        self._count(answer.status)

    def _count(self, status: str) -> None:
        self.served += status == "OK"
        self.refused += status == "NOT_REPLICATED"

    def serve(self, name: str) -> None:
        """Requests go to the old primary until it refuses."""
        lock = self.mine.lock(name)
        while (answer := lock.acquire(1, 0)).status in ("OK", "NOT_REPLICATED"):
            self._count(answer.status)
            lock.release(1)
        assert answer.status in ("SERVER_LOADING", "UNREACHABLE") and answer.retryable, answer

    def grant(self, name: str) -> None:
        """The new primary grants a lock that the island may hold. From then on the resource accepts only the later token."""
        mine, other = self.mine.lock(name), self.other.lock(name)
        answers: list[Any] = []
        until(lambda: answers.append(other.acquire(1, 10_000)) or answers[-1].status == "OK", 60)
        believed = mine.state(1) in HOLDS
        self.overlaps += believed
        token = mine.token(1).token if believed else 0
        assert token < answers[-1].token, "a later grant has a lower token"
        assert not token or self.fenced.write(name, token)
        assert self.fenced.write(name, answers[-1].token)
        assert not token or not self.fenced.write(name, token)
        other.release(1).ok

    def heal(self, *names: str) -> None:
        """The island is connected again, and its client goes on at the new primary."""
        self.island.heal()
        for name in names:
            lock = self.mine.lock(name)
            if lock.state(1) != "NONE":
                lock.release(1)
            until(lambda: lock.acquire(1, 5000).status == "OK", 60)
            lock.release(1).ok

    def told(self, row: str, rounds: int, confirmed: bool) -> None:
        tell(done=rounds)
        print(f"{row}: {rounds} cuts, {self.served} grants of the old primary behind them, {self.refused} not confirmed, {self.overlaps} times two held")
        assert self.island.fired() > rounds
        if confirmed:
            assert (self.overlaps, self.served) == (0, 0) and self.refused >= rounds
        else:
            assert self.overlaps >= rounds and self.served >= rounds  # without confirmation this is expected


def split(island: Island, new_agent: Make, new_server: Make, url: str, replicas: str, lease: int) -> Split:
    """No replica confirms grants of the new primary: its replica is the old one."""
    options = {"lease_ms": lease, "command_timeout_ms": 500, "safety_ms": 300, "connects_per_second": 1000}
    mine = new_agent(prefix=island.prefix).open(url, replicas=replicas, **options)
    return Split(island, mine, new_agent().open(url, **options), Fenced(new_server()))


@pytest.mark.parametrize("rounds", times(1, 2, soak=5))
@pytest.mark.parametrize("replicas", [pytest.param("none", marks=pytest.mark.full), "all"])
def test_e08_split_brain(island: Island, new_agent: Make, new_server: Make, replicas: str, rounds: int) -> None:
    """The primary, one of three sentinels and a holder are cut off; the other sentinels promote the replica. Without confirmation two hold,
    and tokens tell them apart. With confirmation the holder has lost the lock before another gets it, and gets no grant on its side.
    """
    with Watched(sentinels=3, open_=True, island=island) as watched:
        both = split(island, new_agent, new_server, watched.url, replicas, 1500)
        for number in range(rounds):
            if number:
                watched.failover()
            old = watched.primary()
            assert old.prefix
            both.cut(f"held{number}", f"new{number}")
            both.grant(f"new{number}")
            both.grant(f"held{number}")
            new = watched.primary()
            assert not new.prefix
            ask(old, "REPLICAOF", new.host, new.port)  # the sentinels would take ten seconds
            both.heal(f"held{number}", f"new{number}")
            watched.until(watched.settled, 60)
        both.told("E-08", rounds, replicas == "all")


@pytest.mark.parametrize("rounds", times(1, 2, soak=4))
@pytest.mark.parametrize("replicas", [pytest.param("none", marks=pytest.mark.full), "all"])
def test_f05_primary_in_the_minority(island: Island, new_agent: Make, new_server: Make, replicas: str, rounds: int) -> None:
    """One primary of three and a holder are cut off. It goes on for cluster-node-timeout, then it refuses; the others promote its replica.
    Without confirmation its grants in that time are granted again, with higher tokens. With confirmation none of them counts: the
    holder has lost its lock before another gets it.
    """
    cluster = Cluster(3, 1, 1000, "--protected-mode", "no", island=island)
    try:
        both = split(island, new_agent, new_server, cluster.url, replicas, 8000 if replicas == "none" else 2000)
        old, slot = cluster.nodes[0], cluster.slot(cluster.key_of(cluster.nodes[0]))
        for number in range(rounds):
            if number:
                cluster.failover(cluster.owner(slot))
            assert cluster.owner(slot) is old
            held, new, spare = (cluster.key(slot, f"{what}{number}") for what in ("held", "new", "spare"))
            both.cut(held, new)
            both.serve(spare)
            both.grant(new)
            if replicas != "none":  # otherwise the new primary may know its lease
                both.grant(held)
            both.heal(held, new)
            cluster.until_settled()
        both.told("F-05", rounds, replicas != "none")
    finally:
        cluster.stop()
