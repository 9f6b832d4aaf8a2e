"""Client: the connections, the locks made from it, and the events about them."""
from __future__ import annotations

import ctypes
import time
from typing import Any, Iterator, NamedTuple, Optional, Union

from . import _abi, _errors, _lib
from ._lib import Number, Opened, Option, left, milliseconds, seconds, take
from .kinds import Kinds, Latch, MultiLock, Semaphore
from .lock import Lock
from .requests import Inspection
from .transaction import Transactions


class EventType(Number):
    """The type of an event."""

    NONE, ACQUIRED, ACQUIRE_FAILED, RELEASED, RELEASE_FAILED, AT_RISK, LOST, LOG = range(8)
    DONE, FINDING = 9, 10


class Cause(Number):
    """Why a grant was lost."""

    NONE, EXPIRED, TAKEN, MAX_HOLD, CLOSED = range(5)


class Event(NamedTuple):
    """An event of a client. Fields that do not apply are -1; remaining and held_for (seconds) are then None."""

    type: EventType
    status: int
    tag: int
    lock_id: int
    owner: int
    token: int
    remaining: Optional[float]
    cause: Cause
    text: str
    held_for: Optional[float] = None
    waiters: int = -1
    foreign: int = -1
    value: int = -1
    data: bytes = b""

    @property
    def error(self) -> Optional[_errors.DlockError]:
        """The exception that the blocking call would have raised, or None."""
        return _errors.make(self.status, self.text) if self.status else None

    @property
    def inspection(self) -> Inspection:
        """The result, when the event answers an inspection."""
        return Inspection(self.text, self.held_for, self.remaining, self.token, self.waiters, self.foreign == 1)


class Finding(NamedTuple):
    """One result of check()."""

    name: str  # for example "EVICTION"
    danger: bool  # locks fail, or may be lost while the server runs; else guarantees are weaker than they could be
    text: str  # a sentence with advice


class Base(Opened):
    """The base of Client and aio.Client. Nothing here blocks."""

    _shown = ""  # the URL without credentials, once the library has accepted it

    def __init__(self, url: str, **options: Option) -> None:
        """Make a client; it connects on first use. Options are those of the library, for example lease_ms=10_000.
        They override options in the URL.

        InvalidUrl, UnknownOption, InvalidOption, Unsupported, LibraryError.
        """
        self._lib, self._url, self._closed = _lib.library(), url, False
        self._options: dict[str, Option] = {"interruptible": True, **options}  # so that signal handlers run
        self._live()
        scheme, slashes, rest = url.partition("?")[0].partition("://")
        self._shown = f" {scheme}{slashes}{rest.rpartition('@')[2]}"

    def _open(self) -> Any:
        if self._closed:
            raise _errors.make(_abi.DLOCK_CLOSED, "The client is closed.")
        handle = _abi.dlock_client_p()
        url, options = _lib.plain(self._url, "the URL"), self._lib.options(self._options)
        self._lib.call(self._lib.dlock_client_open, url, options, handle)
        return handle

    def __repr__(self) -> str:
        return f"<{self._form}{self._shown}>"

    _form = "dlock.Client"

    def stats(self) -> dict[str, int]:
        """The counters of this client, by name: "acquired", "lost", ... Never blocks."""
        values, count = (ctypes.c_int64 * _abi.DLOCK_STAT_COUNT)(), ctypes.c_size_t()
        self._lib.call(self._lib.dlock_client_stats, self._live(), values, len(values), count)
        known = min(count.value, len(values))
        return {name: values[place] for name, place in _lib.constants("DLOCK_STAT_").items() if place < known}

    def metrics(self) -> str:
        """The counters and histograms of this client as OpenMetrics text, see dlock.metrics. Never blocks."""
        room, size = 32768, ctypes.c_size_t()
        while True:
            buffer = ctypes.create_string_buffer(room)
            error = self._lib.attempt(self._lib.dlock_client_metrics, self._live(), buffer, room, size)
            if not error:
                return buffer.value.decode()
            if error.code != _abi.DLOCK_BUFFER_TOO_SMALL:
                raise error
            room = 2 * size.value

    def fileno(self) -> int:
        """A descriptor for select or add_reader: readable while events wait. Never read from it or close it."""
        descriptor = ctypes.c_int32()
        self._lib.call(self._lib.dlock_client_fd, self._live(), descriptor)
        return descriptor.value

    def fault(self, what: str, name: Union[str, bytes] = "", seconds: Optional[float] = 0.0) -> None:
        """Make something go wrong, for a test: see dlock.testing. Only a client of memory: does it. seconds is the
        value of the fault; None: until "heal". Never blocks. Unsupported, InvalidArgument, NotHeld, NotFound."""
        word, bare = _lib.plain(what, "a fault"), name.encode() if isinstance(name, str) else bytes(name)
        value = -1 if seconds is None else round(seconds * 1000)
        self._lib.call(self._lib.dlock_client_fault, self._live(), word, bare, len(bare), value)

    def _event(self, box: Any) -> Event:
        numbers, text = self._lib.unpack(box)
        kind, status, tag, lock_id, owner, token, remaining, cause, held_for, waiters, foreign, value = numbers[:12]
        data = self._data(box, value) if lock_id < 0 and value > 0 else b""
        known = EventType(kind), status, tag, lock_id, owner, token, seconds(remaining), Cause(cause), text
        return Event(*known, seconds(held_for), waiters, foreign, value, data)

    def _findings(self) -> list[Finding]:
        found: list[Finding] = []
        box, end = take([], self._lib.dlock_event_new), _abi.DLOCK_NO_EVENT
        while self._lib.call(self._lib.dlock_client_finding, self._live(), len(found), box, expected=end):
            numbers, text = self._lib.unpack(box)
            name = self._lib.dlock_finding_name(numbers[_abi.DLOCK_FIELD_VALUE]).decode()
            found.append(Finding(name, numbers[_abi.DLOCK_FIELD_CAUSE] == _abi.DLOCK_SEVERITY_DANGER, text))
        return found

    def _data(self, box: Any, size: int) -> bytes:
        """The bytes of an event that has size bytes."""
        buffer = (ctypes.c_uint8 * size)()
        self._lib.attempt(self._lib.dlock_event_data, box, buffer, len(buffer), None)
        return bytes(buffer)


