"""A connection that is cut at its nth message."""
from __future__ import annotations

from typing import Any


class Nth:
    """Cuts the connection when the nth piece of bytes passes, counted over all connections: before it goes on, or with its answer."""

    def __init__(self, way: Any, n: int) -> None:
        self.seen, self.fired, self.n = 0, 0, n
        way.on(b"", self.count, times=None)

    def count(self, link: Any, _data: bytes) -> None:
        self.seen += 1
        if self.seen == self.n:
            self.fired += 1
            link.cut()
