"""Submitted calls: dlock_lock_submit_extend and its siblings do what the blocking calls do, and one event reports the result."""
from __future__ import annotations

import collections
from typing import Any, Callable

import pytest

from harness.agent import Agent, Answer, Client, Event, Lock, until
from harness.kinds import KINDS, image, one, sides
from harness.proxy import Link, Proxy
from harness.steps.redisson import old_counter
from harness.steps.scripts import SHA, teach
from harness.server import Server

Make = Callable[..., Any]
ALL = ["mutex", *KINDS, "latch"]
NUMBERS = {name: number for number, name in ((0, "OK"), (10, "UNCHANGED"), (-107, "CLOSED"), (-200, "NOT_HELD"), (-201, "LOST"), (-202, "WRONG_KIND"), (-203, "UNKNOWN_OUTCOME"), (-300, "UNREACHABLE"), (-301, "DENIED"))}


def done(client: Client, tag: int) -> Event:
    """The event of a submitted call; LOST and log events may come before it."""
    while (event := client.event()).type in ("LOST", "LOG", "AT_RISK"):
        pass
    assert (event.type, event.tag) == ("DONE", tag), event
    return event


class Pair:
    """The same call in both forms, each on its own name with the same history."""

    def __init__(self, client: Client, kind: str) -> None:
        self.client, self.kind, self.tag = client, kind, 100
        self.waits, self.submits = (client.lock(name, kind=kind, lease_ms=20_000) for name in ("waits", "submits"))

    def both(self, act: Callable[[Lock], Any]) -> None:
        act(self.waits), act(self.submits)

    def submit(self, command: str, *words: Any) -> Answer | Event:
        """The event; or the call's own answer when there is none."""
        self.tag += 1
        answer = self.submits.submit(command, self.tag, *words)
        if answer.number:
            assert self.client.poll(0).readable == 0, "an answer at once and an event"
            return answer
        event = done(self.client, self.tag)
        assert event.lock_id == self.submits.id and event.cause == "NONE", event
        return event

    def same(self, command: str, *words: Any, status: str | None = None, value: int | None = None) -> Answer | Event:
        """Both forms give the same answer."""
        first = getattr(self.waits, command)(*words)
        second = self.submit(command, *words)
        assert status is None or first.status == status, first
        if isinstance(second, Answer):
            assert (second.status, second.message) == (first.status, first.message.replace("'waits'", "'submits'"))
            return second
        assert second.status == first.number, (first, second)
        assert second.text == first.message.replace("'waits'", "'submits'") or command == "inspect"
        if "value" in first.__dict__:
            assert second.value == (first.value if first.number == 0 else -1), (first, second)
        else:
            assert second.value == -1
        assert value is None or second.value == value
        return second


@pytest.fixture
def client(agent: Agent, redis_server: Server) -> Client:
    return agent.open(redis_server)


# ---- the same answers


@pytest.mark.parametrize("kind", ALL)
def test_gate(client: Client, kind: str) -> None:
    pair = Pair(client, kind)
    pair.same("open_gate", status="UNCHANGED")
    pair.same("close_gate", 60_000, status="OK")
    pair.both(lambda lock: (lock.acquire(1, 0).status == "GATE_CLOSED") or pytest.fail("the gate is not closed"))
    pair.same("open_gate", status="OK")
    pair.same("open_gate", status="UNCHANGED")
    pair.same("close_gate", 0, status="INVALID_ARGUMENT")


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_extend_and_force(client: Client, kind: str) -> None:
    pair = Pair(client, kind)
    if "semaphore" in kind:
        pair.both(lambda lock: lock.permits_set(1).ok)
    plain = kind == "semaphore"
    pair.same("extend", 1, 30_000, status="UNSUPPORTED" if plain else "NOT_HELD")
    pair.both(lambda lock: lock.acquire(1, 0).ok)
    event = pair.same("extend", 1, 60_000, status="UNSUPPORTED" if plain else "OK")
    if not plain:
        assert isinstance(event, Event) and event.owner == 1 and event.text == ""
        pair.both(lambda lock: lock.remaining(1).remaining > 30_000 or pytest.fail("not extended"))
        pair.same("extend", 2, 60_000, status="NOT_HELD")
        pair.same("extend", 1, 5, status="INVALID_ARGUMENT")
    pair.same("force")
    if "semaphore" not in kind:
        pair.same("force", status="NOT_HELD")
        pair.same("extend", 1, 30_000)  # NOT_HELD from the server, or LOST if that is known already
        assert {pair.waits.state(1), pair.submits.state(1)} == {"LOST"}
        pair.same("extend", 1, 30_000, status="LOST")


@pytest.mark.parametrize("kind", ALL)
def test_inspect(client: Client, kind: str) -> None:
    pair = Pair(client, kind)
    if "semaphore" in kind:
        pair.both(lambda lock: lock.permits_set(1).ok)
    free = pair.same("inspect", status="OK")
    assert isinstance(free, Event) and free.text == ""
    pair.both(lambda lock: lock.latch_set(3).ok if kind == "latch" else lock.acquire(1, 0).ok)
    waits = pair.waits.inspect().ok.event
    submits = pair.submit("inspect")
    assert isinstance(submits, Event) and waits.type == "INSPECTION"
    assert (submits.foreign, submits.waiters, submits.value) == (waits.foreign, waits.waiters, -1)
    assert submits.text.partition(":")[0] == waits.text.partition(":")[0]
    assert (submits.token > 0) == (waits.token > 0) and abs(submits.remaining - waits.remaining) < 10_000
    assert (submits.held_for >= 0) == (waits.held_for >= 0)


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore"])
def test_semaphore(client: Client, kind: str) -> None:
    pair = Pair(client, kind)
    pair.same("permits", value=0)
    pair.same("permits_set", 5, status="OK")
    pair.same("permits_set", 6, status="UNCHANGED")
    pair.same("permits_set", 0, status="INVALID_ARGUMENT")
    pair.same("permits_add", 4, value=9)
    pair.same("permits_add", -2, value=7)
    pair.same("permits_add", 0, status="INVALID_ARGUMENT")
    pair.both(lambda lock: lock.acquire(1, 0).ok)
    pair.same("permits", value=6)
    if kind == "semaphore":
        pair.same("permits_drain", value=6)
        pair.same("permits_drain", value=0)
    else:
        pair.same("permits_drain", status="UNSUPPORTED")
    pair.same("latch_count", status="UNSUPPORTED")


