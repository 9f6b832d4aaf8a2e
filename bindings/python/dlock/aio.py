"""The asyncio form: tasks own locks; nothing blocks the event loop, and nothing makes a thread of Python's.

    import dlock.aio

    async with dlock.aio.Client("redis://localhost") as client:
        async with client.lock("invoice:17") as lock:
            await pay(17, fence=lock.token)

Methods have the names they have in dlock. When a lock is lost, the body of its `async with` is cancelled at once, and
dlock.Lost is raised at its end, in the way of asyncio.timeout. Who is cancelled while it waits for a lock holds nothing
and leaves nothing behind, also when it had just won.
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
from ._lib import FOREVER, Name as Key, milliseconds, process
from .client import Base, Cause, Event, EventType, Finding
from .held import patience
from .kinds import Kinds, Several
from .orders import Counts, Inspection, Orders, Permits
from .transaction import Writes, named, pauses

TASKS = 2**62  # owner numbers from here on are those of tasks
TOLD = frozenset((EventType.AT_RISK, EventType.LOST, EventType.LOG))
SOME = 500  # events are taken at a time, so that the loop has time for others
Claims = frozenset[tuple[int, int]]  # of an owner: lock ids and tokens
# Answers to acquire and release that say nothing else.
DONE = EventType.ACQUIRED, EventType.RELEASED
WELL: dict[int, Event] = {kind: Event(kind, 0, 0, 0, 0, -1, None, Cause.NONE, "") for kind in DONE}


class _Watch:
    """Who is told that a hold was lost: a task, by a cancellation; or who awaits the future, also of a release."""

    def __init__(self, lock: Lock, owner: int, claims: Claims, task: Optional[asyncio.Task[Any]]) -> None:
        self.lock, self.owner, self.claims, self.task = lock, owner, claims, task
        self.lost: Optional[_errors.DlockError] = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if sys.version_info >= (3, 11):
            self.cancels = task.cancelling() if task else 0

    def current(self) -> bool:
        """Whether the hold is still what it was."""
        try:
            return self.lock._claims(self.owner) == self.claims
        except _errors.DlockError:
            return False

    def tell(self, lost: Optional[_errors.DlockError] = None) -> bool:
        """Whether a task was cancelled."""
        if self.over.done():
            return False
        self.over.set_result(None)
        self.lost = lost
        return bool(lost and self.task and self.task.cancel())

    def take_back(self) -> bool:
        """The cancellation is over. Whether the task was cancelled for no other reason."""
        if sys.version_info >= (3, 11) and self.task:
            return self.task.uncancel() <= self.cancels
        return True


T = TypeVar("T")
Later = Coroutine[Any, Any, T]


class Lock(Orders[Later[None], Later[bool], Later[int], Later[Inspection]]):
    """As dlock.Lock. Tasks may share it: each is an owner of its own, unless owner= gave it a number.

    The owner is the task that calls acquire() or release(), whoever awaits what these return; a task that it begins is
    another one. `async with lock:` ends in the task in which it began.
    """

    _client: Client
    _form = "dlock.aio.Lock"

    def _whose(self) -> int:
        return self._owner or self._client._number()

    def acquire(self, blocking: bool = True, timeout: Optional[float] = -1) -> Later[bool]:
        """True when acquired; False when not blocking and somebody else holds it, or after timeout seconds."""
        return self._acquire(self._whose(), patience(blocking, timeout))

    def try_acquire(self) -> Later[bool]:
        """Acquire without waiting for others."""
        return self.acquire(blocking=False)

    def release(self) -> Later[None]:
        """Release one level, as dlock.Lock.release. When cancelled it goes on in the background."""
        return self._release(self._whose())

    def wait_lost(self) -> Later[bool]:
        """Wait until what the owner holds is lost; False when it was released first. NotHeld, Lost."""
        owner = self._whose()
        return self._wait_lost(_Watch(self, owner, self._claims(owner), None))

    async def __aenter__(self) -> Lock:
        owner = self._whose()
        claims = await self._win(owner, FOREVER) or frozenset()
        self._client._watch(_Watch(self, owner, claims, asyncio.current_task()))
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if isinstance(error, GeneratorExit) and not self._client._lives():
            return
        body = self._client._body(self)
        owner, lost = (body.owner, body.lost) if body else (self._whose(), None)
        if body and lost and not (body.take_back() and isinstance(error, asyncio.CancelledError)) and error:
            lost = None  # something else goes first
        try:
            await self._release(owner)
        except _errors.DlockError:
            if not (error or lost):
                raise
        if lost:
            raise lost from error

    async def _acquire(self, owner: int, wait: int) -> bool:
        return await self._win(owner, wait) is not None

    async def _win(self, owner: int, wait: int) -> Optional[Claims]:
        """What owner has then; None when somebody else has it."""
        lib, handle, _ended = self._lib, self._live(), self._client._here()
        if lib.dlock_lock_acquire_local(handle, owner, None, None) != _abi.DLOCK_OK:
            answer = self._client._submit(self, owner, lib.dlock_lock_submit_acquire, handle, owner, wait)
            try:
                event = await answer
            except BaseException as error:
                self._client._abandon(self, owner, answer, error)
                raise
            if event.status in (_abi.DLOCK_BUSY, _abi.DLOCK_TIMED_OUT):
                return None
            if event.error:
                raise event.error
        try:
            return self._claims(owner)
        except _errors.DlockError:  # lost already
            self._give_back(owner)
            raise

    async def _release(self, owner: int) -> None:
        lib, handle = self._lib, self._live()
        error = lib.attempt(lib.dlock_lock_release_local, handle, owner)
        if error and error.code == _abi.DLOCK_WOULD_BLOCK:
            answer = self._client._submit(self, owner, lib.dlock_lock_submit_release, handle, owner)
            self._client._released(self, owner)
            error = (await answer).error
        self._client._released(self, owner)
        if error:
            raise error

    def _give_back(self, owner: int) -> None:
        """Release what nobody waits for any more. Its event tells nobody."""
        self._lib.attempt(self._lib.dlock_lock_submit_release, self._live(), owner, 0)

    def _claims(self, owner: int) -> Claims:
        """What owner holds here. NotHeld, Lost."""
        return frozenset([(self.id, self._lib.ask(self._lib.dlock_lock_token, self._live(), owner))])

    async def _order(self, verb: str, *arguments: Any, expected: int = _abi.DLOCK_OK, get: str = "") -> Any:
        submit = getattr(self._lib, "dlock_" + verb.replace("_", "_submit_", 1))
        event = await self._client._submit(self, 0, submit, self._live(), *arguments)
        if event.error and event.status != expected:
            raise event.error
        return getattr(event, get) if get else event.error is None if expected else None

    async def _wait_lost(self, watch: _Watch) -> bool:
        self._client._watch(watch)
        try:
            await watch.over
        finally:
            self._client._unwatch(watch)
        return watch.lost is not None


class Semaphore(Permits[Later[None], Later[bool], Later[int], Later[Inspection]], Lock):
    """As dlock.Semaphore."""


class Latch(Counts[Later[None], Later[bool], Later[int], Later[Inspection]], Lock):
    """As dlock.Latch."""

    def _claims(self, owner: int) -> Claims:
        return frozenset()

    async def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until the count is zero; False after timeout seconds."""
        return await self.acquire(timeout=timeout)


