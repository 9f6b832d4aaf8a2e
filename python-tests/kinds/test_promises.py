"""Promises of the manual by a second route, where no other test has one. house/promises.md lists both routes of all."""
from __future__ import annotations

import contextlib
import os
import pathlib
from typing import Any, Callable

import pytest

import mutants
from harness.agent import Agent, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster
from harness.etcd import Etcd
from harness.kinds import LEASED, one
from harness.proxy import Proxy
from harness.quorum import Quorum
from harness.sentinel import Watched
from harness.server import Server
from harness.zookeeper import Zookeeper
from harness.zookeeper.fake import FakeZookeeper, Node
from test_replicas import Family, asleep, got, opened
from test_replicas_cluster import replica_of, settle

Make = Callable[..., Any]
PATIENT = {"safety_ms": 60_000, "handover_ms": 1000}


@pytest.fixture
def where(request: pytest.FixtureRequest, engine: str) -> Any:
    """The server of an engine."""
    return "memory:" if engine == "memory" else request.getfixturevalue("redis_server" if engine == "redis" else engine)


# ---- levels.md: replicas


def test_counts_are_not_confirmed_on_a_cluster(agent: Agent) -> None:
    """While the replica sleeps no grant is answered, and counts and releases are. Names in braces."""
    with Cluster(3, 1, 60_000) as cluster:
        settle(cluster)
        client = opened(agent, cluster, "all")
        latch, seats = client.lock("import:{k}", kind="latch"), client.lock("seats:{k}", kind="semaphore")
        latch.latch_set(1).ok
        seats.permits_set(1).ok
        got(seats, 1)
        settle(cluster)
        with asleep(replica_of(cluster, "{k}")):
            latch.latch_down(1).ok
            latch.acquire(1, 0).ok
            seats.release(1).ok
            assert client.lock("mutex:{k}").acquire(1, 0).status == "NOT_REPLICATED"


@pytest.mark.parametrize("kind", ["mutex", *LEASED, "semaphore"])
@pytest.mark.parametrize("name", ["lock", "{lock}"])
def test_too_few_replicas_to_write_for_clients_that_ask_for_none(agent: Agent, new_server: Make, kind: str, name: str) -> None:
    """Default options: the server alone refuses. What it says is told, nothing is left, and the next attempt has it."""
    server = new_server()
    lock = one(agent.open(server), kind, name)
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")
    for wait in (0, 100):
        answer = lock.acquire(1, wait)
        assert answer.status == "NOT_REPLICATED" and name in answer.message
    server.command("CONFIG", "SET", "min-replicas-to-write", "0")
    lock.acquire(1, 5000).ok
    lock.release(1).ok


# ---- waiting.md: in memory


def second_grant(lock: Lock) -> None:
    """Owner 1 has it. On some engines the first grant of a name has one token, and is not handed over."""
    lock.acquire(1, 5000).ok
    lock.release(1).ok
    lock.acquire(1, 5000).ok


@pytest.mark.parametrize("engine", ["redis", "memory", "etcd"])
@pytest.mark.parametrize("name", ["job", "{job}"])
def test_who_waits_behind_the_first_grant_of_a_name(agent: Agent, where: Any, name: str, engine: str) -> None:
    """The limit that docs/waiting.md states: where tokens come from a counter a new one gives one. So the server grants the next time."""
    client = agent.open(where, **PATIENT)
    lock = client.lock(name)
    lock.acquire(1, 5000).ok
    token = lock.token(1).ok.token
    waiting = lock.start("acquire", 2, -1, thread=1)
    until(lambda: client.counters()["waiting"] == 1)
    lock.release(1).ok
    assert waiting.answer().ok.token > token
    assert client.counters()["handovers"] == (1 if engine == "etcd" else 0)
    token, waiting = lock.token(2).ok.token, lock.start("acquire", 3, -1, thread=2)
    until(lambda: client.counters()["waiting"] == 1)
    handed = client.counters()["handovers"]
    lock.release(2).ok
    assert waiting.answer().ok.token > token and client.counters()["handovers"] == handed + 1


