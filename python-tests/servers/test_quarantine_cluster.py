"""quarantine_ms on a cluster: a marker in each slot. test_quarantine.py tests the scripts.

A slot is in quarantine for the longest lease when its marker is gone or was written by another server: after a failover, a restart, a
flush, and after the slot moved. Provisioning writes all 16,384 markers.
"""
from __future__ import annotations

import time
from typing import Any, Callable, Iterator

import pytest

from harness.acl import rights
from harness.agent import Agent, Client, until
from harness.cluster import SLOTS, Cluster, slot_of
from harness.faults import SLACK_MS, times
from harness.kinds import LEASED, one
from harness.sentinel import ask
from test_replicas import HOLDS, Turns, got
from test_replicas_cluster import Stale, knows, settle

LONGEST = 1500  # ms: the longest lease here
CLUSTER_RIGHTS = ("+cluster|shards", "+asking", "+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe")
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(3, 0, 60_000) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    _cluster.flush()
    return _cluster


def opened(agent: Agent, cluster: Cluster, provision: bool = True, **options: Any) -> Client:
    client = agent.open(cluster, **{"lease_ms": LONGEST, "quarantine_ms": LONGEST, "command_timeout_ms": 10_000, "connect_timeout_ms": 10_000, **options})
    if provision:
        client.provision(60_000, timeout=90).ok
    return client


def reached(acquire: Callable[[], Any], *again: str) -> Any:
    """The answer; a busy machine, or one that has just started, may be late."""
    answers: list[Any] = []
    until(lambda: answers.append(acquire()) or answers[-1].status not in ("UNREACHABLE", "SERVER_LOADING", *again), 60)
    return answers[-1]


def granted(lock: Any) -> Any:
    return reached(lambda: lock.acquire(1, 20_000, timeout=60)).ok


def marker(cluster: Cluster, key: str) -> str:
    cluster.key(0)
    return f"dlock_memory:{{{cluster.keys[slot_of(key)]}}}"


def told(cluster: Cluster, key: str, field: str) -> bytes | None:
    found: bytes | None = cluster.command("HGET", marker(cluster, key), field, key=key)
    return found


def other_than(cluster: Cluster, key: str) -> Any:
    return next(node for node in cluster.primaries() if node is not cluster.owner(key))


# ---- provisioning


def test_a_new_cluster_is_quarantined_until_it_is_provisioned(agent: Agent, cluster: Cluster, capsys: Any) -> None:
    """Every slot gets its marker, on the server that owns the slot; it takes seconds at most."""
    client = opened(agent, cluster, provision=False)
    locks = [client.lock(f"first{i}") for i in range(20)]
    for lock in locks[:10]:
        answer = reached(lambda: lock.acquire(1, 0))
        assert answer.status == "QUARANTINED" and answer.retryable and "ms" in answer.message
    memory = [int(ask(node, "INFO", "memory").split(b"used_memory:")[1].split()[0]) for node in cluster.primaries()]
    began = time.monotonic()
    client.provision(-1, timeout=90).ok
    took = time.monotonic() - began
    more = sum(int(ask(node, "INFO", "memory").split(b"used_memory:")[1].split()[0]) for node in cluster.primaries()) - sum(memory)
    with capsys.disabled():
        print(f"\n{SLOTS} markers in {took:.1f} s, {more / 1e6:.1f} MB in all")
    for lock in locks:
        lock.acquire(1, 0).ok
    assert sum(cluster.all("DBSIZE")) == SLOTS + 40  # and a lock with its token each
    for slot in (0, 1, 5461, 8192, SLOTS - 1):
        assert told(cluster, cluster.key(slot), "longest") == str(LONGEST).encode()
    assert took < 60
    for lock in locks:
        lock.release(1).ok


def test_waiters_wait_it_out(agent: Agent, cluster: Cluster) -> None:
    lock = opened(agent, cluster, provision=False).lock("patience")
    assert reached(lambda: lock.acquire(1, 50), "TIMED_OUT").status == "QUARANTINED"  # connecting may take as long
    before = told(cluster, "patience", "until")
    assert before is not None and lock.acquire(2, -1).ok.token > int(before) * 1000
    assert told(cluster, "patience", "until") == before
    lock.release(2).ok


