"""The 24 traps of Redisson's protocol (section 19 of its description), by number: libdlock's behaviour at each, or what keeps it out. The
library runs beside a scripted Redisson on a real server. Steps that no library call leads to are commands.
"""
from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent
from harness.steps.counting import Subscriber, JavaLatch, JavaPermits, JavaSemaphore
from harness.kinds import KINDS, RIVAL
from harness.steps.redisson import Jvm, channel_of, tagged, token_key
from harness.steps.redisson_fair import ACQUIRE, CANCEL, Waiter, queue_key, timeout_key
from harness.steps.redisson_rw import OLD_READ_RENEW, JavaRw, hold_key, rw_channel
from harness.steps.rw_model import ALL
from harness.steps.scripts import SHA, teach
from harness.server import Server
from test_foreign import PATIENT, WHILE, Running, Watch, near, wait_until

import dlock
from dlock import Client, EventType, Lock, State

UUID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
LEASE = 30_000
SC = b"redisson_sc:{%s}"
MUTEX_LIKE, RW = ("mutex", "fair"), ("read", "write")
STEMS = {kind: f"{kind}_acquire" for kind in KINDS} | {"mutex": "acquire", "permit_semaphore": "permit_acquire"}


class World:
    """A server, a scripted Redisson, whose thread 1 is also java at the read-write lock "k", and clients of ours."""

    def __init__(self, server: Server, stack: contextlib.ExitStack) -> None:
        self.server, self._stack = server, stack
        self.redis = stack.enter_context(server.client())
        self.command = self.redis.command
        self.jvm = stack.enter_context(Jvm(server, UUID))
        self.java = JavaRw(self.redis, "k", f"{UUID}:1")

    def client(self, **options: Any) -> Client:
        return self._stack.enter_context(Client(self.server.url, **options))

    def waiter(self, name: str = "k", **more: Any) -> Waiter:
        """A thread of Redisson's at a fair lock."""
        return self._stack.enter_context(contextlib.closing(Waiter(self.server, name, **more)))

    def left(self, key: str | bytes = "k") -> int:
        return int(self.command("PTTL", key))

    def owners(self) -> list[str]:
        return [field.decode() for field in self.command("HKEYS", "k") if field != b"mode"]

    def deadline(self, owner: str | bytes) -> int:
        return int(self.command("ZSCORE", timeout_key("k"), owner))

    def in_line(self, size: int, name: str = "k") -> None:
        wait_until(lambda: self.command("LLEN", queue_key(name)) == size)

    def heard(self, *channels: bytes) -> None:
        """The waiters of each have found it held, and have subscribed."""
        wait_until(lambda: all(self.command("PUBSUB", "NUMSUB", channel)[1] for channel in channels))

    def dump(self) -> dict[bytes, bytes]:
        return {key: self.command("DUMP", key) for key in self.command("KEYS", "*")}


@pytest.fixture
def world(redis_server: Server) -> Iterator[World]:
    with contextlib.ExitStack() as stack:
        yield World(redis_server, stack)


def wait_for(lock: Lock) -> Running:
    """Acquires the lock in a thread; returns when it waits."""
    waiter = Running(lock.acquire, True, WHILE)
    wait_until(lambda: lock.state is State.WAITING)
    return waiter


def told(act: Callable[[], Any], *waiters: Running) -> Any:
    """What act returns. Its message lets the waiters in, long before they probe."""
    began, value = time.monotonic(), act()
    assert all(waiter.result() and waiter.done - began < PATIENT / 3000 for waiter in waiters)
    return value


def pass_time(seconds: float) -> None:
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > end)


