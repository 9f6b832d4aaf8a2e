"""A server that answers as a test says, to see what the client makes of it.

    with FakeServer() as fake:
        fake.on("EVALSHA", b"-ERR no\\r\\n")         # bytes, or a function (link, words) -> bytes, None for the usual answer
        fake.url, fake.requests                     # where it is; the commands that came, as lists of bytes
Unless told otherwise every command is answered with +OK, SUBSCRIBE as Redis does.
"""
from __future__ import annotations

import contextlib
import socket
import threading
from typing import Callable

from .resp import parse

Reply = bytes | Callable[[socket.socket, list[bytes]], bytes | None]


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
