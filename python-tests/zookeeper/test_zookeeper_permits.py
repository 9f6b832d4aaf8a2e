"""Permit semaphores on ZooKeeper: what the table of scenarios does not show; and Curator's InterProcessSemaphoreV2 on the same name."""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent
from harness.engines.nth import Nth
from harness.engines.permits import MEANWHILE, check_changes_meanwhile, check_permits
from harness.faults import always, times
from harness.tally import tell
from harness.waiting import until
from harness.zookeeper import Zookeeper, url
from harness.zookeeper.peer import Peer

pytestmark = pytest.mark.timeout(300)  # Maven fetches Curator, once

Make = Callable[..., Any]


def waits(client: Any, count: int) -> None:
    until(lambda: client.counters()["waiting"] == count)


@pytest.fixture
def peer(zookeeper: Zookeeper) -> Iterator[Peer]:
    with Peer(zookeeper, ttl=5) as peer:
        yield peer


def leases(zookeeper: Zookeeper) -> list[str]:
    return zookeeper.nodes("seats/leases")


def line(zookeeper: Zookeeper) -> list[str]:
    return zookeeper.nodes("seats/locks")


@pytest.mark.parametrize("count", times(10, 90))
def test_permits_are_never_exceeded(zookeeper: Zookeeper, agent: Agent, count: int) -> None:
    """Three processes of three threads: at most three permits are out at any time, three at some time, and each grant has its token."""
    agent.open(zookeeper).lock("seats", kind="permit_semaphore").permits_set(3).ok
    check_permits(zookeeper.url, count)
    until(lambda: leases(zookeeper) == line(zookeeper) == [])


def test_permits_of_a_dead_holder_come_back(zookeeper: Zookeeper, new_agent: Make) -> None:
    dies = new_agent()
    seats, other = (agent.open(zookeeper, lease_ms=2000).lock("seats", kind="permit_semaphore", safety_ms=60000) for agent in (dies, new_agent()))
    seats.permits_set(1).ok
    token = seats.acquire(1, 0).ok.token
    waiting = other.start("acquire", 1, -1)
    until(lambda: len(leases(zookeeper)) == 2)
    dies.kill()
    assert waiting.answer().ok.token > token


def test_nobody_is_passed(zookeeper: Zookeeper, new_agent: Make) -> None:
    """Who asks for two waits before one who asks for one, and is served first."""
    holder, large, small = (new_agent().open(zookeeper, safety_ms=60000) for _ in range(3))
    seats, two, one = (client.lock("seats", kind="permit_semaphore", permits=permits) for client, permits in ((holder, 1), (large, 2), (small, 1)))
    seats.permits_set(3).ok
    seats.acquire(1, 0).ok
    seats.acquire(2, 0).ok
    first = two.start("acquire", 1, -1, thread=1)
    waits(large, 1)
    until(lambda: len(leases(zookeeper)) == 4)
    second = one.start("acquire", 1, -1, thread=1)
    until(lambda: len(line(zookeeper)) == 2)
    assert one.acquire(2, 0).status == "BUSY"
    seats.release(1).ok
    first.answer().ok
    assert not second.ready()
    seats.release(2).ok
    second.answer().ok
    assert len(leases(zookeeper)) == 3 and line(zookeeper) == []


def test_more_permits_wake_the_first_in_line(zookeeper: Zookeeper, new_agent: Make) -> None:
    """It watches the total: also one that is not there yet."""
    seats, other = (new_agent().open(zookeeper, safety_ms=60000).lock("seats", kind="permit_semaphore") for _ in range(2))
    waiting = other.start("acquire", 1, -1)
    until(lambda: len(leases(zookeeper)) == 1)
    seats.permits_set(1).ok
    waiting.answer().ok
    more = other.start("acquire", 2, -1)
    until(lambda: len(leases(zookeeper)) == 2)
    assert seats.permits_add(1).status == "OK"
    more.answer().ok


