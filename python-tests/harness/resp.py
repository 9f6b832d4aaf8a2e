"""A small Redis client for tests: blocking, RESP2, no dependencies.

    with Client("127.0.0.1", 6379) as redis:        # or Client(path="redis.sock")
        redis.command("SET", "k", 1)                # "OK"; errors are raised as ReplyError
        redis.pipeline(["GET", "k"], ["NOPE"])      # [b"1", ReplyError(...)]: errors as values
        redis.subscribe("channel")
        redis.message(timeout=1)                    # (b"channel", b"payload"), None after the timeout
        redis.message(timeout=0)                    # the same, of the messages that the server has sent by now

Status replies are str, bulk replies bytes, integers int, nil None, arrays lists.
"""
from __future__ import annotations

import collections
import socket
import time
from typing import Any


class ReplyError(Exception):
    """An error reply; str() is its text."""


class Closed(Exception):
    """The server closed the connection."""


def encode(*words: Any) -> bytes:
    """One command. bytes stay as they are; anything else is sent as its text."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Client:
    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, path: str | None = None, timeout: float = 5) -> None:
        self.timeout = timeout
        if path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(path)  # without a timeout it waits when many connect at once; with one it fails at once
            self.socket.settimeout(timeout)
        else:
            self.socket = socket.create_connection((host, port), timeout)
        self.buffer = b""
        self.pushed: collections.deque[tuple[bytes, bytes]] = collections.deque()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def command(self, *words: Any) -> Any:
        self.send(*words)
        reply = self.read()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def pipeline(self, *commands: list[Any] | tuple[Any, ...]) -> list[Any]:
        self.socket.sendall(b"".join(encode(*words) for words in commands))
        return [self.read() for _ in commands]

    def send(self, *words: Any) -> None:
        self.socket.sendall(encode(*words))

    def subscribe(self, *channels: str | bytes, command: str = "SUBSCRIBE") -> None:
        """Also for PSUBSCRIBE and SSUBSCRIBE."""
        self.send(command, *channels)
        for _ in channels:
            self.read()

    def message(self, timeout: float = 1) -> tuple[bytes, bytes] | None:
        """The next message of the subscribed channels: (channel, payload). timeout=0: of the messages before the reply to a PING."""
        if timeout <= 0 and not self.pushed:
            self.send("PING")
            while (push := self.read()) != "PONG" and push[0] != b"pong":
                self._keep(push)
        if self.pushed or timeout <= 0:
            return self.pushed.popleft() if self.pushed else None
        deadline = time.monotonic() + timeout
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                self._keep(self.read())
                if self.pushed:
                    return self.pushed.popleft()
        except TimeoutError:
            pass
        finally:
            self.socket.settimeout(self.timeout)
        return None

    def _keep(self, push: list[Any]) -> None:
        if push[0] in (b"message", b"smessage", b"pmessage"):
            self.pushed.append((push[-2], push[-1]))

    # A reply leaves the buffer only when it is complete: a timeout loses nothing.

    def read(self) -> Any:
        """The next reply. TimeoutError when none is complete in time."""
        while True:
            parsed = parse(self.buffer, 0)
            if parsed:
                reply, end = parsed
                self.buffer = self.buffer[end:]
                return reply
            data = self.socket.recv(65536)
            if not data:
                raise Closed
            self.buffer += data


def parse(data: bytes, start: int) -> tuple[Any, int] | None:
    """The reply at start and the position of its end, or None while bytes are missing."""
    stop = data.find(b"\r\n", start)
    if stop < 0:
        return None
    kind, text, end = data[start : start + 1], data[start + 1 : stop], stop + 2
    if kind == b"+":
        return text.decode(), end
    if kind == b"-":
        return ReplyError(text.decode()), end
    if kind == b":":
        return int(text), end
    size = int(text)
    if size < 0:
        return None, end
    if kind == b"$":
        return (data[end : end + size], end + size + 2) if len(data) >= end + size + 2 else None
    if kind != b"*":
        raise ValueError(f"not RESP2: {data[start:stop]!r}")
    items = []
    for _ in range(size):
        parsed = parse(data, end)
        if not parsed:
            return None
        item, end = parsed
        items.append(item)
    return items, end
