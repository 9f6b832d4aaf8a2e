"""A scripted Redisson: the wire traffic of a JVM with Redisson for RLock and the fenced lock, step by step.

    with Jvm(server) as jvm:
        lock = jvm.lock("order")
        lock.lock(thread=1)                         # waits; renewed by the watchdog until unlock
        lock.try_lock(thread=1, wait=0.5, lease=5)  # seconds; a fixed lease is not renewed
        lock.unlock(thread=1)                       # True, or False: still held; NotOwner like IllegalMonitorState
        lock.force_unlock()
        jvm.crash()                                 # connections close, nothing is released

The scripts follow the numbered steps of the protocol description. Threads are numbers, as in Java; each call
blocks the Python thread it is made from. One JVM has one pub/sub connection: its threads share a subscription per
channel, and each message lets one of them try again.
"""
from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
import uuid
from typing import Any, Iterator, Union

from ..resp import Client, Closed, ReplyError
from ..server import Server

BATCH = 100  # locks per renewal script
SUBSCRIPTION_TIMEOUT = 7.5
LATCH_MS = 18000

ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return nil
"""

FENCED = """
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return {redis.call('PTTL', KEYS[1]), -1}
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {-1, redis.call('INCR', KEYS[2])}
"""

RELEASE = """
local done = redis.call('GET', KEYS[3])
if done then
  return tonumber(done)
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
local result = 0
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
  result = 1
end
redis.call('SET', KEYS[3], result, 'PX', ARGV[5])
return result
"""

FORCE = """
local deleted = redis.call('DEL', KEYS[1])
if deleted == 1 then
  redis.call(ARGV[2], KEYS[2], ARGV[1])
end
return deleted
"""

RENEW = """
local kept = {}
for i = 1, #KEYS do
  if redis.call('HEXISTS', KEYS[i], ARGV[i + 1]) == 1 then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    kept[i] = 1
  else
    kept[i] = 0
  end
end
return kept
"""

Name = Union[str, bytes]


def tagged(name: Name) -> bytes:
    """T(N)."""
    raw = name.encode() if isinstance(name, str) else name
    return raw if b"{" in raw else b"{" + raw + b"}"


def channel_of(name: Name) -> bytes:
    return b"redisson_lock__channel:" + tagged(name)


def token_key(name: Name) -> bytes:
    return b"redisson_lock_token:" + tagged(name)


def old_counter(server: Any, *names: Name) -> None:
    """These locks have a token counter. Their next grants have as many tokens as requested; the first grant of a new counter has one."""
    for name in names:
        server.command("SET", token_key(name), 1, "PX", 3_600_000)


class NotOwner(Exception):
    """Java's IllegalMonitorStateException."""


class Down(Exception):
    """The JVM was closed or crashed while a thread waited."""


class Subscription:
    """A channel of one JVM: how many threads use it, how many of them sleep, and the permits that wake them."""

    def __init__(self) -> None:
        self.users = self.asleep = 0
        self.confirmed = threading.Event()
        self.permits = 0
        self.changed = threading.Condition()

    def sleep(self, timeout: float | None = None) -> bool:
        """Takes a permit, and waits at most timeout for it."""
        with self.changed:
            self.asleep += 1
            took = self.changed.wait_for(lambda: self.permits > 0, timeout)
            self.asleep -= 1
            self.permits -= took
            return took

    def wake(self, everybody: bool) -> None:
        """Wakes one thread, also one that is about to sleep; or all that sleep now."""
        with self.changed:
            self.permits += self.asleep if everybody else 1
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.permits += 1000
            self.changed.notify_all()


