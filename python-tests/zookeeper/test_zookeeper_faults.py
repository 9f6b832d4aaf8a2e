"""Faults on ZooKeeper: what is lost on the way, holders that stop, sessions that end, nodes that are deleted, members that fail."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any, Callable

import pytest

from harness.agent import Agent, now
from harness.build import LIBRARY, ROOT
from harness.engines.forks import check_apart, check_not_kept
from harness.engines.nth import Nth
from harness.zookeeper import Zookeeper, url
from harness.faults import times
from harness.tally import tell
from harness.waiting import until

Make = Callable[..., Any]


# ---- messages


@pytest.mark.parametrize("rounds", times(12, 30))
@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_z01_a_cut_at_every_message(zookeeper: Zookeeper, new_proxy: Make, new_agent: Make, way: str, kind: str, rounds: int) -> None:
    """Requests (up) or answers (down) are lost at the nth message, for every n: each grant is one grant, and nothing is left."""
    watcher = new_agent().open(zookeeper).lock("job", kind=kind)
    agent, done, n, last = new_agent(), 0, 1, 0
    while True:
        proxy = new_proxy(zookeeper.members[0])
        nth = Nth(getattr(proxy, way), n)
        client = agent.open(url(proxy), lease_ms=5000, command_timeout_ms=500)
        lock = client.lock("job", kind=kind)
        watcher.acquire(9, -1).ok
        waiting = lock.start("acquire", 1, -1, thread=1)
        until(lambda: len(zookeeper.nodes("job")) == 2)
        token = watcher.token(9).ok.token
        watcher.release(9).ok
        mine = waiting.answer().ok.token
        assert mine > token and len(zookeeper.nodes("job")) == 1
        assert watcher.acquire(9, 0).status == "BUSY"
        lock.release(1).ok
        again = lock.acquire(1, -1).ok.token
        assert again > mine
        lock.release(1).ok
        last = watcher.acquire(9, -1).ok.token
        assert last > again
        watcher.release(9).ok
        client.close(5000)
        until(lambda: zookeeper.nodes("job") == [])
        done += 1
        if not nth.fired:
            break
        n += 1
        if n > rounds:
            break
    tell(done=done, fired=done - 1)
    assert done > 5


@pytest.mark.parametrize("rounds", times(3, 15))
def test_z02_a_late_create_leaves_nothing(new_zookeeper: Make, new_agent: Make, rounds: int) -> None:
    """A member stops with a request in its socket, and goes on when the request was given up: no node stays."""
    zookeeper = new_zookeeper(1)
    agent = new_agent()
    client = agent.open(zookeeper, lease_ms=30000, command_timeout_ms=300)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    for _ in range(rounds):
        zookeeper.members[0].pause()
        assert lock.acquire(1, 200).status in ("TIMED_OUT", "UNREACHABLE")
        zookeeper.members[0].resume()
        until(lambda: agent("live").status == "OK" and zookeeper.nodes("job") == [])
        lock.acquire(2, 5000).ok
        assert len(zookeeper.nodes("job")) == 1
        lock.release(2).ok
        until(lambda: zookeeper.nodes("job") == [])
    tell(done=rounds, fired=rounds)


def test_z02_a_create_of_an_old_connection_is_refused(new_zookeeper: Make, new_proxy: Make, new_agent: Make) -> None:
    """It waits in the network while the session moves to another member and its number is given up: no node appears."""
    zookeeper = new_zookeeper(3)
    proxies = [new_proxy(member) for member in zookeeper.members]
    hosts = ",".join(f"{proxy.host}:{proxy.port}" for proxy in proxies)
    client = new_agent().open(f"zookeeper://{hosts}", lease_ms=30000, command_timeout_ms=300)
    warm = client.lock("warm")
    warm.acquire(1, 5000).ok
    used = next(proxy for proxy in proxies if proxy.links)
    gate = used.up.pause_at("late/_c_")
    assert client.lock("late").acquire(1, 200).status in ("TIMED_OUT", "UNREACHABLE")
    gate.wait()
    until(lambda: any(proxy.links for proxy in proxies if proxy is not used))
    client.ping(5000).ok
    links = len(used.links)
    gate.open()
    until(lambda: len(used.links) < links)
    client.lock("late").acquire(2, 5000).ok
    assert len(zookeeper.nodes("late")) == 1 and warm.state(1) == "HELD"


@pytest.mark.parametrize("rounds", times(3, 15))
def test_z14_an_undo_deletes_its_own_node(zookeeper: Zookeeper, new_proxy: Make, new_agent: Make, rounds: int) -> None:
    """The answer to a try is lost. What it left is removed, and the holder's node is not."""
    holder = new_agent().open(zookeeper).lock("job")
    proxy = new_proxy(zookeeper.members[0])
    lock = new_agent().open(url(proxy), command_timeout_ms=900, connects_per_second=1000).lock("job")
    token = holder.acquire(1, 0).ok.token
    (node,) = zookeeper.nodes("job")
    for _ in range(rounds):
        lost_one = proxy.lose_reply("job/_c_")
        assert lock.acquire(1, 0).status in ("UNREACHABLE", "UNKNOWN_OUTCOME")
        lost_one.wait()
        until(lambda: zookeeper.nodes("job") == [node])
    assert (holder.state(1), holder.token(1).ok.token) == ("HELD", token)
    tell(done=rounds, fired=rounds)


