"""A hundred waiters of Redisson, in one JVM, and a hundred of libdlock, in one process, on one name: nobody gets in too early, and everybody
gets all turns.
"""
from __future__ import annotations

import os
from typing import Callable, Iterator

import pytest

from harness.build import LIBRARY
from harness.java import VERSIONS, Java
from harness.server import Server
from harness.tally import tell
from test_foreign import Running, Turn, report, wait_until
from test_redisson import BOUND, FAIR, FENCED, LOCK, PERMITS, SEMAPHORE, WRITE, JavaSide, Kind, PythonSide, check_exclusion, nothing_left

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]  # the first test may have to fetch Redisson

SIDE, TURNS, PATIENCE = 100, 4, 240.0
KINDS = {"mutex": LOCK, "fenced": FENCED, "fair": FAIR, "write": WRITE, "semaphore": SEMAPHORE, "permits": PERMITS}


@pytest.fixture(params=VERSIONS[:1])
def java(redis_server: Server, request: pytest.FixtureRequest) -> Iterator[Java]:
    with Java(redis_server, str(request.param), watchdog=BOUND) as one:
        yield one


def most_at_once(turns: list[Turn]) -> int:
    """How many waited at the same time, at most."""
    steps = sorted([(turn.wanted, 1) for turn in turns] + [(turn.got, -1) for turn in turns])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_hundred_on_each_side(redis_server: Server, java: Java, kind: Kind, record_property: Callable[[str, object], None]) -> None:
    name = "crowd"
    if kind in (SEMAPHORE, PERMITS):
        java.lock(name, kind.java).trySetPermits(1)
    with dlock.Client(redis_server.url, lease_ms=round(BOUND * 1000)) as client:
        theirs = [JavaSide(java, kind.java, name, f"crowd {number}", BOUND, PATIENCE) for number in range(SIDE)]
        ours = [PythonSide(client, kind.ours, name, number + 1, PATIENCE) for number in range(SIDE)]
        holder = PythonSide(client, kind.ours, name, SIDE + 1)
        holder.take()
        running = [Running(one.load, redis_server, TURNS) for pair in zip(theirs, ours) for one in pair]
        wait_until(lambda: client.stats()["waiting"] == SIDE)
        holder.give()
        for one in running:
            one.thread.join(PATIENCE)
        turns = sorted((turn for one in running for turn in one.result()), key=lambda turn: turn.got)
    assert len(turns) == 2 * SIDE * TURNS
    check_exclusion(redis_server, turns, {one.label for one in (*theirs, *ours)})
    crowds = [most_at_once([turn for turn in turns if turn.who.startswith(side)]) for side in ("redisson", "python")]
    assert min(crowds) >= 0.9 * SIDE, crowds
    report(turns, record_property)
    nothing_left(redis_server, fenced=kind is FENCED, but=["count"] if kind not in (SEMAPHORE, PERMITS) else ["count", name])
    tell(done=len(turns), fired=min(crowds))
