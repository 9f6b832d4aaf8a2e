"""dlock for asyncio: tasks own locks, nothing blocks the event loop, and no Python thread is started.

    import dlock.aio

    async with dlock.aio.Client("redis://localhost") as client:
        async with client.lock("invoice:17") as lock:
            await pay(17, fence=lock.token)

Methods have the same names as in dlock. When a lock is lost, the body of its `async with` is cancelled at once, and the
block raises dlock.Lost at its end, as asyncio.timeout raises TimeoutError. A task that is cancelled while it waits for
a lock holds nothing afterwards, even when the lock was granted at that moment.
"""
from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import sys
import weakref
from typing import Any, Awaitable, Callable, Coroutine, Optional, TypeVar

from . import _abi, _errors
from ._lib import FOREVER, Name as Key, milliseconds, process, take
from .client import Base, Cause, Event, EventType, Finding
from .held import patience
from .kinds import Kinds, Several
from .operations import Counts, Operations, Permits
from .requests import Inspection, Numbered
from .transaction import Writes, named, pauses

TASKS = 2**62  # owner numbers of tasks begin here
NOTIFIED = frozenset((EventType.AT_RISK, EventType.LOST, EventType.LOG))
SOME = 500  # most events in one go, so that the loop has time for other callbacks
Claims = frozenset[tuple[int, int]]  # what an owner holds: lock ids and tokens
T = TypeVar("T")
X = TypeVar("X")
This = TypeVar("This", bound="Lock")
Later = Coroutine[Any, Any, T]


def said(kind: EventType, status: int = _abi.DLOCK_OK, text: str = "") -> Event:
    """An answer with these fields only."""
    return Event(kind, status, 0, 0, 0, -1, None, Cause.NONE, text)


WELL: dict[int, Event] = {kind: said(kind) for kind in (EventType.ACQUIRED, EventType.RELEASED)}


class _Lists(dict[Any, list[T]]):
    """Lists by key, none of them empty."""

    def put(self, key: Any, item: T) -> None:
        self[key] = [*self.get(key, ()), item]

    def drop(self, key: Any, item: T) -> None:
        """Remove an item, if it is there."""
        if item in self.get(key, ()):
            self[key].remove(item)
            if not self[key]:
                del self[key]


class _Watch:
    """A watch on one hold. Loss cancels the task; without a task, loss and release end the future `over`."""

    def __init__(self, lock: Lock, owner: int, claims: Claims, task: Optional[asyncio.Task[Any]]) -> None:
        self.lock, self.owner, self.claims, self.task = lock, owner, claims, task
        self.lost: Optional[_errors.DlockError] = None
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.waiter: Optional[weakref.ref[Any]] = None  # the coroutine that awaits it
        if sys.version_info >= (3, 11):
            self.cancels = task.cancelling() if task else 0

    def current(self) -> bool:
        """Whether the owner still has the same hold."""
        with contextlib.suppress(_errors.DlockError):
            return self.lock._claims(self.owner) == self.claims
        return False

    def notify(self, lost: Optional[_errors.DlockError] = None) -> bool:
        """End the watch. Returns whether the task was cancelled."""
        if self.over.done():
            return False
        self.over.set_result(lost is not None)
        self.lost = lost
        return bool(lost and self.task and self.task.cancel())

    def take_back(self) -> bool:
        """Undo the cancellation of the task. Returns whether there was no other reason for it."""
        if sys.version_info >= (3, 11) and self.task:
            return self.task.uncancel() <= self.cancels
        return True