def test_trap_01_our_hashes_always_have_a_ttl(world: World) -> None:
    """Checked all the time. A fenced lock of Redisson's is never fooled, and a removed TTL comes back."""
    ours, other = world.client(), world.client(min_hold_ms=40)
    ours.semaphore("semaphore").set_permits(1), ours.permit_semaphore("permit_semaphore").set_permits(1)
    with Watch(world.server) as watch:
        for kind in ["mutex", *KINDS]:
            lock, rival = ours.lock(kind, owner=1, kind=kind), other.lock(kind, owner=2, kind=RIVAL.get(kind, kind))
            assert lock.acquire() and (kind not in MUTEX_LIKE or (world.jvm.fenced_lock(kind).acquire(1) or 0) > 0)
            waiter = wait_for(rival)
            if kind != "semaphore":
                lock.extend(40)
            lock.release()
            assert waiter.result()
            rival.release()  # the minimum hold begins
            assert [key for key in world.command("KEYS", "*") if world.left(key) == -1 and b"semaphore" not in key] == []
        wait_until(lambda: watch.looks > 10)
    assert watch.found <= {b"semaphore", b"permit_semaphore", b"{permit_semaphore}:timeout"}  # nor have Redisson's
    assert ours.lock("k", owner=1, lease_ms=600).acquire() and world.command("PERSIST", "k") == 1
    wait_until(lambda: 0 < world.left() <= 600)


@pytest.mark.parametrize("kind", [*MUTEX_LIKE, *RW])
def test_trap_01_a_foreign_hash_without_ttl_is_waited_for(world: World, kind: str) -> None:
    world.command("HSET", "k", *(["mode", "write"] if kind in RW else []), f"{UUID}:1:write", 1)
    before, ours = world.command("DUMP", "k"), world.client(safety_ms=50)
    lock = ours.lock("k", owner=1, kind=kind)
    assert not lock.try_acquire() and not lock.acquire(timeout=0.05)
    waiter, asked = wait_for(lock), ours.stats()["commands"]
    wait_until(lambda: ours.stats()["commands"] >= asked + 3)
    assert world.command("DUMP", "k") == before and world.left() == -1 and lock.state is State.WAITING
    world.command("DEL", "k")
    assert waiter.result() and 0 < world.left() <= LEASE


def test_trap_02_kinds_do_not_mix(world: World) -> None:
    """Neither Redisson's hash of another kind nor ours is entered or changed. Mutex and fair lock may share a name."""
    ours, java, plain = world.client(), world.java, world.jvm.lock("k")

    def refused(kinds: tuple[str, ...]) -> None:
        before = world.dump()
        for lock in (ours.lock("k", owner=2, kind=kind) for kind in kinds):
            for attempt in (lock.try_acquire, lock.acquire, lock.force_release):
                with pytest.raises(dlock.WrongKind):
                    attempt()
        assert world.dump() == before

    for take, give_back in ((java.read, java.read_release), (java.write, java.write_release)):
        assert take() is None
        refused(MUTEX_LIKE)
        assert give_back() == 1
    assert plain.acquire(1) is None
    refused(RW)
    assert plain.unlock(1)
    for kind in (*MUTEX_LIKE, *RW):
        with ours.lock("k", owner=1, kind=kind):
            refused(MUTEX_LIKE if kind in RW else RW)
            assert (plain.acquire(1) or 0) > 0
            assert kind in RW or not any(ours.lock("k", owner=2, kind=one).try_acquire() for one in MUTEX_LIKE)


def test_trap_03_our_readers_have_hold_keys(world: World) -> None:
    """Renewed with the lock: a Redisson reader that leaves finds ours alive, also when their first leases are over."""
    ours, java = world.client(lease_ms=600), world.java
    reads = [ours.read_lock("k", owner=owner) for owner in (1, 2, 3)]
    assert all(read.acquire() for read in reads) and java.read() is None
    holds = [hold_key("k", owner) for owner in world.owners() if owner != java.id]
    assert len(holds) == 3 and all(world.left(hold) > 0 for hold in holds)
    pass_time(0.7)
    assert java.read_release() == 0 and java.write() is not None and not ours.write_lock("k", owner=4).try_acquire()
    assert all(world.left(hold) > 0 for hold in holds) and all(read.held for read in reads)