def test_latch(client: Client) -> None:
    pair = Pair(client, "latch")
    pair.same("latch_count", value=0)
    pair.same("latch_set", 3, status="OK")
    pair.same("latch_set", 4, status="UNCHANGED")
    pair.same("latch_down", 2, value=1)
    pair.same("latch_count", value=1)
    pair.submits.submit_acquire(1, -1, 9).ok
    pair.submits.submit("latch_down", 10, 5).ok
    events = {event.tag: event for event in (client.event(), client.event())}
    assert events[9].type == "ACQUIRED" and (events[10].type, events[10].status, events[10].value) == ("DONE", 0, 0)
    pair.same("latch_down", 0, status="INVALID_ARGUMENT")
    pair.same("permits", status="UNSUPPORTED")


@pytest.mark.parametrize("kind", ["semaphore", "permit_semaphore", "latch"])
def test_wrong_kind(client: Client, redis_server: Server, kind: str) -> None:
    for name in ("waits", "submits"):
        redis_server.command("HSET", name, "field", "value")
    pair = Pair(client, kind)
    pair.same("latch_set" if kind == "latch" else "permits_set", 3, status="WRONG_KIND")
    pair.same("close_gate", 1000)


def test_ping(agent: Agent, redis_server: Server, new_server: Make, new_proxy: Make) -> None:
    client = agent.open(redis_server)
    client.submit_ping(1, -1).ok
    event = done(client, 1)
    assert (event.status, event.lock_id, event.owner, event.text) == (0, -1, -1, "")
    assert client.submit_ping(2, -2).status == "INVALID_ARGUMENT"
    proxy = new_proxy(redis_server)
    proxy.refuse()
    secret = new_server("--requirepass", "right")
    wrong = secret.url.replace("://", "://:wr0ng@")
    for url, status in ((proxy.url, "UNREACHABLE"), (wrong, "DENIED")):
        other = agent.open(url)
        answer = other.ping(2000)
        other.submit_ping(7, 2000).ok
        event = done(other, 7)
        assert (answer.status, event.status) == (status, NUMBERS[status]) and event.text == answer.message
        assert event.text and "wr0ng" not in event.text


# ---- the sentence of a failure, which names lock and server


def ended(client: Client, type: str) -> Event:
    while (event := client.event()).type in ("LOST", "LOG", "AT_RISK"):
        pass
    assert event.type == type, event
    return event


def test_nobody_answers(agent: Agent, new_proxy: Callable[..., Proxy], redis_server: Server) -> None:
    proxy = new_proxy(redis_server)
    proxy.refuse()
    client = agent.open(proxy.url, connect_timeout_ms=300)
    answer = client.lock("lock").acquire(1, 0)
    client.lock("lock").submit_acquire(2, 0, 7).ok
    event = ended(client, "ACQUIRE_FAILED")
    assert (event.status, event.text) == (answer.number, answer.message)
    assert answer.status == "UNREACHABLE" and "lock 'lock' at " in event.text and "refused" in event.text


@pytest.mark.parametrize("kind", ["mutex", "fair", "permit_semaphore"])
def test_denied_while_it_waits(agent: Agent, redis_server: Server, kind: str) -> None:
    """Every waiter gets the server's error text, whether it sent the command or not."""
    redis_server.command("ACL", "SETUSER", "less", "reset", "on", ">s3cret", "~*", "&*", "+@all")
    client = agent.open(redis_server.url.replace("://", "://less:s3cret@"), safety_ms=100)
    holder, waits, submits = (one(client, kind, name) for name in ("lock", "lock", "lock"))
    other = one(agent.open(redis_server), kind)
    other.acquire(9, 0).ok
    tries = [waits.start("acquire", owner, -1, thread=owner) for owner in (1, 2)]
    submits.submit_acquire(3, -1, 7).ok
    until(lambda: client.counters()["waiting"] == 3)
    redis_server.command("ACL", "SETUSER", "less", "-evalsha", "-eval")
    answers = [one.answer() for one in tries]
    event = ended(client, "ACQUIRE_FAILED")
    for status, text in [(answer.number, answer.message) for answer in answers] + [(event.status, event.text)]:
        assert status == NUMBERS["DENIED"] and text.startswith("lock 'lock' at ") and "evalsha" in text and "s3cret" not in text
    holder.drop()
    redis_server.command("ACL", "DELUSER", "less")
    other.release(9).ok


def test_a_release_that_is_refused(agent: Agent, redis_server: Server) -> None:
    redis_server.command("ACL", "SETUSER", "less", "reset", "on", ">s3cret", "~*", "&*", "+@all")
    client = agent.open(redis_server.url.replace("://", "://less:s3cret@"), release_timeout_ms=300)
    waits, submits = client.lock("waits"), client.lock("submits")
    waits.acquire(1, 0).ok, submits.acquire(1, 0).ok
    redis_server.command("ACL", "SETUSER", "less", "-evalsha", "-eval")
    answer = waits.release(1)
    submits.submit_release(1, 7).ok
    event = ended(client, "RELEASE_FAILED")
    assert (event.status, event.text) == (answer.number, answer.message.replace("'waits'", "'submits'"))
    assert event.text.startswith("lock 'submits' at "), event
    redis_server.command("ACL", "DELUSER", "less")


