"""Batched callers: one script acquires or releases for up to 16 of them. Each gets the answer that its own script would have given."""
from __future__ import annotations

import pathlib
import random
import re
from typing import Any, Callable

import mutants
import pytest

from harness.agent import Agent, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.fake import BATCHES, LockServer
from harness.faults import cut_again_and_again, owners
from harness.steps.redisson import channel_of
from harness.resp import Client as Redis
from harness.steps.scripts import SCRIPTS, SHA, runs, teach
from harness.server import Server
from harness.steps.wire import keys_of

MANY = 64
UUID = "aaaaaaaa-aaaa-8aaa-8aaa-aaaaaaaaaaaa"


def many_locks(client: Client, count: int = MANY) -> list[Lock]:
    return [client.lock(f"batch{number}") for number in range(count)]


def turns(locks: list[Lock], rounds: int) -> int:
    """All callers run their steps at the same time; returns how many steps were not OK."""
    waits = [lock.start("turns", 1, rounds, thread=number + 1) for number, lock in enumerate(locks)]
    return sum(wait.answer(60).ok.bad for wait in waits)


def test_locks_share_batches(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    locks, before, rounds = many_locks(client), runs(redis_server), 200
    assert turns(locks, rounds) == 0
    ran = runs(redis_server) - before
    assert 0 < ran < 2 * MANY * rounds - 200  # without batches: all of them
    assert not any(owners(redis_server, [f"batch{number}" for number in range(MANY)]))
    assert client.counters()["acquired"] == MANY * rounds


def test_scripts_that_the_server_forgets(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    locks = many_locks(client)
    waits = [lock.start("turns", 1, 200, thread=number + 1) for number, lock in enumerate(locks)]
    flushed = 0
    while not all(wait.ready() for wait in waits):
        redis_server.command("SCRIPT", "FLUSH")
        flushed += 1
    assert flushed > 5 and sum(wait.answer(60).ok.bad for wait in waits) == 0
    assert client.counters()["script_reloads"] > 0


def tried(mine: list[Lock], theirs: list[Lock]) -> None:
    """A batch of tries in which others hold a third of the locks."""
    held = theirs[::3]
    for lock in held:
        lock.acquire(1, 0).ok
    waits = [lock.start("acquire", 1, 0, thread=number + 1) for number, lock in enumerate(mine)]
    statuses = [wait.answer().status for wait in waits]
    assert statuses == ["BUSY" if number % 3 == 0 else "OK" for number in range(MANY)]
    for number, lock in enumerate(mine):
        assert lock.release(1).status == ("NOT_HELD" if number % 3 == 0 else "OK")
    for lock in held:
        lock.release(1).ok


def test_some_are_taken(agent: Agent, new_agent: Callable[..., Agent], redis_server: Server) -> None:
    mine, theirs, before = many_locks(agent.open(redis_server)), many_locks(new_agent().open(redis_server)), runs(redis_server)
    alone, rounds = 2 * MANY + len(theirs[::3]), 0  # scripts of a round without any batch
    while rounds < 10 or runs(redis_server) - before >= rounds * alone:
        tried(mine, theirs)
        rounds += 1
        assert rounds < 200


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_answers_of_a_batch(new_agent: Callable[..., Agent], redis_server: Server, tmp_path: pathlib.Path) -> None:
    changed = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutants.BATCH)))
    mine, theirs = many_locks(changed.open(redis_server)), many_locks(new_agent().open(redis_server))
    with pytest.raises(AssertionError, match="BUSY"):
        for _ in range(100):
            tried(mine, theirs)


def test_connections_that_are_cut(agent: Agent, new_server: Callable[..., Server]) -> None:
    """Whatever happened to a batch whose reply is missing: all locks are free in the end."""
    server = new_server()
    client = agent.open(server, private_connections=0)
    locks, names = many_locks(client), [f"batch{number}" for number in range(MANY)]
    with server.client() as redis:
        cut_again_and_again(client, locks, lambda: redis.command("CLIENT", "KILL", "TYPE", "normal"), 10, 20)
    assert client.counters()["lost"] == 0
    until(lambda: not any(owners(server, names)))
    assert turns(locks, 5) == 0