class Lock(Operations[Later[None], Later[bool], Later[int], Later[Inspection]]):
    """As dlock.Lock. Tasks may share it: each task is an owner of its own, unless owner= set one.

    The owner is the task that calls acquire() or release(), no matter which task awaits the result. A task that it
    starts is another owner. `async with lock:` must end in the task in which it began.
    """

    _client: Client
    _form = "dlock.aio.Lock"

    def _whose(self) -> int:
        return self._owner or self._client._number()

    def acquire(self, blocking: bool = True, timeout: Optional[float] = -1) -> Later[bool]:
        """Acquire the lock. True when acquired; False after timeout seconds, or at once when not blocking."""
        return self._acquire(self._whose(), patience(blocking, timeout))

    def release(self) -> Later[None]:
        """As dlock.Lock.release. The call itself sends the release, even if the await is cancelled."""
        owner = self._whose()
        return self._left(self._leave(owner)) if self._client._lives() else self._release(owner)

    def wait_lost(self) -> Later[bool]:
        """Wait until the owner's hold is lost: True. False when it was released or exported first. NotHeld, Lost."""
        owner, watches = self._whose(), self._client._watches
        claims = self._claims(owner)
        if not claims:
            raise _errors.make(_abi.DLOCK_NOT_HELD, "Of a latch nothing is ever held.")
        watch = _Watch(self, owner, claims, None)
        later = self._wait_lost(watch)
        watch.waiter = weakref.ref(later, lambda _: watches.drop(owner, watch))  # it may never be awaited
        watches.put(owner, watch)
        return later

    def export_grant(self) -> bytes:
        """As dlock.Lock.export_grant: it blocks the event loop for one round trip."""
        owner = self._whose()
        try:
            return super().export_grant()
        finally:
            self._client._released(self, owner)

    async def __aenter__(self: This) -> This:
        owner = self._whose()
        if claims := await self._win(owner, FOREVER):  # none for a latch
            self._client._watches.put(owner, _Watch(self, owner, claims, asyncio.current_task()))
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if isinstance(error, GeneratorExit) and not self._client._lives():
            return
        body = self._client._body(self)
        owner, lost = (body.owner, body.lost) if body else (self._whose(), None)
        if body and lost and not (body.take_back() and isinstance(error, asyncio.CancelledError)) and error:
            lost = None  # another exception has priority
        try:
            await self._left(self._leave(owner))
        except _errors.DlockError:
            if not (error or lost) or isinstance(error, GeneratorExit) and not body:  # the owner is not known here
                raise
        if lost:
            raise lost from error

    async def _acquire(self, owner: int, wait: int) -> bool:
        return await self._win(owner, wait) is not None

    async def _win(self, owner: int, wait: int) -> Optional[Claims]:
        """Acquire: the new claims of owner, or None when somebody else holds the lock."""
        lib, token, won, no = self._lib, ctypes.c_int64(), False, (_abi.DLOCK_BUSY, _abi.DLOCK_TIMED_OUT)
        try:
            begin = lib.dlock_lock_begin_acquire, self._live(), owner, wait
            if (await self._client._call(*begin, out=(token,), expected=no, wish=(self, owner))).status:
                return None
            won = True
            claims = self._claims(owner, token.value)
            return claims  # since Python 3.10 no signal handler runs here
        except BaseException:
            if won or token.value:  # granted, but lost already; or a signal handler raised
                self._give_back(owner)
            raise

    def _leave(self, owner: int) -> Optional[asyncio.Future[Event]]:
        """Begin to release. Returns the future of the answer, or None when the release is done."""
        try:
            begin, tag = self._lib.dlock_lock_begin_release, next(self._client._numbers)
            return self._client._submit(tag, self, owner, begin, (self._live(), owner), ())
        finally:
            self._client._released(self, owner)

    async def _left(self, answer: Optional[asyncio.Future[Event]]) -> None:
        if answer and (error := (await answer).error):
            raise error

    async def _release(self, owner: int) -> None:
        await self._left(self._leave(owner))

    def _give_back(self, owner: int) -> None:
        """Release a grant that nobody waits for any more. Nobody gets the event."""
        self._lib.attempt(self._lib.dlock_lock_submit_release, self._live(), owner, 0)
        self._client._released(self, owner)

    def _claims(self, owner: int, token: int = 0) -> Claims:
        """The claims of owner on this lock; token may be given when it is known. NotHeld, Lost."""
        return frozenset(((self.id, token or self._lib.query(self._lib.dlock_lock_token, self._live(), owner)),))

    async def _execute(self, verb: str, *arguments: Any, expected: int = _abi.DLOCK_OK, get: str = "") -> Any:
        submit = getattr(self._lib, "dlock_" + verb.replace("_", "_submit_", 1))
        wish = (self, arguments[0]) if get == "token" else None  # an adoption
        event = await self._client._call(submit, self._live(), *arguments, expected=(expected,), wish=wish)
        return getattr(event, get) if get else event.error is None if expected else None

    async def _wait_lost(self, watch: _Watch) -> bool:
        return await watch.over


