"""Permits on an engine: at most as many are out at any time as there are, and a change of their number acts once."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable

import pytest

from ..build import LIBRARY, ROOT
from ..proxy import Link, Proxy
from ..waiting import until

# Threads of one process take permits, and say when: begin, end, permits, token.
WORKER = """
import random, sys, threading, time, dlock
url, times, threads, seed = sys.argv[1], *map(int, sys.argv[2:])

def work(number):
    choose = random.Random(seed * 100 + number)
    sizes = [client.permit_semaphore("seats", permits=count) for count in (1, 2)]
    for _ in range(times):
        size = choose.randrange(2)
        while not sizes[size].acquire(timeout=choose.choice([0, 30])):
            pass
        began, token = time.monotonic_ns(), sizes[size].token
        time.sleep(0.003)
        line = f"{began} {time.monotonic_ns()} {size + 1} {token}\\n"
        sizes[size].release()
        sys.stdout.write(line)

with dlock.Client(url) as client:
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


def check_permits(url: str, count: int) -> None:
    """Three processes of three threads share the three permits of "seats". More are never out, and each grant has its token. Three are
    out at some time: with few rounds on a busy machine that may take another go."""
    for _ in range(5):
        most = most_out(url, count)
        assert most <= 3, most
        if most == 3:
            return
    raise AssertionError(most)


def most_out(url: str, count: int) -> int:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    command = [sys.executable, "-c", WORKER, url, str(count), "3"]
    workers = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, env=env, text=True) for seed in range(3)]
    rows = [tuple(map(int, line.split())) for worker in workers for line in worker.communicate()[0].splitlines()]
    assert len(rows) == 9 * count and len({row[3] for row in rows}) == len(rows)
    out, most = 0, 0
    for _, change in sorted([(row[0], row[2]) for row in rows] + [(row[1], -row[2]) for row in rows]):
        out += change
        most = max(most, out)
    return most


MEANWHILE = pytest.mark.parametrize("acted, others, status", [
    (True, 3, "OK"), (False, 3, "OK"), (True, 20, "UNKNOWN_OUTCOME"), (False, 20, "UNKNOWN_OUTCOME"),
])  # fmt: skip


def check_changes_meanwhile(new_agent: Callable[..., Any], engine: Any, proxy: Proxy, others: int, status: str, acted: bool) -> None:
    """The total remembers its last 16 changes. When more came before the next try, nobody knows whether the first one has acted."""
    seen = 0
    near = new_agent().open(f"{type(engine).__name__.lower()}://{proxy.host}:{proxy.port}").lock("seats", kind="permit_semaphore")
    far = new_agent().open(engine).lock("seats", kind="permit_semaphore")
    far.permits_set(100).ok

    def meanwhile(link: Link, data: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:  # the write, behind the reading
            proxy.down.hold()
            if acted:
                link.server.sendall(data)
                until(lambda: far.permits().ok.value == 101)
            link.cut()
            proxy.down.release()
        elif seen == 3:  # the reading of the next try
            for _ in range(others):
                far.permits_add(1000).ok

    proxy.up.on("seats/total", meanwhile)
    answer = near.permits_add(1)
    assert answer.status == status and seen >= 3, (answer, seen)
    assert status == "OK" or "the number of permits has changed since" in answer.message
    added = acted or status == "OK"
    assert far.permits().ok.value == 100 + added + 1000 * others
    assert near.permits_add(1).ok.value == 101 + added + 1000 * others
