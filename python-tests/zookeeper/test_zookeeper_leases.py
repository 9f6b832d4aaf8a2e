"""From when on a session counts after it has gone on by another connection, and with the ratios that servers have by default."""
from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Client, now
from harness.engines.members import ISLANDS, connected
from harness.faults import Island, times
from harness.tally import tell
from harness.waiting import until
from harness.zookeeper.fake import GREETING, SYNC, Call, FakeZookeeper

Make = Callable[..., Any]
LEASE = 4500
# tickTime and syncLimit of the example that comes with ZooKeeper, and what sessions may be by default: 2 to 20 ticks.
DEFAULTS = ("tickTime=2000", "initLimit=10", "syncLimit=5", "minSessionTimeout=4000", "maxSessionTimeout=40000")


@pytest.fixture
def fake() -> Iterator[FakeZookeeper]:
    with FakeZookeeper() as fake:
        yield fake


@pytest.mark.parametrize("name", ["job", "{job}"])
def test_a_welcome_has_the_margin_of_heartbeats(fake: FakeZookeeper, agent: Agent, name: str) -> None:
    """A member that was the leader says welcome, and answers a heartbeat and a renewal. A session lasts from a request of a quarter of its timeout before."""
    client = agent.open(fake, lease_ms=LEASE, connects_per_second=1000, command_timeout_ms=300)
    lock = client.lock(name)
    lock.acquire(1, 0).ok
    silent, once = threading.Event(), threading.Event()
    answered: list[int] = []

    def twist(call: Call, reply: bytes) -> bytes | None:
        if not silent.is_set() or call.op not in (GREETING, SYNC):
            return reply
        if not once.is_set() or answered.count(call.op) == (2 if call.op == SYNC else 1):
            call.link.shutdown(socket.SHUT_RDWR)
            return None
        answered.append(call.op)
        return reply

    fake.twist = twist
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 2)
    silent.set()
    until(lambda: lock.remaining(1).remaining < LEASE / 4)
    before, most = client.counters()["renewed"], 0
    once.set()
    while (answer := lock.remaining(1)).status == "OK":
        most = max(most, answer.remaining)
    assert answered == [GREETING, SYNC, SYNC] and client.loss().cause == "EXPIRED"
    assert most < 0.7 * LEASE, "the welcome has renewed it"
    assert client.counters()["renewed"] > before, "no renewal looked at it"


def at_a_follower(agent: Agent, island: Island, zookeeper: Any) -> Client:
    """A client whose session is not at the last member. It begins at any."""
    while True:
        client = agent.open(zookeeper, lease_ms=12_000, command_timeout_ms=1000)
        client.lock("first").acquire(1, 20_000).ok
        client.lock("first").release(1).ok
        if zookeeper.members[2] not in connected(island, zookeeper.members):
            return client
        client.close(5000)
        until(lambda: not connected(island, zookeeper.members))


@ISLANDS
@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.parametrize("rounds", times(1, 3, soak=10))
def test_z20_a_deposed_leader_with_the_default_ratios(new_zookeeper: Make, new_agent: Make, rounds: int) -> None:
    """The holder has a follower. It is cut off from it together with the leader, and goes on there. With 12 s and more, as docs/servers.md
    says, it is told before another one has the lock.
    """
    with contextlib.closing(Island()) as island:
        zookeeper = new_zookeeper(3, *DEFAULTS, places=[(island.ours, ()), (island.ours, ()), (island.theirs, tuple(island.prefix))])
        old, before = zookeeper.members[2], 0
        for _ in range(rounds):
            zookeeper.lead(old)
            ours, theirs = at_a_follower(new_agent(prefix=island.prefix), island, zookeeper), new_agent().open(zookeeper, lease_ms=12_000)
            token = ours.lock("job").acquire(1, 20_000).ok.token
            assert token > before
            island.cut()
            waiting = theirs.lock("job").start("acquire", 1, -1, thread=1)
            until(lambda: connected(island, [old]), 30)
            assert ours.loss().token == token
            told = now()
            got = waiting.answer(90).ok
            assert told < got.done and got.token > token, "both held"
            before = got.token
            island.heal()
            theirs.lock("job").release(1).ok
            ours.close(5000)
            theirs.close(5000)
            assert zookeeper.is_up(90)
        tell(done=rounds, fired=island.fired())
