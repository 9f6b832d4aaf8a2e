"""Transaction: optimistic reads and writes of several keys, without a lock."""
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
    """The base of Transaction and aio.Transaction. Nothing here blocks."""

    _over = True  # no key was watched since it was made, committed or rolled back

    def __init__(self, client: Base) -> None:
        self._client, self._lib, self._closed = client, client._lib, False

    def _open(self) -> Any:
        if self._closed:
            raise _errors.make(_abi.DLOCK_CLOSED, "The transaction is closed.")
        handle = _abi.dlock_txn_p()
        self._lib.call(self._lib.dlock_txn_new, self._client._live(), handle)
        return handle

    def set(self, key: Key, value: bytes, ttl: Optional[float] = None) -> None:
        """Queue a write: at the commit set the key, to expire after ttl seconds, or never. NoTransaction."""
        data = bytes(memoryview(value))
        self._lib.call(self._lib.dlock_txn_set, self._live(), *named(key), data, len(data), milliseconds(ttl))

    def incr(self, key: Key, by: int = 1) -> None:
        """Queue a write: at the commit add to the decimal number of the key. NoTransaction."""
        self._lib.call(self._lib.dlock_txn_incr, self._live(), *named(key), _lib.number(by, -(2**63), "increment"))

    def delete(self, key: Key) -> None:
        """Queue a write: at the commit delete the key. NoTransaction."""
        self._lib.call(self._lib.dlock_txn_delete, self._live(), *named(key))

    def _leave(self) -> Any:
        """Close the transaction, and return its handle for one last call; None if another process made it."""
        handle = self._handle if self._forks == process.forks else None
        self._handle, self._closed, self._over, self._forks = None, True, True, -1
        return handle


class Transaction(Writes):
    """An optimistic transaction, from Client.transaction or transaction_begin: watch and get keys, queue writes with
    set, incr and delete, then commit.

    The commit does all writes at once, or none when a watched key was changed meanwhile: then it raises Conflict.
    Nobody has to wait. Values read one after the other are only consistent if the commit succeeds. As a context manager
    it rolls back if there was no commit. Keys are str or bytes, values bytes. Use it from one thread at a time. Lost
    connections and refusals raise Unreachable, Denied, Server... exceptions.
    """

    def __enter__(self) -> Transaction:
        return self

    def watch(self, *keys: Key) -> None:
        """Watch keys; do this before you read them. The first one begins a transaction. Blocks, one round trip each."""
        for key in keys:
            self._lib.call(self._lib.dlock_txn_watch, self._live(), *named(key))
            self._over = False

    def get(self, key: Key) -> Optional[bytes]:
        """The value of a key, or None. Blocks. WrongKind when it is not a string; NoTransaction."""
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
        """Do all writes at once. Blocks. Conflict: a watched key was changed, and nothing was written.

        UnknownOutcome: the server did not answer, so all was written or nothing. ServerError can mean that one write
        failed and the others were done; its message then says so. NoTransaction.
        """
        self._over = True
        self._lib.call(self._lib.dlock_txn_commit, self._live())

    def rollback(self) -> None:
        """Drop all queued writes and watches. Blocks, for one round trip. May be called again."""
        self._over = True
        self._lib.call(self._lib.dlock_txn_rollback, self._live())

    def close(self) -> None:
        """Roll back if there was no commit. May be called again."""
        if handle := self._leave():
            self._lib.attempt(self._lib.dlock_txn_rollback, handle)

    _end = close


def named(key: Key) -> tuple[bytes, int]:
    """A key as bytes and their number."""
    data = key.encode() if isinstance(key, str) else bytes(memoryview(key))
    return data, len(data)


def pauses(attempts: Optional[int], timeout: Optional[float]) -> Callable[[_errors.DlockError], float]:
    """A function that returns the pause in seconds before the next attempt, or raises its error when there is none."""
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
        """A Transaction that watches these keys. Blocks. Unreachable, Denied, Server... exceptions."""
        transaction = Transaction(self)  # type: ignore[arg-type]
        transaction.watch(*keys)
        return transaction

    def transaction(self, body: Callable[[Transaction], T], *keys: Key,
                    attempts: Optional[int] = 50, timeout: Optional[float] = None) -> T:  # fmt: skip
        """Watch the keys, call body(transaction), commit, and return the result of body; retry when a key was changed.

        Conflict after so many attempts, or when the next one would begin later than timeout seconds from now; None: no
        limit. The pause between attempts is random, with a bound that doubles. An exception of body rolls back and is
        raised. Blocks. UnknownOutcome: the commit was sent, but no answer came; there is no retry.
        """
        pause = pauses(attempts, timeout)
        with self.transaction_begin() as transaction:
            while True:
                transaction.watch(*keys)
                result = body(transaction)
                try:
                    if not transaction._over:  # body has not ended it
                        transaction.commit()
                    return result
                except _errors.DlockError as error:
                    seconds = pause(error)
                time.sleep(seconds)
