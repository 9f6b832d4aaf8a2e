"""The scripts of the fair lock on a real server: order, dead waiters, Redisson's waiters in the same line, leftovers."""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.faults import always
from harness.steps.fair import BEAT, KEEP, LEASE, LINE, PATIENCE, PLACE, POLL, SEEN, TRY, WHILE, Hold, Process, Wire, fields
from harness.steps.fair_model import only_the_counter_is_left, run_seed
from harness.steps.redisson_fair import Waiter as Java
from harness.steps.redisson_rw import JavaRw
from harness.resp import Client, ReplyError
from harness.server import Server, free_port
from harness.waiting import wait_until

SOME = 8  # a call removes so many of the dead, and looks at so many records

pytestmark = pytest.mark.house

Processes = Callable[..., Process]
Holds = Callable[..., Hold]
Javas = Callable[..., Java]


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
def wire(redis: Client) -> Wire:
    return Wire(redis)


@pytest.fixture
def process(redis_server: Server) -> Iterator[Processes]:
    made: list[Process] = []

    def make(subscribe: bool = True) -> Process:
        made.append(Process(redis_server, subscribe))
        return made[-1]

    yield make
    for one in made:
        one.subscriber.close()


@pytest.fixture
def who(process: Processes) -> Holds:
    """A hold of a new process."""
    return lambda subscribe=True: process(subscribe).hold()


@pytest.fixture
def java(redis_server: Server) -> Iterator[Javas]:
    made: list[Java] = []

    def make(**more: Any) -> Java:
        made.append(Java(redis_server, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def told(hold: Hold, wire: Wire) -> int:
    """The token of the grant message for hold. How many there are, and who is next, is kept as after an acquire."""
    word, number, _, token, tokens, next_ones, name = (hold.message() or b"").split(b" ", 6)
    assert (word, int(number), name, next_ones[-1:]) == (b"fair", hold.number, wire.name, b",")
    wire.tokens, wire.next = int(tokens), next_ones[:-1]
    return int(token)


# ---- one after the other


def test_redissons_keys(wire: Wire, who: Holds) -> None:
    a, b, c = who(), who(), who()
    before = wire.now()
    code, token = wire.acquire(a, LINE)
    assert code == 1 and token >= before * 1000 and token == wire.last_token()
    assert wire.redis.command("HGETALL", wire.name) == [a.raw, b"1"] and LEASE - 5000 < wire.left() <= LEASE
    assert wire.line() == [] and wire.left(wire.about) > LEASE
    for seq, one in enumerate((b, c), 1):
        code, ms, foreign = wire.acquire(one, LINE, seq=seq)
        assert (code, foreign) == (0, 0) and LEASE - 5000 < ms <= LEASE
    assert wire.line() == [b.raw, c.raw]
    scores = wire.scores()
    assert set(scores) == {b.raw, c.raw} and before + PLACE <= scores[b.raw] < scores[c.raw] < before + PLACE + 5000
    for holder, next_one, seq in (a, b, 1), (b, c, 2):
        assert wire.release(holder) == 1
        message = next_one.message() or b""
        assert message == b"fair %d %d %d 1 , " % (next_one.number, seq, wire.last_token()) + wire.name
        assert wire.holder() == next_one.raw and wire.last_token() > token
        token = wire.last_token()
    assert wire.release(c) == 1
    only_the_counter_is_left(wire)
    assert a.nothing() and b.nothing() and c.nothing()


def test_a_try_alone_costs_little_and_leaves_nothing(wire: Wire, who: Holds) -> None:
    tokens = []
    for _ in range(20):
        a = who()
        code, token = wire.acquire(a, TRY, block=3)
        assert code == 1 and wire.last_token() == token
        assert wire.acquire(who(), TRY)[0] == 0 and wire.line() == []
        assert wire.release(a) == 1
        only_the_counter_is_left(wire)
        tokens.append(token)
    assert tokens == sorted(set(tokens))


def test_arrival_order_whatever_the_order_of_looks(wire: Wire, process: Processes) -> None:
    clients, picks = [process() for _ in range(3)], random.Random(7)
    holder = clients[0].hold()
    wire.acquire(holder)
    line = [picks.choice(clients).hold() for _ in range(20)]
    for one in line:
        assert wire.acquire(one, LINE)[0] == 0
    for one in picks.choices(line, k=60):
        assert wire.acquire(one, LINE, seq=2)[0] == 0
    for one in line:
        assert wire.release(holder) == 1 and wire.holder() == one.raw
        assert told(one, wire) == wire.last_token()
        holder = one
    assert wire.release(holder) == 1
    only_the_counter_is_left(wire)


def test_two_commands_for_each_hand_off(wire: Wire, process: Processes) -> None:
    clients, rounds, sent = [process() for _ in range(4)], 50, 0
    holders = [client.hold() for client in clients]
    for one in holders:
        wire.acquire(one, LINE)
        sent += 1
    for turn in range(rounds):
        at = turn % len(clients)
        assert wire.holder() == holders[at].raw
        assert wire.release(holders[at]) == 1
        holders[at] = clients[at].hold()
        assert wire.acquire(holders[at], LINE)[0] == 0
        sent += 2
    assert sent == 2 * rounds + len(clients)
    for client in clients:
        assert len(client.messages()) in (rounds // 4, rounds // 4 + 1)


def test_only_the_first_are_told_when_the_lease_ends(wire: Wire, who: Holds) -> None:
    line = [who() for _ in range(12)]
    wire.acquire(who())
    for _ in range(2):
        for place, one in enumerate(line, 1):
            code, ms, foreign = wire.acquire(one, LINE)
            assert (code, foreign) == (0, 0)
            assert LEASE - 5000 < ms <= LEASE if place <= SEEN else ms == -1
    wire.redis.command("PERSIST", wire.name)
    assert wire.acquire(line[0], LINE) == [0, -1, 0]


def test_a_lock_that_expired_goes_to_the_head_whoever_looks(wire: Wire, who: Holds) -> None:
    a, b, c, d = who(), who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE, lease=7000)
    wire.acquire(c, LINE)
    wire.redis.command("DEL", wire.name)
    code, ms, _ = wire.acquire(d, TRY)
    assert code == 0 and 2000 < ms <= 7000
    assert wire.holder() == b.raw and told(b, wire) == wire.last_token() and wire.line() == [c.raw]
    wire.redis.command("DEL", wire.name)
    assert wire.acquire(c, LINE) == [1, wire.last_token()] and c.nothing()  # by the reply, not by a message
    wire.redis.command("DEL", wire.name)
    assert wire.acquire(d, TRY)[0] == 1


def test_a_grant_is_as_long_as_was_asked_last(wire: Wire, who: Holds) -> None:
    a, b = who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE, lease=5000, block=1)
    wire.acquire(b, LINE, lease=9000, block=3, seq=2)
    last = wire.last_token()
    wire.release(a)
    assert 5000 < wire.left() <= 9000 and wire.left(wire.about) > 9000
    word, number, seq, token, _, _, name = (b.message() or b"").split(b" ")
    assert (seq, int(token)) == (b"2", wire.last_token()) and int(token) > last


def test_the_counter_keeps_its_ways(wire: Wire, who: Holds) -> None:
    a = who()
    wire.redis.command("SET", wire.fence, 2**52)  # far ahead of the clock, without a TTL
    assert wire.acquire(a) == [1, 2**52 + 1] and wire.left(wire.fence) == -1
    wire.release(a)
    wire.redis.command("SET", wire.fence, "nonsense", "PX", 1000)
    code, token = wire.acquire(who())
    assert code == 1 and token == wire.last_token() and wire.left(wire.fence) > KEEP - 5000


# ---- sent again


def test_the_same_id_gets_the_same_grant(wire: Wire, who: Holds) -> None:
    a, b, c = who(), who(), who()
    first = wire.acquire(a, LINE, block=5)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE, seq=4)
    wire.redis.command("INCRBY", wire.fence, 100)  # somebody moved the counter
    for mode, lease, block in (TRY, LEASE, 5), (LINE, 100, 5), (POLL, LEASE, 1):
        assert wire.acquire(a, mode, lease=lease, block=block, seq=2) == first
        assert wire.left() > LEASE - 5000 and wire.line() == [b.raw, c.raw]
    assert wire.acquire(a, lease=3 * LEASE) == first and wire.left() > 2 * LEASE
    assert wire.left(wire.about) > 3 * LEASE
    assert wire.release(a) == 1
    granted = [1, told(b, wire)]  # by message, and the probe sent before it came
    wire.redis.command("DEL", wire.fence)
    assert wire.acquire(b, LINE, seq=2) == granted and wire.line() == [c.raw]
    wire.redis.command("HDEL", wire.about, "!")
    wire.redis.command("SET", wire.fence, granted[1])
    assert wire.acquire(b, LINE, seq=3) == granted


