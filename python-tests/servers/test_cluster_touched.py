"""A lock that is touched while its slot moves: the client that touches it moves its keys at once, by MIGRATE, and nobody waits for the rest."""
from __future__ import annotations

import contextlib
import pathlib
import re
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.acl import rights
from harness.agent import Agent, Client, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster, Node
from harness.kinds import one, sides
from harness.sentinel import ask
from test_cluster_moving import KINDS, OPTIONS

Make = Callable[..., Any]
SOON = {**OPTIONS, "command_timeout_ms": 400}  # for what waits in vain
SECRET = "s3cret-canary"
NAMES = ["{k}touched", "touched"]


def elsewhere(cluster: Cluster, name: str) -> Node:
    return next(node for node in cluster.nodes if node is not cluster.owner(name))


def moving(cluster: Cluster, name: str) -> Any:
    """The slot of a name moves to the other server."""
    return cluster.moving(cluster.slot(name), elsewhere(cluster, name))


def keys_of(node: Node, name: str) -> set[bytes]:
    """The keys of one lock. All are in one slot."""
    bare = name.strip("{}").replace("}", "").replace("{", "").encode()
    found = ask(node, "CLUSTER", "GETKEYSINSLOT", Cluster.slot(name), 10_000)
    return {key for key in found if bare in key.replace(b"{", b"").replace(b"}", b"")}


def used(client: Client, kind: str, name: str) -> int:
    """Somebody had the lock, and has released it: a part of its keys is there, if only its token counter."""
    lock = one(client, kind, name)
    token = lock.acquire(7, 0).ok.token
    lock.release(7).ok
    return int(token)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_was_used(agent: Agent, new_agent: Make, cluster: Cluster, kind: str, name: str, warm: bool) -> None:
    """It is free. An acquisition moves it, and it goes on there: to who waits, and back, with tokens that rise."""
    token = used(new_agent().open(cluster, **OPTIONS), kind, name)
    clients = [maker().open(cluster, **OPTIONS) for maker in (lambda: agent, new_agent)] if warm else []
    if warm:
        for client in clients:
            client.lock(name + "-else").inspect().ok
    with moving(cluster, name) as (source, target):
        clients = clients or [agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS)]
        mine, theirs = (client.lock(name, kind=kind) for client in clients)
        if kind in ("read", "write"):
            theirs = clients[1].lock(name, kind={"read": "write", "write": "read"}[kind])
        first = mine.acquire(1, 0).ok.token
        assert not keys_of(source, name) and keys_of(target, name)
        assert theirs.acquire(2, 0).status == "BUSY" and token < first
        wait = theirs.start("acquire", 2, -1, thread=2)
        until(lambda: theirs.state(2) == "WAITING")
        mine.release(1).ok
        second = wait.answer(10).ok.token
        theirs.release(2).ok
        assert first < second < mine.acquire(1, 0).ok.token
    assert mine.state(1) == "HELD" and theirs.acquire(2, 0).status == "BUSY"
    mine.release(1).ok
    assert theirs.acquire(2, 0).ok.token > second
    theirs.release(2).ok


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_held(agent: Agent, new_agent: Make, cluster: Cluster, kind: str, name: str) -> None:
    """Nobody else gets in, its holder releases it at once, and the next one in line has it. Then all again, from the other end."""
    mine, theirs = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, name)
    token = mine.acquire(1, 0).ok.token
    with moving(cluster, name) as (source, target):
        mine.release(1).ok
        assert not keys_of(source, name)
        second = theirs.acquire(2, 0).ok.token
        assert token < second
    with moving(cluster, name) as (source, target):
        assert mine.acquire(1, 0).status == "BUSY" and theirs.state(2) == "HELD"
        assert not keys_of(source, name) and keys_of(target, name)
        theirs.release(2).ok
        assert mine.acquire(1, 0).ok.token > second
    mine.release(1).ok


@pytest.mark.parametrize("kind", KINDS)
def test_somebody_waits(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """In line since before the slot moved: a release moves holder and line, and the message finds the waiter."""
    name = "{k}touched"
    mine, theirs = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, name)
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 2, -1, thread=2)
    until(lambda: theirs.state(2) == "WAITING")
    with moving(cluster, name) as (source, _):
        mine.release(1).ok
        assert not keys_of(source, name)
        if kind != "write":  # a reader stands in no line: it listens at the old server, until that no longer has the slot
            wait.answer(10).ok
    assert kind != "write" or wait.answer(10).ok
    theirs.release(2).ok


