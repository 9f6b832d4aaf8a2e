"""More faults of one server: rows D of the matrix beside test_faults_server.py. Each test counts that its fault happened."""
from __future__ import annotations

import collections
import contextlib
import shutil
import threading
import time
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Client, Lock, now, until
from harness.build import SANITIZED
from harness.fake import LockServer
from harness.faults import SLACK_MS, Fenced, alive, always, owners, times
from harness.kinds import KINDS, RIVAL, one
from harness.proxy import Link, Proxy
from harness.resp import Client as Redis, ReplyError
from harness.steps.scripts import SHA, teach
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
FAST = {"connects_per_second": 1000}
LEASE, DRIFT = 1000, 200_000  # LOST 302 ms before the server's end: room for a busy machine


def losses(client: Client, names: dict[int, str], seconds: float = 10) -> dict[str, int]:
    """When each loss was read; each comes once, and no other LOST events come."""
    heard: dict[str, int] = {}
    while len(heard) < len(names):
        answer = client.next(int(seconds * 1000)).ok
        if answer.event.type == "LOST":
            assert names[answer.event.lock_id] not in heard
            heard[names[answer.event.lock_id]] = answer.done
    return heard


class Outage:
    """One process holds ten locks, another waits for them, and the server does not answer. The outcome is I4 of the matrix."""

    def __init__(self, server: Server, new_agent: Make, many: int = 10) -> None:
        self.server = server
        options = {"lease_ms": LEASE, "drift_ppm": DRIFT, "command_timeout_ms": 300, "connect_timeout_ms": 300, "release_timeout_ms": 300, **FAST}
        self.client, self.other = new_agent().open(server, **options), new_agent().open(server, **options)
        self.names = [f"lock {i}" for i in range(many)]
        self.locks, self.theirs = [self.client.lock(n) for n in self.names], [self.other.lock(n) for n in self.names]
        self.ids = {lock.id: name for lock, name in zip(self.locks, self.names)}
        self.lead: list[int] = []
        self.back: list[int] = []

    def begin(self) -> None:
        self.tokens = [0] * len(self.locks)
        renewed = self.client.counters()["renewed"]
        until(lambda: self._held() and self.client.counters()["renewed"] >= renewed + len(self.locks), 60)
        self.waits = [lock.start("acquire", 1, 30_000, thread=1 + i) for i, lock in enumerate(self.theirs)]
        until(lambda: all(lock.state(1) == "WAITING" for lock in self.theirs))
        while self.client.next(0).status == "OK":
            pass  # earlier events
        with self.server.client() as redis:  # when each expires on the server, at the earliest
            left = redis.pipeline(*(["PTTL", name] for name in self.names))
        self.ends = dict(zip(self.names, (now() + 1000 * ms for ms in left)))

    def _held(self) -> bool:
        """Whether all are held; on a busy machine one may be lost too early."""
        for i, lock in enumerate(self.locks):
            if lock.state(1) not in ("HELD", "AT_RISK"):
                lock.release(1)
                self.tokens[i] = lock.acquire(1, 10_000).ok.token
        return all(lock.state(1) == "HELD" for lock in self.locks)

    def lost(self) -> None:
        """All are lost, before they would have expired on the server."""
        heard = losses(self.client, self.ids)
        assert all(lock.state(1) == "LOST" for lock in self.locks)
        assert all(lock.release(1).status == "LOST" for lock in self.locks)
        self.lead += [(self.ends[name] - at) // 1000 for name, at in heard.items()]

    def over(self, ended: int) -> None:
        """The waiters have them, with higher tokens."""
        for wait, token in zip(self.waits, self.tokens):
            answer = wait.answer(30).ok
            assert answer.token > token
            self.back.append((answer.done - ended) // 1000)
        for lock in self.theirs:
            lock.release(1).ok
        tell(done=len(self.locks))

    def told(self, row: str) -> str:
        return f"{row}: {len(self.lead)} lost {min(self.lead)} to {max(self.lead)} ms before their end, passed on {max(self.back)} ms after the fault at most"

    def check(self, latest_ms: int) -> None:
        assert min(self.lead) >= (0 if not SANITIZED else -SLACK_MS), "LOST came after the end"
        assert max(self.back) <= latest_ms


@pytest.fixture
def no_losses(new_agent: Make) -> Iterator[Callable[[Client], None]]:
    clients: list[Client] = []
    yield clients.append
    assert sum(client.counters()["lost"] for client in clients) == 0


# ---- D-03, D-04: a script that does not end


def run_for_ever(redis: Redis, outage: Outage, script: str) -> Lock:
    """Returns when the server answers nobody else, with a lock to observe it by."""
    redis.send("EVAL", script, 0)
    probe = outage.client.lock("probe")
    until(lambda: probe.inspect().status == "SERVER_BUSY")
    return probe


@pytest.mark.parametrize("rounds", times(1, 3))
def test_d03_busy(new_server: Make, new_agent: Make, rounds: int) -> None:
    server = new_server("--busy-reply-threshold", "20")
    outage = Outage(server, new_agent)
    for _ in range(rounds):
        outage.begin()
        with server.client(30) as redis, server.client() as killer:
            probe = run_for_ever(redis, outage, "while true do end")
            tell(fired=1)
            refused = [probe.acquire(1, 0), probe.force()]
            assert {answer.status for answer in refused} <= {"SERVER_BUSY", "UNREACHABLE", "TIMED_OUT"} and all(answer.retryable for answer in refused), refused
            outage.lost()
            until(lambda: now() > max(outage.ends.values()))
            assert killer.command("SCRIPT", "KILL") == "OK"
        outage.over(now())
    print(outage.told("D-03"))
    outage.check(250 + 5 * SLACK_MS)


@pytest.mark.parametrize("rounds", times(1, 3))
def test_d04_unkillable(new_server: Make, new_agent: Make, rounds: int) -> None:
    """Until the server is killed and comes back empty."""
    server = new_server("--busy-reply-threshold", "20")
    outage = Outage(server, new_agent)
    for _ in range(rounds):
        outage.begin()
        with server.client(30) as redis, server.client() as killer:
            run_for_ever(redis, outage, "redis.call('SET', 'x', 1) while true do end")
            outage.lost()
            with pytest.raises(ReplyError, match="UNKILLABLE"):
                killer.command("SCRIPT", "KILL")
        server.restart()
        outage.over(now())
    print(outage.told("D-04"))
    outage.check(1000 + 5 * SLACK_MS)


# ---- D-05: a slow server


class Standing:
    """How many requests for one lock are in flight at once, on connections that are still open."""

    def __init__(self, proxy: Proxy, script: str) -> None:
        self.open: collections.Counter[Link] = collections.Counter()
        self.most = self.all = 0
        self.proxy = proxy
        self.guard = threading.Lock()
        proxy.up.on(SHA[script], self.asked)
        proxy.down.on(b"\r\n", self.answered)

    def asked(self, link: Link, data: bytes) -> None:
        with self.guard:
            self.all += 1
            self.open[link] += 1
            self.most = max(self.most, sum(count for each, count in self.open.items() if each in self.proxy.links))

    def answered(self, link: Link, _data: bytes) -> None:
        with self.guard:
            self.open[link] = 0


@pytest.mark.parametrize("rounds", times(1, 2))
def test_d05_a_slow_server(new_server: Make, new_agent: Make, new_proxy: Make, rounds: int) -> None:
    """DEBUG SLEEP while one process holds a lock and another wants it: nobody gets it too early, and requests do not pile up. One request
    is awaited. Abandoned ones, one per ninth of a lease, stay in flight until the connection is closed, after command_timeout_ms.
    """
    server = new_server()
    teach(server)
    proxy: Proxy = new_proxy(server)
    options = {"lease_ms": LEASE, "command_timeout_ms": 300, "connect_timeout_ms": 300, "release_timeout_ms": 300, "safety_ms": 100, **FAST}
    mine, theirs = new_agent().open(proxy, **options).lock("d05"), new_agent().open(server, **options).lock("d05")
    standing, fenced = Standing(proxy, "acquire"), Fenced(server)
    last = 0
    for pause in (0.1, 1.0) if rounds == 1 else (0.1, 1.0, 5.0) * (rounds - 1):
        for held, wanted in ((theirs, mine), (mine, theirs)):
            token = held.acquire(1, 20_000).ok.token
            assert token > last and fenced.write("d05", token)
            wait = wanted.start("acquire", 1, 30_000, thread=1)
            until(lambda: wanted.state(1) == "WAITING")
            with server.client(30) as redis:
                began = now()
                redis.command("DEBUG", "SLEEP", pause)
                assert now() - began >= pause * 990_000
            tell(fired=1, done=1)
            if pause > LEASE / 1000:
                assert held.state(1) == "LOST"
            status = held.release(1).status
            assert status in ("OK", "LOST") if pause > LEASE / 2000 else status == "OK", status
            last = wait.answer(30).ok.token
            assert last > token and fenced.write("d05", last)
            assert held.state(1) in ("NONE", "LOST") and wanted.state(1) in ("HELD", "AT_RISK", "LOST")
            wanted.release(1)
    print(f"D-05: {standing.all} requests, {standing.most} at once at most")
    assert 0 < standing.all and standing.most <= 4, "requests pile up"


# ---- D-07: the server evicts locks


@pytest.mark.parametrize("policy", always("volatile-ttl", full=("volatile-lru", "volatile-random", "allkeys-random", "allkeys-lru")))
def test_d07_eviction(new_server: Make, new_agent: Make, policy: str) -> None:
    """LOST at the next renewal; the old holder's writes after that are refused."""
    server: Server = new_server("--maxmemory-policy", policy)
    fenced_at: Server = new_server()
    fenced, lease, many = Fenced(fenced_at), 3000, 40
    client, other = new_agent().open(server, lease_ms=lease), new_agent().open(server, lease_ms=lease)
    names = [f"d07 {i}" for i in range(many)]
    locks = [client.lock(name) for name in names]
    ids = {lock.id: name for lock, name in zip(locks, names)}
    tokens = {name: lock.acquire(1, 0).ok.token for name, lock in zip(names, locks)}
    assert all(fenced.write(name, token) for name, token in tokens.items())
    gone: dict[str, int] = {}
    used = int(dict(row.split(":") for row in server.command("INFO", "memory").decode().split() if ":" in row)["used_memory"])
    with server.client() as redis:
        redis.command("CONFIG", "SET", "maxmemory", used + 400_000)
        for i in range(40_000):
            with contextlib.suppress(ReplyError):  # no evictable key is left
                redis.command("SET", f"filler {i}", "x" * 2000)
            if i % 20 == 0:
                for name, there in zip(names, redis.pipeline(*(["EXISTS", name] for name in names))):
                    if not there:
                        gone.setdefault(name, now())
            if len(gone) >= many // 4:
                break
        redis.command("CONFIG", "SET", "maxmemory", 0)
    assert len(gone) >= many // 4, "nothing was evicted"
    until(lambda: client.counters()["lost"] >= len(gone))
    heard: dict[str, int] = {}
    while len(heard) < len(gone):
        answer = client.next(5000).ok
        if answer.event.type == "LOST":
            assert answer.event.cause == "TAKEN"
            heard[ids[answer.event.lock_id]] = answer.done
    late = [(at - gone.get(name, at)) / 1000 for name, at in heard.items()]
    for name in heard:
        lock = other.lock(name)
        assert fenced.write(name, lock.acquire(1, 5000).ok.token)
        assert not fenced.write(name, tokens[name]), "a stale write"
    tell(done=len(heard), fired=len(gone))
    print(f"D-07: {len(heard)} evicted by {policy}, LOST heard {max(late):.0f} ms after at most")
    assert max(late) <= lease / 3 + 5 * SLACK_MS


# ---- D-08: the token counter is gone


@pytest.mark.parametrize("rounds", times(100, 1500))
def test_d08_the_counter_is_gone(redis_server: Server, new_agent: Make, rounds: int) -> None:
    """Deleted while the lock is free, held, or handed over: tokens keep growing, in every kind that has them."""
    agents = [new_agent(), new_agent()]
    clients = [agent.open(redis_server, lease_ms=5000) for agent in agents]
    deleted = 0
    for kind in ("mutex", "fair", "write", "semaphore", "permit_semaphore"):
        mine, theirs = one(clients[0], kind, f"d08 {kind}"), one(clients[1], kind, f"d08 {kind}")
        counter = f"redisson_lock_token:{{d08 {kind}}}"
        last = 0
        for turn in range(rounds):
            deleted += redis_server.command("DEL", counter) if turn % 2 == 0 else 0
            lock = (mine, theirs)[turn // 2 % 2]
            token = lock.acquire(1, 5000).ok.token
            assert token > last, kind
            last = token
            deleted += redis_server.command("DEL", counter) if turn % 2 else 0
            lock.release(1).ok
    tell(done=deleted, fired=deleted)
    print(f"D-08: {deleted} counters deleted, all tokens grew")
    assert deleted >= rounds * 2


# ---- D-13: the server cannot save and refuses writes


@pytest.mark.parametrize("rounds", times(1, 3))
def test_d13_misconf(new_server: Make, new_agent: Make, rounds: int) -> None:
    """Nobody gets a lock, and no release counts as done."""
    server: Server = new_server("--save", "3600 1000000", "--stop-writes-on-bgsave-error", "yes", "--enable-protected-configs", "yes")
    client = new_agent().open(server, lease_ms=2000, release_timeout_ms=300)
    lock, free, probe = client.lock("d13"), client.lock("d13 free"), client.lock("d13 probe")
    told = 0
    folder = str(server.folder / "data")
    for turn in range(rounds):
        (server.folder / "data").mkdir()
        server.command("CONFIG", "SET", "dir", folder)
        until(lambda: lock.acquire(1, 5000).status == "OK")
        shutil.rmtree(folder)  # the folder for its dumps
        with contextlib.suppress(ReplyError):
            server.command("BGSAVE")
        until(lambda: b"rdb_last_bgsave_status:err" in server.command("INFO", "persistence"))
        tell(fired=1)
        answers = {"acquire": free.acquire(1, 0), "wait": free.acquire(1, 300), "extend": lock.extend(1, 5000), "release": lock.release(1)}
        for what, answer in answers.items():
            assert answer.status in ("SERVER_READ_ONLY", "UNKNOWN_OUTCOME"), (what, answer)
            assert (answer.status == "UNKNOWN_OUTCOME") <= (what == "release"), (what, answer)
            assert "MISCONF" in answer.message or answer.status == "UNKNOWN_OUTCOME", (what, answer)
            told += 1
        assert alive(server, ["d13"]) == 1 and not alive(server, ["d13 free"])
        (server.folder / "data").mkdir()
        server.command("CONFIG", "SET", "dir", folder)
        server.command("BGSAVE")
        until(lambda: b"rdb_last_bgsave_status:ok" in server.command("INFO", "persistence"))
        until(lambda: not alive(server, ["d13"]), 10)  # the release was repeated, or the lease ended
        probe.acquire(1, 5000).ok
        probe.release(1).ok
        server.command("CONFIG", "SET", "dir", str(server.folder))
        shutil.rmtree(folder)
        tell(done=4)
    print(f"D-13: {told} calls of {4 * rounds} told that the server takes no writes")


@pytest.mark.parametrize("words", [
    b"MISCONF Errors writing to the AOF file: No space left on device",
    b"MISCONF Errors writing to the AOF file: No space left on device script: 0a1b, on @user_script:14.",
    b"ERR Error running script (call to f_0a1b): @user_script:14: @user_script: 14: -MISCONF Errors writing to the AOF file: No space left on device",
])  # fmt: skip
def test_d13_fake_disk_full(agent: Agent, words: bytes) -> None:
    """The error inside a script and before one, of old servers and new."""
    with LockServer() as fake:
        client = agent.open(fake, lease_ms=6000, release_timeout_ms=300)
        lock, held = client.lock("lock"), client.lock("held")
        held.acquire(1, 0).ok
        for script, call in (("acquire", lambda: lock.acquire(1, 0)), ("renew", lambda: held.extend(1, 6000)), ("inspect", held.inspect)):
            fake.say(script, b"-" + words + b"\r\n")
            answer = call()
            assert answer.status == "SERVER_READ_ONLY" and "No space left" in answer.message and answer.retryable, answer
            fake.sane()
        fake.say("release", b"-" + words + b"\r\n")
        answer = held.release(1)
        assert answer.status in ("SERVER_READ_ONLY", "UNKNOWN_OUTCOME"), answer
        fake.sane()
        tell(done=4)


# ---- D-15: the server accepts no more connections


def test_d15_maxclients(new_server: Make, new_agent: Make) -> None:
    """Held locks are renewed on the existing connection; new clients get the error, and do not hammer the server."""
    server: Server = new_server()
    client = new_agent().open(server, lease_ms=1500)
    locks = [client.lock(f"d15 {i}") for i in range(10)]
    for lock in locks:
        lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] >= 10)
    server.command("CONFIG", "SET", "maxclients", 2)  # the client and who asks
    late = new_agent().open(server)
    lock = late.lock("d15 late")
    answer = lock.acquire(1, 0)
    assert answer.status == "SERVER_BUSY" and "too many clients" in answer.message and answer.retryable, answer
    wait = lock.start("acquire", 1, 20_000, thread=1)
    began, before = now(), client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 50)
    seconds = (now() - began) / 1e6
    tried = late.counters()["connect_failures"]
    rejected = int(dict(row.split(":") for row in server.command("INFO", "stats").decode().split() if ":" in row)["rejected_connections"])
    tell(done=1, fired=rejected)
    print(f"D-15: {rejected} connections refused in {seconds:.1f} s, {client.counters()['renewed'] - before} renewals meanwhile")
    assert rejected > 0 and tried <= 10 * (seconds + 2)
    assert {each.state(1) for each in locks} == {"HELD"} and client.counters()["lost"] == 0
    server.command("CONFIG", "SET", "maxclients", 1000)
    wait.answer().ok


