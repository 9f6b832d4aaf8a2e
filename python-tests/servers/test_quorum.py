"""redis+quorum://: a mutex on independent servers. Rows G of the fault matrix are in test_faults_quorum.py."""
from __future__ import annotations

import pathlib
import re
import socket
import threading
import time
import urllib.parse
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.acl import rights
from harness.agent import Agent, until
from harness.build import BUILD, ROOT
from harness.fake import LockServer
from harness.quorum import Quorum, url_of
from harness.steps.redisson import old_counter
from harness.server import Server

Make = Callable[..., Any]
CANARY = "s3cret-canary"
PATIENT = {"lease_ms": 180_000, "command_timeout_ms": 20_000}  # the first grant waits for all servers for half of an attempt


@pytest.fixture(scope="module")
def _quorum() -> Iterator[Quorum]:
    with Quorum(5) as servers:
        yield servers


@pytest.fixture
def quorum(_quorum: Quorum) -> Quorum:
    _quorum.flush()
    return _quorum


@pytest.fixture
def new_quorum() -> Iterator[Make]:
    made: list[Quorum] = []

    def make(*arguments: Any) -> Quorum:
        made.append(Quorum(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.stop()


# ---- normal operation


def test_a_grant_is_on_every_server(agent: Agent, quorum: Quorum) -> None:
    for node in quorum.nodes:
        old_counter(node, "lock")
    lock = agent.open(quorum).lock("lock", lease_ms=3000)
    token = lock.acquire(1, 20_000).ok.token
    until(lambda: quorum.held("lock") == 5)
    assert len(set(quorum.holders("lock"))) == 1
    until(lambda: min(quorum.tokens("lock")) > token)  # the block is reserved everywhere
    assert lock.acquire(2, 0).status == "BUSY" and lock.acquire(1, 0).ok.token == token
    lock.release(1).ok
    assert quorum.held("lock") == 5
    lock.release(1).ok
    until(lambda: quorum.held("lock") == 0)
    assert lock.release(1).status == "NOT_HELD"
    assert lock.acquire(1, 0).ok.token > token


def test_others_wait_and_are_woken(quorum: Quorum, new_agent: Make) -> None:
    mine = new_agent().open(quorum).lock("lock")
    theirs = new_agent().open(quorum).lock("lock", safety_ms=60_000)  # they do not probe in time
    token = mine.acquire(1, 0).ok.token
    assert theirs.acquire(1, 0).status == "BUSY"
    wait = theirs.start("acquire", 1, 50_000, thread=1)
    until(lambda: sum(node.command("PUBSUB", "NUMSUB", "redisson_lock__channel:{lock}")[1] for node in quorum.nodes) == 5, 30)
    mine.release(1).ok
    assert wait.answer().ok.token > token
    assert theirs.release(1).status == "OK"


def test_who_waits_stands_in_no_line(quorum: Quorum, new_agent: Make) -> None:
    """A server that knew the waiters could grant the lock alone."""
    mine, theirs = (new_agent().open(quorum).lock("lock") for _ in range(2))
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 1, -1, thread=1)
    until(lambda: theirs.state(1) == "WAITING")
    keys = {key for node in quorum.each("KEYS", "*") for key in node}
    assert keys == {b"lock", b"redisson_lock_token:{lock}", b"dlock_quorum"}
    mine.release(1).ok
    wait.answer().ok
    theirs.release(1).ok


def test_who_may_not_listen_looks_often(new_quorum: Make, new_agent: Make) -> None:
    """No server allows subscriptions: waiters do not sleep for safety_ms, as on one server."""
    quorum = new_quorum(3)
    quorum.each("ACL", "SETUSER", "deaf", "reset", "on", ">" + CANARY, "~*", "&*", "+@all", "-subscribe")
    where = url_of(*quorum.nodes, username="deaf", password=CANARY)
    mine, theirs = (new_agent().open(where, lease_ms=60_000).lock("lock", safety_ms=60_000) for _ in range(2))
    mine.acquire(1, 20_000).ok
    wait = theirs.start("acquire", 1, 100_000, thread=1)
    until(lambda: theirs.state(1) == "WAITING" and all(b"cmdstat_subscribe" in info for info in quorum.each("INFO", "commandstats")))
    mine.release(1).ok
    wait.answer(20).ok
    theirs.release(1).ok


def test_tokens_grow_over_clients_and_hand_over(quorum: Quorum, new_agent: Make) -> None:
    clients = [new_agent().open(quorum) for _ in range(3)]
    locks = [client.lock("lock") for client in clients]
    tokens = []
    for turn in range(60):
        lock = locks[turn % 3]
        tokens.append(lock.acquire(1, 5000).ok.token)
        waits = [lock.start("acquire", owner, 5000, thread=owner) for owner in (2, 3)]
        until(lambda: lock.state(2) == lock.state(3) == "WAITING")
        lock.release(1).ok
        for _ in waits:
            owner = until(lambda: next((owner for owner in (2, 3) if lock.state(owner) == "HELD"), None))
            tokens.append(waits[owner - 2].answer().ok.token)
            lock.release(owner).ok
    assert tokens == sorted(set(tokens))
    assert sum(client.counters()["handovers"] for client in clients) > 20  # in memory, with tokens of one block


def test_renewal_goes_on(agent: Agent, quorum: Quorum) -> None:
    client = agent.open(quorum, lease_ms=3000)
    locks = [client.lock(f"lock {i}") for i in range(200)]
    for lock in locks:
        lock.acquire(1, 20_000).ok
    until(lambda: client.counters()["renewed"] >= 400, 60)
    assert {lock.state(1) for lock in locks} == {"HELD"}
    assert all(quorum.held(f"lock {i}") == 5 for i in range(0, 200, 20))
    assert client.counters()["lost"] == 0


def test_a_server_that_lacks_the_hold_gets_it_again(agent: Agent, quorum: Quorum) -> None:
    for node in quorum.nodes:
        old_counter(node, "lock")
    client = agent.open(quorum, lease_ms=900)
    lock = client.lock("lock")
    token = lock.acquire(1, 20_000).ok.token
    until(lambda: quorum.held("lock") == 5)
    quorum.nodes[0].command("DEL", "lock", "redisson_lock_token:{lock}")
    quorum.nodes[3].command("DEL", "lock")
    until(lambda: quorum.held("lock") == 5)
    assert len(set(quorum.holders("lock"))) == 1 and quorum.tokens("lock")[0] > token
    assert lock.state(1) == "HELD" and client.counters()["lost"] == 0


def test_not_from_somebody_else(agent: Agent, quorum: Quorum) -> None:
    lock = agent.open(quorum, lease_ms=900).lock("lock")
    lock.acquire(1, 20_000).ok
    until(lambda: quorum.held("lock") == 5)
    for node in quorum.nodes[:2]:
        node.command("DEL", "lock")
        node.command("HSET", "lock", "somebody:1", "1")
    renewed = agent.open(quorum).lock("other")  # time passes by what the first client does
    renewed.acquire(1, 0).ok
    until(lambda: all(node.command("PTTL", "lock") > 700 for node in quorum.nodes[2:]))
    assert quorum.holders("lock")[:2] == [b"somebody:1"] * 2 and lock.state(1) == "HELD"


def test_lost_when_too_many_lack_it(agent: Agent, quorum: Quorum) -> None:
    client = agent.open(quorum, lease_ms=900)
    lock = client.lock("lock")
    lock.acquire(1, 20_000).ok
    until(lambda: quorum.held("lock") == 5)
    for node in quorum.nodes[:3]:
        node.command("DEL", "lock")
    event = client.event()
    assert (event.type, event.cause) == ("LOST", "TAKEN") and lock.state(1) == "LOST"
    until(lambda: quorum.held("lock") == 0)  # the rest is released


# ---- other operations


def test_extend_force_and_inspect(quorum: Quorum, new_agent: Make) -> None:
    mine, theirs = (new_agent().open(quorum).lock("lock", lease_ms=2000) for _ in range(2))
    token = mine.acquire(1, 0).ok.token
    mine.extend(1, 50_000).ok
    until(lambda: min(quorum.each("PTTL", "lock")) > 40_000)
    event = theirs.inspect().ok.event
    assert event.text == quorum.holders("lock")[0].decode() and event.waiters == -1 and event.remaining > 40_000
    assert event.token >= token
    theirs.force().ok
    until(lambda: quorum.held("lock") == 0)
    assert theirs.force().status == "NOT_HELD"
    assert mine.extend(1, 60_000).status == "LOST" and mine.state(1) == "LOST"
    assert theirs.acquire(1, 0).ok.token > token


def test_inspect_of_another_kind(quorum: Quorum, new_agent: Make) -> None:
    lock = new_agent().open(quorum).lock("lock")
    quorum.each("SET", "lock", "3")
    assert lock.inspect().status == "WRONG_KIND"


def test_gates(quorum: Quorum, new_agent: Make) -> None:
    mine, theirs = (new_agent().open(quorum).lock("lock", safety_ms=200) for _ in range(2))
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 1, -1, thread=1)
    until(lambda: theirs.state(1) == "WAITING")
    mine.close_gate(60_000).ok
    assert wait.answer().status == "GATE_CLOSED" and theirs.acquire(1, 0).status == "GATE_CLOSED"
    mine.release(1).ok
    assert mine.acquire(1, 0).status == "GATE_CLOSED" and quorum.held("lock") == 0
    mine.open_gate().ok
    assert mine.open_gate().status == "UNCHANGED"
    theirs.acquire(1, 0).ok