@pytest.mark.parametrize("engine", ["etcd", "memory"])
@pytest.mark.parametrize("name", ["job", "{job}"])
def test_an_heir_is_renewed_on_other_engines(agent: Agent, where: Any, name: str, engine: str) -> None:
    """The lock outlives many leases in the second owner's hands."""
    client = agent.open(where, lease_ms=1500 if engine == "etcd" else 600, **PATIENT)
    lock = client.lock(name)
    second_grant(lock)
    waiting = lock.start("acquire", 2, -1, thread=1)
    until(lambda: client.counters()["waiting"] == 1)
    lock.release(1).ok
    token, renewed = waiting.answer().ok.token, client.counters()["renewed"]
    assert client.counters()["handovers"] == 1
    until(lambda: client.counters()["renewed"] >= renewed + 9, 30)
    assert lock.state(2) == "HELD" and lock.token(2).ok.token == token
    lock.release(2).ok


@pytest.mark.parametrize("engine", ["etcd", "memory"])
@pytest.mark.parametrize("name", ["job", "{job}"])
def test_a_lingering_lock_on_another_engine(agent: Agent, new_agent: Make, where: Any, name: str, engine: str) -> None:
    """It is taken up in memory; others see it as taken, and get it when the moment is over."""
    client = agent.open(where, linger_ms=1000, handover_ms=1000)
    lock, other = client.lock(name), agent.open(where).lock(name) if engine == "etcd" else client.lock(name)
    second_grant(lock)
    lock.release(1).ok
    before = client.counters()
    for owner in (1, 2):
        lock.acquire_local(owner).ok
        lock.release(owner).ok
    after = client.counters()
    assert after["handovers"] == before["handovers"] + 2 and after["wire_grants"] == before["wire_grants"]
    if engine == "etcd":
        assert other.acquire(1, 0).status == "BUSY"
        other.acquire(1, 20_000).ok
        other.release(1).ok


@pytest.mark.parametrize("name", ["lock", "{lock}", "a{k}b"])
@pytest.mark.parametrize("kind", ["mutex", *LEASED, "semaphore"])
def test_a_pair_is_two_commands(agent: Agent, new_server: Make, kind: str, name: str) -> None:
    """Default options, every kind: each round trip of an uncontended pair is one script."""
    server = new_server()
    client = agent.open(server)
    lock = one(client, kind, name)
    lock.acquire(1, 0).ok
    lock.release(1).ok

    def commands() -> int:
        lines = server.command("INFO", "commandstats").decode().splitlines()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_eval"))

    before = commands()
    for _ in range(10):
        lock.acquire(1, 0).ok
        lock.release(1).ok
    assert commands() - before == 20


# ---- servers.md: etcd


def test_the_lines_of_names_below_a_name(etcd: Etcd, agent: Agent, new_agent: Make) -> None:
    """stock/7 stands in the line of stock, and so does a key that is made by hand."""
    upper, lower = agent.open(etcd).lock("stock"), new_agent().open(etcd).lock("stock/7")
    lower.acquire(1, 0).ok
    assert upper.acquire(1, 0).status == "BUSY"
    waiting = upper.start("acquire", 1, -1, thread=1)
    until(lambda: len(etcd.keys("stock/")) == 2)
    lower.release(1).ok
    waiting.answer().ok
    upper.release(1).ok
    etcd.call("kv/put", key="stock/by hand", value="")
    assert upper.acquire(1, 0).status == "BUSY"
    etcd.call("kv/deleterange", key="stock/by hand")
    upper.acquire(1, 5000).ok
    upper.release(1).ok


@pytest.mark.parametrize("kind", ["mutex", *LEASED])
@pytest.mark.parametrize("name", ["{job}", "a{job}b"])
def test_few_keys_of_names_in_braces(etcd: Etcd, agent: Agent, kind: str, name: str) -> None:
    """The keys of one acquisition are those of the next."""
    lock = one(agent.open(etcd, lease_ms=30_000), kind, name)
    seen: list[set[str]] = []
    for _ in range(6):
        lock.acquire(1, 5000).ok
        seen.append({key for key in etcd.keys(f"{name}/")})
        lock.release(1).ok
    assert seen[0] and len(set.union(*seen)) <= 2 * len(seen[0])


# ---- servers.md: ZooKeeper


def test_leases_that_the_servers_change(agent: Agent, new_agent: Make) -> None:
    """minSessionTimeout raises a lease: nobody else has the lock when the shorter one would be over, and it is free after the longer one."""
    with Zookeeper("minSessionTimeout=6000") as zookeeper:
        holder, other = new_agent(), agent.open(zookeeper)
        lock = holder.open(zookeeper, lease_ms=1500).lock("job")
        token = lock.acquire(1, 10_000).ok.token
        other.lock("first").acquire(1, 10_000).ok
        holder.kill()
        assert other.lock("job").acquire(1, 2500).status == "TIMED_OUT"
        assert other.lock("job").acquire(1, 30_000).ok.token > token


