"""Several locks as one: all or none, in any order, of mixed kinds; what keeps it from being granted, and what failures leave behind."""
from __future__ import annotations

import pathlib
import random
import threading
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Client, Event, Lock, Pending, now, until
from harness.build import BUILD, ROOT
from harness.kinds import RIVAL, calls, image, one
from harness.proxy import Proxy
from harness.steps.scripts import SHA, teach
from harness.server import Server

Make = Callable[..., Any]
NO_POLLS = {"safety_ms": 60_000}
SOON = 10.0
MIXED = ["mutex", "fair", "read", "write"]


class Several:
    """Mutexes by their names, or locks of other kinds; all of them as one; and the same names for another client."""

    def __init__(self, client: Client, names: str = "abc", kinds: list[str] | None = None) -> None:
        self.client = client
        self.kinds = dict(zip(names, kinds or ["mutex"] * len(names)))
        self.members = {name: one(client, kind, name) for name, kind in self.kinds.items()}
        self.lock = client.multi(*self.members.values())

    def rival(self, client: Client, name: str) -> Lock:
        return one(client, RIVAL.get(self.kinds[name], self.kinds[name]), name)


def told(client: Client, *types: str) -> Event:
    while (event := client.event()).type not in types:
        pass
    return event


def waits(lock: Lock, owner: int, thread: int, wait_ms: int = -1) -> Pending:
    pending = lock.start("acquire", owner, wait_ms, thread=thread)
    until(lambda: lock.state(owner) == "WAITING")
    return pending


def free(server: Server) -> None:
    until(lambda: image(server) == {})


# ---- all or none


@pytest.mark.parametrize("kinds", [["mutex"] * 4, MIXED], ids=["mutexes", "mixed"])
def test_all_or_none(agent: Agent, new_agent: Make, redis_server: Server, kinds: list[str]) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    several = Several(client, "abcd", kinds)
    lock = several.lock
    assert lock.state(1) == "NONE" and lock.count(1).ok.count == 0 and lock.acquire_local(1).status == "WOULD_BLOCK"
    token = lock.acquire(1, 0).ok.token
    assert lock.state(1) == "HELD" and lock.count(1).count == 1 and 0 < lock.remaining(1).ok.remaining <= 30_000
    assert token == lock.token(1).ok.token == max(member.token(1).ok.token for member in several.members.values())
    assert lock.acquire(1, 0).ok.token == token and lock.count(1).count == 2, "it is re-entrant"
    for name in several.members:
        for wait in (0, 20):
            answer = several.rival(other, name).acquire(2, wait)
            assert answer.status == ("TIMED_OUT" if wait else "BUSY")
    assert lock.release(2).status == "NOT_HELD"
    lock.release(1).ok
    assert lock.state(1) == "HELD"
    lock.release(1).ok
    assert lock.state(1) == "NONE" and lock.release(1).status == "NOT_HELD"
    for name in several.members:  # whichever one is held: none of the others gets acquired
        rival = several.rival(other, name)
        rival.acquire(2, 0).ok
        before = image(redis_server)
        for wait in (0, 40):
            answer = lock.acquire(1, wait)
            assert answer.status == ("TIMED_OUT" if wait else "BUSY")
            assert answer.message.startswith(f"lock '{name}' at "), answer
            assert lock.state(1) == "NONE" and {member.state(1) for member in several.members.values()} == {"NONE"}
            until(lambda: image(redis_server) == before)
        rival.release(2).ok
    lock.acquire(1, 0).ok
    lock.release(1).ok
    free(redis_server)


def test_members_can_be_had_alone(agent: Agent, store: Any) -> None:
    """A member that the owner holds is re-entered; a member of another owner in the same process is in the way."""
    several = Several(agent.open(store))
    lock, b = several.lock, several.members["b"]
    token = b.acquire(1, 0).ok.token
    assert lock.state(1) == "NONE"
    lock.acquire(1, 0).ok
    assert b.token(1).ok.token == token and b.count(1).count == 2 and lock.count(1).count == 1
    lock.release(1).ok
    assert b.state(1) == "HELD" and lock.state(1) == "NONE"
    for answer in (lock.release(1), lock.submit_release(1, 9)):  # both are refused and change nothing
        assert answer.status == "NOT_HELD" and answer.message.startswith("lock 'a' at ")
        assert b.state(1) == "HELD" and b.token(1).ok.token == token and b.count(1).count == 1
    answer = lock.acquire(2, 0)
    assert answer.status == "BUSY" and answer.message.startswith("lock 'b' at ")


