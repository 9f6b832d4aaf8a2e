"""The Lua scripts of src/redis/scripts on a real server, without the library: what each call does to keys and channels."""
from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY
from harness.kinds import calls
from harness.steps.redisson import ACQUIRE, FENCED, RELEASE, tagged
from harness.steps.redisson_rw import JavaRw
from harness.resp import Client, ReplyError
from harness.server import Server, free_port
from harness.steps.wire import (
    BEAT, BLOCK, GRACE, KEEP, LEASE, LINE, POLL, SCRIPTS, TRY, Who, Wire, after_ms, all_expire, block, server_ms, wait_until,
)  # fmt: skip

pytestmark = pytest.mark.house

NAMES: list[str | bytes] = [
    "order", "shop:{7}:lock", "{x}", "x", "x{y}z", "a b  c ", "new\r\nline", "*?[a-z]\\", "%d %s %1", "it's \"it\"",
    "1 2 3 4 5 6 7", "grant 1 1 1 x", "*", "Schloß €", b"\xff\xfe\x01", "n" * 1024,
]  # fmt: skip


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> Wire:
    return Wire(redis)


@pytest.fixture
def who(redis_server: Server) -> Iterator[Callable[..., Who]]:
    made: list[Who] = []

    def make(subscribe: bool = True) -> Who:
        made.append(Who(redis_server, subscribe))
        return made[-1]

    yield make
    for one in made:
        one.subscriber.close()


# ---- acquire