# ---- holders


def test_z03_a_stopped_holder_is_told(zookeeper: Zookeeper, new_agent: Make) -> None:
    """A holder stops for longer than its lease: another one has the lock with a higher token, and the first is told when it goes on."""
    first, second = new_agent(), new_agent()
    client = first.open(zookeeper, lease_ms=1000)
    lock, other = client.lock("job"), second.open(zookeeper, lease_ms=1000).lock("job")
    token = lock.acquire(1, 0).ok.token
    first.stop()
    later = other.acquire(1, -1).ok.token
    assert later > token
    first.resume()
    event = client.loss()
    assert event.token == token and lock.state(1) == "LOST"
    assert lock.release(1).status == "LOST"
    assert other.state(1) == "HELD"
    other.release(1).ok


def test_z03_a_holder_that_is_cut_off_is_told_first(zookeeper: Zookeeper, new_proxy: Make, new_agent: Make) -> None:
    """Nothing goes through between holder and server: the holder is told before another one has the lock, by its own clock."""
    proxy = new_proxy(zookeeper.members[0])
    client, other = new_agent().open(url(proxy), lease_ms=2000), new_agent().open(zookeeper)
    token = client.lock("job").acquire(1, 0).ok.token
    waiting = other.lock("job").start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("job")) == 2 and client.counters()["renewed"] > 0)
    proxy.strand()
    proxy.refuse()
    event = client.loss()
    told = now()
    assert event.token == token and event.cause == "EXPIRED"
    assert waiting.answer().ok.done > told


def test_z04_an_operator_deletes_the_node(zookeeper: Zookeeper, agent: Agent) -> None:
    """The holder is told, although its session lives."""
    client = agent.open(zookeeper, lease_ms=1500)
    lock = client.lock("job")
    token = lock.acquire(1, 0).ok.token
    zookeeper.admin.delete(f"/job/{zookeeper.nodes('job')[0]}")
    event = client.loss()
    assert (event.token, event.cause) == (token, "TAKEN")
    assert lock.acquire(2, 5000).ok.token > token
    lock.release(2).ok


def test_z04_a_node_is_deleted_while_the_connection_is_down(zookeeper: Zookeeper, new_proxy: Make, agent: Agent) -> None:
    """No watch tells: the holder looks when it is back."""
    proxy = new_proxy(zookeeper.members[0])
    client = agent.open(url(proxy), lease_ms=6000, connects_per_second=1000)
    token = client.lock("job").acquire(1, 20000).ok.token
    until(lambda: client.counters()["renewed"] > 0)
    proxy.refuse()
    proxy.cut()
    zookeeper.admin.delete(f"/job/{zookeeper.nodes('job')[0]}")
    proxy.accept()
    event = client.loss()
    assert (event.token, event.cause) == (token, "TAKEN")


def test_z05_an_operator_ends_the_session(zookeeper: Zookeeper, agent: Agent) -> None:
    """All its locks are lost at once, by the server's word, and the next lock gets another session."""
    client = agent.open(zookeeper, lease_ms=60000)
    locks = [client.lock(f"job{number}") for number in range(5)]
    tokens = {lock.acquire(1, 0).ok.token for lock in locks}
    zookeeper.expire(f"/job0/{zookeeper.nodes('job0')[0]}")
    began = now()
    assert {client.loss().token for _ in locks} == tokens
    assert now() - began < 10_000_000, "by the word of the server, and not by the clock"
    other = client.lock("other")
    assert other.acquire(1, 5000).ok.token > max(tokens)
    assert locks[0].acquire(2, 5000).ok.token > max(tokens)
    assert other.state(1) == "HELD"