# ---- D-16: CLIENT PAUSE


@pytest.mark.parametrize("rounds", times(1, 2))
@pytest.mark.parametrize("what", ["WRITE", pytest.param("ALL", marks=pytest.mark.full)])
def test_d16_client_pause(new_server: Make, new_agent: Make, what: str, rounds: int) -> None:
    outage = Outage(new_server(), new_agent)
    for _ in range(rounds):
        outage.begin()
        outage.server.command("CLIENT", "PAUSE", 3 * LEASE, what)
        ends = now() + 3000 * LEASE
        outage.lost()
        assert not any(wait.ready() for wait in outage.waits)
        tell(fired=1)
        outage.over(ends)
    print(outage.told("D-16"))
    outage.check(1000 + 5 * SLACK_MS)


# ---- D-17: the server closes idle connections


def test_d17_idle_connections_are_closed(new_server: Make, new_agent: Make) -> None:
    """Every renewal finds its connection closed, and so does a waiter's subscription."""
    server: Server = new_server("--timeout", "1", "--tcp-keepalive", "0")
    client, other = new_agent().open(server, lease_ms=9000), new_agent().open(server, lease_ms=9000)
    locks = [client.lock(f"d17 {i}") for i in range(5)]
    tokens = [lock.acquire(1, 0).ok.token for lock in locks]
    theirs = other.lock("d17 0")
    wait = theirs.start("acquire", 1, 20_000, thread=1)
    connects = client.counters()["connects"]
    until(lambda: client.counters()["renewed"] >= 10, 20)
    closed = client.counters()["connects"] - connects
    tell(done=1, fired=closed)
    print(f"D-17: {closed} connections made again")
    assert closed >= 2 and client.counters()["lost"] == 0
    assert [lock.token(1).token for lock in locks] == tokens and {lock.state(1) for lock in locks} == {"HELD"}
    locks[0].release(1).ok
    assert wait.answer().ok.token > tokens[0]