class MultiLock(Several, Lock):
    """As dlock.MultiLock."""

    _members: tuple[Lock, ...]

    def _claims(self, owner: int) -> Claims:
        return frozenset().union(*[member._claims(owner) for member in self._members])


class Transaction(Writes):
    """As dlock.Transaction. One that is cancelled while it asks is over, and commits nothing but by commit()."""

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def watch(self, *keys: Key) -> None:
        """Watch keys before they are read; the first begins a transaction."""
        for key in keys:
            await self._ask(self._lib.dlock_txn_submit_watch, *named(key))
            self._over = False

    async def get(self, key: Key) -> Optional[bytes]:
        """The value of a key, None when there is none. WrongKind when it is not a string; NoTransaction."""
        event = await self._ask(self._lib.dlock_txn_submit_get, *named(key))
        return event.data if event.status == _abi.DLOCK_OK else None

    async def commit(self) -> None:
        """Do all writes at once. As dlock.Transaction.commit: Conflict, UnknownOutcome, ServerError, NoTransaction."""
        self._over = True
        await self._ask(self._lib.dlock_txn_submit_commit)

    async def rollback(self) -> None:
        """Drop what was queued and watched. Again is fine."""
        self._over = True
        await self._ask(self._lib.dlock_txn_submit_rollback)

    async def aclose(self) -> None:
        """Roll back what was not committed; the connection serves another transaction, or is closed. Again is fine."""
        handle, here = self._leave()
        if here:
            with contextlib.suppress(_errors.DlockError):
                if not (await self._client._submit(None, 0, self._lib.dlock_txn_submit_rollback, handle)).error:
                    self._keep(handle)

    async def _ask(self, submit: Any, *arguments: Any) -> Event:
        event = await self._client._submit(None, 0, submit, self._live(), *arguments)
        if event.error and event.status != _abi.DLOCK_NOT_FOUND:
            raise event.error
        return event

    _client: Client