def test_the_handles_of_members_may_go(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=600)
    several = Several(client)
    for member in several.members.values():
        member.drop()
    several.lock.acquire(1, 0).ok
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 9)
    assert several.lock.state(1) == "HELD" and several.lock.extend(1, 40_000).status == "OK"
    assert several.lock.remaining(1).ok.remaining > 30_000
    several.lock.release(1).ok
    several.lock.acquire(1, 0).ok
    several.lock.drop()
    client.close(3000).ok
    free(redis_server)
    client.free()
    until(lambda: not agent.threads())


def test_bad_members(agent: Agent, redis_server: Server) -> None:
    client, other = agent.open(redis_server), agent.open(redis_server)
    a, b = client.lock("a"), client.lock("b")
    answer = client.new_multi(a, b, client.lock("a"))
    assert answer.status == "DUPLICATE_NAME" and answer.message.startswith("lock 'a' at ") and answer.retryable == 0
    assert client.new_multi(client.lock("a", kind="fair"), a).status == "DUPLICATE_NAME"
    assert client.new_multi(client.lock("r", kind="read"), client.lock("r", kind="write")).status == "DUPLICATE_NAME"
    multi = client.multi(a, b)
    for bad in (multi, other.lock("c"), *(one(client, kind, "d") for kind in ("semaphore", "permit_semaphore", "latch"))):
        assert client.new_multi(a, bad).status == "INVALID_ARGUMENT"
    assert client.new_multi().status == "INVALID_ARGUMENT"
    many = [client.lock(f"m{i}") for i in range(17)]
    assert client.new_multi(*many).status == "INVALID_ARGUMENT"
    most = client.multi(*many[:16])
    most.acquire(1, 0).ok
    assert redis_server.command("EXISTS", *(f"m{i}" for i in range(16))) == 16
    most.release(1).ok
    client.multi(client.lock("{a}"), a)  # a name of its own
    assert client.new("x", "multi").status == "INVALID_ARGUMENT"
    assert not image(redis_server).keys() - {b"d"}


def test_what_a_multi_lock_cannot(agent: Agent, redis_server: Server) -> None:
    several = Several(agent.open(redis_server))
    several.lock.acquire(1, 0).ok
    before = image(redis_server)
    for call in (several.lock.inspect, lambda: several.lock.close_gate(100), several.lock.open_gate, lambda: several.lock.export(1, 600),
                 lambda: several.lock.adopt(1, "x"), several.lock.permits, several.lock.latch_count):  # fmt: skip
        answer = call()
        assert answer.status == "UNSUPPORTED" and "multi-lock" in answer.message
    assert several.lock.release_local(1).status == "WOULD_BLOCK" and several.lock.state(1) == "HELD"
    assert several.lock.extend(1, 10).status == "INVALID_ARGUMENT" and image(redis_server) == before


# ---- the wire

forms = pytest.mark.parametrize("form", ["blocking", "submitted"])


def asked(client: Client, lock: Lock, wait: int, form: str) -> Callable[[], str]:
    """Requests the lock in this form; returns a function for the final status."""
    if form == "blocking":
        pending = lock.start("acquire", 1, wait, thread=1)
        return lambda: str(pending.answer().status)
    lock.submit_acquire(1, wait, 77).ok
    return lambda: status_of(told(client, "ACQUIRED", "ACQUIRE_FAILED"))


@forms
def test_one_script_when_all_are_free(agent: Agent, redis_server: Server, form: str) -> None:
    client = agent.open(redis_server)
    several = Several(client, "abcdefgh")
    several.lock.acquire(1, 0).ok  # also loads the scripts into the server
    several.lock.release(1).ok
    for wait in (0, -1):
        redis_server.command("CONFIG", "RESETSTAT")
        assert asked(client, several.lock, wait, form)() == "OK"
        assert calls(redis_server) == 1 and calls(redis_server, "eval") == 0
        several.lock.release(1).ok
    rival = agent.open(redis_server).lock("e")
    rival.acquire(2, 0).ok
    redis_server.command("CONFIG", "RESETSTAT")
    assert asked(client, several.lock, 0, form)() == "BUSY"
    assert calls(redis_server) == 1
    assert asked(client, several.lock, 30, form)() == "TIMED_OUT"  # one after the other
    assert rival.state(2) == "HELD" and several.lock.state(1) == "NONE"


