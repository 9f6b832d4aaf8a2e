"""replicas=none|N|all: a grant counts when so many replicas have it. Rows E of the matrix; each test counts that its fault happened."""
from __future__ import annotations

import contextlib
import pathlib
import re
import threading
import time
from typing import Any, Callable

import pytest

import mutants
from harness.acl import rights
from harness.agent import Agent, Answer, Client, Lock, until
from harness.build import BUILD, ROOT
from harness.fake import LockServer
from harness.faults import Fenced, times
from harness.kinds import KINDS, LEASED, one
from harness.resp import ReplyError
from harness.steps.scripts import SHA, teach
from harness.sentinel import SERVICE, Watched, ask
from harness.server import Server

LEASE = 3000
HOLDS = ("HELD", "AT_RISK")
Make = Callable[..., Any]


class Family:
    """A primary and its replicas, without sentinels."""

    def __init__(self, new_server: Make, replicas: int = 2) -> None:
        more = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        self.primary = new_server(*more)
        self.replicas = [new_server(*more, "--replicaof", f"127.0.0.1 {self.primary.port}") for _ in range(replicas)]
        self.settle()

    def settle(self) -> None:
        """Returns when all replicas are up and acknowledge."""
        for replica in self.replicas:
            until(lambda: b"master_link_status:up" in ask(replica, "INFO", "replication"), 30)
        with self.primary.client() as redis:
            redis.command("SET", "settled", "1", "PX", 1)
            until(lambda: redis.command("WAIT", len(self.replicas), 1000) == len(self.replicas), 30)

    def promote(self, replica: Server) -> Server:
        """The primary dies, and replica is the new primary."""
        self.primary.kill()
        replica.command("REPLICAOF", "NO", "ONE")
        return replica


@pytest.fixture
def family(new_server: Make) -> Family:
    return Family(new_server)


def opened(agent: Agent, where: Any, replicas: int | str = 2, **options: Any) -> Client:
    return agent.open(where, replicas=replicas, **{"lease_ms": LEASE, **options})


def loaded(server: Server) -> bool:
    with contextlib.suppress(ReplyError):
        return server.command("EXISTS", "nothing") == 0
    return False


def got(lock: Lock, owner: int) -> Answer:
    """The grant; replicas on a busy machine may be late, again and again."""
    answers: list[Answer] = []
    until(lambda: answers.append(lock.acquire(owner, 10_000, timeout=30)) or answers[-1].status != "NOT_REPLICATED", 60)
    return answers[-1].ok


def asleep(*servers: Server) -> Any:
    class Sleep:
        def __enter__(self) -> None:
            for server in servers:
                server.pause()

        def __exit__(self, *_: object) -> None:
            for server in servers:
                server.resume()

    return Sleep()


# ---- normal operation


def test_bad_values(agent: Agent, redis_server: Server) -> None:
    for bad in ("some", "-1", "65", "1x", ""):
        assert agent.try_open(redis_server, replicas=bad).status == "INVALID_OPTION"
    answer = agent.try_open(redis_server, replicas="all")
    assert answer.status == "INVALID_OPTION" and "number" in answer.message
    agent.open(redis_server, replicas="none").ping(5000).ok


def test_wait_confirms_what_the_server_had_before(family: Family) -> None:
    """The base of replicas.h: WAIT after a write on a connection confirms all writes before it; WAIT on a new connection confirms nothing.
    """
    with asleep(*family.replicas), family.primary.client() as writer, family.primary.client() as other, family.primary.client() as fresh:
        writer.command("SET", "x", "1", "PX", 60_000)
        assert fresh.command("WAIT", 2, 50) == 2
        assert other.command("EVAL", "return redis.call('PEXPIRE', 'x', redis.call('PTTL', 'x'))", 0) == 1
        assert other.command("WAIT", 2, 50) == 0
        assert writer.command("WAIT", 2, 50) == 0


