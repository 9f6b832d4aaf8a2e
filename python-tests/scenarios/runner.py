"""The Python runner of the scenario table: runner.py calls|events. README.md in this folder lists the lines that it answers.

"calls" uses blocking calls, in a thread of its own for each "begin"; "events" submits its calls and takes the answers from the
event queue.
"""
from __future__ import annotations

import itertools
import math
import socket
import sys
import threading
from typing import Any, Callable, Optional
from urllib.parse import unquote_to_bytes

import dlock

BY_EVENTS = sys.argv[1:] == ["events"]
PATIENCE = 20.0
ANSWERS = {dlock.EventType.ACQUIRED, dlock.EventType.ACQUIRE_FAILED, dlock.EventType.RELEASED, dlock.EventType.RELEASE_FAILED}

Said = tuple[str, dict[str, Any]]  # a status and values
things: dict[str, Any] = {}
tags = itertools.count(1)


def said(status: str = "OK", **values: Any) -> Said:
    return status, values


def expected(good: bool, otherwise: str) -> Said:
    return said("OK" if good else otherwise)


def text(word: bytes) -> str:
    return word.decode()


def options(words: tuple[bytes, ...]) -> dict[str, str]:
    return dict(text(word).split("=", 1) for word in words)  # type: ignore[misc]


def seconds(ms: bytes) -> Optional[float]:
    """A wait or a lease. Values below -1 are left to the binding to refuse."""
    return None if ms == b"-1" else int(ms) / 1000


class Client:
    def __init__(self, handle: dlock.Client) -> None:
        self.handle = handle
        self.seen: list[dlock.Event] = []

    def next(self, wanted: Callable[[dlock.Event], bool]) -> Optional[dlock.Event]:
        for place in itertools.count():
            if place == len(self.seen):
                event = self.handle.next_event(PATIENCE)
                if not event:
                    return None
                self.seen.append(event)
            if wanted(self.seen[place]):
                return self.seen.pop(place)
        return None

    def answer(self, tag: int) -> Said:
        event = self.next(lambda event: event.type in ANSWERS and event.tag == tag)
        if not event:
            return said("NO_EVENT")
        if event.error:
            return said(event.error.name)
        return said(token=event.token) if event.token > 0 and event.type is dlock.EventType.ACQUIRED else said()


class Lock:
    """A lock of a scenario. Each owner has its own handle: in Python the owner belongs to the handle."""

    def __init__(self, client: Client, make: Callable[..., Any]) -> None:
        self.client, self.make = client, make
        self.any, self.handles = make(), {}

    def of(self, owner: bytes) -> Any:
        if owner not in self.handles:
            self.handles[owner] = self.make(owner=int(owner))
        return self.handles[owner]

    def submit(self, owner: bytes, wait_ms: bytes) -> int:
        tag = next(tags)
        self.of(owner).submit_acquire(tag, seconds(wait_ms))
        return tag

    def acquire(self, owner: bytes, wait_ms: bytes, by_events: bool = BY_EVENTS) -> Said:
        if by_events:
            return self.client.answer(self.submit(owner, wait_ms))
        lock = self.of(owner)
        if isinstance(lock, dlock.Latch):
            return expected(lock.wait(seconds(wait_ms)), "BUSY" if wait_ms == b"0" else "TIMED_OUT")
        if wait_ms == b"0":
            return said(token=lock.token) if lock.try_acquire() else said("BUSY")
        return said(token=lock.token) if lock.acquire(timeout=seconds(wait_ms)) else said("TIMED_OUT")

    def release(self, owner: bytes) -> Said:
        if BY_EVENTS:
            tag = next(tags)
            self.of(owner).submit_release(tag)
            return self.client.answer(tag)
        self.of(owner).release()
        return said()


class Waiting:
    def __init__(self, lock: Lock, owner: bytes, wait_ms: bytes) -> None:
        self.lock, self.owner = lock, owner
        self.thread: Optional[threading.Thread] = None
        if BY_EVENTS:
            self.tag = lock.submit(owner, wait_ms)
        else:
            lock.of(owner)
            self.thread = threading.Thread(target=self.run, args=(wait_ms,))
            self.thread.start()

    def run(self, wait_ms: bytes) -> None:
        self.answer = attempt(lambda: self.lock.acquire(self.owner, wait_ms, False))

    def end(self) -> Said:
        if not self.thread:
            return self.lock.client.answer(self.tag)
        self.thread.join()
        return self.answer


# ---- verbs, by name: do_NAME


