"""Permit semaphores on etcd, gates, and released locks that rest: what the table of scenarios does not show."""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import Agent
from harness.engines.permits import MEANWHILE, check_changes_meanwhile, check_permits
from harness.etcd import Etcd, url
from harness.faults import times
from harness.tally import tell
from harness.waiting import until

Make = Callable[..., Any]


def waits(client: Any, count: int) -> None:
    until(lambda: client.counters()["waiting"] == count)


# ---- permits

@pytest.mark.parametrize("count", times(15, 90))
def test_permits_are_never_exceeded(etcd: Etcd, agent: Agent, count: int) -> None:
    """Three processes of three threads: at most three permits are out at any time, three at some time, and each grant has its token."""
    agent.open(etcd).lock("seats", kind="permit_semaphore").permits_set(3).ok
    check_permits(etcd.url, count)
    until(lambda: etcd.keys("seats/permit-") == [])


def test_permits_of_a_dead_holder_come_back(etcd: Etcd, new_agent: Make) -> None:
    dies = new_agent()
    seats, other = (agent.open(etcd, lease_ms=2000).lock("seats", kind="permit_semaphore", safety_ms=60000) for agent in (dies, new_agent()))
    seats.permits_set(1).ok
    token = seats.acquire(1, 0).ok.token
    waiting = other.start("acquire", 1, -1)
    until(lambda: len(etcd.keys("seats/permit-")) == 2)
    dies.kill()
    assert waiting.answer().ok.token > token


def test_an_extended_hold_keeps_its_permits(etcd: Etcd, new_agent: Make) -> None:
    """Its key gets another lease. Its value, the number of permits, stays."""
    mine, theirs = (new_agent().open(etcd, lease_ms=3000).lock("seats", kind="permit_semaphore", permits=permits) for permits in (3, 2))
    mine.permits_set(4).ok
    mine.acquire(1, 0).ok
    for lease in (30_000, 4000):
        mine.extend(1, lease).ok
        assert theirs.acquire(1, 0).status == "BUSY" and mine.permits().ok.value == 1
    mine.release(1).ok
    theirs.acquire(1, 0).ok
    assert mine.permits().ok.value == 2


def test_nobody_is_passed(etcd: Etcd, new_agent: Make) -> None:
    """Who asks for two waits before one who asks for one, and is served first."""
    holder, large, small = (new_agent().open(etcd, safety_ms=60000) for _ in range(3))
    seats, two, one = (client.lock("seats", kind="permit_semaphore", permits=permits) for client, permits in ((holder, 1), (large, 2), (small, 1)))
    seats.permits_set(3).ok
    seats.acquire(1, 0).ok
    seats.acquire(2, 0).ok
    first = two.start("acquire", 1, -1, thread=1)
    waits(large, 1)
    until(lambda: len(etcd.keys("seats/permit-")) == 3)
    second = one.start("acquire", 1, -1, thread=1)
    until(lambda: len(etcd.keys("seats/permit-")) == 4)
    assert one.acquire(2, 0).status == "BUSY"
    seats.release(1).ok
    first.answer().ok
    assert not second.ready()
    seats.release(2).ok
    second.answer().ok


def test_a_release_is_read_by_who_is_next(etcd: Etcd, new_agent: Make) -> None:
    """The others count the deletion, and ask nothing."""
    holder, *clients = [new_agent().open(etcd, safety_ms=60000) for _ in range(4)]
    seats = holder.lock("seats", kind="permit_semaphore")
    seats.permits_set(1).ok
    seats.acquire(1, 0).ok
    pending = []
    for number, client in enumerate(clients):
        pending.append(client.lock("seats", kind="permit_semaphore").start("acquire", 1, -1, thread=1))
        until(lambda: len(etcd.keys("seats/permit-")) == number + 2)
        waits(client, 1)
    until(lambda: all(client.counters()["commands"] >= 2 for client in clients))  # they have looked once more, for the gate
    before = [client.counters()["commands"] for client in clients]
    seats.release(1).ok
    pending[0].answer().ok
    after = [client.counters()["commands"] for client in clients]
    assert after[0] > before[0] and after[1:] == before[1:]


def test_a_change_is_done_once(etcd: Etcd, new_agent: Make, new_proxy: Make) -> None:
    """Answers are lost: each change acts once all the same."""
    proxy = new_proxy(etcd.nodes[0])
    client = new_agent().open(url(proxy), command_timeout_ms=900)
    seats, direct = client.lock("seats", kind="permit_semaphore"), new_agent().open(etcd).lock("seats", kind="permit_semaphore")
    direct.permits_set(1).ok
    for number in range(2, 8):
        proxy.lose_reply("seats/total", times=1)
        while (answer := seats.permits_add(1)).status != "OK":
            assert answer.status in ("UNREACHABLE", "UNKNOWN_OUTCOME"), answer
            if direct.permits().ok.value == number:
                break
        assert direct.permits().ok.value == number