@pytest.mark.parametrize("kind", ["mutex", *KINDS, "multi"])
def test_every_good_answer_is_a_write(agent: Agent, family: Family, new_proxy: Make, kind: str) -> None:
    """After a script without a write WAIT confirms nothing. This concerns a repeated acquire and a renewal of a longer lease."""
    proxy = new_proxy(family.primary)
    asked: dict[bytes, bytes] = {}  # by script
    proxy.up.on("EVALSHA", lambda _link, data: asked.setdefault(data.split(b"\r\n")[4], data))
    teach(family.primary)
    client = opened(agent, proxy)
    lock = client.multi(client.lock("a"), client.lock("b")) if kind == "multi" else one(client, kind, lease_ms=600)
    asked.clear()
    got(lock, 1)
    until(lambda: len(asked) >= (1 if kind == "semaphore" else 2))
    if kind not in ("semaphore", "multi"):
        lock.extend(1, 60_000).ok

    def written() -> int:
        return int(re.findall(rb"master_repl_offset:(\d+)", family.primary.command("INFO", "replication"))[0])

    with family.primary.client() as redis:
        for _ in range(20):
            for command in list(asked.values()):
                before = written()
                redis.socket.sendall(command)
                answer = redis.read()
                assert isinstance(answer, list) and answer[0] == 1, answer
                assert written() > before, command


def test_a_grant_is_on_every_replica(agent: Agent, family: Family) -> None:
    lock = opened(agent, family.primary).lock("confirmed")
    for turn in range(20):
        got(lock, 1)
        assert [replica.command("EXISTS", "confirmed") for replica in family.replicas] == [1, 1]
        lock.release(1).ok


@pytest.mark.parametrize("kind", LEASED)
def test_every_kind(agent: Agent, family: Family, kind: str) -> None:
    lock = one(opened(agent, family.primary), kind, "kind")
    got(lock, 1)
    assert [replica.command("EXISTS", "kind") for replica in family.replicas] == [1, 1]
    lock.release(1).ok
    with asleep(family.replicas[1]):
        assert lock.acquire(1, 0).status == "NOT_REPLICATED"
    got(lock, 1)


def test_multi_locks(agent: Agent, family: Family) -> None:
    client = opened(agent, family.primary)
    both = client.multi(client.lock("{m}1"), client.lock("{m}2"))
    got(both, 1)
    both.release(1).ok
    with asleep(family.replicas[0]):
        assert both.acquire(1, 0).status == "NOT_REPLICATED"
        until(lambda: family.primary.command("EXISTS", "{m}1", "{m}2") == 0)
    got(both, 1)


