"""Grants that one process exports: whoever adopts one first has it, and nobody else."""
from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import mutants
import pytest

from harness.agent import Agent, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster
from harness.proxy import Proxy
from harness.quorum import Quorum
from harness.steps.scripts import SHA, runs, teach
from harness.server import Server

Make = Callable[..., Agent]


def given(lock: Lock, owner: int = 1) -> bytes:
    """A grant that is acquired and exported. A busy replica may be late with its answer."""
    until(lambda: lock.acquire(owner, 0).status != "NOT_REPLICATED")
    assert lock.state(owner) == "HELD"
    return bytes.fromhex(lock.export(owner, 600).ok.grant.replace("%", ""))


@pytest.fixture(params=["one server", "replica", "cluster", "quorum"])
def place(request: pytest.FixtureRequest, new_server: Callable[..., Server]) -> Iterator[tuple[Any, dict[str, Any], int]]:
    """The servers of the locks, options, and how many adopters may compete so that one always wins."""
    if request.param == "cluster":
        with Cluster(3) as cluster:
            yield cluster, {}, 4
    elif request.param == "quorum":
        with Quorum() as quorum:
            yield quorum, {}, 2
    else:
        server = new_server()
        if request.param == "replica":
            new_server("--replicaof", f"127.0.0.1 {server.port}")
            server.command("SET", "replicated", 1)
            until(lambda: server.command("WAIT", 1, 1000) == 1)
        yield server, {"replicas": 1} if request.param == "replica" else {}, 4


def test_one_gets_it(place: tuple[Any, dict[str, Any], int], new_agent: Make) -> None:
    """On a quorum it may be that none gets it, see docs/kinds.md."""
    where, options, count = place
    quorum, won = isinstance(where, Quorum), 0
    giving = new_agent().open(where, **options)
    taking = [new_agent().open(where, **options) for _ in range(count)]
    for round in range(10):
        giver, *takers = (client.lock(f"lock {round}", lease_ms=20_000) for client in (giving, *taking))
        grant = given(giver)
        tries = [lock.start("adopt", 1, grant) for lock in takers]
        answers = [one.answer() for one in tries]
        statuses = sorted(answer.status for answer in answers)
        if quorum and statuses == ["LOST"] * count:  # one of its five servers was late with the grant, and two go to each
            continue
        won += 1
        assert statuses == ["LOST"] * (count - 1) + ["OK"]
        assert sorted(lock.state(1) for lock in takers) == ["HELD"] + ["NONE"] * (count - 1)
        winner = [answer.status for answer in answers].index("OK")
        assert all(f"lock 'lock {round}' at " in answer.message for answer in answers if answer.status != "OK")
        assert answers[winner].token == int(grant.split()[1]) and giver.acquire(1, 0).status == "BUSY"
        takers[winner].release(1).ok
        assert [lock.adopt(1, grant).status for lock in takers] == ["LOST"] * count
    assert won >= 5


def test_from_hand_to_hand(new_agent: Make, redis_server: Server) -> None:
    """Only the last grant of a chain is valid, and it is renewed."""
    locks = [new_agent().open(redis_server).lock("lock", lease_ms=600) for _ in range(3)]
    grants = [given(locks[0])]
    token = int(grants[0].split()[1])
    for turn in range(1, 7):
        lock = locks[turn % 3]
        assert lock.adopt(1, grants[-1]).ok.token == token
        holder = redis_server.command("HKEYS", "lock")
        until(lambda: redis_server.command("PTTL", "lock") > 500)
        assert redis_server.command("HKEYS", "lock") == holder and lock.state(1) == "HELD"
        grants.append(bytes.fromhex(lock.export(1, 600).ok.grant.replace("%", "")))
        assert [locks[0].adopt(2, grant).status for grant in grants[:-1]] == ["LOST"] * turn
    assert len(set(grants)) == 7
    assert locks[0].adopt(1, grants[-1]).ok.token == token
    locks[0].release(1).ok
    assert redis_server.command("EXISTS", "lock") == 0


def undone(server: Server, giver: bytes) -> None:
    """The grant belongs to its giver again."""
    until(lambda: server.command("HKEYS", "lock") == [giver])


@pytest.mark.parametrize("next_one", ["the same", "another"])
def test_an_answer_is_lost(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server, next_one: str) -> None:
    """The answer never comes: the adoption is undone in the background, and whoever has the bytes may adopt the grant."""
    teach(redis_server)
    proxy = new_proxy(redis_server)
    client = new_agent().open(proxy.url, command_timeout_ms=500, connects_per_second=1000)
    giver, other = (new_agent().open(redis_server).lock("lock", lease_ms=20_000) for _ in range(2))
    taker = client.lock("lock", lease_ms=20_000)
    grant = given(giver)
    hook = proxy.lose_reply(SHA["adopt"], None)
    assert taker.adopt(1, grant).status in ("UNREACHABLE", "UNKNOWN_OUTCOME")
    hook.wait()
    assert taker.state(1) == "NONE"
    undone(redis_server, grant.split()[3])
    hook.times = hook.count
    heir = taker if next_one == "the same" else other
    until(lambda: heir.adopt(1, grant).status == "OK")
    assert heir.state(1) == "HELD" and heir.token(1).ok.token == int(grant.split()[1])
    heir.release(1).ok
    assert redis_server.command("EXISTS", "lock") == 0 and taker.adopt(1, grant).status == "LOST"


