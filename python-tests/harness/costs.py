"""What each script costs the server with 10 and with 10,000 waiters, holders or tombstones. Writes docs/costs.md.

    python3 python-tests/harness/costs.py > docs/costs.md

    most(world, "waiters", step, 10_000)            # the Cost of a call while 10,000 wait
    growth("fair", step, "waiters")                 # why its work may grow with them; None where it must not
"""
from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import platform
import re
import sys
from typing import Any, Callable

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.steps.meter import Cost, Meter, quarantined
from harness.server import Server
from harness.steps.worlds import PROCESSES, WORLDS, Step, World

FEW, SOME, MANY = 10, 1_000, 10_000
SOCKETS = 500  # processes that really subscribe
MORE = 30  # the work may differ by so much: among more than 16 readers a call inspects 8, and removes them if they are dead
SWEEP = 200  # and by so much where a call looks at some tombstones, dead waiters or those of a gate, or searches a place by halves


@dataclasses.dataclass
class Growth:
    """Calls whose work grows with a crowd, and why."""

    kind: str
    crowds: str
    reason: str
    calls: dict[str, list[str]]  # script -> titles of steps

    def fits(self, kind: str, step: Step, crowd: str) -> bool:
        return kind == self.kind and crowd in self.crowds.split(" | ") and step.title in self.calls.get(step.script, [])


SENT = "each subscribed process gets a message"
READERS = "dead readers are removed, up to 32 in a call"
ENDED = "these permits come back, up to 1,024 in a call"
HOLDERS = "dead holders lose their permits, up to 16 in a call"
HELD = ["held", "in doubt, held"]
RESTED = [*HELD, "with a rest"]
LISTENED = "held, a client of Redisson waits"
NEXT = {"pass": ["to the next of the process"], "batch_release": ["one row"], "force": [""]}
GROWTHS = [
    Growth("mutex", PROCESSES, SENT, {"release": [*RESTED, LISTENED], **NEXT}),
    Growth(
        "fair", "waiters | dead waiters", "the line is Redisson's list, which is searched from its nearer end",
        {"fair_release": ["leaves the middle of the line"]},
    ),
    Growth("read", PROCESSES, SENT, {"read_release": RESTED, "rw_force": [""], "gate": ["close"]}),
    Growth(
        "read", "dead readers", READERS, {"read_release": RESTED, "write_acquire": ["others read", "the last reader is dead"]}
    ),
    Growth("write", PROCESSES, SENT, {"write_release": RESTED, "rw_force": [""], "gate": ["close"]}),
    Growth("semaphore", PROCESSES, SENT, {"semaphore_release": HELD, "semaphore_change": ["add"], "gate": ["close"]}),
    Growth("semaphore", "dead holders", HOLDERS, {"semaphore_change": ["reclaim"]}),
    Growth("permit semaphore", PROCESSES, SENT, {"permit_release": RESTED, "permit_change": ["add", "setpermits"], "gate": ["close"]}),
    Growth(
        "permit semaphore", "permits whose lease has ended", ENDED,
        {
            "permit_acquire": ["permits are left", "too few are left", "by its holder", "the gate is closed", "after its undo"],
            "permit_change": ["count", "acquired", "permits"],
        },
    ),
    Growth("latch", PROCESSES, SENT, {"latch_change": ["set", "down to zero"], "gate": ["close"]}),
]  # fmt: skip


def growth(kind: str, step: Step, crowd: str) -> Growth | None:
    return next((one for one in GROWTHS if one.fits(kind, step, crowd)), None)


def sweeps(crowd: str) -> bool:
    return "tombstone" in crowd or "answers" in crowd


def allowed(crowd: str, step: Step) -> int:
    """How much more work than with few."""
    some = sweeps(crowd) or crowd in ("dead waiters", "waiters that Redisson gave up") or step.script == "gate" or "comes back" in step.title
    return MORE + (SWEEP if some else 0)


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


# ---- the page

Figures = Callable[[str, Any], list[str]]  # kind, and a Step or a Growth -> the cells with figures