def test_a_waiter_that_leaves(zookeeper: Zookeeper, new_agent: Make) -> None:
    """It takes its nodes away, those of its permits too."""
    holder, first, second = (new_agent().open(zookeeper, safety_ms=60000) for _ in range(3))
    locks = [client.lock("seats", kind="permit_semaphore") for client in (holder, first, second)]
    locks[0].permits_set(1).ok
    locks[0].acquire(1, 0).ok
    leaves = locks[1].start("acquire", 1, -1, thread=1)
    until(lambda: len(leases(zookeeper)) == 2)
    stays = locks[2].start("acquire", 1, -1, thread=1)
    until(lambda: len(line(zookeeper)) == 2)
    locks[1].cancel(1).ok
    assert leaves.answer().status == "CANCELLED"
    locks[0].release(1).ok
    stays.answer().ok
    assert len(leases(zookeeper)) == 1 and line(zookeeper) == []


def test_a_place_in_line_is_deleted(zookeeper: Zookeeper, new_agent: Make) -> None:
    """The first in line has made its permit's node. It gives that back, or the next one would wait for it, and it for the next one's."""
    holder, first, second = (new_agent().open(zookeeper, safety_ms=60000).lock("seats", kind="permit_semaphore") for _ in range(3))
    holder.permits_set(1).ok
    holder.acquire(1, 0).ok
    waiting = [(first, first.start("acquire", 1, -1))]
    until(lambda: len(leases(zookeeper)) == 2)
    waiting.append((second, second.start("acquire", 1, -1)))
    until(lambda: len(line(zookeeper)) == 2)
    zookeeper.admin.delete(f"/seats/locks/{line(zookeeper)[0]}")
    until(lambda: len(leases(zookeeper)) == 3 or len(line(zookeeper)) == 2)  # the next one has its node too; or the first one stands anew
    holder.release(1).ok
    until(lambda: any(answer.ready() for _, answer in waiting))
    for lock, answer in sorted(waiting, key=lambda one: not one[1].ready()):
        answer.answer().ok
        lock.release(1).ok
    assert leases(zookeeper) == line(zookeeper) == []


@pytest.mark.parametrize("which", [0, 1, 4])
def test_one_of_several_permits_is_deleted(zookeeper: Zookeeper, new_agent: Make, which: int) -> None:
    """The grant is lost, and its other permits go back."""
    client, other = new_agent().open(zookeeper, lease_ms=3000), new_agent().open(zookeeper, safety_ms=60000)
    five = client.lock("seats", kind="permit_semaphore", permits=5)
    five.permits_set(5).ok
    token = five.acquire(1, 0).ok.token
    zookeeper.admin.delete(f"/seats/leases/{leases(zookeeper)[which]}")
    until(lambda: client.counters()["lost"] == 1, 15)
    lost = client.loss()
    assert (lost.owner, lost.token) == (1, token)
    other.lock("seats", kind="permit_semaphore", permits=5).acquire(1, -1).ok


@pytest.mark.parametrize("rounds", times(10, 20))
@pytest.mark.parametrize("permits", always(1, full=[3]))
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_cut_at_every_message(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make, permits: int, way: str, rounds: int) -> None:
    """Requests (up) or answers (down) are lost at the nth message, for every n: each grant is one grant, and nothing is left."""
    direct = new_agent().open(zookeeper).lock("seats", kind="permit_semaphore", permits=4)
    direct.permits_set(4).ok
    agent, done, n = new_agent(), 0, 1
    while True:
        proxy = new_proxy(zookeeper.members[0])
        nth = Nth(getattr(proxy, way), n)
        client = agent.open(url(proxy), lease_ms=5000, command_timeout_ms=500)
        lock = client.lock("seats", kind="permit_semaphore", permits=permits)
        direct.acquire(9, -1).ok
        waiting = lock.start("acquire", 1, -1, thread=1)
        until(lambda: len(leases(zookeeper)) == 4 + permits)
        direct.release(9).ok
        waiting.answer().ok
        until(lambda: len(leases(zookeeper)) == permits and line(zookeeper) == [])
        lock.release(1)
        until(lambda: leases(zookeeper) == [])
        client.close(5000)
        proxy.close()
        done, n = done + nth.fired, n + 1
        if not nth.fired and done >= 8 or n > rounds:
            break
    assert done >= 8
    tell(done=done, fired=done)


