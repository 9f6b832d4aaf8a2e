"""One lock that the server refuses costs the others nothing: neither their renewals nor their scripts.

A key without permission makes the server refuse a whole request. The locks of that request are requested again at once, in parts. The one
that is refused by itself gets the error, a log event names it, and it shares no request until one of its own succeeds.
"""
from __future__ import annotations

import pathlib
import re
import socket
from typing import Any, Callable

import mutants
import pytest

from harness.agent import Agent, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.fake import LockServer
from harness.faults import always
from harness.kinds import LEASED, one
from harness.quorum import Quorum
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
MANY, SECRET = 64, "s3cret-canary"
NOPERM = b"-NOPERM No permissions to access a key\r\n"
CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"


def user(server: Server, *keys: str) -> str:
    """The URL of a user that may use these keys only; its open connections get these rights as well."""
    server.command("ACL", "SETUSER", "some", "on", ">" + SECRET, "resetkeys", "&*", "+@all", *keys)
    return f"redis://some:{SECRET}@{server.host}:{server.port}"


def rejected(server: Server) -> int:
    """How many scripts the server refused to start."""
    return sum(map(int, re.findall(rb"cmdstat_eval(?:sha)?:.*rejected_calls=(\d+)", server.command("INFO", "commandstats"))))


def refused_line(client: Client) -> Any:
    """The log event of a refused renewal; no lock may be AT_RISK before it."""
    while (event := client.event()).type != "LOG" or event.status == 0:
        assert event.type not in ("AT_RISK", "LOST"), event
    return event


# ---- renewals, on a server


@pytest.mark.parametrize("kind", always("mutex", full=LEASED))
def test_a_key_that_may_not_be_touched_any_more(agent: Agent, new_server: Make, kind: str) -> None:
    server = new_server()
    client = agent.open(user(server, "~*"), lease_ms=6000, safety_ms=100)
    bad, good = one(client, kind, "bad"), [one(client, kind, f"good{number}") for number in range(MANY - 1)]
    locks = good[:31] + [bad] + good[31:]
    assert {answer.status for answer in agent.many([("acquire", lock.index, 1, 0) for lock in locks])} == {"OK"}
    user(server, "~*good*")
    server.command("CONFIG", "RESETSTAT")
    line = refused_line(client)
    assert "'bad'" in line.text and "NOPERM" in line.text and SECRET not in line.text
    assert f"{server.host}:{server.port}" in line.text
    assert rejected(server) <= 3, "the request, the part with the lock in it, the lock"
    until(lambda: client.counters()["renewed"] >= 3 * len(good))
    until(lambda: bad.state(1) == "LOST")
    tell(fired=rejected(server))
    while (event := client.event()).type != "LOST":
        assert event.type in ("AT_RISK", "LOG") and event.lock_id in (-1, bad.id), event
    assert event.lock_id == bad.id and client.counters()["lost"] == 1
    assert {lock.state(1) for lock in good} == {"HELD"}
    answer = bad.acquire(2, 0)
    assert answer.status in ("DENIED", "BUSY") and "'bad'" in answer.message
    assert {lock.release(1).status for lock in good} == {"OK"}


def test_servers_that_vote(agent: Agent, lease_ms: int = 6000) -> None:
    """All servers refuse the same lock; the others are renewed on all of them."""
    with Quorum(3) as quorum:
        for node in quorum.nodes:
            user(node, "~*")
        url = quorum.url.replace("redis+quorum://", f"redis+quorum://some:{SECRET}@")
        client = agent.open(url, lease_ms=lease_ms, safety_ms=100)
        bad, good = client.lock("bad"), [client.lock(f"good{number}") for number in range(MANY - 1)]
        locks = good[:31] + [bad] + good[31:]
        assert {answer.status for answer in agent.many([("acquire", lock.index, 1, 0) for lock in locks])} == {"OK"}
        for node in quorum.nodes:
            user(node, "~*good*", "~dlock_quorum*")
        line = refused_line(client)
        assert "'bad'" in line.text and "denied" in line.text and SECRET not in line.text
        before = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= before + 2 * len(good))
        until(lambda: bad.state(1) == "LOST")
        assert {lock.state(1) for lock in good} == {"HELD"} and client.counters()["lost"] == 1
        tell(fired=sum(map(rejected, quorum.nodes)))


