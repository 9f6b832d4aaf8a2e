"""The scripts of the semaphore on a real server, alone and mixed with Redisson's steps."""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.faults import always
from harness.steps.counting import LEASE, Subscriber, Hold, JavaSemaphore, SemaphoreWire, server_ms
from harness.resp import Client, ReplyError
from harness.server import Server, free_port
from harness.waiting import wait_until

pytestmark = pytest.mark.house

DAY = 86_400_000
NOT_NOW, NEVER, WRONG_KIND, GATE_CLOSED = [0, -1, 1], [0, 0, 2], [-1], [-2]
NAMES: list[str | bytes] = [
    "seats", "shop:{7}:seats", "{x}", "x{y}z", "a b  c ", "new\r\nline", "*?[a-z]\\", "%d %s %1", "Schloß €",
    b"\xff\xfe\x01",
]  # fmt: skip


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> SemaphoreWire:
    return SemaphoreWire(redis)


@pytest.fixture
def java(redis: Client) -> JavaSemaphore:
    return JavaSemaphore(redis)


@pytest.fixture
def subscriber(redis_server: Server, wire: SemaphoreWire) -> Iterator[Subscriber]:
    """A JVM that waits."""
    subscriber = Subscriber(redis_server, wire.channel)
    yield subscriber
    subscriber.redis.close()


def everything(redis: Client) -> dict[bytes, Any]:
    return {key: redis.command("DUMP", key) for key in redis.command("KEYS", "*")}


# ---- acquire and release


@pytest.mark.parametrize("by", ["ours", "java"])
def test_vector_21(wire: SemaphoreWire, java: JavaSemaphore, subscriber: Subscriber, by: str) -> None:
    """Set 3, acquire 2, release 2: 3; 1; value 3, message 3. Each side sees the same, whichever side does it."""
    hold = Hold(2)
    if by == "ours":
        assert wire.change("set", 3) == [1, 3]
    else:
        assert java.call("try_set_permits", 3) == 1
    assert wire.redis.command("GET", wire.name) == b"3" and wire.left(wire.name) == -1
    assert wire.acquire(hold)[0] == 1 if by == "ours" else java.call("try_acquire", 2) == 1
    assert wire.value() == 1
    assert wire.release(hold) == 1 if by == "ours" else java.call("release", 2) == 1
    assert wire.redis.command("GET", wire.name) == b"3" and wire.left(wire.name) == -1
    assert subscriber.messages() == [b"3", b"3"]


def test_a_grant_tells_what_is_left(wire: SemaphoreWire) -> None:
    wire.change("set", 5)
    assert [wire.whole(Hold(permits))[2:] for permits in (2, 3)] == [[1, 3], [1, 0]]


def test_acquire_and_its_token(wire: SemaphoreWire) -> None:
    before = server_ms(wire.redis) * 1000
    wire.change("set", 3)
    hold, other, third = Hold(2), Hold(1), Hold(1)
    code, token = wire.acquire(hold)
    assert code == 1 and token >= before
    assert int(wire.redis.command("GET", wire.fence)) == token  # one token, however many permits
    code, next_token = wire.acquire(other)
    assert code == 1 and next_token > token
    assert wire.acquire(third) == NOT_NOW and wire.value() == 0
    assert DAY - 5000 < wire.left(wire.taken) <= 365 * DAY and DAY - 5000 < wire.left(wire.fence) <= 30 * DAY
    assert wire.redis.command("ZRANGE", wire.taken, 0, -1) == [hold.id.encode(), other.id.encode(), b"2 " + hold.id.encode()]
    wire.all_ours_end(wire.name)
    assert wire.release(hold) == 1 and wire.release(other) == 1
    assert set(wire.redis.command("KEYS", "*")) == {wire.name, wire.fence, wire.once}
    assert wire.value() == 3


def test_tokens_only_rise_and_stay_below_2_to_the_53(wire: SemaphoreWire) -> None:
    wire.change("set", 1000)
    wire.redis.command("SET", wire.fence, 2**52)
    hold = Hold(100)
    assert wire.acquire(hold) == [1, 2**52 + 1]
    assert wire.left(wire.fence) == -1  # it had no expiry: Redisson's own
    assert wire.acquire(Hold()) == [1, 2**52 + 2]
    assert wire.acquire(hold) == [1, 2**52 + 1]
    assert wire.redis.command("ZSCORE", wire.taken, hold.id) == b"%d" % (2**52 + 1)
    wire.redis.command("SET", wire.fence, "nonsense", "PX", 5000)
    code, token = wire.acquire(Hold())
    assert code == 1 and int(wire.redis.command("GET", wire.fence)) == token and wire.left(wire.fence) > DAY - 5000