@forms
@pytest.mark.parametrize("what", ["lost reply", "lost request"])
def test_an_answer_that_does_not_come(agent: Agent, redis_server: Server, new_proxy: Make, what: str, form: str) -> None:
    """Sent again with the same ids it takes nothing twice; members that cannot be had are not kept."""
    several = Several(agent.open(redis_server))
    several.lock.acquire(1, 0).ok
    several.lock.release(1).ok
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000, command_timeout_ms=500)
    several = Several(client)
    several.lock.acquire(1, 0).ok
    several.lock.release(1).ok
    hook = proxy.lose_reply(SHA["multi_acquire"]) if what == "lost reply" else proxy.up.cut_at(SHA["multi_acquire"])
    assert asked(client, several.lock, 5000, form)() == "OK" and hook.count == 1
    assert {redis_server.command("HLEN", name) for name in "abc"} == {1}
    several.lock.release(1).ok
    free(redis_server)
    hook = proxy.lose_reply(SHA["multi_acquire"])
    proxy.refuse()
    assert asked(client, several.lock, 0, form)() in ("UNREACHABLE", "UNKNOWN_OUTCOME")
    assert hook.count == 1 and several.lock.state(1) == "NONE"
    proxy.accept()
    free(redis_server)


def after_the_lease(agent: Agent, rival: Agent, server: Server, proxy: Proxy, wait: int, form: str) -> None:
    """The process was stopped in between: the grant is useless, and nobody here keeps it."""
    client = agent.open(proxy, lease_ms=1500, private_connections=0, busy_poll_us=0)
    several = Several(client)
    several.lock.acquire(1, 0).ok
    several.lock.release(1).ok
    held = proxy.down.fired["hold"]
    proxy.down.hold()
    status = asked(client, several.lock, wait, form)
    until(lambda: proxy.down.fired["hold"] > held)
    agent.stop()
    proxy.down.release()
    free(server)
    agent.resume()
    assert status() == ("OK" if wait else "UNREACHABLE")
    if wait:
        assert {lock.count(1).count for lock in several.members.values()} == {1}
        several.lock.release(1).ok
    Several(rival.open(server)).lock.acquire(1, 20_000).ok  # late requests of the members are undone
    assert {lock.state(1) for lock in several.members.values()} == {"NONE"}


@forms
@pytest.mark.parametrize("wait", [0, 60_000])
def test_an_answer_that_comes_after_the_lease(
    agent: Agent, new_agent: Make, redis_server: Server, new_proxy: Make, wait: int, form: str
) -> None:
    after_the_lease(agent, new_agent(), redis_server, new_proxy(redis_server), wait, form)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_after_the_lease(new_agent: Make, redis_server: Server, new_proxy: Make, tmp_path: pathlib.Path) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutants.TOO_LATE))
    with pytest.raises((AssertionError, KeyError)):
        after_the_lease(new_agent(LD_PRELOAD=library), new_agent(), redis_server, new_proxy(redis_server), 0, "submitted")


def test_a_lease_that_a_member_may_not_have(agent: Agent, redis_server: Server) -> None:
    """The multi-lock may not have it either, whichever member refuses it: renewals need 500 ms, and a quarantine allows no longer lease."""
    client = agent.open(redis_server, lease_ms=10_000, quarantine_ms=20_000)
    client.provision(5000).ok
    fixed, brief, renewed, late = (client.lock(name, **options) for name, options in (
        ("a", {"renew": "no"}), ("b", {"renew": "no"}), ("c", {}), ("d", {"renew": "no", "lock_delay_ms": 5000})))  # fmt: skip
    both = client.multi(fixed, renewed)
    both.acquire(1, 0).ok
    for lock in (both, renewed):
        assert lock.extend(1, 499).status == lock.submit("extend", 1, 1, 100).status == "INVALID_ARGUMENT"
    both.extend(1, 500).ok
    both.release(1).ok
    both = client.multi(fixed, late)
    both.acquire(1, 0).ok
    for lock in (both, late):
        assert lock.extend(1, 15_001).status == lock.submit("extend", 1, 1, 16_000).status == "LEASE_REFUSED"
    both.release(1).ok
    both = client.multi(fixed, brief)
    both.acquire(1, 0).ok
    both.extend(1, 100).ok