class PubSub:
    """The pub/sub connection of a JVM and the thread that reads it."""

    def __init__(self, redis: Client) -> None:
        self.redis = redis
        self.redis.socket.settimeout(None)
        self.mutex = threading.Lock()
        self.entries: dict[bytes, Subscription] = {}
        self.received: list[tuple[bytes, bytes]] = []
        self.down = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def subscribe(self, channel: bytes) -> Subscription:
        with self.mutex:
            entry = self.entries.get(channel)
            if not entry:
                entry = self.entries[channel] = Subscription()
                self.redis.send("SUBSCRIBE", channel)
            entry.users += 1
        if not entry.confirmed.wait(SUBSCRIPTION_TIMEOUT) or self.down:
            self.unsubscribe(channel, entry)
            raise Down
        return entry

    def unsubscribe(self, channel: bytes, entry: Subscription) -> None:
        with self.mutex:
            entry.users -= 1
            if entry.users == 0 and self.entries.get(channel) is entry:
                del self.entries[channel]
                if not self.down:
                    self.redis.send("UNSUBSCRIBE", channel)

    def _read(self) -> None:
        with contextlib.suppress(OSError, Closed):
            while True:
                kind, channel, *rest = self.redis.read()
                with self.mutex:
                    entry = self.entries.get(channel)
                if kind == b"subscribe" and entry:
                    entry.confirmed.set()
                elif kind == b"message":
                    self.received.append((channel, rest[0]))
                    if entry and int(rest[0]) in (0, 1):
                        entry.wake(everybody=rest[0] == b"1")
        with self.mutex:
            self.down = True
            left = list(self.entries.values())
        for entry in left:
            entry.confirmed.set()
            entry.end()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.redis.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(5)
        self.redis.close()


