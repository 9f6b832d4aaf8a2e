"""What a test did: how often its row was run, and how often a fault really came. The harness counts the faults it makes; a test
counts the rest. conftest.py empties it before each test and keeps what it says for ./dev soak.

    tell(done=50)                                   # runs of the row, in the unit of its full count
    tell(fired=3)                                   # faults the harness does not see
"""
from __future__ import annotations

import collections
import threading

COUNTS: collections.Counter[str] = collections.Counter()
GUARD = threading.Lock()


def tell(done: int = 0, fired: int | None = None) -> None:
    """A test that tells of no fault at all has fired=None; one that tells of 0 is void."""
    with GUARD:
        COUNTS["done"] += done
        if fired is not None:
            COUNTS["fired"] += fired


def saw(fired: int) -> None:
    """What the harness made: nothing is nothing to tell of."""
    if fired:
        tell(fired=fired)