def test_trap_04_silent_releases_are_noticed(world: World) -> None:
    """No message comes, and the known leases are longer than our waiters' time here."""
    ours, java, j, names = world.client(safety_ms=100), world.java, world.waiter("fair"), ("expires", "spin", "sharded")
    permits, seats = JavaPermits(world.redis, "permits"), JavaSemaphore(world.redis, "seats")
    assert all(world.jvm.lock(name).acquire(1, lease=60) is None for name in names) and j.acquire() is None
    assert java.write(60_000) is None and java.read(60_000) is None and permits.change("try_set_permits", 1) == 1
    (permit,) = permits.try_acquire(1, 60_000) or []
    assert seats.call("try_set_permits", 1) and seats.call("drain_permits") == 1 and world.command("SET", "gone", 0)
    world.command("SET", "latch", 1)
    kinds = {name: "mutex" for name in names} | {"fair": "fair", "k": "read", "permits": "permit_semaphore"}
    kinds |= {"seats": "semaphore", "gone": "semaphore", "latch": "latch"}
    waiters = [wait_for(ours.lock(name, owner=1, kind=kind)) for name, kind in kinds.items()]
    world.heard(*map(channel_of, names), rw_channel("k"), SC % b"permits", SC % b"seats", SC % b"gone")
    world.in_line(1, "fair")
    world.command("PEXPIRE", "expires", 50)
    world.command("DEL", "spin", "sharded", "latch", "gone")
    world.command("SPUBLISH", channel_of("sharded"), 0)
    world.command("DEL", "fair", queue_key("fair"), timeout_key("fair"))  # delete()
    assert java.write_release() == 1 and world.command("HGET", "k", "mode") == b"read"
    world.command("ZADD", permits.keys[1], 1, permit)  # its lease is over
    world.command("INCRBY", "seats", 1)
    world.command("SET", "gone", 1)
    assert all(waiter.result() for waiter in waiters)


def test_trap_05_our_write_release_says_1_and_0(world: World) -> None:
    """"1" wakes the sleeping threads of a JVM; the "0" behind it wakes the one that has tried and is about to sleep. So does a write that
    goes on as a read, for which Redisson itself sends nothing.
    """
    subscriber, ours, channel = Subscriber(world.server, rw_channel("k")), world.client(), rw_channel("k")
    write, read = ours.write_lock("k", owner=1), ours.read_lock("k", owner=1)
    entries = [world.jvm.pubsub.subscribe(channel) for _ in range(3)]
    asleep = [Running(entry.sleep, WHILE) for entry in entries[:2]]
    wait_until(lambda: entries[0].asleep == 2)
    assert write.acquire() and read.acquire()
    for lock, payloads in ((write, ALL), (read, [b"0"])):
        lock.release()
        assert subscriber.messages() == payloads
    assert all(thread.result() for thread in asleep)
    assert all(entries[2].sleep(WHILE) for _ in range(2)) and not entries[2].sleep(0)
    assert write.acquire()
    write.release()
    assert subscriber.messages() == ALL and entries[2].sleep(WHILE)
    assert write.acquire() and write.force_release() and subscriber.messages() == ALL and entries[2].sleep(WHILE)


def test_trap_06_a_ttl_goes_down(world: World) -> None:
    """The lease that a waiter was told is trusted for its safety interval only; ours repair a lease that renewals of others cut."""
    ours, java = world.client(safety_ms=100), world.java
    again, partly = world.jvm.lock("again"), world.jvm.lock("partly")
    assert again.acquire(1, lease=60) is None and [partly.acquire(1, lease=60) for _ in range(2)] == [None, None]
    waiters = [wait_for(ours.lock(name, owner=1)) for name in ("again", "partly")]
    world.heard(channel_of("again"), channel_of("partly"))
    partly._rearm_ms = 100
    assert again.acquire(1, lease=0.1) is None and partly.unlock(1) is False and all(one.result() for one in waiters)
    read = ours.read_lock("k", owner=1, lease_ms=90_000)
    assert read.acquire() and java.read() is None and java.read_renew() == 1 and near(world.left(), LEASE)
    read.extend(90)
    assert near(world.left(), 90_000) and java.read_release() == 0 and near(world.left(), 90_000)
    with ours.write_lock("own", owner=1, lease_ms=60_000):
        with ours.read_lock("own", owner=1, lease_ms=1000):
            pass
        assert near(world.left("own"), 60_000)  # Redisson's read release would cut it


def test_trap_07_write_reentry_adds_nothing(world: World) -> None:
    """Ours is not on the wire. Redisson's adds up; waiters wait for it no longer than the lock is held."""
    lock, java = world.client(safety_ms=PATIENT).write_lock("k", owner=1), world.java
    assert lock.acquire() and lock.acquire()
    lock.extend(LEASE / 1000)  # one that finds a longer lease adds a millisecond, which waiters can see
    assert world.left() <= LEASE + 1 and sorted(world.command("HVALS", "k")) == [b"1", b"write"]
    lock.release(), lock.release()
    assert java.write() is None and java.write() is None and near(world.left(), 2 * LEASE)
    waiter = wait_for(lock)
    world.heard(rw_channel("k"))
    assert java.write_release() == 0 and told(java.write_release, waiter) == 1


