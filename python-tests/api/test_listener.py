"""A caller that sleeps receives the messages of its client: what it waits for comes without the client's thread (src/redis/pubsub/listener.h)."""
from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Client, Lock, Pending, until
from harness.build import BUILD, ROOT
from harness.engines.standin import the_thread_hears_again
from harness.late import Late
from harness.proxy import Proxy
from harness.server import Server

Make = Callable[..., Any]
NAME = "the lock"
SOON = 20  # seconds, for what comes at once; on a busy machine a thread may wait for the processor


def in_line(client: Client, server: Server, name: str = NAME, owner: int = 1, wait: int = 60_000) -> Pending:
    """A thread waits for a lock that another process has."""
    pending = client.lock(name).start("acquire", owner, wait, thread=owner)
    until(lambda: server.command("ZCARD", f"dlock_queue:{{{name}}}") > 0)
    return pending


def submitted_in_line(client: Client, server: Server, name: str) -> None:
    client.lock(name).submit_acquire(3, 60_000, 3).ok
    until(lambda: server.command("ZCARD", f"dlock_queue:{{{name}}}") > 0)


class Other:
    """Another process, which has the locks of these names. Nothing is renewed or expires soon, and a waiter hardly ever asks again."""

    def __init__(self, agent: Agent, server: Server, *names: str) -> None:
        client = agent.open(server, lease_ms=120_000)
        self.locks = {name: client.lock(name) for name in names or (NAME,)}
        self.acquire()

    def acquire(self) -> None:
        for lock in self.locks.values():
            lock.acquire(1, 5000).ok

    def release(self) -> None:
        for lock in self.locks.values():
            lock.release(1).ok


def listening(agent: Agent, where: Server | Proxy, server: Server, other: Other) -> Client:
    """A client that was granted a lock by a message: its callers can listen."""
    client = agent.open(where, lease_ms=120_000)
    lock = client.lock(NAME)
    while client.counters()["pushed_grants"] == 0:
        waits = in_line(client, server)
        other.release()
        waits.answer().ok
        lock.release(1).ok
        other.acquire()
    return client


def without_the_thread(late: Late, server: Server, new_agent: Make, rounds: int = 5) -> None:
    other = Other(new_agent(), server)
    client = listening(late.agent, server, server, other)
    for _ in range(rounds):
        waits = in_line(client, server)
        with late.stopped():
            other.release()
            waits.answer(SOON).ok
        client.lock(NAME).release(1).ok
        other.acquire()


def test_without_the_thread(redis_server: Server, new_agent: Make, tmp_path: pathlib.Path) -> None:
    without_the_thread(Late(tmp_path, new_agent), redis_server, new_agent)


def test_one_listens_for_all(redis_server: Server, new_agent: Make, tmp_path: pathlib.Path) -> None:
    """It also takes what is for others: a call that was submitted, and a thread that sleeps."""
    late, other = Late(tmp_path, new_agent), Other(new_agent(), redis_server)
    more = Other(new_agent(), redis_server, "first", "submitted", "asleep")
    client = listening(late.agent, redis_server, redis_server, other)
    waits = in_line(client, redis_server)
    submitted_in_line(client, redis_server, "first")
    with late.stopped():  # whoever takes this message listens, and nobody else waits yet
        more.locks["first"].release(1).ok
        assert client.event(SOON).type == "ACQUIRED"
    asleep = in_line(client, redis_server, "asleep", owner=2)
    submitted_in_line(client, redis_server, "submitted")
    with late.stopped():
        for name in ("submitted", "asleep"):
            more.locks[name].release(1).ok
        assert client.event(SOON).type == "ACQUIRED"
        asleep.answer(SOON).ok
        other.release()
        waits.answer(SOON).ok


def who_listened_has_left(agent: Agent, server: Server, new_agent: Make) -> None:
    other = Other(new_agent(), server)
    client = listening(agent, server, server, other)
    the_thread_hears_again(
        client, other, NAME, lambda: in_line(client, server, wait=100), lambda one: (server.command("ZCARD", f"dlock_queue:{{{NAME}}}") > 0) == one, rounds=10, slow=0.1
    )


def test_who_listened_has_left(agent: Agent, redis_server: Server, new_agent: Make) -> None:
    who_listened_has_left(agent, redis_server, new_agent)


def ended(agent: Agent, server: Server, new_agent: Make) -> None:
    """Another thread ends the wait."""
    other = Other(new_agent(), server)
    client = listening(agent, server, server, other)
    waits = in_line(client, server)
    client.lock(NAME).cancel(1).ok
    assert waits.answer(SOON).status == "CANCELLED"
    waits = in_line(client, server)
    client.close(5000).ok
    assert waits.answer(SOON).status == "CLOSED"


def test_ended(agent: Agent, redis_server: Server, new_agent: Make) -> None:
    ended(agent, redis_server, new_agent)


@pytest.mark.parametrize("how", ["closed", "reset", "stranded"])
def test_the_connection_breaks(agent: Agent, redis_server: Server, new_proxy: Make, new_agent: Make, how: str) -> None:
    """While a caller listens: the thread of the client connects again, and the caller gets the lock."""
    proxy, other = new_proxy(redis_server), Other(new_agent(), redis_server)
    client = listening(agent, proxy, redis_server, other)
    for _ in range(1 if how == "stranded" else 5):
        waits, connections = in_line(client, redis_server), proxy.connections
        if how == "stranded":
            assert proxy.strand() > 0
        else:
            proxy.cut(how == "reset")
        until(lambda: proxy.connections > connections, 30)
        other.release()
        waits.answer(30).ok
        client.lock(NAME).release(1).ok
        other.acquire()


# ---- mutants that these tests find


def alone(library: str, server: Server, new_agent: Make) -> None:
    without_the_thread(Late(pathlib.Path(library).parent, new_agent, LD_PRELOAD=library), server, new_agent, 1)


def left(library: str, server: Server, new_agent: Make) -> None:
    who_listened_has_left(new_agent(LD_PRELOAD=library), server, new_agent)


def cancelled(library: str, server: Server, new_agent: Make) -> None:
    ended(new_agent(LD_PRELOAD=library), server, new_agent)


FOUND: dict[int, Callable[[str, Server, Make], None]] = {528: alone, 529: left, 530: cancelled, 531: alone}


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.rows(mutants.LISTENERS))
@pytest.mark.timeout(150)
def test_mutant(mutant: mutants.Mutant, redis_server: Server, new_agent: Make, tmp_path: pathlib.Path) -> None:
    """On a busy machine the message may come before the caller sleeps. Then nobody listens, and there is another try."""
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))

    def found() -> bool:
        redis_server.command("FLUSHALL")
        try:
            FOUND[mutant.number](library, redis_server, new_agent)
        except (AssertionError, TimeoutError):
            return True
        return False

    assert any(found() for _ in range(5))
