"""Waits for a condition, never for a time to pass."""
from __future__ import annotations

import functools
import time
from typing import Any, Callable

from .build import SANITIZED

SHORT = 30.0 if SANITIZED else 10.0  # seconds: longer than one step takes
WHILE = 2 * SHORT  # longer than anything here takes


def until(condition: Callable[[], Any], timeout: float = SHORT) -> Any:
    """Returns the value of condition() once it is true; AssertionError after the timeout."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.002)
    return found


wait_until = functools.partial(until, timeout=WHILE)
