"""The asyncio form of the Python binding, on asyncio's own loop and on uvloop."""
from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pathlib
import random
import select
import sys
import threading
import time
from typing import Any, AsyncIterator, Callable, Coroutine, Iterator

import pytest

from harness.build import LIBRARY
from harness.faults import always
from harness.steps.redisson import old_counter
from harness.server import Server
from harness.waiting import WHILE
from test_python import in_child, says, script

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
import dlock.aio
from dlock import State
from dlock.aio import Client, Lock

# From Python 3.12 on os.fork warns when there are threads. It works nevertheless; that is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

KINDS = ["lock", "fair_lock", "read_lock", "write_lock", "semaphore", "permit_semaphore", "multi_lock"]
each = pytest.mark.parametrize("kind", KINDS)
Run = Callable[..., Any]


def with_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], timeout: float = WHILE) -> Any:
    """As asyncio.run, on this loop; an exception in a callback fails the test."""
    wrong: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: wrong.append(context))
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(asyncio.wait_for(work, timeout))
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
        gc.collect()
        assert not wrong, "; ".join(f"{one['message']}: {one.get('exception')!r}" for one in wrong)


@pytest.fixture(params=["asyncio", pytest.param("uvloop", marks=pytest.mark.full)])
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    return asyncio.new_event_loop if request.param == "asyncio" else pytest.importorskip("uvloop").new_event_loop


@pytest.fixture
def run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    """run(work, url, ...) runs work(client, ...) with a client at the url; run(work, None, ...) without one."""

    def run(work: Callable[..., Coroutine[Any, Any, Any]], url: str | None, *more: Any, **options: Any) -> Any:
        async def whole() -> Any:
            if url is None:
                return await work(*more)
            async with Client(url, **options) as client:
                return await work(client, *more)

        return with_loop(new_loop(), whole(), options.pop("within", WHILE))

    return run


def one(client: Any, kind: str, name: str = "lock", **more: Any) -> Any:
    """A lock of the kind, also of a blocking client."""
    if kind == "multi_lock":
        return client.multi_lock(client.fair_lock(name), client.lock(name + "2"), **more)
    return getattr(client, kind)(name, **more)


def rival(client: Any, kind: str, **more: Any) -> Any:
    """The kind that its holder excludes."""
    return one(client, {"read_lock": "write_lock", "write_lock": "read_lock"}.get(kind, kind), **more)


def permit(url: str, kind: str, name: str = "lock", permits: int = 1) -> None:
    """Semaphores have one permit."""
    if "semaphore" in kind:
        with dlock.Client(url) as client:
            one(client, kind, name).set_permits(permits)


async def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + WHILE
    while not condition():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.002)


async def waiting(client: Client, count: int) -> None:
    await until(lambda: client.stats()["waiting"] == count)


async def ended(task: asyncio.Task[Any]) -> BaseException | None:
    """The exception of a task."""
    (result,) = await asyncio.gather(task, return_exceptions=True)
    return result if isinstance(result, BaseException) else None


# ---- acquire and release


@each
def test_with_holds_and_gives_back(run: Run, redis_server: Server, kind: str) -> None:
    async def work(client: Client) -> None:
        lock = one(client, kind)
        async with lock as same:
            assert same is lock and lock.held and lock.hold_count == 1 and not lock.lost
            if kind != "semaphore":
                assert lock.token > 0 and 0 < lock.remaining <= 30
            assert not await asyncio.create_task(tried(rival(client, kind)))
        assert lock.state is State.NONE
        assert await asyncio.create_task(tried(rival(client, kind)))
        with pytest.raises(ZeroDivisionError):
            async with lock:
                1 / 0
        assert not lock.held
        assert client.stats()["held"] == client.stats()["waiting"] == 0

    async def tried(lock: Lock) -> bool:
        won = await lock.try_acquire()
        if won:
            await lock.release()
        return won

    permit(redis_server.url, kind)
    run(work, redis_server.url)


@each
def test_tasks_and_clients_exclude_each_other(run: Run, redis_server: Server, kind: str) -> None:
    """Also clients of the other form."""
    inside = count = 0

    async def work(client: Client) -> None:
        async with Client(redis_server.url) as other:
            locks = [one(some, kind if n % 2 else rival_of) for some in (client, other) for n in range(2)]
            await asyncio.gather(*[task(lock) for lock in locks for _ in range(5)])

    async def task(lock: Lock) -> None:
        nonlocal inside, count
        for _ in range(10):
            async with lock:
                inside += 1
                assert inside == 1
                before, _ = count, await asyncio.sleep(0)
                count, inside = before + 1, inside - 1

    def thread() -> None:
        nonlocal inside, count
        with dlock.Client(redis_server.url) as client:
            for _ in range(30):
                with one(client, "write_lock" if kind == "read_lock" else kind):
                    inside += 1
                    before, _ = count, time.sleep(0)
                    count, inside = before + 1, inside - 1

    rival_of = kind = "write_lock" if kind == "read_lock" else kind
    permit(redis_server.url, kind)
    beside = threading.Thread(target=thread)
    beside.start()
    run(work, redis_server.url)
    beside.join(WHILE)
    assert (inside, count) == (0, 230)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "semaphore" not in kind])
def test_reentry_is_per_task(run: Run, redis_server: Server, kind: str) -> None:
    async def work(client: Client) -> None:
        lock = one(client, kind)
        async with lock, one(client, kind):
            assert lock.hold_count == 2
            token = lock.token
            assert await lock.acquire() and lock.hold_count == 3
            await lock.release()
            assert await asyncio.create_task(seen(lock)) == (State.NONE, 0)
            assert lock.token == token
        assert lock.hold_count == 0
        with pytest.raises(dlock.NotHeld):
            await lock.release()

    async def seen(lock: Lock) -> tuple[State, int]:
        return lock.state, lock.hold_count

    run(work, redis_server.url)


