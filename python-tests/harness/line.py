"""A poor network between a client and a server: latency, loss, low bandwidth, a small MTU, or up and down.

    with line(new_server) as net:                       # as root: packets over tun devices; else: chunks through a proxy
        client = new_agent(prefix=net.prefix).open(net.url)
        for way in net.ways:                            # net.up to the server, net.down to the client
            way.late = (0.02, 0.05)                     # random between, in seconds; packets may overtake one another
            way.loss = 0.1                              # the part that is lost; a proxy delays a chunk instead, as a TCP retransmission does
            way.rate = 1250                             # bytes per second; half a second's worth may queue
            way.largest = 576                           # bytes; larger packets vanish; a larger chunk stops its connection
            way.down = True                             # nothing passes
        net.count("late"), net.count("lost"), net.count("large"), net.count("down")
        net.begun                                       # when each connection attempt was made
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from typing import Any, Callable, Iterator

from .faults import Namespace, can_drop_packets
from .proxy import Link, Proxy, Way
from .server import Server
from .tally import saw

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000
RESENT = (0.2, 0.4)  # the delay that a lost chunk costs
SYN, ACK = 2, 16


class Weather:
    """The faults of one direction."""

    def __init__(self) -> None:
        self.late: tuple[float, float] | None = None
        self.loss = 0.0
        self.rate = 0
        self.largest = 0
        self.down = False
        self.counts: collections.Counter[str] = collections.Counter()
        self.chance = random.Random(7)
        self._free_at = 0.0

    def lost(self) -> bool:
        gone = self.loss > 0 and self.chance.random() < self.loss
        self.counts["lost"] += gone
        return gone

    def too_large(self, size: int) -> bool:
        gone = 0 < self.largest < size
        self.counts["large"] += gone
        return gone

    def pause(self) -> float:
        self.counts["late"] += self.late is not None
        return self.chance.uniform(*self.late) if self.late else 0.0

    def queue(self, size: int) -> float:
        """When a packet has passed the rate limit; inf when the queue has no room."""
        now = time.monotonic()
        if not self.rate:
            return now
        begin = max(now, self._free_at)
        if begin - now > 0.5 and size > 100:
            self.counts["lost"] += 1
            return float("inf")
        self.counts["late"] += begin > now
        self._free_at = begin + size / self.rate
        return self._free_at


# ---- packets


class Tube(Weather):
    """Moves packets from one device to the other."""

    def __init__(self, source: int, sink: int, begun: list[float] | None) -> None:
        super().__init__()
        self._source, self._sink, self._begun = source, sink, begun
        self._waiting: list[tuple[float, int, bytes]] = []
        self._number = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _take(self, packet: bytes) -> None:
        if packet[0] >> 4 != 4:
            return
        if self._begun is not None and packet[9] == 6 and packet[(packet[0] & 15) * 4 + 13] & (SYN | ACK) == SYN:
            self._begun.append(time.monotonic())
        if self.down:
            self.counts["down"] += 1
        if self.down or self.too_large(len(packet)) or self.lost():
            return
        due = self.queue(len(packet))
        if due < float("inf"):
            self._number += 1
            heapq.heappush(self._waiting, (due + self.pause(), self._number, packet))

    def _run(self) -> None:
        while not self._ended:
            pause = min(0.1, max(0.0, self._waiting[0][0] - time.monotonic())) if self._waiting else 0.1
            if select.select([self._source], [], [], pause)[0]:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        self._take(os.read(self._source, 4096))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                with contextlib.suppress(OSError):
                    os.write(self._sink, heapq.heappop(self._waiting)[2])

    def end(self) -> None:
        self._ended = True
        self._thread.join(5)


def tun(name: str, namespace: str = "") -> int:
    """Makes a device in a network namespace, from a thread that enters it."""
    found: list[Any] = []

    def make() -> None:
        try:
            if namespace:
                where = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
                if ctypes.CDLL(None, use_errno=True).setns(where, CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
                os.close(where)
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
            found.append(fd)
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(found[0], OSError):
        raise found[0]
    return int(found[0])


class Tun(Namespace):
    """The client in a network namespace, with a tun device as its only way out."""

    def _connect(self, ours: str, theirs: str) -> None:
        self.begun: list[float] = []
        self._ends = [tun("tun0", self.name), tun(self.name)]
        self._run(*self.prefix, "ip", "addr", "add", f"{theirs}/30", "dev", "tun0")
        self._run(*self.prefix, "ip", "link", "set", "tun0", "up")
        self._run("ip", "addr", "add", f"{ours}/30", "dev", self.name)
        self._run("ip", "link", "set", self.name, "up")
        self.up, self.down = Tube(*self._ends, self.begun), Tube(*reversed(self._ends), None)
        self.ways = (self.up, self.down)

    def count(self, what: str) -> int:
        return sum(way.counts[what] for way in self.ways)

    def close(self) -> None:
        saw(sum(sum(way.counts.values()) for way in getattr(self, "ways", ())))
        for way in getattr(self, "ways", ()):
            way.end()
        for end in getattr(self, "_ends", ()):
            os.close(end)
        super().close()


# ---- chunks


class Stream(Weather, Way):
    """The same faults for the data of a proxy."""

    def __init__(self, links: list[Link], name: str) -> None:
        Way.__init__(self, links, name)
        Weather.__init__(self)

    def _faults(self, link: Link, tail: bytes, data: bytes) -> None:
        super()._faults(link, tail, data)
        if self.down:
            self.counts["down"] += 1
        while self.down and not link.ended.wait(0.005):
            pass
        link.stranded |= self.too_large(len(data))
        pause = self.pause() + (self.chance.uniform(*RESENT) if self.lost() else 0)
        if self.rate:
            self.counts["late"] += 1
            pause += len(data) / self.rate
        if pause:
            link.ended.wait(pause)


class Slow(Proxy):
    prefix: list[str] = []

    def __init__(self, new_server: Callable[..., Server]) -> None:
        self.server = new_server()
        self.begun: list[float] = []
        super().__init__((self.server.host, self.server.port))
        self.up: Stream = Stream(self.links, "up")
        self.down: Stream = Stream(self.links, "down")
        self.ways = (self.up, self.down)

    def _serve(self, client: Any) -> None:
        self.begun.append(time.monotonic())
        super()._serve(client)

    def count(self, what: str) -> int:
        return sum(way.counts[what] for way in self.ways)

    def close(self) -> None:
        saw(sum(sum(way.counts.values()) for way in self.ways))
        super().close()


LINE = Tun if can_drop_packets() and os.access("/dev/net/tun", os.R_OK | os.W_OK) else Slow


@contextlib.contextmanager
def line(new_server: Callable[..., Server]) -> Iterator[Any]:
    net = LINE(new_server)
    try:
        yield net
    finally:
        net.close()
