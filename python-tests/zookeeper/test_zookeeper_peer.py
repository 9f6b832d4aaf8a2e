"""Java's Curator and libdlock on one name of ZooKeeper: they exclude each other and stand in one line."""
from __future__ import annotations

import re
import zipfile
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent
from harness.build import ROOT
from harness.zookeeper import Zookeeper
from harness.zookeeper.peer import MADE, Peer, prepare
from harness.waiting import until

pytestmark = pytest.mark.timeout(300)  # Maven fetches Curator, once

Make = Callable[..., Any]


@pytest.fixture
def peer(zookeeper: Zookeeper) -> Iterator[Peer]:
    with Peer(zookeeper, ttl=5) as peer:
        yield peer


def created(zookeeper: Zookeeper, index: int = 0) -> int:
    return int(zookeeper.admin.get(f"/job/{zookeeper.nodes('job')[index]}")[1].czxid)


def test_a_peer_that_holds_keeps_us_out(zookeeper: Zookeeper, peer: Peer, agent: Agent) -> None:
    lock = agent.open(zookeeper).lock("job")
    peer("lock a job")
    peer.wait("a locked")
    before = created(zookeeper)
    assert lock.acquire(1, 0).status == "BUSY"
    assert len(zookeeper.nodes("job")) == 1, "a try leaves nothing behind"
    waiting = lock.start("acquire", 1, -1, thread=1)
    until(lambda: len(zookeeper.nodes("job")) == 2)
    peer("unlock a")
    token = waiting.answer().ok.token
    assert token == created(zookeeper) and created(zookeeper) > before
    lock.release(1).ok
    assert zookeeper.nodes("job") == []


@pytest.mark.parametrize("kind", ["mutex", "write", "permits1"])
def test_a_peer_knows_no_gate(zookeeper: Zookeeper, peer: Peer, new_agent: Callable[..., Agent], kind: str) -> None:
    """It goes on while our gate is closed: it waits behind us, gets the lock, and keeps it."""
    name = "permit_semaphore" if kind == "permits1" else kind
    lock, other = (new_agent().open(zookeeper, safety_ms=60000).lock("job", kind=name) for _ in range(2))
    if kind == "permits1":
        lock.permits_set(1).ok
    lock.acquire(1, 0).ok
    waiting = other.start("acquire", 1, -1, thread=1)
    place = "job/locks" if kind == "permits1" else "job"
    until(lambda: len(zookeeper.nodes(place)) == (1 if kind == "permits1" else 2))
    peer(f"lock a job {kind}")
    until(lambda: len(zookeeper.nodes(place)) == (2 if kind == "permits1" else 3))
    lock.close_gate(60_000).ok
    assert waiting.answer().status == "GATE_CLOSED" and not peer.said("a locked")
    lock.release(1).ok
    peer.wait("a locked")
    assert lock.acquire(1, 0).status == "GATE_CLOSED"
    peer(f"try b job {kind}")
    peer.wait("b busy")
    lock.open_gate().ok
    assert lock.acquire(1, 0).status == "BUSY"
    peer("unlock a")
    peer.wait("a unlocked")
    lock.acquire(1, 5000).ok


def test_we_keep_a_peer_out(zookeeper: Zookeeper, peer: Peer, agent: Agent) -> None:
    lock = agent.open(zookeeper).lock("job")
    token = lock.acquire(1, 0).ok.token
    peer("try a job")
    peer.wait("a busy")
    peer("lock b job")
    until(lambda: len(zookeeper.nodes("job")) == 2)
    assert not peer.said("b locked")
    lock.release(1).ok
    peer.wait("b locked")
    assert created(zookeeper) > token
    peer("unlock b")
    peer.wait("b unlocked")
    assert lock.acquire(1, 0).ok.token > token


def test_one_line(zookeeper: Zookeeper, new_agent: Make) -> None:
    """Who came first is served first, whatever it is."""
    ours = [new_agent().open(zookeeper).lock("job", kind=kind) for kind in ("mutex", "fair")]
    with Peer(zookeeper) as first, Peer(zookeeper) as second:
        ours[0].acquire(1, 0).ok
        first("lock a job")
        until(lambda: len(zookeeper.nodes("job")) == 2)
        third = ours[1].start("acquire", 1, -1)
        until(lambda: len(zookeeper.nodes("job")) == 3)
        second("lock a job")
        until(lambda: len(zookeeper.nodes("job")) == 4)
        ours[0].release(1).ok
        first.wait("a locked")
        assert not third.ready() and not second.said("a locked")
        first("unlock a")
        third.answer().ok
        assert not second.said("a locked")
        ours[1].release(1).ok
        second.wait("a locked")