def do_client(name: bytes, url: bytes, *more: bytes) -> Said:
    things[text(name)] = Client(dlock.Client(text(url), **options(more)))
    return said()


def do_close(client: bytes) -> Said:
    things[text(client)].handle.close()
    return said()


def do_ping(client: bytes) -> Said:
    things[text(client)].handle.ping()
    return said()


def do_stats(client: bytes) -> Said:
    stats = things[text(client)].handle.stats()
    return said(held=stats["held"], waiting=stats["waiting"])


def do_metric(client: bytes, sample: bytes) -> Said:
    rows = dict(line.rsplit(" ", 1) for line in things[text(client)].handle.metrics().splitlines())
    return said(value=rows[text(sample)]) if text(sample) in rows else said("NOT_FOUND")


def do_provision(client: bytes) -> Said:
    things[text(client)].handle.provision()
    return said()


def do_fault(client: bytes, what: bytes, name: bytes, ms: bytes) -> Said:
    things[text(client)].handle.fault(text(what), name, None if ms == b"-1" else int(ms) / 1000)
    return said()


def do_check(client: bytes) -> Said:
    return said(found=",".join(one.name for one in things[text(client)].handle.check()) or "none")


def do_lost(client: bytes) -> Said:
    event = things[text(client)].next(lambda event: event.type is dlock.EventType.LOST)
    return said(token=event.token, cause=event.cause.name) if event else said("NO_EVENT")


def do_lock(client: bytes, name: bytes, kind: bytes, called: bytes, *more: bytes) -> Said:
    of, given = things[text(client)], options(more)
    methods: dict[bytes, Any] = {
        b"mutex": of.handle.lock, b"fair": of.handle.fair_lock, b"read": of.handle.read_lock,
        b"write": of.handle.write_lock, b"semaphore": of.handle.semaphore,
        b"permit_semaphore": of.handle.permit_semaphore, b"latch": of.handle.latch,
    }  # fmt: skip
    method = methods.get(kind) or (lambda *a, **b: of.handle.lock(*a, kind=text(kind), **b))
    things[text(name)] = Lock(of, lambda **owner: method(called, **owner, **given))
    return said()


def do_multi(client: bytes, name: bytes, *members: bytes) -> Said:
    of, locks = things[text(client)], [things[text(member)].any for member in members]
    things[text(name)] = Lock(of, lambda **owner: of.handle.multi_lock(*locks, **owner))
    return said()


def do_acquire(lock: bytes, owner: bytes, wait_ms: bytes) -> Said:
    return things[text(lock)].acquire(owner, wait_ms)


def do_release(lock: bytes, owner: bytes) -> Said:
    return things[text(lock)].release(owner)


def do_begin(name: bytes, lock: bytes, owner: bytes, wait_ms: bytes) -> Said:
    things[text(name)] = Waiting(things[text(lock)], owner, wait_ms)
    return said()


def do_end(waiting: bytes) -> Said:
    return things[text(waiting)].end()


def do_cancel(waiting: bytes) -> Said:
    wait = things[text(waiting)]
    return expected(wait.lock.of(wait.owner).cancel(), "NOT_HELD")


def do_token(lock: bytes, owner: bytes) -> Said:
    return said(token=things[text(lock)].of(owner).token)


def do_remaining(lock: bytes, owner: bytes) -> Said:
    handle = things[text(lock)].of(owner)
    left = handle.remaining
    if left is None:
        return said("LOST" if handle.lost else "NOT_HELD")
    return said(remaining=-1 if left == math.inf else round(left * 1000))


def do_holds(lock: bytes, owner: bytes) -> Said:
    return said(holds=things[text(lock)].of(owner).hold_count)


def do_state(lock: bytes, owner: bytes) -> Said:
    return said(state=things[text(lock)].of(owner).state.name)


def do_extend(lock: bytes, owner: bytes, lease_ms: bytes) -> Said:
    things[text(lock)].of(owner).extend(seconds(lease_ms))
    return said()


def do_force(lock: bytes) -> Said:
    return expected(things[text(lock)].any.force_release(), "NOT_HELD")


def do_inspect(lock: bytes) -> Said:
    seen = things[text(lock)].any.inspect()
    return said(free=int(seen.holder == ""), waiters=seen.waiters, foreign=int(seen.foreign))


def do_close_gate(lock: bytes, ttl_ms: bytes) -> Said:
    things[text(lock)].any.close_gate(seconds(ttl_ms))
    return said()


