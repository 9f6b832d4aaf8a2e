"""Faults on etcd: what is lost on the way, holders that stop, leases that end, keys that are deleted, members that fail."""
from __future__ import annotations

import os
import threading
from typing import Any, Callable

import pytest

from harness.agent import Agent, now
from harness.build import LIBRARY
from harness.engines.forks import check_apart, check_not_kept
from harness.engines.nth import Nth
from harness.etcd import Etcd, url
from harness.faults import times
from harness.tally import tell
from harness.waiting import until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

Make = Callable[..., Any]


# ---- messages


@pytest.mark.parametrize("rounds", times(12, 30))
@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_l01_a_cut_at_every_message(etcd: Etcd, new_proxy: Make, new_agent: Make, way: str, kind: str, rounds: int) -> None:
    """Requests (up) or answers (down) are lost at the nth message, for every n: each grant is one grant, and nothing is left."""
    watcher = new_agent().open(etcd).lock("job", kind=kind)
    agent, done, n, last = new_agent(), 0, 1, 0
    while True:
        proxy = new_proxy(etcd.nodes[0])
        nth = Nth(getattr(proxy, way), n)
        client = agent.open(url(proxy), lease_ms=5000, command_timeout_ms=500)
        lock = client.lock("job", kind=kind)
        watcher.acquire(9, -1).ok
        waiting = lock.start("acquire", 1, -1, thread=1)
        until(lambda: len(etcd.keys("job/")) == 2)
        token = watcher.token(9).ok.token
        watcher.release(9).ok
        mine = waiting.answer().ok.token
        assert mine > token and len(etcd.keys("job/")) == 1
        assert watcher.acquire(9, 0).status == "BUSY"
        lock.release(1).ok
        again = lock.acquire(1, -1).ok.token
        assert again > mine
        lock.release(1).ok
        last = watcher.acquire(9, -1).ok.token
        assert last > again
        watcher.release(9).ok
        client.close(5000)
        until(lambda: etcd.keys("job/") == [])
        done += 1
        if not nth.fired:
            break
        n += 1
        if n > rounds:
            break
    tell(done=done, fired=done - 1)
    assert done > 5


@pytest.mark.parametrize("rounds", times(3, 15))
def test_l02_a_late_put_does_nothing(new_etcd: Make, new_agent: Make, rounds: int) -> None:
    """A member stops with a request in its socket, and goes on when the request was given up: no key appears."""
    etcd = new_etcd(1)
    agent = new_agent()
    client = agent.open(etcd, lease_ms=30000, command_timeout_ms=300)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    for _ in range(rounds):
        etcd.nodes[0].pause()
        assert lock.acquire(1, 200).status in ("TIMED_OUT", "UNREACHABLE")
        etcd.nodes[0].resume()
        until(lambda: agent("live").status == "OK" and etcd.keys("job/") == [])
        lock.acquire(2, 5000).ok
        assert len(etcd.keys("job/")) == 1
        lock.release(2).ok
        until(lambda: etcd.keys("job/") == [])
    tell(done=rounds, fired=rounds)


@pytest.mark.parametrize("given_up", [True, False], ids=["given up", "repeated and released"])
def test_l02_a_put_that_arrives_late_finds_another_mark(etcd: Etcd, new_proxy: Make, agent: Agent, given_up: bool) -> None:
    """The put waits in the network until its number is over: when it arrives, no key appears."""
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy), lease_ms=30000, command_timeout_ms=300)
    warm = client.lock("warm")
    warm.acquire(1, 0).ok
    gate = proxy.up.pause_at("late/")
    late = client.lock("late")
    if given_up:
        assert late.acquire(1, 200).status in ("TIMED_OUT", "UNREACHABLE")
    else:
        late.acquire(1, 5000).ok
        late.release(1).ok
    gate.wait()
    until(lambda: etcd.keys("dlock_mark/"))  # the undo has been answered
    assert etcd.keys("late/") == []
    links = len(proxy.links)
    gate.open()
    until(lambda: len(proxy.links) < links)
    assert etcd.keys("late/") == [] and warm.state(1) == "HELD"
    client.lock("late").acquire(2, 0).ok
    assert len(etcd.keys("late/")) == 1


# ---- holders


def test_l03_a_stopped_holder_is_told(etcd: Etcd, new_agent: Make) -> None:
    """A holder stops for longer than its lease: another one has the lock with a higher token, and the first is told when it goes on."""
    first, second = new_agent(), new_agent()
    client = first.open(etcd, lease_ms=1000)
    lock, other = client.lock("job"), second.open(etcd, lease_ms=1000).lock("job")
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