class Client(Base, Kinds[Lock, Semaphore, Latch, MultiLock], Transactions):
    """Connections to the servers of one URL, made on first use, and a watchdog that renews held locks.

    Use it from any thread, and as a context manager. In a forked child it becomes a new client with the same URL and
    options, which holds nothing.
    """

    _kinds = (Lock, Semaphore, Latch, MultiLock)

    def __enter__(self) -> Client:
        return self

    def close(self, timeout: Optional[float] = 5.0) -> None:
        """Release all locks, end all waits with Closed, and stop. Blocks up to timeout seconds. May be called again.

        TimedOut: the server did not confirm all releases. The rest expires with its leases.
        """
        self._closed = True
        if self._forks == _lib.process.forks:  # else the client is the parent's, and this process has none
            self._lib.call(self._lib.dlock_client_close, self._handle, milliseconds(timeout))

    _end = close

    def ping(self, timeout: Optional[float] = None) -> None:
        """Check that the server answers. Blocks. Unreachable, Denied, Server... exceptions."""
        self._lib.call(self._lib.dlock_client_ping, self._live(), milliseconds(timeout))

    def check(self, timeout: Optional[float] = None) -> list[Finding]:
        """Check whether the server is fit to keep locks. Blocks. Unreachable, Denied, Server... exceptions."""
        self._lib.call(self._lib.dlock_client_check, self._live(), milliseconds(timeout), None)
        return self._findings()

    def provision(self, timeout: Optional[float] = None) -> None:
        """Tell the server that it remembers every lock, which ends a quarantine. Blocks. Unsupported without the option
        quarantine_ms."""
        self._lib.call(self._lib.dlock_client_provision, self._live(), milliseconds(timeout))

    def next_event(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The oldest event; None after timeout seconds or wake(). Blocks; signal handlers run meanwhile. Closed."""
        lib, wait, since = self._lib, milliseconds(timeout), time.monotonic()
        box = take(lib.event_boxes, lib.dlock_event_new)
        error = lib.attempt(lib.dlock_client_next, self._live(), wait, box)
        while error and error.code == _abi.DLOCK_INTERRUPTED:  # a signal handler has run
            error = lib.attempt(lib.dlock_client_next, self._live(), left(wait, since), box)
        event = None if error else self._event(box)
        lib.event_boxes.append(box)
        if error and error.code != _abi.DLOCK_NO_EVENT:
            raise error
        return event

    def events(self) -> Iterator[Event]:
        """Yield events until the client is closed or wake() is called. Blocks between events."""
        try:
            while event := self.next_event():
                yield event
        except _errors.DlockError as error:
            if error.code != _abi.DLOCK_CLOSED:
                raise

    def wake(self) -> None:
        """End one wait for events, the current one or the next, in any thread. Never blocks."""
        self._lib.call(self._lib.dlock_client_wake, self._live())
