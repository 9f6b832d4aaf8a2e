"""What a store in memory promises: lines, wake-ups, leases, tokens, and the life of a store. Many threads and clients at once."""
from __future__ import annotations

import concurrent.futures
import os
import random
import signal
import threading
from typing import Callable

import pytest

import dlock
from dlock.testing import Faults, Memory, dlock_memory  # noqa: F401: a fixture

PATIENCE = 30.0


def until(true: Callable[[], object]) -> None:
    for _ in range(15000):
        if true():
            return
        threading.Event().wait(0.002)
    raise AssertionError("it never came true")


def told(client: dlock.Client, kind: dlock.EventType) -> dlock.Event:
    while event := client.next_event(PATIENCE):
        if event.type == kind:
            return event
    raise AssertionError(f"no {kind}")


@pytest.mark.parametrize("kind", ["mutex", "fair", "write"])
def test_clients_are_served_in_line(dlock_memory: Memory, kind: str) -> None:
    clients = [dlock.Client(dlock_memory.url, safety_ms=60_000) for _ in range(5)]
    locks = [client.lock("it", kind=kind) for client in clients]
    locks[0].acquire()
    for count, client in enumerate(clients[1:], 1):
        locks[count].submit_acquire(count)
        until(lambda: locks[0].inspect().waiters == count)
    tokens = [locks[0].token]
    locks[0].release()
    for place, client in enumerate(clients[1:], 1):
        tokens.append(told(client, dlock.EventType.ACQUIRED).token)
        assert all(client.stats()["acquired"] == 0 for client in clients[place + 1 :])
        locks[place].submit_release()
    assert tokens == sorted(set(tokens))
    for client in clients:
        client.close()


@pytest.mark.parametrize("kind", ["mutex", "fair", "write"])
def test_who_stands_in_line_comes_first(dlock_memory: Memory, kind: str) -> None:
    """Even while no message reaches it, and the lock is free."""
    with dlock.Client(dlock_memory.url) as holder, dlock.Client(dlock_memory.url, safety_ms=60_000) as waiter:
        lock, other = holder.lock("it", kind=kind), waiter.lock("it", kind=kind)
        lock.acquire()
        other.submit_acquire(1)
        until(lambda: lock.inspect().waiters == 1)
        Faults(waiter).cut()
        lock.release()
        third = dlock_memory.client.lock("it", kind=kind)
        assert not third.try_acquire() and third.inspect().holder == "" and third.inspect().waiters == 1
        dlock_memory.faults.heal()
        assert told(waiter, dlock.EventType.ACQUIRED).tag == 1


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "write", "semaphore", "permit_semaphore", "latch"])
def test_a_release_wakes(dlock_memory: Memory, kind: str) -> None:
    """Without asking now and then: safety_ms is longer than the test."""
    with dlock.Client(dlock_memory.url) as holder, dlock.Client(dlock_memory.url, safety_ms=60_000) as waiter:
        if kind == "latch":
            latch = holder.latch("it")
            latch.set_count(1)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waits = pool.submit(waiter.latch("it").wait, PATIENCE)
                until(lambda: waiter.stats()["waiting"] == 1)
                latch.count_down()
                assert waits.result(PATIENCE)
            return
        if kind.endswith("semaphore"):
            mine, other = getattr(holder, kind)("it"), getattr(waiter, kind)("it")
            mine.set_permits(1)
        else:
            mine, other = holder.lock("it", kind=kind), waiter.lock("it", kind="write" if kind == "read" else kind)
        mine.acquire()
        other.submit_acquire(1, 20)
        until(lambda: waiter.stats()["waiting"] == 1)
        mine.submit_release()
        event = told(waiter, dlock.EventType.ACQUIRED)
        assert event.tag == 1


def test_a_lease_ends(dlock_memory: Memory) -> None:
    with dlock.Client(dlock_memory.url, lease_ms=100, renew=False) as holder:
        token = 0
        lock = holder.lock("it")
        lock.acquire()
        token = lock.token
        with dlock_memory.client.lock("it") as other:
            assert other.token > token
        assert told(holder, dlock.EventType.LOST).cause == dlock.Cause.EXPIRED


