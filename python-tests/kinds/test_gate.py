"""The gate: closing it ends every wait for a lock, in every process and form, and keeps everybody out until it opens."""
from __future__ import annotations

import pathlib
import socket
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Client, Lock, Pending, now, until
from harness.build import BUILD, ROOT
from harness.crowd import ENDS, events
from harness.kinds import KINDS, REENTRANT, RIVAL, calls, image, one, sides
from harness.steps.fair import LINE, Process, Wire
from harness.steps.redisson import Jvm
from harness.steps.scripts import SHA
from harness.proxy import Gate, Link
from harness.server import Server

Make = Callable[..., Any]
ALL = ["mutex", *KINDS, "latch"]
each = pytest.mark.parametrize("kind", ALL)
NO_POLLS = {"safety_ms": 60_000}  # who learns of the gate within seconds got a message
SOON = 10.0


def held(first: Client, second: Client, kind: str) -> tuple[Lock, Lock, Lock]:
    """Locks that nobody can get: for a holder, a waiter in the same process, and one in another."""
    mine, theirs = sides(first, second, kind)
    near = one(first, RIVAL.get(kind, kind))
    if kind == "latch":
        mine.latch_set(1).ok
    else:
        mine.acquire(1, 0).ok
    return mine, near, theirs


def let_go(lock: Lock, kind: str) -> None:
    lock.latch_down(1).ok if kind == "latch" else lock.release(1).ok


def waits(lock: Lock, owner: int, thread: int, wait_ms: int = -1) -> Pending:
    pending = lock.start("acquire", owner, wait_ms, thread=thread)
    until(lambda: lock.state(owner) == "WAITING")
    return pending


def hears(server: Server, kind: str, processes: int) -> None:
    channels = processes + (kind not in ("mutex", "fair", "read"))
    until(lambda: len(server.command("PUBSUB", "CHANNELS")) >= channels)
    sent, since = calls(server), now()
    until(lambda: now() > since + 50_000)
    while calls(server) != sent:
        sent, since = calls(server), now()
        until(lambda: now() > since + 50_000)


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_a_late_request_finds_the_number_gone(agent: Agent, redis_server: Server, new_proxy: Make, kind: str) -> None:
    """The first copy of a request is on its way for long. Its repetition meets the closed gate, and the call ends. Once the gate is open, the
    first copy arrives: nobody waits for it."""
    proxy, late, closed = new_proxy(redis_server), [], Gate()
    client, other = agent.open(proxy, private_connections=0, busy_poll_us=0), agent.open(redis_server)
    lock, rival = one(client, kind), one(other, RIVAL.get(kind, kind))
    for _ in range(2):
        lock.acquire(1, 0).ok, lock.release(1).ok

    def lose(link: Link, data: bytes) -> None:
        late.append(data)
        closed(link, data)
        link.cut()

    proxy.up.on("EVALSHA", lose, times=1)
    lock.submit_acquire(9, 20_000, 9).ok
    closed.wait()
    rival.close_gate(60_000).ok
    closed.open()
    failed(client, 9)
    until(lambda: client.counters()["waiting"] == 0)
    rival.open_gate().ok
    with socket.create_connection((redis_server.host, redis_server.port)) as line:
        line.sendall(late[0])
        assert line.recv(1000)
    rival.acquire(2, 5000).ok  # if the copy came before the tombstone, it went back


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(120)
def test_forgotten(tmp_path: pathlib.Path) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutants.FORGOTTEN, "kinds/test_gate.py", "late_request and mutex", agents=True)


def failed(client: Client, tag: int) -> None:
    while (event := client.event()).type not in ("ACQUIRED", "ACQUIRE_FAILED"):
        pass
    assert (event.type, event.tag, event.status) == ("ACQUIRE_FAILED", tag, 7) and "gate" in event.text, event


