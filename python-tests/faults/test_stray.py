"""A request that its own undo overtakes: it was given up, its id was released, and then it reaches the server. It gets nothing."""
from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import mutants
import pytest

from harness.agent import Client, Lock, until
from harness.build import BUILD, ROOT
from harness.kinds import KINDS, sides
from harness.proxy import Proxy
from harness.resp import Client as Redis
from harness.steps.scripts import SHA, runs, teach
from harness.server import Server
from harness.steps.wire import LINE, TRY, Who, Wire

Make = Callable[..., Any]
ALL = ["mutex", *KINDS]
FAST = {"connects_per_second": 1000, "command_timeout_ms": 300, "lease_ms": 60_000}
STEM = {"mutex": "", "semaphore": "semaphore_", "permit_semaphore": "permit_"}


def stem(kind: str, what: str) -> str:
    return STEM.get(kind, kind + "_") + what


def given_up(server: Server, proxy: Proxy, lock: Lock, kind: str, wait: int = 0) -> Any:
    """An acquire that the proxy holds back until the server has run the undo of its id. Returns the gate that lets it go."""
    gate = proxy.up.pause_at(SHA[stem(kind, "acquire")])
    undo = proxy.up.on(SHA[stem(kind, "release")])
    before = runs(server)
    answer = lock.acquire(1, wait)
    assert answer.status in ("UNREACHABLE", "TIMED_OUT"), answer
    gate.wait(0)
    undo.wait()
    until(lambda: runs(server) > before)
    assert lock.state(1) == "NONE"
    return gate


def let_go(server: Server, gate: Any) -> None:
    """Lets the request go on; returns when the server has run it."""
    before = runs(server)
    gate.open()
    until(lambda: runs(server) > before)


def stray(server: Server, proxy: Proxy, client: Client, other: Client, kind: str) -> None:
    mine, theirs = sides(client, other, kind)
    for lock in (mine, theirs):  # make connections and keys
        lock.acquire(1, 0).ok
        lock.release(1).ok
    gate = given_up(server, proxy, mine, kind)
    let_go(server, gate)
    theirs.acquire(1, 0).ok
    theirs.release(1).ok
    mine.acquire(1, 5000).ok  # later numbers of the client get grants
    mine.release(1).ok
    theirs.acquire(1, 0).ok


@pytest.mark.parametrize("kind", ALL)
def test_it_gets_nothing(redis_server: Server, new_agent: Make, new_proxy: Make, kind: str) -> None:
    teach(redis_server)
    proxy = new_proxy(redis_server)
    stray(redis_server, proxy, new_agent().open(proxy, **FAST), new_agent().open(redis_server, lease_ms=60_000), kind)


@pytest.mark.parametrize("kind", ALL)
def test_a_full_server(new_server: Make, new_agent: Make, new_proxy: Make, kind: str) -> None:
    """The undo works on a full server. When there is room again the request gets nothing."""
    server = new_server()
    teach(server)
    proxy = new_proxy(server)
    client, other = new_agent().open(proxy, **FAST), new_agent().open(server, lease_ms=60_000)
    mine, theirs = sides(client, other, kind)
    mine.acquire(1, 0).ok
    mine.release(1).ok
    server.command("CONFIG", "SET", "maxmemory", 1)
    gate = given_up(server, proxy, mine, kind)
    server.command("CONFIG", "SET", "maxmemory", 0)
    let_go(server, gate)
    theirs.acquire(1, 0).ok


def test_who_would_wait_in_line(redis_server: Server, new_agent: Make, new_proxy: Make) -> None:
    """It does not join the line either, where the next release would grant it the lock."""
    teach(redis_server)
    proxy = new_proxy(redis_server)
    mine, theirs = new_agent().open(proxy, **FAST).lock("lock"), new_agent().open(redis_server, lease_ms=60_000).lock("lock")
    theirs.acquire(1, 0).ok
    gate = given_up(redis_server, proxy, mine, "mutex", wait=250)
    let_go(redis_server, gate)
    assert redis_server.command("ZCARD", "dlock_queue:{lock}") == 0
    theirs.release(1).ok
    theirs.acquire(1, 0).ok


def test_several_locks_at_once(redis_server: Server, new_agent: Make, new_proxy: Make) -> None:
    teach(redis_server)
    proxy = new_proxy(redis_server)
    client = new_agent().open(proxy, **FAST)
    multi = client.multi(*(client.lock(name + "{x}") for name in "abc"))
    multi.acquire(1, 0).ok
    multi.release(1).ok
    gate = proxy.up.pause_at(SHA["multi_acquire"])
    before = runs(redis_server)
    assert multi.acquire(1, 0).status == "UNREACHABLE"
    until(lambda: runs(redis_server) == before + 3)
    assert multi.state(1) == "NONE"
    let_go(redis_server, gate)
    assert redis_server.command("EXISTS", *(name + "{x}" for name in "abc")) == 0


# ---- tombstones on the server


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Redis]:
    with redis_server.client() as client:
        yield client


def bury(wire: Wire, id: str) -> None:
    wire.run("release", id, wire.channel, 0, 0, 1)


def test_one_field_per_client(redis_server: Server, redis: Redis) -> None:
    """It has the client's highest number, and lasts two minutes; later numbers are granted."""
    wire, first = Wire(redis), Who(redis_server)
    second = first.again()
    third = second.again()
    bury(wire, second.id)
    bury(wire, first.id)
    field, value = redis.command("HGETALL", wire.about)
    assert field == b"dlock_tombstone:" + first.uuid.encode() and int(value.split()[0]) == second.number
    assert 115_000 < redis.command("PTTL", wire.about) <= 120_000
    for mode in (TRY, LINE):
        assert wire.acquire(first, mode) == wire.acquire(second, mode) == [0, -1, 0]
    assert wire.queue() == [] and wire.acquire(third)[0] == 1


def test_outlived_fields_go(redis_server: Server, redis: Redis) -> None:
    """When there are more than a thousand, a few at a time; fields of live clients and of waiters stay."""
    wire, holds, waits = Wire(redis), Who(redis_server), Who(redis_server)
    wire.acquire(holds)
    wire.acquire(waits, LINE)
    for number in range(1100):
        redis.command("HSET", wire.about, f"dlock_tombstone:{number:036}", f"7 {1 if number < 100 else 10**14}")
    for number in range(1100, 2100):
        bury(wire, f"{number:036}:7")
    fields = set(redis.command("HKEYS", wire.about))
    assert fields >= {b"dlock_tombstone:%036d" % number for number in range(100, 2100)} | {waits.raw}
    assert len(fields) < 2050 and not fields & {b"dlock_tombstone:%036d" % number for number in range(50)}


@pytest.mark.house
def test_mutant_that_buries_nothing(redis_server: Server, new_agent: Make, new_proxy: Make, tmp_path: pathlib.Path) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutants.STRAY))
    teach(redis_server)
    proxy = new_proxy(redis_server)
    client = new_agent(LD_PRELOAD=library).open(proxy, **FAST)
    with pytest.raises(AssertionError):
        stray(redis_server, proxy, client, new_agent().open(redis_server, lease_ms=60_000), "mutex")
