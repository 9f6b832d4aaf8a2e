"""The read-write lock's scripts on a real server, alone and mixed with Redisson's steps. Keys whose lease would end are deleted instead of
waited for, except in tests of expiry itself.
"""
from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import pytest

from harness.steps.redisson import ACQUIRE, RELEASE, tagged, token_key
from harness.steps.redisson_rw import OLD_READ_RENEW, JavaRw
from harness.resp import Client, ReplyError
from harness.steps.rw import Hold, RwWire
from harness.steps.rw_model import ALL
from harness.server import Server, free_port
from harness.steps.wire import KEEP, LEASE, LINE, Wire, all_expire, server_ms, wait_until

pytestmark = pytest.mark.house

A = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"
B = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb:7"
NAMES: list[str | bytes] = [
    "order", "shop:{7}:lock", "{x}", "x", "x{y}z", "a b  c ", "new\r\nline", "*?[a-z]\\", "%d %s %1", "Schloß €",
    b"\xff\xfe\x01", "mode", "n" * 1024,
]  # fmt: skip


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> RwWire:
    return RwWire(redis)


@pytest.fixture
def a(redis: Client) -> JavaRw:
    return JavaRw(redis, "order", A)


@pytest.fixture
def b(redis: Client) -> JavaRw:
    return JavaRw(redis, "order", B)


class Subscriber:
    """A subscriber of Redisson's channel of the lock."""

    def __init__(self, server: Server, wire: RwWire) -> None:
        self.redis = server.client()
        self.redis.subscribe(wire.channel)

    def messages(self) -> list[bytes]:
        """The messages since the last call: none can come after the reply to a PING."""
        said = []
        self.redis.send("PING")
        while (push := self.redis.read())[0] != b"pong":
            said.append(push[2])
        return said


@pytest.fixture
def subscriber(redis_server: Server, wire: RwWire) -> Iterator[Subscriber]:
    one = Subscriber(redis_server, wire)
    yield one
    one.redis.close()


def near(left: int, lease: int) -> bool:
    return lease - 5000 < left <= lease + 10  # a renewal that finds a longer lease adds a millisecond


# ---- the vectors of the protocol description: Redisson alone, ours alone, mixed


@pytest.mark.parametrize("first", ["java", "ours"])
@pytest.mark.parametrize("second", ["java", "ours"])
def test_vector_15_the_longer_read_counts(wire: RwWire, a: JavaRw, b: JavaRw, first: str, second: str) -> None:
    holds = []
    for kind, java, lease in (first, a, 30_000), (second, b, 60_000):
        one: Any = java if kind == "java" else Hold()
        holds.append(one.id)
        assert one.read(lease) is None if isinstance(one, JavaRw) else wire.read(one, lease)[0] == 1
    assert near(wire.left(), 60_000)
    assert wire.holds() == {f"{{order}}:{owner}:rwlock_timeout:1".encode() for owner in holds}
    assert wire.fields() == {"mode": "read", holds[0]: 1, holds[1]: 1}
    assert near(wire.left(wire.hold_key(holds[0])), 30_000) and near(wire.left(wire.hold_key(holds[1])), 60_000)


def test_vector_16_trap_7_a_write_hold_sent_again_counts_once_and_adds_nothing(wire: RwWire, a: JavaRw) -> None:
    assert a.write() is None and a.write(10_000) is None
    assert wire.fields() == {"mode": "write", A + ":write": 2} and near(wire.left(), 40_000)
    assert a.write_release() == 0 and a.write_release() == 1
    w = Hold()
    first = wire.write(w, 30_000)
    assert wire.write(w, 10_000) == first and near(wire.left(), 30_000)
    assert wire.write(w, 40_000) == first and near(wire.left(), 40_000)
    assert wire.fields() == {"mode": "write", w.writer: 1}


