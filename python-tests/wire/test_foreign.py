"""Redisson and libdlock on one lock: a scripted JVM (harness/steps/redisson.py) against the library, in both directions."""
from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any, Callable, Iterator, NamedTuple

import pytest

import mutants
from harness.build import BUILD, LIBRARY, ROOT
from harness.faults import always
from harness.proxy import Proxy
from harness.steps.redisson import FencedLock, Jvm, NotOwner, channel_of, token_key
from harness.resp import Client as Redis
from harness.kinds import only_tombstones
from harness.server import Server
from harness.waiting import WHILE, wait_until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Cause, Client, EventType, Lock, State

SOON = 0.25  # seconds: a normal wake-up takes far less
PATIENT = 15_000  # safety_ms of clients that only a message can wake in time
NAMES: list[str | bytes] = ["order", "shop:{7}:lock", "{x}", "x", "a b\n*?", b"\xff\xfe"]


@pytest.fixture
def new_jvm(redis_server: Server) -> Iterator[Callable[..., Jvm]]:
    with contextlib.ExitStack() as stack:
        yield lambda **more: stack.enter_context(Jvm(redis_server, **more))


@pytest.fixture
def jvm(new_jvm: Callable[..., Jvm]) -> Jvm:
    return new_jvm()


@pytest.fixture
def new_client(redis_server: Server) -> Iterator[Callable[..., Client]]:
    """For the server each client is a process of its own."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(Client(redis_server.url, **options))


@pytest.fixture
def client(new_client: Callable[..., Client]) -> Client:
    return new_client()


@pytest.fixture
def subscriber(redis_server: Server) -> Iterator[Redis]:
    """Subscribes to all of Redisson's channels; by pattern, so that it does not count as a waiter."""
    with redis_server.client() as redis:
        redis.send("PSUBSCRIBE", "redisson_*")
        redis.read()
        yield redis