def test_readers_and_a_writer_that_reads(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        both = asyncio.Barrier(2) if sys.version_info >= (3, 11) else None
        async with client.write_lock("prices") as write:
            async with client.read_lock("prices") as read:
                await write.release()
                assert read.held and await asyncio.create_task(reads(client))
                with pytest.raises(dlock.UpgradeRefused):
                    await write.acquire()
                await read.release()
                await write.acquire()
                await read.acquire()
        del both

    async def reads(client: Client) -> bool:
        async with client.read_lock("prices"):
            return True

    run(work, redis_server.url)


def test_others_have_their_turn(run: Run, redis_server: Server) -> None:
    """A task whose answers are always ready does not starve others: it awaits one in so many answers."""

    async def work(client: Client) -> None:
        lock, most = client.lock("alone"), 0
        for _ in range(100):
            turn, pairs = asyncio.Event(), 0
            asyncio.get_running_loop().call_soon(turn.set)
            while not turn.is_set():
                async with lock:
                    pairs += 1
            most = max(most, pairs)
        assert most <= 16 / 2 + 1  # as dlock.h says

    run(work, redis_server.url)


def test_a_loss_that_is_seen_by_who_runs(run: Run, redis_server: Server) -> None:
    """A running task finds the loss itself. It is cancelled at its next await; if it does not await, the end of its body raises Lost."""

    async def work(client: Client) -> None:
        for _ in range(20):
            await client.ping()
            lock = client.lock("a", lease_ms=100, renew=False)
            with pytest.raises(dlock.Lost):
                async with lock:
                    assert select.select([client.fileno()], [], [], WHILE)[0]
                    client._on_readable()
            await asyncio.sleep(0)

    run(work, redis_server.url)


def test_the_task_that_calls_is_the_owner(run: Run, redis_server: Server) -> None:
    """Whichever task awaits: up to Python 3.11 asyncio.wait_for made one."""

    async def work(client: Client) -> None:
        lock = client.lock("a")
        assert await asyncio.wait_for(lock.acquire(), WHILE)
        assert lock.held
        assert await asyncio.gather(client.lock("b").acquire(), asyncio.create_task(client.lock("c").acquire())) == [True] * 2
        assert client.lock("b").held and client.lock("c").held
        for name in "abc":
            await asyncio.wait_for(client.lock(name).release(), WHILE)

    run(work, redis_server.url)


def test_owners_by_number(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        first, second = client.lock("a", owner=1), client.lock("a", owner=2)
        assert await first.acquire() and not await second.try_acquire()
        assert await asyncio.create_task(second.acquire(timeout=0.01)) is False
        await asyncio.create_task(first.release())
        assert await second.try_acquire() and not first.held
        asyncio.get_running_loop().call_soon(lambda: seen.append(second.held))
        asyncio.get_running_loop().call_soon(lambda: seen.append(pytest.raises(RuntimeError, lambda: client.lock("a").held)))
        await asyncio.sleep(0.01)
        assert seen[0] is True and len(seen) == 2
        await second.release()

    seen: list[Any] = []
    run(work, redis_server.url)


@each
def test_time_out(run: Run, redis_server: Server, kind: str) -> None:
    async def work(client: Client) -> None:
        lock = rival(client, kind)
        async with one(client, kind, owner=1):
            assert await lock.acquire(blocking=False) is False
            assert await lock.acquire(timeout=0) is False
            began = time.monotonic()
            assert await lock.acquire(timeout=0.15) is False
            assert time.monotonic() - began >= 0.15
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(lock.acquire(), 0.05)
            await waiting(client, 0)
        assert await lock.acquire(timeout=WHILE)
        await lock.release()

    permit(redis_server.url, kind)
    run(work, redis_server.url)


def test_bad_input(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        lock = client.lock("a")
        for wrong in [lambda: lock.acquire(timeout=-3), lambda: lock.acquire(timeout=float("nan")), lambda: client.lock("a", owner=-1),
                      lambda: client.lock("a", owner=2**63), lambda: lock.acquire(False, 3), lambda: client.lock(""),
                      lambda: client.lock("a", nothing=1), lambda: client.lock("a", lease_ms="x"), lambda: client.multi_lock(),
                      lambda: client.multi_lock(client.semaphore("a"))]:  # fmt: skip
            with pytest.raises(ValueError):
                wrong()
        for wrong in [lambda: lock.acquire(timeout="1"), lambda: client.lock(7), lambda: client.lock("a", owner="1"),
                      lambda: Client(7)]:  # fmt: skip
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises((TypeError, AttributeError)):
            with lock:
                pass
        with pytest.raises(dlock.WrongKind):
            async with client.lock("a"), client.read_lock("a"):
                pass

    run(work, redis_server.url)
    with pytest.raises(ValueError):
        Client("http://localhost")
    with pytest.raises(RuntimeError):
        Client(redis_server.url).lock("a").held


def test_latch(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        latch = client.latch("done")
        assert await latch.wait()
        with dlock.Client(redis_server.url) as other:
            other.latch("done").set_count(2)
            assert await latch.wait(timeout=0.05) is False
            assert await latch.acquire(blocking=False) is False
            all = [asyncio.create_task(client.latch("done").wait(WHILE)) for _ in range(10)]
            await waiting(client, 10)
            assert other.latch("done").count_down(2) == 0
        assert await asyncio.gather(*all) == [True] * 10
        async with latch as same:
            assert same is latch and not latch.held
        with pytest.raises(ZeroDivisionError):
            async with latch:
                1 / 0
        with pytest.raises(dlock.NotHeld):
            await latch.release()
        assert not client._watches

    run(work, redis_server.url)


def test_permits_have_ids(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        slots = client.permit_semaphore("slots", permits=2)
        async with slots:
            assert len({slots.permit_id(0), slots.permit_id(1)}) == 2
            async with slots:
                assert not await slots.try_acquire()
            assert await asyncio.create_task(client.permit_semaphore("slots").try_acquire())

    permit(redis_server.url, "permit_semaphore", "slots", 4)
    run(work, redis_server.url)


# ---- calls to the server


def test_operations(run: Run, redis_server: Server) -> None:
    """The same as in dlock, awaited."""

    async def work(client: Client) -> None:
        await client.ping()
        await client.ping(timeout=5)
        lock = client.lock("a", lease_ms=20_000)
        assert (await lock.inspect()).holder == "" and await lock.force_release() is False
        async with lock:
            seen = await lock.inspect()
            assert seen.holder and not seen.foreign and seen.token >= lock.token and seen.held_for is not None
            assert seen.remaining is not None and 0 < seen.remaining <= 20 and seen.waiters >= 0
            assert await lock.extend(40) is None
            assert 20 < lock.remaining <= 40
            assert await asyncio.wait_for(lock.extend(30), WHILE) is None
        with pytest.raises(dlock.NotHeld):
            await lock.extend(10)
        await lock.acquire()
        token, grant = lock.token, lock.export_grant()
        assert lock.state is State.NONE
        assert await lock.adopt_grant(grant) == token == lock.token
        with pytest.raises(dlock.InvalidGrant):
            await lock.adopt_grant(b"nothing")
        assert await lock.force_release() is True

    run(work, redis_server.url)


def test_gates(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        lock = client.lock("a")
        async with client.lock("a", owner=1):
            waiters = [asyncio.create_task(hold(lock)) for _ in range(5)]
            await waiting(client, 5)
            assert await lock.close_gate(60) is None
            for task in waiters:
                assert isinstance(await ended(task), dlock.GateClosed)
        with pytest.raises(dlock.GateClosed):
            await lock.acquire()
        assert await lock.open_gate() is True and await lock.open_gate() is False
        await hold(lock)

    async def hold(lock: Lock) -> None:
        async with lock:
            pass

    run(work, redis_server.url)


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_permits(run: Run, redis_server: Server, kind: str) -> None:
    async def work(client: Client) -> None:
        seats = one(client, kind, permits=2)
        assert await seats.set_permits(3) is True and await seats.set_permits(4) is False
        assert await seats.add_permits(-1) == await seats.available_permits == 2
        async with seats:
            assert await seats.available_permits == 0
        if kind == "semaphore":
            assert await seats.drain_permits() == 2 and await seats.available_permits == 0
        else:
            with pytest.raises(dlock.Unsupported):
                await seats.drain_permits()
        with pytest.raises(ValueError):
            await seats.set_permits(0)

    run(work, redis_server.url)


def test_counts(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        latch = client.latch("done")
        assert await latch.set_count(3) is True and await latch.set_count(3) is False
        waits = [asyncio.create_task(latch.wait()) for _ in range(5)]
        await waiting(client, 5)
        assert await latch.count_down() == await latch.count == 2
        assert not any(task.done() for task in waits)
        assert await latch.count_down(2) == 0
        assert await asyncio.gather(*waits) == [True] * 5

    run(work, redis_server.url)


def test_operations_that_nobody_waits_for(run: Run, new_server: Callable[..., Server]) -> None:
    """They go on, and nothing of them is left; nobody is told of them when the client is closed."""

    async def work(client: Client, server: Server) -> None:
        lock = client.lock("a")
        await lock.acquire()
        server.pause()
        tasks = [asyncio.create_task(order) for order in (lock.extend(3), lock.inspect(), client.ping())]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(lock.release()))
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        server.resume()
        await until(lambda: not client._answers and server.command("EXISTS", "a") == 0)

    run(work, (server := new_server()).url, server)


def test_transactions(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        redis_server.command("SET", "stock", "20")
        async with await client.transaction_begin("stock", "none") as txn:
            assert await txn.get("stock") == b"20" and await txn.get("none") is None
            txn.set("stock", b"\0" * 100_000, ttl=60)
            txn.incr("n", 3)
            txn.delete("none")
            await txn.commit()
        async with await client.transaction_begin("stock") as txn:
            assert await txn.get("stock") == b"\0" * 100_000
            redis_server.command("SET", "stock", "1")
            txn.set("stock", b"2")
            with pytest.raises(dlock.Conflict):
                await txn.commit()
        async with await client.transaction_begin("n") as txn:
            txn.incr("n")  # and nothing is committed
        with pytest.raises(dlock.Closed):
            await txn.get("n")
        assert [redis_server.command("GET", key) for key in ("stock", "n")] == [b"1", b"3"]
        with pytest.raises(ZeroDivisionError):
            await client.transaction(fails, "n")
        redis_server.command("LPUSH", "list", "1")
        with pytest.raises(dlock.WrongKind):
            await client.transaction(lambda txn: txn.get("list"), "list")

    async def fails(txn: dlock.aio.Transaction) -> None:
        txn.incr("n")
        1 / 0

    run(work, redis_server.url)


def test_transactions_of_many_tasks(run: Run, redis_server: Server) -> None:
    """Some are cancelled at any moment: each adds one or nothing."""
    rng = random.Random(1)
    done = 0

    async def add(txn: dlock.aio.Transaction) -> None:
        count = int(await txn.get("count") or 0)
        txn.set("count", b"%d" % (count + 1))

    async def task(client: Client) -> None:
        nonlocal done
        for _ in range(5):
            await client.transaction(add, "count", attempts=None)
            done += 1

    async def work(client: Client) -> None:
        tasks = [asyncio.create_task(task(client)) for _ in range(10)]
        cancelled = rng.sample(tasks, 3)
        for some in cancelled:
            await asyncio.sleep(rng.random() / 20)
            some.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert error is None or isinstance(error, asyncio.CancelledError)
        await until(lambda: not client._answers)

    run(work, redis_server.url, connects_per_second=1000)
    assert done <= int(redis_server.command("GET", "count")) <= done + 3 and done >= 35


# ---- cancellation


@each
def test_a_cancelled_wait_leaves_nothing(run: Run, redis_server: Server, kind: str) -> None:
    async def work(client: Client) -> None:
        lock = rival(client, kind)
        async with one(client, kind):
            tasks = [asyncio.create_task(hold(lock)) for _ in range(5)]
            await waiting(client, 5)
            for task in tasks[1:4]:
                task.cancel()
            for task in tasks[1:4]:
                assert isinstance(await ended(task), asyncio.CancelledError)
            await waiting(client, 2)
        await asyncio.gather(tasks[0], tasks[4])
        await free(redis_server, client)

    async def hold(lock: Lock) -> None:
        async with lock:
            pass

    permit(redis_server.url, kind)
    run(work, redis_server.url)


async def free(server: Server, client: Client) -> None:
    """Waits until nobody holds anything, in the client and on the server."""
    await until(lambda: client.stats()["held"] == client.stats()["waiting"] == 0)
    await until(lambda: not client._answers and not client._watches)
    await until(lambda: permits_of(server, "lock") == 1 or server.command("EXISTS", "lock", "lock2") == 0)


def permits_of(server: Server, name: str) -> int:
    return int(server.command("GET", name)) if "string" in str(server.command("TYPE", name)) else 0


@each
@pytest.mark.parametrize("seed", always(0, full=range(1, 5)))
def test_cancelled_at_any_moment(run: Run, redis_server: Server, kind: str, seed: int) -> None:
    """Tasks are cancelled at random, while they wait, win, hold and release; at the end nothing is held or left behind."""
    rng = random.Random(seed)
    inside = done = 0

    async def work(client: Client) -> None:
        async with Client(redis_server.url) as other:
            lock = [one(some, kind) for some in (client, other)]
            for _ in range(12):
                tasks = [asyncio.create_task(hold(rng.choice(lock))) for _ in range(12)]
                while not all(task.done() for task in tasks):
                    await asyncio.sleep(rng.choice([0, 0, 0, 0.0005, 0.002]))
                    if rng.random() < 0.5:
                        rng.choice(tasks).cancel()
                for task in tasks:
                    assert isinstance(await ended(task), (asyncio.CancelledError, type(None)))
            for some in client, other:
                await free(redis_server, some)

    async def hold(lock: Lock) -> None:
        nonlocal inside, done
        for _ in range(2):
            async with lock:
                inside += 1
                try:
                    assert inside == 1 or kind == "read_lock"
                    await asyncio.sleep(rng.choice([0, 0, 0.001]))
                finally:
                    inside -= 1
            done += 1

    permit(redis_server.url, kind)
    run(work, redis_server.url)
    assert done > 0 and inside == 0


def test_cancelled_when_it_has_just_won(run: Run, redis_server: Server) -> None:
    """The grant and the cancellation come in the same iteration of the loop, in either order."""

    async def work(client: Client) -> None:
        for turn in range(40):
            holder, lock = client.lock("lock", owner=1), client.lock("lock")
            await holder.acquire()
            task = asyncio.create_task(lock.acquire())
            await waiting(client, 1)
            if turn % 2:
                await holder.release()  # in memory: the event is in the queue
                assert client.stats()["waiting"] == 0
            else:
                await holder.release()
                client._on_readable()
            task.cancel()
            assert isinstance(await ended(task), asyncio.CancelledError)
            await until(lambda: client.stats()["held"] == 0)
        await free(redis_server, client)
        assert client.stats()["handovers"] == 40

    old_counter(redis_server, "lock")
    run(work, redis_server.url, handover_ms=1000)


def test_a_cancelled_task_may_ask_again_at_once(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        for kind in "lock", "semaphore", "multi_lock":
            permit(redis_server.url, kind)
            async with one(client, kind, owner=1):
                task = asyncio.create_task(stubborn(one(client, kind)))
                for _ in range(20):
                    await waiting(client, 1)
                    task.cancel()
                    await asyncio.sleep(0)
            assert await task == 20
            await free(redis_server, client)
            redis_server.command("FLUSHALL")

    async def stubborn(lock: Lock) -> int:
        times = 0
        while True:
            try:
                async with lock:
                    return times
            except asyncio.CancelledError:
                times += 1

    run(work, redis_server.url)


def test_a_cancelled_adoption_is_given_back(run: Run, new_server: Callable[..., Server]) -> None:
    """Also when its answer has just come."""

    async def work(client: Client, server: Server) -> None:
        async with Client(server.url) as other:
            for answered in False, True:
                lock, theirs = client.lock("lock"), other.lock("lock")
                await other.ping()
                await lock.acquire()
                grant = lock.export_grant()
                server.pause()
                task = asyncio.create_task(theirs.adopt_grant(grant))
                await asyncio.sleep(0)
                assert other._answers
                if answered:
                    server.resume()
                    assert select.select([other], [], [], WHILE)[0]
                    other._on_readable()
                    assert not other._answers and other.stats()["held"] == 1
                task.cancel()
                assert isinstance(await ended(task), asyncio.CancelledError)
                server.resume()
                await free(server, other)

    run(work, (server := new_server()).url, server)


@each
def test_a_release_that_is_cancelled_before_it_begins(run: Run, redis_server: Server, kind: str) -> None:
    """The call itself submits the release."""

    async def work(client: Client) -> None:
        lock = one(client, kind)
        await lock.acquire()
        asyncio.create_task(lock.release()).cancel()
        await free(redis_server, client)
        await lock.acquire()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(lock.release(), 0)
        await free(redis_server, client)
        later = lock.release()
        with pytest.raises(dlock.NotHeld):
            await later

    permit(redis_server.url, kind)
    run(work, redis_server.url)


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_a_task_that_waits_twice(run: Run, redis_server: Server, kind: str) -> None:
    """Each of its waits is cancelled alone."""

    async def work(client: Client) -> None:
        seats, holder = one(client, kind), one(client, kind, owner=1)
        for first in 0, 1:
            await holder.acquire()
            waits = [asyncio.ensure_future(some.acquire()) for some in (seats, one(client, kind))]
            await waiting(client, 2)
            waits[first].cancel()
            assert isinstance(await ended(waits[first]), asyncio.CancelledError)
            await holder.release()
            assert await waits[1 - first]
            await seats.release()
            await free(redis_server, client)
        await holder.acquire()
        waits = [asyncio.ensure_future(seats.acquire()) for _ in range(4)]
        await waiting(client, 4)
        for wait in waits:
            wait.cancel()
        await waiting(client, 0)
        await holder.release()
        await free(redis_server, client)
        assert not client._wishes

    permit(redis_server.url, kind)
    run(work, redis_server.url)


# ---- losses


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "semaphore"])
def test_a_lost_lock_ends_the_body(run: Run, redis_server: Server, kind: str) -> None:
    async def work(client: Client) -> None:
        lock = one(client, kind)
        with pytest.raises(dlock.Lost) as caught:
            async with lock:
                redis_server.command("FLUSHALL")
                await asyncio.sleep(WHILE)
        assert "taken away" in str(caught.value) and isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert lock.state is State.NONE
        if sys.version_info >= (3, 11):
            task = asyncio.current_task()
            assert task and task.cancelling() == 0
        await asyncio.sleep(0)
        assert not client._watches

    permit(redis_server.url, kind)
    run(work, redis_server.url, lease_ms=1500)


def test_a_lost_lock_and_what_else_may_happen(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        for body in swallows, raises, other_cancel, nested, caught_inside:
            await body(client)
            assert not client._watches and client.stats()["held"] == 0

    async def lose() -> None:
        redis_server.command("FLUSHALL")
        await asyncio.sleep(WHILE)

    async def swallows(client: Client) -> None:
        with pytest.raises(dlock.Lost):
            async with client.lock("a") as lock:
                with contextlib.suppress(asyncio.CancelledError):
                    await lose()
                assert lock.lost

    async def raises(client: Client) -> None:
        with pytest.raises(ZeroDivisionError):
            async with client.lock("a"):
                try:
                    await lose()
                finally:
                    1 / 0

    async def other_cancel(client: Client) -> None:
        """Another cancellation in the same iteration: it takes precedence where Python can tell them apart, from 3.11 on."""

        async def body() -> None:
            async with client.lock("a", owner=5):
                await lose()

        task = asyncio.create_task(body())
        await until(lambda: client._watches)
        ((watch,),) = client._watches.values()
        notify = watch.notify
        watch.notify = lambda lost: notify(lost) and task.cancel()  # type: ignore[method-assign, assignment]
        error = await ended(task)
        assert isinstance(error, asyncio.CancelledError if sys.version_info >= (3, 11) else (asyncio.CancelledError, dlock.Lost))

    async def nested(client: Client) -> None:
        """Two locks, and one of them twice: the outermost block raises."""
        reached = []
        with pytest.raises(dlock.Lost) as caught:
            async with client.lock("a"):
                try:
                    async with client.lock("b"), client.lock("a"), client.lock("b"):
                        await lose()
                finally:
                    reached.append(sys.exc_info()[0])
        assert str(caught.value).startswith("lock ") and len(reached) == 1

    async def caught_inside(client: Client) -> None:
        """Only the inner one is lost; the outer one goes on."""
        async with client.lock("a") as outer:
            with pytest.raises(dlock.Lost):
                async with client.lock("b"):
                    redis_server.command("DEL", "b")
                    await asyncio.sleep(WHILE)
            assert outer.held
            await asyncio.sleep(0.01)

    run(work, redis_server.url, lease_ms=1500)


def test_wait_lost(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        lock = client.lock("a", owner=1)
        with pytest.raises(dlock.NotHeld):
            lock.wait_lost()
        await lock.acquire()
        await lock.acquire()
        told = [asyncio.create_task(lock.wait_lost()) for _ in range(3)]
        await asyncio.sleep(0)
        told[0].cancel()
        await lock.release()
        await asyncio.sleep(0.01)
        assert [task.done() for task in told] == [True, False, False]
        await lock.release()
        assert await asyncio.gather(*told[1:]) == [False, False]
        await lock.acquire()
        told = [asyncio.create_task(lock.wait_lost()) for _ in range(3)]
        await asyncio.sleep(0)
        redis_server.command("FLUSHALL")
        assert await asyncio.gather(*told) == [True] * 3
        with pytest.raises(dlock.Lost):
            lock.wait_lost()
        with pytest.raises(dlock.Lost):
            await lock.release()
        told.clear()
        await asyncio.sleep(0)  # the loop is done with the tasks
        assert not client._watches

    run(work, redis_server.url, lease_ms=1500)


def test_wait_lost_that_runs_late(run: Run, redis_server: Server) -> None:
    """It knows what happened since it was called."""

    async def work(client: Client) -> None:
        lock = client.lock("a")
        await lock.acquire()
        later = lock.wait_lost()
        await lock.release()
        assert await later is False
        await lock.acquire()
        waiter = asyncio.create_task(client.lock("a", owner=1).acquire())
        await waiting(client, 1)
        told = asyncio.create_task(lock.wait_lost())
        before = client.stats()["handovers"]
        lock.release().close()  # in memory
        assert client.stats()["handovers"] == before + 1 and await told is False
        await waiter
        redis_server.command("FLUSHALL")
        await until(lambda: client.stats()["lost"] == 1)
        await lock.acquire()
        later = lock.wait_lost()
        redis_server.command("FLUSHALL")
        await until(lambda: lock.lost)
        await lock.acquire()
        assert await later is True
        lock.wait_lost().close()
        del later, told
        assert not client._watches
        await lock.release()

    run(work, redis_server.url, lease_ms=1500, handover_ms=1000)


def test_wait_lost_and_other_handles(run: Run, redis_server: Server) -> None:
    """Other handles of the same lock, and multi-locks that contain it."""

    async def work(client: Client) -> None:
        for kind in "lock", "permit_semaphore":
            lock = one(client, kind)
            permit(redis_server.url, kind)
            await lock.acquire()
            told = asyncio.create_task(lock.wait_lost())
            async with client.lock("another"):
                await asyncio.sleep(0)
            assert not told.done()
            await one(client, kind).release()
            assert await told is False
            redis_server.command("FLUSHALL")
        both = client.multi_lock(client.lock("a"), client.lock("b"))
        await both.acquire()
        told = asyncio.create_task(client.lock("b").wait_lost())
        await both.release()
        assert await told is False

    run(work, redis_server.url)


def test_wait_lost_ends_in_every_way(run: Run, redis_server: Server) -> None:
    """Given away, taken by the same owner, released by a cancelled task, closed: nobody waits for ever."""

    async def work(client: Client) -> None:
        lock, both = client.lock("a", owner=1), client.multi_lock(client.lock("a"), client.lock("b"), owner=1)
        await lock.acquire()
        told = asyncio.create_task(lock.wait_lost())
        await asyncio.sleep(0)
        grant = client.lock("a", owner=1).export_grant()
        assert await told is False
        await lock.adopt_grant(grant)  # the same token: that it was given away counts
        told = asyncio.create_task(lock.wait_lost())
        await asyncio.sleep(0)
        assert not told.done()
        await lock.release()
        assert await told is False

        await both.acquire()
        told = asyncio.create_task(both.wait_lost())
        await asyncio.sleep(0)
        lock.export_grant()
        assert await told is False
        with pytest.raises(dlock.NotHeld):
            await both.release()
        await lock.force_release()

        await lock.acquire()
        told = asyncio.create_task(lock.wait_lost())
        await asyncio.sleep(0)
        assert await lock.force_release()
        assert await told is True

        async with client.lock("c"):
            asker = asyncio.create_task(client.lock("c", owner=1).acquire())
            await waiting(client, 1)
        while not client.lock("c", owner=1).held:  # it has not been told yet
            select.select([client], [], [], 0.01)
        later = client.lock("c", owner=1).wait_lost()
        asker.cancel()
        assert isinstance(await ended(asker), asyncio.CancelledError)
        assert await later is False

        told = []
        for kind in "lock", "semaphore", "permit_semaphore", "multi_lock":
            permit(redis_server.url, kind, kind)
            mine = one(client, kind, kind)
            await mine.acquire()
            told.append(asyncio.create_task(mine.wait_lost()))
        await asyncio.sleep(0)
        await client.aclose()
        assert len(await asyncio.gather(*told, return_exceptions=True)) == 4

    run(work, redis_server.url, lease_ms=1500)


def test_who_holds_nothing_cannot_lose_it(run: Run, redis_server: Server) -> None:
    async def work(client: Client) -> None:
        latch = client.latch("a")
        async with latch:
            with pytest.raises(dlock.NotHeld, match="nothing is ever held"):
                latch.wait_lost()
        assert not client._watches

    run(work, redis_server.url)


def test_what_else_happens_is_told_to_on_event(new_loop: Callable[..., Any], new_server: Callable[..., Server]) -> None:
    """AT_RISK before the end of the lease, LOST at its end, LOG for the failure; an exception in on_event goes to the loop."""
    told: list[dlock.Event] = []
    lock_events: list[dlock.Event] = []
    tokens: list[int] = []

    def on_event(event: dlock.Event) -> None:
        told.append(event)
        raise ValueError(event.type.name)

    async def work(server: Server) -> None:
        async with Client(server.url, lease_ms=1500) as client:
            lock = client.lock("a", owner=1)
            await lock.acquire()
            client.on_event = on_event
            tokens.append(lock.token)
            server.kill()
            assert await lock.wait_lost()
            while not {dlock.EventType.LOG, dlock.EventType.LOST} <= {event.type for event in told}:
                await asyncio.sleep(0.005)
            client.on_event = None
        lock_events.extend(event for event in told if event.type is not dlock.EventType.LOG)

    with pytest.raises(AssertionError, match="ValueError"):
        with_loop(new_loop(), work(new_server()))
    assert [event.type for event in lock_events] == [dlock.EventType.AT_RISK, dlock.EventType.LOST]
    assert [event.token for event in lock_events] == tokens * 2
    assert 0 < (lock_events[0].remaining or 0) < 1.5


@pytest.mark.no_tsan
@pytest.mark.timeout(120)
def test_losses_are_raised_before_the_deadline(run: Run, new_server: Callable[..., Server]) -> None:
    """The server stops for good: all 200 tasks have left their bodies before a lease can end on the server.

    A run counts only if the loop was never delayed by the machine. One of ten runs must count.
    """
    count, lease = 200, 2.0
    late, longest = [], 0.0

    async def body(client: Client, number: int, ready: asyncio.Event) -> None:
        began = time.monotonic()  # no lease ends before this and the time of the lease
        with pytest.raises(dlock.Lost):
            async with client.lock(f"lock{number}"):
                if client.stats()["held"] == count:
                    ready.set()
                await asyncio.sleep(WHILE)
        if time.monotonic() >= began + lease:
            late.append(number)

    async def work(client: Client, server: Server) -> None:
        nonlocal longest
        ready = asyncio.Event()
        tasks = [asyncio.create_task(body(client, number, ready)) for number in range(count)]
        await ready.wait()
        server.pause()
        last, longest = time.monotonic(), WHILE if client.stats()["renewed"] else 0.0  # renewed: a later deadline
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        await asyncio.gather(*tasks)
        assert client.stats()["lost"] == count
        server.kill()

    for _ in range(10):
        late, longest = [], 0.0
        run(work, (server := new_server()).url, server, lease_ms=int(lease * 1000))
        if not late or longest <= 0.05:
            break
    assert not late


# ---- many


@pytest.mark.no_tsan
@pytest.mark.timeout(180)
def test_ten_thousand_tasks_wait_for_a_hundred_locks(run: Run, redis_server: Server) -> None:
    threads, of_python = 0, threading.active_count()  # threads of earlier tests may still end

    async def task(lock: Lock, counts: dict[Any, int]) -> None:
        async with lock:
            before = counts[lock.name]
            await asyncio.sleep(0)
            counts[lock.name] = before + 1

    async def round(client: Client) -> int:
        locks = [client.lock(f"lock{number}") for number in range(100)]
        counts: dict[Any, int] = {lock.name: 0 for lock in locks}
        for lock in locks:
            await lock.acquire()
        tasks = [asyncio.create_task(task(locks[number % 100], counts)) for number in range(10_000)]
        await waiting(client, 10_000)
        assert len(os.listdir("/proc/self/task")) <= threads and threading.active_count() <= of_python
        for lock in locks:
            await lock.release()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)  # the loop is done with gather's own future
        assert set(counts.values()) == {100}
        assert client.stats()["waiting"] == client.stats()["held"] == 0
        assert not client._answers and not client._watches
        del tasks, lock, locks
        gc.collect()
        assert len(client._tasks) == 1
        return sys.getallocatedblocks()

    async def work(client: Client) -> None:
        nonlocal threads
        async with client.lock("first"):
            threads = len(os.listdir("/proc/self/task"))
        first = await round(client)
        assert await round(client) <= first + 1000

    run(work, redis_server.url, within=170, command_timeout_ms=20_000, release_timeout_ms=60_000)


# ---- the end


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "read_lock", "multi_lock"])
def test_who_tries_again_and_again_lets_others_go_on(run: Run, redis_server: Server, kind: str) -> None:
    """Also when the answer is known in memory."""

    async def hold(client: Client, inside: asyncio.Event) -> None:
        async with one(client, "write_lock" if kind == "read_lock" else kind):
            inside.set()
            await asyncio.sleep(0.01)

    async def work(client: Client) -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(hold(client, inside))
        await inside.wait()
        lock, tries = one(client, kind), 0
        while not await lock.try_acquire():
            tries += 1
            assert tries < 300_000, "the other one is kept from going on"
        await lock.release()
        await task

    run(work, redis_server.url)


def test_closing_while_tasks_wait_and_hold(run: Run, redis_server: Server) -> None:
    async def work() -> None:
        client = Client(redis_server.url)
        lock = client.lock("a")
        holder = asyncio.create_task(hold(lock))
        await until(lambda: client.stats()["held"] == 1)
        waiters = [asyncio.create_task(lock.acquire()) for _ in range(1)]
        waiters += [asyncio.create_task(hold(lock)) for _ in range(5)]
        await waiting(client, 6)
        await asyncio.gather(client.aclose(), client.aclose(timeout=1))
        for task in waiters:
            assert isinstance(await ended(task), dlock.Closed)
        error = await ended(holder)
        assert isinstance(error, dlock.Lost) and "closed" in str(error)
        for call in lock.acquire, lock.release, lambda: hold(client.lock("b")):
            with pytest.raises(dlock.Closed):
                await call()
        await client.aclose()
        assert redis_server.command("EXISTS", "a") == 0

    async def hold(lock: Lock) -> None:
        async with lock:
            await asyncio.sleep(WHILE)

    run(work, None)


@pytest.mark.parametrize("how", ["raised", "cancelled"])
def test_what_a_body_raises_goes_before_the_end_of_the_client(new_loop: Callable[..., Any], new_server: Callable[..., Server], how: str) -> None:
    async def body(server: Server, inside: asyncio.Event) -> None:
        async with Client(server.url) as client:
            await client.lock("a").acquire()
            server.pause()
            with_time, client.aclose = client.aclose, lambda: with_time(0.1)  # type: ignore[method-assign,misc]
            inside.set()
            if how == "raised":
                raise ValueError("of the body")
            await asyncio.sleep(WHILE)

    async def work(server: Server) -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(body(server, inside))
        await inside.wait()
        if how == "cancelled":
            task.cancel()
        with pytest.raises(ValueError if how == "raised" else asyncio.CancelledError):
            await task

    with_loop(new_loop(), work(new_server()))


def test_closing_without_a_server(run: Run, new_server: Callable[..., Server]) -> None:
    async def work(server: Server) -> None:
        client = Client(server.url)
        await client.lock("a", owner=1).acquire()
        server.pause()
        began = time.monotonic()
        with pytest.raises(dlock.TimedOut):
            await client.aclose(timeout=0.3)
        assert time.monotonic() - began >= 0.3
        server.kill()
        unused = Client(server.url)
        await unused.aclose()
        async with Client(server.url, connect_timeout_ms=200) as client:
            with pytest.raises(ConnectionError) as caught:
                await client.lock("a").try_acquire()
            assert isinstance(caught.value, dlock.Unreachable) and caught.value.retryable

    run(work, None, new_server())


def test_a_loop_that_is_closed_while_tasks_wait(new_loop: Callable[..., Any], redis_server: Server) -> None:
    async def begin(client: Client) -> None:
        await client.lock("a", owner=1).acquire()
        tasks.extend(asyncio.get_running_loop().create_task(hold(client)) for _ in range(5))
        await waiting(client, 5)

    async def hold(client: Client) -> None:
        async with client.lock("a"):
            raise AssertionError("nobody waits any more")

    loop, client, tasks = new_loop(), Client(redis_server.url), []
    loop.set_exception_handler(lambda *_: None)  # tasks were destroyed but they are pending
    loop.run_until_complete(begin(client))
    loop.close()
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(begin(client))
    tasks.clear()
    gc.collect()
    loop = new_loop()
    del client
    gc.collect()
    loop.close()
    with dlock.Client(redis_server.url) as other:
        assert other.lock("a").try_acquire() is False  # abandoned: held until its lease ends
        assert other.lock("a").force_release()


def test_the_collector_ends_coroutines(new_loop: Callable[..., Any], redis_server: Server) -> None:
    """It frees a client, its locks and the coroutines that wait, hold and release in any order; also in a thread."""

    async def begin(client: Client) -> None:
        lock, loop = client.lock("a"), asyncio.get_running_loop()
        tasks = [loop.create_task(hold(lock)) for _ in range(4)]
        await waiting(client, 3)
        tasks.append(loop.create_task(hold(client.lock("b"))))
        client.cycle = tasks, lock  # type: ignore[attr-defined]  # only the collector can free it
        await asyncio.sleep(0)

    async def hold(lock: Lock) -> None:
        async with lock:
            await asyncio.sleep(WHILE)

    def leave() -> None:
        loop = new_loop()
        loop.set_exception_handler(lambda *_: None)  # tasks were destroyed but they are pending
        loop.run_until_complete(begin(Client(redis_server.url, lease_ms=500)))
        loop.close()

    for _ in range(5):
        leave()
        gc.collect()
        thread = threading.Thread(target=lambda: (leave(), gc.collect()))
        thread.start()
        thread.join(WHILE)
        redis_server.command("FLUSHALL")


def test_a_generator_that_nobody_finishes(run: Run, redis_server: Server) -> None:
    """The loop closes it in another task; the lock is released nevertheless."""

    async def numbers(client: Client) -> AsyncIterator[int]:
        async with client.lock("a"):
            for number in range(5):
                yield number

    async def work(client: Client) -> None:
        async for number in numbers(client):
            if number == 2:
                break
        gc.collect()
        await until(lambda: client.stats()["held"] == 0)
        assert not client._watches

    run(work, redis_server.url)


def test_generators_that_nobody_finishes(run: Run, redis_server: Server) -> None:
    """Generators of several tasks: each permit is released once they have ended. Before that its owner is unknown; the error says so."""
    told: list[BaseException] = []

    async def numbers(seats: Lock) -> AsyncIterator[int]:
        async with seats:
            yield 1
            yield 2

    async def use(seats: Lock, leave: asyncio.Event, end: asyncio.Event) -> None:
        some = numbers(seats)
        async for _number in some:
            break
        await leave.wait()
        del some
        await end.wait()

    async def work(client: Client) -> None:
        loop, seats = asyncio.get_running_loop(), client.semaphore("a")
        for over in True, False:
            leave, end = asyncio.Event(), asyncio.Event()
            tasks = [asyncio.create_task(use(seats, leave, end)) for _ in range(3)]
            await until(lambda: client.stats()["held"] == 3)
            leave.set()
            if over:
                end.set()
                await asyncio.gather(*tasks)
                await until(lambda: client.stats()["held"] == 0)
                assert not client._watches
        loop.set_exception_handler(lambda _loop, context: told.append(context["exception"]))
        await until(lambda: len(told) == 3)
        assert {type(error) for error in told} == {dlock.NotHeld}
        end.set()
        await asyncio.gather(*tasks)

    permit(redis_server.url, "semaphore", "a", 3)
    run(work, redis_server.url)


def test_closing_when_the_loop_is_over(new_loop: Callable[..., Any], redis_server: Server) -> None:
    """It may be closed in another loop, but not while the client's own loop is open."""

    async def use() -> None:
        await client.lock("a", owner=1).acquire()
        tasks.append(asyncio.get_running_loop().create_task(client.lock("a", owner=2).acquire()))
        await waiting(client, 1)

    first, client, tasks = new_loop(), Client(redis_server.url), []
    first.set_exception_handler(lambda *_: None)  # a task was destroyed but it is pending
    first.run_until_complete(use())
    with pytest.raises(RuntimeError, match="another event loop"):
        with_loop(new_loop(), client.aclose())
    assert client.stats()["held"] == 1
    client.lock("b")
    first.close()
    tasks.clear()
    with_loop(new_loop(), client.aclose())
    assert redis_server.command("EXISTS", "a") == 0
    with_loop(new_loop(), client.aclose())
    with pytest.raises(dlock.Closed):
        client.lock("b")


def test_a_client_per_thread(new_loop: Callable[..., Any], redis_server: Server) -> None:
    count = 0

    async def work() -> None:
        nonlocal count
        async with Client(redis_server.url) as client:
            for _ in range(20):
                async with client.lock("a"):
                    before, _ = count, await asyncio.sleep(0)
                    count = before + 1

    def thread() -> None:
        with_loop(new_loop(), work())

    threads = [threading.Thread(target=thread) for _ in range(4)]
    for one_ in threads:
        one_.start()
    for one_ in threads:
        one_.join(WHILE)
    assert count == 80


def test_fork_after_use(new_loop: Callable[..., Any], redis_server: Server) -> None:
    async def work() -> None:
        async with client.lock("a") as lock:
            token = lock.token
            waiter = asyncio.create_task(client.lock("a", owner=1).acquire())
            await waiting(client, 1)
            in_child(child)
            assert lock.held and lock.token == token
        assert await waiter
        await client.aclose()

    def child() -> None:
        asyncio.set_event_loop(None)
        asyncio.run(work_of_child())

    async def work_of_child() -> None:
        lock = client.lock("a")
        assert lock.state is State.NONE and client.stats()["waiting"] == 0
        assert await lock.try_acquire() is False
        async with client.lock("b") as own:
            assert own.held
        await client.aclose()

    client = Client(redis_server.url)
    with_loop(new_loop(), work())


def test_exit_with_held_locks_and_waiting_tasks(redis_server: Server) -> None:
    for ending in "asyncio.run(work())", "loop = asyncio.new_event_loop(); loop.run_until_complete(work())":
        program = script(
            f"""
            import asyncio, dlock.aio, sys
            client, tasks = dlock.aio.Client(sys.argv[1]), []
            async def hold(name):
                async with client.lock(name):
                    await asyncio.sleep(100)
            async def work():
                for name in "abc":
                    tasks.extend(asyncio.get_running_loop().create_task(hold(name)) for _ in range(3))
                while client.stats()["waiting"] < 6:
                    await asyncio.sleep(0.005)
                print("leaving", flush=True)
            {ending}
            """,
            redis_server.url,
        )
        says(program, "leaving")
        began = time.monotonic()
        said, errors = program.communicate(timeout=WHILE)
        assert said == "" and program.returncode == 0 and time.monotonic() - began < 5
        assert "Traceback" not in errors and "dlock" not in errors.replace("dlock.aio.Client", ""), errors
        redis_server.command("FLUSHALL")
