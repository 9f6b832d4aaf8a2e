"""Begun calls: dlock_lock_begin_acquire and _release return the answer, or leave it to one event; never both."""
from __future__ import annotations

import pathlib
import time
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Answer, Client, Event, Lock, until
from harness.build import BUILD, ROOT
from harness.kinds import KINDS, one, sides
from harness.late import Late
from harness.steps.redisson import old_counter
from harness.server import Server

Make = Callable[..., Any]
LONG = 10_000  # microseconds, the longest busy_poll_us
TURN = 16  # one in so many answers comes as an event where the caller reads events
PENDING = "WOULD_BLOCK"


def told(client: Client, tag: int, thread: int = 0) -> Event:
    """The event of a call; log events of failures may come before it."""
    while (event := client.event(20, thread=thread)).type in ("LOG", "LOST", "AT_RISK"):
        pass
    assert event.tag == tag, event
    return event


def silent(client: Client) -> None:
    assert client.poll(0).readable == 0, client.event(0)


class Caller:
    """Begins calls, each with its own tag, and records which were answered at once."""

    def __init__(self, client: Client, lock: Lock, reader: int = 0) -> None:
        self.client, self.lock, self.reader, self.tag = client, lock, reader, 0
        self.at_once: list[bool] = []
        self.gave: list[int] = []  # how often each call yielded, if that is counted

    def acquire(self, owner: int = 1, wait: int = -1) -> int:
        """Returns the token."""
        self.tag += 1
        answer = self.lock.begin_acquire(owner, wait, self.tag)
        token: int = self.ended(answer, "ACQUIRED", answer.token).token
        return token

    def release(self, owner: int = 1) -> None:
        self.tag += 1
        self.ended(self.lock.begin_release(owner, self.tag), "RELEASED", -1)

    def ended(self, answer: Answer, kind: str, token: int) -> Answer | Event:
        self.at_once.append(answer.status == "OK")
        self.gave.append(answer.__dict__.get("counted", 0))
        if answer.status != PENDING:
            return answer.ok
        assert token == -1
        event = told(self.client, self.tag, self.reader)
        assert (event.type, event.status) == (kind, 0), event
        return event


def connected(agent: Agent, server: Server, **options: Any) -> Client:
    client = agent.open(server, **options)
    client.ping(20_000).ok
    return client


# ---- one answer


@pytest.mark.parametrize("poll", [0, LONG], ids=["by events", "at once"])
@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_each_call_has_one_answer(agent: Agent, redis_server: Server, kind: str, poll: int) -> None:
    client = connected(agent, redis_server, busy_poll_us=poll)
    lock = one(client, kind, seats=2)
    caller, last = Caller(client, lock), 0
    for _ in range(40):
        token = caller.acquire()
        assert token == lock.token(1).ok.token and token > last and lock.state(1) == "HELD"
        last = token
        assert caller.acquire() == token or "semaphore" in kind
        caller.release()
        assert lock.state(1) == "HELD"
        caller.release()
        assert lock.state(1) == "NONE"
    silent(client)
    counters = client.counters()
    assert counters["acquired"] == counters["released"] == (80 if "semaphore" in kind else 40)
    assert poll or not all(caller.at_once[0::4])
    sides(client, agent.open(redis_server), kind)[1].acquire(1, 0).ok


def test_a_latch(agent: Agent, redis_server: Server) -> None:
    client = connected(agent, redis_server, busy_poll_us=LONG)
    latch = client.lock("latch", kind="latch")
    caller = Caller(client, latch)
    for _ in range(20):
        caller.acquire()
    latch.latch_set(1).ok
    assert latch.begin_acquire(1, -1, 1000).status == PENDING
    latch.latch_down(1).ok
    assert told(client, 1000).type == "ACQUIRED"
    silent(client)


def test_a_multi_lock_leaves_it_to_an_event(agent: Agent, redis_server: Server) -> None:
    client = connected(agent, redis_server, busy_poll_us=LONG)
    lock = client.multi(client.lock("one"), client.lock("two"))
    caller = Caller(client, lock)
    for _ in range(20):
        assert caller.acquire() == lock.token(1).ok.token
        caller.release()
    assert not any(caller.at_once)
    assert lock.begin_release(1, 7).status == "NOT_HELD"
    silent(client)


