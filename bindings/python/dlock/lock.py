"""Lock: like threading.RLock, across processes, hosts and languages."""
from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import _abi, _errors, _lib
from ._lib import left, milliseconds, process
from .held import patience
from .operations import Operations
from .requests import Inspection

if TYPE_CHECKING:
    from .client import Client

This = TypeVar("This", bound="Lock")


class Left:
    """An End that was called. It has no __del__: Python drops an exception that a signal handler raises in __del__."""


class End(Left):
    """The end of one with block. A signal handler may raise at the first instruction of a function, before any try, so
    that End is not called. Then __del__ releases the lock."""

    token = ctypes.c_int64()  # 0 outside of the block

    def __init__(self, lock: Lock) -> None:
        self.lock, self.thread, self.token = lock, threading.get_ident(), ctypes.c_int64()

    def __call__(self, kind: object, error: object, trace: object) -> None:
        with contextlib.suppress(*[_errors.DlockError] if kind else ()):  # an exception of the block goes first
            self.lock._end(self.token)
        self.__class__ = Left  # type: ignore[assignment]

    def __del__(self) -> None:
        if self.token.value and self.thread == threading.get_ident():
            with contextlib.suppress(_errors.DlockError):
                self.lock.release(_token=self.token)


class Ending:
    """Gives each with statement an End of its own when it looks up __exit__, which is before it calls __enter__."""

    def __get__(self, lock: Optional[Lock], kind: object = None) -> Callable[..., None]:
        if lock is None:  # contextlib.ExitStack asks the class
            return lambda lock, *error: End(lock)(*error)
        end = End(lock)
        process.entering[end.thread] = weakref.ref(end)
        return end


class Lock(Operations[None, bool, int, Inspection]):
    """A lock, from Client.lock. Threads may share it: each thread is an owner of its own, unless owner= set one.

    Re-entrant per owner. `with lock:` waits without limit. Its end raises Lost when the lock was lost, but never in
    place of an exception of the block. Durations are seconds; None and -1 mean no limit.

    A signal handler may raise at any moment, as the one of Ctrl-C does. A `with lock:` block then holds nothing once
    the exception is handled, and neither does an interrupted acquire(). An interrupted release() may not have begun:
    check `held`. Python 3.9 runs handlers at more places, and a few of them leave the lock held.
    """

    _client: Client

    def acquire(self, blocking: bool = True, timeout: Optional[float] = -1, *, _token: Any = None) -> bool:
        """Acquire the lock. True when acquired; False after timeout seconds, or at once when not blocking.

        Blocks; signal handlers run meanwhile. An exception of a handler ends the call: nothing is held, and the wait is
        over. Unreachable, Denied, Cancelled, Closed, WrongKind, Server... exceptions.
        """
        wait, since = patience(blocking, timeout), time.monotonic()
        lib, owner = self._lib, self._owner
        handle = self._handle if self._forks == process.forks else self._live()
        token, local = ctypes.c_int64() if _token is None else _token, None  # token: not 0 from the moment of the grant
        try:
            local = lib.dlock_lock_acquire_local(handle, owner, token, None)
            if local == _abi.DLOCK_OK:
                return True
            error = lib.attempt(lib.dlock_lock_acquire, handle, owner, wait, token)
            while error and error.code == _abi.DLOCK_INTERRUPTED:  # a signal handler has run
                error = lib.attempt(lib.dlock_lock_acquire, self._live(), owner, left(wait, since), token)
            if not error:
                return True
        except BaseException:  # only one call: another handler may raise right after it
            if token.value:  # it was granted just now
                token.value = 0
                lib.dlock_lock_release(handle, owner, None)
            elif local is not None:
                lib.dlock_lock_cancel(handle, owner, None)
            raise
        if error.code in (_abi.DLOCK_BUSY, _abi.DLOCK_TIMED_OUT):
            return False
        raise error

    def release(self, *, _token: Any = None) -> None:
        """Release one level. The last one passes the lock to the next waiter. Blocks, up to release_timeout_ms.

        NotHeld; Lost: the lock was lost before; UnknownOutcome: the server does not answer, and the release goes on in
        the background. After any of these errors this level is not held.
        """
        lib, owner = self._lib, self._owner
        handle = self._handle if self._forks == process.forks else self._live()
        box, local = _lib.take(lib.release_boxes, lib.dlock_error_new), None
        try:
            if _token is not None:
                _token.value = 0  # since Python 3.10 no handler runs between this and the call
            local = status = lib.dlock_lock_release_local(handle, owner, box)
            if local == _abi.DLOCK_WOULD_BLOCK:
                status = lib.dlock_lock_release(handle, owner, box)
            if status != _abi.DLOCK_OK:
                raise lib.failure(status, box)
        except BaseException:
            if local is None and lib.dlock_error_code(box) == _abi.DLOCK_WOULD_BLOCK:  # a handler raised in between
                lib.dlock_lock_release(handle, owner, None)
            raise
        if local == _abi.DLOCK_WOULD_BLOCK:  # a box must not be reused with this code: this call replaces it
            lib.dlock_lock_release_local(None, owner, box)
        lib.release_boxes.append(box)

    def _end(self, token: Any = None) -> None:
        self.release(_token=token)

    def __enter__(self: This) -> This:
        end = process.entering.pop(threading.get_ident(), lambda: None)()
        self.acquire(_token=end.token if end and end.lock is self else None)
        return self

    if not TYPE_CHECKING:  # as Opened.__exit__, which type checkers know
        __exit__ = Ending()

    def submit_acquire(self, tag: int = 0, timeout: Optional[float] = None, owner: Optional[int] = None) -> None:
        """Begin to acquire; one ACQUIRED or ACQUIRE_FAILED event with tag follows. Never blocks."""
        wait, number = milliseconds(timeout), _lib.number(tag, -(2**63), "event tag")
        self._execute("lock_submit_acquire", self._number_of(owner), wait, number)

    def submit_release(self, tag: int = 0, owner: Optional[int] = None) -> None:
        """Begin to release; one RELEASED or RELEASE_FAILED event with tag follows. Never blocks. NotHeld, Lost."""
        self._execute("lock_submit_release", self._number_of(owner), _lib.number(tag, -(2**63), "event tag"))

    def cancel(self, owner: Optional[int] = None) -> bool:
        """End an owner's wait with Cancelled. False when the owner does not wait. Never blocks."""
        cancel = self._lib.dlock_lock_cancel
        return self._lib.call(cancel, self._live(), self._number_of(owner), expected=_abi.DLOCK_NOT_HELD)

    def _execute(self, verb: str, *arguments: Any, expected: int = _abi.DLOCK_OK, get: str = "") -> Any:
        lib, function = self._lib, getattr(self._lib, f"dlock_{verb}")
        if get == "inspection":
            box = _lib.take(lib.event_boxes, lib.dlock_event_new)
            lib.call(function, self._live(), *arguments, box)
            event = self._client._event(box)
            lib.event_boxes.append(box)
            return event.inspection
        if get:
            handle, out = self._live(), ctypes.c_int64()
            try:
                lib.call(function, handle, *arguments, out)
                return out.value
            except BaseException:
                if get == "token" and out.value:  # it was adopted just now
                    lib.dlock_lock_release(handle, arguments[0], None)
                raise
        done = lib.call(function, self._live(), *arguments, expected=expected)
        return done if expected else None
