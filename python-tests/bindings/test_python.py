"""The Python binding from a user's view."""
from __future__ import annotations

import ast
import asyncio
import contextlib
import ctypes
import gc
import inspect
import math
import multiprocessing
import os
import pathlib
import pickle
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import typing
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY, ROOT
from harness.steps.scripts import SHA
from harness.server import Server
from harness.waiting import WHILE, wait_until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import _abi, _errors, _lib
from dlock import Cause, Client, DlockError, EventType, Lock, State

# From Python 3.12 on os.fork warns when there are threads. It works nevertheless; that is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

Make = Callable[..., Any]


@pytest.fixture
def client(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


@pytest.fixture
def other(redis_server: Server) -> Iterator[Client]:
    """A second client: for the server it is another process."""
    with Client(redis_server.url) as made:
        yield made


def next_of(client: Client, kind: EventType) -> dlock.Event:
    """The next event of this type; others are skipped."""
    while event := client.next_event(WHILE):
        if event.type is kind:
            return event
    raise AssertionError(f"no {kind!r} came")


class Running:
    """A function in a thread; result() joins it and returns or raises what it did."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        def run() -> None:
            try:
                self.value = function(*arguments)
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


def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return Running(function, *arguments).result()


def in_child(function: Callable[[], Any]) -> None:
    """Runs function in a forked child; it must not raise."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(int(WHILE))
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def script(text: str, *arguments: str, stdin: int | None = None, **env: str) -> subprocess.Popen[str]:
    """A program with dlock, in a process of its own. Its output is text.

    Background jobs of a shell ignore SIGINT, and so do their children; Python then installs no handler.
    """
    command = ["env", "--default-signal=INT", sys.executable, "-c", textwrap.dedent(text), *arguments]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), **env}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=variables, text=True, stdin=stdin, stdout=pipe, stderr=pipe)


