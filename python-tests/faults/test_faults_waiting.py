"""Faults while waiting: rows H of the matrix. Each test counts that its fault happened."""
from __future__ import annotations

import pathlib
import random
from typing import Any, Callable

import mutants
import pytest

from harness.agent import Agent, now, until
from harness.build import BUILD, ROOT
from harness.faults import SLACK_MS, alive, times
from harness.late import Late
from harness.proxy import Proxy
from harness.steps.scripts import teach
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
FAST = {"connects_per_second": 1000}


@pytest.fixture
def server(redis_server: Server) -> Server:
    teach(redis_server)
    return redis_server


# ---- H-01: released between try and subscribe


@pytest.mark.parametrize("rounds", times(40, 200, soak=1000))
@pytest.mark.parametrize("held", ["request", "confirmation"])
def test_h01_released_before_the_subscription(server: Server, new_agent: Make, new_proxy: Make, held: str, rounds: int) -> None:
    """Neither the waiter's own probe (30 s) nor the end of the lease (30 s) could wake it in time."""
    proxy: Proxy = new_proxy(server)
    waiting, holding = new_agent(), new_agent()
    theirs = holding.open(server).lock("h01")
    longest, missed = 0.0, 0
    for _ in range(rounds):
        client = waiting.open(proxy, safety_ms=30_000, **FAST)
        mine = client.lock("h01")
        theirs.acquire(1, 5000).ok
        gate = proxy.up.pause_at(b"SUBSCRIBE") if held == "request" else proxy.down.pause_at(b"subscribe")
        wait = mine.start("acquire", 1, 20_000, thread=1)
        gate.wait()
        theirs.release(1).ok
        missed += not wait.ready() and not alive(server, ["h01"])
        opened = now()
        gate.open()
        longest = max(longest, (wait.answer().ok.done - opened) / 1000)
        mine.release(1).ok
        client.close(2000).ok
        client.free(), mine.drop()
    print(f"H-01: {missed} of {rounds} releases went unheard ({held} held), granted {longest:.0f} ms after at most")
    tell(done=rounds)
    assert missed == rounds and longest < 15_000


# ---- H-02: the subscription is cut while waiting


def subscribed(server: Server) -> set[bytes]:
    """The names of the subscribed clients."""
    lines = server.command("CLIENT", "LIST", "TYPE", "pubsub").splitlines()
    return {word[5:] for line in lines for word in line.split() if word.startswith(b"name=")}


@pytest.mark.parametrize("connects, rounds", [*times((1, 16), (1, 100)), *times((1000, 60), (1000, 600))])
def test_h02_subscription_cut_while_waiting(server: Server, new_agent: Make, connects: int, rounds: int) -> None:
    """The waiter's own probe wakes it at the latest. Cut before the release, or while it is executed; the subscription may come back at
    once, or only once per second.
    """
    safety, chance = 300, random.Random(2)
    locks = [new_agent().open(server, safety_ms=safety, client_name=i, connects_per_second=connects).lock("h02") for i in range(2)]
    took: list[float] = []
    cut = unsubscribed = 0

    def kill() -> int:
        return int(server.command("CLIENT", "KILL", "TYPE", "pubsub"))

    locks[0].acquire(1, 0).ok
    for turn in range(rounds):
        holder, waiter, subscriber = locks[turn % 2], locks[1 - turn % 2], b"dlock-%d" % (1 - turn % 2)
        wait = waiter.start("acquire", 1, 20_000, thread=1)
        until(lambda: server.command("ZCARD", "dlock_queue:{h02}") > 0)
        first = chance.random() < 0.5
        there = subscriber in subscribed(server)
        if first:
            kill()
            unsubscribed += subscriber not in subscribed(server)
        began = now()
        release = holder.start("release", 1)
        if not first:
            kill()
        cut += there
        release.answer().ok
        took.append((wait.answer().ok.done - began) / 1000)
    locks[rounds % 2].release(1).ok
    took.sort()
    print(f"H-02: {cut} of {rounds} hand-offs cut, {unsubscribed} with an unsubscribed waiter at the release, median {took[rounds // 2]:.1f} ms, {took[-1]:.0f} ms at most")
    tell(done=rounds, fired=cut)
    assert (cut >= rounds // 2 if connects > 1 else unsubscribed >= rounds // 4)
    assert took[-1] <= safety + 3 * SLACK_MS


# ---- granted while asleep, and running after the end of the lease


def woken_behind_the_lease(server: Server, late: Late, rounds: int) -> None:
    client = late.agent.open(server, lease_ms=1000, renew="no")
    lock = client.lock("late")
    while late.words[1] < rounds:
        kept = late.words[1]
        lock.acquire(1, 0).ok
        late.words[0] = 1
        wait = lock.start("acquire", 2, 20_000, thread=1)
        until(lambda: lock.state(2) == "WAITING")
        ends = now() + 1_000_000  # not before: the lock may be gone for a moment between the release and the grant
        lock.submit_release(1, 7).ok  # a call that may sleep would be held back too
        until(lambda: wait.ready() or late.words[1] > kept and now() > ends and not server.command("EXISTS", "late"))
        late.words[0] = 0
        if late.words[1] == kept:  # granted before it slept
            lock.release(2).ok
            continue
        assert wait.answer().status == "LOST"
        assert lock.state(2) == "NONE"
    tell(done=late.words[1])
    lock.acquire(2, 5000).ok
    lock.release(2).ok


@pytest.mark.parametrize("rounds", times(5, 15))
def test_woken_behind_the_lease(server: Server, new_agent: Make, tmp_path: pathlib.Path, rounds: int) -> None:
    """The lock was handed over in memory, and its time began then: acquire returns LOST."""
    woken_behind_the_lease(server, Late(tmp_path, new_agent), rounds)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_woken_behind_the_lease(server: Server, new_agent: Make, tmp_path: pathlib.Path) -> None:
    made = mutants.library(ROOT, BUILD, tmp_path, mutants.LATE)
    with pytest.raises(AssertionError, match="'OK' == 'LOST'"):
        woken_behind_the_lease(server, Late(tmp_path, new_agent, LD_PRELOAD=str(made)), 1)
