"""Direct calls: a caller that submits while the client has nothing else to do sends by itself, and takes the answer (redis/pipe/pipe.h)."""
from __future__ import annotations

import collections
import os
import pathlib
import subprocess
import threading
import time
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Answer, Client, Event, Lock, until
from harness.build import BUILD, ROOT, native
from harness.faults import always, times
from harness.late import Late
from harness.proxy import Proxy
from harness.steps.scripts import SHA, teach
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
LONG = 10_000  # microseconds, the longest busy_poll_us


def told(client: Client, tag: int, within: float = 20) -> Event:
    """The event of a call; log events of failures may come before it."""
    while (event := client.event(within)).type == "LOG":
        pass
    assert event.tag == tag, event
    return event


def opened(agent: Agent, url: str | Proxy, **options: Any) -> tuple[Client, Lock]:
    """The first pair of calls connects."""
    client = agent.open(url, **options)
    lock = client.lock("the lock")
    pair(client, lock)
    return client, lock


def pair(client: Client, lock: Lock, tag: int = 1, within: float = 20) -> None:
    lock.submit_acquire(1, -1, tag).ok
    assert told(client, tag, within).type == "ACQUIRED"
    lock.submit_release(1, tag).ok
    assert told(client, tag, within).type == "RELEASED"


def gave_way(agent: Agent, call: Callable[[], Answer]) -> int:
    """How often the call yielded: it polls for an answer then. The client's own thread never does."""
    agent("shim", "yield", 0, 0)  # 0: no call fails
    return call().ok.counted


def asks(agent: Agent, client: Client, call: Callable[[int], Answer], wants: tuple[str, ...]) -> int:
    """How often a caller that submits alone yielded."""
    times = gave_way(agent, lambda: call(7))
    assert told(client, 7).type in wants
    return times


def takes_answers(agent: Agent, client: Client, lock: Lock) -> None:
    """It takes some answers sooner or later: where others need the core, a caller polls once a second."""

    def both() -> int:
        first = asks(agent, client, lambda tag: lock.submit_acquire(1, -1, tag), ("ACQUIRED",))
        return first * asks(agent, client, lambda tag: lock.submit_release(1, tag), ("RELEASED",))

    until(lambda: both() > 0)


# ---- when calls are direct


@pytest.mark.full  # where others need the core, it hardly ever does
def test_who_is_alone_takes_the_answer(new_agent: Callable[..., Agent], redis_server: Server) -> None:
    agent = new_agent(shim=True)
    client, lock = opened(agent, redis_server.url, busy_poll_us=LONG)
    takes_answers(agent, client, lock)
    until(lambda: asks(agent, client, lambda tag: lock.submit("inspect", tag), ("DONE",)) > 0)


def test_nobody_asks(new_agent: Callable[..., Agent], redis_server: Server) -> None:
    agent = new_agent(shim=True)
    client, lock = opened(agent, redis_server.url, busy_poll_us=0)
    for tag in range(20):
        assert gave_way(agent, lambda: lock.submit_acquire(1, -1, tag)) == 0
        assert told(client, tag).type == "ACQUIRED"
        assert gave_way(agent, lambda: lock.submit_release(1, tag)) == 0
        assert told(client, tag).type == "RELEASED"


def many_at_a_time(agent: Agent, server: Server, direct: bool = True) -> None:
    """A caller that finds an unread event is not alone: such calls go together. direct: calls before and after it take their answers."""
    client, lock = opened(agent, server.url, busy_poll_us=LONG)
    others = [client.lock(f"other {number}") for number in range(20)]
    if direct:
        takes_answers(agent, client, lock)
    lock.submit_acquire(1, -1, 100).ok
    until(lambda: client.poll(0).readable)
    gave = [gave_way(agent, lambda: other.submit_acquire(1, -1, tag)) for tag, other in enumerate(others)]  # noqa: B023
    assert {client.event().tag for _ in range(len(others) + 1)} == {100, *range(len(others))}
    assert sum(gave) == 0
    if direct:
        until(lambda: asks(agent, client, lambda tag: lock.submit("inspect", tag), ("DONE",)) > 0)


