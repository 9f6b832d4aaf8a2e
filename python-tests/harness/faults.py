"""Shared parts of the fault rows: how often they run, a resource that checks tokens, and a network that loses packets.

    @pytest.mark.parametrize("rounds", times(1, 20))        # 1 in every run, 20 in ./dev test --full; soak=1000: for ./dev soak
    fenced = Fenced(server); fenced.write("name", token)    # False: it has seen a newer token
    cut_again_and_again(client, locks, proxy.cut, ...)      # the statuses of the calls during the cuts
    with network(new_server) as net:                        # real packet loss as root, else the proxy's blackhole
        agent = new_agent(prefix=net.prefix); client = agent.open(net.url)
        net.drop("in", "out"); net.fired(); net.heal()      # in: to the client, out: to the server
        net.strand(); net.reset()                           # existing connections: silently dead, or closed by RST
line.py has a poor line: latency, loss, low bandwidth.
"""
from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
from typing import Any, Callable, Iterable, Iterator

import pytest

from .agent import Client, Lock
from .build import SANITIZED
from .proxy import Proxy
from .server import Server
from .tally import saw

SLACK_MS = 500 if SANITIZED else 100  # milliseconds a call may end late


def times(small: Any, full: Any, seconds: int = 240, soak: Any = None, soak_seconds: int = 3600) -> list[Any]:
    """Parameter values: always, in the full run, and for soak runs where repeating the full form is not enough. A tuple is several
    arguments.
    """
    rows = [(small, []), (full, [pytest.mark.full, pytest.mark.timeout(seconds)])]
    if soak is not None:
        rows.append((soak, [pytest.mark.full, pytest.mark.soak, pytest.mark.timeout(soak_seconds)]))
    return [pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=marks) for value, marks in rows]


def always(*values: Any, full: Iterable[Any]) -> list[Any]:
    """Parameter values: these always, and those of full in the full run alone."""
    return [*values, *(pytest.param(value, marks=pytest.mark.full) for value in full)]


def cut_again_and_again(client: Client, locks: list[Lock], cut: Callable[[], None], connects: int, turns: int) -> set[str]:
    """Calls cut() again and again while one owner per lock acquires and releases, until the client has connected that often. Returns
    the statuses. The pauses grow from 10 ms on: under a sanitizer a handshake may take longer.
    """
    ended = threading.Event()
    statuses: set[str] = set()

    def cutting() -> None:
        pause = 0.01
        while not ended.wait(pause):
            cut()
            pause = min(1.05 * pause, 1)

    cutter = threading.Thread(target=cutting)
    cutter.start()
    try:
        while client.counters()["connects"] <= connects:
            waits = [lock.start(*call, thread=i + 1) for _ in range(turns) for i, lock in enumerate(locks)
                     for call in (("acquire", 1, 200), ("release", 1))]  # fmt: skip
            statuses |= {wait.answer().status for wait in waits}
    finally:
        ended.set()
        cutter.join()
    return statuses


WRITE = """
local taken = tonumber(ARGV[1]) >= tonumber(redis.call('GET', KEYS[1]) or '0')
if taken then redis.call('SET', KEYS[1], ARGV[1]) end
redis.call('RPUSH', KEYS[2], ARGV[1] .. ' ' .. (taken and 1 or 0))
return taken and 1 or 0
"""


