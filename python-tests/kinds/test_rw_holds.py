"""Read-write locks whose hash Redisson ends too early: by a PEXPIRE with a shorter lease, or by DEL. Clients of ours keep each other out all the
same, until a lease or a release ends the hold: docs/kinds.md, "Read-write lock".
"""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Lock, until
from harness.resp import Client
from harness.server import Server
from harness.steps import rw
from harness.steps.redisson_rw import JavaRw
from harness.steps.rw import Hold, RwWire
from harness.steps.wire import LEASE
from harness.tally import tell

Make = Callable[..., Any]
NAMES = ["prices", "shop:{7}:prices"]
JAVA = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"
SHORT = 900


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture(params=NAMES)
def wire(redis: Client, request: pytest.FixtureRequest) -> RwWire:
    return RwWire(redis, request.param)


@pytest.fixture(params=["PEXPIRE", "DEL", "force"])
def end(redis: Client, request: pytest.FixtureRequest) -> Callable[[bytes | str], None]:
    """A client of Redisson's ends the hash of a lock."""

    def ends(name: bytes | str) -> None:
        java = JavaRw(redis, name, JAVA)
        if request.param == "force":
            assert sum(java.force(mode) for mode in ("read", "write")) == 1
        elif request.param == "DEL":
            assert redis.command("DEL", name) == 1
        else:
            java.read(1)  # refused while a writer holds: a multi-lock sends the next command late, or not to the same server
            assert redis.command("PEXPIRE", name, 1) == 1
        until(lambda: redis.command("EXISTS", name) == 0)

    return ends


def near(left: int, lease: int = LEASE) -> bool:
    return lease - 5000 < left <= lease + 1


# ---- the scripts


def test_a_reader_keeps_writers_out_and_readers_not(wire: RwWire, end: Callable[[bytes], None]) -> None:
    r, s, w = Hold(), Hold(), Hold()
    assert wire.read(r)[0] == 1
    end(wire.name)
    refused, left, _ = wire.write(w)
    assert refused == 0 and near(left)
    assert wire.read(s)[0] == 1 and wire.write(w)[0] == 0
    assert wire.read_release(s) == 1 and wire.fields() == {} and wire.write(w)[0] == 0
    assert wire.read_renew(r) == [0] and wire.write(w)[0] == 0  # the answer is still on its way to the reader
    assert wire.read_release(r) == 0 and wire.noted() == {}
    assert wire.write(w)[0] == 1


def test_a_writer_keeps_all_out_but_its_own_reads(wire: RwWire, end: Callable[[bytes], None]) -> None:
    w, v, r, s = (Hold() for _ in range(4))
    assert wire.write(w)[0] == 1
    end(wire.name)
    assert wire.write(v)[0] == 0 and near(wire.write(v)[1])
    assert wire.read(r)[0] == 0 and near(wire.read(r)[1])
    assert wire.read(s, under=w)[0] == 1 and wire.fields() == {"mode": "read", s.id: 1}
    assert wire.read(r)[0] == 0 and wire.write(v)[0] == 0
    assert wire.write_renew(w) == 0 and wire.read(r)[0] == 0
    assert wire.write_release(w) == 0
    assert wire.read(r)[0] == 1 and wire.write(v)[0] == 0
    assert wire.read_release(s) == wire.read_release(r) == 1 and wire.write(v)[0] == 1


def test_two_readers(wire: RwWire, end: Callable[[bytes], None]) -> None:
    """The longer lease counts. The one that is left keeps writers out."""
    long, short, w = Hold(), Hold(), Hold()
    wire.read(long, 2 * LEASE), wire.read(short)
    end(wire.name)
    assert near(wire.write(w)[1], 2 * LEASE)
    assert wire.read_release(long) == 0
    refused, left, _ = wire.write(w)
    assert refused == 0 and near(left)
    assert wire.read_release(short) == 0 and wire.write(w)[0] == 1


