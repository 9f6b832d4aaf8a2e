"""The option cluster_pubsub: the kind of Pub/Sub by which libdlock and Redisson's clients wake each other on a cluster.

Redisson's clients are scripted here and use plain Pub/Sub, as with shardedSubscriptionMode=OFF; test_redisson_cluster.py has real ones.
Nobody probes before a minute is over: a waiter that gets in within seconds got a message.
"""
from __future__ import annotations

import contextlib
import itertools
import pathlib
import re
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.acl import rights
from harness.agent import Agent, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster, Node, slot_of
from harness.kinds import calls, one
from harness.steps.redisson import channel_of, tagged
from harness.steps.redisson_fair import Waiter
from harness.steps.redisson_rw import JavaRw, rw_channel
from harness.resp import Client as Redis
from harness.sentinel import ask

Make = Callable[..., Any]
SOON = 10.0
OPTIONS = {"safety_ms": 60_000, "lease_ms": 60_000, "connect_timeout_ms": 10_000, "command_timeout_ms": 5000}
NAME = "order"  # a latch with braces in its name always has a plain channel
OTHER_ID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"
KINDS = ["mutex", "fair", "read", "write", "semaphore", "permit_semaphore", "latch"]
HEARD = {"auto": ("sharded",), "plain": ("plain",), "both": ("plain", "sharded")}


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(replicas=0) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    _cluster.flush()
    return _cluster


def channel(kind: str, name: str = NAME) -> bytes:
    if kind in ("read", "write"):
        return rw_channel(name)
    if "semaphore" in kind:
        return b"redisson_sc:" + tagged(name)
    return b"redisson_countdownlatch__channel__{" + name.encode() + b"}" if kind == "latch" else channel_of(name)


def subscribers(node: Node, name: bytes) -> tuple[int, int]:
    """Of the plain and of the sharded channel."""
    return node.command("PUBSUB", "NUMSUB", name)[1], node.command("PUBSUB", "SHARDNUMSUB", name)[1]


def opened(agent: Agent, cluster: Cluster, mode: str, **options: Any) -> Client:
    return agent.open(cluster, **{**OPTIONS, **({} if mode == "auto" else {"cluster_pubsub": mode}), **options})


# ---- the option


def test_values_and_schemes(agent: Agent, cluster: Cluster) -> None:
    for value in ("sharded", "OFF", "", "plainly"):
        answer = agent.try_open(cluster, cluster_pubsub=value)
        assert answer.status == "INVALID_OPTION" and "cluster_pubsub takes auto, plain or both" in answer.message
    for url in ("redis://a", "rediss://a", "redis+unix:///a", "redis+sentinel://a/m", "redis+quorum://a,b,c"):
        for value in HEARD:
            answer = agent.try_open(url, cluster_pubsub=value)
            assert answer.status == "INVALID_OPTION" and "cluster_pubsub is for redis+cluster://" in answer.message
    for value in HEARD:
        assert agent.try_open(f"{cluster.url}?cluster_pubsub={value}").status == "OK"
    answer = agent.open(cluster).new("x", cluster_pubsub="plain")
    assert answer.status == "INVALID_OPTION" and "cluster_pubsub belongs to the client" in answer.message


# ---- messages to foreign clients


def give(lock: Lock, kind: str) -> None:
    """An operation that wakes the others once."""
    if kind == "latch":
        lock.latch_set(1).ok
        lock.latch_down(1).ok
    else:
        lock.acquire(1, 0).ok
        lock.release(1).ok


@contextlib.contextmanager
def foreign_subscribers(cluster: Cluster, kind: str) -> Iterator[dict[str, Redis]]:
    """Subscribers: a plain one at a server that does not have the lock, and a sharded one where it is."""
    owner = cluster.owner(NAME)
    elsewhere = next(node for node in cluster.primaries() if node is not owner)
    with elsewhere.client() as plain, owner.client() as sharded:
        plain.subscribe(channel(kind))
        sharded.subscribe(channel(kind), command="SSUBSCRIBE")
        yield {"plain": plain, "sharded": sharded}


@pytest.mark.parametrize("mode", HEARD)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fair"])
def test_who_is_told(agent: Agent, cluster: Cluster, mode: str, kind: str) -> None:
    lock = one(opened(agent, cluster, mode), kind, NAME)
    with foreign_subscribers(cluster, kind) as there:
        give(lock, kind)
        heard = {}
        for sort, verb in (("plain", "PUBLISH"), ("sharded", "SPUBLISH")):
            ask(cluster.owner(NAME), verb, channel(kind), "end")
            heard[sort] = [told[1] for told in iter(lambda: there[sort].message(SOON), (channel(kind), b"end"))]
        assert [sort for sort in heard if heard[sort]] == list(HEARD[mode]), heard
        assert mode != "both" or heard["plain"] == heard["sharded"]


