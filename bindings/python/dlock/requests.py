"""Requests about a lock, as far as dlock and dlock.aio share them. gen.py writes more methods to operations.py."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Generic, NamedTuple, Optional, TypeVar

from . import _lib
from .held import Held

N = TypeVar("N")
B = TypeVar("B")
I = TypeVar("I")
X = TypeVar("X")
ID_SIZE = 33  # of a permit id, with its terminator


class Inspection(NamedTuple):
    """The state of a lock at the server. Times are seconds; None: unknown."""

    holder: str  # its id on the wire, "" when the lock is free
    held_for: Optional[float]
    remaining: Optional[float]
    token: int
    waiters: int  # processes in line
    foreign: bool  # the holder is not libdlock


class Requests(Held, Generic[N, B, I, X]):
    """The base of Operations. N, B, I and X are the results None, bool, int and Inspection, or awaitables of them."""

    acquire: Callable[..., B]
    _execute: Callable[..., Any]  # verb, arguments; expected=: the status for False; get=: the field of the event

    def try_acquire(self) -> B:
        """Acquire without waiting for other holders: one round trip at most. False when somebody else has the lock."""
        return self.acquire(blocking=False)


class Numbered(Held):
    """Methods of semaphores that need no server."""

    def permit_id(self, index: int = 0) -> str:
        """The id of one permit of the owner's latest acquire(), as Redisson writes it. Never blocks. NotHeld, Lost;
        Unsupported for a plain semaphore."""
        buffer = ctypes.create_string_buffer(ID_SIZE)
        self._lib.call(self._lib.dlock_semaphore_permit, self._live(), self._whose(), whole(index), buffer, ID_SIZE)
        return buffer.value.decode()


def whole(number: int) -> int:
    """An amount, checked for 64 bits."""
    return _lib.number(number, -(2**63) + 1, "amount")
