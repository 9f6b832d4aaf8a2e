"""Two tenants on one server, behind Sentinel and on a cluster, each with exactly the rights of docs/acl.md for its namespace. One attacks, and
knows all: names, channels, ids, tickets. Each attack really ran, or the server denied it, and the victim stays right.
"""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import pytest

from harness.acl import escaped, rights
from harness.agent import Agent, until
from harness.cluster import Cluster, slot_of
from harness.resp import Client, ReplyError
from harness.sentinel import Watched
from harness.server import Server

SECRET = "word"
CLUSTER = ["+cluster|shards", "+asking", "+pubsub|shardnumsub", "+spublish", "+ssubscribe", "+sunsubscribe"]
QUARANTINE = ["+info", "+hmget", "+hset", "+hget", "+time"]
KINDS = ["mutex", "fair", "semaphore"]
HORIZON = 2**53 - 2


class Place:
    """Servers with two users, and what both URLs are."""

    def __init__(self, servers: list[Server], url: str, sentinels: list[Server], cluster: bool) -> None:
        self.servers, self.url, self.sentinels, self.cluster = servers, url, sentinels, cluster

    def allow(self, user: str, space: str) -> None:
        rules = [rule for kind in KINDS for rule in rights(kind, space).rules()]
        more = CLUSTER if self.cluster else ["+role"] if self.sentinels else []
        memory = f"~dlock_memory:{{[0-9]*}}:{escaped(space)}" if self.cluster else f"~dlock_memory:{escaped(space)}"
        for server in self.servers:
            with server.client() as client:
                client.command("ACL", "SETUSER", user, "reset", "on", ">" + SECRET, "resetchannels", "-@all", *rules, *more, *QUARANTINE, memory)

    def url_of(self, user: str) -> str:
        return self.url.replace("://", f"://{user}:{SECRET}@")

    def server_of(self, key: str) -> Server:
        if not self.cluster:
            return self.servers[0]
        for server in self.servers:
            with contextlib.suppress(ReplyError):
                with Client(server.host, server.port) as client:
                    client.command("EXISTS", key)
                    return server
        raise AssertionError(f"nobody has {key} in slot {slot_of(key)}")