class Semaphore(Permits[Later[None], Later[bool], Later[int], Later[Inspection]], Numbered, Lock):
    """As dlock.Semaphore."""


class Latch(Counts[Later[None], Later[bool], Later[int], Later[Inspection]], Lock):
    """As dlock.Latch."""

    async def __aexit__(self, *exception: object) -> None:
        """A latch holds nothing."""

    def _claims(self, owner: int, token: int = 0) -> Claims:
        return frozenset()

    async def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until the count is zero; False after timeout seconds."""
        return await self.acquire(timeout=timeout)


class MultiLock(Several, Lock):
    """As dlock.MultiLock."""

    _members: tuple[Lock, ...]

    def _claims(self, owner: int, token: int = 0) -> Claims:
        return frozenset().union(*[member._claims(owner) for member in self._members])


class _Closing:
    """An object that `async with` closes."""

    aclose: Callable[[], Awaitable[None]]

    async def __aenter__(self: X) -> X:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        with contextlib.suppress(*[_errors.DlockError] if kind else ()):  # an exception of the body has priority
            await self.aclose()


class Transaction(_Closing, Writes):
    """As dlock.Transaction. A cancelled await ends it; nothing is written unless commit() was called."""

    async def watch(self, *keys: Key) -> None:
        """Watch keys; do this before you read them. The first one begins a transaction."""
        for key in keys:
            await self._call(self._lib.dlock_txn_submit_watch, *named(key))
            self._over = False

    async def get(self, key: Key) -> Optional[bytes]:
        """The value of a key, or None. WrongKind when it is not a string; NoTransaction."""
        event = await self._call(self._lib.dlock_txn_submit_get, *named(key))
        return event.data if event.status == _abi.DLOCK_OK else None

    async def commit(self) -> None:
        """As dlock.Transaction.commit: do all writes at once. Conflict, UnknownOutcome, ServerError, NoTransaction."""
        self._over = True
        await self._call(self._lib.dlock_txn_submit_commit)

    async def rollback(self) -> None:
        """Drop all queued writes and watches. May be called again."""
        self._over = True
        await self._call(self._lib.dlock_txn_submit_rollback)

    async def aclose(self) -> None:
        """Roll back if there was no commit. May be called again."""
        if handle := self._leave():
            with contextlib.suppress(_errors.DlockError):
                await self._client._call(self._lib.dlock_txn_submit_rollback, handle)

    async def _call(self, submit: Any, *arguments: Any) -> Event:
        return await self._client._call(submit, self._live(), *arguments, expected=(_abi.DLOCK_NOT_FOUND,))

    _client: Client


class Client(_Closing, Base, Kinds[Lock, Semaphore, Latch, MultiLock]):
    """As dlock.Client, for the tasks of one event loop: the loop of its first use. Close the client before that loop.

    The loop calls on_event with each AT_RISK, LOST and LOG event, after the first use of the client.
    """

    on_event: Optional[Callable[[Event], object]] = None
    _kinds = (Lock, Semaphore, Latch, MultiLock)
    _form = "dlock.aio.Client"

    def _open(self) -> Any:
        self._numbers = itertools.count(1)
        self._tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()
        self._box, self._reason = take([], self._lib.dlock_event_new), take([], self._lib.dlock_error_new)
        self._forget()
        return super()._open()

    def _forget(self) -> None:
        self._ended: Optional[asyncio.Future[None]] = None  # done when the client is closed; made on first use
        self._late: Optional[_errors.DlockError] = None
        self._answers: dict[int, tuple[asyncio.Future[Event], Optional[Lock], int]] = {}  # awaited, by tag
        self._wishes: _Lists[asyncio.Future[Event]] = _Lists()  # those of acquisitions, by lock id and owner
        self._watches: _Lists[_Watch] = _Lists()  # by owner, outer bodies first

    async def aclose(self, timeout: Optional[float] = 5.0) -> None:
        """Release all locks, end all waits with Closed, and stop, within timeout seconds. May be called again.

        TimedOut: the server did not confirm all releases. The rest expires with its leases.
        """
        if self._ended and self._ended.get_loop().is_closed():  # no task waits there any more
            self._forget()
        ended = self._here() if self._forks == process.forks else None  # else the client is the parent's
        if ended:
            self._lib.call(self._lib.dlock_client_submit_close, self._handle, milliseconds(timeout))
        self._closed = True
        if ended:
            await asyncio.shield(ended)

    async def transaction_begin(self, *keys: Key) -> Transaction:
        """A Transaction that watches these keys. Unreachable, Denied, Server... exceptions."""
        transaction = Transaction(self)
        await transaction.watch(*keys)
        return transaction

    async def transaction(self, body: Callable[[Transaction], Awaitable[T]], *keys: Key,
                          attempts: Optional[int] = 50, timeout: Optional[float] = None) -> T:  # fmt: skip
        """As dlock.Client.transaction, with an async body."""
        pause = pauses(attempts, timeout)
        async with Transaction(self) as transaction:
            while True:
                await transaction.watch(*keys)
                result = await body(transaction)
                try:
                    if not transaction._over:  # body has not ended it
                        await transaction.commit()
                    return result
                except _errors.DlockError as error:
                    seconds = pause(error)
                await asyncio.sleep(seconds)

    async def ping(self, timeout: Optional[float] = None) -> None:
        """Check that the server answers. Unreachable, Denied, Server... exceptions."""
        await self._call(self._lib.dlock_client_submit_ping, self._live(), milliseconds(timeout))

    async def check(self, timeout: Optional[float] = None) -> list[Finding]:
        """Check whether the server is fit to keep locks. Unreachable, Denied, Server... exceptions."""
        await self._call(self._lib.dlock_client_submit_check, self._live(), milliseconds(timeout))
        return self._findings()

    async def provision(self, timeout: Optional[float] = None) -> None:
        """Tell the server that it remembers every lock, which ends a quarantine. Unsupported without quarantine_ms."""
        await self._call(self._lib.dlock_client_submit_provision, self._live(), milliseconds(timeout))

    # ---- for locks

    def _number(self) -> int:
        """The owner number of the calling task."""
        self._live()
        task = asyncio.current_task()
        if not task:
            raise RuntimeError("locks are owned by tasks, and this is none: give the lock an owner= number")
        return self._tasks.get(task) or self._tasks.setdefault(task, TASKS + next(self._numbers))

    def _here(self) -> asyncio.Future[None]:
        """Bind the client to the running loop, or check that it is. Returns the future that ends with the client."""
        loop = asyncio.get_running_loop()
        self._live()
        if not self._ended:
            self._ended, self._nobody = loop.create_future(), loop.create_future()
            self._nobody.cancel()
            loop.add_reader(self.fileno(), self._on_readable)
        if loop is not self._ended.get_loop():
            raise RuntimeError(f"{self!r} belongs to another event loop")
        return self._ended

    def _submit(self, tag: int, lock: Optional[Lock], owner: int, call: Any, arguments: tuple[Any, ...],
                out: Optional[tuple[Any, ...]] = None) -> Optional[asyncio.Future[Event]]:  # fmt: skip
        """Call a submit or begin function. Returns the future of its event; None when a begin function has finished."""
        lib, loop = self._lib, self._here().get_loop()
        self._answers[tag] = self._nobody, lock, owner  # a signal handler may raise after the call
        status = call(*arguments, tag, *out or (), self._reason)
        if not status and out is not None:
            del self._answers[tag]
            return None
        answer: asyncio.Future[Event] = loop.create_future()
        self._answers[tag] = answer, lock, owner
        if status not in (_abi.DLOCK_OK, _abi.DLOCK_WOULD_BLOCK):
            error = lib.failure(status, self._reason)
            self._take(tag, said(EventType.DONE, error.code, error.message))
        return answer

    async def _call(self, call: Any, *arguments: Any, out: Optional[tuple[Any, ...]] = None,
                   expected: tuple[int, ...] = (), wish: Optional[tuple[Lock, int]] = None) -> Event:  # fmt: skip
        """The answer. wish: lock and owner of an acquisition; a grant that nobody awaits any more is released."""
        (lock, owner), tag, answer = wish or (None, 0), next(self._numbers), None
        try:
            answer = self._submit(tag, lock, owner, call, arguments, out)
            if answer is None:
                return WELL[EventType.ACQUIRED]
            if lock and not answer.done():
                self._wishes.put((lock.id, owner), answer)
            event = await answer
            if event.error and event.status not in expected:
                raise event.error
            return event
        except BaseException as error:
            answer = self._answers.get(tag, (answer,))[0]
            if lock and answer:
                self._abandon(lock, owner, answer, error)
            raise

    def _lives(self) -> bool:
        """Whether handles are valid while a coroutine is closed: the collector may have freed them before."""
        with contextlib.suppress(RuntimeError):
            return bool(self._ended and self._ended.get_loop() is asyncio.get_running_loop() and not self._closed)
        return False

    def _abandon(self, lock: Lock, owner: int, answer: asyncio.Future[Event], error: BaseException) -> None:
        """End an acquisition for which nobody waits any more."""
        if isinstance(error, GeneratorExit) and not self._lives():
            return
        answer.cancel()
        if not answer.cancelled() and answer.result().status == _abi.DLOCK_OK:
            lock._give_back(owner)
        wishes = self._wishes.get((lock.id, owner)) or [answer]
        for _ in wishes[:] if all(wish.cancelled() for wish in wishes) else ():  # else it could end another wait
            if self._lib.attempt(self._lib.dlock_lock_cancel, lock._live(), owner):
                self._on_readable()  # the wait has just ended: a grant is released before the next request

    def _on_readable(self) -> None:
        """Handle the events in the queue."""
        lib, box, facts, status = self._lib, self._box, (ctypes.c_int64 * 3)(), _abi.DLOCK_OK
        for _ in range(SOME):
            status = lib.next_now(self._handle, 0, box, None)
            if status != _abi.DLOCK_OK:
                break
            lib.dlock_event_unpack(box, facts, 3, None, None)
            kind, bad, tag = facts
            plain = kind in WELL and not bad and tag in self._answers and self._answers[tag][2]
            self._take(tag, WELL[kind] if plain else self._event(box))
        if status == _abi.DLOCK_CLOSED and self._ended and not self._ended.done():
            self._ended.get_loop().remove_reader(self.fileno())
            self._ended.set_exception(self._late) if self._late else self._ended.set_result(None)
            for tag in [*self._answers]:
                self._take(tag, said(EventType.DONE, status, "The client was closed."))

    def _take(self, tag: int, event: Event) -> None:
        if self.on_event and event.type in NOTIFIED:
            asyncio.get_running_loop().call_soon(self.on_event, event)
        if event.type is EventType.LOST:
            asyncio.get_running_loop().call_soon(self._lost, event)  # so that no running task is cancelled
        elif event.type is EventType.LOG and event.status == _abi.DLOCK_TIMED_OUT:
            self._late = event.error  # of aclose()
        elif tag in self._answers:
            answer, lock, owner = self._answers.pop(tag)
            if lock and event.type in (EventType.RELEASED, EventType.RELEASE_FAILED):
                self._released(lock, owner)
            elif lock:
                self._wishes.drop((lock.id, owner), answer)
                if answer.done() and event.status == _abi.DLOCK_OK:
                    lock._give_back(owner)
            if not answer.done():
                answer.set_result(event)

    def _lost(self, event: Event) -> None:
        told: set[object] = set()  # tasks: only the outermost body of a task is cancelled
        for watch in self._watches.get(event.owner, ()):
            if (event.lock_id, event.token) in watch.claims and watch.task not in told and watch.notify(event.error):
                told.add(watch.task)

    def _body(self, lock: Lock) -> Optional[_Watch]:
        """Take the innermost body of the calling task off the watches. A generator may be closed by another task than
        the one that began it. Then take the body of a task that has ended, or the only body there is."""
        task = asyncio.current_task()
        bodies = [body for body in self._watches.get(lock._whose(), ()) if body.lock is lock and body.task is task]
        if not bodies:
            others = [one for some in self._watches.values() for one in some if one.task and one.lock is lock]
            bodies = [one for one in others if one.task and one.task.done()] or (others if len(others) == 1 else [])
        if bodies:
            self._watches.drop(bodies[-1].owner, bodies[-1])
        return bodies[-1] if bodies else None

    def _released(self, lock: Lock, owner: int) -> None:
        """End the watches of wait_lost() on what was released."""
        ids = [one.id for one in getattr(lock, "_members", [lock])]
        for watch in self._watches.get(owner, [])[:]:
            if not watch.task and any(one in ids for one, _token in watch.claims) and not watch.current():
                watch.notify()