def test_a_request_that_is_overtaken_by_its_copy(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """A blocking caller sends it again. The copy is told that a member is held; what the first request takes afterwards is given back."""
    teach(redis_server)
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000, command_timeout_ms=20_000)
    several = Several(client)
    several.lock.acquire(1, 0).ok
    several.lock.release(1).ok
    rival = agent.open(redis_server).lock("b")
    rival.acquire(2, 0).ok
    first = proxy.up.pause_at(SHA["multi_acquire"])
    copy = proxy.up.on(SHA["multi_acquire"], lambda link, data: proxy.down.hold(), times=1)
    before = calls(redis_server)
    ended = asked(client, several.lock, 0, "blocking")
    first.wait()
    proxy.down.half_close()
    copy.wait()
    until(lambda: calls(redis_server) == before + 1)
    rival.release(2).ok
    first.open()
    until(lambda: redis_server.command("EXISTS", *"abc") == 3)
    proxy.down.release()
    assert ended() == "BUSY" and several.lock.state(1) == "NONE"
    free(redis_server)


# ---- waiting


def test_it_waits_for_each(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """One member after the other, woken by messages; while it waits for one, it holds those before."""
    client, other = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server, **NO_POLLS)
    several = Several(client, "abcd", MIXED)
    rivals = {name: several.rival(other, name) for name in "abcd"}
    for rival in rivals.values():
        rival.acquire(2, 0).ok
    wait = waits(several.lock, 1, 1)
    for place, (name, rival) in enumerate(rivals.items()):
        until(lambda: several.members[name].state(1) == "WAITING")
        states = [member.state(1) for member in several.members.values()]
        assert states == ["HELD"] * place + ["WAITING"] + ["NONE"] * (3 - place)
        assert not wait.ready() and several.lock.state(1) == "WAITING"
        until(lambda: len(redis_server.command("PUBSUB", "CHANNELS")) >= (2 if name == "c" else 1))
        rival.release(2).ok
    assert wait.answer(SOON).ok.token == several.lock.token(1).ok.token
    several.lock.release(1).ok
    free(redis_server)


@forms
@pytest.mark.parametrize("end", ["cancel", "time", "gate", "close"])
def test_a_wait_that_ends_leaves_nothing(agent: Agent, new_agent: Make, redis_server: Server, form: str, end: str) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    several = Several(client, "abcd", MIXED)
    rival = several.rival(other, "c")
    rival.acquire(2, 0).ok
    before, lock, limit = image(redis_server), several.lock, 300 if end == "time" else -1
    pending = lock.start("acquire", 1, limit, thread=1) if form == "blocking" else lock.start("submit_acquire", 1, limit, 8)
    until(lambda: several.members["c"].state(1) == "WAITING" and several.members["b"].state(1) == "HELD")
    status = {"cancel": "CANCELLED", "time": "TIMED_OUT", "gate": "GATE_CLOSED", "close": "CLOSED"}[end]
    if end == "cancel":
        lock.cancel(1).ok
    elif end == "gate":
        rival.close_gate(60_000).ok
    elif end == "close":
        client.close(3000).ok
    answer = pending.answer(SOON)
    if form == "submitted":
        answer.ok
        event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
        assert (event.type, event.tag, event.lock_id, event.owner, event.token) == ("ACQUIRE_FAILED", 8, lock.id, 1, -1)
        assert status_of(event) == status and "'c'" in event.text
    else:
        assert answer.status == status and answer.message.startswith("lock 'c' at "), answer
    if end == "gate":
        before.update({key: value for key, value in image(redis_server).items() if b"gate" in key})
    until(lambda: image(redis_server) == before)
    if end != "close":
        assert lock.state(1) == "NONE" and {member.state(1) for member in several.members.values()} == {"NONE"}
        assert lock.cancel(1).status == "NOT_HELD" and client.counters()["held"] == 0
    no_more(client, "ACQUIRED", "ACQUIRE_FAILED", "RELEASED")


def status_of(event: Event) -> str:
    return {0: "OK", 1: "BUSY", -203: "UNKNOWN_OUTCOME", -300: "UNREACHABLE", 2: "TIMED_OUT", 3: "CANCELLED", 7: "GATE_CLOSED", -107: "CLOSED", -205: "UPGRADE_REFUSED"}[event.status]


def no_more(client: Client, *types: str) -> None:
    while (answer := client.next(0)).status == "OK":
        assert answer.event.type not in types, answer.event