class Running:
    """A function in a thread; result() joins it and returns or raises what it did; done: when."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        def run() -> None:
            try:
                self.value = function(*arguments)
            except BaseException as error:
                self.error = error
            self.done = time.monotonic()

        self.value: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def result(self) -> Any:
        self.thread.join(WHILE)
        assert not self.thread.is_alive()
        if self.error:
            raise self.error
        return self.value


def listeners(server: Server, name: str | bytes) -> int:
    return int(server.command("PUBSUB", "NUMSUB", channel_of(name))[1])


def in_line(server: Server) -> int:
    """Processes in line for any lock."""
    return sum(server.command("ZCOUNT", key, 0, "(9e15") for key in server.command("KEYS", "dlock_queue*"))


def holder(server: Server, name: str | bytes) -> dict[bytes, bytes]:
    flat = server.command("HGETALL", name)
    return dict(zip(flat[::2], flat[1::2]))


def only_tokens_left(server: Server) -> None:
    """At the end there are only token counters, and ids of releases in doubt. Those of libdlock expire."""
    wait_until(lambda: all(key.startswith(b"redisson_lock_token:") or only_tombstones(server, key) for key in server.command("KEYS", "*")))
    assert all(server.command("PTTL", key) > 0 for key in server.command("KEYS", "*"))


def held_and_given_back(lock: Lock) -> float:
    """Acquires and releases. Returns when it had the lock."""
    assert lock.acquire(timeout=WHILE)
    done = time.monotonic()
    lock.release()
    return done


# ---- the wire, as in the test vectors


def near(value: int, expected: int) -> bool:
    return expected - 2000 < value <= expected + 1  # a renewal that finds a longer lease adds a millisecond


def test_vectors_of_the_foreign_client_itself(redis_server: Server, new_jvm: Callable[..., Jvm], subscriber: Redis) -> None:
    a = new_jvm(client_id="aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa").lock("k")
    b = new_jvm(client_id="bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb")
    owner = b"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"
    assert a.acquire(1) is None and holder(redis_server, "k") == {owner: b"1"} and near(a.remain_ms(), 30000)
    assert a.acquire(1, lease=5) is None and holder(redis_server, "k") == {owner: b"2"} and near(a.remain_ms(), 5000)
    left = b.lock("k").acquire(7)
    assert left is not None and near(left, 5000)
    a._rearm_ms = 30000
    request = "0" * 32
    assert a.release(1, request, forget=False) == 0 and near(a.remain_ms(), 30000) and subscriber.message(0) is None
    assert a.release(1, request) == 0 and holder(redis_server, "k") == {owner: b"1"}
    assert a.release(1, "1" * 32) == 1 and subscriber.message() == (b"redisson_lock__channel:{k}", b"0")
    assert a.release(1, "2" * 32) is None and subscriber.message(0) is None and not a.is_locked()
    redis_server.command("HSET", "k", "somebody", 1)
    assert b.lock("k").acquire(7) == -1
    redis_server.command("DEL", "k")
    fenced = [b.fenced_lock("k"), a.jvm.fenced_lock("k")]
    assert fenced[1].acquire(1) is None and fenced[1].token == 1
    assert fenced[1].acquire(1) is None and fenced[1].token == 2
    assert near(fenced[0].acquire(7) or 0, 30000) and redis_server.command("GET", "redisson_lock_token:{k}") == b"2"


def test_vectors_with_libdlock_as_holder(redis_server: Server, jvm: Jvm, client: Client, subscriber: Redis) -> None:
    ours, theirs = client.lock("k", lease_ms=30_000), jvm.lock("k")
    assert ours.acquire()
    ((owner, count),) = holder(redis_server, "k").items()
    uuid, _, number = owner.partition(b":")
    assert count == b"1" and len(uuid) == 36 and uuid[14:15] == b"8" and int(number) > 0
    assert near(redis_server.command("PTTL", "k"), 30000)
    assert near(theirs.acquire(7) or 0, 30000)
    assert theirs.is_locked() and theirs.hold_count(7) == 0
    with pytest.raises(NotOwner):
        theirs.unlock(7)
    assert subscriber.message(0) is None and holder(redis_server, "k") == {owner: b"1"}
    ours.release()
    assert subscriber.message() == (b"redisson_lock__channel:{k}", b"0") and not theirs.is_locked()
    with pytest.raises(dlock.NotHeld):
        ours.release()
    assert subscriber.message(0) is None
    assert theirs.acquire(7) is None


def test_vectors_with_libdlock_as_the_other(redis_server: Server, jvm: Jvm, client: Client, subscriber: Redis) -> None:
    ours, theirs = client.lock("k"), jvm.lock("k")
    assert theirs.acquire(1) is None and theirs.acquire(1, lease=5) is None
    seen = ours.inspect()
    assert not ours.try_acquire()
    assert seen.holder == jvm.owner(1) and seen.foreign and seen.remaining and 3 < seen.remaining <= 5
    assert holder(redis_server, "k") == {jvm.owner(1).encode(): b"2"}
    assert theirs.unlock(1) is False and not ours.try_acquire() and subscriber.message(0) is None
    assert theirs.unlock(1) is True and ours.try_acquire()
    ours.release()
    redis_server.command("HSET", "k", "somebody", 1)  # without TTL: never taken for free
    assert not ours.try_acquire() and not ours.acquire(timeout=0.05)
    redis_server.command("DEL", "k")
    assert ours.acquire(timeout=WHILE)


def test_reentry_is_not_on_the_wire(redis_server: Server, jvm: Jvm, client: Client) -> None:
    lock = client.lock("k")
    for _ in range(3):
        assert lock.acquire()
        assert list(holder(redis_server, "k").values()) == [b"1"] and redis_server.command("PTTL", "k") > 0
    for _ in range(2):
        lock.release()
        assert list(holder(redis_server, "k").values()) == [b"1"]
        assert jvm.lock("k").acquire(1) is not None
    lock.release()
    assert jvm.lock("k").acquire(1) is None


# ---- wake-ups


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_foreign_release_wakes_libdlock(
    redis_server: Server, jvm: Jvm, new_client: Callable[..., Client], name: str | bytes
) -> None:
    theirs, ours = jvm.lock(name), new_client(safety_ms=PATIENT).lock(name)
    took = []
    for _ in range(10):
        theirs.lock(1)
        waiter = Running(held_and_given_back, ours)
        wait_until(lambda: listeners(redis_server, name) == 1)
        began = time.monotonic()
        assert theirs.unlock(1)
        took.append(waiter.result() - began)
        wait_until(lambda: listeners(redis_server, name) == 0)
    assert statistics.median(took) < SOON and max(took) < PATIENT / 1000 / 3, took
    only_tokens_left(redis_server)


def test_foreign_release_at_any_moment_wakes_libdlock(
    redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]
) -> None:
    theirs, ours = jvm.lock("k"), new_client(safety_ms=PATIENT).lock("k")
    dice, slow = random.Random(1), []
    for round in range(300):
        theirs.lock(1)
        began = time.monotonic()
        waiter = Running(held_and_given_back, ours)
        end = began + dice.random() * 0.003
        while time.monotonic() < end:
            pass
        assert theirs.unlock(1)
        if waiter.result() - began > PATIENT / 1000 / 5:
            slow.append((round, waiter.result() - began))
            if len(slow) == 2:
                break
    assert not slow


def test_crashed_foreign_holder_expires(redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]) -> None:
    ours = new_client(safety_ms=PATIENT).lock("k")
    assert jvm.lock("k").try_lock(1, lease=0.6)
    began = time.monotonic()
    waiter = Running(held_and_given_back, ours)
    wait_until(lambda: listeners(redis_server, "k") == 1)
    jvm.crash()
    took = waiter.result() - began
    assert 0.4 < took < 0.6 + 4 * SOON, took


def subscribed(jvm: Jvm, name: str) -> bool:
    entry = jvm.pubsub.entries.get(channel_of(name))  # None while the one before is being removed
    return entry is not None and entry.confirmed


def test_a_subscription_that_ends_is_no_foreign_waiter(
    redis_server: Server, jvm: Jvm, new_proxy: Callable[[Server], Proxy]
) -> None:
    """Our process gets the lock again at once, though the server still counts us among the subscribers."""
    proxy, theirs = new_proxy(redis_server), jvm.lock("k")
    with Client(proxy.url, safety_ms=PATIENT) as client:
        ours = client.lock("k", owner=1)
        for _ in range(5):
            assert theirs.try_lock(1)
            waiter = Running(ours.acquire, True, WHILE)
            wait_until(lambda: listeners(redis_server, "k") == 1)
            gate = proxy.up.pause_at("UNSUBSCRIBE")
            theirs.unlock(1)
            assert waiter.result()
            gate.wait()
            ours.release()
            assert listeners(redis_server, "k") == 1 and ours.try_acquire()
            gate.open()
            ours.release()
            wait_until(lambda: listeners(redis_server, "k") == 0)


def test_libdlock_release_wakes_foreign(redis_server: Server, jvm: Jvm, client: Client) -> None:
    for name in NAMES:
        ours, theirs, took = client.lock(name), jvm.lock(name), []
        for _ in range(5):
            assert ours.acquire(timeout=WHILE)
            waiter = Running(theirs.try_lock, 1, WHILE)
            wait_until(lambda: listeners(redis_server, name) == 1 and subscribed(jvm, name))
            received = len(jvm.pubsub.received)
            began = time.monotonic()
            ours.release()
            assert waiter.result() is True
            took.append(waiter.done - began)
            wait_until(lambda: len(jvm.pubsub.received) > received)  # a thread that tried again in that moment needed no message
            assert jvm.pubsub.received[received:] == [(channel_of(name), b"0")]
            assert theirs.unlock(1)
            wait_until(lambda: listeners(redis_server, name) == 0)
        assert statistics.median(took) < SOON, took
    only_tokens_left(redis_server)


def test_two_threads_of_a_jvm_share_a_subscription(redis_server: Server, jvm: Jvm, client: Client) -> None:
    ours, theirs = client.lock("k"), jvm.lock("k")

    def one(thread: int) -> None:
        theirs.lock(thread)
        theirs.unlock(thread)

    assert ours.acquire()
    waiters = [Running(one, thread) for thread in range(4)]
    wait_until(lambda: channel_of("k") in jvm.pubsub.entries and jvm.pubsub.entries[channel_of("k")].users == 4)
    assert listeners(redis_server, "k") == 1
    ours.release()
    for waiter in waiters:
        waiter.result()
    only_tokens_left(redis_server)


def test_libdlock_that_vanishes_expires(redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]) -> None:
    ours = new_client(lease_ms=600, renew=False).lock("k")
    assert ours.acquire()
    began = time.monotonic()
    assert jvm.lock("k").try_lock(1, WHILE)
    assert 0.4 < time.monotonic() - began < 0.6 + 4 * SOON


def test_libdlock_listens_only_while_a_foreign_client_holds(
    redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]
) -> None:
    clients = [new_client() for _ in range(3)]
    assert clients[0].lock("k").acquire()
    waiters = [Running(held_and_given_back, client.lock("k")) for client in clients[1:]]
    wait_until(lambda: in_line(redis_server) == 2)
    for _ in range(50):
        assert listeners(redis_server, "k") == 0
    clients[0].lock("k").release()
    for waiter in waiters:
        waiter.result()
    assert listeners(redis_server, "k") == 0

    jvm.lock("k").lock(1)
    waiters = [Running(held_and_given_back, client.lock("k")) for client in clients]
    wait_until(lambda: listeners(redis_server, "k") == 3)
    assert not waiters[0].value
    jvm.lock("k").unlock(1)
    for waiter in waiters:
        waiter.result()
    wait_until(lambda: listeners(redis_server, "k") == 0)
    only_tokens_left(redis_server)


def test_a_libdlock_waiter_that_gives_up_stops_listening(redis_server: Server, jvm: Jvm, client: Client) -> None:
    jvm.lock("k").lock(1)
    assert client.lock("k").acquire(timeout=0.2) is False
    wait_until(lambda: listeners(redis_server, "k") == 0 and in_line(redis_server) == 0)
    jvm.lock("k").unlock(1)
    only_tokens_left(redis_server)


# ---- two names, one channel


def test_a_name_with_braces_is_another_lock(
    redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]
) -> None:
    first, second = new_client(safety_ms=PATIENT), new_client(safety_ms=PATIENT)
    bare, braced = first.lock("x"), first.lock("{x}")
    assert bare.acquire() and braced.acquire()
    waiter = Running(held_and_given_back, second.lock("{x}"))
    wait_until(lambda: in_line(redis_server) == 1)
    bare.release()
    assert bare.inspect().holder == ""  # a waiter for the other lock does not get this one
    assert braced.held and not waiter.value
    braced.release()
    waiter.result()
    only_tokens_left(redis_server)


def test_one_channel_two_locks_of_a_foreign_client(
    redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]
) -> None:
    client = new_client(safety_ms=PATIENT)
    for order in itertools.permutations(["x", "{x}"]):
        for name in order:
            jvm.lock(name).lock(1)
        waiters = {name: Running(held_and_given_back, client.lock(name)) for name in order}
        wait_until(lambda: listeners(redis_server, "x") == 1 and in_line(redis_server) == 2)
        for name in order:
            began = time.monotonic()
            jvm.lock(name).unlock(1)
            assert waiters[name].result() - began < PATIENT / 1000 / 3, name
        wait_until(lambda: listeners(redis_server, "x") == 0)


# ---- TTL, renewal, force


def test_renewal_never_lowers_a_ttl(redis_server: Server, new_client: Callable[..., Client]) -> None:
    client = new_client(lease_ms=600)
    assert client.lock("k").acquire()
    redis_server.command("PEXPIRE", "k", 60_000)
    before = client.stats()["renewed"]
    wait_until(lambda: client.stats()["renewed"] >= before + 2)
    assert redis_server.command("PTTL", "k") > 50_000


def test_both_watchdogs_renew(redis_server: Server, new_jvm: Callable[..., Jvm], new_client: Callable[..., Client]) -> None:
    jvm, client = new_jvm(watchdog=0.6), new_client(lease_ms=600)
    names = [f"k:{number}" for number in range(105)]  # more than one of Redisson's scripts
    for name in names:
        jvm.lock(name).lock(1)
    ours = client.lock("ours")
    assert ours.acquire()
    end = time.monotonic() + 1.5
    wait_until(lambda: not ours.held or time.monotonic() > end or not all(jvm.lock(name).is_locked() for name in names))
    assert time.monotonic() > end and ours.held
    assert jvm.renew() == {name.encode(): 1 for name in names}


def test_foreign_force_takes_libdlocks_lock(redis_server: Server, jvm: Jvm, new_client: Callable[..., Client]) -> None:
    client, other = new_client(lease_ms=600), new_client()
    lock = client.lock("k")
    assert lock.acquire()
    waiter = Running(held_and_given_back, other.lock("k"))
    wait_until(lambda: in_line(redis_server) == 1)
    assert jvm.lock("k").force_unlock()
    event = client.next_event(WHILE)
    assert event and event.type is EventType.LOST and event.cause is Cause.TAKEN and event.lock_id == lock.id
    assert lock.state is State.LOST
    with pytest.raises(dlock.Lost):
        lock.release()
    waiter.result()
    only_tokens_left(redis_server)


def test_libdlock_force_takes_the_foreign_lock(
    redis_server: Server, new_jvm: Callable[..., Jvm], new_client: Callable[..., Client], subscriber: Redis
) -> None:
    holds, waits, client = new_jvm(), new_jvm(), new_client(safety_ms=PATIENT)
    holds.lock("k").lock(1)
    waiter = Running(waits.lock("k").try_lock, 1, WHILE)
    wait_until(lambda: listeners(redis_server, "k") == 1)
    assert client.lock("k").force_release()
    assert subscriber.message() == (channel_of("k"), b"0")
    assert waiter.result() is True and holds.renew() == {b"k": 0} and holds.renew() == {}
    with pytest.raises(NotOwner):
        holds.lock("k").unlock(1)
    ours = Running(held_and_given_back, client.lock("k"))
    wait_until(lambda: listeners(redis_server, "k") == 1)
    began = time.monotonic()
    assert new_client().lock("k").force_release()
    assert ours.result() - began < PATIENT / 1000 / 3
    assert not client.lock("k").force_release()


# ---- tokens


def test_tokens_rise_across_both(redis_server: Server, new_jvm: Callable[..., Jvm], new_client: Callable[..., Client]) -> None:
    sides: list[Any] = [new_jvm().fenced_lock("k"), new_client().lock("k"), new_jvm().fenced_lock("k"), new_client().lock("k")]
    tokens, dice = [], random.Random(2)
    for side in itertools.chain(sides, (dice.choice(sides) for _ in range(60))):
        if isinstance(side, FencedLock):
            assert side.try_lock(1, WHILE)
            tokens.append(side.token)
            side.unlock(1)
        else:
            assert side.acquire(timeout=WHILE)
            tokens.append(side.token)
            side.release()
    assert tokens == sorted(set(tokens)) and tokens[0] == 1
    assert redis_server.command("PTTL", token_key("k")) == -1  # because of the foreign client


def test_a_foreign_client_counts_on_from_libdlock(redis_server: Server, jvm: Jvm, client: Client) -> None:
    ours, fenced = client.lock("k"), jvm.fenced_lock("k")
    with ours:
        reserved = int(redis_server.command("GET", token_key("k")))
        assert reserved >= ours.token
        assert fenced.acquire(1) is not None and int(redis_server.command("GET", token_key("k"))) == reserved
    assert fenced.try_lock(1, WHILE) and fenced.token == reserved + 1
    assert fenced.unlock(1)
    with ours:
        assert ours.token > reserved + 1


# ---- other kinds


@pytest.mark.parametrize("make", [
    ["HSET", "k", "mode", "read", "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1", "1"],
    ["HSET", "k", "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1:write", "1", "mode", "write"],
    ["SET", "k", "3"], ["RPUSH", "k", "a"], ["ZADD", "k", "1", "a"],
], ids=["read lock", "write lock", "semaphore", "list", "zset"])  # fmt: skip
def test_other_kinds_are_refused_and_untouched(redis_server: Server, client: Client, make: list[str]) -> None:
    redis_server.command(*make)
    before = redis_server.command("DUMP", "k")
    lock = client.lock("k")
    for attempt in (lock.acquire, lock.try_acquire, lambda: lock.acquire(timeout=1), lock.force_release):
        with pytest.raises(dlock.WrongKind):
            attempt()
    assert redis_server.command("DUMP", "k") == before and redis_server.command("PTTL", "k") == -1
    assert redis_server.command("KEYS", "*") == [b"k"]


# ---- load: how many turns each side gets

WORKER = """
    import json, sys, threading, time
    import dlock
    from harness.resp import Client

    url, path, name, label, threads, holds = sys.argv[1:]
    client, records, stop = dlock.Client(url), [], False
    lock = client.lock(name)

    def work(number):
        with Client(path=path) as redis:
            for _ in range(int(holds) or 1 << 30):
                if stop:
                    return
                wanted = time.monotonic()
                lock.acquire()
                got, token = time.monotonic(), lock.token
                count = int(redis.command("GET", "count") or 0)
                redis.command("SET", "count", count + 1)
                records.append((f"{label}:{number}", wanted, got, time.monotonic(), token))
                lock.release()

    client.ping()
    print("ready", flush=True)
    sys.stdin.readline()
    workers = [threading.Thread(target=work, args=(number,)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    if holds == "0":
        sys.stdin.readline()
        stop = True
    for worker in workers:
        worker.join()
    client.close()
    print(json.dumps({"records": records, "stats": client.stats()}), flush=True)
"""


class Turn(NamedTuple):
    """One hold: when it was requested, granted and released. token is 0 for Redisson's plain lock."""

    who: str  # "ours 0:3": process or JVM, and thread
    wanted: float
    got: float
    done: float
    token: int

    @property
    def side(self) -> str:
        return self.who.split()[0]


class Worker:
    """A process with libdlock and some threads that acquire and release the lock; holds=0: until stop()."""

    def __init__(self, server: Server, label: str, threads: int, holds: int, name: str = "k") -> None:
        command = [sys.executable, "-c", textwrap.dedent(WORKER), server.url, server.path, name, label]
        variables = {**os.environ, "PYTHONPATH": f"{ROOT / 'bindings/python'}:{ROOT / 'python-tests'}"}
        self.process = subprocess.Popen(
            [*command, str(threads), str(holds)], env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout and self.process.stdin
        assert self.process.stdout.readline() == "ready\n"

    def start(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    stop = start

    def turns(self) -> list[Turn]:
        output, _ = self.process.communicate(timeout=45)
        assert self.process.returncode == 0
        return [Turn(*record) for record in json.loads(output)["records"]]

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def foreign_work(jvm: Jvm, label: str, thread: int, holds: int, until: threading.Event | None = None) -> list[Turn]:
    lock, turns = jvm.lock("k"), []
    with jvm.server.client() as redis:
        for _ in range(holds or 1 << 30):
            if until and until.is_set():
                break
            wanted = time.monotonic()
            lock.lock(thread)
            got = time.monotonic()
            count = int(redis.command("GET", "count") or 0)
            redis.command("SET", "count", count + 1)
            turns.append(Turn(f"{label}:{thread}", wanted, got, time.monotonic(), 0))
            lock.unlock(thread)
    return turns


def check_exclusion(server: Server, turns: list[Turn]) -> None:
    assert int(server.command("GET", "count") or 0) == len(turns)  # no update was lost
    for before, after in zip(turns, turns[1:]):
        assert before.done <= after.got, (before, after)
    tokens = [turn.token for turn in turns if turn.token]
    assert tokens == sorted(set(tokens))


def longest_gap(turns: list[Turn], side: str) -> tuple[int, float]:
    """The most turns of others, and seconds, that passed while a waiter of this side got nothing. turns: by time."""
    mine, others = [turn for turn in turns if turn.side == side], [turn.got for turn in turns if turn.side != side]
    first_wanted = list(itertools.accumulate((turn.wanted for turn in reversed(mine)), min))[::-1]  # from here on
    most, longest, since = 0, 0.0, 0.0
    for turn, wanted in zip(mine, first_wanted):
        begin = max(since, wanted)
        most = max(most, bisect.bisect_left(others, turn.got) - bisect.bisect_right(others, begin))
        longest, since = max(longest, turn.got - begin), turn.done
    return most, longest


def report(turns: list[Turn], record: Callable[[str, object], None]) -> None:
    """Shares while all sides were still active."""
    sides = sorted({turn.side for turn in turns})
    together = min(max(turn.got for turn in turns if turn.side == side) for side in sides)
    for side in sides:
        share = sum(turn.side == side and turn.got <= together for turn in turns) / sum(turn.got <= together for turn in turns)
        most, longest = longest_gap(turns, side)
        text = f"{share:.0%} of the turns, longest wait {longest * 1000:.0f} ms, {most} turns of others meanwhile"
        record(side, text)
        print(f"{side}: {text}")
    print(f"{len(turns)} turns in {turns[-1].done - turns[0].wanted:.2f} s")


class Watch:
    """Looks for keys without an expiry while a test runs."""

    SCRIPT = """
        local found = {}
        for _, key in ipairs(redis.call('KEYS', '*')) do
          if key ~= 'count' and redis.call('PTTL', key) == -1 then
            found[#found + 1] = key
          end
        end
        return found
    """

    def __init__(self, server: Server) -> None:
        self.looks, self.found, self._stop = 0, set[bytes](), threading.Event()
        self._server, self._thread = server, threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with self._server.client() as redis:
            while not self._stop.wait(0.002):
                self.found.update(redis.command("EVAL", self.SCRIPT, 0))
                self.looks += 1

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)


@pytest.mark.no_tsan
@pytest.mark.parametrize("processes", always(1, full=[3]))
def test_mixed_load(
    redis_server: Server, new_jvm: Callable[..., Jvm], record_property: Callable[[str, object], None], processes: int
) -> None:
    holds, foreign_holds, threads, foreign_threads = 500, 100, 4, 2
    jvms = [new_jvm(), new_jvm()]
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(redis_server, f"ours {i}", threads, holds)) for i in range(processes)]
        watch = stack.enter_context(Watch(redis_server))
        for worker in workers:
            worker.start()
        foreign = [
            Running(foreign_work, jvm, f"foreign {place}", thread, foreign_holds)
            for place, jvm in enumerate(jvms) for thread in range(foreign_threads)
        ]  # fmt: skip
        turns = [turn for worker in workers for turn in worker.turns()]
        for one in foreign:
            one.thread.join(40)
            turns += one.result()
    turns.sort(key=lambda turn: turn.got)
    check_exclusion(redis_server, turns)
    assert len(turns) == processes * threads * holds + len(jvms) * foreign_threads * foreign_holds
    report(turns, record_property)
    for side in "ours", "foreign":
        most, longest = longest_gap(turns, side)
        assert longest < 4 or most < 1000, side
    assert watch.looks > 20 and not watch.found
    redis_server.command("DEL", "count")
    only_tokens_left(redis_server)


@pytest.mark.parametrize(("processes", "threads"), [(1, 1), (1, 4), (3, 2)])
def test_foreign_client_gets_in_between_tight_loops(
    redis_server: Server, jvm: Jvm, record_property: Callable[[str, object], None], processes: int, threads: int
) -> None:
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(redis_server, f"ours {i}", threads, 0)) for i in range(processes)]
        for worker in workers:
            worker.start()
        wait_until(lambda: int(redis_server.command("GET", "count") or 0) > 50)
        turns = Running(foreign_work, jvm, "foreign 0", 1, 50).result()
        for worker in workers:
            worker.stop()
        turns += [turn for worker in workers for turn in worker.turns()]
    turns.sort(key=lambda turn: turn.got)
    check_exclusion(redis_server, turns)
    report(turns, record_property)
    most, longest = longest_gap(turns, "foreign")
    assert longest < 4 or most < 1000
    redis_server.command("DEL", "count")
    only_tokens_left(redis_server)


