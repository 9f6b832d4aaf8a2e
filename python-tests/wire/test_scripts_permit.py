"""The scripts of the permit semaphore on a real server, alone and mixed with Redisson's steps."""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.faults import always
from harness.steps.counting import LEASE, NEVER, Subscriber, Hold, JavaPermits, PermitWire, server_ms
from harness.resp import Client, ReplyError
from harness.server import Server, free_port
from harness.waiting import wait_until

pytestmark = pytest.mark.house

WRONG_KIND, GATE_CLOSED = [-1], [-2]
YEAR = 365 * 86_400_000
NAMES: list[str | bytes] = [
    "seats", "shop:{7}:seats", "{x}", "x{y}z", "a b  c ", "new\r\nline", "%d %s %1", b"\xff\xfe\x01",
]  # fmt: skip


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> PermitWire:
    return PermitWire(redis)


@pytest.fixture
def java(redis: Client) -> JavaPermits:
    return JavaPermits(redis)


@pytest.fixture
def subscriber(redis_server: Server, wire: PermitWire) -> Iterator[Subscriber]:
    """A JVM that waits."""
    subscriber = Subscriber(redis_server, wire.channel)
    yield subscriber
    subscriber.redis.close()


def everything(redis: Client) -> dict[bytes, Any]:
    return {key: redis.command("DUMP", key) for key in redis.command("KEYS", "*")}


def taken(reply: Any) -> list[bytes]:
    assert isinstance(reply, list)
    return reply


# ---- acquire


@pytest.mark.parametrize("short, third", [("java", "java"), ("java", "ours"), ("ours", "java"), ("ours", "ours")])
def test_vector_22(wire: PermitWire, java: JavaPermits, subscriber: Subscriber, short: str, third: str) -> None:
    """2 permits: one without lease, one for 400 ms; the third caller gets the time of its end, and the permit after it."""
    if short == "java":
        assert java.change("try_set_permits", 2) == 1
    else:
        assert wire.change("set", 2) == [1, 2]
    start = server_ms(wire.redis)
    taken(java.try_acquire())
    assert taken(java.try_acquire(lease=400)) if short == "java" else wire.acquire(Hold(), lease=400)[0] == 1
    last = Hold()
    if third == "java":
        told = java.try_acquire()
        assert isinstance(told, int) and start + 400 <= told <= start + 5400
        wait_until(lambda: isinstance(java.try_acquire(), list))
    else:
        code, left, foreign = wire.acquire(last)
        assert code == 0 and 0 < left <= 400 and foreign == 1
        wait_until(lambda: wire.acquire(last)[0] == 1)
    assert subscriber.messages() == [b"2", b"1"]
    assert server_ms(wire.redis) >= start + 400 and wire.value() == 0


def test_a_grant_tells_what_is_left(wire: PermitWire) -> None:
    """And when the first lease ends."""
    wire.change("set", 5)
    first, second = wire.whole(Hold(2), 20_000), wire.whole(Hold(3), 30_000)
    assert first[2:4] == [1, 3] and 15_000 < first[4] <= 20_000
    assert second[2:4] == [1, 0] and 15_000 < second[4] <= 20_000


def test_permits_are_redissons(wire: PermitWire, java: JavaPermits) -> None:
    wire.change("set", 4)
    before = server_ms(wire.redis)
    hold = Hold(3)
    code, token = wire.acquire(hold)
    assert code == 1 and token >= before * 1000
    assert int(wire.redis.command("GET", wire.fence)) == token  # one token, however many permits
    assert wire.value() == 1 and set(wire.out()) == set(hold.members())
    assert all(len(member) == 16 for member in wire.out())
    assert all(before + LEASE <= score <= server_ms(wire.redis) + LEASE for score in wire.out().values())
    assert java.change("available_permits") == 1 and java.change("acquired_permits") == 3
    assert java.change("get_permits") == 4
    assert all(LEASE - 5000 < java.lease_time(member) <= LEASE for member in hold.members())
    told = java.try_acquire(2)
    assert isinstance(told, int) and told == min(wire.out().values())
    assert wire.left(wire.name) == wire.left(wire.leases) == -1
    wire.all_ours_end(wire.name, wire.leases)
    assert wire.release(hold) == 1
    assert set(wire.redis.command("KEYS", "*")) == {wire.name, wire.fence, wire.once}


def test_ids_do_not_clash(wire: PermitWire) -> None:
    """Ids of one process and of several, however many permits each has."""
    wire.change("set", 100)
    holds = [Hold(5)]
    for permits in 1, 7, 2, 3:
        holds.append(Hold(permits, after=holds[-1]))
    holds += [Hold(4), Hold(1)]
    for hold in holds:
        assert wire.acquire(hold)[0] == 1
    assert len(wire.out()) == sum(hold.permits for hold in holds) == 100 - (wire.value() or 0)
    big = Hold(1)
    big.number = 2**48 - 1
    big.id = f"{big.uuid}:{big.number}"
    assert wire.acquire(big)[0] == 1 and set(big.members()) <= set(wire.out())