def test_vector_17_downgrade_java(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    assert a.write() is None and a.read() is None
    assert a.write_release() == 1
    assert wire.fields() == {"mode": "read", A: 1} and subscriber.messages() == []


def test_vector_17_downgrade_ours_tells_who_waits(wire: RwWire, b: JavaRw, subscriber: Subscriber) -> None:
    w, r, other = Hold(), Hold(), Hold()
    _, token = wire.write(w, 90_000)
    code, later = wire.read(r, 20_000, under=w)
    assert code == 1 and later > token and near(wire.left(), 90_000)
    assert b.read() is not None and wire.read(other)[0] == 0
    assert wire.write_release(w) == 1
    assert wire.fields() == {"mode": "read", r.id: 1} and subscriber.messages() == ALL
    assert near(wire.left(), 20_000)  # the rest of the writer's lease would only keep a dead reader alive
    assert b.read() is None and wire.read(other)[0] == 1


def test_vector_17a_a_read_under_a_write_is_released(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    assert a.write() is None and a.read() is None
    assert a.read_release() == 0 and wire.fields() == {"mode": "write", A + ":write": 1}
    assert a.write_release() == 1 and subscriber.messages() == [b"1"]
    w, r = Hold(), Hold()
    wire.write(w)
    wire.read(r, under=w)
    assert wire.read_release(r) == 1 and wire.fields() == {"mode": "write", w.writer: 1}
    assert wire.holds() == set() and subscriber.messages() == []


def test_vector_17b_trap_6_a_read_release_leaves_the_writers_lease_alone(wire: RwWire, a: JavaRw) -> None:
    assert a.write(60_000) is None and a.read(5_000) is None and a.read(5_000) is None
    assert a.read_release() == 0 and wire.left() <= 5_000  # the writer's lease is cut
    assert a.read_release() == 0 and a.write_release() == 1
    w, r, s = Hold(), Hold(), Hold()
    wire.write(w, 60_000)
    wire.read(r, 5_000, under=w)
    wire.read(s, 5_000, under=w)
    for hold in r, s:
        assert wire.read_release(hold) == 1 and near(wire.left(), 60_000)


@pytest.mark.parametrize("order", list(itertools.product(["java", "ours"], repeat=3)), ids="-".join)
def test_vector_17c_the_lock_lives_as_long_as_the_longest_hold(
    wire: RwWire, a: JavaRw, b: JavaRw, subscriber: Subscriber, order: tuple[str, ...]
) -> None:
    java = [a, b, JavaRw(wire.redis, "order", "cccccccc-cccc-4ccc-8ccc-cccccccccccc:9")]
    readers: list[Any] = [one if kind == "java" else Hold() for kind, one in zip(order, java)]

    def release(one: Any) -> int | None:
        return one.read_release() if isinstance(one, JavaRw) else wire.read_release(one)

    for one, lease in zip(readers, (90_000, 30_000, 60_000)):
        assert one.read(lease) is None if isinstance(one, JavaRw) else wire.read(one, lease)[0] == 1
    assert near(wire.left(), 90_000)
    assert release(readers[0]) == (1 if order[0] == "ours" else 0) and near(wire.left(), 60_000)
    assert release(readers[1]) == (1 if order[1] == "ours" else 0) and near(wire.left(), 60_000)
    assert subscriber.messages() == []
    assert release(readers[2]) == 1 and subscriber.messages() == [b"0"]
    assert wire.fields() == {} and wire.holds() == set()


def test_vector_17d_trap_6_what_a_renewal_cuts_our_release_and_renewal_repair(wire: RwWire, a: JavaRw) -> None:
    long, other = Hold(), Hold()
    wire.read(long, 600_000)
    assert a.read() is None and near(wire.left(), 600_000)
    wire.read(other)
    assert a.read_renew() == 1 and near(wire.left(), 30_000)  # Redisson's renewal shortens
    assert wire.read_release(other) == 1 and near(wire.left(), 600_000)
    assert a.read_renew() == 1 and near(wire.left(), 30_000)
    assert wire.read_renew(long, lease=500_000) == [1] and near(wire.left(), 500_000)
    assert near(wire.left(wire.hold_key(long.id)), 600_000)
    assert a.read_release() == 0 and near(wire.left(), 600_000)


def test_vector_18_the_last_reader_says_0(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    assert a.read() is None and a.read_release() == 1 and subscriber.messages() == [b"0"]
    r = Hold()
    wire.read(r)
    assert wire.read_release(r) == 1 and subscriber.messages() == [b"0"]
    assert wire.redis.command("KEYS", "*") == [wire.fence]


def test_vector_19_trap_5_the_writer_says_1_and_ours_0_behind_it(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    assert a.write() is None and a.write_release() == 1 and subscriber.messages() == [b"1"]
    w = Hold()
    wire.write(w)
    assert wire.write_release(w) == 1 and subscriber.messages() == ALL
    assert wire.redis.command("KEYS", "*") == [wire.fence]


def test_vector_20_a_release_of_nothing(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    assert a.read_release() is None and subscriber.messages() == [b"0"]
    for _ in range(2):
        assert wire.read_release(Hold()) == 0 and wire.write_release(Hold()) == 0
    assert subscriber.messages() == [] and wire.redis.command("KEYS", "*") == []


# ---- acquire


def test_readers_share_and_a_writer_excludes(wire: RwWire, a: JavaRw) -> None:
    r, s, w = Hold(), Hold(), Hold()
    assert wire.read(r)[0] == wire.read(s)[0] == 1
    code, left, foreign = wire.write(w)
    assert (code, foreign) == (0, 1) and near(left, LEASE)
    assert near(a.write() or 0, LEASE)
    assert wire.read_release(r) == 1 and wire.write(w)[0] == 0
    assert wire.read_release(s) == 1 and wire.write(w)[0] == 1
    for code, left, foreign in wire.read(r), wire.write(Hold()), wire.read(s, under=Hold()):
        assert (code, foreign) == (0, 1) and near(left, LEASE)
    assert near(a.read() or 0, LEASE) and near(a.write() or 0, LEASE)


def test_ours_waits_for_java_and_java_for_ours(wire: RwWire, a: JavaRw) -> None:
    r, w = Hold(), Hold()
    assert a.write(60_000) is None
    for reply in wire.read(r), wire.write(w), wire.read(r, under=w):
        assert reply[0] == 0 and near(reply[1], 60_000)
    assert a.write_release() == 1
    assert a.read() is None and wire.read(r)[0] == 1 and wire.write(w)[0] == 0
    assert a.read_release() == 0 and wire.read_release(r) == 1
    assert wire.write(w)[0] == 1 and near(a.read() or 0, LEASE)
    assert wire.write_release(w) == 1 and a.write() is None


def test_everything_has_an_end(wire: RwWire) -> None:
    r, w, s = Hold(), Hold(), Hold()
    wire.read(r)
    all_expire(wire.redis)
    wire.read_release(r)
    wire.write(w)
    wire.read(s, under=w)
    all_expire(wire.redis)
    wire.redis.command("PERSIST", wire.name)  # somebody removed the TTL
    assert wire.read(Hold())[:2] == [0, -1]
    assert wire.write_renew(w) == 1 and near(wire.left(), LEASE)
    wire.redis.command("PERSIST", wire.name)
    assert wire.read_renew(s) == [1] and near(wire.left(), LEASE)


def test_a_read_sent_again_gets_its_own_token_though_others_came_since(wire: RwWire) -> None:
    holds, tokens = [Hold() for _ in range(5)], []
    for hold in holds:
        code, token = wire.read(hold, block=3)
        assert code == 1 and int(wire.redis.command("GET", wire.fence)) == token
        tokens.append(token)
    assert tokens == sorted(set(tokens))
    fields, last = wire.fields(), wire.redis.command("GET", wire.fence)
    for hold, token in zip(holds, tokens):
        assert wire.read(hold, lease=100) == [1, token]
        assert near(wire.left(wire.hold_key(hold.id)), LEASE) and near(wire.left(), LEASE)
        assert wire.redis.command("GET", wire.hold_key(hold.id)) == b"%d" % token
    assert wire.fields() == fields and wire.redis.command("GET", wire.fence) == last
    assert wire.read(holds[0], lease=2 * LEASE) == [1, tokens[0]]
    assert near(wire.left(), 2 * LEASE) and near(wire.left(wire.hold_key(holds[0].id)), 2 * LEASE)
    assert all(wire.read_release(hold) == 1 for hold in holds) and wire.fields() == {}


@pytest.mark.parametrize(("mine", "reads"), [(1, 1), (65, 1), (1, 65), (3, 2)])
def test_a_write_sent_again_gets_one_of_its_own_tokens(wire: RwWire, mine: int, reads: int) -> None:
    w, r = Hold(), Hold()
    _, before = wire.read(r)
    wire.read_release(r)
    code, token = wire.write(w, block=mine)
    assert code == 1 and token > before
    mine = wire.tokens
    for _ in range(3):
        assert wire.write(w, block=mine) == [1, token + mine - 1] and wire.tokens == 1
    # A copy comes late, behind reads under the write lock. Nobody waits for its reply, which is still stored among this owner's numbers.
    last = token + mine - 1
    for _ in range(3):
        r = Hold()
        _, last = wire.read(r, under=w, block=reads)
        code, answer = wire.write(w, block=mine)
        assert code == 1 and token < answer <= last + reads - 1
        assert wire.read(r, under=w, block=reads) == [1, last]
        wire.read_release(r)
        assert wire.write(w, block=mine) == [code, answer]
    assert wire.fields() == {"mode": "write", w.writer: 1}
    wire.write_release(w)
    assert wire.read(Hold())[1] > last + reads - 1


def test_tokens_rise_over_all_holds(wire: RwWire) -> None:
    last = server_ms(wire.redis) * 1000 - 1
    wire.redis.command("SET", wire.fence, last + 10**12)  # far ahead of the clock, without an expiry: a fenced lock's
    last += 10**12
    for _ in range(10):
        w, r, s = Hold(), Hold(), Hold()
        for which in "write", "read", "read again":
            if which == "write":
                code, token = wire.write(w, block=3)
            else:
                code, token = wire.read(r if which == "read" else s, under=w, block=2)
            assert code == 1 and token > last
            last = int(wire.redis.command("GET", wire.fence))
        assert wire.write_release(w) == wire.read_release(r) == wire.read_release(s) == 1
    assert wire.left(wire.fence) == -1
    wire.redis.command("PEXPIRE", wire.fence, 5000)
    wire.read(Hold())
    assert near(wire.left(wire.fence), KEEP + 10**9)  # and as long as the counter is ahead of the clock


def test_a_read_under_a_write_needs_that_write(wire: RwWire) -> None:
    w, other, r = Hold(), Hold(), Hold()
    wire.write(w)
    assert wire.read(r)[0] == 0 and wire.read(r, under=other)[0] == 0
    assert wire.fields() == {"mode": "write", w.writer: 1} and wire.holds() == set()
    assert wire.read(r, lease=3 * LEASE, under=w)[0] == 1 and near(wire.left(), 3 * LEASE)
    assert wire.write_release(w) == 1
    assert wire.read(Hold(), under=w)[0] == 1  # it is a read among reads now


def test_no_upgrade(wire: RwWire) -> None:
    r = Hold()
    wire.read(r)
    assert wire.write(r)[0] == 0 and wire.fields() == {"mode": "read", r.id: 1}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
def test_any_name(redis: Client, name: str | bytes) -> None:
    wire, java, w, r = RwWire(redis, name), JavaRw(redis, name, A), Hold(), Hold()
    assert wire.write(w)[0] == wire.read(r, under=w)[0] == wire.write_release(w) == 1
    assert java.read(2 * LEASE) is None and wire.write(w)[0] == 0
    assert wire.inspect()[0] in (r.id.encode(), A.encode())
    assert wire.read_release(r) == 1 and near(wire.left(), 2 * LEASE)
    assert wire.read(r)[0] == 1 and java.read_release() == 0 and near(wire.left(), LEASE)
    assert wire.read_renew(r, lease=3 * LEASE) == [1] and near(wire.left(wire.hold_key(r.id)), 3 * LEASE)
    wire.kill(r.id)
    assert wire.write(w)[0] == 1 and wire.write_release(w, rest=LEASE) == 1 and wire.force() == 1
    assert set(redis.command("KEYS", "*")) == {wire.fence, wire.hold_key(w.writer + ":rest")}


# ---- release, renew, force


def test_releases_are_harmless_when_repeated(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    r, s, w = Hold(), Hold(), Hold()
    wire.read(r)
    wire.read(s)
    assert [wire.read_release(r) for _ in range(3)] == [1, 0, 0]
    assert wire.fields() == {"mode": "read", s.id: 1}
    assert wire.write_release(s) == 0 and wire.write_release(r) == 0
    assert wire.read_release(s) == 1 and wire.write(w)[0] == 1
    assert wire.read_release(s) == 0 and wire.read_release(w) == 0  # a reader's name is not the writer's
    assert [wire.write_release(w) for _ in range(3)] == [1, 0, 0]
    assert a.write() is None and wire.write_release(w) == 0 and wire.fields() == {"mode": "write", A + ":write": 1}
    assert subscriber.messages() == [b"0", *ALL]


def test_an_unknown_acquire_is_undone(wire: RwWire, a: JavaRw) -> None:
    r, w = Hold(), Hold()
    assert a.read() is None
    assert wire.read(r)[0] == 1 and wire.write(w)[0] == 0  # no reply came for either
    assert wire.read_release(r) == 1 and wire.write_release(w) == 0
    assert wire.fields() == {"mode": "read", A: 1} and wire.holds() == {wire.hold_key(A)}
    assert a.read_release() == 1


def test_renewals_only_extend_and_tell_each_from_each(wire: RwWire) -> None:
    holds, dead, gone, stranger, w = [Hold() for _ in range(3)], Hold(), Hold(), Hold(), Hold()
    for hold in (*holds, dead, gone):
        wire.read(hold)
    wire.kill(dead.id)
    wire.redis.command("HDEL", wire.name, gone.id)  # its lock was forced, its hold key is left
    assert wire.read_renew(holds[0], dead, holds[1], gone, stranger, lease=2 * LEASE) == [1, 0, 1, 0, 0]
    lefts = [wire.left(wire.hold_key(hold.id)) for hold in (*holds, gone)]
    assert [near(left, lease) for left, lease in zip(lefts, (2 * LEASE, 2 * LEASE, LEASE, LEASE))] == [True] * 4
    assert near(wire.left(), 2 * LEASE)
    assert wire.read_renew(holds[0], lease=100) == [1] and near(wire.left(), 2 * LEASE)
    assert wire.write_renew(w) == 0 and wire.write_renew(holds[0]) == 0
    wire.force()
    wire.write(w)
    assert wire.write_renew(w, 3 * LEASE) == 1 and near(wire.left(), 3 * LEASE)
    assert wire.read_renew(*holds) == [0, 0, 0]
    wire.redis.command("SET", "text", 1)
    assert wire.run("read_renew", ["text", "text", "text", "absent", "absent", "absent"], w.id, LEASE, w.id, LEASE) == [0, 0]


def test_force(wire: RwWire, a: JavaRw, b: JavaRw, subscriber: Subscriber) -> None:
    assert wire.force() == 0
    r, w = Hold(), Hold()
    assert a.read() is None and wire.read(r)[0] == 1
    assert wire.force() == 1 and wire.fields() == {} and subscriber.messages() == ALL
    assert wire.holds() == {wire.hold_key(A), wire.hold_key(r.id)}
    assert wire.write(w)[0] == 1 and wire.read_renew(r) == [0]
    assert wire.read_release(r) == 0 and a.read_release() is None and subscriber.messages() == []
    assert wire.fields() == {"mode": "write", w.writer: 1} and wire.holds() == {wire.hold_key(A)}
    assert wire.force() == 1 and wire.write_release(w) == 0 and a.write() is None
    assert wire.force() == 1 and b.read() is None and b.force("read") == 1
    assert wire.force() == 0


def test_inspect_names_a_holder(wire: RwWire) -> None:
    w, r = Hold(), Hold()
    assert wire.inspect()[:3] == [b"", -2, 0]
    _, token = wire.write(w)
    holder, left, last, _, waiters = wire.inspect()
    assert (holder, last, waiters) == (w.writer.encode(), token, 0) and near(left, LEASE)
    wire.write_release(w)
    wire.read(r)
    wire.close_gate()
    assert wire.inspect()[0] == r.id.encode()


# ---- traps


def test_trap_2_no_hold_in_a_plain_lock(wire: RwWire, a: JavaRw) -> None:
    """Redisson enters it; ours does not, and a plain lock of ours does not enter a read-write lock."""
    plain, r, w = Wire(wire.redis), Hold(), Hold()
    assert wire.redis.command("EVAL", ACQUIRE, 1, wire.name, LEASE, B) is None
    before = wire.redis.command("DUMP", wire.name)
    for _ in range(2):
        assert wire.read(r) == wire.read(r, under=w) == wire.write(w) == [-1]
    assert wire.read_release(r) == wire.write_release(w) == 0 and wire.force() == -1
    assert wire.read_renew(r) == [0]
    assert wire.redis.command("DUMP", wire.name) == before and wire.redis.command("KEYS", "*") == [wire.name]
    assert a.write() is None  # so it is released
    keys = wire.name, plain.channel, b"latch:" + tagged("order")
    assert wire.redis.command("EVAL", RELEASE, 3, *keys, 0, LEASE, B, "PUBLISH", 18000) == 1
    wire.read(r)
    assert wire.redis.command("EVAL", ACQUIRE, 1, wire.name, LEASE, B) > 0


@pytest.mark.parametrize(
    "make", [["SET", "order", 3], ["RPUSH", "order", "a"], ["ZADD", "order", 1, "a"], ["HSET", "order", "mode", "both"]]
)
def test_other_kinds_are_refused_and_untouched(wire: RwWire, make: list[Any]) -> None:
    r, w = Hold(), Hold()
    wire.redis.command(*make)
    before = wire.redis.command("DUMP", wire.name)
    assert wire.read(r) == wire.write(w) == [-1]
    assert wire.read_release(r, rest=9) == wire.write_release(w, rest=9) == 0
    assert wire.read_renew(r) == [0] and wire.write_renew(w) == 0 and wire.force() == -1
    assert wire.redis.command("DUMP", wire.name) == before and wire.redis.command("KEYS", "*") == [wire.name]


def test_trap_3_java_finds_our_hold_keys(wire: RwWire, a: JavaRw) -> None:
    """A Redisson reader that leaves keeps the lock for ours, for exactly as long as ours lasts."""
    r, s = Hold(), Hold()
    assert a.read() is None
    wire.read(r, 40_000)
    wire.read(s, 90_000)
    assert a.read_release() == 0 and near(wire.left(), 90_000)
    assert wire.read_release(s) == 1 and near(wire.left(), 40_000)
    assert a.write() is not None


def test_trap_3_a_dead_reader_of_ours_is_dropped_by_java(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    r = Hold()
    assert a.read() is None
    wire.read(r)
    wire.kill(r.id)
    assert a.read_release() == 1 and wire.fields() == {} and subscriber.messages() == [b"0"]
    assert wire.read_release(r) == 0 and wire.read_renew(r) == [0]


@pytest.mark.parametrize("dead", ["java", "ours"])
def test_trap_20_dead_readers_keep_nobody_out(wire: RwWire, a: JavaRw, b: JavaRw, subscriber: Subscriber, dead: str) -> None:
    """A dead one (its field there, its hold keys gone) neither keeps the lock for itself nor removes a live one's hold."""
    r, live, w = Hold(), Hold(), Hold()
    gone = A if dead == "java" else r.id
    for round in range(3):
        assert a.read(90_000) is None if dead == "java" else wire.read(r, 90_000)[0] == 1
        wire.kill(gone)
        if round == 0:  # beside a live one it stays, until that one leaves
            wire.read(live)
            assert gone in wire.fields() and wire.write(w)[0] == 0 and gone not in wire.fields()
            assert wire.read_release(live) == 1 and wire.fields() == {} and subscriber.messages() == [b"0"]
        elif round == 1:  # or the live one is Redisson's
            assert b.read() is None and wire.write(w)[0] == 0
            assert b.read_release() == 1 and wire.fields() == {} and subscriber.messages() == [b"0"]
        else:  # alone it makes room for a probe
            assert near(wire.left(), 90_000) and b.write() is not None  # Redisson would wait for the lock's end
            code, token = wire.write(w)
            assert code == 1 and wire.fields() == {"mode": "write", w.writer: 1} and near(wire.left(), LEASE)
            assert wire.write(w) == [1, token]
    assert wire.read_release(r) == 0 and wire.write_release(w) == 1


def test_trap_20_a_dead_reader_does_not_drop_a_living_foreign_one(wire: RwWire, a: JavaRw) -> None:
    dead, r = Hold(), Hold()
    assert a.read(50_000) is None and a.read(70_000) is None
    wire.read(dead)
    wire.read(r)
    wire.kill(dead.id)
    assert wire.read_release(dead) == 0  # it held nothing any more; its field goes
    assert wire.read_release(r) == 1
    assert wire.fields() == {"mode": "read", A: 2} and near(wire.left(), 70_000)
    wire.kill(A, 1)  # the second hold alone suffices
    wire.read(r)
    assert wire.read_release(r) == 1 and wire.write(Hold())[0] == 0
    assert near(wire.left(), 70_000)


def test_trap_20_a_dead_reader_sent_again_is_a_new_one(wire: RwWire) -> None:
    r, s = Hold(), Hold()
    _, token = wire.read(r)
    wire.read(s)
    wire.kill(r.id)
    code, later = wire.read(r)
    assert code == 1 and later > token and wire.read(r) == [1, later]
    assert wire.fields() == {"mode": "read", r.id: 1, s.id: 1}
    assert wire.read_release(s) == 1 and wire.read_release(r) == 1 and wire.fields() == {}


def test_trap_20_readers_expire_by_the_clock(wire: RwWire) -> None:
    """The lease of a read hold ends while the lock itself, held for a writer that left, lasts."""
    w, r = Hold(), Hold()
    wire.write(w)
    wire.read(r, 40, under=w)
    wire.redis.command("HDEL", wire.name, w.writer)
    wire.redis.command("ZREM", wire.ours, w.writer)
    wire.redis.command("HSET", wire.name, "mode", "read")  # Redisson's downgrade leaves the lock its long life
    assert near(wire.left(), LEASE)
    wait_until(lambda: wire.write(Hold())[0] == 1)


def test_trap_24_an_old_redisson_keeps_our_dead_reader_alive(wire: RwWire, a: JavaRw) -> None:
    """Cannot be prevented: until that client leaves, the hold key gets a new life each time. Ours still ends by name."""
    r = Hold()
    assert a.read() is None
    wire.read(r, 100)
    assert a.read_renew(OLD_READ_RENEW) == 1
    assert near(wire.left(wire.hold_key(r.id)), 30_000)
    assert a.read_release() == 0 and wire.write(Hold())[0] == 0
    assert wire.read_release(r) == 1 and wire.write(Hold())[0] == 1


# ---- the minimum hold

REST = 20_000


def test_a_read_rests(wire: RwWire, b: JavaRw, subscriber: Subscriber) -> None:
    r, s, w = Hold(), Hold(), Hold()
    wire.read(r, 90_000)
    assert wire.read_release(r, rest=REST) == 1
    assert near(wire.left(), REST) and wire.fields() == {"mode": "read", r.id + ":rest": 1}
    for rest in 2 * REST, 0:
        assert wire.read_release(r, rest=rest) == 0
    assert wire.read_renew(r, lease=90_000) == [0] and near(wire.left(), REST)
    assert wire.write(w)[0] == 0 and b.write() is not None  # readers come and go
    assert b.read(10_000) is None and wire.read(s, 10_000)[0] == 1 and near(wire.left(), REST)
    assert b.read_release() == 0 and wire.read_release(s) == 1 and near(wire.left(), REST)
    assert subscriber.messages() == ALL
    wire.kill(r.id + ":rest")
    assert wire.write(w)[0] == 1


def test_a_dead_read_does_not_rest(wire: RwWire) -> None:
    r, s = Hold(), Hold()
    wire.read(r)
    wire.read(s)
    wire.kill(r.id)
    assert wire.read_release(r, rest=REST) == 0 and wire.fields() == {"mode": "read", s.id: 1}


@pytest.mark.parametrize("lease", [90_000, 5_000])  # the rest may be longer than what is left of the lease
def test_a_write_rests(wire: RwWire, b: JavaRw, subscriber: Subscriber, lease: int) -> None:
    w, r = Hold(), Hold()
    wire.write(w, lease)
    assert wire.write_release(w, rest=REST) == 1 and near(wire.left(), REST)
    for rest in 2 * REST, 0:
        assert wire.write_release(w, rest=rest) == 0
    assert wire.write_renew(w, 90_000) == 0 and near(wire.left(), REST)
    for reply in wire.read(r), wire.read(r, under=w), wire.write(w), wire.write(Hold()):
        assert reply[0] == 0 and near(reply[1], REST)
    assert b.read() is not None and b.write() is not None and subscriber.messages() == ALL
    assert wire.force() == 1 and wire.read(r)[0] == 1


def test_a_short_rest_ends_by_itself(wire: RwWire) -> None:
    w, r = Hold(), Hold()
    wire.write(w)
    assert wire.write_release(w, rest=30) == 1
    wait_until(lambda: wire.read(r)[0] == 1)
    assert wire.read_release(r, rest=30) == 1
    wait_until(lambda: wire.write(w)[0] == 1)


@pytest.mark.parametrize("who", ["reader", "writer", "release"])
def test_reads_under_a_write_that_rested_go_on(wire: RwWire, b: JavaRw, subscriber: Subscriber, who: str) -> None:
    w, r, s, other = Hold(), Hold(), Hold(), Hold()
    wire.write(w)
    wire.read(r, 60_000, under=w)
    wire.read(s, 50_000, under=w)
    assert wire.write_release(w, rest=REST) == 1 and near(wire.left(), 60_000)
    assert wire.read(other)[0] == 0 and b.read() is not None and wire.read_renew(r, s) == [1, 1]
    assert wire.read_release(r) == 1 and near(wire.left(), 50_000)
    assert wire.fields() == {"mode": "write", s.id: 1, w.writer + ":rest": 1} and subscriber.messages() == ALL
    wire.kill(w.writer + ":rest")  # the rest is over; the first probe tells
    if who == "reader":
        assert wire.read(other)[0] == 1 and wire.fields() == {"mode": "read", s.id: 1, other.id: 1}
        assert subscriber.messages() == ALL
    elif who == "writer":
        assert wire.write(other)[0] == 0 and wire.fields() == {"mode": "read", s.id: 1}
        assert subscriber.messages() == ALL and b.read() is None
    else:
        assert wire.read_release(s) == 1 and wire.fields() == {} and subscriber.messages() == [*ALL, b"0"]


def test_a_write_rests_longer_than_the_reads_under_it(wire: RwWire, subscriber: Subscriber) -> None:
    w, r = Hold(), Hold()
    wire.write(w)
    wire.read(r, 60_000, under=w)
    assert wire.write_release(w, rest=REST) == 1
    assert wire.read_release(r) == 1 and near(wire.left(), REST) and subscriber.messages() == ALL
    assert wire.fields() == {"mode": "write", w.writer + ":rest": 1} and wire.read(Hold())[0] == 0


def test_a_read_under_a_write_rests(wire: RwWire, subscriber: Subscriber) -> None:
    w, r, other = Hold(), Hold(), Hold()
    wire.write(w, 10_000)
    wire.read(r, 10_000, under=w)
    assert wire.read_release(r, rest=REST) == 1 and near(wire.left(), REST)
    assert wire.fields() == {"mode": "write", w.writer: 1, r.id + ":rest": 1}
    assert wire.write_release(w) == 1 and near(wire.left(), REST) and subscriber.messages() == [*ALL, *ALL]
    assert wire.write(other)[0] == 0 and wire.read(other)[0] == 1


# ---- the gate


def test_the_gate(wire: RwWire, a: JavaRw, subscriber: Subscriber) -> None:
    r, s, w = Hold(), Hold(), Hold()
    first = wire.read(r)
    assert wire.close_gate() == 1 and subscriber.messages() == [b"1"]
    assert wire.read(s) == wire.write(w) == [-2]
    assert wire.read(r, lease=2 * LEASE) == first and wire.read_renew(r) == [1]
    assert wire.fields() == {"mode": "read", r.id: 1} and near(wire.left(), 2 * LEASE)
    assert wire.read_release(r) == 1 and subscriber.messages() == [b"0"]
    assert wire.read(s) == wire.write(w) == [-2]
    assert a.write() is None and a.write_release() == 1  # Java knows no gates
    assert wire.close_gate(0) == 1
    first = wire.write(w)
    wire.close_gate()
    assert wire.write(w) == first and wire.read(s, under=w) == [-2]
    assert wire.write_release(w) == 1


# ---- the server


def test_a_full_server_lets_go_and_renews(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory-policy", "noeviction")

    def full(yes: bool) -> None:
        server.command("CONFIG", "SET", "maxmemory", "1mb" if yes else "0")

    with server.client() as redis:
        wire, other, java = RwWire(redis), RwWire(redis, "other"), JavaRw(redis, "other", A)
        w, r, s, t, dead = (Hold() for _ in range(5))
        for rest in 0, REST:
            wire.force()
            other.force()
            wire.write(w)
            wire.read(r, under=w)
            other.read(s)
            other.read(t)
            full(True)
            with pytest.raises(ReplyError, match="OOM"):
                RwWire(redis, "new").read(t)
            with pytest.raises(ReplyError, match="OOM"):
                RwWire(redis, "new").write(w)
            assert redis.command("EXISTS", "new", token_key("new")) == 0
            assert wire.write_renew(w, 2 * LEASE) == 1 and wire.read_renew(r, lease=2 * LEASE) == [1]
            assert wire.write_release(w, rest=rest) == 1 and wire.read_release(r, rest=rest) == 1
            assert other.read_release(s) == 1 and other.read_release(t, rest=rest) == 1
            assert all(near(one.left(), REST) if rest else one.fields() == {} for one in (wire, other))
            full(False)
        other.force()
        other.read(dead)
        other.kill(dead.id)
        full(True)
        with pytest.raises(ReplyError, match="OOM"):
            other.write(w)
        assert other.fields() == {"mode": "read", dead.id: 1} and other.force() == 1
        full(False)
        assert java.write() is None


@pytest.fixture(scope="module")
def cluster_server() -> Iterator[Server]:
    with Server("--cluster-enabled", "yes", "--cluster-port", str(free_port())) as one:
        one.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: b"cluster_state:ok" in one.command("CLUSTER", "INFO"))
        yield one


@pytest.mark.parametrize("name", ["order", "shop:{7}:lock", "a b", b"\xff", "{x}y"])
def test_all_keys_are_in_one_slot(cluster_server: Server, name: str | bytes) -> None:
    with cluster_server.client() as redis:
        wire, w, r, s = RwWire(redis, name), Hold(), Hold(), Hold()
        assert wire.write(w)[0] == wire.read(r, under=w)[0] == wire.write_release(w, rest=LEASE) == 1
        assert wire.write(s)[0] == 0 and wire.read_renew(r) == [1] and wire.close_gate() == 1
        assert wire.read_release(r, rest=LEASE) == 1 and wire.force() == 1 and wire.close_gate(0) == 1
        assert wire.read(s)[0] == wire.read_release(s) == 1
        keys = wire.name, wire.fence, wire.gate, wire.hold_key(r.id), wire.hold_key(w.writer + ":rest")
        assert len({redis.command("CLUSTER", "KEYSLOT", key) for key in keys}) == 1


def test_many_readers_leave_in_any_order(wire: RwWire, subscriber: Subscriber) -> None:
    holds = [Hold() for _ in range(200)]
    for place, hold in enumerate(holds):
        wire.read(hold, LEASE + 10_000 * (place % 7))
    for hold in holds[::2] + holds[1::2]:
        assert wire.left() > LEASE - 5000 and wire.read_release(hold) == 1
    assert subscriber.messages() == [b"0"] and wire.redis.command("KEYS", "*") == [wire.fence]


def test_a_waiting_writer_keeps_new_readers_out(wire: RwWire) -> None:
    """Those who read go on, and may ask again. When the writer has it, or is gone, everything is as before."""
    reader, late, w, after = Hold(), Hold(), Hold(), Hold()
    first = wire.read(reader)
    assert wire.write(w)[0] == 0 and wire.read(late)[0] == 1 and wire.read_release(late) == 1  # it does not wait
    assert wire.write(w, mode=LINE) == [0, 250, 0]
    assert wire.read(late)[0] == 0 and 0 < wire.read(late)[1] <= 500
    assert wire.read(reader) == first and wire.read_renew(reader) == [1]
    assert wire.read_release(reader) == 1 and wire.read(late)[0] == 0  # the lock is free, and the writer's
    assert wire.write(w, mode=LINE)[0] == 1 and wire.redis.command("EXISTS", wire.writer) == 0
    assert wire.read(Hold(), under=w)[0] == 1
    assert wire.write_release(w) == 1 and wire.read(late)[0] == 1
    assert wire.write(after, mode=LINE)[0] == 0
    wire.redis.command("DEL", wire.writer)  # as when it does not ask for a while
    assert wire.read(Hold())[0] == 1


def test_a_writer_that_waits_long_lets_readers_in_for_a_moment(wire: RwWire) -> None:
    """Its mark says since when. After ten seconds it is not renewed: a reader may wait for another reader."""
    assert wire.read(Hold())[0] == 1
    w = Hold()
    assert wire.write(w, mode=LINE)[0] == 0
    since = int(wire.redis.command("GET", wire.writer))
    wire.redis.command("PEXPIRE", wire.writer, 100)
    assert wire.write(w, mode=LINE)[0] == 0 and wire.left(wire.writer) > 400
    wire.redis.command("SET", wire.writer, since - 10_000, "PX", 100)
    assert wire.write(w, mode=LINE)[0] == 0 and wire.left(wire.writer) <= 100