def test_the_lease_ends_it(wire: RwWire, end: Callable[[bytes], None]) -> None:
    """A reader and a writer that crashed keep others out until their lease ends, and leave nothing."""
    for take in wire.read, wire.write:
        assert take(Hold(), 400)[0] == 1
        end(wire.name)
        other = Hold()
        refused, left, _ = wire.write(other)
        assert refused == 0 and 0 < left <= 400
        until(lambda: wire.write(other)[0] == 1)
        assert list(wire.noted()) == [other.writer] and wire.write_release(other) == 1 and wire.noted() == {}


def test_renewals_keep_it(wire: RwWire, end: Callable[[bytes], None]) -> None:
    """A renewal makes what is noted longer, a shorter one does not make it shorter, and a repeated acquire neither."""
    r, w = Hold(), Hold()
    wire.read(r)
    assert wire.read_renew(r, lease=2 * LEASE) == [1] and near(wire.noted()[r.id], 2 * LEASE)
    assert wire.read_renew(r, lease=LEASE) == [1] and wire.read(r)[0] == 1 and near(wire.noted()[r.id], 2 * LEASE)
    end(wire.name)
    assert near(wire.write(w)[1], 2 * LEASE) and wire.read_release(r) == 0
    wire.write(w)
    assert wire.write_renew(w, 2 * LEASE) == 1 and wire.write(w)[0] == 1 and near(wire.noted()[w.writer], 2 * LEASE)
    end(wire.name)
    assert near(wire.read(r)[1], 2 * LEASE)


def test_a_server_that_does_not_know_gt(wire: RwWire, monkeypatch: pytest.MonkeyPatch) -> None:
    for stem, text in rw.SCRIPTS.items():
        monkeypatch.setitem(rw.SCRIPTS, stem, text.replace("'GT', score", "'gt_', score"))
    r, w = Hold(), Hold()
    wire.read(r)
    assert wire.read_renew(r, lease=2 * LEASE) == wire.read_renew(r, lease=LEASE) == [1] and near(wire.noted()[r.id], 2 * LEASE)
    wire.redis.command("DEL", wire.name)
    assert near(wire.write(w)[1], 2 * LEASE)


def test_a_rest_goes_on(wire: RwWire, end: Callable[[bytes], None]) -> None:
    r, w, v = Hold(), Hold(), Hold()
    wire.read(r)
    assert wire.read_release(r, rest=LEASE) == 1
    end(wire.name)
    assert near(wire.write(w)[1])
    assert wire.force() == 1 and wire.write(w)[0] == 1
    assert wire.write_release(w, rest=LEASE) == 1
    end(wire.name)
    assert near(wire.read(r)[1]) and near(wire.write(v)[1])


def test_force_and_inspect(wire: RwWire, end: Callable[[bytes], None]) -> None:
    for take, release, own in (wire.read, wire.read_release, lambda one: one.id), (wire.write, wire.write_release, lambda one: one.writer):
        hold, other = Hold(), Hold()
        _, token, *_ = take(hold)
        end(wire.name)
        holder, left, last, *_ = wire.inspect()
        assert holder == own(hold).encode() and near(left) and last == token
        assert wire.force() == 1 and wire.noted() == {} and wire.inspect()[:2] == [b"", -2] and wire.force() == 0
        assert wire.write(other)[0] == 1 and release(hold) == 0 and wire.write_release(other) == 1


def test_the_dead_do_not_pile_up(wire: RwWire) -> None:
    """While one reader holds, 3,000 others come and die: a call removes some of them."""
    keeper, most = Hold(), 0
    wire.read(keeper, 10 * LEASE)
    for _ in range(10):
        dead = [word for _ in range(300) for word in (1000, Hold().id)]
        wire.redis.command("ZADD", wire.ours, *dead)
        for _ in range(400):
            one = Hold()
            assert wire.read(one)[0] == 1 and wire.read_release(one) == 1
        most = max(most, len(wire.noted()))
    print(f"{most} dead at most")
    assert most < 100 and keeper.id in wire.noted()