def test_when_to_look_again(wire: PermitWire, java: JavaPermits) -> None:
    assert wire.acquire(Hold()) == [0, -1, 1] and wire.redis.command("KEYS", "*") == []
    wire.redis.command("SET", wire.name, -3)
    assert wire.acquire(Hold()) == [0, -1, 1]
    wire.redis.command("SET", wire.name, 3)
    taken(java.try_acquire())
    assert wire.acquire(Hold(3)) == [0, -1, 1]  # it never ends
    assert wire.acquire(Hold(), lease=50_000)[0] == 1 and wire.acquire(Hold(), lease=40_000)[0] == 1
    code, left, foreign = wire.acquire(Hold())
    assert code == 0 and 35_000 < left <= 40_000 and foreign == 1


def test_the_same_id_gets_the_same_grant_and_no_shorter_lease(wire: PermitWire) -> None:
    wire.change("set", 5)
    holds = [Hold(2), Hold(1), Hold(2)]
    first = [wire.acquire(hold) for hold in holds]
    ends = wire.out()
    wire.redis.command("SET", wire.gate, 1, "PX", 5000)
    assert [wire.acquire(hold, lease=100) for hold in holds] == first  # it holds them, whatever else happens
    assert wire.out() == ends and wire.value() == 0
    assert [wire.acquire(hold, lease=2 * LEASE) for hold in holds] == first
    assert min(wire.out().values()) > server_ms(wire.redis) + LEASE and wire.value() == 0
    assert wire.left(wire.once) <= YEAR


def test_the_token_is_kept_as_long_as_the_lease(wire: PermitWire) -> None:
    wire.redis.command("SET", wire.name, 3)  # as Java: no total is known
    long, short = Hold(), Hold()
    first = wire.acquire(long, lease=500_000)
    wire.acquire(short)
    assert 495_000 < wire.left(wire.once) <= 500_000
    assert wire.acquire(long, lease=500_000) == first
    assert wire.release(short) == 1 and wire.release(long) == 1
    wire.redis.command("DEL", wire.once)
    again = Hold()
    _, token = wire.acquire(again)
    wire.redis.command("DEL", wire.once)  # as if evicted
    code, other = wire.acquire(again)
    assert code == 1 and other > token and wire.acquire(again) == [1, other] and wire.value() == 2


def test_all_that_ended_comes_back(wire: PermitWire, java: JavaPermits, subscriber: Subscriber) -> None:
    """Not only as many as are requested; permits without an end stay out. MOST come back with one call, and all are counted."""
    wire.change("set", 2000)
    java_ids, dead = taken(java.try_acquire(5)), Hold(1990)
    wire.acquire(dead)
    wire.end(*dead.members())
    assert wire.change("count") == [1, 1995] and wire.value() == 1029
    assert wire.acquire(Hold(1))[0] == 1
    assert wire.value() == 1994 and len(wire.out()) == 6 and set(java_ids) < set(wire.out())
    assert subscriber.messages() == [b"2000", b"1029", b"1995"]


def test_ended_permits_are_counted_before_they_come_back(wire: PermitWire) -> None:
    wire.change("set", 4000)
    dead = Hold(3990)
    wire.acquire(dead)
    wire.end(*dead.members())
    assert wire.change("acquired") == [1, 0] and wire.value() == 1034
    assert wire.change("permits") == [1, 4000] and wire.value() == 2058
    assert wire.change("count") == [1, 4000] and wire.change("count") == [1, 4000] and wire.value() == 4000 and not wire.out()


def test_what_comes_back_to_a_debt_is_not_announced(wire: PermitWire, subscriber: Subscriber) -> None:
    wire.change("set", 3)
    first, second = Hold(1), Hold(2)
    wire.acquire(first)
    wire.acquire(second)
    assert wire.change("setpermits", 1) == [1, -2]
    assert subscriber.messages() == [b"3", b"1"]
    assert wire.release(first) == 1
    wire.end(second.members()[0])
    code, left, _ = wire.acquire(Hold())
    assert code == 0 and 0 < left <= LEASE
    assert wire.value() == 0 and subscriber.messages() == []
    wire.end(second.members()[1])
    assert wire.acquire(Hold())[0] == 1 and subscriber.messages() == [b"1"]


def test_own_permits_that_are_there_in_part(wire: PermitWire, java: JavaPermits, subscriber: Subscriber) -> None:
    """Somebody returned one of them. Sent again, the acquire does not count the others twice."""
    wire.change("set", 5)
    hold = Hold(3)
    _, token = wire.acquire(hold)
    assert java.release(hold.members()[1]) == 1
    code, next_token = wire.acquire(hold)
    assert code == 1 and next_token > token and wire.value() == 2 and set(wire.out()) == set(hold.members())
    assert subscriber.messages() == [b"5", b"3", b"2"]
    assert java.release(hold.members()[0]) == 1
    assert java.change("set_permits", 3) is None
    taken(java.try_acquire())
    assert wire.acquire(hold) == [0, -1, 1]
    assert wire.value() == 2 and len(wire.out()) == 1


def test_an_acquire_sent_again_when_its_lease_has_ended(wire: PermitWire) -> None:
    wire.change("set", 2)
    hold = Hold(2)
    _, token = wire.acquire(hold)
    wire.end(*hold.members())
    code, next_token = wire.acquire(hold)
    assert code == 1 and next_token > token and wire.value() == 0
    assert wire.acquire(hold) == [1, next_token]


