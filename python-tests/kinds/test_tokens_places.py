"""Fencing tokens after a loss of memory, in every setup, and the answer of every kind when a token would fall. docs/fencing.md.

A loss: a server comes back with less data; its clock goes on. After it the next token of libdlock is above all earlier ones:
of every kind, of turns in memory, of adopted grants, and beside RFencedLock, which counts on the same key.
"""
from __future__ import annotations

import contextlib
import pathlib
import time
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.agent import Agent, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster
from harness.kinds import KINDS, one
from harness.quorum import Quorum, Skewed
from harness.steps.redisson import FENCED, token_key
from harness.resp import Closed, ReplyError
from harness.steps.scripts import load
from harness.sentinel import Watched, ask
from harness.server import Server

Make = Callable[..., Any]
ALL = ["mutex", *KINDS]
TURNS = {"handover_turns": 1024}
MUCH = {**TURNS, "connects_per_second": 1000}  # several restarts within a second
LOSSES = ["flush", "restart", "expiry"]


def micros(server: Any) -> int:
    seconds, rest = ask(server, "TIME")
    return int(seconds) * 1_000_000 + int(rest)


def counter(server: Any, name: str = "lock") -> int:
    return int(ask(server, "GET", token_key(name)) or 0)


def lose(server: Server, loss: str, *names: str) -> None:
    if loss == "flush":
        server.command("FLUSHALL")
    elif loss == "restart":
        server.restart()
    else:
        for name in names or ("lock",):
            server.command("PEXPIRE", token_key(name), 1)
            until(lambda: server.command("EXISTS", token_key(name)) == 0)


def back(client: Client) -> None:
    until(lambda: client.ping(1000).status == "OK", 30)


def lock_of(client: Client, kind: str, name: str = "lock") -> Lock:
    return client.lock(name, kind=kind, **(TURNS if kind == "mutex" else {"permits": 2} if "semaphore" in kind else {}))


def grant(lock: Lock, kind: str, owner: int = 1) -> int:
    """The token of one grant, which is released. A semaphore that has lost its permits gets some."""
    if "semaphore" in kind:
        until(lambda: lock.permits_set(4).status in ("OK", "UNCHANGED"))
    answer = until(lambda: answer if (answer := lock.acquire(owner, 20_000)).status == "OK" else None, 40)
    lock.release(owner)
    return int(answer.token)


def fenced(server: Any, name: str) -> int:
    """One hold of Redisson's RFencedLock: its token."""
    left, token = ask(server, "EVAL", FENCED, 2, name, token_key(name), 30_000, "00000000-0000-4000-8000-000000000000:1")
    assert left == -1
    ask(server, "DEL", name)
    return int(token)


# ---- the bound


def test_many_grants_in_one_go(redis_server: Server) -> None:
    """Grants of one name, pipelined or in one MULTI: the server reads its clock for each, so none is ahead of it."""
    acquire, release = load("acquire"), load("release")
    keys = [key % "lock" for key in ("%s", "redisson_lock_token:{%s}", "dlock_queue:{%s}", "dlock_waiters:{%s}", "dlock_gate:{%s}")]
    with redis_server.client() as redis:
        take, give = (redis.command("SCRIPT", "LOAD", text).decode() for text in (acquire, release))
        for multi in (False, True):
            calls: list[tuple[Any, ...]] = []
            for number in range(2000):
                owner = f"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:{number}"
                calls.append(("EVALSHA", take, 5, *keys, owner, 30_000, 1025, 0, 0, 4000, 86_400_000, 1))
                calls += [("TIME",), ("EVALSHA", give, 5, *keys, owner, "redisson_lock__channel:{lock}", 0, 0, 0, 1025)]
            answers = redis.pipeline(*([("MULTI",)] if multi else []), *calls, *([("EXEC",)] if multi else []))
            answers = answers[-1] if multi else answers
            before = 0
            for (code, first, *few), (seconds, rest) in zip(answers[::3], answers[1::3]):
                last = first + (few[0] if few else 1025) - 1
                assert code == 1 and before < first <= last <= int(seconds) * 1_000_000 + int(rest)
                before = last
            assert set(answers[2::3]) == {1} and counter(redis_server) == before
        frozen = "local a, b = redis.call('TIME'), 0 repeat b = redis.call('TIME') until b[2] ~= a[2] or b[1] ~= a[1] return 1"
        assert redis.command("EVAL", frozen, 0) == 1  # a clock that stands still within a script would end in BUSY