def test_a_change_is_done_once(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make) -> None:
    """Answers are lost: each change acts once all the same."""
    proxy = new_proxy(zookeeper.members[0])
    client = new_agent().open(url(proxy), command_timeout_ms=900)
    seats, direct = client.lock("seats", kind="permit_semaphore"), new_agent().open(zookeeper).lock("seats", kind="permit_semaphore")
    direct.permits_set(1).ok
    for number in range(2, 8):
        proxy.lose_reply("seats/total", times=1)
        while (answer := seats.permits_add(1)).status != "OK":
            assert answer.status in ("UNREACHABLE", "UNKNOWN_OUTCOME"), answer
            if direct.permits().ok.value == number:
                break
        assert direct.permits().ok.value == number


@MEANWHILE
def test_others_change_the_number_meanwhile(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make, others: int, status: str, acted: bool) -> None:
    check_changes_meanwhile(new_agent, zookeeper, new_proxy(zookeeper.members[0]), others, status, acted)


@pytest.mark.parametrize("rounds", times(10, 30))
def test_a_try_leaves_no_node(zookeeper: Zookeeper, new_agent: Make, rounds: int) -> None:
    """Nor does it write."""
    holder, other = (new_agent().open(zookeeper).lock("seats", kind="permit_semaphore") for _ in range(2))
    holder.permits_set(1).ok
    holder.acquire(1, 0).ok
    assert other.acquire(1, 0).status == "BUSY"  # its session begins
    before = zookeeper.members[0].zxid()
    for _ in range(rounds):
        assert other.acquire(1, 0).status == "BUSY"
    assert zookeeper.members[0].zxid() <= before + 1 and len(leases(zookeeper)) == 1


# ---- Curator


@pytest.mark.parametrize("kind", ["permits2", "counted"])
def test_a_peer_and_we_share_permits(zookeeper: Zookeeper, peer: Peer, new_agent: Make, kind: str) -> None:
    """Both count the permits of the other, and stand in one line. counted: Curator's SharedCount is our total."""
    ours, other = (new_agent().open(zookeeper, safety_ms=60000).lock("seats", kind="permit_semaphore") for _ in range(2))
    ours.permits_set(2).ok
    peer(f"lock a seats {kind}")
    peer.wait("a locked")
    token = ours.acquire(1, 0).ok.token
    assert other.acquire(1, 0).status == "BUSY"
    peer(f"lock b seats {kind}")
    until(lambda: len(leases(zookeeper)) == 3)
    waiting = other.start("acquire", 1, -1, thread=1)
    until(lambda: len(line(zookeeper)) == 2)
    assert not peer.said("b locked")
    ours.release(1).ok
    peer.wait("b locked")
    assert not waiting.ready()
    peer("unlock a")
    assert waiting.answer().ok.token > token
    peer("unlock b")
    peer.wait("b unlocked")
    other.release(1).ok
    until(lambda: leases(zookeeper) == line(zookeeper) == [])


def test_a_peer_hears_of_more_permits(zookeeper: Zookeeper, peer: Peer, agent: Agent) -> None:
    seats = agent.open(zookeeper).lock("seats", kind="permit_semaphore")
    seats.permits_set(1).ok
    seats.acquire(1, 0).ok
    peer("lock a seats counted")
    until(lambda: len(leases(zookeeper)) == 2)
    seats.permits_add(1).ok
    peer.wait("a locked")


@pytest.mark.parametrize("ours", [True, False], ids=["we die", "the peer dies"])
def test_permits_of_the_dead(zookeeper: Zookeeper, new_agent: Make, ours: bool) -> None:
    agent = new_agent()
    seats = agent.open(zookeeper, lease_ms=2000).lock("seats", kind="permit_semaphore")
    seats.permits_set(1).ok
    with Peer(zookeeper, ttl=2) as peer:
        if ours:
            seats.acquire(1, 20000).ok
            peer("lock a seats permits1")
            until(lambda: len(leases(zookeeper)) == 2)
            agent.kill()
            peer.wait("a locked")
        else:
            peer("lock a seats permits1")
            peer.wait("a locked")
            waiting = seats.start("acquire", 1, -1)
            until(lambda: len(leases(zookeeper)) == 2)
            peer.kill()
            waiting.answer().ok
    tell(done=1, fired=1)