def test_turns_of_processes(new_agent: Make, family: Family) -> None:
    """The waiter confirms a grant that a release made for it: nobody starves, tokens grow."""
    locks = [opened(new_agent(), family.primary).lock("turns") for _ in range(3)]
    tokens: list[int] = []

    def turn(lock: Lock) -> None:
        for _ in range(30):
            tokens.append(got(lock, 1).token)
            lock.release(1, timeout=30).ok

    threads = [threading.Thread(target=turn, args=[lock]) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 90 and tokens == sorted(set(tokens))


def test_a_pushed_grant_is_not_believed(agent: Agent, new_agent: Make, family: Family) -> None:
    """The release grants the lock to the waiter, and no replica gets it: the waiter does not have it."""
    client = opened(new_agent(), family.primary, command_timeout_ms=300)
    holder, waiter = agent.open(family.primary, lease_ms=LEASE).lock("pushed"), client.lock("pushed")
    got(holder, 1)
    wait = waiter.start("acquire", 2, -1, thread=1)
    until(lambda: holder.inspect().ok.event.waiters == 1)
    with asleep(*family.replicas):
        holder.release(1).ok
        until(lambda: family.primary.command("EXISTS", "pushed") == 1)  # granted by the release
        before = client.counters()["commands"]
        until(lambda: client.counters()["commands"] >= before + 3)  # it asks, and the answer is not confirmed
        assert waiter.state(2) == "WAITING" and not wait.ready()
    wait.answer().ok
    assert all(replica.command("EXISTS", "pushed") for replica in family.replicas)


def test_without_the_right_to_wait(agent: Agent, family: Family) -> None:
    family.primary.command("ACL", "SETUSER", "hasty", "on", ">word", "~*", "&*", "+@all", "-wait")
    lock = opened(agent, family.primary, username="hasty", password="word").lock("denied")
    answer = lock.acquire(1, 0)
    assert answer.status == "DENIED" and "WAIT" in answer.message
    until(lambda: family.primary.command("EXISTS", "denied") == 0)


# ---- E-01, E-02: the primary dies before a replica has the grant


def cut_off(family: Family) -> None:
    """Replicas get nothing any more, and do not notice."""
    for replica in family.replicas:
        replica.command("REPLICAOF", "127.0.0.1", "1")


def double_grants(new_agent: Make, new_server: Make, rounds: int, replicas: int | str) -> tuple[int, int]:
    """The primary dies before its replica has the grant. Returns how often two held the lock, and how often nobody was granted it."""
    overlaps = refused = 0
    agent, other = new_agent(), new_agent()
    for _ in range(rounds):
        family = Family(new_server, 1)
        mine = opened(agent, family.primary, replicas, renew="no").lock("mine")
        got(mine, 1)
        mine.release(1).ok
        cut_off(family)
        first = mine.acquire(1, 0)
        new = family.promote(family.replicas[0])
        theirs = got(other.open(new, lease_ms=LEASE).lock("mine"), 1).token
        overlaps += mine.state(1) in HOLDS
        refused += first.status == "NOT_REPLICATED"
        if first.status == "OK":
            fenced = Fenced(new)
            assert fenced.write("mine", max(theirs, first.token)) and not fenced.write("mine", min(theirs, first.token))
        family.replicas[0].stop()
        family.primary.stop()
    return overlaps, refused


@pytest.mark.parametrize("rounds", times(1, 3))
def test_e01_without_confirmation_two_hold(new_agent: Make, new_server: Make, rounds: int) -> None:
    """The control: a primary with replicas alone does not exclude the overlap."""
    assert double_grants(new_agent, new_server, rounds, "none") == (rounds, 0)


@pytest.mark.parametrize("rounds", times(1, 6))
def test_e02_with_confirmation_it_was_never_granted(new_agent: Make, new_server: Make, rounds: int) -> None:
    assert double_grants(new_agent, new_server, rounds, 1) == (0, rounds)


# ---- what replicas do not confirm: the control of the table in docs/levels.md


@pytest.mark.parametrize("rounds", times(1, 6))
def test_counts_are_not_confirmed(new_agent: Make, new_server: Make, rounds: int) -> None:
    """Counts, and releases of permits without a lease, are answered before a replica has them. A failover undoes them; both can be done again."""
    for _ in range(rounds):
        family = Family(new_server, 1)
        client = opened(new_agent(), family.primary, 1)
        latch, seats = client.lock("import", kind="latch"), client.lock("seats", kind="semaphore")
        latch.latch_set(1).ok
        seats.permits_set(1).ok
        got(seats, 1)
        family.settle()
        replica = family.replicas[0]
        replica.command("REPLICAOF", "127.0.0.1", 1)  # the link between the servers is cut
        latch.latch_down(1).ok
        seats.release(1).ok
        assert client.lock("mutex").acquire(1, 0).status == "NOT_REPLICATED"
        family.primary.kill()
        replica.command("REPLICAOF", "NO", "ONE")
        later = new_agent().open(replica, lease_ms=1000)
        latch, seats = later.lock("import", kind="latch"), later.lock("seats", kind="semaphore")
        assert latch.acquire(1, 0).status == "BUSY" and seats.acquire(1, 0).status == "BUSY"
        latch.latch_down(1).ok
        latch.acquire(1, 0).ok
        until(lambda: seats.permits_reclaim(1000).status == "OK" and seats.acquire(1, 0).status == "OK", 30)


# ---- E-03: a short answer leaves nothing behind (Redisson #4706)


@pytest.mark.parametrize("rounds", times(3, 9))
def test_e03_short(agent: Agent, family: Family, rounds: int) -> None:
    client = opened(agent, family.primary)
    lock = client.lock("short")
    got(lock, 1)
    lock.release(1).ok
    for turn in range(rounds):
        with asleep(family.replicas[turn % 2]):
            answer = lock.acquire(1, 0 if turn % 2 else 2000)
            assert answer.status == "NOT_REPLICATED" and answer.retryable and "1 of 2" in answer.message
            until(lambda: family.primary.command("EXISTS", "short") == 0)
            assert lock.state(1) == "NONE" and client.counters()["held"] == 0
        got(lock, 1)
        lock.release(1).ok
        until(lambda: family.primary.command("EXISTS", "short") == 0)
    assert client.counters()["lost"] == 0


def test_e03_a_wait_goes_on_until_its_own_time_is_over(agent: Agent, family: Family) -> None:
    """A replica that is away may come back; when it does not, the message says why."""
    client = opened(agent, family.primary, command_timeout_ms=300)
    lock = client.lock("patient")
    with asleep(family.replicas[0]):
        answer = lock.acquire(1, 1500, timeout=30)
        assert answer.status == "NOT_REPLICATED" and "1 of 2" in answer.message
        until(lambda: family.primary.command("EXISTS", "patient") == 0)
        wait = lock.start("acquire", 1, 60_000, thread=1)
        before = client.counters()["commands"]
        until(lambda: client.counters()["commands"] >= before + 5)  # it was refused, and asks again
        assert lock.state(1) == "WAITING"
    token = wait.answer().ok.token
    assert token > 0 and all(replica.command("EXISTS", "patient") for replica in family.replicas)


def test_e03_the_next_in_line_is_not_forgotten(new_agent: Make, family: Family) -> None:
    """A grant that is taken back goes to the next in line, as in any release."""
    hasty, patient = opened(new_agent(), family.primary).lock("next"), new_agent().open(family.primary).lock("next")
    with asleep(family.replicas[0]):
        first = hasty.start("acquire", 1, 0, thread=1)
        until(lambda: family.primary.command("EXISTS", "next") == 1)
        second = patient.start("acquire", 2, -1, thread=1)
        assert first.answer().status == "NOT_REPLICATED"
        second.answer().ok


# ---- E-04: confirmed by one replica, the other is promoted


@pytest.mark.parametrize("rounds", times(1, 3))
@pytest.mark.parametrize("quarantine", [0, LEASE])
def test_e04_the_other_replica_is_promoted(new_agent: Make, new_server: Make, rounds: int, quarantine: int) -> None:
    """One of two is not enough (two hold). With the quarantine, or with confirmation by both, nobody is granted a held lock."""
    for _ in range(rounds):
        family = Family(new_server)
        mine = opened(new_agent(), family.primary, 1, renew="no", quarantine_ms=quarantine)
        if quarantine:
            mine.provision(5000).ok
            family.settle()
        lock = mine.lock("one")
        family.replicas[1].command("REPLICAOF", "127.0.0.1", "1")
        got(lock, 1)
        all_of_them = opened(new_agent(), family.primary, 2, quarantine_ms=quarantine)
        assert all_of_them.lock("all").acquire(1, 0).status == "NOT_REPLICATED"
        new = family.promote(family.replicas[1])
        assert new.command("EXISTS", "one") == 0
        theirs = opened(new_agent(), new, "none", quarantine_ms=quarantine).lock("one")
        if quarantine:
            assert theirs.acquire(2, 0).status == "QUARANTINED"
        got(theirs, 2)
        assert (lock.state(1) in HOLDS) == (quarantine == 0)


def test_l2_control_a_primary_that_restarts_empty(new_agent: Make, family: Family) -> None:
    """L2 ends where the primary's memory does: its replicas forget with it. With the quarantine, L2q, nobody is granted a held lock."""
    for quarantine in (LEASE, 0):
        mine = opened(new_agent(), family.primary, renew="no", lease_ms=LEASE, quarantine_ms=quarantine)
        if quarantine:
            mine.provision(5000).ok
        lock = mine.lock(f"empty{quarantine}")
        got(lock, 1)
        family.primary.restart()
        theirs = opened(new_agent(), family.primary, "none", quarantine_ms=quarantine).lock(f"empty{quarantine}")
        if quarantine:
            assert theirs.acquire(2, 0).status == "QUARANTINED"
            family.settle()
            continue
        got(theirs, 2)
        assert lock.state(1) in HOLDS  # both


# ---- E-05: replicas come and go


def test_e05_a_replica_that_goes_is_missed(agent: Agent, family: Family, new_server: Make) -> None:
    """The option has the number: fewer connected replicas are not "all"; others may replace them."""
    lock = opened(agent, family.primary).lock("number")
    got(lock, 1)
    lock.release(1).ok
    family.replicas[1].command("REPLICAOF", "NO", "ONE")
    until(lambda: b"connected_slaves:1" in family.primary.command("INFO", "replication"))
    assert lock.acquire(1, 0).status == "NOT_REPLICATED"
    family.replicas[1] = new_server("--replicaof", f"127.0.0.1 {family.primary.port}", "--repl-diskless-sync-delay", "0")
    family.settle()
    got(lock, 1)


def test_e05_all_is_what_sentinels_know(agent: Agent) -> None:
    """A replica that is down still counts: without it nothing is granted, until the sentinels are told to forget it."""
    with Watched(replicas=2, sentinels=1) as watched:
        lock = agent.open(watched.url, replicas="all", lease_ms=LEASE).lock("all")
        until(lambda: lock.acquire(1, 0).status == "OK", 30)  # they are in sync
        assert all(ask(server, "EXISTS", "all") for server in watched.servers)
        lock.release(1).ok
        gone = watched.replica()
        gone.kill()
        until(lambda: b"connected_slaves:1" in ask(watched.primary(), "INFO", "replication"), 20)
        answer = lock.acquire(1, 0)
        assert answer.status == "NOT_REPLICATED" and "1 of 2" in answer.message, answer
        gone.start()
        until(lambda: lock.acquire(1, 0).status == "OK", 30)


def test_e05_a_replica_that_joins_counts_at_once(agent: Agent, new_server: Make) -> None:
    """The primary says how many it has, with every confirmation; when the link is cut, the sentinels know of the replica."""
    with Watched(replicas=1, sentinels=3) as watched:
        lock = agent.open(watched.url, replicas="all", lease_ms=LEASE).lock("joined")
        got(lock, 1)
        lock.release(1).ok
        primary = watched.primary()
        new = new_server("--replicaof", f"127.0.0.1 {primary.port}", "--repl-diskless-sync-delay", "0")
        until(lambda: b"connected_slaves:2" in ask(primary, "INFO", "replication"), 20)
        with asleep(new):
            answer = lock.acquire(1, 0)
            assert answer.status == "NOT_REPLICATED" and "2 replicas" in answer.message, answer
        watched.servers.append(new)
        watched.until(lambda: all(watched._knows(sentinel) for sentinel in watched.sentinels), 40)
        got(lock, 1)
        lock.release(1).ok
        ask(new, "REPLICAOF", "127.0.0.1", 1)
        until(lambda: b"connected_slaves:1" in ask(primary, "INFO", "replication"), 20)
        answer = lock.acquire(1, 0)
        assert answer.status == "NOT_REPLICATED" and "1 of 2" in answer.message, answer
        answer = opened(agent, watched.url, "all").lock("joined").acquire(1, 0)  # a client that has never seen it
        assert answer.status == "NOT_REPLICATED" and "1 of 2" in answer.message, answer


def test_e05_the_remedy_helps_clients_that_run(agent: Agent, patience: int = 40) -> None:
    """SENTINEL RESET: the sentinels forget the replica that is gone, and so does every client. One that lives counts on."""
    with Watched(replicas=2, sentinels=3) as watched:
        lock = agent.open(watched.url, replicas="all", lease_ms=LEASE).lock("reset")
        got(lock, 1)
        lock.release(1).ok
        gone = watched.replica()
        gone.kill()
        until(lambda: b"connected_slaves:1" in ask(watched.primary(), "INFO", "replication"), 20)
        assert lock.acquire(1, 0).status == "NOT_REPLICATED"
        for sentinel in watched.sentinels:
            sentinel.command("SENTINEL", "RESET", SERVICE)
        until(lambda: lock.acquire(1, 0).status == "OK", patience)
        lock.release(1).ok
        (left,) = [server for server in watched.servers if server.process and server is not watched.primary()]
        with asleep(left):
            for sentinel in watched.sentinels:
                sentinel.command("SENTINEL", "RESET", SERVICE)
            assert lock.acquire(1, 0).status == "NOT_REPLICATED"
            answer = opened(agent, watched.url, "all").lock("reset").acquire(1, 0)
            assert answer.status == "NOT_REPLICATED", answer


def test_e05_the_sentinel_that_knows_most_counts(agent: Agent) -> None:
    """One sentinel has forgotten a replica that is cut off; the others can still promote it."""
    with Watched(replicas=2, sentinels=3) as watched:
        cut = watched.replica()
        ask(cut, "REPLICAOF", "127.0.0.1", 1)
        until(lambda: b"connected_slaves:1" in ask(watched.primary(), "INFO", "replication"), 20)
        watched.sentinels[0].command("SENTINEL", "RESET", SERVICE)
        words = watched.sentinels[0].command("SENTINEL", "MASTER", SERVICE)
        assert int(dict(zip(words[::2], words[1::2]))[b"num-slaves"]) < 2
        answer = opened(agent, watched.url, "all").lock("most").acquire(1, 0)
        assert answer.status == "NOT_REPLICATED" and "1 of 2" in answer.message, answer


# ---- E-07: min-replicas-to-write


def test_e07_too_few_replicas_to_write(agent: Agent, family: Family) -> None:
    """The server refuses every write: a status for that, nothing left; held locks are not confirmed and are lost in time."""
    client = opened(agent, family.primary, 1, lease_ms=1800)
    lock, plain = client.lock("kept"), agent.open(family.primary).lock("plain")
    got(lock, 1)
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > before)
    family.primary.command("CONFIG", "SET", "min-replicas-to-write", "3")
    answers = [client.lock("other").acquire(2, 0), plain.acquire(1, 0), plain.acquire(1, 100)]
    assert [answer.status for answer in answers] == ["NOT_REPLICATED"] * 3
    events = [client.event().type, client.event().type]
    assert events == ["AT_RISK", "LOST"] and lock.state(1) == "LOST"
    family.primary.command("CONFIG", "SET", "min-replicas-to-write", "0")
    assert family.primary.command("EXISTS", "other", "plain") == 0
    got(client.lock("other"), 2)