def says(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdout
    assert program.stdout.readline() == line + "\n"


# ---- acquire and release


def test_with_holds_and_gives_back(client: Client) -> None:
    with client.lock("a") as lock:
        assert isinstance(lock, Lock)
        assert lock.held and not lock.lost and lock.state is State.HELD
        assert lock.token > 0 and lock.hold_count == 1
        seen = lock.inspect()
        assert seen.holder and not seen.foreign and seen.token >= lock.token  # the last of a reserved block
        assert seen.remaining is not None and 0 < seen.remaining <= 30
    assert not lock.held and lock.state is State.NONE and lock.hold_count == 0
    assert lock.inspect().holder == ""


def test_with_gives_back_after_an_exception(client: Client) -> None:
    lock = client.lock("a")
    with pytest.raises(ZeroDivisionError):
        with lock:
            1 / 0
    assert not lock.held


def test_threads_exclude_each_other(client: Client) -> None:
    lock, inside, most, count = client.lock("a"), 0, 0, 0

    def work() -> None:
        nonlocal inside, most, count
        for _ in range(40):
            with lock:
                inside += 1
                most, before = max(most, inside), count
                time.sleep(0)  # let another thread run
                count, inside = before + 1, inside - 1

    for running in [Running(work) for _ in range(8)]:
        running.result()
    assert (most, count) == (1, 320)


def test_clients_exclude_each_other(client: Client, other: Client) -> None:
    count = 0

    def work(lock: Lock) -> None:
        nonlocal count
        for _ in range(100):
            with lock:
                before = count
                time.sleep(0)
                count = before + 1

    for running in [Running(work, some.lock("a")) for some in (client, other)]:
        running.result()
    assert count == 200


def test_reentry_is_per_thread(client: Client) -> None:
    lock = client.lock("a")
    assert lock.acquire() and lock.acquire() and client.lock("a").acquire()
    token = lock.token
    assert lock.hold_count == 3
    assert in_thread(lock.try_acquire) is False
    lock.release()
    lock.release()
    assert lock.held and lock.token == token
    assert in_thread(lock.try_acquire) is False
    lock.release()
    assert not lock.held
    in_thread(lambda: lock.acquire() and lock.release())


def test_owners_by_number(client: Client) -> None:
    first, second = client.lock("a", owner=1), client.lock("a", owner=2)
    assert first.acquire() and not second.try_acquire()
    assert in_thread(lambda: first.held)  # the owner is the number, not the thread
    in_thread(first.release)
    assert second.try_acquire() and not first.held
    second.release()


def test_time_out(client: Client) -> None:
    holder, lock = client.lock("a", owner=1), client.lock("a", owner=2)
    with holder:
        assert lock.acquire(blocking=False) is False
        assert lock.acquire(False) is False
        assert lock.try_acquire() is False
        assert lock.acquire(timeout=0) is False
        begin = time.monotonic()
        assert lock.acquire(timeout=0.25) is False
        assert 0.25 <= time.monotonic() - begin < 5
        assert lock.state is State.NONE
    assert lock.acquire(timeout=WHILE) is True
    lock.release()


def test_a_waiter_gets_the_lock_when_it_is_released(client: Client, other: Client) -> None:
    for some in client, other:
        lock = client.lock("a")
        lock.acquire()
        waiting = Running(lambda some=some: some.lock("a", owner=7).acquire())
        wait_until(lambda some=some: some.stats()["waiting"] == 1)
        lock.release()
        assert waiting.result() is True
        some.lock("a", owner=7).release()


def test_tokens_only_grow(client: Client, other: Client) -> None:
    tokens = []
    for turn in range(20):
        with (client, other)[turn % 2].lock("a") as lock:
            tokens.append(lock.token)
    assert tokens == sorted(set(tokens)) and tokens[0] > 0 and tokens[-1] < 2**53


def test_remaining(client: Client) -> None:
    lock = client.lock("a", lease_ms=20_000)
    assert lock.remaining is None
    with lock:
        assert lock.remaining is not None and 5 < lock.remaining <= 20
        lock.extend(100)
        assert 50 < lock.remaining <= 100
    assert lock.remaining is None


def test_a_stranger_cannot_release(client: Client) -> None:
    with client.lock("a", owner=1) as lock:
        with pytest.raises(dlock.NotHeld) as caught:
            client.lock("a", owner=2).release()
        assert isinstance(caught.value, RuntimeError) and "a" in caught.value.message
        with pytest.raises(dlock.NotHeld):
            client.lock("a", owner=2).token
        assert lock.held


def test_names_are_bytes(client: Client) -> None:
    with client.lock("schlüssel", owner=1):
        assert not client.lock("schlüssel".encode(), owner=2).try_acquire()
    with client.lock(b"\xff\xfe raw"):
        pass


def test_force_release(client: Client, other: Client) -> None:
    lock = client.lock("a")
    assert other.lock("a").force_release() is False
    lock.acquire()
    assert other.lock("a").force_release() is True
    with other.lock("a"):
        pass
    with pytest.raises(dlock.Lost):
        lock.release()


def test_export_and_adopt(client: Client, other: Client) -> None:
    lock, taker = client.lock("a"), other.lock("a")
    lock.acquire()
    token, grant = lock.token, lock.export_grant()
    assert not lock.held and isinstance(grant, bytes)
    assert taker.adopt_grant(grant) == token == taker.token
    assert taker.held
    taker.release()
    with pytest.raises(dlock.InvalidGrant):
        taker.adopt_grant(b"no such grant")
    with pytest.raises(dlock.NotHeld):
        lock.export_grant()


# ---- loss


def lose(client: Client) -> Lock:
    """A lock whose owner has just lost it."""
    lock = client.lock("a", lease_ms=200, renew=False)
    lock.acquire()
    event = next_of(client, EventType.LOST)
    assert (event.lock_id, event.cause) == (lock.id, Cause.EXPIRED)
    return lock


def test_lost(client: Client) -> None:
    lock = lose(client)
    assert lock.lost and not lock.held and lock.state is State.LOST and lock.remaining is None
    with pytest.raises(dlock.Lost):
        lock.token
    with pytest.raises(dlock.Lost):
        lock.release()
    with pytest.raises(dlock.NotHeld):
        lock.release()


def test_a_lost_lock_can_be_acquired_again(client: Client) -> None:
    lock = lose(client)
    assert lock.acquire(timeout=WHILE) and lock.held and not lock.lost
    lock.release()


def test_with_tells_of_the_loss(client: Client) -> None:
    with pytest.raises(dlock.Lost):
        with client.lock("a", lease_ms=200, renew=False):
            next_of(client, EventType.LOST)


def test_with_never_hides_the_exception_of_its_block(client: Client) -> None:
    with pytest.raises(ZeroDivisionError):
        with client.lock("a", lease_ms=200, renew=False):
            next_of(client, EventType.LOST)
            1 / 0


# ---- events


def test_submit(client: Client) -> None:
    lock = client.lock("a", owner=3)
    lock.submit_acquire(tag=70)
    event = next_of(client, EventType.ACQUIRED)
    assert (event.tag, event.lock_id, event.owner, event.status) == (70, lock.id, 3, 0)
    assert event.token == lock.token and event.error is None and event.cause is Cause.NONE
    lock.submit_acquire(tag=71, timeout=0, owner=4)
    event = next_of(client, EventType.ACQUIRE_FAILED)
    assert event.tag == 71 and event.owner == 4 and isinstance(event.error, dlock.Busy)
    lock.submit_release(tag=-72)
    assert next_of(client, EventType.RELEASED).tag == -72
    with pytest.raises(dlock.NotHeld):
        lock.submit_release(73)


def test_cancel(client: Client) -> None:
    with client.lock("a", owner=1) as lock:
        assert lock.cancel(2) is False
        waiting = Running(client.lock("a", owner=2).acquire)
        wait_until(lambda: client.stats()["waiting"] == 1)
        assert lock.cancel(2) is True
        with pytest.raises(dlock.Cancelled):
            waiting.result()


def test_the_descriptor_is_readable_exactly_while_events_wait(client: Client) -> None:
    def readable(timeout: float) -> bool:
        return bool(select.select([client], [], [], timeout)[0])

    assert not readable(0) and client.next_event(0) is None
    client.lock("a").submit_acquire()
    assert readable(WHILE)
    assert client.next_event(0) is not None
    assert not readable(0)


def test_wait_for_an_event(client: Client) -> None:
    begin = time.monotonic()
    assert client.next_event(timeout=0.2) is None
    assert 0.2 <= time.monotonic() - begin < 5
    waiting = Running(client.next_event)
    client.wake()
    assert waiting.result() is None


def test_events_end_with_the_client(redis_server: Server) -> None:
    client, seen = Client(redis_server.url), []
    running = Running(lambda: [seen.append(event.type) for event in client.events()])
    client.lock("a", owner=1).submit_acquire()
    wait_until(lambda: EventType.ACQUIRED in seen)
    client.close()
    running.result()


def test_asyncio(client: Client) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[dlock.Event] = loop.create_future()

        def look() -> None:
            while event := client.next_event(0):
                if event.type is EventType.ACQUIRED:
                    granted.set_result(event)

        loop.add_reader(client.fileno(), look)
        client.lock("a", owner=5).submit_acquire(tag=9)
        assert (await asyncio.wait_for(granted, WHILE)).tag == 9
        loop.remove_reader(client.fileno())

    asyncio.run(work())


# ---- the client


def test_ping_and_stats(client: Client) -> None:
    client.ping()
    client.ping(timeout=5)
    with client.lock("a"):
        stats = client.stats()
    assert stats["acquired"] == stats["held"] == 1 and stats["waiting"] == 0
    assert list(stats) == [name[len("DLOCK_STAT_") :].lower() for name in vars(_abi) if "_STAT_" in name][:-1]


def test_nothing_listens() -> None:
    with Client("redis://127.0.0.1:1", connect_timeout_ms=500) as client:
        with pytest.raises(dlock.Unreachable) as caught:
            client.ping()
        assert isinstance(caught.value, ConnectionError) and caught.value.retryable
        assert "127.0.0.1" in str(caught.value)
        with pytest.raises(ConnectionError):
            client.lock("a").try_acquire()


def test_a_closed_client(redis_server: Server) -> None:
    client = Client(redis_server.url)
    lock, waiter = client.lock("a", owner=1), client.lock("a", owner=2)
    lock.acquire()
    waiting = Running(waiter.acquire)
    wait_until(lambda: client.stats()["waiting"] == 1)
    client.close()
    client.close(timeout=0)
    with pytest.raises(dlock.Closed):
        waiting.result()
    for call in lock.acquire, lock.release, client.ping, lambda: client.lock("b"):
        with pytest.raises(dlock.Closed):
            call()
    with Client(redis_server.url) as other:
        assert other.lock("a").try_acquire()  # close released it
    in_child(lambda: pytest.raises(dlock.Closed, client.ping))


def test_options(redis_server: Server) -> None:
    with Client(redis_server.url, lease_ms=5_000, renew=True, client_name="me", username=None) as client:
        with client.lock("a") as lock, client.lock("b", lease_ms=60_000) as longer:
            assert 0 < (lock.remaining or 0) <= 5 < 30 < (longer.remaining or 0)


def test_repr_has_no_credentials(redis_server: Server) -> None:
    host = redis_server.url.partition("://")[2]
    for login, query in ("user:s3cret@", ""), (":s3cret@", "?lease_ms=9000"), ("", "?password=s3cret"):
        client = Client(f"redis://{login}{host}{query}")
        assert repr(client) == f"<dlock.Client redis://{host}>"
        assert "s3cret" not in repr(client.lock("a")) and "'a'" in repr(client.lock("a"))
    client = Client(redis_server.url, password="s3cret")
    assert "s3cret" not in repr(client)
    with pytest.raises(dlock.InvalidUrl) as caught:
        Client("redis://user:s3cret/x@host")
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(Client.__new__(Client))


# ---- refused arguments


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 1025, b""])
def test_bad_names(client: Client, name: str | bytes) -> None:
    with pytest.raises(ValueError) as caught:
        client.lock(name)
    assert isinstance(caught.value, dlock.InvalidName)


