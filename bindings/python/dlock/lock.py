"""Lock: used like threading.RLock, across processes, hosts and languages."""
from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Union

from . import _abi, _errors, _lib
from ._lib import FOREVER, Number, Opened, Option, milliseconds, process, seconds

if TYPE_CHECKING:
    from .client import Base


class State(Number):
    """What an owner has of a lock. AT_RISK: it holds it, but renewal is failing."""

    NONE, WAITING, HELD, AT_RISK, LOST = range(5)


class Inspection(NamedTuple):
    """What the server knows of a lock. Times in seconds; None: unknown."""

    holder: str  # its id on the wire, "" when the lock is free
    held_for: Optional[float]
    remaining: Optional[float]
    token: int
    waiters: int  # processes in line
    foreign: bool  # the holder is not libdlock


def patience(blocking: bool, timeout: Optional[float]) -> int:
    """How long to wait for a lock, as the library wants it."""
    if not blocking and timeout not in (-1, 0, None):
        raise _errors.invalid("A call that does not block takes no timeout.")
    return milliseconds(timeout) if blocking else 0


class Held(Opened):
    """What Lock and aio.Lock have in common. Nothing here blocks."""

    id = 0  # the lock_id of its events
    _owner = 0  # who calls
    _form = "dlock.Lock"

    def __init__(
        self, client: Base, name: Union[str, bytes], owner: Optional[int], kind: str, options: Mapping[str, Option]
    ) -> None:
        self.name, self._client, self._lib = name, client, client._lib
        self._bytes = name.encode() if isinstance(name, str) else bytes(memoryview(name))
        self._owner = self._number_of(owner)
        self._kind = _lib.constants("DLOCK_KIND_").get(_lib.plain(kind, "a kind of lock").decode(), 0)
        if not self._kind:
            raise _errors.invalid(f"There is no kind of lock called {kind!r}.")
        self._options = options
        self._live()

    def _open(self) -> Any:
        handle, client, new = _abi.dlock_lock_p(), self._client._live(), self._lib.dlock_lock_new
        options = self._lib.options(self._options)
        self._lib.call(new, client, self._kind, self._bytes, len(self._bytes), options, handle)
        self.id = int(self._lib.dlock_lock_id(handle))
        return _lib.owned(handle, self._lib.dlock_lock_free)

    def _number_of(self, owner: Optional[int]) -> int:
        return self._owner if owner is None else _lib.number(owner, 0, "owner")

    def _whose(self) -> int:
        """The number of who calls, for the library."""
        return self._owner

    def __repr__(self) -> str:
        return f"<{self._form} {self.name!r} of {self._client!r}>"

    @property
    def state(self) -> State:
        """What the owner has, by the clock at this instant."""
        out = ctypes.c_int32()
        self._lib.call(self._lib.dlock_lock_state, self._live(), self._whose(), out)
        return State(out.value)

    @property
    def held(self) -> bool:
        """Whether the owner holds the lock."""
        return self.state in (State.HELD, State.AT_RISK)

    @property
    def lost(self) -> bool:
        """Whether the owner had the lock and lost it."""
        return self.state is State.LOST

    @property
    def token(self) -> int:
        """The fencing token of what the owner holds. NotHeld, Lost."""
        return self._ask(self._lib.dlock_lock_token)

    @property
    def hold_count(self) -> int:
        """How often the owner holds the lock."""
        return self._ask(self._lib.dlock_lock_hold_count)

    @property
    def remaining(self) -> Optional[float]:
        """For how many seconds the owner may trust its hold if no renewal comes through; None when not held.

        Permits of a plain semaphore have no end: math.inf.
        """
        try:
            ms = self._ask(self._lib.dlock_lock_remaining_ms)
            return math.inf if ms == FOREVER else ms / 1000
        except _errors.DlockError as error:
            if error.code not in (_abi.DLOCK_NOT_HELD, _abi.DLOCK_LOST):
                raise
            return None

    def _ask(self, function: Any) -> int:
        return self._lib.ask(function, self._live(), self._whose())

    def export_grant(self) -> bytes:
        """What another process needs to adopt_grant(); the owner then holds nothing here. NotHeld, Lost, Busy."""
        buffer, size = (ctypes.c_uint8 * (512 + len(self._bytes)))(), ctypes.c_size_t()
        self._lib.call(self._lib.dlock_lock_export_grant, self._live(), self._whose(), buffer, len(buffer), size)
        return bytes(buffer[: size.value])


