"""The scripts of the count-down latch on a real server, alone and mixed with Redisson's steps."""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.faults import always
from harness.steps.counting import Subscriber, Hold, JavaLatch, LatchWire
from harness.resp import Client, ReplyError
from harness.server import Server, free_port
from harness.waiting import wait_until

pytestmark = pytest.mark.house

OPEN, NOT_NOW, WRONG_KIND, GATE_CLOSED = [1, 1], [0, -1, 1], [-1], [-2]
NAMES: list[str | bytes] = [
    "start", "shop:{7}:start", "{x}", "x{y}z", "a b  c ", "new\r\nline", "%d %s %1", b"\xff\xfe\x01",
]  # fmt: skip


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> LatchWire:
    return LatchWire(redis)


@pytest.fixture
def java(redis: Client) -> JavaLatch:
    return JavaLatch(redis)


@pytest.fixture
def subscriber(redis_server: Server, wire: LatchWire) -> Iterator[Subscriber]:
    """A JVM that waits."""
    subscriber = Subscriber(redis_server, wire.channel)
    yield subscriber
    subscriber.redis.close()


def everything(redis: Client) -> dict[bytes, Any]:
    return {key: redis.command("DUMP", key) for key in redis.command("KEYS", "*")}


@pytest.mark.parametrize(
    "setter, first, last", [("ours", "java", "ours"), ("java", "ours", "java"), ("ours", "ours", "ours")]
)
def test_vector_23(wire: LatchWire, java: JavaLatch, subscriber: Subscriber, setter: str, first: str, last: str) -> None:
    """Set 2, count down twice: 1; nothing; 0 and the key is gone. Each side sees the same, whichever side does it."""
    if setter == "ours":
        assert wire.change("set", 2) == [1, 2]
    else:
        assert java.call("try_set_count", 2) == 1
    assert wire.redis.command("GET", wire.name) == b"2" and wire.left(wire.name) == -1
    assert subscriber.messages() == [b"1"] and wire.wait() == NOT_NOW
    for by, left in (first, 1), (last, 0):
        if by == "ours":
            assert wire.change("down", 1) == [1, left]
        else:
            java.call("count_down")
        assert wire.change("count") == [1, left] and java.call("get_count") == left
    assert wire.value() is None and subscriber.messages() == [b"0"] and wire.wait() == OPEN


def test_await_leaves_nothing(wire: LatchWire) -> None:
    assert wire.wait() == OPEN and wire.redis.command("KEYS", "*") == []
    wire.redis.command("SET", wire.name, 2)
    assert wire.wait() == NOT_NOW
    for value in 0, -1:
        wire.redis.command("SET", wire.name, value)
        assert wire.wait() == OPEN
    assert wire.redis.command("KEYS", "*") == [wire.name]


def test_set_only_where_there_is_none(wire: LatchWire, subscriber: Subscriber) -> None:
    assert wire.change("set", 3) == [1, 3]
    wire.change("down", 1)
    assert wire.change("set", 7) == [0, 2]
    assert subscriber.messages() == [b"1"]
    wire.change("down", 2)
    assert wire.change("set", 7) == [1, 7]
    assert subscriber.messages() == [b"0", b"1"]


def test_down_by_more(wire: LatchWire, subscriber: Subscriber) -> None:
    """Past zero it opens as at zero; below zero no message is sent."""
    wire.change("set", 10)
    wire.redis.command("PEXPIRE", wire.name, 50_000)
    assert wire.change("down", 4) == [1, 6] and 0 < wire.left(wire.name) <= 50_000
    assert wire.change("down", 9) == [1, 0] and wire.value() is None
    assert subscriber.messages() == [b"1", b"0"]
    for value in 0, -2:
        wire.redis.command("SET", wire.name, value)
        assert wire.change("down", 1) == [1, 0] and wire.value() is None
    assert subscriber.messages() == []


def test_down_on_none_is_nothing(wire: LatchWire, java: JavaLatch, subscriber: Subscriber) -> None:
    """Trap 19."""
    assert wire.change("down", 3) == [1, 0]
    java.call("count_down")
    assert wire.redis.command("KEYS", "*") == [] and subscriber.messages() == []