def test_export_and_adopt(quorum: Quorum, new_agent: Make) -> None:
    mine, theirs = (new_agent().open(quorum).lock("lock", lease_ms=3000) for _ in range(2))
    token = mine.acquire(1, 0).ok.token
    grant = urllib.parse.unquote_to_bytes(mine.export(1, 600).ok.grant)
    assert theirs.adopt(7, grant).ok.token == token and mine.state(1) == "NONE"
    theirs.release(7).ok
    until(lambda: quorum.held("lock") == 0)


def test_multi_locks(quorum: Quorum, new_agent: Make) -> None:
    client, other = new_agent().open(quorum), new_agent().open(quorum)
    both = client.multi(client.lock("a"), client.lock("b"))
    other.lock("b").acquire(1, 0).ok
    assert both.acquire(1, 0).status == "BUSY"
    until(lambda: quorum.held("a") == 0)
    other.agent("release", 0, 1)
    both.acquire(1, 3000).ok
    assert quorum.held("a") >= 3 and quorum.held("b") >= 3
    both.release(1).ok


@pytest.mark.parametrize("kind", ["fair", "read", "write", "semaphore", "permit_semaphore", "latch"])
def test_other_kinds_are_refused(agent: Agent, quorum: Quorum, kind: str) -> None:
    answer = agent.open(quorum).new("lock", kind)
    assert answer.status == "UNSUPPORTED" and "on a quorum of servers there are mutexes" in answer.message


