"""A server that is the wrong one is left at once. The primary behind a name, a service or a proxy is demoted while its connections stay
open: each later call, renewal and wait goes to the new primary within the same attempt. Also: a replica that stays one."""
from __future__ import annotations

import collections
import pathlib
import urllib.parse
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.fake import LockServer
from harness.proxy import Proxy
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]


class Pair:
    """A primary behind a proxy, and its replica."""

    def __init__(self, new_server: Make, new_proxy: Make) -> None:
        self.old, self.new = (new_server("--repl-diskless-sync-delay", "0") for _ in range(2))
        self.new.command("REPLICAOF", "127.0.0.1", self.old.port)
        until(lambda: b"master_link_status:up" in self.new.command("INFO", "replication"))
        self.proxy: Proxy = new_proxy(self.old)

    def swap(self) -> None:
        """What was written has arrived. The old one keeps its connections."""
        self.old.command("SET", "swapped", 1)  # WAIT is about the writes of its own connection, and what came before them
        assert self.old.command("WAIT", 1, 20_000) == 1
        self.new.command("REPLICAOF", "NO", "ONE")
        self.proxy.target = ("127.0.0.1", self.new.port)
        self.old.command("REPLICAOF", "127.0.0.1", self.new.port)
        until(lambda: b"master_link_status:up" in self.old.command("INFO", "replication"))


def renewals(client: Client, count: int) -> None:
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + count, 12)


def check(new_server: Make, new_proxy: Make, agent: Any, warm: bool) -> None:
    pair = Pair(new_server, new_proxy)
    client = agent.open(pair.proxy, lease_ms=3000)
    held: Lock = client.lock("held")
    held.acquire(1, 0).ok
    if warm:
        renewals(client, 1)
    pair.swap()
    lock = client.lock("other")
    assert lock.acquire(1, 0).status == "OK"  # at the first attempt
    assert pair.new.command("EXISTS", "other") == 1
    assert lock.release(1).status == "OK"
    renewals(client, 3)
    assert held.state(1) == "HELD" and client.counters()["lost"] == 0
    assert held.release(1).status == "OK"
    tell(done=1, fired=1)


@pytest.mark.parametrize("warm", (False, True), ids=("cold", "warm"))
def test_calls_and_renewals_go_on(new_server: Make, new_proxy: Make, new_agent: Make, warm: bool) -> None:
    check(new_server, new_proxy, new_agent(), warm)


def test_a_waiter_stays_in_line_and_hears(new_server: Make, new_proxy: Make, new_agent: Make) -> None:
    """safety_ms is longer than the test: only a message wakes the waiter, over a subscription at the new primary."""
    pair = Pair(new_server, new_proxy)
    holder, waiter = (new_agent().open(pair.proxy, lease_ms=20_000, safety_ms=60_000) for _ in range(2))
    held, waits = holder.lock("line"), waiter.lock("line")
    held.acquire(1, 0).ok
    call = waits.start("acquire", 1, 60_000, thread=1)
    until(lambda: pair.old.command("ZCARD", "dlock_queue:{line}") > 0)
    pair.swap()
    waiter.lock("another").acquire(2, 0).ok  # this call notices
    until(lambda: pair.new.command("PUBSUB", "CHANNELS", "dlock_client:*"))
    assert pair.new.command("ZCARD", "dlock_queue:{line}") > 0
    held.release(1).ok
    assert call.answer(30).status == "OK"
    tell(done=1, fired=1)


def ends(client: Client, count: int) -> collections.Counter[int]:
    """With which status so many calls ended."""
    answers: list[int] = []
    while len(answers) < count:
        event = client.event()
        if event.type != "LOG":
            answers.append(event.status)
    return collections.Counter(answers)


