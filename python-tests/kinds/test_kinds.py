"""The lock kinds beside the mutex over the C ABI: every call, ends of leases, wake-ups, many waiters, dead holders."""
from __future__ import annotations

import contextlib
import random
import subprocess
import threading
from typing import Any, Callable

import pytest

from harness.agent import Agent, Answer, Client, Event, Lock, Pending, now, until
from harness.build import SANITIZED, native
from harness.kinds import KINDS, LEASED, REENTRANT, RIVAL, calls, image, one, rss_kb, sides
from harness.steps.redisson import Jvm
from harness.steps.redisson_rw import rw_channel
from harness.steps.scripts import SHA
from harness.server import Server

Make = Callable[..., Any]
each = pytest.mark.parametrize("kind", KINDS)
NO_POLLS = {"safety_ms": 60_000}  # a waiter that gets in within seconds got a message: the lease is 30 s
SOON = 10.0


def told(client: Client, *types: str) -> Event:
    """The next event of these types."""
    while True:
        event = client.event()
        if event.type in types:
            return event


def no_event(client: Client, *types: str) -> None:
    """There is no event of these types."""
    while (answer := client.next(0)).status == "OK":
        assert answer.event.type not in types, answer.event


def waits(lock: Lock, owner: int, thread: int, wait_ms: int = -1) -> Pending:
    pending = lock.start("acquire", owner, wait_ms, thread=thread)
    until(lambda: lock.state(owner) == "WAITING")
    return pending


def listens(server: Server, kind: str, processes: int = 1) -> None:
    """So many processes wait for the holder of a lock of this kind: they have subscribed to their own channel and, unless they wait for a
    fair or write lock, to the lock's channel.
    """
    channels = processes + (kind not in ("fair", "read"))
    until(lambda: len(server.command("PUBSUB", "CHANNELS")) >= channels)


# ---- acquire and release


@each
def test_hold_and_give_back(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    mine, theirs = sides(client, other, kind)
    near = one(client, RIVAL.get(kind, kind))
    before = image(redis_server)
    assert mine.state(1) == "NONE" and mine.token(1).status == "NOT_HELD" and mine.count(1).ok.count == 0
    assert mine.acquire_local(1).status == "WOULD_BLOCK"
    token = mine.acquire(1, 0).ok.token
    assert 0 < token < 2**53 and mine.state(1) == "HELD" and mine.count(1).count == 1 and mine.token(1).token == token
    left = mine.remaining(1).ok.remaining
    assert left == -1 if kind == "semaphore" else 20_000 < left <= 30_000
    for rival, owner in ((near, 2), (theirs, 2), (theirs, 1)):
        assert rival.acquire(owner, 0).status == "BUSY"
        answer = rival.acquire(owner, 30)
        assert answer.status == "TIMED_OUT" and answer.took >= 30_000
        assert rival.state(owner) == "NONE" and rival.release(owner).status == "NOT_HELD"
    assert mine.release(2).status == "NOT_HELD"
    event = mine.inspect().ok.event
    held = "semaphore" not in kind
    assert bool(event.text) == held and event.token >= token and (event.remaining > 20_000) == held
    assert mine.release_local(1).status == "WOULD_BLOCK" and mine.state(1) == "HELD"
    mine.release(1).ok
    assert mine.state(1) == "NONE" and mine.release(1).status == "NOT_HELD"
    until(lambda: image(redis_server) == before)  # after a timeout it leaves the line, or gives its grant back, in the background
    assert mine.inspect().ok.event.text == ""
    later = theirs.acquire(7, 0).ok.token
    assert later > token
    theirs.release(7).ok
    assert client.counters()["locks"] == 1


@each
def test_threads_are_owners(agent: Agent, store: Any, kind: str) -> None:
    """Owner 0 is the calling thread."""
    lock = one(agent.open(store), kind)
    rival = lock if kind != "read" else one(agent.open(store), "write")
    lock.acquire(0, 0, thread=1).ok
    assert lock.acquire(0, 0, thread=1).status == ("OK" if kind in REENTRANT else "BUSY")
    assert rival.acquire(0, 0, thread=2).status == "BUSY"
    assert lock.release(0, thread=2).status == "NOT_HELD"
    assert agent("state", lock.index, 0, thread=1).state == "HELD" and agent("state", lock.index, 0, thread=2).state == "NONE"
    for _ in range(2 if kind in REENTRANT else 1):
        lock.release(0, thread=1).ok
    rival.acquire(0, 0, thread=2).ok
    rival.release(0, thread=2).ok


@pytest.mark.parametrize("kind", REENTRANT)
def test_reentry(agent: Agent, beside: Agent, store: Any, kind: str) -> None:
    client = agent.open(store)
    mine, theirs = sides(client, beside.open(store), kind)
    second = one(client, kind)  # another handle of the same lock
    token, commands = mine.acquire(1, 0).ok.token, client.counters()["commands"]
    assert second.acquire(1, 0).ok.token == token and mine.acquire(1, -1).ok.token == token
    assert mine.acquire_local(1).ok.token == token and mine.count(1).count == 4
    second.submit_acquire(1, -1, 9).ok
    assert told(client, "ACQUIRED").token == token and second.count(1).count == 5
    for left in (4, 3, 2):
        mine.release(1).ok if left == 4 else mine.release_local(1).ok
        assert mine.count(1).count == left and theirs.acquire(2, 0).status == "BUSY"
    second.submit_release(1, 5).ok
    assert told(client, "RELEASED").tag == 5 and mine.count(1).count == 1
    assert client.counters()["commands"] == commands, "re-entry needs no server"
    mine.release(1).ok
    theirs.acquire(2, 0).ok
    theirs.release(2).ok


@each
def test_events(agent: Agent, beside: Agent, store: Any, kind: str) -> None:
    client = agent.open(store)
    mine, theirs = sides(client, beside.open(store), kind)
    theirs.acquire(1, 0).ok
    mine.submit_acquire(1, 0, 10).ok
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, event.lock_id, event.owner, event.token) == ("ACQUIRE_FAILED", 10, mine.id, 1, -1)
    assert event.status == 1 and "'lock'" in event.text
    mine.submit_acquire(2, 40, 11).ok
    mine.submit_acquire(3, -1, 12).ok
    mine.submit_acquire(4, -1, 13).ok
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, event.owner, event.status) == ("ACQUIRE_FAILED", 11, 2, 2)
    mine.cancel(4).ok
    assert mine.cancel(4).status == "NOT_HELD" and mine.cancel(77).status == "NOT_HELD"
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, event.owner, event.status) == ("ACQUIRE_FAILED", 13, 4, 3)
    assert mine.state(3) == "WAITING" and mine.state(4) == "NONE"
    theirs.release(1).ok
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, event.lock_id, event.owner, event.status) == ("ACQUIRED", 12, mine.id, 3, 0)
    assert event.token == mine.token(3).ok.token and (event.remaining > 0) == (kind != "semaphore")
    mine.submit_release(3, 14).ok
    event = told(client, "RELEASED", "RELEASE_FAILED")
    assert (event.type, event.tag, event.owner) == ("RELEASED", 14, 3) and event.held_for >= 0
    assert mine.submit_release(3, 15).status == "NOT_HELD"
    theirs.acquire(1, 0).ok
    no_event(client, "ACQUIRED", "ACQUIRE_FAILED", "RELEASED", "RELEASE_FAILED", "LOST")


