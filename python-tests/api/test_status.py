"""Every status of the exported table is reached, with a sentence that names lock and server; bad input; out of memory."""
from __future__ import annotations

import ctypes
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer, Client, Lock, until
from harness.build import LIBRARY, ROOT
from harness.fake import FakeServer
from harness.kinds import KINDS, LEASED, RIVAL, image, one
from harness.options import OF_CLIENTS
from harness.server import Server

SECRET = "s3cret-canary"

library = ctypes.CDLL(str(LIBRARY))
library.dlock_status_name.restype = library.dlock_status_text.restype = ctypes.c_char_p
library.dlock_option_type.restype = library.dlock_option_default.restype = library.dlock_option_name.restype = ctypes.c_char_p
TABLE = [library.dlock_status_name(library.dlock_status_at(index)).decode() for index in range(library.dlock_status_count())]


PLACES = ("127.0.0.1:", "redis.sock", "/nowhere", "name.invalid:")


class World:
    """What a row of the table needs; new_server makes servers of its own."""

    def __init__(self, server: Server, new_server: Callable[..., Server], new_agent: Callable[..., Agent]) -> None:
        self.server, self.new_server, self.new_agent = server, new_server, new_agent
        self.agent = new_agent()

    def open(self, where: Any = None, **options: Any) -> Client:
        return self.agent.open(where or self.server, **options)

    def lock(self, where: Any = None, **options: Any) -> Lock:
        """A lock named "the lock" on the server; its client has the options."""
        return self.open(where, **options).lock("the lock")


@pytest.fixture
def world(redis_server: Server, new_server: Callable[..., Server], new_agent: Callable[..., Agent]) -> World:
    return World(redis_server, new_server, new_agent)


def grant_of(lock: Lock, owner: int) -> bytes:
    return bytes.fromhex(lock.export(owner, 600).ok.grant.replace("%", ""))


# ---- how each status is produced: (status, function). Those marked "lock" must name it and the server.

WAYS: list[tuple[str, str, Callable[[World], Iterator[Answer]]]] = []


def way(status: str, about: str = "lock") -> Callable[[Any], Any]:
    def keep(function: Callable[[World], Iterator[Answer]]) -> Any:
        WAYS.append((status, about, function))
        return function

    return keep


@way("OK")
def an_acquire(world: World) -> Iterator[Answer]:
    yield world.lock().acquire(1, 0)


@way("BUSY")
def held_by_another(world: World) -> Iterator[Answer]:
    lock, foreign = world.lock(), world.lock()
    lock.acquire(1, 0).ok
    yield lock.acquire(2, 0)
    yield foreign.acquire(1, 0)


@way("BUSY")
def a_nested_hold_is_exported(world: World) -> Iterator[Answer]:
    lock = world.lock()
    lock.acquire(1, 0).ok
    lock.acquire(1, 0).ok
    yield lock.export(1, 600)
    lock.release(1).ok
    grant = grant_of(lock, 1)
    lock.force().ok
    lock.acquire(1, 0).ok
    yield lock.adopt(2, grant)


@way("TIMED_OUT")
def a_wait_is_over(world: World) -> Iterator[Answer]:
    lock, foreign = world.lock(), world.lock()
    lock.acquire(1, 0).ok
    yield lock.acquire(2, 30)
    yield foreign.acquire(1, 30)


@way("CANCELLED")
def a_wait_is_cancelled(world: World) -> Iterator[Answer]:
    lock = world.lock()
    lock.acquire(1, 0).ok
    wait = lock.start("acquire", 2, -1, thread=1)
    until(lambda: lock.state(2) == "WAITING")
    lock.cancel(2).ok
    yield wait.answer()


@way("INTERRUPTED")
def a_signal_ends_a_wait(world: World) -> Iterator[Answer]:
    lock = world.lock(interruptible="true")
    lock.acquire(1, 0).ok
    for restart in (0, 1):
        world.agent("signals", 5000, restart)
        yield lock.acquire(2, -1)
        world.agent("signals", 0, 0)
    lock.cancel(2).ok


@way("INTERRUPTED", "call")
def a_signal_ends_a_wait_for_events(world: World) -> Iterator[Answer]:
    client = world.open()
    world.agent("signals", 5000, 0)
    yield client.next(10_000)
    world.agent("signals", 0, 0)


@way("WOULD_BLOCK")
def this_needs_the_network(world: World) -> Iterator[Answer]:
    lock = world.lock()
    yield lock.acquire_local(1)
    lock.acquire(1, 0).ok
    yield lock.release_local(1)
    assert lock.state(1) == "HELD"


@way("NO_EVENT", "call")
def no_event(world: World) -> Iterator[Answer]:
    client = world.open()
    yield client.next(0)
    yield client.next(20)
    client.wake().ok
    yield client.next(-1)


@way("CONFLICT", "server")
def a_watched_key_changes(world: World) -> Iterator[Answer]:
    txn = world.open().txn()
    txn.watch("the key").ok
    world.server.command("SET", "the key", 1)
    txn.set("the key", 2, -1).ok
    yield txn.commit()
    assert world.server.command("GET", "the key") == b"1"


@way("NOT_FOUND", "server")
def a_key_that_is_not_there(world: World) -> Iterator[Answer]:
    txn = world.open().txn()
    txn.watch("the key").ok
    yield txn.get("the key", 10)


@way("NO_TRANSACTION", "server")
def outside_a_transaction(world: World) -> Iterator[Answer]:
    txn = world.open().txn()
    for _ in range(2):
        for command, *words in ("get", "k", 9), ("set", "k", "v", -1), ("incr", "k", 1), ("delete", "k"), ("commit",):
            yield world.agent(command, txn.index, *words)
        txn.watch("k").ok
        txn.commit().ok
    assert world.server.command("DBSIZE") == 0


@way("INVALID_ARGUMENT", "call")
def arguments_out_of_range(world: World) -> Iterator[Answer]:
    client = world.open()
    lock = client.lock("the lock")
    for command, *words in (
        ("acquire", -1, 0), ("acquire", 1, -2), ("release", -1), ("acquire_local", -1), ("release_local", -1),
        ("submit_acquire", -1, 0, 0), ("submit_acquire", 1, -2, 0), ("submit_release", -1, 0), ("cancel", -1),
        ("begin_acquire", -1, 0, 0), ("begin_acquire", 1, -2, 0), ("begin_release", -1, 0),
        ("extend", 1, -1), ("extend", 1, 0), ("extend", 1, 499), ("extend", 1, 1 << 40), ("state", -1), ("remaining", -1),
        ("token", -1), ("count", -1), ("export", -1, 600), ("adopt", -1, "x"),
    ):  # fmt: skip
        yield world.agent(command, lock.index, *words)
    for command in ("close", "next", "ping"):
        yield world.agent(command, client.index, -2)