def test_submitted(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server)
    several = Several(client, "abcd", MIXED)
    lock, rival = several.lock, several.rival(other, "b")
    rival.acquire(2, 0).ok
    lock.submit_acquire(1, -1, 5).ok
    until(lambda: several.members["b"].state(1) == "WAITING")
    rival.release(2).ok
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, event.lock_id, event.owner) == ("ACQUIRED", 5, lock.id, 1)
    assert event.token == lock.token(1).ok.token and lock.state(1) == "HELD"
    lock.submit_acquire(1, 0, 6).ok  # again
    assert told(client, "ACQUIRED", "ACQUIRE_FAILED").type == "ACQUIRED" and lock.count(1).count == 2
    for tag, state in ((7, "HELD"), (8, "NONE")):
        lock.submit_release(1, tag).ok
        event = told(client, "RELEASED", "RELEASE_FAILED")
        assert (event.type, event.tag, event.lock_id, event.owner) == ("RELEASED", tag, lock.id, 1) and lock.state(1) == state
    assert lock.submit_release(1, 9).status == "NOT_HELD"
    lock.submit_acquire(1, 0, 10).ok
    assert told(client, "ACQUIRED", "ACQUIRE_FAILED").tag == 10
    several.lock.drop()  # the handle may be freed while it holds or acquires
    again = client.multi(*several.members.values())
    again.submit_acquire(2, 500, 11).ok
    again.drop()
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, status_of(event)) == ("ACQUIRE_FAILED", 11, "TIMED_OUT")
    no_more(client, "ACQUIRED", "ACQUIRE_FAILED", "RELEASED", "RELEASE_FAILED")
    client.close(3000).ok
    free(redis_server)


def cancelled_anywhere(agent: Agent, store: Any, last: bool, begin: Callable[[Several, int], Callable[[], str]]) -> None:
    """A cancel comes with the release of the first member. begin(several, tag) begins a call, and returns what gives its status."""
    client = agent.open(store)
    several = Several(client, "ab")
    lock, a, b = several.lock, several.members["a"], several.members["b"]
    if not last:
        b.acquire(9, 0).ok
    for tag in range(300):
        a.acquire(2, 5000).ok
        status = begin(several, tag)
        until(lambda: a.state(1) == "WAITING")
        released, cancelled = agent.many([("release", a.index, 2), ("cancel", lock.index, 1)])
        said = status()
        assert released.status == "OK"
        if cancelled.status == "OK":
            assert said == "CANCELLED"
        else:
            assert last and (cancelled.status, said) == ("NOT_HELD", "OK")
            lock.release(1).ok
        until(lambda: a.state(1) == "NONE" and b.state(1) == "NONE")
    if not last:
        b.release(9).ok
    until(lambda: client.counters()["held"] == 0)


def submitted(several: Several, tag: int) -> Callable[[], str]:
    several.lock.submit_acquire(1, -1, tag).ok

    def status() -> str:
        event = told(several.client, "ACQUIRED", "ACQUIRE_FAILED")
        assert event.tag == tag and (event.type, event.status) in (("ACQUIRED", 0), ("ACQUIRE_FAILED", 3))
        return status_of(event)

    return status


def blocking(several: Several, _tag: int) -> Callable[[], str]:
    waiting = several.lock.start("acquire", 1, -1, thread=1)
    return lambda: str(waiting.answer(5).status)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("form", [submitted, blocking])
def test_a_call_is_cancelled_anywhere(agent: Agent, store: Any, last: bool, form: Callable[[Several, int], Callable[[], str]]) -> None:
    """Also after one member and before the next: a cancel that said OK ends the call."""
    cancelled_anywhere(agent, store, last, form)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_between_members(new_agent: Make, redis_server: Server, tmp_path: pathlib.Path) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutants.BETWEEN))
    with pytest.raises(TimeoutError):
        cancelled_anywhere(new_agent(LD_PRELOAD=library), redis_server, False, blocking)


def test_a_submitted_wait_ends_anywhere(agent: Agent, store: Any) -> None:
    """Also after one member and before the next. A caller with a wait gets TIMED_OUT, one without gets BUSY."""
    client = agent.open(store)
    several = Several(client, "abcdefghijklm")
    several.members["m"].acquire(9, 0).ok
    for tag in range(150):
        several.lock.submit_acquire(1, tag % 4, tag).ok
        event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
        assert (event.tag, event.status) == (tag, 2 if tag % 4 else 1)
    several.members["m"].release(9).ok
    until(lambda: client.counters()["held"] == 0)


