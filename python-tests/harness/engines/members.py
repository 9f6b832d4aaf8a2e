"""Faults of the members of a cluster, which etcd and ZooKeeper must survive in the same way.

cluster is an Etcd or a Zookeeper, left lists what it has of the lock "job".
"""
from __future__ import annotations

import subprocess
from typing import Any, Callable, ContextManager, Sequence

import pytest

from ..agent import Agent, Client, now
from ..faults import Island, Namespace, can_drop_packets
from ..tally import tell
from ..waiting import until

ISLANDS = pytest.mark.skipif(not can_drop_packets(), reason="it needs network namespaces: run it as root, with ip, nft and nsenter")


def connected(net: Namespace, members: Sequence[Any]) -> list[Any]:
    """The members to which there is a connection from there."""
    links = subprocess.run([*net.prefix, "ss", "-Htn", "state", "established"], capture_output=True, text=True, check=True).stdout
    return [member for member in members if f"{member.host}:{member.port}" in links]


def cut_off_with_the_leader(island: Island, cluster: Any, leader: Any, agents: Sequence[Agent], lease_ms: int, rounds: int, left: Callable[[], Any]) -> None:
    """The leader and the first agent are on the island. Its hold is told as lost before the second agent has the lock, and nothing is left."""
    client, other = (agent.open(cluster, lease_ms=lease_ms, command_timeout_ms=500) for agent in agents)
    before = 0
    for _ in range(rounds):
        cluster.lead(leader)
        lock, theirs = client.lock("job"), other.lock("job")
        token = lock.acquire(1, 20000).ok.token
        assert token > before
        island.cut()
        waiting = theirs.start("acquire", 1, -1, thread=1)
        assert client.loss().token == token
        told = now()
        got = waiting.answer(60).ok
        assert got.done > told and got.token > token
        before = got.token
        island.heal()
        theirs.release(1).ok
        assert lock.release(1).status == "LOST"
        assert cluster.is_up(60)
        until(lambda: left() == [], timeout=30)
    tell(done=rounds, fired=island.fired())


def cut_off_from_a_member(net: Namespace, client: Client, cut: Callable[[], None], rounds: int) -> None:
    """cut drops packets to the member that the client uses: it goes on by another one, and keeps its lock."""
    kept, lock = client.lock("kept"), client.lock("job")
    token, last = kept.acquire(1, 20000).ok.token, 0
    for _ in range(rounds):
        cut()
        got = lock.acquire(1, 20000).ok.token
        until(lambda: kept.state(1) == "HELD")  # AT_RISK when a renewal was under way at the cut
        assert got > last and kept.token(1).ok.token == token
        last = got
        lock.release(1).ok
        net.heal()
    assert client.counters()["lost"] == 0 and net.fired() >= rounds
    tell(done=rounds, fired=net.fired())


def on_slow_disks(clients: Sequence[Client], slow: ContextManager[Callable[[], int]], write: Callable[[], Any], rounds: int, left: Callable[[], Any]) -> None:
    """In slow a sync takes longer than a command may, and write makes one: held locks stay, attempts that were given up leave nothing, and
    tokens grow.
    """
    kept = clients[0].lock("kept")
    token, last = kept.acquire(1, 5000).ok.token, 0
    with slow as syncs:
        write()
        for _ in range(rounds):
            for one in clients:
                lock = one.lock("job")
                answer = lock.acquire(1, 3000)
                assert answer.status in ("OK", "TIMED_OUT", "UNREACHABLE"), answer
                if answer.status == "OK":
                    assert answer.token > last
                    last = answer.token
                    assert lock.release(1).status in ("OK", "UNREACHABLE", "LOST")
        assert kept.token(1).ok.token == token
        fired = syncs()
    until(lambda: kept.state(1) == "HELD")  # AT_RISK while a renewal waits for a disk
    assert kept.token(1).ok.token == token
    lock = clients[-1].lock("job")
    assert lock.acquire(2, 20000).ok.token > last
    lock.release(2).ok
    until(lambda: left() == [], timeout=30)
    assert fired > rounds
    tell(done=rounds, fired=fired)
