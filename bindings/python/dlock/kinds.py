"""The kinds of locks that have methods of their own. Fair, read and write locks are plain Locks."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Optional, Sequence, Type, TypeVar

from . import _abi, _lib
from ._lib import Name, Option
from .held import Held
from .lock import Lock
from .makers import C, L, Makers, S
from .operations import Counts, Permits
from .requests import Inspection, Numbered

if TYPE_CHECKING:
    from .client import Base


class Semaphore(Permits[None, bool, int, Inspection], Numbered, Lock):
    """A number of permits that all processes share, from Client.semaphore or Client.permit_semaphore.

    acquire() takes as many permits as the option permits says (1); release() returns those of the owner's latest
    acquire(). Permits of a plain semaphore stay taken when their holder dies, until reclaim_permits(). Permits of a
    permit semaphore are leases: they have ids, are renewed, and come back when nobody renews them.
    """


class Latch(Counts[None, bool, int, Inspection], Lock):
    """A count-down latch, from Client.latch: all waiters pass when the count is zero. Nothing is ever held."""

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until the count is zero; False after timeout seconds. Blocks, like acquire()."""
        return self.acquire(timeout=-1 if timeout is None else timeout)

    def _end(self, token: Any = None) -> None:
        """The end of a with block: there is nothing to release."""


class Several(Held):
    """The base of MultiLock and aio.MultiLock."""

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
    """Several locks of a client as one, from Client.multi_lock: acquired all or none. Used like a Lock.

    token is the largest token of the members. A member with the same owner has its own token.
    """


M = TypeVar("M", bound=Several)


class Kinds(Makers[L, S, C], Generic[L, S, C, M]):
    """The methods of a client that make locks. Options override those of the client. Nothing here blocks. InvalidName,
    UnknownOption, InvalidOption."""

    _kinds: tuple[Type[L], Type[S], Type[C], Type[M]]

    def lock(self, name: Name, *, owner: Optional[int] = None, kind: str = "mutex", **options: Option) -> L:
        """A re-entrant mutex, see Lock; or another kind of lock, by its name in the library."""
        return self._kinds[0](self, name, owner, kind, options)  # type: ignore[arg-type]

    def multi_lock(self, *locks: L, owner: Optional[int] = None) -> M:
        """Several locks of this client as one, see MultiLock. DuplicateName, InvalidArgument."""
        return self._kinds[3](self, locks, owner)  # type: ignore[arg-type]
