"""An agent whose threads are kept from going on where a race needs it: native/preload/late.c."""
from __future__ import annotations

import mmap
import pathlib
from typing import Callable

from .agent import Agent


class Late:
    """The words of late.c, and an agent that it keeps."""

    def __init__(self, folder: pathlib.Path, new_agent: Callable[..., Agent], **environment: str) -> None:
        file = folder / "late"
        file.write_bytes(bytes(16))
        with open(file, "r+b") as opened:
            self.words = memoryview(mmap.mmap(opened.fileno(), 16)).cast("I")
        self.agent = new_agent(preload="late.so", DLOCK_LATE=str(file), **environment)