@way("INVALID_ARGUMENT")
def an_owner_waits_twice(world: World) -> Iterator[Answer]:
    lock = world.lock()
    lock.acquire(1, 0).ok
    lock.submit_acquire(2, -1, 0).ok
    yield lock.acquire(2, 0)
    yield lock.submit_acquire(2, 0, 0)
    yield lock.begin_acquire(2, 0, 0)


@way("INVALID_ARGUMENT", "call")
def numbers_of_kinds(world: World) -> Iterator[Answer]:
    """Permits, counts and times out of range; nothing is sent to the server."""
    client = world.open()
    client.ping(1000)
    sent = client.counters()["commands"]
    for kind in ("semaphore", "permit_semaphore"):
        seats = client.lock(kind, kind=kind)
        for permits in (0, -1, 2**31, 2**62, -(2**63)):
            yield seats.permits_set(permits)
        for permits in (0, 2**31, -(2**31), 2**62, -(2**63)):
            yield seats.permits_add(permits)
    latch = client.lock("latch", kind="latch")
    for count in (0, -1, 2**31, -(2**63)):
        yield latch.latch_set(count)
        yield latch.latch_down(count)
    for kind in ("mutex", *KINDS, "latch"):
        for ttl in (0, -1, 31_536_000_001, -(2**63)):
            yield client.lock("a gate", kind=kind).close_gate(ttl)
        yield client.lock("x", kind=kind).acquire(-1, 0)
    for kind in LEASED:
        yield client.lock(kind, kind=kind).extend(1, 99)
    assert client.counters()["commands"] == sent and world.server.command("DBSIZE") == 0


@way("INVALID_ARGUMENT", "call")
def members_of_multi_locks(world: World) -> Iterator[Answer]:
    client, other = world.open(), world.open()
    lock = client.lock("the lock")
    yield client.new_multi()
    yield client.new_multi(lock, other.lock("another"))
    yield client.new_multi(lock, client.multi(client.lock("another")))
    yield client.new_multi(*(client.lock(str(i)) for i in range(17)))
    for kind in ("semaphore", "permit_semaphore", "latch"):
        yield client.new_multi(lock, client.lock("another", kind=kind))
    yield client.new("the lock", "multi")


@way("DUPLICATE_NAME")
def a_name_twice(world: World) -> Iterator[Answer]:
    client = world.open()
    lock, between = client.lock("the lock"), client.lock("another")
    yield client.new_multi(lock, lock)
    yield client.new_multi(lock, between, client.lock("the lock"))
    yield client.new_multi(client.lock("the lock", kind="read"), between, client.lock("the lock", kind="write"))
    assert client.new_multi(between, client.lock("{another}")).status == "OK"


@way("INVALID_QUORUM", "call")
def servers_that_cannot_vote(world: World) -> Iterator[Answer]:
    yield world.agent.try_open("redis+quorum://127.0.0.1:1,b")
    yield world.agent.try_open("redis+quorum://127.0.0.1:1,b,c", quorum=1)


@way("UPGRADE_REFUSED")
def who_reads_asks_to_write(world: World) -> Iterator[Answer]:
    client = world.open()
    client.lock("the lock", kind="read").acquire(1, 0).ok
    write = client.lock("the lock", kind="write")
    yield write.acquire(1, 0)
    yield write.acquire(1, -1)
    yield write.submit_acquire(1, 100, 0)
    yield client.multi(client.lock("another"), write).acquire(1, 0)
    assert world.server.command("HLEN", "the lock") == 2


@way("GATE_CLOSED")
def nobody_gets_in(world: World) -> Iterator[Answer]:
    client = world.open()
    for kind in ("mutex", *KINDS, "latch"):
        world.server.command("FLUSHALL")
        lock = client.lock("the lock", kind=kind)
        lock.close_gate(60_000).ok
        yield lock.acquire(1, 0)
        yield lock.acquire(1, -1)
        if kind in ("mutex", "fair", "read", "write"):
            yield client.multi(client.lock("another"), lock).acquire(1, 0)


@way("GATE_CLOSED")
def a_wait_is_ended_by_the_gate(world: World) -> Iterator[Answer]:
    client, other = world.open(), world.open()
    for kind in ("mutex", *KINDS):
        world.server.command("FLUSHALL")
        mine, theirs = one(client, kind, "the lock"), one(other, RIVAL.get(kind, kind), "the lock")
        mine.acquire(1, 0).ok
        wait = theirs.start("acquire", 1, -1, thread=1)
        until(lambda: theirs.state(1) == "WAITING")
        mine.close_gate(60_000).ok
        yield wait.answer()
        mine.release(1).ok
        mine.open_gate().ok


@way("UNCHANGED")
def it_was_so_before(world: World) -> Iterator[Answer]:
    client = world.open()
    for kind in ("semaphore", "permit_semaphore"):
        world.server.command("DEL", "the lock")
        seats = client.lock("the lock", kind=kind)
        seats.permits_set(2).ok
        yield seats.permits_set(3)
        assert seats.permits().ok.value == 2
    world.server.command("DEL", "the lock")
    latch = client.lock("the lock", kind="latch")
    latch.latch_set(2).ok
    yield latch.latch_set(1)
    assert latch.latch_count().ok.value == 2
    yield latch.open_gate()
    latch.close_gate(60_000).ok
    latch.open_gate().ok
    yield latch.open_gate()


@way("INVALID_NAME", "call")
def names(world: World) -> Iterator[Answer]:
    client = world.open()
    for name in ("", "x" * 1025, "x" * 65 * 1024, b"a\0b", b"\0", "{", "}", "{}", "a{}b", "a}b{}", "{}{a}", "}{", "{a"):
        answer = client.new(name)
        yield answer
        assert "name" in answer.message


@way("UNKNOWN_OPTION", "call")
def unknown_options(world: World) -> Iterator[Answer]:
    yield world.agent.try_open(world.server.url + "?speed=11")
    yield world.agent.try_open(world.server.url, speed=11)
    yield world.open().new("x", lease=1)


@way("INVALID_OPTION", "call")
def values_of_options(world: World) -> Iterator[Answer]:
    for option in ("lease_ms=0", "lease_ms=-1", "lease_ms=99", "lease_ms=x", "lease_ms=", "lease_ms=1e3", "renew=maybe",
                   "lease_ms=99999999999999999999", "db=-1", "client_name=a%20b", "watchdog_threads=0", "lease_ms=100",
                   "max_hold_ms=0", "token_ttl_ms=60000&lease_ms=30000"):  # fmt: skip
        yield world.agent.try_open(world.server.url + "?" + option)


@way("INVALID_URL", "call")
def urls(world: World) -> Iterator[Answer]:
    for url in ("", "redis", "redis:", "redis://", "redis://:1", "redis://h:0", "redis://h:65536", "redis://h:x", "http://h",
                "redis://h:1/x", "redis://h:1/0/1", "redis://h:1?", "redis://h:1?x", "redis+unix://", "redis://[::1", "//h:1",
                "redis://u:%zz@h:1", "redis://a@b@c:1"):  # fmt: skip
        answer = world.agent.try_open(url)
        if answer.status not in ("OK", "UNKNOWN_OPTION"):  # some URLs are accepted or refused by design
            yield answer