def test_provisioning_in_the_background(agent: Agent, cluster: Cluster) -> None:
    client = opened(agent, cluster, provision=False)
    client.submit_provision(7, 60_000).ok
    event = client.event(90)
    assert event.type == "DONE" and event.tag == 7 and event.status == 0
    client.lock("submitted").acquire(1, 0).ok
    client.submit_provision(8, 60_000).ok
    client.close(60_000).ok


def test_connections_that_break_do_not_end_it(agent: Agent, cluster: Cluster) -> None:
    """Each server closes the client's connections once while its slots are written."""
    client = opened(agent, cluster)
    before = client.counters()["connects"]
    cut = 0
    client.submit_provision(9, 60_000).ok
    for node in cluster.primaries():
        cut += ask(node, "CLIENT", "KILL", "TYPE", "normal")
    event = client.event(90)
    while event.type != "DONE":
        event = client.event(90)
    assert event.status == 0 and cut > 0
    client.lock("cut").acquire(1, 5000).ok
    assert client.counters()["connects"] > before


def test_a_server_that_is_down_is_not_provisioned(agent: Agent) -> None:
    with Cluster(3, 0, 60_000) as up:
        client = opened(agent, up, provision=False, connect_timeout_ms=500)
        gone = up.nodes[1]
        client.lock("known").acquire(1, 0)
        gone.kill()
        answer = client.provision(2000, timeout=60)
        assert answer.status == "UNREACHABLE" and str(gone.port) in answer.message


def test_one_longest_lease(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    opened(agent, cluster).lock("one").acquire(1, 0).ok
    stranger = opened(new_agent(), cluster, provision=False, quarantine_ms=2 * LONGEST)
    answer = stranger.lock("two").acquire(1, 0)
    assert answer.status == "LEASE_REFUSED" and str(LONGEST) in answer.message and str(2 * LONGEST) in answer.message


@pytest.mark.parametrize("kind", LEASED)
def test_every_kind_with_a_lease(agent: Agent, cluster: Cluster, kind: str) -> None:
    lock = one(opened(agent, cluster, False), kind, "kind")
    until(lambda: lock.acquire(1, 0).status == "QUARANTINED")  # at first there may be no map in time
    lock.acquire(1, 20_000).ok
    lock.release(1).ok


def test_multi_locks(agent: Agent, cluster: Cluster) -> None:
    """In one step if they share a slot, and one by one."""
    client = opened(agent, cluster, False)
    for names in (("{m}1", "{m}2"), ("m1", "m2", "m3")):
        both = client.multi(*(client.lock(name) for name in names))
        until(lambda: both.acquire(1, 0).status == "QUARANTINED")
        assert not any(cluster.command("EXISTS", name, key=name) for name in names)
        both.acquire(1, 30_000, timeout=60).ok
        both.release(1).ok


def test_with_just_the_rights(agent: Agent, cluster: Cluster) -> None:
    more = ("+info", "+hmget", "+hset", "+hget", "+time", "~dlock_memory:{[0-9]*}:billing")
    for node in cluster.nodes:
        rules = [*rights("mutex", "billing").rules(), *CLUSTER_RIGHTS, *more]
        ask(node, "ACL", "SETUSER", "billing", "reset", "on", ">word", "resetchannels", "-@all", *rules)
    lock = opened(agent, cluster, namespace="billing", username="billing", password="word").lock("just")
    lock.acquire(1, 0).ok
    lock.release(1).ok


# ---- D-09, D-10: a server forgets


def overlaps(agent: Agent, new_agent: Make, cluster: Cluster, lose: Callable[[], Any], rounds: int, **options: Any) -> int:
    """How often somebody was granted the lock while its holder could not know of its loss."""
    both, options = 0, {"renew": "no", "command_timeout_ms": 1000, **options}
    mine = opened(agent, cluster, "quarantine_ms" not in options, **options).lock("memory")
    theirs = opened(new_agent(), cluster, False, **options).lock("memory")
    for _ in range(rounds):
        token = granted(mine).token
        lose()
        assert granted(theirs).token > token
        both += mine.state(1) in HOLDS
        mine.release(1)
        theirs.release(1).ok
    return both


@pytest.mark.parametrize("rounds", times(1, 3, soak=15))
@pytest.mark.parametrize("how", ["flush", "restart"])
def test_d10_a_server_of_a_cluster_forgets(agent: Agent, new_agent: Make, how: str, rounds: int) -> None:
    """Without the quarantine two hold, with it nobody does; the slots of other servers are not in quarantine."""
    with Cluster(3, 0, 60_000) as up:
        victim = up.owner("memory")
        runs = {victim.pid}

        def forget() -> None:
            if how == "flush":
                ask(victim, "FLUSHALL")
            else:
                victim.restart()
                up.until_settled()
                runs.add(victim.pid)
            assert ask(victim, "EXISTS", "memory") == 0

        assert overlaps(agent, new_agent, up, forget, rounds) == 0
        other = next(name for name in (f"other{i}" for i in range(99)) if up.owner(name) is not victim)
        granted(opened(new_agent(), up, False).lock(other))
        assert len(runs) == (1 if how == "flush" else rounds + 1)
        control = {"quarantine_ms": 0, "lease_ms": 30_000}
        assert overlaps(agent, new_agent, up, forget, rounds, **control) == rounds


def test_who_holds_goes_on(agent: Agent, cluster: Cluster) -> None:
    client = opened(agent, cluster)
    lock = client.lock("kept")
    token = lock.acquire(1, 0).ok.token
    cluster.command("HSET", marker(cluster, "kept"), "epoch", "another", key="kept")
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 5, 20)
    assert lock.state(1) == "HELD" and lock.token(1).ok.token == token
    lock.release(1).ok


