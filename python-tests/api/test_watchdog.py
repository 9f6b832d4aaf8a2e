"""Shared renewal threads: no duplicates, pauses, no deep sleep, no accidental end; and what becomes of a lease."""
from __future__ import annotations

import contextlib
import ctypes
import pathlib
import signal
from typing import Callable, Iterator

import pytest

from harness.agent import Agent, Client, Event, Lock, now, until
from harness.fake import LockServer
from harness.proxy import Proxy
from harness.server import Server
from harness.watch import SHA, Monitor, Row

libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def seen(redis_server: Server) -> Iterator[Monitor]:
    with Monitor(redis_server) as monitor:
        yield monitor


def events(client: Client, *kinds: str) -> list[Event]:
    """The events of these types in the queue."""
    found = []
    while (answer := client.next(0)).status == "OK":
        found.append(answer.event)
    return [event for event in found if event.type in kinds]


def held(*locks: Lock) -> None:
    assert [lock.state(1) for lock in locks] == ["HELD"] * len(locks)


def never_twice(monitor: Monitor) -> None:
    for rows in monitor.scripts():
        assert len({row.lock for row in rows}) == len(rows), f"a lock twice in one script: {rows}"


def most(began: int, lease: int) -> float:
    """The most renewals there can be since began: each comes at least 0.3 leases after the one before."""
    return (now() - began) / (300 * lease) + 1


# ---- no duplicate renewal for one lock


def test_one_renewal_per_period(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=1500)
    locks, began = [client.lock(f"lock{i}") for i in range(5)], now()
    for lock in locks:
        lock.acquire(1, 0).ok
    seen.wait(lambda: len(seen.rows("lock0")) >= 5)
    for i, lock in enumerate(locks):
        assert 3 <= len(seen.rows(f"lock{i}")) <= most(began, 1500)
    never_twice(seen)
    held(*locks)


def test_extend_races_with_renewal(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    """Four threads extend one lock as fast as they can for several periods: the watchdog adds its share of renewals at most."""
    client = agent.open(redis_server, lease_ms=1000)
    lock, other, began, extends = client.lock("lock"), client.lock("other"), now(), 0
    lock.acquire(1, 0).ok
    other.acquire(1, 0).ok
    while len(seen.rows("other")) < 5:
        waits = [lock.start("extend", 1, 1000 - thread, thread=thread) for thread in (1, 2, 3, 4)]
        extends += sum(wait.answer().status == "OK" for wait in waits)
    seen.catch_up()
    assert extends > 20
    assert extends <= len(seen.rows("lock")) <= extends + 2, "extending renews as well"
    assert len(seen.rows("other")) <= most(began, 1000)
    never_twice(seen)
    held(lock, other)


def test_pauses_between_extends(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    """An occasional extend moves the next renewal: there are never two within a third of a lease."""
    client = agent.open(redis_server, lease_ms=1200)
    lock, began, extends = client.lock("lock"), now(), 0
    lock.acquire(1, 0).ok
    for count in (1, 3, 5):
        seen.wait(lambda: len(seen.rows("lock")) >= count + extends)
        extends += lock.extend(1, 1200).status == "OK"
    seen.catch_up()
    assert len(seen.rows("lock")) <= extends + most(began, 1200)
    held(lock)


def test_extended_while_its_renewal_is_queued(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy], seen: Monitor) -> None:
    """The script in flight is held back, another lock's renewal waits behind it, and that lock gets a short new lease."""
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, lease_ms=6000)
    first, second = client.lock("first"), client.lock("second")
    began = first.acquire(1, 0).ok.began
    until(lambda: now() > began + 220_000)
    second_began = second.acquire(1, 0).ok.done
    gate = proxy.up.pause_at(SHA["renew"])
    gate.wait()
    until(lambda: now() > second_began + 2_010_000)  # its renewal is due by now
    second.extend(1, 500).ok
    extended = now()
    seen.catch_up()
    since = len(seen.rows("second"))  # two where the server did not know the script
    until(lambda: now() > extended + 190_000)  # and due again: a third of the new lease is over
    seen.catch_up()
    assert len(seen.rows("second")) == since
    gate.open()
    seen.wait(lambda: len(seen.rows("second")) >= since + 2)
    never_twice(seen)
    assert len(seen.rows("second")) - since <= most(extended, 500)
    held(first, second)


