"""The part of dlock.Lock and dlock.aio.Lock that needs no waiting. Nothing here blocks."""
from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Mapping, Optional

from . import _abi, _errors, _lib
from ._lib import FOREVER, Name, Number, Opened, Option, milliseconds

if TYPE_CHECKING:
    from .client import Base


class State(Number):
    """The state of a lock for one owner. AT_RISK: held, but renewals are failing."""

    NONE, WAITING, HELD, AT_RISK, LOST = range(5)


def patience(blocking: bool, timeout: Optional[float]) -> int:
    """The wait of an acquisition in milliseconds."""
    if not blocking and timeout not in (-1, 0, None):
        raise _errors.invalid("A call that does not block takes no timeout.")
    return milliseconds(timeout) if blocking else 0


class Held(Opened):
    """The base of Lock and aio.Lock. Nothing here blocks."""

    id = 0  # Event.lock_id of its events
    _owner = 0  # the calling thread or task
    _form = "dlock.Lock"

    def __init__(self, client: Base, name: Name, owner: Optional[int], kind: str,
                 options: Mapping[str, Option]) -> None:  # fmt: skip
        self.name, self._client, self._lib = name, client, client._lib
        self._bytes = name.encode() if isinstance(name, str) else bytes(memoryview(name))
        self._owner = self._number_of(owner)
        self._kind = _lib.constants("DLOCK_KIND_").get(_lib.plain(kind, "a kind of lock").decode(), 0)
        if not self._kind:
            raise _errors.invalid(f"There is no kind of lock called {kind!r}.")
        self._options = options
        self._live()

    def _open(self) -> Any:
        handle = _abi.dlock_lock_p()
        self._make(handle)
        self.id = int(self._lib.dlock_lock_id(handle))
        return handle

    def _make(self, handle: Any) -> None:
        client, new, options = self._client._live(), self._lib.dlock_lock_new, self._lib.options(self._options)
        self._lib.call(new, client, self._kind, self._bytes, len(self._bytes), options, handle)

    def _number_of(self, owner: Optional[int]) -> int:
        return self._owner if owner is None else _lib.number(owner, 0, "owner")

    def _whose(self) -> int:
        """The owner number of the caller."""
        return self._owner

    def __repr__(self) -> str:
        return f"<{self._form} {self.name!r} of {self._client!r}>"

    @property
    def state(self) -> State:
        """The state for the owner, by the clock at this instant."""
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
        """The fencing token of the owner's hold. NotHeld, Lost."""
        return self._query(self._lib.dlock_lock_token)

    @property
    def hold_count(self) -> int:
        """The owner's levels of re-entry."""
        return self._query(self._lib.dlock_lock_hold_count)

    @property
    def remaining(self) -> Optional[float]:
        """For how many seconds the hold is valid without another renewal; None when not held.

        math.inf for permits of a plain semaphore, which do not expire.
        """
        out = ctypes.c_int64()
        error = self._lib.attempt(self._lib.dlock_lock_remaining_ms, self._live(), self._whose(), out)
        if error and error.code not in (_abi.DLOCK_NOT_HELD, _abi.DLOCK_LOST):
            raise error
        return None if error else math.inf if out.value == FOREVER else out.value / 1000

    def _query(self, function: Any) -> int:
        return self._lib.query(function, self._live(), self._whose())

    def export_grant(self) -> bytes:
        """Give the grant away: bytes for adopt_grant() in another process, a secret that works once.

        It makes one round trip. Not held here then; after an error it is held as before. NotHeld, Lost, Busy.
        """
        buffer, size = (ctypes.c_uint8 * (512 + len(self._bytes)))(), ctypes.c_size_t()
        self._lib.call(self._lib.dlock_lock_export_grant, self._live(), self._whose(), buffer, len(buffer), size)
        return bytes(buffer[: size.value])