class Fenced:
    """A resource that refuses lower tokens, and records all writes it was asked for."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def write(self, name: str, token: int) -> bool:
        return bool(self.server.command("EVAL", WRITE, 2, f"fenced:{name}", f"witness:{name}", token))

    def witness(self, name: str) -> list[tuple[int, bool]]:
        said = [entry.split() for entry in self.server.command("LRANGE", f"witness:{name}", 0, -1)]
        return [(int(token), taken == b"1") for token, taken in said]


def owners(server: Server, names: list[str]) -> list[bytes]:
    """Who holds each lock on the server; b"" for nobody."""
    with server.client() as redis:
        return [(held or [b""])[0] for held in redis.pipeline(*(["HKEYS", name] for name in names))]


def alive(server: Server, names: list[str]) -> int:
    """How many of the locks are held on the server."""
    return int(server.command("EXISTS", *names))


# ---- a network

COUNT = itertools.count()
WAYS = {"in": "input", "out": "output"}  # from the client's view


class Namespace:
    """A network namespace for the client alone. nft drops whole packets there, silently. Nothing outside is touched. Without new_server it
    has no server; all addresses outside can be reached through ours.
    """

    def __init__(self, new_server: Callable[..., Server] | None) -> None:
        block = (os.getpid() * 16 + next(COUNT) % 16) % 16384  # deleting a namespace takes a while: blocks are not reused soon
        self.name = f"dlock{os.getpid()}n{block % 16}"
        self.ours, self.theirs = (f"10.213.{block // 64}.{block % 64 * 4 + last}" for last in (1, 2))
        self.prefix = ["nsenter", f"--net=/run/netns/{self.name}"]
        self._run("ip", "netns", "add", self.name)
        try:
            self._connect(self.ours, self.theirs)
            self._run(*self.prefix, "ip", "route", "add", "default", "via", self.ours)
            self._nft("add table inet faults")
            for hook in WAYS.values():
                self._nft(f"add chain inet faults {hook} {{ type filter hook {hook} priority 0; }}")
            if new_server:
                self.server = new_server("--bind", "127.0.0.1", self.ours, "--protected-mode", "no")
                self.url = f"redis://{self.ours}:{self.server.port}"
        except BaseException:
            self.close()
            raise
        self._fired = 0

    def _connect(self, ours: str, theirs: str) -> None:
        self._run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "veth0", "netns", self.name)
        self._run("ip", "addr", "add", f"{ours}/30", "dev", self.name)
        self._run("ip", "link", "set", self.name, "up")
        self._run(*self.prefix, "ip", "addr", "add", f"{theirs}/30", "dev", "veth0")
        self._run(*self.prefix, "ip", "link", "set", "veth0", "up")

    def drop(self, *ways: str) -> None:
        self._nft("; ".join(f"add rule inet faults {WAYS[way]} counter drop" for way in ways))

    def drop_to(self, ports: list[int]) -> None:
        """Packets to these ports are lost."""
        if ports:
            self._nft(f"add rule inet faults output tcp dport {{ {', '.join(map(str, ports))} }} counter drop")

    def _ports(self) -> list[str]:
        """The client's ports of its connections to the server."""
        rows = self.server.command("CLIENT", "LIST").decode().splitlines()
        return [port for row in rows for port in re.findall(r" addr=10\.213\.[\d.]+:(\d+) ", row)]

    def strand(self) -> int:
        """Existing connections carry nothing any more, not even a FIN; new ones work. Returns how many."""
        ports = self._ports()
        if ports:
            some = f"{{ {', '.join(ports)} }}"
            self._nft(f"add rule inet faults output tcp sport {some} counter drop; add rule inet faults input tcp dport {some} counter drop")
        return len(ports)

    def reset(self) -> int:
        """Sends RST to both ends of all connections. Returns how many were reset."""
        killed = self._run(*self.prefix, "ss", "-K", "-H", "-t", "-n", "dst", self.ours)
        self._fired += len(killed.splitlines())
        return len(killed.splitlines())

    def heal(self) -> None:
        self._fired = self.fired()
        self._nft("; ".join(f"flush chain inet faults {hook}" for hook in WAYS.values()))

    def fired(self) -> int:
        """Packets lost so far."""
        rules = json.loads(self._nft("-j", "list table inet faults"))["nftables"]
        counters = [part["counter"] for rule in rules if "rule" in rule for part in rule["rule"]["expr"] if "counter" in part]
        return self._fired + sum(int(counter["packets"]) for counter in counters)

    def close(self) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError, AttributeError):
            saw(self.fired())
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)  # removes the veth pair with it

    def _nft(self, *words: str) -> str:
        return self._run(*self.prefix, "nft", *words)

    def _run(self, *words: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        return subprocess.run(words, check=True, env=environment, capture_output=True, text=True).stdout


class Island(Namespace):
    """A namespace with servers and clients in it, Server(island=...). cut() ends all traffic with the outside, not the traffic inside."""

    def __init__(self) -> None:
        super().__init__(None)
        self._run(*self.prefix, "ip", "link", "set", "lo", "up")

    def cut(self) -> None:
        self._nft('add rule inet faults input iifname "veth0" counter drop; add rule inet faults output oifname "veth0" counter drop')


class Blackhole:
    """The same by a proxy that takes bytes and drops them; connections can still be made."""

    prefix: list[str] = []

    def __init__(self, new_server: Callable[..., Server]) -> None:
        self.server = new_server()
        self._proxy = Proxy((self.server.host, self.server.port))
        self._resets = 0
        self.url = self._proxy.url

    def drop(self, *ways: str) -> None:
        self._proxy.up.blackhole, self._proxy.down.blackhole = "out" in ways, "in" in ways

    def heal(self) -> None:
        self.drop()

    def strand(self) -> int:
        return self._proxy.strand()

    def reset(self) -> int:
        links = len(self._proxy.links)
        self._proxy.cut(reset=True)
        self._resets += links
        return links

    def fired(self) -> int:
        return self._resets + self._proxy.up.fired["blackhole"] + self._proxy.down.fired["blackhole"]

    def close(self) -> None:
        saw(self._resets)
        self._proxy.close()


def can_drop_packets() -> bool:
    tools = all(map(shutil.which, ("ip", "nft", "nsenter")))
    return os.geteuid() == 0 and tools and not subprocess.run(["unshare", "-n", "nft", "add table inet x"], capture_output=True).returncode


NETWORK = Namespace if can_drop_packets() else Blackhole


@contextlib.contextmanager
def network(new_server: Callable[..., Server]) -> Iterator[Namespace | Blackhole]:
    net = NETWORK(new_server)
    try:
        yield net
    finally:
        net.close()