# ---- E-08: two primaries


@pytest.mark.parametrize("rounds", times(1, 3, soak=10))
def test_e08_the_old_primary_lives_on(new_agent: Make, new_server: Make, rounds: int) -> None:
    """It is cut off from its replica, which is promoted, but not from its holder. The holder's renewals are not confirmed any more,
    and it loses the lock before the new primary grants it to somebody else. The replica's side makes the cut.
    """
    for _ in range(rounds):
        family = Family(new_server, 1)
        client = opened(new_agent(), family.primary, 1, lease_ms=1500, command_timeout_ms=300)
        lock, other = client.lock("split"), opened(new_agent(), family.replicas[0], "none", lease_ms=1500).lock("split")
        token = got(lock, 1).token
        before = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] > before)
        family.replicas[0].command("REPLICAOF", "NO", "ONE")
        theirs = got(other, 2).token
        assert lock.state(1) == "LOST" and family.primary.process
        fenced = Fenced(family.replicas[0])
        assert theirs > token and fenced.write("split", theirs) and not fenced.write("split", token)
        assert lock.acquire(1, 0).status == "NOT_REPLICATED"  # and the old primary's side grants nothing
        family.primary.stop()
        family.replicas[0].stop()


# ---- E-09: all replicas synchronise at once


def test_e09_no_storm_while_replicas_synchronise(agent: Agent, family: Family) -> None:
    """Links are cut all the time: renewals are still sent, at most twice as often."""
    for i in range(20):
        family.primary.command("SET", f"ballast{i}", "x" * 1_000_000)
    client = opened(agent, family.primary, lease_ms=1500)
    locks = [client.lock(f"kept{i}") for i in range(10)]
    for lock in locks:
        got(lock, 1)

    def commands(seconds: float) -> int:
        before = client.counters()["commands"]
        time.sleep(seconds)
        return client.counters()["commands"] - before

    usual = commands(3)
    syncs = int(dict(line.split(b":", 1) for line in family.primary.command("INFO", "stats").split() if b":" in line)[b"sync_full"])
    stop = threading.Event()

    def cut() -> None:
        for replica in family.replicas:
            replica.command("REPLICAOF", "NO", "ONE")
            replica.command("DEBUG", "CHANGE-REPL-ID")
            replica.command("REPLICAOF", "127.0.0.1", family.primary.port)

    thread = threading.Thread(target=lambda: [cut() for _ in iter(lambda: stop.wait(0.5), True)])
    thread.start()
    storm = commands(3)
    stop.set()
    thread.join()
    after = int(dict(line.split(b":", 1) for line in family.primary.command("INFO", "stats").split() if b":" in line)[b"sync_full"])
    assert after > syncs and usual > 0 and storm <= 2 * usual + 10