@pytest.mark.parametrize("poll", [0, LONG])
def test_in_memory(agent: Agent, redis_server: Server, poll: int) -> None:
    """Re-entry, inner levels, hand-over and a lingering lock never need an event."""
    client = connected(agent, redis_server, busy_poll_us=poll, linger_ms=1000, handover_ms=1000, handover_turns=1000)
    old_counter(redis_server, "lock")
    lock = client.lock("lock")
    first = Caller(client, lock)
    first.acquire()
    for number in range(3 * TURN):
        assert lock.begin_acquire(1, -1, 1).ok.token == lock.token(1).token
        assert lock.begin_acquire(2, -1, 1000 + number).status == PENDING
        lock.begin_release(1, 2).ok
        lock.begin_release(1, 3).ok
        assert told(client, 1000 + number).owner == 2
        silent(client)
        lock.begin_release(2, 4).ok
        lock.begin_acquire(1, 0, 5).ok
        silent(client)


def both_ways(call: Callable[[], Answer], client: Client, tag: int, after: Callable[[], object] = lambda: None) -> tuple[Answer, Event]:
    """A tagged call, until it was answered at once and also by an event."""
    at_once, later = None, None
    end = time.monotonic() + 20
    while not (at_once and later):
        answer = call()
        if answer.status == PENDING:
            later = told(client, tag)
        else:
            at_once = answer
            silent(client)
        after()
        assert time.monotonic() < end, (at_once, later)
    return at_once, later


def test_what_it_says(agent: Agent, redis_server: Server) -> None:
    """Both answers have the status and the sentence of the blocking call."""
    client, other = connected(agent, redis_server, busy_poll_us=LONG), agent.open(redis_server)
    theirs, lock = other.lock("lock"), client.lock("lock")
    theirs.acquire(1, 0).ok
    busy = lock.acquire(1, 0)
    at_once, later = both_ways(lambda: lock.begin_acquire(1, 0, 7), client, 7)
    assert (at_once.status, at_once.message, at_once.token) == ("BUSY", busy.message, -1)
    assert (later.type, later.status, later.text) == ("ACQUIRE_FAILED", busy.number, busy.message)
    theirs.release(1).ok
    fair = client.lock("fair", kind="fair")
    redis_server.command("SET", "fair", "no lock")
    wrong = fair.acquire(1, 0)
    at_once, later = both_ways(lambda: fair.begin_acquire(1, -1, 8), client, 8)
    assert at_once.status == wrong.status != "OK" and (at_once.message, later.text) == (wrong.message, wrong.message)
    assert later.status == wrong.number
    refused = lock.begin_release(1, 9)
    assert (refused.status, refused.message) == ("NOT_HELD", lock.release(1).message)
    silent(client)
    assert lock.state(1) == fair.state(1) == "NONE"


def test_the_wait_ends(agent: Agent, redis_server: Server) -> None:
    client, other = connected(agent, redis_server, busy_poll_us=LONG), agent.open(redis_server)
    theirs, lock = other.lock("lock"), client.lock("lock")
    theirs.acquire(1, 0).ok
    for owner in range(1, 2 * TURN):
        lock.begin_acquire(owner, 20, owner)
    events = [client.event() for _ in range(1, 2 * TURN)]
    assert {event.tag for event in events} == set(range(1, 2 * TURN))
    assert {(event.type, event.status) for event in events} == {("ACQUIRE_FAILED", 2)}, events
    assert lock.begin_acquire(1, -1, 100).status == PENDING
    assert lock.begin_acquire(1, -1, 101).status == "INVALID_ARGUMENT"
    lock.cancel(1).ok
    assert told(client, 100).type == "ACQUIRE_FAILED"
    assert lock.begin_acquire(1, -1, 102).status == PENDING
    client.close(1000).ok
    assert told(client, 102).type == "ACQUIRE_FAILED"
    assert lock.begin_acquire(1, -1, 103).status == lock.begin_release(1, 104).status == "CLOSED"


@pytest.mark.parametrize("won", [True, False], ids=["won meanwhile", "waits"])
@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_an_interrupted_call_goes_on(agent: Agent, redis_server: Server, kind: str, won: bool) -> None:
    client, other = agent.open(redis_server, interruptible="true"), agent.open(redis_server)
    lock, rival = sides(client, other, kind)
    rival.acquire(1, 0).ok
    agent("signals", 5000, 0)
    assert lock.acquire(9, -1).status == "INTERRUPTED"
    agent("signals", 0, 0)
    if won:
        rival.release(1).ok
        until(lambda: lock.state(9) == "HELD")
    answer = lock.begin_acquire(9, -1, 5)
    if won:
        assert answer.ok.token == lock.token(9).token
    else:
        assert answer.status == PENDING
        rival.release(1).ok
        assert told(client, 5).token == lock.token(9).ok.token
    lock.release(9).ok
    assert lock.state(9) == "NONE"
    silent(client)


