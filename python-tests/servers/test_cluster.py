"""redis+cluster://: every kind on every primary, waiting, renewal, transactions; slots that move, primaries that change."""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.acl import rights
from harness.agent import Agent, until
from harness.cluster import Cluster, Lone
from harness.kinds import KINDS, sides
from harness.scenarios import RUNNERS, Stage, few, scenarios
from harness.sentinel import ask
from harness.server import Server

Make = Callable[..., Any]
each = pytest.mark.parametrize("kind", ["mutex", *KINDS])
NO_POLLS = {"safety_ms": 60_000}  # a waiter that gets in within seconds got a message: the lease is 30 s
SOON = 10.0


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster() as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    _cluster.flush()
    return _cluster


def names(cluster: Cluster, prefix: str = "n") -> list[str]:
    """One name for each primary."""
    return [cluster.key_of(node, prefix) for node in cluster.primaries()]


# ---- normal operation


def test_slots(cluster: Cluster) -> None:
    """The harness computes slots as the server does; other tests rely on it."""
    for key in ("", "a", "x{y}z", "{a}{b}", "a{}b", "{", "123456789" * 9):
        assert cluster.command("CLUSTER", "KEYSLOT", key, key="x") == cluster.slot(key)


@each
def test_hold_and_give_back(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    client, other = agent.open(cluster), new_agent().open(cluster)
    for name in [*names(cluster), "plain", "with{tag}s", "{a}{b}"]:
        mine, theirs = sides(client, other, kind, name)
        token = mine.acquire(1, 0).ok.token
        assert theirs.acquire(2, 0).status == "BUSY" and mine.inspect().ok.event.token >= token
        assert cluster.command("EXISTS", name, key=name) == 1
        mine.release(1).ok
        assert theirs.acquire(2, 0).ok.token > token
        theirs.release(2).ok


@each
def test_waiters_are_told(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """Without a probe of their own, on every primary."""
    client, other = agent.open(cluster, **NO_POLLS), new_agent().open(cluster, **NO_POLLS)
    for index, name in enumerate(names(cluster)):
        mine, theirs = sides(client, other, kind, name)
        mine.acquire(1, 0).ok
        wait = theirs.start("acquire", 2, -1, thread=index + 1)
        until(lambda: theirs.state(2) == "WAITING")
        node = cluster.owner(name)
        channels = 1 if kind in ("mutex", "fair", "read") else 2
        seen = lambda: len(node.command("PUBSUB", "CHANNELS")) + len(node.command("PUBSUB", "SHARDCHANNELS"))
        until(lambda: seen() >= channels)
        sent = other.counters()["commands"]
        until(lambda: (before := other.counters()["commands"]) and before == other.counters()["commands"] and before >= sent)
        mine.release(1).ok
        wait.answer(SOON).ok
        theirs.release(2).ok


def test_gates_and_latches(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    client, other = agent.open(cluster, **NO_POLLS), new_agent().open(cluster, **NO_POLLS)
    for index, name in enumerate([*names(cluster), "l{tag}"]):
        latch, theirs = client.lock(name, kind="latch"), other.lock(name, kind="latch")
        latch.latch_set(1).ok
        wait = theirs.start("acquire", 2, -1, thread=index + 1)
        until(lambda: theirs.state(2) == "WAITING")
        latch.latch_down(1).ok
        wait.answer(SOON if name != "l{tag}" else 70).ok
        lock, rival = client.lock("gate" + name), other.lock("gate" + name)
        lock.acquire(1, 0).ok
        wait = rival.start("acquire", 2, -1, thread=index + 1)
        until(lambda: rival.state(2) == "WAITING")
        lock.close_gate(60_000).ok
        assert wait.answer(70).status == "GATE_CLOSED" and rival.acquire(3, 0).status == "GATE_CLOSED"
        lock.release(1).ok


def test_renewals_go_to_every_primary(agent: Agent, cluster: Cluster) -> None:
    """Many locks in many slots outlive their leases."""
    client = agent.open(cluster, lease_ms=1500)
    locks = [client.lock(f"kept-{number}") for number in range(300)]
    for lock in locks:
        lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] >= 6 * len(locks))
    assert client.counters()["lost"] == 0 and all(lock.state(1) == "HELD" for lock in locks)
    for lock in locks:
        lock.release(1).ok


def test_multi_locks(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    """In one step if members share a slot, else one by one; all or none in both."""
    client, other = agent.open(cluster), new_agent().open(cluster)
    for members in (["a{s}", "b{s}", "c{s}"], names(cluster, "m")):
        both = client.multi(*(client.lock(name) for name in members))
        before = client.counters()["commands"]
        both.acquire(1, 0).ok
        assert (client.counters()["commands"] - before == 1) == (members[0] == "a{s}")
        assert [other.lock(name).acquire(2, 0).status for name in members] == ["BUSY"] * 3
        both.release(1).ok
        taken = other.lock(members[1])
        taken.acquire(2, 0).ok
        assert both.acquire(1, 0).status == "BUSY"
        assert not any(cluster.command("EXISTS", name, key=name) for name in (members[0], members[2]))
        taken.release(2).ok


def test_transactions(agent: Agent, cluster: Cluster) -> None:
    client = agent.open(cluster)
    for name in names(cluster, "stock"):
        txn = client.txn()
        txn.watch(name).ok
        txn.set(name, "7", -1).ok
        txn.commit().ok
        assert cluster.command("GET", name, key=name) == b"7"
        txn.watch(name).ok
        cluster.command("SET", name, "8", key=name)
        txn.incr(name, 1).ok
        assert txn.commit().status == "CONFLICT"


def test_a_slot_that_goes_ends_a_transaction(agent: Agent, cluster: Cluster) -> None:
    """Between WATCH and the commit: nothing is written, and the next round finds the new owner; also in the submitted form."""
    client = agent.open(cluster)
    txn, primaries = client.txn(), cluster.primaries()
    for number in range(3):
        txn.watch("gone").ok
        source = cluster.owner("gone")
        cluster.migrate(cluster.slot("gone"), primaries[(primaries.index(source) + 1) % 3])
        txn.set("gone", str(number), -1).ok
        answer = txn.commit()
        assert answer.status == "SERVER_LOADING" and answer.retryable, answer
        txn.submit_txn("watch", 7, "gone").ok
        while (event := client.event()).type != "DONE":
            pass
        assert event.status == 0, event
        txn.set("gone", str(number), -1).ok
        txn.commit().ok
        assert cluster.command("GET", "gone", key="gone") == str(number).encode()


@pytest.mark.parametrize("submitted", [False, True])
def test_transactions_find_who_took_over(agent: Agent, submitted: bool) -> None:
    """A client that does nothing else refreshes the map too, when a primary is gone."""
    with Cluster(primaries=3, replicas=1) as own:
        client = agent.open(own)
        txn = client.txn()

        def watches() -> bool:
            if not submitted:
                return bool(txn.watch("a").status == "OK")
            txn.submit_txn("watch", 7, "a").ok
            while (event := client.event()).type != "DONE":
                assert event.type == "LOG"
            return bool(event.status == 0)

        assert watches()
        txn.rollback().ok
        own.owner("a").kill()
        own.until_settled()
        until(watches)
        txn.end_txn()


def test_transactions_find_a_cluster_that_comes_later(agent: Agent) -> None:
    """The first refresh failed: the next call refreshes again."""
    with Lone() as own:
        own.kill()
        txn = agent.open(own).txn()
        assert txn.watch("a").status == txn.watch("a").status == "UNREACHABLE"
        own.start()
        until(lambda: txn.watch("a").status == "OK")
        txn.end_txn()


def test_transactions_stay_in_one_slot(agent: Agent, cluster: Cluster) -> None:
    txn = agent.open(cluster).txn()
    txn.watch("a{s}").ok
    for answer in (txn.watch("other"), txn.get("other", 99), txn.set("other", "1", -1), txn.incr("other", 1)):
        assert answer.status == "INVALID_ARGUMENT" and "{word}" in answer.message, answer
    txn.set("b{s}", "1", -1).ok
    txn.commit().ok
    txn.watch("other").ok  # a round may have another owner
    txn.rollback().ok


# ---- every language


class Stand:
    """A cluster in the role of the scenarios' server. They must not stop it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.unix_url = cluster, cluster.url

    def command(self, *words: str) -> None:
        assert words == ("FLUSHALL",)
        self.cluster.flush()

    def stop(self) -> None:
        self.cluster.flush()


@pytest.mark.timeout(300)  # the first build of Go's runner takes long
@pytest.mark.parametrize("runner", [pytest.param(runner, marks=few(runner)) for runner in RUNNERS])
def test_scenarios(cluster: Cluster, runner: str) -> None:
    """The scenarios of the mutex and of multi-locks: the bindings need nothing but the URL."""
    played = 0
    with Stage(Stand(cluster)) as stage:
        for scenario in scenarios():
            if scenario.kind in ("mutex", "multi") and not scenario.lacking(runner):
                stage.play(scenario, runner)
                played += 1
    assert played > 10


# ---- bad input


def test_a_server_that_is_no_cluster(agent: Agent, redis_server: Server) -> None:
    where = f"redis+cluster://127.0.0.1:{redis_server.port}"
    for answer in (agent.open(where).ping(5000), agent.open(where).lock("x").acquire(1, 5000)):
        assert answer.status == "WRONG_SETUP" and f":{redis_server.port}" in answer.message and "redis://" in answer.message


def test_a_node_is_no_server_of_its_own(agent: Agent, cluster: Cluster) -> None:
    node, name = cluster.primaries()[0], names(cluster)[1]
    answer = agent.open(f"redis://127.0.0.1:{node.port}").lock(name).acquire(1, 0)
    assert answer.status == "WRONG_SETUP" and f":{node.port}" in answer.message and "redis+cluster://" in answer.message


def test_one_database(agent: Agent, cluster: Cluster) -> None:
    assert agent.try_open(cluster.url, db=1).status == "INVALID_OPTION"
    assert agent.try_open(cluster.url + "/1").status == "INVALID_URL"


def test_nobody_there(agent: Agent) -> None:
    answer = agent.open("redis+cluster://127.0.0.1:1,127.0.0.1:2").lock("x").acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "127.0.0.1:" in answer.message


# ---- rights


CLUSTER_RIGHTS = "+cluster|shards +asking +pubsub|shardnumsub +spublish +ssubscribe +sunsubscribe".split()


def allow(cluster: Cluster, *rules: str) -> dict[str, str]:
    """A user on every server with these rights, and the URL for it."""
    for node in cluster.running():
        ask(node, "ACL", "SETUSER", "billing", "reset", "on", ">secret", *rules)
    return {"username": "billing", "password": "secret", "namespace": "billing"}


def test_rights(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    """Those of docs/acl.md and docs/cluster.md suffice, also while a slot moves and beside a foreign waiter."""
    user = allow(cluster, *rights("mutex", "billing").rules(), *CLUSTER_RIGHTS)
    mine, theirs = (one_of.open(cluster, **user).lock("mine") for one_of in (agent, new_agent()))
    key = "billing:mine"
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 2, -1, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    primaries = cluster.primaries()
    source = cluster.owner(key)
    cluster.migrate(cluster.slot(key), primaries[(primaries.index(source) + 1) % 3])
    with cluster.owner(key).client() as foreign:
        foreign.subscribe("redisson_lock__channel:{billing:mine}", command="SSUBSCRIBE")
        mine.release(1).ok
        wait.answer().ok
        theirs.release(2).ok
        assert foreign.message() == (b"redisson_lock__channel:{billing:mine}", b"0")


@pytest.mark.parametrize("right", ["cluster|shards", "pubsub|shardnumsub", "spublish"])
def test_a_right_that_is_missing(agent: Agent, cluster: Cluster, right: str) -> None:
    user = allow(cluster, *rights("mutex", "billing").rules(), *CLUSTER_RIGHTS, "-" + right)
    lock = agent.open(cluster, **user).lock("mine")
    answer = lock.acquire(1, 0)
    if answer.status == "OK":
        answer = lock.release(1)
    assert answer.status == "DENIED" and "secret" not in answer.message, answer
    allow(cluster, "+@all", "~*", "&*")
    cluster.flush()
