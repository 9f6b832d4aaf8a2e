"""Semaphores, permit semaphores and latches step by step on a real server: our scripts, and Redisson's.

    wire = SemaphoreWire(client, "seats")           # PermitWire, LatchWire
    wire.change("set", 3)                           # [1, 3]
    wire.acquire(hold := Hold(2))                   # [1, token]
    JavaSemaphore(client, "seats").call("release", 2)   # JavaPermits, JavaLatch: the steps of one call each
    Subscriber(server, wire.channel).messages()               # the messages so far: at least those of all commands answered before
"""
from __future__ import annotations

import itertools
import re
import secrets
from typing import Any, Union

from .redisson import tagged, token_key
from ..resp import Client
from .scripts import load
from ..server import Server
from .wire import TRY, server_ms

LEASE, KEEP = 30_000, 86_400_000
NEVER = 922337203685477
STEMS = (
    "semaphore_acquire", "semaphore_release", "semaphore_change", "semaphore_renew", "latch_await", "latch_change",
    "permit_acquire", "permit_release", "permit_change", "permit_renew",
)  # fmt: skip
TEXTS = {stem: load(stem) for stem in STEMS}

Name = Union[str, bytes]


def raw_name(name: Name) -> bytes:
    return name.encode() if isinstance(name, str) else name


def own_key(kind: str, name: Name) -> bytes:
    """A key that only libdlock has. Names with a brace have another form than names without."""
    return kind.encode() + (b"::" if b"{" in raw_name(name) else b":") + tagged(name)


class Subscriber:
    """A subscriber of one channel."""

    def __init__(self, server: Server, channel: bytes) -> None:
        self.redis = server.client()
        self.redis.subscribe(channel)

    def messages(self) -> list[bytes]:
        self.redis.send("PING")
        messages = []
        while (push := self.redis.read())[0] != b"pong":
            messages.append(push[2])
        return messages


class Hold:
    """One acquire, or one change, with its id on the wire."""

    processes = itertools.count(1)

    def __init__(self, permits: int = 1, after: Hold | None = None) -> None:
        """after: another hold of the same process."""
        self.permits = permits
        self.uuid: str = after.uuid if after else f"{next(self.processes):08x}-1234-8000-89ab-cdef01234567"
        self.number: int = (after.number if after else 1000) + permits
        self.id = f"{self.uuid}:{self.number}"

    def members(self, name: Name = "") -> list[bytes]:
        """The ids of its permits. Those of a name that is one pair of braces have a mark."""
        start = bytearray.fromhex(self.uuid.replace("-", "")[:20])
        if re.fullmatch(rb"\{[^{]+\}", raw_name(name), re.S):
            start[8] ^= 0x80
        return [bytes(start) + (self.number - place).to_bytes(6, "big") for place in range(self.permits)]