def test_leases_last_as_long_as_the_count(wire: PermitWire, java: JavaPermits) -> None:
    """Trap 17: a command that drops the TTL of the count must not leave one on the leases; their expiry would take permits along."""
    wire.redis.command("SET", wire.name, 5, "PX", 50_000)
    first = Hold()
    wire.acquire(first)
    assert 45_000 < wire.left(wire.leases) <= 50_000
    assert wire.change("add", 1) == [1, 5]
    assert wire.left(wire.name) == wire.left(wire.leases) == -1
    wire.redis.command("PEXPIRE", wire.name, 50_000)
    taken(java.try_acquire())
    assert wire.left(wire.leases) > 0
    java.change("add_permits", 1)
    assert wire.left(wire.name) == -1 and wire.left(wire.leases) > 0  # Redisson leaves it so
    assert wire.acquire(Hold())[0] == 1 and wire.left(wire.leases) == -1


# ---- release


@pytest.mark.parametrize("permits", [1, 3])
def test_release(wire: PermitWire, subscriber: Subscriber, permits: int) -> None:
    """Redisson's payloads (trap 15): the new count for one, the number for more."""
    wire.change("set", 5)
    hold = Hold(permits)
    wire.acquire(hold)
    assert wire.release(hold) == 1
    assert [wire.release(hold) for _ in range(3)] == [0, 0, 0]
    assert wire.value() == 5 and wire.out() == {}
    assert not wire.redis.command("HEXISTS", wire.once, hold.id)
    assert subscriber.messages() == [b"5", b"5" if permits == 1 else b"3"]


@pytest.mark.parametrize("permits", [1, 3])
def test_release_after_the_end_returns_the_permits_and_says_no(wire: PermitWire, subscriber: Subscriber, permits: int) -> None:
    """Trap 18."""
    wire.change("set", 3)
    hold = Hold(permits)
    wire.acquire(hold)
    wire.end(hold.members()[-1])
    assert wire.release(hold) == 0
    assert wire.value() == 3 and wire.out() == {}
    assert wire.release(hold) == 0 and wire.value() == 3
    assert subscriber.messages() == [b"3", b"3"]


def test_release_of_what_is_there_in_part(wire: PermitWire, java: JavaPermits, subscriber: Subscriber) -> None:
    wire.change("set", 3)
    hold = Hold(3)
    wire.acquire(hold)
    assert java.release(hold.members()[2]) == 1
    assert wire.release(hold) == 0 and wire.value() == 3 and wire.out() == {}
    assert subscriber.messages() == [b"3", b"1", b"2"]


def test_undo_of_an_acquire_with_unknown_outcome(wire: PermitWire) -> None:
    wire.change("set", 2)
    came, never_came = Hold(2), Hold(2)
    wire.acquire(came)
    assert wire.release(came) == 1 and wire.release(never_came) == 0 and wire.release(came) == 0
    assert wire.value() == 2 and wire.out() == {}


def test_release_with_a_rest(wire: PermitWire, subscriber: Subscriber) -> None:
    """Minimum hold: the permits stay out for that time; waiters that sleep for longer are woken."""
    wire.change("set", 2)
    hold = Hold(2)
    first = wire.acquire(hold)
    subscriber.messages()
    assert wire.release(hold, rest=500) == 1
    assert wire.value() == 0 and max(wire.out().values()) <= server_ms(wire.redis) + 500
    assert wire.release(hold, rest=300) == 1 and wire.value() == 0 and subscriber.messages() == [b"2", b"2"]
    assert first[0] == 1
    wait_until(lambda: wire.acquire(Hold())[0] == 1)
    assert subscriber.messages() == [b"2"] and wire.value() == 1
    assert wire.release(hold, rest=300) == 0 and wire.value() == 1


# ---- renew


def test_renew_only_makes_longer(wire: PermitWire, java: JavaPermits) -> None:
    wire.change("set", 4)
    hold = Hold(3)
    first = wire.acquire(hold)
    before = wire.out()
    assert wire.renew((hold, 100)) == [1] and wire.out() == before
    assert wire.renew((hold, 2 * LEASE)) == [1]
    assert min(wire.out().values()) > server_ms(wire.redis) + LEASE
    wire.redis.command("ZADD", wire.leases, NEVER, hold.members()[1])
    assert wire.renew((hold, 3 * LEASE)) == [1]
    ends = wire.out()
    assert ends[hold.members()[1]] == NEVER and min(ends.values()) > server_ms(wire.redis) + 2 * LEASE
    assert wire.acquire(hold) == first and wire.value() == 1


def test_renew_says_no_and_leaves_all(wire: PermitWire, java: JavaPermits) -> None:
    """When a lease has ended, when one was returned, when nothing was taken."""
    wire.change("set", 9)
    ended, partly, absent, released = Hold(2), Hold(2), Hold(), Hold()
    for hold in ended, partly, released:
        wire.acquire(hold)
    wire.end(ended.members()[0])
    java.release(partly.members()[0])
    wire.release(released)
    before = everything(wire.redis)
    assert wire.renew(*((hold, 2 * LEASE) for hold in (ended, partly, absent, released))) == [0, 0, 0, 0]
    assert everything(wire.redis) == before