# ---- pause and resume


def test_renewal_rests_while_the_lock_is_free(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=600)
    lock, clock = client.lock("lock"), client.lock("clock")
    clock.acquire(1, 0).ok
    for _ in range(2):
        lock.acquire(1, 0).ok
        since = seen.catch_up()
        seen.wait(lambda: seen.rows("lock", since))
        held(lock)
        lock.release(1).ok
        since = seen.catch_up()
        seen.wait(lambda: len(seen.rows("clock", since)) >= 4)
        assert not seen.rows("lock", since) and not redis_server.command("EXISTS", "lock")
    held(clock)


def test_released_and_taken_again_all_the_time(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    """Short holds are not renewed, and the hold after them is, with its own id alone."""
    client = agent.open(redis_server, lease_ms=600)
    lock, clock = client.lock("lock"), client.lock("clock")
    clock.acquire(1, 0).ok
    while len(seen.rows("clock")) < 6:
        answers = agent.many([("acquire", lock.index, 1, 0), ("release", lock.index, 1)] * 20)
        assert {answer.status for answer in answers} == {"OK"}
    pairs, strays = client.counters()["released"], len(seen.rows("lock"))
    assert pairs > 100 and strays <= 6, "renewals of what is not held for long"
    lock.acquire(1, 0).ok
    since = seen.catch_up()
    owner = redis_server.command("HKEYS", "lock")
    seen.wait(lambda: len(seen.rows("lock", since)) >= 3)
    assert {row.owner for row in seen.rows("lock", since)} == set(owner)
    assert client.counters()["lost"] == 0
    held(lock, clock)


# ---- noticed at once


def asleep(agent: Agent) -> bool:
    return all(lines["State"].startswith("S") for lines in agent.threads().values())


def test_releases_are_counted_however_they_are_asked_for(agent: Agent, redis_server: Server) -> None:
    """A hold counts once; its inner levels do not count. To a waiter of this process, to the server, for members of a multi-lock."""
    client = agent.open(redis_server)
    lock, pair = client.lock("lock"), client.multi(client.lock("one"), client.lock("two", kind="fair"))

    def released(act: Callable[[], object], *tags: int) -> int:
        before = client.counters()["released"]
        act()
        assert {client.event().tag for _ in tags} == set(tags)
        return client.counters()["released"] - before

    for _ in range(2):
        lock.acquire(1, 0).ok
    lock.submit_acquire(2, -1, 5).ok
    assert released(lambda: lock.submit_release(1, 6).ok, 6) == 0
    assert released(lambda: lock.submit_release(1, 7).ok, 5, 7) == 1 and lock.state(2) == "HELD"
    assert released(lambda: lock.submit_release(2, 8).ok, 8) == 1 and lock.submit_release(2, 9).status == "NOT_HELD"
    assert released(lambda: lock.submit_acquire(2, 0, 10).ok, 10) == 0
    pair.acquire(1, 0).ok
    assert released(lambda: pair.submit_release(1, 11).ok, 11) == 2
    lock.release(2).ok
    assert client.counters()["released"] == client.counters()["acquired"] == 5


def test_new_locks_are_noticed_while_the_thread_sleeps(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=30_000)
    long, short, gone = client.lock("long"), client.lock("short", lease_ms=600), client.lock("gone", lease_ms=600)
    long.acquire(1, 0).ok  # the next alarm is ten seconds away
    for wait in (0, 100):
        until(lambda: asleep(agent))
        since = seen.catch_up()
        gone.acquire(1, 0).ok
        short.acquire(1, wait).ok
        gone.release(1).ok
        seen.wait(lambda: len(seen.rows("short", since)) >= 4)
        assert not seen.rows("gone") and not seen.rows("long")
        held(long, short)
        short.release(1).ok
    assert client.counters()["lost"] == 0


# ---- a renewal thread never ends by accident


def task_count(agent: Agent) -> int:
    """The number of the library's threads, of all clients."""
    return sum(path.read_text().startswith("dlock") for path in pathlib.Path(f"/proc/{agent.pid}/task").glob("*/comm"))


def goes_on(agent: Agent, client: Client, *locks: Lock, threads: int = 1) -> None:
    """Renewals go on in the same threads, and all holds are still held."""
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > before + len(locks), 20)
    assert task_count(agent) == threads
    assert client.counters()["lost"] == 0
    until(lambda: [lock.state(1) for lock in locks] == ["HELD"] * len(locks))