@way("UNSUPPORTED", "call")
def not_in_this_build(world: World) -> Iterator[Answer]:
    client = world.open()
    for kind in (0, 9, -1, 1 << 30):
        yield client.new("x", kind)
    if not library.dlock_supports(b"cluster"):
        yield world.agent.try_open("redis+cluster://h:1")


@way("UNSUPPORTED")
def what_a_kind_cannot(world: World) -> Iterator[Answer]:
    client = world.open()
    cannot: dict[str, list[tuple[Any, ...]]] = {
        "semaphore": [("force",), ("extend", 1, 1000), ("permit", 1, 0, 33)],
        "permit_semaphore": [("force",), ("permits_drain",)],
        "latch": [("force",), ("extend", 1, 1000)],
    }
    seats = [("permits_set", 1), ("permits_add", 1), ("permits_drain",), ("permits",), ("permit", 1, 0, 33)]
    latches = [("latch_set", 1), ("latch_down", 1), ("latch_count",)]
    for kind in ("mutex", *KINDS, "latch"):
        lock = client.lock("the lock", kind=kind)
        calls = cannot.get(kind, []) + ([] if kind == "mutex" else [("export", 1, 600), ("adopt", 1, "x")])
        calls += ([] if "semaphore" in kind else seats) + ([] if kind == "latch" else latches)
        for command, *words in calls:
            yield world.agent(command, lock.index, *words)
    multi = client.multi(client.lock("the lock"))
    for command, *words in [("inspect",), ("close_gate", 1000), ("open_gate",), ("export", 1, 600), ("adopt", 1, "x"), *seats, *latches]:
        yield world.agent(command, multi.index, *words)
    assert world.server.command("DBSIZE") == 0


@way("CLOSED")
def after_close(world: World) -> Iterator[Answer]:
    client = world.open()
    lock = client.lock("the lock")
    lock.acquire(1, 0).ok
    client.close(1000).ok
    yield lock.acquire(1, 0)
    yield lock.acquire(1, -1)
    yield lock.release(1)
    yield lock.submit_acquire(1, 0, 0)
    yield lock.begin_acquire(1, 0, 0)
    yield lock.begin_release(1, 0)
    yield lock.inspect()
    yield lock.force()


@way("CLOSED")
def kinds_after_close(world: World) -> Iterator[Answer]:
    client = world.open()
    locks = [client.lock("the lock", kind=kind) for kind in ("mutex", *KINDS, "latch")]
    multi = client.multi(locks[0])
    client.close(1000).ok
    for lock in [*locks, multi]:
        for command, *words in (("acquire", 1, -1), ("release", 1), ("submit_acquire", 1, -1, 0), ("begin_acquire", 1, -1, 0),
                                ("begin_release", 1, 0), ("state", 1), ("extend", 1, 1000),
                                ("close_gate", 1000), ("open_gate",), ("cancel", 1)):  # fmt: skip
            yield world.agent(command, lock.index, *words)
    for lock in locks[4:6]:
        yield lock.permits_set(1)
        yield lock.permits()
    yield locks[6].latch_down(1)


@way("CLOSED", "server")
def a_client_after_close(world: World) -> Iterator[Answer]:
    client = world.open()
    client.close(1000).ok
    yield client.new("other")
    yield client.ping(100)


@way("FORKED")
def in_a_child(world: World) -> Iterator[Answer]:
    lock = world.lock()
    lock.acquire(1, 0).ok
    (child,) = world.agent.fork(lock.line("state", 1), lock.line("release", 1))
    yield from child.answers


@way("BUFFER_TOO_SMALL")
def a_grant_that_does_not_fit(world: World) -> Iterator[Answer]:
    lock = world.lock()
    lock.acquire(1, 0).ok
    size = len(lock.export(1, 600).ok.grant) // 3
    lock.force(), lock.acquire(1, 0).ok
    for room in (0, 1, size - 1):
        yield lock.export(1, room)
    assert lock.state(1) == "HELD"


@way("BUFFER_TOO_SMALL", "call")
def a_permit_that_does_not_fit(world: World) -> Iterator[Answer]:
    seats = one(world.open(), "permit_semaphore")
    seats.acquire(1, 0).ok
    for room in (0, 1, 32):
        yield seats.permit(1, 0, room)


@way("SYSTEM_ERROR", "call")
def no_descriptors(world: World) -> Iterator[Answer]:
    world.agent("nofile", 4)
    yield world.agent.try_open(world.server.url)


@way("NOT_HELD")
def a_stranger(world: World) -> Iterator[Answer]:
    lock = world.lock()
    yield lock.release(1)
    lock.acquire(1, 0).ok
    for command, *words in (
        ("release", 2), ("release_local", 2), ("submit_release", 2, 0), ("begin_release", 2, 0), ("remaining", 2), ("token", 2), ("extend", 2, 5000),
        ("cancel", 1), ("cancel", 2), ("export", 2, 600), ("release", 0),
    ):  # fmt: skip
        yield world.agent(command, lock.index, *words)
    assert lock.state(1) == "HELD"
    lock.release(1).ok
    yield lock.force()


@way("NOT_HELD")
def strangers_to_a_kind(world: World) -> Iterator[Answer]:
    client = world.open()
    for kind in KINDS:
        world.server.command("FLUSHALL")
        lock = one(client, kind, "the lock")
        yield lock.release(1)
        lock.acquire(1, 0).ok
        calls: list[tuple[Any, ...]] = [("release", 2), ("release_local", 2), ("submit_release", 2, 0), ("begin_release", 2, 0), ("remaining", 2), ("token", 2), ("cancel", 1)]
        calls += [("extend", 2, 5000)] if kind in LEASED else []
        calls += [("permit", 2, 0, 33)] if kind == "permit_semaphore" else []
        before = world.server.command("DUMP", "the lock")
        for command, *words in calls:
            yield world.agent(command, lock.index, *words)
        assert lock.state(1) == "HELD" and world.server.command("DUMP", "the lock") == before
        lock.release(1).ok
        if "semaphore" not in kind:
            yield lock.force()
    multi = client.multi(client.lock("the lock"), client.lock("another"))
    world.server.command("FLUSHALL")
    for command, *words in ("release", 1), ("submit_release", 1, 0), ("begin_release", 1, 0), ("token", 1), ("remaining", 1), ("extend", 1, 5000), ("cancel", 1), ("force",):
        answer = world.agent(command, multi.index, *words)
        assert answer.status == "NOT_HELD" and answer.message, answer
    latch = client.lock("the lock", kind="latch")
    latch.acquire(1, 0).ok
    yield latch.release(1)