def test_renew_tells_each_from_each(redis: Client) -> None:
    wires = [PermitWire(redis, f"held:{number}") for number in range(64)]
    holds = [Hold(1 + number % 3) for number in range(64)]
    for wire, hold in zip(wires, holds):
        wire.change("set", 3)
        wire.acquire(hold)
    redis.command("DEL", wires[7].leases)
    redis.command("SET", wires[8].leases, "text")
    redis.command("ZREM", wires[9].leases, holds[9].members()[0])
    keys = [key for wire in wires for key in (wire.name, wire.leases)]
    rows = [word for hold in holds for word in (hold.id, 2 * LEASE, hold.permits)]
    assert wires[0].run("permit_renew", *rows, keys=keys) == [0 if number in (7, 8, 9) else 1 for number in range(64)]
    assert min(wires[63].out().values()) > server_ms(redis) + LEASE
    assert redis.command("GET", wires[8].leases) == b"text" and not redis.command("EXISTS", wires[7].leases)


# ---- change


def test_changes(wire: PermitWire, subscriber: Subscriber) -> None:
    assert wire.change("permits") == wire.change("count") == wire.change("acquired") == [1, 0]
    assert wire.redis.command("KEYS", "*") == []
    assert wire.change("set", 3) == [1, 3] and wire.change("set", 5) == [0, 3]
    hold = Hold(2)
    wire.acquire(hold)
    assert wire.change("count") == [1, 1] and wire.change("acquired") == [1, 2] and wire.change("permits") == [1, 3]
    assert wire.change("setpermits", 3) == [1, 1] and subscriber.messages() == [b"3"]
    assert wire.change("setpermits", 7) == [1, 5] and wire.change("permits") == [1, 7]
    assert wire.change("setpermits", 1) == [1, -1] and wire.change("permits") == [1, 1]
    assert wire.change("add", 2) == [1, 1] and wire.change("add", -2) == [1, -1]
    assert subscriber.messages() == [b"7", b"1", b"2"]
    wire.redis.command("DEL", wire.name)
    assert wire.change("permits") == [1, 1] and wire.change("acquired") == [1, 2] and wire.value() == -1
    assert wire.change("setpermits", 4) == [1, 2] and subscriber.messages() == [b"4"]


@pytest.mark.parametrize("what, then", [("count", 3), ("acquired", 1), ("permits", 4)])
def test_looking_returns_what_has_ended(wire: PermitWire, subscriber: Subscriber, what: str, then: int) -> None:
    wire.change("set", 4)
    dead, living = Hold(2), Hold(1)
    wire.acquire(dead)
    wire.acquire(living)
    wire.end(*dead.members())
    assert wire.change(what) == [1, then]
    assert wire.value() == 3 and subscriber.messages() == [b"4", b"3"]


@pytest.mark.parametrize(
    "what, number, then", [("set", 4, [1, 4]), ("setpermits", 4, [1, 4]), ("add", 3, [1, 3]), ("add", -3, [1, -3])]
)
def test_a_change_sent_twice_is_once(wire: PermitWire, subscriber: Subscriber, what: str, number: int, then: list[int]) -> None:
    request = Hold()
    assert wire.change(what, number, request) == then
    subscriber.messages()
    before = everything(wire.redis)
    assert [wire.change(what, number, request) for _ in range(3)] == [then] * 3
    assert everything(wire.redis) == before and subscriber.messages() == []
    wire.change("add", 100)
    assert wire.change(what, number, request) == then and wire.value() == then[1] + 100
    assert YEAR - 5000 < wire.left(wire.once) <= YEAR  # the total stays there


def test_what_changes_nothing_is_not_kept(wire: PermitWire) -> None:
    wire.redis.command("SET", wire.name, 3)
    for what, number in ("count", 0), ("acquired", 0), ("permits", 0), ("set", 9), ("setpermits", 3):
        wire.change(what, number)
    assert wire.redis.command("KEYS", "*") == [wire.name]


# ---- two names, one key: k and {k} share {k}:timeout in Redisson's layout


@pytest.mark.parametrize("dies, lives", [("k", "{k}"), ("{k}", "k")])
def test_an_ended_permit_goes_back_to_its_own_name(redis: Client, dies: str, lives: str) -> None:
    """Whoever finds it. Neither name ever has more holders than permits."""
    theirs, mine = PermitWire(redis, dies), PermitWire(redis, lives)
    assert theirs.change("set", 1) == [1, 1] and mine.change("set", 1) == [1, 1]
    dead, first, second = Hold(), Hold(), Hold()
    assert theirs.leases == mine.leases and theirs.acquire(dead)[0] == 1 and mine.acquire(first)[0] == 1
    assert set(mine.out()) == {*dead.members(dies), *first.members(lives)}
    mine.end(*dead.members(dies))
    assert mine.acquire(second)[0] == 0 and (mine.value(), theirs.value()) == (0, 1)
    assert theirs.acquire(Hold())[0] == 1 and mine.renew((first, LEASE)) == [1]
    assert mine.change("acquired") == theirs.change("acquired") == [1, 1]
    assert mine.change("permits") == theirs.change("permits") == [1, 1]
    assert mine.change("setpermits", 3) == [1, 2] and theirs.change("setpermits", 2) == [1, 1]


