"""For tests of programs that use locks: locks in memory, and faults on demand. No server is needed.

    from dlock.testing import dlock_memory      # a pytest fixture

    def test_a_loss_is_handled(dlock_memory):
        with dlock.Client(dlock_memory.url) as client:
            ...                                 # the program holds the lock "sale"
            dlock_memory.faults.lose("sale")

Everything here is for the process that uses it: other processes have other locks.
"""
from __future__ import annotations

import itertools
import os
from typing import Iterator, Optional, Union

from .client import Base, Client

__all__ = ["Faults", "Memory", "dlock_memory"]

Name = Union[str, bytes]


class Faults:
    """Faults for the client of a URL memory: or memory://name. others: for all other clients of that URL in its place.

    lose, pause, jump and heal meet all clients of the URL. seconds without a value: until heal.
    """

    def __init__(self, client: Base, others: bool = False) -> None:
        self._client, self._whose = client, " others" if others else ""

    def lose(self, name: Name) -> None:
        """Whoever holds the lock loses it now, and is told. It passes on. NotHeld."""
        self._client.fault("lose", name)

    def fail_renewals(self, seconds: Optional[float] = None, name: Name = "") -> None:
        """Renewals fail: of all locks, or of one."""
        self._client.fault("renewals" + self._whose, name, seconds)

    def deny(self, seconds: Optional[float] = None, name: Name = "") -> None:
        """Requests are refused with Denied: for all locks, or for one."""
        self._client.fault("deny" + self._whose, name, seconds)

    def cut(self, seconds: Optional[float] = None) -> None:
        """Requests and messages do not get through: Unreachable."""
        self._client.fault("cut" + self._whose, "", seconds)

    def pause(self, seconds: Optional[float] = None) -> None:
        """Nothing is answered meanwhile."""
        self._client.fault("pause", "", seconds)

    def delay(self, seconds: float) -> None:
        """Each request takes so long. 0 ends it."""
        self._client.fault("delay" + self._whose, "", seconds)

    def jump(self, seconds: float) -> None:
        """The clock of the store jumps forward, or back when seconds is negative. Leases end sooner, or later."""
        self._client.fault("clock", "", seconds)

    def heal(self) -> None:
        """All faults of all clients end. A clock stays where it is."""
        self._client.fault("heal")


class Memory:
    """Locks in memory for one test. Give url to the program. client is the test's own client of that URL, and faults are
    those of the program: of all other clients that have opened the URL by then. Use it as a context manager."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self.url = f"memory://dlock-testing-{os.getpid()}-{next(self._numbers)}"
        self.client = Client(self.url)
        self.faults = Faults(self.client, others=True)

    def close(self) -> None:
        """End all faults, so that clients which are closed later need not wait; and close the test's own client."""
        self.faults.heal()
        self.client.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _memory() -> Iterator[Memory]:
    """Locks in memory for one test: a Memory."""
    with Memory() as memory:
        yield memory


try:
    import pytest
except ImportError:  # the classes do without it
    pass
else:
    dlock_memory = pytest.fixture(name="dlock_memory")(_memory)
