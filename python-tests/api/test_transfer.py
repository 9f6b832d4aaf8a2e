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
from harness.resp import parse
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


@pytest.mark.parametrize("token", [0, 5, 2**53 - 2, 2**53, 10**16, 10**17 - 1, 10**30])
def test_another_token(new_agent: Make, redis_server: Server, token: int) -> None:
    """The bytes are refused; the grant itself stays valid."""
    giver, taker = (new_agent().open(redis_server).lock("lock", lease_ms=20_000) for _ in range(2))
    grant = given(giver)
    assert taker.adopt(1, b" ".join([b"dlock2", b"%d" % token, *grant.split(b" ")[2:]])).status == "INVALID_GRANT"
    assert taker.adopt(1, grant).ok.token == int(grant.split()[1])


@pytest.fixture(params=["one server", "cluster", "quorum", "memory"])
def anywhere(request: pytest.FixtureRequest, redis_server: Server) -> Iterator[Any]:
    """The URL or the servers of the locks. In memory all clients are of one process."""
    if request.param == "cluster":
        with Cluster(3) as cluster:
            yield cluster
    elif request.param == "quorum":
        with Quorum() as quorum:
            yield quorum
    else:
        yield redis_server if request.param == "one server" else "memory://transfer"


def test_every_byte_counts(new_agent: Make, anywhere: Any) -> None:
    """No altered grant is adopted; the grant itself stays valid, and works once."""
    agent = new_agent()
    giver, taker, third = (agent.open(anywhere, connects_per_second=1000).lock("lock", lease_ms=60_000) for _ in range(3))
    grant = given(giver)
    altered = {bytes(grant[:at]) + bytes([byte]) + bytes(grant[at + 1 :]) for at in range(len(grant)) for byte in (grant[at] ^ 1, ord("0"), ord(" "))}
    altered |= {grant[:at] + grant[at + 1 :] for at in range(len(grant))} | {grant[:at] + b"0" + grant[at:] for at in range(len(grant))}
    altered -= {grant}
    said = {one: taker.adopt(1, one).status for one in sorted(altered)}
    assert set(said.values()) <= {"INVALID_GRANT", "LOST"}, said
    assert set(status for one, status in said.items() if one.split(b" ")[3:4] == grant.split(b" ")[3:4]) == {"INVALID_GRANT"}
    assert taker.state(1) == "NONE" and giver.acquire(1, 0).status == "BUSY"
    assert taker.adopt(1, grant).ok.token == int(grant.split()[1])
    assert third.adopt(1, grant).status == giver.adopt(1, grant).status == "LOST"
    taker.release(1).ok


def test_submitted(new_agent: Make, anywhere: Any) -> None:
    """The event of the export has the bytes, and no token. A second export finds nothing, and its event has none."""
    client = new_agent().open(anywhere)
    giver, taker = client.lock("lock", lease_ms=60_000), new_agent().open(anywhere).lock("lock") if not isinstance(anywhere, str) else None
    until(lambda: giver.acquire(1, 0).status == "OK")
    token = giver.token(1).ok.token
    giver.submit("export", 7, 1).ok
    event = client.event()
    assert (event.tag, event.status, event.token, giver.state(1)) == (7, 0, -1, "NONE") and int(event.data.split()[1]) == token
    answer = giver.submit("export", 8, 1)
    assert answer.status == "NOT_HELD"
    assert (taker or giver).adopt(1, event.data).ok.token == token


def test_what_an_inspection_shows_does_not_help(new_agent: Make, anywhere: Any) -> None:
    """Neither against a holder, nor against the next one after an export."""
    agent = new_agent()
    holder, thief = (agent.open(anywhere).lock("lock", lease_ms=60_000) for _ in range(2))
    until(lambda: holder.acquire(1, 0).status == "OK")
    for secret in (b"", b"0" * 32 + b" "):
        shown = thief.inspect().ok.event
        forged = b"dlock2 %d 60000 %s %slock" % (shown.token, shown.text.encode(), secret)
        assert thief.adopt(1, forged).status in ("INVALID_GRANT", "LOST") and thief.state(1) == "NONE"
    assert holder.state(1) == "HELD"
    grant = holder.export(1, 600).ok.grant
    shown = thief.inspect().ok.event
    forged = b"dlock2 %d 60000 %s %s lock" % (shown.token, shown.text.encode(), b"0" * 32)
    assert thief.adopt(1, forged).status == "INVALID_GRANT"
    assert thief.adopt(1, bytes.fromhex(grant.replace("%", ""))).ok.token == int(bytes.fromhex(grant.replace("%", "")).split()[1])


