"""Many readers of one read-write lock, dead and alive. Dead ones are removed while others use the lock, at a cost per call that does not
grow with their number, and no live one goes with them. A reader dies as it does on the server: its hold key is gone.
"""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.faults import always
from harness.steps import rw
from harness.steps.redisson_rw import JavaRw
from harness.resp import Client
from harness.steps.rw import Hold, RwWire
from harness.steps.rw_model import ALL
from harness.steps.scripts import commands
from harness.server import Server
from harness.steps.wire import LEASE

pytestmark = pytest.mark.house

FEW, SOME, MOST = 16, 8, 32  # as in rw.lua
KINDS = ["small", "large", "old"]


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> RwWire:
    return RwWire(redis)


@pytest.fixture
def kept_as(redis: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """How the server stores the fields: in one row (small), by hash (large); or it is too old to choose at random (old)."""

    def choose(kind: str) -> None:
        redis.command("CONFIG", "SET", "hash-max-listpack-entries", 4096 if kind == "small" else 0)
        for stem, text in rw.SCRIPTS.items():
            if kind == "old":
                monkeypatch.setitem(rw.SCRIPTS, stem, text.replace("'HRANDFIELD'", "'HRANDFIELD_'"))

    yield choose
    redis.command("CONFIG", "SET", "hash-max-listpack-entries", 128)


def dead(wire: RwWire, count: int) -> None:
    """So many readers come and die. Written directly: nobody has swept yet."""
    ids = [f"0000000d-0000-8000-8000-00000000000d:{number}" for number in range(count)]
    for at in range(0, count, 500):
        flat = [word for one in ids[at : at + 500] for word in (one, "1")]
        wire.redis.command("HSET", wire.name, "mode", "read", *flat)
    wire.redis.command("PEXPIRE", wire.name, LEASE)


def living(wire: RwWire, count: int) -> list[Hold]:
    holds = [Hold() for _ in range(count)]
    assert all(wire.read(hold)[0] == 1 for hold in holds)
    return holds


def use(wire: RwWire) -> None:
    """Somebody comes and leaves: two calls."""
    hold = Hold()
    assert wire.read(hold)[0] == 1 and wire.read_release(hold) == 1


# ---- the dead go


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alive", [1, 40])
def test_the_dead_go_while_the_lock_is_used(wire: RwWire, kept_as: Callable[[str], None], kind: str, alive: int) -> None:
    """A call checks SOME fields and stops at a live one: so many calls suffice, except for one run in e^40."""
    kept_as(kind)
    holds, turns = living(wire, alive), 0
    dead(wire, 600)
    assert len(wire.fields()) == 601 + alive
    while len(wire.fields()) > 1 + alive:
        use(wire)
        turns += 1
        assert turns <= 40 * (600 + alive) // SOME
    print(f"600 dead among {alive} living, {kind}: gone after {turns} turns")
    assert wire.fields() == {"mode": "read", **{hold.id: 1 for hold in holds}}
    assert all(wire.read_release(hold) == 1 for hold in holds) and wire.fields() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_they_do_not_pile_up(wire: RwWire, kept_as: Callable[[str], None], kind: str) -> None:
    """Every second reader dies, for ever: the fields stay few."""
    kept_as(kind)
    holds, most = living(wire, 20), 0
    for _ in range(1000):
        lost = Hold()
        assert wire.read(lost)[0] == 1
        wire.kill(lost.id)
        use(wire)
        most = max(most, wire.redis.command("HLEN", wire.name))
    print(f"1000 dead among 20 living, {kind}: {most} fields at most")
    assert most < 100 and all(wire.read_renew(hold) == [1] for hold in holds)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_call_costs_the_same_in_any_crowd(wire: RwWire, kept_as: Callable[[str], None], kind: str) -> None:
    """Counted in commands of the scripts, not in time."""
    kept_as(kind)

    def cost(count: int) -> dict[str, float]:
        living(wire, count)
        use(wire)
        before = commands(wire.redis)
        for _ in range(50):
            use(wire)
        after = commands(wire.redis)
        return {name: (number - before.get(name, 0)) / 50 for name, number in after.items()}

    few, many = cost(100), cost(3000)
    assert few["eval"] == many["eval"] == 2
    assert many.get("hgetall", 0) == many.get("hkeys", 0) == many.get("hscan", 0) == 0
    assert many["hrandfield"] == few["hrandfield"] == 2  # SOME fields each, and one PTTL for each
    assert max(many["pttl"], few["pttl"]) <= 2 * SOME + 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_that_lives_opens_the_lock(redis_server: Server, wire: RwWire, kept_as: Callable[[str], None], kind: str) -> None:
    """One call removes so few for certain: picks from an old server may be smaller, unless there are few enough to be returned whole."""
    kept_as(kind)
    for count in SOME if kind == "old" else MOST - 8, 3 * MOST:
        with redis_server.client() as subscriber:
            subscriber.subscribe(wire.channel)
            dead(wire, count)
            hold, w, tries = living(wire, 1)[0], Hold(), 0
            assert wire.read_release(hold) == 1
            if count > MOST:  # more than one call may remove: a waiter is told to probe, and probes on
                while (reply := wire.write(w))[0] == 0:
                    assert reply[1:] == [1, 1] and (tries := tries + 1) <= (4 if kind == "old" else 2) * count // MOST  # some picks are smaller
                assert wire.fields() == {"mode": "write", w.writer: 1} and wire.write_release(w) == 1
            assert wire.fields() == {}
            said = []
            subscriber.send("PING")
            while (push := subscriber.read())[0] != b"pong":
                said.append(push[2])
            assert said == ([b"0"] if count < MOST else [*ALL, *ALL])


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_comes_past_the_dead(wire: RwWire, kept_as: Callable[[str], None], kind: str) -> None:
    kept_as(kind)
    dead(wire, 700)
    holds, w, tries = living(wire, 3), Hold(), 0
    for hold in holds:
        assert wire.write(w)[0] == 0 and wire.read_release(hold) == 1
    while wire.write(w)[0] == 0:
        tries += 1
    assert tries <= 2 * 700 // MOST and wire.fields() == {"mode": "write", w.writer: 1}


def test_reads_that_rested_go(wire: RwWire) -> None:
    living(wire, 20)
    for _ in range(100):
        hold = Hold()
        wire.read(hold)
        assert wire.read_release(hold, rest=50_000) == 1
        wire.kill(hold.id + ":rest")
    for _ in range(200):
        use(wire)
    assert len(wire.fields()) == 21


# ---- live readers stay


@pytest.mark.parametrize("kind", KINDS)
def test_redissons_readers_stay_as_long_as_redisson_says(wire: RwWire, kept_as: Callable[[str], None], kind: str) -> None:
    """A re-entered one lives while one of its hold keys does; one without any goes, as with Redisson's last release."""
    kept_as(kind)
    java = [JavaRw(wire.redis, "order", f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa:{number}") for number in range(60)]
    for one in java:
        assert one.read() is None and one.read() is None
    for number, one in enumerate(java):
        for which in {0: (), 1: (1,), 2: (2,), 3: (1, 2)}[number % 4]:
            wire.kill(one.id, which)
    for _ in range(400):
        use(wire)
    assert wire.fields() == {"mode": "read", **{one.id: 2 for number, one in enumerate(java) if number % 4 != 3}}
    for number, one in enumerate(java):
        assert one.read_renew() == (number % 4 != 3)  # Redisson gets the reply for a lost hold
        if number % 4 == 3:
            assert one.read_release() is None
    for number, one in enumerate(java):
        if number % 4 != 3:
            assert one.read_release() == 0
            assert one.read_release() in (0, 1)
    assert wire.fields() == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", always(0, full=range(1, 4)))
def test_no_living_reader_goes(wire: RwWire, kept_as: Callable[[str], None], kind: str, seed: int) -> None:
    """Random readers of both sides come, die, renew and leave: live ones keep field and key, the lock outlives their holds, and no writer
    gets in.
    """
    kept_as(kind)
    draw, alive = random.Random(seed), {}
    for number in range(500):
        what = draw.random()
        if what < 0.55 or not alive:
            lease = draw.choice([LEASE, 10 * LEASE])
            one: Any = Hold() if draw.random() < 0.7 else JavaRw(wire.redis, "order", f"{number:08x}-aaaa-4aaa-8aaa-00000000000a:1")
            assert wire.read(one, lease)[0] == 1 if isinstance(one, Hold) else one.read(lease) is None
            alive[one.id] = one
        else:
            one = alive.pop(draw.choice(list(alive)))
            if what < 0.8:
                wire.kill(one.id)
            elif isinstance(one, Hold):
                assert wire.read_release(one) == 1
            else:
                assert one.read_release() == (0 if alive else 1)
        if number % 25 == 24 and alive:
            assert wire.write(Hold())[0] == 0
        fields = wire.fields()
        assert alive.keys() <= fields.keys()
        if alive:
            assert wire.left() >= max(wire.left(wire.hold_key(owner)) for owner in alive) - 5
    assert len(alive) > 2 * FEW


def test_reads_under_a_write_in_a_crowd(wire: RwWire) -> None:
    """The writer has no hold key, and stays nevertheless; dead ones among its reads go."""
    w, reads = Hold(), [Hold() for _ in range(60)]
    wire.write(w)
    assert all(wire.read(one, under=w)[0] == 1 for one in reads)
    for one in reads[::2]:
        wire.kill(one.id)
    for _ in range(300):
        more = Hold()
        assert wire.read(more, under=w)[0] == 1 and wire.read_release(more) == 1
    left = {one.id: 1 for one in reads[1::2]}
    assert wire.fields() == {"mode": "write", w.writer: 1, **left} and wire.read(Hold())[0] == 0
    assert wire.write_release(w) == 1 and wire.fields() == {"mode": "read", **left}