@pytest.mark.parametrize("together", ["multi", "batch"])
def test_names_that_share_a_counter(agent: Agent, redis_server: Server, together: str) -> None:
    """"k" and "{k}" have one counter. In one script the second token is one ahead of the time that was read; the script takes longer than
    that.
    """
    client = agent.open(redis_server, **MUCH)
    plain, braced = client.lock("k"), client.lock("{k}")
    highest = 0
    for _ in range(300):
        if together == "multi":
            both = client.multi(plain, braced)
            both.acquire(1, 5000).ok
            tokens = [plain.token(1).ok.token, braced.token(1).ok.token]
            both.release(1).ok
            both.drop()
        else:
            tokens = [grant(lock, "mutex") for lock in (plain, braced)]
        assert len({highest, *tokens}) == 3 and highest < min(tokens) and counter(redis_server, "k") <= micros(redis_server)
        highest = counter(redis_server, "k")


def test_the_counter_ends_by_itself(agent: Agent) -> None:
    """token_ttl_ms is over, by the server's clock."""
    with Skewed() as server:
        client = agent.open(server, token_ttl_ms=60_000, lease_ms=2000)
        for kind in ALL:
            lock = lock_of(client, kind, kind)
            last = grant(lock, kind)
            last = max(last, counter(server, kind))
            server.jump(61_000)
            until(lambda: counter(server, kind) == 0)
            assert last < grant(lock, kind) <= counter(server, kind) <= micros(server)


# ---- losses


@pytest.mark.parametrize("loss", LOSSES)
def test_turns_in_memory_and_adopted_grants(new_agent: Make, new_server: Make, loss: str) -> None:
    """Lingering turns, hand-overs, a grant that moves to another process, an extended lease: no token comes again."""
    server = new_server()
    client, other = new_agent().open(server, linger_ms=20, lease_ms=600, **MUCH), new_agent().open(server, lease_ms=600, **MUCH)
    lock, theirs, highest = client.lock("lock"), other.lock("lock"), 0

    def turns() -> list[int]:
        tokens = []
        for owner in range(1, 20):
            tokens.append(lock.acquire(owner, 5000).ok.token)
            lock.release(owner).ok
        return tokens

    for _ in range(3):
        tokens = turns() + turns()
        tokens += [lock.acquire(1, 5000).ok.token]
        assert lock.extend(1, 800).status == "OK" and lock.token(1).ok.token == tokens[-1]
        moved = bytes.fromhex(lock.export(1, 600).ok.grant.replace("%", ""))
        assert theirs.adopt(7, moved).ok.token == tokens[-1]
        theirs.release(7).ok
        tokens += [grant(theirs, "mutex")]
        assert tokens == sorted(set(tokens)) and highest < tokens[0]
        highest = max(tokens[-1], counter(server))
        lose(server, loss)
        for side in client, other:
            back(side)
    handed = client.counters()["handovers"]
    assert handed > 30, "turns in memory"


@pytest.mark.parametrize("loss", LOSSES)
def test_a_turn_in_memory_after_a_loss(new_agent: Make, new_server: Make, loss: str) -> None:
    """Tokens reserved before the loss stay below those granted after it: the resource refuses the old process's next turns."""
    server = new_server()
    client, other = new_agent().open(server, lease_ms=30_000, handover_ms=1000, **MUCH), new_agent().open(server, **MUCH)
    lock, theirs = client.lock("lock"), other.lock("lock")
    for _ in range(20):  # until it was fast enough
        server.command("SET", token_key("lock"), 1, "PX", 3_600_000)
        first = lock.acquire(1, 20_000).ok.token
        waits = lock.start("acquire", 2, -1, thread=1)
        until(lambda: lock.state(2) == "WAITING")
        lose(server, loss)
        server.command("DEL", "lock")
        back(other)
        newer = theirs.acquire(1, 20_000).ok.token
        lock.release(1)
        if client.counters()["handovers"]:
            break
        theirs.release(1)
        waits.answer().ok
        lock.release(2)
    assert first < waits.answer().ok.token < newer


