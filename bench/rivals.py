#!/usr/bin/env python3
"""rivals.py WAY URL THREADS SECONDS own|one|pair: run a Python lock client. own: each thread or task has its own lock; one: all share one
lock; pair: one thread, and only the time in the lock calls is measured.

Ways are keys of THREADED and TASKS. Prints "name value" lines, as the C programs do. A wait that has not ended at the end
counts with its length until then.
"""
from __future__ import annotations

import asyncio
import os
import statistics
import sys
import threading
import time
from typing import Any, Callable

Maker = Callable[[str], Any]
LEASE = 30


def connections(url: str, module: str = "redis") -> Any:
    import importlib

    client = importlib.import_module(module).Redis
    if url.startswith("redis+unix://"):
        return client(unix_socket_path=url[len("redis+unix://"):])
    return client.from_url(url)


def binding(url: str) -> Maker:
    import dlock

    return dlock.Client(url).lock


def binding_aio(url: str) -> Maker:
    import dlock.aio

    return dlock.aio.Client(url).lock


def redis_py(url: str, sleep: float = 0.1) -> Maker:
    client = connections(url)
    return lambda name: client.lock(name, timeout=LEASE, sleep=sleep)


def redis_py_aio(url: str) -> Maker:
    client = connections(url, "redis.asyncio")
    return lambda name: client.lock(name, timeout=LEASE)


def python_redis_lock(url: str) -> Maker:
    import redis_lock  # type: ignore[import-not-found]

    client = connections(url)
    return lambda name: redis_lock.Lock(client, name, expire=LEASE)


def pottery(url: str) -> Maker:
    from pottery import Redlock  # type: ignore[import-not-found]

    client = connections(url)
    return lambda name: Redlock(key=name, masters={client}, auto_release_time=LEASE)


THREADED = {"dlock": binding, "redis-py": redis_py, "redis-py-1ms": lambda url: redis_py(url, 0.001),
            "python-redis-lock": python_redis_lock, "pottery": pottery}
TASKS = {"dlock-aio": binding_aio, "redis-py-aio": redis_py_aio}


class Work:
    def __init__(self, callers: int, seconds: float, shared: bool) -> None:
        self.callers, self.seconds, self.shared = callers, seconds, shared
        self.barrier = threading.Barrier(callers)
        self.pairs, self.handoffs, self.last = 0, 0, -1
        self.waits: list[float] = []
        self.since: dict[int, float] = {}  # by waiter: the start of its wait
        self.end = float("inf")

    def won(self, index: int) -> float:
        now = time.monotonic()
        self.handoffs += self.last != index and now <= self.end
        self.last = index
        return now

    def done(self, index: int, won: float) -> float:
        now = time.monotonic()
        if now <= self.end:
            self.waits.append((won if self.shared else now) - self.since[index])
            self.pairs += 1
        self.since[index] = now
        return now

    def thread(self, lock: Any, index: int) -> None:
        for _ in range(0 if self.shared else 20):
            with lock:
                pass
        self.barrier.wait()
        now = self.since[index] = time.monotonic()
        while now < self.end:
            with lock:
                won = self.won(index)
            now = self.done(index, won)

    def threads(self, make: Maker) -> None:
        for index in range(self.callers):
            lock = make(self.name(index))
            threading.Thread(target=self.thread, args=(lock, index), daemon=True).start()
        while self.barrier.n_waiting or len(self.since) < self.callers:
            time.sleep(0.001)
        self.end = time.monotonic() + self.seconds
        self.handoffs = self.pairs = 0
        self.waits.clear()
        time.sleep(self.seconds)

    def pair(self, lock: Any) -> None:
        now = time.perf_counter()
        end = now + self.seconds
        while now < end:
            before = time.perf_counter()
            with lock:
                pass
            now = time.perf_counter()
            self.waits.append(now - before)
        self.pairs = len(self.waits)

    async def task(self, lock: Any, index: int) -> None:
        for _ in range(0 if self.shared else 20):
            async with lock:
                pass
        now = self.since[index] = time.monotonic()
        self.end = min(self.end, now + self.seconds)
        while now < self.end:
            async with lock:
                won = self.won(index)
            now = self.done(index, won)

    async def tasks(self, make: Maker) -> None:
        locks = [make(self.name(index)) for index in range(self.callers)]
        running = [asyncio.ensure_future(self.task(lock, index)) for index, lock in enumerate(locks)]
        _, late = await asyncio.wait(running, timeout=self.seconds + 1)
        for task in running:
            if task not in late and task.exception():
                raise SystemExit(repr(task.exception()))

    def name(self, index: int) -> str:
        return f"python:{os.getpid()}" + ("" if self.shared else f":{index}")

    def report(self) -> None:
        waits = sorted(self.waits + [self.end - since for since in self.since.values() if since < self.end])
        print("per_s", self.pairs / self.seconds)
        print("handoffs_per_s", self.handoffs / self.seconds)
        print("p50", statistics.median(waits) * 1e6)
        print("p99", waits[(len(waits) - 1) * 99 // 100] * 1e6)


def main() -> None:
    way, url, callers, seconds, kind = sys.argv[1:]
    work = Work(int(callers), float(seconds), kind == "one")
    if way in TASKS:

        async def begin() -> None:
            await work.tasks(TASKS[way](url))

        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
    elif kind == "pair":
        work.pair(THREADED[way](url)(work.name(0)))
    else:
        work.threads(THREADED[way](url))
    work.report()
    sys.stdout.flush()
    os._exit(0)  # threads that still wait do not matter


if __name__ == "__main__":
    main()
