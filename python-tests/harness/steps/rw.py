"""The read-write lock's scripts for one lock.

    wire, a, b = RwWire(redis, "order"), Hold(), Hold()
    wire.read(a), wire.write(b)                     # [1, token], [0, ms left, 1]
    wire.read_release(a), wire.write_release(b)     # 1, 0
"""
from __future__ import annotations

import itertools
from typing import Any

from .redisson import token_key
from .redisson_rw import hold_key, rw_channel
from ..resp import Client
from .scripts import load
from .wire import BEAT, KEEP, LEASE, LINE, TRY, private, server_ms

STEMS = (
    "read_acquire", "read_release", "write_acquire", "write_release", "rw_force", "read_renew", "inspect", "gate",
)  # fmt: skip
WRITER = 9 * 10**15  # as in rw_holds.lua
SCRIPTS = {stem: load(stem) for stem in STEMS}


class Hold:
    """One hold, with its owner ids on the wire as a reader and as a writer."""

    numbers = itertools.count(1)

    def __init__(self) -> None:
        self.id = f"0000000f-0000-8000-8000-00000000000f:{next(self.numbers)}"
        self.writer = self.id + ":write"


def fields_of(flat: list[bytes]) -> dict[str, str]:
    """The fields of a lock, without the one that names a resting writer: that stands there as long as the writer's own."""
    words = [word.decode() for word in flat]
    fields = dict(zip(words[::2], words[1::2]))
    rest = fields.pop("rest", None)
    assert [one for one in fields if one.endswith(":write:rest")] == ([rest] if rest else [])
    return fields


class RwWire:
    def __init__(self, redis: Client, name: str | bytes = "order") -> None:
        self.redis = redis
        self.name = name.encode() if isinstance(name, str) else name
        self.writer, self.turns = private("dlock_writer", name), private("dlock_turns", name)
        self.ours = private("dlock_holds", name)
        self.tokens, self.others = 0, False  # what the last acquire and release say
        self.fence, self.gate, self.channel = token_key(name), private("dlock_gate", name), rw_channel(name)

    def run(self, stem: str, keys: list[Any], *arguments: Any) -> Any:
        return self.redis.command("EVAL", SCRIPTS[stem], len(keys), *keys, *arguments)

    def hold_key(self, owner: str, number: int = 1) -> bytes:
        return hold_key(self.name, owner, number)

    def keys(self, hold: bytes | None = None) -> list[bytes]:
        return [self.name, self.fence, self.gate, hold or self.name, self.writer, self.turns, self.ours]

    def read(self, hold: Hold, lease: int = LEASE, under: Hold | None = None, block: int = 1) -> list[int]:
        arguments = [lease, block, LINE, 0, BEAT, KEEP, 1, self.channel, under.writer if under else ""]
        reply: list[int] = self.run("read_acquire", self.keys(self.hold_key(hold.id)), hold.id, *arguments)
        return reply

    def write(self, hold: Hold, lease: int = LEASE, block: int = 1, mode: int = TRY) -> list[int]:
        """With mode LINE a refused writer waits: new readers stay out."""
        arguments = [lease, block, mode, 0, BEAT, KEEP, 1, self.channel, ""]
        reply: list[int] = self.run("write_acquire", self.keys(self.hold_key(hold.writer)), hold.writer, *arguments)
        if reply[0] == 1:
            self.tokens = reply.pop()  # how many it has reserved
            assert 1 <= self.tokens <= block
        return reply

    def read_release(self, hold: Hold, rest: int = 0) -> int:
        reply: int = self.run("read_release", self.keys(self.hold_key(hold.id)), hold.id, self.channel, 0, rest, 0)
        return reply

    def write_release(self, hold: Hold, rest: int = 0, stays: int = 0) -> int:
        reply: int = self.run("write_release", self.keys(self.hold_key(hold.writer)), hold.writer, self.channel, 0, rest, 0, stays)
        self.others = reply > 1
        return min(reply, 1)

    def read_renew(self, *holds: Hold, lease: int = LEASE) -> list[int]:
        return self.renew([hold.id for hold in holds], lease)

    def write_renew(self, hold: Hold, lease: int = LEASE) -> int:
        return self.renew([hold.writer], lease)[0]

    def renew(self, ids: list[str], lease: int) -> list[int]:
        keys = [key for one in ids for key in (self.name, self.hold_key(one), self.ours)]
        reply: list[int] = self.run("read_renew", keys, *itertools.chain(*((one, lease) for one in ids)))
        return reply

    def force(self) -> int:
        reply: int = self.run("rw_force", self.keys(), self.channel)
        return reply

    def inspect(self) -> list[Any]:
        reply: list[Any] = self.run("inspect", self.keys(), "read")
        return reply

    def close_gate(self, ms: int = LEASE) -> int:
        reply: int = self.run("gate", [self.name, self.gate, self.turns], ms, "rw", self.channel)
        return reply

    # ---- state on the server

    def fields(self) -> dict[str, int | str]:
        all = fields_of(self.redis.command("HGETALL", self.name))
        return {field: value if field == "mode" else int(value) for field, value in all.items()}

    def left(self, key: bytes | None = None) -> int:
        reply: int = self.redis.command("PTTL", self.name if key is None else key)
        return reply

    def holds(self) -> set[bytes]:
        return set(self.redis.command("KEYS", "*:rwlock_timeout:*"))

    def kill(self, owner: str, number: int = 1) -> None:
        """The lease of a hold ends."""
        assert self.redis.command("DEL", self.hold_key(owner, number)) == 1
        self.redis.command("ZREM", self.ours, owner)

    def noted(self) -> dict[str, int]:
        """Who of ours holds though the hash may be gone: id -> ms that its lease has left."""
        words, now = self.redis.command("ZRANGE", self.ours, 0, -1, "WITHSCORES"), server_ms(self.redis)
        return {one.decode(): int(score) % WRITER - now for one, score in zip(words[::2], words[1::2])}
