"""What is asked of the server about a lock, once for both forms. Written by abi/gen.py: do not edit.

In dlock these methods block, up to the option command_timeout_ms, and return None, bool, int or Inspection; in
dlock.aio they return what is to be awaited for that, properties too.
"""
# mypy: no-warn-return-any
from __future__ import annotations

from . import _abi
from ._lib import milliseconds
from .asked import Asked, B, I, N, X, whole


class Orders(Asked[N, B, I, X]):
    """What all kinds are asked."""

    def extend(self, lease: float) -> N:
        """Make the server keep the lock for so many seconds from now and from each renewal. NotHeld, Lost."""
        return self._order("lock_extend", self._whose(), milliseconds(lease))

    def force_release(self) -> B:
        """Take the lock from whoever holds it, anywhere. False when it was free."""
        return self._order("lock_force_release", expected=_abi.DLOCK_NOT_HELD)

    def close_gate(self, ttl: float) -> N:
        """End every wait for the lock, in all processes, with GateClosed, and refuse new ones for ttl seconds."""
        return self._order("lock_close_gate", milliseconds(ttl))

    def open_gate(self) -> B:
        """Let everybody in again. False when the gate was open."""
        return self._order("lock_open_gate", expected=_abi.DLOCK_UNCHANGED)

    def inspect(self) -> X:
        """Ask the server who holds the lock."""
        return self._order("lock_inspect", get="inspection")

    def adopt_grant(self, grant: bytes) -> I:
        """Take over an exported grant of this name, as the first, in time; its token. InvalidGrant, Lost, Busy."""
        data = bytes(memoryview(grant))
        return self._order("lock_adopt_grant", self._whose(), data, len(data), get="token")


class Permits(Orders[N, B, I, X]):
    """What semaphores are asked."""

    def set_permits(self, permits: int) -> B:
        """Give the semaphore its permits; False when it has some already: nothing changes then."""
        return self._order("semaphore_set", whole(permits), expected=_abi.DLOCK_UNCHANGED)

    def add_permits(self, permits: int) -> I:
        """Add permits, or take them away when negative; how many are free now."""
        return self._order("semaphore_add", whole(permits), get="value")

    def drain_permits(self) -> I:
        """Take all permits that are free for good; how many that were. Unsupported for a permit semaphore."""
        return self._order("semaphore_drain", get="value")

    def reclaim_permits(self, silent: float) -> I:
        """Give back what holders had that have been silent for their lease_ms and so many seconds more; how many permits came back."""
        return self._order("semaphore_reclaim", milliseconds(silent), get="value")

    @property
    def available_permits(self) -> I:
        """How many permits are free."""
        return self._order("semaphore_available", get="value")


class Counts(Orders[N, B, I, X]):
    """What latches are asked."""

    def set_count(self, count: int) -> B:
        """Give an open latch its count; False when it has one: nothing changes then."""
        return self._order("latch_set", whole(count), expected=_abi.DLOCK_UNCHANGED)

    def count_down(self, count: int = 1) -> I:
        """Count down, not below zero; what is left."""
        return self._order("latch_count_down", whole(count), get="value")

    @property
    def count(self) -> I:
        """The count; 0: open."""
        return self._order("latch_count", get="value")