def goes_on(client: Client) -> None:
    """It renews what it holds, twice."""
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "semaphore"])  # its holds have no lease
def test_it_is_renewed(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """Before and after somebody else's attempt has moved it, and when the slot has arrived."""
    options = {**OPTIONS, "lease_ms": 1500}
    client = agent.open(cluster, **options)
    mine, theirs = sides(client, new_agent().open(cluster, **OPTIONS), kind, "{k}touched")
    mine.acquire(1, 0).ok
    with moving(cluster, "{k}touched") as (source, _):
        goes_on(client)
        assert theirs.acquire(2, 0).status == "BUSY" and not keys_of(source, "{k}touched")
        goes_on(client)
        assert mine.state(1) == "HELD"
    goes_on(client)
    assert theirs.acquire(2, 0).status == "BUSY" and mine.state(1) == "HELD"
    mine.release(1).ok


@pytest.mark.parametrize("kind", ["read", "permit_semaphore"])
def test_a_renewal_touches_it(agent: Agent, cluster: Cluster, kind: str) -> None:
    """The operator has moved one of several keys, and takes his time: the hold is renewed all the same, and its other keys follow."""
    client = agent.open(cluster, **{**OPTIONS, "lease_ms": 1500})
    lock = one(client, kind, "{k}touched")
    lock.acquire(1, 0).ok
    with moving(cluster, "k") as (source, target):
        ask(source, "MIGRATE", target.host, target.port, "{k}touched", 0, 5000)
        goes_on(client)
        assert lock.state(1) == "HELD" and not keys_of(source, "{k}touched")
    lock.release(1).ok


@pytest.mark.parametrize("private", [0, 4])
def test_calls_that_do_not_wait(agent: Agent, cluster: Cluster, private: int) -> None:
    """Many at once, through the shared connection: each of the locks goes over, and each caller hears of it."""
    client = agent.open(cluster, **OPTIONS, private_connections=private)
    locks = [client.lock(f"{{k}}{number}") for number in range(30)]
    tokens = [used(client, "mutex", f"{{k}}{number}") for number in range(30)]
    with moving(cluster, "k") as (source, _):
        for number, lock in enumerate(locks):
            lock.submit_acquire(1, 0, number).ok
        assert {client.event().status for _ in locks} == {0}
        assert not keys_of(source, "k")
    for lock, token in zip(locks, tokens):
        assert lock.state(1) == "HELD" and lock.token(1).ok.token > token
        lock.release(1).ok


def test_what_else_touches_it(agent: Agent, cluster: Cluster) -> None:
    """A look, a gate, a release by force, permits, a latch, and several locks in one step."""
    client = agent.open(cluster, **OPTIONS)
    lock, seats, latch = client.lock("{k}a"), one(client, "semaphore", "{k}b", 3), client.lock("{k}c", kind="latch")
    both = client.multi(client.lock("{k}d"), client.lock("{k}e"))
    lock.acquire(1, 0).ok
    seats.acquire(1, 0).ok
    latch.latch_set(2).ok
    first = both.acquire(1, 0).ok.token
    both.release(1).ok
    with moving(cluster, "k") as (source, _):
        lock.inspect().ok
        lock.force().ok
        lock.close_gate(60_000).ok
        assert lock.acquire(2, 0).status == "GATE_CLOSED"
        lock.open_gate().ok
        assert seats.permits_add(2).ok.value == 4
        assert latch.latch_down(1).ok.value == 1
        assert both.acquire(1, 0).ok.token > first
        assert not keys_of(source, "k")
    both.release(1).ok


def test_readers_of_redisson(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    """One of them has entered three times: all its keys go, also those that no script of ours declares."""
    name = "{k}touched"
    mine, writer = sides(agent.open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), "read", name)
    mine.acquire(1, 0).ok
    source = cluster.owner(name)
    ask(source, "HSET", name, "java:7", 3)
    theirs = [f"{name}:java:7:rwlock_timeout:{number}" for number in (1, 2, 3)]
    for key in theirs:
        ask(source, "SET", key, 1, "PX", 60_000)
    with moving(cluster, name) as (source, target):
        assert writer.acquire(2, 0).status == "BUSY" and not keys_of(source, name)
        assert {key.encode() for key in theirs} < keys_of(target, name)
        mine.release(1).ok
        assert writer.acquire(2, 0).status == "BUSY"
    assert ask(target, "DEL", *theirs) == 3
    assert writer.acquire(2, 0).ok
    writer.release(2).ok


def test_its_own_hold(agent: Agent, cluster: Cluster) -> None:
    """A program has deleted what tells of a reader, except its own key: that goes with its release."""
    lock = agent.open(cluster, **OPTIONS).lock("{k}touched", kind="read")
    lock.acquire(1, 0).ok
    assert ask(cluster.owner("k"), "DEL", "{k}touched", "dlock_holds::{k}touched") == 2
    with moving(cluster, "k") as (source, _):
        assert lock.release(1).status in ("OK", "LOST")
        assert not keys_of(source, "{k}touched")


# ---- what stays


def refused(lock: Any, words: str) -> None:
    answer = lock.acquire(1, 0)
    assert answer.status == "SERVER_LOADING" and answer.retryable, answer
    assert words in answer.message and lock.id and SECRET not in answer.message, answer


def test_a_long_line(agent: Agent, cluster: Cluster) -> None:
    """To move it would take the old server a while: it waits for the operator."""
    lock = agent.open(cluster, **SOON).lock("{k}touched", kind="fair")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    source = cluster.owner("k")
    ask(source, "RPUSH", "redisson_lock_queue:{k}touched", *(f"x:{number}" for number in range(5000)))
    before = keys_of(source, "{k}touched")
    with moving(cluster, "k") as (source, target):
        refused(lock, "too many to move")
        assert keys_of(source, "{k}touched") == before and not keys_of(target, "{k}touched")
    assert ask(cluster.owner("k"), "LLEN", "redisson_lock_queue:{k}touched") == 5000


def test_a_key_that_is_there_already(agent: Agent, cluster: Cluster) -> None:
    """An earlier move was cancelled: the new server has an old counter. It is not written over, nor used."""
    lock = agent.open(cluster, **SOON).lock("{k}touched")
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    counter = "redisson_lock_token:{k}touched"
    with moving(cluster, "k") as (source, target):
        with target.client() as client:
            client.command("ASKING")
            client.command("SET", counter, 1)
        refused(lock, "has some of its keys already")
        assert int(ask(source, "GET", counter)) >= token
    assert lock.acquire(1, 0).ok.token > token
    lock.release(1).ok


@pytest.mark.parametrize("right", ["migrate", "type"])
def test_without_a_right(agent: Agent, cluster: Cluster, right: str) -> None:
    lock = agent.open(cluster.without(right), **SOON).lock("{k}touched")
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    with moving(cluster, "k") as (source, target):
        refused(lock, "may not move its keys")
        refused(lock, "may not move its keys")
        assert keys_of(source, "{k}touched") and not keys_of(target, "{k}touched")
    assert lock.acquire(1, 0).ok.token > token
    lock.release(1).ok


def test_a_server_that_hangs(agent: Agent, cluster: Cluster) -> None:
    """The new one. The old one is not made to wait for it, and goes on with other slots."""
    client = agent.open(cluster, **{**SOON, "private_connections": 1})
    lock, source = client.lock("{k}touched"), cluster.owner("k")
    other = client.lock(next(f"other{number}" for number in range(99) if cluster.owner(f"other{number}") is source))
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    other.acquire(1, 0).ok
    with moving(cluster, "k") as (source, target):
        migrations = calls(source, "migrate")
        target.pause()
        try:
            refused(lock, "does not answer")
            other.release(1).ok
            refused(lock, "does not answer")
        finally:
            target.resume()
        assert calls(source, "migrate") == migrations and keys_of(source, "{k}touched")
        # Another client does not know that it was silent.
        assert agent.open(cluster, **OPTIONS).lock("{k}touched").acquire(2, 0).ok.token > token


def calls(node: Node, command: str) -> int:
    found = re.search(rf"cmdstat_{command}:calls=(\d+)".encode(), ask(node, "INFO", "commandstats"))
    return int(found[1]) if found else 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_old_server_dies(new_agent: Make, kind: str) -> None:
    """Its clients have just learned where the keys would go. It comes back with its keys and with the slot: nothing has moved, nobody got
    in. Then it dies after the keys have moved.
    """
    with Cluster(2, 0, 15_000, "--appendonly", "yes", "--appendfsync", "always") as cluster:
        mine, theirs = sides(new_agent().open(cluster, **OPTIONS), new_agent().open(cluster, **OPTIONS), kind, "{k}touched")
        token = mine.acquire(1, 0).ok.token
        with moving(cluster, "k") as (source, target):
            target.pause()
            attempt = theirs.start("acquire", 2, 0, thread=1)
            until(lambda: calls(source, "exists") > 0)
            source.kill()
            target.resume()
            answer = attempt.answer(20)
            assert answer.status != "OK" and (answer.status == "BUSY" or answer.retryable), answer
            source.start()
            cluster.until_settled()
            assert bool(keys_of(source, "{k}touched")) != bool(keys_of(target, "{k}touched"))  # a renewal may have moved them by now
            assert theirs.acquire(2, 0).status == "BUSY"
            assert keys_of(target, "{k}touched") and not keys_of(source, "{k}touched")
            source.kill()
            source.start()
            cluster.until_settled()
            assert theirs.acquire(2, 0).status == "BUSY" and mine.state(1) == "HELD"
            mine.release(1).ok
            assert theirs.acquire(2, 0).ok.token > token
        theirs.release(2).ok


def test_a_move_that_is_cancelled(agent: Agent, new_agent: Make, cluster: Cluster) -> None:
    """The limit: the old server keeps the slot after all, and knows nothing of locks that went over. Its holder hears of it when it renews."""
    mine = agent.open(cluster, **{**OPTIONS, "lease_ms": 3000}).lock("{k}touched")
    theirs = new_agent().open(cluster, **OPTIONS).lock("{k}touched")
    mine.acquire(1, 0).ok
    slot, source, target = cluster.slot("k"), cluster.owner("k"), elsewhere(cluster, "k")
    ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    try:
        assert theirs.acquire(2, 0).status == "BUSY" and not keys_of(source, "{k}touched")
    finally:
        for node in (source, target):
            ask(node, "CLUSTER", "SETSLOT", slot, "STABLE")
    theirs.acquire(2, 0).ok
    until(lambda: mine.state(1) == "LOST")
    with target.client() as client:  # what the operator has to do
        ask(target, "FLUSHALL")
        assert client.command("DBSIZE") == 0
    theirs.release(2).ok


MOVE = ["migrate", "exists", "type", "strlen", "hlen", "llen", "zcard", "hgetall", "zrange"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rights_suffice(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """Those that docs/acl.md names for the kind, for a cluster, and for locks that are touched while their slot moves."""
    feature = {"read": "read-write", "write": "read-write", "permit_semaphore": "permit-semaphore"}.get(kind, kind)
    page = (ROOT / "docs/acl.md").read_text()
    assert all(f"`+{name}`" in page.partition("A lock that is touched")[2].partition("\n- ")[0] for name in MOVE)
    more = [f"+{name}" for name in MOVE] + ["+cluster|shards", "+asking", "+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe"]
    url = cluster.admit("billing", SECRET, "resetchannels", "-@all", *rights(feature, "billing").rules(), *more)
    mine, theirs = sides(agent.open(url, **OPTIONS, namespace="billing"), new_agent().open(url, **OPTIONS, namespace="billing"), kind, "k")
    token = mine.acquire(1, 0).ok.token
    with moving(cluster, "billing:k") as (source, _):
        assert theirs.acquire(2, 0).status == "BUSY" and not keys_of(source, "billing:k")
        mine.release(1).ok
        assert theirs.acquire(2, 0).ok.token > token
    theirs.release(2).ok


# ---- the password


@contextlib.contextmanager
def guarded(cluster: Cluster) -> Iterator[None]:
    """Who comes now has to log in."""
    clients = [node.client() for node in cluster.nodes]
    for client in clients:
        client.command("CONFIG", "SET", "requirepass", SECRET, "slowlog-log-slower-than", 0)
    try:
        yield
    finally:
        for client in clients:
            client.command("CONFIG", "SET", "requirepass", "")
            client.close()


@pytest.mark.parametrize("user", ["keeper", ""])
def test_the_password(agent: Agent, cluster: Cluster, user: str) -> None:
    """The old server gets it, to log in at the new one. Neither its monitor, its slow log nor its log has it."""
    cluster.admit("keeper", SECRET, "~*", "&*", "+@all")
    tokens = [used(agent.open(cluster, **OPTIONS), "mutex", name) for name in ("{k}a", "{k}b")]
    with moving(cluster, "k") as (source, _):
        with source.client() as monitor, source.client() as slow:
            monitor.command("MONITOR")
            with guarded(cluster):
                client = agent.open(cluster.url.replace("//", f"//{user}:{SECRET}@"), **OPTIONS)
                for name, token in zip(("{k}a", "{k}b"), tokens):
                    lock = client.lock(name)
                    assert lock.acquire(1, 0).ok.token > token
                    lock.release(1).ok
            seen = repr(slow.command("SLOWLOG", "GET", -1)).encode() + source.log().encode()
            slow.command("ECHO", "the-end")
            while b"the-end" not in seen:
                seen += monitor.socket.recv(65536)
        assert calls(source, "migrate") > 2 and b"MIGRATE" in seen and not keys_of(source, "k")
        assert SECRET.encode() not in seen.replace(b"requirepass " + SECRET.encode(), b"")


def test_no_password_without_need(agent: Agent, cluster: Cluster) -> None:
    """Servers keep such a connection: an operator who gives no password would go on with the rights of the last user."""
    url = cluster.admit("keeper", SECRET, "~*", "&*", "+@all", "-restore-asking")
    used(agent.open(url, **OPTIONS), "mutex", "{k}touched")
    ask(cluster.owner("k"), "SET", "{k}other", 1)
    with moving(cluster, "k") as (source, target):
        agent.open(url, **OPTIONS).lock("{k}touched").acquire(1, 0).ok
        assert not keys_of(source, "{k}touched") and keys_of(source, "{k}other")
    assert keys_of(target, "{k}other")


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@mutants.each(mutants.TOUCHED)
def test_mutant(mutant: mutants.Mutant, file: str, words: str, tmp_path: pathlib.Path) -> None:
    """The tests above find a seeded defect."""
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)