class Wire:
    """Common to all our scripts. A script is sent by SHA after its first use."""

    kind = ""

    def __init__(self, redis: Client, name: Name) -> None:
        self.redis = redis
        self.name = raw_name(name)
        self.fence, self.gate = token_key(name), own_key("dlock_gate", name)
        self.turns, self.once = own_key("dlock_turns", name), own_key("dlock_once", name)
        self.channel = b"redisson_sc:" + tagged(name)
        self.keys: list[bytes] = []
        self.block, self.others = 1, False  # tokens to reserve; whether others waited at the last release
        self.known: dict[str, str] = {}

    def run(self, stem: str, *arguments: Any, keys: list[bytes] | None = None) -> Any:
        if stem not in self.known:
            self.known[stem] = self.redis.command("SCRIPT", "LOAD", TEXTS[stem]).decode()
        keys = self.keys if keys is None else keys
        return self.redis.command("EVALSHA", self.known[stem], len(keys), *keys, *arguments)

    def whole(self, hold: Hold, lease: int = LEASE, mode: int = TRY) -> list[int]:
        """The reply to an acquire. A new grant also tells how many tokens it has reserved, and what is left."""
        reply: list[int] = self.run(
            f"{self.kind}_acquire", hold.id, lease, hold.permits, mode, 0, 4000, KEEP, 1, self.channel, "", self.block
        )
        return reply

    def acquire(self, hold: Hold, lease: int = LEASE) -> list[int]:
        """The reply to an acquire: of a grant, 1 and the token."""
        reply = self.whole(hold, lease)
        return reply[:2] if reply[0] == 1 else reply

    def release(self, hold: Hold, doubt: int = 0, rest: int = 0, stays: int = 0) -> int:
        reply: int = self.run(f"{self.kind}_release", hold.id, self.channel, 0, rest, doubt, hold.permits, stays)
        self.others = reply > 1
        return min(reply, 1)

    def change(self, what: str, number: int = 0, hold: Hold | None = None) -> list[int]:
        reply: list[int] = self.run(f"{self.kind}_change", what, number, (hold or Hold()).id, self.channel)
        return reply

    def set_gate(self, closed: bool) -> None:
        self.redis.command(*(["SET", self.gate, 1, "PX", 60_000] if closed else ["DEL", self.gate]))

    # ---- state on the server

    def value(self) -> int | None:
        value = self.redis.command("GET", self.name)
        return None if value is None else int(value)

    def left(self, key: bytes) -> int:
        reply: int = self.redis.command("PTTL", key)
        return reply

    def all_ours_end(self, *but: bytes) -> None:
        """Every key has an expiry, except Redisson's own."""
        for key in self.redis.command("KEYS", "*"):
            assert key in but or self.left(key) > 0, key


class SemaphoreWire(Wire):
    kind = "semaphore"

    def __init__(self, redis: Client, name: Name = "seats") -> None:
        super().__init__(redis, name)
        self.taken, self.holders = own_key("dlock_taken", name), own_key("dlock_holders", name)
        self.keys = [self.name, self.fence, self.gate, self.taken, self.holders, self.turns, self.once]

    def renew(self, *rows: tuple[Hold, int]) -> list[int]:
        arguments = itertools.chain(*((hold.id, lease, hold.permits) for hold, lease in rows))
        reply: list[int] = self.run("semaphore_renew", *arguments, keys=[self.name, self.holders] * len(rows))
        return reply

    def reclaim(self, silent: int = 0) -> int:
        """As a client does: again while there are more."""
        more, back = 1, 0
        while more:
            code, permits, more = self.change("reclaim", silent)
            assert code == 1
            back += permits
        return back

    def living(self) -> list[bytes]:
        holders: list[bytes] = self.redis.command("ZRANGE", self.holders, 0, -1)
        return holders

    def silence(self, *holds: Hold, since: int = 1) -> None:
        """These holders have been silent: their leases ended so many ms ago."""
        for hold in holds:
            over = server_ms(self.redis) - since
            assert self.redis.command("ZADD", self.holders, "XX", "CH", over, f"{hold.permits} {hold.id}") == 1


class PermitWire(Wire):
    kind = "permit"

    def __init__(self, redis: Client, name: Name = "seats") -> None:
        super().__init__(redis, name)
        self.leases = tagged(name) + b":timeout"
        self.keys = [self.name, self.fence, self.gate, self.leases, self.turns, self.once]

    def renew(self, *rows: tuple[Hold, int]) -> list[int]:
        keys = [self.name, self.leases] * len(rows)
        arguments = itertools.chain(*((hold.id, lease, hold.permits) for hold, lease in rows))
        reply: list[int] = self.run("permit_renew", *arguments, keys=keys)
        return reply

    def out(self) -> dict[bytes, int]:
        flat = self.redis.command("ZRANGE", self.leases, 0, -1, "WITHSCORES")
        return {member: int(score) for member, score in zip(flat[::2], flat[1::2])}

    def end(self, *members: bytes) -> None:
        """The leases of these holds end now."""
        for member in members:
            assert self.redis.command("ZADD", self.leases, "XX", "CH", 0, member) == 1


