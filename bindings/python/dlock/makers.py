"""The methods of a client that make locks of one kind each. Written by abi/gen.py: do not edit."""
# mypy: no-warn-return-any
from __future__ import annotations

from typing import Any, Generic, Optional, TypeVar

from ._lib import Name, Option
from .held import Held

L = TypeVar("L", bound=Held)
S = TypeVar("S", bound=Held)
C = TypeVar("C", bound=Held)


class Makers(Generic[L, S, C]):
    """The base of Kinds. L, S and C are its first three types."""

    _kinds: tuple[Any, Any, Any, Any]

    def fair_lock(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> L:
        """A mutex that is granted strictly in the order of the requests."""
        return self._kinds[0](self, name, owner, "fair", options)

    def read_lock(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> L:
        """The read side of a read-write lock: many owners may hold it together."""
        return self._kinds[0](self, name, owner, "read", options)

    def write_lock(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> L:
        """The write side of a read-write lock, held alone. A writer may also read; a reader may not also write."""
        return self._kinds[0](self, name, owner, "write", options)

    def semaphore(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> S:
        """A semaphore whose permits stay taken until they are released, see Semaphore."""
        return self._kinds[1](self, name, owner, "semaphore", options)

    def permit_semaphore(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> S:
        """A semaphore whose permits are leases, see Semaphore."""
        return self._kinds[1](self, name, owner, "permit_semaphore", options)

    def latch(self, name: Name, *, owner: Optional[int] = None, **options: Option) -> C:
        """A count-down latch, see Latch."""
        return self._kinds[2](self, name, owner, "latch", options)
