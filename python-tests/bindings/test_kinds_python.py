"""The lock kinds in the Python binding, from a user's view."""
from __future__ import annotations

import contextlib
import gc
import math
import os
import random
import signal
import threading
import time
import traceback
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY
from harness.kinds import image
from harness.server import Server
from harness.waiting import WHILE, wait_until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Cause, Client, EventType, Lock, State, _lib

# From Python 3.12 on os.fork warns when there are threads. It works nevertheless; that is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

KINDS = ["fair_lock", "read_lock", "write_lock", "semaphore", "permit_semaphore", "multi_lock"]
REENTRANT = ["fair_lock", "read_lock", "write_lock", "multi_lock"]
each = pytest.mark.parametrize("kind", KINDS)
Make = Callable[..., Any]


@pytest.fixture
def client(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


@pytest.fixture
def other(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


def one(client: Client, kind: str, name: str = "lock", owner: int | None = None, **options: Any) -> Any:
    """A lock of the kind. Semaphores have one permit; a multi-lock has a fair lock and a mutex."""
    if kind == "multi_lock":
        return client.multi_lock(client.fair_lock(name, **options), client.lock(name + "2", **options), owner=owner)
    lock = getattr(client, kind)(name, owner=owner, **options)
    if "semaphore" in kind:
        lock.set_permits(1)
    return lock


def rival(client: Client, kind: str, name: str = "lock", **more: Any) -> Any:
    """The kind that its holder excludes."""
    return one(client, {"read_lock": "write_lock", "write_lock": "read_lock"}.get(kind, kind), name, **more)


def next_of(client: Client, *kinds: EventType) -> dlock.Event:
    while event := client.next_event(WHILE):
        if event.type in kinds:
            return event
    raise AssertionError(f"no {kinds} came")


class Running:
    """A function in a thread; result() joins it and returns or raises what it did."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        def run() -> None:
            try:
                self.value = function(*arguments, **more)
            except BaseException as error:
                self.error = error

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


# ---- hold and give back


@each
def test_with(client: Client, other: Client, redis_server: Server, kind: str) -> None:
    lock = one(client, kind)
    before = image(redis_server)
    assert isinstance(lock, Lock) and lock.state is State.NONE and lock.hold_count == 0 and lock.remaining is None
    with lock as same:
        assert same is lock and lock.held and not lock.lost and lock.hold_count == 1 and lock.token > 0
        assert lock.remaining and (lock.remaining == math.inf) == (kind == "semaphore")
        theirs = rival(other, kind)
        assert theirs.try_acquire() is False and theirs.acquire(timeout=0.03) is False
        token = lock.token
    assert not lock.held
    wait_until(lambda: image(redis_server) == before)  # a fair lock may have been granted to a waiter that has just given up
    with theirs:
        assert theirs.token > token and lock.acquire(blocking=False) is False
    with pytest.raises(dlock.NotHeld):
        lock.release()
    with pytest.raises(ZeroDivisionError), lock:
        1 / 0
    assert not lock.held and repr(lock).startswith("<dlock.Lock 'lock")


@each
def test_threads_are_owners(client: Client, kind: str) -> None:
    lock = one(client, kind)
    if kind == "read_lock":
        lock = client.write_lock("lock")
    with lock:
        assert Running(lock.try_acquire).result() is False
        with pytest.raises(dlock.NotHeld):
            Running(lock.release).result()
        waiting = Running(lock.acquire, timeout=WHILE)
        wait_until(lambda: client.stats()["waiting"] > 0)
        assert lock.held
    assert waiting.result() is True and lock.state is State.NONE
    assert one(client, kind, owner=77).try_acquire() is False or kind == "read_lock"


@pytest.mark.parametrize("kind", REENTRANT)
def test_reentry(client: Client, other: Client, kind: str) -> None:
    lock, again, theirs = one(client, kind), one(client, kind), rival(other, kind)
    with lock:
        with again, lock:
            assert lock.hold_count == again.hold_count == 3 and again.token == lock.token
        assert lock.hold_count == 1 and not theirs.try_acquire()
    assert theirs.try_acquire()
    theirs.release()


def test_permits(client: Client, other: Client) -> None:
    for kind in ("semaphore", "permit_semaphore"):
        seats = getattr(client, kind)(kind)
        assert seats.available_permits == 0 and not seats.try_acquire()
        assert seats.set_permits(5) is True and seats.set_permits(9) is False and seats.available_permits == 5
        three = getattr(client, kind)(kind, permits=3)
        with three, seats:
            assert seats.available_permits == 1 and seats.hold_count == three.hold_count == 2
            assert not getattr(other, kind)(kind, permits=2).try_acquire()
        assert seats.add_permits(2) == 7 and seats.add_permits(-3) == 4 and seats.hold_count == 0
        for bad in (0, -1, 2**31):
            with pytest.raises(dlock.InvalidArgument):
                seats.set_permits(bad)
        for wrong in (2**63, -(2**63), 2**64 + 1):
            with pytest.raises(dlock.InvalidArgument):
                seats.add_permits(wrong)
        with pytest.raises(TypeError):
            seats.set_permits(1.5)
    assert client.semaphore("semaphore").drain_permits() == 4 and client.semaphore("semaphore").available_permits == 0
    with pytest.raises(dlock.Unsupported):
        client.permit_semaphore("permit_semaphore").drain_permits()
    with pytest.raises(dlock.Unsupported):
        client.semaphore("semaphore").permit_id()


def test_permit_ids(client: Client, redis_server: Server) -> None:
    seats = client.permit_semaphore("seats", permits=2)
    seats.set_permits(2)
    with pytest.raises(dlock.NotHeld):
        seats.permit_id()
    with seats:
        ids = [seats.permit_id(), seats.permit_id(1)]
        assert sorted(redis_server.command("ZRANGE", "{seats}:timeout", 0, -1)) == sorted(map(bytes.fromhex, ids))
        with pytest.raises(dlock.InvalidArgument):
            seats.permit_id(2)


def test_latch(client: Client, other: Client) -> None:
    latch, theirs = client.latch("start"), other.latch("start")
    assert latch.count == 0 and latch.wait() is True, "without a count it is open"
    assert latch.set_count(2) is True and theirs.set_count(9) is False and theirs.count == 2
    assert latch.wait(0) is False and latch.wait(timeout=0.05) is False and not latch.try_acquire()
    waiting = [Running(latch.wait), Running(theirs.wait, WHILE), Running(theirs.acquire)]
    wait_until(lambda: client.stats()["waiting"] + other.stats()["waiting"] == 3)
    assert theirs.count_down() == 1 and latch.count_down(5) == 0
    assert [one.result() for one in waiting] == [True] * 3
    assert latch.count == 0 and latch.count_down() == 0 and not latch.held
    with pytest.raises(dlock.NotHeld):
        latch.release()
    with latch as same:
        assert same is latch
    with pytest.raises(ZeroDivisionError), latch:
        1 / 0
    for bad in (0, -1):
        with pytest.raises(dlock.InvalidArgument):
            latch.count_down(bad)
        with pytest.raises(dlock.InvalidArgument):
            latch.set_count(bad)


def test_readers_and_a_writer(client: Client, other: Client) -> None:
    read, write, theirs = client.read_lock("book"), client.write_lock("book"), other.read_lock("book")
    with read, theirs:
        assert read.token != theirs.token and other.write_lock("book", owner=7).try_acquire() is False
        with pytest.raises(dlock.UpgradeRefused, match="'book'"):
            write.acquire()
    with write:
        assert not theirs.try_acquire()
        read.acquire()
    assert theirs.try_acquire() and read.held
    theirs.release()
    read.release()


def test_multi_lock(client: Client, other: Client) -> None:
    a, b, c = client.lock("a"), client.fair_lock("b"), client.write_lock("c")
    lock = client.multi_lock(c, a, b)
    assert lock.name == "c + a + b"
    with lock:
        assert a.held and b.held and c.held and lock.token == max(a.token, b.token, c.token) and lock.remaining
        assert not other.fair_lock("b").try_acquire() and not other.read_lock("c").try_acquire()
    assert not a.held and not lock.held
    with other.fair_lock("b"):
        assert lock.try_acquire() is False and not a.held
        waiting = Running(lock.acquire, timeout=WHILE)
        wait_until(lambda: client.stats()["waiting"] == 1)
    assert waiting.result() is True
    with pytest.raises(dlock.DuplicateName, match="'a'"):
        client.multi_lock(a, b, client.lock("a"))
    for bad in ((), (other.lock("z"),), (client.semaphore("z"),), (client.latch("z"),), (lock,), [client.lock(f"m{i}") for i in range(17)]):
        with pytest.raises(dlock.InvalidArgument):
            client.multi_lock(*bad)
    for call in (lock.inspect, lock.export_grant, lambda: lock.close_gate(1), lock.open_gate):
        with pytest.raises(dlock.Unsupported):
            call()


def test_kinds_by_name(client: Client) -> None:
    for kind in ("mutex", "fair", "read", "write"):
        with client.lock(kind, kind=kind) as lock:
            assert lock.held
    for kind in "shared", "multi":
        with pytest.raises(dlock.InvalidArgument):
            client.lock("x", kind=kind)


def test_options(client: Client, redis_server: Server) -> None:
    with client.fair_lock("lock", namespace="shop", lease_ms=5000) as lock:
        assert redis_server.command("EXISTS", "shop:lock") == 1 and (lock.remaining or 9) < 5
    with pytest.raises(dlock.InvalidOption):
        client.semaphore("x", permits=0)
    with pytest.raises(dlock.InvalidName):
        client.read_lock("x" * 1000, namespace="y" * 100)
    began = time.monotonic()
    with client.write_lock("slow", min_hold_ms=400):
        pass
    assert client.write_lock("slow", safety_ms=50, owner=5).acquire(timeout=WHILE) and time.monotonic() - began >= 0.4


# ---- events


@each
def test_submit(client: Client, other: Client, kind: str) -> None:
    lock, theirs = one(client, kind), rival(other, kind)
    with theirs:
        lock.submit_acquire(tag=1, timeout=0.03, owner=5)
        event = next_of(client, EventType.ACQUIRED, EventType.ACQUIRE_FAILED)
        assert (event.type, event.tag, event.owner, event.lock_id) == (EventType.ACQUIRE_FAILED, 1, 5, lock.id)
        assert isinstance(event.error, dlock.TimedOut)
        lock.submit_acquire(tag=2, owner=6)
        lock.submit_acquire(tag=3, owner=7)
        wait_until(lambda: lock.cancel(owner=7))
        assert next_of(client, EventType.ACQUIRE_FAILED).tag == 3 and not lock.cancel(owner=7)
    event = next_of(client, EventType.ACQUIRED, EventType.ACQUIRE_FAILED)
    assert (event.type, event.tag, event.owner) == (EventType.ACQUIRED, 2, 6) and event.token > 0 and event.error is None
    lock.submit_release(tag=4, owner=6)
    assert next_of(client, EventType.RELEASED, EventType.RELEASE_FAILED).type is EventType.RELEASED
    with pytest.raises(dlock.NotHeld):
        lock.submit_release(owner=6)
    assert theirs.acquire(timeout=WHILE)


@pytest.mark.parametrize("kind", ["fair_lock", "read_lock", "write_lock", "permit_semaphore", "multi_lock"])
def test_lost(client: Client, kind: str) -> None:
    lock = one(client, kind, renew=False, lease_ms=150)
    with pytest.raises(dlock.Lost), lock:
        event = next_of(client, EventType.LOST)
        assert event.cause is Cause.EXPIRED and lock.lost and not lock.held and lock.hold_count == 0
        with pytest.raises(dlock.Lost):
            lock.token
        assert lock.remaining is None
    assert lock.state is State.NONE
    with pytest.raises(KeyError), lock:
        next_of(client, EventType.LOST)
        raise KeyError
    assert lock.acquire(timeout=WHILE)


@pytest.mark.parametrize("kind", ["lock", *KINDS[:-1], "latch"])
def test_gate(client: Client, other: Client, kind: str) -> None:
    lock, theirs = one(client, kind), rival(other, kind)
    assert lock.open_gate() is False
    if kind == "latch":
        lock.set_count(1)
    else:
        lock.acquire()
    waiting = [Running(theirs.acquire), Running(rival(client, kind).acquire, timeout=WHILE)]
    wait_until(lambda: client.stats()["waiting"] + other.stats()["waiting"] == 2)
    theirs.submit_acquire(tag=9, owner=4)
    lock.close_gate(60)
    for one_ in waiting:
        with pytest.raises(dlock.GateClosed, match="'lock'"):
            one_.result()
    assert isinstance(next_of(other, EventType.ACQUIRE_FAILED).error, dlock.GateClosed)
    with pytest.raises(dlock.GateClosed):
        theirs.acquire(blocking=False)
    if kind != "latch":
        assert lock.held
        lock.release()
    with pytest.raises(dlock.GateClosed):
        lock.acquire()
    for bad in (0, -0.5, float("nan"), 10**9):
        with pytest.raises(dlock.InvalidArgument):
            lock.close_gate(bad)
    assert theirs.open_gate() is True and theirs.open_gate() is False
    if kind != "latch":
        assert theirs.acquire(timeout=WHILE)


# ---- signals


class Stop(Exception):
    pass


@contextlib.contextmanager
def on_signal(handler: Callable[[], Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    yield
    signal.signal(signal.SIGUSR1, before)


def stop() -> None:
    raise Stop


def kick(condition: Callable[[], Any], times: int = 1) -> Running:
    def run() -> None:
        wait_until(condition)
        for _ in range(times):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGUSR1)

    return Running(run)


@pytest.mark.parametrize("kind", [*KINDS, "latch"])
def test_a_signal_ends_a_wait_without_a_trace(client: Client, other: Client, redis_server: Server, kind: str) -> None:
    lock, theirs = one(client, kind), rival(other, kind)
    if kind == "latch":
        lock.set_count(1)
    else:
        theirs.acquire()
    before = image(redis_server)
    with on_signal(stop):
        kicking = kick(lambda: client.stats()["waiting"] == 1)
        with pytest.raises(Stop):
            lock.acquire()
        kicking.result()
    assert lock.state is State.NONE and lock.hold_count == 0 and client.stats()["waiting"] == 0
    wait_until(lambda: image(redis_server) == before)


@pytest.mark.parametrize("kind", [*KINDS, "latch"])
def test_a_handler_that_returns_lets_the_wait_go_on(client: Client, other: Client, kind: str) -> None:
    lock, theirs, ran = one(client, kind), rival(other, kind), []
    if kind == "latch":
        lock.set_count(1)
    else:
        theirs.acquire(), theirs.release()
        theirs = rival(other, kind, owner=9)
        theirs.acquire()

    def handler() -> None:
        ran.append(time.monotonic())
        if len(ran) == 3:
            theirs.count_down() if kind == "latch" else theirs.release()

    with on_signal(handler):
        kicking = kick(lambda: client.stats()["waiting"] == 1, times=3)
        assert lock.acquire(timeout=WHILE) is True
        kicking.result()
    assert len(ran) == 3 and (kind == "latch" or lock.hold_count == 1)


def test_a_wait_of_several_seconds_keeps_its_place(client: Client, other: Client) -> None:
    """The library returns to the interpreter from time to time, so that handlers may run; a multi-lock keeps its place."""
    holder = other.fair_lock("lock", owner=1)
    holder.acquire()
    lock = one(client, "multi_lock", owner=2)
    after = other.fair_lock("lock", owner=3)

    def second() -> None:
        wait_until(lambda: holder.inspect().waiters == 1)
        after.submit_acquire(tag=7, owner=3)
        began = time.monotonic()
        wait_until(lambda: holder.inspect().waiters == 2 and time.monotonic() > began + 2.2)
        holder.release()

    running = Running(second)
    assert lock.acquire(timeout=5), "it was passed by who came later"
    assert after.state is State.WAITING and lock.token == lock.token
    lock.release()
    assert next_of(other, EventType.ACQUIRED).tag == 7
    running.result()


@pytest.mark.parametrize("call, depth", [(call, depth) for call in ("acquire_local", "acquire") for depth in (0, 1, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_right_after_a_call(
    client: Client, other: Client, monkeypatch: pytest.MonkeyPatch, kind: str, call: str, depth: int
) -> None:
    """A handler runs right after the library returns, and its exception drops the answer: nothing was acquired, and earlier holds stay."""
    lib, lock, armed = _lib.library(), one(client, kind), False
    if "semaphore" in kind:
        lock.add_permits(5)
    real = getattr(lib, f"dlock_lock_{call}")

    def call_and_stop(*arguments: Any) -> int:
        nonlocal armed
        status: int = real(*arguments)
        if armed:
            armed = False
            raise Stop
        return status

    monkeypatch.setattr(lib, f"dlock_lock_{call}", call_and_stop)
    for _ in range(depth):
        lock.acquire()
    tokens = lock.token if depth else None
    for _ in range(3):
        armed = True
        with contextlib.suppress(Stop):
            lock.acquire()
            assert armed, "the exception was lost"
            armed = False
            lock.release()
        assert lock.hold_count == depth and client.stats()["waiting"] == 0
        assert not depth or lock.token == tokens
    for _ in range(depth):
        lock.release()
    if "semaphore" in kind:
        wait_until(lambda: lock.available_permits == 6)


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_an_exception_right_after_a_refusal(client: Client, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Earlier holds of the owner stay."""
    lib, lock, armed = _lib.library(), one(client, kind), False
    real = lib.dlock_lock_acquire

    def call_and_stop(*arguments: Any) -> int:
        status: int = real(*arguments)
        if armed:
            raise Stop
        return status

    monkeypatch.setattr(lib, "dlock_lock_acquire", call_and_stop)
    with lock:
        armed, token = True, lock.token
        for timeout in (0.0, 0.03):
            with pytest.raises(Stop):
                lock.acquire(timeout=timeout)
            assert lock.hold_count == 1 and lock.token == token and lock.available_permits == 0


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
@pytest.mark.parametrize("call", ["release_local", "release"])
def test_an_exception_right_after_a_release(client: Client, monkeypatch: pytest.MonkeyPatch, kind: str, call: str) -> None:
    """Earlier holds of the owner stay."""
    lib, lock, armed = _lib.library(), one(client, kind), False
    real = getattr(lib, f"dlock_lock_{call}")

    def call_and_stop(*arguments: Any) -> int:
        status: int = real(*arguments)
        if armed:
            raise Stop
        return status

    monkeypatch.setattr(lib, f"dlock_lock_{call}", call_and_stop)
    lock.add_permits(1)
    with lock:
        lock.acquire()
        armed = True
        with pytest.raises(Stop):
            lock.release()
        armed = False
        assert lock.hold_count == 1


# ---- fork, freed objects


@each
def test_fork(client: Client, other: Client, kind: str) -> None:
    lock, theirs = one(client, kind), rival(other, kind)
    with lock:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(int(WHILE))
                assert not lock.held and lock.hold_count == 0
                assert lock.try_acquire() is (kind == "read_lock")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert lock.held and not theirs.try_acquire()
    if kind != "read_lock":  # the child's hold ends with its lease
        assert theirs.acquire(timeout=WHILE)


@each
def test_objects_go_in_any_order(redis_server: Server, kind: str) -> None:
    for seed in range(4):
        client = Client(redis_server.url)
        objects = [client, one(client, kind), one(client, kind), rival(client, kind)]
        objects[1].acquire()
        objects[3].submit_acquire(owner=5)
        if seed % 2:
            client.close()
        random.Random(seed).shuffle(objects)
        del client
        while objects:
            del objects[0]
        gc.collect()
        redis_server.command("FLUSHALL")


# ---- together


class Witness:
    """Records what holders see, with separate commands."""

    def __init__(self, server: Server, seats: int) -> None:
        self.redis, self.seats = server.client(), seats

    def hold(self, kind: str, permits: int) -> None:
        command = self.redis.command
        if "semaphore" in kind:
            assert command("INCRBY", "out", permits) <= self.seats, "more permits than there are"
            command("DECRBY", "out", permits)
        elif kind == "read_lock":
            command("INCR", "readers")
            count = command("GET", "count")
            command("PING")
            assert command("GET", "count") == count, "a writer among readers"
            command("DECR", "readers")
        else:
            count = int(command("GET", "count") or 0)
            assert int(command("GET", "readers") or 0) == 0, "a writer among readers"
            command("SET", "count", count + 1)
            assert int(command("GET", "count")) == count + 1, "two writers"


@pytest.mark.parametrize("family", ["fair_lock", "rw", "semaphore", "permit_semaphore", "multi_lock"])
def test_threads_of_two_clients(redis_server: Server, client: Client, other: Client, family: str) -> None:
    """No count is lost, no thread is left waiting."""
    writes = [0]
    mutex = threading.Lock()
    if "semaphore" in family:
        getattr(client, family)("lock").set_permits(3)

    def work(mine: Client, seed: int) -> None:
        chance, witness = random.Random(seed), Witness(redis_server, 3)
        for _ in range(20):
            kind = chance.choice(["read_lock", "write_lock"]) if family == "rw" else family
            permits = chance.randrange(1, 3) if "semaphore" in family else 1
            lock = getattr(mine, kind)("lock", permits=permits) if kind != "multi_lock" else one(mine, kind)
            if not lock.acquire(timeout=chance.choice([0.001, WHILE, WHILE])):
                continue
            witness.hold(kind, permits)
            if "semaphore" not in kind and kind != "read_lock":
                with mutex:
                    writes[0] += 1
            lock.release()

    running = [Running(work, mine, seed) for seed in range(4) for mine in (client, other)]
    for one_ in running:
        with contextlib.suppress(dlock.Unreachable):  # a millisecond may be too short for the server
            one_.result()
    assert int(redis_server.command("GET", "count") or 0) == writes[0]
    assert client.stats()["held"] == other.stats()["held"] == client.stats()["waiting"] == other.stats()["waiting"] == 0


def test_fair_among_threads_and_clients(redis_server: Server, client: Client, other: Client) -> None:
    """In the order of arrival, whichever client they belong to."""
    holder, order = client.fair_lock("lock", owner=1000), []
    holder.acquire()
    running = []

    def wait(lock: Lock, number: int) -> None:
        with lock:
            order.append(number)

    for number in range(16):
        lock = (client if number % 3 else other).fair_lock("lock")
        running.append(Running(wait, lock, number))
        wait_until(lambda: holder.inspect().waiters == number + 1)
    holder.release()
    for one_ in running:
        one_.result()
    assert order == list(range(16))
