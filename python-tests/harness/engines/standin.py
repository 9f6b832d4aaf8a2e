"""Checks of src/lanes/standin.c for an engine: a caller that waits does the I/O of its client's thread.

Each check gets a Place: how to open a client, and how many stand in line for a name.
"""
from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable

from harness.agent import Agent, Client, Lock, Pending
from harness.late import Late
from harness.waiting import until

Make = Callable[..., Any]
NAME = "job"
SOON = 20  # seconds, for what comes at once; on a busy machine a thread may wait for the processor


@dataclasses.dataclass
class Place:
    where: Any  # an Etcd, a Zookeeper, or a URL
    waiting: Callable[[str], int]  # how many have this lock or wait for it


def client_of(agent: Agent, place: Place, **options: Any) -> Client:
    """It has a session, and its thread sleeps in the way that lets a caller stand in. Nothing is renewed soon."""
    client = agent.open(place.where, lease_ms=30_000, **options)
    for _ in range(2):
        client.lock("first").acquire(1, 20_000).ok
        client.lock("first").release(1).ok
    return client


class Other:
    """Another process, which has the lock."""

    def __init__(self, agent: Agent, place: Place, name: str = NAME) -> None:
        self.lock = client_of(agent, place).lock(name)
        self.acquire()

    def acquire(self) -> None:
        self.lock.acquire(1, 20_000).ok

    def release(self) -> None:
        self.lock.release(1).ok


def in_line(client: Client, place: Place, name: str = NAME, owner: int = 1, wait: int = 60_000) -> Pending:
    """A thread waits for a lock that another process has."""
    pending = client.lock(name).start("acquire", owner, wait, thread=owner)
    until(lambda: place.waiting(name) == 2)
    return pending


def calls_without_the_thread(late: Late, place: Place, rounds: int = 5) -> None:
    """A lock is acquired and released, and tried, by its caller alone."""
    lock = client_of(late.agent, place).lock(NAME)
    for _ in range(rounds):
        with late.stopped():
            for wait in (1000 * SOON, 0):
                lock.start("acquire", 1, wait).answer(SOON).ok
                lock.start("release", 1).answer(SOON).ok


def a_grant_without_the_thread(late: Late, place: Place, new_agent: Make, rounds: int = 5) -> None:
    other, client = Other(new_agent(), place), client_of(late.agent, place)
    for _ in range(rounds):
        waits = in_line(client, place)
        with late.stopped():
            other.release()
            waits.answer(SOON).ok
            client.lock(NAME).start("release", 1).answer(SOON).ok
        other.acquire()


def for_others(late: Late, place: Place, new_agent: Make, waits: int = 4, rounds: int = 6) -> None:
    """Who stands in also does what is for others, at once: another caller, and a submitted call. A wait that finds the thread awake does not."""
    other, client = Other(new_agent(), place), client_of(late.agent, place)
    more: Lock = client.lock("another")
    for tag in range(3, 3 + waits):
        waiting, slow = in_line(client, place), 0
        with late.stopped():
            for _ in range(rounds):
                began = time.monotonic()
                more.start("acquire", 2, 20_000, thread=2).answer(SOON).ok
                more.start("release", 2, thread=2).answer(SOON).ok
                slow += time.monotonic() - began > 0.1
            assert slow <= rounds // 2
            client.lock("submitted").submit_acquire(tag, 60_000, tag).ok
            assert client.event(SOON).type == "ACQUIRED"
            other.release()
            waiting.answer(SOON).ok
        client.lock("submitted").release(tag).ok
        client.lock(NAME).release(1).ok
        other.acquire()


def the_thread_hears_again(client: Client, other: Any, name: str, in_vain: Callable[[], Pending], stands: Callable[[bool], bool], rounds: int, slow: float) -> None:
    """
    A caller has received what came, and its time was over. The thread of the client receives what comes afterwards, not only
    when it wakes for another reason. in_vain: a thread waits for the other's lock for a short time. stands: whether one of ours is
    in line; whether none is. slow: seconds.
    """
    late = 0
    for tag in range(rounds):
        assert in_vain().answer().status == "TIMED_OUT"
        until(lambda: stands(False))
        client.lock(name).submit_acquire(2, 60_000, tag).ok
        until(lambda: stands(True))
        began = time.monotonic()
        other.release()
        assert client.event().tag == tag
        late += time.monotonic() - began > slow
        client.lock(name).release(2).ok
        other.acquire()
    assert late <= rounds // 2


def who_stood_in_has_left(agent: Agent, place: Place, new_agent: Make) -> None:
    other, client = Other(new_agent(), place), client_of(agent, place)
    the_thread_hears_again(client, other, NAME, lambda: in_line(client, place, wait=300), lambda one: place.waiting(NAME) == 1 + one, rounds=6, slow=0.3)


def ended(agent: Agent, place: Place, new_agent: Make) -> None:
    """Another thread ends the wait."""
    Other(new_agent(), place)
    client = client_of(agent, place)
    waits = in_line(client, place)
    client.lock(NAME).cancel(1).ok
    assert waits.answer(SOON).status == "CANCELLED"
    until(lambda: place.waiting(NAME) == 1)
    waits = in_line(client, place)
    client.close(5000)
    assert waits.answer(SOON).status == "CLOSED"


def closed_without_an_answer(agent: Agent, place: Place, pause: Callable[[], None], resume: Callable[[], None]) -> None:
    """The server is silent. The client is closed: its thread ends the call of the caller that stands in."""
    client = client_of(agent, place)
    pause()
    try:
        called = client.lock(NAME).start("acquire", 1, 60_000, thread=1)
        client.counters()
        client.start("close", 500, thread=2)
        assert called.answer(SOON).status in ("CLOSED", "UNREACHABLE", "TIMED_OUT")
    finally:
        resume()


def late_without_the_thread(late: Late, place: Place, pause: Callable[[], None], resume: Callable[[], None]) -> None:
    """The server is silent. Who stands in also sees when the time of its call is over."""
    client = client_of(late.agent, place, command_timeout_ms=500)
    pause()
    try:
        with late.stopped():
            assert client.lock(NAME).start("acquire", 1, 0).answer(SOON).status == "UNREACHABLE"
    finally:
        resume()


def the_connection_breaks(client: Client, proxy: Any, place: Place, other: Other, how: str) -> None:
    """While a caller stands in: the client connects again, and the caller gets the lock."""
    for _ in range(3):
        waits, connections = in_line(client, place), proxy.connections
        proxy.cut(how == "reset")
        until(lambda: proxy.connections > connections, 30)
        other.release()
        waits.answer(30).ok
        client.lock(NAME).release(1).ok
        other.acquire()
