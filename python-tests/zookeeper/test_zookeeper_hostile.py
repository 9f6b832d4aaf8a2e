"""A hostile ZooKeeper, and hostile clients of a good one: whatever a server sends, the client says so in time, keeps its memory, sends
nothing that it was not asked to, and goes on when the server is well again.

Under ./dev test --sanitize address each of these also shows accesses outside of what was allocated.
"""
from __future__ import annotations

import re
import threading
import time
from typing import Any, Callable

import pytest

from harness.agent import Agent, Client, Lock
from harness.build import SANITIZED
from harness.faults import times
from harness.kinds import rss_kb
from harness.waiting import until
from harness.zookeeper.fake import (CHILDREN, CREATE, EXISTS, EXPIRED, GET_DATA, GREETING, HEAD, MULTI, NO_NODE, SET_DATA, SYNC, SYSTEM_ERROR, Call, FakeZookeeper, Node, Raw, event,
                                    head, hostile, int32, int64, stat, text)  # fmt: skip

QUICK = {"command_timeout_ms": 400, "connect_timeout_ms": 400, "connects_per_second": 100, "lease_ms": 2000}
# What a call may end with when the server does not do what it should.
BAD = {"PROTOCOL_ERROR", "UNREACHABLE", "SERVER_ERROR", "TIMED_OUT"}


@pytest.fixture
def fake() -> Any:
    with FakeZookeeper() as fake:
        yield fake


def is_well(client: Client, fake: FakeZookeeper) -> None:
    """The server does what is right from now on, and so does the client."""
    fake.twist = lambda call, reply: reply
    lock = client.lock("well")
    until(lambda: lock.acquire(1, 1000).status == "OK" and lock.release(1).status == "OK", 20)


# ---- names of nodes


@pytest.mark.parametrize("size", [15, 100, 254, 255, 256, 300, 1000, 1400, 60_000])
@pytest.mark.parametrize("what", ["inspect", "force", "wait", "permits"])
def test_long_names_of_others(fake: FakeZookeeper, agent: Agent, what: str, size: int) -> None:
    """A node of somebody else that stands in line, below the longest names: it is asked about by its own path, or not at all."""
    chroot, name = b"/" + b"c" * 120, "n" * (1000 if what != "permits" else 990)
    place = chroot + b"/" + name.encode()
    kid = b"A" * (size - 15) + (b"lock-" if what != "permits" else b"xlock-"[1:]) + b"0000000000"
    line = place + (b"/locks" if what == "permits" else b"")
    for path in (chroot, place, line, line + b"/" + kid, place + b"/leases"):
        fake.nodes[path] = Node(b"", 5, 5, 5, 0, made=1)
    client = agent.open(fake.url + chroot.decode(), **QUICK)
    lock = client.lock(name, kind="permit_semaphore" if what == "permits" else "mutex")
    calls: dict[str, Callable[[], Any]] = {"inspect": lambda: lock.inspect(), "force": lambda: lock.force(), "wait": lambda: lock.acquire(1, 500),
                                           "permits": lambda: lock.acquire(1, 500)}  # fmt: skip
    answer = calls[what]()
    if size <= 255:
        assert answer.status == ("OK" if what in ("inspect", "force") else "TIMED_OUT")
        assert line + b"/" + kid in fake.paths
    else:
        assert (answer.status, "255" in answer.message) == ("UNFIT", True)
    for path in set(fake.paths) - {b"/"}:  # that of heartbeats
        assert re.fullmatch(rb"[\w/:.-]+", path) and (path in fake.nodes or path.startswith((place, chroot + b"/dlock_gates"))), path
        assert line + b"/A" not in path or path == line + b"/" + kid, "a shorter path is another node's"


def test_a_witness_that_is_a_path(fake: FakeZookeeper, agent: Agent) -> None:
    """What a latch's value says about its witness leads to no other node."""
    fake.nodes |= {b"/job": Node(b"", 5, 5, 5, 0), b"/job/count": Node(b"2@../../other x", 5, 5, 5, 0), b"/other": Node(b"", 5, 5, 5, 0)}
    latch = agent.open(fake, **QUICK).lock("job", kind="latch")
    assert latch.latch_down(1).ok
    assert latch.latch_down(1).ok
    assert not any(b"other" in path for path in fake.paths) and b"/other" in fake.nodes


# ---- lists of children