@each
def test_every_wait_ends(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    """Behind a holder of the same process and of another one: blocking, with a limit, and submitted."""
    first, second = agent.open(redis_server, **NO_POLLS), new_agent().open(redis_server, **NO_POLLS)
    mine, near, theirs = held(first, second, kind)
    pending = [waits(lock, owner, 10 * i + owner, wait) for i, lock in enumerate((near, theirs)) for owner, wait in ((2, -1), (3, 60_000))]
    for lock in (near, theirs):
        lock.submit_acquire(4, -1, 44).ok
    hears(redis_server, kind, 2)
    before = image(redis_server)
    assert not any(wait.ready() for wait in pending) and {near.state(4), theirs.state(4)} == {"WAITING"}
    closer = new_agent().open(redis_server).lock("lock", kind=kind)
    closed = closer.close_gate(60_000).ok.done
    for wait in pending:
        answer = wait.answer(SOON)
        assert answer.status == "GATE_CLOSED" and answer.done - closed < 1e6 * SOON
        assert answer.message.startswith("lock 'lock' at ") and answer.retryable == 0
    failed(first, 44), failed(second, 44)
    assert theirs.acquire(5, 0).status == theirs.acquire(5, -1).status == "GATE_CLOSED"
    theirs.submit_acquire(5, -1, 55).ok
    failed(second, 55)
    assert near.acquire(5, -1).status == "GATE_CLOSED" and near.acquire(5, 0).status == "GATE_CLOSED"
    near.submit_acquire(5, -1, 56).ok
    failed(first, 56)
    assert first.counters()["waiting"] == second.counters()["waiting"] == 0
    after = image(redis_server)
    assert len(after.pop(b"dlock_gate:{lock}")) == 40
    for key in set(before) - set(after):
        assert b"queue" in key or b"waiters" in key or b"timeout" in key or b"turns" in key, key
    assert after.get(b"lock") == before.get(b"lock")
    holder_goes_on(mine, kind)
    closer.open_gate().ok
    assert closer.open_gate().status == "UNCHANGED"
    theirs.acquire(6, 5000).ok


def holder_goes_on(mine: Lock, kind: str) -> None:
    if kind == "latch":
        assert mine.latch_count().ok.value == 1 and mine.latch_down(1).ok.value == 0
        assert mine.acquire(7, 0).status == "GATE_CLOSED", "also when it is open"
        return
    assert mine.state(1) == "HELD"
    if kind in REENTRANT or kind == "mutex":
        assert mine.acquire(1, 0).ok.token == mine.token(1).ok.token
        mine.release(1).ok
    if kind != "semaphore":
        mine.extend(1, 40_000).ok
    mine.release(1).ok
    assert mine.state(1) == "NONE" and mine.acquire(1, 0).status == "GATE_CLOSED" == mine.acquire(1, 5000).status


def test_a_long_line_is_sent_away(new_agent: Make, redis_server: Server) -> None:
    """A call of the script sends some away. The client calls again until none is left, blocking and submitted."""
    first, second, closer = (new_agent().open(redis_server, **NO_POLLS) for _ in range(3))
    mine, _, theirs = held(first, second, "fair")
    wire, silent = Wire(redis_server.client(), "lock"), Process(redis_server)  # its waiters do not leave by themselves
    for turn in range(2):
        for owner in range(2, 102):
            theirs.submit_acquire(owner, -1, owner).ok
        until(lambda: redis_server.command("LLEN", "redisson_lock_queue:{lock}") == 100)
        for _ in range(40):
            wire.acquire(silent.hold(), LINE)
        if turn:
            closer.lock("lock", kind="fair").submit("close_gate", 5, 60_000).ok
            assert closer.event().status == 0
        else:
            closer.lock("lock", kind="fair").close_gate(60_000).ok
        assert redis_server.command("EXISTS", "redisson_lock_queue:{lock}", "redisson_lock_timeout:{lock}") == 0
        for _ in range(100):
            event = next(events(second, *ENDS))
            assert (event.type, event.status) == ("ACQUIRE_FAILED", 7)
        closer.lock("lock", kind="fair").open_gate().ok
    mine.release(1).ok
    theirs.acquire(2, 5000).ok


@each
def test_nobody_waits_when_it_closes(agent: Agent, new_agent: Make, redis_server: Server, kind: str) -> None:
    """A gate may be closed before the lock's first use. Waits fail at once, in all forms, and leave nothing behind."""
    client = agent.open(redis_server, **NO_POLLS)
    lock = client.lock("lock", kind=kind)
    lock.close_gate(60_000).ok
    if "semaphore" in kind:
        assert lock.permits_set(1).ok and lock.permits().ok.value == 1
    before, keys = image(redis_server), len(redis_server.command("KEYS", "*"))
    for wait in (0, 100, -1):
        assert lock.acquire(1, wait).status == "GATE_CLOSED"
    lock.submit_acquire(1, -1, 5).ok
    failed(client, 5)
    assert lock.state(1) == "NONE" and lock.cancel(1).status == "NOT_HELD"
    assert image(redis_server) == before and len(redis_server.command("KEYS", "*")) == keys
    new_agent().open(redis_server).lock("lock", kind=kind).open_gate().ok
    assert lock.acquire(1, 0).status == "OK"


@each
def test_it_opens_by_itself(agent: Agent, redis_server: Server, kind: str) -> None:
    """Closing it again sets its time anew, longer or shorter."""
    lock = one(agent.open(redis_server), kind)
    lock.close_gate(60_000).ok
    assert 50_000 < redis_server.command("PTTL", "dlock_gate:{lock}") <= 60_000
    closed = lock.close_gate(300).ok.began
    assert lock.acquire(1, 0).status == "GATE_CLOSED"
    answer = until(lambda: (answer := lock.acquire(1, 0)).status != "GATE_CLOSED" and answer)
    assert answer.status == "OK" and answer.done >= closed + 300_000
    assert lock.open_gate().status == "UNCHANGED"


def test_waiters_behind_a_holder_that_nobody_else_wants(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """All wait in one process, which has sent nothing since its owner 1 got the mutex."""
    client = agent.open(redis_server, **NO_POLLS)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    pending = [waits(lock, owner, owner) for owner in (2, 3)]
    lock.submit_acquire(4, -1, 44).ok
    until(lambda: redis_server.command("PUBSUB", "CHANNELS"))
    new_agent().open(redis_server).lock("lock").close_gate(60_000).ok
    assert {wait.answer(SOON).status for wait in pending} == {"GATE_CLOSED"}
    failed(client, 44)
    assert lock.acquire(5, -1).status == "GATE_CLOSED" and lock.state(1) == "HELD"
    lock.release(1).ok
    assert lock.acquire(2, -1).status == "GATE_CLOSED"


def test_a_gate_that_was_closed_before_anything_was_heard(agent: Agent, beside: Agent, store: Any) -> None:
    """The holder's process has no subscription when the gate closes: it queries the gate once it has one."""
    closer = beside.open(store)
    for round_ in range(8):
        client = agent.open(store, **NO_POLLS)
        lock, theirs = client.lock(f"lock{round_}"), closer.lock(f"lock{round_}")
        lock.acquire(1, 0).ok
        if round_ % 2:
            theirs.close_gate(60_000).ok
        wait = lock.start("acquire", 2, -1, thread=1)
        if not round_ % 2:
            theirs.close_gate(60_000).ok
        assert wait.answer(SOON).status == "GATE_CLOSED" and lock.state(1) == "HELD"
        assert lock.acquire(2, -1).status == "GATE_CLOSED"
        client.close(2000).ok


def test_who_closed_it_hears_that_it_opens(agent: Agent, beside: Agent, store: Any) -> None:
    """A process without a subscription closes the gate of a lock it holds; another one opens it."""
    client = agent.open(store, **NO_POLLS)
    lock = client.lock("lock")
    lock.acquire(1, 0).ok
    lock.close_gate(60_000).ok
    assert lock.acquire(2, 0).status == "GATE_CLOSED" == lock.acquire(2, -1).status
    beside.open(store).lock("lock").open_gate().ok
    until(lambda: lock.acquire(2, 0).status == "BUSY")
    wait = waits(lock, 2, 1)
    lock.release(1).ok
    wait.answer(SOON).ok


def test_what_was_heard_of_the_gate_ends_with_the_subscription(agent: Agent, new_server: Make, new_proxy: Make) -> None:
    """The gate opened while there was no subscription: callers behind a holder of the same process are not refused for ever."""
    server = new_server()  # a new one: on the shared one others may still be leaving
    proxy = new_proxy(server)
    client, other = agent.open(proxy, connects_per_second=1000, **NO_POLLS), agent.open(server)
    lock, theirs = client.lock("lock"), other.lock("lock")
    lock.acquire(1, 0).ok
    wait = waits(lock, 2, 2)
    until(lambda: server.command("PUBSUB", "CHANNELS"))
    theirs.close_gate(60_000).ok
    assert wait.answer(SOON).status == "GATE_CLOSED" == lock.acquire(2, 0).status
    proxy.refuse()
    proxy.cut()
    until(lambda: not server.command("PUBSUB", "CHANNELS"))
    theirs.open_gate().ok
    proxy.accept()
    until(lambda: lock.acquire(2, 0).status == "BUSY")
    assert lock.state(1) == "HELD"
    lock.release(1).ok
    lock.acquire(2, 5000).ok


@pytest.mark.parametrize("kind", ["mutex", *KINDS])
def test_who_would_win_at_the_last_moment_learns_it(agent: Agent, new_agent: Make, redis_server: Server, new_proxy: Make, kind: str) -> None:
    """The lock is released, and its waiter requests it: the request is in flight while the gate closes."""
    proxy = new_proxy(redis_server)
    client, other = agent.open(proxy, **NO_POLLS), new_agent().open(redis_server)
    mine, theirs = sides(other, client, kind)
    script = SHA[{"mutex": "acquire", "fair": "fair_acquire", "read": "write_acquire", "write": "read_acquire",
                  "semaphore": "semaphore_acquire", "permit_semaphore": "permit_acquire"}[kind]]  # fmt: skip
    assert theirs.acquire(2, 0).ok
    theirs.release(2).ok
    gate = proxy.up.pause_at(script)
    wait = theirs.start("acquire", 2, -1, thread=1)
    gate.wait()
    mine.close_gate(60_000).ok
    gate.open()
    assert wait.answer(SOON).status == "GATE_CLOSED"
    before = image(redis_server)
    assert set(before) - {b"lock"} == {b"dlock_gate:{lock}"}
    mine.open_gate().ok
    mine.acquire(1, 0).ok


@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_a_grant_on_its_way_is_no_way_around_the_gate(agent: Agent, new_agent: Make, redis_server: Server, new_proxy: Make, kind: str) -> None:
    """A message grants the waiter the lock; the gate's message comes right behind. That waiter may keep it, nobody gets it after that."""
    proxy = new_proxy(redis_server)
    client, other = agent.open(proxy, **NO_POLLS), new_agent().open(redis_server)
    mine, theirs = sides(other, client, kind)
    mine.acquire(1, 0).ok
    pending = [waits(theirs, owner, owner) for owner in (2, 3)]
    hears(redis_server, kind, 1)
    line = ("LLEN", "redisson_lock_queue:{lock}") if kind == "fair" else ("ZCARD", "dlock_queue:{lock}")
    until(lambda: redis_server.command(*line) == (2 if kind == "fair" else 1))
    proxy.down.hold()
    mine.release(1).ok
    mine.close_gate(60_000).ok
    until(lambda: proxy.down.fired["hold"])
    proxy.down.release()
    answers = [wait.answer(SOON) for wait in pending]
    assert sorted(answer.status for answer in answers) == ["GATE_CLOSED", "OK"]
    winner = 2 if answers[0].status == "OK" else 3
    assert theirs.state(winner) == "HELD"
    theirs.release(winner).ok
    assert theirs.acquire(4, -1).status == "GATE_CLOSED"


@each
def test_a_sale_is_over(new_agent: Make, redis_server: Server, kind: str) -> None:
    """Many threads in several processes; all return promptly."""
    processes, threads = 4, 25
    seller = new_agent().open(redis_server)
    clients = [new_agent().open(redis_server, **NO_POLLS) for _ in range(processes)]
    mine = held(seller, clients[0], kind)[0]
    locks = [client.lock("lock", kind=RIVAL.get(kind, kind)) for client in clients]
    pending = [lock.start("acquire", thread, -1, thread=thread) for lock in locks for thread in range(1, threads + 1)]
    until(lambda: all(client.counters()["waiting"] == threads for client in clients))
    hears(redis_server, kind, processes)
    closed = mine.close_gate(60_000).ok.done
    answers = [wait.answer(SOON) for wait in pending]
    assert {answer.status for answer in answers} == {"GATE_CLOSED"}
    print(f"{kind}: {len(answers)} waits in {processes} processes ended {max(answer.done for answer in answers) - closed} us after the gate")


def test_bad_times(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    for kind in ALL:
        lock = one(client, kind, kind)
        for ttl in (0, -1, -60_000, 31_536_000_001, 2**62, -(2**63)):
            answer = lock.close_gate(ttl)
            assert answer.status == "INVALID_ARGUMENT" and answer.message
        assert lock.open_gate().status == "UNCHANGED"
    assert not [key for key in redis_server.command("KEYS", "*") if b"gate" in key]
    lock.close_gate(31_536_000_000).ok


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.GATED, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(new_agent: Make, redis_server: Server, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        test_a_long_line_is_sent_away(lambda: new_agent(LD_PRELOAD=library), redis_server)


def test_foreign_clients_know_no_gates(agent: Agent, redis_server: Server) -> None:
    """Redisson's waiter gets a mutex that is released while the gate is closed."""
    lock = agent.open(redis_server).lock("lock")
    lock.acquire(1, 0).ok
    lock.close_gate(60_000).ok
    with Jvm(redis_server) as jvm:
        theirs = jvm.lock("lock")
        assert not theirs.try_lock(thread=1)
        lock.release(1).ok
        assert theirs.try_lock(thread=1, wait=5)
        assert lock.acquire(2, 0).status == "GATE_CLOSED"
        theirs.unlock(thread=1)
    assert lock.acquire(2, 0).status == "GATE_CLOSED"
