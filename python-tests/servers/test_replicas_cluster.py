"""replicas=N|all on a cluster: a grant counts when so many replicas of the slot's primary have it. For rows E without a cluster see
test_replicas.py.
"""
from __future__ import annotations

import pathlib
import re
import threading
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.acl import rights
from harness.agent import Agent, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster, Node, slot_of
from harness.faults import times
from harness.kinds import LEASED, one
from harness.sentinel import ask
from test_replicas import HOLDS, LEASE, Turns, asleep, got, opened

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    """Nobody takes over because a server sleeps."""
    with Cluster(3, 1, 60_000) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    settle(_cluster)
    _cluster.flush()
    return _cluster


def settle(cluster: Cluster) -> None:
    """Returns when replicas are in sync, and acknowledge."""
    cluster.until_settled()
    for primary in cluster.primaries():
        with primary.client() as redis:
            redis.command("SET", cluster.key_of(primary), "1", "PX", 1)
            until(lambda: redis.command("WAIT", 1, 1000) == 1, 30)


def replica_of(cluster: Cluster, key: str) -> Node:
    return cluster.replica_of(cluster.owner(key))


def knows(node: Node, key: str) -> bool:
    """Whether a replica has the lock."""
    return key.encode() in ask(node, "CLUSTER", "GETKEYSINSLOT", slot_of(key), 100)


# ---- normal operation


def test_a_quorum_has_no_replicas(agent: Agent, cluster: Cluster) -> None:
    nodes = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:3])
    answer = agent.try_open(f"redis+quorum://{nodes}", replicas=1)
    assert answer.status == "UNSUPPORTED" and "votes" in answer.message


@pytest.mark.parametrize("many", [1, "all"])
def test_a_grant_is_on_the_replica(agent: Agent, cluster: Cluster, many: int | str) -> None:
    client = opened(agent, cluster, many)
    for turn in range(12):
        name = f"confirmed{turn}"
        lock = client.lock(name)
        got(lock, 1)
        assert knows(replica_of(cluster, name), name)
        lock.release(1).ok


@pytest.mark.parametrize("kind", LEASED)
def test_every_kind(agent: Agent, cluster: Cluster, kind: str) -> None:
    lock = one(opened(agent, cluster, 1), kind, "kind")
    got(lock, 1)
    assert knows(replica_of(cluster, "kind"), "kind")
    lock.release(1).ok
    with asleep(replica_of(cluster, "kind")):
        assert lock.acquire(1, 0).status == "NOT_REPLICATED"
    got(lock, 1)
    lock.release(1).ok


def test_multi_locks(agent: Agent, cluster: Cluster) -> None:
    """In one step if they share a slot, and one by one."""
    client = opened(agent, cluster, 1)
    for names in (("{m}1", "{m}2"), ("m1", "m2", "m3")):
        both = client.multi(*(client.lock(name) for name in names))
        got(both, 1)
        assert all(knows(replica_of(cluster, name), name) for name in names)
        both.release(1).ok
        with asleep(replica_of(cluster, names[1])):
            assert both.acquire(1, 0).status == "NOT_REPLICATED"
        until(lambda: not any(cluster.command("EXISTS", name, key=name) for name in names))