@pytest.mark.parametrize("loss", LOSSES)
def test_a_multi_lock(agent: Agent, new_server: Make, loss: str) -> None:
    """In one script for mutexes, one by one for others: each member's tokens keep growing, and so does the largest."""
    server = new_server()
    client, highest = agent.open(server, **MUCH), 0
    mutexes = [client.lock("{x}a"), client.lock("{x}b")]
    mixed = [client.lock("{x}c", kind="fair"), client.lock("{x}d", kind="write"), client.lock("{x}e", kind="read")]
    for members in mutexes, mixed:
        both, last = client.multi(*members), [0] * len(members)
        for _ in range(3):
            highest, before = both.acquire(1, 20_000).ok.token, highest
            tokens = [member.token(1).ok.token for member in members]
            assert all(old < new for old, new in zip(last, tokens)) and highest == max(tokens) > before
            last = tokens
            both.release(1).ok
            lose(server, loss, "{x}a", "{x}b", "{x}c", "{x}d", "{x}e")
            back(client)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["mutex", "fair", "write"])
def test_redissons_fenced_lock_beside(agent: Agent, new_server: Make, loss: str, kind: str) -> None:
    """It takes turns with libdlock before and after the loss. If it comes first after the loss, Redisson's token falls."""
    server = new_server()
    client, highest = agent.open(server, **MUCH), 0
    lock = lock_of(client, kind)
    for first in ("ours", "theirs", "ours"):
        if first == "theirs":
            assert fenced(server, "lock") == 1
        for _ in range(20):
            token = grant(lock, kind)
            assert highest < token <= counter(server)
            highest = counter(server)
            assert fenced(server, "lock") == highest + 1 <= micros(server)
            highest += 1
        lose(server, loss)
        back(client)


def takes_turns(client: Client, server: Callable[[str], Any], names: dict[str, str], count: int, last: dict[str, int]) -> None:
    """Some grants of every kind, and of RFencedLock between them: all are above last. Returns the highest."""
    for kind, name in names.items():
        lock = lock_of(client, kind, name)
        for _ in range(count):
            token = grant(lock, kind)
            assert token > last.get(kind, 0), f"{kind} falls by {last[kind] - token} us"
            last[kind] = max(token, counter(server(name), name))
        if "semaphore" not in kind:
            last[kind] = fenced(server(name), name)


@pytest.mark.full
def test_a_failover_by_sentinels(agent: Agent) -> None:
    """The replica is stopped while the last tokens are made, then the primary dies: the new one has old counters."""
    with Watched() as watched:
        client, last, names = agent.open(watched.url, connect_timeout_ms=500), {}, {kind: f"s {kind}" for kind in ALL}
        for _ in range(2):
            primary, replica = watched.primary(), watched.replica()
            takes_turns(client, lambda name: primary, names, 3, last)
            primary.command("WAIT", 1, 5000)
            known = counter(primary, "s mutex")
            replica.pause()
            primary.command("CLIENT", "KILL", "TYPE", "replica")
            takes_turns(client, lambda name: primary, names, 10, last)
            primary.kill()
            replica.resume()
            until(lambda: with_no_error(lambda: ask(replica, "ROLE")[0] == b"master"), 60)
            assert counter(replica, "s mutex") <= known < last["mutex"]
            back(client)
            takes_turns(client, lambda name: replica, names, 10, last)
            primary.start()
            watched.until(watched.settled, 60)


def test_a_failover_on_a_cluster(agent: Agent) -> None:
    with Cluster(3, 1) as cluster:
        client, last = agent.open(cluster.url), {}
        primary = cluster.primaries()[0]
        replica, key = cluster.replica_of(primary), cluster.key_of(primary)
        names = {kind: f"{kind} {key}" for kind in ALL}
        takes_turns(client, lambda name: primary, names, 3, last)
        until(lambda: primary.command("WAIT", 1, 1000) == 1, 30)
        replica.pause()
        primary.command("CLIENT", "KILL", "TYPE", "replica")
        takes_turns(client, lambda name: primary, names, 10, last)
        primary.kill()
        replica.resume()
        until(lambda: b"myself,master" in ask(replica, "CLUSTER", "NODES"), 60)
        until(lambda: with_no_error(lambda: ask(replica, "EXISTS", key) is not None), 60)
        assert counter(replica, names["mutex"]) < last["mutex"]
        takes_turns(client, lambda name: replica, names, 10, last)