@way("LOST")
def what_a_kind_has_lost(world: World) -> Iterator[Answer]:
    client = world.open(renew="false", lease_ms=200)
    locks = []
    for owner, kind in enumerate(LEASED, 1):
        world.server.command("FLUSHALL")
        locks.append(one(client, kind, "the lock"))
        locks[-1].acquire(owner, 0).ok
    for owner, lock in enumerate(locks, 1):
        until(lambda: lock.state(owner) == "LOST")
        if owner == len(locks):
            yield lock.permit(owner, 0, 33)
        for command, *words in ("remaining",), ("token",), ("extend", 5000), ("release",):
            yield world.agent(command, lock.index, owner, *words)


@way("LOST")
def a_grant_that_is_lost(world: World) -> Iterator[Answer]:
    lock = world.lock(renew="false", lease_ms=200)
    lock.acquire(1, 0).ok
    until(lambda: lock.state(1) == "LOST")
    for command, *words in ("remaining", 1), ("token", 1), ("extend", 1, 5000), ("export", 1, 600), ("release", 1):
        yield world.agent(command, lock.index, *words)
    lock.acquire(1, 1000).ok
    grant = grant_of(lock, 1)
    world.server.command("DEL", "the lock")
    yield lock.adopt(1, grant)


@way("WRONG_KIND")
def a_key_of_another_kind(world: World) -> Iterator[Answer]:
    lock = world.lock()
    for command in (["SET", "the lock", "x"], ["HSET", "the lock", "mode", "read"], ["RPUSH", "the lock", "x"]):
        world.server.command("DEL", "the lock")
        world.server.command(*command)
        before = world.server.command("DUMP", "the lock")
        yield lock.acquire(1, 0)
        yield lock.acquire(1, 1000)
        yield lock.force()
        assert world.server.command("DUMP", "the lock") == before
        assert world.server.command("DBSIZE") == 1


@way("WRONG_KIND")
def a_name_that_another_kind_has(world: World) -> Iterator[Answer]:
    """test_kinds.py covers all pairs of kinds."""
    client = world.open()
    one(client, "semaphore", "the lock")
    for kind in ("mutex", "fair", "read", "write"):
        lock = client.lock("the lock", kind=kind)
        yield lock.acquire(1, 0)
        yield lock.close_gate(1000)
        yield lock.force()
        yield client.multi(client.lock("another"), lock).acquire(1, 0)
    world.server.command("FLUSHALL")
    client.lock("the lock", kind="fair").acquire(1, 0).ok
    before = world.server.command("DUMP", "the lock")
    for kind in ("semaphore", "permit_semaphore"):
        seats = client.lock("the lock", kind=kind)
        for answer in seats.acquire(1, 0), seats.permits_set(1), seats.permits_add(1), seats.permits(), seats.open_gate():
            yield answer
    latch = client.lock("the lock", kind="latch")
    for answer in latch.acquire(1, 0), latch.latch_set(1), latch.latch_down(1), latch.latch_count(), latch.close_gate(1000):
        yield answer
    assert world.server.command("DUMP", "the lock") == before


@way("UNKNOWN_OUTCOME")
def a_change_without_answer(world: World) -> Iterator[Answer]:
    """The server stops after the connections were made; it may execute the requests when it resumes."""
    for kind in ("semaphore", "permit_semaphore", "latch"):
        server = world.new_server()
        lock = world.open(server, command_timeout_ms=200).lock("the lock", kind=kind)
        (lock.latch_count if kind == "latch" else lock.permits)().ok
        server.pause()
        answer = lock.latch_set(3) if kind == "latch" else lock.permits_set(3)
        server.resume()
        yield answer
        until(lambda: server.command("GET", "the lock") == b"3")  # as often as it was sent


@way("UNKNOWN_OUTCOME")
def a_release_without_answer(world: World) -> Iterator[Answer]:
    server = world.new_server()
    lock = world.lock(server, lease_ms=2000, release_timeout_ms=100)
    lock.acquire(1, 0).ok
    server.pause()
    answer = lock.release(1)
    server.resume()
    yield answer
    until(lambda: not server.command("EXISTS", "the lock"))


@way("INVALID_GRANT")
def grants_that_are_none(world: World) -> Iterator[Answer]:
    lock, other = world.lock(), world.open().lock("another")
    lock.acquire(1, 0).ok
    grant = grant_of(lock, 1)
    for bad in (b"", b"x", b"dlock2", b"dlock2 ", grant[:-1], grant + b"x", b"dlock1" + grant[6:],
                b"dlock2 0 1000 x:1 the lock", b"dlock2 -1 1000 x:1 the lock", b"dlock2 1 99999999999 x:1 the lock", grant * 9,
                b"dlock2 99999999999999999999 1000 x:1 the lock", b"\0" * 600, b"dlock2 1 1000 " + b"x" * 400 + b" the lock"):  # fmt: skip
        yield lock.adopt(2, bad)
    assert other.adopt(2, grant).status == "INVALID_GRANT"
    assert lock.adopt(2, grant).ok.token > 0


@way("UNREACHABLE")
def nobody_there(world: World) -> Iterator[Answer]:
    yield world.lock("redis://127.0.0.1:1").acquire(1, 0)
    yield world.lock("redis+unix:///nowhere/at/all").acquire(1, 0)
    yield world.lock("redis://name.invalid:1").acquire(1, 0)
    lock = world.lock("redis://127.0.0.1:1")
    yield lock.force()
    yield lock.inspect()
    yield lock.acquire(1, 100)


@way("UNREACHABLE", "server")
def nobody_to_ping(world: World) -> Iterator[Answer]:
    yield world.open("redis://127.0.0.1:1").ping(500)
    yield world.open("redis+unix:///nowhere/at/all").ping(-1)


@way("UNREACHABLE")
def a_server_that_says_nothing(world: World) -> Iterator[Answer]:
    server = world.new_server()
    lock = world.lock(server, command_timeout_ms=100, lease_ms=1000)
    lock.acquire(1, 0).ok
    server.pause()
    yield lock.extend(1, 5000)
    yield lock.force()
    yield lock.inspect()
    yield world.open(server).lock("the lock").acquire(1, 0)
    server.resume()


@way("DENIED")
def credentials(world: World) -> Iterator[Answer]:
    server = world.new_server("--requirepass", SECRET)
    host = f"{server.host}:{server.port}"
    yield world.lock(server.url).acquire(1, 0)
    yield world.lock(f"redis://:wrong-{SECRET}@{host}").acquire(1, 0)
    yield world.lock(f"redis://nobody:{SECRET}@{host}").acquire(1, 0)
    yield world.lock(server.unix_url, password="wrong-" + SECRET).acquire(1, 0)
    assert world.lock(f"redis://:{SECRET}@{host}").acquire(1, 0).status == "OK"
    assert world.lock(f"redis://default:{SECRET}@{host}/3").acquire(1, 0).status == "OK"