@pytest.mark.parametrize("mode", ["plain", "both"])
def test_the_head_of_a_fair_line_is_told(agent: Agent, cluster: Cluster, mode: str) -> None:
    """Also when the lock is taken from its holder; a plain subscriber keeps its place in line."""
    lock = opened(agent, cluster, mode).lock(NAME, kind="fair")
    with contextlib.closing(Waiter(cluster.owner(NAME), NAME)) as theirs:
        for give_up in (lambda: lock.release(1), lambda: lock.force()):
            lock.acquire(1, 0).ok
            assert theirs.acquire()
            assert lock.acquire(2, 0).status == "BUSY"
            give_up().ok
            assert theirs.message(SOON) == b"0" and lock.acquire(2, 0).status == "BUSY"
            assert theirs.acquire() is None and theirs.release() == 1


# ---- messages to our clients


class Theirs:
    """A foreign client that keeps others out, and lets them in with a message of one kind."""

    def __init__(self, node: Node, kind: str, verb: str, name: str = NAME) -> None:
        self.node, self.kind, self.verb, self.name = node, kind, verb, name
        self.rw = JavaRw(node, name, OTHER_ID)  # type: ignore[arg-type]  # it has command()

    def take(self) -> None:
        if self.kind in ("mutex", "fair"):
            self.node.command("HSET", self.name, OTHER_ID, 1)
            self.node.command("PEXPIRE", self.name, 60_000)
        elif self.kind in ("read", "write"):
            assert (self.rw.read if self.kind == "write" else self.rw.write)(60_000) is None
        else:
            self.node.command("SET", self.name, 1 if self.kind == "latch" else 0)

    def script(self) -> str:
        if "semaphore" in self.kind:
            return "redis.call('INCRBY', KEYS[1], 1)"
        return "redis.call('DEL', KEYS[1])"

    def give(self, node: Node | None = None) -> None:
        told = channel(self.kind, self.name)
        if self.kind == "fair":
            told += b":" + (node or self.node).command("LINDEX", b"redisson_lock_queue:" + tagged(self.name), 0)
        text = f"{self.script()} return redis.call('{self.verb}', ARGV[1], ARGV[2])"
        (node or self.node).command("EVAL", text, 1, self.name, told, 0 if self.kind == "latch" else 1)


def our_channel(node: Node, kind: str, name: str = NAME) -> bytes:
    """The channel we subscribe to; a fair lock has one per waiter."""
    if kind != "fair":
        return channel(kind, name)
    first: bytes | None = node.command("LINDEX", b"redisson_lock_queue:" + tagged(name), 0)
    return channel(kind, name) + b":" + (first or b"nobody")


def begin_to_wait(lock: Lock, node: Node, kind: str, listeners: tuple[int, int], name: str = NAME) -> Any:
    wait = lock.start("acquire", 2, -1, thread=1)
    until(lambda: lock.state(2) == "WAITING" and subscribers(node, our_channel(node, kind, name)) == listeners)
    return wait


def woken(agent: Agent, cluster: Cluster, mode: str, kind: str, verb: str, rounds: int = 2) -> None:
    """More than once: each time but the first after a subscription that has ended."""
    node = cluster.owner(NAME)
    theirs, lock = Theirs(node, kind, verb), opened(agent, cluster, mode).lock(NAME, kind=kind)
    listeners = int("plain" in HEARD[mode]), int("sharded" in HEARD[mode])
    for _ in range(rounds):
        theirs.take()
        wait = begin_to_wait(lock, node, kind, listeners)
        theirs.give()
        wait.answer(SOON).ok
        until(lambda: subscribers(node, channel(kind)) == (0, 0))
        if kind != "latch":
            lock.release(2).ok


SAID = [("plain", "PUBLISH"), ("both", "PUBLISH"), ("both", "SPUBLISH"), ("auto", "SPUBLISH")]


@pytest.mark.parametrize(("mode", "verb"), SAID, ids=["-".join(said) for said in SAID])
@pytest.mark.parametrize("kind", KINDS)
def test_who_wakes_us(agent: Agent, cluster: Cluster, mode: str, verb: str, kind: str) -> None:
    woken(agent, cluster, mode, kind, verb)