@pytest.mark.parametrize("first", [1, 4])
def test_without_memory(new_agent: Callable[..., Agent], redis_server: Server, new_proxy: Callable[..., Proxy], first: int) -> None:
    """No allocation succeeds for a third of the lease. In that time a renewal is due and the connections break."""
    proxy, agent = new_proxy(redis_server), new_agent(shim=True)
    client = agent.open(proxy, lease_ms=3000, connects_per_second=100)
    lock, other = client.lock("lock"), client.lock("other")
    lock.acquire(1, 0).ok
    other.acquire(1, 0).ok
    goes_on(agent, client, lock, other)
    began, connections, fired = now(), proxy.connections, 0
    while now() < began + 1_000_000:
        proxy.cut()
        agent("shim", "alloc", first, 1)
        fired += client.next(1050).fired  # returns early when there is a log event
    assert fired > 0
    until(lambda: proxy.connections > connections)
    goes_on(agent, client, lock, other)


@pytest.mark.parametrize("how", ["closed", "reset", "half", "silent", "refused"])
def test_broken_connections(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy], how: str) -> None:
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, lease_ms=1800, connects_per_second=100, command_timeout_ms=200)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] >= 1)
    if how in ("closed", "reset"):
        for _ in range(2):
            until(lambda: proxy.links)
            connections = proxy.connections
            proxy.cut(reset=how == "reset")
            until(lambda: proxy.connections > connections)  # at the next renewal
    elif how == "half":
        proxy.up.half_close()
        proxy.down.half_close()
    elif how == "silent":
        proxy.up.blackhole = True
        until(lambda: lock.state(1) == "AT_RISK")
        proxy.up.blackhole = False
        assert proxy.up.fired["blackhole"] > 0
        proxy.cut()  # a lost reply shifts all later ones
    else:
        proxy.refuse()
        proxy.cut()
        until(lambda: client.counters()["connect_failures"] >= 1 or lock.state(1) == "AT_RISK")
        proxy.accept()
    goes_on(agent, client, lock)


ANSWERS = {
    "BUSY": b"-BUSY Redis is busy running a script\r\n", "LOADING": b"-LOADING Redis is loading\r\n",
    "OOM": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "READONLY": b"-READONLY You can't write\r\n",
    "NOSCRIPT": b"-NOSCRIPT No matching script\r\n", "NOPERM": b"-NOPERM no\r\n", "ERR": b"-ERR what\r\n",
    "MASTERDOWN": b"-MASTERDOWN no\r\n", "nil": b"$-1\r\n", "short": b"*0\r\n", "rubbish": b"HTTP/1.1 200 OK\r\n\r\n",
}  # fmt: skip


FOR_LONG = ("BUSY", "LOADING", "NOSCRIPT", "rubbish")


def test_answers_that_are_no_use(agent: Agent) -> None:
    """Every kind of bad answer to a renewal, each on its own server; some of them three times in a row."""
    with contextlib.ExitStack() as stack:
        rows = []
        for name, times in [(name, 1) for name in ANSWERS] + [(name, 3) for name in FOR_LONG]:
            fake = stack.enter_context(LockServer())
            fake.say("renew", ANSWERS[name], times)
            client = agent.open(fake, lease_ms=3000, connects_per_second=100)
            rows.append((fake, times, client, client.lock(name)))
            rows[-1][-1].acquire(1, 0).ok
        for fake, times, client, lock in rows:
            until(lambda: fake.said["renew"] == times)
        before = [client.counters()["renewed"] for _, _, client, _ in rows]
        until(lambda: all(row[2].counters()["renewed"] >= count + 2 for row, count in zip(rows, before)), 20)
        assert task_count(agent) == len(rows) and {lock.state(1) for *_, lock in rows} == {"HELD"}
        assert not any(client.counters()["lost"] for _, _, client, _ in rows)