def test_acquire_leaves_redissons_key(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    before = server_ms(wire.redis)
    token, last = block(wire.acquire(a))
    assert token >= before * 1000 and wire.last_token() == last == token  # nobody knows what was before a new counter
    assert wire.holder() == {a.raw: b"1"}
    assert LEASE - 5000 < wire.left() <= LEASE
    assert KEEP - 5000 < wire.left(wire.fence) <= KEEP
    code, left, foreign = wire.acquire(b)
    assert code == 0 and LEASE - 5000 < left <= LEASE and foreign == 0
    assert wire.queue() == []  # a try does not join the line
    all_expire(wire.redis)


def test_the_same_id_gets_the_same_grant(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(b)
    after_ms(wire.redis, 1)
    wire.release(b)
    code, token = wire.acquire(a)
    first = [code, token + BLOCK - 1, 1]  # the last of its tokens, which no client knows of yet
    assert code == 1 and wire.last_token() == first[1]
    for mode, lease in [(TRY, LEASE), (LINE, LEASE), (POLL, 100)]:
        assert wire.acquire(a, mode, lease=lease, seq=2) == first
        assert wire.holder() == {a.raw: b"1"} and wire.queue() == []
        assert wire.left() > LEASE - 5000  # a shorter lease takes nothing away
    assert wire.acquire(a, lease=2 * LEASE) == first
    assert wire.left() > 2 * LEASE - 5000


def test_tokens_only_rise(wire: Wire, who: Callable[..., Who]) -> None:
    a, before = who(), 0
    for _ in range(50):
        begin = server_micros(wire.redis)
        token, last = block(wire.acquire(a))
        assert token > before and begin < last <= server_micros(wire.redis)
        assert wire.last_token() == last
        assert last - token + 1 == (min(BLOCK, last - before) if before else 1)
        assert wire.release(a) == 1
        before, a = last, a.again()
    wire.redis.command("SET", wire.fence, 2**52)  # far ahead of the clock
    assert wire.acquire(a) == [1, 2**52 + 1, 1] and wire.last_token() == 2**52 + 1


@pytest.mark.parametrize("asked", [1, 65, 1025])
@pytest.mark.parametrize("forget", [1, 2, 7, 10_000])
def test_a_counter_never_runs_ahead_of_the_clock(wire: Wire, asked: int, forget: int) -> None:
    """Grants of one name as fast as the server can, which forgets the counter now and then: a token is above all before."""
    sha = wire.redis.command("SCRIPT", "LOAD", SCRIPTS["acquire"])
    arguments = ["me:1", LEASE, asked, TRY, 0, BEAT, KEEP, 1]
    last = few = 0
    for turn in range(30):
        pipeline: list[list[Any]] = []
        for i in range(100):
            pipeline += [["EVALSHA", sha, 5, *wire.keys, *arguments], ["DEL", wire.name]]
            pipeline += [["DEL", wire.fence]] if i % forget == forget - 1 else []
        for reply in wire.redis.pipeline(*pipeline):
            if isinstance(reply, list):
                token, end = block(reply, asked)
                assert token > last, (turn, token - last)
                few, last = few + (end - token + 1 < asked), end
        assert last <= server_micros(wire.redis)
    assert few > 100 if asked > 65 else few == 0 if asked == 1 else few >= 1


def server_micros(redis: Client) -> int:
    seconds, micros = redis.command("TIME")
    return int(seconds) * 1_000_000 + int(micros)


def test_token_key_without_ttl_stays_so(wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    wire.redis.command("SET", wire.fence, 7)
    assert wire.acquire(a)[0] == 1
    assert wire.left(wire.fence) == -1
    wire.release(a)
    wire.redis.command("PEXPIRE", wire.fence, 5000)
    assert wire.acquire(a.again())[0] == 1
    assert wire.left(wire.fence) > KEEP - 5000


def tokens_at(wire: Wire, a: Who, periods: int, left: int) -> int:
    """The rest of the counter's life after a grant, when its token was so many sixteenths of KEEP from now, with that much life left."""
    wire.redis.command("SET", wire.fence, (server_ms(wire.redis) + periods * KEEP // 16) * 1000, "PX", left)
    assert wire.acquire(a)[0] == 1 and wire.release(a) == 1
    return wire.left(wire.fence)


@pytest.mark.parametrize("periods", [-1000, -1, 1, 1000])
def test_the_token_key_lives_on(wire: Wire, who: Callable[..., Who], periods: int) -> None:
    """Until a new one, which begins at the server's time, would be higher: also when the counter is ahead of that time."""
    lasts = KEEP + max(0, periods) * KEEP // 16
    assert tokens_at(wire, who(), periods, 5000) > lasts - 5000
    assert tokens_at(wire, who(), periods, 2 * KEEP) > max(2 * KEEP, lasts) - 5000


@pytest.mark.parametrize("ahead", [-1000 * KEEP, 1000 * KEEP])
def test_a_floor_lives_on(wire: Wire, who: Callable[..., Who], ahead: int) -> None:
    a = who()
    assert wire.acquire(a)[0] == 1
    before = wire.last_token()
    last = max(before + 5, server_micros(wire.redis) + ahead * 1000)
    assert wire.redis.command("EVAL", SCRIPTS["floor"], 2, wire.name, wire.fence, a.raw, before, last, KEEP) == 1
    assert wire.last_token() == last
    assert wire.left(wire.fence) > KEEP + max(0, ahead) - 5000


def test_the_token_key_is_seldom_set_anew(wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a, keep, grants, begin = who(), 1600, 0, server_ms(wire.redis)
    sets, now = calls(redis_server, "set"), begin
    while now < begin + 1000:
        assert wire.acquire(a, keep=keep)[0] == 1
        left, before, now = wire.left(wire.fence), now, server_ms(wire.redis)
        assert left + now - before >= keep * 15 // 16
        assert wire.release(a) == 1
        a, grants = a.again(), grants + 1
    assert 0 < calls(redis_server, "set") - sets <= (now - begin) // (keep // 16) + 2 < grants


def test_nonsense_in_the_token_key_is_left_behind(wire: Wire, who: Callable[..., Who]) -> None:
    wire.redis.command("SET", wire.fence, "nonsense")
    token, last = block(wire.acquire(who()))
    assert wire.last_token() == last >= token > 10**15


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
def test_any_name(redis: Client, who: Callable[..., Who], name: str | bytes) -> None:
    wire, a, b, c = Wire(redis, name), who(), who(), who()
    assert wire.acquire(a, LINE)[0] == 1
    assert wire.acquire(b, LINE, seq=7)[0] == 0 and wire.acquire(c, LINE)[0] == 0
    assert wire.queue() == [b.raw, c.raw]
    assert wire.release(a) == 1
    _, number, seq, token, tokens, name = (b.message() or b"").split(b" ", 5)
    assert (int(number), seq, name) == (b.number, b"7", wire.name) and 0 < int(tokens) <= BLOCK
    assert int(token) + int(tokens) - 1 == wire.last_token()
    assert wire.holder() == {b.raw: b"1"} and c.nothing()
    assert wire.inspect()[::4] == [b.raw, 1]
    b, old = b.again(), b
    assert wire.pass_on(old, b)[1][0] == 0
    assert (c.message() or b"").endswith(b" " + wire.name)
    assert redis.command("EVAL", SCRIPTS["renew"], 1, name, c.id, 2 * LEASE) == [1]
    assert wire.force() == 1 and (b.message() or b"").endswith(b" " + wire.name)
    assert wire.release(b) == 1
    all_expire(redis)
    assert set(redis.command("KEYS", "*")) <= {wire.fence, wire.about}


# ---- another kind of lock


def test_rwlock_is_refused_and_untouched(wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    wire.redis.command("HSET", wire.name, "mode", "read", "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1", "1")
    before = wire.redis.command("DUMP", wire.name)
    for mode in TRY, LINE, POLL:
        assert wire.acquire(a, mode) == [-1]
    assert wire.release(a) == 0
    assert wire.pass_on(a, a) == [0, [-1]]
    assert wire.force() == -1
    assert wire.redis.command("DUMP", wire.name) == before
    assert wire.redis.command("KEYS", "*") == [wire.name]


@pytest.mark.parametrize("make", [["SET", "order", "3"], ["RPUSH", "order", "a"], ["ZADD", "order", "1", "a"]])
def test_other_types_are_refused_and_untouched(wire: Wire, who: Callable[..., Who], make: list[str]) -> None:
    a = who()
    wire.redis.command(*make)
    before = wire.redis.command("DUMP", wire.name)
    for attempt in (
        lambda: wire.acquire(a, LINE), lambda: wire.release(a), lambda: wire.release(a, rest=1000),
        lambda: wire.pass_on(a, a), wire.force,
    ):  # fmt: skip
        with pytest.raises(ReplyError, match="WRONGTYPE"):
            attempt()
    assert wire.redis.command("EVAL", SCRIPTS["renew"], 1, wire.name, a.id, LEASE) == [0]
    assert wire.redis.command("DUMP", wire.name) == before
    assert wire.redis.command("KEYS", "*") == [wire.name]


# ---- release


def test_release_by_a_stranger_changes_nothing(wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a, b, stranger = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    keys = wire.name, wire.fence, wire.line, wire.about
    before = [wire.redis.command("DUMP", key) for key in keys]
    with redis_server.client() as subscriber:
        subscriber.subscribe(wire.channel)
        for _ in range(3):
            assert wire.release(stranger) == 0
        assert subscriber.message(timeout=0) is None
    assert [wire.redis.command("DUMP", key) for key in keys] == before
    assert b.nothing()


def test_release_twice_is_once(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    assert wire.release(a) == 1
    assert wire.holder() == {b.raw: b"1"}
    assert wire.release(a) == 0
    assert wire.holder() == {b.raw: b"1"}


def test_release_announces_the_redisson_way(wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a = who()
    with redis_server.client() as subscriber:
        subscriber.send("PSUBSCRIBE", "redisson_*")
        subscriber.read()
        wire.acquire(a)
        assert wire.release(a) == 1
        assert subscriber.message() == (wire.channel, b"0")
    assert wire.redis.command("KEYS", "*") == [wire.fence]  # a pattern subscriber gets no turn


def test_release_leaves_the_line(wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    assert wire.release(b) == 0
    assert wire.queue() == [c.raw] and wire.redis.command("HEXISTS", wire.about, b.id) == 0
    wire.release(a)
    assert wire.holder() == {c.raw: b"1"} and b.nothing()


@pytest.mark.parametrize("how", ["alone", "line", "rest", "pass"])
def test_what_redisson_put_into_the_hash_stays(wire: Wire, who: Callable[..., Who], redis_server: Server, how: str) -> None:
    """Its readers enter the hash of a held lock (trap 2): we must not delete them, and nobody else gets in."""
    a, b, java = who(), who(), JavaRw(wire.redis, wire.name, FOREIGN)
    wire.acquire(a)
    assert how == "alone" or wire.acquire(b, LINE)[0] == 0
    assert java.read(2 * LEASE) is None and wire.holder() == {a.raw: b"1", b"mode": b"read", FOREIGN.encode(): b"1"}
    with redis_server.client() as subscriber:
        subscriber.subscribe(wire.channel)
        if how == "pass":
            assert wire.pass_on(a, a.again()) == [1, [-1]]
        else:
            assert wire.release(a, rest=REST if how == "rest" else 0) == 1
        assert subscriber.message(timeout=0) is None
    assert wire.holder() == {b"mode": b"read", FOREIGN.encode(): b"1"} and wire.left() > 2 * LEASE - 5000
    if how != "alone":  # the waiter probes and gets the rest
        assert b.message() == b"open %d %d order" % (b.number, GRACE)
    assert wire.acquire(b) == [-1] and wire.release(a) == 0
    assert java.read_release() == 1 and wire.holder() == {}


# ---- the minimum hold: the lock stays taken for a while after its release


REST = 20_000


@pytest.mark.parametrize("lease", [LEASE, 2 * REST, REST // 2])  # the rest may be longer than what is left of the lease
def test_a_rest_is_exactly_as_long_as_it_is(
    wire: Wire, who: Callable[..., Who], redis_server: Server, lease: int
) -> None:
    a, b = who(), who()
    wire.acquire(a, lease=lease)
    with redis_server.client() as subscriber:
        subscriber.send("PSUBSCRIBE", "*")
        subscriber.read()
        assert wire.release(a, rest=REST) == 1
        assert REST - 5000 < wire.left() <= REST
        code, left, foreign, *_ = wire.acquire(b, LINE)
        assert (code, foreign) == (0, 0) and REST - 5000 < left <= REST
        assert subscriber.message() == (wire.channel, b"0")  # Redisson's waiters probe, and get the rest
        assert subscriber.message(timeout=0) is None
    all_expire(wire.redis)


def test_a_rest_is_nobodys_hold(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    assert wire.release(a, rest=REST) == 1
    before = wire.redis.command("DUMP", wire.name), wire.redis.command("PEXPIRETIME", wire.name)
    assert renew(wire.redis, (wire.name, a.id, 2 * LEASE)) == [0]
    for rest in 2 * REST, REST, 1, 0:  # the same release again, and one with another rest
        assert wire.release(a, rest=rest) == 0
    code, left, foreign = wire.acquire(a, seq=2)  # its acquire, late
    assert (code, foreign) == (0, 0) and left <= REST
    assert (wire.redis.command("DUMP", wire.name), wire.redis.command("PEXPIRETIME", wire.name)) == before
    assert wire.queue() == [b.raw] and b.nothing()


def test_after_the_rest_the_first_in_line_goes_on(wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    last = wire.last_token()
    assert wire.release(a, rest=30) == 1
    wait_until(lambda: not wire.holder())
    assert wire.acquire(c, LINE)[0] == 0  # the first probe does it for the head
    assert wire.holder() == {b.raw: b"1"} and wire.last_token() > last
    assert (b.message() or b"").startswith(b"grant ")


def test_pass_with_a_rest(wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    wire.acquire(a)
    a, old = a.again(), a
    for released in 1, 0, 0:  # repeated, it neither rests longer nor is granted
        got, (code, left, foreign, *_) = wire.pass_on(old, a, rest=REST)
        assert (got, code, foreign) == (released, 0, 0) and REST - 5000 < left <= REST
        assert wire.queue() == [a.raw]
    wire.redis.command("PEXPIRE", wire.name, 1)
    wait_until(lambda: wire.pass_on(old, a, rest=REST) == [0, [1, wire.last_token(), 1]])
    assert wire.holder() == {a.raw: b"1"} and wire.left() > REST


def test_who_does_not_hold_leaves_no_rest(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    assert wire.release(b, rest=REST) == 0 and not wire.redis.command("KEYS", "*")
    wire.acquire(a)
    wire.acquire(b, LINE)
    assert wire.release(b, rest=REST) == 0
    assert wire.holder() == {a.raw: b"1"} and wire.left() > REST and wire.queue() == []


def test_a_rest_is_seen_and_can_be_ended(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.release(a, rest=REST)
    holder, left, _, _, waiters = wire.inspect()
    assert (holder, waiters) == (a.raw + b":rest", 1) and REST - 5000 < left <= REST
    assert wire.force() == 1 and wire.holder() == {b.raw: b"1"}


# ---- the line


def test_first_come_first_served(wire: Wire, who: Callable[..., Who]) -> None:
    a, line = who(), [who() for _ in range(5)]
    wire.acquire(a)
    for round in range(3):  # a probe keeps the place
        for one in line:
            assert wire.acquire(one, LINE, seq=round + 1)[0] == 0
    assert wire.queue() == [one.raw for one in line]
    last, holder = wire.last_token(), a
    for place, one in enumerate(line):
        assert wire.release(holder) == 1
        words = (one.message() or b"").split()
        assert words[:3] == [b"grant", b"%d" % one.number, b"3"] and last < int(words[3])
        assert int(words[3]) + int(words[4]) - 1 == wire.last_token()
        assert wire.acquire(one) == [1, wire.last_token(), 1]
        assert all(other.nothing() for other in line if other is not one)
        last, holder = wire.last_token(), one
    assert wire.release(holder) == 1
    assert not wire.redis.command("EXISTS", wire.line, wire.about, wire.name)


def test_a_grant_after_the_counter_was_lost_has_one_token(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.redis.command("DEL", wire.fence)
    wire.release(a)
    assert (b.message() or b"").split()[:5] == [b"grant", b"%d" % b.number, b"1", b"%d" % wire.last_token(), b"1"]


def test_a_release_in_doubt_with_a_waiter(wire: Wire, who: Callable[..., Who]) -> None:
    """The waiter gets the lock. A request of the last owner that comes late does not get it any more."""
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    assert wire.run("release", a.id, wire.channel, 0, 0, 1, BLOCK) == 1
    assert wire.holder() == {b.raw: b"1"} and (b.message() or b"").startswith(b"grant ")
    wire.release(b)
    assert wire.acquire(a) == [0, -1, 0] and wire.holder() == {}


def test_who_asks_does_not_jump_the_line(wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.redis.command("DEL", wire.name)  # it expired
    assert wire.acquire(c, TRY)[0] == 0
    assert wire.holder() == {b.raw: b"1"} and (b.message() or b"").startswith(b"grant ")
    a = a.again()
    wire.acquire(a, LINE)
    wire.redis.command("DEL", wire.name)
    code, token = wire.acquire(a, LINE, seq=2)  # the head itself gets the grant by the reply
    assert code == 1 and token == wire.last_token() - BLOCK + 1 and a.nothing()
    assert wire.queue() == []


def test_dead_entries_are_passed_over(wire: Wire, who: Callable[..., Who]) -> None:
    a, dead, dead_too, b = who(), who(), who(), who()
    wire.acquire(a)
    wire.acquire(dead, LINE, beat=20)
    wire.acquire(dead_too, LINE, beat=20)
    wire.acquire(b, LINE)
    after_ms(wire.redis, 25)
    assert wire.queue() == [dead.raw, dead_too.raw, b.raw]
    assert wire.release(a) == 1
    assert wire.holder() == {b.raw: b"1"} and dead.nothing() and dead_too.nothing()
    assert wire.queue() == [] and not wire.redis.command("EXISTS", wire.about)


def test_a_beat_keeps_the_place(wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE, beat=20)
    wire.acquire(c, LINE)
    wire.acquire(b, LINE, beat=BEAT, seq=2)
    after_ms(wire.redis, 25)
    wire.release(a)
    assert wire.holder() == {b.raw: b"1"}


def test_only_the_dead_in_line(wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a, dead, b = who(), who(), who()
    wire.acquire(a)
    wire.acquire(dead, LINE, beat=20)
    wire.redis.command("PERSIST", wire.line)
    after_ms(wire.redis, 25)
    with redis_server.client() as foreign:
        foreign.subscribe(wire.channel)
        wire.release(a)
        assert foreign.message() == (wire.channel, b"0")
        all_expire(wire.redis)
        assert wire.acquire(b, TRY)[0] == 0  # the foreign client's turn
    wait_until(lambda: wire.acquire(b, TRY)[0] == 1)


def test_entries_without_details_are_dead(wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a, dead, odd, b = who(), who(), who(), who()
    wire.acquire(a)
    for one in dead, odd, b:
        wire.acquire(one, LINE)
    wire.redis.command("HDEL", wire.about, dead.id)
    wire.redis.command("HSET", wire.about, odd.id, "what is this")
    with redis_server.client() as foreign:
        foreign.subscribe(wire.channel)
        wire.release(a)
        assert wire.holder() == {b.raw: b"1"}
        wire.redis.command("ZADD", wire.line, 1, dead.id)
        wire.redis.command("PEXPIRE", wire.line, BEAT)
        wire.redis.command("DEL", wire.about)
        wire.release(b)
        all_expire(wire.redis)


def test_who_does_not_hear_is_passed_over(wire: Wire, who: Callable[..., Who]) -> None:
    a, unsubscribed, b = who(), who(subscribe=False), who()
    wire.acquire(a)
    wire.acquire(unsubscribed, LINE)
    wire.acquire(b, LINE)
    wire.release(a)
    assert wire.holder() == {b.raw: b"1"}
    assert wire.acquire(unsubscribed, LINE, seq=2)[0] == 0 and wire.queue() == [unsubscribed.raw]
    wire.release(b)
    assert wire.holder() == {}
    assert wire.acquire(unsubscribed, LINE, seq=3)[0] == 1


def crowd(wire: Wire, count: int, deadline: int) -> None:
    """So many places of other processes, before everybody else's. None of them hears."""
    ids = [f"{one:08x}-1111-8000-8000-000000000001:1" for one in range(count)]
    for one in range(0, count, 100):
        wire.redis.command("ZADD", wire.line, *(word for at, id in enumerate(ids[one : one + 100]) for word in (one + at + 1, id)))
        wire.redis.command("HSET", wire.about, *(word for id in ids[one : one + 100] for word in (id, f"{deadline} 1000 1 1000 0 1")))


@pytest.mark.parametrize("how", ["dead", "deaf"])
@pytest.mark.parametrize("count", [5, 30, 200])
def test_many_dead_are_removed_some_at_a_time(wire: Wire, who: Callable[..., Who], count: int, how: str) -> None:
    """No call removes all. One of the living is told to probe, and then does so until somebody has the lock."""
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    crowd(wire, count, 1 if how == "dead" else server_ms(wire.redis) + BEAT)
    most = 12 if how == "dead" else 8
    assert wire.release(a) == 1
    if count < most:
        assert wire.holder() == {b.raw: b"1"} and (b.message() or b"").startswith(b"grant ")
        return
    assert wire.holder() == {} and b.message() == b"open %d 0 order" % b.number
    assert len(wire.queue()) == 1 + count - most
    again = (count - (how == "dead")) // most - 1  # who removes the last dead one sees who is behind
    for seq in range(2, 2 + again):
        assert wire.acquire(b, LINE, seq=seq) == [0, 0, 0]
        assert wire.queue()[-1:] == [b.raw] and wire.holder() == {}
    assert wire.acquire(b, LINE, seq=99)[0] == 1 and b.nothing()
    assert wire.queue() == [] and not wire.redis.command("EXISTS", wire.about)


def test_who_watches_all_channels_does_not_hear_for_the_dead(
    wire: Wire, who: Callable[..., Who], redis_server: Server
) -> None:
    a, unsubscribed, b = who(), who(subscribe=False), who()
    wire.acquire(a)
    wire.acquire(unsubscribed, LINE)
    wire.acquire(b, LINE)
    with redis_server.client() as monitor:
        monitor.send("PSUBSCRIBE", "*")
        monitor.read()
        wire.release(a)
        assert wire.holder() == {b.raw: b"1"}


def test_who_polls_need_not_hear(wire: Wire, who: Callable[..., Who]) -> None:
    a, poller = who(), who(subscribe=False)
    wire.acquire(a)
    wire.acquire(poller, POLL)
    wire.release(a)
    assert wire.holder() == {poller.raw: b"1"}
    assert wire.acquire(poller, POLL, seq=2) == [1, wire.last_token(), 1]


def test_a_grant_is_as_long_as_was_asked_last(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE, lease=5000, block=1)
    wire.acquire(b, LINE, lease=9000, block=3, seq=2)
    last = wire.last_token()
    wire.release(a)
    assert 5000 < wire.left() <= 9000
    assert wire.last_token() >= last + 3
    words = (b.message() or b"").split()
    assert words[2] == b"2" and int(words[3]) == wire.last_token() - 2


def test_a_short_beat_does_not_shorten_the_others(wire: Wire, who: Callable[..., Who]) -> None:
    a, patient, hasty = who(), who(), who()
    wire.acquire(a)
    wire.acquire(patient, LINE, beat=200_000)
    wire.acquire(hasty, LINE, beat=20)
    assert wire.left(wire.line) > 200_000 and wire.left(wire.about) > 200_000


# ---- pass


def test_pass_alone_comes_back(wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    _, last = block(wire.acquire(a))
    a, old = a.again(), a
    released, granted = wire.pass_on(old, a)
    assert released == 1 and last < block(granted)[0] and block(granted)[1] == wire.last_token()
    assert wire.holder() == {a.raw: b"1"} and wire.queue() == []


def test_pass_goes_behind_the_others(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    a, old = a.again(), a
    released, (code, left, foreign, *_) = wire.pass_on(old, a)
    assert (released, code, foreign) == (1, 0, 0) and left > LEASE - 5000
    assert wire.holder() == {b.raw: b"1"} and wire.queue() == [a.raw]
    assert (b.message() or b"").startswith(b"grant ")
    all_expire(wire.redis)


def test_pass_repeated_is_once(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    a, old = a.again(), a
    assert wire.pass_on(old, a)[0] == 1
    assert wire.pass_on(old, a, seq=2)[0] == 0
    assert wire.holder() == {b.raw: b"1"} and wire.queue() == [a.raw]
    b.message()
    assert b.nothing()
    wire.release(b)
    assert wire.pass_on(old, a, seq=3) == [0, [1, wire.last_token(), 1]]


# ---- foreign clients


FOREIGN = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"


def foreign_acquire(wire: Wire, lease: int = LEASE) -> Any:
    return wire.redis.command("EVAL", ACQUIRE, 1, wire.name, lease, FOREIGN)


def foreign_release(wire: Wire) -> Any:
    keys = wire.name, wire.channel, b"latch:" + tagged(wire.name)
    reply = wire.redis.command("EVAL", RELEASE, 3, *keys, 0, LEASE, FOREIGN, "PUBLISH", 18000)
    wire.redis.command("DEL", keys[2])
    return reply


@pytest.fixture
def foreign_subscriber(redis_server: Server, wire: Wire) -> Iterator[Client]:
    """A foreign JVM that waits."""
    with redis_server.client() as subscriber:
        subscriber.subscribe(wire.channel)
        yield subscriber


def test_foreign_holder_is_recognised(wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    assert foreign_acquire(wire) is None
    code, left, foreign = wire.acquire(a, LINE)
    assert (code, foreign) == (0, 1) and left > LEASE - 5000
    assert wire.inspect()[0] == FOREIGN.encode()
    assert foreign_release(wire) == 1
    assert wire.acquire(a, LINE, seq=2)[0] == 1
    assert foreign_acquire(wire) > LEASE - 5000


def test_a_foreign_holder_without_ttl(wire: Wire, who: Callable[..., Who]) -> None:
    wire.redis.command("HSET", wire.name, FOREIGN, 1)
    assert wire.acquire(who(), LINE) == [0, -1, 1]


def test_foreign_turn_without_a_line(wire: Wire, who: Callable[..., Who], foreign_subscriber: Client) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.release(a)
    assert foreign_subscriber.message() == (wire.channel, b"0")
    assert wire.queue() == [b"*"] and 0 < wire.left(wire.line) <= 2 * GRACE
    code, left, _ = wire.acquire(b, TRY)
    assert code == 0 and 0 < left <= GRACE
    wait_until(lambda: not wire.redis.command("EXISTS", wire.line))
    assert wire.acquire(b, TRY)[0] == 1


def test_foreign_client_takes_its_turn(wire: Wire, who: Callable[..., Who], foreign_subscriber: Client) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.release(a)
    assert foreign_acquire(wire) is None
    assert wire.acquire(b, LINE)[::2] == [0, 1]
    assert b.raw in wire.queue()
    foreign_release(wire)
    wait_until(lambda: wire.acquire(b, LINE, seq=2)[0] == 1)


@pytest.mark.parametrize("together", [True, False])
def test_foreign_turns_among_ours(wire: Wire, who: Callable[..., Who], foreign_subscriber: Client, together: bool) -> None:
    """The holder releases and joins the line again, in one request or in two."""
    ours = [who() for _ in range(3)]
    holder, turns, grants = ours[0], 0, 0
    wire.acquire(holder)
    for one in ours[1:]:
        wire.acquire(one, LINE)
    for _ in range(60):
        old, at = holder, ours.index(holder)
        ours[at] = old.again()
        if together:
            wire.pass_on(old, ours[at])
        else:
            wire.release(old)
            wire.acquire(ours[at], LINE)
        if wire.holder():
            grants += 1
        else:
            turns += 1
            head = next(one for one in ours if one.raw == wire.queue()[1])
            while (told := head.message()) and not told.startswith(b"open "):
                pass
            assert told == b"open %d %d " % (head.number, GRACE) + wire.name
            assert foreign_subscriber.message() == (wire.channel, b"0")
            assert wire.acquire(head, LINE, seq=2)[0] == 0  # it is told, but waits
            assert foreign_acquire(wire) is None and foreign_release(wire) == 1
            wait_until(lambda: wire.acquire(head, LINE, seq=3)[0] == 1)
        holder = next(one for one in ours if one.raw in wire.holder())
    assert 12 <= turns <= 25, (turns, grants)  # one of four parties
    all_expire(wire.redis)


LIFE = 100  # ms that a waiter lives without a probe


@pytest.mark.parametrize("how", ["stops", "leaves", "granted", "dead", "gate"])
@pytest.mark.parametrize("listening", [1, 2])
def test_ears_go_with_their_waiter(wire: Wire, who: Callable[..., Who], listening: int, how: str) -> None:
    """The server counts the subscriptions of waiters in line without a look at each."""
    ears = lambda: wire.redis.command("ZCOUNT", wire.line, "9e15", "+inf")  # noqa: E731
    a, b, c = who(), who(), who()
    wire.acquire(a)
    for _ in range(2):  # the second time, it probes
        wire.acquire(b, LINE, listening=listening, beat=LIFE if how == "dead" else BEAT)
        assert ears() == listening
    assert wire.inspect()[4] == 1
    if how == "stops":
        wire.acquire(b, LINE)
    elif how == "leaves":
        assert wire.release(b) == 0
    elif how == "granted":
        wire.release(a, listening=listening)
        assert wire.holder() == {b.raw: b"1"}
    elif how == "dead":
        wire.acquire(c, LINE)
        after_ms(wire.redis, 2 * LIFE)
        wire.release(a, listening=listening)
        assert wire.holder() == {c.raw: b"1"}
    else:
        keys = [wire.name, wire.gate, wire.line, wire.about]
        wire.redis.command("EVAL", SCRIPTS["gate"], len(keys), *keys, 1000, "mutex", wire.channel, "")
    assert ears() == 0 and wire.queue() == ([b.raw] if how == "stops" else [])


def test_our_own_ears_are_not_foreign(wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a, b, c = who(), who(), who()
    subscribers = [redis_server.client() for _ in range(3)]
    for subscriber in subscribers:  # one of each of ours
        subscriber.subscribe(wire.channel)
    wire.acquire(a)
    wire.acquire(b, LINE, listening=1)
    wire.acquire(c, LINE, listening=1)
    assert wire.release(a, listening=1) == 1
    assert wire.holder() == {b.raw: b"1"} and not wire.redis.command("HEXISTS", wire.about, "*")
    subscribers.pop().close()
    wait_until(lambda: wire.redis.command("PUBSUB", "NUMSUB", wire.channel)[1] == 2)
    assert wire.release(b, listening=1) == 1
    subscribers.pop().close()
    wait_until(lambda: wire.redis.command("PUBSUB", "NUMSUB", wire.channel)[1] == 1)
    assert wire.release(c, listening=1) == 1
    assert wire.queue() == []  # nobody's turn
    subscribers.pop().close()


def test_fenced_lock_counts_on(wire: Wire, who: Callable[..., Who]) -> None:
    a, tokens = who(), []
    for _ in range(4):
        left, token = wire.redis.command("EVAL", FENCED, 2, wire.name, wire.fence, LEASE, FOREIGN)
        assert left == -1
        tokens.append(token)
        foreign_release(wire)
        code, token = wire.acquire(a)
        assert code == 1
        tokens += [token, token + BLOCK - 1]
        wire.release(a)
        a = a.again()
    assert tokens == sorted(set(tokens)) and tokens[0] == 1
    assert wire.left(wire.fence) == -1  # it was made without an expiry


# ---- renew


def renew(redis: Client, *rows: tuple[Any, Any, int]) -> Any:
    names = [row[0] for row in rows]
    return redis.command("EVAL", SCRIPTS["renew"], len(rows), *names, *itertools.chain(*(row[1:] for row in rows)))


def test_renew_only_extends(wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    wire.acquire(a)
    for lease, low in [(100, LEASE - 5000), (LEASE * 2, LEASE), (LEASE, LEASE)]:
        assert renew(wire.redis, (wire.name, a.id, lease)) == [1]
        assert low < wire.left() <= 2 * LEASE + 10  # a renewal that finds a longer lease adds a millisecond
    wire.redis.command("PERSIST", wire.name)
    assert renew(wire.redis, (wire.name, a.id, LEASE)) == [1]
    assert 0 < wire.left() <= LEASE
    assert wire.holder() == {a.raw: b"1"}


def test_renew_tells_each_from_each(redis: Client, who: Callable[..., Who]) -> None:
    a, stranger = who(), who()
    rows: list[tuple[Any, Any, int]] = []
    for number in range(64):
        Wire(redis, f"held:{number}").acquire(a)
        rows += [(f"held:{number}", a.id, 2 * LEASE), (f"held:{number}", stranger.id, 3 * LEASE)]
    redis.command("SET", "text", 1)
    rows += [("text", a.id, LEASE), ("absent", a.id, LEASE)]
    assert renew(redis, *rows) == [1, 0] * 64 + [0, 0]
    assert all(LEASE < redis.command("PTTL", f"held:{number}") <= 2 * LEASE for number in range(64))
    assert not redis.command("EXISTS", "absent") and redis.command("PTTL", "text") == -1


def test_renew_with_one_lease_for_all(redis: Client, who: Callable[..., Who]) -> None:
    a, stranger = who(), who()
    names = [f"held:{number}" for number in range(64)]
    for name in names:
        Wire(redis, name).acquire(a)
    owners = [a.id, stranger.id] * 32
    assert redis.command("EVAL", SCRIPTS["renew"], 64, *names, *owners, 2 * LEASE) == [1, 0] * 32
    left = [redis.command("PTTL", name) for name in names]
    assert all(LEASE < ms <= 2 * LEASE for ms in left[::2]) and all(0 < ms <= LEASE for ms in left[1::2])
    assert redis.command("EVAL", SCRIPTS["renew"], 2, names[0], names[2], a.id, a.id, 100) == [1, 1]
    assert redis.command("PTTL", names[0]) > LEASE


def test_renew_of_a_write_lock(wire: Wire) -> None:
    writer = FOREIGN + ":write"
    wire.redis.command("HSET", wire.name, "mode", "write", writer, 1)
    wire.redis.command("PEXPIRE", wire.name, LEASE)
    before = wire.redis.command("PEXPIRETIME", wire.name)
    assert renew(wire.redis, (wire.name, "mode", 3 * LEASE), (wire.name, FOREIGN, 3 * LEASE)) == [0, 0]
    assert wire.redis.command("PEXPIRETIME", wire.name) == before
    assert renew(wire.redis, (wire.name, writer, 2 * LEASE)) == [1] and LEASE < wire.left() <= 2 * LEASE
    assert renew(wire.redis, (wire.name, writer, LEASE)) == [1] and LEASE < wire.left()


# ---- force, inspect


def test_force(wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    assert wire.force() == 0
    wire.acquire(a)
    assert wire.force() == 1 and wire.holder() == {}
    wire.acquire(a)
    wire.acquire(b, LINE)
    assert wire.force() == 1
    assert wire.holder() == {b.raw: b"1"} and (b.message() or b"").startswith(b"grant ")
    assert wire.release(a) == 0


def test_force_of_a_foreign_lock(wire: Wire, who: Callable[..., Who], foreign_subscriber: Client) -> None:
    foreign_acquire(wire)
    assert wire.force() == 1
    assert foreign_subscriber.message() == (wire.channel, b"0")
    assert wire.holder() == {} and foreign_acquire(wire) is None


@pytest.mark.parametrize(
    "fields", [["mode", "write", FOREIGN + ":write", 1], [FOREIGN, 1, "mode", "read"], ["mode", "read"]]
)
def test_inspect_of_a_read_write_lock(wire: Wire, fields: list[Any]) -> None:
    wire.redis.command("HSET", wire.name, *fields)
    wire.redis.command("SET", wire.line, "this kind has no line")
    holder, left, _, _, waiters = wire.inspect("write")
    assert (left, waiters) == (-1, 0)
    assert holder == next((str(word).encode() for word in fields if FOREIGN in str(word)), b"")


def test_inspect_of_a_counter(wire: Wire) -> None:
    wire.redis.command("SET", wire.name, 3, "PX", LEASE)
    wire.redis.command("RPUSH", wire.line, "a", "b")  # a fair line
    holder, left, token, _, waiters = wire.inspect("latch")
    assert (holder, token, waiters) == (b"", 0, 2) and LEASE - 5000 < left <= LEASE
    reply = wire.redis.command("EVAL", SCRIPTS["inspect"], 2, wire.name, wire.fence, "semaphore")
    assert reply[0] == b"" and reply[4] == 0


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "write", "semaphore", "permit semaphore", "latch"])
def test_inspect_of_another_kind(wire: Wire, kind: str) -> None:
    counts, shared = kind.endswith("semaphore") or kind == "latch", kind in ("read", "write")
    keys = {"RPUSH": ["a"], "SET": ["3"], "HSET": [FOREIGN, 1], "HMSET": ["mode", "read", FOREIGN, 1]}
    fits = "SET" if counts else "HMSET" if shared else "HSET"
    for command, words in keys.items():
        wire.redis.command("DEL", wire.name)
        wire.redis.command(command, wire.name, *words)
        before, answer = wire.redis.command("DUMP", wire.name), wire.inspect(kind)
        assert (answer != -1) == (command == fits), (command, answer)
        assert wire.redis.command("DUMP", wire.name) == before


def test_inspect_changes_nothing(wire: Wire, who: Callable[..., Who]) -> None:
    before = server_ms(wire.redis)
    holder, left, token, micros, waiters = wire.inspect()
    assert (holder, left, token, waiters) == (b"", -2, 0, 0) and micros >= before * 1000
    assert wire.redis.command("KEYS", "*") == []
    a, b = who(), who()
    _, last = block(wire.acquire(a))
    wire.acquire(b, LINE)
    holder, left, token, _, waiters = wire.inspect()
    assert (holder, token, waiters) == (a.raw, last, 1) and LEASE - 5000 < left <= LEASE


# ---- the server


def test_what_is_left_behind_vanishes(wire: Wire, who: Callable[..., Who], foreign_subscriber: Client) -> None:
    beat = 40
    ours = [who(subscribe=False) for _ in range(3)]
    wire.acquire(who(), lease=100)
    for one in ours:
        wire.acquire(one, LINE, beat=beat)
    all_expire(wire.redis)
    wait_until(lambda: wire.redis.command("KEYS", "*") == [wire.fence])
    wire.acquire(ours[0], lease=100)
    for one in ours[1:]:
        wire.acquire(one, LINE, beat=beat)
    for one in ours:  # with a foreign client waiting, its credit and its turns are added
        wire.release(one)
        all_expire(wire.redis)
    wait_until(lambda: wire.redis.command("KEYS", "*") == [wire.fence])


def test_a_full_server_lets_go_and_renews(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory", "12mb", "--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire, other = Wire(redis), Wire(redis, "other")
        a, b, c, d = (Who(server) for _ in range(4))
        wire.acquire(a)
        wire.acquire(b, LINE)
        wire.acquire(c, LINE)
        other.acquire(d)
        with pytest.raises(ReplyError, match="OOM"):
            for number in range(1000):
                redis.command("SET", f"fill:{number}", "x" * 100_000)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(ReplyError, match="OOM"):
            Wire(redis, "new").acquire(a)
        assert redis.command("EXISTS", "new") == 0
        assert renew(redis, (wire.name, a.id, 2 * LEASE)) == [1] and wire.left() > LEASE
        assert wire.inspect()[0] == a.raw
        assert wire.release(a) == 1
        assert (b.message() or b"").startswith(b"grant ")
        b, old = b.again(), b
        assert wire.pass_on(old, b)[0] == 1
        assert wire.holder() == {c.raw: b"1"}
        assert wire.force() == 1 and wire.holder() == {b.raw: b"1"}
        assert wire.release(b) == 1 and other.release(d) == 1
        with server.client() as subscriber:
            subscriber.subscribe(wire.channel)
            redis.command("CONFIG", "SET", "maxmemory", "0")
            a = a.again()
            wire.acquire(a)
            redis.command("CONFIG", "SET", "maxmemory", "1mb")
            assert wire.release(a) == 1 and subscriber.message() == (wire.channel, b"0")
        redis.command("CONFIG", "SET", "maxmemory", "0")
        other.acquire(d)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        assert other.release(d, rest=REST) == 1 and REST - 5000 < other.left() <= REST


@pytest.mark.parametrize("name", ["order", "shop:{7}:lock", "a b", b"\xff", "{x}y"])
def test_all_keys_are_declared_and_in_one_slot(new_server: Callable[..., Server], name: str | bytes) -> None:
    server = new_server("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
    with server.client() as redis, server.client() as subscriber:
        wire, a, b = Wire(redis, name), Who(server), Who(server)
        subscriber.subscribe(wire.channel)
        assert wire.acquire(a)[0] == 1
        assert wire.acquire(b, LINE)[0] == 0
        assert renew(redis, (wire.name, a.id, LEASE)) == [1]
        assert wire.release(a) == 1 and wire.inspect()[0] == b.raw
        assert wire.pass_on(b, a.again())[0] == 1
        assert wire.release(a) == 0 and wire.force() == 0
        keys = wire.name, wire.fence, wire.line, wire.about, wire.gate
        slots = {redis.command("CLUSTER", "KEYSLOT", key) for key in keys}
        assert len(slots) == 1


def test_what_is_embedded_is_what_is_here() -> None:
    library = LIBRARY.read_bytes()
    for stem, text in SCRIPTS.items():
        found = hashlib.sha1(text.encode()).hexdigest().encode() in library
        assert found, f"{stem}: the library is older"


# ---- the texts


@pytest.mark.parametrize("stem", sorted(SCRIPTS))
def test_every_name_is_known(stem: str) -> None:
    """Redis ends a script at an undefined global, wherever that stands."""
    done = subprocess.run(["luajit", "-bl", "-"], input=SCRIPTS[stem], text=True, capture_output=True, check=True)
    names = set(re.findall(r" G(?:GET|SET) .*\"(\w+)\"", done.stdout))
    assert names and names <= set("redis KEYS ARGV tonumber tostring math string table type unpack pairs pcall error select".split())


def test_a_multi_lock_whose_counter_vanished(wire: Wire) -> None:
    """The same ids sent again get tokens that do not fall."""
    keys = [key for name in "ab" for key in (name, f"f:{name}", f"l:{name}", f"w:{name}", f"g:{name}")]
    ask = ("EVAL", SCRIPTS["multi_acquire"], len(keys), *keys, 60000, "me:1", 30000, 1, "me:2", 30000, 1)
    first = wire.redis.command(*ask)
    wire.redis.command("DEL", "f:a")
    again = wire.redis.command(*ask)
    assert first[0] == again[0] == 1 and again[1] >= first[1] and again[3:] == first[3:] == [first[3], 1]


def test_a_crowd_of_two_names_with_one_counter(wire: Wire) -> None:
    keys = ["k", "f:{k}", "l:{k}", "w:{k}", "g:{k}", "{k}", "f:{k}", "l2:{k}", "w2:{k}", "g2:{k}"]
    tokens = wire.redis.command("EVAL", SCRIPTS["batch_acquire"], len(keys), *keys, 30000, 65, 0, 0, 4000, 60000, "me:1", 1, 0, 0, 1, "me:2", 1, 0, 0, 1)
    assert tokens[1][1] > block(tokens[0])[1] and int(wire.redis.command("GET", "f:{k}")) == block(tokens[1])[1]