def test_some_stand_in_line(agent: Agent, new_agent: Callable[..., Agent], redis_server: Server) -> None:
    """A caller that finds the lock held joins its line as usual, and gets it by hand-over."""
    mine, theirs = many_locks(agent.open(redis_server)), many_locks(new_agent().open(redis_server))
    for turn in range(5):
        held = theirs[turn::3]
        for lock in held:
            lock.acquire(1, 0).ok
        waits = [lock.start("acquire", 1, 20_000, thread=number + 1) for number, lock in enumerate(mine)]
        for lock in held:
            until(lambda: lock.inspect().ok.event.waiters > 0)
            lock.release(1).ok
        for wait in waits:
            wait.answer().ok
        for gone in [lock.start("release", 1, thread=number + 1) for number, lock in enumerate(mine)]:
            gone.answer().ok


def test_a_server_that_is_full(agent: Agent, redis_server: Server) -> None:
    """Each caller gets the error for its own lock, nothing is held, and calls work again when there is room."""
    locks = many_locks(agent.open(redis_server, command_timeout_ms=20_000))
    assert turns(locks, 200) == 0
    redis_server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        waits = [lock.start("acquire", 1, 0, thread=number + 1) for number, lock in enumerate(locks)]
        answers = [wait.answer() for wait in waits]
    finally:
        redis_server.command("CONFIG", "SET", "maxmemory", "0")
    assert {answer.status for answer in answers} == {"SERVER_OUT_OF_MEMORY"}
    assert turns(locks, 200) == 0


def test_without_the_right_to_read_counters_together(agent: Agent, new_server: Callable[..., Server]) -> None:
    server = new_server()
    server.command("ACL", "SETUSER", "default", "-mget")
    assert turns(many_locks(agent.open(server, private_connections=0)), 200) == 0
    denied = re.search(rb"cmdstat_mget:.*rejected_calls=(\d+)", server.command("INFO", "commandstats"))
    assert denied and int(denied[1]) > 0


def for_each(said: bytes, words: list[bytes]) -> bytes:
    count = int(words[2]) // 5
    return b"*%d\r\n" % count + said * count


def nothing_for_each(_: object, words: list[bytes]) -> bytes:
    return for_each(b"$-1\r\n", words)


@pytest.mark.parametrize("reply, drops", [
    (b"*1\r\n*2\r\n:1\r\n:7\r\n", True), (b"*0\r\n", True), (b":1\r\n", True), (b"$-1\r\n", True), (b"+OK\r\n", True),
    (b"-ERR unknown\r\n", False), (b"-NOSCRIPT not here\r\n", False), (nothing_for_each, False),
])  # fmt: skip
def test_replies_that_do_not_fit(agent: Agent, reply: Any, drops: bool) -> None:
    """If a reply does not answer each caller, the connection is closed. An error or nil sends each caller alone. All get their lock."""
    with LockServer() as fake:
        locks = many_locks(agent.open(fake, private_connections=0))
        assert turns(locks, 5) == 0
        fake.say("batch_acquire", reply, 1)
        before = fake.connections
        assert turns(locks, 40) == 0
        assert fake.said["batch_acquire"] == 1 and (fake.connections > before) == drops


@pytest.mark.parametrize("token", [0, -1, 2**53])
def test_a_token_that_is_none(agent: Agent, token: int) -> None:
    """No caller is granted a lock with it, and the next replies on that connection are not trusted either."""
    with LockServer() as fake:
        locks = many_locks(agent.open(fake, private_connections=0))
        assert turns(locks, 5) == 0
        fake.say("batch_acquire", lambda _, words: for_each(b":%d\r\n" % token, words), 1)
        before = fake.connections
        assert turns(locks, 40) > 0
        assert fake.said["batch_acquire"] == 1 and fake.connections > before
        assert turns(locks, 5) == 0


def drawn(draw: random.Random, stem: str, names: list[str]) -> tuple[list[Any], list[list[Any]]]:
    """The common arguments of a batch, and all arguments of each lock's own script."""
    owners = [f"{UUID}:{number}" for number in sorted(draw.randrange(3) for _ in names)]  # in the order of such callers
    if stem == "batch_release":
        same = [draw.randrange(2), draw.choice([0, 0, 0, 50_000])]
        return same, [[owner, channel_of(name), *same] for owner, name in zip(owners, names)]
    same = [30_000, draw.choice([1, 65]), draw.randrange(3), draw.randrange(2), 60_000, 60_000]
    return same, [[owner, *same, draw.randint(1, 9), 0, 0, 1] for owner in owners]


def own(stem: str, row: list[Any]) -> list[Any]:
    return row[:2] if stem == "batch_release" else [row[0], *row[-4:]]


