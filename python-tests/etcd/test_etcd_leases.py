"""The lease of a hold's key: after it has changed, after an outage, and who says that it goes on."""
from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

from harness.agent import Agent, now
from harness.engines.disks import SLOW, slow_syncs
from harness.etcd import Etcd, url
from harness.etcd.twister import Twister, fields, message
from harness.etcd.users import CHEAP, LOCKS, enable, forget
from harness.faults import times
from harness.tally import tell
from harness.waiting import until

Make = Callable[..., Any]


# ---- extended to another lease


def renewed(client: Any, more: int = 2) -> None:
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + more)


@pytest.mark.parametrize("kind", ["mutex", "fair", "write", "read", "permit_semaphore"])
@pytest.mark.parametrize("leases", [(1500, 3000), (3000, 1500), (1500, 3000, 1500)], ids=["longer", "shorter", "there and back"])
def test_a_hold_that_is_extended_to_another_lease_is_renewed(etcd: Etcd, agent: Agent, kind: str, leases: tuple[int, ...]) -> None:
    """Its key is older than the lease that it has then, and has no watch yet. It is held until that lease is revoked."""
    client = agent.open(etcd, lease_ms=leases[0])
    lock = client.lock("job", kind=kind)
    if kind == "permit_semaphore":
        lock.permits_set(1).ok
    lock.acquire(1, 0).ok
    for lease in leases[1:]:
        lock.extend(1, lease).ok
        renewed(client)
    assert lock.state(1) == "HELD"
    (found,) = [one for one in etcd.found("job/") if int(one.get("lease", 0))]
    etcd.call("lease/revoke", ID=int(found["lease"]))
    client.loss()
    assert lock.state(1) == "LOST"


def test_an_extended_hold_costs_no_more(etcd: Etcd, agent: Agent) -> None:
    """Once its lease is known, its renewals neither write nor read its key."""
    client = agent.open(etcd, lease_ms=1500)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    lock.extend(1, 3000).ok
    renewed(client)
    revision, calls = etcd.revision(), etcd.received("Txn")
    renewed(client, 3)
    assert etcd.revision() == revision and etcd.received("Txn") - calls <= 3 * PROOFS


# ---- after an outage


PROOFS = 4  # calls of Txn for each renewal period that are none of a lock's