def do_open_gate(lock: bytes) -> Said:
    return expected(things[text(lock)].any.open_gate(), "UNCHANGED")


def do_export(lock: bytes, owner: bytes, grant: bytes) -> Said:
    things[text(grant)] = things[text(lock)].of(owner).export_grant()
    return said()


def do_adopt(lock: bytes, owner: bytes, grant: bytes) -> Said:
    return said(token=things[text(lock)].of(owner).adopt_grant(things[text(grant)]))


def do_set(lock: bytes, permits: bytes) -> Said:
    return expected(things[text(lock)].any.set_permits(int(permits)), "UNCHANGED")


def do_add(lock: bytes, permits: bytes) -> Said:
    return said(value=things[text(lock)].any.add_permits(int(permits)))


def do_drain(lock: bytes) -> Said:
    return said(value=things[text(lock)].any.drain_permits())


def do_reclaim(lock: bytes, silent: bytes) -> Said:
    return said(value=things[text(lock)].any.reclaim_permits(int(silent) / 1000))


def do_available(lock: bytes) -> Said:
    return said(value=things[text(lock)].any.available_permits)


def do_permit(lock: bytes, owner: bytes, index: bytes) -> Said:
    return said(digits=len(things[text(lock)].of(owner).permit_id(int(index))))


def do_count(latch: bytes, count: bytes) -> Said:
    return expected(things[text(latch)].any.set_count(int(count)), "UNCHANGED")


def do_down(latch: bytes, count: bytes) -> Said:
    return said(value=things[text(latch)].any.count_down(int(count)))


def do_left(latch: bytes) -> Said:
    return said(value=things[text(latch)].any.count)


def do_txn(client: bytes, name: bytes) -> Said:
    things[text(name)] = things[text(client)].handle.transaction_begin()
    return said()


def do_watch(txn: bytes, key: bytes) -> Said:
    things[text(txn)].watch(key)
    return said()


def do_get(txn: bytes, key: bytes) -> Said:
    value = things[text(txn)].get(key)
    return said("NOT_FOUND") if value is None else said(value=text(value))


def do_put(txn: bytes, key: bytes, value: bytes, ttl_ms: bytes = b"-1") -> Said:
    things[text(txn)].set(key, value, seconds(ttl_ms))
    return said()


def do_incr(txn: bytes, key: bytes, by: bytes) -> Said:
    things[text(txn)].incr(key, int(by))
    return said()


def do_delete(txn: bytes, key: bytes) -> Said:
    things[text(txn)].delete(key)
    return said()


def do_commit(txn: bytes) -> Said:
    things[text(txn)].commit()
    return said()


def do_rollback(txn: bytes) -> Said:
    things[text(txn)].rollback()
    return said()


def do_work(lock: bytes, owner: bytes, times: bytes, path: bytes) -> Said:
    """So many times alone: increments a counter in Redis by GET and SET, and notes the token."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)

    def command(line: str) -> str:
        link.sendall(line.encode() + b"\r\n")
        answer = replies.readline().decode()
        assert answer[0] != "-", answer
        return replies.readline().decode() if answer[0] == "$" and answer[1] != "-" else "0"

    with link, link.makefile("rb") as replies:
        for done in range(int(times)):
            status, values = things[text(lock)].acquire(owner, b"20000")
            if status != "OK":
                return said(status)
            command(f"SET witness:counter {int(command('GET witness:counter')) + 1}")
            command(f"RPUSH witness:tokens {values['token']}")
            status, _ = things[text(lock)].release(owner)
            if status != "OK":
                return said(status)
    return said(done=int(times))


def do_reset() -> Said:
    for thing in things.values():
        if isinstance(thing, Client):
            thing.handle.close()
    for thing in things.values():
        if isinstance(thing, Waiting) and thing.thread:
            thing.thread.join()
    things.clear()
    return said()


def attempt(body: Callable[[], Said]) -> Said:
    try:
        return body()
    except dlock.DlockError as error:
        return said(error.name)
    except AttributeError as error:
        if isinstance(error.obj, dlock.Lock):  # this kind has no such method
            return said("ABSENT")
        raise


def main() -> None:
    for line in sys.stdin:
        verb, *words = line.split()
        call = globals().get(f"do_{verb}")
        arguments = [unquote_to_bytes(word) if word != "%" else b"" for word in words]
        status, values = attempt(lambda: call(*arguments)) if call else said("ABSENT")
        print(status, *(f"{name}={value}" for name, value in values.items()), flush=True)
    do_reset()


main()