# ---- E-12: failovers under load, E-13: the old primary comes back


class Turns:
    """Processes that take turns during faults."""

    def __init__(self, locks: list[Lock]) -> None:
        self.locks, self.counts, self.errors = locks, [0] * len(locks), []
        self.tokens: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._turn, args=[index]) for index in range(len(locks))]

    def _turn(self, index: int) -> None:
        last = 0
        while not self._stop.is_set():
            answer = self.locks[index].acquire(1, 60_000, timeout=90)
            if answer.status not in ("OK", "LOST") and not answer.retryable:  # lost right after the grant: a failover came
                self.errors.append(answer)
            if answer.status != "OK":
                time.sleep(0.05)
                continue
            if answer.token <= last:
                self.errors.append((answer.token, last))
            last = answer.token
            self.locks[index].release(1, timeout=90)
            self.counts[index] += 1

    def progress(self, timeout: float = 90) -> None:
        """Everybody has had a turn since then."""
        seen = list(self.counts)
        until(lambda: all(now > before for now, before in zip(self.counts, seen)), timeout)

    def __enter__(self) -> Turns:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("count", times(1, 2, 900, 20))
@pytest.mark.parametrize("mode", [pytest.param({}, id="L1"), pytest.param({"replicas": "all", "quarantine_ms": 2000}, id="L2q", marks=pytest.mark.full)])
def test_e12_failovers(new_agent: Make, mode: dict[str, Any], count: int) -> None:
    """Ordered failovers under load, 20 in the soak: nobody hangs, everybody has turns after each, tokens grow for each process. With
    replicas and quarantine each takes the longest lease more.
    """
    with Watched(replicas=2, sentinels=3) as watched:
        agents = [new_agent() for _ in range(3)]
        clients = [one.open(watched.url, lease_ms=2000, command_timeout_ms=500, **mode) for one in agents]
        if mode:
            clients[0].provision(5000).ok
        failovers = 0
        with Turns([client.lock("load") for client in clients]) as turns:
            for _ in range(count):
                turns.progress()
                before = watched.port()
                watched.failover()
                failovers += watched.port() != before
            turns.progress()
        assert failovers == count and not turns.errors