def test_signals_to_the_threads(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=900, watchdog_threads=2)
    locks = [client.lock(name) for name in ("lock", "other")]
    for lock in locks:
        lock.acquire(1, 0).ok
    agent("signals", 1000, 0)  # to whichever thread takes them
    until(lambda: len(agent.threads()) == 2)  # they have their names, so they are visible
    for lines in agent.threads().values():
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGALRM):
            assert libc.tgkill(agent.pid, int(lines["Pid"]), number) == 0
    goes_on(agent, client, *locks, threads=2)
    assert agent("signals", 0, 0).signals > 100
    for lines in agent.threads().values():
        assert int(lines["SigPnd"], 16) >> (signal.SIGTERM - 1) & 1, "it arrived there"


# ---- more threads, more locks


def take_all(agent: Agent, locks: list[Lock]) -> None:
    assert {answer.status for answer in agent.many([("acquire", lock.index, 1, 0) for lock in locks])} == {"OK"}


def test_four_threads_share_the_locks(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=2400, watchdog_threads=4)
    locks, began = [client.lock(f"lock{i}") for i in range(200)], now()
    take_all(agent, locks)
    names = {lock.id: f"lock{i}".encode() for i, lock in enumerate(locks)}
    seen.wait(lambda: client.counters()["renewed"] >= 3 * len(locks))
    seen.catch_up()
    assert len(agent.threads()) == 4
    by_link: dict[str, set[bytes]] = {}
    for row in seen.rows():
        by_link.setdefault(row.link, set()).add(row.lock)
    assert len(by_link) == 4 and set().union(*by_link.values()) == set(names.values())
    assert sum(len(names) for names in by_link.values()) == 200, "a lock is renewed by one thread only"
    counts = {name: len(seen.rows(name)) for name in names.values()}
    assert min(counts.values()) >= 2 and max(counts.values()) <= most(began, 2400)
    never_twice(seen)
    assert client.counters()["lost"] == 0


def test_a_thousand_locks_are_renewed_in_batches(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=6000)
    locks = [client.lock(f"lock{i}") for i in range(1000)]
    take_all(agent, locks)
    until(lambda: client.counters()["renewed"] >= 1000, 10)
    until(lambda: client.counters()["renewed"] >= 2000, 10)
    after = client.counters()
    assert after["renewals_late"] == 0 and after["lost"] == 0
    assert after["renewal_scripts"] <= 2 * (1000 / 64 + 10), f"{after['renewal_scripts']} scripts for {after['renewed']} renewals"


def behind_a_batch(agent: Agent, proxy: Proxy, count: int = 400) -> tuple[int, bool]:
    """How many scripts renewed one lock and how many the many, which were renewed while the script of the one was held back. Also whether
    the machine was fast enough: the one was not requested again.
    """
    client = agent.open(proxy, lease_ms=6000)
    first, locks = client.lock("first"), [client.lock(f"lock{i}") for i in range(count)]
    began = first.acquire(1, 0).ok.began
    until(lambda: now() > began + 250_000)
    take_all(agent, locks)
    taken, gate = now(), proxy.up.pause_at(SHA["renew"])
    gate.wait()
    until(lambda: now() > taken + 2_000_000)
    gate.open()
    opened = now()
    until(lambda: client.counters()["renewed"] >= count + 1)
    counters = client.counters()
    in_time = opened < began + 2_500_000
    assert not in_time or counters["renewals_late"] == counters["lost"] == 0
    client.close(5000).ok
    return counters["renewal_scripts"], in_time


def test_what_waits_behind_a_batch_goes_next(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy]) -> None:
    """One script is held back until many more locks are due. They go as soon as it is answered, without another alarm."""
    tries = (behind_a_batch(agent, new_proxy(redis_server)) for _ in range(16))
    assert next(scripts for scripts, in_time in tries if in_time) <= 8


# ---- the ends of a lease