def test_adopt(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    giver, taker = agent.open(redis_server).lock("lock", lease_ms=20_000), new_agent().open(redis_server)
    lock = taker.lock("lock", lease_ms=20_000)
    token = giver.acquire(1, 0).ok.token
    grant = giver.export(1, 4096).ok.grant
    raw = bytes.fromhex(grant.replace("%", ""))
    assert lock.submit("adopt", 1, 5, raw[1:]).status == "INVALID_GRANT"
    lock.submit("adopt", 2, 5, raw).ok
    event = done(taker, 2)
    assert (event.status, event.token, event.owner, event.value) == (0, token, 5, -1)
    assert lock.state(5) == "HELD" and lock.token(5).ok.token == token
    assert lock.submit("adopt", 3, 6, raw).status == "BUSY"
    lock.release(5).ok
    lock.submit("adopt", 4, 6, raw).ok
    event = done(taker, 4)
    assert event.status == NUMBERS["LOST"] and "lock 'lock' at " in event.text and lock.state(6) == "NONE"


def test_several_members(client: Client, redis_server: Server) -> None:
    """One event when all are done; the sentence names the member that was in the way."""
    members = [client.lock(name, kind=kind, lease_ms=20_000) for name, kind in (("a", "mutex"), ("b", "fair"), ("c", "write"))]
    both = client.multi(*members)
    assert both.submit("extend", 1, 1, 60_000).status == both.extend(1, 60_000).status == "NOT_HELD"
    assert both.submit("inspect", 1).status == both.submit("close_gate", 1, 100).status == "UNSUPPORTED"
    both.acquire(1, 0).ok
    both.submit("extend", 2, 1, 60_000).ok
    event = done(client, 2)
    assert (event.status, event.lock_id, event.owner) == (0, both.id, 1)
    assert all(lock.remaining(1).ok.remaining > 30_000 for lock in members) and both.remaining(1).ok.remaining > 30_000
    redis_server.command("DEL", "b")
    both.submit("extend", 3, 1, 90_000).ok
    event = done(client, 3)
    assert event.status == NUMBERS["LOST"] and event.text.startswith("lock 'b' at "), event
    assert members[0].remaining(1).ok.remaining > 60_000 > members[2].remaining(1).ok.remaining
    both.submit("force", 4).ok
    assert done(client, 4).status == 0 and redis_server.command("EXISTS", "a", "b", "c") == 0
    both.submit("force", 5).ok
    event = done(client, 5)
    assert event.status == NUMBERS["NOT_HELD"] and event.text == both.force().message


# ---- each call is reported once


def ends(client: Client, count: int) -> list[Event]:
    """So many end events, in order."""
    found: list[Event] = []
    while len(found) < count:
        event = client.event()
        found += [] if event.type in ("LOST", "LOG", "AT_RISK") else [event]
    return found


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_released_before_the_grant_was_read(client: Client, kind: str) -> None:
    """The event of the grant is unchanged, and the event of the release comes after it."""
    lock = one(client, kind)
    for tag in (10, 20):
        lock.submit_acquire(1, -1, tag).ok
        until(lambda: lock.state(1) == "HELD")
        token = lock.token(1).ok.token
        if tag == 20:
            assert lock.cancel(1).status == "NOT_HELD"
        released = client.counters()["released"]
        lock.submit_release(1, tag + 1).ok
        until(lambda: client.counters()["released"] > released)
        both = [(event.type, event.tag, event.status, event.token) for event in ends(client, 2)]
        assert both == [("ACQUIRED", tag, 0, token), ("RELEASED", tag + 1, 0, token)]
    assert client.poll(0).readable == 0


def test_a_release_that_is_refused_before_the_grant_was_read(agent: Agent, redis_server: Server) -> None:
    """The error text belongs to the release alone."""
    redis_server.command("ACL", "SETUSER", "less", "reset", "on", ">s3cret", "~*", "&*", "+@all")
    client = agent.open(redis_server.url.replace("://", "://less:s3cret@"))
    lock = client.lock("lock")
    lock.submit_acquire(1, -1, 1).ok
    until(lambda: lock.state(1) == "HELD")
    redis_server.command("ACL", "SETUSER", "less", "-evalsha", "-eval")
    lock.submit_release(1, 2).ok
    until(lambda: lock.state(1) == "NONE")
    other = client.lock("other")
    other.submit_acquire(1, 0, 3).ok  # is answered after the release
    acquired, released, refused = ends(client, 3)
    assert (acquired.type, acquired.tag, acquired.status) == ("ACQUIRED", 1, 0) and "evalsha" not in acquired.text
    assert (released.type, released.tag, released.status) == ("RELEASE_FAILED", 2, NUMBERS["DENIED"]) and "evalsha" in released.text
    assert (refused.type, refused.tag) == ("ACQUIRE_FAILED", 3)
    redis_server.command("ACL", "DELUSER", "less")


# ---- a network that loses data


CHANGES = [("semaphore", "permits_set", 5, -1, 5), ("semaphore", "permits_add", 3, 3, 3), ("permit_semaphore", "permits_add", 3, 3, 3), ("latch", "latch_set", 4, -1, 4)]


@pytest.mark.parametrize("kind, command, number, value, stays", CHANGES)
def test_a_change_acts_once(agent: Agent, redis_server: Server, new_proxy: Make, kind: str, command: str, number: int, value: int, stays: int) -> None:
    proxy: Proxy = new_proxy(redis_server)
    client, direct = agent.open(proxy, connects_per_second=1000), agent.open(redis_server)
    lock, look = client.lock("lock", kind=kind), direct.lock("lock", kind=kind)
    count = "latch_count" if kind == "latch" else "permits"
    other = direct.lock("other", kind=kind)  # the server has its script
    agent(command, other.index, number).ok
    hook = proxy.lose_reply(SHA[kind.replace("_semaphore", "") + "_change"])
    lock.submit(command, 1, number).ok
    event = done(client, 1)
    assert hook.count == 1 and (event.status, event.value) == (0, value)
    assert agent(count, look.index).ok.value == stays


@pytest.mark.parametrize("kind, call", [("semaphore", "permits_add"), ("permit_semaphore", "permits_add"), ("latch", "latch_down")])
def test_no_answer_and_then_a_refusal(agent: Agent, new_server: Make, new_proxy: Make, kind: str, call: str) -> None:
    """Nobody knows what the first try has done: not the refusal is the answer, but it is quoted."""
    server = new_server()
    proxy: Proxy = new_proxy(server)
    lock = agent.open(proxy, connects_per_second=1000).lock("lock", kind=kind)
    (lock.latch_set if kind == "latch" else lock.permits_set)(9).ok

    def executed(link: Link, _data: bytes) -> None:
        if link.loses_reply:
            server.command("ACL", "SETUSER", "default", "-evalsha", "-eval")

    proxy.down.on(b"\r\n", executed)
    hook = proxy.lose_reply(SHA[("permit" if kind == "permit_semaphore" else kind) + "_change"])
    answer = agent(call, lock.index, 1)
    assert hook.count == 1 and answer.status == "UNKNOWN_OUTCOME" and not answer.retryable, answer
    assert "had no answer" in answer.message and "permission" in answer.message.lower(), answer
    assert agent(call, lock.index, 1).status == "DENIED"  # a first try is certain


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("wait", [1, 20])
def test_a_wait_shorter_than_a_round_trip(agent: Agent, redis_server: Server, new_proxy: Make, warm: bool, wait: int) -> None:
    """It is TIMED_OUT in both forms: the server may be well. A server that refuses connections is UNREACHABLE. Nothing stays behind."""
    proxy = new_proxy(redis_server)
    client = agent.open(proxy.url)
    lock = client.lock("lock")
    if warm:
        lock.acquire(1, 0).ok
        lock.release(1).ok
    proxy.down.hold()
    assert lock.acquire(1, wait).status == "TIMED_OUT"
    lock.submit_acquire(2, wait, 7).ok
    event = client.event(5000)
    assert (event.type, event.tag, event.status) == ("ACQUIRE_FAILED", 7, 2), event
    proxy.down.release()
    lock.acquire(3, 5000).ok
    lock.release(3).ok
    assert lock.state(1) == lock.state(2) == "NONE" and not redis_server.command("EXISTS", "lock")
    assert proxy.down.fired["hold"] or wait == 1  # a busy machine may send nothing in a millisecond
    proxy.refuse()
    proxy.cut()
    assert lock.acquire(1, 300).status == "UNREACHABLE"


def test_no_answer_at_all(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """Sent and never answered: UNKNOWN_OUTCOME in both forms. Not sent: UNREACHABLE."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000, command_timeout_ms=600)
    lock = client.lock("lock", kind="semaphore")
    agent.open(redis_server).lock("other", kind="semaphore").permits_set(1).ok
    client.ping(-1).ok
    hook = proxy.lose_reply(SHA["semaphore_change"])
    hook.times = None
    lock.submit("permits_set", 1, 5).ok
    event = done(client, 1)
    assert event.status == NUMBERS["UNKNOWN_OUTCOME"] and hook.count >= 1 and "lock 'lock' at " in event.text
    assert lock.permits_set(5).status == "UNKNOWN_OUTCOME"
    proxy.refuse()
    proxy.cut()
    for command, words in (("permits_set", [5]), ("permits", []), ("close_gate", [100]), ("inspect", []), ("force", [])):
        if command == "force":
            lock = client.lock("mutex")
        answer = agent(command, lock.index, *words)
        lock.submit(command, 9, *words).ok
        event = done(client, 9)
        assert answer.status == "UNREACHABLE" and event.status == NUMBERS["UNREACHABLE"], (answer, event)
        assert event.text.startswith(f"lock '{'mutex' if command == 'force' else 'lock'}' at ") and proxy.url.rpartition(":")[2] in event.text


# ---- the caller's hold has ended, or is back


@pytest.mark.parametrize("who", ["another", "itself", "itself at once"])
def test_an_extension_that_comes_too_late(agent: Agent, redis_server: Server, new_proxy: Make, who: str) -> None:
    """The caller's hold has ended when the answer comes: the next hold of the same grant keeps its lease, also a hold of the same owner."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, command_timeout_ms=30_000, lease_ms=30_000, handover_ms=1000, linger_ms=1000 if who == "itself at once" else 0)
    lock = client.lock("lock")
    teach(redis_server)
    old_counter(redis_server, "lock")
    client.submit_ping(0, -1).ok
    done(client, 0)
    lock.acquire(1, 0).ok
    if who != "itself at once":
        lock.submit_acquire(2, -1, 20).ok
    proxy.down.hold()
    lock.submit("extend", 7, 1, 3_600_000).ok
    lock.release_local(1).ok
    if who == "itself at once":
        lock.acquire_local(1).ok
    else:
        assert ended(client, "ACQUIRED").tag == 20
    if who == "itself":
        lock.submit_acquire(1, -1, 10).ok
        lock.release_local(2).ok
        assert ended(client, "ACQUIRED").tag == 10
    owner = 2 if who == "another" else 1
    assert lock.state(owner) == "HELD" and lock.remaining(owner).ok.remaining <= 30_000
    until(lambda: proxy.down.fired["hold"] > 0 and redis_server.command("PTTL", "lock") > 30_000)
    proxy.down.release()
    event = done(client, 7)
    assert event.status == NUMBERS["NOT_HELD"] and event.owner == 1 and event.text.startswith("lock 'lock' at ")
    assert lock.state(owner) == "HELD" and lock.remaining(owner).ok.remaining <= 30_000
    lock.release(owner).ok
    until(lambda: redis_server.command("EXISTS", "lock") == 0)


def interrupted(agent: Agent, lock: Lock, owner: int) -> None:
    agent("signals", 5000, 0)
    assert lock.acquire(owner, -1).status == "INTERRUPTED"
    agent("signals", 0, 0)


@pytest.mark.parametrize("won", [True, False], ids=["won meanwhile", "waits"])
@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_an_interrupted_call_goes_on(agent: Agent, redis_server: Server, kind: str, won: bool) -> None:
    """As a submitted one: there is one acquisition, reported once and released once."""
    client, other = agent.open(redis_server, interruptible="true"), agent.open(redis_server)
    (lock, rival) = (client.lock("lock"), other.lock("lock")) if kind == "mutex" else sides(client, other, kind)
    rival.acquire(1, 0).ok
    interrupted(agent, lock, 9)
    if won:
        rival.release(1).ok
        until(lambda: lock.state(9) == "HELD")
    lock.submit_acquire(9, -1, 5).ok
    if not won:
        assert lock.state(9) == "WAITING"
        assert "semaphore" in kind or lock.submit_acquire(9, -1, 6).status == "INVALID_ARGUMENT"
        rival.release(1).ok
    event = ended(client, "ACQUIRED")
    assert (event.tag, event.owner, event.status) == (5, 9, 0) and event.token == lock.token(9).ok.token
    assert lock.count(9).ok.count == 1 and client.poll(0).readable == 0
    lock.release(9).ok
    assert lock.state(9) == "NONE" and client.counters()["acquired"] == client.counters()["released"] == 1
    assert rival.acquire(1, 0).status == "OK"


@pytest.mark.parametrize("how", ["TIMED_OUT", "CANCELLED", "CLOSED", "GATE_CLOSED"])
def test_an_interrupted_call_goes_on_and_fails(agent: Agent, redis_server: Server, how: str) -> None:
    client, rival = agent.open(redis_server, interruptible="true"), agent.open(redis_server).lock("lock")
    lock = client.lock("lock")
    rival.acquire(1, 0).ok
    interrupted(agent, lock, 9)
    lock.submit_acquire(9, 30 if how == "TIMED_OUT" else -1, 5).ok
    if how == "CANCELLED":
        lock.cancel(9).ok
    elif how == "CLOSED":
        client.close(5000).ok
    elif how == "GATE_CLOSED":
        rival.close_gate(60_000).ok
    event = ended(client, "ACQUIRE_FAILED")
    assert (event.tag, event.owner, event.status) == (5, 9, {"TIMED_OUT": 2, "CANCELLED": 3, "CLOSED": -107, "GATE_CLOSED": 7}[how])


# ---- the end of a client, freed handles, forks


def stalled(agent: Agent, redis_server: Server, new_proxy: Make, **options: Any) -> tuple[Client, Proxy, dict[str, Lock]]:
    """A client whose server gets everything and whose replies do not arrive, with a lock of each kind; the mutex is held."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000, command_timeout_ms=30_000, **options)
    locks = {kind: client.lock(kind, kind=kind, lease_ms=60_000) for kind in ALL}
    locks["mutex"].acquire(1, 0).ok
    client.submit_ping(0, -1).ok
    done(client, 0)
    proxy.down.hold()
    return client, proxy, locks


SOME = [
    ("mutex", "extend", 1, 50_000), ("mutex", "inspect"), ("fair", "force"), ("write", "close_gate", 1000), ("read", "open_gate"),
    ("semaphore", "permits_set", 4), ("permit_semaphore", "permits_add", 4), ("semaphore", "permits_drain"),
    ("permit_semaphore", "permits"), ("latch", "latch_set", 3), ("latch", "latch_down", 1), ("latch", "latch_count"),
]  # fmt: skip


def test_closed_with_pending_calls(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    client, proxy, locks = stalled(agent, redis_server, new_proxy)
    for tag, (kind, command, *words) in enumerate(SOME, 1):
        locks[kind].submit(command, tag, *words).ok
    client.submit_ping(99, 20_000).ok
    assert client.close(100).status == "TIMED_OUT"  # the release of the mutex is not confirmed either
    events = [Event([*event[:3], *[-1] * 8, event[3]], "") for event in client.drain(100, 20_000).ok.events]
    ended = {event.tag: event.status for event in events if event.type == "DONE"}
    assert set(ended) == {*range(1, len(SOME) + 1), 99} and len(ended) == sum(event.type == "DONE" for event in events)
    assert set(ended.values()) <= {NUMBERS["CLOSED"], NUMBERS["LOST"]} and ended[99] == NUMBERS["CLOSED"], ended
    assert sum(status == NUMBERS["LOST"] for status in ended.values()) <= 1  # the extended lock ended with the client
    assert client.next(0).status == "CLOSED"
    for kind, command, *words in SOME:
        assert locks[kind].submit(command, 1, *words).status == "CLOSED"
    assert client.submit_ping(1, -1).status == "CLOSED"
    assert proxy.down.fired["hold"] > 0


def rest(client: Client) -> list[Event]:
    """The events before the end; nothing comes after it."""
    events = []
    while (answer := client.next(20_000)).status == "OK":
        events.append(answer.event)
    assert [answer.status, *(client.next(0).status for _ in range(3))] == ["CLOSED"] * 4
    return events


def some_lock(client: Client, what: str) -> Lock:
    if what == "one":
        return client.lock("a")
    return client.multi(*(client.lock(name, kind=kind) for name, kind in (("a", "mutex"), ("b", "fair"), ("c", "write"))))


CLOSES = [("close", 0), ("close", 150), ("submit_close", 0), ("submit_close", 150)]


@pytest.mark.parametrize("what", ["one", "several"])
@pytest.mark.parametrize("close, wait", CLOSES)
def test_closed_while_a_release_finds_no_server(agent: Agent, redis_server: Server, new_proxy: Make, what: str, close: str, wait: int) -> None:
    """Its next try would be after the end of the threads: it is reported, and before the end of the queue."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000)
    lock = some_lock(client, what)
    lock.acquire(1, 0).ok
    proxy.refuse(), proxy.cut()
    lock.submit_release(1, 33).ok
    until(lambda: client.counters()["connect_failures"] >= 2)
    agent(close, client.index, wait)
    (event,) = (event for event in rest(client) if event.tag == 33)
    assert (event.type, event.lock_id) == ("RELEASE_FAILED", lock.id)
    assert event.status in (NUMBERS["CLOSED"], NUMBERS["UNKNOWN_OUTCOME"]) and lock.submit_release(1, 34).status == "CLOSED"


@pytest.mark.parametrize("what", ["one", "several"])
@pytest.mark.parametrize("close", ["close", "submit_close"])
def test_closed_at_once_while_calls_are_under_way(agent: Agent, redis_server: Server, what: str, close: str) -> None:
    """Nobody waits for the threads; the end of the queue does."""
    rival = agent.open(redis_server).lock("e", kind="fair")
    for turn in range(5):
        redis_server.command("FLUSHALL")
        rival.acquire(turn + 9, 0).ok
        client = agent.open(redis_server, watchdog_threads=1 + turn % 3)
        lock, other = some_lock(client, what), client.multi(client.lock("d"), client.lock("e", kind="fair"))
        lock.acquire(1, 0).ok
        other.submit_acquire(1, -1, 8).ok
        until(lambda: client.counters()["waiting"] == 1)
        calls: list[tuple[Any, ...]] = [("submit_release", lock.index, 1, 7), (close, client.index, 0), *[("next", client.index, 20_000)] * 12]
        _, _, *answers = agent.many(calls)
        assert [answer.status for answer in answers] == sorted((answer.status for answer in answers), reverse=True)
        assert answers[-1].status == "CLOSED"
        told = {answer.event.tag: answer.event for answer in answers if answer.status == "OK" and answer.event.type not in ("LOST", "LOG")}
        assert set(told) == {7, 8} and told[7].type in ("RELEASED", "RELEASE_FAILED"), told
        assert (told[8].type, told[8].status) == ("ACQUIRE_FAILED", NUMBERS["CLOSED"])
        client.free(), rival.release(turn + 9)


def test_closed_while_a_caller_carries_what_a_release_waits_for(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """The threads end while a blocking caller's probe is in flight, and its lock is released meanwhile. The caller returns without them."""
    proxy: Proxy = new_proxy(redis_server)
    client, other = agent.open(proxy, command_timeout_ms=2500, connects_per_second=1000), agent.open(redis_server)
    lock, theirs = client.lock("lock"), other.lock("lock")

    def pushed() -> int:
        """Whether the client is told of grants by messages now."""
        theirs.acquire(9, 5000).ok
        lock.submit_acquire(1, -1, 1).ok
        theirs.release(9).ok
        assert ends(client, 1)[0].type == "ACQUIRED"
        lock.release(1).ok
        return client.counters()["pushed_grants"]

    until(pushed)
    theirs.acquire(9, 0).ok

    def lose_the_answer(link: Link, data: bytes) -> None:
        link.stranded = True
        link.server.sendall(data)

    hook = proxy.up.on(SHA["acquire"], lose_the_answer, times=1)
    wait = lock.start("acquire", 2, -1, thread=1)
    hook.wait()
    until(lambda: redis_server.command("ZCARD", "dlock_queue:{lock}") == 1)
    theirs.release(9).ok
    until(lambda: lock.state(2) == "HELD")
    lock.submit_release(2, 7).ok
    client.close(0)
    assert not wait.ready()
    (event,) = (event for event in rest(client) if event.tag == 7)
    assert (event.type, event.status) == ("RELEASE_FAILED", NUMBERS["CLOSED"])
    wait.answer()


@pytest.mark.parametrize("close", [True, False])
def test_handles_go_while_calls_are_under_way(new_agent: Make, redis_server: Server, new_proxy: Make, close: bool) -> None:
    """Nothing of them is used afterwards. Once the client is freed nobody is told of the end, and nothing is left."""
    agent, live = new_agent(shim=True), []
    for _ in range(2):  # the first time makes what is made once
        redis_server.command("FLUSHALL")
        client, proxy, locks = stalled(agent, redis_server, new_proxy)
        both = client.multi(locks["mutex"], locks["fair"])
        both.submit("force", 50).ok
        for tag, (kind, command, *words) in enumerate(SOME, 1):
            locks[kind].submit(command, tag, *words).ok
        for lock in (*locks.values(), both):
            lock.drop()
        if close:
            proxy.down.release()
            tags = [event[2] for event in client.drain(len(SOME) + 1, 20_000).ok.events if event[0] == 9]
            assert sorted(tags) == [*range(1, len(SOME) + 1), 50]
            client.close(5000)
        client.free()
        until(lambda: not agent.threads())
        live.append(agent("live").live)
    assert live[1] <= live[0] + 8


def test_without_memory(new_agent: Make, redis_server: Server) -> None:
    """Each allocation of the call fails in turn: the call returns the error at once, or its event comes."""
    agent = new_agent(shim=True)
    client = agent.open(redis_server)
    locks = {kind: client.lock(kind, kind=kind) for kind in ALL}
    locks["mutex"].acquire(1, 0).ok
    failures = 0
    for kind, command, *words in SOME:
        for k in range(1, 20):
            agent("shim", "alloc", k, 0)
            answer = locks[kind].submit(command, k, *words)
            if answer.status == "OK":
                assert done(client, k).status in (0, 10, -106, NUMBERS["NOT_HELD"], NUMBERS["UNREACHABLE"], NUMBERS["UNKNOWN_OUTCOME"])
            else:
                assert answer.status == "OUT_OF_MEMORY" and answer.fired
            failures += answer.fired
            if not answer.fired:
                break
        assert k > 2
    assert failures > 2 * len(SOME) and client.poll(0).readable == 0


def test_an_inner_release_without_memory(new_agent: Make, redis_server: Server) -> None:
    """The refused call has changed nothing: the owner holds as many levels as before."""
    agent = new_agent(shim=True)
    client = agent.open(redis_server)
    lock = client.lock("lock")
    for _ in range(2):
        lock.acquire(1, 0).ok
    failures = 0
    for k in range(1, 20):
        agent("shim", "alloc", k, 0)
        answer = lock.submit_release(1, k)
        if answer.status == "OK":
            break
        assert answer.status == "OUT_OF_MEMORY" and answer.fired and lock.count(1).ok.count == 2
        failures += 1
    assert failures > 0 and lock.count(1).ok.count == 1


def test_a_child_knows_nothing_of_them(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    client, proxy, locks = stalled(agent, redis_server, new_proxy)
    locks["semaphore"].submit("permits_set", 1, 4).ok
    lines = [locks["semaphore"].line("submit", "permits", 2), client.line("submit_ping", 3, -1), locks["latch"].line("drop"), client.line("free")]
    (child,) = agent.fork(*lines)
    assert [answer.status for answer in child.answers] == ["FORKED", "FORKED", "OK", "OK"] and child.code == 0
    proxy.down.release()
    assert done(client, 1).status == 0


# ---- many


def test_thousands_in_flight(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """From one thread, all before the first answer; each is reported once, and no thread is made for them."""
    client, proxy, locks = stalled(agent, redis_server, new_proxy)
    threads, count = len(agent.threads()), 4000
    assert locks["semaphore"].flood("permits_add", 1, count, 1).ok.bad == 0
    assert locks["latch"].flood("latch_count", 10_001, count).ok.bad == 0
    assert client.poll(0).readable == 0 and len(agent.threads()) == threads
    proxy.down.release()
    events = agent("drain", client.index, 2 * count, 60_000, timeout=70).ok.events
    ended = collections.Counter(tag for _, _, tag, _ in events)
    assert len(ended) == 2 * count == len(events) and {(kind, status) for kind, status, _, _ in events} == {(9, 0)}
    assert [value for _, _, tag, value in events if tag <= count] == [*range(1, count + 1)]
    assert {value for _, _, tag, value in events if tag > 10_000} == {0}
    assert len(agent.threads()) == threads and client.counters()["events_dropped"] == 0


# ---- transactions


class Rounds:
    """The same rounds in both forms, each with its own transaction on its own keys."""

    def __init__(self, client: Client) -> None:
        self.client, self.tag, self.waits, self.submits = client, 1000, client.txn(), client.txn()

    def submit(self, command: str, *words: Any) -> Answer | Event:
        self.tag += 1
        answer = self.submits.submit_txn(command, self.tag, *words)
        return answer if answer.number else done(self.client, self.tag)

    def same(self, command: str, key: str | None = None, status: str = "OK") -> Answer | Event:
        words = [] if key is None else [f"waits-{key}"]
        first = getattr(self.waits, command)(*words, *([1 << 21] if command == "get" else []))
        second = self.submit(command, *(word.replace("waits", "submits") for word in words))
        assert first.status == status, first
        if isinstance(second, Answer):
            assert (second.status, second.message) == (first.status, first.message.replace("waits-", "submits-"))
            return second
        assert (second.status, second.lock_id, second.owner) == (first.number, -1, -1), (first, second)
        assert second.text == first.message.replace("waits-", "submits-")
        if command == "get" and status == "OK":
            assert second.data == bytes.fromhex(first.value) and second.value == len(second.data) == first.size
            assert second.none == ("BUFFER_TOO_SMALL" if second.data else "OK")
        else:
            assert second.data == b"" and second.value == -1 and second.none == "OK"
        return second

    def write(self, command: str, key: str, *words: Any) -> None:
        for name, txn in (("waits", self.waits), ("submits", self.submits)):
            getattr(txn, command)(f"{name}-{key}", *words).ok


def test_rounds(client: Client, redis_server: Server) -> None:
    rounds = Rounds(client)
    for command, key in (("get", "a"), ("commit", None)):
        rounds.same(command, key, "NO_TRANSACTION")
    rounds.same("rollback")
    for name in ("waits", "submits"):
        for key, value in (("empty", ""), ("big", b"v" * (1 << 20)), ("bytes", bytes(range(256)))):
            redis_server.command("SET", f"{name}-{key}", value)
        redis_server.command("HSET", f"{name}-hash", "a", "b")
    rounds.same("watch", "a")
    for key in ("empty", "big", "bytes"):
        rounds.same("get", key)
    rounds.same("get", "a", "NOT_FOUND")
    rounds.same("get", "hash", "WRONG_KIND")
    rounds.write("set", "a", "1", -1)
    rounds.same("watch", "b", "INVALID_ARGUMENT")
    rounds.same("get", "a", "INVALID_ARGUMENT")
    rounds.write("incr", "a", 4)
    rounds.same("commit")
    assert redis_server.command("MGET", "waits-a", "submits-a") == [b"5", b"5"]
    rounds.same("commit", status="NO_TRANSACTION")
    rounds.same("watch", "a")
    rounds.write("incr", "a", 1)
    redis_server.command("MSET", "waits-a", "9", "submits-a", "9")
    rounds.same("commit", status="CONFLICT")
    rounds.same("watch", "a")
    rounds.write("incr", "a", 1)
    rounds.same("rollback")
    rounds.same("watch", "hash")
    rounds.write("incr", "hash", 1)
    rounds.same("commit", status="SERVER_ERROR")
    assert redis_server.command("MGET", "waits-a", "submits-a") == [b"9", b"9"]


def test_one_call_of_a_transaction_at_a_time(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, command_timeout_ms=30_000)
    txn = client.txn()
    txn.watch("a").ok
    proxy.down.hold()
    txn.submit_txn("get", 1, "a").ok
    for answer in (txn.get("a", 10), txn.set("a", "b", -1), txn.commit(), txn.rollback(), txn.submit_txn("commit", 2)):
        assert answer.status == "INVALID_ARGUMENT" and "under way" in answer.message
    lines = [txn.line("submit_txn", "get", 3, "a"), txn.line("end_txn")]
    (child,) = agent.fork(*lines)
    assert [answer.status for answer in child.answers] == ["FORKED", "OK"] and child.code == 0
    proxy.down.release()
    assert done(client, 1).status == 9  # DLOCK_NOT_FOUND
    txn.set("a", "b", -1).ok
    txn.submit_txn("commit", 4).ok
    assert done(client, 4).status == 0 and redis_server.command("GET", "a") == b"b"


def test_transactions_when_the_network_loses_things(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000, command_timeout_ms=700)
    rounds = Rounds(client)
    rounds.same("watch", "a")
    rounds.same("rollback")
    proxy.cut()  # the idle connections: the next round makes new ones
    rounds.same("watch", "a")
    rounds.write("set", "a", "1", -1)
    proxy.cut()
    rounds.same("commit", status="UNREACHABLE")
    rounds.same("commit", status="NO_TRANSACTION")
    for stays in (b"2", b"3"):
        rounds.same("watch", "a")
        rounds.write("set", "a", stays, -1)
        hook = proxy.lose_reply("EXEC")
        hook.times = 2
        rounds.same("commit", status="UNKNOWN_OUTCOME")
        assert hook.count == 2 and redis_server.command("MGET", "waits-a", "submits-a") == [stays, stays]
    proxy.refuse(), proxy.cut()
    rounds.submits.submit_txn("watch", 1, "a").ok
    event = done(client, 1)
    assert event.status == NUMBERS["UNREACHABLE"] and event.text.startswith("transaction at ") and "key 'a'" in event.text
    proxy.accept()
    until(lambda: rounds.waits.watch("a").status == "OK")
    rounds.submits.submit_txn("watch", 2, "a").ok
    assert done(client, 2).status == 0


@pytest.mark.parametrize("sent", [False, True])
def test_closed_with_a_pending_commit(agent: Agent, redis_server: Server, new_proxy: Make, sent: bool) -> None:
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, command_timeout_ms=30_000)
    txn, other = client.txn(), client.txn()
    txn.watch("a").ok
    txn.set("a", "1", -1).ok
    hook = proxy.up.on("EXEC" if sent else "MULTI", call=lambda link, data: proxy.down.hold())
    txn.submit_txn("commit", 1).ok
    hook.wait()
    other.submit_txn("watch", 2, "b").ok
    client.close(1000)
    ended = {tag: status for kind, status, tag, _ in client.drain(10, 10_000).ok.events if kind == 9}
    assert ended == {1: NUMBERS["UNKNOWN_OUTCOME" if sent else "CLOSED"], 2: NUMBERS["CLOSED"]}
    until(lambda: redis_server.command("EXISTS", "a") == sent)
    assert txn.submit_txn("rollback", 3).status == "CLOSED"
    proxy.down.release()


def test_transactions_go_while_calls_are_under_way(new_agent: Make, redis_server: Server, new_proxy: Make) -> None:
    agent, live = new_agent(shim=True), []
    for turn in range(3):
        proxy: Proxy = new_proxy(redis_server)
        client = agent.open(proxy, connects_per_second=1000)
        redis_server.command("SET", "a", b"v" * 50_000)
        txns = [client.txn() for _ in range(3)]
        for txn in txns:
            txn.watch("a").ok
        txns[1].set("b", str(turn), -1).ok
        proxy.down.hold()
        txns[0].submit_txn("get", 1, "a").ok
        txns[1].submit_txn("commit", 2).ok
        txns[2].submit_txn("rollback", 3).ok
        for txn in txns:
            txn.end_txn()
        proxy.down.release()
        if turn:
            ended = sorted((tag, status) for _, status, tag, _ in client.drain(3, 20_000).ok.events)
            assert ended == [(1, 0), (2, 0), (3, 0)] and redis_server.command("GET", "b") == b"%d" % turn
        client.free()
        until(lambda: not agent.threads())
        live.append(agent("live").live)
    assert live[2] <= live[0] + 8


def test_many_transactions_at_once(agent: Agent, redis_server: Server) -> None:
    """More transactions than a lane watches together, from one thread; none waits for another, and no thread is made for them."""
    client = agent.open(redis_server, connects_per_second=1000)
    client.ping(-1).ok
    until(agent.threads)  # a thread sets its name itself
    txns, threads = [client.txn() for _ in range(240)], len(agent.threads())
    assert threads < 10
    for step in ("watch", "get", "commit"):
        for tag, txn in enumerate(txns):
            if step == "commit":
                txn.incr(f"key{tag}", tag + 1).ok
            txn.submit_txn(step, tag, *([] if step == "commit" else [f"key{tag}"])).ok
        events = client.drain(len(txns), 30_000).ok.events
        assert sorted(tag for _, _, tag, _ in events) == [*range(len(txns))]
        assert {status for _, status, _, _ in events} == ({9} if step == "get" else {0})
        assert len(agent.threads()) == threads
    assert redis_server.command("MGET", *(f"key{tag}" for tag in range(len(txns)))) == [b"%d" % (tag + 1) for tag in range(len(txns))]


def test_a_try_that_gets_no_answer(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """The server takes longer than one attempt may with such a lease. A caller that does not wait is not kept too long, in either form."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, lease_ms=600, command_timeout_ms=20_000)
    client.lock("first").acquire(1, 5000).ok
    proxy.down.hold()
    assert client.lock("waits").acquire(1, 0).status in ("BUSY", "UNREACHABLE")
    for number in range(20):
        client.lock(f"submits{number}").submit_acquire(1, 0, number).ok
    said: collections.Counter[int] = collections.Counter()
    while said.total() < 20:
        event = client.event()
        said[event.status] += event.type == "ACQUIRE_FAILED"
    assert set(+said) <= {1, -300}, said
    assert proxy.down.fired["hold"] > 0
    proxy.down.release()


@pytest.mark.parametrize("reads", [False, True])
def test_losses_that_nobody_reads(agent: Agent, redis_server: Server, reads: bool) -> None:
    """A program that never reads an event keeps the last event_limit losses and names, and the others are counted. Who reads gets all."""
    client, losses, limit = agent.open(redis_server, event_limit=16, lease_ms=100, renew="no"), 100, 16
    if reads:
        assert agent("next", client.index, 0).status == "NO_EVENT"
    locks = [client.lock(f"lost {number}") for number in range(losses)]
    for lock in locks:
        lock.acquire(1, 1000).ok
    until(lambda: all(lock.state(1) == "LOST" for lock in locks))
    for lock in locks:
        assert lock.release(1).status == "LOST"
        lock.drop()
    another = client.lock("another", lease_ms=10_000)
    for _ in range(losses):
        another.acquire(1, 1000).ok
        another.release(1).ok
    another.drop()
    counted = client.counters()
    if reads:
        assert counted["events_dropped"] == 0
        assert [client.loss().cause for _ in range(losses)] == ["EXPIRED"] * losses
    else:
        assert counted["events_dropped"] == losses - limit and counted["locks"] <= limit + 1
        assert [client.loss().cause for _ in range(limit)] == ["EXPIRED"] * limit