HEAD = """\
# What a script costs

The library does its work on the server in Lua scripts. The server runs one script at a time, so a slow one delays everybody. This page
shows what each script costs with few and with many waiters, holders and tombstones. The last table has the calls whose cost grows.

[A test](../python-tests/wire/test_script_costs.py) counts the commands of each script and the elements that they touch, with 10, with 1,000
and with 10,000 of each crowd. It fails when they grow and the last table does not say so.

The times are the server's own, in microseconds, on one machine: {machine}. Other programs used it at the same time,
so each time is the fastest of {times} runs, in {rounds} rounds through all calls. The second column is up to three times the first one, because
10,000 entries do not fit into the processor's caches. [A script](../python-tests/harness/costs.py) measured them and wrote this page.

- Waiters of a mutex or a fair lock stand in line, and the first one is granted it. Processes that wait for a write lock or for a permit stand
  in line, and the first one is called. Other waiters are subscribed processes, and a release sends each of them a message: those of readers,
  of latches, of several permits at once, and of Redisson.
- A call passes over up to 8 processes in line that have died. When there are more, those behind them notice within `safety_ms`.
- Dead waiters, readers and holders belong to processes that ended without a release. A call on a mutex removes up to 12 dead waiters, a call
  on a fair lock up to 8. When there are more, it tells one of the living, or its caller, to probe again.
- A call that closes a gate sends up to 16 waiters away. The client calls again until all have left.
- Tombstones are what undone requests leave for two minutes, see [Waiting](waiting.md#waiting).

"Commands" counts the Redis commands of one call, with 10,000 of the crowd that needs most. One in 16 calls that leave a tombstone among more
than 1,000 also inspects about 50 of them and removes those whose time is over. With `quarantine_ms` a grant takes five commands more.
"""
GROWS = """\
## What grows

These calls take longer with more of a crowd. The times are those of the slowest call. Most of these calls remove what they find, so that the
next call is fast again.

| Kind | Calls | Crowd | Why | µs with 10 | µs with many |
| --- | --- | --- | --- | --- | --- |"""


def call_of(step: Step) -> str:
    return f"`{step.script}`" + (f", {step.title}" if step.title else "")


def crowd_of(one: Growth) -> str:
    count = SOCKETS if one.crowds == PROCESSES else MANY
    return f"{count:,} " + " or ".join(one.crowds.split(" | "))


def page(worlds: dict[str, World], figures: Figures, machine: str = "", times: int = 0, rounds: int = 0) -> str:
    lines = [HEAD.format(machine=machine, times=times, rounds=rounds)]
    for kind, world in worlds.items():
        lines += [f"## {kind.capitalize()}", "", "| Call | Commands | µs with 10 | µs with 10,000 |", "| --- | --- | --- | --- |"]
        lines += [f"| {' | '.join([call_of(step), *figures(kind, step)])} |" for step in world.steps]
        lines.append("")
    lines.append(GROWS)
    for one in GROWTHS:
        calls = "; ".join(f"`{script}`" + (f" ({'; '.join(titles)})" if titles != [""] else "") for script, titles in one.calls.items())
        lines.append(f"| {' | '.join([one.kind, calls, crowd_of(one), one.reason, *figures(one.kind, one)])} |")
    return "\n".join(lines) + "\n"


def measured(worlds: dict[str, World], times: int, rounds: int) -> dict[tuple[Any, ...], int]:
    """The fastest time of each call in each crowd. In rounds through all of them, as other programs use the machine, too."""
    fastest: dict[tuple[Any, ...], int] = {}
    for _ in range(rounds):
        for kind, world in worlds.items():
            for step, crowd in itertools.product(world.steps, world.crowds):
                for count in (FEW, sizes(crowd, MANY)[0]):
                    case, micros = (kind, call_of(step), crowd, count), world.meter.micros(world.situation(crowd, count, step), times)
                    fastest[case] = min(micros, fastest.get(case, micros))
    return fastest


def cells(worlds: dict[str, World], fastest: dict[tuple[Any, ...], int]) -> Figures:
    """Figures of this machine: of a step in the crowds with which it does not grow; of a growth, of its slowest call."""

    def figures(kind: str, what: Any) -> list[str]:
        world, calls = worlds[kind], []
        for step in [what] if isinstance(what, Step) else world.steps:
            for crowd in world.crowds:
                if growth(kind, step, crowd) is (None if isinstance(what, Step) else what):
                    row = [fastest[kind, call_of(step), crowd, count] for count in (FEW, sizes(crowd, MANY)[0])]
                    calls.append((row, crowd, step))
        if not calls:
            return ["see below"] * 3
        row = max((row for row, _, _ in calls), key=lambda row: row[1])
        shown = [f"{micros:,}" for micros in (max(row[0] for row, _, _ in calls) if isinstance(what, Step) else row[0], row[1])]
        if isinstance(what, Growth):
            return shown
        commands = []
        for _, crowd, step in calls:
            commands.append(world.meter.cost(world.situation(crowd, sizes(crowd, MANY)[0], step)).commands)
        return [str(max(commands)), *shown]

    return figures


def machine() -> str:
    model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return f"{os.cpu_count()} cores, {model or platform.machine()}"


def main(times: int = 25, rounds: int = 3) -> None:
    with Server() as server:
        meter = Meter(server)
        worlds = {kind: world(meter) for kind, world in WORLDS.items()}
        version = re.search(rb"redis_version:(\S+)", server.command("INFO", "server"))
        assert version
        figures = cells(worlds, measured(worlds, times, rounds))
        text = page(worlds, figures, f"{machine()}, Redis {version[1].decode()}", times * rounds, rounds)
        World.unsubscribe()
    print(text, end="")


if __name__ == "__main__":
    main()
