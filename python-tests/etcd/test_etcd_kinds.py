"""Kinds of locks on etcd: what the table of scenarios does not show."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Callable

import pytest

from harness.agent import Agent
from harness.build import LIBRARY, ROOT
from harness.etcd import Etcd, url
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
def test_readers_and_writers(etcd: Etcd, count: int) -> None:
    """Three processes of three threads: a writer is alone, readers meet, tokens of writers grow, nobody is forgotten."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    command = [sys.executable, "-c", WORKER, etcd.url, str(count), "3"]
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
    until(lambda: etcd.keys("prices/") == [])


def test_a_reader_behind_a_waiting_writer_waits(etcd: Etcd, new_agent: Make) -> None:
    """The line is strict: readers that come later do not pass a writer."""
    reader, writer, late = (new_agent().open(etcd) for _ in range(3))
    reading, writing, later = reader.lock("job", kind="read"), writer.lock("job", kind="write"), late.lock("job", kind="read")
    reading.acquire(1, 0).ok
    wait = writing.start("acquire", 1, -1)
    until(lambda: len(etcd.keys("job/")) == 2)
    assert later.acquire(1, 0).status == "BUSY"
    second = later.start("acquire", 1, -1)
    until(lambda: len(etcd.keys("job/")) == 3)
    reading.release(1).ok
    wait.answer().ok
    assert not second.ready()
    writing.release(1).ok
    second.answer().ok


def test_a_writer_does_not_read(etcd: Etcd, agent: Agent) -> None:
    client = agent.open(etcd)
    writing, reading = client.lock("job", kind="write"), client.lock("job", kind="read")
    writing.acquire(1, 0).ok
    answer = reading.acquire(1, 0)
    assert answer.status == "UNSUPPORTED" and "a writer cannot read" in answer.message, answer
    writing.release(1).ok
    until(lambda: etcd.keys("job/") == [])
    reading.acquire(1, 0).ok


def test_a_hand_over_in_memory(etcd: Etcd, agent: Agent) -> None:
    """The next owner of the process gets the lock without a write, with a higher token below the next revision's."""
    client = agent.open(etcd, handover_ms=1000)
    lock, waits = client.lock("job"), []
    first = lock.acquire(1, 0).ok.token
    for owner in (2, 3):
        waits.append(lock.start("acquire", owner, -1, thread=owner))
        until(lambda: client.counters()["waiting"] == len(waits))
    revision = etcd.revision()
    lock.release(1).ok
    second = waits[0].answer().ok.token
    assert first < second < first + 128 and etcd.revision() == revision
    lock.release(2).ok
    assert second < waits[1].answer().ok.token < first + 128
    lock.release(3).ok
    assert lock.acquire(1, 0).ok.token >= first + 128


@pytest.mark.parametrize("kind", ["mutex", "fair", "write"])
def test_a_waiter_in_the_middle_leaves(etcd: Etcd, new_agent: Make, kind: str) -> None:
    """Who stood behind it wakes up, sees the holder, and goes on waiting."""
    holder, middle, last = (new_agent().open(etcd, safety_ms=60000) for _ in range(3))
    locks = [client.lock("job", kind=kind) for client in (holder, middle, last)]
    locks[0].acquire(1, 0).ok
    leaves = locks[1].start("acquire", 1, -1, thread=1)
    until(lambda: len(etcd.keys("job/")) == 2)
    stays = locks[2].start("acquire", 1, -1, thread=1)
    until(lambda: len(etcd.keys("job/")) == 3)
    locks[1].cancel(1).ok
    assert leaves.answer().status == "CANCELLED"
    until(lambda: len(etcd.keys("job/")) == 2)
    for _ in range(3):
        assert locks[1].acquire(2, 0).status == "BUSY" and not stays.ready()
    locks[0].release(1).ok
    stays.answer().ok


@pytest.mark.parametrize("moves", ["one mark", "all marks", "one mark, and a name is in use", "all marks, and a gate is closed"])
def test_a_multi_lock_learns_marks_that_have_moved(etcd: Etcd, agent: Agent, moves: str) -> None:
    """A drop has changed them, and its answer was lost: the members are free all the same."""
    client = agent.open(etcd)
    locks = [client.lock(f"job{number}", lease_ms=10_000 + 1000 * number) for number in range(3)]
    for lock in locks:
        lock.acquire(1, 0).ok
        lock.release(1).ok
    both = client.multi(*locks)
    leases = etcd.leases()
    assert len(leases) == 3
    for lease in leases[:1] if "one" in moves else leases:
        etcd.call("kv/put", key=f"dlock_mark/{lease:x}", value="", lease=lease)
    if "in use" in moves:
        client.lock("job1", lease_ms=11_000).acquire(2, 0).ok
    if "gate" in moves:
        client.lock("job2").close_gate(60_000).ok
    status = "BUSY" if "in use" in moves else "GATE_CLOSED" if "gate" in moves else "OK"
    answer = both.acquire(1, 0)
    assert answer.status == status, answer
    if status == "OK":
        assert len(etcd.keys("job")) == 3 and both.acquire(2, 0).status == "BUSY"