@pytest.mark.parametrize("kind", ["mutex", *LEASED])
def test_a_key_that_is_something_else_now(agent: Agent, redis_server: Server, kind: str) -> None:
    client = agent.open(redis_server, lease_ms=3000, safety_ms=100)
    bad, good = one(client, kind, "bad"), [one(client, kind, f"good{number}") for number in range(MANY - 1)]
    locks = good[:31] + [bad] + good[31:]
    assert {answer.status for answer in agent.many([("acquire", lock.index, 1, 0) for lock in locks])} == {"OK"}
    for key in redis_server.command("KEYS", "*bad*"):
        redis_server.command("DEL", key)
        redis_server.command("RPUSH", key, "not a lock")
    event = client.event()
    assert event.type == "LOST" and event.lock_id == bad.id, event
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 2 * len(good))
    assert {lock.state(1) for lock in good} == {"HELD"} and client.counters()["lost"] == 1
    answer = bad.acquire(2, 0)
    assert answer.status == "WRONG_KIND" and "'bad'" in answer.message, answer
    assert {lock.release(1).status for lock in good} == {"OK"}


# ---- renewals, from the view of the server


class Denying(LockServer):
    """Refuses scripts that have a certain key, or more than one lock."""

    def __init__(self, what: str, bad: bytes | None, refusal: bytes = NOPERM) -> None:
        super().__init__()
        self.what, self.bad, self.refusal = what, bad, refusal
        self.asked_for: list[set[bytes]] = []  # the locks of all requests
        self.sizes: list[int] = []  # numbers of locks of the refused requests
        self.others = 0  # requests that were not refused
        self.say(what, self.judge)

    def judge(self, _: socket.socket, words: list[bytes]) -> bytes:
        keys = words[3 : 3 + int(words[2])]
        locks = keys[::5] if self.what.startswith("batch") else keys
        self.asked_for.append(set(locks))
        if (self.bad in locks) if self.bad else len(locks) > 1:
            self.sizes.append(len(locks))
            return self.refusal
        self.others += 1
        return self.usual(self.what, words)