class Lock(Held):
    """A lock, from Client.lock. Threads may share it: each is an owner of its own, unless owner= gave it a number.

    Re-entrant per owner. `with lock:` waits without limit; at its end Lost is raised when the lock had been lost, but
    never in place of an exception of the block. Durations are seconds; None and -1 mean no limit.
    """

    def acquire(self, blocking: bool = True, timeout: Optional[float] = -1) -> bool:
        """True when acquired; False when not blocking and somebody else holds it, or after timeout seconds.

        Blocks; signal handlers run meanwhile, and what they raise ends the call with nothing held and nobody in line.
        Unreachable, Denied, Cancelled, Closed, WrongKind, Server... exceptions.
        """
        wait = patience(blocking, timeout)
        lib, owner = self._lib, self._owner
        handle = self._handle if self._forks == process.forks else self._live()
        token, local = ctypes.c_int64(), None  # token: not 0 from the moment of the grant, whatever is raised here
        try:
            local = lib.dlock_lock_acquire_local(handle, owner, token, None)
            if local == _abi.DLOCK_OK:
                return True
            error = lib.wait(wait, lambda ms: lib.attempt(lib.dlock_lock_acquire, self._live(), owner, ms, token))
        except BaseException:
            if token.value:  # it was won just now
                lib.attempt(lib.dlock_lock_release, handle, owner)
            elif local is not None:
                lib.attempt(lib.dlock_lock_cancel, handle, owner)
            raise
        if error and error.code not in (_abi.DLOCK_BUSY, _abi.DLOCK_TIMED_OUT):
            raise error
        return error is None

    def try_acquire(self) -> bool:
        """Acquire without waiting for others. Blocks for one round trip at most."""
        return self.acquire(blocking=False)

    def release(self) -> None:
        """Release one level; the last gives the lock to the next waiter. Blocks up to the option release_timeout_ms.

        NotHeld; Lost when the lock was lost before; UnknownOutcome when the server does not answer: the release goes on
        in the background. After any of them this level is not held.
        """
        lib, owner = self._lib, self._owner
        handle = self._handle if self._forks == process.forks else self._live()
        box, local = _lib.take(lib.error_boxes, lib.dlock_error_new), None
        try:
            local = status = lib.dlock_lock_release_local(handle, owner, box)
            if local == _abi.DLOCK_WOULD_BLOCK:
                status = lib.dlock_lock_release(handle, owner, box)
            if status != _abi.DLOCK_OK:
                raise lib.failure(status, box)
        except BaseException:
            if lib.dlock_error_code(box) == _abi.DLOCK_WOULD_BLOCK:  # raised by a signal handler between the two
                lib.dlock_lock_release(handle, owner, None)
            raise
        finally:  # no box that says WOULD_BLOCK is used again
            lib.error_boxes.append(box) if local == _abi.DLOCK_OK else lib.dlock_error_free(box)

    _end = release

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def submit_acquire(self, tag: int = 0, timeout: Optional[float] = None, owner: Optional[int] = None) -> None:
        """Ask for the lock; an ACQUIRED or ACQUIRE_FAILED event with tag follows, once. Never blocks."""
        submit, wait = self._lib.dlock_lock_submit_acquire, milliseconds(timeout)
        self._lib.call(submit, self._live(), self._number_of(owner), wait, _lib.number(tag, -(2**63), "event tag"))

    def submit_release(self, tag: int = 0, owner: Optional[int] = None) -> None:
        """Ask for a release; a RELEASED or RELEASE_FAILED event with tag follows, once. Never blocks. NotHeld, Lost."""
        submit = self._lib.dlock_lock_submit_release
        self._lib.call(submit, self._live(), self._number_of(owner), _lib.number(tag, -(2**63), "event tag"))

    def cancel(self, owner: Optional[int] = None) -> bool:
        """End the wait of an owner with Cancelled; False when it does not wait. Never blocks."""
        cancel = self._lib.dlock_lock_cancel
        return self._lib.call(cancel, self._live(), self._number_of(owner), expected=_abi.DLOCK_NOT_HELD)

    # ---- with the server: blocks up to the option command_timeout_ms

    def extend(self, lease: float) -> None:
        """Make the server keep the lock for so many seconds from now and from each renewal. NotHeld, Lost."""
        self._lib.call(self._lib.dlock_lock_extend, self._live(), self._owner, milliseconds(lease))

    def force_release(self) -> bool:
        """Take the lock from whoever holds it, anywhere. False when it was free."""
        return self._lib.call(self._lib.dlock_lock_force_release, self._live(), expected=_abi.DLOCK_NOT_HELD)

    def close_gate(self, ttl: float) -> None:
        """End every wait for the lock, in all processes, with GateClosed, and refuse new ones for ttl seconds."""
        self._lib.call(self._lib.dlock_lock_close_gate, self._live(), milliseconds(ttl))

    def open_gate(self) -> bool:
        """Let everybody in again. False when the gate was open."""
        return self._lib.call(self._lib.dlock_lock_open_gate, self._live(), expected=_abi.DLOCK_UNCHANGED)

    def inspect(self) -> Inspection:
        """Ask the server who holds the lock."""
        with self._lib.event_box() as box:
            self._lib.call(self._lib.dlock_lock_inspect, self._live(), box)
            numbers, holder = self._lib.unpack(box)
        token, remaining, _cause, held_for, waiters, foreign = numbers[_abi.DLOCK_FIELD_TOKEN : _abi.DLOCK_FIELD_FOREIGN + 1]
        return Inspection(holder, seconds(held_for), seconds(remaining), token, waiters, foreign == 1)

    def adopt_grant(self, grant: bytes) -> int:
        """Take over an exported grant of this name before its lease ends; its token. InvalidGrant, Lost, Busy."""
        token, grant = ctypes.c_int64(), bytes(memoryview(grant))
        self._lib.call(self._lib.dlock_lock_adopt_grant, self._live(), self._owner, grant, len(grant), token)
        return token.value
