"""Faults of clocks: rows B of the matrix that need a real server. Each counts that its fault fired."""
from __future__ import annotations

from typing import Callable, Iterator

import pytest

from harness.agent import Agent, now
from harness.faults import Fenced, times
from harness.quorum import Skewed
from harness.tally import tell
from harness.wire import server_ms

Make = Callable[..., Agent]


@pytest.fixture
def new_skewed() -> Iterator[Callable[..., Skewed]]:
    made: list[Skewed] = []

    def make(fast: int = 0) -> Skewed:
        made.append(Skewed(fast=fast))
        return made[-1]

    yield make
    for one in made:
        one.stop()


# ---- B-01: a jump forward, over the lease


@pytest.mark.parametrize("rounds", times(3, 10))
def test_b01_the_servers_clock_jumps(new_agent: Make, new_skewed: Callable[..., Skewed], rounds: int) -> None:
    """The lock is free too early, which the holder hears at its next renewal and the resource from the token."""
    server, lease = new_skewed(), 6000
    holding, waiting = new_agent().open(server, lease_ms=lease), new_agent().open(server, lease_ms=lease)
    mine, theirs, resource = holding.lock("b01"), waiting.lock("b01"), Fenced(server)
    longest = 0.0
    for _ in range(rounds):
        old = mine.acquire(1, 5000).ok.token
        wait, began = theirs.start("acquire", 1, 20_000, thread=1), now()
        before = server_ms(server)
        server.jump(lease + 1000)
        assert server_ms(server) - before >= lease + 1000
        new = wait.answer().ok.token
        assert new > old and resource.write("b01", new)
        while holding.event().type != "LOST":
            pass
        longest = max(longest, (now() - began) / 1000)
        assert mine.state(1) == "LOST" and not resource.write("b01", old)
        mine.release(1)
        theirs.release(1).ok
        tell(done=1, fired=1)
    print(f"B-01: told {longest:.0f} ms after the jump at most, of a lease of {lease} ms")
    assert longest < lease  # by a renewal, not by the time


# ---- B-03: a clock that runs fast


def overlap(new_agent: Make, server: Skewed, names: list[str], drift_ppm: int) -> int:
    """How many of the locks a second client was granted while the first could still believe in its own."""
    holding = new_agent().open(server, lease_ms=3000, renew="no", drift_ppm=drift_ppm)
    waiting = new_agent().open(server, lease_ms=3000, drift_ppm=drift_ppm)
    believed = []
    for name in names:
        mine = holding.lock(name)
        mine.acquire(1, 0).ok
        answer = mine.remaining(1).ok
        believed.append(answer.done + 1000 * answer.remaining)
    locks = [waiting.lock(name) for name in names]
    waits = [lock.start("acquire", 1, 20_000, thread=number + 1) for number, lock in enumerate(locks)]
    granted = [wait.answer().ok.done for wait in waits]
    for lock in locks:
        lock.release(1).ok
    return sum(at < limit for at, limit in zip(granted, believed))


@pytest.mark.parametrize("rounds", times(1, 8, soak=20))
@pytest.mark.parametrize("drift_ppm", [90_000, 10_000], ids=["within drift_ppm", "beyond it"])
def test_b03_the_servers_clock_is_fast(new_agent: Make, new_skewed: Callable[..., Skewed], drift_ppm: int, rounds: int) -> None:
    """By 8 %. With a drift_ppm of 9 % nobody is granted what another believes in; with 1 % the overlap is real."""
    server, count = new_skewed(fast=80_000), 25
    began, theirs = now(), server_ms(server)
    overlaps = sum(overlap(new_agent, server, [f"b03:{turn}:{i}" for i in range(count)], drift_ppm) for turn in range(rounds))
    ahead = 1000 * (server_ms(server) - theirs) / (now() - began)
    assert 1.07 < ahead < 1.09
    print(f"B-03: {overlaps} overlaps of {rounds * count}, its clock ran at {ahead:.3f}")
    tell(done=rounds * count, fired=rounds * count)
    assert (overlaps == 0) == (drift_ppm == 90_000)