def test_bad_arguments(client: Client) -> None:
    lock = client.lock("a")
    refused: list[Callable[[], Any]] = [
        lambda: client.lock("a", owner=-1),
        lambda: client.lock("a", owner=2**63),
        lambda: lock.cancel(-4),
        lambda: lock.submit_acquire(tag=2**63),
        lambda: lock.submit_acquire(timeout=-2),
        lambda: lock.acquire(timeout=-0.5),
        lambda: lock.acquire(timeout=math.nan),
        lambda: lock.acquire(timeout=-math.inf),
        lambda: lock.acquire(False, 3),
        lambda: client.next_event(-3),
        lambda: client.close(-3),
        lambda: Client("redis://host\0name"),
    ]
    for call in refused:
        with pytest.raises(ValueError) as caught:
            call()
        assert isinstance(caught.value, dlock.InvalidArgument)
    with lock, pytest.raises(ValueError):
        lock.extend(-1)
    with pytest.raises(TypeError):
        client.lock("a", owner="me")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.lock(7)  # type: ignore[arg-type]


def test_bad_options(client: Client) -> None:
    for options, kind in ({"lease_ms": 1}, dlock.InvalidOption), ({"leese_ms": 1}, dlock.UnknownOption):
        with pytest.raises(ValueError) as caught:
            client.lock("a", **options)  # type: ignore[arg-type]
        assert isinstance(caught.value, kind)
    with pytest.raises(dlock.InvalidArgument):
        client.lock("a", kind="nothing")
    with pytest.raises(dlock.InvalidUrl):
        Client("http://localhost")


