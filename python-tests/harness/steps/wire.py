"""The mutex's scripts for one lock, and stand-ins for processes in tests of scripts.

    wire = Wire(redis, "order")
    a, b = Who(server), Who(server)                 # two processes, each subscribed to its own channel
    wire.acquire(a), wire.acquire(b, LINE)          # [1, token], [0, ms left, foreign]
    wire.release(a); b.message()                    # b"grant ..."
"""
from __future__ import annotations

import copy
import itertools
from typing import Any, Callable

from .redisson import channel_of, tagged, token_key
from ..resp import Client
from .scripts import SCRIPTS
from ..server import Server
from ..waiting import WHILE, wait_until

LEASE, BLOCK, BEAT, KEEP, GRACE = 30_000, 65, 4_000, 86_400_000, 25
TRY, LINE, POLL = 0, 1, 2


def private(what: str, name: str | bytes) -> bytes:
    """A key that only libdlock has: "x" and "{x}" have different ones."""
    raw = name.encode() if isinstance(name, str) else name
    return what.encode() + (b"::" if b"{" in raw else b":") + tagged(name)


def keys_of(name: str | bytes) -> list[bytes]:
    """The keys of every mutex script: lock, fence, line, about, gate."""
    lock = name.encode() if isinstance(name, str) else name
    return [lock, token_key(name), *(private(what, name) for what in ("dlock_queue", "dlock_waiters", "dlock_gate"))]


class Wire:
    """The scripts for one lock."""

    def __init__(self, redis: Client, name: str | bytes = "order") -> None:
        self.redis = redis
        self.channel = channel_of(name)
        self.keys = keys_of(name)
        self.name, self.fence, self.line, self.about, self.gate = self.keys

    def run(self, stem: str, *arguments: Any) -> Any:
        return self.redis.command("EVAL", SCRIPTS[stem], len(self.keys), *self.keys, *arguments)

    def acquire(self, who: Who, mode: int = TRY, **more: int) -> list[int]:
        reply: list[int] = self.run("acquire", *self._try(who, mode, **more))
        return reply

    def pass_on(self, drop: Who, want: Who, mode: int = LINE, rest: int = 0, **more: int) -> list[Any]:
        reply: list[Any] = self.run("pass", *self._try(want, mode, **more), drop.id, self.channel, rest)
        return reply

    def release(self, who: Who, listening: int = 0, rest: int = 0) -> int:
        reply: int = self.run("release", who.id, self.channel, listening, rest, 0, BLOCK)
        return reply

    def force(self) -> int:
        reply: int = self.run("force", self.channel)
        return reply

    def inspect(self, kind: str = "mutex") -> Any:
        return self.run("inspect", kind)

    @staticmethod
    def _try(
        who: Who, mode: int, lease: int = LEASE, block: int = BLOCK, listening: int = 0, beat: int = BEAT, keep: int = KEEP,
        seq: int = 1,
    ) -> list[Any]:  # fmt: skip
        return [who.id, lease, block, mode, listening, beat, keep, seq]

    # ---- state on the server

    def holder(self) -> dict[bytes, bytes]:
        flat = self.redis.command("HGETALL", self.name)
        return dict(zip(flat[::2], flat[1::2]))

    def left(self, key: bytes | None = None) -> int:
        reply: int = self.redis.command("PTTL", self.name if key is None else key)
        return reply

    def queue(self) -> list[bytes]:
        reply: list[bytes] = self.redis.command("ZRANGE", self.line, 0, -1)
        return reply

    def last_token(self) -> int:
        return int(self.redis.command("GET", self.fence))


def block(granted: list[int], asked: int = BLOCK) -> tuple[int, int]:
    """The first and the last token of a grant. The reply has their number only if it is less than requested."""
    assert granted[0] == 1 and 0 < (granted + [asked])[2] <= asked, granted
    return granted[1], granted[1] + (granted + [asked])[2] - 1


class Who:
    """A libdlock process with one grant number. subscribe: it subscribes to its own channel."""

    numbers = itertools.count(1)

    def __init__(self, server: Server, subscribe: bool = True) -> None:
        number = next(self.numbers)
        self.uuid = f"{number:08x}-0000-8000-8000-00000000000f"
        self.subscriber = server.client()
        if subscribe:
            self.subscriber.subscribe("dlock_client:" + self.uuid)
        self._name(number * 1000)

    def _name(self, number: int) -> None:
        self.number = number
        self.id = f"{self.uuid}:{number}"
        self.raw = self.id.encode()

    def again(self) -> Who:
        """The same process with its next number."""
        next_one = copy.copy(self)
        next_one._name(self.number + 1)
        return next_one

    def message(self, timeout: float = WHILE) -> bytes | None:
        pair = self.subscriber.message(timeout)
        return pair[1] if pair else None

    def nothing(self) -> bool:
        """Whether there is no message: none can come after the reply to a PING."""
        return self.message(0) is None


def server_ms(redis: Client | Server) -> int:
    """The server's clock in ms."""
    seconds, micros = redis.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def after_ms(redis: Client, ms: int) -> None:
    """Returns when the server's clock has moved on."""
    end = server_ms(redis) + ms
    wait_until(lambda: server_ms(redis) > end)


def all_expire(redis: Client) -> None:
    """Every key has an expiry."""
    for key in redis.command("KEYS", "*"):
        assert redis.command("PTTL", key) > 0, key