def test_turns_of_processes(new_agent: Make, cluster: Cluster) -> None:
    locks = [opened(new_agent(), cluster, 1).lock("turns") for _ in range(3)]
    tokens: list[int] = []

    def turn(lock: Lock) -> None:
        for _ in range(15):
            tokens.append(got(lock, 1).token)
            lock.release(1, timeout=30).ok

    threads = [threading.Thread(target=turn, args=[lock]) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 45 and tokens == sorted(set(tokens))


def test_with_just_the_rights(agent: Agent, cluster: Cluster) -> None:
    more = ("+wait", "+cluster|shards", "+asking", "+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe")
    for node in cluster.nodes:
        rules = [*rights("mutex", "billing").rules(), *more]
        ask(node, "ACL", "SETUSER", "billing", "reset", "on", ">word", "resetchannels", "-@all", *rules)
    lock = opened(agent, cluster, "all", namespace="billing", username="billing", password="word").lock("just")
    got(lock, 1)
    lock.release(1).ok
    for node in cluster.nodes:
        ask(node, "ACL", "SETUSER", "billing", "-wait")
    answer = lock.acquire(1, 0)
    assert answer.status == "DENIED" and "WAIT" in answer.message
    until(lambda: cluster.command("EXISTS", "billing:just", key="billing:just") == 0)


# ---- E-03: a short answer leaves nothing behind


@pytest.mark.parametrize("many", [1, "all"])
@pytest.mark.parametrize("rounds", times(2, 6))
def test_e03_short_on_a_cluster(agent: Agent, cluster: Cluster, many: int | str, rounds: int) -> None:
    """The error names the node, with the numbers; slots of others are not affected."""
    client = opened(agent, cluster, many)
    lock = client.lock("short")
    other = client.lock(next(name for name in (f"other{i}" for i in range(99)) if cluster.owner(name) is not cluster.owner("short")))
    got(lock, 1)
    lock.release(1).ok
    for turn in range(rounds):
        with asleep(replica_of(cluster, "short")):
            answer = lock.acquire(1, 2000 * (turn % 2))
            assert answer.status == "NOT_REPLICATED" and answer.retryable
            said = "(0 of 1|no answer from 1) replicas of 127.0.0.1:"  # a busy server may be late with its "0"
            assert re.search(f"{said}{cluster.owner('short').port}", answer.message), answer
            until(lambda: cluster.command("EXISTS", "short", key="short") == 0)
            assert lock.state(1) == "NONE"
            other.acquire(2, 0).ok
            other.release(2).ok
        got(lock, 1)
        lock.release(1).ok
    assert client.counters()["lost"] == 0


# ---- slots that move


def test_it_is_the_one_who_answers(agent: Agent, cluster: Cluster) -> None:
    """MOVED in the middle of a call, and ASK for moving keys: the replica of the server that granted counts."""
    client = opened(agent, cluster, 1)
    replica = {primary: cluster.replica_of(primary) for primary in cluster.primaries()}
    held = client.lock("held{moves}")
    token = got(held, 1).token
    for turn in range(3):
        name = f"{turn}{{moves}}"
        lock, source = client.lock(name), cluster.owner("{moves}")
        target = next(node for node in cluster.primaries() if node is not source)
        cluster.migrate(cluster.slot("{moves}"), target)
        with asleep(replica[source]):
            got(lock, 1)
            assert knows(replica[target], name)
        lock.release(1).ok
        with asleep(replica[target]):
            answer = lock.acquire(1, 0)
            assert answer.status == "NOT_REPLICATED" and f":{target.port} " in answer.message
        before = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] > before)
    assert held.state(1) == "HELD" and held.token(1).ok.token == token


def test_e01_a_failover_while_a_slot_moves(new_agent: Make) -> None:
    """A held lock stays where its replicas know it, although it is touched, and is held over the failover. The limit: a new lock is on the
    slot's new server only. The replica that takes over from the old one does not know that the slot moves, and grants it again.
    """
    with Cluster(2, 1, 60_000) as cluster:
        settle(cluster)
        clients = [new_agent().open(cluster, replicas="all", lease_ms=20_000, command_timeout_ms=2000) for _ in range(2)]
        (mine, my_new), (theirs, their_new) = ((client.lock("{k}"), client.lock("{k}new")) for client in clients)
        got(mine, 1)
        slot, source = slot_of("{k}"), cluster.owner("{k}")
        target = next(node for node in cluster.primaries() if node is not source)
        ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        answer = theirs.acquire(2, 0)
        assert answer.status == "SERVER_LOADING" and "replicas" in answer.message and knows(source, "{k}"), answer
        got(my_new, 1)
        assert knows(target, "{k}new") and their_new.acquire(2, 0).status == "BUSY"
        heir = cluster.replica_of(source)
        until(lambda: cluster.order(heir, "TAKEOVER"))
        until(lambda: cluster.owners(heir)[slot] is heir)
        again = "BUSY" if f"[{slot}->-".encode() in ask(heir, "CLUSTER", "NODES") else "OK"
        until(lambda: theirs.acquire(2, 0).status == "BUSY")  # not sooner than the client knows who took over
        assert mine.state(1) == "HELD" and their_new.acquire(2, 0).status == again and my_new.state(1) == "HELD"


def test_half_way(agent: Agent, cluster: Cluster) -> None:
    """The keys of a held lock are on the other side already: it is renewed and confirmed there."""
    client = opened(agent, cluster, 1, lease_ms=1500)
    lock = client.lock("half{way}")
    token = got(lock, 1).token
    source = cluster.owner("{way}")
    target = next(node for node in cluster.primaries() if node is not source)
    with cluster.moving(cluster.slot("{way}"), target) as (source, target):
        cluster.move_keys(cluster.slot("{way}"), source, target)
        before = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= before + 3, 20)
        assert lock.state(1) in HOLDS and knows(cluster.replica_of(target), "half{way}")
        with asleep(cluster.replica_of(target)):
            until(lambda: lock.state(1) == "LOST", 20)
    assert lock.token(1).status != "OK" or lock.token(1).token == token
    lock.release(1)