def test_the_end_of_one_name_is_not_that_of_the_other(redis: Client) -> None:
    short, long = PermitWire(redis, "k"), PermitWire(redis, "{k}")
    short.change("set", 1)
    long.change("set", 1)
    redis.command("PEXPIRE", "k", 50_000)
    assert short.acquire(Hold())[0] == 1 and short.left(short.leases) == -1
    assert long.acquire(Hold())[0] == 1 and long.left(long.leases) == -1


@pytest.mark.parametrize("name", ["k", "{k}", "x{y}", "{x}{y}", "{}", "a}b"])
def test_only_one_pair_of_braces_is_marked(redis: Client, name: str) -> None:
    wire, hold = PermitWire(redis, name), Hold(2)
    wire.change("set", 2)
    assert wire.acquire(hold)[0] == 1 and set(wire.out()) == set(hold.members(name))
    assert (hold.members(name) != hold.members()) == (name == "{k}")


# ---- clocks of Java hosts


@pytest.mark.parametrize("fast, taken_away", [(LEASE - 5000, False), (LEASE + 1000, True)])
def test_how_fast_a_clock_of_javas_may_be(wire: PermitWire, fast: int, taken_away: bool) -> None:
    """The limit that docs/kinds.md states. A holder whose permit was taken away hears it with its next renewal."""
    java, hold = JavaPermits(wire.redis, fast_ms=fast), Hold()
    wire.change("set", 1)
    assert wire.acquire(hold)[0] == 1
    assert isinstance(java.try_acquire(lease=LEASE), list) == taken_away
    assert wire.renew((hold, LEASE)) == [0 if taken_away else 1]


# ---- keys that the server lost


def test_a_lost_count_comes_back(wire: PermitWire, java: JavaPermits) -> None:
    """By any call, while permits are out. Never are there more holders than permits."""
    for heal in (
        lambda: wire.change("set", 9) == [0, 2], lambda: wire.acquire(Hold())[0] == 1, lambda: wire.change("count") == [1, 2],
        lambda: wire.release(Hold()) == 0,
    ):  # fmt: skip
        wire.redis.command("FLUSHALL")
        wire.change("set", 4)
        hold, other = Hold(1), Hold(1)
        wire.acquire(hold)
        wire.acquire(other)
        wire.redis.command("DEL", wire.name)
        assert heal() and wire.change("permits") == [1, 4]
        assert wire.release(hold) == wire.release(other) == 1 and wire.change("permits") == [1, 4]


def test_a_lost_count_of_an_unknown_total_is_set_anew(wire: PermitWire, java: JavaPermits) -> None:
    """Those that are out count: Redisson alone would have 4 holders of 2."""
    java.change("try_set_permits", 2)
    assert wire.acquire(Hold(2))[0] == 1
    wire.redis.command("DEL", wire.name)
    assert wire.change("set", 2) == [1, 0] and wire.acquire(Hold())[0] == 0 and wire.change("permits") == [1, 2]


def test_a_deleted_semaphore_stays_deleted(wire: PermitWire) -> None:
    """When nobody holds, the count alone is the semaphore, as Redisson deletes it."""
    wire.change("set", 2)
    wire.redis.command("DEL", wire.name)
    assert wire.acquire(Hold())[0] == 0 and wire.change("reclaim") == [1, 0] and wire.value() is None
    assert wire.change("set", 3) == [1, 3] and wire.change("permits") == [1, 3]


def test_lost_leases_are_reclaimed_when_no_holder_can_believe_in_them(wire: PermitWire, subscriber: Subscriber) -> None:
    wire.change("set", 3)
    lost, other = Hold(2), Hold(1)
    wire.acquire(lost, lease=60_000)
    wire.redis.command("DEL", wire.leases)
    assert wire.renew((lost, LEASE)) == [0] and wire.acquire(other)[0] == 1
    assert wire.acquire(Hold())[0] == 0  # a waiter notes that permits are missing
    gap, since = wire.redis.command("HGET", wire.once, "?").split()
    assert gap == b"2" and wire.change("reclaim", 0) == [1, 0]

    def later(ms: int) -> None:
        wire.redis.command("HSET", wire.once, "?", f"2 {int(since) - ms}")

    later(59_000)  # the longest lease is 60 s
    assert wire.change("reclaim", 0) == [1, 0] and wire.value() == 0
    later(70_000)
    assert wire.change("reclaim", 30_000) == [1, 0]
    later(95_000)
    subscriber.messages()
    assert wire.change("reclaim", 30_000) == [1, 2] and subscriber.messages() == [b"2"]
    assert wire.change("reclaim", 0) == [1, 0] and wire.change("permits") == [1, 3] and wire.release(lost) == 0
    assert wire.value() == 2 and wire.release(other) == 1 and wire.change("count") == [1, 3]


def test_losses_of_our_own_keys_cost_nothing(wire: PermitWire) -> None:
    wire.change("set", 2)
    hold = Hold()
    wire.acquire(hold)
    for key in wire.once, wire.turns, wire.fence, wire.gate:
        wire.redis.command("DEL", key)
    assert wire.renew((hold, LEASE)) == [1] and wire.change("permits") == [1, 2]
    assert wire.release(hold) == 1 and wire.change("count") == [1, 2]


# ---- mixed with Redisson



