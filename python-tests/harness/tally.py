"""What a test did: how often its row ran, and how often the fault really happened. The harness counts the faults it makes; a test
counts the rest. conftest.py resets the counts before each test and keeps them for ./dev soak.

    tell(done=50)                                   # runs of the row, in the unit of its full count
    tell(fired=3)                                   # faults that the harness does not see
"""
from __future__ import annotations

import collections
import threading

COUNTS: collections.Counter[str] = collections.Counter()
GUARD = threading.Lock()


def tell(done: int = 0, fired: int | None = None) -> None:
    """fired=None: the test reports no faults at all. A test that reports 0 faults is void."""
    with GUARD:
        COUNTS["done"] += done
        if fired is not None:
            COUNTS["fired"] += fired


def saw(fired: int) -> None:
    """Faults that the harness made; 0 is not reported."""
    if fired:
        tell(fired=fired)