@way("DENIED")
def commands_that_are_not_permitted(world: World) -> Iterator[Answer]:
    server = world.new_server()
    for user, rules in (("noscript", ["-evalsha", "-eval"]), ("nohash", ["-hset"]), ("nokeys", ["resetkeys"])):
        server.command("ACL", "SETUSER", user, "on", f">{SECRET}", "~*", "&*", "+@all", *rules)
        lock = world.lock(f"redis://{user}:{SECRET}@{server.host}:{server.port}")
        yield lock.acquire(1, 0)
        yield lock.acquire(1, 500)


@way("DENIED")
def permissions_as_other_releases_say_it(world: World) -> Iterator[Answer]:
    with FakeServer() as fake:
        for text in (
            b"ERR The user executing the script can't run this command or subcommand script: 0a1b, on @user_script:14.",
            b"ERR ACL failure in script: User bob has no permissions to run the 'hset' command script: 0a1b, on @user_script:14.",
            b"ERR ACL failure in script: No permissions to access a key script: 0a1b, on @user_script:1.",
        ):
            fake.on("EVALSHA", b"-" + text + b"\r\n")
            yield world.lock(fake).acquire(1, 0)


@way("SERVER_LOADING")
def a_server_that_loads(world: World) -> Iterator[Answer]:
    server = world.new_server()
    lock = world.lock(server)
    server.command("EVAL", "for i = 1, 3000 do redis.call('SET', 'key' .. i, i) end", 0)
    server.command("CONFIG", "SET", "key-load-delay", 2000, "loading-process-events-interval-bytes", 1024)
    with server.client(30) as redis:
        redis.send("DEBUG", "RELOAD")
        until(lambda: lock.inspect().status == "SERVER_LOADING")
        yield lock.inspect()
        yield lock.acquire(1, 0)
        yield lock.force()
        server.kill()


@way("SERVER_BUSY")
def a_server_in_a_script(world: World) -> Iterator[Answer]:
    server = world.new_server("--busy-reply-threshold", "20")
    lock = world.lock(server)
    lock.acquire(1, 0).ok
    with server.client() as redis:
        redis.send("EVAL", "while true do end", 0)
        until(lambda: lock.inspect().status == "SERVER_BUSY")
        yield lock.inspect()
        yield lock.force()
        with server.client() as other:
            other.command("SCRIPT", "KILL")
    lock.release(1).ok


@way("SERVER_BUSY")
def a_server_with_too_many_clients(world: World) -> Iterator[Answer]:
    server = world.new_server()
    server.command("CONFIG", "SET", "maxclients", 1)
    yield world.lock(server).acquire(1, 0)


@way("SERVER_OUT_OF_MEMORY")
def a_full_server(world: World) -> Iterator[Answer]:
    server = world.new_server("--maxmemory", "1", "--maxmemory-policy", "noeviction")
    lock = world.lock(server)
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 500)
    left = server.command("KEYS", "*")  # what was refused midway is undone, and a tombstone is left for two minutes
    assert all(key.startswith(b"dlock_waiters:") and 0 < server.command("PTTL", key) <= 120_000 for key in left)


@way("SERVER_READ_ONLY")
def a_replica(world: World) -> Iterator[Answer]:
    server = world.new_server()
    server.command("HSET", "the lock", "somebody", 1)
    server.command("REPLICAOF", "127.0.0.1", 1)
    lock = world.lock(server)
    yield lock.force()
    server.command("REPLICAOF", "NO", "ONE"), server.command("FLUSHALL"), server.command("REPLICAOF", "127.0.0.1", 1)
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 500)


@way("PROTOCOL_ERROR")
def not_redis(world: World) -> Iterator[Answer]:
    with FakeServer() as fake:
        for reply in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*2\r\n:1\r\n", b":1\r\n", b"$-1\r\n", b"*0\r\n", b"+OK\r\n"):
            fake.on("EVALSHA", reply)
            if reply != b"*2\r\n:1\r\n":  # an incomplete reply
                yield world.lock(fake).acquire(1, 0)
                yield world.lock(fake).inspect()


@way("SERVER_ERROR")
def a_server_without_scripts(world: World) -> Iterator[Answer]:
    server = world.new_server("--rename-command", "EVALSHA", "")
    lock = world.lock(server)
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 500)
    yield lock.inspect()


@way("TLS_FAILED")
def a_server_that_does_not_speak_tls(world: World) -> Iterator[Answer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pending = world.lock(f"rediss://127.0.0.1:{listener.getsockname()[1]}").start("acquire", 1, 0)
        with listener.accept()[0] as link:
            link.sendall(b"-ERR what\r\n")
            yield pending.answer()


@way("WRONG_SETUP")
def a_cluster_that_is_none(world: World) -> Iterator[Answer]:
    yield world.lock(f"redis+cluster://127.0.0.1:{world.server.port}").acquire(1, 0)


@way("QUARANTINED")
def a_server_that_nobody_knows(world: World) -> Iterator[Answer]:
    client = world.open(quarantine_ms=60_000)
    yield client.lock("the lock").acquire(1, 0)
    yield client.lock("the lock").acquire(1, 50)
    yield client.multi(client.lock("the lock")).acquire(1, 0)


@way("LEASE_REFUSED")
def a_longer_lease_than_the_server_was_told(world: World) -> Iterator[Answer]:
    world.open(quarantine_ms=30_000).provision(5000).ok
    yield world.open(quarantine_ms=60_000).lock("the lock").acquire(1, 0)


@way("LEASE_REFUSED", "call")
def a_longer_lease_than_the_client_was_told(world: World) -> Iterator[Answer]:
    client = world.open(quarantine_ms=30_000)
    client.provision(5000).ok
    lock = client.lock("the lock")
    lock.acquire(1, 0).ok
    yield lock.extend(1, 30_001)
    yield client.new("another", lease_ms=30_001)


@way("NOT_REPLICATED")
def a_server_without_replicas(world: World) -> Iterator[Answer]:
    client = world.open(replicas=1, command_timeout_ms=300)
    yield client.lock("the lock").acquire(1, 0)
    yield client.lock("the lock").acquire(1, 1500)
    yield client.multi(client.lock("the lock")).acquire(1, 0)


@way("SERVER_FORGOT")
def a_server_whose_tokens_fall(world: World) -> Iterator[Answer]:
    lock = world.lock()
    world.server.command("SET", "redisson_lock_token:{the lock}", 2**52)  # the clock was that far once
    lock.acquire(1, 0).ok
    lock.release(1).ok
    world.server.command("DEL", "redisson_lock_token:{the lock}")
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 50)
    yield lock.acquire(2, 0)


@way("UNFIT", "client")
def a_server_that_forgets_when_it_is_full(world: World) -> Iterator[Answer]:
    world.server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    yield world.agent.try_open(world.server.url, checks="refuse")
    world.server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