def test_trap_08_a_fair_release_of_a_vanished_lock(world: World) -> None:
    """Redisson's wakes our head; ours returns LOST and does nothing to the current holder."""
    j, lock = world.waiter(), world.client(safety_ms=PATIENT).fair_lock("k", owner=1)
    assert j.acquire() is None
    waiter = wait_for(lock)
    world.in_line(1)
    world.command("DEL", "k")
    assert told(j.release, waiter) == 1
    world.command("DEL", "k")
    assert j.acquire() is None
    with pytest.raises(dlock.Lost):
        lock.release()
    assert world.owners() == [j.id] and j.nothing() and j.release() == 1


def test_trap_09_ghosts_at_the_head(world: World) -> None:
    """Dead threads of Redisson's, with a deadline and without: ours get in, and do not poll in a busy loop until then."""
    ours, names = world.client(), ("scored", "scoreless")
    first, second = ([ours.fair_lock(name, owner=owner) for name in names] for owner in (1, 2))
    for lock, name in zip(first, names):
        assert lock.acquire() and world.waiter(name, subscribe=False).acquire() is not None
    waiters = [wait_for(lock) for lock in second]
    world.in_line(2, "scored"), world.in_line(2, "scoreless"), world.command("DEL", timeout_key("scoreless"))
    before = ours.stats()["commands"]
    for lock in first:
        lock.release()
    assert all(waiter.result() for waiter in waiters) and ours.stats()["commands"] - before < 400


def test_trap_10_fair_waits_mixed(world: World) -> None:
    """A Redisson waiter takes off more than it added, another drops ours from the line: they come back, in order."""
    ours, holds, leaves, prunes = world.client(safety_ms=100), world.waiter(), world.waiter(wait=5000), world.waiter()
    assert holds.acquire() is None and leaves.acquire() is not None
    locks, waiters = [ours.fair_lock("k", owner=owner) for owner in (1, 2)], []
    for size, lock in enumerate(locks, 2):
        waiters.append(wait_for(lock))
        world.in_line(size)
    order = world.command("LRANGE", queue_key("k"), 1, -1)
    cancel = ["EVAL", CANCEL, 3, *leaves.keys, leaves.id, 600_000]  # 300,000 would not suffice: ours stand behind its 330 s
    prune = ["EVAL", ACQUIRE, 3, *prunes.keys, prunes.id, LEASE, 0, prunes.now(), 0]
    assert world.redis.pipeline(["MULTI"], cancel, prune, ["LLEN", queue_key("k")], ["EXEC"])[-1] == [None, 1, 0]
    world.in_line(2)
    assert world.command("LRANGE", queue_key("k"), 0, -1) == order and holds.release() == 1
    assert waiters[0].result() and locks[1].state is State.WAITING
    locks[0].release()
    assert waiters[1].result()


def test_trap_11_multilock_ends_counter_and_line(world: World) -> None:
    """A token counter that is to expire gets its long life back at our next grant. If it has expired, and Redisson's began at 1 again,
    ours still rise: they are the server's time. A line that is to expire is made to last.
    """
    ours, fenced, last = world.client(safety_ms=100), world.jvm.fenced_lock("k"), 0
    lock = ours.lock("k", owner=1)
    for end in (60_000, 1, 1):
        with lock:
            assert lock.token > last and (fenced.token == 1 or world.left(token_key("k")) > 80_000_000)
            last = lock.token
        if world.command("PEXPIRE", token_key("k"), end) and end == 1 and not fenced.token:
            wait_until(lambda: not world.command("EXISTS", token_key("k")))
            assert fenced.try_lock(1) and fenced.token == 1 and fenced.unlock(1)
    holds, waits, keys = world.waiter("fair"), world.waiter("fair"), (queue_key("fair"), timeout_key("fair"))
    assert holds.acquire() is None and waits.acquire() is not None
    waiter = wait_for(ours.fair_lock("fair", owner=1))
    world.in_line(2, "fair")
    assert [world.command("PEXPIRE", key, 5000) for key in keys] == [1, 1]
    wait_until(lambda: [world.left(key) for key in keys] == [-1, -1])
    assert holds.release() == 1 and waits.message() == b"0" and waits.acquire() is None and waits.release() == 1
    assert waiter.result()


