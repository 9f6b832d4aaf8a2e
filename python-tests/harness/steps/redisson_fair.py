"""The wire traffic of a JVM with Redisson for a fair lock, one script at a time. It follows the numbered steps of
the protocol description:

    b = Waiter(server, wire)            # one Java thread that subscribes to its own channel; subscribe=False: it does not
    b.acquire()                         # None: acquired; else the script's reply, and b is in line
    b.try_acquire(); b.cancel(); b.release(); b.force()
    b.message()                         # the next payload on its channel

Its clock is the one of this process plus skew ms. Times in ms.
"""
from __future__ import annotations

import itertools
import time
from typing import Any

from .redisson import LATCH_MS, Name, channel_of, tagged
from ..server import Server

WAIT = 300_000

PRUNE = """
local function prune(now)
  while true do
    local first = redis.call('LINDEX', KEYS[2], 0)
    local score = first and redis.call('ZSCORE', KEYS[3], first)
    if not score or tonumber(score) > now then
      return first
    end
    redis.call('ZREM', KEYS[3], first)
    redis.call('LPOP', KEYS[2])
  end
end
"""

# ARGV: owner, lease, wait, now, whether it joins the line
ACQUIRE = PRUNE + """
local owner, lease, wait, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local first = prune(now)
if redis.call('EXISTS', KEYS[1]) == 0 and (not first or first == owner) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], owner)
  for _, other in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    redis.call('ZINCRBY', KEYS[3], -wait, other)
  end
  redis.call('HSET', KEYS[1], owner, 1)
  redis.call('PEXPIRE', KEYS[1], lease)
  return nil
end
if redis.call('HEXISTS', KEYS[1], owner) == 1 then
  redis.call('HINCRBY', KEYS[1], owner, 1)
  redis.call('PEXPIRE', KEYS[1], lease)
  return nil
end
if ARGV[5] == '0' then
  return 1
end
if redis.call('ZSCORE', KEYS[3], owner) then
  return math.max(0, redis.call('PTTL', KEYS[1]))
end
local last = redis.call('LINDEX', KEYS[2], -1)
local score = last and last ~= owner and redis.call('ZSCORE', KEYS[3], last)
local ttl = score and tonumber(score) - now or redis.call('PTTL', KEYS[1])
if redis.call('ZADD', KEYS[3], ttl + wait + now, owner) == 1 then
  redis.call('RPUSH', KEYS[2], owner)
end
return ttl
"""

# ARGV: owner, wait
CANCEL = """
local line, behind = redis.call('LRANGE', KEYS[2], 0, -1), false
for _, other in ipairs(line) do
  if behind and redis.call('ZSCORE', KEYS[3], other) then
    redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[2]), other)
  end
  behind = behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('LREM', KEYS[2], 0, ARGV[1])
"""

# KEYS[4]: the latch. ARGV: owner, lease, now, channel, TTL of the latch
RELEASE = PRUNE + """
local function done(result)
  redis.call('SET', KEYS[4], result, 'PX', ARGV[5])
  return result
end
local before = redis.call('GET', KEYS[4])
if before then
  return tonumber(before)
end
local first = prune(tonumber(ARGV[3]))
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return nil
  end
  if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return done(0)
  end
  redis.call('DEL', KEYS[1])
end
if first then
  redis.call('PUBLISH', ARGV[4] .. ':' .. first, '0')
end
return done(1)
"""

# ARGV: now, channel
FORCE = PRUNE + """
local first = prune(tonumber(ARGV[1]))
local deleted = redis.call('DEL', KEYS[1])
if deleted == 1 and first then
  redis.call('PUBLISH', ARGV[2] .. ':' .. first, '0')
end
return deleted
"""


def queue_key(name: Name) -> bytes:
    return b"redisson_lock_queue:" + tagged(name)


def timeout_key(name: Name) -> bytes:
    return b"redisson_lock_timeout:" + tagged(name)


class Waiter:
    """One thread of a JVM of its own."""

    numbers = itertools.count(1)

    def __init__(
        self, server: Server, name: Name = "order", subscribe: bool = True, wait: int = WAIT, lease: int = 30_000
    ) -> None:
        number = next(self.numbers)
        self.id = f"{number:08x}-0000-4000-8000-00000000000e:{number}"
        self.raw = self.id.encode()
        self.name = name.encode() if isinstance(name, str) else name
        self.keys = [self.name, queue_key(name), timeout_key(name)]
        self.channel = channel_of(name) + b":" + self.raw
        self.wait, self.lease, self.skew = wait, lease, 0
        self.redis, self.subscriber = server.client(), server.client()
        self.subscribed = False
        if subscribe:
            self.subscribe(True)

    def close(self) -> None:
        self.redis.close()
        self.subscriber.close()

    def subscribe(self, on: bool) -> None:
        """Subscribes; returns when the server has confirmed."""
        self.subscriber.send("SUBSCRIBE" if on else "UNSUBSCRIBE", self.channel)
        while self.subscriber.read()[0] != (b"subscribe" if on else b"unsubscribe"):
            pass
        self.subscribed = on

    def now(self) -> int:
        return round(time.time() * 1000) + self.skew

    def evaluate(self, script: str, *arguments: Any, more: tuple[bytes, ...] = ()) -> Any:
        keys = [*self.keys, *more]
        return self.redis.command("EVAL", script, len(keys), *keys, *arguments)

    def acquire(self, queue: bool = True) -> int | None:
        reply: int | None = self.evaluate(ACQUIRE, self.id, self.lease, self.wait, self.now(), int(queue))
        return reply

    def try_acquire(self) -> bool:
        return self.acquire(queue=False) is None

    def cancel(self, wait: int | None = None) -> None:
        """wait: what it subtracts, if that differs from what it added."""
        self.evaluate(CANCEL, self.id, self.wait if wait is None else wait)

    def release(self) -> int | None:
        latch = b"redisson_unlock_latch:" + tagged(self.name) + b":" + self.raw
        arguments = self.id, self.lease, self.now(), channel_of(self.name), LATCH_MS
        reply: int | None = self.evaluate(RELEASE, *arguments, more=(latch,))
        self.redis.command("DEL", latch)
        return reply

    def force(self) -> bool:
        return bool(self.evaluate(FORCE, self.now(), channel_of(self.name)))

    def message(self, timeout: float = 20) -> bytes | None:
        pair = self.subscriber.message(timeout)
        return pair[1] if pair else None

    def nothing(self) -> bool:
        """Whether there is no message: none can come after the reply to a PING."""
        return self.message(0) is None
