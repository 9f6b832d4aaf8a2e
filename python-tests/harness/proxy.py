"""A proxy with faults, between a client and a server, for one test at a time.

    with Proxy(("127.0.0.1", server.port)) as proxy:        # or Proxy(server.path); Proxy(..., unix=True) listens on one
        proxy.url                                           # what the client under test connects to

    Two ways, proxy.up (to the server) and proxy.down (to the client), each with faults that can change at any time:
        proxy.down.delay = 0.2                              # seconds before each chunk goes on
        proxy.down.drip = (3, 0.01)                         # 3 bytes every 0.01 s
        proxy.up.blackhole = True                           # read bytes and drop them
        proxy.down.hold(); proxy.down.release()             # keep bytes back, send them on
        proxy.up.half_close()                               # end of stream to the server, the other way stays open
    Both ways, all connections:
        proxy.cut()                                         # close; cut(reset=True): RST instead of FIN (TCP)
        proxy.strand()                                      # existing connections carry nothing any more, and are not closed
        proxy.refuse(); proxy.accept()                      # close the port, open the same one again

    Hooks look for bytes that pass, for example the sha of an EVALSHA, before they go on:
        seen = proxy.up.on(sha)                             # counts: seen.count, seen.wait(timeout)
        proxy.up.on(sha, call=function)                     # function(link, data), in the proxy's thread
        gate = proxy.up.pause_at(sha)                       # gate.wait(); ...; gate.open(): the bytes wait in between
        proxy.up.cut_at(sha)                                # the server never sees the request
        proxy.lose_reply(sha)                               # the server acts on it, the client never gets the reply
    Each hook fires `times` times (1; None: always), and only on the chunk in which the marker ends. With pipelined commands
    that chunk may hold other commands too.

    Counters: proxy.connections, way.bytes, way.fired["delay" | "drip" | "hold" | "blackhole" | "cut" | "hook"].
A test that sets a fault should assert that it fired.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import shutil
import socket
import tempfile
import threading
from typing import Callable, Union

from .tally import saw

Address = Union[tuple[str, int], str]
libc = ctypes.CDLL(None, use_errno=True)


class Link:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.ended = threading.Event()
        self.loses_reply = False
        self.stranded = False

    def cut(self, reset: bool = False) -> None:
        self.ended.set()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                if reset and end.family != socket.AF_UNIX:
                    libc.connect(end.fileno(), bytes(16), 16)  # AF_UNSPEC: sends RST and wakes a blocked reader
                end.shutdown(socket.SHUT_RDWR)


class Hook:
    """Fires when marker passes. count: how often it has fired."""

    def __init__(self, marker: bytes | str, call: Callable[[Link, bytes], None] | None, times: int | None) -> None:
        self.marker = marker.encode() if isinstance(marker, str) else marker
        self.call, self.times = call, times
        self.count = 0
        self._changed = threading.Condition()

    def wait(self, timeout: float = 10, count: int = 1) -> None:
        """Waits until it has fired that often; TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.count >= count, timeout):
                raise TimeoutError(f"{self.marker!r} passed {self.count} times, not {count}")

    def fire(self, link: Link, data: bytes) -> None:
        with self._changed:
            if self.times is not None and self.count >= self.times:
                return
            self.count += 1
            self._changed.notify_all()
        if self.call:
            self.call(link, data)