@pytest.mark.house
def test_mutant_without_undo(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server, tmp_path: pathlib.Path) -> None:
    teach(redis_server)
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutants.DISOWN))
    proxy = new_proxy(redis_server)
    giver = new_agent().open(redis_server).lock("lock", lease_ms=20_000)
    taker = new_agent(LD_PRELOAD=library).open(proxy.url, command_timeout_ms=500).lock("lock", lease_ms=20_000)
    grant = given(giver)
    proxy.lose_reply(SHA["adopt"], None)
    taker.adopt(1, grant)
    with pytest.raises(AssertionError):
        undone(redis_server, grant.split()[3])


def test_tries_while_the_undo_cannot_come_through(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server) -> None:
    """A try may take over from an earlier one. Another grant is not adopted in between. Nobody else has the lock."""
    teach(redis_server)
    proxy = new_proxy(redis_server)
    giver, other = (new_agent().open(redis_server).lock("lock", lease_ms=20_000) for _ in range(2))
    taker = new_agent().open(proxy.url, command_timeout_ms=500, connects_per_second=1000).lock("lock", lease_ms=20_000)
    grant = given(giver)
    undo = proxy.up.cut_at(SHA["disown"], times=None)
    lost = proxy.lose_reply(SHA["adopt"], None)
    for _ in range(3):
        assert taker.adopt(1, grant).status in ("UNREACHABLE", "UNKNOWN_OUTCOME") and taker.state(1) == "NONE"
        assert other.adopt(1, grant).status == "LOST" and other.acquire(1, 0).status == "BUSY"
        assert taker.adopt(1, grant.replace(b":", b":1")).status == "BUSY"
    undo.wait()
    lost.times = lost.count
    answer = taker.adopt(1, grant)
    while answer.status in ("UNREACHABLE", "UNKNOWN_OUTCOME"):  # an undo that is cut takes the connection of the try with it
        answer = taker.adopt(1, grant)
    assert answer.ok.token == int(grant.split()[1]) and taker.state(1) == "HELD"
    undo.times = undo.count
    taker.release(1).ok
    until(lambda: redis_server.command("EXISTS", "lock") == 0)


def test_a_request_that_comes_after_its_undo(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server) -> None:
    """It adopts nothing."""
    teach(redis_server)
    proxy = new_proxy(redis_server)
    giver, other = (new_agent().open(redis_server).lock("lock", lease_ms=20_000) for _ in range(2))
    taker = new_agent().open(proxy.url, command_timeout_ms=500, connects_per_second=1000).lock("lock", lease_ms=20_000)
    grant = given(giver)
    gate, undo, before = proxy.up.pause_at(SHA["adopt"]), proxy.up.on(SHA["disown"]), runs(redis_server)
    assert taker.adopt(1, grant).status == "UNREACHABLE"
    gate.wait(0)
    undo.wait()
    until(lambda: runs(redis_server) > before)
    before = runs(redis_server)
    gate.open()
    until(lambda: runs(redis_server) > before)
    assert redis_server.command("HKEYS", "lock") == [grant.split()[3]]
    other.adopt(1, grant).ok


@pytest.mark.parametrize("token", [0, 2**53, 10**16, 10**17 - 1, 10**30])
def test_a_token_that_is_none(new_agent: Make, redis_server: Server, token: int) -> None:
    """The bytes are refused, even if the server would accept the owner; the grant itself stays valid."""
    giver, taker = (new_agent().open(redis_server).lock("lock", lease_ms=20_000) for _ in range(2))
    grant = given(giver)
    assert taker.adopt(1, b" ".join([b"dlock1", b"%d" % token, *grant.split(b" ")[2:]])).status == "INVALID_GRANT"
    assert taker.adopt(1, grant).ok.token == int(grant.split()[1])


def test_a_full_server(new_agent: Make, new_server: Callable[..., Server]) -> None:
    """It accepts nothing new; existing grants may change hands."""
    server = new_server()
    giver, taker = (new_agent().open(server).lock("lock", lease_ms=20_000) for _ in range(2))
    grant = given(giver)
    server.command("CONFIG", "SET", "maxmemory", 1)
    taker.adopt(1, grant).ok
    assert taker.state(1) == "HELD"
    taker.release(1).ok
    assert server.command("EXISTS", "lock") == 0