def with_no_error(ask: Callable[[], Any]) -> Any:
    """What a server answers that may refuse, or close all connections because it becomes the primary."""
    with contextlib.suppress(ReplyError, Closed, OSError):
        return ask()
    return None


@pytest.mark.parametrize("forget", [1, 2, 5])
def test_a_quorum(new_agent: Make, forget: int) -> None:
    """So many of five forget at once. Four must agree, so after a loss of two one of them knows the largest token. After a loss of all the
    clocks stand in.
    """
    with Quorum(of=Skewed) as quorum:
        for ms, node in zip((0, 20, -20, 40, -40), quorum.nodes):
            node.jump(ms)
        clients, highest = [new_agent().open(quorum, quorum=4, **MUCH) for _ in range(2)], 0
        for round in range(4):
            for client in clients:
                lock = client.lock("lock")
                for owner in range(1, 6):
                    token = lock.acquire(owner, 20_000).ok.token
                    assert token > highest, f"falls by {highest - token} us"
                    highest = token
                    lock.release(owner).ok
            assert max(quorum.tokens("lock")) <= max(micros(node) for node in quorum.nodes)
            for node in quorum.nodes[round % 3 :][:forget] if forget < 5 else quorum.nodes:
                node.command("FLUSHALL")
            if forget == 5:
                time.sleep(0.1)  # more than the clocks differ: docs/fencing.md


def test_confirmed_by_replicas(new_agent: Make, new_server: Make) -> None:
    server = new_server()
    new_server("--replicaof", f"127.0.0.1 {server.port}")
    until(lambda: server.command("WAIT", 1, 1000) == 1 or server.command("SET", "x", 1) is None, 30)
    client, last = new_agent().open(server, replicas=1), {}
    for _ in range(3):
        takes_turns(client, lambda name: server, {kind: f"r {kind}" for kind in ALL}, 5, last)
        server.command("FLUSHALL")


# ---- a clock that is set back: the answer of every kind


def high_then_low(server: Server, kind: str, take: Callable[[], int]) -> int:
    """A token of a clock that is then set back by a quarter of an hour; the counter is lost."""
    server.jump(900_000)  # type: ignore[attr-defined]
    high = take()
    server.command("DEL", token_key("lock"))
    server.jump(-900_000)  # type: ignore[attr-defined]
    return high


@pytest.fixture
def skewed() -> Iterator[Skewed]:
    with Skewed() as server:
        yield server


@pytest.mark.parametrize("kind", ALL)
def test_every_kind_says_so(new_agent: Make, skewed: Skewed, kind: str) -> None:
    """For any owner of the process: the client remembers. Others go on, and so does this client when tokens are higher."""
    client, other = new_agent().open(skewed), new_agent().open(skewed)
    lock, theirs = one(client, kind), one(other, kind)
    high = high_then_low(skewed, kind, lambda: grant(lock, kind))
    for owner in 1, 2, 1:  # the grant before is released in between
        answer = until(lambda: answer if (answer := lock.acquire(owner, 0)).status != "BUSY" else None)
        assert answer.status == "SERVER_FORGOT" and answer.retryable and str(high) in answer.message
        assert "fencing token" in answer.message and "lock 'lock' at " in answer.message
    low = grant(theirs, kind)
    assert low < high
    waits = lock.start("acquire", 3, -1, thread=1)
    until(lambda: lock.state(3) == "WAITING")
    skewed.jump(1_000_000)
    assert waits.answer().ok.token > high
    lock.release(3).ok
    if "semaphore" in kind:
        until(lambda: theirs.permits().ok.value == 1)
    assert grant(theirs, kind) > high


@pytest.mark.parametrize("kind", ALL)
def test_every_holder_hears_lost(agent: Agent, redis_server: Server, kind: str) -> None:
    client = agent.open(redis_server, lease_ms=900)
    lock = one(client, kind)
    token = lock.acquire(1, 0).ok.token
    redis_server.command("FLUSHALL")
    while (event := client.event()).type != "LOST":
        pass
    assert event.token == token and lock.release(1).status == "LOST"
    assert grant(lock, kind) > token


