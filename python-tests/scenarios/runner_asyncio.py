"""The runner of the asyncio form of the Python binding. README.md in this folder lists the lines that it answers. Lines that this form
does not support, for example the event queue, are ABSENT. An owner is a task's number, given by the scenario.
"""
from __future__ import annotations

import asyncio
import functools
import math
import sys
from typing import Any, Awaitable, Callable, Optional
from urllib.parse import unquote

import dlock
import dlock.aio

things: dict[str, Any] = {}


def said(status: str = "OK", **values: Any) -> str:
    return " ".join([status, *(f"{name}={value}" for name, value in values.items())])


def options(words: tuple[str, ...]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)  # type: ignore[misc]


class Lock:
    """A lock of a scenario. Each owner has its own handle: in Python the owner belongs to the handle."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make, self.any, self.handles = make, make(), {}

    def of(self, owner: str) -> Any:
        if owner not in self.handles:
            self.handles[owner] = self.make(owner=int(owner))
        return self.handles[owner]

    async def acquire(self, owner: str, wait_ms: str) -> str:
        lock, wait = self.of(owner), None if wait_ms == "-1" else int(wait_ms) / 1000
        if isinstance(lock, dlock.aio.Latch):
            return said() if await lock.wait(wait) else said("BUSY" if wait == 0 else "TIMED_OUT")
        if wait == 0:
            return said(token=lock.token) if await lock.try_acquire() else said("BUSY")
        return said(token=lock.token) if await lock.acquire(timeout=wait) else said("TIMED_OUT")


async def do_client(name: str, url: str, *more: str) -> str:
    things[name] = dlock.aio.Client(url, **options(more))
    return said()


async def do_close(client: str) -> str:
    await things[client].aclose()
    return said()


async def do_ping(client: str) -> str:
    await things[client].ping()
    return said()


async def do_stats(client: str) -> str:
    stats = things[client].stats()
    return said(held=stats["held"], waiting=stats["waiting"])


async def do_metric(client: str, sample: str) -> str:
    rows = dict(line.rsplit(" ", 1) for line in things[client].metrics().splitlines())
    return said(value=rows[sample]) if sample in rows else said("NOT_FOUND")


async def do_provision(client: str) -> str:
    await things[client].provision()
    return said()


async def do_fault(client: str, what: str, name: str, ms: str) -> str:
    things[client].fault(what, name, None if ms == "-1" else int(ms) / 1000)
    return said()


async def do_check(client: str) -> str:
    return said(found=",".join(one.name for one in await things[client].check()) or "none")


async def do_lock(client: str, name: str, kind: str, called: str, *more: str) -> str:
    of, given = things[client], options(more)
    data, methods = called.encode(errors="surrogateescape"), {"mutex": of.lock, "latch": of.latch}
    for form in "fair", "read", "write":
        methods[form] = getattr(of, f"{form}_lock")
    for form in "semaphore", "permit_semaphore":
        methods[form] = getattr(of, form)
    make = methods.get(kind) or functools.partial(of.lock, kind=kind)
    things[name] = Lock(lambda **owner: make(data, **owner, **given))
    return said()


async def do_multi(client: str, name: str, *members: str) -> str:
    of, locks = things[client], [things[member].any for member in members]
    things[name] = Lock(lambda **owner: of.multi_lock(*locks, **owner))
    return said()


async def do_acquire(lock: str, owner: str, wait_ms: str) -> str:
    return await things[lock].acquire(owner, wait_ms)


async def do_release(lock: str, owner: str) -> str:
    await things[lock].of(owner).release()
    return said()


async def do_begin(name: str, lock: str, owner: str, wait_ms: str) -> str:
    things[name] = asyncio.create_task(attempt(lambda: things[lock].acquire(owner, wait_ms)))
    await asyncio.sleep(0)
    return said()


async def do_end(waiting: str) -> str:
    try:
        return await things[waiting]
    except asyncio.CancelledError:
        return said("CANCELLED")


async def do_cancel(waiting: str) -> str:
    return said("OK" if things[waiting].cancel() else "NOT_HELD")


async def do_token(lock: str, owner: str) -> str:
    return said(token=things[lock].of(owner).token)


async def do_holds(lock: str, owner: str) -> str:
    return said(holds=things[lock].of(owner).hold_count)


async def do_state(lock: str, owner: str) -> str:
    return said(state=things[lock].of(owner).state.name)


async def do_remaining(lock: str, owner: str) -> str:
    handle = things[lock].of(owner)
    left = handle.remaining
    if left is None:
        return said("LOST" if handle.lost else "NOT_HELD")
    return said(remaining=-1 if left == math.inf else round(left * 1000))


async def do_extend(lock: str, owner: str, lease_ms: str) -> str:
    await things[lock].of(owner).extend(int(lease_ms) / 1000)
    return said()


async def do_force(lock: str) -> str:
    return said("OK" if await things[lock].any.force_release() else "NOT_HELD")


async def do_inspect(lock: str) -> str:
    seen = await things[lock].any.inspect()
    return said(free=int(seen.holder == ""), waiters=seen.waiters, foreign=int(seen.foreign))


async def do_close_gate(lock: str, ttl_ms: str) -> str:
    await things[lock].any.close_gate(-1 if ttl_ms == "-1" else int(ttl_ms) / 1000)
    return said()


async def do_open_gate(lock: str) -> str:
    return said("OK" if await things[lock].any.open_gate() else "UNCHANGED")


async def do_export(lock: str, owner: str, grant: str) -> str:
    things[grant] = things[lock].of(owner).export_grant()
    return said()


async def do_adopt(lock: str, owner: str, grant: str) -> str:
    return said(token=await things[lock].of(owner).adopt_grant(things[grant]))


async def do_set(lock: str, permits: str) -> str:
    return said("OK" if await things[lock].any.set_permits(int(permits)) else "UNCHANGED")


async def do_add(lock: str, permits: str) -> str:
    return said(value=await things[lock].any.add_permits(int(permits)))


async def do_drain(lock: str) -> str:
    return said(value=await things[lock].any.drain_permits())


async def do_reclaim(lock: str, silent: str) -> str:
    return said(value=await things[lock].any.reclaim_permits(int(silent) / 1000))


async def do_available(lock: str) -> str:
    return said(value=await things[lock].any.available_permits)


async def do_permit(lock: str, owner: str, index: str) -> str:
    return said(digits=len(things[lock].of(owner).permit_id(int(index))))


async def do_count(latch: str, count: str) -> str:
    return said("OK" if await things[latch].any.set_count(int(count)) else "UNCHANGED")


async def do_down(latch: str, count: str) -> str:
    return said(value=await things[latch].any.count_down(int(count)))


async def do_left(latch: str) -> str:
    return said(value=await things[latch].any.count)


async def do_work(lock: str, owner: str, times: str, path: str) -> str:
    """So many times alone: increments a counter in Redis by GET and SET, and notes the token."""
    replies, requests = await asyncio.open_unix_connection(path)

    async def command(line: str) -> str:
        requests.write(line.encode() + b"\r\n")
        answer = (await replies.readline()).decode()
        assert answer[0] != "-", answer
        return (await replies.readline()).decode() if answer[0] == "$" and answer[1] != "-" else "0"

    handle = things[lock].of(owner)
    for _ in range(int(times)):
        if not await handle.acquire(timeout=20):
            return said("TIMED_OUT")
        await command(f"SET witness:counter {int(await command('GET witness:counter')) + 1}")
        await command(f"RPUSH witness:tokens {handle.token}")
        await handle.release()
    requests.close()
    return said(done=times)


async def do_txn(client: str, name: str) -> str:
    things[name] = await things[client].transaction_begin()
    return said()


async def do_watch(txn: str, key: str) -> str:
    await things[txn].watch(key)
    return said()


async def do_get(txn: str, key: str) -> str:
    value = await things[txn].get(key)
    return said("NOT_FOUND") if value is None else said(value=value.decode(errors="surrogateescape"))


async def do_put(txn: str, key: str, value: str, ttl_ms: str = "-1") -> str:
    things[txn].set(key, value.encode(errors="surrogateescape"), None if ttl_ms == "-1" else int(ttl_ms) / 1000)
    return said()


async def do_incr(txn: str, key: str, by: str) -> str:
    things[txn].incr(key, int(by))
    return said()


async def do_delete(txn: str, key: str) -> str:
    things[txn].delete(key)
    return said()


async def do_commit(txn: str) -> str:
    await things[txn].commit()
    return said()


async def do_rollback(txn: str) -> str:
    await things[txn].rollback()
    return said()


async def do_reset() -> str:
    for thing in things.values():
        if isinstance(thing, dlock.aio.Client):
            await thing.aclose()
    await asyncio.gather(*(thing for thing in things.values() if isinstance(thing, asyncio.Task)), return_exceptions=True)
    things.clear()
    return said()


async def attempt(body: Callable[[], Awaitable[str]]) -> str:
    try:
        return await body()
    except dlock.DlockError as error:
        return said(error.name)
    except AttributeError as error:
        if isinstance(error.obj, dlock.aio.Lock):  # this kind has no such method
            return said("ABSENT")
        raise


async def main() -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, *words = line.split()
        call: Optional[Any] = globals().get(f"do_{verb}")
        arguments = [unquote(word, errors="surrogateescape") if word != "%" else "" for word in words]
        print(await attempt(lambda: call(*arguments)) if call else said("ABSENT"), flush=True)
    await do_reset()


asyncio.run(main())
