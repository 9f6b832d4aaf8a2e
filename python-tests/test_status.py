"""Every status of the exported table is reached, with a sentence that names lock and server; bad input; no memory."""
from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer, Client, Lock, until
from harness.build import LIBRARY, ROOT, SANITIZED
from harness.fake import FakeServer
from harness.server import Server

SECRET = "s3cret-canary"
needs_shim = pytest.mark.skipif(SANITIZED, reason="a sanitizer has its own allocator")

library = ctypes.CDLL(str(LIBRARY))
library.dlock_status_name.restype = library.dlock_status_text.restype = ctypes.c_char_p
TABLE = [library.dlock_status_name(library.dlock_status_at(index)).decode() for index in range(library.dlock_status_count())]


class World:
    """What a row of the table needs; servers of its own are made by new_server."""

    def __init__(self, server: Server, new_server: Callable[..., Server], new_agent: Callable[..., Agent]) -> None:
        self.server, self.new_server, self.new_agent = server, new_server, new_agent
        self.agent = new_agent()

    def open(self, where: Any = None, **options: Any) -> Client:
        return self.agent.open(where or self.server, **options)

    def lock(self, where: Any = None, **options: Any) -> Lock:
        """A lock named "the lock" on the server, its client has the options."""
        return self.open(where, **options).lock("the lock")


@pytest.fixture
def world(redis_server: Server, new_server: Callable[..., Server], new_agent: Callable[..., Agent]) -> World:
    return World(redis_server, new_server, new_agent)


# ---- how each status comes about: (status, function); those marked "lock" must name it and the server

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
    grant = lock.export(1, 600).ok.grant
    lock.acquire(1, 0), lock.acquire(1, 0)
    yield lock.export(1, 600)
    yield lock.agent("adopt", lock.index, 2, bytes.fromhex(grant.replace("%", "")))


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


@way("INVALID_ARGUMENT", "call")
def arguments_out_of_range(world: World) -> Iterator[Answer]:
    client = world.open()
    lock = client.lock("the lock")
    for command, *words in (
        ("acquire", -1, 0), ("acquire", 1, -2), ("release", -1), ("acquire_local", -1), ("release_local", -1),
        ("submit_acquire", -1, 0, 0), ("submit_acquire", 1, -2, 0), ("submit_release", -1, 0), ("cancel", -1),
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


@way("INVALID_NAME", "call")
def names(world: World) -> Iterator[Answer]:
    client = world.open()
    for name in ("", "x" * 1025, "x" * 65 * 1024, b"a\0b", b"\0", "{", "}", "{}", "a{}b", "a}b{c}", "{}{a}", "}{", "{a"):
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
        if answer.status not in ("OK", "UNKNOWN_OPTION"):  # a few are a matter of taste
            yield answer


@way("UNSUPPORTED", "call")
def not_in_this_build(world: World) -> Iterator[Answer]:
    client = world.open()
    for kind in (0, 2, -1, 1 << 30):
        yield client.new("x", kind)
    if not library.dlock_supports(b"cluster"):
        yield world.agent.try_open("redis+cluster://h:1")


@way("CLOSED")
def after_close(world: World) -> Iterator[Answer]:
    client = world.open()
    lock = client.lock("the lock")
    lock.acquire(1, 0).ok
    client.close(1000).ok
    yield client.new("other")
    yield lock.acquire(1, 0)
    yield lock.acquire(1, -1)
    yield lock.release(1)
    yield client.ping(100)
    yield lock.submit_acquire(1, 0, 0)
    yield lock.inspect()
    yield lock.force()


@way("FORKED", "server")
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


@way("SYSTEM_ERROR", "call")
def no_descriptors(world: World) -> Iterator[Answer]:
    world.agent("nofile", 6)
    yield until(lambda: next((a for a in (world.agent.try_open(world.server.url) for _ in range(8)) if a.number), None))


@way("NOT_HELD")
def a_stranger(world: World) -> Iterator[Answer]:
    lock = world.lock()
    yield lock.release(1)
    lock.acquire(1, 0).ok
    for command, *words in (
        ("release", 2), ("release_local", 2), ("submit_release", 2, 0), ("remaining", 2), ("token", 2), ("extend", 2, 5000),
        ("cancel", 1), ("cancel", 2), ("export", 2, 600), ("release", 0),
    ):  # fmt: skip
        yield world.agent(command, lock.index, *words)
    assert lock.state(1) == "HELD"
    lock.release(1).ok
    yield lock.force()


@way("LOST")
def a_grant_that_is_lost(world: World) -> Iterator[Answer]:
    lock = world.lock(renew="false", lease_ms=200)
    lock.acquire(1, 0).ok
    until(lambda: lock.state(1) == "LOST")
    for command, *words in ("remaining", 1), ("token", 1), ("extend", 1, 5000), ("export", 1, 600), ("release", 1):
        yield world.agent(command, lock.index, *words)
    lock.acquire(1, 1000).ok
    grant = bytes.fromhex(lock.export(1, 600).ok.grant.replace("%", ""))
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
    grant = bytes.fromhex(lock.export(1, 600).ok.grant.replace("%", ""))
    for bad in (b"", b"x", b"dlock1", b"dlock1 ", b"dlock1 1 1 x the lock", grant[:-1], grant + b"x", b"dlock2" + grant[6:],
                b"dlock1 0 1000 x:1 the lock", b"dlock1 -1 1000 x:1 the lock", b"dlock1 1 99999999999 x:1 the lock", grant * 9,
                b"dlock1 99999999999999999999 1000 x:1 the lock", b"\0" * 600, b"dlock1 1 1000 " + b"x" * 400 + b" the lock"):  # fmt: skip
        yield lock.adopt(2, bad)
    assert other.adopt(2, grant).status == "INVALID_GRANT"
    assert lock.adopt(2, grant).ok.token > 0


@way("UNREACHABLE")
def nobody_there(world: World) -> Iterator[Answer]:
    yield world.lock("redis://127.0.0.1:1").acquire(1, 0)
    yield world.lock("redis+unix:///nowhere/at/all").acquire(1, 0)
    yield world.lock("redis://name.invalid:1").acquire(1, 0)
    yield world.open("redis://127.0.0.1:1").ping(500)
    lock = world.lock("redis://127.0.0.1:1")
    yield lock.force()
    yield lock.inspect()
    yield lock.acquire(1, 100)


@way("UNREACHABLE")
def a_server_that_says_nothing(world: World) -> Iterator[Answer]:
    server = world.new_server()
    lock = world.lock(server, command_timeout_ms=100, lease_ms=1000)
    lock.acquire(1, 0).ok
    server.pause()
    yield lock.extend(1, 5000)
    yield lock.force()
    yield lock.inspect()
    yield lock.acquire(2, 0)
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
        assert lock.agent("ping", lock.index, 500) if False else True


@way("SERVER_LOADING")
def a_server_that_loads(world: World) -> Iterator[Answer]:
    server = world.new_server()
    lock = world.lock(server)
    server.command("EVAL", "for i = 1, 3000 do redis.call('SET', 'key' .. i, i) end", 0)
    server.command("CONFIG", "SET", "key-load-delay", 2000, "loading-process-events-interval-bytes", 1024)
    with server.client(30) as redis:
        redis.send("DEBUG", "RELOAD")
        yield until(lambda: next((a for a in [lock.acquire(1, 0)] if a.status not in ("OK", "UNREACHABLE") or lock.release(1) is None), None))
        yield lock.acquire(1, 0)
        yield lock.inspect()
        server.process.kill() if server.process else None


@way("SERVER_BUSY")
def a_server_in_a_script(world: World) -> Iterator[Answer]:
    server = world.new_server("--busy-reply-threshold", "20")
    lock = world.lock(server)
    lock.acquire(1, 0).ok
    with server.client() as redis:
        redis.send("EVAL", "while true do end", 0)
        answer = until(lambda: next((a for a in [lock.inspect()] if a.status != "UNREACHABLE" and a.number), None))
        yield answer
        yield lock.force()
        with server.client() as other:
            other.command("SCRIPT", "KILL")
    lock.release(1).ok


@way("SERVER_BUSY")
def a_server_with_too_many_clients(world: World) -> Iterator[Answer]:
    server = world.new_server("--maxclients", "1")
    with server.client() as redis:
        redis.command("PING")
        yield world.lock(server).acquire(1, 0)


@way("SERVER_OUT_OF_MEMORY")
def a_full_server(world: World) -> Iterator[Answer]:
    server = world.new_server("--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
    lock = world.lock(server)
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 500)
    assert server.command("DBSIZE") == 0


@way("SERVER_READ_ONLY")
def a_replica(world: World) -> Iterator[Answer]:
    server = world.new_server()
    server.command("REPLICAOF", "127.0.0.1", 1)
    lock = world.lock(server)
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 500)
    yield lock.force()