@way("OUT_OF_MEMORY", "call")
def no_memory(world: World) -> Iterator[Answer]:
    agent = world.new_agent(shim=True)
    agent("shim", "alloc", 1, 1)
    yield agent.try_open(world.server.url)


@pytest.mark.parametrize(
    "status, about, produce",
    [pytest.param(*row, id=f"{row[0]}-{row[2].__name__}") for row in WAYS],
)
def test_way(world: World, status: str, about: str, produce: Callable[[World], Iterator[Answer]]) -> None:
    answers = 0
    for answer in produce(world):
        answers += 1
        assert answer.status == status, answer
        assert SECRET not in answer.message
        if status == "OK":
            continue
        assert answer.message and "\n" not in answer.message
        assert about == "call" or any(place in answer.message for place in PLACES), answer
        assert about != "lock" or answer.message.startswith("lock 'the lock' at "), answer
    assert answers > 0


def test_every_status_has_a_way() -> None:
    assert sorted({status for status, _, _ in WAYS}) == sorted(TABLE)


def test_retryable_is_what_the_table_says(world: World) -> None:
    lock = world.lock()
    lock.acquire(1, 0).ok
    assert lock.acquire(2, 0).retryable == 1
    assert lock.release(2).retryable == 0
    retryable = library.dlock_status_retryable
    later = {status for index, status in enumerate(TABLE) if retryable(library.dlock_status_at(index))}
    assert {"BUSY", "TIMED_OUT", "UNREACHABLE", "SERVER_LOADING"} <= later
    assert not later & {"OK", "NOT_HELD", "LOST", "INVALID_NAME", "UNKNOWN_OUTCOME"} and retryable(12345) == 0


# ---- bad input changes nothing

NULLS = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes
from dlock import _abi
library = _abi.Pointer.library = ctypes.CDLL(sys.argv[2])
for name, (result, arguments) in _abi.PROTOTYPES.items():
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    for number in (0, 1, -1):
        words = [None if "LP_" in str(kind) or issubclass(kind, (_abi.Pointer, ctypes.c_void_p, ctypes.c_char_p)) else number for kind in arguments]
        got = function(*words)
        if result is ctypes.c_int32 and name not in ("dlock_status_at", "dlock_status_retryable"):
            print(name, got)
"""


def test_null_everywhere(redis_server: Server) -> None:
    command = [sys.executable, "-c", NULLS, str(ROOT / "bindings/python"), str(LIBRARY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    answers = [line.split() for line in done.stdout.splitlines()]
    refused = {name for name, got in answers if got == "-100"}
    assert {got for _, got in answers} == {"0", "-100"} and len(refused) > 25
    assert {name for name, got in answers if got == "0"} == {"dlock_error_code", "dlock_error_retryable", "dlock_event_type", "dlock_supports"}


def test_null_handles_have_a_sentence(agent: Agent) -> None:
    for command, *words in (
        ("close", 0), ("fd",), ("next", 0), ("wake",), ("stats",), ("ping", 0), ("new", 1, "x"), ("acquire", 1, 0),
        ("release", 1), ("acquire_local", 1), ("release_local", 1), ("submit_acquire", 1, 0, 0), ("submit_release", 1, 0),
        ("begin_acquire", 1, 0, 0), ("begin_release", 1, 0), ("cancel", 1), ("extend", 1, 1000), ("force",), ("state", 1), ("remaining", 1), ("token", 1), ("count", 1),
        ("inspect",), ("export", 1, 600), ("adopt", 1, "x"), ("multi", "-"), ("close_gate", 1000), ("open_gate",), ("permits_set", 1),
        ("permits_add", 1), ("permits_drain",), ("permits",), ("permit", 1, 0, 33), ("latch_set", 1), ("latch_down", 1), ("latch_count",),
    ):  # fmt: skip
        answer = agent(command, "-", *words)
        assert answer.status == "INVALID_ARGUMENT" and answer.message.startswith(("no ", "a lock needs ", "a multi-lock needs ")), (command, answer)


def test_bad_input_changes_nothing_on_the_server(world: World) -> None:
    """All refused calls, and those of other owners, while somebody holds the lock."""
    lock = world.lock()
    token = lock.acquire(1, 0).ok.token
    before = world.server.command("DUMP", "the lock")
    for produce in (arguments_out_of_range, names, unknown_options, values_of_options, urls, not_in_this_build):
        assert len(list(produce(World(world.server, world.new_server, world.new_agent)))) > 1
    for command, *words in (("release", 2), ("release_local", 2), ("submit_release", 2, 0), ("begin_release", 2, 0), ("extend", 2, 5000), ("cancel", 2)):
        assert world.agent(command, lock.index, *words).status == "NOT_HELD"
    assert world.server.command("DUMP", "the lock") == before
    assert lock.state(1) == "HELD" and lock.token(1).token == token


def test_bad_input_of_the_kinds_changes_nothing_on_the_server(world: World) -> None:
    """Numbers out of range, an expired permit, a name twice, a gate with a negative time, the name of another kind."""
    server, client = world.server, world.open()
    seats, latch, lock = one(client, "semaphore", "seats", 3), client.lock("latch", kind="latch"), client.lock("mutex")
    seats.acquire(1, 0).ok
    latch.latch_set(2).ok
    lock.acquire(1, 0).ok
    permits = one(world.open(renew="false", lease_ms=200), "permit_semaphore", "permits")
    permits.acquire(1, 0).ok
    until(lambda: permits.state(1) == "LOST")
    theirs = client.lock("permits", kind="permit_semaphore")
    theirs.acquire(1, 5000).ok  # it was returned and is taken again
    before = {key: server.command("DUMP", key) for key in server.command("KEYS", "*")}
    for kind, bad, status in (
        (seats, [("permits_set", 0), ("permits_set", -1), ("permits_add", 0), ("permits_add", 2**31)], "INVALID_ARGUMENT"),
        (latch, [("latch_set", 0), ("latch_set", -1), ("latch_down", 0), ("latch_down", -1)], "INVALID_ARGUMENT"),
        (seats, [("permits_set", 9)], "UNCHANGED"), (latch, [("latch_set", 9), ("open_gate",)], "UNCHANGED"),
        (lock, [("close_gate", -1), ("close_gate", 0), ("extend", 1, -1)], "INVALID_ARGUMENT"),
        (permits, [("release", 1)], "LOST"), (permits, [("release", 1), ("release", 9)], "NOT_HELD"),
        (client.lock("mutex", kind="read"), [("acquire", 1, 0), ("force",), ("close_gate", 1000)], "WRONG_KIND"),
        (client.lock("seats", kind="fair"), [("acquire", 1, 0), ("force",), ("close_gate", 1000)], "WRONG_KIND"),
        (client.lock("mutex", kind="semaphore"), [("acquire", 1, 0), ("permits_add", 1)], "WRONG_KIND"),
    ):  # fmt: skip
        for command, *words in bad:
            answer = world.agent(command, kind.index, *words)
            assert answer.status == status, (command, words, answer)
    assert client.new_multi(lock, seats).status == "INVALID_ARGUMENT"
    assert client.new_multi(lock, client.lock("x"), lock).status == "DUPLICATE_NAME"
    assert client.new("seats", "semaphore", permits=0).status == client.new("seats", "semaphore", permits=-1).status == "INVALID_OPTION"
    assert {key: server.command("DUMP", key) for key in server.command("KEYS", "*")} == before
    assert seats.permits().value == 2 and latch.latch_count().value == 2 and theirs.permits().value == 0


# ---- no memory, no descriptors, no threads

MAY_SAY = {"OK", "WOULD_BLOCK", "OUT_OF_MEMORY", "SYSTEM_ERROR", "UNREACHABLE", "TIMED_OUT"}


class Short:
    """An agent in which the k-th call of a kind fails, for every k until no call is left to fail."""

    def __init__(self, world: World, what: str, on: int) -> None:
        self.world, self.what, self.on = world, what, on
        self.agent = world.new_agent(shim=True)
        self.seen: dict[str, int] = {}

    def each(self, call: Callable[[], Answer], before: Callable[[], Any] = lambda: None, least: int = 1) -> Iterator[Answer]:
        for k in range(1, 400):
            before()
            self.agent("shim", self.what, k, self.on)
            answer = call()
            assert answer.status in MAY_SAY, answer
            self.seen[answer.status] = self.seen.get(answer.status, 0) + 1
            yield answer
            if not answer.fired:
                assert k > least, "nothing failed"
                return
        raise AssertionError("it never gets through")

    def kinds(self) -> list[str]:
        """The open descriptors, except the pipes of the agent's own threads."""
        return sorted(name for name in self.agent.fds().values() if not name.startswith("pipe:"))

    def settled(self) -> None:
        """Nothing of the failed calls is left on the server."""
        until(lambda: not self.world.server.command("EXISTS", "the lock"))