@forms
def test_a_member_that_is_lost_while_others_are_waited_for(agent: Agent, beside: Agent, store: Any, form: str) -> None:
    """The multi-lock is not granted when somebody else has a member."""
    client, other = agent.open(store, lease_ms=600, renew="no"), beside.open(store)
    several, theirs = Several(client, "abc"), {name: other.lock(name) for name in "ac"}
    theirs["c"].acquire(2, 0).ok
    if form == "blocking":
        wait = several.lock.start("acquire", 1, -1, thread=1)
    else:
        several.lock.submit_acquire(1, -1, 7).ok
    until(lambda: several.members["b"].state(1) == "HELD")  # from now on not all are requested at once
    until(lambda: several.members["c"].state(1) == "WAITING")
    theirs["a"].acquire(2, 10_000).ok
    theirs["c"].release(2).ok
    if form == "blocking":
        answer = wait.answer()
        assert answer.status == "LOST" and answer.message.startswith("lock 'a' at "), answer
    else:
        event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
        assert event.type == "ACQUIRE_FAILED" and event.tag == 7 and "'a'" in event.text, event
    assert theirs["a"].state(2) == "HELD" and several.lock.state(1) == "NONE" and client.counters()["held"] == 0
    theirs["c"].acquire(2, 5000).ok
    theirs["a"].release(2).ok, theirs["c"].release(2).ok
    several.lock.acquire(1, 5000).ok


@forms
@pytest.mark.parametrize("wait", [0, 60_000, -1])
def test_cancelled_while_all_are_asked_for_at_once(agent: Agent, redis_server: Server, wait: int, form: str) -> None:
    client = agent.open(redis_server, command_timeout_ms=20_000)
    several = Several(client)
    client.ping(1000).ok
    redis_server.pause()
    try:
        ended = asked(client, several.lock, wait, form)
        until(lambda: several.members["c"].state(1) == "WAITING")
        several.lock.cancel(1).ok
    finally:
        redis_server.resume()
    assert ended() == "CANCELLED"
    until(lambda: client.counters()["held"] == 0)
    free(redis_server)
    several.lock.acquire(1, 5000).ok


@pytest.mark.parametrize("then", ["again", "submit", "cancel", "time", "gate", "loss", "close"])
def test_an_interrupted_call_goes_on(agent: Agent, new_agent: Make, redis_server: Server, then: str) -> None:
    """After a signal it keeps its members and its place; the next call, or a cancel, continues from there."""
    client, other = agent.open(redis_server, interruptible="true", lease_ms=1000), new_agent().open(redis_server)
    several = Several(client, "abc", ["fair", "mutex", "write"])
    lock, a, b, rival = several.lock, several.members["a"], several.members["b"], several.rival(other, "b")
    rival.acquire(2, 0).ok
    before = image(redis_server)
    for _ in range(3):
        agent("signals", 5000, 0)
        assert lock.acquire(1, -1).status == "INTERRUPTED"
        agent("signals", 0, 0)
        assert (lock.state(1), a.state(1), b.state(1)) == ("WAITING", "HELD", "WAITING") and a.count(1).count == 1
    assert several.rival(other, "a").acquire(2, 0).status == "BUSY"
    if then == "again":
        rival.release(2).ok
        assert lock.acquire(1, 5000).ok.token == lock.token(1).ok.token
        assert lock.count(1).count == 1
        lock.release(1).ok
        before = {}
    elif then == "submit":
        lock.submit_acquire(1, -1, 5).ok
        rival.release(2).ok
        assert told(client, "ACQUIRED", "ACQUIRE_FAILED").status == 0 and lock.count(1).count == 1
        lock.release(1).ok
        before = {}
    elif then == "cancel":
        lock.cancel(1).ok
        assert lock.cancel(1).status == "NOT_HELD"
    elif then == "time":
        assert lock.acquire(1, 30).status == "TIMED_OUT"
    elif then == "gate":
        rival.close_gate(60_000).ok
        until(lambda: b.state(1) == "NONE")
        assert lock.acquire(1, -1).status == "GATE_CLOSED"
        before.update({key: value for key, value in image(redis_server).items() if b"gate" in key})
    elif then == "loss":
        several.rival(other, "a").force().ok
        until(lambda: a.state(1) == "LOST")
        assert lock.acquire(1, 30).status == "TIMED_OUT"
    else:
        client.close(3000).ok
    until(lambda: image(redis_server) == before)
    if then != "close":
        assert {handle.state(1) for handle in (lock, a, b)} == {"NONE"} and client.counters()["waiting"] == 0


def test_two_owners_are_interrupted(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, interruptible="true")
    several = Several(client, "abcd")
    first, second = client.multi(several.members["a"], several.members["b"]), client.multi(several.members["c"], several.members["b"])
    several.members["b"].acquire(9, 0).ok
    agent("signals", 5000, 0)
    assert first.acquire(1, -1).status == second.acquire(2, -1).status == first.acquire(3, -1).status == "INTERRUPTED"
    agent("signals", 0, 0)
    several.members["b"].release(9).ok
    first.acquire(1, -1).ok
    assert first.count(1).count == 1 and second.state(2) == first.state(3) == "WAITING"
    first.cancel(3).ok
    first.release(1).ok
    second.acquire(2, -1).ok
    second.release(2).ok
    first.drop(), second.drop()
    free(redis_server)