def test_either_side_takes_what_the_other_left(wire: PermitWire, java: JavaPermits, subscriber: Subscriber) -> None:
    assert java.change("try_set_permits", 3) == 1
    hold = Hold(2)
    wire.acquire(hold)
    java_id = taken(java.try_acquire(lease=LEASE))[0]
    code, left, _ = wire.acquire(Hold())
    assert code == 0 and LEASE - 5000 < left <= LEASE
    assert isinstance(java.try_acquire(), int)
    assert java.release(java_id) == 1 and java.release(java_id) == 0
    other = Hold()
    assert wire.acquire(other)[0] == 1
    assert java.release(*hold.members()) == 2  # a list of ours
    assert wire.release(hold) == 0 and wire.value() == 2
    wire.end(*other.members())
    assert java.change("available_permits") == 3 and wire.release(other) == 0
    assert subscriber.messages() == [b"3", b"1", b"2", b"3"]


def test_our_dead_are_reclaimed_by_java(wire: PermitWire, java: JavaPermits) -> None:
    wire.change("set", 1)
    dead = Hold()
    wire.acquire(dead, lease=30)
    wait_until(lambda: isinstance(java.try_acquire(), list))
    assert wire.release(dead) == 0 and wire.renew((dead, LEASE)) == [0] and wire.value() == 0


def test_java_makes_our_lease_longer(wire: PermitWire, java: JavaPermits) -> None:
    wire.change("set", 1)
    hold = Hold()
    wire.acquire(hold)
    assert java.update_lease(hold.members()[0], 3 * LEASE) == 1
    assert wire.renew((hold, LEASE)) == [1] and java.lease_time(hold.members()[0]) > 2 * LEASE


# ---- gate, other kinds, names


def test_a_closed_gate(wire: PermitWire) -> None:
    wire.change("set", 3)
    held, late = Hold(), Hold()
    wire.acquire(held)
    wire.redis.command("SET", wire.gate, 1, "PX", 5000)
    before = everything(wire.redis)
    assert wire.acquire(late) == GATE_CLOSED and everything(wire.redis) == before
    assert wire.renew((held, LEASE)) == [1] and wire.release(held) == 1
    wire.redis.command("DEL", wire.gate)
    assert wire.acquire(late)[0] == 1


