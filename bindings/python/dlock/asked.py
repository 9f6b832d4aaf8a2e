"""What is asked about a lock, in what both forms have in common; the methods that gen.py writes are in orders.py."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Generic, NamedTuple, Optional, TypeVar

from . import _lib
from .held import Held

N = TypeVar("N")
B = TypeVar("B")
I = TypeVar("I")
X = TypeVar("X")
ID_SIZE = 33  # of a permit, with its terminator


class Inspection(NamedTuple):
    """What the server knows of a lock. Times in seconds; None: unknown."""

    holder: str  # its id on the wire, "" when the lock is free
    held_for: Optional[float]
    remaining: Optional[float]
    token: int
    waiters: int  # processes in line
    foreign: bool  # the holder is not libdlock


class Asked(Held, Generic[N, B, I, X]):
    """What orders are built on; N, B, I and X: what answers with None, bool, int and Inspection, at once or awaited."""

    acquire: Callable[..., B]
    _order: Callable[..., Any]  # the verb, what it takes, expected= the status for False, get= what its event tells

    def try_acquire(self) -> B:
        """Acquire without waiting for others, in one round trip at most."""
        return self.acquire(blocking=False)


class Numbered(Held):
    """What semaphores are asked that needs no server."""

    def permit_id(self, index: int = 0) -> str:
        """The id of a permit of the owner's latest acquire(), as Redisson writes it. Never blocks. NotHeld, Lost,
        Unsupported."""
        buffer = ctypes.create_string_buffer(ID_SIZE)
        self._lib.call(self._lib.dlock_semaphore_permit, self._live(), self._whose(), whole(index), buffer, ID_SIZE)
        return buffer.value.decode()


def whole(number: int) -> int:
    """An amount for the library."""
    return _lib.number(number, -(2**63) + 1, "amount")