# ---- renewals


@pytest.mark.parametrize("rounds", times(1, 4))
def test_renewals_that_are_not_confirmed_do_not_count(agent: Agent, cluster: Cluster, rounds: int) -> None:
    """Only those of the primary whose replica sleeps."""
    client = opened(agent, cluster, 1, lease_ms=1800)
    lock = client.lock("renewed")
    other = client.lock(next(name for name in (f"other{i}" for i in range(99)) if cluster.owner(name) is not cluster.owner("renewed")))
    got(other, 2)
    for _ in range(rounds):
        got(lock, 1)
        before = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= before + 4)
        with asleep(replica_of(cluster, "renewed")):
            told = []
            until(lambda: told.append(client.event()) or told[-1].type == "LOST", 30)
            assert [event.type for event in told if event.lock_id == lock.id] == ["AT_RISK", "LOST"]
            assert lock.state(1) == "LOST" and other.state(2) in HOLDS
        lock.release(1)
    assert client.counters()["lost"] == rounds
    other.release(2).ok


def test_many_locks_of_many_slots(agent: Agent, cluster: Cluster) -> None:
    """More renewals are in flight than there are connections."""
    client = opened(agent, cluster, 1, lease_ms=3000)
    locks = [client.lock(f"many{i}") for i in range(60)]
    for lock in locks:
        got(lock, 1)
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 180, 30)
    assert all(lock.state(1) == "HELD" for lock in locks) and client.counters()["lost"] == 0


# ---- E-05: all


def test_e05_all_is_what_the_cluster_knows(agent: Agent) -> None:
    """A replica that is down still counts. So does the old primary after a failover, until it is back."""
    with Cluster(3, 1, 1000) as cluster:
        settle(cluster)
        client = opened(agent, cluster, "all")
        lock = client.lock("all")
        got(lock, 1)
        lock.release(1).ok
        gone = replica_of(cluster, "all")
        gone.kill()
        answer = lock.acquire(1, 0)
        assert answer.status == "NOT_REPLICATED" and "0 of 1" in answer.message
        gone.start()
        cluster.until_settled()
        got(lock, 1)
        lock.release(1).ok
        first = cluster.owner("all")
        first.kill()
        until(lambda: cluster.owner("all") is not first, 30)
        until(lambda: lock.acquire(1, 0).status == "NOT_REPLICATED", 30)
        first.start()
        cluster.until_settled()
        got(lock, 1)
        lock.release(1).ok


def test_e05_the_cluster_forgets_a_former_primary(agent: Agent) -> None:
    """CLUSTER FORGET at every server is the remedy for clients that run, too. A replica that joins counts at once."""
    with Cluster(3, 1, 1000) as cluster:
        settle(cluster)
        lock = opened(agent, cluster, "all").lock("all")
        got(lock, 1)
        lock.release(1).ok
        first = cluster.owner("all")
        former = first.id
        first.kill()
        until(lambda: cluster.owner("all") is not first, 30)
        until(lambda: lock.acquire(1, 0).status == "NOT_REPLICATED", 30)
        now = cluster.owner("all")
        for node in cluster.running():
            ask(node, "CLUSTER", "FORGET", former)
        spare = next(node for node in cluster.running() if node not in cluster.primaries())
        assert b"connected_slaves:0" in cluster.command("INFO", "replication", key="all")
        ask(spare, "CLUSTER", "REPLICATE", now.id)
        until(lambda: lock.acquire(1, 0).status == "OK", 30)
        lock.release(1).ok
        with asleep(spare):
            assert lock.acquire(1, 0).status == "NOT_REPLICATED"


# ---- E-02: the primary dies before its replica has the grant


