"""What a script costs the server does not depend on how many wait, hold or have given up, except where harness/costs.py says so, and why.
The work is counted in commands and in the elements that they touch, not in time, see harness/steps/meter.py.
"""
from __future__ import annotations

import re
from typing import Iterator

import pytest

from harness.build import ROOT
from harness.costs import FEW, GROWTHS, MANY, SOME, Growth, allowed, growth, most, page
from harness.steps.meter import Meter
from harness.server import Server
from harness.steps.scripts import NAMES
from harness.steps.worlds import PROCESSES, WORLDS, Mutex, World

pytestmark = pytest.mark.house

# They do the same for any number of waiters and holders, and need no crowd here.
ALONE = {"join": "about the server", "provision": "about the server", "check": "about the server, on keys of its own",
         "moving": "only on a cluster, while a slot moves; the caller says how much it may look at"}


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
        "write": ["reads under the write hold", "tombstones", "waiting processes"],
        "semaphore": ["holders", "dead holders", "tombstones", "ended tombstones", "waiting processes"],
        "permit semaphore": ["permits that are out", "permits whose lease has ended", "tombstones", "ended tombstones", "waiting processes"],
        "latch": ["answers that are kept", "answers whose time is over"],
    }.items() for crowd in [*crowds, PROCESSES]
]  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind, crowd", CROWDS)
@pytest.mark.parametrize("quarantine, large", [
    pytest.param(False, SOME, id="plain"),
    pytest.param(False, MANY, id="plain, many", marks=pytest.mark.full),
    pytest.param(True, SOME, id="quarantine", marks=pytest.mark.full),
])  # fmt: skip
def test_the_work_does_not_grow(worlds: dict[str, World], kind: str, crowd: str, quarantine: bool, large: int) -> None:
    world = worlds[kind]
    for step in world.steps:
        why, few = growth(kind, step, crowd), most(world, crowd, step, FEW, quarantine)
        if not few or (why and large == MANY and not quarantine):  # what grows is measured with SOME alone
            continue
        count = SOME if why else large
        many = most(world, crowd, step, count, quarantine)
        for _ in range(9 if why else 0):  # where members are picked by chance, few may be picked
            if many and many.work <= few.work + allowed(crowd, step):
                many = most(world, crowd, step, count, quarantine)
        assert many
        told = f"{kind}, {step.script}, {step.title}: {few.work} with {FEW}, {many.work} with {count} {crowd}: {many.by_command}"
        if why:
            assert few.work + allowed(crowd, step) < many.work <= few.work + 12 * count, f"{why.reason}? {told}"
        else:
            assert many.work <= few.work + allowed(crowd, step), told


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
    assert cost and all(cost.by_command[name] == 16 for name in ("ZRANGEBYSCORE", "HDEL"))
    assert cost.by_command["ZREM"] == 3 * 16  # they, and what stands behind the line for those that are subscribed
    assert cost.commands == 9 + 17  # TYPE, HEXISTS, TIME, SET, HKEYS and the four; PUBLISH of each waiter, and of the holder


def test_every_exception_is_of_a_call(worlds: dict[str, World]) -> None:
    for one in GROWTHS:
        calls = {(step.script, step.title) for step in worlds[one.kind].steps}
        assert {(script, title) for script, titles in one.calls.items() for title in titles} <= calls
        assert set(one.crowds.split(" | ")) <= worlds[one.kind].crowds.keys()


def without_figures(text: str) -> list[str]:
    """The rows of the tables of docs/costs.md, and its headings."""
    lines = [line for line in text.splitlines() if line.startswith(("|", "#"))]
    return [" | ".join(cell for cell in line.split(" | ") if not re.fullmatch(r"(see below|[\d,]+)( \|)?", cell)) for line in lines]


def test_the_page_is_fresh(worlds: dict[str, World]) -> None:
    """Its rows; the figures are those of the machine that wrote it."""
    new = page(worlds, lambda kind, what: ["1", "1"] if isinstance(what, Growth) else ["1", "1", "1"])
    assert without_figures((ROOT / "docs/costs.md").read_text()) == without_figures(new)