def test_durations() -> None:
    assert [_lib.milliseconds(value) for value in (None, -1, math.inf, 1e300)] == [-1] * 4
    assert [_lib.milliseconds(value) for value in (0, 0.0001, 0.0015, 2, 60.5)] == [0, 1, 2, 2000, 60500]


# ---- exceptions


def statuses() -> list[tuple[int, str]]:
    lib = _lib.library()
    codes = [lib.dlock_status_at(index) for index in range(lib.dlock_status_count())]
    return [(code, lib.dlock_status_name(code).decode()) for code in codes if code]


def test_a_class_for_each_status() -> None:
    assert len(statuses()) >= 30
    for code, name in statuses():
        kind = getattr(dlock, "".join(word.capitalize() for word in name.split("_")))
        error = _errors.make(code, "what happened")
        assert type(error) is kind and isinstance(error, DlockError) and kind.__doc__
        assert (error.code, error.name, error.message, str(error)) == (code, name, "what happened", "what happened")
        assert error.retryable is kind.retryable is bool(_lib.library().dlock_status_retryable(code))
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and vars(again) == vars(error) and str(again) == "what happened"
        assert issubclass(kind, ValueError) == (name.startswith("INVALID_") or name in ("UNKNOWN_OPTION", "DUPLICATE_NAME"))


def test_type_checkers_know_each_class() -> None:
    tree = ast.parse((ROOT / "bindings/python/dlock/_statuses.pyi").read_text())
    known = [(kind.name, [ast.unparse(base) for base in kind.bases]) for kind in tree.body if isinstance(kind, ast.ClassDef)]
    kinds = [_errors.classes[code] for code, _ in statuses()]
    assert known == [(kind.__name__, [base.__name__ for base in kind.__bases__]) for kind in kinds]


def test_what_else_exceptions_are() -> None:
    assert issubclass(dlock.TimedOut, TimeoutError) and issubclass(dlock.Unreachable, ConnectionError)
    assert issubclass(dlock.Denied, PermissionError) and issubclass(dlock.OutOfMemory, MemoryError)
    assert issubclass(dlock.NotHeld, RuntimeError) and issubclass(dlock.LibraryError, ImportError)
    for kind in dlock.Lost, dlock.ServerOutOfMemory, dlock.Busy, dlock.UnknownOutcome:
        assert kind.__bases__ == (DlockError,)


def test_numbers_of_a_newer_library() -> None:
    error = _errors.make(-999, "new")
    assert type(error) is DlockError and error.code == -999
    assert State(77) == 77 and State(77).name == "UNKNOWN_77"
    with pytest.raises(AttributeError):
        dlock.NoSuchThing
    assert not hasattr(dlock, "nothing")


def test_enumerations_have_the_numbers_of_the_abi() -> None:
    for kind, prefix in (State, "state_"), (Cause, "cause_"), (EventType, "event_"):
        numbers = {name.lower(): member.value for name, member in kind.__members__.items()}
        wanted = _lib.constants(f"DLOCK_{prefix.upper()}")
        wanted.pop("inspection", None)  # it is never in the queue
        assert numbers == wanted


# ---- signals


class Stop(Exception):
    pass


@contextlib.contextmanager
def on_signal(handler: Callable[[], None]) -> Iterator[None]:
    signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a late one must not end the tests


def kick(client: Client, times: int = 1) -> Running:
    """Sends this process a signal as soon as somebody waits."""

    def run() -> None:
        wait_until(lambda: client.stats()["waiting"] == 1)
        for _ in range(times):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGUSR1)

    return Running(run)


def stop() -> None:
    raise Stop