class Stale:
    """Clusters in which the replica of a key's primary takes over without the last writes."""

    def __init__(self, cluster: Cluster, key: str) -> None:
        self.cluster, self.key = cluster, key

    def cut(self) -> tuple[Node, Node]:
        """The replica gets nothing any more. Returns its primary, and the replica."""
        primary = self.cluster.owner(self.key)
        replica = self.cluster.replica_of(primary)
        ask(replica, "CONFIG", "SET", "masteruser", "nobody")
        ask(replica, "CONFIG", "SET", "masterauth", "nothing")
        ask(primary, "CLIENT", "KILL", "TYPE", "replica")
        until(lambda: b"master_link_status:down" in ask(replica, "INFO", "replication"))
        until(lambda: b"connected_slaves:0" in ask(primary, "INFO", "replication"))
        return primary, replica

    def take_over(self, primary: Node, replica: Node) -> None:
        primary.kill()
        until(lambda: self.cluster.owners(replica)[self.cluster.slot(self.key)] is replica, 30)
        for node in self.cluster.running():
            until(lambda: self.cluster.owners(node).get(self.cluster.slot(self.key)) is replica, 30)
            until(lambda: b"cluster_state:ok" in ask(node, "CLUSTER", "INFO"))

    def mend(self, primary: Node, replica: Node) -> None:
        ask(replica, "CONFIG", "SET", "masteruser", "")
        ask(replica, "CONFIG", "SET", "masterauth", "")
        primary.start()
        settle(self.cluster)


def double_grants(new_agent: Make, rounds: int, **options: Any) -> tuple[int, int]:
    """How often two held the lock, and how often nobody was granted it before."""
    overlaps = refused = 0
    with Cluster(3, 1, 1000) as cluster:
        stale = Stale(cluster, "mine")
        settle(cluster)
        mine = new_agent().open(cluster, **{"renew": "no", "lease_ms": 20_000, **options}).lock("mine")
        theirs = new_agent().open(cluster, lease_ms=20_000, **{name: value for name, value in options.items() if name != "replicas"}).lock("mine")
        for _ in range(rounds):
            got(mine, 1)
            mine.release(1).ok
            nodes = stale.cut()
            first = mine.acquire(1, 0)
            if first.status == "OK":
                assert not knows(nodes[1], "mine")
            stale.take_over(*nodes)
            until(lambda: theirs.acquire(1, 20_000, timeout=60).status == "OK", 90)
            overlaps += mine.state(1) in HOLDS
            refused += first.status == "NOT_REPLICATED"
            mine.release(1)
            theirs.release(1).ok
            stale.mend(*nodes)
    return overlaps, refused


@pytest.mark.parametrize("rounds", times(1, 2))
def test_e01_on_a_cluster_without_confirmation_two_hold(new_agent: Make, rounds: int) -> None:
    """The control: the overlap of a failover with a stale replica."""
    assert double_grants(new_agent, rounds) == (rounds, 0)


@pytest.mark.parametrize("rounds", times(1, 4))
def test_e02_on_a_cluster_it_was_never_granted(new_agent: Make, rounds: int) -> None:
    assert double_grants(new_agent, rounds, replicas=1) == (0, rounds)


# ---- E-12: failovers under load


@pytest.mark.parametrize("count", times(1, 2, 900, 20))
def test_e12_failovers_on_a_cluster(new_agent: Make, count: int) -> None:
    """Ordered failovers: everybody has turns after each, tokens grow for each process."""
    with Cluster(3, 1, 1000) as cluster:
        settle(cluster)
        clients: list[Client] = [new_agent().open(cluster, lease_ms=2000, command_timeout_ms=500, replicas="all") for _ in range(3)]
        failovers = 0
        with Turns([client.lock("load") for client in clients]) as turns:
            for _ in range(count):
                turns.progress()
                before = cluster.owner("load")
                cluster.failover(before)
                failovers += cluster.owner("load") is not before
            turns.progress()
        assert failovers == count and not turns.errors


# ---- mutants


def test_what_a_replica_that_sleeps_does_not_confirm(agent: Agent, cluster: Cluster) -> None:
    """mutants.REPLICAS and mutants.CLUSTER_REPLICAS break it."""
    lock = opened(agent, cluster, 1, renew="no").lock("asleep")
    for _ in range(2):
        got(lock, 1)
        lock.release(1).ok
    with asleep(replica_of(cluster, "asleep")):
        assert lock.acquire(1, 0).status == "NOT_REPLICATED"
    got(lock, 1)
    settle(cluster)
    with asleep(replica_of(cluster, "asleep")):
        assert lock.extend(1, 10_000).status == "NOT_REPLICATED"
    lock.release(1)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.CLUSTER_REPLICAS, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, new_agent: Make, cluster: Cluster, tmp_path: pathlib.Path) -> None:
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutant)))
    with pytest.raises(AssertionError, match="'OK' == 'NOT_REPLICATED'"):
        test_what_a_replica_that_sleeps_does_not_confirm(agent, cluster)