def test_a_client_of_an_older_release_beside_ours(wire: RwWire) -> None:
    """It notes nothing. While the hash is there, all see each other; without it, ours keep each other out."""
    old, r, w = Hold(), Hold(), Hold()
    wire.read(old)
    wire.redis.command("ZREM", wire.ours, old.id)
    assert wire.write(w)[0] == 0 and wire.read(r)[0] == 1
    assert wire.read_release(old) == 1 and wire.write(w)[0] == 0
    wire.redis.command("DEL", wire.name)
    assert wire.write(w)[0] == 0 and wire.read_release(r) == 0 and wire.write(w)[0] == 1
    wire.redis.command("DEL", wire.ours)
    assert wire.read(r)[0] == 0 and wire.write_release(w) == 1 and wire.read(r)[0] == 1


def test_redissons_writers_get_in(wire: RwWire, redis: Client, end: Callable[[bytes], None]) -> None:
    """They see the hash only: the limit that the page names. Ours hear of it at the next renewal."""
    java, r, s = JavaRw(redis, wire.name, JAVA), Hold(), Hold()
    wire.read(r)
    assert java.write() is not None
    end(wire.name)
    assert java.write() is None and wire.read_renew(r) == [0] and wire.read(s)[0] == 0
    assert java.write_release() == 1 and wire.read(s)[0] == 1


# ---- the library


def locks(make: Make, server: Server, name: str, *kinds: str, **options: Any) -> list[Lock]:
    """A lock of each kind, each of a process of its own."""
    return [make().open(server, **options).lock(name, kind=kind) for kind in kinds]


@pytest.mark.parametrize("holds, asks", [("read", "write"), ("write", "read"), ("write", "write")])
@pytest.mark.parametrize("name", NAMES)
def test_lost_before_the_next_one_holds(new_agent: Make, redis_server: Server, redis: Client, name: str, holds: str, asks: str) -> None:
    """Java's read lock is a member of a multi-lock with a lease, which it sends to the hash, and dies."""
    mine, theirs = locks(new_agent, redis_server, name, holds, asks, lease_ms=SHORT)
    mine.acquire(1, 0).ok
    JavaRw(redis, name, JAVA).read(20)
    redis.command("PEXPIRE", name, 20)
    assert theirs.acquire(2, 20_000).status == "OK" and mine.state(1) == "LOST"
    assert mine.release(1).status == "LOST" and theirs.release(2).status == "OK"
    tell(done=1, fired=1)


@pytest.mark.parametrize("holds, asks", [("read", "write"), ("write", "read"), ("write", "write")])
@pytest.mark.parametrize("name", NAMES)
def test_a_release_wakes_who_waits(new_agent: Make, redis_server: Server, redis: Client, name: str, holds: str, asks: str) -> None:
    mine, theirs = locks(new_agent, redis_server, name, holds, asks, safety_ms=60_000)
    mine.acquire(1, 0).ok
    assert redis.command("DEL", name) == 1
    waits = theirs.start("acquire", 2, 30_000, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    assert theirs.acquire(3, 0).status == "BUSY" and not waits.ready() and mine.state(1) == "HELD"
    assert mine.release(1).status == "LOST"
    waits.answer().ok
    theirs.release(2).ok
    tell(done=1, fired=1)


@pytest.mark.parametrize("name", NAMES)
def test_a_crashed_reader(new_agent: Make, redis_server: Server, redis: Client, name: str) -> None:
    """The writer gets it when the reader's lease ends."""
    mine, theirs = locks(new_agent, redis_server, name, "read", "write", lease_ms=SHORT)
    mine.acquire(1, 0).ok
    mine.agent.kill()
    redis.command("DEL", name)
    assert theirs.acquire(2, 0).status == "BUSY"
    theirs.acquire(2, 20_000).ok
    tell(done=1, fired=1)


@pytest.mark.parametrize("holds", ["read", "write"])
def test_an_operator_sees_it_and_releases_it(agent: Agent, redis_server: Server, redis: Client, holds: str) -> None:
    client, other = agent.open(redis_server), agent.open(redis_server)
    mine, theirs = client.lock("prices", kind=holds), other.lock("prices", kind="write")
    mine.acquire(1, 0).ok
    redis.command("DEL", "prices")
    assert theirs.acquire(2, 0).status == "BUSY" and theirs.inspect().ok.event.text
    assert theirs.force().status == "OK"
    assert theirs.acquire(2, 0).status == "OK"