@pytest.fixture(params=[False, True], ids=["", "in the background"])
def ignored(request: pytest.FixtureRequest) -> Iterator[None]:
    """These tests themselves, started by a terminal, and by a script with & or nohup."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if request.param else signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored")
def test_control_c(client: Client, redis_server: Server) -> None:
    holder = client.lock("a")
    holder.acquire()
    program = script(
        """
        import dlock, sys
        with dlock.Client(sys.argv[1]) as client:
            lock = client.lock("a")
            try:
                lock.acquire()
            except KeyboardInterrupt:
                print("interrupted", lock.state.name, client.stats()["waiting"], flush=True)
            print(lock.acquire(timeout=20), flush=True)
            lock.release()
        """,
        redis_server.url,
    )
    wait_until(lambda: holder.inspect().waiters == 1)
    begin = time.monotonic()
    program.send_signal(signal.SIGINT)
    says(program, "interrupted NONE 0")
    assert time.monotonic() - begin < 5
    wait_until(lambda: holder.inspect().waiters == 1)  # in line again, once
    holder.release()
    says(program, "True")
    assert program.communicate(timeout=WHILE) == ("", "")
    assert program.returncode == 0
    assert holder.try_acquire() and holder.inspect().waiters == 0


def test_a_signal_during_the_round_trip_ends_the_wait(redis_server: Server, other: Client, new_proxy: Make) -> None:
    proxy = new_proxy(redis_server)
    gate = proxy.up.pause_at(SHA["acquire"])

    def signalled() -> None:  # while the thread reads from its connection; no handler ends that
        gate.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
        gate.open()

    with other.lock("a"), Client(proxy.url) as client, on_signal(stop):
        lock, signalling, begin = client.lock("a"), Running(signalled), time.monotonic()
        with pytest.raises(Stop):
            lock.acquire(timeout=WHILE)
        assert time.monotonic() - begin < WHILE / 2  # not at the end of the wait
        signalling.result()


def test_an_interrupted_wait_leaves_nothing_behind(client: Client, other: Client) -> None:
    with other.lock("a") as lock, on_signal(stop):
        kicking = kick(client)
        with pytest.raises(Stop):
            client.lock("a").acquire()
        kicking.result()
        assert client.stats()["waiting"] == 0
        wait_until(lambda: lock.inspect().waiters == 0)


def test_a_handler_that_returns_lets_the_wait_go_on(client: Client) -> None:
    ran = []
    with client.lock("a", owner=1), on_signal(lambda: ran.append(time.monotonic())):
        kicking, begin = kick(client, times=5), time.monotonic()
        assert client.lock("a").acquire(timeout=1) is False
        assert 1 <= time.monotonic() - begin < 5
        kicking.result()
    assert ran and ran[0] - begin < 0.9  # in the middle of the wait, not after it


def test_a_handler_may_free_the_lock_that_is_waited_for(client: Client) -> None:
    holder, lock = client.lock("a", owner=1), client.lock("a")
    holder.acquire()
    with on_signal(holder.release):
        kicking = kick(client)
        assert lock.acquire(timeout=WHILE) is True
        kicking.result()
    assert lock.hold_count == 1
    lock.release()


def test_a_lock_that_was_just_won_is_given_back(client: Client, other: Client) -> None:
    holder, lock = client.lock("a", owner=1), client.lock("a")
    holder.acquire()

    def give_and_stop() -> None:
        holder.release()
        wait_until(lambda: lock.state is not State.WAITING)  # the waiter has won before it is told to stop
        raise Stop

    with on_signal(give_and_stop):
        kicking = kick(client)
        with pytest.raises(Stop):
            lock.acquire()
        kicking.result()
    assert lock.state is State.NONE and lock.hold_count == 0
    assert other.lock("a").acquire(timeout=WHILE)


def passed_through(error: BaseException, method: Callable[..., Any]) -> bool:
    """Whether error left the try block of a method of Lock: then the method had begun, and had to clean up."""
    source, first = inspect.getsourcelines(method)
    block = first + next(index for index, line in enumerate(source) if line.strip() == "try:")
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is method.__code__ and line > block for frame, line in frames)


@pytest.mark.parametrize(
    "call, depth",
    [("acquire_local", 0), ("acquire_local", 1), ("acquire", 0), ("release_local", 0), ("release_local", 1), ("release", 0)],
)
def test_an_exception_right_after_a_call(
    client: Client, other: Client, monkeypatch: pytest.MonkeyPatch, call: str, depth: int
) -> None:
    """A handler runs right after the library returns, and its exception drops the answer: acquire has not acquired, release has released,
    and outer levels are unchanged.
    """
    lib, lock, armed = _lib.library(), client.lock("a"), False
    real = getattr(lib, f"dlock_lock_{call}")

    def call_and_stop(*arguments: Any) -> int:
        nonlocal armed
        status: int = real(*arguments)
        if armed:
            armed = False
            raise Stop
        return status

    monkeypatch.setattr(lib, f"dlock_lock_{call}", call_and_stop)
    with lock:
        pass  # a warm-up
    for _ in range(depth):
        lock.acquire()
    held = client.lock("b")
    held.acquire()
    for _ in range(3):
        error = lib.attempt(lib.dlock_lock_release_local, held._handle, 0)  # as of dlock.aio
        assert isinstance(error, dlock.WouldBlock)
        if call.startswith("release"):
            lock.acquire()
        armed = True
        with pytest.raises(Stop):
            lock.release() if call.startswith("release") else lock.acquire()
        assert lock.hold_count == depth and client.stats()["waiting"] == 0
    assert other.lock("a").try_acquire() is (depth == 0)


def test_an_adoption_that_is_interrupted(client: Client, other: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception right after the call: nothing is adopted."""
    lib, lock, taker = _lib.library(), client.lock("a"), other.lock("a")
    real = lib.dlock_lock_adopt_grant

    def call_and_stop(*arguments: Any) -> int:
        status: int = real(*arguments)
        raise Stop(status)

    monkeypatch.setattr(lib, "dlock_lock_adopt_grant", call_and_stop)
    lock.acquire()
    with pytest.raises(Stop):
        taker.adopt_grant(b"nothing")
    assert taker.inspect().holder
    with pytest.raises(Stop):
        taker.adopt_grant(lock.export_grant())
    assert not taker.held and not taker.inspect().holder
    assert lock.try_acquire()
    lock.release()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons run handlers between any two bytecodes")