@pytest.mark.parametrize(("processes", "foreign_threads"), [(1, 1), (2, 2)])
def test_libdlock_gets_in_between_tight_loops(
    redis_server: Server, jvm: Jvm, record_property: Callable[[str, object], None], processes: int, foreign_threads: int
) -> None:
    done = threading.Event()
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(redis_server, f"ours {i}", 1, 40)) for i in range(processes)]
        foreign = [Running(foreign_work, jvm, "foreign 0", thread, 0, done) for thread in range(foreign_threads)]
        wait_until(lambda: int(redis_server.command("GET", "count") or 0) > 50)
        for worker in workers:
            worker.start()
        try:
            turns = [turn for worker in workers for turn in worker.turns()]
        finally:
            done.set()
        turns += [turn for one in foreign for turn in one.result()]
    turns.sort(key=lambda turn: turn.got)
    check_exclusion(redis_server, turns)
    report(turns, record_property)
    most, longest = longest_gap(turns, "ours")
    assert longest < 4 or most < 2000
    redis_server.command("DEL", "count")
    only_tokens_left(redis_server)


# ---- clients that poll


@pytest.mark.parametrize("processes", (1, 2))
def test_clients_that_poll_get_turns(redis_server: Server, new_client: Callable[..., Client], jvm: Jvm, processes: int) -> None:
    """tryLock in a loop: nobody can see that it waits. Two threads of libdlock want the mutex all the time, of one process or of two."""
    clients = [new_client(polling_clients=1) for _ in range(processes)] * 2
    over = threading.Event()
    counts = [0, 0]

    def in_line() -> bool:
        return processes == 1 or redis_server.command("ZCARD", "dlock_queue:{order}") > 0

    locks = [clients[number].lock("order", owner=1 + number) for number in range(2)]

    def work(number: int) -> None:
        lock, other = locks[number], locks[1 - number]
        while not over.is_set():
            lock.acquire(timeout=WHILE)
            counts[number] += 1
            wait_until(lambda: over.is_set() or (other.state == State.WAITING and in_line()))  # so that it is never free by chance
            lock.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        polled, before = jvm.lock("order"), list(counts)
        for _ in range(5):
            wait_until(lambda: polled.try_lock(thread=1))
            polled.unlock(thread=1)
        wait_until(lambda: all(now > then for now, then in zip(counts, before)))
    finally:
        over.set()
        for thread in threads:
            thread.join()


@mutants.each(mutants.POLLERS)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(200)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words)