@way("PROTOCOL_ERROR")
def not_redis(world: World) -> Iterator[Answer]:
    with FakeServer() as fake:
        for reply in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*2\r\n:1\r\n", b":1\r\n", b"$-1\r\n", b"*0\r\n", b"+OK\r\n"):
            fake.on("EVALSHA", reply)
            if reply != b"*2\r\n:1\r\n":  # which is not complete
                yield world.lock(fake).acquire(1, 0)
                yield world.lock(fake).inspect()


@way("SERVER_ERROR")
def a_server_without_scripts(world: World) -> Iterator[Answer]:
    server = world.new_server("--rename-command", "EVALSHA", "")
    lock = world.lock(server)
    yield lock.acquire(1, 0)
    yield lock.acquire(1, 500)
    yield lock.inspect()


@way("OUT_OF_MEMORY", "call")
@needs_shim
def no_memory(world: World) -> Iterator[Answer]:
    agent = world.new_agent(shim=True)
    agent("shim", "alloc", 1, 1)
    yield agent.try_open(world.server.url)


@pytest.mark.parametrize("status, about, produce", WAYS, ids=[f"{row[0]}-{row[2].__name__}" for row in WAYS])
def test_way(world: World, status: str, about: str, produce: Callable[[World], Iterator[Answer]]) -> None:
    if SANITIZED and status == "OUT_OF_MEMORY":
        pytest.skip("a sanitizer has its own allocator")
    answers = 0
    for answer in produce(world):
        answers += 1
        assert answer.status == status, answer
        assert SECRET not in answer.message
        if status == "OK":
            continue
        assert answer.message and "\n" not in answer.message
        if about == "lock":
            assert "127.0.0.1" in answer.message or "redis.sock" in answer.message or "nowhere" in answer.message or "invalid" in answer.message, answer
    assert answers > 0


def test_every_status_has_a_way() -> None:
    assert sorted({status for status, _, _ in WAYS}) == sorted(TABLE)


def test_retryable_is_what_the_table_says(world: World) -> None:
    lock = world.lock()
    lock.acquire(1, 0).ok
    assert lock.acquire(2, 0).retryable == 1
    assert lock.release(2).retryable == 0