@pytest.mark.parametrize("count", times(70, 1000))
def test_renewals_after_an_outage_write_nothing(etcd: Etcd, new_proxy: Make, agent: Agent, count: int) -> None:
    """Keys that have their lease already are only read, many at once."""
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy), lease_ms=6000, command_timeout_ms=200)
    locks = [client.lock(f"job{number}") for number in range(count)]
    for lock in locks:
        lock.acquire(1, 0).ok
    renewed(client, count)
    began, failures = etcd.revision(), client.counters()["connect_failures"]
    proxy.refuse()
    proxy.cut()
    until(lambda: client.counters()["connect_failures"] > failures + 3)
    until(lambda: client.counters()["renewal_scripts"] > count // 64 + 4)
    proxy.accept()
    renewed(client, count)
    assert etcd.revision() == began
    assert all(lock.state(1) == "HELD" for lock in locks)


# ---- a token that has expired


def test_watches_after_the_token_has_expired(new_etcd: Make, new_agent: Make) -> None:
    """The stream of watches has the old token, and new watches are refused on it. They come with a new stream, and wake who waits."""
    etcd = new_etcd(*CHEAP)
    enable(etcd, job="joc")
    holder, waiter = (new_agent().open(etcd, **LOCKS) for _ in range(2))

    def hand_over(name: str) -> None:
        first, then = (client.lock(name, safety_ms=60_000) for client in (holder, waiter))
        first.acquire(1, 10_000).ok
        waiting = then.start("acquire", 1, -1)
        until(lambda: len(etcd.keys(f"{name}/")) == 2)
        first.release(1).ok
        waiting.answer().ok
        then.release(1).ok

    hand_over("job0")
    for number in range(1, 4):
        forget(etcd)
        hand_over(f"job{number}")
        hand_over(f"job{number}more")


def test_a_holder_whose_key_is_deleted_after_the_token_has_expired(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd(*CHEAP)
    enable(etcd, job="joc")
    client = agent.open(etcd, lease_ms=1500, **LOCKS)
    client.lock("job1").acquire(1, 0).ok
    renewed(client)
    forget(etcd)
    lock = client.lock("job2")
    token = lock.acquire(1, 10_000).ok.token
    renewed(client, 6)
    etcd.call("kv/deleterange", key=etcd.keys("job2/")[0])
    event = client.loss()
    assert (event.token, event.cause) == (token, "TAKEN")


# ---- who says that a lease goes on


def later_term(answer: bytes) -> bytes:
    """Of an answer of a transaction: another leader has been elected since the keep-alive."""
    parts = fields(answer)
    if not any(number == 3 and isinstance(value, bytes) for number, value in parts):
        return answer
    (_, header), *rest = parts
    assert isinstance(header, bytes)
    return message([(1, message([(number, int(value) + 1 if number == 4 else value) for number, value in fields(header)])), *rest])


def test_a_keep_alive_of_an_earlier_term_does_not_count(etcd: Etcd, agent: Agent) -> None:
    """Whoever has answered it may have been deposed before. The holder is told when the last lease that was proven ends."""
    with Twister(etcd.nodes[0].port) as twister:
        client = agent.open(twister.url, lease_ms=1500)
        lock = client.lock("job")
        lock.acquire(1, 0).ok
        renewed(client)
        twister.twist = later_term
        alive = etcd.received("LeaseKeepAlive")
        assert client.loss().cause == "EXPIRED"
        assert etcd.received("LeaseKeepAlive") > alive, "keep-alives went on"
        twister.twist = None
        lock.acquire(2, 10_000).ok


@SLOW
@pytest.mark.parametrize("rounds", times(1, 4))
def test_l16_a_deposed_leader_does_not_renew(new_etcd: Make, new_agent: Make, rounds: int, tmp_path: pathlib.Path) -> None:
    """The leader's disk is stuck, and others elect another one. It answers keep-alives on, in etcd before 3.5.13: nobody holds by them."""
    etcd = new_etcd(3)
    number = 0
    while number < rounds:
        old = etcd.leader()
        assert old.process
        client, other = new_agent().open(old, lease_ms=4000, command_timeout_ms=1000), new_agent().open(etcd, lease_ms=4000)
        token = client.lock("job").acquire(1, 10_000).ok.token
        written = other.lock("written")
        waiting = other.lock("job").start("acquire", 1, -1, thread=2)
        until(lambda: len(etcd.keys("job/")) == 2)
        with slow_syncs([old.process.pid], tmp_path, ms=20_000):
            if etcd.leader() is old:  # else a busy machine has made another one: once more
                write = written.start("acquire", 1, 40_000, thread=1)  # without one the leader may not need its disk
                event = client.loss()
                told = now()
                later = waiting.answer(40).ok
                write.answer(40).ok
                assert event.token == token < later.token and event.cause == "EXPIRED"
                assert told < later.done, "both held"
                number += 1
        other.lock("job").release(1)  # the old leader, when it goes on, may have revoked its lease: https://github.com/etcd-io/etcd/issues/15247
        client.close(5000)
        other.close(5000)
    tell(done=rounds, fired=rounds)


def test_keep_alives_cost_one_read_more_for_each_session(etcd: Etcd, agent: Agent) -> None:
    """
    Whatever the number of locks: a read for each keep-alive. One of the two may be behind the last count. Beside them the keys of holds
    are read whose watch has just begun: once each, so there comes a round without.
    """
    client = agent.open(etcd, lease_ms=3000)
    locks = [client.lock(f"job{number}") for number in range(1000)]
    for lock in locks:
        lock.acquire(1, 0).ok

    def of_rounds(count: int) -> tuple[float, float]:
        reads, alive, began = etcd.received("Txn"), etcd.received("LeaseKeepAlive"), client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= began + count * len(locks), timeout=40)
        return etcd.received("Txn") - reads, etcd.received("LeaseKeepAlive") - alive

    def is_steady() -> bool:
        reads, alive = of_rounds(1)
        return reads <= alive + 1

    of_rounds(1)
    until(is_steady, timeout=40)
    reads, alive = of_rounds(4)
    assert 2 <= alive <= 10 and abs(reads - alive) <= 1
    assert all(lock.state(1) == "HELD" for lock in locks)
