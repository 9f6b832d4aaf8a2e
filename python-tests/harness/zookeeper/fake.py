"""A ZooKeeper of one process whose replies a test chooses: it shows what the client does with them.

    with FakeZookeeper() as fake:
        fake.twist = lambda call, reply: reply.replace(b"x", b"y")     # see Twist; the default sends what is right
        fake.url, fake.paths                                           # its address; the paths that were asked about
By itself it keeps nodes, sequences, ephemeral nodes and watches, as far as the client needs them.
"""
from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import socket
import struct
import threading
from typing import Any, Callable, Iterator, Union

CREATED, DELETE, EXISTS, GET_DATA, SET_DATA, CHILDREN, SYNC, MULTI, CREATE, CONTAINER, AUTH, CLOSE = 1, 2, 3, 4, 5, 8, 9, 14, 15, 19, 100, -11
GREETING = 0  # the operation of a greeting
NO_NODE, BAD_VERSION, EXISTS_ALREADY, EXPIRED, NOT_TRIED, SYSTEM_ERROR = -101, -103, -110, -112, -2, -1
NAMES = {GREETING: "greeting", CREATE: "create", CONTAINER: "container", DELETE: "delete", EXISTS: "exists", GET_DATA: "data", SET_DATA: "set",
         CHILDREN: "children", SYNC: "sync", MULTI: "multi", CLOSE: "close"}  # fmt: skip
HEAD = 16  # bytes of a reply's head


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def text(data: bytes) -> bytes:
    return int32(len(data)) + data


def stat(czxid: int = 5, ctime: int = 1000, mtime: int = 1000, version: int = 0, owner: int = 0) -> bytes:
    return int64(czxid) + int64(czxid) + int64(ctime) + int64(mtime) + int32(version) + int32(0) + int32(0) + int64(owner) + int32(0) + int32(0) + int64(czxid)


def frame(body: bytes) -> bytes:
    return text(body)


def head(xid: int, zxid: int, error: int = 0) -> bytes:
    return int32(xid) + int64(zxid) + int32(error)


def event(kind: int, path: bytes) -> bytes:
    """The message of a watch."""
    return head(-1, -1) + int32(kind) + int32(3) + text(path)


@dataclasses.dataclass
class Node:
    data: bytes
    czxid: int
    time: int
    mtime: int
    owner: int
    version: int = 0
    made: int = 0  # sequential nodes below it

    def stat(self) -> bytes:
        return stat(self.czxid, self.time, self.mtime, self.version, self.owner)


@dataclasses.dataclass
class Call:
    """A request: session is 0 before there is one; link is the connection."""

    op: int
    xid: int
    path: bytes
    watch: bool
    session: int
    timeout: int
    link: socket.socket

    @property
    def name(self) -> str:
        return NAMES.get(self.op, str(self.op))


# What goes out in place of a reply, which is without the length before it: one message, several, or none; Raw goes out as it is.
class Raw(bytes):
    pass


Twist = Callable[[Call, bytes], Union[bytes, "list[bytes]", None]]


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self.data), f"a request ends too early: {self.data!r}"
        return self.data[self.at - size : self.at]

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def int64(self) -> int:
        return int(struct.unpack(">q", self.take(8))[0])

    def text(self) -> bytes:
        return self.take(max(self.int32(), 0))


