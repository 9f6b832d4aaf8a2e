#!/usr/bin/env python3
"""rivals.py WAY URL THREADS SECONDS own|one: Python lock clients at work: each thread its own lock, or all the same.

WAY: "redis-py" (its Lock as it comes), "redis-py-1ms" (looks every millisecond), "dlock" (our binding). Prints "name value"
lines, as the C programs do.
"""
from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from typing import Any, Callable

Maker = Callable[[str], Any]


def redis_py(url: str, sleep: float) -> Maker:
    import redis

    if url.startswith("redis+unix://"):
        connections = redis.Redis(unix_socket_path=url[len("redis+unix://"):])
    else:
        connections = redis.Redis.from_url(url)
    return lambda name: connections.lock(name, timeout=30, sleep=sleep)


def binding(url: str) -> Maker:
    import dlock

    client = dlock.Client(url)
    return client.lock


class Work:
    def __init__(self, threads: int, seconds: float) -> None:
        self.barrier = threading.Barrier(threads)
        self.seconds = seconds
        self.pairs, self.handoffs, self.last = 0, 0, -1
        self.waits: list[float] = []
        self.mutex = threading.Lock()

    def run(self, lock: Any, index: int, shared: bool) -> None:
        waits, pairs, handoffs = [], 0, 0
        for _ in range(0 if shared else 20):
            with lock:
                pass
        self.barrier.wait()
        before = time.monotonic()
        end = before + self.seconds
        while before < end:
            with lock:
                won = time.monotonic()
                handoffs += self.last != index
                self.last = index
            now = time.monotonic()
            waits.append((won if shared else now) - before)
            pairs += 1
            before = now
        with self.mutex:
            self.pairs += pairs
            self.handoffs += handoffs
            self.waits += waits


def main() -> None:
    way, url, threads, seconds, kind = sys.argv[1:]
    makers = {"redis-py": lambda: redis_py(url, 0.1), "redis-py-1ms": lambda: redis_py(url, 0.001), "dlock": lambda: binding(url)}
    make, work = makers[way](), Work(int(threads), float(seconds))
    runners = []
    for i in range(int(threads)):
        name = f"python:{os.getpid()}" + ("" if kind == "one" else f":{i}")
        runners.append(threading.Thread(target=work.run, args=(make(name), i, kind == "one")))
        runners[-1].start()
    for runner in runners:
        runner.join()
    work.waits.sort()
    print("per_s", work.pairs / work.seconds)
    print("handoffs_per_s", work.handoffs / work.seconds)
    print("p50", statistics.median(work.waits) * 1e6)
    print("p99", work.waits[len(work.waits) * 99 // 100] * 1e6)


if __name__ == "__main__":
    main()