class Gate:
    """A place where bytes wait: wait() until they are there, open() to let them go on."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, link: Link, _data: bytes) -> None:
        self.reached.set()
        while not self.opened.wait(0.01) and not link.ended.is_set():
            pass

    def wait(self, timeout: float = 10) -> None:
        if not self.reached.wait(timeout):
            raise TimeoutError("nothing came to the gate")

    def open(self) -> None:
        self.opened.set()


class Way:
    """One direction of all connections: its faults and counts."""

    def __init__(self, links: list[Link], name: str) -> None:
        self.delay = 0.0
        self.drip: tuple[int, float] | None = None
        self.blackhole = False
        self.swap: tuple[bytes, bytes] | None = None  # these bytes for those
        self.bytes = 0
        self.fired: collections.Counter[str] = collections.Counter()
        self._links, self._name = links, name
        self._hooks: list[Hook] = []
        self._free = threading.Event()
        self._free.set()

    def hold(self) -> None:
        """Until release(). Each hold has an event of its own: what one holds is free once it ends, even if another begins at once."""
        if self._free.is_set():
            self._free = threading.Event()

    def release(self) -> None:
        self._free.set()

    def half_close(self) -> None:
        for link in list(self._links):
            with contextlib.suppress(OSError):
                self._ends(link)[1].shutdown(socket.SHUT_WR)

    def on(
        self, marker: bytes | str, call: Callable[[Link, bytes], None] | None = None, times: int | None = None
    ) -> Hook:
        hook = Hook(marker, call, times)
        self._hooks.append(hook)
        return hook

    def pause_at(self, marker: bytes | str) -> Gate:
        gate = Gate()
        self.on(marker, gate, times=1)
        return gate

    def cut_at(self, marker: bytes | str, reset: bool = False, times: int | None = 1) -> Hook:
        def cut(link: Link, _data: bytes) -> None:
            self.fired["cut"] += 1
            link.cut(reset)

        return self.on(marker, cut, times)

    # ---- called by the proxy

    def _ends(self, link: Link) -> tuple[socket.socket, socket.socket]:
        return (link.client, link.server) if self._name == "up" else (link.server, link.client)

    def _pump(self, link: Link) -> None:
        source, sink = self._ends(link)
        tail = b""  # enough of the last bytes to see a marker that is split over two chunks
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._faults(link, tail, data)
                if link.ended.is_set():
                    break
                tail = (tail + data)[-256:]
                if self.blackhole or link.stranded:
                    self.fired["blackhole"] += 1
                    continue
                self.bytes += len(data)
                if self.swap and self.swap[0] in data:
                    self.fired["swap"] += 1
                    data = data.replace(*self.swap)
                self._send(link, sink, data)
            if not self.blackhole and not link.stranded:
                sink.shutdown(socket.SHUT_WR)

    def _faults(self, link: Link, tail: bytes, data: bytes) -> None:
        if self.delay:
            self.fired["delay"] += 1
            link.ended.wait(self.delay)
        for hook in list(self._hooks):
            before = tail[1 - len(hook.marker) :] if len(hook.marker) > 1 else b""
            if hook.marker in before + data:
                self.fired["hook"] += 1
                hook.fire(link, data)
        if self._name == "down" and link.loses_reply:
            self.fired["cut"] += 1
            link.cut()
        free = self._free
        if not free.is_set():
            self.fired["hold"] += 1
            while not free.wait(0.01) and not link.ended.is_set():
                pass

    def _send(self, link: Link, sink: socket.socket, data: bytes) -> None:
        while self.drip and data and not link.ended.is_set():
            size, pause = self.drip
            sink.sendall(data[:size])
            data = data[size:]
            self.fired["drip"] += 1
            link.ended.wait(pause)
        sink.sendall(data)


class Proxy:
    def __init__(self, target: Address, unix: bool = False) -> None:
        self.target = target
        self.connections = 0
        self.links: list[Link] = []
        self.up, self.down = Way(self.links, "up"), Way(self.links, "down")
        self._folder = tempfile.mkdtemp(prefix="dlock-") if unix else None
        self.path = os.path.join(self._folder, "proxy.sock") if self._folder else ""
        self.host, self.port = "127.0.0.1", 0
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self.accept()

    @property
    def url(self) -> str:
        return f"redis+unix://{self.path}" if self.path else f"redis://{self.host}:{self.port}"

    def accept(self) -> None:
        """Opens the port (the same as before)."""
        listener = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET)
        if self.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            listener.bind(self.path)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            self.port = listener.getsockname()[1]
        listener.listen(128)
        self._listener = listener
        self._start(self._accept, listener)

    def refuse(self) -> None:
        """Closes the port: connections are refused. Existing ones stay."""
        if self._listener:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
            self._listener.close()
            self._listener = None

    def cut(self, reset: bool = False) -> None:
        for link in list(self.links):
            link.cut(reset)

    def strand(self) -> int:
        """Existing connections carry nothing any more. Returns how many."""
        links = list(self.links)
        for link in links:
            link.stranded = True
        return len(links)

    def lose_reply(self, marker: bytes | str, times: int | None = 1) -> Hook:
        """Closes the connection when the next reply after marker comes back: proxy.down.fired["cut"] counts."""

        def lose(link: Link, _data: bytes) -> None:
            link.loses_reply = True

        return self.up.on(marker, lose, times)

    def close(self) -> None:
        saw(sum(sum(way.fired.values()) for way in (self.up, self.down)))
        self.refuse()
        self.cut()
        for thread in self._threads:
            thread.join(5)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- threads

    def _start(self, run: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET) as server:
            try:
                server.connect(self.target)
            except OSError:
                return
            for end in (client, server):
                if end.family != socket.AF_UNIX:
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            self.links.append(link)
            down = self._start(self.down._pump, link)
            self.up._pump(link)
            down.join()
            self.links.remove(link)
