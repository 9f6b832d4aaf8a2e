"""dlock_client_check and the option checks on a cluster and on a quorum: each server is inspected, and findings name it.

test_check.py has the findings on one server.
"""
from __future__ import annotations

import os
from typing import Any, Callable, Iterator

import pytest

from harness.acl import rights
from harness.agent import Agent, Client, now, until
from harness.build import LIBRARY
from harness.cluster import Cluster, Node
from harness.quorum import Quorum, Skewed
from harness.sentinel import ask
from harness.server import Server

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

WARNING, DANGER = 1, 2
LOG = ("--appendonly", "yes")
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(3, 1, 1000, *LOG) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Iterator[Cluster]:
    _cluster.until_settled()
    yield _cluster
    for node in _cluster.nodes:
        for name, value in {"maxmemory-policy": "noeviction", "maxmemory": "0", "appendonly": "yes"}.items():
            ask(node, "CONFIG", "SET", name, value)
        ask(node, "ACL", "SETUSER", "less", "off")


@pytest.fixture(scope="module")
def _quorum() -> Iterator[Quorum]:
    with Quorum(3, *LOG) as up:
        yield up


@pytest.fixture
def quorum(_quorum: Quorum) -> Iterator[Quorum]:
    yield _quorum
    _quorum.each("CONFIG", "SET", "maxmemory-policy", "noeviction")
    _quorum.each("ACL", "SETUSER", "less", "off")


def look(client: Client, timeout_ms: int = 10_000) -> dict[tuple[int, str], tuple[int, str]]:
    """(port, name) of each finding: severity and sentence."""
    answer = client.check(timeout_ms).ok
    assert answer.count == len(answer.findings)
    found = {}
    for name, severity, text in answer.findings:
        place, sentence = text.split(": ", 1)
        assert place.startswith("127.0.0.1:")
        found[int(place.rsplit(":", 1)[1]), name] = severity, sentence
    assert len(found) == answer.count
    return found


# ---- a cluster


def usual(cluster: Cluster) -> dict[tuple[int, str], int]:
    """Each primary has a replica, and no grant waits for replicas."""
    return {(node.port, "REPLICAS"): WARNING for node in cluster.primaries()}


def found(client: Client) -> dict[tuple[int, str], int]:
    return {what: severity for what, (severity, _) in look(client).items()}