class FakeZookeeper:
    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.twist: Twist = lambda call, reply: reply
        self.paths: list[bytes] = []
        self.requests: list[str] = []
        self.wrong: list[str] = []  # what no client may send
        self.sessions: dict[int, int] = {}  # its timeout; 0: it is over
        self._numbers, self._zxids = itertools.count(0x1000), itertools.count(100)
        self._watches: dict[bytes, list[socket.socket]] = {}
        self._mutex = threading.RLock()
        self._links: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"zookeeper://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def hang_up(self) -> None:
        for link in list(self._links):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in [self._listener, *self._links]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> FakeZookeeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def children(self, path: bytes) -> list[bytes]:
        below = path.rstrip(b"/") + b"/"
        with self._mutex:
            return [node[len(below):] for node in self.nodes if node.startswith(below) and b"/" not in node[len(below):]]

    def tell(self, kind: int, path: bytes) -> None:
        """Ring all watches of a path."""
        for link in self._watches.pop(path, []):
            with contextlib.suppress(OSError):
                link.sendall(frame(event(kind, path)))

    # ---- connections

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._links.append(link)
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _read(self, link: socket.socket) -> bytes:
        def exactly(size: int) -> bytes:
            data = b""
            while len(data) < size:
                piece = link.recv(size - len(data))
                if not piece:
                    raise OSError
                data += piece
            return data

        return exactly(struct.unpack(">i", exactly(4))[0])

    def _send(self, call: Call, reply: bytes) -> None:
        out = self.twist(call, reply)
        for one in out if isinstance(out, list) else [out]:
            if one is not None:
                call.link.sendall(one if isinstance(one, Raw) else frame(one))

    def _serve(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError):
            session = self._greet(link)
            while session:
                data = self._read(link)
                with self._mutex:
                    call, reply = self._answer(link, session, Reader(data))
                if call.op == AUTH:
                    link.sendall(frame(reply))
                else:
                    self._send(call, reply)
                session = 0 if call.op == CLOSE else session
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)

    def _greet(self, link: socket.socket) -> int:
        request = Reader(self._read(link))
        request.take(12)
        timeout, session = request.int32(), request.int64()
        known = not session or self.sessions.get(session)
        if not session:
            session = next(self._numbers)
            self.sessions[session] = timeout
        call = Call(GREETING, 0, b"", False, session, timeout, link)
        self._send(call, int32(0) + int32(timeout if known else 0) + int64(session if known else 0) + text(b"p" * 16) + b"\0")
        return session if known else 0

    # ---- requests

    def _answer(self, link: socket.socket, session: int, request: Reader) -> tuple[Call, bytes]:
        xid, op = request.int32(), request.int32()
        if xid == -4:
            return Call(AUTH, xid, b"", False, session, 0, link), head(-4, 0)
        path = request.text() if op not in (MULTI, CLOSE) else b""
        self.requests.append(NAMES.get(op, str(op)))
        self.paths += [path] if path else []
        error, body = (EXPIRED, b"") if not self.sessions.get(session) else self._do(link, session, op, path, request)
        watch = op in (EXISTS, GET_DATA, CHILDREN) and request.data[-1:] == b"\1"
        return Call(op, xid, path, watch, session, self.sessions.get(session, 0), link), head(xid, next(self._zxids), error) + body

    def _do(self, link: socket.socket, session: int, op: int, path: bytes, request: Reader) -> tuple[int, bytes]:
        if op == MULTI:
            return 0, self._multi(session, request)
        if op in (CREATE, CONTAINER):
            return self._create(session, path, request)
        if op in (SET_DATA, DELETE):
            return self._change(op, path, request)
        if op in (SYNC, CLOSE):
            return 0, text(path) if op == SYNC else b""
        node = self.nodes.get(path)
        if request.take(1) == b"\1" and (node or op == EXISTS):
            self._watches.setdefault(path, []).append(link)
        if not node:
            return NO_NODE, b""
        names = self.children(path)
        return 0, {EXISTS: node.stat(), GET_DATA: text(node.data) + node.stat(), CHILDREN: int32(len(names)) + b"".join(map(text, names))}[op]

    def _create(self, session: int, path: bytes, request: Reader) -> tuple[int, bytes]:
        data = request.text()
        for _ in range(request.int32()):
            request.int32(), request.text(), request.text()
        flags, parent = request.int32(), path.rpartition(b"/")[0]
        if parent and parent not in self.nodes:
            return NO_NODE, b""
        if flags == 3 and parent:
            path += b"%010d" % self.nodes[parent].made
            self.nodes[parent].made += 1
        if path in self.nodes:
            return EXISTS_ALREADY, b""
        zxid = next(self._zxids)
        self.nodes[path] = Node(data, zxid, zxid, zxid, session if flags == 3 else 0)
        self.tell(1, path)
        self.tell(4, parent)
        return 0, text(path) + self.nodes[path].stat()

    def _change(self, op: int, path: bytes, request: Reader) -> tuple[int, bytes]:
        data, version, node = request.text() if op == SET_DATA else b"", request.int32(), self.nodes.get(path)
        if not node:
            return NO_NODE, b""
        if version not in (-1, node.version):
            return BAD_VERSION, b""
        if op == DELETE:
            del self.nodes[path]
            self.tell(2, path)
            self.tell(4, path.rpartition(b"/")[0])
            return 0, b""
        node.data, node.version, node.mtime = data, (node.version + 1 + 2**31) % 2**32 - 2**31, next(self._zxids)
        self.tell(3, path)
        return 0, node.stat()

    def _multi(self, session: int, request: Reader) -> bytes:
        before = {path: dataclasses.replace(node) for path, node in self.nodes.items()}
        out, failed = [], 0
        while True:
            op, last, _ = request.int32(), request.take(1), request.int32()
            if last == b"\1":
                break
            path = request.text()
            self.paths.append(path)
            error, body = self._create(session, path, request) if op == CREATE else self._change(op, path, request)
            out.append((op, error, body))
            failed = failed or error
        if failed:
            self.nodes = before
            return b"".join(int32(-1) + b"\0" + int32(error) + int32(error) for _, error, _ in out) + int32(-1) + b"\1" + int32(-1)
        return b"".join(int32(op) + b"\0" + int32(0) + body for op, _, body in out) + int32(-1) + b"\1" + int32(-1)