def test_both_sides_of_a_read_write_lock_remember(agent: Agent, skewed: Skewed) -> None:
    client = agent.open(skewed)
    reads, writes = one(client, "read"), one(client, "write")
    high_then_low(skewed, "write", lambda: grant(writes, "write"))
    for lock in reads, writes, reads:
        answer = until(lambda: answer if (answer := lock.acquire(1, 0)).status != "BUSY" else None)
        assert answer.status == "SERVER_FORGOT"


def test_a_multi_lock_says_so(agent: Agent, skewed: Skewed) -> None:
    client = agent.open(skewed)
    lock, beside = client.lock("lock"), client.lock("beside")
    both = client.multi(lock, beside)
    high_then_low(skewed, "mutex", lambda: grant(lock, "mutex"))
    assert both.acquire(1, 0).status == "SERVER_FORGOT"
    until(lambda: skewed.command("EXISTS", "lock", "beside") == 0)
    skewed.jump(1_000_000)
    both.acquire(1, 20_000).ok
    both.release(1).ok


def test_a_lower_grant_is_not_adopted(new_agent: Make, skewed: Skewed) -> None:
    """The grant of a client that knew no higher token is refused; the client's own export can always come back."""
    client, other = new_agent().open(skewed), new_agent().open(skewed)
    lock, theirs = client.lock("lock", **TURNS), other.lock("lock")
    token = lock.acquire(1, 0).ok.token
    own = bytes.fromhex(lock.export(1, 600).ok.grant.replace("%", ""))
    assert lock.adopt(1, own).ok.token == token
    lock.release(1).ok
    high_then_low(skewed, "mutex", lambda: grant(lock, "mutex"))
    theirs.acquire(1, 0).ok
    lower = bytes.fromhex(theirs.export(1, 600).ok.grant.replace("%", ""))
    answer = lock.adopt(1, lower)
    assert answer.status == "SERVER_FORGOT" and lock.state(1) == "NONE"
    until(lambda: skewed.command("EXISTS", "lock") == 0)
    assert theirs.acquire(1, 0).status == "OK"


def test_a_grant_that_is_asked_for_again_has_its_older_token(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """Its replies are lost, and others of the process are granted higher tokens meanwhile: that is no fall."""
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000)
    one(client, "semaphore", seats=1000)
    many, few = client.lock("lock", kind="semaphore", permits=777), client.lock("lock", kind="semaphore")
    grant(few, "semaphore")  # the server has the script now
    hook = proxy.lose_reply(b"\r\n777\r\n", times=None)
    waits = many.start("acquire", 1, 20_000, thread=1)
    until(lambda: hook.count >= 1 and redis_server.command("GET", "lock") == b"223")
    higher = few.acquire(2, 20_000).ok.token
    hook.times = hook.count
    assert 0 < waits.answer().ok.token < higher
    assert many.release(1).status == few.release(2).status == "OK" and few.permits().ok.value == 1000


def mutant(new_agent: Make, number: int, tmp_path: pathlib.Path) -> Make:
    (found,) = [one for one in mutants.FORGETFUL if one.number == number]
    library = str(mutants.library(ROOT, BUILD, tmp_path, found))
    return lambda: new_agent(LD_PRELOAD=library)


@pytest.mark.house
def test_mutant_of_what_holds_remember(new_agent: Make, skewed: Skewed, tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError):
        test_every_kind_says_so(mutant(new_agent, 621, tmp_path), skewed, "write")


@pytest.mark.house
def test_mutant_of_adoption(new_agent: Make, skewed: Skewed, tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError):
        test_a_lower_grant_is_not_adopted(mutant(new_agent, 622, tmp_path), skewed)


@pytest.mark.house
def test_mutant_of_numbers_that_are_asked_for_again(new_agent: Make, redis_server: Server, new_proxy: Make, tmp_path: pathlib.Path) -> None:
    """The request must be sent again after the higher token is here, and sometimes it is not."""
    make = mutant(new_agent, 623, tmp_path)
    with pytest.raises(AssertionError):
        for _ in range(10):
            redis_server.command("FLUSHALL")
            test_a_grant_that_is_asked_for_again_has_its_older_token(make(), redis_server, new_proxy)