def test_max_hold(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=5000, max_hold_ms=600)
    lock = client.lock("lock")
    token = lock.acquire(1, 0).ok.token
    assert lock.remaining(1).ok.remaining <= 600
    lock.submit_acquire(1, 0, 5).ok
    assert client.event().remaining <= 600
    lock.release(1).ok
    event = client.event()
    assert (event.type, event.cause, event.owner, event.token, event.lock_id) == ("LOST", "MAX_HOLD", 1, token, lock.id)
    assert 600 <= event.held_for < 3000 and lock.state(1) == "LOST"
    until(lambda: not redis_server.command("EXISTS", "lock"), 3)
    assert lock.token(1).status == "LOST" and lock.release(1).status == "LOST"
    assert lock.acquire(1, 0).ok.token > token
    assert events(client, "LOST") == []


def test_max_hold_under_renewal(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=600, max_hold_ms=1500)
    lock, other = client.lock("lock"), agent.open(redis_server).lock("lock")
    began = lock.acquire(1, 0).ok.began
    assert other.acquire(1, 10_000).ok.done >= began + 1_500_000
    assert len(seen.rows("lock")) >= 2 and lock.state(1) == "LOST"
    until(lambda: client.event().cause == "MAX_HOLD")  # on a slow machine AT_RISK may come before
    since = seen.catch_up()
    assert redis_server.command("HLEN", "lock") == 1
    assert not [row for row in seen.rows("lock", since) if row.lease == 600]


@pytest.mark.parametrize("lease", [600, 3000])
def test_at_risk_and_lost_without_network(agent: Agent, new_server: Callable[..., Server], lease: int) -> None:
    server = new_server()
    client = agent.open(server, lease_ms=lease)
    lock, other = client.lock("lock"), client.lock("other")
    token = lock.acquire(1, 0).ok.token
    other.acquire(1, 0).ok
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > before)
    server.pause()
    answer = lock.remaining(1).ok
    deadline = answer.done + 1000 * answer.remaining + 1000  # no later renewal can have been confirmed
    found: list[Event] = []
    while len(found) < 4:
        event = client.event()
        if event.type in ("AT_RISK", "LOST"):
            found.append(event)
        if event.lock_id == lock.id and event.type == "AT_RISK" and now() < deadline:
            assert lock.state(1) in ("AT_RISK", "LOST")
    of_lock = [event for event in found if event.lock_id == lock.id]
    assert [event.type for event in of_lock] == ["AT_RISK", "LOST"]
    assert of_lock[1].cause == "EXPIRED" and of_lock[1].token == token
    until(lambda: now() > deadline)
    assert lock.state(1) == "LOST" and lock.remaining(1).status == "LOST" and lock.token(1).status == "LOST"
    server.resume()
    until(lambda: not server.command("EXISTS", "lock"))
    assert lock.state(1) == "LOST", "never revived"
    assert lock.extend(1, lease).status == "LOST"
    assert lock.release(1).status == "LOST" and lock.release(1).status == "NOT_HELD"
    assert events(client, "AT_RISK", "LOST") == [] and client.counters()["lost"] == 2