def said(redis: Redis, script: str, keys: list[str], args: list[Any]) -> Any:
    """A reply of the scripts; None for an error."""
    answer = redis.pipeline(["EVALSHA", SHA[script], len(keys), *keys, *args])[0]
    return None if isinstance(answer, Exception) else answer


def ask(redis: Redis, together: bool, stem: str, names: list[str], same: list[Any], rows: list[list[Any]]) -> list[Any]:
    if not together:
        return [said(redis, BATCHES[stem], keys_of(name), row) for name, row in zip(names, rows)]
    keys = [key for name in names for key in keys_of(name)]
    return list(said(redis, stem, keys, [*same, *(word for row in rows for word in own(stem, row))]))


def shape(answer: Any) -> Any:
    """A reply without its time-dependent parts: tokens, which only batches send, and milliseconds left."""
    if isinstance(answer, int) and answer > 9:
        return [1, "some"]
    if isinstance(answer, list):
        return [answer[0], *("some" if isinstance(word, int) and word > 9 else word for word in answer[1:])]
    return answer


def state(redis: Redis) -> dict[str, Any]:
    """Each key with its content, without times."""
    inside = {"hash": "HKEYS", "zset": "ZRANGE"}
    found = {}
    for key in redis.command("KEYS", "*"):
        kind = redis.command("TYPE", key)
        words = redis.command(inside[kind], key, *([0, -1] if kind == "zset" else [])) if kind in inside else []
        found[key] = (kind, sorted(words), redis.command("PTTL", key) > 0)
    return found


@pytest.mark.house
@pytest.mark.parametrize("seed", range(6))
def test_the_scripts_say_the_same(redis_server: Server, seed: int) -> None:
    """One after the other in one database, together in another, some locks twice: the same replies and keys."""
    draw = random.Random(seed)
    teach(redis_server)
    told: dict[bool, list[Any]] = {False: [], True: []}
    states = {}
    with redis_server.client() as alone, redis_server.client() as together:
        ways = {False: alone, True: together}
        for number, redis in enumerate(ways.values()):
            redis.command("SELECT", number)
        for _ in range(100):
            stem = draw.choice(list(BATCHES))
            names = [f"n{draw.randrange(40)}" for _ in range(draw.randrange(4, 17))]
            same, rows = drawn(draw, stem, names)
            wrong = names[0] if draw.randrange(10) == 0 else None
            for way, redis in ways.items():
                if wrong:
                    redis.pipeline(["DEL", wrong], ["RPUSH", wrong, "not a lock"])
                told[way] += [shape(answer) for answer in ask(redis, way, stem, names, same, rows)]
                if wrong:
                    redis.command("DEL", wrong)
        states = {way: state(redis) for way, redis in ways.items()}
    assert told[False] == told[True]
    assert {str(answer) for answer in told[True]} >= {"None", "0", "1", "[1, 'some']", "[0, 'some', 0]"}
    assert states[False] == states[True] and len(states[True]) > 40


def test_a_counter_of_another_type(redis_server: Server) -> None:
    """It is unchanged, and its lock is refused; the others of the batch are granted."""
    teach(redis_server)
    names = [f"n{number}" for number in range(5)]
    redis_server.command("RPUSH", keys_of("n3")[1], "not a counter")
    same, rows = drawn(random.Random(1), "batch_acquire", names)
    with redis_server.client() as redis:
        answers = ask(redis, True, "batch_acquire", names, same, rows)
    assert [answer is not None for answer in answers] == [True, True, True, False, True]
    assert redis_server.command("TYPE", keys_of("n3")[1]) == "list" and redis_server.command("EXISTS", "n3") == 0


@pytest.mark.parametrize("looks", [True, False])
def test_the_same_lock_twice(redis_server: Server, looks: bool) -> None:
    """Two owners in a batch want one lock: one gets it. A script that does not check for duplicates grants it to both."""
    text = SCRIPTS["batch_acquire"]
    assert text.count("twice = twice or met[lock]") == 1
    if not looks:
        text = text.replace("twice = twice or met[lock]", "")
    keys = [key for name in ("a", "b", "c", "a") for key in keys_of(name)]
    args = [30_000, 1, 0, 0, 4000, 60_000, *(word for owner in range(4) for word in (f"{UUID}:{owner}", 1, 0, 0, 1))]
    answers = redis_server.command("EVAL", text, len(keys), *keys, *args)
    assert [shape(answer)[0] for answer in answers] == [1, 1, 1, 0 if looks else 1]