@pytest.mark.parametrize("ours", [True, False], ids=["we die", "the peer dies"])
def test_a_killed_holder_frees_the_lock(zookeeper: Zookeeper, new_agent: Make, ours: bool) -> None:
    agent = new_agent()
    lock = agent.open(zookeeper, lease_ms=2000).lock("job")
    with Peer(zookeeper, ttl=2) as peer:
        if ours:
            lock.acquire(1, 20000).ok
            peer("lock a job")
            until(lambda: len(zookeeper.nodes("job")) == 2)
            agent.kill()
            peer.wait("a locked")
        else:
            peer("lock a job")
            peer.wait("a locked")
            waiting = lock.start("acquire", 1, -1)
            until(lambda: len(zookeeper.nodes("job")) == 2)
            peer.kill()
            waiting.answer().ok


def test_readers_and_writers(zookeeper: Zookeeper, peer: Peer, new_agent: Make) -> None:
    """Both sides in one line: readers share, writers are alone, and a reader behind a waiting writer waits."""
    client = new_agent().open(zookeeper)
    reading, writing = client.lock("job", kind="read"), new_agent().open(zookeeper).lock("job", kind="write")
    reading.acquire(1, 0).ok
    peer("try a job read")
    peer.wait("a locked")
    peer("try b job write")
    peer.wait("b busy")
    assert writing.acquire(1, 0).status == "BUSY"
    wait = writing.start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("job")) == 3)
    peer("lock c job read")
    until(lambda: len(zookeeper.nodes("job")) == 4)
    reading.release(1).ok
    assert not wait.ready() and not peer.said("c locked")
    peer("unlock a")
    token = wait.answer().ok.token
    assert not peer.said("c locked")
    writing.release(1).ok
    peer.wait("c locked")
    peer("unlock c")
    peer("lock b job write")
    peer.wait("b locked")
    assert reading.acquire(1, 0).status == "BUSY"
    peer("unlock b")
    assert writing.acquire(1, -1).ok.token > token


def intervals(agent: Agent, lock: Any, times: int) -> list[tuple[int, int]]:
    held = []
    for _ in range(times):
        got = lock.acquire(1, -1).ok
        agent("live")  # another may have its turn
        back = lock.release(1).ok
        held.append((got.done, back.began))
    return held


def test_nobody_holds_at_once(zookeeper: Zookeeper, peer: Peer, agent: Agent) -> None:
    """A hundred holds on each side, by their intervals; and both sides had turns in between."""
    times = 100
    lock = agent.open(zookeeper).lock("job")
    peer(f"hold a job {times} 500")
    holds = [(got, back, 0) for got, back in intervals(agent, lock, times)]
    for _ in range(times):
        began, ended = peer.wait("a held")
        holds.append((int(began), int(ended), 1))
    holds.sort()
    assert all(before[1] <= after[0] for before, after in zip(holds, holds[1:]))
    assert sum(before[2] != after[2] for before, after in zip(holds, holds[1:])) > times / 10
    until(lambda: zookeeper.nodes("job") == [])


def rows() -> list[tuple[str, str]]:
    """Old and new calls of docs/coming-from.md."""
    lines = re.search(r"^\| Curator \| libdlock \|.*\n\| --- .*\n((?:\|.*\n)+)", (ROOT / "docs/coming-from.md").read_text(), re.M)
    assert lines
    found = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", lines[1], re.M)
    assert len(found) == lines[1].count("\n")
    return found


def test_coming_from_curator(zookeeper: Zookeeper) -> None:
    """Each new call of the page runs, row by row."""
    import dlock

    names: dict[str, Any] = {"dlock": dlock}
    for _, call in rows():
        code = call.replace("zookeeper://z1.example,z2.example", zookeeper.url)
        try:
            value = eval(compile(code, call, "eval"), names)
        except SyntaxError:
            value = exec(code, names)
        assert value is not False, call
    assert len(zookeeper.nodes("locks/sale")) == 1 and zookeeper.nodes("locks/price") == []
    names["client"].close()
    until(lambda: zookeeper.nodes("locks/sale") == [])


def test_names_of_curator() -> None:
    """Each class and each method that the page names is in Curator's jars, or in those of ZooKeeper."""
    prepare()
    known = b""
    for jar in [*(MADE / "jars").glob("curator-*.jar"), *(MADE / "jars").glob("zookeeper-*.jar")]:
        with zipfile.ZipFile(jar) as file:
            wanted = r"org/apache/(curator/framework/(CuratorFramework\w*|recipes/(locks|barriers)/\w+)|curator/CuratorZookeeperClient|zookeeper/(ZooKeeper|data/Stat))\.class"
            known += b"".join(file.read(name) for name in file.namelist() if re.fullmatch(wanted, name))
    for call, _ in rows():
        for name in re.findall(r"\b(\w+)\(", call):
            assert name.encode() in known, (name, call)
