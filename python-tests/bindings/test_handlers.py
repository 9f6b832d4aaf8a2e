"""Signal handlers that raise at each instruction of the Python binding in turn: no grant, wait, handle or connection is leaked.

A tracer raises in place of the handler, so that each place is tried exactly once. CPython runs handlers in fewer places: at the
begin of a function, after a call and at the jump back of a loop. The promise holds for those places. An exception at other
places is tried as well; what it may leave behind is told from the instruction before.
"""
from __future__ import annotations

import asyncio
import dis
import gc
import os
import sys
import time
from types import FrameType
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY
from harness.server import Server
from harness.waiting import WHILE

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
import dlock.aio
from dlock import Client, Lock, _lib

RUNS_HANDLERS = ("CALL", "RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "BEFORE_WITH", "WITH_EXCEPT")
KINDS = ["lock", "semaphore", "multi_lock"]


class Stop(Exception):
    pass


class Tracer:
    """Raises Stop before instruction number `at` of the traced code; handlers: only where CPython may run one."""

    codes: dict[Any, dict[int, str]] = {}  # instruction names

    def __init__(self, at: int, only: bool = False) -> None:
        self.only = only  # only at places where handlers run
        self.at, self.count, self.handlers, self.where = at, 0, False, ""
        self.last: dict[FrameType, str] = {}

    def names(self, code: Any) -> dict[int, str]:
        if code not in self.codes:
            self.codes[code] = {one.offset: one.opname for one in dis.get_instructions(code)}
        return self.codes[code]

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_name in ("untraced", "constants", "<dictcomp>"):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self.names(frame.f_code).get(frame.f_lasti) != "PUSH_EXC_INFO":  # an exception there would crash the interpreter
            before = self.last.get(frame, "RESUME")
            self.last[frame] = self.names(frame.f_code).get(frame.f_lasti, "")
            runs = before.startswith(RUNS_HANDLERS)
            self.count += runs or not self.only
            if self.count == self.at:
                self.handlers = runs
                self.where = f"{frame.f_code.co_name}:{frame.f_lineno}, {self.last[frame]} behind {before}"
                self.last = {}
                raise Stop
        return self

    def run(self, function: Callable[..., Any], *arguments: Any) -> bool:
        """Whether there was such a place. The exception gets through, and nothing of it is left."""
        sys.settrace(self)
        try:
            function(*arguments)
            lost = self.where and "__del__" not in self.where
        except Stop:
            lost = False
        finally:
            sys.settrace(None)
            self.last = {}
        assert not (lost and self.handlers), self.where
        return bool(self.where)


def everywhere(function: Callable[..., Any], *arguments: Any, only: bool = False) -> Iterator[Tracer]:
    """Tries each place once, as long as there are more. The function is called once before, to warm up."""
    function(*arguments)
    at, handlers = 0, 0
    while True:
        tracer = Tracer(at := at + 1, only)
        raised = tracer.run(function, *arguments)
        if not raised:
            break
        handlers += tracer.handlers
        yield tracer
    assert handlers > 5 and at > 20, "it was not traced"


@pytest.fixture
def client(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


def one(client: Client, kind: str, **options: Any) -> Any:
    if kind == "multi_lock":
        return client.multi_lock(client.lock("a"), client.lock("b"), **options)
    made = getattr(client, kind)("a", **options)
    if "semaphore" in kind:
        made.add_permits(3)
    return made


def nothing_is_left(client: Client, lock: Any, tracer: Tracer, depth: int = 0) -> None:
    """Nothing is left at places where handlers run. What other places left is released here."""
    if tracer.handlers:
        assert lock.hold_count == depth, tracer.where
        assert client.stats()["waiting"] == 0, tracer.where
    while lock.hold_count > depth:
        lock.release()
    while lock.hold_count < depth:
        lock.acquire()


def block(lock: Lock) -> None:
    with lock:
        pass


def raising_block(lock: Lock) -> None:
    try:
        with lock:
            raise KeyError
    except KeyError:
        pass


@pytest.mark.parametrize(
    "kind, how, depth",
    [(kind, block, depth) for kind in KINDS for depth in (0, 1)] + [("lock", raising_block, depth) for depth in (0, 1)],
)
def test_with(client: Client, kind: str, how: Callable[[Lock], None], depth: int) -> None:
    lock = one(client, kind)
    for _ in range(depth):
        lock.acquire()
    for tracer in everywhere(how, lock):
        nothing_is_left(client, lock, tracer, depth)
    for _ in range(depth):
        lock.release()


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_acquire_and_release(client: Client, kind: str, depth: int) -> None:
    """acquire has not acquired. release has released, or the lock is still held and may be released again."""
    lock = one(client, kind)
    for _ in range(depth):
        lock.acquire()
    first = True
    for tracer in everywhere(lock.acquire):
        if first:
            lock.release()
        first = False
        nothing_is_left(client, lock, tracer, depth)
    lock.release()
    lock.acquire()
    lock.acquire()
    for tracer in everywhere(lock.release):
        assert lock.hold_count in (depth, depth + 1), tracer.where
        assert lock.held or not depth
        while lock.hold_count < depth + 1:
            lock.acquire()
    assert lock.hold_count == depth
    for _ in range(depth):
        lock.release()


# ---- asyncio


class Inside(Tracer):
    """The same in a task: only for its own code, because the loop logs exceptions of callbacks."""

    task: asyncio.Task[Any] | None = None

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        mine = "dlock" in frame.f_code.co_filename and frame.f_code.co_name != "_on_readable"
        return super().__call__(frame, event, argument) if mine and asyncio.current_task() is self.task else None


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # it may come before one has begun
@pytest.mark.parametrize("contended", [False, True])
def test_asyncio(redis_server: Server, contended: bool) -> None:
    """A coroutine that acquires a lock, just begun or already granted: nobody holds the lock afterwards."""

    async def settled(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + WHILE
        while not condition():
            assert time.monotonic() < end, where
            await asyncio.sleep(0.001)

    async def attempt(lock: dlock.aio.Lock, tracer: Inside) -> None:
        tracer.task = asyncio.current_task()
        sys.settrace(tracer)
        try:
            await lock.acquire()
        except Stop:
            pass
        else:
            sys.settrace(None)
            await lock.release()
        finally:
            sys.settrace(None)

    async def work() -> None:
        nonlocal where
        async with dlock.aio.Client(redis_server.url) as client:
            lock, holder = client.lock("a", owner=1), client.lock("a", owner=2)
            await attempt(lock, Inside(0))
            at, handlers = 0, 0
            while at == 0 or tracer.where:
                if contended:
                    await holder.acquire()
                tracer = Inside(at := at + 1)
                task = asyncio.create_task(attempt(lock, tracer))
                await asyncio.sleep(0)
                if contended:
                    await settled(lambda: task.done() or client.stats()["waiting"] == 1)
                    await holder.release()
                await task
                where, handlers = tracer.where, handlers + tracer.handlers
                if tracer.handlers:
                    await settled(lambda: lock.hold_count == 0 and client.stats()["waiting"] == 0)
                    await settled(lambda: not client._wishes and not [one for one in client._answers.values() if not one[0].done()])
                elif lock.hold_count:
                    await lock.release()
            assert handlers > 10 and at > 50, "it was not traced"

    where = ""
    asyncio.run(work())


# ---- handles and connections


def test_handles(redis_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened handles are freed, wherever the exception came."""
    gc.collect()
    lib, count = _lib.library(), 0
    names = ["client_open", "lock_new", "lock_new_multi", "txn_new", "options_new"]
    frees = ["client_free", "lock_free", "txn_free", "options_free"]

    def counted(name: str, real: Callable[..., Any], step: int) -> Callable[..., Any]:
        def untraced(*arguments: Any) -> Any:
            nonlocal count
            tracing = sys.gettrace()
            sys.settrace(None)
            result = real(*arguments)
            count += step * (step < 0 or name == "options_new" or result == 0)
            sys.settrace(tracing)
            return result

        return untraced

    for step, some in (1, names), (-1, frees):
        for name in some:
            monkeypatch.setattr(lib, f"dlock_{name}", counted(name, getattr(lib, f"dlock_{name}"), step))

    def work() -> None:
        client = Client(redis_server.url)
        assert client.multi_lock(client.lock("a", lease_ms=5000)).name
        dlock.Transaction(client)._live()

    for tracer in everywhere(work, only=True):
        if count:
            gc.collect()
        assert count == 0 or not tracer.handlers, tracer.where
        count = 0


def test_transactions(client: Client, redis_server: Server) -> None:
    """No connection is left in the middle of a transaction."""

    def work() -> None:
        def body(transaction: dlock.Transaction) -> None:
            transaction.get("k")
            transaction.set("k", b"v")

        client.transaction(body, "k")

    before = len(str(redis_server.command("CLIENT", "LIST")).split("id="))
    for tracer in everywhere(work, only=True):  # elsewhere it could leave the mutex of the process taken, which no handler can
        now = len(str(redis_server.command("CLIENT", "LIST")).split("id="))
        assert now <= before + 4, tracer.where
