"""Servers that are not etcd, or lie: a clear failure in time, no crash, and service when a good one answers."""
from __future__ import annotations

import base64
import concurrent.futures
import pathlib
import random
import re
import socket
import struct
import threading
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent
from harness.build import BUILD
from harness.etcd import Etcd, url
from harness.proxy import Hook, Link, Proxy
from harness.waiting import until

DATA, HEADERS, RESET, SETTINGS, PUSH, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body


def header(name: str, value: str) -> bytes:
    size = bytes((len(value),)) if len(value) < 127 else b"\x7f" + varint(len(value) - 127)
    return b"\0" + bytes((len(name),)) + name.encode() + size + value.encode()


def trailers(status: str, message: str = "") -> bytes:
    return header("grpc-status", status) + header("grpc-message", message)


def only(status: str, message: str = "") -> Callable[[int], bytes]:
    """An answer without a message: its status is in its only headers."""
    return lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88" + trailers(status, message))


def answered(message: bytes, status: str = "0") -> Callable[[int], bytes]:
    return lambda stream: (
        frame(HEADERS, END_HEADERS, stream, b"\x88")
        + frame(DATA, 0, stream, message)
        + frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers(status))
    )


def framed(message: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(message)) + message


def varint(number: int) -> bytes:
    return bytes((number & 127 | 128,)) + varint(number >> 7) if number > 127 else bytes((number,))


FAREWELL = frame(GOAWAY, 0, 0, struct.pack(">II", 2**31 - 1, 0))  # calls under way may end
NOISE = random.Random(7).randbytes(5000)
ANSWERS: dict[str, Callable[[int], bytes]] = {
    "refused": only("8", "etcdserver: mvcc: database space exceeded"),
    "denied": only("7", "etcdserver: permission denied"),
    "escapes": only("13", "a %41%zz%"),
    "control characters": only("2", "bad%0a%1b[31m" + "x" * 120),
    "no status": lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88"),
    "a status that is no number": only("x"),
    "not 200": lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x8d"),
    "no message": answered(b""),
    "half a head": answered(b"\0\0"),
    "an empty message": answered(framed(b"")),
    "noise for a message": answered(framed(NOISE[:200])),
    "a message that never ends": lambda stream: frame(HEADERS, END_HEADERS, stream, b"\x88")
    + frame(DATA, 0, stream, b"\0\xff\xff\xff\xff" + bytes(1000)),
    "a reset": lambda stream: frame(RESET, 0, stream, struct.pack(">I", 7)),
    "a farewell": lambda stream: frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)),
    "a farewell and no more": lambda stream: FAREWELL,
    "data of no stream": lambda stream: frame(DATA, 0, stream + 2, b"x"),
    "a promise": lambda stream: frame(PUSH, END_HEADERS, stream, struct.pack(">I", 2) + b"\x88"),
    "a huge frame": lambda stream: b"\xff\xff\xff" + bytes((DATA, 0)) + struct.pack(">I", stream) + bytes(20000),
    "noise": lambda stream: NOISE,
    "hpack noise": lambda stream: frame(HEADERS, END_HEADERS, stream, NOISE[:300]),
    "nothing": lambda stream: b"",
}


