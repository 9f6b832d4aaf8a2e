"""Real Redisson and libdlock on the same names of a Redis Cluster: they exclude each other and wake each other, on every primary."""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Client, Lock, until
from harness.cluster import Cluster
from harness.java import VERSIONS, Java, Object
from harness.kinds import one

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]  # the first test may have to fetch Redisson
SOON = 10.0  # the leases are 120 s, and ours do not probe
LEASE = 120_000
PATIENT = {"safety_ms": 60_000, "lease_ms": LEASE}
# Our kind and Redisson's, which exclude each other.
ROWS = [
    ("mutex", "lock"), ("fair", "fair"), ("write", "write"), ("read", "write"), ("write", "read"), ("semaphore", "semaphore"),
    ("permit_semaphore", "permits"),
]  # fmt: skip
MODES = [("AUTO", "auto"), ("OFF", "plain"), ("OFF", "both"), ("AUTO", "both")]  # of Redisson and of libdlock
# The newest version in all of them, the oldest in the first and the third.
TRIED = [((version, sharded), mode) for version, modes in zip(VERSIONS, (MODES, MODES[::2])) for sharded, mode in modes]
with_modes = pytest.mark.parametrize(("java", "mode"), TRIED, indirect=["java"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(replicas=0) as up:
        yield up


@pytest.fixture(scope="module")
def java(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Java]:
    version, sharded = request.param
    with Java(cluster, version, watchdog=LEASE / 1000, sharded=sharded) as made:
        yield made


@pytest.fixture
def client(cluster: Cluster, new_agent: Callable[..., Agent], mode: str) -> Client:
    return new_agent().open(cluster, cluster_pubsub=mode, **PATIENT)


def take(lock: Object) -> Any:
    if lock.kind == "permits":
        return lock.start("acquire", 1, LEASE)
    return lock.start("acquire", 1) if lock.kind == "semaphore" else lock.start("lock", -1)


def give(lock: Object, taken: Any = None) -> Any:
    if lock.kind == "permits":
        return lock.release(*taken)
    return lock.release(1) if lock.kind == "semaphore" else lock.unlock()


def subscribers(cluster: Cluster, name: str) -> int:
    node = cluster.owner(name)
    channels = [word for verb in ("CHANNELS", "SHARDCHANNELS") for word in node.command("PUBSUB", verb) if name.encode() in word]
    return len(channels)


def turns(cluster: Cluster, theirs: Object, lock: Lock, name: str) -> None:
    """Java holds and we wait, then the other way round."""
    taken = take(theirs).value()
    assert lock.acquire(1, 0).status == "BUSY"
    wait = lock.start("acquire", 1, -1, thread=1)
    until(lambda: lock.state(1) == "WAITING" and subscribers(cluster, name) > 0)
    give(theirs, taken)
    wait.answer(SOON).ok
    pending = take(theirs)
    until(lambda: subscribers(cluster, name) > 0)
    assert not pending.done()
    lock.release(1).ok
    give(theirs, pending.value(SOON))


@with_modes
@pytest.mark.parametrize(("ours", "theirs"), ROWS, ids=["-".join(row) for row in ROWS])
def test_in_turns(cluster: Cluster, java: Java, client: Client, mode: str, ours: str, theirs: str) -> None:
    for node in cluster.primaries():
        name = cluster.key_of(node, f"{ours}-{theirs}-{java.version}-{id(java)}-{mode}-")
        lock = one(client, ours, name)
        for _ in range(2 if mode == "auto" else 1):
            turns(cluster, java.lock(name, theirs), lock, name)


def names_without_braces(cluster: Cluster, prefix: str) -> Iterator[str]:
    """One name per primary without braces: the channel of another latch may be in any slot."""
    owners = cluster.owners()
    for node in cluster.primaries():
        yield next(name for name in (f"{prefix}-{i}" for i in range(1000)) if owners[cluster.slot(name)] is node)


@with_modes
def test_a_latch(cluster: Cluster, java: Java, client: Client, mode: str) -> None:
    for name in names_without_braces(cluster, f"latch-{id(java)}-{mode}"):
        lock, theirs = client.lock(name, kind="latch"), java.lock(name, "latch")
        for down in (lambda: lock.latch_down(1).ok, lambda: theirs.countDown()):
            assert theirs.trySetCount(1)
            pending, wait = theirs.start("await", LEASE, thread="waiter"), lock.start("acquire", 1, -1, thread=1)
            until(lambda: lock.state(1) == "WAITING" and sum(numsub(cluster, name)) >= (3 if mode == "both" else 2))
            down()
            assert pending.value(SOON)
            wait.answer(SOON).ok


def numsub(cluster: Cluster, latch: str) -> list[int]:
    """Subscribers of the plain and of the sharded channel."""
    channel = f"redisson_countdownlatch__channel__{{{latch}}}"
    return [cluster.command("PUBSUB", verb, channel, key=latch)[1] for verb in ("NUMSUB", "SHARDNUMSUB")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fleet_of_either_sort(cluster: Cluster, new_agent: Callable[..., Agent], version: str) -> None:
    """One JVM uses plain and one sharded Pub/Sub: both get the message of one release."""
    client = new_agent().open(cluster, cluster_pubsub="both", **PATIENT)
    with Java(cluster, version, 120, "OFF") as plain, Java(cluster, version, 120, "AUTO") as sharded:
        for name in names_without_braces(cluster, f"either-{version}"):
            latch, lock = client.lock(name, kind="latch"), client.lock(name + "{rw}", kind="write")
            latch.latch_set(1).ok
            waits = [java.lock(name, "latch").start("await", LEASE) for java in (plain, sharded)]
            until(lambda: numsub(cluster, name) == [1, 1])
            latch.latch_down(1).ok
            assert all(wait.value(SOON) for wait in waits)
            lock.acquire(1, 0).ok
            waits = [java.lock(name + "{rw}", "read").start("lock", -1) for java in (plain, sharded)]
            until(lambda: subscribers(cluster, name + "{rw}") == 2)
            lock.release(1).ok
            assert all(wait.answer(SOON) for wait in waits)
            for java in (plain, sharded):
                java.lock(name + "{rw}", "read").unlock()


def test_renewed_by_both(cluster: Cluster, new_agent: Callable[..., Agent]) -> None:
    """Watchdogs of both keep locks on every primary for four leases."""
    client = new_agent().open(cluster, lease_ms=900)
    with Java(cluster, VERSIONS[0], watchdog=0.9) as other:
        names = [cluster.key_of(node, "kept") for node in cluster.primaries()]
        locks = [client.lock(name + "-ours") for name in names]
        for name, lock in zip(names, locks):
            take(other.lock(name + "-theirs")).value()
            lock.acquire(1, 0).ok
        until(lambda: client.counters()["renewed"] >= 12 * len(locks), 30)
        assert all(lock.state(1) == "HELD" for lock in locks)
        assert all(client.lock(name + "-theirs").acquire(1, 0).status == "BUSY" for name in names)
        for name in names:
            give(other.lock(name + "-theirs"))