def test_java_deletes_it(wire: LatchWire, java: JavaLatch, subscriber: Subscriber) -> None:
    """Trap 19: its message wakes nobody in Java; ours probe at every message."""
    wire.change("set", 2)
    assert wire.wait() == NOT_NOW
    assert java.call("delete") == 1 and java.call("delete") == 0
    assert subscriber.messages() == [b"1", b"1"] and wire.wait() == OPEN


def test_braces_around_every_name(redis: Client, redis_server: Server) -> None:
    """Trap 19: also around one that has its own."""
    assert LatchWire(redis, "{x}").channel == b"redisson_countdownlatch__channel__{{x}}"


@pytest.mark.parametrize("what, number, then", [("set", 4, [1, 4]), ("down", 2, [1, 3]), ("down", 5, [1, 0])])
def test_a_change_sent_twice_is_once(wire: LatchWire, subscriber: Subscriber, what: str, number: int, then: list[int]) -> None:
    if what == "down":
        wire.redis.command("SET", wire.name, 5)
    request = Hold()
    assert wire.change(what, number, request) == then
    subscriber.messages()
    before = everything(wire.redis)
    assert [wire.change(what, number, request) for _ in range(3)] == [then] * 3
    assert everything(wire.redis) == before and subscriber.messages() == []
    wire.redis.command("SET", wire.name, 50)
    assert wire.change(what, number, request) == then and wire.value() == 50
    assert 0 < wire.left(wire.once) <= 120_000
    wire.all_ours_end(wire.name)


def test_many_count_down_at_once(wire: LatchWire, subscriber: Subscriber) -> None:
    wire.change("set", 2000)
    requests = [Hold() for _ in range(2000)]
    for request in requests:
        wire.change("down", 1, request)
        wire.change("down", 1, request)
    assert wire.value() is None and subscriber.messages() == [b"1", b"0"]


def test_a_closed_gate(wire: LatchWire) -> None:
    wire.change("set", 1)
    wire.redis.command("SET", wire.gate, 1, "PX", 5000)
    before = everything(wire.redis)
    assert wire.wait() == GATE_CLOSED and everything(wire.redis) == before
    assert wire.change("down", 1) == [1, 0]
    assert wire.wait() == GATE_CLOSED
    wire.redis.command("DEL", wire.gate)
    assert wire.wait() == OPEN