@pytest.mark.parametrize("direct", always(False, full=[True]))
def test_many_at_a_time(new_agent: Callable[..., Agent], redis_server: Server, direct: bool) -> None:
    """Whether a caller polls depends on who else needs the core: that part is for a quiet machine."""
    many_at_a_time(new_agent(shim=True), redis_server, direct)


# ---- failures


def far_away(agent: Agent, server: Server, new_proxy: Make, within: float = 20) -> None:
    """Answers that are not there in time are left to the client's thread."""
    proxy: Proxy = new_proxy(server)
    proxy.up.delay = 0.01
    client, lock = opened(agent, proxy, busy_poll_us=1000)
    for tag in range(30):
        pair(client, lock, tag, within)
    assert proxy.up.fired["delay"] >= 60


def test_a_server_far_away(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    far_away(agent, redis_server, new_proxy)


def test_no_answer(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """The client's thread gives up in time, although it did not send the request itself."""
    proxy: Proxy = new_proxy(redis_server)
    client, lock = opened(agent, proxy, command_timeout_ms=300, lease_ms=30_000)
    for round_ in range(1, 6):
        pair(client, lock, round_)
        proxy.down.hold()
        lock.submit_acquire(1, 0, 1000).ok
        event = told(client, 1000)
        assert event.type == "ACQUIRE_FAILED" and event.status in (1, -300), event
        assert proxy.down.fired["hold"] >= round_
        proxy.down.release()
        until(lambda: lock.acquire(1, 5000).status == "OK")
        lock.release(1).ok


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_the_connection_breaks(agent: Agent, redis_server: Server, new_proxy: Make, reset: bool) -> None:
    """Before, during and after a direct call: the call goes on or reports a failure, and the next one has a connection."""
    proxy: Proxy = new_proxy(redis_server)
    client, lock = opened(agent, proxy, connects_per_second=1000, lease_ms=30_000)
    said = collections.Counter[int]()
    for tag in range(60):
        pair(client, lock, 2)
        proxy.cut(reset)
        lock.submit_acquire(1, -1, 2000 + tag).ok
        event = told(client, 2000 + tag)
        said[event.status] += 1
        if event.status == 0:
            lock.submit_release(1, 3000 + tag).ok
            assert told(client, 3000 + tag).type in ("RELEASED", "RELEASE_FAILED")
    assert said[0] and set(said) <= {0, -300}, said
    assert client.counters()["connects"] > 30


def renewals_in_line(late: Late, server: Server, new_proxy: Make) -> None:
    """A caller takes the answer to the first renewals before the client's thread is woken by it. The thread sends the others at once, not
    when that answer would have been overdue."""
    lease, overdue, proxy, words = 9000, 1.0, new_proxy(server), late.words
    renewals = proxy.up.on(SHA["renew"])
    proxy.up.on(SHA["acquire"], lambda *_: proxy.down.release())
    names = [f"held {number}" for number in range(40)]

    def due() -> bool:
        left = [int(server.command("PTTL", name)) for name in names]
        return not any(lease * 2 / 3 - lease / 30 - 50 < one < lease * 0.85 for one in left)

    for _ in range(10):  # where others need the core nobody takes answers
        client, lock = opened(late.agent, proxy, busy_poll_us=LONG, lease_ms=lease)
        for name in names:
            client.lock(name).acquire(1, 0).ok
        sent, stopped = renewals.count, words[5]
        proxy.down.hold()
        until(lambda: renewals.count > sent)
        began = time.monotonic()
        until(due)
        words[4] = 1
        until(lambda: words[5] > stopped)
        taken = lock.begin_acquire(1, -1, 7).status == "OK" and time.monotonic() - began < 0.7 * overdue
        words[4] = 0
        until(lambda: client.counters()["renewed"] >= len(names))
        in_time = time.monotonic() - began < 0.9 * overdue
        client.close(5000).ok
        if taken:
            assert in_time
            return


@pytest.mark.full
@pytest.mark.timeout(120)
def test_renewals_in_line(new_agent: Make, redis_server: Server, new_proxy: Make, tmp_path: pathlib.Path) -> None:
    teach(redis_server)
    renewals_in_line(Late(tmp_path, new_agent), redis_server, new_proxy)


# ---- at the same time

POOLS = ("busy_poll_us=10000", "busy_poll_us=10000&private_connections=0")


def rush(url: str, submitters: int, seed: int, calls: int, **env: str) -> dict[str, int]:
    """native/agents/rush.c: threads that submit beside threads that block, over the shared connection if it is the only one."""
    command = [str(native("rush")), url, str(submitters), str(seed), str(calls)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, timeout=200, env={**os.environ, **env})
    assert done.returncode == 0, (command, done.stdout)
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.parametrize("options", POOLS, ids=["private", "shared"])
@pytest.mark.parametrize("seeds, calls", times((3, 300), (4, 1000), 600, (30, 1000)))
def test_at_the_same_time(redis_server: Server, seeds: int, calls: int, options: str) -> None:
    for seed in range(seeds):
        said = rush(f"{redis_server.url}?{options}", 1 + seed % 3, seed, calls)
        assert min(said.values()) > 0


@pytest.mark.parametrize("options", POOLS, ids=["private", "shared"])
@pytest.mark.parametrize("rounds", times(200, 1500, seconds=300))
def test_another_thread_releases_first(redis_server: Server, rounds: int, options: str) -> None:
    """Before the thread that was granted the lock has woken up: native/agents/loan.c. Both threads have their answer."""
    done = subprocess.run([native("loan"), f"{redis_server.url}?{options}", str(rounds)], text=True, stdout=subprocess.PIPE, timeout=250)
    assert done.returncode == 0, done.stdout
    lost = int(done.stdout.split()[1])
    assert lost > 0
    tell(done=rounds, fired=lost)


@pytest.mark.parametrize("options", POOLS, ids=["private", "shared"])
@pytest.mark.parametrize("seeds, calls", times((3, 300), (4, 1000), 600, (30, 1000)))
def test_broken_at_the_same_time(redis_server: Server, new_proxy: Make, seeds: int, calls: int, options: str) -> None:
    proxy: Proxy = new_proxy(redis_server)
    ended, cuts = threading.Event(), 0

    def cut() -> None:
        nonlocal cuts
        while not ended.wait(0.02):
            cuts += len(proxy.links)
            proxy.cut(cuts % 2 == 0)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        for seed in range(seeds):
            rush(f"{proxy.url}?{options}&connects_per_second=1000", 1 + seed % 3, seed, calls)
    finally:
        ended.set()
        thread.join()
    assert cuts > seeds


# ---- mutants that these tests find

Finder = Callable[[str, Make, Server, Make], None]


def left_to_the_thread(library: str, new_agent: Make, server: Server, new_proxy: Make) -> None:
    far_away(new_agent(LD_PRELOAD=library), server, new_proxy, within=0.2)


def together(library: str, new_agent: Make, server: Server, _new_proxy: Make) -> None:
    for _ in range(10):  # where others need the core they do not poll
        server.command("FLUSHALL")
        many_at_a_time(new_agent(shim=True, LD_PRELOAD=library), server)


def left_to_the_clock(library: str, new_agent: Make, server: Server, new_proxy: Make) -> None:
    renewals_in_line(Late(pathlib.Path(library).parent, new_agent, LD_PRELOAD=library), server, new_proxy)


def one_at_a_time(library: str, _new_agent: Make, server: Server, _new_proxy: Make) -> None:
    for seed in range(30):
        said = rush(f"{server.url}?{POOLS[1]}", 1, seed, 1000, LD_PRELOAD=library)
        assert min(said.values()) > 0


FOUND: dict[int, Finder] = {511: left_to_the_thread, 512: together, 513: one_at_a_time, 518: left_to_the_clock}


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.rows(mutants.DIRECT))
def test_mutant(mutant: mutants.Mutant, new_agent: Make, redis_server: Server, new_proxy: Make, tmp_path: pathlib.Path) -> None:
    with pytest.raises((AssertionError, subprocess.TimeoutExpired)):
        FOUND[mutant.number](str(mutants.library(ROOT, BUILD, tmp_path, mutant)), new_agent, redis_server, new_proxy)
