"""Replies that nobody asked for: none of them becomes the answer to a later request, however soon that is sent."""
from __future__ import annotations

import pathlib
import time
from typing import Any, Callable

import mutants
import pytest

from harness.agent import Agent
from harness.build import BUILD, ROOT
from harness.fake import FakeServer, LockServer

Make = Callable[..., Any]
BUSY = b"*3\r\n:0\r\n:60000\r\n:0\r\n"
FAST = {"connects_per_second": 1000, "lease_ms": 60_000}
UNREACHABLE = -300  # in events
PATHS: dict[str, dict[str, Any]] = {"private": {}, "shared": {"private_connections": 0}, "confirmed": {"replicas": 1}}


def grant() -> bytes:
    return b"*2\r\n:1\r\n:%d\r\n" % (time.time_ns() // 1000 + 10_000_000)


FOREIGN = b"*3\r\n:0\r\n:60000\r\n:1\r\n"  # a client of Redisson holds it: the waiter subscribes to its channel
UNASKED = {"grant": grant(), "two": grant() * 2, "a part": grant()[:-3], "error": b"-ERR no\r\n", "status": b"+OK\r\n"}


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest) -> dict[str, Any]:
    return PATHS[request.param]


@pytest.mark.parametrize("what", UNASKED)
def test_before_a_request(agent: Agent, path: dict[str, Any], what: str) -> None:
    """Somebody else holds the lock. The connection is dropped, and the true answer comes over another one."""
    with LockServer() as fake:
        fake.on("WAIT", b":1\r\n")
        client = agent.open(fake, **path, **FAST)
        lock = client.lock("job")
        lock.acquire(1, 0).ok
        lock.release(1).ok
        fake.say("acquire", BUSY)
        assert fake.blurt(UNASKED[what]) > 0
        before = fake.connections
        assert lock.acquire(1, 0).status == "BUSY" and lock.state(1) == "NONE"
        assert fake.connections > before
        assert lock.acquire(1, 0).status == "BUSY"


def test_before_a_renewal(agent: Agent, path: dict[str, Any]) -> None:
    """The server has forgotten the lock: an extension says so."""
    with LockServer() as fake:
        fake.on("WAIT", b":1\r\n")
        lock = agent.open(fake, **path, **FAST).lock("job")
        lock.acquire(1, 0).ok
        lock.extend(1, 50_000).ok
        fake.say("renew", b"*1\r\n:0\r\n")
        assert fake.blurt(b"*1\r\n:1\r\n") > 0
        assert lock.extend(1, 50_000).status == "LOST"


def test_before_wait(agent: Agent) -> None:
    """A number behind the grant is no confirmation by a replica."""
    with LockServer() as fake:
        fake.on("WAIT", b":0\r\n")
        lock = agent.open(fake, replicas=1, **FAST).lock("job")
        fake.say("acquire", lambda _link, _words: grant() + b":1\r\n", 1)
        answer = lock.acquire(1, 0)
        assert answer.status == "NOT_REPLICATED" and "nobody asked" in answer.message, answer
        assert lock.state(1) == "NONE"


def test_in_a_handshake(agent: Agent) -> None:
    """More than it asked for: no request follows."""
    with LockServer() as fake:
        fake.on("CLIENT", b"+OK\r\n" + grant())
        answer = agent.open(fake, **FAST).lock("job").acquire(1, 0)
        assert answer.status == "PROTOCOL_ERROR" and "more than it was asked for" in answer.message, answer
        assert fake.asked["acquire"] == 0


def ready(fake: FakeServer) -> None:
    usual = {"WATCH": b"+OK\r\n", "GET": b"$1\r\nx\r\n", "MULTI": b"+OK\r\n", "SET": b"+QUEUED\r\n", "EXEC": b"*1\r\n+OK\r\n"}
    for command, reply in usual.items():
        fake.on(command, reply)


@pytest.mark.parametrize("how", ["blocking", "submitted"])
@pytest.mark.parametrize("before", ["get", "commit"])
def test_in_a_transaction(agent: Agent, how: str, before: str) -> None:
    """No such value is read, no such EXEC is believed, and nothing is written. The next round has a new connection."""
    unasked = b"$1\r\ny\r\n" if before == "get" else b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"
    with FakeServer() as fake:
        ready(fake)
        client = agent.open(fake, **FAST)
        txn = client.txn()

        def say(command: str, *words: Any) -> Any:
            if how == "blocking":
                return agent(command, txn.index, *words)
            txn.submit_txn(command, 7, *words).ok
            return client.event()

        say("watch", "a")
        if before == "commit":
            txn.set("a", "x", -1).ok
        assert fake.blurt(unasked) > 0
        answer = say("commit") if before == "commit" else say("get", "a", 9) if how == "blocking" else say("get", "a")
        assert answer.status in ("UNREACHABLE", UNREACHABLE) and "nobody asked" in repr(answer), answer
        assert fake.count("GET") + fake.count("MULTI") + fake.count("SET") == 0
        say("watch", "a")
        txn.set("a", "x", -1).ok
        assert say("commit").status in ("OK", 0)


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.UNASKED, ids=lambda mutant: mutant.what)
def test_mutant(mutant: mutants.Mutant, new_agent: Make, tmp_path: pathlib.Path) -> None:
    """The tests above find it."""
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutant)))
    with pytest.raises(AssertionError):
        for path in PATHS.values():
            for what in UNASKED:
                test_before_a_request(agent, path, what)
        test_before_wait(agent)
