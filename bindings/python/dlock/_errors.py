"""Exceptions. The classes are made from the status table of the loaded library: TIMED_OUT becomes dlock.TimedOut."""
from __future__ import annotations

from typing import Any

from . import _abi


class LibraryError(ImportError):
    """The C library is missing or too old. The message says which files were tried, and the error of each."""


class DlockError(Exception):
    """The base of all exceptions of a failed call. message is one sentence; code and name are the status, for example
    -300 and "UNREACHABLE"; retryable: the same call may succeed later without a change."""

    code: int = 0
    name: str = "UNKNOWN"
    retryable: bool = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


classes: dict[int, type[DlockError]] = {}  # by status; filled when the library is loaded


def define(library: Any) -> None:
    """Make a class for each status of the library but OK."""
    for code in map(library.dlock_status_at, range(library.dlock_status_count())):
        if code != _abi.DLOCK_OK:
            name: str = library.dlock_status_name(code).decode()
            also = _abi.ALSO.get(name, ValueError if name.startswith("INVALID_") else None)
            text = library.dlock_status_text(code).decode()
            retryable = bool(library.dlock_status_retryable(code))
            body = {"code": code, "name": name, "retryable": retryable, "__doc__": text, "__module__": "dlock"}
            classes[code] = type(name.title().replace("_", ""), (DlockError, also) if also else (DlockError,), body)


def make(code: int, message: str) -> DlockError:
    """The exception for a status. A status without a class, from a newer library, gives a plain DlockError."""
    error = classes.get(code, DlockError)(message)
    error.code = code
    return error


def invalid(message: str) -> DlockError:
    """InvalidArgument, for arguments that the binding itself refuses."""
    return make(_abi.DLOCK_INVALID_ARGUMENT, message)