def test_l03_a_holder_that_is_cut_off_is_told_first(etcd: Etcd, new_proxy: Make, new_agent: Make) -> None:
    """Nothing goes through between holder and server: the holder is told before another one has the lock, by its own clock."""
    proxy = new_proxy(etcd.nodes[0])
    client, other = new_agent().open(url(proxy), lease_ms=2000), new_agent().open(etcd)
    token = client.lock("job").acquire(1, 0).ok.token
    waiting = other.lock("job").start("acquire", 1, -1)
    until(lambda: len(etcd.keys("job/")) == 2)
    proxy.strand()
    proxy.refuse()
    event = client.loss()
    told = now()
    assert event.token == token and event.cause == "EXPIRED"
    assert waiting.answer().ok.done > told


def test_l04_an_operator_deletes_the_key(etcd: Etcd, agent: Agent) -> None:
    """The holder is told, although its lease lives."""
    client = agent.open(etcd, lease_ms=1500)
    lock = client.lock("job")
    token = lock.acquire(1, 0).ok.token
    etcd.call("kv/deleterange", key=etcd.keys("job/")[0])
    event = client.loss()
    assert (event.token, event.cause) == (token, "TAKEN")
    assert lock.acquire(2, 5000).ok.token > token
    lock.release(2).ok


def test_l05_an_operator_revokes_the_lease(etcd: Etcd, agent: Agent) -> None:
    """All locks of the lease are lost with the next keep-alive, and the next lock gets another lease."""
    client = agent.open(etcd, lease_ms=3000)
    locks = [client.lock(f"job{number}") for number in range(5)]
    tokens = {lock.acquire(1, 0).ok.token for lock in locks}
    (lease,) = etcd.leases()
    etcd.call("lease/revoke", ID=lease)
    other = client.lock("other")  # its put finds out, and gets another lease, before a keep-alive does
    assert other.acquire(1, 5000).ok.token > max(tokens)
    assert {client.loss().token for _ in locks} == tokens
    assert lease not in etcd.leases() and len(etcd.leases()) == 1
    assert locks[0].acquire(2, 5000).ok.token > max(tokens)
    assert other.state(1) == "HELD"


@pytest.mark.parametrize("delay", [0, 5000])
def test_l05_a_revoked_lease_is_told_long_before_the_next_renewal(etcd: Etcd, agent: Agent, delay: int) -> None:
    client = agent.open(etcd, lease_ms=300_000, lock_delay_ms=delay)
    token = client.lock("job").acquire(1, 0).ok.token
    (lease,) = etcd.leases()
    etcd.call("lease/revoke", ID=lease)
    client.lock("other").acquire(1, 5000).ok  # finds out
    assert client.loss().token == token


@pytest.mark.parametrize("what", ["key", "lease"])
def test_l06_a_waiter_whose_key_vanishes_stands_in_line_anew(etcd: Etcd, new_agent: Make, what: str) -> None:
    """Its place is lost, its wait is not."""
    holder, waiter = (new_agent().open(etcd, lease_ms=2000).lock("job", safety_ms=60000) for _ in range(2))
    holder.acquire(1, 0).ok
    waiting = waiter.start("acquire", 1, -1)
    until(lambda: len(etcd.keys("job/")) == 2)
    key = etcd.keys("job/")[1]
    if what == "key":
        etcd.call("kv/deleterange", key=key)
    else:
        etcd.call("lease/revoke", ID=int(etcd.found("job/")[1]["lease"]))
    until(lambda: len(etcd.keys("job/")) == 2)
    holder.release(1).ok
    waiting.answer().ok


@pytest.mark.parametrize("rounds", times(5, 30))
def test_l07_compaction_under_a_watch(etcd: Etcd, new_agent: Make, rounds: int) -> None:
    """The history is compacted while one waits; the wake-up comes all the same."""
    holder, waiter = (new_agent().open(etcd).lock("job", safety_ms=60000) for _ in range(2))
    for _ in range(rounds):
        holder.acquire(1, -1).ok
        waiting = waiter.start("acquire", 1, -1)
        until(lambda: len(etcd.keys("job/")) == 2)
        etcd.call("kv/put", key="other", value="x")
        etcd.call("kv/compaction", revision=etcd.revision(), physical=True)
        holder.release(1).ok
        waiting.answer().ok
        waiter.release(1).ok
    tell(done=rounds, fired=rounds)


@pytest.mark.parametrize("rounds", times(200, 600))
def test_l08_renewals_cost_nothing_per_lock(etcd: Etcd, agent: Agent, rounds: int) -> None:
    """The number of held locks does not show in what keeps them: one lease, and none of them is lost."""
    client = agent.open(etcd, lease_ms=1500)
    locks = [client.lock(f"job/{number}") for number in range(rounds)]
    for lock in locks:
        lock.acquire(1, 0).ok
    assert len(etcd.leases()) == 1
    began = etcd.revision()
    until(lambda: client.counters()["renewed"] > 3 * len(locks))
    assert etcd.revision() == began, "a renewal writes nothing"
    assert all(lock.state(1) == "HELD" for lock in locks)


