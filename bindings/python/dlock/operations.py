"""Requests to the server about a lock, for dlock and dlock.aio. Written by abi/gen.py: do not edit.

In dlock these methods block, up to the option command_timeout_ms, and return None, bool, int or Inspection.
In dlock.aio methods and properties return an awaitable of that.
"""
# mypy: no-warn-return-any
from __future__ import annotations

from . import _abi
from ._lib import milliseconds
from .requests import B, I, N, Requests, X, whole


class Operations(Requests[N, B, I, X]):
    """Methods of all kinds of locks."""

    def extend(self, lease: float) -> N:
        """Set the lease: the server keeps the lock for so long from now and from each renewal. NotHeld, Lost."""
        return self._execute("lock_extend", self._whose(), milliseconds(lease))

    def force_release(self) -> B:
        """Take the lock from its holder, in any process. False when it was free."""
        return self._execute("lock_force_release", expected=_abi.DLOCK_NOT_HELD)

    def close_gate(self, ttl: float) -> N:
        """End all waits for the lock, in all processes, with GateClosed, and refuse new ones for ttl seconds."""
        return self._execute("lock_close_gate", milliseconds(ttl))

    def open_gate(self) -> B:
        """Open the gate that close_gate closed. False when it was open."""
        return self._execute("lock_open_gate", expected=_abi.DLOCK_UNCHANGED)

    def inspect(self) -> X:
        """Ask the server who holds the lock."""
        return self._execute("lock_inspect", get="inspection")

    def adopt_grant(self, grant: bytes) -> I:
        """Take over an exported grant of this lock. Returns its token. InvalidGrant, Busy; Lost: too late."""
        data = bytes(memoryview(grant))
        return self._execute("lock_adopt_grant", self._whose(), data, len(data), get="token")


class Permits(Operations[N, B, I, X]):
    """Methods of semaphores."""

    def set_permits(self, permits: int) -> B:
        """Create the semaphore with so many permits. False, and nothing changes, when it exists."""
        return self._execute("semaphore_set", whole(permits), expected=_abi.DLOCK_UNCHANGED)

    def add_permits(self, permits: int) -> I:
        """Add permits, or remove them when negative. Returns how many are free now."""
        return self._execute("semaphore_add", whole(permits), get="value")

    def drain_permits(self) -> I:
        """Remove all free permits for good. Returns how many. Unsupported for a permit semaphore."""
        return self._execute("semaphore_drain", get="value")

    def reclaim_permits(self, silent: float) -> I:
        """Free permits whose holder has not renewed for its lease_ms and silent seconds more. Returns how many."""
        return self._execute("semaphore_reclaim", milliseconds(silent), get="value")

    @property
    def available_permits(self) -> I:
        """How many permits are free."""
        return self._execute("semaphore_available", get="value")


class Counts(Operations[N, B, I, X]):
    """Methods of latches."""

    def set_count(self, count: int) -> B:
        """Set the count of an open latch. False, and nothing changes, when it has a count."""
        return self._execute("latch_set", whole(count), expected=_abi.DLOCK_UNCHANGED)

    def count_down(self, count: int = 1) -> I:
        """Count down, but not below zero. Returns the new count."""
        return self._execute("latch_count_down", whole(count), get="value")

    @property
    def count(self) -> I:
        """The count; 0 means that the latch is open."""
        return self._execute("latch_count", get="value")
