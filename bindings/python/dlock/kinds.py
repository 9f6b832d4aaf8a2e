"""The kinds of locks beside the mutex. Fair, read and write locks are used like Lock itself."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Optional, Sequence, Type, TypeVar

from . import _abi, _lib
from ._lib import Name, Option
from .asked import Inspection, Numbered
from .held import Held
from .lock import Lock
from .makers import C, L, Makers, S
from .orders import Counts, Permits

if TYPE_CHECKING:
    from .client import Base


class Semaphore(Permits[None, bool, int, Inspection], Numbered, Lock):
    """So many permits for everybody, from Client.semaphore or Client.permit_semaphore.

    Each acquire() takes as many as the option permits says (1), each release() gives those of the latest acquire() of
    the owner back. Permits of a plain semaphore stay taken when their holder dies, until reclaim_permits. Those of a permit
    semaphore are leases: they are renewed, have ids, and come back when nobody renews them.
    """


class Latch(Counts[None, bool, int, Inspection], Lock):
    """A count that opens the way for everybody when it reaches zero, from Client.latch. Nothing is ever held."""

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until the count is zero; False after timeout seconds. Blocks, like acquire()."""
        return self.acquire(timeout=-1 if timeout is None else timeout)

    def _end(self, token: Any = None) -> None:
        """Of a with block: there is nothing to release."""


class Several(Held):
    """What MultiLock and aio.MultiLock have in common."""

    def __init__(self, client: Base, locks: Sequence[Held], owner: Optional[int]) -> None:
        self._members = tuple(locks)
        for lock in locks:
            if not isinstance(lock, Held):
                raise TypeError(f"A multi-lock is made of locks, not {type(lock).__name__}.")
        super().__init__(client, " + ".join(str(lock.name) for lock in locks), owner, "multi", {})

    def _make(self, handle: Any) -> None:
        count = len(self._members)
        members = (_abi.dlock_lock_p * count)(*[member._live() for member in self._members])
        self._lib.call(self._lib.dlock_lock_new_multi, self._client._live(), members, count, handle)


class MultiLock(Several, Lock):
    """Several locks of a client as one, all or none, from Client.multi_lock. Used like a Lock.

    token is the largest of the members' tokens; a member that has the same owner tells its own.
    """


M = TypeVar("M", bound=Several)


class Kinds(Makers[L, S, C], Generic[L, S, C, M]):
    """The methods of a client that make locks. Options win over the client's. Nothing here blocks. InvalidName,
    InvalidOption."""

    _kinds: tuple[Type[L], Type[S], Type[C], Type[M]]

    def lock(self, name: Name, *, owner: Optional[int] = None, kind: str = "mutex", **options: Option) -> L:
        """A re-entrant mutex, see Lock. Or another kind of lock by its name in the library."""
        return self._kinds[0](self, name, owner, kind, options)  # type: ignore[arg-type]

    def multi_lock(self, *locks: L, owner: Optional[int] = None) -> M:
        """Several locks of this client as one, see MultiLock. DuplicateName, InvalidArgument."""
        return self._kinds[3](self, locks, owner)  # type: ignore[arg-type]