def test_a_multi_lock_is_not_held_by_the_keys_of_an_ended_session(etcd: Etcd, agent: Agent) -> None:
    """A late copy of its request has put them, with the lease of a session that was given up: they end when that is revoked."""
    both = (client := agent.open(etcd)).multi(client.lock("job0"), client.lock("job1"))
    for _ in range(2):
        both.acquire(1, 0).ok
        keys = etcd.keys("job")
        both.release(1).ok
    until(lambda: etcd.keys("job") == [])
    other = etcd.call("lease/grant", TTL=60)["ID"]
    for key in keys:
        etcd.call("kv/put", key=key, value="", lease=other)
    answer = both.acquire(1, 0)
    assert answer.status != "OK" and answer.retryable and both.state(1) != "HELD", answer
    until(lambda: etcd.keys("job") == [])
    both.acquire(1, 5000).ok
    etcd.call("lease/revoke", ID=other)
    assert both.state(1) == "HELD" and len(etcd.keys("job")) == 2


def test_a_multi_lock_with_too_many_leases(etcd: Etcd, agent: Agent) -> None:
    """Its transaction asks whether the lease of each member lives."""
    client = agent.open(etcd)
    four = [client.lock(f"job{number}", lease_ms=10_000 * (number + 1)) for number in range(4)]
    refused = client.multi(*four).acquire(1, 0)
    assert refused.status == "UNSUPPORTED" and "three different leases" in refused.message and etcd.keys("job") == []
    client.multi(*four[:3]).acquire(1, 0).ok


def test_a_latch_counts_each_change_once(etcd: Etcd, new_agent: Make, new_proxy: Make) -> None:
    """Answers are lost at random: what is left is what was counted, and who waits hears of the end."""
    proxy = new_proxy(etcd.nodes[0])
    client = new_agent().open(url(proxy), command_timeout_ms=900)
    latch, waiting = client.lock("done", kind="latch"), new_agent().open(etcd, safety_ms=60000).lock("done", kind="latch")
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
    assert etcd.keys("done/") == []


# ---- keys are used again: until a compaction etcd looks at every key that a name ever had


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "write", "permit_semaphore"])
def test_few_keys(etcd: Etcd, agent: Agent, new_agent: Make, new_proxy: Make, kind: str) -> None:
    """However often a lock is acquired, tried, waited for in vain, or asked for while etcd cannot be reached."""
    proxy = new_proxy(etcd.nodes[0])
    lock = agent.open(url(proxy), lease_ms=30_000, command_timeout_ms=500).lock("job", kind=kind)
    other = new_agent().open(etcd, lease_ms=30_000).lock("job", kind="write" if kind == "read" else kind)
    if kind == "permit_semaphore":
        lock.permits_set(1).ok
    seen: set[str] = set()

    def pair() -> None:
        lock.acquire(1, 5000).ok
        seen.update(etcd.keys("job/"))
        lock.release(1).ok

    for _ in range(5):
        pair()
    other.acquire(1, 5000).ok
    theirs = set(etcd.keys("job/"))
    for wait in (0, 50) * 3:
        assert lock.acquire(1, wait).status != "OK"
    other.release(1).ok
    pair()
    proxy.refuse()
    proxy.cut()
    for _ in range(5):
        assert lock.acquire(1, 0).status == "UNREACHABLE"
    proxy.accept()
    lock.acquire(1, 20_000).ok
    seen.update(etcd.keys("job/"))
    assert max(int(key.rpartition(":k")[2]) for key in seen - theirs if "total" not in key) <= 3, seen


# ---- who waits is told at once: etcd sends what happened before a watch began only ten times a second


def test_watches_go_on(etcd: Etcd, new_agent: Make, rounds: int = 20) -> None:
    """Two processes take turns: neither begins anew to watch the key of the other."""
    locks = [new_agent().open(etcd, lease_ms=30_000).lock("job") for _ in range(2)]
    locks[0].acquire(1, 5000).ok
    before = 0.0
    for turn in range(rounds):
        holds, waits = locks[turn % 2], locks[1 - turn % 2]
        pending = waits.start("acquire", 1, 20_000)
        until(lambda: len(etcd.keys("job/")) == 2)
        holds.release(1).ok
        pending.answer().ok
        if turn == 1:
            before = etcd.received("Watch")
    assert etcd.received("Watch") - before <= 2.5 * (rounds - 2)


def test_a_release_before_the_watch(etcd: Etcd, new_agent: Make, new_proxy: Make, rounds: int = 7) -> None:
    """The lock was released after the waiter had looked, and before it watched. Its probe would come a second later."""
    proxy, late = new_proxy(etcd.nodes[0]), 0
    clients = [new_agent().open(where, lease_ms=60_000) for where in (etcd, url(proxy))]
    for number in range(rounds):
        holder, waiter = (client.lock(f"job{number}") for client in clients)
        holder.acquire(1, 5000).ok
        gate = proxy.up.pause_at(etcd.keys(f"job{number}/")[0])
        pending = waiter.start("acquire", 1, 60_000)
        gate.wait()
        holder.release(1).ok
        began = time.monotonic()
        gate.open()
        pending.answer().ok
        late += time.monotonic() - began > 0.5
    assert late <= rounds // 2
