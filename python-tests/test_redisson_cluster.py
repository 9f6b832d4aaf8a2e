"""Real Redisson and libdlock on the same names of a Redis Cluster: they exclude each other and wake each other, on every primary."""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Lock, until
from harness.cluster import Cluster
from harness.java import VERSIONS, Java, Object
from harness.kinds import one

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]  # the first test of all may have to fetch Redisson
SOON = 10.0  # the leases are 30 s, and nobody of ours looks for himself
ROWS = {"mutex": "lock", "fair": "fair", "write": "write", "semaphore": "semaphore"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(replicas=0) as up:
        yield up


@pytest.fixture(scope="module", params=VERSIONS)
def java(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Java]:
    with Java(cluster, request.param) as made:
        yield made


def take(lock: Object, ours: str) -> Any:
    return lock.start("acquire", 1) if ours == "semaphore" else lock.start("lock", -1)


def give(lock: Object, ours: str) -> Any:
    return lock.release(1) if ours == "semaphore" else lock.unlock()


def subscribers(cluster: Cluster, name: str) -> int:
    node = cluster.owner(name)
    channels = [word for word in node.command("PUBSUB", "SHARDCHANNELS") if name.encode() in word]
    return len(channels)


def turns(cluster: Cluster, theirs: Object, lock: Lock, ours: str, name: str) -> None:
    """Java holds and we wait, then the other way round."""
    take(theirs, ours).value()
    assert lock.acquire(1, 0).status == "BUSY"
    wait = lock.start("acquire", 1, -1, thread=1)
    until(lambda: lock.state(1) == "WAITING" and subscribers(cluster, name) > 0)
    give(theirs, ours)
    wait.answer(SOON).ok
    pending = take(theirs, ours)
    until(lambda: subscribers(cluster, name) > 0)
    assert not pending.done()
    lock.release(1).ok
    pending.value(SOON)
    give(theirs, ours)


@pytest.mark.parametrize("ours", ROWS)
def test_in_turns(cluster: Cluster, java: Java, new_agent: Callable[..., Agent], ours: str) -> None:
    client = new_agent().open(cluster, safety_ms=60_000)
    for number, node in enumerate(cluster.primaries()):
        name = cluster.key_of(node, f"{ours}-{java.version}-")
        lock = one(client, ours, name)
        for _ in range(5):
            turns(cluster, java.lock(name, ROWS[ours]), lock, ours, name)


def test_renewed_by_both(cluster: Cluster, new_agent: Callable[..., Agent]) -> None:
    """Watchdogs of both keep locks on every primary for four leases."""
    client = new_agent().open(cluster, lease_ms=900)
    with Java(cluster, VERSIONS[0], watchdog=0.9) as other:
        names = [cluster.key_of(node, "kept") for node in cluster.primaries()]
        locks = [client.lock(name + "-ours") for name in names]
        for name, lock in zip(names, locks):
            take(other.lock(name + "-theirs"), "mutex").value()
            lock.acquire(1, 0).ok
        until(lambda: client.counters()["renewed"] >= 12 * len(locks), 30)
        assert all(lock.state(1) == "HELD" for lock in locks)
        assert all(client.lock(name + "-theirs").acquire(1, 0).status == "BUSY" for name in names)
        for name in names:
            give(other.lock(name + "-theirs"), "mutex")
