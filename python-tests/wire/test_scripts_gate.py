"""The gate of a lock on a real server: gate.lua for every kind, and the mutex's scripts while it is closed."""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.steps import fair
from harness.steps.redisson import ACQUIRE, Jvm, channel_of, tagged
from harness.steps.redisson_fair import Waiter
from harness.resp import Client, ReplyError
from harness.steps.scripts import load
from harness.server import Server, free_port
from harness.steps.wire import BEAT, BLOCK, LEASE, LINE, POLL, TRY, Who, Wire, all_expire, private, wait_until

pytestmark = pytest.mark.house

GATE = load("gate")
CLOSED = 60_000
JAVA = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"


class Gate:
    """gate.lua for one name and kind, with the keys of that kind."""

    def __init__(self, redis: Client, name: str = "order", kind: str = "mutex") -> None:
        self.redis = redis
        self.name = name
        self.kind = kind
        self.key = private("dlock_gate", name)
        tag = tagged(name)
        self.queue, self.timeouts = b"redisson_lock_queue:" + tag, b"redisson_lock_timeout:" + tag
        self.about = private("dlock_fair", name)
        line = [private("dlock_queue", name), private("dlock_waiters", name)]
        self.more = {"mutex": line, "fair": [self.queue, self.timeouts, self.about]}.get(kind, [])
        latch = f"redisson_countdownlatch__channel__{{{name}}}".encode()
        channels = {"mutex": channel_of(name), "fair": channel_of(name), "latch": latch}
        self.channel = channels.get(kind, (b"redisson_sc:" if "semaphore" in kind else b"redisson_rwlock:") + tag)

    def step(self, ms: int = CLOSED, rest: bytes = b"") -> Any:
        keys = [self.name, self.key, *self.more]
        return self.redis.command("EVAL", GATE, len(keys), *keys, ms, self.kind, self.channel, rest)

    def close(self, ms: int = CLOSED) -> int:
        """As a client does it: it goes on until all have been sent away."""
        reply = self.step(ms)
        while isinstance(reply, bytes):
            reply = self.step(ms, reply)
        assert isinstance(reply, int)
        return reply

    def open(self) -> int:
        return self.close(0)

    def left(self) -> int:
        reply: int = self.redis.command("PTTL", self.key)
        return reply


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> Wire:
    return Wire(redis)


@pytest.fixture
def gate(redis: Client) -> Gate:
    return Gate(redis)


@pytest.fixture
def who(redis_server: Server) -> Iterator[Callable[..., Who]]:
    made: list[Who] = []

    def make(subscribe: bool = True) -> Who:
        made.append(Who(redis_server, subscribe))
        return made[-1]

    yield make
    for one in made:
        one.subscriber.close()


@pytest.fixture
def listen(redis_server: Server) -> Iterator[Callable[[str | bytes], Client]]:
    subscribers: list[Client] = []

    def make(channel: str | bytes) -> Client:
        subscribers.append(redis_server.client())
        subscribers[-1].subscribe(channel)
        return subscribers[-1]

    yield make
    for subscriber in subscribers:
        subscriber.close()


# ---- the gate itself


def test_the_last_word_counts(gate: Gate) -> None:
    assert gate.open() == 0
    for ms in 50_000, 90_000, 20_000:
        assert gate.close(ms) == 1 and ms - 5000 < gate.left() <= ms
    assert gate.open() == 1 and gate.left() == -2
    assert gate.open() == 0