@pytest.mark.parametrize(
    "make",
    [
        ["HSET", "start", "a", "1"], ["ZADD", "start", "1", "a"], ["RPUSH", "start", "a"], ["SET", "start", "two"],
        ["SET", "start", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_kinds_are_refused_and_untouched(wire: LatchWire, subscriber: Subscriber, make: list[str]) -> None:
    wire.redis.command(*make)
    before = everything(wire.redis)
    assert wire.wait() == WRONG_KIND
    for what in "set", "down", "count":
        assert wire.change(what, 1) == WRONG_KIND
    assert everything(wire.redis) == before and subscriber.messages() == []


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_any_name(redis: Client, redis_server: Server, name: str | bytes) -> None:
    wire, java = LatchWire(redis, name), JavaLatch(redis, name)
    subscriber = Subscriber(redis_server, wire.channel)
    assert wire.change("set", 2) == [1, 2] and wire.wait() == NOT_NOW
    java.call("count_down")
    assert wire.change("down", 1) == [1, 0] and wire.wait() == OPEN
    assert subscriber.messages() == [b"1", b"0"]
    assert redis.command("KEYS", "*") == [wire.once] and wire.left(wire.once) > 0
    subscriber.redis.close()


def test_a_full_server_counts_down(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory", "12mb", "--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire = LatchWire(redis)
        subscriber = Subscriber(server, wire.channel)
        wire.change("set", 5)
        assert wire.wait() == NOT_NOW
        with pytest.raises(ReplyError, match="OOM"):
            for number in range(1000):
                redis.command("SET", f"fill:{number}", "x" * 100_000)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        request = Hold()
        assert [wire.change("down", 2, request) for _ in range(2)] == [[1, 3]] * 2 and wire.wait() == NOT_NOW
        assert wire.change("down", 3) == [1, 0] and wire.wait() == OPEN
        with pytest.raises(ReplyError, match="OOM"):
            wire.change("set", 1)
        assert subscriber.messages() == [b"1", b"0"] and wire.change("count") == [1, 0]
        subscriber.redis.close()


def test_all_keys_are_declared_and_in_one_slot(new_server: Callable[..., Server]) -> None:
    """The channel of a name with a brace is in another slot, as in Redisson: that is allowed for PUBLISH."""
    server = new_server("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
    with server.client() as redis:
        for name in NAMES:
            wire = LatchWire(redis, name)
            assert wire.change("set", 3) == [1, 3] and wire.wait() == NOT_NOW
            assert wire.change("down", 1) == [1, 2] and wire.change("down", 5) == [1, 0]
            assert len({redis.command("CLUSTER", "KEYSLOT", key) for key in wire.keys}) == 1


# ---- any order, against a model


class Play:
    """One random run. The model is the count: None when there is no latch."""

    def __init__(self, seed: int, wire: LatchWire, java: JavaLatch, subscriber: Subscriber) -> None:
        self.random = random.Random(seed)
        self.wire, self.java, self.subscriber = wire, java, subscriber
        self.left: int | None = None
        self.received: list[bytes] = []
        self.gate = False
        self.requests: list[tuple[str, int, Hold, list[int]]] = []

    def down(self, number: int) -> list[int]:
        if self.left is not None:
            opens = self.left > 0
            self.left = self.left - number if self.left > number else None
            if self.left is None and opens:
                self.received.append(b"0")
        return [1, self.left or 0]

    def set(self, number: int) -> list[int]:
        if self.left is not None:
            return [0, self.left]
        self.left = number
        self.received.append(b"1")
        return [1, number]

    def change(self) -> None:
        what, number, request = self.random.choice(["set", "down", "down"]), self.random.randint(1, 4), Hold()
        before = self.left
        reply = self.wire.change(what, number, request)
        assert reply == (self.set(number) if what == "set" else self.down(number))
        if self.left != before:
            self.requests.append((what, number, request, reply))

    def foreign(self) -> None:
        what, number, before = self.random.choice(["try_set_count", "count_down", "get_count", "delete"]), 0, self.left
        if what == "try_set_count":
            number = self.random.randint(0, 4)
            assert self.java.call(what, number) == self.set(number)[0]
        elif what == "count_down":
            self.java.call(what)
            self.down(1)
        elif what == "get_count":
            assert self.java.call(what) == (before or 0)
        elif self.random.random() < 0.3:
            assert self.java.call(what) == (0 if before is None else 1)
            self.received += [] if before is None else [b"1"]
            self.left = None

    def step(self) -> None:
        toss = self.random.random()
        if toss < 0.35:
            self.change()
        elif toss < 0.50 and self.requests:
            what, number, request, reply = self.random.choice(self.requests)
            assert self.wire.change(what, number, request) == reply
        elif toss < 0.54:
            self.gate = not self.gate
            self.wire.set_gate(self.gate)
        else:
            self.foreign()

    def check(self) -> None:
        assert self.wire.value() == self.left and self.wire.change("count") == [1, self.left or 0]
        assert self.wire.wait() == (GATE_CLOSED if self.gate else NOT_NOW if self.left else OPEN)
        assert self.subscriber.messages() == self.received
        self.received = []
        self.wire.all_ours_end(self.wire.name)


@pytest.mark.parametrize("part", always(0, full=range(1, 4)))
def test_any_order(wire: LatchWire, java: JavaLatch, subscriber: Subscriber, part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        wire.redis.command("FLUSHDB")
        play = Play(seed, wire, java, subscriber)
        try:
            for _ in range(40):
                play.step()
                play.check()
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