def test_transactions_are_refused(agent: Agent, quorum: Quorum) -> None:
    answer = agent("txn", agent.open(quorum).index)
    assert answer.status == "UNSUPPORTED" and "there are no transactions" in answer.message


# ---- bad input


def refused(agent: Agent, url: str, **options: Any) -> str:
    answer = agent.try_open(url, password=CANARY, **options)
    assert answer.status == "INVALID_QUORUM" and CANARY not in answer.message
    return str(answer.message)


def test_numbers_that_are_no_quorum(agent: Agent) -> None:
    assert "127.0.0.1:1" in refused(agent, "redis+quorum://127.0.0.1:1")
    assert "odd number" in refused(agent, "redis+quorum://a:1,b:1")
    assert "names 4" in refused(agent, "redis+quorum://a:1,b:1,c:1,d:1")
    assert "name every server once" in refused(agent, "redis+quorum://a:1,b:1,A:1")
    assert "b:6379 twice" in refused(agent, "redis+quorum://a,b,c,b:6379")
    assert "names 16" in refused(agent, "redis+quorum://" + ",".join(f"h{i}" for i in range(16)))
    for number in (1, 2, 6):
        assert "from 3 to 5" in refused(agent, "redis+quorum://a,b,c,d,e", quorum=number)
    assert agent.try_open("redis+quorum://a,b,c,d,e/3?quorum=4", password=CANARY).status == "OK"


def test_urls_that_are_none(agent: Agent) -> None:
    for url in ("redis+quorum://", "redis+quorum://a,,b", "redis+quorum://a,b:0,c", "redis+quorum://a,b,c/x"):
        assert agent.try_open(url).status == "INVALID_URL"
    for option in ("quorum=3", "quorum_name=x"):
        assert agent.try_open(f"redis://a?{option}").status == "INVALID_OPTION"
    assert agent.try_open("redis+quorum://a,b,c?quorum_name=two%20words").status == "INVALID_OPTION"