# ---- slots that move


@pytest.mark.parametrize("rounds", times(1, 2, soak=5))
def test_a_slot_that_moved_is_quiet_once(agent: Agent, new_agent: Make, cluster: Cluster, rounds: int) -> None:
    """Holders go on; nobody is granted anything there for the longest lease; then it works as before."""
    client, others = opened(agent, cluster), opened(new_agent(), cluster, False)
    held, lock = client.lock("held{moves}"), others.lock("free{moves}")
    token = held.acquire(1, 0).ok.token
    lock.acquire(1, 0).ok
    lock.release(1).ok
    for _ in range(rounds):
        cluster.migrate(slot_of("{moves}"), other_than(cluster, "{moves}"))
        assert lock.acquire(1, 0).status == "QUARANTINED"
        over = told(cluster, "{moves}", "until")
        assert over is not None and lock.acquire(1, 20_000).ok.token > int(over) * 1000
        lock.release(1).ok
        lock.acquire(1, 0).ok
        lock.release(1).ok
    assert held.state(1) == "HELD" and held.token(1).ok.token == token
    held.release(1).ok


def test_a_slot_that_moved_is_provisioned(agent: Agent, cluster: Cluster) -> None:
    client = opened(agent, cluster, quarantine_ms=60_000)
    lock = client.lock("{provisioned}")
    cluster.migrate(slot_of("{provisioned}"), other_than(cluster, "{provisioned}"))
    assert lock.acquire(1, 0).status == "QUARANTINED"
    client.provision(60_000, timeout=90).ok
    lock.acquire(1, 0).ok
    lock.release(1).ok