# ---- what a hostile server does

INTS = (-(2**31), -129, -2, -1, 0, 1, 255, 65536, 2**24, 2**31 - 1)
LONGS = (-(2**63), -1, 0, 1, 2**53 - 1, 2**53, 2**63 - 1)
KIDS = (b"", b"x", b"lock-0000000000", b"_c_" + b"y" * 500 + b"-lock-0000000001", b"__READ__0000000002", b"__WRIT__2147483647", b"lease-0000000005",
        b"lease-9999999999", b"dlock_gate", b"lock--2147483648", b"lock--000000001", b"\xff\0\x1b", b"Z" * 1400 + b"lock-0000000000")  # fmt: skip
DATA = (b"", b"1000", b"9223372036854775807", b"-9223372036854775808", b"\0\0\0\5", b"\x80\0\0\0", b"5@x/../y z", b"3@" + b"w" * 200, b" " * 5000, b"2@a " + b"b " * 900)


def mutations(rng: random.Random, data: bytes) -> Iterator[bytes]:
    """Endlessly: the message with something wrong."""
    while True:
        out, at = bytearray(data), rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            for _ in range(rng.randrange(1, 6)):
                out[rng.randrange(len(out))] = rng.randrange(256)
        elif kind == 2:
            out[at : at + 4] = int32(rng.choice(INTS))
        elif kind == 3:
            out[at : at + 8] = int64(rng.choice(LONGS))
        elif kind == 4:
            out += rng.randbytes(rng.randrange(1, 50))
        elif kind == 5:
            out[HEAD:] = rng.randbytes(rng.randrange(0, 200))
        elif kind == 6:
            out[HEAD:] = out[HEAD:] * rng.randrange(2, 5)
        else:
            out[at:at] = out[at:]
        yield bytes(out)


def hostile(seed: int, rate: float = 0.2) -> Twist:
    """A twist that changes some replies: their bytes, their fields, their order, and what comes with them."""
    rng = random.Random(seed)
    mutex = threading.Lock()
    held: list[Any] = []

    def body_of(call: Call, reply: bytes) -> bytes:
        kids, data = rng.choices(KIDS, k=rng.randrange(6)), rng.choice(DATA)
        numbers = stat(*(rng.choice(LONGS) for _ in range(3)), rng.choice(INTS), rng.choice(LONGS))
        return {CHILDREN: int32(len(kids)) + b"".join(map(text, kids)), GET_DATA: text(data) + (numbers if rng.random() < 0.5 else stat()),
                EXISTS: numbers, SET_DATA: numbers, CREATE: text(call.path + b"%010d" % rng.choice(INTS)) + numbers}.get(call.op, b"")  # fmt: skip

    def twist(call: Call, reply: bytes) -> bytes | list[bytes] | None:
        with mutex:
            if rng.random() > rate:
                return reply
            how = rng.randrange(12)
            if how <= 3:
                return next(mutations(rng, reply))
            if how == 4:
                return head(call.xid, 7, rng.choice((NO_NODE, BAD_VERSION, EXISTS_ALREADY, EXPIRED, -118, -8, -6, -102, -115, -125, -127, 7, -(2**31), -111, -108, -2)))
            if how == 5:
                path = rng.choice((call.path, b"/dlock_gates/%02d" % rng.randrange(99), b"/dlock_gates/\xff\xff", b"", b"/", b"p" * 70000))
                return [event(rng.choice((1, 2, 3, 4, -1, 99, 2**31 - 1)), path), reply]
            if how == 6:
                return [reply, reply]
            if how == 7:
                return [head(call.xid + rng.choice((-1, 1, 5, 2**30)), 0), reply]
            if how == 8:
                return None
            if how == 9:
                held.append(reply)
                return held.pop(0) if len(held) > 1 else None
            if how == 10:
                return Raw(int32(rng.choice((-1, 2**31 - 1, 4 * 1024 * 1024, 1024 * 1024))))
            return reply[:HEAD] + body_of(call, reply) if call.op != GREETING else next(mutations(rng, reply))

    return twist