@each
def test_extend_and_force(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client = agent.open(redis_server, lease_ms=1000)
    mine, theirs = sides(client, new_agent().open(redis_server, **NO_POLLS), kind)
    token = mine.acquire(1, 0).ok.token
    if kind == "semaphore":
        assert mine.extend(1, 40_000).status == "UNSUPPORTED"
    else:
        assert mine.extend(2, 40_000).status == "NOT_HELD"
        mine.extend(1, 40_000).ok
        assert mine.remaining(1).ok.remaining > 30_000 and mine.token(1).token == token
    if "semaphore" in kind:
        assert mine.force().status == "UNSUPPORTED" and mine.state(1) == "HELD"
        return
    wait = waits(theirs, 5, 1)
    listens(redis_server, kind)
    theirs.force().ok
    assert wait.answer(SOON).ok.token > token
    assert theirs.state(5) == "HELD"
    assert mine.extend(1, 1000).status == "LOST" and mine.release(1).status == "LOST"
    assert told(client, "LOST").cause == "TAKEN"
    theirs.release(5).ok
    assert theirs.force().status == "NOT_HELD"


# ---- waiting


@each
def test_waiters_are_told(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    """In the same process and in another one; they send nothing while they sleep."""
    client, other = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server, **NO_POLLS)
    mine, theirs = sides(client, other, kind)
    near = one(client, RIVAL.get(kind, kind))
    for round_ in range(3):
        mine.acquire(1, 0).ok
        pending = [waits(near, 2, 1), waits(theirs, 2, 1)]
        listens(redis_server, kind, 2)
        until(lambda: settled(redis_server))
        sent = calls(redis_server)
        assert mine.state(1) == "HELD" and near.state(2) == theirs.state(2) == "WAITING"
        assert calls(redis_server) == sent
        released = now()
        mine.release(1).ok
        both = {near: pending[0], theirs: pending[1]}
        tokens = []
        while both:
            lock = until(lambda: next((lock for lock, wait in both.items() if wait.ready()), None), SOON)
            answer = both.pop(lock).answer().ok
            tokens.append(answer.token)
            assert answer.done - released < 1e6 * SOON
            lock.release(2).ok
        assert kind == "write" or tokens == sorted(tokens)


def settled(server: Server) -> bool:
    """Nothing is sent for a while."""
    before, since = calls(server), now()
    until(lambda: now() > since + 50_000)
    return calls(server) == before


@each
def test_a_cancelled_waiter_leaves_nothing(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    mine, theirs = sides(client, other, kind)
    mine.acquire(1, 0).ok
    before = image(redis_server)
    for leave in ("cancel", "time"):
        wait = waits(theirs, 2, 1, -1 if leave == "cancel" else 300)
        if kind == "fair":
            until(lambda: redis_server.command("LLEN", "redisson_lock_queue:{lock}") == 1)
        if leave == "cancel":
            theirs.cancel(2).ok
        assert wait.answer().status == ("CANCELLED" if leave == "cancel" else "TIMED_OUT")
        until(lambda: image(redis_server) == before)
    mine.release(1).ok
    assert theirs.acquire(2, 0).status == "OK"
    assert mine.state(1) == "NONE" and theirs.release(2).status == "OK"


# ---- ends of a lease: all kinds side by side


class Row:
    def __init__(self, kind: str, client: Client, other: Client, **options: Any) -> None:
        self.kind = kind
        self.mine, self.theirs = sides(client, other, kind, kind, **options)
        self.token = self.mine.acquire(1, 0).ok.token

    def delete(self, server: Server) -> None:
        keys = {"read": [], "permit_semaphore": ["{permit_semaphore}:timeout"]}.get(self.kind, [self.kind])
        if self.kind == "read":
            keys = server.command("KEYS", "{read}:*")
        assert server.command("DEL", *keys) == len(keys) > 0

    def got(self) -> None:
        """The next owner has it, with a higher token, and the first one knows of its loss."""
        assert self.theirs.acquire(2, 15_000).ok.token > self.token
        assert self.mine.state(1) == "LOST" and self.mine.token(1).status == "LOST" == self.mine.remaining(1).status
        assert self.mine.count(1).ok.count == 0 and self.mine.extend(1, 5000).status == "LOST"
        assert self.mine.release(1).status == "LOST" and self.mine.release(1).status == "NOT_HELD"
        assert self.theirs.state(2) == "HELD"
        self.theirs.release(2).ok


def losses(client: Client, rows: list[Row]) -> dict[str, str]:
    """Kind -> cause, from one LOST event per row and no more."""
    found = {}
    for _ in rows:
        event = told(client, "LOST")
        (row,) = [row for row in rows if row.mine.id == event.lock_id]
        assert row.kind not in found and event.token == row.token and event.owner == 1
        found[row.kind] = event.cause
    no_event(client, "LOST")
    return found


def test_leases_are_renewed(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    lease = 700
    client, other = agent.open(redis_server, lease_ms=lease), new_agent().open(redis_server, lease_ms=lease)
    began = now()
    rows = [Row(kind, client, other) for kind in KINDS]
    while now() < began + 3_500 * lease:
        assert [row.theirs.acquire(2, 100).status for row in rows] == ["TIMED_OUT"] * len(rows)
    assert [row.mine.state(1) for row in rows] == ["HELD"] * len(rows)
    assert client.counters()["renewed"] >= 3 * len(LEASED) and client.counters()["lost"] == 0
    for row in rows:
        assert row.mine.token(1).token == row.token
        assert 0 <= redis_server.command("PTTL", row.kind) <= lease or "semaphore" in row.kind
        row.mine.release(1).ok
        row.theirs.acquire(2, 0).ok


def test_fixed_leases_end(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server, lease_ms=500, renew="false"), new_agent().open(redis_server)
    rows = [Row(kind, client, other) for kind in LEASED]
    assert losses(client, rows) == {kind: "EXPIRED" for kind in LEASED}
    for row in rows:
        row.got()
    assert client.counters()["renewed"] == 0
    assert set(image(redis_server)) == {b"permit_semaphore"}


def test_what_was_taken_away_is_lost(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server, lease_ms=900), new_agent().open(redis_server)
    rows = [Row(kind, client, other) for kind in LEASED]
    for row in rows:
        row.delete(redis_server)
    assert losses(client, rows) == {kind: "TAKEN" for kind in LEASED}
    redis_server.command("DEL", "permit_semaphore")  # its permit was lost with the key
    for row in rows:
        if row.kind == "permit_semaphore":
            one(other, row.kind, row.kind)
        row.got()


def test_max_hold(agent: Agent, beside: Agent, store: Any) -> None:
    client, other = agent.open(store, lease_ms=800, max_hold_ms=1500), beside.open(store)
    rows = [Row(kind, client, other) for kind in LEASED]
    began = now()
    assert losses(client, rows) == {kind: "MAX_HOLD" for kind in LEASED}
    assert now() - began > 1_200_000
    for row in rows:
        row.got()


def test_a_server_that_stops_past_the_lease(agent: Agent, new_agent: Make, new_server: Make) -> None:
    server = new_server()
    client, other = agent.open(server, lease_ms=700), new_agent().open(server)
    rows = [Row(kind, client, other) for kind in LEASED]
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + len(rows))
    server.pause()
    at_risk = {told(client, "AT_RISK").lock_id for _ in rows}
    assert at_risk == {row.mine.id for row in rows}
    assert losses(client, rows) == {kind: "EXPIRED" for kind in LEASED}
    server.resume()
    for row in rows:
        row.got()


# ---- dead holders


def test_a_killed_holder(new_agent: Make, redis_server: Server) -> None:
    """All kinds with a lease. Waiters sleep (60 s) until a message comes or the lease that they saw is over."""
    lease = 800
    holder, other = new_agent(), new_agent().open(redis_server, **NO_POLLS)
    client = holder.open(redis_server, lease_ms=lease)
    rows = [Row(kind, client, other) for kind in LEASED]
    pending = [waits(row.theirs, 2, 1 + i) for i, row in enumerate(rows)]
    holder.kill()
    killed = now()
    for row, wait in zip(rows, pending):
        answer = wait.answer().ok
        assert answer.token > row.token and answer.done <= killed + 1000 * (lease + 5000)
        row.theirs.release(2).ok
    semaphore = one(other, "permit_semaphore", "permit_semaphore")
    assert semaphore.permits().ok.value == 1, "the permit came back, once"
    assert set(image(redis_server)) == {b"permit_semaphore"}


def test_plain_permits_of_the_dead_stay_taken(new_agent: Make, redis_server: Server) -> None:
    """As with Redisson: they carry no owner. reclaim_permits brings them back: test_reclaim.py."""
    holder, other = new_agent(), new_agent().open(redis_server)
    one(holder.open(redis_server, lease_ms=500), "semaphore").acquire(1, 0).ok
    holder.kill()
    seats = one(other, "semaphore")
    assert seats.acquire(1, 900).status == "TIMED_OUT"
    assert seats.permits_reclaim(0).ok.value == 1
    seats.acquire(1, 0).ok


def test_one_dead_reader_of_several(new_agent: Make, redis_server: Server) -> None:
    """It neither takes the lock away from the live readers nor keeps it when they are gone."""
    dead, alive, writer = new_agent(), new_agent().open(redis_server, lease_ms=800), new_agent().open(redis_server)
    reader, lasts = one(dead.open(redis_server, lease_ms=800), "read"), one(alive, "read")
    reader.acquire(1, 0).ok
    lasts.acquire(1, 0).ok
    dead.kill()
    wait = waits(one(writer, "write"), 2, 1)
    before = alive.counters()["renewed"]
    until(lambda: alive.counters()["renewed"] >= before + 4)
    assert not wait.ready() and lasts.state(1) == "HELD" and not alive.counters()["lost"]
    lasts.release(1).ok
    wait.answer(SOON).ok


# ---- the ends of clients and handles


@each
def test_close(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server, **NO_POLLS)
    mine, theirs = sides(client, other, kind)
    near, before = one(client, RIVAL.get(kind, kind)), image(redis_server)
    mine.acquire(1, 0).ok
    here = [waits(near, owner, owner) for owner in (2, 3)]
    near.submit_acquire(4, -1, 44).ok
    there = waits(theirs, 2, 1)
    listens(redis_server, kind, 2)
    client.close(5000).ok
    assert {wait.answer().status for wait in here} == {"CLOSED"}
    events = {event.type: event for event in (told(client, "ACQUIRE_FAILED", "LOST") for _ in range(2))}
    assert events["ACQUIRE_FAILED"].tag == 44 and "closed" in events["ACQUIRE_FAILED"].text
    assert events["LOST"].cause == "CLOSED" and events["LOST"].owner == 1
    assert client.next(0).status == "CLOSED"
    there.answer(SOON).ok
    for command, *words in (("acquire", 1, 0), ("release", 1), ("state", 1), ("inspect",), ("close_gate", 100), ("open_gate",)):
        assert agent(command, mine.index, *words).status == "CLOSED"
    theirs.release(2).ok
    assert image(redis_server) == before
    client.free(), mine.drop(), near.drop()
    until(lambda: not agent.threads())


@pytest.mark.parametrize("first", ["locks", "client"])
def test_handles_go_in_any_order(agent: Agent, new_agent: Make, redis_server: Server, first: str) -> None:
    """Handles with holds and waiters are freed: the holds go on. The client is freed: it abandons them, and the leases end."""
    other, client = new_agent().open(redis_server), agent.open(redis_server, lease_ms=500)
    theirs = {kind: one(other, RIVAL.get(kind, kind), kind) for kind in KINDS}
    before, handles = image(redis_server), []
    for kind in KINDS:
        mine, near = one(client, kind, kind), one(client, RIVAL.get(kind, kind), kind)
        handles += [mine, near]
        mine.acquire(1, 0).ok
        near.submit_acquire(2, -1, 7).ok
        until(lambda: near.state(2) == "WAITING")
    if first == "client":
        client.free()
        assert {handle.acquire(1, 0).status for handle in handles} == {"CLOSED"} == {handle.release(2).status for handle in handles}
    random.shuffle(handles)
    for handle in handles:
        handle.drop()
    if first == "locks":
        count = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= count + 3 * len(LEASED))
        assert {lock.acquire(2, 0).status for lock in theirs.values()} == {"BUSY"}
        client.close(3000).ok
        client.free()
    else:
        until(lambda: theirs["semaphore"].permits_reclaim(0).ok.value == 1)
    for lock in theirs.values():
        lock.acquire(2, 10_000).ok
        lock.release(2).ok
    redis_server.command("DEL", "dlock_fair:{fair}")  # the record of a waiter that vanished stays for a while
    until(lambda: image(redis_server) == before)
    until(lambda: not agent.threads())


@each
def test_fork(agent: Agent, redis_server: Server, kind: str) -> None:
    client, fresh = agent.open(redis_server, lease_ms=900), agent.open(redis_server)
    mine, unused = one(client, kind), fresh.lock("other", kind="fair" if kind == "fair" else "write")
    mine.acquire(1, 0).ok
    wait = waits(one(client, "write" if kind == "read" else kind), 2, 1)
    lines = [mine.line(*words) for words in (("state", 1), ("release", 1), ("acquire", 1, 0), ("close_gate", 9), ("drop",))]
    (child,) = agent.fork(*lines, client.line("free"), unused.line("acquire", 1, 1000), unused.line("release", 1))
    assert child.code == 0
    assert [answer.status for answer in child.answers] == ["FORKED"] * 4 + ["OK"] * 4
    assert mine.state(1) == "HELD" and not wait.ready()
    mine.release(1).ok
    wait.answer(SOON).ok


# ---- many owners


@pytest.mark.no_tsan
@each
def test_owners_leave_no_memory_behind(new_agent: Make, redis_server: Server, kind: str) -> None:
    """Each acquires and releases once, and is never seen again."""
    agent, many = new_agent(shim=True), 10_000 if kind != "permit_semaphore" else 4000
    client = agent.open(redis_server.unix_url)
    lock = one(client, kind)
    assert lock.turns(1, 2000, timeout=50).ok.bad == 0
    live, before = agent("live").live, rss_kb(agent.pid)
    answer = lock.turns(10_000, many, timeout=50).ok
    more, grown = agent("live").live - live, rss_kb(agent.pid) - before
    print(f"{kind}: {many} owners in {answer.took / 1e6:.1f} s, {more} allocations and {grown} KB more")
    assert answer.bad == 0 and client.counters()["locks"] == 1 and client.counters()["held"] == 0
    assert more < 100 and (SANITIZED or grown < 2000), f"{more} allocations, {grown} KB for {many} owners that are gone"
    assert redis_server.command("DBSIZE") <= 4


@pytest.mark.parametrize("kind, waiters", [("write", 150), ("semaphore", 150)])
def test_many_waiters(agent: Agent, redis_server: Server, kind: str, waiters: int) -> None:
    serve_many(agent, redis_server, kind, waiters)


@pytest.mark.full
@each
def test_a_crowd_of_500(agent: Agent, redis_server: Server, kind: str) -> None:
    serve_many(agent, redis_server, kind, 500)


def serve_many(agent: Agent, server: Server, kind: str, waiters: int) -> None:
    """So many threads wait, all are served, and nobody polls."""
    permits = 4 if "semaphore" in kind else 1
    client = agent.open(server.unix_url, **NO_POLLS)
    lock = one(client, kind, seats=permits)
    holder = one(client, RIVAL.get(kind, kind), permits=permits)
    holder.acquire(1, 0).ok
    pending = {owner: lock.start("acquire", owner, -1, thread=owner) for owner in range(2, 2 + waiters)}
    until(lambda: client.counters()["waiting"] == waiters, 30)
    until(lambda: settled(server))
    sent, began = client.counters()["commands"], now()
    holder.release(1).ok
    held = 0
    while pending:
        ready = [owner for owner, wait in pending.items() if wait.ready()]
        for owner in ready:
            pending.pop(owner).answer().ok
            lock.release(owner).ok
            held += 1
        assert ready or now() < began + 50e6, f"{len(pending)} of {waiters} still wait"
    sent = client.counters()["commands"] - sent
    print(f"{kind}: {waiters} threads served in {(now() - began) / 1e6:.2f} s, {sent / waiters:.1f} commands for each")
    assert held == waiters and client.counters()["waiting"] == client.counters()["held"] == 0


# ---- semaphores


PERMITS = ["semaphore", "permit_semaphore"]
both = pytest.mark.parametrize("kind", PERMITS)


@both
def test_permits_go_back_last_in_first_out(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client = agent.open(redis_server)
    single = one(client, kind, seats=10)
    triple = one(client, kind, permits=3)
    assert single.permits_set(99).status == "UNCHANGED" and single.permits().ok.value == 10
    tokens = [lock.acquire(1, 0).ok.token for lock in (single, triple, single, triple)]
    assert tokens == sorted(set(tokens)) and single.permits().value == 2 and single.count(1).ok.count == 4
    assert triple.acquire(2, 0).status == "BUSY" and single.acquire(2, 0).status == "OK"
    for token, free in zip(reversed(tokens), (4, 5, 8, 9)):
        assert single.token(1).ok.token == token
        single.release(1).ok  # any handle may release
        assert single.permits().value == free
    assert single.count(1).count == 0 and triple.release(1).status == "NOT_HELD" and single.state(2) == "HELD"
    single.release(2).ok
    assert single.permits().value == 10
    if kind == "permit_semaphore":
        assert not redis_server.command("EXISTS", "{lock}:timeout")


def test_the_latest_grant_goes_first_when_an_older_one_was_lost(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=900)
    seats = one(client, "permit_semaphore", seats=3)
    seats.acquire(1, 0).ok
    gone = bytes.fromhex(seats.permit(1, 0, 33).ok.permit)
    seats.acquire(1, 0).ok
    second = seats.permit(1, 0, 33).ok.permit
    assert redis_server.command("ZREM", "{lock}:timeout", gone) == 1
    assert told(client, "LOST").cause == "TAKEN" and seats.state(1) == "HELD"
    latest = seats.acquire(1, 0).ok.token
    assert seats.token(1).ok.token == latest and seats.permit(1, 0, 33).permit not in (second, gone.hex())
    seats.release(1).ok
    assert seats.permit(1, 0, 33).ok.permit == second and seats.token(1).token < latest
    seats.release(1).ok


@both
def test_permits_change(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server, **NO_POLLS)
    seats, theirs = client.lock("lock", kind=kind), other.lock("lock", kind=kind, permits=2)
    assert seats.permits().ok.value == 0 and seats.acquire(1, 0).status == "BUSY"
    wait = waits(theirs, 1, 1)
    listens(redis_server, kind)
    seats.permits_set(1).ok
    assert not wait.ready() and seats.permits_add(1).ok.value == 2
    wait.answer(SOON).ok
    assert seats.permits_add(-3).ok.value == -3
    theirs.release(1).ok
    assert seats.permits().value == -1 and theirs.acquire(1, 0).status == "BUSY" == seats.acquire(1, 0).status
    assert seats.permits_add(5).ok.value == 4
    if kind == "semaphore":
        assert seats.permits_drain().ok.value == 4 and seats.permits().value == 0 and seats.permits_drain().value == 0
        assert seats.permits_add(-2).ok.value == -2 and seats.permits_drain().ok.value == -2 and seats.permits().value == 0
        assert seats.acquire(1, 0).status == "BUSY"
    else:
        assert seats.permits_drain().status == "UNSUPPORTED" and seats.permits().value == 4


def test_permit_ids(agent: Agent, redis_server: Server) -> None:
    """They are the members of Redisson's set, one for each permit."""
    client = agent.open(redis_server)
    seats = one(client, "permit_semaphore", seats=5)
    triple = client.lock("lock", kind="permit_semaphore", permits=3)
    assert triple.permit(1, 0, 33).status == "NOT_HELD"
    triple.acquire(1, 0).ok
    ids = [triple.permit(1, i, 33).ok.permit for i in range(3)]
    assert sorted(redis_server.command("ZRANGE", "{lock}:timeout", 0, -1)) == sorted(map(bytes.fromhex, ids))
    assert len(set(ids)) == 3 and {len(permit) for permit in ids} == {32}
    assert triple.permit(1, 3, 33).status == triple.permit(1, -1, 33).status == "INVALID_ARGUMENT"
    assert triple.permit(1, 0, 32).status == "BUFFER_TOO_SMALL" and triple.permit(2, 0, 33).status == "NOT_HELD"
    seats.acquire(1, 0).ok
    assert seats.permit(1, 0, 33).ok.permit not in ids
    assert client.lock("lock", kind="semaphore").permit(1, 0, 33).status == "UNSUPPORTED"


def test_an_expired_permit_is_released_once(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """Its permit came back by itself; the late release does not add another."""
    seats = one(agent.open(redis_server, lease_ms=300, renew="false"), "permit_semaphore")
    theirs = one(new_agent().open(redis_server), "permit_semaphore")
    seats.acquire(1, 0).ok
    until(lambda: seats.state(1) == "LOST")
    theirs.acquire(1, 5000).ok
    before = image(redis_server)
    assert seats.release(1).status == "LOST" and seats.release(1).status == "NOT_HELD"
    assert image(redis_server) == before and theirs.permits().value == 0
    theirs.release(1).ok
    assert theirs.permits().value == 1


# ---- readers and writers


def test_many_readers_one_writer(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server, **NO_POLLS)
    near, far = client.lock("lock", kind="read"), other.lock("lock", kind="read")
    tokens = [lock.acquire(owner, 0).ok.token for owner in (1, 2, 3) for lock in (near, far)]
    assert len(set(tokens)) == 6, "each read has a token of its own"
    writer = other.lock("lock", kind="write")
    wait = waits(writer, 9, 1)
    listens(redis_server, "read")
    for owner in (1, 2, 3):
        assert not wait.ready()
        near.release(owner).ok
        assert not wait.ready() and writer.state(9) == "WAITING"
        far.release(owner).ok
    assert wait.answer(SOON).ok.token > max(tokens)
    pending = [waits(lock, owner, 10 + owner) for owner in (1, 2) for lock in (near, far)]
    writer.release(9).ok
    assert len({pending_.answer(SOON).ok.token for pending_ in pending}) == 4


def test_a_writer_may_read_and_go_on_reading(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server, **NO_POLLS)
    read, write = client.lock("lock", kind="read"), client.lock("lock", kind="write")
    theirs, rival = other.lock("lock", kind="read"), other.lock("lock", kind="write")
    first = write.acquire(1, 0).ok.token
    assert read.acquire(2, 0).status == "BUSY" and read.acquire(1, 0).ok.token > first
    assert write.acquire(1, 0).ok.token == first and write.count(1).count == 2, "it still writes"
    wait = waits(theirs, 1, 1)
    listens(redis_server, "write")
    write.release(1).ok
    assert not wait.ready()
    write.release(1).ok
    wait.answer(SOON).ok
    assert read.state(1) == "HELD" and write.state(1) == "NONE" and rival.acquire(2, 0).status == "BUSY"
    assert write.acquire(1, 0).status == "UPGRADE_REFUSED", "now it reads alone"
    theirs.release(1).ok
    read.release(1).ok
    rival.acquire(2, 0).ok
    rival.release(2).ok
    for order in ((read, write), (write, read)):  # in either order
        write.acquire(1, 0).ok
        read.acquire(1, 0).ok
        for lock in order:
            assert rival.acquire(2, 0).status == "BUSY"
            lock.release(1).ok
        rival.acquire(2, 0).ok
        rival.release(2).ok
    assert image(redis_server) == {}


def test_who_reads_is_not_let_write(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    read, write = client.lock("lock", kind="read"), client.lock("lock", kind="write")
    read.acquire(1, 0).ok
    before = image(redis_server)
    for answer in (write.acquire(1, 0), write.acquire(1, -1), write.submit_acquire(1, -1, 5)):
        assert answer.status == "UPGRADE_REFUSED" and "'lock'" in answer.message and answer.retryable == 0
    assert image(redis_server) == before and write.state(1) == "NONE" and read.state(1) == "HELD"
    no_event(client, "ACQUIRED", "ACQUIRE_FAILED")
    wait = waits(write, 2, 1)  # another owner waits as usual, and keeps new readers out
    until(lambda: image(redis_server) != before)
    assert other.lock("lock", kind="read").acquire(1, 0).status == "BUSY" and not wait.ready()
    write.cancel(2).ok
    other.lock("lock", kind="read").acquire(1, 5000).ok
    read.release(1).ok


def test_a_read_under_a_write_outlives_its_lease(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """Leases of both sides are renewed at the same time, and each alone."""
    client, rival = agent.open(redis_server, lease_ms=600), new_agent().open(redis_server).lock("lock", kind="write")
    read, write = client.lock("lock", kind="read"), client.lock("lock", kind="write")
    for release in ((), (write,), (read,)):
        write.acquire(1, 0).ok
        read.acquire(1, 0).ok
        for lock in release:
            lock.release(1).ok
        rest = [lock for lock in (read, write) if lock not in release]
        before, began = client.counters()["renewed"], now()
        until(lambda: client.counters()["renewed"] >= before + 4 * len(rest) and now() > began + 900_000)
        assert [lock.state(1) for lock in rest] == ["HELD"] * len(rest) and rival.acquire(2, 0).status == "BUSY"
        for lock in rest:
            lock.release(1).ok
    assert client.counters()["lost"] == 0 and image(redis_server) == {}


# ---- latches


def test_a_latch_opens_for_everybody(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server, **NO_POLLS)
    near, far = client.lock("lock", kind="latch"), other.lock("lock", kind="latch")
    assert near.latch_count().ok.value == 0 and near.acquire(1, 0).status == "OK", "without a count it is open"
    near.latch_set(3).ok
    assert far.latch_set(5).status == "UNCHANGED" and far.latch_count().ok.value == 3
    assert near.acquire(1, 0).status == "BUSY"
    assert near.acquire(1, 30).status == "TIMED_OUT"
    pending = [waits(lock, owner, 10 * i + owner) for i, lock in enumerate((near, far)) for owner in (1, 2, 3)]
    near.submit_acquire(9, -1, 99).ok
    cancelled = waits(far, 8, 50)
    far.cancel(8).ok
    assert cancelled.answer().status == "CANCELLED"
    listens(redis_server, "latch", 2)
    assert far.latch_down(1).ok.value == 2 and near.latch_down(1).ok.value == 1
    assert not any(wait.ready() for wait in pending) and near.state(1) == "WAITING"
    opened = now()
    assert far.latch_down(7).ok.value == 0, "not below zero"
    for wait in pending:
        assert wait.answer(SOON).ok.done - opened < 1e6 * SOON
    event = told(client, "ACQUIRED", "ACQUIRE_FAILED")
    assert (event.type, event.tag, event.owner) == ("ACQUIRED", 99, 9)
    assert near.latch_down(1).ok.value == 0
    assert near.state(1) == "NONE" and near.release(1).status == "NOT_HELD" and near.count(1).count == 0
    assert image(redis_server) == {}
    assert client.counters()["waiting"] == client.counters()["held"] == 0
    near.latch_set(1).ok  # again
    wait = waits(far, 1, 1)
    near.latch_down(1).ok
    wait.answer(SOON).ok


def test_who_tries_a_latch_looks(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """Waiters of this process that got no message yet tell nothing about the latch: the count does."""
    proxy = new_proxy(redis_server)
    latch, other = agent.open(proxy, **NO_POLLS).lock("lock", kind="latch"), agent.open(redis_server).lock("lock", kind="latch")
    other.latch_set(1).ok
    wait = waits(latch, 1, 1)
    listens(redis_server, "latch")
    assert latch.acquire(2, 0).status == "BUSY" and latch.state(1) == "WAITING"
    message = proxy.down.pause_at("message\r\n")
    assert other.latch_down(1).ok.value == 0
    message.wait()
    assert latch.acquire(2, 0).status == "OK"
    message.open()
    wait.answer(SOON).ok


@pytest.mark.parametrize("opens", [True, False])
def test_a_look_under_way_does_not_answer_who_tries_later(agent: Agent, redis_server: Server, new_proxy: Make, opens: bool) -> None:
    """The latch opens, or is set, after a waiter's probe and before the try."""
    proxy = new_proxy(redis_server)
    latch = agent.open(proxy, command_timeout_ms=20_000).lock("lock", kind="latch")
    other = agent.open(redis_server).lock("lock", kind="latch")
    latch.acquire(3, 0).ok
    if opens:
        other.latch_set(1).ok
    before = calls(redis_server)
    proxy.up.on(SHA["latch_await"], lambda link, data: proxy.down.hold(), times=1)
    wait = waits(latch, 1, 1)
    until(lambda: calls(redis_server) == before + 1)
    (other.latch_down if opens else other.latch_set)(1).ok
    later = waits(latch, 2, 2, 0)
    proxy.down.release()
    assert later.answer().status == ("OK" if opens else "BUSY") and wait.answer().status == "OK"


def test_a_latch_has_nothing_to_hold(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    latch = client.lock("lock", kind="latch")
    latch.latch_set(1).ok
    before = image(redis_server)
    for call in (latch.force, lambda: latch.extend(1, 1000), lambda: latch.permits(), lambda: latch.permits_drain()):
        answer = call()
        assert answer.status == "UNSUPPORTED" and "latch" in answer.message
    assert latch.inspect().ok.event.text == "" and image(redis_server) == before
    wait = waits(latch, 1, 1)
    client.close(3000).ok
    assert wait.answer().status == "CLOSED" and image(redis_server) == before


# ---- the fair lock's order


class Line:
    """Waiters in many processes, in the order of the server's line."""

    def __init__(self, server: Server, new_agent: Make, processes: int, waiters: int, **options: Any) -> None:
        self.server = server
        self.holder = new_agent().open(server.unix_url).lock("lock", kind="fair")
        self.holder.acquire(1, 0).ok
        self.agents = [new_agent() for _ in range(processes)]
        self.clients = [agent.open(server.unix_url, **options) for agent in self.agents]
        self.locks = [client.lock("lock", kind="fair") for client in self.clients]
        self.of = {owner: random.randrange(processes) for owner in range(1, waiters + 1)}
        for owner, process in self.of.items():
            self.locks[process].submit_acquire(owner, -1, owner).ok
            until(lambda: server.command("LLEN", "redisson_lock_queue:{lock}") == owner)
        until(lambda: all(client.counters()["waiting"] == sum(p == i for p in self.of.values()) for i, client in enumerate(self.clients)))

    def serve(self, but: set[int] = set(), ms: int = 50_000) -> list[list[int]]:
        """Lets all go on; those that will be killed serve until then. Returns [status, owner, token, microseconds] per grant, by token."""
        pending = {}
        for i, (client, lock) in enumerate(zip(self.clients, self.locks)):
            with contextlib.suppress(BrokenPipeError):  # it was killed before
                pending[i] = client.start("serve", lock.index, sum(process == i for process in self.of.values()), ms)
        self.began = now()
        self.holder.release(1).ok
        served = [row for i, wait in pending.items() if i not in but for row in wait.answer(ms / 1000 + 5).served]
        return sorted(served, key=lambda row: row[2])


def check_order(line: Line, served: list[list[int]], waiters: list[int]) -> float:
    """Checks that all came in order of arrival. Returns the longest time between two grants in seconds."""
    assert [row[0] for row in served] == [0] * len(served)
    assert [row[1] for row in served] == waiters, "bypass is not 0"
    times = [line.began, *(row[3] for row in served)]
    return max(later - sooner for sooner, later in zip(times, times[1:])) / 1e6


def in_order(server: Server, new_agent: Make, processes: int, waiters: int) -> None:
    line = Line(server, new_agent, processes, waiters, safety_ms=60_000, lease_ms=300_000)
    server.command("CONFIG", "RESETSTAT")
    served = line.serve(ms=250_000)
    gap, sent = check_order(line, served, list(line.of)), calls(server)
    print(f"{waiters} waiters in {processes} processes in order, {sent / waiters:.3f} commands per hand-off, longest gap {gap:.3f} s")
    assert sent <= 2 * waiters + 2


def test_fair_order_across_processes(new_agent: Make, redis_server: Server) -> None:
    in_order(redis_server, new_agent, 8, 256)


@pytest.mark.full
@pytest.mark.timeout(500)
def test_fair_order_of_4096_in_64_processes(new_agent: Make, redis_server: Server) -> None:
    in_order(redis_server, new_agent, 64, 4096)


def test_fair_order_among_the_living(new_agent: Make, redis_server: Server) -> None:
    killed_in_line(redis_server, new_agent, 8, 96, 3)


@pytest.mark.full
@pytest.mark.timeout(500)
def test_fair_order_among_the_living_of_64_processes(new_agent: Make, redis_server: Server) -> None:
    killed_in_line(redis_server, new_agent, 64, 1024, 24)


def test_fair_order_when_they_die_while_it_passes(new_agent: Make, redis_server: Server) -> None:
    killed_while_it_passes(redis_server, new_agent, 8, 400, 4, safety=800, lease=2000)


@pytest.mark.full
@pytest.mark.timeout(500)
def test_fair_order_when_many_die_while_it_passes(new_agent: Make, redis_server: Server) -> None:
    for _ in range(3):
        redis_server.command("FLUSHALL")
        killed_while_it_passes(redis_server, new_agent, 32, 2000, 12, safety=2000, lease=5000)


def killed_while_it_passes(
    server: Server, new_agent: Make, processes: int, waiters: int, kills: int, safety: int, lease: int
) -> None:
    """The process that holds it then keeps it until its lease ends. All others are served in order.

    Many live processes slow each other down. With less patience they would lose places or grants.
    """
    line = Line(server, new_agent, processes, waiters, safety_ms=safety, lease_ms=lease)
    dead = set(random.sample(range(processes), kills))

    def kill() -> None:
        for process in dead:
            until(lambda: server.command("LLEN", "redisson_lock_queue:{lock}") < waiters * 3 / 4, 60)
            line.agents[process].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    served = line.serve(but=dead, ms=50_000 + kills * lease)
    killer.join()
    living = [owner for owner, process in line.of.items() if process not in dead]
    gap = check_order(line, served, living)
    print(f"{kills} of {processes} processes killed while {waiters} were served, longest gap {gap:.3f} s")
    assert gap <= (kills * (lease + 3 * safety + 1000)) / 1000


def killed_in_line(server: Server, new_agent: Make, processes: int, waiters: int, kills: int) -> None:
    """A random subset of the processes is killed; the next live waiter gets in within one heartbeat."""
    safety = 500
    line = Line(server, new_agent, processes, waiters, safety_ms=safety, lease_ms=30_000)
    dead = set(random.sample(range(processes), kills))
    for process in dead:
        line.agents[process].kill()
    served = line.serve(but=dead)
    gap = check_order(line, served, [owner for owner, process in line.of.items() if process not in dead])
    gone = waiters - len(served)
    print(f"{gone} of {waiters} waiters in {kills} of {processes} processes killed, longest gap {gap:.3f} s")
    assert gone > 0 and gap <= (3 * safety + 1000) / 1000


# ---- random steps


class Witness:
    """What holders see with separate commands: only the lock makes them atomic."""

    def __init__(self, server: Server, seats: int) -> None:
        self.redis, self.seats = server.client(), seats

    def get(self, key: str) -> int:
        return int(self.redis.command("GET", key) or 0)

    def alone(self, pause: Callable[[], Any]) -> None:
        count = self.get("count")
        assert self.get("readers") == 0, "a writer among readers"
        self.redis.command("SET", "count", count + 1)
        pause()
        assert self.get("count") == count + 1, "two writers"

    def shared(self, pause: Callable[[], Any]) -> None:
        self.redis.command("INCR", "readers")
        count = self.get("count")
        pause()
        assert self.get("count") == count, "a writer among readers"
        self.redis.command("DECR", "readers")

    def seated(self, permits: int, pause: Callable[[], Any]) -> None:
        assert self.redis.command("INCRBY", "out", permits) <= self.seats, "more permits than there are"
        pause()
        self.redis.command("DECRBY", "out", permits)


def in_no_time(answer: Answer) -> bool:
    """On a busy machine the server may not reply within a very short wait."""
    return answer.status == "UNREACHABLE" and answer.took < 300_000


class Actor(threading.Thread):
    """Random acquires, releases, cancels, short waits and handles in one process, by one thread."""

    def __init__(self, server: Server, agent: Agent, family: str, seed: int, steps: int) -> None:
        super().__init__(daemon=True)
        self.random, self.server, self.family, self.steps = random.Random(seed), server, family, steps
        self.agent, self.witness = agent, Witness(server, 3)
        self.client = agent.open(server.unix_url, lease_ms=5000, safety_ms=200)
        self.alone = self.grants = 0
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for step in range(self.steps):
                self.step()
        except BaseException as error:
            self.failure = error

    def pause(self) -> None:
        for _ in range(self.random.randrange(3)):
            self.witness.redis.command("PING")

    def step(self) -> None:
        kind = self.random.choice(["read", "read", "write"]) if self.family == "rw" else self.family
        permits = self.random.randrange(1, 4) if "semaphore" in kind else 1
        lock, owner = self.client.lock("lock", kind=kind, permits=permits), self.random.randrange(1, 4)
        answer = self.ask(lock, owner)
        if answer.status == "OK":
            self.hold(lock, kind, owner, permits)
        else:
            assert answer.status in ("BUSY", "TIMED_OUT", "CANCELLED") or in_no_time(answer), answer
        lock.drop()

    def ask(self, lock: Lock, owner: int) -> Answer:
        if self.random.random() < 0.7:
            return lock.acquire(owner, self.random.choice([0, 5, 50, 20_000]))
        pending = lock.start("acquire", owner, -1, thread=1)
        until(lambda: pending.ready() or lock.state(owner) == "WAITING")
        self.pause()
        lock.cancel(owner)
        return pending.answer()

    def hold(self, lock: Lock, kind: str, owner: int, permits: int) -> None:
        self.grants += 1
        if "semaphore" in kind:
            self.witness.seated(permits, self.pause)
        elif kind == "read":
            self.witness.shared(self.pause)
        else:
            self.alone += 1
            self.witness.alone(self.pause)
        if self.random.random() < 0.3 and kind in REENTRANT:
            lock.acquire(owner, 0).ok
            lock.release(owner).ok
        lock.release(owner).ok


def at_random(server: Server, new_agent: Make, family: str, seed: int, processes: int = 3, steps: int = 60) -> None:
    if "semaphore" in family:
        one(new_agent().open(server), family, seats=3)
    before = image(server)
    actors = [Actor(server, new_agent(), family, 1000 * seed + i, steps) for i in range(processes)]
    for actor in actors:
        actor.join(120)
        if actor.failure:
            raise actor.failure
        assert not actor.is_alive() and actor.client.counters()["lost"] == 0
    print(f"{family}, seed {seed}: {[actor.grants for actor in actors]} grants of {processes} x {steps} steps")
    assert all(actor.grants > steps / 10 for actor in actors)
    witness = actors[0].witness
    assert witness.get("count") == sum(actor.alone for actor in actors), "an update was lost"
    server.command("DEL", "count", "readers", "out")
    until(lambda: image(server) == before)


FAMILIES = ["fair", "rw", "semaphore", "permit_semaphore"]


@pytest.mark.parametrize("family", FAMILIES)
def test_at_random(new_agent: Make, redis_server: Server, family: str) -> None:
    at_random(redis_server, new_agent, family, random.randrange(10**6))


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", FAMILIES)
def test_at_random_for_long(new_agent: Make, redis_server: Server, family: str, seed: int) -> None:
    at_random(redis_server, new_agent, family, seed, processes=6, steps=300)


# ---- options


def test_min_hold_keeps_others_out(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """After an earlier release the server keeps the lock for the rest of the time; the owner may be gone. Plain permits have no time."""
    rest = 900
    client, other = agent.open(redis_server, min_hold_ms=rest), new_agent().open(redis_server, safety_ms=200)
    rows = [sides(client, other, kind, kind) for kind in LEASED]
    began = [mine.acquire(1, 0).ok.began for mine, _ in rows]
    pending = [waits(theirs, 2, 1 + i) for i, (_, theirs) in enumerate(rows)]
    for mine, theirs in rows:
        mine.release(1).ok
        assert mine.state(1) == "NONE" and mine.release(1).status == "NOT_HELD" and theirs.acquire(3, 0).status == "BUSY"
    client.close(3000).ok
    for since, wait, (_, theirs) in zip(began, pending, rows):
        assert wait.answer(SOON).ok.done >= since + 1000 * rest
        theirs.release(2).ok
    assert set(image(redis_server)) == {b"permit_semaphore"}
    plain = one(agent.open(redis_server, min_hold_ms=60_000), "semaphore", "plain")
    plain.acquire(1, 0).ok
    plain.release(1).ok
    assert one(other, "semaphore", "plain").acquire(1, 0).status == "OK"


@pytest.mark.parametrize("kind", ["mutex", *LEASED])
def test_a_rest_is_told(agent: Agent, redis_server: Server, kind: str) -> None:
    """A waiting Redisson sleeps until the old end of the lease, unless a message comes: on the lock's channel, for a fair lock on the
    waiter's own.
    """
    mine = one(agent.open(redis_server, min_hold_ms=60_000), kind, "rested")
    mine.acquire(1, 0).ok
    if kind == "fair":
        redis_server.command("RPUSH", "redisson_lock_queue:{rested}", "java:1")
        redis_server.command("ZADD", "redisson_lock_timeout:{rested}", 1 << 52, "java:1")
    with redis_server.client() as subscriber:
        subscriber.subscribe("*{rested}*", command="PSUBSCRIBE")
        mine.release(1).ok
        heard = subscriber.message(5)
        assert heard and heard[0].endswith(b"{rested}:java:1" if kind == "fair" else b"{rested}")
    assert kind == "read" or mine.acquire(2, 0).status == "BUSY"


@pytest.mark.parametrize("end", ["max_hold", "close"])
@pytest.mark.parametrize("kind", ["mutex", *LEASED])
def test_min_hold_outlives_the_hold(agent: Agent, beside: Agent, store: Any, kind: str, end: str) -> None:
    """Also when the hold ends without a release; a close does not wait for the rest."""
    rest = 60_000
    client, other = agent.open(store, min_hold_ms=rest, max_hold_ms=100 if end == "max_hold" else -1), beside.open(store)
    mine, theirs = (client.lock("lock"), other.lock("lock")) if kind == "mutex" else sides(client, other, kind)
    mine.acquire(1, 0).ok
    if end == "close":
        client.close(rest // 2).ok
        until(lambda: client.next(0).status == "CLOSED")
    else:
        assert told(client, "LOST").cause == "MAX_HOLD"
        until(lambda: client.counters()["undone"] == 1)
    assert theirs.acquire(2, 0).status == "BUSY"


def test_min_hold_that_is_over_costs_nothing(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    client, other = agent.open(redis_server, min_hold_ms=100), new_agent().open(redis_server, **NO_POLLS)
    for kind in LEASED:
        mine, theirs = sides(client, other, kind, kind)
        began = mine.acquire(1, 0).ok.done
        wait = waits(theirs, 2, 1)
        until(lambda: now() > began + 150_000)
        listens(redis_server, kind)
        mine.release(1).ok
        wait.answer(SOON).ok
        other.wake()


def test_lock_delay(new_agent: Make, redis_server: Server) -> None:
    """After a death nobody gets it for that time; after a release everybody may at once."""
    lease, delay = 600, 1500
    holder, other = new_agent(), new_agent().open(redis_server, safety_ms=200)
    client = holder.open(redis_server, lease_ms=lease, lock_delay_ms=delay)
    for kind in LEASED:
        mine, theirs = sides(client, other, kind, kind)
        assert mine.acquire(1, 0).ok and mine.remaining(1).ok.remaining <= lease
        mine.release(1).ok
        assert theirs.acquire(2, 0).status == "OK" and theirs.release(2).status == "OK"
    rows = [sides(client, other, kind, kind) for kind in LEASED]
    for mine, _ in rows:
        mine.acquire(1, 0).ok
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + len(rows))
    holder.kill()
    killed = now()
    for i, (_, theirs) in enumerate(rows):
        done = theirs.acquire(2, 15_000).ok.done
        assert killed + 1000 * (delay + lease / 2) <= done <= killed + 1000 * (delay + lease + 5000)


@pytest.mark.parametrize("options", [{"renew": "false"}, {"max_hold_ms": 600}], ids=["fixed", "max hold"])
def test_lock_delay_after_a_loss(agent: Agent, beside: Agent, store: Any, options: dict[str, Any]) -> None:
    """Also when the holder lives and knows that its time is over."""
    delay, other = 1500, beside.open(store, safety_ms=200)
    client = agent.open(store, lease_ms=600, lock_delay_ms=delay, **options)
    rows = [Row(kind, client, other) for kind in LEASED]
    losses(client, rows)
    lost = now()
    for row in rows:
        assert row.theirs.acquire(2, 0).status == "BUSY"
    for row in rows:
        assert row.theirs.acquire(2, 15_000).ok.done >= lost + 1000 * (delay / 2)
        assert row.mine.state(1) == "LOST"


@pytest.mark.parametrize("kind", ["mutex", *KINDS, "latch"])
def test_namespaces(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    """A name "lock" in one namespace is not "lock" in another; Redisson calls it "<namespace>:lock"."""
    plain, north = agent.open(redis_server), agent.open(redis_server, namespace="north:eu")
    full = one(plain, kind, "north:eu:lock")
    locks = [one(plain, kind), one(north, kind), one(plain, kind, namespace="south")]
    for lock in locks:
        lock.latch_set(1).ok if kind == "latch" else lock.acquire(1, 0).ok
    keys = set(image(redis_server))
    assert {b"lock", b"north:eu:lock", b"south:lock"} <= keys
    if kind == "mutex":
        with Jvm(redis_server) as jvm:
            assert not jvm.lock("south:lock").try_lock(thread=1) and jvm.lock("east:lock").try_lock(thread=1)
            assert jvm.lock("east:lock").unlock(thread=1)
    for key in keys:
        assert key in (b"lock", b"north:eu:lock", b"south:lock") or b"lock}" in key and b"{}" not in key
    answer = locks[1].acquire(2, 0) if kind != "read" else north.lock("lock", kind="write").acquire(2, 0)
    assert answer.status == "BUSY" and answer.message.startswith("lock 'north:eu:lock' at ")
    assert full.acquire(3, 0).status == ("BUSY" if kind != "read" else "OK")
    other = new_agent().open(redis_server, **NO_POLLS)
    theirs = other.lock("lock", kind=RIVAL.get(kind, kind), namespace="south")
    wait = waits(theirs, 2, 1)
    locks[2].latch_down(1).ok if kind == "latch" else locks[2].release(1).ok
    wait.answer(SOON).ok
    locks[1].close_gate(60_000).ok
    assert agent.open(redis_server, namespace="north").lock("eu:lock", kind=kind).acquire(9, 0).status == "GATE_CLOSED"
    assert locks[0].acquire(9, 0).status == ("OK" if kind == "read" else "BUSY")


@pytest.mark.parametrize("kind", ["mutex", "write", "fair"])
def test_waiters_of_another_namespace_are_left_alone(new_agent: Make, redis_server: Server, kind: str) -> None:
    """A client waits in one namespace more: those of the other one send nothing. The first one there looks again, once it can hear."""
    theirs, mine = (new_agent().open(redis_server, safety_ms=60_000, lease_ms=60_000) for _ in range(2))
    locks = [(one(theirs, kind, f"lock {n}", namespace="north"), one(mine, kind, f"lock {n}", namespace="north")) for n in range(60)]
    locks.append((one(theirs, kind, "lock", namespace="south"), one(mine, kind, "lock", namespace="south")))

    def turn(held: Any, waits: Any) -> None:
        held.release(1).ok
        assert mine.event().type == "ACQUIRED"
        waits.release(2).ok
        held.acquire(1, 1000).ok
        waits.submit_acquire(2, -1, 2).ok

    def costs(*these: Any) -> int:
        before = calls(redis_server, "evalsha")
        for pair in these:
            turn(*pair)
        return calls(redis_server, "evalsha") - before

    for held, waits in locks[:-1]:
        held.acquire(1, 0).ok
        waits.submit_acquire(2, -1, 2).ok
    until(lambda: len(redis_server.command("PUBSUB", "CHANNELS", "dlock_client:*")) == 1)
    until(lambda: costs(locks[0]) < 8)  # what the subscription has caused is over
    before = calls(redis_server, "evalsha")
    locks[-1][0].acquire(1, 0).ok
    locks[-1][1].submit_acquire(2, -1, 2).ok
    until(lambda: len(redis_server.command("PUBSUB", "CHANNELS", "dlock_client:*")) == 2)
    costs(locks[-1], locks[0])
    assert calls(redis_server, "evalsha") - before < 40


def test_names_with_their_namespace(agent: Agent, store: Any) -> None:
    client = agent.open(store)
    for size in (1, 1023, 1024):
        client.lock("n" * size, kind="fair").acquire(1, 0).ok
    for space, name, good in (
        ("a", "n" * 1022, True), ("a", "n" * 1023, False), ("a" * 256, "n", True), ("a{b}", "n", True), ("a", "{b}", True),
        ("a{", "n", False), ("a}", "n", False), ("{}", "n", False), ("a", "n{", False), ("a{", "b}", False), ("", "", False),
    ):  # fmt: skip
        answer = client.new(name, "fair", namespace=space)
        assert answer.status == ("OK" if good else "INVALID_NAME"), (space[:9], name[:9], answer)
    assert client.new("n", "fair", namespace="a" * 257).status == "INVALID_OPTION"


# ---- keys of other kinds


GROUPS = {"mutex": 1, "fair": 1, "read": 2, "write": 2, "semaphore": 3, "permit_semaphore": 3, "latch": 3}


def attempts(client: Client, kind: str) -> list[tuple[str, Callable[[], Answer]]]:
    """Every way to act on a lock of a kind that the key does not have."""
    lock = client.lock("lock", kind=kind)
    ways: list[tuple[str, Callable[[], Answer]]] = [
        ("try", lambda: lock.acquire(1, 0)), ("acquire", lambda: lock.acquire(1, 500)),
        ("close_gate", lambda: lock.close_gate(1000)), ("open_gate", lock.open_gate), ("inspect", lock.inspect),
    ]  # fmt: skip
    if GROUPS[kind] < 3:
        ways.append(("force", lock.force))
    elif kind == "latch":
        ways += [("set", lambda: lock.latch_set(2)), ("down", lambda: lock.latch_down(1)), ("count", lock.latch_count)]
    else:
        ways += [("set", lambda: lock.permits_set(2)), ("add", lambda: lock.permits_add(1)), ("permits", lock.permits)]
        if kind == "semaphore":
            ways.append(("drain", lock.permits_drain))
    return ways


def whole(server: Server) -> dict[bytes, bytes]:
    return {key: server.command("DUMP", key) for key in server.command("KEYS", "*")}


@pytest.mark.parametrize("kind", list(GROUPS))
def test_a_name_of_another_kind_is_not_touched(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    client, other = agent.open(redis_server), new_agent().open(redis_server)
    for there in [other_kind for other_kind in GROUPS if GROUPS[other_kind] != GROUPS[kind]]:
        redis_server.command("FLUSHALL")
        holds = one(other, there)
        holds.latch_set(3).ok if there == "latch" else holds.acquire(1, 0).ok
        refused(redis_server, client, kind, there)
        if there != "latch":
            assert holds.state(1) == "HELD"
            holds.release(1).ok
        holds.drop()


@pytest.mark.parametrize("kind", list(GROUPS))
def test_keys_that_are_no_lock_are_not_touched(agent: Agent, redis_server: Server, kind: str) -> None:
    client = agent.open(redis_server)
    commands = [["SET", "lock", "x"], ["SET", "lock", ""], ["RPUSH", "lock", "1"], ["SADD", "lock", "1"], ["ZADD", "lock", "1", "1"],
                ["XADD", "lock", "*", "a", "b"], ["SET", "lock", "1.5"], ["SET", "lock", "99999999999999999999"]]  # fmt: skip
    if GROUPS[kind] < 3:
        commands += [["SET", "lock", "7"], ["HSET", "lock", "mode", "other"]]
    else:
        commands += [["HSET", "lock", "x", "1"], ["HSET", "lock", "mode", "read"]]
    for command in commands:
        redis_server.command("FLUSHALL")
        redis_server.command(*command)
        refused(redis_server, client, kind, " ".join(command), but=("close_gate", "open_gate", "inspect"))  # these check the type only


def refused(server: Server, client: Client, kind: str, what: str, but: tuple[str, ...] = ()) -> None:
    before = whole(server)
    for name, attempt in attempts(client, kind):
        if name in but:
            continue
        answer = attempt()
        assert answer.status == "WRONG_KIND", f"{kind} {name} on {what}: {answer}"
        assert answer.message.startswith("lock 'lock' at ")
        assert whole(server) == before, f"{kind} {name} on {what} changed something"


# ---- names, and a network that loses data

NAMES: list[str | bytes] = [
    "a b", "{x}", "x{y}z", "1 2 3", "fair 1 1 1 x", "gate 5 x", "x:write", "{x}:1:rwlock_timeout:1", "naïve\n", "x:timeout",
    b"\xff\xfe\r\n", "n" * 1024,
]  # fmt: skip


@pytest.mark.parametrize("kind", [*KINDS, "latch"])
def test_odd_names(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    """Names are not parsed, and similar ones do not collide: waiters get messages of their own lock only."""
    client, other = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server, **NO_POLLS)
    names = [*NAMES, "x"]  # whose tagged name is that of "{x}"
    rows = [(one(client, kind, name), one(other, RIVAL.get(kind, kind), name)) for name in names]
    for mine, _ in rows:
        mine.latch_set(1).ok if kind == "latch" else mine.acquire(1, 0).ok
    pending = [waits(theirs, 2, 1 + i) for i, (_, theirs) in enumerate(rows)]
    until(lambda: settled(redis_server))
    for (mine, _), wait in zip(rows, pending):
        assert not wait.ready()
        mine.latch_down(1).ok if kind == "latch" else mine.release(1).ok
        wait.answer(SOON).ok
    for _, theirs in rows:
        assert kind == "latch" or theirs.release(2).status == "OK"
    assert not {key for key in image(redis_server) if b":timeout" in key} - {b"x:timeout"}


@pytest.mark.parametrize("kind", [*KINDS, "latch"])
def test_a_message_that_is_missed(agent: Agent, new_agent: Make, redis_server: Server, new_proxy: Make, kind: str) -> None:
    """The waiter's connections break, the lock is released, then connections work again."""
    proxy = new_proxy(redis_server)
    client, other = agent.open(proxy, connects_per_second=1000, **NO_POLLS), new_agent().open(redis_server)
    mine, theirs = sides(other, client, kind)
    mine.latch_set(1).ok if kind == "latch" else mine.acquire(1, 0).ok
    wait = waits(theirs, 2, 1)
    listens(redis_server, kind)
    until(lambda: settled(redis_server))
    proxy.refuse()
    proxy.cut()
    until(lambda: not redis_server.command("PUBSUB", "CHANNELS"))
    mine.latch_down(1).ok if kind == "latch" else mine.release(1).ok
    assert not wait.ready()
    proxy.accept()
    wait.answer(SOON).ok


def test_what_repeats_a_message_is_no_reason_to_look(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, **NO_POLLS)
    mine, theirs = sides(client, client, "write")
    mine.acquire(1, 0).ok
    wait = waits(theirs, 2, 1)
    listens(redis_server, "write")
    until(lambda: settled(redis_server))
    before = client.counters()["commands"]
    for payload, looks in (("00", 0), ("0", 1), ("00", 1), ("1", 2)):
        redis_server.command("PUBLISH", rw_channel("lock"), payload)
        until(lambda: client.counters()["commands"] >= before + looks and settled(redis_server))
        assert client.counters()["commands"] == before + looks
    mine.release(1).ok
    wait.answer(SOON).ok


@pytest.mark.parametrize("kind", [*KINDS, "latch"])
def test_the_server_starts_anew_while_they_wait(agent: Agent, new_server: Make, kind: str) -> None:
    """The server has lost the holder, and every script."""
    server = new_server()
    client = agent.open(server, connects_per_second=1000, **NO_POLLS)
    mine, theirs = sides(client, client, kind)
    mine.latch_set(1).ok if kind == "latch" else mine.acquire(1, 0).ok
    wait = waits(theirs, 2, 1)
    listens(server, kind)
    server.restart()
    if "semaphore" in kind:
        assert until(lambda: (answer := mine.permits_set(1)).status == "OK" and answer)
    answer = wait.answer(SOON).ok
    assert kind == "latch" or theirs.state(2) == "HELD"
    assert kind == "latch" or theirs.release(2).status == "OK"
    assert kind == "latch" or answer.token > 0


@each
def test_scripts_that_the_server_forgot(agent: Agent, redis_server: Server, kind: str) -> None:
    client = agent.open(redis_server, lease_ms=600)
    lock = one(client, kind)
    for _ in range(2):
        redis_server.command("SCRIPT", "FLUSH")
        lock.acquire(1, 0).ok
        if kind in LEASED:
            redis_server.command("SCRIPT", "FLUSH")
            before = client.counters()["renewed"]
            until(lambda: client.counters()["renewed"] > before)
            lock.extend(1, 5000).ok
        redis_server.command("SCRIPT", "FLUSH")
        lock.release(1).ok
        redis_server.command("SCRIPT", "FLUSH")
        lock.close_gate(100).ok
        lock.open_gate()
    assert client.counters()["lost"] == 0


STEMS = {"fair": "fair", "read": "read", "write": "write", "semaphore": "semaphore", "permit_semaphore": "permit"}


@each
def test_lost_replies(agent: Agent, redis_server: Server, new_proxy: Make, kind: str) -> None:
    """A request that is sent again acts once; a grant with an unknown outcome is given back."""
    proxy, direct = new_proxy(redis_server), agent.open(redis_server)
    client = agent.open(proxy, connects_per_second=1000, command_timeout_ms=700)
    seats = one(direct, kind, seats=9)
    lock = client.lock("lock", kind=kind, permits=2)
    seats.acquire(5, 0).ok
    seats.release(5).ok  # the server has the scripts now
    before = image(redis_server)
    for waits_for_it in (0, 5000):
        hook = proxy.lose_reply(SHA[STEMS[kind] + "_acquire"])
        answer = lock.acquire(1, waits_for_it)
        assert hook.count == 1
        if answer.status == "OK":
            if "semaphore" in kind:
                assert seats.permits().ok.value == 7
            hook = proxy.lose_reply(SHA[STEMS[kind] + "_release"])
            assert lock.release(1).status in ("OK", "UNKNOWN_OUTCOME") and hook.count == 1
        assert lock.state(1) == "NONE"
        until(lambda: image(redis_server) == before)
    if "semaphore" not in kind:
        return
    for change, stays in ((("permits_add", 5), 14), (("permits_add", -5), 9)):
        hook = proxy.lose_reply(SHA[STEMS[kind] + "_change"])
        assert agent(change[0], lock.index, change[1]).ok.value == stays and hook.count == 1
        assert seats.permits().ok.value == stays


def test_lost_replies_of_a_latch(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    proxy, direct = new_proxy(redis_server), agent.open(redis_server)
    latch = agent.open(proxy, connects_per_second=1000).lock("lock", kind="latch")
    direct.lock("other", kind="latch").latch_set(1).ok
    for call, value in ((lambda: latch.latch_set(5), None), (lambda: latch.latch_down(2), 3), (lambda: latch.latch_down(3), 0)):
        hook = proxy.lose_reply(SHA["latch_change"])
        answer = call().ok
        assert hook.count == 1 and (value is None or answer.value == value)
    assert redis_server.command("EXISTS", "lock") == 0


def test_the_most_permits_at_once(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=1500)
    for kind in PERMITS:
        many, seats = client.lock(kind, kind=kind, permits=1024), one(client, kind, kind, seats=2048)
        tokens = [many.acquire(1, 0).ok.token, many.acquire(1, 0).ok.token]
        assert tokens[1] > tokens[0] and seats.permits().ok.value == 0 and seats.acquire(2, 0).status == "BUSY"
        if kind == "permit_semaphore":
            before = client.counters()["renewed"]
            until(lambda: client.counters()["renewed"] >= before + 6)
            assert redis_server.command("ZCARD", "{permit_semaphore}:timeout") == 2048
            assert many.permit(1, 1023, 33).ok.permit != many.permit(1, 0, 33).ok.permit
        many.release(1).ok
        assert seats.permits().ok.value == 1024 and many.state(1) == "HELD"
        many.release(1).ok
        assert seats.permits().ok.value == 2048 and client.counters()["lost"] == 0


@both
def test_one_owner_asks_several_times(agent: Agent, store: Any, kind: str) -> None:
    """Each acquire of a semaphore is separate. The second request of an owner that is in line for a lock is refused."""
    client = agent.open(store)
    seats = one(client, kind, seats=2)
    for tag in (1, 2, 3, 4):
        seats.submit_acquire(1, -1, tag).ok
    granted = [told(client, "ACQUIRED", "ACQUIRE_FAILED") for _ in range(2)]
    assert {event.type for event in granted} == {"ACQUIRED"} and len({event.token for event in granted}) == 2
    assert seats.count(1).count == 2 and seats.state(1) == "HELD" and client.counters()["waiting"] == 2
    seats.submit_release(1, 9).ok
    events = [told(client, "ACQUIRED", "RELEASED") for _ in range(2)]
    assert sorted(event.type for event in events) == ["ACQUIRED", "RELEASED"]
    seats.cancel(1).ok
    assert told(client, "ACQUIRE_FAILED").status == 3 and seats.cancel(1).status == "NOT_HELD"
    tags = {event.tag for event in [*granted, *events]} - {9}
    assert len(tags) == 3 and seats.count(1).count == 2
    for _ in range(2):
        seats.release(1).ok
    assert seats.release(1).status == "NOT_HELD" and seats.permits().value == 2


@pytest.mark.parametrize("kind", REENTRANT)
def test_one_owner_waits_once(agent: Agent, store: Any, kind: str) -> None:
    client = agent.open(store)
    mine, theirs = sides(client, client, kind)
    mine.acquire(1, 0).ok
    theirs.submit_acquire(2, -1, 7).ok
    assert theirs.acquire(2, 0).status == theirs.submit_acquire(2, -1, 8).status == "INVALID_ARGUMENT"
    mine.release(1).ok
    assert told(client, "ACQUIRED", "ACQUIRE_FAILED").tag == 7
    theirs.release(2).ok


# ---- foreign content on the server


def test_a_permit_that_is_held_for_a_month_comes_back(agent: Agent, redis_server: Server) -> None:
    seats = one(agent.open(redis_server), "semaphore", "s", seats=2)
    seats.acquire(1, 0).ok
    (taken,) = redis_server.command("KEYS", "dlock_taken:*")
    (member,) = redis_server.command("ZRANGE", taken, 0, -1)
    redis_server.command("ZINCRBY", taken, -31 * 86_400_000_000, member)
    seats.acquire(2, 0).ok
    seats.release(1).ok, seats.release(2).ok
    assert seats.permits().ok.value == 2


def test_all_or_none_though_a_counter_is_none(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    redis_server.command("HSET", "redisson_lock_token:{b}", "x", "y")
    assert client.multi(client.lock("a"), client.lock("b"), client.lock("c")).acquire(1, 0).status == "WRONG_KIND"
    assert redis_server.command("EXISTS", "a", "b", "c") == 0
    client.lock("a").acquire(1, 0).ok


def test_a_turn_of_others_ends_when_the_clock_was_set_back(agent: Agent, redis_server: Server) -> None:
    lock = agent.open(redis_server).lock("lock")
    seconds = int(redis_server.command("TIME")[0])
    redis_server.command("ZADD", "dlock_queue:{lock}", -(seconds + 3600) * 1000, "*")
    lock.acquire(1, 0).ok


def owners(*arguments: str) -> str:
    return subprocess.run([native("owners"), *arguments], capture_output=True, text=True, timeout=50, check=True).stdout


@pytest.mark.parametrize("kind", ["semaphore", "permit"])
def test_threads_release_at_the_same_time(redis_server: Server, kind: str) -> None:
    """They share an owner. Each release finds a hold, also when another one has taken the one that it chose first."""
    assert owners(redis_server.unix_url, kind, "4", "2000", "100") == "failed 0 wrong 0 held 0 available 100\n"


@pytest.mark.parametrize("permits", ["3", "100"])
@pytest.mark.parametrize("kind", ["semaphore", "permit"])
def test_threads_ask_what_their_owner_holds(kind: str, permits: str) -> None:
    """It has a permit all the time, although threads give theirs back: no call says that it has none, and no acquisition that it lost one."""
    for _ in range(10):
        assert owners("memory:", kind, "4", "2000", permits) == f"failed 0 wrong 0 held 0 available {permits}\n"


@pytest.mark.parametrize("kind", ["semaphore", "permit"])
def test_a_cancel_finds_the_wait_that_goes_on(kind: str) -> None:
    """The wait that it chooses first may end by itself. It ends another one of the same owner then."""
    assert owners("memory:", kind, "16", "200", "cancel") == "missed 0\n"
