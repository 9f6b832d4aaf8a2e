"""A waiter that is told of the end of the only node before its own has the lock, and asks nobody."""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import Agent, Lock, Pending
from harness.waiting import until
from harness.zookeeper import Zookeeper, url

Make = Callable[..., Any]
BEFORE = "_c_6b6bb4a8-0f1b-4b7e-9d33-5a4a7a5a9ed1-lock-"
FEW = 5  # requests of a turn: its node, the line, two watches, and in the end its deletion
PATIENT = {"lease_ms": 60_000, "safety_ms": 60_000}  # no heartbeat is among the requests that are counted


def stand(zookeeper: Zookeeper) -> str:
    """A node of somebody else."""
    path: str = zookeeper.admin.create(f"/job/{BEFORE}", ephemeral=True, sequence=True, makepath=True)
    return path


def requests(zookeeper: Zookeeper) -> int:
    """Of the only client beside admin's."""
    admin = f"sid=0x{zookeeper.admin.client_id[0]:x},"
    line = next(line for line in zookeeper.members[0].word("cons").splitlines() if "sid=0x" in line and admin not in line)
    return int(line.split("recved=")[1].split(",")[0])


def watches(zookeeper: Zookeeper) -> str:
    return zookeeper.members[0].word("wchp")


def own(zookeeper: Zookeeper, *others: str) -> str:
    """The node that is none of those."""
    return next((f"/job/{name}" for name in zookeeper.nodes("job") if f"/job/{name}" not in others), "none")


def waits(zookeeper: Zookeeper, lock: Lock, before: str) -> Pending:
    """It watches the node before and its own."""
    pending = lock.start("acquire", 1, 20_000)
    until(lambda: before in watches(zookeeper) and own(zookeeper, before) in watches(zookeeper))
    return pending


def turn(zookeeper: Zookeeper, lock: Lock) -> int:
    """It waits, gets the lock, and releases it. Returns with how many requests."""
    before, sent = stand(zookeeper), requests(zookeeper)
    pending = waits(zookeeper, lock, before)
    zookeeper.admin.delete(before)
    pending.answer().ok
    lock.release(1).ok
    return requests(zookeeper) - sent


@pytest.fixture
def lock(zookeeper: Zookeeper, agent: Agent) -> Lock:
    """Its client has had turns, and watches a bell. Those of other tests have gone."""
    until(lambda: zookeeper.sessions() == 0)
    mine = agent.open(zookeeper, **PATIENT).lock("job")
    mine.acquire(1, 0).ok
    mine.release(1).ok
    until(lambda: turn(zookeeper, mine) <= FEW + 1)
    return mine


def test_it_asks_nobody(zookeeper: Zookeeper, lock: Lock) -> None:
    assert turn(zookeeper, lock) == FEW


def test_not_without_its_own_node(zookeeper: Zookeeper, lock: Lock, new_agent: Make) -> None:
    """Both nodes go while it does not run. Then another one gets the lock."""
    before = stand(zookeeper)
    pending = waits(zookeeper, lock, before)
    lock.agent.stop()
    zookeeper.admin.delete(own(zookeeper, before))
    other = new_agent().open(zookeeper).lock("job")
    zookeeper.admin.delete(before)
    token = other.acquire(1, 5000).ok.token
    lock.agent.resume()
    until(lambda: pending.ready() or len(zookeeper.nodes("job")) == 2)
    assert not pending.ready()
    other.release(1).ok
    assert pending.answer().ok.token > token


def test_not_through_a_gate(zookeeper: Zookeeper, lock: Lock, new_agent: Make) -> None:
    """The gate is closed, and the node before goes, while it does not run."""
    before = stand(zookeeper)
    pending = waits(zookeeper, lock, before)
    lock.agent.stop()
    new_agent().open(zookeeper).lock("job").close_gate(60_000).ok
    zookeeper.admin.delete(before)
    lock.agent.resume()
    assert pending.answer().status == "GATE_CLOSED"


def test_not_before_the_first_of_two(zookeeper: Zookeeper, lock: Lock) -> None:
    first, second = stand(zookeeper), stand(zookeeper)
    pending = lock.start("acquire", 1, 20_000)
    until(lambda: second in watches(zookeeper) and own(zookeeper, first, second) in watches(zookeeper))
    zookeeper.admin.delete(second)
    until(lambda: pending.ready() or first in watches(zookeeper))
    assert not pending.ready()
    zookeeper.admin.delete(first)
    pending.answer().ok


def test_not_when_the_connection_was_lost_meanwhile(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make) -> None:
    """Its watches went with it, and so it looks again."""
    proxy, before = new_proxy(zookeeper.members[0]), stand(zookeeper)
    pending = new_agent().open(url(proxy), connects_per_second=1000, **PATIENT).lock("job").start("acquire", 1, 20_000)
    until(lambda: "dlock_gates" in watches(zookeeper) and before in watches(zookeeper))
    proxy.refuse()
    proxy.cut()
    mine = own(zookeeper, before)
    zookeeper.admin.delete(mine)
    zookeeper.admin.delete(before)
    proxy.accept()
    assert pending.answer().ok.token and own(zookeeper) != mine