BAD_LISTS = {
    "a negative length": int32(2) + text(b"x") + int32(-5),
    "a length beyond the frame": int32(2) + text(b"lock-0000000001") + int32(2**31 - 1),
    "fewer than it says": int32(3) + text(b"lock-0000000001") + text(b"lock-0000000002"),
    "a negative number": int32(-1),
    "a huge number": int32(2**31 - 1),
    "nothing": b"",
    "half a number": b"\0\0",
}


@pytest.mark.parametrize("body", BAD_LISTS.values(), ids=BAD_LISTS)
@pytest.mark.parametrize("kind", ["mutex", "read", "permit_semaphore"])
def test_malformed_lists(fake: FakeZookeeper, agent: Agent, kind: str, body: bytes) -> None:
    """Each reader of children meets one, also behind good ones."""
    client = agent.open(fake, **QUICK)
    lock = client.lock("job", kind=kind)
    if kind == "permit_semaphore":
        lock.permits_set(3).ok
    else:
        lock.acquire(1, 0).ok
        lock.release(1).ok
    for good in range(3):
        left = [good]

        def twist(call: Call, reply: bytes) -> bytes:
            if call.op != CHILDREN or reply[HEAD - 4 : HEAD] != bytes(4):
                return reply
            left[0] -= 1
            return reply if left[0] >= 0 else reply[:HEAD] + body

        fake.twist = twist
        if kind == "mutex":
            assert {lock.inspect().status, lock.force().status} <= BAD | {"NOT_HELD", "OK"}
        if kind == "permit_semaphore":
            assert lock.permits_add(1).status in BAD | {"UNKNOWN_OUTCOME", "OK"}
        assert lock.acquire(2 + good, 0).status in BAD | {"OK", "BUSY"}
        assert lock.acquire(20 + good, 300).status in BAD | {"OK"}
    is_well(client, fake)


# ---- fields of replies


FIELDS = {
    "a token of 0": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"0000000000") + stat(czxid=0)),
    "a negative token": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"0000000000") + stat(czxid=-1)),
    "a token of 2^53": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"0000000000") + stat(czxid=2**53)),
    "a time before 1970": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"0000000000") + stat(ctime=-(2**63))),
    "a time far ahead": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"0000000000") + stat(mtime=2**63 - 1)),
    "the path of another node": (CREATE, lambda call, reply: reply[:HEAD] + text(b"/other/lock-0000000000") + stat()),
    "a path without a number": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path) + stat()),
    "a number that is too high": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"2147483648") + stat()),
    "a number below zero": (CREATE, lambda call, reply: reply[:HEAD] + text(call.path + b"-000000001") + stat()),
    "a reply without a node": (CREATE, lambda call, reply: reply[:HEAD]),
    "half a node": (CREATE, lambda call, reply: reply[:-1]),
}  # fmt: skip


@pytest.mark.parametrize("op, twist", FIELDS.values(), ids=FIELDS)
def test_fields_of_a_new_node(fake: FakeZookeeper, agent: Agent, op: int, twist: Callable[[Call, bytes], bytes]) -> None:
    client = agent.open(fake, **QUICK)
    client.lock("job").inspect().ok
    fake.twist = lambda call, reply: twist(call, reply) if call.op == op and b"_c_" in call.path else reply
    answer = client.lock("job").acquire(1, 0)
    assert answer.status in BAD | {"UNFIT"} and answer.message
    is_well(client, fake)


@pytest.mark.parametrize("data, mtime", [(b"9223372036854775807", 1000), (b"4611686018427387902", 2**53 - 1), (b"-1", 1000), (b"", 0), (b"x" * 100_000, 5)], ids=["most", "half", "negative", "none", "long"])
def test_gates_of_any_length(fake: FakeZookeeper, agent: Agent, data: bytes, mtime: int) -> None:
    """The sum of a gate's length and its begin does not run over."""
    fake.nodes |= {b"/job": Node(b"", 5, 5, 5, 0), b"/job/dlock_gate": Node(data, 5, 5, mtime, 0)}
    client = agent.open(fake, **QUICK)
    closed = data.startswith(b"46")
    assert client.lock("job").acquire(1, 0).status == ("GATE_CLOSED" if closed else "OK")
    assert client.lock("job").open_gate().status in ("OK", "UNCHANGED")


@pytest.mark.parametrize("number", [2**31 - 1, 2**31 - 2])
def test_numbers_of_permits_at_the_end(fake: FakeZookeeper, agent: Agent, number: int) -> None:
    """The nodes of a hold follow the first one's: their numbers have room."""
    fake.nodes |= {path: Node(b"", 5, 5, 5, 0) for path in (b"/job", b"/job/locks")} | {b"/job/leases": Node(b"", 5, 5, 5, 0, made=number)}
    client = agent.open(fake, **QUICK)
    seats = client.lock("job", kind="permit_semaphore", permits=3)
    seats.permits_set(3).ok
    assert seats.acquire(1, 0).status == "UNFIT"
    is_well(client, fake)


