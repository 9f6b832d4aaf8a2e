"""An agent whose threads are stopped at chosen points, to produce a race: native/preload/late.c."""
from __future__ import annotations

import contextlib
import mmap
import pathlib
from typing import Callable, Iterator

from .agent import Agent
from .waiting import until


class Late:
    """The commands of late.c, and the agent it runs in."""

    def __init__(self, folder: pathlib.Path, new_agent: Callable[..., Agent], **environment: str) -> None:
        file = folder / "late"
        file.write_bytes(bytes(28))
        with open(file, "r+b") as opened:
            self.words = memoryview(mmap.mmap(opened.fileno(), 28)).cast("I")
        self.agent = new_agent(preload="late.so", DLOCK_LATE=str(file), **environment)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """The thread of the client sleeps, and nothing wakes it."""
        before = self.words[5]
        self.words[4] = 1
        until(lambda: self.words[5] > before)
        try:
            yield
        finally:
            self.words[4] = 0
            until(lambda: self.words[6] == self.words[5])