def parts_of_the_first(fake: Denying) -> list[int]:
    """The first refused request: how many locks it had, and the parts in which they were requested next."""
    first = next(number for number, locks in enumerate(fake.asked_for) if b"bad" in locks)
    whole = fake.asked_for[first]
    parts = [len(locks) for locks in fake.asked_for[first + 1 :] if locks & whole]
    return [len(whole), *parts[: -(-len(whole) // 8)]]


def renewals_with_a_bad_one(new_agent: Make, **environment: str) -> None:
    """Twice all locks are held for some periods, and one of them is refused. The third time it is not."""
    with Denying("renew", b"bad") as fake:
        agent = new_agent(**environment)
        client = agent.open(fake, lease_ms=4500, safety_ms=100)
        bad, good = client.lock("bad"), [client.lock(f"good{number}") for number in range(MANY - 1)]
        locks = good[:31] + [bad] + good[31:]

        def held(owner: int, enough: Callable[[], bool]) -> None:
            assert {answer.status for answer in agent.many([("acquire", lock.index, owner, 0) for lock in locks])} == {"OK"}
            before = client.counters()
            until(enough)
            until(lambda: client.counters()["renewed"] >= before["renewed"] + 2 * len(good))
            assert {lock.state(owner) for lock in good} == {"HELD"}, "the others are renewed in time"
            agent.many([("release", lock.index, owner) for lock in locks])

        held(1, lambda: len(fake.sizes) > 2)
        assert len([size for size in fake.sizes if size > 8]) == 1 and len([size for size in fake.sizes if size > 1]) <= 2, fake.sizes
        assert fake.others <= 7 + 7 + 12, "the parts, and two periods"
        whole, *parts = parts_of_the_first(fake)
        assert whole > 8 and parts == [8] * (whole // 8) + [whole % 8] * (whole % 8 > 0), "at once, by eights"
        seen = len(fake.sizes)
        held(2, lambda: len(fake.sizes) > seen)
        assert set(fake.sizes[3:]) == {1}, "it shares no request any more"
        fake.bad, seen, before = b"nobody", len(fake.sizes), len(fake.asked_for)
        held(3, lambda: any(b"bad" in locks and len(locks) > 1 for locks in fake.asked_for[before:]))  # again with others
        assert bad.state(3) != "LOST" and len(fake.sizes) == seen and client.counters()["lost"] <= 2
        tell(fired=seen)


@pytest.mark.house
def test_renewals_with_a_bad_one(new_agent: Make) -> None:
    renewals_with_a_bad_one(new_agent)


@pytest.mark.house
def test_renewals_with_one_lock_per_request(agent: Agent) -> None:
    """A server, or a proxy in front of several, that accepts keys of one slot only: it gets a request with two locks once."""
    with Denying("renew", None, CROSSSLOT) as fake:
        client = agent.open(fake, lease_ms=3000, safety_ms=100)
        locks = [client.lock(f"n{number}") for number in range(20)]
        agent.many([("acquire", lock.index, 1, 0) for lock in locks])
        until(lambda: client.counters()["renewed"] >= 3 * len(locks))
        assert {lock.state(1) for lock in locks} == {"HELD"} and 1 <= len(fake.sizes) <= 3, fake.sizes
        tell(fired=len(fake.sizes))


# ---- many callers in one script


def callers_with_a_bad_one(new_agent: Make, **environment: str) -> None:
    with Denying("batch_acquire", b"n7") as fake:
        alone = {"denied": False}

        def own(_: socket.socket, words: list[bytes]) -> bytes:
            return NOPERM if words[3] == b"n7" and alone["denied"] else fake.usual("acquire", words)

        fake.say("acquire", own)
        agent = new_agent(**environment)
        client = agent.open(fake, private_connections=0)
        locks = [client.lock(f"n{number}") for number in range(MANY)]

        def busy(enough: Callable[[], bool]) -> int:
            """All callers acquire and release, and n7 tries, until the condition is true. Returns how often n7 tried."""
            tries = rounds = 0
            while not enough():
                rounds += 1
                assert rounds < 15, "it goes with others again"
                waits = [lock.start("turns", 1, 100, thread=number + 1) for number, lock in enumerate(locks) if number != 7]
                while not all(wait.ready() for wait in waits):
                    answer = locks[7].acquire(1, 0)
                    assert answer.status == ("DENIED" if alone["denied"] else "OK"), answer
                    assert answer.status == "OK" or "'n7'" in answer.message
                    tries += locks[7].release(1).status in ("OK", "NOT_HELD")
                assert sum(wait.answer(60).ok.bad for wait in waits) == 0
            return tries

        busy(lambda: len(fake.sizes) > 0)  # in a batch it is refused, alone it is not
        alone["denied"] = True
        accepted, seen, tries = fake.others, len(fake.sizes), 0
        while tries < 200:
            rounds = iter([False, True])
            tries += busy(lambda: next(rounds))
        assert fake.others > accepted and len(fake.sizes) <= seen + 1, "it goes with others no more"
        alone["denied"], seen = False, len(fake.sizes)
        busy(lambda: len(fake.sizes) > seen)  # after a success it joins a batch again
        tell(fired=len(fake.sizes))


@pytest.mark.house
def test_callers_with_a_bad_one(new_agent: Make) -> None:
    callers_with_a_bad_one(new_agent)


@pytest.mark.house
def test_callers_with_one_lock_per_script(agent: Agent) -> None:
    with Denying("batch_acquire", None, CROSSSLOT) as fake:
        client = agent.open(fake, private_connections=0)
        locks = [client.lock(f"n{number}") for number in range(MANY)]
        waits = [lock.start("turns", 1, 100, thread=number + 1) for number, lock in enumerate(locks)]
        assert sum(wait.answer(60).ok.bad for wait in waits) == 0
        assert 1 <= len(fake.sizes) <= 4, "those that were under way"
        tell(fired=len(fake.sizes))


def test_callers_and_a_key_that_may_not_be_touched(agent: Agent, new_server: Make) -> None:
    server = new_server()
    client = agent.open(user(server, "~*good*"), private_connections=0)
    bad, good = client.lock("bad"), [client.lock(f"good{number}") for number in range(MANY)]
    waits = [lock.start("turns", 1, 200, thread=number + 1) for number, lock in enumerate(good)]
    tries = 0
    while not all(wait.ready() for wait in waits):
        answer = bad.acquire(1, 0)
        assert answer.status == "DENIED" and "'bad'" in answer.message and "NOPERM" in answer.message, answer
        tries += 1
    assert sum(wait.answer(60).ok.bad for wait in waits) == 0
    assert tries <= rejected(server) <= tries + 1
    tell(fired=rejected(server))


# ---- several locks as one


def says_which(agent: Agent, server: Server) -> None:
    client = agent.open(user(server, "~*good*"))
    names = ["{m}good1", "{m}good2", "{m}wrong", "{m}zgood"]
    locks = [client.lock(name) for name in names]
    multi = client.multi(*locks)
    for wait in (0, 200):
        answer = multi.acquire(1, wait)
        assert answer.status == "DENIED" and "'{m}wrong'" in answer.message and "NOPERM" in answer.message, answer
        multi.submit_acquire(2, wait, 5).ok
        event = client.event()
        assert event.type == "ACQUIRE_FAILED" and event.lock_id == multi.id and "'{m}wrong'" in event.text, event
    until(lambda: server.command("EXISTS", *names) == 0)
    for lock in (locks[0], locks[1], locks[3]):
        lock.acquire(3, 0).ok
        lock.release(3).ok


def test_which_member_may_not_be_touched(agent: Agent, new_server: Make) -> None:
    server = new_server()
    says_which(agent, server)


def test_members_are_taken_together_again(agent: Agent, new_server: Make) -> None:
    """One by one while one is refused. Once all could be acquired, in one step again."""
    server = new_server()
    client = agent.open(user(server, "~*good*"))
    multi = client.multi(client.lock("{m}good"), client.lock("{m}wrong"))
    assert multi.acquire(1, 0).status == "DENIED"
    before = rejected(server)
    assert multi.acquire(1, 0).status == "DENIED"
    assert rejected(server) == before + 1, "all at once is not tried again"
    user(server, "~*")
    for _ in range(2):
        server.command("CONFIG", "RESETSTAT")
        multi.acquire(1, 0).ok
        acquired = int(re.findall(rb"cmdstat_evalsha?:calls=(\d+)", server.command("INFO", "commandstats"))[0])
        multi.release(1).ok
    assert acquired == 1


@pytest.mark.parametrize("way", ["acquire", "submit"])
def test_a_member_whose_counter_is_something_else(agent: Agent, redis_server: Server, way: str) -> None:
    client = agent.open(redis_server)
    multi = client.multi(*(client.lock("{m}%d" % number) for number in range(3)))
    redis_server.command("RPUSH", "redisson_lock_token:{m}1", "not a counter")
    if way == "acquire":
        answer = multi.acquire(1, 0)
        assert answer.status == "WRONG_KIND" and "'{m}1'" in answer.message, answer
    else:
        multi.submit_acquire(1, 0, 5).ok
        assert "'{m}1'" in client.event().text
    until(lambda: redis_server.command("EXISTS", "{m}0", "{m}1", "{m}2") == 0)


# ---- mutants


TESTS = {"renewals": renewals_with_a_bad_one, "callers": callers_with_a_bad_one}


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.rows(mutants.BAD_ONE, late={613}))
def test_mutant(mutant: mutants.Mutant, new_agent: Make, tmp_path: pathlib.Path) -> None:
    made = mutants.library(ROOT, BUILD, tmp_path, mutant)
    with pytest.raises(AssertionError):
        TESTS[mutant.world](new_agent, LD_PRELOAD=str(made))


@pytest.mark.house
def test_mutant_which_member(new_agent: Make, new_server: Make, tmp_path: pathlib.Path) -> None:
    made = mutants.library(ROOT, BUILD, tmp_path, mutants.UNNAMED)
    with pytest.raises(AssertionError, match="good1"):
        says_which(new_agent(LD_PRELOAD=str(made)), new_server())