@pytest.fixture(scope="module", params=["single", "sentinel", "cluster"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "single":
        with Server() as server:
            yield Place([server], server.url, [], False)
    elif request.param == "sentinel":
        with Watched(replicas=0, sentinels=1) as watched:
            yield Place(watched.servers, watched.url, list(watched.sentinels), False)
    else:
        with Cluster(replicas=0) as cluster:
            yield Place(list(cluster.primaries()), cluster.url, [], True)


class Scene:
    """The victim holds a lock and waits for it in another process. The attacker has a connection to the server of that lock."""

    def __init__(self, place: Place, agents: list[Agent], kind: str, victim: str = "payroll", attacker: str = "billing") -> None:
        self.place, self.kind, self.victim = place, kind, victim
        for server in place.servers:
            with server.client() as client:
                client.command("FLUSHALL")
        place.allow("victim", victim), place.allow("attacker", attacker)
        self.name = f"{victim}:run"
        options = {"namespace": victim, "lease_ms": 30_000, "safety_ms": 60_000}
        self.clients = [agent.open(place.url_of("victim"), **options) for agent in agents]
        self.held, self.wanted = (client.lock("run", kind=kind) for client in self.clients)
        if kind == "semaphore":
            self.held.permits_set(1).ok
        self.token = self.held.acquire(1, 0).ok.token
        self.wait = self.wanted.start("acquire", 1, -1, thread=1)
        self.server = place.server_of(self.name)
        self.admin = Client(self.server.host, self.server.port)
        until(lambda: len(self.channels()) == 1 and self.wanted.state(1) == "WAITING")
        for client in self.clients:
            client.ping(5000).ok
        self.admin.command("ACL", "LOG", "RESET")
        self.attack = Client(self.server.host, self.server.port)
        self.attack.command("AUTH", "attacker", SECRET)

    def channels(self) -> list[bytes]:
        return [name for name in self.admin.command("PUBSUB", "CHANNELS", "dlock_client:*") if f":{self.victim}:".encode() in name]

    def denied(self, *words: Any) -> None:
        """The command was tried, and the server has denied it for what it is, not for how it is written."""
        with pytest.raises(ReplyError) as caught:
            self.attack.command(*words)
        said = str(caught.value)
        assert any(word in said for word in ("NOPERM", "ACL failure", "permission", "can't access", "can't run", "can't publish")), (words, said)
        assert len(self.admin.command("ACL", "LOG")) > 0, words

    def tickets(self) -> list[tuple[bytes, bytes]]:
        """The ids in line, each with its ticket: once the waiter stands there, as one that is subscribed."""
        until(lambda: self.in_line() != [])
        return self.in_line()

    def in_line(self) -> list[tuple[bytes, bytes]]:
        found = self.admin.command("HGETALL", ("dlock_waiters" if self.kind == "mutex" else "dlock_fair") + ":{%s}" % self.name)
        return [(who, told.split(b" ")[5]) for who, told in zip(found[::2], found[1::2]) if len(who) > 36 and told.count(b" ") >= 5]

    def right(self) -> None:
        """The victim still holds, its waiter waits; then the waiter gets the lock with a token above, and none that was forged."""
        assert self.held.state(1) == "HELD" and not self.wait.ready() and self.wanted.state(1) == "WAITING"
        self.held.release(1).ok
        answer = self.wait.answer()
        assert answer.status == "OK" and self.token < answer.token < HORIZON // 2, answer
        self.wanted.release(1).ok
        for client in self.clients:
            client.close(5000).ok
        self.attack.close(), self.admin.close()


@pytest.fixture
def scene(place: Place, new_agent: Callable[..., Agent]) -> Callable[..., Scene]:
    return lambda *words: Scene(place, [new_agent(), new_agent()], *words)


@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_a_forged_grant(scene: Callable[..., Scene], kind: str) -> None:
    """Attacks 1 and 2: the message is right to the byte, its proof included, or replays an old one."""
    at = scene(kind)
    word, behind = ("grant", "") if kind == "mutex" else ("fair", ", ")
    for who, ticket in at.tickets():
        text = f"{word} {who[37:].decode()} {ticket.decode()} {HORIZON} 1 {behind}{at.name}"
        for channel in at.channels():
            at.denied("PUBLISH", channel, text)
            at.denied("EVAL", "return redis.call('PUBLISH', ARGV[1], ARGV[2])", 0, channel, text)
            if at.place.cluster:
                at.denied("SPUBLISH", channel, text)
    at.right()


def test_messages_are_read_by_nobody_else(scene: Callable[..., Scene]) -> None:
    """Attacks 3 to 5: SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE; and PUBSUB CHANNELS tells no names."""
    at = scene("mutex")
    for channel in [*at.channels(), "redisson_lock__channel:{%s}" % at.name]:
        at.denied("SUBSCRIBE", channel)
        at.denied("PSUBSCRIBE", channel)
        if at.place.cluster:
            at.denied("SSUBSCRIBE", channel)
    at.denied("PSUBSCRIBE", "*")
    for what in (["CHANNELS"], ["CHANNELS", "*"], ["NUMPAT"], ["SHARDCHANNELS"]):
        at.denied("PUBSUB", *what)
    at.right()


def test_messages_are_suppressed_by_nobody_else(scene: Callable[..., Scene]) -> None:
    """Attacks 6 and 7: connections, scripts, the whole server. UNSUBSCRIBE ends only one's own subscriptions."""
    at = scene("fair")
    assert at.attack.command("UNSUBSCRIBE", at.channels()[0])[0] == b"unsubscribe"
    for words in (["CLIENT", "LIST"], ["CLIENT", "KILL", "TYPE", "pubsub"], ["CLIENT", "KILL", "TYPE", "normal"], ["CLIENT", "PAUSE", 1000],
                  ["SCRIPT", "FLUSH"], ["SCRIPT", "KILL"], ["SCRIPT", "LOAD", "return 1"], ["FUNCTION", "FLUSH"], ["DEBUG", "SLEEP", 0],
                  ["WAIT", 0, 0], ["MONITOR"], ["CONFIG", "SET", "maxmemory", 1], ["FLUSHALL"], ["FLUSHDB"], ["SWAPDB", 0, 1], ["KEYS", "*"],
                  ["SCAN", 0], ["ACL", "LIST"], ["REPLICAOF", "NO", "ONE"], ["SHUTDOWN", "NOSAVE"]):  # fmt: skip
        at.denied(*words)
    if at.place.cluster:
        for words in (["CLUSTER", "RESET"], ["CLUSTER", "FAILOVER"], ["CLUSTER", "SETSLOT", 1, "STABLE"], ["CLUSTER", "FLUSHSLOTS"]):
            at.denied(*words)
    at.right()


def test_hints_are_written_by_nobody_else(scene: Callable[..., Scene]) -> None:
    """Attack 8: gate, open, free, and Redisson's."""
    at = scene("mutex")
    for channel in at.channels():
        for text in (f"gate 60000 {at.name}", f"open 1 0 {at.name}", f"free {at.name}"):
            at.denied("PUBLISH", channel, text)
    at.denied("PUBLISH", "redisson_lock__channel:{%s}" % at.name, "0")
    at.right()


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_those_of_the_tenant(scene: Callable[..., Scene], kind: str) -> None:
    """Attacks 9 and 10: reads and writes, also by scripts that declare no key."""
    at = scene(kind)
    keys = [at.name] + [f"{what}:{{{at.name}}}" for what in ("redisson_lock_token", "dlock_queue", "dlock_waiters", "dlock_gate", "dlock_fair",
                                                            "redisson_lock_queue", "dlock_taken", "dlock_turns", "dlock_once")]  # fmt: skip
    for key in keys:
        at.denied("GET", key)
        at.denied("HGET", key, "x")
        at.denied("SET", key, "x")
        at.denied("DEL", key)
        at.denied("PEXPIRE", key, 1)
        at.denied("EVAL", "return redis.call('DEL', ARGV[1])", 0, key)
        at.denied("EVAL", "return redis.call('GET', KEYS[1])", 1, key)
    at.right()


def test_the_quarantine_and_the_quorum_are_those_of_the_tenant(scene: Callable[..., Scene]) -> None:
    """Attack 11: nobody else ends a quarantine, begins one, or names other servers of a quorum."""
    at = scene("mutex")
    keys = ["dlock_memory", f"dlock_memory:{at.victim}", "dlock_quorum", f"dlock_quorum:{at.victim}"]
    if at.place.cluster:
        keys = [f"dlock_memory:{{{number}}}{end}" for number in (0, 7, 4711) for end in ("", f":{at.victim}", ":billing:x", f":x:{at.victim}")]
    for key in keys:
        at.denied("HSET", key, "until", "0")
        at.denied("EVAL", "return redis.call('HSET', ARGV[1], 'until', '0')", 0, key)
        at.denied("SET", key, "x")
    at.right()


def test_scripts_of_others_are_out_of_reach(scene: Callable[..., Scene]) -> None:
    """Attack 12: what all scripts use is changed by none."""
    at = scene("mutex")
    for text in ("redis.call = nil", "string.format = nil", "tonumber = nil", "table.concat = nil", "cjson = nil", "_G.unpack = nil",
                 "local all = getmetatable('') all.__index = nil"):
        with pytest.raises(ReplyError, match="readonly|read-only|global variable|not allowed"):
            at.attack.command("EVAL", text, 0)
    at.right()


@pytest.mark.parametrize("victim, attacker", [("billing", "bill"), ("bill", "billing"), ("b:a", "a"), ("bil*", "bilx"), ("b?l", "bxl"),
                                              ("bilx", "bil*"), ("[ab]", "a"), ("a", "[ab]")])  # fmt: skip
def test_namespaces_that_are_alike(scene: Callable[..., Scene], victim: str, attacker: str) -> None:
    """Attacks 13 and 14: one begins like the other one, or has characters with a meaning in patterns. Both work, and are apart."""
    at = scene("mutex", victim, attacker)
    for channel in at.channels():
        at.denied("PUBLISH", channel, f"gate 60000 {at.name}")
        at.denied("SUBSCRIBE", channel)
    at.denied("DEL", at.name)
    at.denied("SET", "dlock_gate:{%s}" % at.name, "1")
    at.denied("GET", "redisson_lock_token:{%s}" % at.name)
    memory = "dlock_memory:{7}:" + victim if at.place.cluster else "dlock_memory:" + victim
    at.denied("HSET", memory, "until", "0")
    at.right()