@pytest.mark.parametrize("rounds", times(1, 3, soak=10))
def test_e13_the_old_primary_comes_back(new_agent: Make, new_server: Make, rounds: int) -> None:
    """With its old keys: no claim comes alive by that, its holder stays LOST, and nobody is granted the lock too early."""
    for _ in range(rounds):
        family = Family(new_server, 1)
        family.primary.command("CONFIG", "SET", "appendonly", "yes")
        mine = opened(new_agent(), family.primary, 1, lease_ms=1500, quarantine_ms=1500, command_timeout_ms=300)
        mine.provision(5000).ok
        lock = mine.lock("back")
        token = got(lock, 1).token
        family.primary.options += ("--appendonly", "yes")
        family.primary.pause()
        family.replicas[0].command("REPLICAOF", "NO", "ONE")
        other = opened(new_agent(), family.replicas[0], "none", lease_ms=1500, quarantine_ms=1500).lock("back")
        assert other.acquire(2, 0).status == "QUARANTINED"
        theirs = got(other, 2).token
        assert theirs > token and lock.state(1) == "LOST"
        family.primary.restart()
        until(lambda: loaded(family.primary))
        third = opened(new_agent(), family.primary, "none", lease_ms=1500, quarantine_ms=1500).lock("back")
        assert third.acquire(3, 0).status == "QUARANTINED"
        assert lock.state(1) == "LOST" and other.state(2) == "HELD"
        lock.release(1)
        family.primary.stop()
        family.replicas[0].stop()