@pytest.mark.parametrize("modes", [("both", "auto"), ("auto", "both"), ("both", "plain"), ("plain", "both"), ("both", "both"), ("plain", "plain")])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_ours_among_themselves(new_agent: Make, cluster: Cluster, modes: tuple[str, str], kind: str) -> None:
    """The clients of a fleet may change from one mode to the other by way of "both"."""
    mine, theirs = (opened(new_agent(), cluster, mode).lock(NAME, kind=kind) for mode in modes)
    if "semaphore" in kind:
        mine.permits_set(1).ok
    if kind == "latch":
        mine.latch_set(1).ok
    else:
        mine = opened(new_agent(), cluster, modes[0]).lock(NAME, kind={"read": "write", "write": "read"}.get(kind, kind))
        mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 2, -1, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    listens = kind not in ("mutex", "fair", "write")
    until(lambda: not listens or sum(subscribers(cluster.owner(NAME), channel(kind))) == len(HEARD[modes[1]]))
    mine.latch_down(1).ok if kind == "latch" else mine.release(1).ok
    wait.answer(SOON).ok


# ---- counting of foreign waiters


def credit(node: Node) -> bytes | None:
    """The credit of foreign waiters towards a turn of theirs."""
    saved: bytes | None = node.command("HGET", b"dlock_waiters:" + tagged(NAME), "*")
    return saved


def ours_is_not_foreign(agent: Agent, other: Agent, cluster: Cluster) -> None:
    """One waiter with two subscriptions, and nobody else: there is no foreign waiter to save up a turn."""
    node = cluster.owner(NAME)
    Theirs(node, "mutex", "PUBLISH").take()
    lock, rival = opened(agent, cluster, "both").lock(NAME), opened(other, cluster, "both").lock(NAME)
    wait = begin_to_wait(lock, node, "mutex", (1, 1))
    until(lambda: node.command("ZCOUNT", b"dlock_queue:" + tagged(NAME), "9e15", "+inf") == 2)  # it has reported both subscriptions
    rival.force().ok
    wait.answer(SOON).ok
    assert credit(node) is None


def test_ours_is_not_foreign(new_agent: Make, cluster: Cluster) -> None:
    ours_is_not_foreign(new_agent(), new_agent(), cluster)


@pytest.mark.parametrize(("mode", "saved"), [("auto", b"1"), ("plain", b"2"), ("both", b"3")])
def test_foreign_waiters_are_counted(new_agent: Make, cluster: Cluster, mode: str, saved: bytes) -> None:
    """One on the sharded channel, two on the plain one."""
    node = cluster.owner(NAME)
    mine, theirs, last = (opened(new_agent(), cluster, mode).lock(NAME) for _ in range(3))
    with node.client() as one_, node.client() as two, node.client() as three:
        one_.subscribe(channel("mutex"))
        two.subscribe(channel("mutex"))
        three.subscribe(channel("mutex"), command="SSUBSCRIBE")
        mine.acquire(1, 0).ok
        waits = [lock.start("acquire", 2, -1, thread=1) for lock in (theirs, last)]
        until(lambda: node.command("ZCARD", b"dlock_queue:" + tagged(NAME)) == 2)
        mine.release(1).ok
        until(lambda: any(wait.ready() for wait in waits))
        assert credit(node) == saved


# ---- slots that move


def follows_a_move(agent: Agent, cluster: Cluster, verb: str = "PUBLISH") -> None:
    source = cluster.owner(NAME)
    target = next(node for node in cluster.primaries() if node is not source)
    theirs, lock = Theirs(source, "mutex", verb), opened(agent, cluster, "both").lock(NAME)
    theirs.take()
    wait = begin_to_wait(lock, source, "mutex", (1, 1))
    cluster.migrate(cluster.slot(NAME), target)
    until(lambda: subscribers(target, channel("mutex")) == (1, 1), SOON)
    until(lambda: subscribers(source, channel("mutex")) == (0, 0), SOON)
    theirs.give(target)
    wait.answer(SOON).ok
    lock.release(2).ok


@pytest.mark.parametrize("verb", ["PUBLISH", "SPUBLISH"])
def test_both_follow_a_move(agent: Agent, cluster: Cluster, verb: str) -> None:
    follows_a_move(agent, cluster, verb)


def test_a_plain_one_follows_a_move(agent: Agent, cluster: Cluster) -> None:
    source = cluster.owner(NAME)
    target = next(node for node in cluster.primaries() if node is not source)
    theirs, lock = Theirs(source, "mutex", "PUBLISH"), opened(agent, cluster, "plain").lock(NAME)
    theirs.take()
    wait = begin_to_wait(lock, source, "mutex", (1, 0))
    cluster.migrate(cluster.slot(NAME), target)
    theirs.give(target)
    wait.answer(SOON).ok


