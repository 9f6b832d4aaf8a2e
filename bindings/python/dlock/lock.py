"""Lock: used like threading.RLock, across processes, hosts and languages."""
from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from . import _abi, _errors, _lib
from ._lib import left, milliseconds, process
from .asked import Inspection
from .held import patience
from .orders import Orders

if TYPE_CHECKING:
    from .client import Client

This = TypeVar("This", bound="Lock")


class Lock(Orders[None, bool, int, Inspection]):
    """A lock, from Client.lock. Threads may share it: each is an owner of its own, unless owner= gave it a number.

    Re-entrant per owner. `with lock:` waits without limit; at its end Lost is raised when the lock had been lost, but
    never in place of an exception of the block. Durations are seconds; None and -1 mean no limit.
    """

    _client: Client

    def acquire(self, blocking: bool = True, timeout: Optional[float] = -1) -> bool:
        """True when acquired; False when not blocking and somebody else holds it, or after timeout seconds.

        Blocks; signal handlers run meanwhile, and what they raise ends the call with nothing held and nobody in line.
        Unreachable, Denied, Cancelled, Closed, WrongKind, Server... exceptions.
        """
        wait, since = patience(blocking, timeout), time.monotonic()
        lib, owner = self._lib, self._owner
        handle = self._handle if self._forks == process.forks else self._live()
        token, local = ctypes.c_int64(), None  # token: not 0 from the moment of the grant, whatever is raised here
        try:
            local = lib.dlock_lock_acquire_local(handle, owner, token, None)
            if local == _abi.DLOCK_OK:
                return True
            error = lib.attempt(lib.dlock_lock_acquire, handle, owner, wait, token)
            while error and error.code == _abi.DLOCK_INTERRUPTED:  # a signal handler has run
                error = lib.attempt(lib.dlock_lock_acquire, self._live(), owner, left(wait, since), token)
        except BaseException:
            if token.value:  # it was won just now
                lib.attempt(lib.dlock_lock_release, handle, owner)
            elif local is not None:
                lib.attempt(lib.dlock_lock_cancel, handle, owner)
            raise
        if error and error.code not in (_abi.DLOCK_BUSY, _abi.DLOCK_TIMED_OUT):
            raise error
        return error is None

    def release(self) -> None:
        """Release one level; the last gives the lock to the next waiter. Blocks up to the option release_timeout_ms.

        NotHeld; Lost when the lock was lost before; UnknownOutcome when the server does not answer: the release goes on
        in the background. After any of them this level is not held.
        """
        lib, owner = self._lib, self._owner
        handle = self._handle if self._forks == process.forks else self._live()
        box, local = _lib.take(lib.release_boxes, lib.dlock_error_new), None
        try:
            local = status = lib.dlock_lock_release_local(handle, owner, box)
            if local == _abi.DLOCK_WOULD_BLOCK:
                status = lib.dlock_lock_release(handle, owner, box)
            if status != _abi.DLOCK_OK:
                raise lib.failure(status, box)
        except BaseException:
            if local is None and lib.dlock_error_code(box) == _abi.DLOCK_WOULD_BLOCK:  # by a handler between the two
                lib.dlock_lock_release(handle, owner, None)
            raise
        finally:  # no box that says WOULD_BLOCK is used again
            lib.release_boxes.append(box) if local == _abi.DLOCK_OK else lib.dlock_error_free(box)

    def _end(self) -> None:
        self.release()

    def __enter__(self: This) -> This:
        self.acquire()
        return self

    def submit_acquire(self, tag: int = 0, timeout: Optional[float] = None, owner: Optional[int] = None) -> None:
        """Ask for the lock; an ACQUIRED or ACQUIRE_FAILED event with tag follows, once. Never blocks."""
        wait, number = milliseconds(timeout), _lib.number(tag, -(2**63), "event tag")
        self._order("lock_submit_acquire", self._number_of(owner), wait, number)

    def submit_release(self, tag: int = 0, owner: Optional[int] = None) -> None:
        """Ask for a release; a RELEASED or RELEASE_FAILED event with tag follows, once. Never blocks. NotHeld, Lost."""
        self._order("lock_submit_release", self._number_of(owner), _lib.number(tag, -(2**63), "event tag"))

    def cancel(self, owner: Optional[int] = None) -> bool:
        """End the wait of an owner with Cancelled; False when it does not wait. Never blocks."""
        cancel = self._lib.dlock_lock_cancel
        return self._lib.call(cancel, self._live(), self._number_of(owner), expected=_abi.DLOCK_NOT_HELD)

    def _order(self, verb: str, *arguments: Any, expected: int = _abi.DLOCK_OK, get: str = "") -> Any:
        lib, function = self._lib, getattr(self._lib, f"dlock_{verb}")
        if get == "inspection":
            with lib.event_box() as box:
                lib.call(function, self._live(), *arguments, box)
                return self._client._event(box).inspection
        if get:
            return lib.ask(function, self._live(), *arguments, undo=lib.dlock_lock_release if get == "token" else None)
        done = lib.call(function, self._live(), *arguments, expected=expected)
        return done if expected else None