@pytest.mark.parametrize("safety", [1000, 60000])
@pytest.mark.parametrize("what", ["node", "session"])
def test_z06_a_waiter_whose_node_vanishes_stands_in_line_anew(zookeeper: Zookeeper, new_agent: Make, what: str, safety: int) -> None:
    """Its place is lost, its wait is not. One that looks again soon does not watch its own node at first."""
    holder, waiter = (new_agent().open(zookeeper, lease_ms=30000).lock("job", safety_ms=safety) for _ in range(2))
    holder.acquire(1, 0).ok
    waiting = waiter.start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("job")) == 2)
    node = zookeeper.nodes("job")[1]
    if safety > 1000:
        until(lambda: node in zookeeper.members[0].word("wchp"))
    if what == "node":
        zookeeper.admin.delete(f"/job/{node}")
    else:
        zookeeper.expire(f"/job/{node}")
    until(lambda: len(zookeeper.nodes("job")) == 2 and node not in zookeeper.nodes("job"), timeout=5)
    holder.release(1).ok
    waiting.answer().ok


@pytest.mark.parametrize("rounds", times(5, 30))
def test_z07_the_connection_is_cut_under_a_watch(zookeeper: Zookeeper, new_proxy: Make, new_agent: Make, rounds: int) -> None:
    """The lock is released while the waiter has no connection; the wake-up comes all the same."""
    proxy = new_proxy(zookeeper.members[0])
    holder = new_agent().open(zookeeper).lock("job", safety_ms=60000)
    waiter = new_agent().open(url(proxy), connects_per_second=1000).lock("job", safety_ms=60000)
    for _ in range(rounds):
        holder.acquire(1, -1).ok
        waiting = waiter.start("acquire", 1, -1)
        until(lambda: len(zookeeper.nodes("job")) == 2)
        proxy.refuse()
        proxy.cut()
        holder.release(1).ok
        proxy.accept()
        waiting.answer().ok
        waiter.release(1).ok
    tell(done=rounds, fired=rounds)


@pytest.mark.parametrize("rounds", times(200, 600))
def test_z08_renewals_cost_nothing_per_lock(zookeeper: Zookeeper, agent: Agent, rounds: int) -> None:
    """The number of held locks does not show in what keeps them: one session, and none of them is lost."""
    client = agent.open(zookeeper, lease_ms=1500)
    locks = [client.lock(f"job/{number}") for number in range(rounds)]
    for lock in locks:
        lock.acquire(1, 0).ok
    assert zookeeper.sessions() == 1
    until(lambda: client.counters()["renewed"] > len(locks))  # each has its watch
    began, renewed = zookeeper.received(), client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > renewed + 3 * len(locks))
    assert zookeeper.received() < began + len(locks), "heartbeats only"
    assert all(lock.state(1) == "HELD" for lock in locks)


def test_z09_close_leaves_nothing(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper)
    client.lock("job").acquire(1, 0).ok
    client.lock("other", lease_ms=5000).acquire(1, 0).ok
    assert zookeeper.sessions() == 2
    client.close(5000).ok
    until(lambda: zookeeper.sessions() == 0 and zookeeper.nodes("job") == zookeeper.nodes("other") == [])


def test_z10_a_fork_does_not_keep_the_session(zookeeper: Zookeeper, agent: Agent) -> None:
    check_not_kept(agent, zookeeper)


def test_z10_a_child_has_its_own_session(zookeeper: Zookeeper, new_agent: Make) -> None:
    check_apart(new_agent(), new_agent().open(zookeeper), zookeeper)


# ---- members


@pytest.mark.parametrize("rounds", times(2, 4, soak=20))
@pytest.mark.parametrize("how", ["kill", pytest.param("pause", marks=pytest.mark.full)])
def test_z11_the_leader_fails(new_zookeeper: Make, new_agent: Make, how: str, rounds: int) -> None:
    """Held locks are kept, waiters are served, tokens grow, whoever leads."""
    zookeeper = new_zookeeper(3)
    agents = [new_agent() for _ in range(3)]
    clients = [agent.open(zookeeper, lease_ms=30000, command_timeout_ms=1000) for agent in agents]
    kept = clients[0].lock("kept")
    kept_token = kept.acquire(1, 5000).ok.token
    before = 0
    for _ in range(rounds):
        locks = [client.lock("job") for client in clients]
        token = locks[0].acquire(1, 20000).ok.token
        assert token > before
        waiting = locks[1].start("acquire", 1, -1)
        until(lambda: len(zookeeper.nodes("job")) == 2)
        leader = zookeeper.leader()
        getattr(leader, how)()
        if how == "kill":
            began = now()
        locks[0].release(1)
        before = waiting.answer(40).ok.token
        assert before > token
        locks[1].release(1)
        if how == "kill":
            leader.restart()
        else:
            leader.resume()
        assert zookeeper.is_up(30)
        until(lambda: kept.state(1) != "AT_RISK")
        assert kept.state(1) == "HELD" and kept.token(1).ok.token == kept_token
        until(lambda: zookeeper.nodes("job") == [], timeout=30)
    tell(done=rounds, fired=rounds)