def test_a_submitted_call_is_sent_again(new_server: Make, new_proxy: Make, new_agent: Make) -> None:
    """Many calls in flight on the shared connection, in batches, too: each gets its answer from the new primary."""
    pair = Pair(new_server, new_proxy)
    client = new_agent().open(pair.proxy, lease_ms=20_000)
    locks = [client.lock(f"many {n}") for n in range(40)]
    for lock in locks:
        lock.submit_acquire(1, 5000, 1).ok
    assert ends(client, 40) == {0: 40}
    pair.swap()
    for lock in locks:
        lock.submit_release(1, 2).ok
    assert ends(client, 40) == {0: 40}
    assert not [lock for lock in range(40) if pair.new.command("EXISTS", f"many {lock}")]
    tell(done=1, fired=1)


KINDS = ("mutex", "fair", "read", "write", "semaphore", "permit_semaphore")


def prepare(lock: Lock, kind: str, call: str) -> None:
    if "semaphore" in kind:
        lock.permits_set(5).ok
    if kind == "latch":
        lock.latch_set(3).ok
    elif call != "acquire":
        lock.acquire(1, 0).ok


FIRST: list[tuple[str, str, tuple[Any, ...]]] = [
    *((kind, "acquire", (1, 0)) for kind in KINDS),
    *((kind, "release", (1,)) for kind in KINDS),
    *((kind, "extend", (1, 30_000)) for kind in KINDS if kind != "semaphore"),
    *((kind, "inspect", ()) for kind in ("mutex", "fair")),
    *((kind, "close_gate", (1000,)) for kind in KINDS),
    ("mutex", "force", ()),
    ("mutex", "export", (1, 600)),
    *((kind, "permits_add", (1,)) for kind in ("semaphore", "permit_semaphore")),
    *((kind, "permits", ()) for kind in ("semaphore", "permit_semaphore")),
    ("semaphore", "permits_drain", ()),
    ("semaphore", "permits_reclaim", (0,)),
    ("latch", "latch_down", (1,)),
    ("latch", "latch_set", (4,)),
    ("latch", "latch_count", ()),
    ("latch", "acquire", (1, 0)),
    ("latch", "close_gate", (1000,)),
]


def check_first(new_server: Make, new_proxy: Make, agent: Agent, first: list[tuple[str, str, tuple[Any, ...]]]) -> None:
    """Each call is the first one of a client that has only connections to the old server."""
    pair = Pair(new_server, new_proxy)
    calls = []
    for at, (kind, call, words) in enumerate(first):
        lock: Lock = agent.open(pair.proxy, lease_ms=60_000).lock(f"first {at}", kind=kind)
        lock.inspect()
        prepare(lock, kind, call)
        calls.append((kind, call, getattr(lock, call), words))
    pair.swap()
    said = {(kind, call): do(*words).status for kind, call, do, words in calls}
    usual = {("latch", "acquire"): "BUSY", ("latch", "latch_set"): "UNCHANGED"}
    assert said == {(kind, call): usual.get((kind, call), "OK") for kind, call, _ in first}
    tell(done=len(said), fired=len(said))