class Liar:
    """An HTTP/2 server that gives every stream the same answer."""

    def __init__(self, answer: Callable[[int], bytes | Iterator[bytes]]) -> None:
        self.answer, self.streams, self.links = answer, 0, 0
        self.pongs: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            self.links += 1
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        try:
            with link:
                link.sendall(frame(SETTINGS, 0, 0))
                data = b""
                while piece := link.recv(65536):
                    data += piece
                    data = data.removeprefix(PREFACE)
                    while len(data) >= 9 and len(data) >= 9 + (size := int.from_bytes(data[:3], "big")):
                        kind, flags, stream = data[3], data[4], int.from_bytes(data[5:9], "big") & 0x7FFFFFFF
                        if kind == PING and flags & ACK:
                            self.pongs.append(data[9 : 9 + size])
                        data = data[9 + size :]
                        if kind == HEADERS:
                            self.streams += 1
                            answer = self.answer(stream)
                            for piece in [answer] if isinstance(answer, bytes) else answer:
                                link.sendall(piece)
        except OSError:
            pass

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def new_liar() -> Iterator[Callable[..., Liar]]:
    made: list[Liar] = []

    def make(answer: Callable[[int], bytes]) -> Liar:
        made.append(Liar(answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("what", ANSWERS)
def test_k05_answers_that_are_none(agent: Agent, new_liar: Callable[..., Liar], what: str) -> None:
    liar = new_liar(ANSWERS[what])
    client = agent.open(f"etcd://127.0.0.1:{liar.port}", command_timeout_ms=300)
    answer = client.lock("job").acquire(1, 0)
    assert answer.status in ("UNREACHABLE", "PROTOCOL_ERROR", "SERVER_ERROR", "SERVER_OUT_OF_MEMORY", "DENIED"), answer
    assert answer.message.isprintable() and len(answer.message) < 512 and liar.streams > 0
    assert client.lock("other").acquire(1, 100).status != "OK"
    assert client.ping(300).status != "OK"


@pytest.mark.parametrize("what", ["data of no stream", "hpack noise"])
def test_k05_a_session_that_broke_is_left(agent: Agent, new_liar: Callable[..., Liar], what: str) -> None:
    """nghttp2 ends it and refuses calls. The member does not close, and the next call needs a new connection."""
    liar = new_liar(ANSWERS[what])
    client = agent.open(f"etcd://127.0.0.1:{liar.port}", command_timeout_ms=300)
    for number in range(3):
        client.lock(f"job{number}").acquire(1, 0)
    assert liar.links >= 3, liar.links


def test_every_ping_is_answered(agent: Agent, new_liar: Callable[..., Liar]) -> None:
    """At rest, too, and each with what it has said."""
    pings = [b"%08d" % number for number in range(3)]
    liar = new_liar(lambda stream: b"".join(frame(PING, 0, 0, ping) for ping in pings))
    client = agent.open(f"etcd://127.0.0.1:{liar.port}")
    client.lock("job").start("acquire", 1, 60_000)
    until(lambda: liar.pongs[:3] == pings)


NOT_NOW = [("14", "etcdserver: no leader"), ("14", "etcdserver: not capable"), ("2", "raft: stopped"), ("2", "raft proposal dropped")]


@pytest.mark.parametrize("said", NOT_NOW, ids=lambda said: said[1])
def test_what_may_pass_is_no_error_of_the_server(agent: Agent, new_liar: Callable[..., Liar], said: tuple[str, str]) -> None:
    """It is asked again until the wait is over."""
    liar = new_liar(only(*said))
    lock = agent.open(f"etcd://127.0.0.1:{liar.port}", command_timeout_ms=1000).lock("job")
    waiting = lock.start("acquire", 1, 60_000, thread=1)
    until(lambda: liar.streams > 5 or waiting.ready())
    assert not waiting.ready()
    lock.cancel(1)
    assert waiting.answer().status == "CANCELLED"


def test_k05_a_good_member_among_liars(etcd: Etcd, agent: Agent, new_liar: Callable[..., Liar]) -> None:
    """Members that do not answer, say farewell, have no leader or cannot serve are left for one that serves."""
    liars = [new_liar(ANSWERS[what]) for what in ("nothing", "a farewell", "a farewell and no more", "noise")] + [new_liar(only(*said)) for said in NOT_NOW]
    hosts = ",".join(f"127.0.0.1:{port}" for port in [*(liar.port for liar in liars), etcd.nodes[0].port])
    for number in range(5):
        client = agent.open(f"etcd://{hosts}", command_timeout_ms=300)
        client.lock(f"job{number}").acquire(1, 20000).ok
        client.close(5000).ok


# ---- what a server may cost


def endless(*first: bytes, again: bytes) -> Callable[[int], Iterator[bytes]]:
    """An answer without end: again and again."""

    def answer(stream: int) -> Iterator[bytes]:
        def on(kind: int, flags: int, body: bytes) -> bytes:
            return frame(kind, flags, stream if kind in (DATA, HEADERS, CONTINUATION) else 0, body)

        yield frame(HEADERS, END_HEADERS, stream, b"\x88")
        yield from (on(DATA, 0, body) for body in first)
        while True:
            yield on(*FLOODS[again])

    return answer


FLOODS: dict[bytes, tuple[int, int, bytes]] = {
    b"data": (DATA, 0, bytes(16384)),
    b"headers": (HEADERS, END_HEADERS, b"".join(header(f"a{number}", "b" * 100) for number in range(140))),
    b"settings": (SETTINGS, 0, struct.pack(">HI", 4, 65535) * 2700),
    b"pings": (PING, 0, b"12345678"),
    b"farewells": (GOAWAY, 0, struct.pack(">II", 2**31 - 1, 0) + b"x" * 16000),
    b"unknown": (200, 0, bytes(16384)),
}
BIG = b"\x40" + b"\x01a" + b"\x7f\xa1\x1e" + b"b" * 4000  # one header of 4,000 bytes for the table


def continued(stream: int) -> Iterator[bytes]:
    yield frame(HEADERS, 0, stream, b"\x88")
    while True:
        yield frame(CONTINUATION, 0, stream, b"".join(header(f"a{number}", "b" * 100) for number in range(140)))


def bomb(stream: int) -> Iterator[bytes]:
    yield frame(HEADERS, END_HEADERS, stream, b"\x88" + BIG + b"\xbe" * 12000)
    while True:
        yield frame(HEADERS, END_HEADERS, stream, b"\xbe" * 16000)


def tiny(stream: int) -> Iterator[bytes]:
    """A transaction's answer of 3.9 million bytes, all of them empty keys."""
    keys = b"\x12\x00" * 1_950_000
    inside = b"\x0a" + varint(len(keys)) + keys
    body = framed(b"\x0a\x02\x18\x05\x10\x01\x1a" + varint(len(inside)) + inside)
    yield frame(HEADERS, END_HEADERS, stream, b"\x88")
    yield b"".join(frame(DATA, 0, stream, body[at : at + 16384]) for at in range(0, len(body), 16384))
    yield frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers("0"))


COSTS: dict[str, Callable[[int], Iterator[bytes]]] = {
    "tiny keys": tiny,
    "a message that grows": endless(b"\0\0\x3f\xff\xff", again=b"data"),
    "messages": endless(again=b"data"),
    "headers": endless(again=b"headers"),
    "continuations": continued,
    "a bomb of headers": bomb,
    "settings": endless(again=b"settings"),
    "pings": endless(again=b"pings"),
    "farewells": endless(again=b"farewells"),
    "unknown frames": endless(again=b"unknown"),
}
MORE = 32 * 1024  # kilobytes


def peak(agent: Agent) -> int:
    """The most memory that the process has had, in kilobytes."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{agent.pid}/status").read_text())[1])  # type: ignore[index]


@pytest.mark.parametrize("what", COSTS)
def test_k07_what_a_server_may_cost(agent: Agent, new_liar: Callable[..., Liar], what: str) -> None:
    """However much it sends, and to 8 calls at once: an error, and 32 MB at most."""
    liar = new_liar(COSTS[what])
    client = agent.open(f"etcd://127.0.0.1:{liar.port}", command_timeout_ms=500)
    client.lock("job").acquire(1, 0)
    before = peak(agent)
    pending = [client.lock(f"job{number}").start("inspect", thread=1 + number) for number in range(8)]
    for one in pending:
        assert one.answer(60).status in ("PROTOCOL_ERROR", "UNREACHABLE")
    if BUILD.name == "debug":  # a sanitizer keeps what was freed
        assert peak(agent) - before < MORE


# ---- secrets

PASSWORD = "hunter2secret!"
WAYS = {
    "plain": PASSWORD,
    "in part": "hunter2s... and cret!",
    "twice": PASSWORD * 2,
    "percents": "%2568%2575nter2%2573ecret!",
    "base64": base64.b64encode(f"root:{PASSWORD}".encode()).decode(),
    "base64, aligned": base64.b64encode(PASSWORD.encode()).decode(),
    "hexadecimal": PASSWORD.encode().hex(),
    "at the end": "x" * 245 + PASSWORD,
    "control characters": f"%0a{PASSWORD}%1b[31m",
}


@pytest.mark.parametrize("way", WAYS)
def test_k08_a_server_that_repeats_the_password(agent: Agent, new_liar: Callable[..., Liar], way: str) -> None:
    """It is in no message, no event, no finding."""
    said = WAYS[way]
    parts = {said.replace("%25", "%")[at : at + 5] for at in range(0, len(said) - 4)} if way != "at the end" else {"hunte", "ecret"}
    hidden = {PASSWORD[at : at + 4] for at in range(len(PASSWORD) - 3)}
    liar = new_liar(only("13", said))
    client = agent.open(f"etcd://127.0.0.1:{liar.port}", command_timeout_ms=300, username="root", password=PASSWORD)
    told = [client.lock("job").acquire(1, 0).message, client.ping(300).message, client.check(900).message, str(client.lock("job").inspect())]
    liar.answer = only("3", said)
    told += [client.lock("job").acquire(1, 0).message, client.lock("job").force().message]
    for text in told:
        assert text and not [part for part in hidden if part in text], text
        if way in ("base64, aligned", "hexadecimal"):
            assert not [part for part in parts if len(part) == 5 and part + said[said.index(part) + 5 : said.index(part) + 8] in text], text


# ---- a refusal that is not true


def stream_with(words: bytes, data: bytes) -> int:
    """The stream of the frame with these words."""
    while words not in data[9 : 9 + int.from_bytes(data[:3], "big")]:
        data = data[9 + int.from_bytes(data[:3], "big") :]
    return int.from_bytes(data[5:9], "big")


def test_l23_a_refused_commit_may_be_done(etcd: Etcd, agent: Agent, new_proxy: Callable[..., Proxy]) -> None:
    """etcd refuses the write that fills its space, and has done it. The library reads the marker before it says what happened."""
    proxy = new_proxy(etcd.nodes[0])
    sent: list[tuple[Link, int]] = []

    def note(link: Link, data: bytes) -> None:
        proxy.down.blackhole = True
        sent.append((link, stream_with(b"done all the same", data)))

    proxy.up.on(b"done all the same", note, times=1)
    txn = agent.open(url(proxy)).txn()
    txn.watch("k").ok
    txn.set("k", "done all the same", -1).ok
    with concurrent.futures.ThreadPoolExecutor() as pool:
        commit = pool.submit(txn.commit)
        until(lambda: etcd.found("k") and proxy.down.fired["blackhole"])
        link, stream = sent[0]
        link.client.sendall(only("8", "etcdserver: mvcc: database space exceeded")(stream))
        link.stranded, proxy.down.blackhole = True, False
        link.cut()
        commit.result().ok


# ---- a member that stops


def test_a_member_that_stops_answers_what_is_under_way(etcd: Etcd, agent: Agent, new_proxy: Callable[..., Proxy]) -> None:
    """It says farewell just before its answer. The next call uses a new connection."""
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy))

    def stops() -> Hook:
        return proxy.down.on(b"", lambda link, _: link.client.sendall(FAREWELL), times=1)

    client.ping(5000).ok
    for links in range(2, 6):
        said = stops()
        client.ping(5000).ok
        client.ping(5000).ok
        assert (said.count, proxy.connections) == (1, links)
    lock = client.lock("job")
    token = lock.acquire(1, 0).ok.token
    stops()
    lock.release(1).ok
    assert lock.acquire(1, 0).ok.token > token
    lock.release(1).ok