def test_l09_close_leaves_nothing(etcd: Etcd, agent: Agent) -> None:
    client = agent.open(etcd)
    client.lock("job").acquire(1, 0).ok
    client.lock("other", lease_ms=5000).acquire(1, 0).ok
    assert len(etcd.leases()) == 2
    client.close(5000).ok
    until(lambda: etcd.leases() == [] and etcd.keys() == [])


def test_l10_a_fork_does_not_keep_the_lease(etcd: Etcd, agent: Agent) -> None:
    check_not_kept(agent, etcd)


def test_l10_a_child_has_its_own_session(etcd: Etcd, new_agent: Make) -> None:
    check_apart(new_agent(), new_agent().open(etcd), etcd)


# ---- space


@pytest.mark.parametrize("rest", (0, 60_000), ids=("free at once", "taken for a while"))
@pytest.mark.parametrize("kind", ("mutex", "fair", "read", "write", "permit_semaphore"))
def test_a_release_needs_no_space(new_etcd: Make, agent: Agent, kind: str, rest: int) -> None:
    """etcd takes no writes, but deletions. What would stay taken for min_hold_ms is free instead: nobody could take it meanwhile."""
    etcd = new_etcd(1)
    client = agent.open(etcd)
    lock = client.lock("job", kind=kind, min_hold_ms=rest)
    if kind == "permit_semaphore":
        lock.permits_set(1).ok
    lock.acquire(1, 0).ok
    etcd.call("maintenance/alarm", action="ACTIVATE", alarm="NOSPACE", memberID=0)
    assert client.lock("another").acquire(1, 0).status == "SERVER_OUT_OF_MEMORY"
    assert lock.release(1).status == "OK" and lock.state(1) == "NONE"
    assert [key for key in etcd.keys("job/") if "total" not in str(key)] == []
    etcd.call("maintenance/alarm", action="DEACTIVATE", alarm="NOSPACE", memberID=0)
    until(lambda: client.lock("job", kind=kind).acquire(2, 0).status == "OK")


def test_a_release_in_doubt_waits_for_space(new_etcd: Make, new_proxy: Make, agent: Agent) -> None:
    """A late copy of its acquisition must find another mark, and a mark is a write: the release says so, and goes on until there is space."""
    etcd = new_etcd(1)
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy), lease_ms=30000, command_timeout_ms=300)
    client.lock("warm").acquire(1, 0).ok
    gate = proxy.up.pause_at("late/")
    late = client.lock("late")
    late.acquire(1, 5000).ok
    gate.wait()
    etcd.call("maintenance/alarm", action="ACTIVATE", alarm="NOSPACE", memberID=0)
    answer = late.release(1)
    assert answer.status == "SERVER_OUT_OF_MEMORY" and "late" in answer.message and late.state(1) == "NONE", answer
    assert len(etcd.keys("late/")) == 1
    etcd.call("maintenance/alarm", action="DEACTIVATE", alarm="NOSPACE", memberID=0)
    until(lambda: etcd.keys("late/") == [])
    links = len(proxy.links)
    gate.open()
    until(lambda: len(proxy.links) < links)
    assert etcd.keys("late/") == []
    late.acquire(2, 5000).ok



@pytest.mark.parametrize("kind", ["lock", "write_lock", "multi_lock"])
def test_l23_what_fills_the_space_is_refused_and_done(new_etcd: Make, kind: str) -> None:
    """etcd refuses what fills its space, after it has done it. Who was refused has nothing, and nothing is left of it."""
    etcd = new_etcd("--quota-backend-bytes", str(2 << 20))
    clients = [dlock.Client(etcd.url) for _ in range(4)]
    held: set[str] = set()
    refused: list[str] = []

    def work(number: int) -> None:
        client = clients[number % 4]
        for turn in range(10000):
            names = [f"job{number}-{turn}-{part}-{'x' * 900}" for part in range(2 if kind == "multi_lock" else 1)]
            lock = client.multi_lock(*map(client.lock, names)) if kind == "multi_lock" else getattr(client, kind)(names[0])
            try:
                assert lock.acquire(timeout=0)
            except dlock.ServerOutOfMemory:
                refused.extend(names)
                return
            held.update(names)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert {key.partition("/")[0] for key in etcd.keys("job")} == held and len(refused) >= 32
    for client in clients:
        client.close()
    until(lambda: etcd.keys("job") == [])