@pytest.mark.parametrize(
    "make",
    [
        ["HSET", "seats", "a", "1"], ["ZADD", "seats", "1", "a"], ["SET", "seats", "three"], ["SET", "seats", "1.5"],
        ["SET", "{seats}:timeout", "1"], ["HSET", "{seats}:timeout", "a", "1"], ["RPUSH", "{seats}:timeout", "a"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_kinds_are_refused_and_untouched(wire: PermitWire, subscriber: Subscriber, make: list[str]) -> None:
    wire.redis.command(*make)
    before = everything(wire.redis)
    assert wire.acquire(Hold(2)) == WRONG_KIND
    assert wire.release(Hold(2)) == -1 and wire.release(Hold()) == -1 and wire.release(Hold(), rest=100) == -1
    assert wire.renew((Hold(), LEASE)) == [0]
    for what in "set", "setpermits", "add", "count", "acquired", "permits":
        assert wire.change(what, 1) == WRONG_KIND
    assert everything(wire.redis) == before and subscriber.messages() == []


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_any_name(redis: Client, redis_server: Server, name: str | bytes) -> None:
    wire, java, hold = PermitWire(redis, name), JavaPermits(redis, name), Hold(2)
    subscriber = Subscriber(redis_server, wire.channel)
    assert wire.change("set", 3) == [1, 3] and wire.acquire(hold)[0] == 1
    taken(java.try_acquire(lease=LEASE))
    assert wire.acquire(Hold())[0] == 0 and wire.renew((hold, LEASE)) == [1]
    assert wire.release(hold) == 1 and wire.change("add", 1) == [1, 3]
    assert subscriber.messages() == [b"3", b"2", b"1"]
    wire.all_ours_end(wire.name, wire.leases)
    assert set(redis.command("KEYS", "*")) <= {wire.name, wire.fence, wire.leases, wire.once}
    subscriber.redis.close()


# ---- the server


def test_a_full_server_takes_permits_back_and_renews(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory", "12mb", "--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire = PermitWire(redis)
        subscriber = Subscriber(server, wire.channel)
        wire.change("set", 8)
        one, more, ended, rested, partly = Hold(1), Hold(3), Hold(1), Hold(1), Hold(2)
        first = [wire.acquire(hold) for hold in (one, more, ended, rested, partly)]
        wire.redis.command("ZREM", wire.leases, partly.members()[0])
        wire.end(*ended.members())
        assert wire.renew((Hold(), LEASE)) == [0] and wire.release(Hold()) == 0  # the server has every script now
        with pytest.raises(ReplyError, match="OOM"):
            for number in range(1000):
                redis.command("SET", f"fill:{number}", "x" * 100_000)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        before = everything(redis)
        for what in "add", "setpermits":
            with pytest.raises(ReplyError, match="OOM"):
                wire.change(what, 90)
        assert everything(redis) == before  # refused as a whole
        assert wire.renew((one, 2 * LEASE), (more, 2 * LEASE), (ended, LEASE)) == [1, 1, 0]
        assert wire.out()[more.members()[2]] > server_ms(redis) + LEASE
        assert wire.acquire(more) == first[1]
        assert wire.release(rested, rest=60_000) == 1
        assert [wire.release(hold) for hold in (ended, one, more, partly)] == [0, 1, 1, 0]
        assert wire.value() == 6 and subscriber.messages() == [b"8", b"1", b"1", b"2", b"3", b"6"]
        before = everything(redis)
        with pytest.raises(ReplyError, match="OOM"):
            wire.acquire(Hold(2))
        assert everything(redis) == before
        redis.command("CONFIG", "SET", "maxmemory", "0")
        wire.end(*rested.members())
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        assert wire.change("count") == [1, 7] and subscriber.messages() == [b"7"]
        subscriber.redis.close()


def test_all_keys_are_declared_and_in_one_slot(new_server: Callable[..., Server]) -> None:
    server = new_server("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
    with server.client() as redis:
        for name in NAMES:
            wire, hold, dead = PermitWire(redis, name), Hold(2), Hold(1)
            assert wire.change("set", 2) == [1, 2] and wire.change("setpermits", 3) == [1, 3]
            assert wire.change("add", 1) == [1, 4]
            assert wire.acquire(hold)[0] == 1 and wire.acquire(dead)[0] == 1 and wire.acquire(Hold(2))[0] == 0
            wire.end(*dead.members(name))
            assert wire.renew((hold, LEASE)) == [1] and wire.change("permits") == [1, 4]
            assert wire.release(hold, rest=1000) == 1 and wire.release(hold) == 1
            assert len({redis.command("CLUSTER", "KEYSLOT", key) for key in (*wire.keys, wire.channel)}) == 1


# ---- any order, against a model

LIVE, ENDED, FOREVER = "live", "ended", "for ever"


class Model:
    """The state of a permit semaphore."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.out: dict[bytes, str] = {}
        self.heard: list[bytes] = []
        self.tokens: dict[str, int] = {}

    def tell(self, number: int, reason: int = 1) -> None:
        """Ours send nothing when nothing can be had; Redisson does."""
        if reason > 0:
            self.heard.append(b"%d" % number)

    def reclaim(self, most: int | None = None) -> None:
        ended = sorted(member for member, state in self.out.items() if state == ENDED)[:most]
        for member in ended:
            del self.out[member]
        if ended:
            self.left = (self.left or 0) + len(ended)
            self.tell(self.left, self.left)

    def whole(self, members: list[bytes]) -> bool:
        return all(self.out.get(member, ENDED) != ENDED for member in members)

    def give_back(self, members: list[bytes]) -> None:
        there = [member for member in members if self.out.pop(member, None)]
        if there:
            self.left = (self.left or 0) + len(there)
            self.tell(self.left if len(there) == 1 else len(there), self.left)

    def take(self, members: list[bytes], state: str) -> bool:
        if (self.left or 0) < len(members):
            return False
        assert self.left is not None
        self.left -= len(members)
        self.out |= dict.fromkeys(members, state)
        return True

    def acquire(self, hold: Hold, gate: bool) -> Any:
        """The reply; None for a new grant; "later" for an acquire that may have to wait."""
        self.reclaim()
        if self.whole(hold.members()):
            return [1, self.tokens[hold.id]]
        if gate:
            return GATE_CLOSED
        self.give_back(hold.members())
        return None if self.take(hold.members(), LIVE) else "later"

    def release(self, hold: Hold, rest: int) -> int:
        whole = self.whole(hold.members())
        if not (whole and rest):
            self.give_back(hold.members())
        elif rest:
            self.out |= dict.fromkeys(hold.members(), LIVE)
            self.heard.append(b"%d" % len(hold.members()))
        return int(whole)

    def change(self, what: str, number: int, java: bool = False) -> list[int]:
        if what in ("count", "acquired", "permits"):
            self.reclaim()
            sums = {"count": self.left or 0, "acquired": len(self.out), "permits": (self.left or 0) + len(self.out)}
            return [1, 0 if what == "permits" and self.left is None else sums[what]]
        if what == "add" or self.left is None:
            self.left = (self.left or 0) + number
            self.tell(number, number if what == "add" or not java else 1)
        elif what == "set":
            return [0, self.left]
        elif number != self.left + len(self.out):
            self.left = number - len(self.out)
            self.tell(number, number if not java else 1)
        return [1, self.left]

    def java_acquire(self, members: list[bytes], state: str) -> bool:
        self.reclaim(len(members))
        return self.take(members, state)

    def java_release(self, members: list[bytes]) -> int:
        if len(members) > 1:
            if not self.whole(members):
                return 0
            self.reclaim()
            for member in members:
                del self.out[member]
            self.left = (self.left or 0) + len(members)
            self.tell(len(members))
            return len(members)
        state = self.out.pop(members[0], None)
        if state:
            self.left = (self.left or 0) + 1
            self.tell(self.left)
        return int(state in (LIVE, FOREVER))


CHANGES = ["set", "setpermits", "add", "count", "acquired", "permits"]
JAVA_NAMES = {
    "set": "try_set_permits", "setpermits": "set_permits", "add": "add_permits", "count": "available_permits",
    "acquired": "acquired_permits", "permits": "get_permits",
}  # fmt: skip


class Play:
    """One random run."""

    def __init__(self, seed: int, wire: PermitWire, java: JavaPermits, subscriber: Subscriber) -> None:
        self.random = random.Random(seed)
        self.wire, self.java, self.subscriber = wire, java, subscriber
        self.model = Model()
        self.gate = False
        self.held: list[Hold] = []
        self.gone: list[Hold] = []  # released, or undone
        self.javas: list[list[bytes]] = []
        self.requests: list[tuple[str, int, Hold, list[int]]] = []
        self.last_token = 0

    def acquire(self, hold: Hold) -> None:
        expected, reply = self.model.acquire(hold, self.gate), self.wire.acquire(hold)
        if expected == "later":
            assert reply[0] == 0 and reply[2] == 1
            assert 0 < reply[1] <= LEASE if LIVE in self.model.out.values() else reply[1] == -1
        elif expected is not None:
            assert reply == expected
        else:
            assert reply[0] == 1 and reply[1] > self.last_token
            self.model.tokens[hold.id] = reply[1]
            self.last_token = reply[1] + hold.permits - 1
            if hold not in self.held:
                self.held.append(hold)

    def release(self, hold: Hold, rest: int = 0) -> None:
        assert self.wire.release(hold, self.random.randint(0, 1), rest) == self.model.release(hold, rest)

    def change(self) -> None:
        what, number, request = self.random.choice(CHANGES), self.random.randint(-2, 5), Hold()
        if what != "add":
            number = abs(number)
        if self.random.random() < 0.4:
            reply = self.java.change(JAVA_NAMES[what], number)
            _, expected = self.model.change(what, number, java=True)
            assert reply in (None, 0, 1) if what in ("set", "setpermits", "add") else reply == expected
            return
        before = self.model.left
        reply = self.wire.change(what, number, request)
        assert reply == self.model.change(what, number)
        if what in ("set", "setpermits", "add") and (self.model.left != before or what == "add"):
            self.requests.append((what, number, request, reply))

    def java_acquire(self) -> None:
        permits, lease = self.random.randint(1, 3), self.random.choice([None, LEASE])
        reply = self.java.try_acquire(permits, lease)
        if isinstance(reply, list):
            assert self.model.java_acquire(reply, FOREVER if lease is None else LIVE)
            self.javas.append(reply)
        else:
            assert not self.model.java_acquire([b"?"] * permits, LIVE)

    def end_some(self) -> None:
        living = sorted(member for member, state in self.model.out.items() if state == LIVE)
        for member in self.random.sample(living, min(len(living), self.random.randint(1, 2))):
            self.model.out[member] = ENDED
            self.wire.end(member)

    def step(self) -> None:
        toss = self.random.random()
        if toss < 0.20:
            self.acquire(Hold(self.random.randint(1, 3)))
        elif toss < 0.28 and self.held:
            self.acquire(self.random.choice(self.held))
        elif toss < 0.40 and self.held:
            hold = self.held.pop(self.random.randrange(len(self.held)))
            self.release(hold, self.random.choice([0, 0, 20_000]))
            self.gone.append(hold)
        elif toss < 0.45 and self.gone:
            self.release(self.random.choice(self.gone))
        elif toss < 0.52:
            holds = self.held + self.gone[-3:] + [Hold()]
            said = self.wire.renew(*((hold, self.random.choice([10, LEASE])) for hold in holds))
            assert said == [int(self.model.whole(hold.members())) for hold in holds]
        elif toss < 0.64:
            self.change()
        elif toss < 0.68 and self.requests:
            what, number, request, reply = self.random.choice(self.requests)
            assert self.wire.change(what, number, request) == reply
        elif toss < 0.70:
            self.gate = not self.gate
            self.wire.set_gate(self.gate)
        elif toss < 0.78:
            self.end_some()
        elif toss < 0.90:
            self.java_acquire()
        else:
            ids = [hold.members() for hold in self.held] if toss > 0.98 else self.javas
            if ids:
                one = self.random.choice(ids)
                some = self.random.sample(one, self.random.randint(1, len(one)))
                assert self.java.release(*some) == self.model.java_release(some)

    def check(self) -> None:
        assert self.wire.value() == self.model.left
        states = {0: ENDED, NEVER: FOREVER}
        assert {member: states.get(score, LIVE) for member, score in self.wire.out().items()} == self.model.out
        assert self.subscriber.messages() == self.model.heard
        self.model.heard = []

    def end(self) -> None:
        """All return what they hold: the permits are as many as were put in."""
        total = (self.model.left or 0) + len(self.model.out)
        for hold in self.held + self.gone:
            self.release(hold)
        for ids in self.javas:
            for one in ids:
                self.java.release(one)
        assert (self.wire.value() or 0) == total and self.wire.out() == {}
        self.wire.all_ours_end(self.wire.name)


@pytest.mark.parametrize("part", always(0, full=range(1, 4)))
def test_any_order(wire: PermitWire, java: JavaPermits, subscriber: Subscriber, part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        wire.redis.command("FLUSHDB")
        play = Play(seed, wire, java, subscriber)
        try:
            for _ in range(50):
                play.step()
                play.check()
            play.end()
            subscriber.messages()
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