def test_in_line_twice_is_once(wire: Wire, who: Holds) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    for _ in range(3):
        wire.acquire(b, LINE)
        wire.acquire(c, POLL)
    assert wire.line() == [b.raw, c.raw] and set(wire.scores()) == {b.raw, c.raw}


def test_release_twice_is_once(wire: Wire, who: Holds) -> None:
    a, b, c = who(), who(), who()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    assert wire.release(a) == 1
    before = wire.state()
    assert wire.release(a) == 0 and wire.release(a) == 0
    assert wire.state() == before and wire.holder() == b.raw
    assert told(b, wire) and c.nothing()


def test_undo_of_an_unknown_acquire(wire: Wire, who: Holds) -> None:
    a, b, c = who(), who(), who()
    assert wire.release(a) == 0 and wire.redis.command("KEYS", "*") == []  # it never arrived
    wire.acquire(a, LINE)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    assert wire.release(b) == 0 and wire.line() == [c.raw]  # it was in line
    assert wire.release(a) == 1 and wire.holder() == c.raw  # it was granted
    assert wire.release(b) == 0 and b.nothing() and told(c, wire)


def test_a_stranger_changes_nothing(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, stranger, j = who(), who(), who(), java()
    wire.acquire(a)
    wire.acquire(b, LINE)
    j.acquire()
    before = wire.state()
    for rest in 0, 500:
        assert wire.release(stranger, rest) == 0
    assert wire.state() == before and b.nothing() and j.nothing()


def test_rest(wire: Wire, who: Holds) -> None:
    a, b = who(), who()
    _, token = wire.acquire(a)
    wire.acquire(b, LINE)
    assert wire.release(a, rest=400) == 1
    assert wire.holder() == a.raw + b":rest" and 0 < wire.left() <= 400 and b.nothing()
    assert wire.release(a, rest=3000) == 0 and 0 < wire.left() <= 400  # repeated, it becomes no longer
    assert wire.acquire(b, LINE)[1] <= 400
    wait_until(lambda: not wire.redis.command("EXISTS", wire.name))
    assert wire.release(a, rest=300) == 0
    code, later = wire.acquire(b, LINE)
    assert code == 1 and later > token
    assert wire.release(b, rest=20) == 1
    wait_until(lambda: wire.holder() is None)
    assert wire.acquire(a, TRY)[0] == 1 and wire.release(a) == 1
    only_the_counter_is_left(wire)


# ---- leaving and dying


def test_who_leaves_is_passed_over(wire: Wire, who: Holds) -> None:
    a, b, c, d = who(), who(), who(), who()
    wire.acquire(a)
    for one in b, c, d:
        wire.acquire(one, LINE)
    scores = wire.scores()
    assert wire.release(c) == 0 and wire.line() == [b.raw, d.raw]
    assert wire.scores() == {one.raw: scores[one.raw] for one in (b, d)}  # no deadline moves
    assert wire.release(b) == 0
    assert wire.release(a) == 1 and wire.holder() == d.raw and b.nothing() and c.nothing()
    assert wire.release(d) == 1
    only_the_counter_is_left(wire)


def test_the_last_who_leaves_takes_all_away(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, c, j = who(), who(), who(), java()
    first = wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    wire.release(b)
    wire.release(c)
    assert set(wire.redis.command("KEYS", "*")) == {wire.name, wire.fence, wire.about}
    assert wire.redis.command("HKEYS", wire.about) == [b"!"] and wire.acquire(a) == first
    wire.release(a)
    j.acquire()
    wire.acquire(b, LINE)
    wire.release(b)
    assert set(wire.redis.command("KEYS", "*")) == {wire.name, wire.fence}


def test_the_head_of_a_free_lock_leaves(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, c, j = who(), who(), who(), java()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    j.acquire()
    wire.redis.command("DEL", wire.name)
    assert wire.release(b) == 0
    assert wire.holder() == c.raw and told(c, wire)
    wire.acquire(b, LINE)
    wire.redis.command("LREM", wire.queue_key, 0, j.id)
    wire.redis.command("RPUSH", wire.queue_key, j.id)  # behind b
    wire.redis.command("DEL", wire.name)
    assert wire.release(b) == 0 and j.message() == b"0"


def test_who_does_not_hear_is_passed_over_and_comes_back(wire: Wire, who: Holds) -> None:
    a, unsubscribed, b, c, late = who(), who(subscribe=False), who(), who(), who()
    wire.acquire(a)
    for one in unsubscribed, b, c:
        wire.acquire(one, LINE)
    wire.release(a)
    assert wire.holder() == b.raw and wire.line() == [c.raw]
    wire.acquire(late, LINE)
    wire.acquire(unsubscribed, LINE, seq=2)
    assert wire.line() == [unsubscribed.raw, c.raw, late.raw]  # it came before them
    unsubscribed.process.subscribe(True)
    wire.release(b)
    assert wire.holder() == unsubscribed.raw and told(unsubscribed, wire) == wire.last_token()


def test_alone_and_deaf(wire: Wire, who: Holds) -> None:
    a, unsubscribed, poller = who(), who(subscribe=False), who(subscribe=False)
    wire.acquire(a)
    wire.acquire(unsubscribed, LINE)
    wire.release(a)
    assert wire.holder() is None
    assert wire.acquire(unsubscribed, LINE)[0] == 1
    wire.acquire(poller, POLL)
    wire.release(unsubscribed)
    assert wire.holder() == poller.raw and wire.acquire(poller, POLL) == [1, wire.last_token()]
    wire.release(poller)
    only_the_counter_is_left(wire)


def test_a_monitor_of_all_channels_does_not_hear_for_the_dead(
    wire: Wire, who: Holds, redis_server: Server
) -> None:
    a, unsubscribed, b = who(), who(subscribe=False), who()
    for one in a, unsubscribed, b:
        wire.acquire(one, LINE)
    with redis_server.client() as monitor:
        monitor.subscribe("*", command="PSUBSCRIBE")
        wire.release(a)
        assert wire.holder() == b.raw


def test_a_client_that_crashed(wire: Wire, process: Processes, who: Holds) -> None:
    dead, a, b = process(), who(), who()
    ghosts = [dead.hold() for _ in range(50)]  # 8 leave at the release, and 8 at each probe
    wire.acquire(a)
    for one in ghosts:
        wire.acquire(one, LINE)
    wire.acquire(b, LINE)
    dead.subscriber.close()
    wait_until(lambda: wire.redis.command("PUBSUB", "NUMSUB", dead.channel)[1] == 0)
    wire.release(a)
    assert wire.holder() is None and b.message() == b"open 1 0 order"  # a call passes over some of them
    probes = 0
    while wire.acquire(b, LINE)[0] == 0:
        probes += 1
    assert probes == 5 and wire.holder() == b.raw and wire.line() == []
    wire.stopped(dead)
    wire.release(b)
    while wire.acquire(b)[0] == 0:
        pass
    assert wire.release(b) == 1
    only_the_counter_is_left(wire)


@pytest.mark.parametrize("dead", [1, SOME, SOME + 1, 40, 300])
def test_many_dead_in_bounded_steps(wire: Wire, process: Processes, dead: int) -> None:
    """A call removes some. Then one of the living is told to go on, and its probes are answered at once."""
    a, ended, b = process().hold(), process(), process().hold()
    wire.acquire(a)
    for _ in range(dead):
        wire.acquire(ended.hold(), LINE)
    wire.acquire(b, LINE)
    wire.stopped(ended)
    assert wire.release(a) == 1
    probes = 0
    while wire.holder() is None:
        assert b.message() == b"open 1 0 order" if not probes else b.nothing()
        left = len(wire.line())
        code, ms, _ = (*wire.acquire(b, LINE), 0)[:3]
        assert code == 1 or ms == 0 and len(wire.line()) == left - SOME
        probes += 1
    assert probes == (dead - 1) // SOME and wire.holder() == b.raw and wire.line() == [] == ended.messages()
    assert wire.release(b) == 1
    only_the_counter_is_left(wire)


def test_a_process_that_stopped(wire: Wire, process: Processes, who: Holds) -> None:
    a, b, stopped = who(), who(), process()
    one, other = stopped.hold(), stopped.hold()
    wire.acquire(a)
    wire.acquire(one, LINE)
    wire.acquire(b, LINE)
    wire.acquire(other, LINE)
    wire.stopped(stopped)
    wire.release(a)
    assert wire.holder() == b.raw and wire.line() == [other.raw] and stopped.nothing()
    assert wire.acquire(one, LINE)[0] == 0  # it goes on
    assert wire.acquire(other, LINE)[0] == 0
    wire.release(b)
    assert wire.holder() == other.raw and wire.line() == [one.raw]


def test_a_look_is_a_sign_of_life_of_that_waiter_alone(wire: Wire, process: Processes) -> None:
    holder, client = process().hold(), process()
    one, other = client.hold(), client.hold()
    wire.acquire(holder)
    wire.acquire(one, LINE)
    wire.acquire(other, LINE)
    wire.stopped(client)
    wire.redis.command("DEL", wire.name)
    assert wire.acquire(other, LINE)[0] == 1
    assert wire.holder() == other.raw and one.nothing() and wire.line() == []


def test_a_beat_is_real_time(wire: Wire, who: Holds) -> None:
    a, dead, b = who(), who(), who()
    wire.acquire(a)
    wire.acquire(dead, LINE, beat=30)
    wire.acquire(b, LINE)
    end = wire.now() + 30
    wait_until(lambda: wire.now() > end)
    wire.release(a)
    assert wire.holder() == b.raw and dead.nothing()


def test_garbage_of_the_dead_does_not_grow(wire: Wire, process: Processes, java: Javas) -> None:
    wire.acquire(process().hold())
    stays, j = process().hold(), java()
    wire.acquire(stays, LINE)  # the line never becomes empty
    sizes = []
    for number in range(300):
        short = Hold(process(subscribe=False) if number < 1 else stays.process, number)
        short.id = f"{number:08x}-1111-8000-8000-00000000000f:1"
        wire.acquire(short, LINE, beat=1)
        if number % 2:
            wire.release(short)
        else:  # Redisson gave it up
            wire.redis.command("LREM", wire.queue_key, 0, short.id)
            wire.redis.command("ZREM", wire.timeout_key, short.id)
        sizes.append(wire.redis.command("HLEN", wire.about))
        end = wire.now()
        wait_until(lambda: wire.now() > end)
    assert max(sizes) < 40 and wire.line() == [stays.raw], max(sizes)
    assert wire.redis.command("HEXISTS", wire.about, stays.id) and wire.redis.command("HEXISTS", wire.about, "!")
    assert j.nothing()


# ---- with Redisson in the line


def test_the_vectors(wire: Wire, who: Holds, java: Javas) -> None:
    """Vectors 10 to 14 of the protocol, and the same with ours in their place."""
    a, b, c = java(), java(), java()
    now = b.now()
    assert a.acquire() is None
    assert 29_000 < (b.acquire() or 0) <= 30_000 and 329_000 < (c.acquire() or 0) <= 330_000
    assert wire.line() == [b.raw, c.raw] and abs(wire.scores()[b.raw] - now - 330_000) < 1000
    assert a.release() == 1 and b.message() == b"0" and c.acquire() == 0
    before = wire.scores()[c.raw]
    assert b.acquire() is None and wire.scores() == {c.raw: before - 300_000}
    c.cancel()
    assert not wire.redis.command("EXISTS", wire.queue_key, wire.timeout_key)
    assert b.release() == 1

    a, o, c = java(), who(), java()
    assert a.acquire() is None
    code, ms, foreign = wire.acquire(o, LINE)
    assert (code, foreign) == (0, 1) and 29_000 < ms <= 30_000
    assert PLACE - 1000 < (c.acquire() or 0) < PLACE + 1000  # ours is as far away as it says
    with c.redis as subscriber:
        subscriber.subscribe(wire.channel + b":" + o.raw)
        assert a.release() == 1 and subscriber.message() == (wire.channel + b":" + o.raw, b"0")
    before = wire.scores()[c.raw]
    assert wire.acquire(o, LINE)[0] == 1 and wire.line() == [c.raw]
    assert before <= wire.scores()[c.raw] <= before + 1000  # ours takes nothing off
    assert wire.release(o) == 1 and c.message() == b"0"
    only = set(wire.redis.command("KEYS", "*"))
    assert only == {wire.fence, wire.queue_key, wire.timeout_key, wire.about}


def test_turns_in_both_directions(wire: Wire, who: Holds, java: Javas) -> None:
    line: list[Any] = [one for _ in range(4) for one in (who(), java())]
    tokens = [wire.acquire(line[0], LINE)[1]]
    for one in line[1:]:
        assert (wire.acquire(one, LINE)[0] == 0) if isinstance(one, Hold) else (one.acquire() is not None)
    assert wire.line() == [one.raw for one in line[1:]]
    for before, one in zip(line, line[1:]):
        assert (wire.release(before) if isinstance(before, Hold) else before.release()) == 1
        if isinstance(one, Java):
            assert one.message() == b"0" and one.acquire() is None
        else:
            code, token = wire.acquire(one, LINE)
            assert code == 1
            tokens.append(token)
        assert wire.holder() == one.raw
    assert line[-1].release() == 1 and tokens == sorted(set(tokens))
    assert wire.acquire(line[0], TRY)[0] == 1 and wire.release(line[0]) == 1
    only_the_counter_is_left(wire)


def test_whether_redisson_comes_before(wire: Wire, who: Holds, java: Javas) -> None:
    ours, j = [who() for _ in range(12)], java()
    wire.acquire(ours[0])
    assert wire.acquire(ours[1], LINE)[2] == 0
    j.acquire()
    for one in ours[2:]:
        assert wire.acquire(one, LINE)[2] == 1  # behind j; also further back than the script looks
    assert wire.acquire(ours[1], LINE)[2] == 0 and wire.acquire(ours[11], LINE) == [0, -1, 1]
    j.cancel()
    for one in ours[1:5]:
        wire.release(one)
    assert wire.acquire(who(), LINE)[2] == 0  # all in line are visible
    assert wire.acquire(who(), TRY)[2] == 0


def test_a_foreign_head_is_asked_at_each_look(wire: Wire, who: Holds, java: Javas, redis_server: Server) -> None:
    a, b, j = who(), who(), java()
    wire.acquire(a)
    j.acquire()
    wire.acquire(b, LINE)
    with redis_server.client() as subscriber:
        subscriber.subscribe(wire.channel + b":" + b.raw)
        wire.release(a)
        subscriber.send("PING")
        assert j.message() == b"0" and j.nothing() and subscriber.read()[0] == b"pong"
    assert not wire.redis.command("HEXISTS", wire.about, "!")
    for _ in range(3):
        code, ms, foreign = wire.acquire(b, LINE)
        assert (code, foreign) == (0, 1) and 25 <= ms <= 100
        assert j.message() == b"0" and j.nothing()
    assert wire.acquire(who(), TRY)[::2] == [0, 1] and wire.holder() is None
    assert j.acquire() is None and wire.line() == [b.raw]
    assert wire.acquire(b, LINE)[1] > LEASE - 5000


def test_a_living_head_is_not_given_up(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j, other = who(), who(), java(), java()
    wire.acquire(a)
    j.acquire()
    wire.acquire(b, LINE)
    for lease, rewind in (LEASE, 0), (10 * LEASE, -1), (10 * LEASE, wire.now() - 5000):
        wire.acquire(a, lease=lease)
        if rewind < 0:
            wire.redis.command("ZREM", wire.timeout_key, j.id)
        elif rewind:
            wire.redis.command("ZADD", wire.timeout_key, rewind, j.id)
        wire.acquire(b, LINE)
        assert wire.scores()[j.raw] >= wire.now() + wire.left() + PATIENCE - 100
        assert wire.scores()[b.raw] >= wire.now() + PLACE - 100
        assert not other.try_acquire() and wire.line() == [j.raw, b.raw]
    wire.redis.command("ZADD", wire.timeout_key, 1, j.id)
    wire.release(a)
    assert wire.line() == [j.raw, b.raw] and wire.scores()[j.raw] >= wire.now() + PATIENCE - 100
    assert not other.try_acquire() and j.acquire() is None
    assert wire.scores()[b.raw] > wire.now()  # what j took off, it had added


def test_the_head_behind_ours_is_not_given_up(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, c, j, other = who(), who(), who(), java(wait=10), java()
    wire.acquire(a)
    wire.acquire(b, LINE)
    j.acquire()
    wire.redis.command("ZADD", wire.timeout_key, 1, j.id)
    wire.release(a)
    assert wire.holder() == b.raw and wire.line() == [j.raw]
    assert wire.scores()[j.raw] >= wire.now() + wire.left() + PATIENCE - 100
    assert not other.try_acquire() and wire.line() == [j.raw]
    wire.acquire(c, LINE)
    assert wire.release(b) == 1 and j.message() == b"0" and j.acquire() is None


def test_ours_are_not_given_up_when_redissons_go(wire: Wire, who: Holds, java: Javas) -> None:
    holder, line, others = who(), [who() for _ in range(3)], [java() for _ in range(4)]
    wire.acquire(holder)
    for one, j in zip([None, *line], others):
        if one:
            wire.acquire(one, LINE)
        j.acquire()
    wire.redis.command("ZADD", wire.timeout_key, wire.now() - 1, line[0].id)  # an invalid deadline
    for _ in range(2):
        for one in line:
            wire.acquire(one, LINE)
    wire.release(holder)
    before: Any = others[0]
    assert before.acquire() is None
    for one, j in zip(line, others[1:]):
        assert java().acquire(queue=False) == 1 and before.release() == 1
        assert wire.acquire(one, LINE)[0] == 1
        assert wire.release(one) == 1 and j.message() == b"0" and j.acquire() is None
        before = j


@pytest.mark.parametrize("score", [True, False], ids=["score", "no score"])
def test_a_ghost_at_the_head(wire: Wire, who: Holds, java: Javas, score: bool) -> None:
    a, b, c, ghost = who(), who(), who(), java(subscribe=False)
    wire.acquire(a)
    ghost.acquire()
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    if not score:
        wire.redis.command("ZREM", wire.timeout_key, ghost.id)
    wire.release(a)
    assert wire.acquire(b, LINE)[::2] == [0, 1] and wire.line()[0] == ghost.raw
    wire.head_has_been(deaf_ms=1900, idle_ms=1900)
    assert wire.acquire(c, LINE)[0] == 0 and wire.line()[0] == ghost.raw
    wire.head_has_been(deaf_ms=100, idle_ms=100)
    assert wire.acquire(c, LINE)[0] == 0
    assert wire.holder() == b.raw and told(b, wire) and wire.line() == [c.raw]


def test_the_time_of_a_ghost_is_real(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, ghost = who(), who(), java(subscribe=False)
    ghost.acquire()
    wire.acquire(b, LINE)
    wire.redis.command("DEL", wire.name)
    began = wire.now()
    assert wire.redis.command("RPUSH", wire.queue_key, "x") and wire.redis.command("RPOP", wire.queue_key) == b"x"
    ghost.redis.command("LPUSH", wire.queue_key, ghost.id)
    ghost.redis.command("ZADD", wire.timeout_key, began + 330_000, ghost.id)
    wait_until(lambda: wire.acquire(b, LINE)[0] == 1)
    assert 2000 <= wire.now() - began < 10_000
    assert wire.acquire(a, TRY)[0] == 0


def test_a_ghost_seen_during_the_hold_goes_soon(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, ghost = who(), who(), java(subscribe=False)
    wire.acquire(a)
    ghost.acquire()
    wire.acquire(b, LINE)
    wire.head_has_been(deaf_ms=60_000)
    wire.acquire(b, LINE)
    assert wire.line() == [ghost.raw, b.raw]  # it may be subscribed at a replica: a free lock will tell
    wire.release(a)
    assert wire.acquire(b, LINE)[0] == 0
    wire.head_has_been(idle_ms=300)
    assert wire.acquire(b, LINE)[0] == 1


def test_a_head_that_hears_elsewhere_takes_its_turn(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j = who(), who(), java(subscribe=False)
    wire.acquire(a)
    j.acquire()
    wire.acquire(b, LINE)
    wire.head_has_been(deaf_ms=60_000)
    wire.release(a)
    assert wire.acquire(b, LINE)[::2] == [0, 1]
    assert j.acquire() is None and j.release() == 1
    assert wire.acquire(b, LINE)[0] == 1


def test_many_ghosts_of_one_jvm(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, ghosts = who(), who(), [java(subscribe=False) for _ in range(3)]
    for ghost in ghosts:  # threads of one JVM
        ghost.id = ghosts[0].id[:36] + ghost.id[36:]
    wire.acquire(a)
    for ghost in ghosts:
        ghost.acquire()
    wire.acquire(b, LINE)
    wire.release(a)
    wire.head_has_been(deaf_ms=2000)
    for _ in ghosts:
        assert wire.acquire(b, LINE)[0] == 0
        wire.head_has_been(idle_ms=300)
    assert wire.acquire(b, LINE)[0] == 1


def test_every_jvm_has_its_own_time(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, one, other = who(), who(), java(subscribe=False), java(subscribe=False)
    wire.acquire(a)
    one.acquire()
    other.acquire()
    wire.acquire(b, LINE)
    wire.release(a)
    wire.head_has_been(deaf_ms=2000, idle_ms=2000)
    assert wire.acquire(b, LINE)[0] == 0 and wire.line() == [other.raw, b.raw]
    wire.head_has_been(idle_ms=1000)
    assert wire.acquire(b, LINE)[0] == 0 and wire.line() == [other.raw, b.raw]


def test_who_was_without_an_ear_and_has_one(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j = who(), who(), java(subscribe=False)
    wire.acquire(a)
    j.acquire()
    wire.acquire(b, LINE)
    wire.head_has_been(deaf_ms=60_000)
    j.subscribe(True)
    wire.acquire(b, LINE)
    assert not wire.redis.command("HEXISTS", wire.about, "?")
    wire.release(a)
    j.subscribe(False)
    assert wire.acquire(b, LINE)[0] == 0
    wire.head_has_been(idle_ms=5000)
    assert wire.acquire(b, LINE)[0] == 0 and wire.line() == [j.raw, b.raw]


def test_a_head_that_hears_and_does_not_come(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j = who(), who(), java()
    wire.acquire(a)
    j.acquire()
    wire.acquire(b, LINE)
    wire.release(a)
    wire.head_has_been(idle_ms=9000)
    assert wire.acquire(b, LINE)[0] == 0 and wire.line() == [j.raw, b.raw]
    wire.head_has_been(idle_ms=1000)
    assert wire.acquire(b, LINE)[0] == 1
    j.acquire()
    assert wire.release(b) == 1 and wire.line() == [j.raw]  # its next turn has its own time
    assert wire.acquire(a, LINE)[0] == 0 and j.acquire() is None


def test_a_free_lock_is_left_alone_only_while_it_is_free(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j = who(), who(), java()
    wire.acquire(a)
    j.acquire()
    wire.release(a)
    assert wire.redis.command("HEXISTS", wire.about, "?")
    assert j.acquire() is None
    wire.acquire(b, LINE)
    assert not wire.redis.command("HEXISTS", wire.about, "?")


def test_an_outlived_ghost_goes_at_once(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, c, ghost = who(), who(), who(), java(subscribe=False)
    wire.acquire(a)
    ghost.acquire()
    wire.acquire(b, LINE)
    wire.redis.command("ZADD", wire.timeout_key, wire.now() - 1, ghost.id)
    wire.acquire(c, TRY)
    assert wire.line() == [b.raw]
    wire.release(a)
    assert wire.holder() == b.raw


def test_ours_is_told_that_the_head_may_be_dead(
    wire: Wire, who: Holds, java: Javas, redis_server: Server
) -> None:
    a, b, ghost, j = who(), who(), java(subscribe=False), java()
    wire.acquire(a)
    ghost.acquire()
    j.acquire()
    wire.acquire(b, LINE)
    with redis_server.client() as subscriber:
        subscriber.subscribe(wire.channel + b":" + b.raw)
        wire.release(a)
        assert subscriber.message() == (wire.channel + b":" + b.raw, b"0") and j.nothing()


def test_given_up_and_put_back(wire: Wire, who: Holds, java: Javas) -> None:
    """A Java waiter that takes off more than it added throws ours out; they come back to their places."""
    a, line, first, j = who(), [who() for _ in range(4)], java(), java()
    wire.acquire(a)
    first.acquire()
    for one in line[:3]:
        wire.acquire(one, LINE)
    j.acquire()
    wire.acquire(line[3], LINE)
    first.cancel(wait=2 * PATIENCE)
    assert not j.try_acquire() and wire.line() == [j.raw, line[3].raw]
    for one in line[1], line[2], line[0]:
        assert wire.acquire(one, LINE)[::2] == [0, 1]
    assert wire.line() == [j.raw, *(one.raw for one in line)]
    assert set(wire.scores()) == set(wire.line())
    wire.release(a)
    assert j.acquire() is None
    assert not java().try_acquire() and wire.line() == [one.raw for one in line]
    assert j.release() == 1 and wire.acquire(line[3], LINE)[0] == 0 and wire.holder() == line[0].raw


def test_the_whole_line_was_given_up(wire: Wire, who: Holds, java: Javas) -> None:
    a, line, unsubscribed, j = who(), [who() for _ in range(3)], who(subscribe=False), java()
    wire.acquire(a)
    wire.acquire(unsubscribed, LINE)
    for one in line:
        wire.acquire(one, LINE)
    wire.redis.command("DEL", wire.queue_key, wire.timeout_key)  # delete() does so
    wire.release(a)
    assert wire.holder() == line[0].raw and wire.line() == [one.raw for one in line[1:]]
    assert wire.left(wire.queue_key) > KEEP - 5000 < wire.left(wire.timeout_key)
    assert all(score > wire.now() + PLACE - 5000 for score in wire.scores().values()) and len(wire.scores()) == 2
    wire.acquire(unsubscribed, LINE)
    assert wire.line() == [one.raw for one in (unsubscribed, *line[1:])]
    for one in unsubscribed, *line[1:]:
        wire.redis.command("ZADD", wire.timeout_key, 1, one.id)
    j.acquire()
    wire.release(line[0])
    assert wire.holder() is None and j.message() == b"0" and wire.line() == [j.raw]


def test_a_list_that_is_gone(wire: Wire, who: Holds, java: Javas) -> None:
    """Redisson takes a waiter with a deadline for one in line."""
    a, b, c, j = who(), who(), who(), java()
    wire.acquire(a)
    wire.acquire(b, LINE)
    j.acquire()
    wire.acquire(c, LINE)
    for one, mode in (c, LINE), (who(), TRY):
        wire.redis.command("DEL", wire.queue_key)
        wire.acquire(one, mode)
        assert wire.line() == [b.raw, c.raw] and set(wire.scores()) == {b.raw, c.raw}
    wire.redis.command("DEL", wire.queue_key)
    assert wire.acquire(a)[0] == 1 and wire.scores()
    wire.release(a)
    assert wire.holder() == b.raw and wire.line() == [c.raw] and set(wire.scores()) == {c.raw}


def test_a_line_that_lost_some(wire: Wire, who: Holds) -> None:
    a, line = who(), [who() for _ in range(20)]
    wire.acquire(a)
    for one in line:
        wire.acquire(one, LINE)
    lost = line[3], line[12], line[19]
    for one in lost:
        wire.redis.command("LREM", wire.queue_key, 0, one.id)
    wire.redis.command("RPUSH", wire.queue_key, line[3].id)  # and one is elsewhere
    for one in lost:
        wire.acquire(one, LINE)
    assert [one for one in wire.line() if one != line[3].raw] == [one.raw for one in line if one is not line[3]]
    assert len(wire.line()) == 20


def test_back_into_a_long_line(wire: Wire, who: Holds, process: Processes, java: Javas) -> None:
    a, client = who(), process()
    line = [client.hold() for _ in range(200)]
    wire.acquire(a)
    for one in line:
        wire.acquire(one, LINE)
    for place in 3, 70, 140, 199:
        wire.redis.command("LREM", wire.queue_key, 0, line[place].id)
        wire.redis.command("ZREM", wire.timeout_key, line[place].id)
        code, ms, foreign = wire.acquire(line[place], LINE)
        assert (code, foreign) == (0, 1) and (ms > 0) == (place < SEEN)  # one of Redisson's may be before it now
        assert wire.line() == [one.raw for one in line]
    for one in line[5:]:
        wire.release(one)
    wire.redis.command("LREM", wire.queue_key, 0, line[4].id)
    wire.redis.command("ZREM", wire.timeout_key, line[4].id)
    assert wire.acquire(line[4], LINE)[1] > 0 and wire.line() == [one.raw for one in line[:5]]


def test_deadlines_add_up_along_the_line(wire: Wire, who: Holds, java: Javas) -> None:
    a, line, j, o = who(), [who() for _ in range(SEEN)], java(), who()
    wire.acquire(a, lease=3 * PLACE)
    before = wire.now()
    for one in line:
        wire.acquire(one, LINE)
    scores = [wire.scores()[one.raw] for one in line]
    assert scores == sorted(set(scores)) and before + 3 * PLACE - 1000 < scores[0]  # as long as the lease
    assert abs((j.acquire() or 0) - (scores[-1] - wire.now())) < 1000
    wire.acquire(o, LINE)
    assert wire.scores()[o.raw] == wire.scores()[j.raw] + 1
    for one in line[1:]:
        wire.release(one)
    wire.acquire(line[1], LINE)
    assert wire.scores()[line[1].raw] == wire.scores()[o.raw] + 1


def test_a_waiter_of_whom_nothing_is_known(wire: Wire, who: Holds) -> None:
    """It has lost its place: it joins at the end when it probes, and is removed when it does not."""
    a, b, odd, c = who(), who(), who(), who()
    for one in a, b, odd, c:
        wire.acquire(one, LINE)
    wire.redis.command("HDEL", wire.about, b.id)
    wire.redis.command("HSET", wire.about, odd.id, "what is this")
    wire.acquire(b, LINE)
    assert wire.line() == [odd.raw, c.raw, b.raw]
    wire.release(a)
    assert wire.holder() == c.raw
    wire.release(c)
    assert wire.holder() == b.raw
    wire.acquire(a, LINE)
    wire.redis.command("DEL", wire.about)
    wire.release(b)
    assert wire.holder() is None and wire.acquire(a, LINE)[0] == 1


# ---- clocks of Java hosts


@pytest.mark.parametrize("name", ["order", "{k}", "a{k}b"])
@pytest.mark.parametrize("fast, passed", [(PLACE - 5000, False), (PLACE + 5000, True)])
def test_how_fast_a_clock_of_javas_may_be(redis: Client, redis_server: Server, who: Holds, java: Javas, name: str, fast: int, passed: bool) -> None:
    """The limit that docs/kinds.md states: a host that is fast by more than that goes before our waiters. They come back in their own
    order, two never hold, and each gets the lock once.
    """
    wire, a, b, c, j = Wire(redis, name), who(), who(), who(), java(name=name)
    j.skew = fast
    wire.acquire(a, LINE)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE, seq=2)
    j.acquire()
    assert wire.line() == ([j.raw] if passed else [b.raw, c.raw, j.raw])
    for one in (c, b):
        assert wire.acquire(one, LINE)[0] == 0
    order = [j, b, c] if passed else [b, c, j]
    assert wire.line() == [one.raw for one in order]
    before: Any = a
    for turn, one in enumerate(order):
        assert j.release() == 1 if before is j else wire.release(before) == 1
        if one is j:
            assert j.message() == b"0" and j.acquire() is None
        else:
            wire.acquire(one, LINE)
        assert wire.holder() == one.raw
        for later in order[turn + 1 :]:
            assert j.acquire() is not None if later is j else wire.acquire(later, LINE)[0] == 0
        before = one
    wire.release(before) if before is not j else j.release()
    assert wire.holder() is None and wire.line() == []


def test_who_looks_seldom_is_not_given_up(wire: Wire, who: Holds, java: Javas) -> None:
    """Its place is as sure as its beat is long, with a large safety_ms, whatever comes behind it and whoever brings it back."""
    a, b, c, j, beat = who(), who(), who(), java(), 3 * PLACE + 1000
    wire.acquire(a, LINE, beat=beat)

    def sure() -> bool:
        least = wire.now() + beat - 5000
        return wire.line() == [b.raw, c.raw] and min(wire.scores()[one.raw] for one in (b, c)) > least

    wire.acquire(b, LINE, beat=beat)
    wire.acquire(c, LINE, beat=beat, seq=2)
    assert sure()
    for one in (b, c):
        wire.redis.command("ZADD", wire.timeout_key, wire.now() + 1000, one.raw)
        assert wire.acquire(one, LINE, beat=beat)[0] == 0
    assert sure()
    wire.redis.command("DEL", wire.queue_key)
    wire.acquire(c, LINE, beat=beat)
    assert sure()
    j.skew = beat - 5000
    j.acquire()
    assert wire.line() == [b.raw, c.raw, j.raw]
    j.cancel()


def test_redissons_surprises(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j = who(), who(), java()
    assert j.acquire() is None
    wire.acquire(a, LINE)
    wire.redis.command("DEL", wire.name)  # its lock vanished; it releases nevertheless
    assert j.release() == 1 and wire.acquire(a, LINE)[0] == 1
    wire.acquire(b, LINE)
    assert j.force() and wire.holder() is None
    assert wire.acquire(b, LINE)[0] == 1 and wire.release(a) == 0
    wire.redis.command("DEL", wire.name, wire.queue_key, wire.timeout_key)
    assert j.acquire() is None and j.acquire() is None and wire.acquire(a, LINE)[::2] == [0, 1]
    assert j.release() == 0 and wire.acquire(a, LINE)[0] == 0
    assert j.release() == 1 and wire.acquire(a, LINE)[0] == 1
    wire.release(a)
    only_the_counter_is_left(wire)


def test_a_line_of_ours_vanishes_in_the_end(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, c, j = who(), who(), who(), java()
    wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    for key in wire.redis.command("KEYS", "*"):
        assert 0 < wire.left(key) <= KEEP
    assert wire.left(wire.queue_key) > KEEP - 5000 < wire.left(wire.timeout_key)
    wire.redis.command("PEXPIRE", wire.queue_key, 1000)
    wire.acquire(c, LINE)
    assert wire.left(wire.queue_key) > KEEP - 5000
    j.acquire()
    wire.release(b)
    wire.release(c)  # the rest is Redisson's, without an expiry
    assert wire.line() == [j.raw] and wire.left(wire.queue_key) == wire.left(wire.timeout_key) == -1
    wire.acquire(b, LINE)
    assert wire.left(wire.queue_key) == -1
    j.cancel()
    wire.acquire(b, LINE)
    j.acquire()
    for _ in range(2):
        wire.acquire(b, LINE)  # no longer of ours alone, though ours is first
        assert wire.line() == [b.raw, j.raw] and wire.left(wire.queue_key) == wire.left(wire.timeout_key) == -1


# ---- force, the gate, other kinds


def test_force(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, j = who(), who(), java()
    assert wire.force() == 0 and wire.redis.command("KEYS", "*") == []
    wire.acquire(a)
    assert wire.force() == 1
    only_the_counter_is_left(wire)
    wire.acquire(a)
    wire.acquire(b, LINE)
    j.acquire()
    assert wire.force() == 1 and wire.holder() == b.raw and told(b, wire)
    assert wire.release(a) == 0 and wire.holder() == b.raw
    assert wire.force() == 1 and j.message() == b"0" and j.acquire() is None
    wire.acquire(a, LINE)
    assert wire.force() == 1 and wire.holder() == a.raw


def test_the_gate(wire: Wire, who: Holds, java: Javas) -> None:
    a, b, c, j = who(), who(), who(), java()
    first = wire.acquire(a)
    wire.acquire(b, LINE)
    wire.acquire(c, LINE)
    j.acquire()
    wire.redis.command("SET", wire.gate, "x", "PX", 60_000)
    assert wire.acquire(a) == first  # it holds
    assert wire.acquire(c, LINE) == [-2] and wire.line() == [b.raw, j.raw]
    assert wire.acquire(who(), TRY) == [-2]
    assert wire.release(a) == 1 and wire.holder() is None and b.nothing()  # nobody of ours gets in any more
    assert wire.acquire(b, LINE) == [-2] and wire.line() == [j.raw]
    assert j.message() == b"0" and j.acquire() is None  # it knows no gates
    assert j.release() == 1
    assert wire.acquire(b, LINE) == [-2] and wire.line() == []
    wire.redis.command("DEL", wire.gate)
    assert wire.acquire(b, LINE)[0] == 1 and wire.release(b) == 1
    only_the_counter_is_left(wire)


def test_the_gate_before_a_line_of_ours(wire: Wire, who: Holds) -> None:
    a, b, c = who(), who(), who()
    for hold in a, b, c:
        wire.acquire(hold, LINE)
    wire.redis.command("SET", wire.gate, "x", "PX", 60_000)
    assert wire.acquire(who(), LINE) == [-2] and wire.line() == [b.raw, c.raw]
    assert wire.release(a) == 1 and wire.holder() is None and b.nothing()
    wire.redis.command("DEL", wire.gate)
    assert wire.acquire(b, LINE)[0] == 1 and wire.release(b) == 1 and wire.holder() == c.raw


MAKE = [["SET", "3"], ["RPUSH", "a"], ["ZADD", "1", "a"], ["HSET", "a", "b"], ["SADD", "a"]]
RIGHT = ["HSET", "SET", "RPUSH", "ZADD", "HSET"]
WRONG = [(at, command) for at, right in enumerate(RIGHT) for command in MAKE if command[0] != right]


@pytest.mark.parametrize(("at", "command"), WRONG, ids=[f"{at}-{command[0]}" for at, command in WRONG])
def test_keys_of_another_type(wire: Wire, who: Holds, at: int, command: list[str]) -> None:
    a = who()
    wire.redis.command(command[0], wire.keys[at], *command[1:])
    before = wire.state()
    for mode in TRY, LINE, POLL:
        assert wire.acquire(a, mode) == [-1]
    assert wire.release(a) == 0 and wire.force() == -1
    assert wire.state() == before
    if at > 0:  # it happens to a held lock, which can be released
        wire.redis.command("HSET", wire.name, a.id, 1)
        assert wire.acquire(a) == [-1] and wire.release(a) == 1 and wire.holder() is None
        assert wire.state() == before


def test_a_read_write_lock_is_refused(wire: Wire, who: Holds) -> None:
    a = who()
    wire.redis.command("HSET", wire.name, "mode", "read", a.id, "1")
    before = wire.state()
    for mode in TRY, LINE, POLL:
        assert wire.acquire(a, mode) == [-1]
    assert wire.force() == -1 and wire.release(who()) == 0
    assert wire.state() == before


@pytest.mark.parametrize("how", ["alone", "line", "rest"])
def test_what_redisson_put_into_the_hash_stays(wire: Wire, who: Holds, how: str) -> None:
    """Its readers enter the hash of a held lock (trap 2): we must not delete them, and nobody else gets in."""
    a, b, owner = who(), who(), "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"
    java = JavaRw(wire.redis, wire.name, owner)
    assert wire.acquire(a)[0] == 1
    assert how == "alone" or wire.acquire(b, LINE)[0] == 0
    assert java.read(2 * LEASE) is None
    assert wire.release(a, rest=LEASE if how == "rest" else 0) == 1 and b.nothing()
    assert fields(wire.redis, wire.name) == [(b"mode", b"read"), (owner.encode(), b"1")]
    assert wire.redis.command("PTTL", wire.name) > 2 * LEASE - 5000
    assert wire.acquire(b) == [-1] and wire.release(a) == 0
    assert java.read_release() == 1 and wire.redis.command("EXISTS", wire.name) == 0


# ---- the server


NAMES: list[str | bytes] = [
    "order", "shop:{7}:lock", "{x}", "a b  c ", "%d %s %1", "fair 1 1 1 x", "*", "Schloß €", b"\xff\xfe\x01",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name)[:20])
def test_any_name(redis: Client, who: Holds, java: Javas, name: str | bytes) -> None:
    wire, a, b, c, j = Wire(redis, name), who(), who(), who(), java(name=name)
    for one in a, b, c:
        wire.acquire(one, LINE)
    j.acquire()
    assert wire.release(a) == 1 and told(b, wire) == wire.last_token()
    assert wire.force() == 1 and told(c, wire) and wire.release(c) == 1
    assert j.message() == b"0" and j.acquire() is None and j.release() == 1
    assert wire.acquire(a)[0] == 1 and wire.release(a) == 1
    only_the_counter_is_left(wire)


@pytest.mark.parametrize("name", ["order", "shop:{7}:lock"])
def test_all_keys_are_declared_and_in_one_slot(new_server: Callable[..., Server], name: str | bytes) -> None:
    server = new_server("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"))
    with server.client() as redis:
        wire, (a, b, c), j = Wire(redis, name), [Process(server).hold() for _ in range(3)], Java(server, name)
        for one in a, b, c:
            wire.acquire(one, LINE)
        j.acquire()
        assert wire.release(a) == 1 and wire.holder() == b.raw and wire.release(c) == 0
        assert wire.force() == 1 and j.acquire() is None
        assert len({redis.command("CLUSTER", "KEYSLOT", key) for key in wire.keys}) == 1


def test_a_full_server_lets_go(new_server: Callable[..., Server]) -> None:
    server = new_server("--maxmemory", "12mb", "--maxmemory-policy", "noeviction")
    with server.client() as redis:
        wire, clients, j = Wire(redis), [Process(server) for _ in range(4)], Java(server)
        a, b, c, d = (client.hold() for client in clients)
        wire.acquire(a)
        for one in b, c, d:
            wire.acquire(one, LINE)
        j.acquire()
        with pytest.raises(ReplyError, match="OOM"):
            for number in range(1000):
                redis.command("SET", f"fill:{number}", "x" * 100_000)
        redis.command("CONFIG", "SET", "maxmemory", "1mb")
        for mode in TRY, LINE:
            with pytest.raises(ReplyError, match="OOM"):
                Wire(redis, "new").acquire(a, mode)
        assert not redis.command("KEYS", "*new*")
        assert wire.release(a) == 1 and told(b, wire)
        assert wire.release(c) == 0 and wire.line() == [d.raw, j.raw]
        assert wire.release(b, rest=5000) == 1 and wire.left() <= 5000
        assert wire.force() == 1 and told(d, wire)
        assert wire.release(d) == 1 and j.message() == b"0"
        assert wire.holder() is None and wire.line() == [j.raw]


def test_a_sweep_looks_at_some_records_and_goes_on(wire: Wire, who: Holds) -> None:
    wire.acquire(who())
    wire.acquire(who(), LINE)
    for number in range(1000):  # Redisson has thrown them out; half of them live
        other, till = f"{number:08x}-1111-8000-8000-00000000000f:1", wire.now() + BEAT if number % 2 else 1
        wire.redis.command("HSET", wire.about, other, f"1 30000 1 1000 0 1 0 {till}")
    sizes = [1000]
    while len(sizes) < 300:
        wire.acquire(who(), LINE)
        sizes.append(wire.redis.command("HLEN", wire.about))
    assert all(before - SOME <= after for before, after in zip(sizes, sizes[1:])) and sizes[-1] < 1000 - 500 + 300 + 10
    records = dict(fields(wire.redis, wire.about))
    assert sum(b"-1111-8000-" in owner for owner in records) == 500


def commands(redis: Client) -> int:
    """How many commands the server has executed, including those in scripts."""
    rows = redis.command("INFO", "commandstats").decode().splitlines()
    counts = [row.split("calls=")[1].split(",")[0] for row in rows if "calls=" in row and "cmdstat_info:" not in row]
    return sum(map(int, counts))


def test_the_cost_does_not_grow_with_the_line(new_server: Callable[..., Server]) -> None:
    server = new_server()
    with server.client() as redis:
        wire, client = Wire(redis), Process(server)
        line = [client.hold() for _ in range(2000)]
        last = client.hold()

        def cost() -> list[int]:
            counts = []
            steps: list[Callable[[], Any]] = [
                lambda: wire.acquire(last, LINE), lambda: wire.acquire(last, LINE), lambda: wire.acquire(line[5], LINE),
                lambda: wire.release(last), lambda: wire.release(Hold(client, 0)),
            ]  # fmt: skip
            for step in steps:
                before = commands(redis)
                step()
                counts.append(commands(redis) - before)
            return counts

        wire.acquire(line[0])
        for one in line[1:30]:
            wire.acquire(one, LINE)
        few = cost()
        for one in line[30:]:
            wire.acquire(one, LINE)
        many = cost()
        assert max(many) < 30 and all(abs(more - less) <= 2 for more, less in zip(many, few)), (few, many)
        before = commands(redis)
        wire.release(line[0])
        assert wire.holder() == line[1].raw
        assert commands(redis) - before < 30


# ---- anything in any order


@pytest.mark.parametrize("part", always(0, full=range(1, 4)))
def test_any_order(wire: Wire, process: Processes, java: Javas, part: int) -> None:
    processes, javas = [process() for _ in range(4)], [java() for _ in range(3)]
    for seed in range(80 * part, 80 * part + 80):
        run_seed(wire, processes, javas, seed, 40)


# ---- turns in the process of the holder


def test_a_grant_says_who_is_next(wire: Wire, process: Processes) -> None:
    """As far as they are of the same process, and no more than block - 1. Each has a token."""
    mine, other = process(), process()
    a, b, c, d, e, f = mine.hold(), mine.hold(), mine.hold(), other.hold(), mine.hold(), mine.hold()
    assert wire.acquire(a, LINE, block=65) and (wire.tokens, wire.next) == (1, b"")
    for hold in b, c, d, e, f:
        assert wire.acquire(hold, LINE, block=2 if hold is e else 65)[0] == 0
    assert wire.release(a) == 1
    first = told(b, wire)
    assert (wire.tokens, wire.next) == (2, b"3") and wire.last_token() == first + 1
    assert wire.release(b, served=[c]) == 1 and told(d, wire) > first + 1 and (wire.tokens, wire.next) == (1, b"")
    assert wire.release(d) == 1 and told(e, wire) and (wire.tokens, wire.next) == (2, b"%d" % f.number)
    assert wire.release(e, served=[f]) == 1 and wire.holder() is None and wire.line() == [] == fields(wire.redis, wire.about)


def test_no_more_are_named_than_a_message_has_room_for(wire: Wire, process: Processes) -> None:
    mine = process()
    holds = [mine.hold() for _ in range(60)]
    for hold in holds:
        wire.acquire(hold, LINE, block=1025)
    assert wire.release(holds[0]) == 1 and told(holds[1], wire)
    assert wire.tokens == 32 and wire.next == b",".join(b"%d" % hold.number for hold in holds[2:33])


def test_a_new_counter_has_no_turns(wire: Wire, process: Processes) -> None:
    """It reserves one token: so nobody else is named."""
    mine = process()
    a, b, c = mine.hold(), mine.hold(), mine.hold()
    for hold in a, b, c:
        wire.acquire(hold, LINE, block=65)
    wire.redis.command("DEL", wire.fence)
    assert wire.release(a) == 1 and told(b, wire) and (wire.tokens, wire.next) == (1, b"")


def test_those_that_were_served_leave_the_line(wire: Wire, process: Processes) -> None:
    """In any state: the lock may have ended on the server before its release, and one of them may have got it there."""
    mine, other = process(), process()
    a, b, c, d = mine.hold(), mine.hold(), mine.hold(), other.hold()
    for hold in a, b, c, d:
        wire.acquire(hold, LINE, block=65)
    assert wire.release(a) == 1 and told(b, wire) and wire.next == b"3"
    assert wire.force() == 1 and wire.holder() == c.raw and told(c, wire)  # c has had its turn in memory by now
    assert wire.release(b, served=[c]) == 0 and wire.holder() == d.raw and wire.line() == []
    assert wire.release(b, served=[c]) == 0 and wire.holder() == d.raw
    assert wire.release(d) == 1 and fields(wire.redis, wire.about) == []


def test_a_waiter_is_not_buried_with_a_later_one(wire: Wire, process: Processes) -> None:
    """They are of one process, and the later one gives up while its request may still be under way."""
    mine = process()
    a, b, c = mine.hold(), mine.hold(), mine.hold()
    for hold in a, b, c:
        wire.acquire(hold, LINE)
    assert wire.run("release", c.id, wire.channel, 0, 0, 1) == 0
    assert wire.acquire(c, LINE) == [0, -1, 0] and wire.line() == [b.raw]
    assert wire.release(a) == 1 and wire.acquire(b, LINE) == [1, wire.last_token()]
