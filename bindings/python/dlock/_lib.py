"""The C library: finds and loads it on first use, binds its functions by name, and calls them."""
from __future__ import annotations

import ctypes
import enum
import math
import operator
import os
import pathlib
import threading
import time
from typing import Any, Callable, Mapping, Optional, Union

from . import _abi, _errors

VERSION = "0.1.0"  # of the binding; a library with this major.minor or a later one has all of _abi.PROTOTYPES
SONAME = "libdlock.so.1"
FOREVER = -1
Option = Union[bool, int, str, None]
Name = Union[str, bytes]


class Library:
    """The functions of dlock.h as attributes, and the error and event boxes that they fill.

    Boxes that are not in use are kept in lists. A call takes one and puts it back, so that no two calls share a box:
    neither calls of two threads, nor a call and a signal handler that runs in the middle of it.
    """

    def __init__(self, path: str) -> None:
        waiting, quick = ctypes.CDLL(path), ctypes.PyDLL(path)
        version, needed = quick.dlock_version(), [int(part) for part in VERSION.split(".")]
        found = [version >> 16, version >> 8 & 255, version & 255]
        if found[:2] < needed[:2]:
            raise OSError("its version is %d.%d.%d, this binding needs %d.%d or later" % (*found, *needed[:2]))
        for name, (result, arguments) in _abi.PROTOTYPES.items():
            # Functions that may sleep release the GIL (CDLL). The others keep it (PyDLL), for twice busy_poll_us at
            # most: once released, a busy thread may keep it for 5 ms.
            for library in (quick, waiting) if name in _abi.BLOCKING else (quick,):
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.next_now = quick.dlock_client_next  # for a timeout of 0
        self.error_boxes: list[Any] = []
        self.release_boxes: list[Any] = []  # none of these has the code WOULD_BLOCK
        self.event_boxes: list[Any] = []
        _errors.define(self)
        _abi.Pointer.library = self

    def __getattr__(self, name: str) -> Any:  # tells type checkers that there are more attributes
        raise AttributeError(name)

    def attempt(self, function: Callable[..., int], *arguments: Any) -> Optional[_errors.DlockError]:
        """Call a function whose last parameter is an error box. Returns its exception, or None for OK."""
        box = take(self.error_boxes, self.dlock_error_new)
        status = function(*arguments, box)
        error = self.failure(status, box) if status else None
        self.error_boxes.append(box)
        return error

    def call(self, function: Callable[..., int], *arguments: Any, expected: int = _abi.DLOCK_OK) -> bool:
        """As attempt(), but raises the exception. True for OK; False for the expected status."""
        error = self.attempt(function, *arguments)
        if error and error.code != expected:
            raise error
        return error is None

    def query(self, function: Callable[..., int], *arguments: Any) -> int:
        """The number that a function writes to its last but one parameter."""
        out = ctypes.c_int64()
        self.call(function, *arguments, out)
        return out.value

    def failure(self, status: int, box: Any) -> _errors.DlockError:
        """The exception for a status other than OK; box is the error box of the call."""
        text: bytes = self.dlock_error_message(box) or self.dlock_status_text(status)
        return _errors.make(status, text.decode("utf-8", "replace"))

    def unpack(self, box: Any) -> tuple[list[int], str]:
        """The numbers of an event, by DLOCK_FIELD_* (-1: this library does not have the field), and its text."""
        values = (ctypes.c_int64 * _abi.DLOCK_FIELD_COUNT)(*[-1] * _abi.DLOCK_FIELD_COUNT)
        self.call(self.dlock_event_unpack, box, values, len(values), None)
        return list(values), self.dlock_event_text(box).decode("utf-8", "replace")

    def options(self, values: Mapping[str, Option]) -> Any:
        """A set of options, or NULL when there are none. The value None leaves an option at its default."""
        if not values:
            return None
        box = take([], self.dlock_options_new)
        for name, value in values.items():
            if value is not None:
                text = str(value).lower() if isinstance(value, bool) else value
                text = text if isinstance(text, str) else str(operator.index(text))
                self.call(self.dlock_options_set, box, plain(name, "an option"), plain(text, name))
        return box


def take(boxes: list[Any], new: Callable[[], Any]) -> Any:
    """A box from the list, or a new one. MemoryError."""
    try:
        return boxes.pop()
    except IndexError:
        if box := new():
            return box
        raise MemoryError("libdlock: out of memory") from None


