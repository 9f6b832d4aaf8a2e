"""A server that is the wrong one is left at once. The primary behind a name, a service or a proxy is demoted while its connections stay
open: each later call, renewal and wait goes to the new primary within the same attempt. Also: a replica that stays one."""
from __future__ import annotations

import collections
import pathlib
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Client, Lock, until
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


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.WRONG_SERVER, ids=lambda mutant: mutant.number)
def test_wrong_server_mutants(new_server: Make, new_proxy: Make, new_agent: Make, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        for warm in (False, True):
            check(new_server, new_proxy, new_agent(LD_PRELOAD=library), warm)


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