WORKER = """
import select, sys, time, dlock
url, names, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with dlock.Client(url, lease_ms=4000, command_timeout_ms=700, connects_per_second=50) as client:
    locks = [getattr(client, kind)(f"load{number}") for number in range(names)]
    turn = failed = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        lock, turn = locks[turn % names], turn + 1
        try:
            if not lock.acquire(timeout=20):
                continue
        except dlock.DlockError:
            failed += 1
            continue
        began, token = time.monotonic_ns(), lock.token
        time.sleep(0.001)
        sure, ended = lock.held, time.monotonic_ns()
        print(turn % names, began, ended if sure else began, token)
        try:
            lock.release()
        except dlock.DlockError:
            failed += 1
    print("failed", failed, file=sys.stderr)
"""


@pytest.mark.parametrize("kind", ["lock", pytest.param("write_lock", marks=pytest.mark.full)])
@pytest.mark.parametrize("changes", times(1, 4, 600, 20))
def test_z11_leader_changes_under_load(new_zookeeper: Make, new_agent: Make, tmp_path: pathlib.Path, changes: int, kind: str) -> None:
    """Four processes, three names: nobody holds at once, tokens grow per name, and everything is served after each change."""
    zookeeper = new_zookeeper(3)
    keeper = new_agent().open(zookeeper, lease_ms=10000)
    kept = keeper.lock("kept")
    token = kept.acquire(1, 5000).ok.token
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    command = [sys.executable, "-c", WORKER, zookeeper.url, "3", kind]
    told = [tmp_path / str(number) for number in range(4)]  # a pipe would be full
    workers = []
    for path in told:
        with open(path, "wb") as out:
            workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL, env=env))
    for change in range(changes):
        until(lambda: any(zookeeper.nodes(f"load{number}") for number in range(3)))
        leader = zookeeper.leader()
        getattr(leader, ("kill", "pause")[change % 2])()
        revision = until(lambda: next((one.zxid() for one in zookeeper.members if one is not leader), 0), timeout=20)
        others = next(one for one in zookeeper.members if one is not leader)
        until(lambda: others.zxid() > revision + 20, timeout=20)  # they are served
        renewed = keeper.counters()["renewed"]
        until(lambda: keeper.counters()["renewed"] > renewed, timeout=20)
        leader.restart() if change % 2 == 0 else leader.resume()
        assert zookeeper.is_up(30)
    for worker in workers:
        worker.communicate()
    rows = [tuple(map(int, line.split())) for path in told for line in path.read_text().splitlines()]
    for name in range(3):
        holds = sorted(row[1:] for row in rows if row[0] == name)
        assert len(holds) > 20 * changes
        for before, after in zip(holds, holds[1:]):
            assert before[1] <= after[0] and before[2] < after[2], "two holders, or a token that falls"
    until(lambda: kept.state(1) != "AT_RISK")
    assert kept.state(1) == "HELD" and kept.token(1).ok.token == token
    tell(done=changes, fired=changes)


def test_z12_a_member_that_is_down_is_left(new_zookeeper: Make, new_agent: Make) -> None:
    zookeeper = new_zookeeper(3)
    lock = new_agent().open(zookeeper, command_timeout_ms=500).lock("job")
    for member in zookeeper.members:
        member.pause()
        lock.acquire(1, 20000).ok
        lock.release(1).ok
        member.resume()
        assert zookeeper.is_up()


def test_z13_no_member_answers(new_zookeeper: Make, agent: Agent) -> None:
    """A clear refusal within the time, and service when they are back."""
    zookeeper = new_zookeeper(1)
    client = agent.open(zookeeper, command_timeout_ms=300, connect_timeout_ms=300)
    lock = client.lock("job")
    zookeeper.members[0].kill()
    answer = lock.acquire(1, 0)
    assert answer.status == "UNREACHABLE" and f"{zookeeper.members[0].port}" in answer.message, answer
    waiting = lock.start("acquire", 1, -1, thread=1)
    zookeeper.members[0].restart()
    waiting.answer().ok