def test_trap_12_tokens_rise_across_redissons_reentries(world: World) -> None:
    """The owner's token is its own, whatever others were granted since."""
    ours, fenced, tokens = world.client(), world.jvm.fenced_lock("k"), [0]
    lock, reads = ours.lock("k", owner=1), [ours.read_lock("rw", owner=owner) for owner in (1, 2)]
    for _ in range(3):
        for _ in range(3):
            assert fenced.try_lock(1)
            tokens.append(fenced.token)
        assert [fenced.unlock(1) for _ in range(3)] == [False, False, True]
        with lock:
            tokens.append(lock.token)
            with lock:
                assert lock.token == tokens[-1]
    assert tokens == sorted(set(tokens)) and all(read.acquire() for read in reads) and reads[0].token < reads[1].token


def test_trap_13_a_replica_grants_nothing(world: World, new_server: Callable[..., Server]) -> None:
    """Java's: isLocked may come from a replica that lags. Our grants are writes in scripts, which replicas refuse."""
    world.command("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    replica = new_server("--replicaof", world.server.host, str(world.server.port))
    world.command("SET", "semaphore", 1), world.command("SET", "permit_semaphore", 1)
    wait_until(lambda: replica.command("EXISTS", "semaphore", "permit_semaphore") == 2)
    before = world.dump()
    with Client(replica.url) as ours:
        for kind in STEMS:
            with pytest.raises(dlock.ServerReadOnly):
                ours.lock(kind, owner=1, kind=kind).try_acquire()
    assert world.dump() == before


def test_trap_14_a_release_without_a_hold_stops_no_watchdog(world: World) -> None:
    """Java's: its renewal counts go down at every unlock. Ours belong to one owner's hold."""
    ours = world.client(lease_ms=600)
    locks = [ours.lock(kind, owner=1, kind=kind) for kind in (*MUTEX_LIKE, *RW)]
    for lock in locks:
        assert lock.acquire() and lock.acquire()
        for _ in range(3):
            with pytest.raises(dlock.NotHeld):
                ours.lock(lock.name, owner=2, kind=str(lock.name)).release()
        lock.release()
    pass_time(0.8)
    assert all(lock.held and world.left(lock.name) > 0 for lock in locks) and ours.stats()["lost"] == 0


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_trap_15_payloads_are_hints(world: World, kind: str) -> None:
    """A message gives no permits, whatever it says; two permits released by one message are two."""
    ours, java = world.client(safety_ms=PATIENT), JavaPermits(world.redis, "k")
    assert java.change("try_set_permits", 2) == 1
    ids, waiters = java.try_acquire(2) or [], [wait_for(ours.lock("k", owner=owner, kind=kind)) for owner in (1, 2)]
    world.heard(SC % b"k")
    asked = ours.stats()["commands"]
    for payload in ("1000000", "1", "0", "-5", "", "words", "9" * 40, b"\xff\0"):
        assert world.command("PUBLISH", SC % b"k", payload) == 1
    wait_until(lambda: ours.stats()["commands"] > asked)
    assert world.command("GET", "k") == b"0" and not any(hasattr(waiter, "done") for waiter in waiters)
    release = JavaSemaphore(world.redis, "k").call
    told((lambda: java.release(*ids)) if kind == "permit_semaphore" else (lambda: release("release", 2)), *waiters)


def test_trap_16_negative_payloads(world: World) -> None:
    """Ours publish none. Redisson's do no harm."""
    seats, subscriber = world.client(safety_ms=PATIENT).semaphore("k", owner=1), Subscriber(world.server, SC % b"k")
    assert seats.set_permits(1) and [seats.add_permits(number) for number in (-3, -30)] == [-2, -32]
    assert seats.drain_permits() == -32 and subscriber.messages() == [b"1"]
    java = JavaSemaphore(world.redis, "k")
    waiter = wait_for(seats)
    world.heard(SC % b"k")
    java.call("add_permits", -2)
    assert subscriber.messages() == [b"-2"] and seats.available_permits == -2 and seats.state is State.WAITING
    assert told(lambda: java.call("release", 3), waiter) == 1
    java.call("add_permits", -2)
    seats.release()
    assert seats.available_permits == -1 and subscriber.messages() == [b"1", b"-2"]


def test_trap_17_changes_drop_the_ttl(world: World) -> None:
    """As with Redisson. Acquire and release keep it, and leases last as long as what they are taken from."""
    seats, permits = world.client().semaphore("seats", owner=1), world.client().permit_semaphore("permits", owner=1)
    java = JavaPermits(world.redis, "permits")
    for change in (lambda: seats.add_permits(1), seats.drain_permits):
        world.command("SET", "seats", 2, "PX", 60_000)
        with seats:
            assert near(world.left("seats"), 60_000)
        assert near(world.left("seats"), 60_000) and change() > 0 and world.left("seats") == -1
    world.command("SET", "permits", 2, "PX", 60_000)
    assert java.try_acquire() and near(world.left(java.keys[1]), 60_000)
    java.change("add_permits", 1)
    assert world.left("permits") == -1 < world.left(java.keys[1]) and permits.acquire()
    assert world.left(java.keys[1]) == -1


def test_trap_18_a_permit_released_after_its_end_comes_back_once(world: World) -> None:
    ours, java = world.client(lease_ms=150, renew=False), JavaPermits(world.redis, "k")
    seats = ours.permit_semaphore("k", owner=1)
    assert seats.set_permits(2) and seats.acquire()
    assert (event := ours.next_event(WHILE)) and event.type is EventType.LOST
    for error in (dlock.Lost, dlock.NotHeld):
        with pytest.raises(error):
            seats.release()
    wait_until(lambda: seats.available_permits == 2)
    (permit,) = java.try_acquire(1, 1) or []
    wait_until(lambda: java.now() > int(world.command("ZSCORE", java.keys[1], permit)))
    assert java.release(permit) == java.release(permit) == 0 and seats.available_permits == 2


@pytest.mark.parametrize("name", ["k", "{k}", "a{k}b"])
def test_trap_19_latches(world: World, name: str) -> None:
    """Braces around every name. Waiters of a deleted latch go on; counting down without a latch creates none."""
    latch, java = world.client(safety_ms=100).latch(name, owner=1), JavaLatch(world.redis, name)
    subscriber = Subscriber(world.server, channel := b"redisson_countdownlatch__channel__{" + name.encode() + b"}")
    assert latch.count_down() == 0 and world.command("EXISTS", name) == 0 and subscriber.messages() == []
    assert latch.set_count(2) and [latch.count_down(), latch.count_down()] == [1, 0] and subscriber.messages() == [b"1", b"0"]
    for end in ("count_down", "delete"):
        assert java.call("try_set_count", 1) == 1
        waiter = wait_for(latch)
        wait_until(lambda: world.command("PUBSUB", "NUMSUB", channel)[1] == 2)
        java.call(end)
        assert waiter.result() and latch.count == 0


def dead_reader(world: World, agent: Agent) -> str:
    """A process of ours that reads "k" beside others, for half a second more."""
    agent.open(world.server, lease_ms=500).lock("k", kind="read").acquire(1, 0).ok
    agent.kill()
    return next(owner for owner in world.owners() if owner != world.java.id)


def test_trap_20_dead_readers_do_not_block_our_writer(world: World, agent: Agent) -> None:
    """Neither Redisson's that died while the lock has long to live, nor ours beside a live one of Redisson's."""
    java, write = world.java, world.client(safety_ms=1000).write_lock("k", owner=1)
    assert java.read(60_000) is None and world.command("DEL", hold_key("k", java.id)) == 1  # its lease is over
    assert java.write() is not None and near(world.left(), 60_000) and write.try_acquire()  # Redisson waits
    write.release()
    assert java.read(60_000) is None
    dead, waiter = dead_reader(world, agent), wait_for(write)
    wait_until(lambda: not world.command("EXISTS", hold_key("k", dead)))
    assert write.state is State.WAITING and dead in world.owners() and java.read_release() == 1 and waiter.result()


@pytest.mark.parametrize("kind", STEMS)
def test_trap_21_a_lost_reply_counts_once(world: World, new_proxy: Callable[..., Any], kind: str) -> None:
    proxy, other = new_proxy(world.server), world.client().lock("k", owner=2, kind=RIVAL.get(kind, kind))
    if "semaphore" in kind:
        world.command("SET", "k", 1)
    teach(world.server)
    proxy.lose_reply(SHA[STEMS[kind]])
    with Client(proxy.url) as ours:
        lock = ours.lock("k", owner=1, kind=kind)
        assert lock.acquire(timeout=WHILE) and proxy.down.fired["cut"] == 1 and not other.try_acquire()
        if "semaphore" in kind:
            assert world.command("GET", "k") == b"0"
        else:
            assert [world.command("HGET", "k", owner) for owner in world.owners()] == [b"1"] and world.left() <= LEASE
        token = lock.token
        lock.release()
        wait_until(other.try_acquire)
        assert other.token > token and ours.stats()["lost"] == 0


def test_trap_21_what_a_lost_reply_left_of_redissons(world: World) -> None:
    """A hold that nobody knows of, or one counted twice and released once: a held lock, until its time is over."""
    once, twice = world.jvm.lock("once"), world.jvm.lock("twice")
    assert [lock.acquire(1, lease=0.4) for lock in (once, twice, twice)] == [None] * 3 and twice.unlock(1) is False
    ours = world.client()
    assert all(waiter.result() for waiter in [wait_for(ours.lock(name, owner=1)) for name in ("once", "twice")])


def test_trap_22_places_in_line_last_300_seconds(world: World) -> None:
    """The manual's 5 s are not the code's. A live head of Redisson's is assured of 300 s, whatever it requested; ours stay for a minute
    after each probe, and add nothing to the deadlines behind them.
    """
    ours, brief, behind = world.client(safety_ms=100), world.waiter(wait=5000), world.waiter()
    assert ours.fair_lock("k", owner=1).acquire() and brief.acquire() is not None
    lock = ours.fair_lock("k", owner=2)
    waiter = wait_for(lock)
    world.in_line(2)
    wait_until(lambda: world.deadline(brief.id) > brief.now() + 299_000)
    assert world.deadline(world.command("LINDEX", queue_key("k"), 1)) > brief.now() + 55_000
    assert behind.acquire() is not None
    before = world.deadline(behind.id)
    assert lock.cancel()
    with pytest.raises(dlock.Cancelled):
        waiter.result()
    world.in_line(2)
    assert world.deadline(behind.id) == before


@pytest.mark.parametrize("kind", [*MUTEX_LIKE, *RW])
@pytest.mark.parametrize("owner", [f"{UUID}:1:tx", f"{UUID}:-1:write:tx", "no uuid", "{:}", "1:2:3:4:5:write"])
def test_trap_23_owner_ids_are_not_parsed(world: World, kind: str, owner: str) -> None:
    lock = world.client(safety_ms=100).lock("k", owner=1, kind=kind)
    world.command("HSET", "k", *(["mode", "write"] if kind in RW else []), owner, 1)
    world.command("PEXPIRE", "k", LEASE)
    seen, before = lock.inspect(), world.command("DUMP", "k")
    assert seen.foreign and seen.holder == owner and not lock.try_acquire()
    waiter = wait_for(lock)
    assert world.command("DUMP", "k") == before and world.command("DEL", "k") == 1
    assert waiter.result() and len(world.owners()) == 1 and owner not in world.owners()


def test_trap_24_an_old_redisson_keeps_our_dead_reader(world: World, agent: Agent) -> None:
    """Releases before 4.4.0 renew all readers. A crashed reader of ours lives until that client's last renewal is over; meanwhile others
    read and writers wait.
    """
    ours, java = world.client(safety_ms=100), world.java
    write, read = ours.write_lock("k", owner=1), ours.read_lock("k", owner=2)
    assert java.read() is None
    dead = dead_reader(world, agent)
    for watchdog in (60_000, 700):  # ms
        world.command("EVAL", OLD_READ_RENEW, 1, "k", watchdog, tagged("k"), java.id)
        assert 0 < world.left(hold_key("k", dead)) <= watchdog and read.try_acquire()
        read.release()
        assert not write.try_acquire()
    assert java.read_release() in (0, 1) and write.acquire(timeout=WHILE)
