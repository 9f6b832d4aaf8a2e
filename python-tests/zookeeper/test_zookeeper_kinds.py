"""Kinds of locks on ZooKeeper: what the table of scenarios does not show."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable

import pytest

from harness.agent import Agent
from harness.build import LIBRARY, ROOT
from harness.zookeeper import Zookeeper, url
from harness.faults import times
from harness.waiting import until

Make = Callable[..., Any]

# Threads of one process read and write under the lock, and say when: begin, end, 1 for a write, token.
WORKER = """
import random, sys, threading, time, dlock
url, times, threads, seed = sys.argv[1], *map(int, sys.argv[2:])

def work(number):
    choose = random.Random(seed * 100 + number)
    sides = client.read_lock("prices"), client.write_lock("prices")
    for _ in range(times):
        write = choose.random() < 0.3
        with sides[write] as lock:
            began = time.monotonic_ns()
            time.sleep(0.0003)
            line = f"{began} {time.monotonic_ns()} {int(write)} {lock.token}\\n"
        sys.stdout.write(line)

with dlock.Client(url) as client:
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


@pytest.mark.parametrize("count", times(15, 90))
def test_readers_and_writers(zookeeper: Zookeeper, count: int) -> None:
    """Three processes of three threads: a writer is alone, readers meet, tokens of writers grow, nobody is forgotten."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    command = [sys.executable, "-c", WORKER, zookeeper.url, str(count), "3"]
    workers = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, env=env, text=True) for seed in range(3)]
    rows = sorted(tuple(map(int, line.split())) for worker in workers for line in worker.communicate()[0].splitlines())
    assert len(rows) == 9 * count
    written = read = highest = met = 0
    for began, ended, write, token in rows:
        assert began >= written, "somebody is in while a writer holds"
        if write:
            assert began >= read and token > highest
            written, highest = ended, token
        else:
            met += began < read
            read = max(read, ended)
    assert met > 0, "readers never met"
    until(lambda: zookeeper.nodes("prices") == [])


def test_a_reader_behind_a_waiting_writer_waits(zookeeper: Zookeeper, new_agent: Make) -> None:
    """The line is strict: readers that come later do not pass a writer."""
    reader, writer, late = (new_agent().open(zookeeper) for _ in range(3))
    reading, writing, later = reader.lock("job", kind="read"), writer.lock("job", kind="write"), late.lock("job", kind="read")
    reading.acquire(1, 0).ok
    wait = writing.start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("job")) == 2)
    assert later.acquire(1, 0).status == "BUSY"
    second = later.start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("job")) == 3)
    reading.release(1).ok
    wait.answer().ok
    assert not second.ready()
    writing.release(1).ok
    second.answer().ok


def test_a_writer_does_not_read(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper)
    writing, reading = client.lock("job", kind="write"), client.lock("job", kind="read")
    writing.acquire(1, 0).ok
    answer = reading.acquire(1, 0)
    assert answer.status == "UNSUPPORTED" and "a writer cannot read" in answer.message, answer
    writing.release(1).ok
    until(lambda: zookeeper.nodes("job") == [])
    reading.acquire(1, 0).ok


def test_owners_of_one_process_stand_in_line_too(zookeeper: Zookeeper, new_agent: Make) -> None:
    """There is no number for a turn in memory: each owner has a node, and another process is served in between."""
    client, other = new_agent().open(zookeeper), new_agent().open(zookeeper)
    lock, theirs = client.lock("job"), other.lock("job")
    first = lock.acquire(1, 0).ok.token
    waiting = theirs.start("acquire", 1, -1)
    until(lambda: len(zookeeper.nodes("job")) == 2)
    again = lock.start("acquire", 2, -1, thread=2)
    until(lambda: client.counters()["waiting"] == 1)
    lock.release(1).ok
    second = waiting.answer().ok.token
    theirs.release(1).ok
    assert first < second < again.answer().ok.token


@pytest.mark.parametrize("kind", ["mutex", "fair", "write"])
def test_a_waiter_in_the_middle_leaves(zookeeper: Zookeeper, new_agent: Make, kind: str) -> None:
    """Who stood behind it wakes up, sees the holder, and goes on waiting."""
    holder, middle, last = (new_agent().open(zookeeper, safety_ms=60000) for _ in range(3))
    locks = [client.lock("job", kind=kind) for client in (holder, middle, last)]
    locks[0].acquire(1, 0).ok
    leaves = locks[1].start("acquire", 1, -1, thread=1)
    until(lambda: len(zookeeper.nodes("job")) == 2)
    stays = locks[2].start("acquire", 1, -1, thread=1)
    until(lambda: len(zookeeper.nodes("job")) == 3)
    locks[1].cancel(1).ok
    assert leaves.answer().status == "CANCELLED"
    until(lambda: len(zookeeper.nodes("job")) == 2)
    for _ in range(3):
        assert locks[1].acquire(2, 0).status == "BUSY" and not stays.ready()
    locks[0].release(1).ok
    stays.answer().ok


def test_a_latch_counts_each_change_once(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make) -> None:
    """Answers are lost at random: what is left is what was counted, and who waits hears of the end."""
    proxy = new_proxy(zookeeper.members[0])
    client = new_agent().open(url(proxy), command_timeout_ms=900)
    latch, waiting = client.lock("done", kind="latch"), new_agent().open(zookeeper, safety_ms=60000).lock("done", kind="latch")
    waiting.latch_set(12).ok
    wait = waiting.start("acquire", 1, -1, thread=1)
    for left in range(11, -1, -1):
        proxy.lose_reply("done/count", times=1)
        while (answer := latch.latch_down(1)).status != "OK":
            assert answer.status in ("UNREACHABLE", "UNKNOWN_OUTCOME"), answer
            if waiting.latch_count().ok.value == left:
                break
        assert waiting.latch_count().ok.value == left
    wait.answer().ok
    assert zookeeper.nodes("done") == []


def test_several_locks_are_acquired_one_by_one(zookeeper: Zookeeper, new_agent: Make) -> None:
    """In the order of their names; what was acquired goes back when one is in use."""
    client, other = new_agent().open(zookeeper), new_agent().open(zookeeper)
    both, theirs = client.multi(*(client.lock(f"job{number}") for number in range(4))), other.lock("job2")
    theirs.acquire(1, 0).ok
    assert both.acquire(1, 0).status == "BUSY"
    until(lambda: not any(zookeeper.nodes(f"job{number}") for number in (0, 1, 3)))
    theirs.release(1).ok
    both.acquire(1, 0).ok
    assert all(len(zookeeper.nodes(f"job{number}")) == 1 for number in range(4))
    both.release(1).ok
    until(lambda: not any(zookeeper.nodes(f"job{number}") for number in range(4)))


def test_too_many_leases(zookeeper: Zookeeper, agent: Agent) -> None:
    """Each different lease is a session."""
    client = agent.open(zookeeper)
    for number in range(64):
        client.lock(f"job{number}", lease_ms=10_000 + number).acquire(1, 0).ok
    refused = client.lock("job", lease_ms=20_000).acquire(1, 0)
    assert refused.status == "UNSUPPORTED" and "64 different leases" in refused.message and zookeeper.nodes("job") == []
    client.lock("job", lease_ms=10_063).acquire(1, 0).ok


def test_a_name_of_another_kind(zookeeper: Zookeeper, new_agent: Make) -> None:
    client, other = new_agent().open(zookeeper), new_agent().open(zookeeper)
    client.lock("job", kind="read").acquire(1, 0).ok
    assert other.lock("job").acquire(1, 0).status == "WRONG_KIND"
    assert len(zookeeper.nodes("job")) == 1


def test_names_are_paths(zookeeper: Zookeeper, agent: Agent) -> None:
    """A part of a name may be a lock itself: their nodes do not mix."""
    client = agent.open(zookeeper, namespace="shop")
    inner, outer = client.lock("orders/7"), client.lock("orders")
    inner.acquire(1, 0).ok
    outer.acquire(1, 0).ok
    assert len(zookeeper.nodes("shop:orders")) == 2 and len(zookeeper.nodes("shop:orders/7")) == 1
    for name in ("/job", "a//b", "a/../b", "job/", "zookeeper/quota"):
        answer = agent.open(zookeeper).lock(name).acquire(1, 0)
        assert answer.status == "INVALID_NAME" and "path" in answer.message, (name, answer)


def test_a_lease_is_the_timeout_of_a_session(new_zookeeper: Make, agent: Agent) -> None:
    zookeeper = new_zookeeper("maxSessionTimeout=8000")
    client = agent.open(zookeeper, lease_ms=6000)
    client.lock("job").acquire(1, 0).ok
    answer = client.lock("other", lease_ms=20000).acquire(1, 0)
    assert answer.status == "INVALID_OPTION" and "8000 ms" in answer.message and "lease_ms is 20000" in answer.message, answer
    assert zookeeper.nodes("other") == []