# ---- renewals


@pytest.mark.parametrize("rounds", times(1, 3, soak=10))
def test_renewals_that_are_not_confirmed_do_not_count(agent: Agent, family: Family, rounds: int) -> None:
    """The primary goes on, its replicas do not: the holder is warned and loses the lock, though the key is kept alive."""
    client = opened(agent, family.primary, lease_ms=1800)
    lock = client.lock("renewed")
    for turn in range(rounds):
        got(lock, 1)
        before = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= before + 2)
        with asleep(family.replicas[turn % 2]):
            assert [client.event().type, client.event().type] == ["AT_RISK", "LOST"]
            assert lock.state(1) == "LOST"
        lock.release(1)
    assert client.counters()["lost"] == rounds


def test_an_extension_that_is_not_confirmed(agent: Agent, family: Family) -> None:
    lock = opened(agent, family.primary, renew="no").lock("longer")
    got(lock, 1)
    with asleep(*family.replicas):
        answer = lock.extend(1, 10_000)
        assert answer.status == "NOT_REPLICATED" and lock.state(1) == "HELD"
    lock.extend(1, 10_000).ok
    lock.release(1).ok


# ---- connections


def test_renewals_go_before_what_waits_for_a_connection(agent: Agent, family: Family, new_proxy: Make) -> None:
    """All connections wait for replies, and a hundred acquires for a connection, when the renewal is due."""
    teach(family.primary)
    proxy = new_proxy(family.primary)
    client = opened(agent, proxy, command_timeout_ms=30_000, watchdog_threads=1, lease_ms=60_000)
    held = client.lock("held", lease_ms=9000)
    got(held, 1)
    proxy.up.delay = 0.02  # long enough that each connection is needed
    for tag in range(20):
        client.lock(f"first {tag}").submit_acquire(1, -1, tag).ok
    until(lambda: client.counters()["acquired"] == 21)
    proxy.up.delay = 0
    sent: list[str] = []
    for script in ("acquire", "renew"):
        proxy.up.on(SHA[script], lambda _link, _data, script=script: sent.append(script), times=None)
    proxy.down.hold()
    for tag in range(100):
        client.lock(f"second {tag}").submit_acquire(1, -1, tag).ok
    renewals = client.counters()["renewal_scripts"]
    until(lambda: client.counters()["renewal_scripts"] > renewals)
    assert sent == ["acquire"] * 4
    proxy.down.release()
    until(lambda: client.counters()["acquired"] == 121)
    assert sent.index("renew") < 10 and held.state(1) == "HELD"


