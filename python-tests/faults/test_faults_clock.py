"""Clock faults: the rows B of the matrix that need a real server. Each test counts that its fault happened."""
from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import pytest

import mutants

from harness.agent import Agent, Lock, now, until
from harness.build import BUILD, ROOT
from harness.faults import Fenced, times
from harness.quorum import Skewed
from harness.tally import tell
from harness.resp import Client
from harness.steps.scripts import SCRIPTS
from harness.server import Server
from harness.steps.wire import LEASE, Wire, Who, server_ms

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


@pytest.mark.parametrize("rounds", times(3, 5))
def test_b01_the_servers_clock_jumps(new_agent: Make, new_skewed: Callable[..., Skewed], rounds: int) -> None:
    """The lock is free too early. The holder learns it at its next renewal, the resource from the token."""
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
    assert longest < lease  # because of a renewal, not of the time


# ---- B-02: a jump back, by much more than a lease

BACK = 600_000


def looks(server: Server) -> int:
    rows = server.command("INFO", "commandstats").decode().split()
    return sum(int(row.split("calls=")[1].split(",")[0]) for row in rows if row.startswith("cmdstat_pexpiretime:"))


def look_again(server: Server) -> None:
    """The waiter has probed, and has its answer: it probes once more."""
    before = looks(server)
    until(lambda: looks(server) >= before + 3)


def waits(lock: Lock, ms: int) -> Any:
    wait = lock.start("acquire", 1, ms, thread=1)
    until(lambda: lock.state(1) == "WAITING")
    return wait


def dead_before_the_jump(new_agent: Make, server: Skewed, rounds: int, patience: int, **environment: str) -> None:
    lease = 2000
    waiting = new_agent(**environment).open(server, lease_ms=lease, safety_ms=50)
    theirs = waiting.lock("b02")
    for _ in range(rounds):
        holding = new_agent()
        holding.open(server, lease_ms=lease).lock("b02").acquire(1, 5000).ok
        wait = waits(theirs, patience)
        holding.kill()
        look_again(server)
        before = server_ms(server)
        server.jump(-BACK)
        assert server_ms(server) < before - BACK / 2
        assert wait.answer().status == "OK"  # and not after ten minutes
        assert "set back" in (said := waiting.event()).text and said.type == "LOG"
        theirs.release(1).ok
        tell(done=1, fired=1)


@pytest.mark.parametrize("rounds", times(2, 5))
def test_b02_a_dead_holder_and_a_clock_that_is_set_back(new_agent: Make, new_skewed: Callable[..., Skewed], rounds: int) -> None:
    """A waiter that has probed since the holder was last alive cuts off what the clock added, and logs it."""
    dead_before_the_jump(new_agent, new_skewed(), rounds, 20_000)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_who_waits_remembers_nothing(new_agent: Make, new_skewed: Callable[..., Skewed], tmp_path: pathlib.Path) -> None:
    made = mutants.library(ROOT, BUILD, tmp_path, mutants.CLOCK)
    with pytest.raises(AssertionError, match="TIMED_OUT"):
        dead_before_the_jump(new_agent, new_skewed(), 1, 5000, LD_PRELOAD=str(made))


@pytest.mark.parametrize("renew", ["yes", "no"])
def test_b02_a_living_holder_keeps_the_lock(new_agent: Make, new_skewed: Callable[..., Skewed], renew: str) -> None:
    """If it renews, it keeps the lock. If it does not, a waiter gets the lock after the holder's own deadline, and not before."""
    server, lease = new_skewed(), 2000
    holding, waiting = new_agent().open(server, lease_ms=lease, renew=renew), new_agent().open(server, lease_ms=lease, safety_ms=50)
    mine, theirs = holding.lock("b02"), waiting.lock("b02")
    mine.acquire(1, 5000).ok
    wait = waits(theirs, 20_000)
    look_again(server)
    server.jump(-BACK)
    answer = mine.remaining(1).ok
    believed = answer.done + 1000 * answer.remaining
    if renew == "no":
        assert wait.answer().ok.done >= believed
        return
    while now() < believed + 1000 * lease:
        look_again(server)
        assert mine.state(1) == "HELD" and not wait.ready()
    mine.release(1).ok
    assert wait.answer().status == "OK"


def test_b02_with_quarantine_ms_no_lease_is_longer(new_agent: Make, new_skewed: Callable[..., Skewed]) -> None:
    """Also if the holder renewed after the jump and then died, for callers that come after that, and for the quarantine itself."""
    server, lease = new_skewed(), 2000
    options = {"lease_ms": lease, "quarantine_ms": lease, "safety_ms": 50}
    waiting = new_agent().open(server, **options)
    waiting.lock("quarantined").acquire(1, 0)
    server.jump(-BACK)
    waiting.lock("quarantined").acquire(1, 20_000).ok
    holding = new_agent()
    kept = holding.open(server, **options).lock("b02")
    kept.acquire(1, 5000).ok
    server.jump(-BACK)
    left = int(server.command("PTTL", "b02"))
    assert left > BACK / 2
    until(lambda: int(server.command("PTTL", "b02")) > left - lease)  # it lives on
    holding.kill()
    assert waiting.lock("b02").acquire(1, 20_000).status == "OK"


