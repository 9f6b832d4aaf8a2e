"""Go's clientv3/concurrency and libdlock on one name of etcd: they exclude each other and stand in one line."""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent
from harness.etcd import Etcd
from harness.etcd.peer import Peer
from harness.golang import GO
from harness.waiting import until

pytestmark = [
    pytest.mark.timeout(300),  # the first build of the peer takes long
    pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go"),
]

Make = Callable[..., Any]


@pytest.fixture
def peer(etcd: Etcd) -> Iterator[Peer]:
    with Peer(etcd.nodes[0], ttl=5) as peer:
        yield peer


def created(etcd: Etcd, index: int = 0) -> int:
    return int(etcd.found("job/")[index]["create_revision"])


def test_a_peer_that_holds_keeps_us_out(etcd: Etcd, peer: Peer, agent: Agent) -> None:
    lock = agent.open(etcd).lock("job")
    peer("lock a job")
    peer.wait("a locked")
    before = created(etcd)
    assert lock.acquire(1, 0).status == "BUSY"
    assert len(etcd.keys("job/")) == 1, "a try leaves nothing behind"
    waiting = lock.start("acquire", 1, -1, thread=1)
    until(lambda: len(etcd.keys("job/")) == 2)
    peer("unlock a")
    token = waiting.answer().ok.token
    assert token == 128 * created(etcd) and created(etcd) > before
    lock.release(1).ok
    assert etcd.keys("job/") == []


def test_we_keep_a_peer_out(etcd: Etcd, peer: Peer, agent: Agent) -> None:
    lock = agent.open(etcd).lock("job")
    token = lock.acquire(1, 0).ok.token
    peer("try a job")
    peer.wait("a busy")
    peer("lock b job")
    until(lambda: len(etcd.keys("job/")) == 2)
    assert not peer.said("b locked")
    lock.release(1).ok
    peer.wait("b locked")
    assert 128 * created(etcd) > token
    peer("unlock b")
    peer.wait("b unlocked")
    assert lock.acquire(1, 0).ok.token > token


def test_one_line(etcd: Etcd, new_agent: Make) -> None:
    """Who came first is served first, whatever it is."""
    ours = [new_agent().open(etcd).lock("job", kind=kind) for kind in ("mutex", "fair")]
    with Peer(etcd.nodes[0]) as first, Peer(etcd.nodes[0]) as second:
        ours[0].acquire(1, 0).ok
        first("lock a job")
        until(lambda: len(etcd.keys("job/")) == 2)
        third = ours[1].start("acquire", 1, -1)
        until(lambda: len(etcd.keys("job/")) == 3)
        second("lock a job")
        until(lambda: len(etcd.keys("job/")) == 4)
        ours[0].release(1).ok
        first.wait("a locked")
        assert not third.ready() and not second.said("a locked")
        first("unlock a")
        third.answer().ok
        assert not second.said("a locked")
        ours[1].release(1).ok
        second.wait("a locked")


@pytest.mark.parametrize("ours", [True, False], ids=["we die", "the peer dies"])
def test_a_killed_holder_frees_the_lock(etcd: Etcd, new_agent: Make, ours: bool) -> None:
    agent = new_agent()
    lock = agent.open(etcd, lease_ms=2000).lock("job")
    with Peer(etcd.nodes[0], ttl=2) as peer:
        if ours:
            lock.acquire(1, 0).ok
            peer("lock a job")
            until(lambda: len(etcd.keys("job/")) == 2)
            agent.kill()
            peer.wait("a locked")
        else:
            peer("lock a job")
            peer.wait("a locked")
            waiting = lock.start("acquire", 1, -1)
            until(lambda: len(etcd.keys("job/")) == 2)
            peer.kill()
            waiting.answer().ok


def intervals(agent: Agent, lock: Any, times: int) -> list[tuple[int, int, int]]:
    held = []
    for _ in range(times):
        got = lock.acquire(1, -1).ok
        agent("live")  # another may have its turn
        back = lock.release(1).ok
        held.append((got.done, back.began, got.token))
    return held


def test_nobody_holds_at_once(etcd: Etcd, peer: Peer, agent: Agent) -> None:
    """A hundred holds on each side, by their intervals; both sides had turns in between; and tokens grow from one side to the other."""
    times = 100
    lock = agent.open(etcd).lock("job")
    peer(f"hold a job {times} 500")
    holds = [(*one, 0) for one in intervals(agent, lock, times)]
    for _ in range(times):
        revision, began, ended = peer.wait("a held")
        holds.append((int(began), int(ended), 128 * int(revision), 1))
    holds.sort()
    assert all(before[1] <= after[0] and before[2] < after[2] for before, after in zip(holds, holds[1:]))
    assert sum(before[3] != after[3] for before, after in zip(holds, holds[1:])) > times / 10
    until(lambda: etcd.keys("job/") == [])