class Jvm:
    """One Redisson client instance."""

    def __init__(self, server: Server, client_id: str | None = None, watchdog: float = 30) -> None:
        self.id = client_id or str(uuid.uuid4())
        self.watchdog_ms = round(watchdog * 1000)
        self.server = server
        self.pubsub = PubSub(server.client())
        self.down = threading.Event()
        self._idle: list[Client] = []
        self._owed: dict[Client, int] = {}  # replies that nobody waited for
        self._mutex = threading.Lock()
        self._holds: dict[bytes, dict[int, int]] = {}  # what the watchdog renews: lock, thread, count
        self._watchdog: threading.Thread | None = None

    def __enter__(self) -> Jvm:
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()

    def crash(self) -> None:
        """The process is gone at once: nothing is released, nothing is sent."""
        self.down.set()
        self.pubsub.close()
        if self._watchdog:
            self._watchdog.join(5)
        for redis in self._idle:
            redis.close()
        self._idle.clear()

    def owner(self, thread: int) -> str:
        return f"{self.id}:{thread}"

    def lock(self, name: Name) -> RLock:
        return RLock(self, name)

    def fenced_lock(self, name: Name) -> FencedLock:
        return FencedLock(self, name)

    # ---- commands

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Client]:
        if self.down.is_set():
            raise Down
        try:
            redis = self._idle.pop()
        except IndexError:
            redis = self.server.client()
        while self._owed.get(redis, 0):
            self._owed[redis] -= 1
            redis.read()
        yield redis
        self._idle.append(redis)

    def evaluate(self, script: str, keys: list[Any], arguments: list[Any], unawaited: tuple[Any, ...] = ()) -> Any:
        """Runs a script. unawaited: a command sent right after the script's reply, whose own reply is not awaited."""
        with self._connection() as redis:
            reply = redis.command("EVAL", script, len(keys), *keys, *arguments)
            if unawaited:
                redis.send(*unawaited)
                self._owed[redis] = self._owed.get(redis, 0) + 1
            return reply

    def command(self, *words: Any) -> Any:
        with self._connection() as redis:
            return redis.command(*words)

    # ---- the watchdog

    def register(self, name: bytes, thread: int) -> None:
        with self._mutex:
            threads = self._holds.setdefault(name, {})
            threads[thread] = threads.get(thread, 0) + 1
            if not self._watchdog:
                self._watchdog = threading.Thread(target=self._renew_for_ever, daemon=True)
                self._watchdog.start()

    def unregister(self, name: bytes, thread: int | None, whole: bool = False) -> None:
        with self._mutex:
            threads = self._holds.get(name, {})
            for number in list(threads) if thread is None else [thread] if thread in threads else []:
                threads[number] -= 1
                if whole or threads[number] <= 0:
                    del threads[number]
            if not threads:
                self._holds.pop(name, None)

    def renew(self) -> dict[bytes, int]:
        """One tick of the watchdog. Returns the reply for each lock. Locks that are gone are dropped silently."""
        with self._mutex:
            held = [(name, next(iter(threads))) for name, threads in self._holds.items()]
        said: dict[bytes, int] = {}
        for start in range(0, len(held), BATCH):
            chunk = held[start : start + BATCH]
            owners = [self.owner(thread) for _, thread in chunk]
            kept = self.evaluate(RENEW, [name for name, _ in chunk], [self.watchdog_ms, *owners])
            for (name, thread), one in zip(chunk, kept):
                said[name] = one
                if not one:
                    self.unregister(name, thread, whole=True)
        return said

    def _renew_for_ever(self) -> None:
        while not self.down.wait(self.watchdog_ms // 3 / 1000):
            with contextlib.suppress(OSError, ReplyError, Closed, Down):
                self.renew()


class RLock:
    """One Java lock object. Times in seconds; without a lease the watchdog renews."""

    def __init__(self, jvm: Jvm, name: Name) -> None:
        self.jvm = jvm
        self.name = name.encode() if isinstance(name, str) else name
        self.channel = channel_of(name)
        self._rearm_ms = jvm.watchdog_ms

    def acquire(self, thread: int, lease: float | None = None) -> int | None:
        """The acquire script: None when acquired, else the rest of the holder's lease in ms."""
        lease_ms = round(lease * 1000) if lease else self.jvm.watchdog_ms
        left = self._acquire(lease_ms, self.jvm.owner(thread))
        if left is None:
            if lease:
                self._rearm_ms = lease_ms
            else:
                self.jvm.register(self.name, thread)
        return left

    def _acquire(self, lease_ms: int, owner: str) -> int | None:
        left: int | None = self.jvm.evaluate(ACQUIRE, [self.name], [lease_ms, owner])
        return left

    def lock(self, thread: int, lease: float | None = None) -> None:
        if self.acquire(thread, lease) is None:
            return
        with self._subscribed() as entry:
            while (left := self.acquire(thread, lease)) is not None:
                entry.sleep(timeout=left / 1000 if left >= 0 else None)

    def try_lock(self, thread: int, wait: float = 0, lease: float | None = None) -> bool:
        end = time.monotonic() + wait
        if self.acquire(thread, lease) is None:
            return True
        if time.monotonic() >= end:
            return False
        with self._subscribed() as entry:
            while time.monotonic() < end:
                left = self.acquire(thread, lease)
                if left is None:
                    return True
                rest = end - time.monotonic()
                if rest <= 0:
                    return False
                entry.sleep(timeout=min(left / 1000, rest) if left >= 0 else rest)
        return False

    @contextlib.contextmanager
    def _subscribed(self) -> Iterator[Subscription]:
        entry = self.jvm.pubsub.subscribe(self.channel)
        try:
            yield entry
        finally:
            self.jvm.pubsub.unsubscribe(self.channel, entry)

    def unlock(self, thread: int, request: str | None = None) -> bool:
        """True when the lock is free now, False when this thread still holds it."""
        reply = self.release(thread, request or secrets.token_hex(16))
        self.jvm.unregister(self.name, thread)
        if reply is None:
            raise NotOwner(self.jvm.owner(thread))
        if reply == 1:
            self._rearm_ms = self.jvm.watchdog_ms
        return bool(reply)

    def release(self, thread: int, request: str, forget: bool = True) -> int | None:
        """The release script. forget: deletes the latch after the reply, as unlock does."""
        latch = b"redisson_unlock_latch:" + tagged(self.name) + b":" + request.encode()
        reply: int | None = self.jvm.evaluate(
            RELEASE,
            [self.name, self.channel, latch],
            [0, self._rearm_ms, self.jvm.owner(thread), "PUBLISH", LATCH_MS],
            unawaited=("DEL", latch) if forget else (),
        )
        return reply

    def force_unlock(self) -> bool:
        self.jvm.unregister(self.name, None, whole=True)
        return bool(self.jvm.evaluate(FORCE, [self.name, self.channel], [0, "PUBLISH"]))

    def is_locked(self) -> bool:
        return bool(self.jvm.command("EXISTS", self.name))

    def hold_count(self, thread: int) -> int:
        return int(self.jvm.command("HGET", self.name, self.jvm.owner(thread)) or 0)

    def remain_ms(self) -> int:
        return int(self.jvm.command("PTTL", self.name))


class FencedLock(RLock):
    """RLock that counts a token up at each successful acquire, also at re-entries. token: the last one it got."""

    token = 0

    def _acquire(self, lease_ms: int, owner: str) -> int | None:
        left, token = self.jvm.evaluate(FENCED, [self.name, token_key(self.name)], [lease_ms, owner])
        if left != -1:
            return int(left)
        self.token = int(token)
        return None
