"""A scripted Redisson for the read-write lock. It follows the numbered steps of the protocol description.

    a = JavaRw(redis, "order", "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1")
    a.read(30_000)                                  # None: acquired, else the rest of the holder's lease in ms
    a.read_release()                                # 1 free or last, 0 others still hold, None: it did not hold
"""
from __future__ import annotations

import secrets
from typing import Any

from .redisson import RENEW, tagged
from ..resp import Client

WATCHDOG = 30_000
LATCH_MS = 18_000

# KEYS: lock. ARGV: lease, owner, write owner, T(N)
READ = """
local mode, number = redis.call('HGET', KEYS[1], 'mode'), 1
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return redis.call('PTTL', KEYS[1])
end
local left = mode and redis.call('PTTL', KEYS[1]) or 0
if mode then
  number = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
else
  redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[2], 1)
end
redis.call('SET', ARGV[4] .. ':' .. ARGV[2] .. ':rwlock_timeout:' .. number, 1, 'PX', ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[1])))
return nil
"""

# KEYS: lock. ARGV: lease, write owner
WRITE = """
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
local left = redis.call('PTTL', KEYS[1])
if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return left
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], left + ARGV[1])
return nil
"""

# KEYS: lock, channel, latch. ARGV: owner, T(N), latch ms
READ_RELEASE = """
local done = redis.call('GET', KEYS[3])
if done then
  return tonumber(done)
end
local function finish(result)
  redis.call('SET', KEYS[3], result, 'PX', ARGV[3])
  return result
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('PUBLISH', KEYS[2], 0)
  finish(1)
  return nil
elseif redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local function hold(owner, number)
  return ARGV[2] .. ':' .. owner .. ':rwlock_timeout:' .. number
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if count == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
redis.call('DEL', hold(ARGV[1], count + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local fields, longest = redis.call('HGETALL', KEYS[1]), -3
  for at = 1, #fields, 2 do
    for number = 1, tonumber(fields[at + 1]) or 0 do
      longest = math.max(longest, redis.call('PTTL', hold(fields[at], number)))
    end
  end
  if longest > 0 then
    redis.call('PEXPIRE', KEYS[1], longest)
    return finish(0)
  elseif mode == 'write' then
    return finish(0)
  end
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], 0)
return finish(1)
"""

# KEYS: lock, channel, latch. ARGV: write owner, lease to re-arm, latch ms
WRITE_RELEASE = """
local done = redis.call('GET', KEYS[3])
if done then
  return tonumber(done)
end
local function finish(result)
  redis.call('SET', KEYS[3], result, 'PX', ARGV[3])
  return result
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('PUBLISH', KEYS[2], 1)
  finish(1)
  return nil
elseif mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return nil
elseif redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return finish(0)
end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 1)
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
return finish(1)
"""

# KEYS: lock, channel. ARGV: mode, message
FORCE = """
if redis.call('HGET', KEYS[1], 'mode') ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], ARGV[2])
return 1
"""

# KEYS: lock. ARGV: watchdog, T(N), owners of one client
READ_RENEW = """
local kept = 0
for at = 3, #ARGV do
  for number = tonumber(redis.call('HGET', KEYS[1], ARGV[at]) or 0), 1, -1 do
    redis.call('PEXPIRE', ARGV[2] .. ':' .. ARGV[at] .. ':rwlock_timeout:' .. number, ARGV[1])
    kept = 1
  end
end
if kept == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return kept
"""

# The same for releases before 4.4.0: the hold keys of every owner in the hash. KEYS: lock. ARGV: watchdog, T(N), owner
OLD_READ_RENEW = """
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return 0
end
local fields = redis.call('HGETALL', KEYS[1])
for at = 1, #fields, 2 do
  for number = 1, tonumber(fields[at + 1]) or 0 do
    redis.call('PEXPIRE', ARGV[2] .. ':' .. fields[at] .. ':rwlock_timeout:' .. number, ARGV[1])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""


def rw_channel(name: str | bytes) -> bytes:
    return b"redisson_rwlock:" + tagged(name)


def hold_key(name: str | bytes, owner: str, number: int = 1) -> bytes:
    return tagged(name) + f":{owner}:rwlock_timeout:{number}".encode()


class JavaRw:
    """One Java thread and one read-write lock. Leases in ms."""

    def __init__(self, redis: Client, name: str | bytes, owner: str) -> None:
        self.redis = redis
        self.name = name.encode() if isinstance(name, str) else name
        self.id = owner
        self.writer = owner + ":write"
        self.channel = rw_channel(name)

    def _run(self, script: str, keys: list[Any], *arguments: Any) -> Any:
        return self.redis.command("EVAL", script, len(keys), *keys, *arguments)

    def _latch(self, request: str | None) -> bytes:
        return b"redisson_unlock_latch:" + tagged(self.name) + b":" + (request or secrets.token_hex(16)).encode()

    def read(self, lease: int = WATCHDOG) -> int | None:
        left: int | None = self._run(READ, [self.name], lease, self.id, self.writer, tagged(self.name))
        return left

    def write(self, lease: int = WATCHDOG) -> int | None:
        left: int | None = self._run(WRITE, [self.name], lease, self.writer)
        return left

    def read_release(self, request: str | None = None) -> int | None:
        keys = [self.name, self.channel, latch := self._latch(request)]
        reply: int | None = self._run(READ_RELEASE, keys, self.id, tagged(self.name), LATCH_MS)
        if not request:
            self.redis.command("DEL", latch)
        return reply

    def write_release(self, request: str | None = None) -> int | None:
        keys = [self.name, self.channel, latch := self._latch(request)]
        reply: int | None = self._run(WRITE_RELEASE, keys, self.writer, WATCHDOG, LATCH_MS)
        if not request:
            self.redis.command("DEL", latch)
        return reply

    def force(self, mode: str) -> int:
        reply: int = self._run(FORCE, [self.name, self.channel], mode, "0" if mode == "read" else "1")
        return reply

    def read_renew(self, script: str = READ_RENEW) -> int:
        reply: int = self._run(script, [self.name], WATCHDOG, tagged(self.name), self.id)
        return reply

    def write_renew(self) -> int:
        reply: list[int] = self._run(RENEW, [self.name], WATCHDOG, self.writer)
        return reply[0]