def test_exceptions_as_often_as_they_can_come(client: Client) -> None:
    lock, stopping, armed = client.lock("a"), threading.Event(), False
    hits = {Lock.acquire: 0, Lock.release: 0}

    def fire() -> None:
        while not stopping.wait(random.uniform(0, 0.001)):
            os.kill(os.getpid(), signal.SIGUSR1)

    def stop_once() -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Stop

    def attempt(method: Callable[[Lock], Any], count: int) -> None:
        """Calls it; count: the number of levels afterwards, which is 0 after an exception inside."""
        nonlocal armed
        try:
            armed = True
            method(lock)
            armed = False
        except Stop as error:
            inside = passed_through(error, method)
            hits[method] += inside
            assert not inside or lock.hold_count == 0
            if lock.hold_count != count:
                method(lock)
        assert lock.hold_count == count

    with on_signal(stop_once):
        firing, end = Running(fire), time.monotonic() + 2
        while time.monotonic() < end:
            attempt(Lock.acquire, 1)
            attempt(Lock.release, 0)
        stopping.set()
        firing.result()
    assert min(hits.values()) > 5


def test_signals_while_waiting_for_events(client: Client) -> None:
    ran = []

    def fire() -> None:
        for _ in range(3):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGUSR1)

    with on_signal(lambda: ran.append(time.monotonic())):
        firing, begin = Running(fire), time.monotonic()
        assert client.next_event(0.5) is None
        assert ran and ran[0] - begin < 0.4 and 0.5 <= time.monotonic() - begin < 5
        firing.result()
    with on_signal(stop):
        firing = Running(fire)
        with pytest.raises(Stop):
            client.next_event()
        while firing.thread.is_alive():
            with contextlib.suppress(Stop):
                firing.thread.join(WHILE)


# ---- the interpreter lock


def blocking_in_header() -> set[str]:
    text = (ROOT / "abi/dlock.h").read_text()
    found = re.findall(r"Blocks: ([^.]*)\.[^/]*/\nDLOCK_API\n[^;(]*?(dlock_\w+)\(", text)
    assert {name for _, name in found} == set(_abi.PROTOTYPES)
    return {name for how, name in found if how != "never"}


def test_only_blocking_calls_give_up_the_interpreter_lock() -> None:
    keeps = 4  # FUNCFLAG_PYTHONAPI
    assert ctypes.PyDLL(None)._FuncPtr._flags_ & keeps and not ctypes.CDLL(None)._FuncPtr._flags_ & keeps
    lib = _lib.library()
    gives_up = {name for name in _abi.PROTOTYPES if not type(getattr(lib, name))._flags_ & keeps}
    assert gives_up == blocking_in_header() == _abi.BLOCKING


# ---- fork


def test_fork_while_holding(client: Client) -> None:
    lock = client.lock("a")
    lock.acquire()
    token = lock.token

    def child() -> None:
        assert not lock.held and lock.state is State.NONE and lock.remaining is None and lock.hold_count == 0
        with pytest.raises(dlock.NotHeld):
            lock.release()
        assert lock.try_acquire() is False
        with client.lock("b") as own:
            assert own.held
        assert client.stats()["acquired"] == 1 and client.next_event(0) is None

    in_child(child)
    in_child(lambda: in_child(child))
    assert lock.held and lock.token == token
    lock.release()


def work_in_process(lock: Lock, path: str, times: int) -> None:
    for _ in range(times):
        with lock:
            count = int(pathlib.Path(path).read_text())
            pathlib.Path(path).write_text(str(count + 1))


@pytest.mark.no_tsan
@pytest.mark.parametrize("used", [False, True])
def test_prefork_workers(redis_server: Server, tmp_path: pathlib.Path, used: bool) -> None:
    client = Client(redis_server.url)
    lock, path = client.lock("a"), tmp_path / "count"
    path.write_text("0")
    if used:
        lock.acquire()
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=work_in_process, args=(lock, str(path), 25)) for _ in range(4)]
    for worker in workers:
        worker.start()
    if used:
        lock.release()
    for worker in workers:
        worker.join(WHILE)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert path.read_text() == "100"
    client.close()


def test_fork_beside_threads_that_wait(client: Client) -> None:
    with client.lock("a", owner=1):
        waiting = Running(lambda: client.lock("a", owner=2).acquire(timeout=WHILE))
        wait_until(lambda: client.stats()["waiting"] == 1)

        def child() -> None:
            assert client.stats()["waiting"] == 0 and client.lock("a", owner=2).state is State.NONE
            gc.collect()
            with client.lock("b"):
                pass

        for _ in range(5):
            in_child(child)
    assert waiting.result() is True