def test_d17_nothing_was_sent_that_may_not_be_sent_twice(new_server: Make, new_agent: Make) -> None:
    """A forced release must not be sent twice. It finds the connection closed before it was sent, and uses a new one."""
    server: Server = new_server("--timeout", "1", "--tcp-keepalive", "0")
    holder, client = (new_agent().open(server, lease_ms=60_000) for _ in range(2))
    holder.lock("d17").acquire(1, 0).ok
    lock = client.lock("d17")
    client.ping(5000).ok
    until(lambda: b"name=dlock" not in server.command("CLIENT", "LIST"), 20)
    lock.force().ok
    assert client.counters()["connects"] == 2 and server.command("EXISTS", "d17") == 0


# ---- D-18: a server without some of the commands


@pytest.mark.parametrize("missing", ["EVAL", "EVALSHA", "EVAL and EVALSHA", "SUBSCRIBE", "PUBLISH"])
def test_d18_commands_that_are_not_there(new_server: Make, new_agent: Make, missing: str) -> None:
    """Without scripts nothing works, and the error says so at once. Without Pub/Sub waiters probe."""
    words = missing.split(" and ")
    server: Server = new_server(*(part for word in words for part in ("--rename-command", word, "not-here-" + word)))
    agents = [new_agent(), new_agent()]
    mine, theirs = (agent.open(server, safety_ms=100, lease_ms=3000).lock("d18") for agent in agents)
    began = now()
    answer = mine.acquire(1, 0)
    assert now() - began < 1_000_000
    tell(done=1, fired=1)
    if "EVALSHA" in words or "EVAL" in words:
        assert answer.status == "SERVER_ERROR" and "EVAL" in answer.message and "does not know a command" in answer.message, answer
        assert not answer.retryable and mine.acquire(1, 500).status == "SERVER_ERROR"
        return
    answer.ok
    wait = theirs.start("acquire", 1, 10_000, thread=1)
    until(lambda: theirs.state(1) == "WAITING")
    if missing == "PUBLISH":
        assert mine.release(1).status in ("OK", "SERVER_ERROR")
    else:
        mine.release(1).ok
    wait.answer().ok
    assert theirs.release(1).status in ("OK", "SERVER_ERROR")
    until(lambda: not alive(server, ["d18"]))