@MEANWHILE
def test_others_change_the_number_meanwhile(etcd: Etcd, new_agent: Make, new_proxy: Make, others: int, status: str, acted: bool) -> None:
    check_changes_meanwhile(new_agent, etcd, new_proxy(etcd.nodes[0]), others, status, acted)


@pytest.mark.parametrize("rounds", times(10, 30))
def test_a_try_leaves_no_claim(etcd: Etcd, new_agent: Make, rounds: int) -> None:
    holder, other = (new_agent().open(etcd).lock("seats", kind="permit_semaphore") for _ in range(2))
    holder.permits_set(1).ok
    holder.acquire(1, 0).ok
    before = etcd.revision()
    for _ in range(rounds):
        assert other.acquire(1, 0).status == "BUSY"
    assert etcd.revision() <= before + 1 and len(etcd.keys("seats/permit-")) == 1


# ---- gates


def test_a_gate_is_closed_while_the_watch_is_away(etcd: Etcd, new_agent: Make, new_proxy: Make) -> None:
    """The connection of one who waits is cut when the gate closes: its wait ends when it is back."""
    proxy = new_proxy(etcd.nodes[0])
    holder = new_agent().open(etcd).lock("job")
    waiter = new_agent().open(url(proxy), safety_ms=60000, command_timeout_ms=700)
    holder.acquire(1, 0).ok
    waiting = waiter.lock("job").start("acquire", 1, -1)
    until(lambda: len(etcd.keys("job/")) == 2)
    proxy.refuse()
    proxy.cut()
    holder.close_gate(60000).ok
    proxy.accept()
    assert waiting.answer().status == "GATE_CLOSED"
    until(lambda: len(etcd.keys("job/")) == 1)
    tell(done=1, fired=1)


def test_a_gate_ends_waits_in_memory(etcd: Etcd, new_agent: Make) -> None:
    """Waiters behind a holder of their own process have no key on the server, and hear of the gate all the same."""
    client, other = new_agent().open(etcd), new_agent().open(etcd)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    waiting = lock.start("acquire", 2, -1, thread=1)
    waits(client, 1)
    other.lock("job").close_gate(60000).ok
    assert waiting.answer().status == "GATE_CLOSED"
    assert lock.state(1) == "HELD"
    assert client.multi(client.lock("free"), client.lock("job2")).acquire(1, 0).status == "OK"
    other.lock("job").open_gate().ok
    assert etcd.keys("dlock_gate/") == []


def test_a_gate_opens_when_its_time_is_over(etcd: Etcd, agent: Agent) -> None:
    """Its key has a lease of its own: nobody has to open it."""
    lock = agent.open(etcd).lock("job")
    lock.close_gate(10).ok
    assert lock.acquire(1, 0).status == "GATE_CLOSED" and etcd.keys("dlock_gate/") == ["dlock_gate/job"]
    until(lambda: lock.acquire(1, 0).status == "OK", timeout=20)


# ---- rest


def test_a_released_lock_rests(etcd: Etcd, new_agent: Make) -> None:
    """min_hold_ms: the key stays first in line with a lease of its own, also when the client is gone."""
    first, second = new_agent().open(etcd), new_agent().open(etcd, safety_ms=60000)
    lock, other = first.lock("job", min_hold_ms=1500), second.lock("job")
    token = lock.acquire(1, 0).ok.token
    (lease,) = (int(one["lease"]) for one in etcd.found("job/"))
    lock.release(1).ok
    assert [int(one["lease"]) == lease for one in etcd.found("job/")] == [False]
    first.close(5000).ok
    assert other.acquire(1, 0).status == "BUSY"
    assert other.acquire(1, -1).ok.token > token


def test_a_lease_that_ends_keeps_others_out(etcd: Etcd, new_agent: Make) -> None:
    """lock_delay_ms: the holder is told when its lease is over, and nobody has the lock for the delay, measured by the server."""
    dies = new_agent()
    client = dies.open(etcd, lease_ms=1000)
    lock = client.lock("job", lock_delay_ms=4000)
    other = new_agent().open(etcd).lock("job")
    answer = lock.acquire(1, 0).ok
    assert int(etcd.call("lease/timetolive", ID=int(etcd.found("job/")[0]["lease"]))["grantedTTL"]) == 5
    dies.kill()
    assert other.acquire(1, -1).ok.done - answer.done > 4_000_000


def test_a_holder_with_a_delay_is_renewed_in_time(etcd: Etcd, agent: Agent) -> None:
    """A keep-alive for the long lease of the server would be too rare for the short one of the holder."""
    client = agent.open(etcd, lease_ms=1000)
    lock = client.lock("job", lock_delay_ms=60000)
    lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] > 5)
    assert lock.state(1) == "HELD"
