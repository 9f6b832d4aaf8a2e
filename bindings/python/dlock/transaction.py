"""Transaction: what is read and written together, without a lock."""
from __future__ import annotations

import ctypes
import itertools
import math
import time
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from . import _abi, _errors, _lib
from ._lib import Name as Key, Opened, milliseconds, process

if TYPE_CHECKING:
    from .client import Base

T = TypeVar("T")


class Writes(Opened):
    """What Transaction and aio.Transaction have in common. Nothing here blocks."""

    _over = True  # no keys are watched since it was made, committed or rolled back

    def __init__(self, client: Base) -> None:
        self._client, self._lib, self._closed = client, client._lib, False

    def _open(self) -> Any:
        if self._closed:
            raise _errors.make(_abi.DLOCK_CLOSED, "The transaction is closed.")
        handle = _abi.dlock_txn_p()
        self._lib.call(self._lib.dlock_txn_new, self._client._live(), handle)
        return handle

    def set(self, key: Key, value: bytes, ttl: Optional[float] = None) -> None:
        """At the commit, give the key a value, for ttl seconds or for good. NoTransaction."""
        data = bytes(memoryview(value))
        self._lib.call(self._lib.dlock_txn_set, self._live(), *named(key), data, len(data), milliseconds(ttl))

    def incr(self, key: Key, by: int = 1) -> None:
        """At the commit, add to the decimal number of the key. NoTransaction."""
        self._lib.call(self._lib.dlock_txn_incr, self._live(), *named(key), _lib.number(by, -(2**63), "increment"))

    def delete(self, key: Key) -> None:
        """At the commit, delete the key. NoTransaction."""
        self._lib.call(self._lib.dlock_txn_delete, self._live(), *named(key))

    def _leave(self) -> Any:
        """The handle, which ends with its last use; None if it was made in another process."""
        handle = self._handle if self._forks == process.forks else None
        self._handle, self._closed, self._over, self._forks = None, True, True, -1
        return handle


class Transaction(Writes):
    """Optimistic: watch keys, get, then set, incr and delete, commit. From Client.transaction or transaction_begin.

    The commit does all writes at once, or none when a watched key was changed meanwhile: then it raises Conflict.
    Nobody is made to wait. Only the commit says that values read one after the other belonged together. As a context
    manager it rolls back what was not committed. Keys are str or bytes, values bytes. Use it from one thread at a time.
    Lost connections and refusals raise Unreachable, Denied, Server... exceptions.
    """

    def __enter__(self) -> Transaction:
        return self

    def watch(self, *keys: Key) -> None:
        """Watch keys before they are read; the first begins a transaction. Blocks, for one round trip each."""
        for key in keys:
            self._lib.call(self._lib.dlock_txn_watch, self._live(), *named(key))
            self._over = False

    def get(self, key: Key) -> Optional[bytes]:
        """The value of a key, None when there is none. Blocks. WrongKind when it is not a string; NoTransaction."""
        lib, room, size = self._lib, 1024, ctypes.c_size_t()
        while True:
            buffer = (ctypes.c_uint8 * room)()
            error = lib.attempt(lib.dlock_txn_get, self._live(), *named(key), buffer, room, size)
            if not error:
                return ctypes.string_at(buffer, size.value)
            if error.code == _abi.DLOCK_NOT_FOUND:
                return None
            if error.code != _abi.DLOCK_BUFFER_TOO_SMALL:
                raise error
            room = size.value

    def commit(self) -> None:
        """Do all writes at once. Blocks. Conflict: a watched key was changed, and nothing is written.

        UnknownOutcome: all was written or nothing, the server did not say. ServerError may mean that one of the writes
        failed and the others were done, its message says so. NoTransaction.
        """
        self._over = True
        self._lib.call(self._lib.dlock_txn_commit, self._live())

    def rollback(self) -> None:
        """Drop what was queued and watched. Blocks, for one round trip. Again is fine."""
        self._over = True
        self._lib.call(self._lib.dlock_txn_rollback, self._live())

    def close(self) -> None:
        """Roll back what was not committed. Again is fine."""
        if handle := self._leave():
            self._lib.attempt(self._lib.dlock_txn_rollback, handle)

    _end = close


def named(key: Key) -> tuple[bytes, int]:
    """A key as the library wants it."""
    data = key.encode() if isinstance(key, str) else bytes(memoryview(key))
    return data, len(data)


def pauses(attempts: Optional[int], timeout: Optional[float]) -> Callable[[_errors.DlockError], float]:
    """For how many seconds to pause before the next attempt; what is not to be tried again is raised."""
    last = math.inf if attempts is None else _lib.number(attempts, 1, "attempts")
    ms, made = milliseconds(timeout), itertools.count(1)
    end = math.inf if ms == _lib.FOREVER else time.monotonic() + ms / 1000

    def pause(error: _errors.DlockError) -> float:
        attempt = next(made)
        seconds: float = _lib.library().dlock_txn_pause_ms(attempt) / 1000
        if error.code != _abi.DLOCK_CONFLICT or attempt >= last or time.monotonic() + seconds > end:
            raise error
        return seconds

    return pause


class Transactions:
    """The methods of a client that make transactions."""

    def transaction_begin(self, *keys: Key) -> Transaction:
        """A transaction that watches these keys, see Transaction. Blocks. Unreachable, Denied, Server... exceptions."""
        transaction = Transaction(self)  # type: ignore[arg-type]
        transaction.watch(*keys)
        return transaction

    def transaction(self, body: Callable[[Transaction], T], *keys: Key,
                    attempts: Optional[int] = 50, timeout: Optional[float] = None) -> T:  # fmt: skip
        """Watch the keys, call body(transaction), commit, and return what body did; all again when a key was changed.

        Conflict after so many attempts, or when another would begin later than timeout seconds from now; None: no
        limit. Attempts are apart by a random time whose bound doubles. What body raises rolls back, and goes on to the
        caller. Blocks. UnknownOutcome: nobody can tell whether it was committed; it is not tried again.
        """
        pause = pauses(attempts, timeout)
        with self.transaction_begin() as transaction:
            while True:
                transaction.watch(*keys)
                result = body(transaction)
                try:
                    if not transaction._over:  # by the body
                        transaction.commit()
                    return result
                except _errors.DlockError as error:
                    seconds = pause(error)
                time.sleep(seconds)