def test_one_server_of_many_refuses(new_agent: Make) -> None:
    """It says that a later offer stands. The others are most, so that counts neither for the export nor for the adoption."""
    with Quorum() as quorum:
        agent = new_agent()
        giver, taker = (agent.open(quorum).lock("lock", lease_ms=60_000) for _ in range(2))
        until(lambda: giver.acquire(1, 0).status == "OK")
        until(lambda: quorum.held("lock") == 5)
        holder = quorum.holders("lock")[0]
        assert holder
        quorum.nodes[0].command("HSET", "dlock_waiters:{lock}", "dlock_export", holder + b" %d 1 60000 ab" % 2**52)
        grant = bytes.fromhex(giver.export(1, 600).ok.grant.replace("%", ""))
        assert taker.adopt(1, grant).ok.token == int(grant.split()[1])


def test_the_server_does_not_keep_the_secret(new_agent: Make, redis_server: Server) -> None:
    """Only a hash of it, in one field, which ends with the grant or with the next export."""
    lock = new_agent().open(redis_server).lock("lock", lease_ms=600)
    for _ in range(3):
        grant = given(lock)
        kept = redis_server.command("HGETALL", "dlock_waiters:{lock}")
        assert grant.split()[4] not in b" ".join(kept) and kept.count(b"dlock_export") == 1
        lock.adopt(1, grant).ok
        lock.release(1).ok


def test_an_export_that_is_not_confirmed(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server) -> None:
    """The owner holds on, and a later export counts. What was sent for the first one does not, however late it comes."""
    teach(redis_server)
    proxy = new_proxy(redis_server)
    giver = new_agent().open(proxy.url, command_timeout_ms=500, connects_per_second=1000).lock("lock", lease_ms=20_000)
    taker = new_agent().open(redis_server).lock("lock", lease_ms=20_000)
    giver.acquire(1, 0).ok
    gate = proxy.up.pause_at(SHA["export"])
    assert giver.export(1, 600).status == "UNREACHABLE" and giver.state(1) == "HELD"
    gate.wait(0)
    while (answer := giver.export(1, 600)).status == "UNREACHABLE":
        assert giver.state(1) == "HELD"
    grant = bytes.fromhex(answer.ok.grant.replace("%", ""))
    before = runs(redis_server)
    gate.open()
    until(lambda: runs(redis_server) > before)
    assert giver.state(1) == "NONE" and taker.adopt(1, grant).ok.token == int(grant.split()[1])


def late_copy(new_agent: Make, new_proxy: Callable[..., Proxy], server: Server, library: str = "") -> None:
    """A copy of the request that acquired arrives when the lock was exported, adopted and released elsewhere."""
    teach(server)
    proxy, sent = new_proxy(server), []
    proxy.up.on(SHA["acquire"], lambda _link, data: sent.append(data))
    giver = new_agent(**{"LD_PRELOAD": library} if library else {}).open(proxy).lock("lock", lease_ms=20_000)
    taker, last = (new_agent().open(server).lock("lock", lease_ms=20_000) for _ in range(2))
    grant = given(giver)
    taker.adopt(1, grant).ok
    words, _ = parse(sent[-1], 0)
    server.command(*words)
    assert server.command("HKEYS", "lock") != [grant.split()[3]] and server.command("ZCARD", "dlock_queue:{lock}") == 0
    taker.release(1).ok
    server.command(*words)
    assert server.command("EXISTS", "lock") == 0
    last.acquire(1, 0).ok


def test_an_acquire_that_comes_after_the_adoption(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server) -> None:
    """It gets nothing, and does not stand in line."""
    late_copy(new_agent, new_proxy, redis_server)


@pytest.mark.house
def test_mutant_that_forgets_the_number(new_agent: Make, new_proxy: Callable[..., Proxy], redis_server: Server, tmp_path: pathlib.Path) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutants.EXPORT))
    with pytest.raises(AssertionError):
        late_copy(new_agent, new_proxy, redis_server, library)


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