def test_too_few_permits(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    assert wire.acquire(Hold()) == NOT_NOW  # no key means no permits
    assert wire.redis.command("KEYS", "*") == []
    for left in 2, 0, -5:
        wire.redis.command("SET", wire.name, left)
        assert wire.acquire(Hold(3)) == NOT_NOW and wire.value() == left
    wire.change("add", 8)
    assert wire.acquire(Hold(3))[0] == 1 and wire.value() == 0
    assert subscriber.messages() == [b"3"]


def test_the_same_id_gets_the_same_grant(wire: SemaphoreWire) -> None:
    wire.change("set", 5)
    holds = [Hold(2), Hold(1), Hold(2)]
    first = [wire.acquire(hold) for hold in holds]
    for _ in range(3):
        assert [wire.acquire(hold) for hold in holds] == first and wire.value() == 0
    wire.redis.command("SET", wire.gate, 1, "PX", 5000)
    assert [wire.acquire(hold) for hold in holds] == first  # it holds them, whatever else happens


def test_release_sent_twice_is_once(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    wire.change("set", 5)
    hold, other = Hold(2), Hold(1)
    wire.acquire(hold)
    wire.acquire(other)
    assert wire.release(hold) == 1
    assert [wire.release(hold) for _ in range(3)] == [0, 0, 0]
    assert wire.value() == 4
    assert subscriber.messages() == [b"5", b"4"]
    assert wire.release(other) == 1 and wire.value() == 5


def test_undo_of_an_acquire_with_unknown_outcome(wire: SemaphoreWire) -> None:
    wire.change("set", 2)
    came, never_came = Hold(2), Hold(2)
    wire.acquire(came)
    assert wire.release(came) == 1 and wire.release(never_came) == 0
    assert wire.value() == 2


def test_an_acquire_that_comes_behind_its_undo_takes_nothing(wire: SemaphoreWire) -> None:
    wire.change("set", 2)
    late = Hold(1)
    assert wire.release(late, doubt=1) == 0
    assert wire.acquire(late) == NEVER and wire.value() == 2
    assert wire.acquire(Hold(1, after=late))[0] == 1


def test_a_release_in_doubt_bars_the_acquire_that_may_follow(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    wire.change("set", 3)
    hold = Hold(2)
    wire.acquire(hold)
    assert wire.release(hold, doubt=1) == 1 and wire.value() == 3
    assert wire.acquire(hold) == NEVER and wire.value() == 3
    assert wire.release(hold) == 0 and wire.value() == 3
    assert subscriber.messages() == [b"3", b"3"]


def test_records_of_the_dead_do_not_stay(wire: SemaphoreWire) -> None:
    wire.change("set", 10)
    dead, living = [Hold() for _ in range(3)], Hold()
    for hold in dead:
        wire.acquire(hold)
        wire.redis.command("ZADD", wire.taken, (server_ms(wire.redis) - 366 * DAY) * 1000, hold.id)
    wire.redis.command("ZADD", wire.taken, (server_ms(wire.redis) - 364 * DAY) * 1000, living.id)
    last = Hold()
    wire.acquire(last)
    assert wire.redis.command("ZRANGE", wire.taken, 0, -1) == [living.id.encode(), last.id.encode()]


def test_nobody_is_woken_for_nothing(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    """Redisson's handlers raise at negative numbers; and a waiter could not get anything."""
    wire.redis.command("SET", wire.name, 1)
    hold = Hold(1)
    wire.acquire(hold)
    assert wire.change("add", -2) == [1, -2]
    assert wire.release(hold) == 1 and wire.value() == -1
    assert wire.change("add", 1) == [1, 0]
    assert subscriber.messages() == []
    assert wire.change("add", 1) == [1, 1] and subscriber.messages() == [b"1"]


# ---- change


def test_set_only_where_there_is_none(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    assert wire.change("set", 3) == [1, 3]
    wire.acquire(Hold(2))
    assert wire.change("set", 5) == [0, 1]
    assert wire.change("count") == [1, 1]
    assert subscriber.messages() == [b"3"]


def test_redissons_effects_of_add_and_drain(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    """A TTL ends (trap 17), the message is the new total (trap 15), drain sends nothing."""
    assert wire.change("drain") == [1, 0] and wire.redis.command("KEYS", "*") == []
    assert wire.change("add", 3) == [1, 3]
    wire.redis.command("PEXPIRE", wire.name, 5000)
    assert wire.change("add", 4) == [1, 7] and wire.left(wire.name) == -1
    wire.redis.command("PEXPIRE", wire.name, 5000)
    hold = Hold(2)
    wire.acquire(hold)
    wire.release(hold)
    assert 0 < wire.left(wire.name) <= 5000  # these keep it
    assert wire.change("drain") == [1, 7] and wire.left(wire.name) == -1
    assert wire.redis.command("GET", wire.name) == b"0"
    assert subscriber.messages() == [b"3", b"7", b"7"]


@pytest.mark.parametrize("what, number, then", [("set", 4, [1, 4]), ("add", 3, [1, 3]), ("add", -3, [1, -3])])
def test_a_change_sent_twice_is_once(
    wire: SemaphoreWire, subscriber: Subscriber, what: str, number: int, then: list[int]
) -> None:
    request = Hold()
    assert wire.change(what, number, request) == then
    subscriber.messages()
    assert 364 * DAY < wire.left(wire.once) <= 365 * DAY  # the total stays there
    before = everything(wire.redis)
    assert [wire.change(what, number, request) for _ in range(3)] == [then] * 3
    assert everything(wire.redis) == before and subscriber.messages() == []
    wire.change("add", 100)
    assert wire.change(what, number, request) == then  # as it was then
    assert wire.value() == then[1] + 100
    wire.redis.command("DEL", wire.name)
    assert wire.change(what, number, request) == then and wire.value() is None


def test_drain_sent_twice_is_once(wire: SemaphoreWire) -> None:
    wire.change("set", 4)
    request = Hold()
    assert wire.change("drain", 0, request) == [1, 4]
    wire.change("add", 2)
    assert wire.change("drain", 0, request) == [1, 4] and wire.value() == 2


def test_what_changes_nothing_is_not_kept(wire: SemaphoreWire) -> None:
    wire.redis.command("SET", wire.name, 3)
    request = Hold()
    for what, number in ("count", 0), ("set", 9):
        wire.change(what, number, request)
    wire.redis.command("DEL", wire.name)
    wire.change("drain", 0, request)
    assert wire.redis.command("KEYS", "*") == []


def test_kept_answers_do_not_pile_up(wire: SemaphoreWire) -> None:
    """In a key that is written all the time, each new answer removes a few expired ones."""
    wire.redis.command("SET", wire.name, 0)
    old = server_ms(wire.redis) // 1000 - 1
    for start in range(0, 2000, 1000):
        pairs = [word for number in range(start, start + 1000) for word in (f"old:{number}", f"{old} 1 {number}")]
        wire.redis.command("HSET", wire.once, *pairs)
    fresh = [Hold() for _ in range(1500)]
    for hold in fresh:
        wire.change("add", 1, hold)
    left = set(wire.redis.command("HKEYS", wire.once))
    assert len(left) < 1700
    assert left >= {hold.id.encode() for hold in fresh}
    assert [wire.change("add", 1, hold) for hold in fresh] == [[1, number + 1] for number in range(1500)]
    assert wire.value() == 1500
    wire.all_ours_end(wire.name)


# ---- permits of the dead


def test_permits_of_the_dead_come_back_once(wire: SemaphoreWire, subscriber: Subscriber) -> None:
    wire.change("set", 9)
    dead, other, living = Hold(2), Hold(3), Hold(1)
    for hold in dead, other, living:
        wire.acquire(hold)
    assert wire.reclaim() == 0 and wire.value() == 3  # all live
    wire.silence(dead, other)
    assert wire.reclaim() == 5 and wire.value() == 8
    assert wire.living() == [b"1 " + living.id.encode()] == [b"1 " + name for name in wire.redis.command("ZRANGE", wire.taken, 0, -1)]
    assert wire.reclaim() == 0 and wire.value() == 8
    assert wire.release(dead) == wire.release(other) == 0 and wire.value() == 8  # they lived after all
    assert wire.release(living) == 1 and wire.value() == 9
    assert subscriber.messages() == [b"9", b"8", b"9"]
    wire.all_ours_end(wire.name)


def test_who_is_heard_of_keeps_permits(wire: SemaphoreWire) -> None:
    wire.change("set", 9)
    holds = [Hold(2), Hold(1)]
    for hold in holds:
        wire.acquire(hold, 50)
    wire.silence(*holds)
    assert wire.renew(*((hold, LEASE) for hold in holds)) == [1, 1] and wire.reclaim() == 0
    wire.silence(*holds)
    assert [wire.acquire(hold)[0] for hold in holds] == [1, 1] and wire.reclaim() == 0  # sent again
    assert DAY < wire.left(wire.holders) <= 365 * DAY


def test_how_long_silence_must_last(wire: SemaphoreWire) -> None:
    wire.change("set", 9)
    old, older = Hold(2), Hold(3)
    wire.acquire(old)
    wire.acquire(older)
    wire.silence(old, since=60_000)
    wire.silence(older, since=600_000)
    assert [wire.reclaim(silent) for silent in (700_000, 300_000, 300_000, 0)] == [0, 3, 0, 2]


def test_who_lost_permits_hears_it(wire: SemaphoreWire) -> None:
    wire.change("set", 9)
    dead, living, stranger = Hold(2), Hold(1), Hold(1)
    wire.acquire(dead)
    wire.acquire(living)
    wire.silence(dead)
    wire.reclaim()
    assert wire.renew((dead, LEASE), (living, LEASE), (stranger, LEASE)) == [0, 1, 0]
    assert len(wire.living()) == 1
    wire.redis.command("FLUSHALL")
    assert wire.renew((living, LEASE)) == [0] and wire.redis.command("KEYS", "*") == []


def test_a_late_acquire_of_the_dead_takes_nothing(wire: SemaphoreWire) -> None:
    wire.redis.command("SET", wire.name, 9)  # as Java: no total is known
    dead = Hold(2)
    wire.acquire(dead)
    wire.silence(dead)
    assert wire.reclaim() == 2 and wire.acquire(dead) == NEVER and wire.value() == 9
    assert 0 < wire.left(wire.once) <= 120_000


def test_a_reclaim_sent_twice_is_once(wire: SemaphoreWire) -> None:
    wire.change("set", 9)
    request, dead, later = Hold(), Hold(2), Hold(3)
    wire.acquire(dead)
    wire.silence(dead)
    assert wire.change("reclaim", 0, request) == [1, 2, 0]
    wire.acquire(later)
    wire.silence(later)
    assert wire.change("reclaim", 0, request) == [1, 2, 1] and wire.value() == 6 and wire.reclaim() == 3


def test_never_more_than_was_taken(wire: SemaphoreWire, java: JavaSemaphore, subscriber: Subscriber) -> None:
    """Keys are lost or set by others: what a dead holder took comes back. A reclaim never makes a semaphore whose total is not known."""
    wire.redis.command("SET", wire.name, 9)
    holds = [Hold(n) for n in (1, 2, 3)]

    def die(hold: Hold) -> None:
        wire.redis.command("SET", wire.name, 9)
        wire.redis.command("DEL", wire.once)
        assert wire.acquire(hold)[0] == 1
        wire.silence(hold)

    die(holds[0])
    wire.redis.command("DEL", wire.taken)
    assert wire.reclaim() == 1 and wire.value() == 9 and wire.living() == []
    die(holds[1])
    wire.redis.command("DEL", wire.holders)
    assert wire.reclaim() == 0 and wire.value() == 7 and wire.living() == [b"2 " + holds[1].id.encode()]
    assert wire.release(holds[1]) == 1 and wire.value() == 9
    die(holds[2])
    wire.redis.command("DEL", wire.name)
    assert wire.reclaim() == 0 and wire.value() is None
    assert java.call("try_set_permits", 4) == 1 and wire.reclaim() == 0 and wire.value() == 4  # those belonged to another
    die(Hold(2))
    wire.redis.command("SET", wire.name, -5)
    subscriber.messages()
    assert wire.reclaim() == 2 and wire.value() == -3 and subscriber.messages() == []


def test_permits_of_others_stay_taken(wire: SemaphoreWire, java: JavaSemaphore) -> None:
    """Redisson's, and those of a libdlock that recorded no holders."""
    wire.change("set", 9)
    assert java.call("try_acquire", 2) == 1
    older = Hold(3)
    wire.acquire(older)
    wire.redis.command("DEL", wire.holders)
    assert wire.reclaim() == 0 and wire.value() == 4
    assert wire.release(older) == 1 and java.call("release", 2) == 1 and wire.value() == 9


def test_many_dead_holders_go_some_at_a_time(wire: SemaphoreWire) -> None:
    wire.change("set", 5000)
    holds = [Hold(2) for _ in range(50)]
    for hold in holds:
        wire.acquire(hold)
    wire.silence(*holds)
    assert [wire.change("reclaim") for _ in range(5)] == [*[[1, 32, 1]] * 3, [1, 4, 0], [1, 0, 0]] and wire.value() == 5000


# ---- keys that the server lost


KEYS = ["name", "taken", "holders", "once", "turns", "fence"]


@pytest.mark.parametrize("permits, lease", [(1, LEASE), (2, LEASE), (1, DAY)])
@pytest.mark.parametrize("key", KEYS)
def test_no_lost_key_costs_a_permit(wire: SemaphoreWire, key: str, permits: int, lease: int) -> None:
    """A holder that lives releases; one that died is reclaimed. There are never more holders than permits."""
    for dies in False, True:
        wire.redis.command("FLUSHALL")
        wire.change("set", 5)
        hold, other = Hold(permits), Hold(1)
        wire.acquire(hold, lease=lease)
        wire.acquire(other)
        wire.redis.command("DEL", getattr(wire, key))
        if dies:
            assert wire.renew((other, LEASE)) == [1] and wire.reclaim() == 0  # it may live
            wire.silence(hold)
            assert wire.reclaim() == permits
        else:
            assert wire.renew((hold, lease), (other, LEASE)) == [1, 1] and wire.reclaim() == 0
            assert wire.release(hold) == 1
        assert wire.release(hold) == 0 and wire.value() == 4
        assert wire.release(other) == 1 and wire.value() == 5


def test_a_holder_that_may_live_is_presumed_to_have_its_lease(wire: SemaphoreWire) -> None:
    wire.change("set", 9)
    short, many, long = Hold(1), Hold(2), Hold(1)
    wire.acquire(short)
    wire.acquire(many)
    wire.acquire(long, lease=DAY)
    wire.redis.command("DEL", wire.holders)
    now = server_ms(wire.redis)
    assert wire.reclaim() == 0
    for hold, lease in (short, 600_000), (many, LEASE), (long, DAY):
        until = int(wire.redis.command("ZSCORE", wire.holders, f"{hold.permits} {hold.id}"))
        assert lease <= until - now < lease + 5000


@pytest.mark.parametrize("total", ["known", "unknown"])
def test_a_lost_count_is_never_more_than_there_are(wire: SemaphoreWire, java: JavaSemaphore, total: str) -> None:
    """Redisson alone would have 4 holders of 2."""
    assert wire.change("set", 2) == [1, 2] if total == "known" else java.call("try_set_permits", 2) == 1
    hold = Hold(2)
    wire.acquire(hold)
    wire.redis.command("DEL", wire.name)
    assert wire.change("set", 2) == ([0, 0] if total == "known" else [1, 0])
    assert wire.acquire(Hold()) == NOT_NOW and wire.release(hold) == 1 and wire.value() == 2


def test_an_acquire_that_is_repeated_after_a_loss_takes_once(wire: SemaphoreWire) -> None:
    wire.change("set", 5)
    hold = Hold(2)
    wire.acquire(hold)
    wire.redis.command("DEL", wire.taken)
    assert wire.whole(hold)[3] == 3 and wire.value() == 3 and wire.release(hold) == 1 and wire.value() == 5


def test_a_deleted_semaphore_stays_deleted(wire: SemaphoreWire) -> None:
    """When nobody holds, the count alone is the semaphore, as Redisson deletes it."""
    wire.change("set", 2)
    wire.redis.command("DEL", wire.name)
    assert wire.acquire(Hold()) == NOT_NOW and wire.reclaim() == 0 and wire.value() is None
    assert wire.change("add", 3) == [1, 3]
    hold = Hold()
    wire.acquire(hold)
    wire.redis.command("DEL", wire.name)
    assert wire.release(hold) == 1 and wire.value() == 3


# ---- gate, other kinds, names


def test_a_closed_gate(wire: SemaphoreWire) -> None:
    wire.change("set", 3)
    held, late = Hold(1), Hold(1)
    wire.acquire(held)
    wire.redis.command("SET", wire.gate, 1, "PX", 5000)
    before = everything(wire.redis)
    assert wire.acquire(late) == GATE_CLOSED
    assert everything(wire.redis) == before
    assert wire.release(held) == 1 and wire.change("add", 1) == [1, 4]  # returning goes on
    wire.redis.command("DEL", wire.gate)
    assert wire.acquire(late)[0] == 1


OTHERS = [
    ["HSET", "seats", "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1", "1"], ["RPUSH", "seats", "a"],
    ["ZADD", "seats", "1", "a"], ["XADD", "seats", "*", "a", "b"], ["SADD", "seats", "3"], ["SETBIT", "seats", "7", "1"],
    ["SET", "seats", "three"], ["SET", "seats", ""], ["SET", "seats", "1.5"], ["SET", "seats", "1e3"],
    ["SET", "seats", "03"], ["SET", "seats", "-0"], ["SET", "seats", " 3"], ["SET", "seats", "inf"],
    ["SET", "seats", "9999999999999999"],
]  # fmt: skip


@pytest.mark.parametrize("make", OTHERS, ids=" ".join)
def test_other_kinds_are_refused_and_untouched(wire: SemaphoreWire, subscriber: Subscriber, make: list[str]) -> None:
    wire.redis.command(*make)
    before = everything(wire.redis)
    for _ in range(2):
        assert wire.acquire(Hold()) == WRONG_KIND
        assert wire.release(Hold()) == -1 and wire.release(Hold()) == -1
        for what in "set", "add", "drain", "reclaim", "count":
            assert wire.change(what, 1) == WRONG_KIND
    assert everything(wire.redis) == before and subscriber.messages() == []


def test_numbers_as_large_as_can_be_counted(wire: SemaphoreWire) -> None:
    for value in 999_999_999_999_999, -99_999_999_999_999:
        wire.redis.command("SET", wire.name, value)
        assert wire.change("count") == [1, value]


def test_other_errors_stay_errors(wire: SemaphoreWire) -> None:
    user = ["ACL", "SETUSER", "limited", "on", "nopass", "+@all", "-get", "~*", "&*"]
    wire.change("set", 3)
    wire.redis.command(*user)
    try:
        wire.redis.command("AUTH", "limited", "any")
        with pytest.raises(ReplyError, match="NOPERM|permission|can't run"):
            wire.acquire(Hold())
    finally:
        wire.redis.command("AUTH", "default", "")
        wire.redis.command("ACL", "DELUSER", "limited")


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_any_name(redis: Client, redis_server: Server, name: str | bytes) -> None:
    wire, java, hold = SemaphoreWire(redis, name), JavaSemaphore(redis, name), Hold(2)
    subscriber = Subscriber(redis_server, wire.channel)
    assert wire.change("set", 3) == [1, 3] and wire.acquire(hold)[0] == 1
    assert java.call("try_acquire", 1) == 1 and wire.acquire(Hold()) == NOT_NOW
    assert wire.release(hold) == 1 and java.call("release", 1) == 1
    assert wire.change("drain") == [1, 3]
    assert subscriber.messages() == [b"3", b"2", b"3"]
    wire.all_ours_end(wire.name)
    assert set(redis.command("KEYS", "*")) <= {wire.name, wire.fence, wire.taken, wire.holders, wire.once}
    subscriber.redis.close()


def test_a_name_and_its_braced_twin_are_two_semaphores(redis: Client) -> None:
    bare, braced = SemaphoreWire(redis, "x"), SemaphoreWire(redis, "{x}")
    assert bare.channel == braced.channel and not {*bare.keys[2:]} & {*braced.keys[2:]}


# ---- the server


def fill(redis: Client) -> None:
    with pytest.raises(ReplyError, match="OOM"):
        for number in range(1000):
            redis.command("SET", f"fill:{number}", "x" * 100_000)


def test_a_full_server_takes_permits_back(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory", "12mb", "--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire = SemaphoreWire(redis)
        subscriber = Subscriber(server, wire.channel)
        wire.change("set", 5)
        known, undone, doubtful = Hold(1), Hold(2), Hold(2)
        for hold in known, undone, doubtful:
            wire.acquire(hold)
        assert wire.release(Hold()) == 0  # the server has every script now
        fill(redis)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(ReplyError, match="OOM"):
            redis.command("INCRBY", wire.name, 1)
        assert wire.release(known) == 1 and wire.release(undone) == 1 and wire.release(doubtful, doubt=1) == 1
        assert wire.release(known) == 0 and wire.release(Hold()) == 0
        assert subscriber.messages() == [b"5", b"1", b"3", b"5"] and wire.value() == 5
        before = everything(redis)
        with pytest.raises(ReplyError, match="OOM"):
            wire.acquire(Hold())
        for what in "add", "drain":
            with pytest.raises(ReplyError, match="OOM"):
                wire.change(what, 1)
        assert everything(redis) == before  # refused as a whole
        assert wire.change("count") == [1, 5] and wire.change("set", 1) == [0, 5]
        subscriber.redis.close()


def test_a_full_server_hears_who_lives_and_gives_back_what_the_dead_had(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory", "12mb", "--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire, dead, living = SemaphoreWire(redis), Hold(2), Hold(1)
        wire.change("set", 5)
        assert wire.acquire(dead)[0] == wire.acquire(living)[0] == 1 and wire.reclaim() == 0
        wire.silence(dead, living)
        assert wire.renew((Hold(), LEASE)) == [0]  # the server has every script now
        fill(redis)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        assert wire.renew((living, LEASE)) == [1] and wire.reclaim() == 2 and wire.value() == 4
        assert wire.reclaim() == 0 and wire.release(living) == 1 and wire.value() == 5


def test_all_keys_are_declared_and_in_one_slot(new_server: Callable[..., Server]) -> None:
    server = new_server("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
    with server.client() as redis:
        for name in NAMES:
            wire, hold = SemaphoreWire(redis, name), Hold(2)
            assert wire.change("set", 3) == wire.change("drain") == wire.change("add", 3) == [1, 3]
            assert wire.acquire(hold)[0] == 1 and wire.acquire(Hold(2)) == NOT_NOW
            assert wire.renew((hold, LEASE)) == [1] and wire.reclaim() == 0
            assert wire.release(hold) == 1 and wire.release(hold) == 0
            assert len({redis.command("CLUSTER", "KEYSLOT", key) for key in (*wire.keys, wire.channel)}) == 1


# ---- any order, against a model


class Model:
    """The state of a semaphore."""

    def __init__(self) -> None:
        self.total: int | None = None  # as far as it is known
        self.permits: dict[str, int] = {}
        self.left: int | None = None
        self.heard: list[bytes] = []
        self.held: dict[str, int] = {}  # id -> token
        self.forbidden: set[str] = set()

    def tell(self, number: int) -> None:
        self.heard.append(b"%d" % number)

    def tell_if_any(self) -> None:
        if self.left and self.left > 0:
            self.tell(self.left)

    def acquire(self, hold: Hold, gate: bool) -> Any:
        """The reply; None for a new grant: its token is not known yet."""
        self.mend()
        if hold.id in self.held:
            return [1, self.held[hold.id]]
        if gate:
            return GATE_CLOSED
        if hold.id in self.forbidden:
            return NEVER
        if (self.left or 0) < hold.permits:
            return NOT_NOW
        assert self.left is not None
        self.left -= hold.permits
        self.permits[hold.id] = hold.permits
        return None

    def out(self) -> int:
        return sum(self.permits[one] for one in self.held)

    def mend(self) -> None:
        """A count that is gone is made again from the total, while our permits are out."""
        if self.left is None and self.held and self.total is not None:
            self.left = self.total - self.out()

    def release(self, hold: Hold, doubt: int) -> int:
        self.mend()
        if doubt:
            self.forbidden.add(hold.id)
        if hold.id not in self.held:
            return 0
        self.held.pop(hold.id)
        self.left = (self.left or 0) + hold.permits
        self.tell_if_any()
        return 1

    def change(self, what: str, number: int) -> list[int]:
        before = self.left
        if what == "count":
            return [1, self.left or 0]
        self.mend()
        before = self.left
        if what == "drain":
            self.left = None if before is None else 0
            if before is not None and self.total is not None:
                self.total -= before
            return [1, before or 0]
        if what == "set" and before is not None:
            return [0, before]
        if what == "set":
            self.total, self.left = number, number - self.out()
        else:
            self.left = number + (before or 0)
            if before is None:
                self.total = number + self.out()
            elif self.total is not None:
                self.total += number
        self.tell_if_any()
        return [1, self.left]

    def java(self, what: str, number: int) -> int | None:
        before = self.left
        if what == "try_acquire":
            if before is None or before < number:
                return 0
            self.left = before - number
        elif what == "try_set_permits" and before is not None or what == "release_if_exists" and before is None:
            return 0
        elif what == "drain_permits":
            self.left = None if before is None else 0
            return before or 0
        else:
            self.left = (before or 0) + number
            self.tell(self.left)
        return None if what == "add_permits" else 1


CHANGES = ["set", "add", "drain", "count"]
JAVAS = ["try_acquire", "release", "release_if_exists", "try_set_permits", "add_permits", "drain_permits"]


class Play:
    """One random run."""

    def __init__(self, seed: int, wire: SemaphoreWire, java: JavaSemaphore, subscriber: Subscriber) -> None:
        self.random = random.Random(seed)
        self.wire, self.java, self.subscriber = wire, java, subscriber
        self.model = Model()
        self.gate = False
        self.held: list[Hold] = []
        self.gone: list[Hold] = []  # released, or undone
        self.requests: list[tuple[str, int, Hold, list[int]]] = []
        self.last_token = 0

    def acquire(self, hold: Hold) -> None:
        expected, reply = self.model.acquire(hold, self.gate), self.wire.acquire(hold)
        if expected is not None:
            assert reply == expected
            return
        assert reply[0] == 1 and reply[1] > self.last_token
        self.model.held[hold.id] = reply[1]
        self.last_token = reply[1] + hold.permits - 1
        self.held.append(hold)

    def release(self, hold: Hold, doubt: int | None = None) -> None:
        doubt = self.random.randrange(2) if doubt is None else doubt
        assert self.wire.release(hold, doubt) == self.model.release(hold, doubt)

    def change(self) -> None:
        what, number, request = self.random.choice(CHANGES), self.random.randint(-2, 4), Hold()
        if what == "set":
            number = abs(number)
        before = self.model.left
        reply = self.wire.change(what, number, request)
        assert reply == self.model.change(what, number)
        if self.model.left != before or what == "add":
            self.requests.append((what, number, request, reply))

    def step(self) -> None:
        toss = self.random.random()
        if toss < 0.25:
            self.acquire(Hold(self.random.randint(1, 3)))
        elif toss < 0.32 and self.held:
            self.acquire(self.random.choice(self.held))
        elif toss < 0.50 and self.held:
            hold = self.held.pop(self.random.randrange(len(self.held)))
            self.release(hold)
            self.gone.append(hold)
        elif toss < 0.56 and self.gone:
            self.release(self.random.choice(self.gone))
        elif toss < 0.60:
            self.gone.append(Hold(self.random.randint(1, 3)))
            self.release(self.gone[-1], doubt=1)
            self.acquire(self.gone[-1])
        elif toss < 0.72:
            self.change()
        elif toss < 0.76 and self.requests:
            what, number, request, reply = self.random.choice(self.requests)
            assert self.wire.change(what, number, request) == reply
        elif toss < 0.78:
            self.gate = not self.gate
            self.wire.set_gate(self.gate)
        elif toss < 0.79:
            self.model.left = None
            self.wire.redis.command("DEL", self.wire.name)
        else:
            what, number = self.random.choice(JAVAS), self.random.randint(1, 3)
            assert self.java.call(what, number) == self.model.java(what, number), what

    def check(self) -> None:
        assert self.wire.value() == self.model.left
        assert self.subscriber.messages() == self.model.heard
        self.model.heard = []

    def end(self) -> None:
        """All return what they hold: the permits are as many as were put in."""
        self.model.mend()  # with the first release
        left, still = self.model.left or 0, sum(hold.permits for hold in self.held)
        for hold in self.held:
            self.release(hold)
        assert (self.wire.value() or 0) == left + still
        assert self.wire.redis.command("EXISTS", self.wire.taken) == 0
        self.wire.all_ours_end(self.wire.name)


@pytest.mark.parametrize("part", always(0, full=range(1, 4)))
def test_any_order(wire: SemaphoreWire, java: JavaSemaphore, subscriber: Subscriber, part: int) -> None:
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


@pytest.mark.parametrize("block", [1, 65])
def test_what_a_process_needs_for_turns_of_its_own(wire: SemaphoreWire, redis_server: Server, block: int) -> None:
    """Tokens, as many as it asks for; the same grant asked for again has one. A release tells whether others listen."""
    wire.change("set", 2)
    wire.block = block
    assert wire.whole(Hold())[2] == 1  # the counter is new
    hold = Hold()
    code, token, tokens, left = wire.whole(hold)
    assert (code, left) == (1, 0) and 1 <= tokens <= block and int(wire.redis.command("GET", wire.fence)) == token + tokens - 1
    assert wire.whole(hold) == [1, token, 1]
    assert wire.release(hold) == 1 and not wire.others
    assert wire.whole(hold)[0] == 1
    listener = Subscriber(redis_server, wire.channel)
    assert wire.release(hold) == 1 and wire.others and listener.messages() == [b"1"]