# ---- lifetime


def test_objects_go_in_any_order(redis_server: Server) -> None:
    rng = random.Random(1)
    for _ in range(2):
        objects: list[Any] = []
        for _ in range(3):
            client = Client(redis_server.url)
            locks = [client.lock(f"n{rng.randrange(4)}", owner=rng.randrange(1, 9)) for _ in range(4)]
            locks[0].try_acquire()
            objects += [client, *locks, client._handle, *(lock._handle for lock in locks)]
        for thing in objects:
            if isinstance(thing, (Client, Lock)):
                thing.cycle = thing  # type: ignore[union-attr]  # only the collector can free it
        rng.shuffle(objects)
        while objects:
            objects.pop()
            if rng.random() < 0.2:
                gc.collect()
        del client, locks, thing
        redis_server.command("FLUSHALL")
    gc.collect()


def test_handles_are_freed(redis_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    lib, freed = _lib.library(), []
    free_lock, free_client = lib.dlock_lock_free, lib.dlock_client_free
    monkeypatch.setattr(lib, "dlock_lock_free", lambda handle: (freed.append("lock"), free_lock(handle)))
    monkeypatch.setattr(lib, "dlock_client_free", lambda handle: (freed.append("client"), free_client(handle)))
    client = Client(redis_server.url)
    lock = client.lock("a")
    lock.try_acquire()
    del client
    gc.collect()
    assert freed == [] and lock.held  # the lock keeps its client
    del lock
    gc.collect()
    assert sorted(freed) == ["client", "lock"]


def test_exit_with_held_locks_and_waiting_threads(redis_server: Server) -> None:
    program = script(
        """
        import dlock, sys, threading, time
        client = dlock.Client(sys.argv[1])
        for name in "abc":
            client.lock(name, owner=1).acquire()
            for owner in 2, 3:
                threading.Thread(target=client.lock(name, owner=owner).acquire, daemon=True).start()
        threading.Thread(target=client.next_event, daemon=True).start()
        while client.stats()["waiting"] < 6:
            time.sleep(0.005)
        print("leaving", flush=True)
        """,
        redis_server.url,
    )
    says(program, "leaving")
    begin = time.monotonic()
    assert program.communicate(timeout=WHILE) == ("", "")
    assert program.returncode == 0 and time.monotonic() - begin < 5


# ---- the package


def stub(folder: pathlib.Path, code: str) -> str:
    path = folder / "libdlock.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)], input=code, text=True, check=True)
    return str(path)


USE = "import dlock; print(dlock.__version__); dlock.Client('redis://localhost')"


def refusal(program: subprocess.Popen[str]) -> str:
    """The last line of a program that ended with a LibraryError; importing dlock must have worked."""
    output, errors = program.communicate(timeout=WHILE)
    assert output == f"{_lib.VERSION}\n" and program.returncode == 1
    assert errors.count("Traceback") >= 1
    last = errors.strip().splitlines()[-1]
    assert last.startswith("dlock._errors.LibraryError: No usable libdlock")
    return last


def test_no_library() -> None:
    said = refusal(script(USE, DLOCK_LIBRARY="/nowhere/libdlock.so.1"))
    assert "/nowhere/libdlock.so.1" in said and "No such file" in said and "DLOCK_LIBRARY" in said


@pytest.mark.house
def test_a_library_that_is_too_old(tmp_path: pathlib.Path) -> None:
    path = stub(tmp_path, "unsigned dlock_version(void) { return 7; }")
    said = refusal(script(USE, DLOCK_LIBRARY=path))
    assert path in said and "0.0.7" in said and "0.1" in said


@pytest.mark.house
def test_a_library_that_is_something_else(tmp_path: pathlib.Path) -> None:
    for code in "int x;", "unsigned dlock_version(void) { return 256; }":
        path = stub(tmp_path, code)
        said = refusal(script(USE, DLOCK_LIBRARY=path))
        assert path in said and "undefined symbol: dlock_version" in said


@pytest.mark.house
def test_the_library_beside_the_package_comes_first(tmp_path: pathlib.Path) -> None:
    shutil.copytree(ROOT / "bindings/python/dlock", tmp_path / "dlock")
    path = stub(tmp_path / "dlock", "unsigned dlock_version(void) { return 7; }")
    said = refusal(script(USE, DLOCK_LIBRARY="", PYTHONPATH=str(tmp_path)))
    assert f"{path}: its version is 0.0.7" in said and "; libdlock.so.1: " in said
    shutil.copy(LIBRARY, path)
    program = script("import dlock; print(dlock.Lost)", DLOCK_LIBRARY="", PYTHONPATH=str(tmp_path))
    assert program.communicate(timeout=WHILE)[0] == "<class 'dlock.Lost'>\n"


def test_import_loads_nothing() -> None:
    program = script(
        """
        import os
        import dlock

        def loaded():
            return any(os.environ["DLOCK_LIBRARY"] in line for line in open("/proc/self/maps"))

        assert dlock.Client and dlock.DlockError and not hasattr(dlock, "__wrapped__") and not hasattr(dlock, "what")
        assert not loaded()
        from dlock import Lost, TimedOut
        assert loaded()
        """
    )
    assert program.communicate(timeout=WHILE) == ("", "")


def test_the_package_is_typed() -> None:
    assert (ROOT / "bindings/python/dlock/py.typed").exists()
    for kind in Client, Lock:
        for name, member in vars(kind).items():
            function = member.fget if isinstance(member, property) else member
            if callable(function):
                assert "return" in typing.get_type_hints(function, {**function.__globals__, "Client": Client}), name
                assert function.__doc__ or name.startswith("_"), name


@pytest.mark.full
@pytest.mark.house
@pytest.mark.timeout(240)  # its cache is empty
def test_mypy_is_content(tmp_path: pathlib.Path) -> None:
    api = pytest.importorskip("mypy.api")
    sample = tmp_path / "sample.py"
    sample.write_text(
        textwrap.dedent(
            """
            import asyncio

            import dlock.aio
            from dlock import Lost

            def work(url: str) -> int:
                with dlock.Client(url, lease_ms=5000) as client, client.lock("a") as lock:
                    try:
                        return lock.token if lock.acquire(timeout=1.5) else 0
                    except (Lost, dlock.TimedOut) as error:
                        return error.code

            def reason(error: dlock.TimedOut) -> str:
                late: TimeoutError = error
                other: ValueError = error  # type: ignore[assignment]
                print(late, other, dlock.NoSuchThing)  # type: ignore[attr-defined]
                return error.message

            class Mine(dlock.Lock):
                limit = 5

            def kinds(client: dlock.Client, mine: Mine) -> None:
                with client.semaphore("a") as seats, client.latch("b") as latch, client.multi_lock(client.lock("c")) as all:
                    permit, count, both = seats.permit_id(), latch.count_down(), all
                    expected: tuple[str, int, dlock.MultiLock, bool] = permit, count, both, client.lock("d").try_acquire()
                with mine as same:
                    assert same.limit

            async def tasks(client: dlock.aio.Client) -> None:
                async with client as same, same.semaphore("a") as seats, same.latch("b") as latch, same.lock("c") as lock:
                    permit: str = seats.permit_id()
                    count: int = await latch.count_down()
                    task: asyncio.Task[None] = asyncio.create_task(lock.release())
                    await asyncio.wait_for(lock.release(), 1)
                    won: bool = await lock.try_acquire()
            """
        )
    )
    package = str(ROOT / "bindings/python/dlock")
    output, errors, code = api.run(["--strict", "--cache-dir", str(tmp_path), package, str(sample)])
    assert (errors, code) == ("", 0), output


@pytest.mark.house
def test_nobody_wins_once_the_gate_was_closed_here(client: Client) -> None:
    """Not by a hand-over in memory either, before the message of the gate has arrived."""

    def wait(lock: Lock) -> bool:
        try:
            return lock.acquire(timeout=WHILE)
        except dlock.GateClosed:
            return False

    for number in range(50):
        holder, other = client.lock(f"g{number}", owner=1), client.lock(f"g{number}", owner=2)
        holder.acquire()
        waiting = Running(wait, other)
        wait_until(lambda: other.state is State.WAITING)
        holder.close_gate(60)
        holder.release()
        assert waiting.result() is False


def test_a_paused_holder_that_releases_first_has_its_event(redis_server: Server) -> None:
    """The release itself finds that the grant is lost; the loss event comes nevertheless."""
    program = script(
        """
        import dlock, sys
        with dlock.Client(sys.argv[1], lease_ms=500) as client:
            for number in range(20):
                lock = client.lock(f"k{number}")
                lock.acquire()
                print("held", flush=True)
                sys.stdin.readline()
                try:
                    lock.release()
                except dlock.Lost:
                    pass
                event = client.next_event(5)
                print(event.type.name, event.text, flush=True)
        """,
        redis_server.url,
        stdin=subprocess.PIPE,
    )
    assert program.stdin
    for number in range(20):
        says(program, "held")
        program.send_signal(signal.SIGSTOP)
        program.stdin.write("\n")
        program.stdin.flush()
        wait_until(lambda: redis_server.command("EXISTS", f"k{number}") == 0)
        program.send_signal(signal.SIGCONT)
        says(program, f"LOST lock 'k{number}' at {redis_server.url[8:]}: the lease ended before it could be renewed")
    assert program.wait(WHILE) == 0


def docstrings(path: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def test_the_binding_stays_thin() -> None:
    files = [path for path in (ROOT / "bindings/python/dlock").glob("*.py") if path.name not in ("_abi.py", "makers.py", "operations.py", "metrics.py", "testing.py")]
    written = [line for path in files for line in path.read_text().splitlines() if line.strip()]
    explained = [line for path in files for text in docstrings(path) for line in text.splitlines() if line.strip()]
    assert len(written) - len(explained) <= 1050
    assert not [line for line in written if len(line) > 120]