class Client(Base, Kinds[Lock, Semaphore, Latch, MultiLock]):
    """As dlock.Client, for the tasks of one event loop: the one in which it is used first. Close it before its loop.

    on_event is called by the loop with each AT_RISK, LOST and LOG event, once the client was used.
    """

    on_event: Optional[Callable[[Event], object]] = None
    _kinds = (Lock, Semaphore, Latch, MultiLock)
    _form = "dlock.aio.Client"

    def _open(self) -> Any:
        self._ended: Optional[asyncio.Future[None]] = None  # the client; when it is used first its loop is known
        self._late: Optional[_errors.DlockError] = None
        self._numbers = itertools.count(1)
        self._tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()
        self._answers: dict[int, tuple[asyncio.Future[Event], Optional[Lock], int]] = {}  # that are to come, by tag
        self._watches: dict[int, list[_Watch]] = {}  # by owner, outer bodies first
        return super()._open()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self, timeout: Optional[float] = 5.0) -> None:
        """Release what is held, end all waits with Closed, stop; within timeout seconds. Again is fine.

        TimedOut when the server did not confirm everything: what is left expires by its lease.
        """
        here, self._closed = self._forks == process.forks, True
        self._spare.clear()
        if here:  # else it is the parent's, and there is none in this process
            ended = self._here()
            self._lib.call(self._lib.dlock_client_submit_close, self._handle, milliseconds(timeout))
            await asyncio.shield(ended)

    async def transaction_begin(self, *keys: Key) -> Transaction:
        """A transaction that watches these keys, see Transaction. Unreachable, Denied, Server... exceptions."""
        transaction = Transaction(self)
        await transaction.watch(*keys)
        return transaction

    async def transaction(self, body: Callable[[Transaction], Awaitable[T]], *keys: Key,
                          attempts: Optional[int] = 50, timeout: Optional[float] = None) -> T:  # fmt: skip
        """As dlock.Client.transaction, with a body that is awaited."""
        pause = pauses(attempts, timeout)
        async with Transaction(self) as transaction:
            while True:
                await transaction.watch(*keys)
                result = await body(transaction)
                try:
                    if not transaction._over:  # by the body
                        await transaction.commit()
                    return result
                except _errors.DlockError as error:
                    seconds = pause(error)
                await asyncio.sleep(seconds)

    async def ping(self, timeout: Optional[float] = None) -> None:
        """Ask the server for a sign of life. Unreachable, Denied, Server... exceptions."""
        ask = self._lib.dlock_client_submit_ping
        if error := (await self._submit(None, 0, ask, self._live(), milliseconds(timeout))).error:
            raise error

    async def check(self, timeout: Optional[float] = None) -> list[Finding]:
        """Look whether the server is fit to keep locks. Unreachable, Denied, Server... exceptions."""
        ask = self._lib.dlock_client_submit_check
        if error := (await self._submit(None, 0, ask, self._live(), milliseconds(timeout))).error:
            raise error
        return self._findings()

    async def provision(self, timeout: Optional[float] = None) -> None:
        """Say to the server that it remembers every lock: a quarantine ends. Unsupported without quarantine_ms."""
        ask = self._lib.dlock_client_submit_provision
        if error := (await self._submit(None, 0, ask, self._live(), milliseconds(timeout))).error:
            raise error

    # ---- for locks

    def _number(self) -> int:
        """The owner number of the task that calls."""
        self._live()
        task = asyncio.current_task()
        if not task:
            raise RuntimeError("locks are owned by tasks, and this is none: give the lock an owner= number")
        return self._tasks.get(task) or self._tasks.setdefault(task, TASKS + next(self._numbers))

    def _here(self) -> asyncio.Future[None]:
        """Tie the client to the running loop, or see that it is: the future that is done once the client is closed."""
        loop = asyncio.get_running_loop()
        self._live()
        if not self._ended:
            self._ended = loop.create_future()
            loop.add_reader(self.fileno(), self._look)
        if loop is not self._ended.get_loop():
            raise RuntimeError(f"{self!r} belongs to another event loop")
        return self._ended

    def _submit(self, lock: Optional[Lock], owner: int, submit: Any, *arguments: Any) -> asyncio.Future[Event]:
        """Ask for something: the event that answers."""
        self._here()
        tag = next(self._numbers)
        answer: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._answers[tag] = answer, lock, owner
        error = self._lib.attempt(submit, *arguments, tag)
        if error:
            del self._answers[tag]
            raise error
        return answer

    def _lives(self) -> bool:
        """Whether handles are sure to be good while a coroutine is closed: the collector frees them in any order."""
        with contextlib.suppress(RuntimeError):
            return bool(self._ended and self._ended.get_loop() is asyncio.get_running_loop() and not self._closed)
        return False

    def _abandon(self, lock: Lock, owner: int, answer: asyncio.Future[Event], why: BaseException) -> None:
        """Nobody waits for an answer to a wish for a lock any more."""
        if isinstance(why, GeneratorExit) and not self._lives():
            return
        if answer.done() and not answer.cancelled():
            if answer.result().status == _abi.DLOCK_OK:
                lock._give_back(owner)
        else:
            answer.cancel()
            if self._lib.attempt(self._lib.dlock_lock_cancel, lock._live(), owner):
                self._look()  # it has just ended; what was won goes back before anything else is asked for

    def _look(self) -> None:
        """Take the events that are there."""
        lib, status, facts = self._lib, _abi.DLOCK_OK, (ctypes.c_int64 * 3)()
        with lib.event_box() as box:
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
            for answer, _lock, _owner in self._answers.values():
                if not answer.done():
                    answer.set_exception(_errors.make(status, "The client was closed."))

    def _take(self, tag: int, event: Event) -> None:
        if self.on_event and event.type in TOLD:
            asyncio.get_running_loop().call_soon(self.on_event, event)
        if event.type is EventType.LOST:
            told: set[object] = set()  # of the bodies of a task the outermost is cancelled
            for watch in self._watches.get(event.owner, ()):
                if (event.lock_id, event.token) in watch.claims and watch.task not in told:
                    if watch.tell(event.error):
                        told.add(watch.task)
        elif event.type is EventType.LOG and event.status == _abi.DLOCK_TIMED_OUT:
            self._late = event.error  # the close
        elif tag in self._answers:
            answer, lock, owner = self._answers.pop(tag)
            if not answer.done():
                answer.set_result(event)
            elif lock and event.type is EventType.ACQUIRED:
                lock._give_back(owner)

    def _watch(self, watch: _Watch) -> None:
        self._watches.setdefault(watch.owner, []).append(watch)

    def _unwatch(self, watch: _Watch) -> _Watch:
        self._watches[watch.owner].remove(watch)
        if not self._watches[watch.owner]:
            del self._watches[watch.owner]
        return watch

    def _body(self, lock: Lock) -> Optional[_Watch]:
        """The innermost body of the task that calls, no longer watched; or the only one there is: a generator may be
        closed by another task than began it."""
        task = asyncio.current_task()
        own = [body for body in self._watches.get(lock._whose(), ()) if body.lock is lock and body.task is task]
        bodies = own or [one for some in self._watches.values() for one in some if one.task and one.lock is lock]
        return self._unwatch(bodies[-1]) if own or len(bodies) == 1 else None

    def _released(self, lock: Lock, owner: int) -> None:
        """Tell who waits for the end of what was released."""
        for watch in self._watches.get(owner, ()):
            if not watch.task and watch.lock is lock and not watch.current():
                watch.tell()