def test_both_subscribe_once(agent: Agent, cluster: Cluster) -> None:
    """Many waits in a row: no subscription is made twice, none is left."""
    node, rounds = cluster.owner(NAME), 20
    before = {verb: calls(node, verb) for verb in ("subscribe", "ssubscribe")}
    woken(agent, cluster, "both", "write", "PUBLISH", rounds)
    made = {verb: calls(node, verb) - before[verb] for verb in before}
    assert made["subscribe"] == made["ssubscribe"] + 1  # our own channel is a plain one
    assert rounds <= made["ssubscribe"] < rounds + 3  # on a busy machine a wait may begin again


# ---- rights


def test_plain_needs_no_rights_to_sharded_channels(agent: Agent, cluster: Cluster) -> None:
    for node in cluster.running():
        rules = [*rights("mutex", "billing").rules(), "+cluster|shards", "+asking"]
        ask(node, "ACL", "SETUSER", "plainly", "reset", "on", ">word", *rules)
    user = {"username": "plainly", "password": "word", "namespace": "billing"}
    mine, theirs = (opened(agent, cluster, "plain", **user).lock("mine") for _ in range(2))
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 2, -1, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    mine.release(1).ok
    wait.answer(SOON).ok


def test_a_check_tries_both(agent: Agent, cluster: Cluster) -> None:
    node = cluster.primaries()[0]
    for right in ("publish", "spublish"):
        for one_ in cluster.running():
            ask(one_, "ACL", "SETUSER", "less", "reset", "on", ">word", "~*", "&*", "+@all")
        ask(node, "ACL", "SETUSER", "less", "-" + right)
        client = opened(agent, cluster, "both", username="less", password="word")
        texts = [text for name, _, text in client.check(10_000).ok.findings if name == "COMMAND_DENIED"]
        assert texts and all(re.search(rf"\b{right.upper()}\b", text) for text in texts), texts


# ---- copies


def names_of(cluster: Cluster, node: Node, count: int) -> Iterator[str]:
    """Names without braces whose locks are on this node."""
    owners = cluster.owners()
    return itertools.islice((name for name in map("copy {}".format, itertools.count()) if owners[slot_of(name)] is node), count)


def heard_beside_one_that_hangs(holder: Client, waiter: Client, cluster: Cluster, kind: str) -> None:
    """Every primary passes on a copy of a message on our own channel. That of the lock's server counts, whatever the others do."""
    node, *others = cluster.nodes
    for other in others:
        names = list(names_of(cluster, node, 12))
        locks = [(one(holder, kind, name), one(waiter, kind, name)) for name in names]
        for held, _ in locks:
            held.acquire(1, 0).ok
        waits = [wait.start("acquire", 1, 40_000, thread=1 + number) for number, (_, wait) in enumerate(locks)]
        until(lambda: all(wait.state(1) == "WAITING" for _, wait in locks))
        queues = [("dlock_queue:" if kind == "mutex" else "redisson_lock_queue:") + f"{{{name}}}" for name in names]
        until(lambda: all(ask(node, "EXISTS", queue) for queue in queues))
        other.pause()
        try:
            for (held, _), wait in zip(locks, waits):
                held.release(1).ok
                assert wait.answer(SOON).status == "OK"
        finally:
            other.resume()
        for _, wait in locks:
            wait.release(1).ok


@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_copies_of_a_server_that_hangs(new_agent: Make, cluster: Cluster, kind: str) -> None:
    heard_beside_one_that_hangs(opened(new_agent(), cluster, "auto"), opened(new_agent(), cluster, "auto"), cluster, kind)


# ---- mutants

FOUND: dict[int, Callable[[Make, Cluster], None]] = {
    521: lambda new, cluster: test_who_is_told(new(), cluster, "plain", "mutex"),
    522: lambda new, cluster: woken(new(), cluster, "both", "write", "PUBLISH"),
    523: lambda new, cluster: ours_is_not_foreign(new(), new(), cluster),
    524: lambda new, cluster: follows_a_move(new(), cluster),
    1015: lambda new, cluster: heard_beside_one_that_hangs(opened(new(), cluster, "auto"), opened(new(), cluster, "auto"), cluster, "fair"),
}


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.rows(mutants.PUBSUB, late={522, 524}))
def test_mutant(mutant: mutants.Mutant, new_agent: Make, cluster: Cluster, tmp_path: pathlib.Path) -> None:
    made = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises((AssertionError, TimeoutError)):
        FOUND[mutant.number](lambda: new_agent(LD_PRELOAD=made), cluster)