# ---- D-19: foreign data in our keys

ELSE: dict[str, list[Any]] = {
    "string": ["SET", "x"], "list": ["RPUSH", "a", "b"], "set": ["SADD", "a"], "zset": ["ZADD", 1, "a"], "hash": ["HSET", "a", "b"], "stream": ["XADD", "*", "a", "b"],
}  # fmt: skip
OF_THEIR_OWN = {"mutex": "hash", "fair": "hash", "read": "hash", "write": "hash", "semaphore": "string", "permit_semaphore": "zset", "latch": "string"}


@pytest.mark.parametrize("kind", ["mutex", *KINDS, "latch"])
def test_d19_a_key_of_somebody_else(redis_server: Server, agent: Agent, kind: str) -> None:
    """Foreign data stays unchanged, and the answer names it."""
    client = agent.open(redis_server, command_timeout_ms=500)
    for number, (what, (command, *words)) in enumerate(ELSE.items()):
        name = f"d19 {kind} {what}"
        redis_server.command(command, name, *words)
        before = redis_server.command("DUMP", name)
        lock = client.lock(name, kind=kind)
        calls = [("latch_set", 3), ("latch_down", 1), ("acquire", 1, 0)] if kind == "latch" else [("acquire", 1, 0), ("acquire", 1, 200)]
        calls += [("permits_set", 5), ("permits_add", 1)] if "semaphore" in kind else []
        calls += [("force",)] if "semaphore" not in kind and kind != "latch" else []
        for call, *arguments in calls:
            answer = getattr(lock, call)(*arguments)
            if what == OF_THEIR_OWN[kind]:
                assert answer.status in ("WRONG_KIND", "BUSY", "TIMED_OUT", "UNCHANGED", "NOT_HELD", "SERVER_ERROR", "OK"), (what, call, answer)
            else:
                assert answer.status == "WRONG_KIND" and name in answer.message, (what, call, answer)
        if what != OF_THEIR_OWN[kind]:
            assert redis_server.command("DUMP", name) == before, f"a {what} was overwritten"
        tell(done=1, fired=1)


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "write", "semaphore", "permit_semaphore"])
def test_d19_beside_the_lock(redis_server: Server, agent: Agent, kind: str) -> None:
    """The other keys of a lock."""
    client = agent.open(redis_server, command_timeout_ms=500)
    with LockServer() as fake:  # it records which keys those are
        asked = agent.open(fake).lock("{d19}", kind=kind)
        asked.acquire(1, 0)
        (keys,) = {tuple(words[3 : 3 + int(words[2])]) for words in fake.requests if words[0] == b"EVALSHA" and b"{d19}" in words} or {()}
    assert len(keys) > 1
    for key in keys[1:]:
        for what, (command, *words) in ELSE.items():
            redis_server.command("FLUSHALL")
            redis_server.command(command, key, *words)
            before = redis_server.command("DUMP", key)
            lock = client.lock("{d19}", kind=kind)
            if "semaphore" in kind:
                lock.permits_set(1)
            answer = lock.acquire(1, 0)
            if answer.status == "OK":
                lock.release(1)
            else:
                assert answer.status in ("WRONG_KIND", "SERVER_ERROR", "BUSY", "GATE_CLOSED"), (key, what, answer)
            assert redis_server.command("TYPE", key) != "none" or answer.status == "OK", f"a {what} at {key!r} was removed"
            tell(done=1, fired=1)
            lock.drop()
