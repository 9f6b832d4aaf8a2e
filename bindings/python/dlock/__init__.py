"""Distributed locks on Redis, by libdlock.

    import dlock

    with dlock.Client("redis://localhost") as client:
        with client.lock("invoice:17") as lock:
            pay(17, fence=lock.token)

Each status of the library but OK has an exception in this module, a subclass of DlockError: dlock.TimedOut, dlock.Lost,
dlock.Unreachable, ... The C library is loaded on first use.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import _errors, _lib
from ._errors import DlockError, LibraryError
from ._lib import VERSION as __version__
from .client import Cause, Client, Event, EventType, Finding
from .held import State
from .kinds import Latch, MultiLock, Semaphore
from .lock import Lock
from .requests import Inspection
from .transaction import Transaction

__all__ = [
    "Cause", "Client", "DlockError", "Event", "EventType", "Finding", "Inspection", "Latch", "LibraryError", "Lock",
    "MultiLock", "Semaphore", "State", "Transaction", "__version__",
]  # fmt: skip


if TYPE_CHECKING:
    from ._statuses import *
else:

    def __getattr__(name: str) -> type[DlockError]:
        if name[:1].isupper():
            _lib.library()
            for error in _errors.classes.values():
                if error.__name__ == name:
                    return error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
