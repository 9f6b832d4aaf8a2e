"""The scripts of the fair lock, run without the library: our processes, their holds, and the state on the server."""
from __future__ import annotations

import itertools
from typing import Any, Sequence

from .redisson import channel_of, tagged, token_key
from .redisson_fair import queue_key, timeout_key
from ..resp import Client
from .scripts import load
from ..server import Server
from ..waiting import WHILE
from .wire import server_ms

LEASE, BLOCK, BEAT, KEEP = 30_000, 1, 40_000, 86_400_000
TRY, LINE, POLL = 0, 1, 2
PLACE, PATIENCE, SEEN = 60_000, 300_000, 8

SCRIPTS = {stem: load("fair_" + stem) for stem in ("acquire", "release", "force")}


class Process:
    """A libdlock client. subscribe: it subscribes to its own channel."""

    numbers = itertools.count(1)

    def __init__(self, server: Server, subscribe: bool = True) -> None:
        self.uuid = f"{next(self.numbers):08x}-0000-8000-8000-00000000000f"
        self.channel = f"dlock_client:{self.uuid}"
        self.subscriber = server.client()
        self.holds = itertools.count(1)
        self.subscribed = False
        if subscribe:
            self.subscribe(True)

    def subscribe(self, on: bool) -> None:
        """Subscribes; returns when the server has confirmed."""
        self.subscriber.send("SUBSCRIBE" if on else "UNSUBSCRIBE", self.channel)
        while self.subscriber.read()[0] != (b"subscribe" if on else b"unsubscribe"):
            pass
        self.subscribed = on

    def hold(self) -> Hold:
        return Hold(self, next(self.holds))

    def message(self, timeout: float = WHILE) -> bytes | None:
        pair = self.subscriber.message(timeout)
        return pair[1] if pair else None

    def messages(self) -> list[bytes]:
        """The messages so far: none can come after the reply to a PING."""
        self.subscriber.send("PING")
        return [push[2] for push in iter(self.subscriber.read, [b"pong", b""]) if push[0] == b"message"]

    def nothing(self) -> bool:
        return not self.messages()


class Hold:
    """One owner id of a process."""

    def __init__(self, process: Process, number: int) -> None:
        self.process, self.number = process, number
        self.id = f"{process.uuid}:{number}"
        self.raw = self.id.encode()

    def message(self, timeout: float = WHILE) -> bytes | None:
        return self.process.message(timeout)

    def nothing(self) -> bool:
        return self.process.nothing()


def fields(redis: Client, key: bytes) -> list[tuple[bytes, bytes]]:
    flat = redis.command("HGETALL", key)
    return list(zip(flat[::2], flat[1::2]))


class Wire:
    """The scripts for one lock."""

    def __init__(self, redis: Client, name: str | bytes = "order") -> None:
        self.redis = redis
        self.name = name.encode() if isinstance(name, str) else name
        self.channel = channel_of(name)
        self.fence, self.queue_key, self.timeout_key = token_key(name), queue_key(name), timeout_key(name)
        separator = b"::" if b"{" in self.name else b":"
        self.about, self.gate = b"dlock_fair" + separator + tagged(name), b"dlock_gate" + separator + tagged(name)
        self.tokens, self.next = 0, b""
        self.keys = [self.name, self.fence, self.queue_key, self.timeout_key, self.about, self.gate]

    def run(self, stem: str, *arguments: Any) -> Any:
        return self.redis.command("EVAL", SCRIPTS[stem], len(self.keys), *self.keys, *arguments)

    def acquire(
        self, who: Hold, mode: int = TRY, lease: int = LEASE, block: int = BLOCK, beat: int = BEAT, seq: int = 1
    ) -> list[int]:
        """Of a grant only [1, token]: the number of tokens and the next ones are kept."""
        reply = self.run("acquire", who.id, lease, block, mode, 0, beat, KEEP, seq, self.channel, "")
        if reply[0] == 1:
            self.tokens, self.next = reply[2], reply[3] if len(reply) > 3 else b""
            return list(reply[:2])
        return list(reply)

    def release(self, who: Hold, rest: int = 0, served: Sequence[Hold] = ()) -> int:
        """served: those who had the lock under who's grant."""
        numbers = ["".join(f"{one.number}," for one in served)] if served else []
        reply: int = self.run("release", who.id, self.channel, 0, rest, 0, *numbers)
        return reply

    def force(self) -> int:
        reply: int = self.run("force", self.channel)
        return reply

    # ---- state on the server

    def holder(self) -> bytes | None:
        fields: list[bytes] = self.redis.command("HKEYS", self.name)
        assert len(fields) <= 1
        return fields[0] if fields else None

    def line(self) -> list[bytes]:
        reply: list[bytes] = self.redis.command("LRANGE", self.queue_key, 0, -1)
        return reply

    def scores(self) -> dict[bytes, int]:
        flat = self.redis.command("ZRANGE", self.timeout_key, 0, -1, "WITHSCORES")
        return {owner: int(score) for owner, score in zip(flat[::2], flat[1::2])}

    def left(self, key: bytes | None = None) -> int:
        reply: int = self.redis.command("PTTL", self.name if key is None else key)
        return reply

    def last_token(self) -> int:
        return int(self.redis.command("GET", self.fence))

    def now(self) -> int:
        return server_ms(self.redis)

    def state(self) -> list[Any]:
        """The whole state. The DUMP of a large hash may change when it is read."""
        hashes = {key for key in self.keys if self.redis.command("TYPE", key) == "hash"}
        return [
            sorted(fields(self.redis, key)) if key in hashes else self.redis.command("DUMP", key) for key in self.keys
        ]  # fmt: skip

    # ---- the passing of time

    def head_has_been(self, deaf_ms: int = 0, idle_ms: int = 0) -> None:
        """The foreign head of the line was seen so much earlier."""
        deaf, idle, _, owner = self.redis.command("HGET", self.about, "?").split(b" ", 3)
        since = [int(when) - ms if int(when) else 0 for when, ms in ((deaf, deaf_ms), (idle, idle_ms))]
        self.redis.command("HSET", self.about, "?", b"%d %d %d " % (*since, self.now()) + owner)

    def stopped(self, process: Process) -> None:
        """The process has not probed for longer than a beat."""
        told = dict(fields(self.redis, self.about))
        own = [owner for owner in told if owner.startswith(process.uuid.encode())]
        assert own
        for owner in own:
            self.redis.command("HSET", self.about, owner, told[owner].rsplit(b" ", 1)[0] + b" %d" % (self.now() - 1))
