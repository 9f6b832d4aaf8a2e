"""What a script costs the server does not depend on how many wait, hold or have given up, except where harness/costs.py says so, and why.
The work is counted in commands and in the elements that they touch, not in time, see harness/meter.py.
"""
from __future__ import annotations

from typing import Iterator

import pytest

from harness.costs import FEW, GROWTHS, MANY, SOME, allowed, growth, most
from harness.meter import Meter
from harness.server import Server
from harness.steps.scripts import NAMES
from harness.worlds import PROCESSES, WORLDS, Mutex, World

pytestmark = pytest.mark.house

# They do the same for any number of waiters and holders, and need no crowd here.
ALONE = {"join": "about the server", "provision": "about the server", "check": "about the server, on keys of its own"}


@pytest.fixture(scope="module")
def meter() -> Iterator[Meter]:
    with Server() as server:  # not a cluster: copies are kept in another database
        one = Meter(server)
        yield one
        World.unsubscribe()
        one.close()


@pytest.fixture(scope="module")
def worlds(meter: Meter) -> dict[str, World]:
    return {kind: world(meter) for kind, world in WORLDS.items()}


CROWDS = [
    (kind, crowd) for kind, crowds in {
        "mutex": ["waiters", "dead waiters", "tombstones", "ended tombstones"],
        "fair": ["waiters", "dead waiters", "waiters that Redisson gave up", "tombstones", "ended tombstones"],
        "read": ["readers", "dead readers", "tombstones"],
        "write": ["reads under the write hold", "tombstones"],
        "semaphore": ["holders", "dead holders", "tombstones", "ended tombstones"],
        "permit semaphore": ["permits that are out", "permits whose lease has ended", "tombstones", "ended tombstones"],
        "latch": ["answers that are kept", "answers whose time is over"],
    }.items() for crowd in [*crowds, PROCESSES]
]  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind, crowd", CROWDS)
@pytest.mark.parametrize("quarantine", [False, True], ids=["plain", "quarantine"])
def test_the_work_does_not_grow(worlds: dict[str, World], kind: str, crowd: str, quarantine: bool) -> None:
    world = worlds[kind]
    for step in world.steps:
        why, few = growth(kind, step, crowd), most(world, crowd, step, FEW, quarantine)
        if not few:
            continue
        for count in (SOME,) if why else (MANY,) if quarantine else (SOME, MANY):
            many = most(world, crowd, step, count, quarantine)
            assert many
            told = f"{kind}, {step.script}, {step.title}: {few.work} with {FEW}, {many.work} with {count} {crowd}: {many.by_command}"
            if not why:
                assert many.work <= few.work + allowed(crowd), told
            elif many.work > few.work + allowed(crowd):
                assert many.work <= few.work + 12 * count, told  # in proportion, not worse


def test_every_exception_is_one(worlds: dict[str, World]) -> None:
    """What grows no more is taken off the list."""
    for one in GROWTHS:
        cases = [(world, step, crowd) for world in worlds.values() for crowd in world.crowds for step in world.steps]
        fitting = [(world, step, crowd) for world, step, crowd in cases if growth(world.kind, step, crowd) is one]
        for world, step, crowd in fitting:
            few, many = most(world, crowd, step, FEW), most(world, crowd, step, SOME)
            assert few and many
            if many.work > few.work + allowed(crowd):
                break
        else:
            raise AssertionError(f"nothing grows: {one}")


def test_every_crowd_and_every_script_is_here(worlds: dict[str, World]) -> None:
    assert {(kind, crowd) for kind, world in worlds.items() for crowd in world.crowds} == set(CROWDS)
    called = {step.script for world in worlds.values() for step in world.steps}
    assert called == {name.lower() for name in NAMES if not name.startswith("QUARANTINE_")} - ALONE.keys()
    quarantined = {name.lower()[len("QUARANTINE_") :] for name in NAMES if name.startswith("QUARANTINE_")}
    assert quarantined <= called


def test_the_meter_counts_what_a_command_touches(meter: Meter, worlds: dict[str, World]) -> None:
    """By two calls whose work is known."""
    mutex = worlds["mutex"]
    assert isinstance(mutex, Mutex)
    held = next(step for step in mutex.steps if (step.script, step.title) == ("force", ""))
    cost = most(mutex, PROCESSES, held, 7)
    assert cost and cost.by_command["PUBLISH"] == 7 and cost.by_command["HKEYS"] == 1
    close = next(step for step in mutex.steps if (step.script, step.title) == ("gate", "close"))
    cost = most(mutex, "waiters", close, 20)
    assert cost and cost.by_command["ZRANGE"] == 21 and cost.by_command["ZREM"] == 21
    assert cost.commands == 5 + 21 + 21 + 22  # TYPE, HEXISTS, SET, ZRANGE, HKEYS; of each waiter ZREM, HDEL, PUBLISH, which the holder gets, too