def test_who_reads_a_member_may_not_write_it(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    several = Several(client, "ab", ["mutex", "write"])
    client.lock("b", kind="read").acquire(1, 0).ok
    before = image(redis_server)
    answer = several.lock.acquire(1, -1)
    assert answer.status == "UPGRADE_REFUSED" and answer.message.startswith("lock 'b' at ")
    several.lock.submit_acquire(1, -1, 4).ok
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert event.type == "ACQUIRE_FAILED" and status_of(event) == "UPGRADE_REFUSED"
    until(lambda: image(redis_server) == before)


def test_a_member_of_another_kind(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    redis_server.command("SET", "b", "x")
    for kinds in (["mutex"] * 3, ["mutex", "fair", "write"]):
        several = Several(client, "abc", kinds)
        before = image(redis_server)
        for wait in (0, 1000):
            answer = several.lock.acquire(1, wait)
            assert answer.status == "WRONG_KIND" and answer.message.startswith("lock 'b' at ")
            until(lambda: image(redis_server) == before)


# ---- loss


def test_a_lost_member(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """For the owner all is lost; the rest is still held until the release, which returns LOST."""
    client, other = agent.open(redis_server, lease_ms=800), new_agent().open(redis_server)
    several = Several(client, "abcd", MIXED)
    lock = several.lock
    for form in ("blocking", "submitted"):
        lock.acquire(1, 0).ok
        several.rival(other, "b").force().ok
        event = told(client, "LOST")
        assert event.lock_id == several.members["b"].id and event.cause == "TAKEN"
        assert lock.state(1) == "LOST" and lock.token(1).status == lock.remaining(1).status == "LOST" and lock.count(1).ok.count == 0
        assert lock.extend(1, 5000).status == "LOST" and lock.acquire(2, 0).status == "BUSY"
        if form == "blocking":
            answer = lock.release(1)
            assert answer.status == "LOST" and answer.message.startswith("lock 'b' at ")
        else:
            lock.submit_release(1, 3).ok
            event = told(client, "RELEASED", "RELEASE_FAILED")
            assert (event.type, event.tag, event.status) == ("RELEASE_FAILED", 3, -201)
        free(redis_server)
        assert lock.state(1) == "NONE" and lock.release(1).status == "NOT_HELD"


@forms
def test_a_loss_is_told_also_when_the_others_end_is_unknown(
    agent: Agent, new_agent: Make, redis_server: Server, new_proxy: Make, form: str
) -> None:
    proxy = new_proxy(redis_server)
    client, other = agent.open(proxy, lease_ms=3000, release_timeout_ms=300), new_agent().open(redis_server)
    several = Several(client)
    several.lock.acquire(1, 0).ok
    several.rival(other, "b").force().ok
    assert told(client, "LOST").lock_id == several.members["b"].id
    proxy.down.hold()
    if form == "blocking":
        answer = several.lock.release(1)
        assert answer.status == "LOST" and answer.message.startswith("lock 'b' at ")
    else:
        several.lock.submit_release(1, 3).ok
        assert told(client, "RELEASED", "RELEASE_FAILED").status == -201
    assert proxy.down.fired["hold"] > 0
    proxy.down.release()
    free(redis_server)


def test_a_killed_holder(new_agent: Make, redis_server: Server) -> None:
    holder, other = new_agent(), new_agent().open(redis_server)
    kinds = dict(zip("abcd", MIXED))
    Several(holder.open(redis_server, lease_ms=500), "abcd", MIXED).lock.acquire(1, 0).ok
    wait = Several(other, "dcba", [kinds[name] for name in "dcba"]).lock.start("acquire", 1, -1)
    holder.kill()
    wait.answer().ok


def test_close_with_holds(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client = agent.open(redis_server)
    several = Several(client, "abcd", MIXED)
    several.lock.acquire(1, 0).ok
    client.close(3000).ok
    free(redis_server)
    for command, *words in (("acquire", 1, 0), ("release", 1), ("state", 1), ("submit_acquire", 1, 0, 0), ("extend", 1, 1000), ("force",)):
        assert agent(command, several.lock.index, *words).status == "CLOSED"
    several.lock.drop()


def test_force(agent: Agent, beside: Agent, store: Any) -> None:
    client, other = agent.open(store), beside.open(store)
    mine, theirs = Several(client, "abcd", MIXED), Several(other, "abcd", MIXED)
    mine.lock.acquire(1, 0).ok
    theirs.lock.force().ok
    theirs.lock.acquire(1, 0).ok
    assert mine.lock.release(1).status == "LOST" and theirs.lock.state(1) == "HELD"
    theirs.lock.release(1).ok
    assert theirs.lock.force().status == "NOT_HELD"


def test_fork(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    several = Several(client)
    several.lock.acquire(1, 0).ok
    lines = [several.lock.line(*words) for words in (("state", 1), ("release", 1), ("acquire", 1, 0), ("submit_release", 1, 0), ("drop",))]
    (child,) = agent.fork(*lines, client.line("free"))
    assert child.code == 0 and [answer.status for answer in child.answers] == ["FORKED"] * 4 + ["OK"] * 2
    assert several.lock.state(1) == "HELD" and several.lock.release(1).status == "OK"


# ---- no deadlock


class Actor(threading.Thread):
    """Random subsets of the names, in random order, of random kinds that fit; a non-atomic witness per name."""

    NAMES = "abcdef"

    def __init__(self, server: Server, agent: Agent, seed: int, steps: int) -> None:
        super().__init__(daemon=True)
        self.random, self.steps, self.redis = random.Random(seed), steps, server.client()
        self.client = agent.open(server.unix_url, safety_ms=200)
        self.grants, self.writes = 0, {name: 0 for name in self.NAMES}
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for _ in range(self.steps):
                self.step()
        except BaseException as error:
            self.failure = error

    def step(self) -> None:
        names = self.random.sample(self.NAMES, self.random.randrange(1, 5))
        kinds = {name: self.random.choice(["mutex", "fair"] if name in "abc" else ["read", "write"]) for name in names}
        if self.random.random() < 0.4:  # in one step
            names, kinds = [name for name in names if name in "abc"] or ["a"], {name: "mutex" for name in "abc"}
        lock = self.client.multi(*(self.client.lock(name, kind=kinds[name]) for name in names))
        if self.random.random() < 0.3:
            self.submitted(lock)
            answer = lock.acquire(1, 0)
        else:
            answer = lock.acquire(1, self.random.choice([0, 20, 30_000]))
        if answer.status == "OK":
            self.hold([name for name in names if kinds[name] != "read"])
            lock.release(1).ok
        else:
            assert answer.status in ("BUSY", "TIMED_OUT") or answer.status == "UNREACHABLE" and answer.took < 300_000, answer

    def submitted(self, lock: Lock) -> None:
        """Acquired and released by events, or cancelled."""
        lock.submit_acquire(2, 30_000, 1).ok
        if self.random.random() < 0.5:
            lock.cancel(2)
        if told(self.client, "ACQUIRED", "ACQUIRE_FAILED").type == "ACQUIRED":
            lock.submit_release(2, 2).ok
            assert told(self.client, "RELEASED", "RELEASE_FAILED").type == "RELEASED"

    def hold(self, names: list[str]) -> None:
        self.grants += 1
        counts = [int(self.redis.command("GET", "count " + name) or 0) for name in names]
        self.redis.command("PING")
        for name, count in zip(names, counts):
            self.redis.command("SET", "count " + name, count + 1)
            self.writes[name] += 1


def no_deadlock(server: Server, new_agent: Make, processes: int, steps: int, seed: int) -> None:
    began = now()
    actors = [Actor(server, new_agent(), 100 * seed + i, steps) for i in range(processes)]
    for actor in actors:
        actor.join(100)
        if actor.failure:
            raise actor.failure
        assert not actor.is_alive(), "they wait for each other"
    for name in Actor.NAMES:
        assert int(server.command("GET", "count " + name) or 0) == sum(actor.writes[name] for actor in actors), "an update was lost"
        server.command("DEL", "count " + name)
    free(server)
    grants = [actor.grants for actor in actors]
    print(f"seed {seed}: {sum(grants)} of {processes} x {steps} granted in {(now() - began) / 1e6:.1f} s, {min(grants)} at least")
    assert all(grants) and not any(actor.client.counters()["lost"] for actor in actors)


def test_no_deadlock(new_agent: Make, redis_server: Server) -> None:
    no_deadlock(redis_server, new_agent, 8, 20, random.randrange(10**6))


@pytest.mark.full
@pytest.mark.timeout(200)
@pytest.mark.parametrize("seed", range(6))
def test_no_deadlock_for_long(new_agent: Make, redis_server: Server, seed: int) -> None:
    no_deadlock(redis_server, new_agent, 8, 250, seed)