def test_a_connection_outlives_who_wanted_it_first(agent: Agent, family: Family, new_proxy: Make) -> None:
    """A slow handshake is awaited once. A new one per attempt would use up connects_per_second."""
    proxy = new_proxy(family.primary)
    lock = opened(agent, proxy, command_timeout_ms=50, connect_timeout_ms=30_000, connects_per_second=1000).lock("slow")
    proxy.down.hold()
    assert lock.acquire(1, 2000).status == "UNREACHABLE"
    assert proxy.connections <= 3, "one for the lane, one to hear, one that is shared"
    proxy.down.release()
    got(lock, 1)


# ---- mutants


def test_what_replicas_that_sleep_do_not_confirm(agent: Agent, family: Family) -> None:
    """Although they confirmed everything before; mutants.REPLICAS breaks it."""
    lock = opened(agent, family.primary, renew="no").lock("asleep")
    for _ in range(2):
        got(lock, 1)
        lock.release(1).ok
    family.settle()
    with asleep(family.replicas[0]):
        assert lock.acquire(1, 0).status == "NOT_REPLICATED"
    got(lock, 1)
    family.settle()
    with asleep(*family.replicas):
        assert lock.extend(1, 10_000).status == "NOT_REPLICATED"


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.REPLICAS, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, new_agent: Make, family: Family, tmp_path: pathlib.Path) -> None:
    """A mutant still grants locks; the test above finds it."""
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutant)))
    with pytest.raises(AssertionError, match="'OK' == 'NOT_REPLICATED'"):
        test_what_replicas_that_sleep_do_not_confirm(agent, family)


@pytest.mark.house  # as above
def test_mutant_of_a_wait(new_agent: Make, family: Family, tmp_path: pathlib.Path) -> None:
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutants.IMPATIENT)))
    with pytest.raises(AssertionError):
        test_e03_a_wait_goes_on_until_its_own_time_is_over(agent, family)


@pytest.mark.house  # as above
@pytest.mark.parametrize("mutant", mutants.ALL_REPLICAS, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant_of_all(mutant: mutants.Mutant, new_agent: Make, new_server: Make, tmp_path: pathlib.Path) -> None:
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutant)))
    with pytest.raises(AssertionError):
        if mutant.world == "joins":
            test_e05_a_replica_that_joins_counts_at_once(agent, new_server)
        elif mutant.world == "knows_most":
            test_e05_the_sentinel_that_knows_most_counts(agent)
        else:
            test_e05_the_remedy_helps_clients_that_run(agent, 10)


# ---- rights


def test_a_refusal_of_wait_is_told_without_the_password(agent: Agent) -> None:
    with LockServer() as fake:
        fake.on("WAIT", b"-ERR someone:open-sesame may not WAIT\r\n")
        answer = agent.open(fake, replicas=1, password="open-sesame").lock("refused").acquire(1, 0)
        assert answer.status == "SERVER_ERROR" and "someone:*** may not WAIT" in answer.message, answer


def test_with_just_the_rights(agent: Agent, family: Family) -> None:
    """Those of docs/acl.md for a mutex, the quarantine and replicas."""
    rules = [*rights("mutex", "billing").rules(), "+info", "+hmget", "+hset", "+hget", "+time", "~dlock_memory:billing", "+wait"]
    family.primary.command("ACL", "SETUSER", "billing", "reset", "on", ">word", "resetchannels", "-@all", *rules)
    client = opened(agent, family.primary, quarantine_ms=LEASE, namespace="billing", username="billing", password="word")
    client.provision(5000).ok
    lock = client.lock("just")
    got(lock, 1)
    lock.release(1).ok
