"""Real servers whose answers are changed on their way, for every set-up of the library:

    with spoiled("cluster", seed=1, every=40) as servers:
        servers.url                                     # what the client connects to
        servers.changes                                 # how often something was changed, by what was done
        servers.answers                                 # chunks of bytes that came from servers

One chunk of bytes in `every` is changed: other bytes, fewer, more, some of them twice, cut short, or one of before. The same seed
makes the same choices for each connection, as far as the servers answer the same. Nothing is changed while servers.calm is set.
"""
from __future__ import annotations

import collections
import contextlib
import random
import socket
from typing import Any, Callable, Iterator

from .cluster import Cluster, ask
from .etcd import Etcd
from .proxy import Link, Proxy, Way
from .quorum import Quorum
from .sentinel import Watched
from .server import Server
from .zookeeper import Zookeeper

EDGES = (b"\x00", b"\x7f", b"\x80", b"\xff", b"-", b"$", b"*", b"0", b"9", b"\r", b"\n", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff")
LONGEST = 64


class Ending(Way):
    """The way up. A client that is gone leaves no connection to its server behind, also when it was reset."""

    def _pump(self, link: Link) -> None:
        super()._pump(link)
        link.cut()


class Spoiling(Way):
    """The way down, with bytes changed."""

    def begin(self, seed: int, every: int) -> None:
        self.random, self.every, self.calm = random.Random(seed), every, False
        self.changes: collections.Counter[str] = collections.Counter()
        self.answers = 0
        self.before: collections.deque[bytes] = collections.deque(maxlen=8)

    def _send(self, link: Link, sink: socket.socket, data: bytes) -> None:
        self.answers += 1
        if self.random.randrange(self.every) or self.calm:
            self.before.append(data)
            super()._send(link, sink, data)
            return
        name = self.random.choice(sorted(WAYS))
        self.changes[name] += 1
        super()._send(link, sink, WAYS[name](self, data))
        if name == "cut short" or self.random.randrange(8) == 0:
            link.cut()

    def place(self, data: bytes) -> tuple[int, int]:
        """Where a part begins and ends; most are short."""
        begin = self.random.randrange(len(data))
        return begin, min(len(data), begin + self.random.choice((1, 1, 1, 2, 4, 8, LONGEST)))

    def changed(self, data: bytes) -> bytes:
        begin, end = self.place(data)
        return data[:begin] + self.random.randbytes(end - begin) + data[end:]

    def edge(self, data: bytes) -> bytes:
        begin, _ = self.place(data)
        other = self.random.choice(EDGES)
        return data[:begin] + other + data[begin + len(other) :]

    def bit(self, data: bytes) -> bytes:
        begin, _ = self.place(data)
        return data[:begin] + bytes([data[begin] ^ 1 << self.random.randrange(8)]) + data[begin + 1 :]

    def deleted(self, data: bytes) -> bytes:
        begin, end = self.place(data)
        return data[:begin] + data[end:]

    def doubled(self, data: bytes) -> bytes:
        begin, end = self.place(data)
        return data[:end] + data[begin:end] + data[end:]

    def inserted(self, data: bytes) -> bytes:
        begin, end = self.place(data)
        return data[:begin] + self.random.randbytes(end - begin) + data[begin:]

    def digit(self, data: bytes) -> bytes:
        """Another digit, where there is one: numbers of Redis are text."""
        places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
        if not places:
            return self.changed(data)
        place = self.random.choice(places)
        return data[:place] + self.random.choice((b"0", b"1", b"9", b"-1", b"999999999", b"9223372036854775807")) + data[place + 1 :]

    def twice(self, data: bytes) -> bytes:
        return data + data

    def other(self, data: bytes) -> bytes:
        return self.random.choice(self.before) if self.before else data[::-1]

    def short(self, data: bytes) -> bytes:
        return data[: self.random.randrange(len(data))]


WAYS: dict[str, Callable[[Spoiling, bytes], bytes]] = {
    "bytes changed": Spoiling.changed,
    "edge": Spoiling.edge,
    "bit": Spoiling.bit,
    "bytes deleted": Spoiling.deleted,
    "part doubled": Spoiling.doubled,
    "bytes inserted": Spoiling.inserted,
    "digit": Spoiling.digit,
    "answer twice": Spoiling.twice,
    "answer of before": Spoiling.other,
    "cut short": Spoiling.short,
}


class Spoiled:
    """Some servers, each behind a proxy that spoils."""

    def __init__(self, servers: list[Any], seed: int, every: int) -> None:
        self.url = ""
        self.ways: list[Spoiling] = []
        self.proxies = [Proxy((server.host, server.port)) for server in servers]
        for number, proxy in enumerate(self.proxies):
            proxy.up = Ending(proxy.links, "up")
            way = Spoiling(proxy.links, "down")
            way.begin(seed * 100 + number, every)
            proxy.down = way
            self.ways.append(way)
        self.ports = {server.port: proxy.port for server, proxy in zip(servers, self.proxies)}

    @property
    def hosts(self) -> str:
        return ",".join(f"{proxy.host}:{proxy.port}" for proxy in self.proxies)

    @property
    def changes(self) -> collections.Counter[str]:
        return sum((way.changes for way in self.ways), collections.Counter())

    @property
    def answers(self) -> int:
        return sum(way.answers for way in self.ways)

    def rate(self, every: int) -> None:
        """From now on."""
        for way in self.ways:
            way.every = every

    @property
    def connections(self) -> int:
        return sum(proxy.connections for proxy in self.proxies)

    def close(self) -> None:
        for proxy in self.proxies:
            proxy.close()


# ---- the set-ups


@contextlib.contextmanager
def single(seed: int, every: int) -> Iterator[Spoiled]:
    with Server() as server:
        spoiled = Spoiled([server], seed, every)
        spoiled.url = f"redis://{spoiled.hosts}"
        yield spoiled
        spoiled.close()


@contextlib.contextmanager
def sentinel(seed: int, every: int) -> Iterator[Spoiled]:
    """The sentinels name the proxy of the primary."""
    with Watched() as watched:
        spoiled = Spoiled([*watched.sentinels, watched.primary()], seed, every)
        real, front = (str(port).encode() for port in (watched.primary().port, spoiled.ports[watched.primary().port]))
        for way in spoiled.ways[: len(watched.sentinels)]:
            way.swap = (b"$%d\r\n%s\r\n" % (len(real), real), b"$%d\r\n%s\r\n" % (len(front), front))
        spoiled.url = f"redis+sentinel://{','.join(spoiled.hosts.split(',')[:-1])}/{watched.url.rpartition('/')[2]}"
        yield spoiled
        spoiled.close()


@contextlib.contextmanager
def cluster(seed: int, every: int) -> Iterator[Spoiled]:
    """The nodes announce their proxies."""
    with Cluster(3, 0) as real:
        spoiled = Spoiled(real.nodes, seed, every)
        for node in real.nodes:
            ask(node, "CONFIG", "SET", "cluster-announce-port", spoiled.ports[node.port])
        real.until_settled()
        spoiled.url = f"redis+cluster://{spoiled.hosts}"
        yield spoiled
        spoiled.close()


@contextlib.contextmanager
def quorum(seed: int, every: int) -> Iterator[Spoiled]:
    with Quorum(3) as real:
        spoiled = Spoiled(real.nodes, seed, every)
        spoiled.url = f"redis+quorum://{spoiled.hosts}"
        yield spoiled
        spoiled.close()


@contextlib.contextmanager
def etcd(seed: int, every: int) -> Iterator[Spoiled]:
    with Etcd(1) as real:
        spoiled = Spoiled(real.nodes, seed, every)
        spoiled.url = f"etcd://{spoiled.hosts}"
        yield spoiled
        spoiled.close()


@contextlib.contextmanager
def zookeeper(seed: int, every: int) -> Iterator[Spoiled]:
    with Zookeeper(1) as real:
        spoiled = Spoiled(real.members, seed, every)
        spoiled.url = f"zookeeper://{spoiled.hosts}"
        yield spoiled
        spoiled.close()


SETUPS: dict[str, Callable[[int, int], contextlib.AbstractContextManager[Spoiled]]] = {
    "single": single,
    "sentinel": sentinel,
    "cluster": cluster,
    "quorum": quorum,
    "etcd": etcd,
    "zookeeper": zookeeper,
}


def spoiled(setup: str, seed: int, every: int) -> contextlib.AbstractContextManager[Spoiled]:
    return SETUPS[setup](seed, every)
