"""What etcd says is checked where it comes in: a server that lies gets an error or an outcome that can be, never a crash or a wild number.

The answers of a true etcd are changed on their way. Under the sanitizers each sum that runs over ends the process.
"""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer, Client
from harness.etcd import Etcd
from harness.etcd.twister import Field, Twister, fields, message, numbers, ranges
from harness.faults import always

ENDS = (2**63 - 1, -(2**63), 2**62, 2**56, -1, 0, 2**46, 2**53)
OPTIONS = {"command_timeout_ms": 300, "connects_per_second": 1000}


@pytest.fixture
def twister(etcd: Etcd) -> Iterator[Twister]:
    with Twister(etcd.nodes[0].port) as one:
        yield one


# ---- shapes


def kv(key: bytes, created: int = 5, modified: int = 5, value: bytes = b"", lease: int = 0) -> Field:
    parts: list[Field] = [(1, key), (2, created), (3, modified), (4, 1), (5, value), (6, lease)]
    return 2, message(parts)


def with_keys(*keys: Field, count: int | None = None) -> Callable[[bytes], bytes]:
    return lambda answer: ranges(answer, lambda _: [*keys, (4, len(keys) if count is None else count)])


def results(change: Callable[[list[Field]], list[Field]]) -> Callable[[bytes], bytes]:
    def twist(answer: bytes) -> bytes:
        parts = fields(answer)
        return message([part for part in parts if part[0] != 3] + change([part for part in parts if part[0] == 3]))

    return twist


def header(*parts: Field) -> Callable[[bytes], bytes]:
    return lambda answer: message([(1, message(list(parts)))] + [part for part in fields(answer) if part[0] != 1])


PUT: Field = (3, message([(2, b"")]))
LIES: dict[str, Callable[[bytes], bytes]] = {
    "an empty key": with_keys(kv(b"")),
    "a key shorter than the prefix": with_keys(kv(b"A")),
    "the name alone": with_keys(kv(b"job")),
    "another lock's key": with_keys(kv(b"joc/x")),
    "a key before the range": with_keys(kv(b"job.x")),
    "a key with nothing in it": with_keys((2, b"")),
    "a key that was not created": with_keys(kv(b"job/x", created=0)),
    "a key that is younger than the server": with_keys(kv(b"job/x", 5, 2**50)),
    "a key that was changed before it was created": with_keys(kv(b"job/x", 5, 4)),
    "a revision without end": with_keys(kv(b"job/x", 2**62, 2**62)),
    "a negative revision": with_keys(kv(b"job/x", -5, 5)),
    "more keys than asked for": with_keys(kv(b"job/x", 5), kv(b"job/y", 6)),
    "millions of keys": lambda answer: message([*fields(answer)[:2], (3, message([(1, b"\x12\x00" * 200_000)]))]),
    "fewer than there are": with_keys(kv(b"job/x"), count=0),
    "a negative count": with_keys(count=-(2**63)),
    "a count without end": with_keys(count=2**63 - 1),
    "a number for a key": with_keys((2, 7)),
    "no results": results(lambda all: []),
    "a result too few": results(lambda all: all[1:]),
    "a result too many": results(lambda all: [*all, *all[:1]]),
    "results of another kind": results(lambda all: [PUT] * len(all)),
    "a result of two kinds": results(lambda all: [(3, message([(1, b""), (2, b"")]))] * len(all)),
    "an empty result": results(lambda all: [(3, b"")] * len(all)),
    "no header": lambda answer: message([part for part in fields(answer) if part[0] != 1]),
    "no revision": header((1, 1), (2, 2)),
    "a negative revision of the server": header((3, -1)),
    "a revision of the server without end": header((3, 2**63 - 1)),
    "another success": lambda answer: message([part for part in fields(answer) if part[0] != 2] + [(2, 2)]),
    "half a message": lambda answer: answer[:-3],
    "a group": lambda answer: answer + b"\x0b",
    "a field of number 0": lambda answer: answer + b"\x00\x00",
    "a number of 70 bits": lambda answer: answer + b"\x78" + b"\xff" * 9 + b"\x7f",
    "bytes beyond the end": lambda answer: answer + b"\x7a\x7f",
}


@pytest.mark.parametrize("lie", LIES)
def test_k06_lies_about_a_lock(etcd: Etcd, agent: Agent, twister: Twister, lie: str) -> None:
    """An inspection says so, names the member, and shows nothing of them. Afterwards all is well."""
    truth = agent.open(etcd).lock("job")
    truth.acquire(1, 0).ok
    lock = agent.open(twister.url, **OPTIONS).lock("job")
    lock.inspect().ok
    twister.twist = LIES[lie]
    answer = lock.inspect()
    assert answer.status == "PROTOCOL_ERROR" and f"127.0.0.1:{twister.port}" in answer.message, answer
    assert lock.acquire(1, 0).status in ("PROTOCOL_ERROR", "UNREACHABLE", "BUSY")
    assert lock.force().status == "PROTOCOL_ERROR"
    twister.twist = None
    assert lock.inspect().ok.event.token == truth.inspect().ok.event.token
    truth.release(1).ok


def failed(answer: bytes) -> bytes:
    """The condition of the transaction was not true, and then there was nothing to do."""
    return message([part for part in fields(answer) if part[0] not in (2, 3)]) if any(part[0] == 3 for part in fields(answer)) else answer