def test_each_server_of_a_cluster(agent: Agent, cluster: Cluster) -> None:
    client = agent.open(cluster, command_timeout_ms=5000)
    before = [ask(node, "DBSIZE") for node in cluster.nodes]
    assert found(client) == usual(cluster) == found(client)
    until(lambda: [ask(node, "DBSIZE") for node in cluster.nodes] == before)
    for node in cluster.nodes:
        ask(node, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        assert found(client) == {**usual(cluster), (node.port, "EVICTION"): DANGER}
        ask(node, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        ask(node, "CONFIG", "SET", "appendonly", "no")
        assert found(client) == {**usual(cluster), (node.port, "PERSISTENCE"): WARNING}
        ask(node, "CONFIG", "SET", "appendonly", "yes")


def test_rights_on_each_server_of_a_cluster(agent: Agent, cluster: Cluster) -> None:
    """One server lacks one right: the finding names the server and the command."""
    for turn, node in enumerate(cluster.nodes):
        for one in cluster.nodes:
            ask(one, "ACL", "SETUSER", "less", "reset", "on", ">word", "~*", "&*", "+@all")
        right = ("hincrby", "zadd", "get")[turn % 3]
        ask(node, "ACL", "SETUSER", "less", "-" + right)
        client = agent.open(cluster, username="less", password="word", command_timeout_ms=5000)
        said = look(client)
        assert {what: severity for what, (severity, _) in said.items()} == {**usual(cluster), (node.port, "COMMAND_DENIED"): DANGER}
        assert right.upper() in said[node.port, "COMMAND_DENIED"][1]
        ask(node, "ACL", "SETUSER", "less", "-@all")
        answer = client.check(10_000)
        assert answer.status == "DENIED" and f"127.0.0.1:{node.port}" in answer.message
        client.close(5000).ok


def test_just_the_rights_on_a_cluster(agent: Agent, cluster: Cluster) -> None:
    """Those of docs/acl.md for a mutex, for checks and for a cluster."""
    more = ("+info", "+cluster|shards", "+asking", "+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe")
    for node in cluster.nodes:
        rules = [*rights("mutex", "billing").rules(), *more]
        ask(node, "ACL", "SETUSER", "less", "reset", "on", ">word", "resetchannels", "-@all", *rules)
    client = agent.open(cluster, username="less", password="word", namespace="billing", command_timeout_ms=5000)
    assert found(client) == usual(cluster)


def test_a_command_that_one_server_lacks(agent: Agent) -> None:
    with Cluster(1, 1) as small:
        replica = small.replica_of(small.nodes[0])
        replica.options += ("--rename-command", "ZADD", "")
        replica.restart()
        small.until_settled()
        said = look(agent.open(small, quarantine_ms=0, command_timeout_ms=5000))
        assert said[replica.port, "COMMAND_MISSING"] == (DANGER, said[replica.port, "COMMAND_MISSING"][1])
        assert "ZADD" in said[replica.port, "COMMAND_MISSING"][1] and (small.nodes[0].port, "COMMAND_MISSING") not in said


def test_a_server_of_a_cluster_is_full(agent: Agent, cluster: Cluster) -> None:
    node = cluster.primaries()[1]
    ask(node, "SET", cluster.key_of(node), "x" * 1_000_000)
    ask(node, "CONFIG", "SET", "maxmemory", "1")
    said = look(agent.open(cluster, command_timeout_ms=5000))
    assert said[node.port, "WRITE_REFUSED"][0] == DANGER and "OOM" in said[node.port, "WRITE_REFUSED"][1]


def test_a_server_of_a_cluster_is_silent(agent: Agent) -> None:
    """It hides no finding of the others, and is a finding itself; if no server answers the check fails."""
    with Cluster(3, 0, 60_000, *LOG) as up:
        client = agent.open(up, command_timeout_ms=1000, connect_timeout_ms=1000)
        lock = client.lock(up.key_of(up.nodes[0]))
        lock.acquire(1, 5000).ok
        ask(up.nodes[2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        up.nodes[1].pause()
        said = look(client, 3000)
        assert {what: severity for what, (severity, _) in said.items()} == {
            (up.nodes[1].port, "NO_ANSWER"): WARNING, (up.nodes[2].port, "EVICTION"): DANGER}  # fmt: skip
        up.nodes[1].resume()
        for node in up.nodes:
            node.kill()
        assert client.check(2000).status == "UNREACHABLE"


def test_the_option_on_a_cluster(agent: Agent, cluster: Cluster) -> None:
    node = cluster.replica_of(cluster.primaries()[2])
    assert agent.try_open(cluster, checks="refuse", command_timeout_ms=5000).status == "OK"
    ask(node, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    answer = agent.try_open(cluster, checks="refuse", command_timeout_ms=5000)
    assert answer.status == "UNFIT" and f"127.0.0.1:{node.port}: " in answer.message and "volatile-lru" in answer.message
    client = agent.open(cluster, checks="warn", command_timeout_ms=5000)
    texts = [client.event().text for _ in range(4)]
    assert sum(f"{node.port}: " in text and "volatile-lru" in text for text in texts) == 1
    assert all(any(f":{one.port}: " in text for text in texts) for one in cluster.primaries())


def test_a_look_at_a_cluster_in_the_background(agent: Agent, cluster: Cluster) -> None:
    client = agent.open(cluster, command_timeout_ms=5000)
    for tag in range(5):
        client.submit_check(tag, 10_000).ok
    seen = sorted((event.tag, event.type, event.value) for event in (client.event() for _ in range(5)))
    assert seen == [(tag, "DONE", 3) for tag in range(5)]
    client.submit_check(9, 10_000).ok
    client.close(5000).ok


def test_python_on_a_cluster(cluster: Cluster) -> None:
    with dlock.Client(cluster.url) as client:
        assert sorted(finding.name for finding in client.check()) == ["REPLICAS"] * 3


def test_a_slot_that_moves_and_a_failover(agent: Agent, cluster: Cluster) -> None:
    """The check covers the current servers."""
    client = agent.open(cluster, command_timeout_ms=5000)
    assert found(client) == usual(cluster)
    before = usual(cluster)
    cluster.failover(cluster.primaries()[0])
    assert usual(cluster) != before
    until(lambda: found(client) == usual(cluster), 20)


# ---- a quorum


def test_each_server_of_a_quorum(agent: Agent, quorum: Quorum) -> None:
    client = agent.open(quorum, command_timeout_ms=5000)
    assert look(client) == {}
    for node in quorum.nodes:
        node.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        said = look(client)
        assert list(said) == [(node.port, "EVICTION")] and "allkeys-lfu" in said[node.port, "EVICTION"][1]
        assert agent.try_open(quorum.url, checks="refuse", command_timeout_ms=5000).status == "UNFIT"
        node.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert agent.try_open(quorum.url, checks="refuse", command_timeout_ms=5000).status == "OK"
    quorum.nodes[1].command("ACL", "SETUSER", "less", "reset", "on", ">word", "~*", "&*", "+@all", "-hscan")
    for node in (quorum.nodes[0], quorum.nodes[2]):
        node.command("ACL", "SETUSER", "less", "reset", "on", ">word", "~*", "&*", "+@all")
    said = look(agent.open(quorum.url_of(username="less", password="word"), command_timeout_ms=5000))
    assert list(said) == [(quorum.nodes[1].port, "COMMAND_DENIED")] and "HSCAN" in said[quorum.nodes[1].port, "COMMAND_DENIED"][1]


def test_a_quorum_of_which_some_are_down(agent: Agent, new_server: Make) -> None:
    with Quorum(3, *LOG) as three:
        client = agent.open(three, connect_timeout_ms=1000, command_timeout_ms=1000)
        three.nodes[0].kill()
        said = look(client)
        assert list(said) == [(three.nodes[0].port, "NO_ANSWER")] and said[three.nodes[0].port, "NO_ANSWER"][0] == WARNING
        assert agent.try_open(three.url, checks="refuse").status == "OK"  # it has a quorum
        three.nodes[1].kill()
        assert client.check(3000).status == "UNREACHABLE" == agent.try_open(three.url, checks="refuse").status


def test_clocks_of_a_quorum(agent: Agent) -> None:
    with Quorum(3, *LOG, of=Skewed) as three:
        client = agent.open(three, command_timeout_ms=5000)
        assert look(client) == {}
        three.nodes[2].jump(60_000)
        said = look(client)
        assert list(said) == [(three.nodes[2].port, "CLOCK")] and " 60 s" in said[three.nodes[2].port, "CLOCK"][1] or " 59 s" in said[three.nodes[2].port, "CLOCK"][1]