def test_numbers_of_nodes_at_the_end(agent: Agent) -> None:
    """The number behind 2^31 - 1 is no place in line: the name is UNFIT, and no node is left. Other names go on."""
    with FakeZookeeper() as fake:
        client = agent.open(fake)
        client.lock("other").acquire(1, 5000).ok
        fake.nodes[b"/job"] = Node(b"", 50, 50, 50, 0, made=2**31)
        answer = client.lock("job").acquire(1, 5000)
        assert answer.status == "UNFIT" and "job" in answer.message, answer
        until(lambda: fake.children(b"/job") == [])
        fake.nodes[b"/job"].made = 0
        client.lock("job").acquire(1, 5000).ok
        assert client.lock("other").state(1) == "HELD"


# ---- servers.md: connections


@pytest.mark.full
@pytest.mark.timeout(200)
def test_idle_connections_of_a_client_that_only_waits(new_server: Make, new_proxy: Make, new_agent: Make) -> None:
    """Its calls were many; then one waiter is all it has, over the subscription. Two connections stay, and the waiter hears."""
    server: Server = new_server()
    proxy: Proxy = new_proxy(server)
    client, other = new_agent().open(proxy, safety_ms=60_000), new_agent().open(server, lease_ms=240_000)
    held = other.lock("{held}")
    held.acquire(1, 0).ok
    gate = proxy.up.pause_at("EVAL")
    busy = [client.lock(f"beside {n}").start("acquire", 1, 0, thread=1 + n) for n in range(4)]
    until(lambda: client.counters()["connects"] >= 3, 20)
    gate.open()
    for n, call in enumerate(busy):
        call.answer().ok
        client.lock(f"beside {n}").release(1).ok
    waiting = client.lock("{held}").start("acquire", 1, -1, thread=9)
    until(lambda: client.counters()["waiting"] == 1)
    links = proxy.links
    until(lambda: len([link for link in links if not link.ended.is_set()]) <= 2, 120)
    held.release(1).ok
    waiting.answer().ok


SETUPS: dict[str, Callable[[], Any]] = {
    "one server": Server, "sentinels": lambda: Watched(1, 1), "a cluster": lambda: Cluster(2, 0), "a quorum": lambda: Quorum(3),
    "etcd": Etcd, "zookeeper": Zookeeper,
}  # fmt: skip


def check_close(agent: Agent, new_agent: Make, setup: str) -> None:

    def new(before: set[int]) -> list[str]:
        named = {fd: os.readlink(f"/proc/{agent.pid}/fd/{fd}") for fd in agent.fds() if fd not in before}
        return [what for what in named.values() if not what.startswith("pipe:")]  # of the agent's own threads

    with contextlib.ExitStack() as stack:
        where = SETUPS[setup]()
        stack.callback(getattr(where, "stop", None) or where.close)
        other, before = new_agent().open(where), set(agent.fds())
        other.lock("{busy}").acquire(1, 20_000).ok
        client = agent.open(where)
        held, busy = client.lock("{held}"), client.lock("{busy}")
        held.acquire(1, 20_000).ok
        waits = [busy.start("acquire", owner, -1, thread=owner) for owner in range(1, 4)]
        until(lambda: client.counters()["waiting"] == 3)
        client.close(10_000).ok
        assert {wait.answer().status for wait in waits} == {"CLOSED"}
        until(lambda: set(new(before)) <= {"anon_inode:[eventfd]"})
        assert len(new(before)) <= 3
        client.free().ok
        agent.many([("drop", lock.index) for lock in (held, busy)])
        until(lambda: not new(before))
        other.lock("{held}").acquire(1, 5000).ok


@pytest.mark.parametrize("setup", SETUPS)
def test_what_a_close_leaves(agent: Agent, new_agent: Make, setup: str) -> None:
    """While threads hold and wait: no connection, and three descriptors at most, which go with the client."""
    check_close(agent, new_agent, setup)


@pytest.mark.parametrize("mutant, setup", list(zip(mutants.CLOSED, ("one server", "a cluster", "zookeeper"))), ids=[str(one.number) for one in mutants.CLOSED])
def test_mutant(new_agent: Make, tmp_path: pathlib.Path, mutant: mutants.Mutant, setup: str) -> None:
    with pytest.raises(AssertionError):
        check_close(new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutant))), new_agent, setup)
