"""A member of etcd whose answers are changed on their way: a proxy that knows HTTP/2's frames and etcd's messages.

    with Twister(etcd.nodes[0].port) as twister:
        twister.url                                     # for dlock_client_open
        twister.twist = function                        # bytes of a message -> other bytes; None: as they are

Messages as a tree: fields(message) -> [(number, value)], value an int or bytes; message(fields) is the way back.
"""
from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any, Callable, Iterator, Union

Field = tuple[int, Union[int, bytes]]

# Which fields of an answer are messages themselves: of a transaction, and of a watch. Field 1 is the header of each.
KV: dict[int, Any] = {}
SHAPE: dict[int, Any] = {1: {}, 3: {1: {2: KV}, 2: {1: {}}, 3: {}}, 11: {2: KV}}


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def framed(message: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(message)) + message


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = b""
    while number >= 128:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


def fields(message: bytes) -> list[Field]:
    found: list[Field] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found.append((tag >> 3, number()))
        else:
            assert tag & 7 == 2, tag
            size = number()
            found.append((tag >> 3, message[at : at + size]))
            at += size
    return found


def message(parts: list[Field]) -> bytes:
    return b"".join(
        varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(value)) + value
        for number, value in parts
    )


def numbers(answer: bytes, change: Callable[[int, int], int], shape: dict[int, Any] = SHAPE, first: int = 0) -> tuple[bytes, int]:
    """The answer with change(index, number) in place of each number, and how many there were."""
    out: list[Field] = []
    count = first
    for number, value in fields(answer):
        if isinstance(value, int):
            out.append((number, change(count, value)))
            count += 1
        elif number in shape:
            inside, count = numbers(value, change, shape[number], count)
            out.append((number, inside))
        else:
            out.append((number, value))
    return message(out), count


def ranges(answer: bytes, change: Callable[[list[Field]], list[Field]]) -> bytes:
    """The answer of a transaction with change(fields of a range's result) for each range in it."""
    out: list[Field] = []
    for number, value in fields(answer):
        if number == 3 and isinstance(value, bytes) and [n for n, _ in fields(value)] == [1]:
            inside = fields(value)[0][1]
            assert isinstance(inside, bytes)
            value = message([(1, message(change(fields(inside))))])
        out.append((number, value))
    return message(out)


class Twister:
    def __init__(self, port: int) -> None:
        self.server = port
        self.twist: Callable[[bytes], bytes] | None = None
        self.twisted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"etcd://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server))
                self._open += [client, server]
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            while piece := server.recv(65536):
                data += piece
                while len(data) >= 9 and len(data) >= 9 + (size := int.from_bytes(data[:3], "big")):
                    client.sendall(b"".join(self._frame(data[: 9 + size])))
                    data = data[9 + size :]
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _frame(self, one: bytes) -> Iterator[bytes]:
        kind, flags, stream, body = one[3], one[4], int.from_bytes(one[5:9], "big"), one[9:]
        if kind != 0 or not self.twist or len(body) < 5 or int.from_bytes(body[1:5], "big") != len(body) - 5:
            yield one
            return
        self.twisted += 1
        body = framed(self.twist(body[5:]))
        for at in range(0, len(body), 16384):
            yield frame(0, flags if at + 16384 >= len(body) else 0, stream, body[at : at + 16384])

    def __enter__(self) -> Twister:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