def _load() -> Library:
    override, bundled = os.environ.get("DLOCK_LIBRARY"), pathlib.Path(__file__).with_name(SONAME)
    tried = []
    for path in [override] if override else [str(bundled), SONAME] if bundled.exists() else [SONAME]:
        try:
            return Library(path)
        except (OSError, AttributeError) as error:  # AttributeError: a function is missing
            tried.append(str(error) if path in str(error) else f"{path}: {error}")
    hint = "as DLOCK_LIBRARY says" if override else "DLOCK_LIBRARY is not set"
    raise _errors.LibraryError(f"No usable libdlock ({hint}). Tried " + "; ".join(tried))


def library() -> Library:
    """The library; the first call loads it. LibraryError."""
    if process.library is None:
        with process.mutex:
            process.library = process.library or _load()
    return process.library


# ---- arguments


def plain(text: str, what: str) -> bytes:
    """Text as UTF-8 for C. TypeError; InvalidArgument for a NUL."""
    if not isinstance(text, str):
        raise TypeError(f"The text for {what} is a str, not {type(text).__name__}.")
    if "\0" in text:
        raise _errors.invalid(f"A NUL in the text for {what}.")
    return text.encode()


def milliseconds(seconds: Optional[float]) -> int:
    """Seconds as milliseconds, rounded up. None, -1 and more than 300 years mean no limit."""
    if seconds is None or seconds == FOREVER:
        return FOREVER
    if seconds != seconds or seconds < 0:
        raise _errors.invalid(f"A duration is not negative, but {seconds}.")
    return FOREVER if seconds > 1e10 else math.ceil(seconds * 1000)


def left(wait: int, since: float) -> int:
    """The rest, in milliseconds, of a wait that began at since, a time of time.monotonic()."""
    return wait if wait == FOREVER else milliseconds(max(0.0, since + wait / 1000 - time.monotonic()))


def seconds(milliseconds: int) -> Optional[float]:
    """Milliseconds of the library as seconds; -1 (unknown) gives None."""
    return None if milliseconds < 0 else milliseconds / 1000


def number(value: int, low: int, what: str) -> int:
    """A number from the caller, checked: ctypes would silently cut one of more than 64 bits."""
    if not low <= operator.index(value) < 2**63:
        raise _errors.invalid(f"An {what} is a number from {low} to 2^63 - 1, not {value}.")
    return operator.index(value)


def constants(prefix: str) -> dict[str, int]:
    """The ABI's constants whose names start with prefix, by the rest of the name in lower case."""
    return {name[len(prefix) :].lower(): value for name, value in vars(_abi).items() if name.startswith(prefix)}


class Number(enum.IntEnum):
    """An enum of the library. A value that only a newer library has becomes a member called UNKNOWN_<value>."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        member = int.__new__(cls, value)  # type: ignore[call-overload]
        member._name_, member._value_ = f"UNKNOWN_{value}", value
        return member


# ---- handles and fork


class _Process:
    """State of the process: a forked child begins with its own."""

    library: Optional[Library] = None
    forks = -1  # how many forks led to this process

    def begin(self) -> None:
        self.forks, self.mutex = self.forks + 1, threading.RLock()
        self.entering: dict[int, Any] = {}  # by thread id: a weak reference to the End of the with block that it enters


process = _Process()
process.begin()
os.register_at_fork(after_in_child=process.begin)


class Opened:
    """An object with a handle of the library. A forked child never uses the parent's: its first use opens a new one."""

    _handle: Any = None
    _forks = -1  # process.forks when the handle was made
    _open: Callable[[], Any]
    _end: Callable[[], None]

    def __reduce_ex__(self, protocol: Any) -> Any:
        what = type(self).__name__
        raise TypeError(f"A dlock.{what} cannot be copied or pickled: another process opens a client of its own.")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._end()
        except _errors.DlockError:
            if kind is None:  # an exception of the block has priority
                raise

    def _live(self) -> Any:
        """The handle for this process, made if there is none yet."""
        if self._forks != process.forks:
            with process.mutex:
                if self._forks != process.forks:
                    self._handle = self._open()
                    self._forks = process.forks
        return self._handle