@pytest.mark.parametrize("version", [2**31 - 1, -(2**31), -1])
def test_versions_that_have_run_over(fake: FakeZookeeper, agent: Agent, version: int) -> None:
    """The data of a node was set 2^31 times. It is read as before; what depends on its version is refused, with advice."""
    shared = {b"/dlock_gates/%02d" % number: Node(b"", 5, 5, 5, 0, version) for number in range(64)}
    fake.nodes |= {path: Node(b"", 5, 5, 5, 0) for path in (b"/job", b"/job/leases", b"/dlock_gates")} | shared
    fake.nodes |= {b"/dlock_gates/clock": Node(b"", 5, 5, 5, 0, version), b"/job/total": Node(b"\0\0\0\5", 5, 5, 5, 0, version)}
    fake.nodes |= {b"/job/count": Node(b"3@", 5, 5, 5, 0, version), b"/job/dlock_gate": Node(b"5000", 5, 5, 2**52, 0, version)}
    client = agent.open(fake, **QUICK)
    lock, seats, latch = (client.lock("job", kind=kind) for kind in ("mutex", "permit_semaphore", "latch"))
    well = version >= 0
    assert lock.acquire(1, 0).status == latch.acquire(1, 0).status == "GATE_CLOSED"
    assert (latch.latch_count().ok.value, seats.permits().ok.value) == (3, 5)
    assert latch.latch_down(1).status == seats.permits_add(1).status == ("OK" if well else "UNFIT")
    answer = lock.open_gate()
    assert (answer.status, "too often" in answer.message) == (("OK", False) if well else ("UNFIT", True))
    fake.nodes[b"/job/dlock_gate"] = Node(b"1", 5, 5, 5, 0)
    for node in shared:
        fake.nodes[node].version = version
    assert lock.acquire(1, 0).status == ("OK" if well else "UNFIT")
    assert (b"/job/dlock_gate" in fake.nodes) != well, "whoever removes any version may remove a gate that was closed meanwhile"
    assert "PROTOCOL_ERROR" not in {lock.inspect().status, lock.acquire(2, 0).status, latch.latch_down(1).status}
    is_well(client, fake)


def test_totals_at_the_ends(fake: FakeZookeeper, agent: Agent) -> None:
    fake.nodes |= {b"/job": Node(b"", 5, 5, 5, 0), b"/job/total": Node(b"\x7f\xff\xff\xff", 5, 5, 5, 0), b"/job/leases": Node(b"", 5, 5, 5, 0)}
    seats = agent.open(fake, **QUICK).lock("job", kind="permit_semaphore")
    assert seats.permits_add(1).status == "INVALID_ARGUMENT"
    fake.nodes[b"/job/total"].data = b"\x80\0\0\0"
    assert seats.permits_add(-1).status in ("INVALID_ARGUMENT", "OK")
    assert seats.permits().status == "OK"


@pytest.mark.parametrize("value", [b"9223372036854775807@x y", b"99999999999999999999@x y", b"-9223372036854775808@x y", b"z" * 9000], ids=["most", "more", "least", "long"])
def test_latches_of_any_value(fake: FakeZookeeper, agent: Agent, value: bytes) -> None:
    fake.nodes |= {b"/job": Node(b"", 5, 5, 5, 0), b"/job/count": Node(value, 5, 5, 5, 0), b"/job/count/x": Node(b"", 5, 5, 5, 0)}
    latch = agent.open(fake, **QUICK).lock("job", kind="latch")
    assert latch.latch_count().ok
    assert latch.latch_down(1000).status == "OK"


# ---- numbers of replies


ORDERS: dict[str, Callable[[Call, bytes], Any]] = {
    "twice": lambda call, reply: [reply, reply],
    "one too many before": lambda call, reply: [head(call.xid + 1, 7), reply],
    "one of the past before": lambda call, reply: [head(max(call.xid - 1, 0), 7), reply],
    "the number of another one": lambda call, reply: int32(call.xid + 5) + reply[4:],
    "a negative number": lambda call, reply: int32(-7) + reply[4:],
    "the lowest number": lambda call, reply: int32(-(2**31)) + reply[4:],
}