def test_b02_what_nobody_saw_is_not_cut(new_agent: Make, new_skewed: Callable[..., Skewed]) -> None:
    """Nobody had probed before the jump, and quarantine_ms does not bound leases: the clock has to catch up, or somebody forces the lock
    free. dlock_lock_inspect shows the server's clock.
    """
    server, lease = new_skewed(), 1000
    holding = new_agent()
    holding.open(server, lease_ms=lease).lock("b02").acquire(1, 5000).ok
    waiting = new_agent().open(server, lease_ms=lease, safety_ms=50)
    theirs = waiting.lock("b02")
    server.jump(-BACK)
    holding.kill()
    assert "CLOCK" in str(waiting.check(5000).ok)
    assert theirs.acquire(1, 3 * lease).status == "TIMED_OUT"
    assert int(server.command("PTTL", "b02")) > BACK / 2
    theirs.force().ok
    theirs.acquire(1, 5000).ok


DAY = 87_000_000  # the most that lease_ms and lock_delay_ms may be


def looked(wire: Wire, who: Who, seen: Any = (0, 0, 1)) -> Any:
    return wire.run("acquire", *wire._try(who, 2), *seen)


def test_b02_no_lease_is_longer_than_any_may_be(redis_server: Server) -> None:
    """A clock that was years ahead."""
    with redis_server.client() as redis:
        wire, a, b = Wire(redis, "order"), Who(redis_server), Who(redis_server)
        wire.acquire(a)
        redis.command("PEXPIRE", wire.name, 10 * DAY)
        reply = looked(wire, b)
        assert reply[0] == 0 and reply[5] > 8 * DAY and DAY - 5000 < wire.left() <= DAY


def words_that_count(redis: Client, server: Server) -> list[bool]:
    """Whether an earlier probe cuts the lease after each of these: nothing, a renewal, a copy of the acquire, another grant."""
    wire, a, b, cuts = Wire(redis, "order"), Who(server), Who(server), []
    wire.acquire(a)
    for word in range(4):
        redis.command("PEXPIRE", wire.name, BACK)
        seen = looked(wire, b)[3:5]
        if word == 1:
            assert redis.command("EVAL", SCRIPTS["renew"], 1, wire.name, a.id, LEASE) == [1]
        elif word == 2:
            assert wire.acquire(a)[0] == 1
        elif word == 3:
            redis.command("DEL", wire.name, wire.line)
            wire.acquire(a)
            redis.command("PEXPIREAT", wire.name, seen[0])  # by chance with the same end
        cuts.append(looked(wire, b, (*seen, 1000))[5] > 0)
    return cuts


DEFECTS = {
    "renewals leave no trace": ("renew", "redis.call('PTTL', key) + 1", "redis.call('PTTL', key)"),
    "copies leave no trace": ("acquire", "redis.call('PTTL', lock) + 1", "redis.call('PTTL', lock)"),
    "any grant is the one that was seen": ("acquire", " and tonumber(token) == last", ""),
}


def test_b02_any_word_of_the_holder_counts(redis_server: Server) -> None:
    with redis_server.client() as redis:
        assert words_that_count(redis, redis_server) == [True, False, False, False]


@pytest.mark.house
@pytest.mark.parametrize("what", DEFECTS)
def test_mutant_of_b02(redis_server: Server, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    stem, old, new = DEFECTS[what]
    assert SCRIPTS[stem].count(old) == 1
    monkeypatch.setitem(SCRIPTS, stem, SCRIPTS[stem].replace(old, new))
    with redis_server.client() as redis:
        assert sum(words_that_count(redis, redis_server)) == 2


def test_b02_redissons_holds_are_not_touched(redis_server: Server) -> None:
    with redis_server.client() as redis:
        wire, b = Wire(redis, "order"), Who(redis_server)
        redis.command("HSET", wire.name, "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1", 1)
        redis.command("PEXPIRE", wire.name, 10 * DAY)
        assert looked(wire, b)[2:] == [1] and wire.left() > 9 * DAY


# ---- B-03: a clock that runs fast


def overlap(new_agent: Make, server: Skewed, names: list[str], drift_ppm: int) -> int:
    """How many locks a second client was granted while the first could still believe it held them."""
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


@pytest.mark.parametrize("rounds", times(1, 4, soak=20))
@pytest.mark.parametrize("drift_ppm", [90_000, 10_000], ids=["within drift_ppm", "beyond it"])
def test_b03_the_servers_clock_is_fast(new_agent: Make, new_skewed: Callable[..., Skewed], drift_ppm: int, rounds: int) -> None:
    """8 % fast. With a drift_ppm of 9 % no lock is granted while another client believes it holds it; with 1 % the overlap is real."""
    server, count = new_skewed(fast=80_000), 25
    began, theirs = now(), server_ms(server)
    overlaps = sum(overlap(new_agent, server, [f"b03:{turn}:{i}" for i in range(count)], drift_ppm) for turn in range(rounds))
    ahead = 1000 * (server_ms(server) - theirs) / (now() - began)
    assert 1.07 < ahead < 1.09
    print(f"B-03: {overlaps} overlaps of {rounds * count}, its clock ran at {ahead:.3f}")
    tell(done=rounds * count, fired=rounds * count)
    assert (overlaps == 0) == (drift_ppm == 90_000)