def test_one_server_by_two_names(agent: Agent, quorum: Quorum) -> None:
    first, second, third = quorum.nodes[:3]
    where = f"redis+quorum://127.0.0.1:{first.port},127.0.0.1:{second.port},localhost:{first.port}"
    lock = agent.open(where, **PATIENT).lock("lock")
    answer = lock.acquire(1, 30_000)
    assert answer.status == "INVALID_QUORUM" and f"localhost:{first.port}" in answer.message
    assert "are one server: name every server once" in answer.message
    until(lambda: quorum.held("lock") == 0)
    another = agent.open(url_of(first, second, third), **PATIENT).lock("lock")
    assert "another view of the quorum" in another.acquire(1, 30_000).message


def test_shards_of_a_cluster(agent: Agent, quorum: Quorum, new_server: Make) -> None:
    shard: Server = new_server("--cluster-enabled", "yes")
    while shard.port > 55_000:  # the other shards' port is 10,000 higher
        shard = new_server("--cluster-enabled", "yes")
    lock = agent.open(url_of(*quorum.nodes[:2], shard), **PATIENT).lock("lock")
    answer = lock.acquire(1, 30_000)
    assert answer.status == "INVALID_QUORUM" and f"{shard.port} is a shard of a cluster" in answer.message
    until(lambda: quorum.held("lock") == 0)


def test_a_server_that_comes_back_is_asked_again(agent: Agent, new_quorum: Make) -> None:
    """The server was gone when it was asked for its quorum, in vain: this is known before its next vote."""
    quorum = new_quorum(3)
    lock = agent.open(quorum).lock("lock")

    def have_it() -> None:
        lock.acquire(1, 20_000).ok
        lock.release(1).ok

    have_it()
    quorum.nodes[2].kill()
    for _ in range(10):
        have_it()
    quorum.nodes[2].start()
    while b"cmdstat_hset" not in quorum.nodes[2].command("INFO", "commandstats"):
        have_it()
    until(lambda: None not in (names := set(quorum.each("GET", "dlock_quorum"))) and len(names) == 1)


NAMED = {"quorum_name": "locks", **PATIENT}


@pytest.mark.parametrize("others", ((3, 4), (1, 3)), ids=("one in common", "two in common"))
def test_one_name_of_two_sets(new_agent: Make, quorum: Quorum, others: tuple[int, int]) -> None:
    """A name does not make one quorum of two: their majorities need not have a server in common. Who came first goes on.
    The first votes wait until each server has been told of the others: one in common must not answer late."""
    first, second = ([quorum.nodes[i] for i in (0, *some)] for some in ((1, 2), others))
    mine = new_agent().open(url_of(*first), **NAMED).lock("lock")
    mine.acquire(1, 30_000).ok
    theirs = new_agent().open(url_of(*second), **NAMED).lock("lock")
    answer = theirs.acquire(1, 30_000)
    assert answer.status == "INVALID_QUORUM" and "locks of other servers" in answer.message, answer
    assert f"127.0.0.1:{quorum.nodes[0].port}" in answer.message and theirs.state(1) == "NONE"
    assert mine.state(1) == "HELD"
    mine.release(1).ok
    again = new_agent().open(url_of(*first), **NAMED).lock("lock")
    again.acquire(1, 30_000).ok
    again.release(1).ok


def test_the_server_in_common_is_slow(new_agent: Make, new_proxy: Make, quorum: Quorum) -> None:
    """The others alone could grant. Their first votes wait until this one has been told of them, too."""
    new_agent().open(url_of(*quorum.nodes[:3]), **NAMED).lock("lock").acquire(1, 30_000).ok
    proxy, others = new_proxy(quorum.nodes[0]), quorum.nodes[3:]
    ids = [re.search(rb"run_id:(\w+)", node.command("INFO", "server"))[1] for node in others]  # type: ignore[index]
    gate = proxy.up.pause_at(ids[0])
    theirs = new_agent().open(url_of(proxy, *others), **NAMED).lock("lock")
    answer = theirs.start("acquire", 1, 30_000)
    gate.wait()
    until(lambda: all(ids[1 - i] in node.command("GET", "dlock_quorum") for i, node in enumerate(others)))
    gate.open()
    assert answer.answer().status == "INVALID_QUORUM"


def test_one_set_by_two_names(new_agent: Make, quorum: Quorum) -> None:
    here, there = url_of(*quorum.nodes[:3]), url_of(*quorum.nodes[:3]).replace("127.0.0.1", "localhost")
    locks = [new_agent().open(url, **NAMED).lock("lock") for url in (here, there, here)]
    for lock in locks:
        lock.acquire(1, 30_000).ok
        assert quorum.held("lock") >= 2
        lock.release(1).ok


