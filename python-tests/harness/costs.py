"""What each script costs the server with 10 and with 10,000 waiters, holders or tombstones. Writes docs/costs.md.

    python3 python-tests/harness/costs.py > docs/costs.md

    most(world, "waiters", step, 10_000)            # the Cost of a call while 10,000 wait
    growth("fair", step, "waiters")                 # why its work may grow with them; None where it must not
"""
from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.meter import Cost, Meter, quarantined
from harness.server import Server
from harness.worlds import PROCESSES, WORLDS, Step, World

FEW, SOME, MANY = 10, 1_000, 10_000
SOCKETS = 500  # processes that really subscribe
MORE = 30  # the work may differ by so much: among more than 16 readers a call inspects 8, and removes them if they are dead
SWEEP = 200  # and by so much where a call sweeps tombstones, about 50 at a time


@dataclasses.dataclass
class Growth:
    """Where the work grows with the crowd. An empty string fits all."""

    reason: str
    kinds: str
    scripts: str
    titles: str
    crowds: str

    def fits(self, *what: str) -> bool:
        allowed = (self.kinds, self.scripts, self.titles, self.crowds)
        return all(not some or word in some.split(" | ") for word, some in zip(what, allowed))


UNDER = "a writer that rests is searched among the reads that were taken under its hold"
READERS = "dead readers are removed, up to 1,024 in a call"
REMOVED = "each dead waiter is removed once"
ENDED = "each of these permits comes back once, as with Redisson"
BACK = "each of these waiters comes back once"
GATE = "closing it ends all waits: each waiter is removed, and its process is told"
HELD = "held | in doubt, held"
GROWTHS = [
    Growth("one message to each subscribed process", "", "", "", PROCESSES),
    Growth(REMOVED, "mutex", "acquire | batch_acquire", "free | free, one row", "dead waiters"),
    Growth(REMOVED, "mutex", "release | pass | batch_release | force", "", "dead waiters"),
    Growth(
        "the records of all waiters tell its clients from ours",
        "mutex", "release", "held, a client of Redisson waits", "waiters | tombstones | ended tombstones",
    ),
    Growth(GATE, "mutex | fair", "gate", "close", "waiters | dead waiters | waiters that Redisson gave up"),
    Growth(REMOVED, "fair", "fair_acquire", "free", "dead waiters"),
    Growth(REMOVED, "fair", "fair_release | fair_force", "", "dead waiters"),
    Growth(BACK, "fair", "fair_acquire", "free", "waiters that Redisson gave up"),
    Growth(BACK, "fair", "fair_release | fair_force", "", "waiters that Redisson gave up"),
    Growth("their records are read, once in a beat", "fair", "fair_acquire", "held, joins the line", "waiters that Redisson gave up"),
    Growth("the line is Redisson's list, which is searched from its head", "fair", "fair_release", "leaves the end of the line", "waiters"),
    Growth(
        "its place is searched by the time of its arrival",
        "fair", "fair_acquire", "held, comes back after Redisson gave it up", "waiters | dead waiters",
    ),
    Growth(READERS, "read", "read_release", f"{HELD} | with a rest", "dead readers"),
    Growth(READERS, "read", "write_acquire", "", "dead readers"),
    Growth(UNDER, "write", "write_acquire", "held | by its holder | the gate is closed", "reads under the write hold"),
    Growth(UNDER, "write", "read_acquire | read_release", "", "reads under the write hold"),
    Growth("the server frees the hash", "read | write", "rw_force", "", "readers | dead readers | reads under the write hold"),
    Growth("dead holders lose their permits, up to 1,000 in a call", "semaphore", "semaphore_change", "reclaim", "dead holders"),
    Growth(ENDED, "permit semaphore", "permit_acquire", "", "permits whose lease has ended"),
    Growth(ENDED, "permit semaphore", "permit_change", "count | acquired | permits", "permits whose lease has ended"),
]  # fmt: skip


def growth(kind: str, step: Step, crowd: str) -> Growth | None:
    return next((one for one in GROWTHS if one.fits(kind, step.script, step.title, crowd)), None)


def sweeps(crowd: str) -> bool:
    return "tombstone" in crowd or "answers" in crowd


def allowed(crowd: str) -> int:
    """How much more work than with few."""
    return MORE + (SWEEP if sweeps(crowd) else 0)


def sizes(crowd: str, count: int) -> list[int]:
    """A call sweeps when it makes the number of tombstones a multiple of 16. One of these sizes is such that it does."""
    if crowd == PROCESSES:
        return [min(count, SOCKETS)]
    return [count - less for less in range(3)] if sweeps(crowd) and count > SOME else [count]


def answered(step: Step, reply: Any) -> bool:
    """Whether the reply is of a kind that the step may get."""
    while isinstance(reply, list):
        reply = reply[0]
    return any(reply == one or isinstance(one, type) and isinstance(reply, one) for one in step.replies)


def most(world: World, crowd: str, step: Step, count: int, quarantine: bool = False) -> Cost | None:
    """The most that the call costs with about so many. None where the script has no form for quarantine_ms."""
    found: list[Cost] = []
    for size in sizes(crowd, count):
        words: tuple[Any, ...] | None = world.situation(crowd, size, step)
        if quarantine and words:
            words = quarantined(words)
            world.meter.provide()
        if not words:
            return None
        found.append(world.meter.cost(words))
        assert answered(step, found[-1].reply), f"{world.kind}, {step.script}, {step.title}, {size} {crowd}: {found[-1].reply}"
    return max(found, key=lambda cost: cost.work)