@pytest.mark.parametrize("twist", ORDERS.values(), ids=ORDERS)
def test_replies_that_nobody_asked_for(fake: FakeZookeeper, agent: Agent, twist: Callable[[Call, bytes], Any]) -> None:
    """A reply belongs to the next request, or the connection is given up."""
    client = agent.open(fake, **QUICK)
    client.lock("job").inspect().ok
    before = client.counters()["connects"]
    fake.twist = lambda call, reply: twist(call, reply) if call.op == SYNC else reply
    client.lock("job").inspect()
    client.lock("job").inspect()
    until(lambda: client.counters()["connects"] > before)
    is_well(client, fake)


def test_a_session_that_comes_back_as_another_one(fake: FakeZookeeper, agent: Agent) -> None:
    """Its nodes would be those of somebody else: such a member is given up."""
    client = agent.open(fake, **QUICK)
    lock = client.lock("job")
    lock.acquire(1, 0).ok

    def other(call: Call, reply: bytes) -> bytes:
        return int32(0) + int32(2600) + int64(call.session + 77) + text(b"q" * 16) + b"\0" if call.op == GREETING else reply

    fake.twist = other
    fake.hang_up()
    assert client.lock("other").acquire(1, 300).status in BAD
    assert client.loss().status
    is_well(client, fake)


@pytest.mark.parametrize("timeout", [2**31 - 1, 2 * 86400 * 1000 + 1, -1, -(2**31)])
@pytest.mark.parametrize("password", [b"p" * 16, b"", b"p" * 17])
def test_greetings(fake: FakeZookeeper, agent: Agent, timeout: int, password: bytes) -> None:
    fake.twist = lambda call, reply: int32(0) + int32(timeout) + int64(call.session) + text(password) if call.op == GREETING else reply
    client = agent.open(fake, **QUICK)
    assert client.lock("job").acquire(1, 300).status in BAD
    is_well(client, fake)


# ---- sessions that end while others are at work


def test_a_session_ends_while_another_one_is_stepped(fake: FakeZookeeper, agent: Agent) -> None:
    """One request renews locks of two sessions. The first watch of the short one is told that it is over; it is gone when the last reply of
    the long one comes, behind which the request speaks of both.
    """
    client = agent.open(fake, command_timeout_ms=3000, connects_per_second=100)
    ended = threading.Event()

    def twist(call: Call, reply: bytes) -> Any:
        short = call.timeout < 7900
        if call.op == GREETING and call.timeout == 0:
            return reply
        if call.op != GET_DATA or not call.watch or b"_c_" not in call.path:
            return reply
        if short:
            fake.sessions[call.session] = 0
            ended.set()
            return head(call.xid, 7, EXPIRED)
        ended.wait(5)
        time.sleep(0.2)  # the other one says good-bye meanwhile; nothing depends on it
        return reply

    fake.twist = twist
    locks: list[tuple[Lock, int]] = []
    for lease in (6000, 5900):
        for i in range(4):
            locks.append((client.lock(f"{lease}-{i}", lease_ms=lease), lease))
            locks[-1][0].acquire(1, 0).ok
    until(ended.is_set, 10)
    until(lambda: all(lock.state(1) == "LOST" for lock, lease in locks if lease == 5900), 15)
    assert all(lock.state(1) == "HELD" for lock, lease in locks if lease == 6000)
    is_well(client, fake)


def test_sessions_that_end_again_and_again(fake: FakeZookeeper, agent: Agent) -> None:
    """What is left of a session that is over goes, however long the server says that it lasts."""
    client = agent.open(fake, connects_per_second=1000, lease_ms=2000, command_timeout_ms=400)

    def twist(call: Call, reply: bytes) -> bytes:
        if call.op == GREETING:
            return int32(0) + int32(2 * 86400 * 1000) + int64(call.session) + text(b"p" * 16) + b"\0"
        return head(call.xid, 7, EXPIRED)

    fake.twist = twist
    for _ in range(100):
        assert client.lock("job").inspect().status in BAD
    assert len(agent.fds()) < 150
    is_well(client, fake)


# ---- errors without an end


def test_gates_that_cannot_be_read(fake: FakeZookeeper, agent: Agent) -> None:
    """The client asks for the gate of a name that it holds and waits for. If that is refused at once, it asks again after a pause."""
    asked: list[bytes] = []

    def twist(call: Call, reply: bytes) -> bytes:
        if call.op != GET_DATA or not call.path.endswith(b"/dlock_gate"):
            return reply
        asked.append(call.path)
        return head(call.xid, 7, SYSTEM_ERROR)

    client = agent.open(fake, **QUICK)
    lock = client.lock("job")
    lock.acquire(1, 0).ok
    fake.twist = twist
    assert lock.acquire(2, 3000).status == "TIMED_OUT"
    assert 1 <= len(asked) <= 5, len(asked)
    is_well(client, fake)