class LatchWire(Wire):
    kind = "latch"

    def __init__(self, redis: Client, name: Name = "start") -> None:
        super().__init__(redis, name)
        self.channel = b"redisson_countdownlatch__channel__{" + self.name + b"}"
        self.keys = [self.name, self.fence, self.gate, self.once]

    def wait(self, hold: Hold | None = None) -> list[int]:
        reply: list[int] = self.run("latch_await", (hold or Hold()).id, 0, 1, 1, 0, 4000, KEEP, 1, self.channel)
        return reply


# ---- Redisson's side, from the numbered tables of the protocol description

SEMAPHORE = """
local what, n = ARGV[1], tonumber(ARGV[2])
local value = redis.call('GET', KEYS[1])
local function tell(number)
  redis.call('PUBLISH', KEYS[2], number)
end
if what == 'try_acquire' then
  if value and tonumber(value) >= n then
    redis.call('DECRBY', KEYS[1], n)
    return 1
  end
  return 0
elseif what == 'release' or what == 'release_if_exists' then
  if what == 'release_if_exists' and not value then
    return 0
  end
  tell(redis.call('INCRBY', KEYS[1], n))
  return 1
elseif what == 'try_set_permits' then
  if value then
    return 0
  end
  redis.call('SET', KEYS[1], n)
  tell(n)
  return 1
elseif what == 'add_permits' then
  local sum = tonumber(value or 0) + n
  redis.call('SET', KEYS[1], sum)
  tell(sum)
elseif what == 'drain_permits' then
  if value then
    redis.call('SET', KEYS[1], 0)
  end
  return tonumber(value or 0)
end
"""

PERMITS = """
local what, now, n = ARGV[1], ARGV[2], tonumber(ARGV[3])
local function left()
  return tonumber(redis.call('GET', KEYS[1]) or 0)
end
local function tell(number)
  redis.call('PUBLISH', KEYS[3], number)
end
local function reclaim(most)
  local ended = redis.call('ZRANGEBYSCORE', KEYS[2], 0, now, 'LIMIT', 0, most)
  if #ended > 0 then
    redis.call('ZREM', KEYS[2], unpack(ended))
    local sum = redis.call('INCRBY', KEYS[1], #ended)
    if sum > 0 then
      tell(sum)
    end
  end
end
if what == 'try_acquire' then
  reclaim(n)
  if redis.call('EXISTS', KEYS[1]) == 1 and left() >= n then
    redis.call('DECRBY', KEYS[1], n)
    for i = 1, n do
      redis.call('ZADD', KEYS[2], ARGV[4], ARGV[4 + i])
    end
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl > 0 then
      redis.call('PEXPIRE', KEYS[2], ttl)
    end
    return 'OK'
  end
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if first[2] and first[2] ~= '922337203685477' then
    return ':' .. first[2]
  end
  return nil
elseif what == 'release_one' then
  local score = redis.call('ZSCORE', KEYS[2], ARGV[4])
  if redis.call('ZREM', KEYS[2], ARGV[4]) == 0 then
    return 0
  end
  tell(redis.call('INCRBY', KEYS[1], 1))
  return tonumber(score) <= tonumber(now) and 0 or 1
elseif what == 'release_list' then
  for i = 4, #ARGV do
    local score = redis.call('ZSCORE', KEYS[2], ARGV[i])
    if not score or tonumber(score) <= tonumber(now) then
      return 0
    end
  end
  reclaim(-1)
  local gone = 0
  for i = 4, #ARGV do
    gone = gone + redis.call('ZREM', KEYS[2], ARGV[i])
  end
  redis.call('INCRBY', KEYS[1], gone)
  tell(gone)
  return gone
elseif what == 'try_set_permits' or what == 'set_permits' then
  if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('SET', KEYS[1], n)
    tell(n)
    return 1
  end
  local more = n - left() - redis.call('ZCARD', KEYS[2])
  if what == 'try_set_permits' or more == 0 then
    return 0
  end
  redis.call('INCRBY', KEYS[1], more)
  tell(n)
elseif what == 'add_permits' then
  redis.call('SET', KEYS[1], left() + n)
  if n > 0 then
    tell(n)
  end
else
  reclaim(-1)
  local out = redis.call('ZCARD', KEYS[2])
  if what == 'available_permits' then
    return left()
  elseif what == 'acquired_permits' then
    return out
  elseif what == 'get_permits' then
    return redis.call('EXISTS', KEYS[1]) == 1 and left() + out or 0
  elseif what == 'update_lease' then
    if redis.call('ZSCORE', KEYS[2], ARGV[5]) then
      redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
      return 1
    end
    return 0
  elseif what == 'lease_time' then
    local score = redis.call('ZSCORE', KEYS[2], ARGV[4])
    if not score then
      return redis.error_reply('ERR no such permit')
    end
    return score == '922337203685477' and -1 or tonumber(score) - now
  end
end
"""