def test_k06_a_failure_without_a_condition(etcd: Etcd, agent: Agent, twister: Twister) -> None:
    """What only reads has no condition that could fail. Before, the client read results that were not there: a closed latch was open."""
    truth = agent.open(etcd)
    truth.lock("closed", kind="latch").latch_set(1).ok
    truth.lock("seats", kind="permit_semaphore").permits_set(2).ok
    truth.lock("job").acquire(1, 0).ok
    client = agent.open(twister.url, **OPTIONS)
    latch, seats, job = (client.lock(name, kind=kind) for name, kind in (("closed", "latch"), ("seats", "permit_semaphore"), ("job", "mutex")))
    for call in (latch.latch_count, seats.permits, job.inspect):
        call().ok
    twister.twist = failed
    for answer in (latch.acquire(1, 200), latch.latch_count(), latch.latch_down(1), seats.permits(), seats.acquire(1, 200), job.inspect(), job.acquire(2, 200)):
        assert answer.status in ("PROTOCOL_ERROR", "UNREACHABLE", "TIMED_OUT"), answer
    assert twister.twisted > 4
    twister.twist = None
    assert latch.acquire(1, 0).status == "BUSY" and latch.latch_count().status == seats.permits().status == "OK"


@pytest.mark.parametrize("value", [b"", b"x", b"9" * 30, b"-1", b"9223372036854775807", b"1x", b"\x00" * 4000])
@pytest.mark.parametrize("kind", ["permit_semaphore", "latch"])
def test_k06_values_that_are_no_numbers(etcd: Etcd, agent: Agent, kind: str, value: bytes) -> None:
    """Another program may write them, too."""
    client = agent.open(etcd)
    lock = client.lock("job", kind=kind)
    if kind == "latch":
        etcd.call("kv/put", key="job/count", value=value)
        assert lock.latch_count().status == "WRONG_KIND" and lock.latch_down(1).status == "WRONG_KIND"
    else:
        lock.permits_set(2).ok
        etcd.call("kv/put", key="job/permit-x", value=value)
        assert lock.permits().status == "WRONG_KIND" and lock.acquire(1, 0).status == "WRONG_KIND"
        etcd.call("kv/deleterange", key="job/permit-x")
        etcd.call("kv/put", key="job/total", value=value if value != b"-1" else b"- 1")
        assert lock.permits_add(1).status == "WRONG_KIND" and lock.acquire(1, 0).status == "WRONG_KIND"


def test_k06_another_lease_than_asked_for(agent: Agent, twister: Twister) -> None:
    """Granted for less time, for ever, without an id: there is no lock by it."""
    for number, (field, value) in enumerate([(3, 1), (3, 2**62), (3, 0), (2, 0), (2, -7)]):
        client = agent.open(twister.url, **OPTIONS)
        twister.twist = lambda answer: message([part for part in fields(answer) if part[0] != field] + [(field, value)]) if len(fields(answer)) == 3 else answer
        answer = client.lock(f"job{number}").acquire(1, 0)
        assert answer.status == "PROTOCOL_ERROR", (field, value, answer)
        twister.twist = None
        client.close(1000)


# ---- numbers at the ends of their range


def try_all(client: Client, name: str) -> Iterator[Answer]:
    """Each kind of call; which of them succeed is the server's doing."""
    lock, other = client.lock(name), client.lock(f"{name}2")
    yield lock.acquire(1, 0)
    yield lock.inspect()
    yield other.acquire(1, 100)
    yield lock.close_gate(50)
    yield lock.open_gate()
    yield lock.release(1)
    yield client.multi(lock, other).acquire(2, 0)
    seats = client.lock(f"{name}3", kind="permit_semaphore", permits=2)
    yield seats.permits_set(3)
    yield seats.acquire(1, 100)
    yield seats.permits_add(1)
    yield seats.permits()
    latch = client.lock(f"{name}4", kind="latch")
    yield latch.latch_set(3)
    yield latch.latch_down(1)
    yield latch.latch_count()
    txn = client.txn()
    yield txn.watch(f"{name}5")
    yield txn.incr(f"{name}6", 3)
    yield txn.set(f"{name}5", "x", 2000)
    yield txn.commit()
    yield txn.end_txn()
    yield client.ping(300)


@pytest.mark.parametrize("seed", always(*range(12), full=range(12, 200)))
def test_k06_numbers_at_the_ends(agent: Agent, twister: Twister, seed: int) -> None:
    """One number of each third answer, or of each tenth, is another. No call hangs, and a token is one that can be."""
    rng = random.Random(seed)

    def twist(answer: bytes) -> bytes:
        if rng.random() > (0.1 if seed % 2 else 0.35):
            return answer
        count = numbers(answer, lambda _, number: number)[1]
        which, end = rng.randrange(count or 1), rng.choice(ENDS)
        return numbers(answer, lambda index, number: end if index == which else number)[0]

    client = agent.open(twister.url, lease_ms=1000, **OPTIONS)
    client.ping(1000)
    twister.twist = twist
    for answer in try_all(client, "job"):
        assert answer.status != "OK" or 0 <= getattr(answer, "token", 0) < 2**53, answer
        assert answer.message.isprintable()
    assert twister.twisted > 5
    twister.twist = None
    client.close(2000)


@pytest.mark.parametrize("seed", always(*range(12), full=range(12, 300)))
def test_k06_answers_that_were_damaged(agent: Agent, twister: Twister, seed: int) -> None:
    """Cut, twice, with other bytes, of another call."""
    rng = random.Random(seed)
    before = [b""]

    def twist(answer: bytes) -> bytes:
        if rng.random() > 0.2:
            before.append(answer)
            return answer
        at = rng.randrange(len(answer) + 1)
        return rng.choice([answer[:at], answer + answer, answer[:at] + rng.randbytes(3) + answer[at + 3 :], rng.choice(before), rng.randbytes(60)])

    client = agent.open(twister.url, lease_ms=1000, **OPTIONS)
    client.ping(1000)
    twister.twist = twist
    for answer in try_all(client, "job"):
        assert answer.message.isprintable()
    twister.twist = None
    client.close(2000)