def scenario_open(short: Short) -> None:
    for answer in short.each(lambda: short.agent.try_open(short.world.server.url, client_name="x", password="", lease_ms=1000)):
        if answer.status == "OK":
            Client(short.agent, answer.index).free().ok


def scenario_new(short: Short) -> None:
    client = short.agent.open(short.world.server)
    for answer in short.each(lambda: client.new("the lock", lease_ms=1000)):
        if answer.status == "OK":
            short.agent("drop", answer.index).ok
    client.free().ok


def scenario_first_acquire(short: Short) -> None:
    clients: list[Client] = []
    locks: list[Lock] = []

    def fresh() -> None:
        clients.append(short.agent.open(short.world.server, lease_ms=1000, watchdog_threads=2))
        locks.append(clients[-1].lock("the lock"))

    for answer in short.each(lambda: locks[-1].acquire(1, 0), fresh, least=5):
        if answer.status != "OK":
            assert locks[-1].acquire(1, 2000).status == "OK"
        locks[-1].release(1).ok
        clients[-1].close(3000).ok
        clients[-1].free(), locks[-1].drop()
        short.settled()


def scenario_acquire_and_release(short: Short) -> None:
    client = short.agent.open(short.world.server, lease_ms=1000)
    lock = client.lock("the lock")
    for wait in (0, 200):
        for answer in short.each(lambda: lock.acquire(1, wait)):
            if answer.status == "OK":
                lock.release(1).ok
            short.settled()
    for _ in short.each(lambda: lock.release(1), lambda: lock.acquire(1, 1000).ok, least=0):
        assert lock.state(1) == "NONE"
        short.settled()
    client.close(3000).ok
    client.free(), lock.drop()


def scenario_begun(short: Short) -> None:
    client = short.agent.open(short.world.server, lease_ms=1000)
    lock = client.lock("the lock")
    for answer in short.each(lambda: lock.begin_acquire(1, 1000, 5)):
        if answer.status == "OK" or (answer.status == "WOULD_BLOCK" and told(client) == "ACQUIRED"):
            lock.release(1)
        short.settled()
    for answer in short.each(lambda: lock.begin_release(1, 5), lambda: lock.acquire(1, 1000).ok, least=0):
        if answer.status == "WOULD_BLOCK":
            assert told(client) in ("RELEASED", "RELEASE_FAILED")
        assert lock.state(1) == "NONE"
        short.settled()
    client.close(3000).ok
    client.free(), lock.drop()


def scenario_submitted(short: Short) -> None:
    client = short.agent.open(short.world.server, lease_ms=1000)
    lock = client.lock("the lock")
    for answer in short.each(lambda: lock.submit_acquire(1, 1000, 5)):
        if answer.status == "OK":
            while (event := client.event()).type == "LOG":  # of an answer that found no memory
                pass
            assert event.type in ("ACQUIRED", "ACQUIRE_FAILED")
            lock.release(1)
        short.settled()
    client.close(3000).ok
    client.free(), lock.drop()


def scenario_waiting(short: Short) -> None:
    """The first wait: the subscriber connects during it."""
    foreign = short.world.lock()
    for k in range(1, 60, 3):
        client = short.agent.open(short.world.server, lease_ms=1000, safety_ms=100)
        lock = client.lock("the lock")
        foreign.acquire(1, 2000).ok
        short.agent("shim", short.what, k, short.on)
        assert lock.acquire(1, 150).status in MAY_SAY - {"OK"}
        wait = lock.start("acquire", 1, 10_000, thread=1)
        until(lambda: lock.state(1) == "WAITING")
        foreign.release(1).ok
        assert wait.answer().status == "OK"
        lock.release(1).ok
        client.close(3000).ok
        client.free(), lock.drop()


def scenario_orders(short: Short) -> None:
    client = short.agent.open(short.world.server)
    lock = client.lock("the lock")
    lock.acquire(1, 0).ok
    for call in (lock.inspect, lambda: lock.extend(1, 40_000)):
        for _ in short.each(call):
            assert lock.state(1) in ("HELD", "AT_RISK")
    grant = grant_of(lock, 1)
    for answer in short.each(lambda: lock.adopt(1, grant)):
        if answer.status == "OK":
            break
    lock.release(1).ok
    client.close(3000).ok
    client.free(), lock.drop()


def scenario_kinds(short: Short) -> None:
    """Each kind: acquire, release, submit; a failure loses nothing for good, neither on the server nor in the process."""
    server, client = short.world.server, short.agent.open(short.world.server, lease_ms=1000)
    for kind in KINDS:
        lock = one(client, kind, kind)
        before = image(server)

        def settled() -> None:
            until(lambda: image(server) == before)

        for answer in short.each(lambda: lock.acquire(1, 0), least=0):
            if answer.status == "OK":
                lock.release(1).ok
            settled()
        for answer in short.each(lambda: lock.release(1), lambda: lock.acquire(1, 1000).ok, least=0):
            assert lock.state(1) == "NONE"
            settled()
        for answer in short.each(lambda: lock.submit_acquire(1, 1000, 5)):
            if answer.status == "OK":
                assert told(client) in ("ACQUIRED", "ACQUIRE_FAILED")
                lock.release(1)
            settled()
        lock.drop()
    client.close(3000).ok
    client.free()