LATCH = """
local value = redis.call('GET', KEYS[1])
if ARGV[1] == 'try_set_count' then
  if value then
    return 0
  end
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call('PUBLISH', KEYS[2], 1)
  return 1
elseif ARGV[1] == 'count_down' then
  local left = redis.call('DECR', KEYS[1])
  if left <= 0 then
    redis.call('DEL', KEYS[1])
  end
  if left == 0 then
    redis.call('PUBLISH', KEYS[2], 0)
  end
elseif ARGV[1] == 'get_count' then
  return tonumber(value or 0)
elseif redis.call('DEL', KEYS[1]) == 1 then
  redis.call('PUBLISH', KEYS[2], 1)
  return 1
else
  return 0
end
"""


class Java:
    text = ""

    def __init__(self, redis: Client, name: Name) -> None:
        self.redis = redis
        self.name = raw_name(name)
        self.keys = [self.name, b"redisson_sc:" + tagged(name)]
        self.sha = redis.command("SCRIPT", "LOAD", self.text).decode()

    def call(self, what: str, *arguments: Any) -> Any:
        return self.redis.command("EVALSHA", self.sha, len(self.keys), *self.keys, what, *arguments)


class JavaSemaphore(Java):
    """call(what, n): try_acquire, release, release_if_exists, try_set_permits, add_permits, drain_permits."""

    text = SEMAPHORE

    def __init__(self, redis: Client, name: Name = "seats") -> None:
        super().__init__(redis, name)


class JavaPermits(Java):
    """call(what, now, n, ...), mostly through the methods below. Ids are raw bytes."""

    text = PERMITS

    def __init__(self, redis: Client, name: Name = "seats", fast_ms: int = 0) -> None:
        """fast_ms: by how much the clock of this Java host is ahead of the server's."""
        super().__init__(redis, name)
        self.fast_ms = fast_ms
        self.keys.insert(1, tagged(name) + b":timeout")

    def now(self) -> int:
        return server_ms(self.redis) + self.fast_ms

    def try_acquire(self, permits: int = 1, lease: int | None = None) -> list[bytes] | int | None:
        """The ids; or when the next lease ends, in epoch ms; or None."""
        ids, now = [secrets.token_bytes(16) for _ in range(permits)], self.now()
        reply = self.call("try_acquire", now, permits, NEVER if lease is None else now + lease, *ids)
        if reply is None or reply == b"OK":
            return reply and ids
        assert reply.startswith(b":")
        return int(reply[1:])

    def release(self, *ids: bytes) -> int:
        """Uses the form for one id if there is one id, else the list form."""
        reply: int = self.call("release_one" if len(ids) == 1 else "release_list", self.now(), 0, *ids)
        return reply

    def change(self, what: str, number: int = 0) -> Any:
        return self.call(what, self.now(), number)

    def update_lease(self, permit: bytes, lease: int) -> int:
        now = self.now()
        reply: int = self.call("update_lease", now, 0, now + lease, permit)
        return reply

    def lease_time(self, permit: bytes) -> int:
        reply: int = self.call("lease_time", self.now(), 0, permit)
        return reply


class JavaLatch(Java):
    """call(what, n): try_set_count, count_down, get_count, delete."""

    text = LATCH

    def __init__(self, redis: Client, name: Name = "start") -> None:
        super().__init__(redis, name)
        self.keys[1] = b"redisson_countdownlatch__channel__{" + self.name + b"}"