# ---- memory


NAME = text(b"lock-%010d")
SIZES = {"children": 3_900_000, "no end": 2**31 - 1, "a drop less": 4 * 1024 * 1024 - 64 * 1024}


def much(call: Call, reply: bytes, what: str) -> Any:
    if call.op == CHILDREN and what == "children":
        return head(call.xid, 7) + int32(200_000) + b"".join(text(b"lock-%010d" % i) for i in range(200_000))
    if call.op == GET_DATA and what == "data":
        return head(call.xid, 7) + text(b"x" * 3_900_000) + stat()
    if call.op != GREETING and what == "a frame without an end":
        return Raw(int32(4 * 1024 * 1024 - 64 * 1024) + b"x" * (4 * 1024 * 1024 - 65 * 1024))
    if call.op != GREETING and what == "events":
        return [*[event(1, b"/" + b"p" * 60_000) for _ in range(100)], reply]
    return reply


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps what is freed")
@pytest.mark.parametrize("what", ["children", "data", "a frame without an end", "events"])
def test_memory(fake: FakeZookeeper, agent: Agent, what: str) -> None:
    """Ten sessions get as much as the protocol lets through, and more: the client stays below 32 MB over what it needs."""
    client = agent.open(fake, command_timeout_ms=1500, connects_per_second=100)
    locks = [client.lock(f"job{i}", lease_ms=5000 + 100 * i) for i in range(10)]
    seats = client.lock("seats", kind="permit_semaphore")
    seats.permits_set(3).ok
    for i, lock in enumerate(locks):
        lock.acquire(1, 0, thread=i + 1).ok
        lock.release(1, thread=i + 1).ok
    before, most = rss_kb(agent.pid), 0
    fake.twist = lambda call, reply: much(call, reply, what)
    waits = [lock.start("acquire", 1, 1500, thread=i + 1) for i, lock in enumerate(locks)]
    waits += [seats.start("acquire", 1, 1500, thread=11), locks[0].start("inspect", thread=12)]
    while not all(wait.ready() for wait in waits):
        most = max(most, rss_kb(agent.pid))
    for wait in waits:
        wait.answer()
    assert most - before < 32 * 1024, f"{(most - before) / 1024:.1f} MB"
    is_well(client, fake)


# ---- anything


def scenario(client: Client) -> set[str]:
    """Some of each kind, for a short time."""
    mutex, read, seats, latch = (client.lock("job", kind=kind) for kind in ("mutex", "read", "permit_semaphore", "latch"))
    two = client.lock("job", kind="permit_semaphore", permits=2)
    calls = [(mutex, "acquire", 1, 150), (mutex, "inspect"), (mutex, "force"), (mutex, "close_gate", 50), (mutex, "open_gate"), (read, "acquire", 2, 100), (read, "release", 2),
             (seats, "permits_set", 3), (seats, "acquire", 3, 100), (two, "acquire", 4, 100), (seats, "permits_add", 1), (seats, "permits"), (seats, "release", 3), (two, "release", 4),
             (latch, "latch_set", 2), (latch, "acquire", 5, 50), (latch, "latch_down", 1), (latch, "latch_count"), (latch, "latch_down", 1), (mutex, "release", 1)]  # fmt: skip
    waits = [lock.start(command, *words, thread=1 + i % 4) for i, (lock, command, *words) in enumerate(calls)]
    return {wait.answer(30).status for wait in waits}


@pytest.mark.parametrize("first, count", times((1, 12), (1, 400), seconds=3000))
def test_anything(new_agent: Callable[..., Agent], first: int, count: int) -> None:
    """Any bytes, fields and orders, by seed. The process lives, and the client works when the server does."""
    agent, seen = new_agent(), set()
    for seed in range(first, first + count):
        with FakeZookeeper() as fake:
            client = agent.open(fake, **{**QUICK, "command_timeout_ms": 200})
            fake.twist = hostile(seed, 0.05 if seed % 2 else 0.3)
            seen |= scenario(client)
            seen |= scenario(client)
            is_well(client, fake)
            client.close(1000)
            client.free()
    assert {"OK", "PROTOCOL_ERROR"} <= seen