@pytest.mark.parametrize("read", [True, False])
def test_at_risk_again(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy], read: bool) -> None:
    """Each risk that was read before the next one is reported. An unread AT_RISK event stays as it was, and stands for both."""
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, lease_ms=4500, command_timeout_ms=200, connects_per_second=100)
    lock = client.lock("lock")
    ends: list[int] = []
    risks: list[Event] = []
    began = lock.acquire(1, 0).ok.began
    for _ in range(2):
        waits = client.start("next", 20_000, thread=1) if read else None
        proxy.down.hold()
        until(lambda: lock.state(1) == "AT_RISK")
        proxy.down.release()
        until(lambda: lock.state(1) == "HELD")
        ends.append((now() - began) // 1000)
        while waits and (event := waits.answer().ok.event).type != "AT_RISK":
            waits = client.start("next", 20_000, thread=1)
        risks += [event] if waits else []
    risks += events(client, "AT_RISK")
    assert len(risks) == 1 + read and client.counters()["lost"] == 0
    assert all(risk.held_for <= end for risk, end in zip(risks, ends)), (risks, ends)


def test_the_deadline_needs_no_thread(agent: Agent, new_server: Callable[..., Server]) -> None:
    """Also when the whole process was suspended: the first check after the deadline says LOST."""
    server = new_server()
    client = agent.open(server, lease_ms=600)
    locks = [client.lock(f"lock{i}") for i in range(20)]
    take_all(agent, locks)
    server.pause()
    agent.stop()
    began = now()
    until(lambda: now() > began + 700_000)
    agent.resume()
    assert [lock.state(1) for lock in locks] == ["LOST"] * 20
    server.resume()
    until(lambda: client.counters()["lost"] == 20)
    assert sorted(client.event().lock_id for _ in range(20)) == sorted(lock.id for lock in locks)
    assert events(client, "LOST") == []


def test_extend_changes_the_lease(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=30_000)
    lock = client.lock("lock")
    token = lock.acquire(1, 0).ok.token
    lock.extend(1, 60_000).ok
    assert redis_server.command("PTTL", "lock") > 30_000 and lock.remaining(1).remaining > 30_000
    since = seen.catch_up()
    lock.extend(1, 900).ok  # the lease on the server stays as requested; renewals use the new one
    assert redis_server.command("PTTL", "lock") > 30_000
    seen.wait(lambda: len(seen.rows("lock", since)) >= 4)
    assert {row.lease for row in seen.rows("lock", since)} == {900}
    assert lock.token(1).token == token
    held(lock)


def test_a_fixed_lease_is_not_renewed(agent: Agent, redis_server: Server, seen: Monitor) -> None:
    client = agent.open(redis_server, lease_ms=700, renew="false")
    lock, clock = client.lock("lock"), agent.open(redis_server, lease_ms=900).lock("clock")
    clock.acquire(1, 0).ok
    lock.acquire(1, 0).ok
    event = client.event()
    assert (event.type, event.cause) == ("LOST", "EXPIRED")
    assert not seen.rows("lock")
    assert lock.release(1).status == "LOST"
    lock.acquire(1, 2000).ok
    before = seen.catch_up()
    lock.extend(1, 3000).ok
    seen.wait(lambda: len(seen.rows("clock", before)) >= 3)  # longer than its first lease
    assert lock.state(1) == "HELD" and len(seen.rows("lock")) == 1
    assert client.event().type == "LOST"
    assert len(seen.rows("lock")) == 1


def test_close_gives_everything_back(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, watchdog_threads=3)
    locks = [client.lock(f"lock{i}") for i in range(200)]
    take_all(agent, locks)
    assert redis_server.command("EXISTS", *(f"lock{i}" for i in range(200))) == 200
    client.close(10_000).ok
    assert redis_server.command("EXISTS", *(f"lock{i}" for i in range(200))) == 0
    until(lambda: not agent.threads())  # the kernel removes a thread a moment after the join


def test_a_grant_moves_to_another_process(new_agent: Callable[..., Agent], redis_server: Server, seen: Monitor) -> None:
    old, new = new_agent(), new_agent()
    giver, taker = old.open(redis_server, lease_ms=900), new.open(redis_server, lease_ms=30_000)
    gives, takes = giver.lock("lock"), taker.lock("lock")
    token = gives.acquire(1, 0).ok.token
    owner = redis_server.command("HKEYS", "lock")
    grant = bytes.fromhex(gives.export(1, 600).ok.grant.replace("%", ""))
    assert gives.state(1) == "NONE" and gives.count(1).count == 0 and gives.release(1).status == "NOT_HELD"
    since = seen.catch_up()
    assert takes.adopt(1, grant).ok.token == token
    before, owner = owner, redis_server.command("HKEYS", "lock")
    assert len(owner) == 1 and owner[0].split(b":")[0] != before[0].split(b":")[0]
    giver_links = {link for link in (command.link for command in seen.commands[:since] if command.script) if link}
    seen.wait(lambda: len(seen.rows("lock", since)) >= 5)
    rows: list[Row] = seen.rows("lock", since)
    assert {row.owner for row in rows} == set(owner) and {row.lease for row in rows} == {900}
    assert not {row.link for row in rows} & giver_links, "the old process renews"
    assert takes.token(1).token == token and takes.state(1) == "HELD" and gives.state(1) == "NONE"
    assert giver.counters()["held"] == 0 and taker.counters()["held"] == 1
    giver.close(2000).ok
    assert takes.state(1) == "HELD" and redis_server.command("HKEYS", "lock") == owner
    wait = new_agent().open(redis_server).lock("lock").start("acquire", 5, 5000)
    takes.release(1).ok
    assert wait.answer().ok.token > token