def test_a_gate_opens_by_itself(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    gate.close(30)
    wait_until(lambda: wire.acquire(a)[0] == 1)


def test_a_full_server_closes_no_gate_but_opens_one(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire, gate, a, b = Wire(redis), Gate(redis), Who(server), Who(server)
        wire.acquire(a)
        wire.acquire(b, LINE)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(ReplyError, match="OOM"):
            gate.close()
        assert wire.queue() == [b.raw] and a.nothing() and b.nothing()
        redis.command("CONFIG", "SET", "maxmemory", "0")
        gate.close()
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        assert gate.open() == 1
        assert wire.release(a) == 1


@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_names_with_and_without_braces_have_their_own_gates(redis: Client, who: Callable[..., Who], kind: str) -> None:
    Gate(redis, "{order}", kind).close()
    assert Wire(redis, "order").acquire(who())[0] == 1
    assert Wire(redis, "{order}").acquire(who()) == [-2]


# ---- the mutex


def test_closing_sends_everybody_away(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c, outside = who(), who(), who(subscribe=False), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    wire.acquire(b.again(), LINE)  # a process that is in line twice gets one message
    assert gate.close() == 1
    assert wire.queue() == [] and not wire.redis.command("EXISTS", wire.about)
    for one in a, b:
        assert one.message() == b"gate %d order" % CLOSED and one.nothing()
    assert outside.nothing()
    assert wire.holder() == {a.raw: b"1"} and wire.acquire(a) == [1, wire.last_token(), 1]  # a holder goes on
    all_expire(wire.redis)


def test_while_it_is_closed_nobody_gets_in(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    gate.close()
    for mode in TRY, LINE, POLL:
        assert wire.acquire(a, mode) == [-2]
    assert wire.redis.command("KEYS", "*") == [gate.key]
    gate.open()
    assert wire.acquire(a)[0] == 1


def test_a_place_in_line_is_given_up(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    wire.redis.command("SET", gate.key, 1, "PX", CLOSED)  # the message has not come yet
    assert wire.acquire(b, LINE, seq=2) == [-2]
    assert wire.queue() == [c.raw] and not wire.redis.command("HEXISTS", wire.about, b.id)


def test_an_acquire_sent_again_still_gets_its_grant(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a = who()
    first = wire.acquire(a)
    gate.close()
    assert wire.acquire(a, LINE, lease=2 * LEASE, seq=2) == first and wire.left() > LEASE
    a, old = a.again(), a
    assert wire.pass_on(old, a) == [1, [-2]]
    assert wire.pass_on(old, a) == [0, [-2]]
    assert wire.holder() == {} and wire.queue() == []


def test_a_release_hands_nothing_out(gate: Gate, wire: Wire, who: Callable[..., Who], redis_server: Server) -> None:
    a, b, c = who(), who(), who()
    releases: list[Callable[[], int]] = [
        lambda: wire.release(a), wire.force, lambda: int(wire.pass_on(a, c, TRY)[0]),
    ]  # fmt: skip
    for release in releases:
        a, b = a.again(), b.again()
        wire.acquire(a)
        wire.acquire(b, LINE)
        wire.redis.command("SET", gate.key, 1, "PX", CLOSED)
        with redis_server.client() as subscriber:
            subscriber.send("PSUBSCRIBE", "redisson_lock__channel:*")
            subscriber.read()
            assert release() == 1
            assert subscriber.message() == (wire.channel, b"0")
        assert wire.holder() == {} and b.nothing()
        assert wire.acquire(b, LINE, seq=2) == [-2] and wire.queue() == []
        gate.open()


def test_another_who_looks_hands_nothing_out(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.redis.command("SET", gate.key, 1, "PX", CLOSED)
    wire.redis.command("DEL", wire.name)  # it expired
    assert wire.acquire(c, LINE) == [-2]
    assert wire.holder() == {} and b.nothing() and wire.queue() == [b.raw]


def test_foreign_clients_know_no_gates(
    gate: Gate, wire: Wire, who: Callable[..., Who], listen: Callable[..., Client]
) -> None:
    a = who()
    wire.acquire(a)
    subscriber = listen(wire.channel)
    gate.close()
    assert wire.release(a) == 1 and subscriber.message() == (wire.channel, b"0")
    assert wire.queue() == [b"*"]  # their turn
    assert gate.close() == 1 and wire.queue() == [b"*"]
    assert wire.redis.command("EVAL", ACQUIRE, 1, wire.name, LEASE, JAVA) is None
    nobody = listen("dlock_client:" + JAVA[:36])
    assert gate.close() == 1 and gate.open() == 1 and nobody.message(timeout=0.05) is None
    assert wire.acquire(a.again(), LINE)[::2] == [0, 1]


def test_opening_tells_who_holds(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    gate.close()
    assert a.message() == b"gate %d order" % CLOSED
    assert wire.acquire(b, LINE) == [-2]
    assert gate.open() == 1
    assert a.message() == b"gate 0 order" and b.nothing()
    assert wire.acquire(b, LINE)[0] == 0 and wire.queue() == [b.raw]


def test_a_rest_goes_on_behind_a_closed_gate(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a, b = who(), who()
    wire.acquire(a)
    gate.close()
    assert wire.release(a, rest=20_000) == 1
    assert wire.acquire(b, LINE) == [-2]
    gate.open()
    code, left, foreign, *_ = wire.acquire(b, LINE)
    assert (code, foreign) == (0, 0) and 15_000 < left <= 20_000


# ---- another kind of key

RW = ["HSET", "order", "mode", "read", JAVA, 1]
HASH = ["HSET", "order", JAVA, 1]
TEXT = ["SET", "order", 3]
LIST = ["RPUSH", "order", "a"]
MISMATCHES = [
    (kind, make)
    for kinds, makes in [
        (("mutex", "fair"), (RW, TEXT, LIST)),
        (("rw", "read", "write"), (HASH, TEXT, LIST)),
        (("semaphore", "permit semaphore", "latch"), (HASH, RW, LIST)),
    ]
    for kind in kinds
    for make in makes
]


@pytest.mark.parametrize(("kind", "make"), MISMATCHES)
def test_another_kind_is_refused_and_untouched(redis: Client, kind: str, make: list[Any]) -> None:
    gate = Gate(redis, kind=kind)
    redis.command(*make)
    before = redis.command("DUMP", "order")
    assert gate.close() == -1 and gate.open() == -1
    assert redis.command("DUMP", "order") == before and redis.command("KEYS", "*") == [b"order"]


# ---- the other kinds


@pytest.mark.parametrize(
    ("kind", "make"),
    [(kind, make) for kind in ("rw", "read", "write") for make in (RW, None)]
    + [(kind, make) for kind in ("semaphore", "permit semaphore") for make in (TEXT, ["SET", "order", -2], None)]
    + [("latch", TEXT)],
)
def test_waiters_on_redissons_channel_look_again(
    redis: Client, listen: Callable[..., Client], kind: str, make: list[Any] | None
) -> None:
    gate = Gate(redis, kind=kind)
    if make:
        redis.command(*make)
    subscriber = listen(gate.channel)
    assert gate.close() == 1 and gate.left() > 0
    assert subscriber.message() == (gate.channel, b"1")
    assert gate.open() == 1 and subscriber.message(timeout=0) is None
    assert gate.open() == 0


def test_trap_19_an_open_latch_is_not_closed_for_java(redis: Client, listen: Callable[..., Client]) -> None:
    gate = Gate(redis, kind="latch")
    subscriber = listen(gate.channel)
    assert gate.close() == 1 and subscriber.message(timeout=0.05) is None


def enqueue(gate: Gate, *owners: str) -> None:
    for place, owner in enumerate(owners):
        gate.redis.command("RPUSH", gate.queue, owner)
        gate.redis.command("ZADD", gate.timeouts, 10**13 + place, owner)


def test_fair_only_ours_leave(redis: Client, who: Callable[..., Who]) -> None:
    gate, a, b, given_up = Gate(redis, kind="fair"), who(), who(), who()
    other, holder = JAVA.replace(":1", ":2"), a.id + " 17"
    redis.command("HSET", "order", a.id, 1)
    for one in b, b.again(), given_up:  # Redisson threw the last one out of the line; it will come back
        redis.command("HSET", gate.about, one.id, "...", "@" + one.uuid, 1)
    redis.command("HSET", gate.about, "!", holder, "~", 5)
    enqueue(gate, b.id, JAVA, b.again().id, other)
    assert gate.close() == 1
    left = [JAVA.encode(), other.encode()]
    assert redis.command("LRANGE", gate.queue, 0, -1) == left
    assert redis.command("ZRANGE", gate.timeouts, 0, -1) == left
    assert redis.command("HGETALL", gate.about) == [b"!", holder.encode(), b"~", b"5"]
    for one in a, b, given_up:
        assert one.message() == b"gate %d order" % CLOSED and one.nothing()
    assert redis.command("HGETALL", "order") == [a.raw, b"1"]
    assert gate.open() == 1 and a.message() == b"gate 0 order" and b.nothing()


def test_fair_a_foreign_waiter_behind_ours_is_woken(
    redis: Client, who: Callable[..., Who], listen: Callable[..., Client]
) -> None:
    gate, a = Gate(redis, kind="fair"), who()
    channel = gate.channel + b":" + JAVA.encode()
    subscriber = listen(channel)
    enqueue(gate, a.id, JAVA)  # the lock is free, and a got the message
    assert gate.close() == 1 and subscriber.message() == (channel, b"0")
    assert gate.close() == 1 and subscriber.message(timeout=0.05) is None
    redis.command("HSET", "order", JAVA.replace(":1", ":2"), 1)  # it is held: the release will send the message
    redis.command("LPUSH", gate.queue, a.id)
    assert gate.close() == 1 and subscriber.message(timeout=0.05) is None


def test_fair_from_end_to_end(redis: Client, redis_server: Server) -> None:
    """With the scripts of the fair lock: all traces of the waiters are gone, the lock goes on with the others."""
    gate, wire = Gate(redis, kind="fair"), fair.Wire(redis, "order")
    a, b, c = (fair.Process(redis_server) for _ in range(3))
    holder, one, two, given_up = a.hold(), b.hold(), b.hold(), c.hold()
    java = Waiter(redis_server)
    assert wire.acquire(holder)[0] == 1
    for waiter in one, given_up:
        assert wire.acquire(waiter, fair.LINE)[0] == 0
    assert java.acquire() is not None and wire.acquire(two, fair.LINE)[0] == 0
    redis.command("LREM", gate.queue, 1, given_up.id)  # as Redisson does; ours would put it back
    redis.command("ZREM", gate.timeouts, given_up.id)
    assert gate.close() == 1
    assert redis.command("LRANGE", gate.queue, 0, -1) == [java.id.encode()]
    for process in a, b, c:
        assert process.messages() == [b"gate %d order" % CLOSED]
    assert wire.acquire(one, fair.LINE) == [-2] and wire.acquire(holder)[0] == 1
    assert wire.release(holder) == 1
    assert java.message() == b"0" and java.acquire() is None and java.release() == 1
    assert redis.command("LLEN", gate.queue) == 0 and set(redis.command("HKEYS", gate.about)) <= {b"?", b"~"}
    assert gate.open() == 1 and wire.acquire(given_up, fair.LINE)[0] == 1


# ---- a long line, in steps


def test_a_long_line_is_sent_away_in_steps(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    a, waiters = who(), [who() for _ in range(40)]
    wire.acquire(a)
    for one in waiters:
        wire.acquire(one, LINE)
    rest = gate.step()
    assert len(wire.queue()) == 24 and sum(one.message(0.05) == b"gate %d order" % CLOSED for one in waiters) == 16
    assert a.message() == b"gate %d order" % CLOSED
    assert gate.open() == 1 and a.message() == b"gate 0 order"  # meanwhile another client opens it
    late = who()
    wire.acquire(late, LINE)
    rest = gate.step(rest=rest)
    assert len(wire.queue()) == 9 and gate.left() == -2  # it is not closed again
    assert gate.step(rest=rest) == 1 and wire.queue() == [late.raw] and late.nothing() and a.nothing()


def test_who_is_not_sent_away_finds_the_gate(gate: Gate, wire: Wire, who: Callable[..., Who]) -> None:
    """The client that closed it has died halfway."""
    a, waiters = who(), [who() for _ in range(20)]
    wire.acquire(a)
    for one in waiters:
        wire.acquire(one, LINE)
    assert isinstance(gate.step(), bytes) and len(wire.queue()) == 4
    assert wire.release(a) == 1 and wire.holder() == {}
    for one in waiters:
        assert wire.acquire(one, LINE, seq=2) == [-2]
    assert wire.queue() == []


@pytest.mark.parametrize("foreign", [0, 1, 3])
def test_fair_a_long_line_is_sent_away_in_steps(redis: Client, redis_server: Server, foreign: int) -> None:
    """foreign: every so manieth is Redisson's, which keep their order. Some of ours were given up by Redisson."""
    gate, wire = Gate(redis, kind="fair"), fair.Wire(redis, "order")
    processes = [fair.Process(redis_server) for _ in range(3)]
    ours = [processes[at // 7 % 3].hold() for at in range(60)]
    line = [one.id for one in ours]
    theirs = [f"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:{number}" for number in range(60 // foreign if foreign else 0)]
    wire.acquire(holder := fair.Process(redis_server).hold())
    for one in ours:
        wire.acquire(one, fair.LINE)
    for at, one in enumerate(theirs):
        redis.command("LINSERT", gate.queue, "BEFORE" if foreign == 1 else "AFTER", line[foreign * at], one)
        redis.command("ZADD", gate.timeouts, 10**13 + at, one)
    for one in line[5::10]:
        redis.command("LREM", gate.queue, 1, one)
        redis.command("ZREM", gate.timeouts, one)
    redis.command("DEL", "order")  # it is free
    steps, before = 0, redis.command("LLEN", gate.queue)
    reply = gate.step()
    while isinstance(reply, bytes):
        steps, now = steps + 1, redis.command("LLEN", gate.queue)
        assert before - 16 <= now <= before
        before, reply = now, gate.step(rest=reply)
    assert reply == 1 and steps >= 3
    assert redis.command("LRANGE", gate.queue, 0, -1) == [one.encode() for one in theirs]
    assert redis.command("ZCARD", gate.timeouts) == len(theirs) and not [key for key in redis.command("HKEYS", gate.about) if len(key) > 1]
    for process in processes:
        told = process.messages()
        assert told and set(told) == {b"gate %d order" % CLOSED}
    assert wire.acquire(ours[0], fair.LINE) == [-2] and holder.nothing()


# ---- cluster, real Java steps


def test_all_keys_are_declared_and_in_one_slot(new_server: Callable[..., Server]) -> None:
    server = new_server("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
    with server.client() as redis:
        for kind in "mutex", "fair", "rw", "semaphore", "latch":
            for name in "order", "shop:{7}:lock":
                gate = Gate(redis, name, kind)
                assert gate.close() == 1 and gate.open() == 1
                slots = {redis.command("CLUSTER", "KEYSLOT", key) for key in (name, gate.key, *gate.more)}
                assert len(slots) == 1


def test_a_java_waiter_gets_what_the_gate_keeps_from_ours(
    gate: Gate, wire: Wire, who: Callable[..., Who], redis_server: Server
) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    gate.close()
    with Jvm(redis_server) as jvm:
        lock = jvm.lock("order")
        wire.release(a)
        assert lock.try_lock(1, wait=10, lease=30)
        assert b.message() == b"gate %d order" % CLOSED and wire.acquire(b, LINE, seq=2) == [-2]
        lock.unlock(1)
    gate.open()
    wait_until(lambda: wire.acquire(b, LINE, seq=3, beat=BEAT, block=BLOCK)[0] == 1)