# ---- the end


def the_queue_ends(agent: Agent, server: Server) -> None:
    """After a close, when all promised events have come."""
    client = connected(agent, server)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    lock.begin_acquire(1, 0, 7).ok
    lock.begin_release(1, 8).ok
    lock.release(1).ok
    client.close(1000).ok
    assert client.next(5000).status == "CLOSED"


def test_the_queue_ends(agent: Agent, redis_server: Server) -> None:
    the_queue_ends(agent, redis_server)


# ---- fairness between tasks


def longest(at_once: list[bool]) -> int:
    """The most calls in a row that had their answer at once."""
    most = run = 0
    for now in at_once:
        run = run + 1 if now else 0
        most = max(most, run)
    return most


def turns(agent: Agent, server: Server) -> None:
    """An event loop does not get every answer at once. Where others read the events, it does not starve them."""
    for reader in 0, 1:
        client = connected(agent, server, busy_poll_us=LONG)
        caller = Caller(client, client.lock(f"read by {reader}"), reader)
        assert client.next(0, thread=reader).status == "NO_EVENT"

        def rounds() -> bool:
            for _ in range(2 * TURN):
                caller.acquire()
                caller.release()
            return longest(caller.at_once) >= (2 * TURN if reader else TURN - 1)

        until(rounds)  # where others need the core there are fewer
        assert reader or longest(caller.at_once) == TURN - 1


def test_turns(agent: Agent, redis_server: Server) -> None:
    turns(agent, redis_server)


def told_before_it_returns(late: Late, server: Server) -> None:
    """Another thread reads the event and releases the lock while the begun call is about to return: the call leaves the answer to the
    event.
    """
    client = connected(late.agent, server, busy_poll_us=LONG)
    lock, descriptor, tag = client.lock("lock"), client.fd().ok.fd, 0
    while late.words[3] < 3:
        tag += 1
        assert client.next(0, thread=1).status == "NO_EVENT"  # from now on the client has an event loop
        late.words[2] = descriptor
        begun = lock.start("begin_acquire", 1, -1, tag, thread=1)
        until(lambda: begun.ready() or client.poll(0).readable)
        if quick := not begun.ready():
            assert told(client, tag).type == "ACQUIRED"
            lock.release(1).ok
        late.words[2] = 0
        status = begun.answer().status
        if quick:
            assert status == PENDING
            continue
        if status == PENDING:
            told(client, tag, 1)
        lock.release(1).ok
    silent(client)
    client.close(1000).ok
    assert client.next(5000).status == "CLOSED"


def test_told_before_it_returns(new_agent: Make, redis_server: Server, tmp_path: pathlib.Path) -> None:
    told_before_it_returns(Late(tmp_path, new_agent), redis_server)


# ---- pauses of polling


def naps(agent: Agent, server: Server) -> None:
    """A caller that lost the core stops polling for a while and sleeps until the answer comes: the client's thread need not wake up."""
    client = connected(agent, server, busy_poll_us=LONG)
    caller = Caller(client, client.lock("lock"))

    def woken() -> int:
        return sum(int(lines["voluntary_ctxt_switches"]) for lines in agent.threads().values())

    def mostly() -> bool:
        caller.gave.clear()
        before = woken()
        for number in range(10):
            for call in caller.acquire, caller.release:
                agent("shim", "yield", int(number == 0), 0)  # the first takes two milliseconds
                call()
        return sum(caller.gave[2:]) == 0 and woken() - before < 9  # by 18 calls

    until(lambda: all(mostly() for _ in range(3)))


def test_who_pauses_sleeps_for_the_answer(new_agent: Make, redis_server: Server) -> None:
    naps(new_agent(shim=True), redis_server)


# ---- mutants that these tests find

FOUND: dict[int, Callable[[Agent, Server], None]] = {514: turns, 515: naps, 516: the_queue_ends}
FOUND_LATE: dict[int, Callable[[Late, Server], None]] = {517: told_before_it_returns}


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.rows(mutants.BEGUN, late={515, 516}))
def test_mutant(mutant: mutants.Mutant, new_agent: Make, redis_server: Server, tmp_path: pathlib.Path) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        if mutant.number in FOUND_LATE:
            FOUND_LATE[mutant.number](Late(tmp_path, new_agent, LD_PRELOAD=library), redis_server)
        else:
            FOUND[mutant.number](new_agent(shim=True, LD_PRELOAD=library), redis_server)