def told(client: Client) -> str:
    while (event := client.event()).type not in ("ACQUIRED", "ACQUIRE_FAILED", "RELEASED", "RELEASE_FAILED"):
        pass
    kind: str = event.type
    return kind


def scenario_several(short: Short) -> None:
    """Multi-locks: in one step, one after the other, and submitted."""
    server, client = short.world.server, short.agent.open(short.world.server, lease_ms=1000)
    for kinds in (["mutex", "mutex"], ["mutex", "fair"]):
        members = [client.lock(name, kind=kind) for name, kind in zip("ab", kinds)]
        lock = client.multi(*members)
        for wait in (0, 300):
            for answer in short.each(lambda: lock.acquire(1, wait)):
                if answer.status == "OK":
                    lock.release(1).ok
                assert lock.state(1) == "NONE"
                until(lambda: image(server) == {})
        for answer in short.each(lambda: lock.submit_acquire(1, 1000, 5)):
            if answer.status == "OK" and told(client) == "ACQUIRED":
                lock.release(1).ok
            until(lambda: image(server) == {})
        for answer in short.each(lambda: lock.submit_release(1, 5), lambda: lock.acquire(1, 1000).ok):
            if answer.status == "OK":
                assert told(client) in ("RELEASED", "RELEASE_FAILED")
            else:
                lock.release(1).ok
            until(lambda: image(server) == {})
        for answer in short.each(lambda: client.new_multi(*members)):
            if answer.status == "OK":
                short.agent("drop", answer.index).ok
        for handle in (lock, *members):
            handle.drop()
    client.close(3000).ok
    client.free()


SCENARIOS = [scenario_open, scenario_new, scenario_first_acquire, scenario_acquire_and_release, scenario_begun, scenario_submitted,
             scenario_waiting, scenario_orders, scenario_kinds, scenario_several]  # fmt: skip


@pytest.mark.parametrize("on", [0, 1], ids=["once", "from then on"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda function: function.__name__)
def test_no_memory(world: World, scenario: Callable[[Short], None], on: int) -> None:
    short = Short(world, "alloc", on)
    warm = short.agent.open(world.server)  # what the C library allocates for itself
    lock = warm.lock("warm")
    lock.acquire(1, 0).ok
    warm.close(3000).ok
    warm.free(), lock.drop()
    until(lambda: not short.agent.threads())
    kinds, live = short.kinds(), short.agent("live").live
    scenario(short)
    until(lambda: not short.agent.threads())
    until(lambda: short.kinds() == kinds)
    until(lambda: short.agent("live").live <= live + 8)


@pytest.mark.parametrize("what", ["thread", "eventfd", "timerfd", "random", "socket"])
def test_the_system_refuses(world: World, what: str) -> None:
    short = Short(world, what, 0)
    if what == "eventfd":
        scenario_open(short)
        assert short.seen["SYSTEM_ERROR"] > 0
    for k in range(1, 9):
        client = short.agent.open(world.server, lease_ms=1000)
        lock = client.lock("the lock")
        short.agent("shim", what, k, 0)
        answer = lock.acquire(1, 1000)
        assert answer.status in ("OK", "SYSTEM_ERROR"), answer
        assert k > 1 or answer.fired == 1
        if answer.status != "OK":
            assert lock.acquire(1, 1000).status == "OK"
        lock.release(1).ok
        client.free(), lock.drop()
    until(lambda: not short.agent.threads())


# ---- levels of options


OTHER = {"integer": "7", "bool": "false", "text": "x", "secret": "x"}
SPECIAL = {"replicas": "2", "checks": "warn", "quarantine_ms": "400000", "connects_per_second": "11", "event_limit": "17", "quorum": "3"}


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_options_that_are_not_a_locks(agent: Agent, redis_server: Server, name: str) -> None:
    """On a lock they would have no effect. They are refused, unless they repeat the value that applies anyway."""
    client = agent.open(redis_server)
    index = next(i for i in range(library.dlock_option_count()) if library.dlock_option_name(i).decode() == name)
    kind, default = (call(index).decode() for call in (library.dlock_option_type, library.dlock_option_default))
    answer = client.new("lock", **{name: SPECIAL.get(name) or OTHER[kind.split()[0]]})
    assert answer.status == "INVALID_OPTION" and answer.message == f"The option {name} belongs to the client: a lock cannot have another one."
    assert client.new("lock", **{name: default}).ok and client.counters()["locks"] == 1


def test_an_option_of_a_name(agent: Agent, redis_server: Server) -> None:
    """The first handle's value applies to all handles, until the last one is freed."""
    client = agent.open(redis_server, lease_ms=30_000)
    first = client.lock("lock", lock_delay_ms=20_000)
    second = client.lock("lock")
    second.acquire(1, 0).ok
    assert redis_server.command("PTTL", "lock") > 30_000
    second.release(1).ok
    first.drop().ok, second.drop().ok
    client.lock("lock").acquire(1, 0).ok
    assert redis_server.command("PTTL", "lock") <= 30_000


# ---- calls without an answer


def test_a_submitted_try_on_a_silent_server(agent: Agent, redis_server: Server) -> None:
    """No known holder, so the status is not BUSY. Also when an exchange for another caller is in flight already."""
    client = agent.open(redis_server, command_timeout_ms=100, connect_timeout_ms=100)
    lock, other = client.lock("lock"), client.lock("other")
    client.ping(1000).ok
    redis_server.pause()
    try:
        lock.submit_acquire(1, 0, 10).ok
        lock.submit_acquire(2, 0, 20).ok
        other.submit_acquire(3, 0, 30).ok
        told = {(event := client.event()).tag: event for _ in range(3)}
    finally:
        redis_server.resume()
    assert {tag: library.dlock_status_name(event.status).decode() for tag, event in told.items()} == {10: "UNREACHABLE", 20: "BUSY", 30: "UNREACHABLE"}


def test_a_holder_that_is_the_password(new_server: Callable[..., Server], agent: Agent) -> None:
    """Another client of the same user put it there; an inspection shows it to others."""
    server = new_server()
    server.command("ACL", "SETUSER", "me", "on", f">{SECRET}", "~*", "&*", "+@all")
    server.command("HSET", "job", f"{SECRET}:1", 1)
    answer = agent.open(f"redis://me:{SECRET}@{server.host}:{server.port}").lock("job").inspect().ok
    assert "***" in str(answer.event) and SECRET not in str(answer.event)