def test_half_way(agent: Agent, cluster: Cluster) -> None:
    """The marker is on the other side, or the lock is: nobody is granted anything with half of the keys."""
    client = opened(agent, cluster, command_timeout_ms=300)
    lock, mark = client.lock("{way}"), marker(cluster, "{way}")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    slot, target = slot_of("{way}"), other_than(cluster, "{way}")
    with cluster.moving(slot, target) as (source, target):
        ask(source, "MIGRATE", target.host, target.port, mark, 0, 5000)
        assert ask(source, "CLUSTER", "COUNTKEYSINSLOT", slot) > 0
        refused = until(lambda: (status := lock.acquire(1, 0).status) != "UNREACHABLE" and status)  # a busy cluster may miss a node
        assert refused in ("SERVER_LOADING", "QUARANTINED")
        wait = lock.start("acquire", 2, -1, thread=1)
    over = until(lambda: told(cluster, "{way}", "until") not in (None, b"0") and told(cluster, "{way}", "until"))
    assert wait.answer(60).ok.token > int(over) * 1000
    lock.release(2).ok


# ---- failovers: the replica is stale


@pytest.mark.full
@pytest.mark.parametrize("rounds", times(1, 3))
@pytest.mark.parametrize("lease", [8000])
def test_e02_a_stale_replica_and_a_quarantine(new_agent: Make, rounds: int, lease: int) -> None:
    """It takes over without the lock, while the holder holds it, and grants it to nobody before the holder has lost it. The control is
    test_e01_on_a_cluster_without_confirmation_two_hold.
    """
    early = 0
    with Cluster(3, 1, 1000) as cluster:
        stale = Stale(cluster, "mine")
        mine = opened(new_agent(), cluster, True, renew="no", lease_ms=lease, quarantine_ms=lease).lock("mine")
        theirs = opened(new_agent(), cluster, False, lease_ms=lease, quarantine_ms=lease).lock("mine")
        for _ in range(rounds):
            settle(cluster)
            got(mine, 1)
            mine.release(1).ok
            nodes = stale.cut()
            token = got(mine, 1).token
            assert not knows(nodes[1], "mine")
            stale.take_over(*nodes)
            until(lambda: theirs.acquire(1, 0).status == "QUARANTINED", 30)
            early += mine.state(1) in HOLDS
            answers: list[Any] = []
            until(lambda: answers.append(theirs.acquire(1, 20_000, timeout=60)) or answers[-1].status == "OK", 90)
            assert mine.state(1) == "LOST" and answers[-1].token > token
            mine.release(1)
            theirs.release(1).ok
            stale.mend(*nodes)
    assert early > 0  # it was requested while it was held


@pytest.mark.parametrize("rounds", times(1, 2, soak=5))
def test_e12_it_takes_the_failover_and_the_quarantine(new_agent: Make, rounds: int) -> None:
    """From the moment when the new primary serves, not longer than the longest lease and the drift."""
    late = []
    with Cluster(3, 1, 1000) as cluster:
        settle(cluster)
        lock = opened(new_agent(), cluster, command_timeout_ms=500).lock("back")
        for _ in range(rounds):
            lock.acquire(1, 20_000, timeout=60).ok
            lock.release(1).ok
            cluster.failover(cluster.owner("back"))
            since = time.monotonic()
            until(lambda: lock.acquire(1, 20_000, timeout=60).status == "OK", 60)
            late.append(time.monotonic() - since)
            lock.release(1).ok
            assert told(cluster, "back", "until") not in (None, b"0")
    assert max(late) <= LONGEST / 1000 * 1.01 + 1 + SLACK_MS / 100, late


@pytest.mark.parametrize("count", times(1, 2, 900, 20))
def test_e12_failovers_with_replicas_and_quarantine(new_agent: Make, count: int) -> None:
    """L2q under load: everybody has turns after each ordered failover, and tokens grow for each process."""
    with Cluster(3, 1, 1000) as cluster:
        settle(cluster)
        clients = [opened(new_agent(), cluster, False, lease_ms=2000, quarantine_ms=2000, command_timeout_ms=500, replicas="all") for _ in range(3)]
        clients[0].provision(60_000, timeout=90).ok
        failovers = 0
        with Turns([client.lock("load") for client in clients]) as turns:
            for _ in range(count):
                turns.progress()
                before = cluster.owner("load")
                cluster.failover(before)
                failovers += cluster.owner("load") is not before
            turns.progress()
        assert failovers == count and not turns.errors
