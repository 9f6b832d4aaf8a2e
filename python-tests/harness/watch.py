"""The commands that a server receives, as they arrive.

    SHA["renew"]                                    # the SHA by which the server knows a script
    with Monitor(server) as seen:
        seen.catch_up()                             # returns when all commands before this call are in the list
        seen.rows("lock")                           # its renewals, a Row each: at (server time, seconds), link, owner, lease
        seen.scripts()                              # the rows of each renewal script
        seen.wait(lambda: len(seen.rows("lock")) > 2)
"""
from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import time
import uuid
from typing import Any, Callable, NamedTuple

from .resp import Closed
from .steps.scripts import SHA
from .server import Server

ASKED = ("acquire", "batch_acquire", "batch_release", "floor", "force", "inspect", "join", "pass", "release", "renew")
NAMES = {SHA[name]: name for name in ASKED}

LINE = re.compile(r"(\d+\.\d+) \[\d+ (\S+)\] (.*)", re.S)
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


def script_of(words: list[bytes]) -> str | None:
    """The script that a command runs, by its SHA or its text."""
    if len(words) < 3 or words[0].upper() not in (b"EVALSHA", b"EVAL"):
        return None
    sha = words[1].decode() if words[0].upper() == b"EVALSHA" else hashlib.sha1(words[1]).hexdigest()
    return NAMES.get(sha)


def unquote(text: str) -> bytes:
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


class Row(NamedTuple):
    at: float
    link: str
    lock: bytes
    owner: bytes
    lease: int


class Command(NamedTuple):
    at: float
    link: str
    script: str | None
    words: list[bytes]


class Monitor:
    """A connection that sees all commands except those that scripts call."""

    def __init__(self, server: Server) -> None:
        self.commands: list[Command] = []
        self._server = server
        self._redis = server.client(timeout=600)
        self._redis.command("MONITOR")
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._redis.socket.shutdown(2)

    def _run(self) -> None:
        with contextlib.suppress(OSError, Closed, ValueError):
            while True:
                found = LINE.match(self._redis.read())
                if found and found[2] != "lua":
                    words = [unquote(word) for word in WORD.findall(found[3])]
                    self.commands.append(Command(float(found[1]), found[2], script_of(words), words))

    def wait(self, condition: Callable[[], Any], timeout: float = 20) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout} s; the last commands: {self.commands[-5:]}"
            time.sleep(0.01)

    def catch_up(self) -> int:
        """Returns how many commands came before this call."""
        marker = uuid.uuid4().hex.encode()
        self._server.command("ECHO", marker)
        self.wait(lambda: any(command.words[-1:] == [marker] for command in self.commands[-200:]))
        return len(self.commands)

    def scripts(self, since: int = 0) -> list[list[Row]]:
        found = []
        for command in self.commands[since:]:
            if command.script == "renew":
                keys = int(command.words[2])
                locks, rest = command.words[3 : 3 + keys], command.words[3 + keys :]
                owners, leases = (rest[:-1], rest[-1:] * keys) if len(rest) == keys + 1 else (rest[::2], rest[1::2])
                found.append([Row(command.at, command.link, *row[:2], int(row[2])) for row in zip(locks, owners, leases)])
        return found

    def rows(self, lock: str | bytes | None = None, since: int = 0) -> list[Row]:
        """The renewals, of one lock or of all."""
        name = lock.encode() if isinstance(lock, str) else lock
        return [row for rows in self.scripts(since) for row in rows if name in (None, row.lock)]