def test_a_lease_ends_without_its_holder(dlock_memory: Memory) -> None:
    """Its client is cut off, and cannot give the lock back."""
    with dlock.Client(dlock_memory.url, lease_ms=100, renew=False) as holder:
        lock = holder.lock("it")
        lock.acquire()
        token = lock.token
        dlock_memory.client.fault("cut others", "", None)
        other = dlock_memory.client.lock("it")
        assert other.acquire(timeout=PATIENCE) and other.token > token
        other.release()
        dlock_memory.client.fault("heal", "", 0)


def test_tokens_grow_whatever_the_clock_does(dlock_memory: Memory) -> None:
    lock, tokens = dlock_memory.client.lock("it"), []
    for jump in [0, 5, -3600, 0, 0, 7200, -7200] * 3:
        dlock_memory.faults.jump(jump)
        with lock:
            tokens.append(lock.token)
    assert tokens == sorted(set(tokens))


def test_a_clock_from_before_the_machine_started(dlock_memory: Memory) -> None:
    """The gate of a new lock is open. A lease lasts as long as always."""
    for _ in range(400):
        dlock_memory.faults.jump(-86_400)
    with dlock_memory.client.lock("it") as lock:
        assert 0 < (lock.inspect().remaining or 0) <= 30


def test_a_store_ends_with_its_last_client() -> None:
    url = "memory://ends"
    first, second, unused = (dlock.Client(url) for _ in range(3))
    first.latch("it").set_count(3)
    first.close()
    assert second.latch("it").count == 3
    second.close()
    unused.close()
    with dlock.Client(url) as later:
        assert later.latch("it").count == 0


def test_stores_are_apart() -> None:
    with dlock.Client("memory:") as a, dlock.Client("memory:") as b, dlock.Client("memory://c") as c, dlock.Client("memory://d") as d:
        for client in (a, b, c, d):
            assert client.lock("it").try_acquire()


@pytest.mark.no_tsan
def test_a_child_of_a_fork_has_a_store_of_its_own(dlock_memory: Memory) -> None:
    unused = dlock.Client(dlock_memory.url)
    lock = dlock_memory.client.lock("it")
    lock.acquire()
    child = os.fork()
    if child == 0:
        code = 1
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # ends a child that hangs
        try:
            with unused.lock("it") as mine:  # of the child's store
                with dlock.Client(dlock_memory.url) as client:
                    code = 0 if mine.token and not client.lock("it").try_acquire() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    lock.release()
    unused.close()


def test_many_threads_and_clients_at_once(dlock_memory: Memory) -> None:
    """Counters that only the lock guards; with faults that come and go."""
    names, counts = [f"it{place}" for place in range(4)], [0] * 4
    stop = threading.Event()

    def work(seed: int) -> int:
        source, done = random.Random(seed), 0
        with dlock.Client(dlock_memory.url, handover_turns=source.choice([0, 64])) as client:
            for _ in range(150):
                place = source.randrange(4)
                with client.lock(names[place], kind=source.choice(["mutex", "fair"]) if place else "write"):
                    before = counts[place]
                    counts[place] = before + 1
                done += 1
        return done

    def disturb() -> None:
        while not stop.wait(0.01):
            try:
                dlock_memory.faults.delay(0.001)
                dlock_memory.faults.cut(0.005)
            except dlock.NotFound:  # they have all gone, or not come yet
                continue
            dlock_memory.faults.heal()

    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        disturber = pool.submit(disturb)
        done = sum(one.result() for one in [pool.submit(work, seed) for seed in range(8)])
        stop.set()
        disturber.result()
    assert (done, sum(counts)) == (8 * 150, 8 * 150)


def test_a_url_without_a_colon() -> None:
    with pytest.raises(dlock.InvalidUrl):
        dlock.Client("memory")
