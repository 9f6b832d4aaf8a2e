"""Faults of the members of ZooKeeper: they cannot be reached, have a slow or full disk, or a clock that jumps."""
from __future__ import annotations

import contextlib
import os
import pathlib
from typing import Any, Callable

import pytest
from kazoo.exceptions import KazooException

from harness.engines.disks import SLOW, fill, slow_syncs, small_disk
from harness.engines.members import ISLANDS, connected, cut_off_from_a_member, cut_off_with_the_leader, on_slow_disks
from harness.faults import Island, Namespace, times
from harness.tally import tell
from harness.zookeeper import LOCAL, Zookeeper

Make = Callable[..., Any]


# ---- partitions


@ISLANDS
@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("rounds", times(1, 2, soak=10))
def test_z15_a_leader_without_followers(new_zookeeper: Make, new_agent: Make, rounds: int) -> None:
    """The leader and a holder are cut off from the others: the holder is told before another one has the lock, and nothing is left."""
    with contextlib.closing(Island()) as island:
        zookeeper = new_zookeeper(3, places=[(island.ours, ()), (island.ours, ()), (island.theirs, tuple(island.prefix))])
        agents = new_agent(prefix=island.prefix), new_agent()
        cut_off_with_the_leader(island, zookeeper, zookeeper.members[2], agents, 4000, rounds, lambda: zookeeper.nodes("job"))


@ISLANDS
@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("rounds", times(2, 4, soak=20))
def test_z16_a_client_that_does_not_reach_its_member(new_zookeeper: Make, new_agent: Make, rounds: int) -> None:
    """Packets to the member that its session is at are lost: it goes on by another member, and keeps its lock."""
    with contextlib.closing(Namespace(None)) as net:
        zookeeper = new_zookeeper(3, places=[(net.ours, ())] * 3)
        client = new_agent(prefix=net.prefix).open(zookeeper, lease_ms=6000, command_timeout_ms=500)
        cut_off_from_a_member(net, client, lambda: net.drop_to([member.port for member in connected(net, zookeeper.members)]), rounds)


# ---- disks


@SLOW
@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("rounds", times(1, 4, soak=30))
def test_z17_slow_disks(new_zookeeper: Make, new_agent: Make, rounds: int, tmp_path: pathlib.Path) -> None:
    """Two of three members take 0.7 s for each sync, longer than a command may take: held locks stay, attempts that were given up leave
    nothing, and tokens grow.
    """
    zookeeper = new_zookeeper(3)
    clients = [new_agent().open(zookeeper, lease_ms=30000, command_timeout_ms=600) for _ in range(2)]
    slow = slow_syncs([member.process.pid for member in zookeeper.members[:2]], tmp_path)
    on_slow_disks(clients, slow, lambda: zookeeper.admin.create("/sync"), rounds, lambda: zookeeper.nodes("job"))


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.skipif(os.geteuid() != 0, reason="it needs a file system of its own: run it as root")
def test_z18_a_full_disk(new_agent: Make, tmp_path: pathlib.Path) -> None:
    """The leader's disk is full: it leads no more, held locks stay, and the others serve."""
    with small_disk(tmp_path, "40m") as small, Zookeeper(3, places=[LOCAL] * 3, folders={2: small / "data"}) as zookeeper:
        full = zookeeper.members[2]
        zookeeper.lead(full)
        client = new_agent().open(zookeeper, lease_ms=20000, command_timeout_ms=700)
        kept, lock = client.lock("kept"), client.lock("job")
        token = kept.acquire(1, 5000).ok.token
        fill(small)
        for number in range(200):
            if full.mode() != "leader":
                break
            with contextlib.suppress(KazooException):
                zookeeper.admin.create(f"/large{number}", bytes(500_000))
        assert full.mode() != "leader", "the disk was not full"
        assert lock.acquire(1, 20000).ok.token > token
        lock.release(1).ok
        assert (kept.state(1), kept.token(1).ok.token) == ("HELD", token)
        tell(done=1, fired=1)


# ---- clocks


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.skipif(os.geteuid() != 0, reason="it needs time namespaces: run it as root")
@pytest.mark.parametrize("rounds", times(1, 4))
def test_z19_a_clock_that_is_a_day_ahead(new_zookeeper: Make, new_agent: Make, rounds: int) -> None:
    """The clock by which a member measures sessions is a day ahead: when it becomes the leader, no session ends by that, and none stays."""
    ahead = ("unshare", "--time", "--fork", "--kill-child", "--monotonic", "86400", "--boottime", "86400")
    zookeeper = new_zookeeper(3, places=[LOCAL, LOCAL, ("127.0.0.1", ahead)])
    agent = new_agent()
    kept, dies = new_agent().open(zookeeper, lease_ms=20000).lock("kept"), agent.open(zookeeper, lease_ms=20000).lock("job")
    token = kept.acquire(1, 5000).ok.token
    dies.acquire(1, 5000).ok
    for _ in range(rounds):
        zookeeper.lead(zookeeper.members[2])
        assert kept.agent("live").status == "OK" and (kept.state(1), kept.token(1).ok.token) == ("HELD", token)
        zookeeper.members[2].kill()
        zookeeper.wait_for_another(zookeeper.members[2])
        zookeeper.members[2].start(zookeeper.members)
        assert zookeeper.is_up(60) and zookeeper.leader() is not zookeeper.members[2]
        assert (kept.token(1).ok.token, dies.state(1)) == (token, "HELD")
    zookeeper.lead(zookeeper.members[2])
    agent.kill()
    assert new_agent().open(zookeeper).lock("job").start("acquire", 1, -1).answer(90).ok.token > token
    tell(done=rounds, fired=2 * rounds)
