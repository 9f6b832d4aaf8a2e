"""Faults on demand in memory, as a user's tests cause them: each is seen as the right event or status. And programs that handle them."""
from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading

import pytest

import dlock
import dlock.aio
from dlock.testing import Memory, dlock_memory  # noqa: F401: a fixture
from harness.faults import times
from harness.tally import tell

PATIENCE = 30.0
Cause, EventType = dlock.Cause, dlock.EventType


# ---- a program that handles its loss


def sell(client: dlock.Client, stock: dict[str, int], begun: threading.Event, go_on: threading.Event) -> str:
    """Writes only with a token that is not too low, as a database does."""
    lock = client.lock("sale")
    lock.acquire()
    token = lock.token
    begun.set()
    assert go_on.wait(PATIENCE)
    if token < stock["token"]:
        return "refused"
    stock.update(token=token, items=stock["items"] - 1)
    try:
        lock.release()
    except dlock.Lost:
        return "lost"
    return "sold"


def play(memory: Memory, lose: bool) -> tuple[str, dict[str, int]]:
    stock, begun, go_on = {"items": 20, "token": 0}, threading.Event(), threading.Event()
    with dlock.Client(memory.url) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        program = pool.submit(sell, client, stock, begun, go_on)
        assert begun.wait(PATIENCE)
        if lose:
            memory.faults.lose("sale")
            with memory.client.lock("sale") as other:
                stock.update(token=other.token, items=stock["items"] - 1)
        go_on.set()
        return program.result(PATIENCE), stock


def test_a_program_sells(dlock_memory: Memory) -> None:
    said, stock = play(dlock_memory, lose=False)
    assert (said, stock["items"]) == ("sold", 19)


def test_a_program_that_lost_its_lock_writes_nothing(dlock_memory: Memory) -> None:
    said, stock = play(dlock_memory, lose=True)
    assert (said, stock["items"]) == ("refused", 19)


def test_a_task_is_told(dlock_memory: Memory) -> None:
    async def program() -> None:
        async with dlock.aio.Client(dlock_memory.url) as client:
            lock = client.lock("sale")
            await lock.acquire()
            dlock_memory.faults.lose("sale")
            assert await lock.wait_lost()

    async def in_time() -> None:
        await asyncio.wait_for(program(), PATIENCE)

    asyncio.run(in_time())


def test_a_failed_request_is_not_waited_for(dlock_memory: Memory) -> None:
    """It has done nothing, and does nothing later: a close has nothing to undo, even while the fault lasts."""
    client = dlock.Client(dlock_memory.url)
    dlock_memory.faults.cut()
    with pytest.raises(dlock.Unreachable):
        client.lock("doubtless").acquire(timeout=0.2)
    client.close()  # raises TimedOut when it has to wait


# ---- 1,000 injections


def next_loss(client: dlock.Client) -> tuple[list[EventType], dlock.Event]:
    seen = []
    while event := client.next_event(PATIENCE):
        seen.append(event.type)
        if event.type == EventType.LOST:
            return seen, event
    raise AssertionError(f"no loss, only {seen}")


def held(client: dlock.Client, kind: str) -> dlock.Lock:
    if kind.endswith("semaphore"):
        semaphore = client.semaphore("it") if kind == "semaphore" else client.permit_semaphore("it")
        semaphore.set_permits(1)
        semaphore.acquire()
        return semaphore
    lock = client.lock("it", kind=kind)
    lock.acquire()
    return lock


class Injection:
    """One fault, on a world of its own."""

    warned = False

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kind = self.random.choice(["mutex", "fair", "read", "write", "semaphore", "permit_semaphore"])
        self.what = self.random.choice(sorted(LOSSES) + sorted(REFUSALS))
        if self.kind == "semaphore" and self.what in (*EXPIRING, "jump"):  # it has no lease that could end
            self.kind = "mutex"

    def run(self) -> Injection:
        with Memory() as memory:
            lease = 1000 if self.what in EXPIRING else 300_000  # else no renewal tells in time
            client = dlock.Client(memory.url, lease_ms=lease, command_timeout_ms=100)
            try:
                self.check(memory, client)
                memory.faults.heal()
            finally:
                client.close()
        return self

    def check(self, memory: Memory, client: dlock.Client) -> None:
        if self.what in REFUSALS:
            fault, status = REFUSALS[self.what]
            client.ping()  # it shares the store from now on
            fault(memory.faults)
            client.lock("it", kind="mutex").submit_acquire(7, 0)
            while (event := client.next_event(PATIENCE)) and event.type != EventType.ACQUIRE_FAILED:
                assert event.type == EventType.LOG
            assert event and (event.tag, type(event.error)) == (7, status)
            return
        fault, cause = LOSSES[self.what]
        lock = held(client, self.kind)
        token = lock.token
        fault(memory.faults)
        seen, event = next_loss(client)
        assert (event.cause, event.token, event.lock_id) == (cause, token, lock.id), event
        self.warned = EventType.AT_RISK in seen
        memory.faults.heal()
        with pytest.raises(dlock.Lost):
            lock.release()


LOSSES = {
    "lose": (lambda faults: faults.lose("it"), Cause.TAKEN),
    "jump": (lambda faults: faults.jump(301), Cause.TAKEN),
    "renewals": (lambda faults: faults.fail_renewals(), Cause.EXPIRED),
    "renewals of one": (lambda faults: faults.fail_renewals(60, "it"), Cause.EXPIRED),
    "pause": (lambda faults: faults.pause(), Cause.EXPIRED),
    "cut": (lambda faults: faults.cut(), Cause.EXPIRED),
    "deny": (lambda faults: faults.deny(name="it"), Cause.EXPIRED),
    "delay": (lambda faults: faults.delay(60), Cause.EXPIRED),
}
EXPIRING = {name for name, (_, cause) in LOSSES.items() if cause == Cause.EXPIRED}
REFUSALS = {
    "cut acquire": (lambda faults: faults.cut(), dlock.Unreachable),
    "paused acquire": (lambda faults: faults.pause(), dlock.Unreachable),
    "slow acquire": (lambda faults: faults.delay(60), dlock.Unreachable),
    "denied acquire": (lambda faults: faults.deny(), dlock.Denied),
    "denied acquire of one": (lambda faults: faults.deny(60, "it"), dlock.Denied),
}


@pytest.mark.house
@pytest.mark.parametrize("count", times(100, 300, seconds=300))
def test_each_fault_is_the_right_event(count: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        try:
            done = [one.result() for one in concurrent.futures.as_completed([pool.submit(Injection(seed).run) for seed in range(count)])]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    assert {one.what for one in done} == {*LOSSES, *REFUSALS} and len(done) == count
    assert {one.what for one in done if one.warned} == EXPIRING  # not each of them: a busy machine may come too late to warn
    tell(done=len(done), fired=len(done))