def test_each_call_is_the_first_that_meets_it(new_server: Make, new_proxy: Make, new_agent: Make) -> None:
    check_first(new_server, new_proxy, new_agent(), FIRST)


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.WRONG_SERVER, ids=lambda mutant: mutant.number)
def test_wrong_server_mutants(new_server: Make, new_proxy: Make, new_agent: Make, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        check_first(new_server, new_proxy, new_agent(LD_PRELOAD=library), FIRST[:1])  # before a renewal can meet the refusal
        for warm in (False, True):
            check(new_server, new_proxy, new_agent(LD_PRELOAD=library), warm)


def test_a_grant_is_adopted_from_the_new_server(new_server: Make, new_proxy: Make, new_agent: Make) -> None:
    pair = Pair(new_server, new_proxy)
    giver, taker = (new_agent().open(pair.proxy, lease_ms=60_000).lock("given") for _ in range(2))
    token = giver.acquire(1, 0).ok.token
    taker.inspect().ok
    grant = urllib.parse.unquote_to_bytes(giver.export(1, 600).ok.grant)
    pair.swap()
    assert taker.adopt(2, grant).ok.token == token
    tell(done=1, fired=1)


def commit(client: Client, value: str) -> str:
    txn = client.txn()
    txn.watch("key").ok
    txn.set("key", value, -1).ok
    status: str = txn.commit().status
    txn.end_txn()
    return status


def submit(client: Client, value: str) -> str:
    """The same with events."""
    txn = client.txn()

    def step(*words: Any) -> Any:
        txn.submit_txn(*words).ok
        while (event := client.event()).tag != 7:
            pass
        return event

    assert step("watch", 7, "key").status == 0
    txn.set("key", value, -1).ok
    event = step("commit", 7)
    txn.end_txn()
    return {0: "OK", -305: "SERVER_READ_ONLY"}.get(event.status, str(event.status))


def check_transactions(new_server: Make, new_proxy: Make, agent: Agent, once: Callable[[Client, str], str] = commit) -> None:
    """Several connections wait for another round. The first commit is refused, as its reads were of the old server. Then none is used again."""
    pair = Pair(new_server, new_proxy)
    client = agent.open(pair.proxy)
    rounds = [client.txn() for _ in range(6)]
    for txn in rounds:
        txn.watch("key").ok
    for txn in rounds:
        txn.rollback().ok
    pair.swap()
    assert [once(client, str(i)) for i in range(8)] == ["SERVER_READ_ONLY", *["OK"] * 7]
    assert pair.new.command("GET", "key") == b"7"
    tell(done=1, fired=1)


@pytest.mark.parametrize("once", (commit, submit), ids=("blocking", "submitted"))
def test_transactions_leave_it(new_server: Make, new_proxy: Make, new_agent: Make, once: Callable[[Client, str], str]) -> None:
    check_transactions(new_server, new_proxy, new_agent(), once)


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.LEFT_BY_TRANSACTIONS, ids=lambda mutant: mutant.number)
def test_transactions_mutants(new_server: Make, new_proxy: Make, new_agent: Make, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        check_transactions(new_server, new_proxy, new_agent(LD_PRELOAD=library))


def test_transactions_hear_of_it_from_locks(new_server: Make, new_proxy: Make, new_agent: Make) -> None:
    """One that only reads is never refused. It leaves the old server because a lock has left it."""
    pair = Pair(new_server, new_proxy)
    client = new_agent().open(pair.proxy)
    assert commit(client, "old") == "OK"
    client.lock("before").acquire(1, 0).ok
    pair.swap()
    pair.old.command("REPLICAOF", "127.0.0.1", 1)  # it hears of nothing any more
    pair.new.command("SET", "key", "new")
    client.lock("lock").acquire(1, 0).ok
    txn = client.txn()
    txn.watch("key").ok
    assert txn.get("key", 100).ok.value == b"new".hex()
    tell(done=1, fired=1)


def test_a_replica_that_stays_one(new_server: Make, new_agent: Make) -> None:
    """The URL names a replica for good: the answer says so, and the client connects at most once a second."""
    primary, replica = new_server(), new_server()
    replica.command("REPLICAOF", "127.0.0.1", primary.port)
    until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"))
    client = new_agent().open(replica)
    lock = client.lock("read only")
    for _ in range(200):
        answer = lock.acquire(1, 0)
        assert answer.status == "SERVER_READ_ONLY" and answer.retryable, answer
    assert client.counters()["connects"] < 50
    tell(done=1, fired=200)


@pytest.mark.parametrize("words", (b"LOADING Redis is loading the dataset in memory", b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", b"READONLY You can't write against a read only replica."))
def test_replies_that_mean_another_server(new_agent: Make, words: bytes) -> None:
    with LockServer() as fake:
        client = new_agent().open(fake, connects_per_second=1000)
        lock = client.lock("fake")
        lock.acquire(1, 0).ok
        before = client.counters()["connects"]
        fake.say("release", b"-" + words + b"\r\n")
        lock.release(1)
        assert client.counters()["connects"] > before
        tell(done=1, fired=1)
