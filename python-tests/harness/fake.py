"""A server whose replies a test chooses: it shows what the client does with them.

    with FakeServer() as fake:
        fake.on("EVALSHA", b"-ERR no\\r\\n")         # bytes, or a function (link, words) -> bytes, None for the usual answer
        fake.url, fake.requests                     # its address; the received commands, as lists of bytes
By default it replies +OK to every command, and to SUBSCRIBE as Redis does.

    with LockServer() as fake:                      # grants, renews and releases whatever is requested
        fake.say("renew", b"-BUSY no\\r\\n", 3)     # the next three replies (None: all), then as before
        fake.said["renew"], fake.asked["renew"]     # how often it replied so; how often the script was called
"""
from __future__ import annotations

import collections
import contextlib
import fcntl
import socket
import termios
import threading
import time
from typing import Callable, Optional, Union

from .resp import parse
from .tally import saw
from .watch import script_of

Reply = Union[bytes, Callable[[socket.socket, list[bytes]], Optional[bytes]]]


class FakeServer:
    host = "127.0.0.1"

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.requests: list[list[bytes]] = []
        self.connections = 0
        self._links: list[socket.socket] = []
        self._listener = socket.create_server((self.host, 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://{self.host}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, command: str, reply: Reply) -> None:
        self.replies[command] = reply

    def count(self, command: str) -> int:
        return sum(words[0].upper() == command.encode() for words in list(self.requests))

    def hang_up(self) -> None:
        """Closes the open connections; new ones are accepted."""
        for link in list(self._links):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def blurt(self, data: bytes) -> int:
        """Sends what nobody asked for over every connection; the clients have received it. Returns how many there are."""
        told = 0
        for link in list(self._links):
            with contextlib.suppress(OSError):
                link.sendall(data)
                while fcntl.ioctl(link, termios.TIOCOUTQ, b"....") != bytes(4):
                    time.sleep(0.001)
                told += 1
        return told

    def close(self) -> None:
        for end in [self._listener, *self._links]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- threads

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                self.connections += 1
                self._links.append(link)
                threading.Thread(target=self._serve, args=[link], daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError), link:
            while piece := link.recv(65536):
                data += piece
                while parsed := parse(data, 0):
                    words, end = parsed
                    data = data[end:]
                    self.requests.append(words)
                    link.sendall(self._answer(link, words))

    def _answer(self, link: socket.socket, words: list[bytes]) -> bytes:
        reply = self.replies.get(words[0].decode().upper())
        if callable(reply):
            reply = reply(link, words)
        if reply is not None:
            return reply
        if words[0] == b"SUBSCRIBE":
            return b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n" % (len(words[1]), words[1])
        return b"+OK\r\n"


BATCHES = {"batch_acquire": "acquire", "batch_release": "release"}


class LockServer(FakeServer):
    """Replies like the scripts, without a server. Tokens count up from the current time."""

    def __init__(self) -> None:
        self.said: collections.Counter[str] = collections.Counter()
        self.asked: collections.Counter[str] = collections.Counter()
        self._say: dict[str, tuple[Reply, int | None]] = {}
        self._guard = threading.Lock()
        self._token = time.time_ns() // 1000
        super().__init__()
        for command in ("EVALSHA", "EVAL"):
            self.on(command, self._run)

    def __enter__(self) -> LockServer:
        return self

    def say(self, script: str, reply: Reply, times: int | None = None) -> None:
        with self._guard:
            self._say[script] = (reply, times)

    def sane(self) -> None:
        with self._guard:
            self._say.clear()

    def _told(self, script: str) -> Reply | None:
        with self._guard:
            self.asked[script] += 1
            reply, times = self._say.get(script, (None, None))
            if reply is None or times == 0:
                return None
            self._say[script] = (reply, times and times - 1)
            self.said[script] += 1
            saw(1)
            return reply

    def _run(self, link: socket.socket, words: list[bytes]) -> bytes | None:
        script = script_of(words)
        if not script:
            return b"-ERR unknown script\r\n"
        reply = self._told(script)
        if callable(reply):
            reply = reply(link, words)
        return self.usual(script, words) if reply is None else reply

    def _next_token(self) -> bytes:
        self._token += 1000
        return b":%d\r\n" % self._token

    def usual(self, script: str, words: list[bytes]) -> bytes:
        if script in ("acquire", "pass"):
            grant = b"*2\r\n:1\r\n" + self._next_token()
            return grant if script == "acquire" else b"*2\r\n:1\r\n" + grant
        if script in BATCHES:
            count = int(words[2]) // 5
            said = self._next_token if script == "batch_acquire" else lambda: b":1\r\n"
            return b"*%d\r\n" % count + b"".join(said() for _ in range(count))
        if script == "renew":
            return b"*%d\r\n" % int(words[2]) + b":1\r\n" * int(words[2])
        if script == "inspect":
            return b"*5\r\n$0\r\n\r\n:-2\r\n:%d\r\n:%d\r\n:0\r\n" % (self._token, time.time_ns() // 1000)
        return b":1\r\n"