def test_a_named_quorum_whose_servers_are_replaced(new_agent: Make, new_quorum: Make) -> None:
    """Empty servers with other run ids, one after the other. A client that was there tells those that come."""
    quorum = new_quorum(3)
    lock = new_agent().open(quorum, **NAMED).lock("lock")
    lock.acquire(1, 30_000).ok
    lock.release(1).ok
    for node in quorum.nodes:
        before = node.command("INFO", "server")
        node.kill()
        node.start()
        assert node.command("INFO", "server").split(b"run_id:")[1][:40] != before.split(b"run_id:")[1][:40]
        until(lambda: lock.acquire(1, 30_000).status == "OK")
        lock.release(1).ok
        until(lambda: b"cmdstat_hset" in node.command("INFO", "commandstats"))
        later = new_agent().open(quorum, **NAMED).lock("lock")
        later.acquire(1, 30_000).ok
        later.release(1).ok


def test_a_server_that_is_another_one_each_time(new_agent: Make, quorum: Quorum) -> None:
    """The others are told of each server that is new. One that is new in each answer is not queried as fast as it answers."""
    known = threading.Lock()
    times: list[float] = []

    def join(link: socket.socket, words: list[bytes]) -> bytes:
        with known:
            times.append(time.monotonic())
            return b"*5\r\n$40\r\n%040x\r\n:0\r\n$%d\r\n%s\r\n:%d\r\n:9\r\n" % (len(times), len(words[4]), words[4], time.time_ns() // 1000)

    with LockServer() as fake:
        fake.say("join", join)
        lock = new_agent().open(url_of(*quorum.nodes[:2], fake), quorum_name="locks", lease_ms=600).lock("lock")
        until(lambda: lock.acquire(1, 5000).status == "OK")
        until(lambda: fake.asked["renew"] >= 8)
        renewals, queries, seconds = fake.asked["renew"], len(times), times[-1] - times[0]
        assert lock.state(1) == "HELD"
        lock.release(1).ok
    assert 3 < queries < 20 + 3 * renewals + 3 * seconds


def test_passwords(agent: Agent, new_quorum: Make) -> None:
    quorum = new_quorum(3, "--requirepass", CANARY)
    good, bad = url_of(*quorum.nodes, password=CANARY), url_of(*quorum.nodes, password="wrong")
    answer = agent.open(bad).lock("lock").acquire(1, 0)
    assert answer.status == "DENIED" and answer.message.count("denied") >= 2 and CANARY not in answer.message
    assert "wrong" not in answer.message
    lock = agent.open(good).lock("lock")
    lock.acquire(1, 0).ok
    lock.release(1).ok


def test_the_rights_that_docs_acl_names(new_quorum: Make, new_agent: Make) -> None:
    quorum = new_quorum(3)
    rules = [*rights("mutex", "billing").rules(), "+info", "~dlock_quorum:billing"]
    where = url_of(*quorum.nodes, username="billing", password=CANARY, namespace="billing")
    quorum.each("ACL", "SETUSER", "billing", "reset", "on", ">" + CANARY, "resetchannels", "-@all", *rules)
    clients = [new_agent().open(where, lease_ms=1500) for _ in range(2)]
    mine, theirs = (client.lock("lock") for client in clients)
    mine.acquire(1, 20_000).ok
    until(lambda: quorum.held("billing:lock") == 3)
    quorum.nodes[0].command("DEL", "billing:lock")
    until(lambda: quorum.held("billing:lock") == 3)
    wait = theirs.start("acquire", 1, 20_000, thread=1)
    until(lambda: theirs.state(1) == "WAITING")
    mine.release(1).ok
    wait.answer().ok
    theirs.release(1).ok
    assert quorum.each("ACL", "LOG") == [[], [], []]
    for right in ("-info", "resetkeys"):
        quorum.each("ACL", "SETUSER", "billing", right)
        answer = new_agent().open(where).lock("lock").acquire(1, 0)
        assert answer.status == "DENIED" and CANARY not in answer.message


# ---- the binding


def test_python(quorum: Quorum) -> None:
    import dlock

    with dlock.Client(quorum.url, lease_ms=3000) as client, client.lock("lock") as lock:
        assert lock.token > 0 and quorum.held("lock") >= 3
        with pytest.raises(dlock.Unsupported):
            client.fair_lock("other")
    until(lambda: quorum.held("lock") == 0)
    with pytest.raises(dlock.InvalidQuorum):
        dlock.Client("redis+quorum://a,b")


@mutants.each(mutants.SETS)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(200)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, timeout=60, agents=True)
