"""quarantine_ms: after a server may have lost its memory nobody is granted a lock until all earlier leases have ended.

Rows D-09 to D-12 of the matrix; each test counts that its fault happened, with a control that shows the overlap without quarantine.
The full run has 40, 40, 20 and 15 rounds, where the matrix has 500: a round lasts as long as a quarantine.
"""
from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any, Callable

import pytest

from harness.acl import embed
from harness.agent import Agent, Client, until
from harness.build import LIBRARY, ROOT
from harness.faults import Fenced, times
from harness.kinds import LEASED, calls, one
from harness.steps.redisson import Jvm
from harness.resp import ReplyError
from harness.server import Server
from harness.steps.scripts import path_of
from harness.steps.wire import Wire, server_ms

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

LONGEST = 1200  # ms: the longest lease here
MARKER = "dlock_memory"
HOLDS = ("HELD", "AT_RISK")
Make = Callable[..., Any]


def opened(agent: Agent, where: Any, provision: bool = True, **options: Any) -> Client:
    client = agent.open(where, **{"lease_ms": LONGEST, "quarantine_ms": LONGEST, **options})
    if provision:
        client.provision(5000).ok
    return client


def forgets(server: Server) -> None:
    """Its data is complete, but it cannot know that: as after a restart."""
    assert server.command("HSET", MARKER, "epoch", "another") == 0


def knows(server: Server, key: str) -> bool | None:
    """None while it loads its log."""
    try:
        return server.command("EXISTS", key) == 1
    except ReplyError:
        return None


# ---- the option and the call


def test_off_by_default_and_without_cost(agent: Agent, redis_server: Server) -> None:
    lock = agent.open(redis_server).lock("plain")
    redis_server.command("CONFIG", "RESETSTAT")
    lock.acquire(1, 5000).ok
    lock.release(1).ok
    assert redis_server.command("EXISTS", MARKER) == 0
    assert b"cmdstat_info:" not in redis_server.command("INFO", "commandstats")


def test_a_new_server_is_quarantined_until_it_is_provisioned(agent: Agent, redis_server: Server) -> None:
    client = opened(agent, redis_server, provision=False)
    lock = client.lock("first")
    answer = lock.acquire(1, 0)
    assert answer.status == "QUARANTINED" and "ms" in answer.message and answer.retryable
    assert redis_server.command("EXISTS", "first") == 0
    client.provision(5000).ok
    lock.acquire(1, 5000).ok
    lock.release(1).ok
    assert redis_server.command("HGET", MARKER, "longest") == str(LONGEST).encode()


def test_waiters_wait_it_out(agent: Agent, redis_server: Server) -> None:
    """By their own clocks: no message comes. A waiter with less patience gets the reason."""
    lock = opened(agent, redis_server, provision=False).lock("patience")
    assert lock.acquire(1, 0).status == lock.acquire(1, 50).status == "QUARANTINED"  # the second has a connection
    before = redis_server.command("HGET", MARKER, "until")
    wait = lock.start("acquire", 2, -1, thread=1)
    assert wait.answer().ok.token > int(before) * 1000  # microseconds of the server's clock
    assert redis_server.command("HGET", MARKER, "until") == before
    lock.release(2).ok


def test_waiters_notice_that_it_ended_before_its_time(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """No message comes, not even for the first in line: they probe."""
    long = {"quarantine_ms": 600_000, "lease_ms": 5000, "safety_ms": 100}
    lock, other = opened(agent, redis_server, False, **long).lock("provisioned"), opened(new_agent(), redis_server, False, **long)
    wait = lock.start("acquire", 1, 15_000, thread=1)
    until(lambda: lock.state(1) == "WAITING" and redis_server.command("EXISTS", MARKER) == 1)
    other.provision(5000).ok
    first = other.lock("provisioned")
    token = first.acquire(2, 5000).ok.token
    first.release(2).ok
    assert wait.answer().ok.token != token
    lock.release(1).ok


def test_provisioning_in_the_background(agent: Agent, redis_server: Server) -> None:
    client = opened(agent, redis_server, provision=False)
    client.submit_provision(7, 5000).ok
    event = client.event()
    assert event.type == "DONE" and event.tag == 7 and event.status == 0
    client.lock("submitted").acquire(1, 5000).ok


def test_without_the_option_there_is_nothing_to_provision(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    assert client.provision(5000).status == client.submit_provision(1, 5000).status == "UNSUPPORTED"


def test_python(redis_server: Server) -> None:
    with dlock.Client(redis_server.url, quarantine_ms=30_000) as client:
        with pytest.raises(dlock.Quarantined):
            client.lock("python").acquire(timeout=0)
        client.provision()
        with client.lock("python"):
            pass
    with dlock.Client(redis_server.url) as client, pytest.raises(dlock.Unsupported):
        client.provision()


def test_leases_are_never_longer(agent: Agent, redis_server: Server) -> None:
    answer = agent.try_open(redis_server, lease_ms=1000, quarantine_ms=999)
    assert answer.status == "INVALID_OPTION" and "quarantine_ms" in answer.message
    assert agent.try_open(redis_server, lease_ms=1000, lock_delay_ms=1, quarantine_ms=1000).status == "INVALID_OPTION"
    client = opened(agent, redis_server)
    assert client.new("long", lease_ms=LONGEST + 1).status == "LEASE_REFUSED"
    assert client.new("long", lease_ms=LONGEST + 1, quarantine_ms=0).status == "INVALID_OPTION"
    lock = client.lock("lease")
    lock.acquire(1, 5000).ok
    assert lock.extend(1, LONGEST + 1).status == "LEASE_REFUSED" and lock.state(1) == "HELD"
    lock.extend(1, LONGEST).ok
    lock.release(1).ok


@pytest.mark.parametrize("other", [LONGEST // 2, LONGEST * 2])
def test_the_server_has_one_longest_lease(agent: Agent, new_agent: Make, redis_server: Server, other: int) -> None:
    """A client with another value is refused, also with a lease that is short enough: it might start the next quarantine."""
    first = opened(agent, redis_server).lock("one")
    stranger = opened(new_agent(), redis_server, provision=False, quarantine_ms=other, lease_ms=LONGEST // 4, renew="no")
    for answer in (stranger.lock("two").acquire(1, 0), stranger.lock("three").acquire(1, 5000),
                   stranger.multi(stranger.lock("four"), stranger.lock("{four}5")).acquire(1, 0)):  # fmt: skip
        assert answer.status == "LEASE_REFUSED" and str(LONGEST) in answer.message and str(other) in answer.message
    assert redis_server.command("DBSIZE") == 1
    first.acquire(1, 5000).ok
    first.release(1).ok
    stranger.provision(5000).ok
    assert first.acquire(1, 0).status == "LEASE_REFUSED"


def test_a_right_is_missing(agent: Agent, redis_server: Server) -> None:
    redis_server.command("ACL", "SETUSER", "blind", "on", ">word", "~*", "&*", "+@all", "-info")
    client = opened(agent, redis_server, provision=False, username="blind", password="word")
    assert client.lock("denied").acquire(1, 0).status == "DENIED" and client.provision(5000).status == "DENIED"


@pytest.mark.parametrize("kind", LEASED)
def test_every_kind_with_a_lease(agent: Agent, redis_server: Server, kind: str) -> None:
    client = opened(agent, redis_server)
    lock = one(client, kind, "kind")
    forgets(redis_server)
    assert lock.acquire(1, 0).status == "QUARANTINED"
    lock.acquire(1, 20_000).ok
    assert int(redis_server.command("HGET", MARKER, "until")) > 0
    lock.release(1).ok


def test_multi_locks(agent: Agent, redis_server: Server) -> None:
    client = opened(agent, redis_server)
    both = client.multi(client.lock("{m}1"), client.lock("{m}2"))
    forgets(redis_server)
    assert both.acquire(1, 0).status == "QUARANTINED"
    assert redis_server.command("EXISTS", "{m}1", "{m}2") == 0
    both.acquire(1, 20_000).ok
    both.release(1).ok


# ---- holders go on; grants from other clients are blocked too


def test_held_locks_go_on(agent: Agent, redis_server: Server) -> None:
    client = opened(agent, redis_server)
    lock = client.lock("kept")
    token = lock.acquire(1, 5000).ok.token
    forgets(redis_server)
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + 4)
    assert lock.state(1) == "HELD" and lock.token(1).ok.token == token
    lock.release(1).ok


@pytest.mark.parametrize("kind", ["mutex", "fair"])
@pytest.mark.parametrize("how", ["release", "force"])
def test_a_release_grants_nothing_meanwhile(
    agent: Agent, new_agent: Make, redis_server: Server, kind: str, how: str
) -> None:
    """The waiter is in line and subscribed; it is granted the lock when the quarantine is over."""
    holder, waiter = one(opened(agent, redis_server), kind, "line"), one(opened(new_agent(), redis_server), kind, "line")
    holder.acquire(1, 5000).ok
    wait = waiter.start("acquire", 2, -1, thread=1)
    until(lambda: holder.inspect().ok.event.waiters == 1)
    forgets(redis_server)
    (holder.release(1) if how == "release" else waiter.force()).ok
    assert redis_server.command("EXISTS", "line") == 0 and not wait.ready()
    over = int(redis_server.command("HGET", MARKER, "until"))
    assert wait.answer().ok.token > over * 1000
    waiter.release(2).ok


@pytest.mark.parametrize("kind", ["mutex", "fair"])
@pytest.mark.parametrize("how", ["release", "force"])
def test_a_release_at_a_full_server_that_lost_the_marker(
    agent: Agent, new_agent: Make, redis_server: Server, kind: str, how: str
) -> None:
    """Only the marker is gone, and there is no room for a new one: the lock becomes free, and nobody is granted it."""
    holder, waiter = one(opened(agent, redis_server), kind, "full"), one(opened(new_agent(), redis_server), kind, "full")
    holder.acquire(1, 5000).ok
    wait = waiter.start("acquire", 2, -1, thread=1)
    until(lambda: holder.inspect().ok.event.waiters == 1)
    redis_server.command("DEL", MARKER)
    redis_server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        used = len(redis_server.command("KEYS", "*"))
        (holder.release(1) if how == "release" else waiter.force()).ok
        assert redis_server.command("EXISTS", "full", MARKER) == 0
        assert len(redis_server.command("KEYS", "*")) < used  # it used no more memory
    finally:
        redis_server.command("CONFIG", "SET", "maxmemory", "0")
    token = wait.answer(20).ok.token if not wait.ready() else 0
    assert token > int(redis_server.command("HGET", MARKER, "until")) * 1000
    waiter.release(2).ok


def test_a_hand_over_in_one_process_grants_nothing_meanwhile(agent: Agent, redis_server: Server) -> None:
    """Release and try in one script: the release frees the lock, the try waits."""
    lock = opened(agent, redis_server, handover_turns=0).lock("pass")
    lock.acquire(1, 5000).ok
    wait = lock.start("acquire", 2, -1, thread=1)
    until(lambda: lock.state(2) == "WAITING")
    forgets(redis_server)
    lock.release(1).ok
    over = int(redis_server.command("HGET", MARKER, "until"))
    assert wait.answer().ok.token > over * 1000
    lock.release(2).ok


def test_hand_overs_in_one_process_go_on_behind_it(agent: Agent, new_agent: Make, redis_server: Server) -> None:
    """Also when another process is in line."""
    lock, other = opened(agent, redis_server, handover_turns=0).lock("pass"), opened(new_agent(), redis_server).lock("pass")
    tokens = [lock.acquire(1, 5000).ok.token]
    for turn in range(10):
        theirs = other.start("acquire", 3, -1, thread=1) if turn == 9 else None
        until(lambda: not theirs or redis_server.command("ZCARD", "dlock_queue:{pass}") == 1)
        wait = lock.start("acquire", 2, -1, thread=1)
        until(lambda: lock.state(2) == "WAITING")
        lock.release(1).ok
        if theirs:
            tokens.append(theirs.answer().ok.token)
            other.release(3).ok
        tokens.append(wait.answer().ok.token)
        lock.release(2).ok
        tokens.append(lock.acquire(1, 5000).ok.token)
    assert tokens == sorted(set(tokens))


def test_redisson_does_not_profit_and_is_not_held_back(agent: Agent, redis_server: Server) -> None:
    client = opened(agent, redis_server)
    forgets(redis_server)
    lock = client.lock("java")
    assert lock.acquire(1, 0).status == "QUARANTINED"
    with Jvm(redis_server) as jvm:
        assert jvm.lock("java").try_lock(1)
        assert lock.acquire(1, 0).status == "QUARANTINED"
        jvm.lock("java").unlock(1)
    lock.acquire(1, 20_000).ok
    lock.release(1).ok


# ---- faults


def overlaps(agent: Agent, new_agent: Make, server: Server, lose: Callable[[], Any], rounds: int, **options: Any) -> int:
    """How often somebody was granted the lock while its holder, which neither pauses nor calls, could not know of its loss.
    A resource that checks tokens is safe in any case.
    """
    both, options = 0, {"renew": "no", "command_timeout_ms": 300, **options}
    provision = "quarantine_ms" not in options
    mine = opened(agent, server, provision, **options).lock("memory")
    theirs = opened(new_agent(), server, False, **options).lock("memory")
    for turn in range(rounds):
        token = mine.acquire(1, 20_000).ok.token
        lose()
        other = theirs.acquire(1, 20_000).ok.token
        both += mine.state(1) in HOLDS
        fenced = Fenced(server)
        assert other > token and fenced.write(f"memory{turn}", other) and not fenced.write(f"memory{turn}", token)
        mine.release(1)
        theirs.release(1).ok
    return both


CONTROL = {"quarantine_ms": 0}


@pytest.mark.parametrize("rounds", times(2, 12))
def test_d09_flush(agent: Agent, new_agent: Make, redis_server: Server, rounds: int) -> None:
    redis_server.command("CONFIG", "RESETSTAT")
    assert overlaps(agent, new_agent, redis_server, lambda: redis_server.command("FLUSHALL"), rounds) == 0
    assert calls(redis_server, "flushall") == rounds


@pytest.mark.parametrize("rounds", times(3, 30))
def test_d09_control_without_quarantine(agent: Agent, new_agent: Make, redis_server: Server, rounds: int) -> None:
    """The fault is real: without quarantine two hold at the same time, every time."""
    assert overlaps(agent, new_agent, redis_server, lambda: redis_server.command("FLUSHALL"), rounds, **CONTROL) == rounds


def test_d09_a_holder_that_renews_hears_of_the_flush(agent: Agent, redis_server: Server) -> None:
    client = opened(agent, redis_server)
    client.lock("flushed").acquire(1, 5000).ok
    redis_server.command("FLUSHALL")
    event = client.event()
    assert event.type == "LOST" and client.counters()["lost"] == 1


@pytest.mark.parametrize("rounds", times(2, 12))
def test_d10_restart_without_persistence(agent: Agent, new_agent: Make, new_server: Make, rounds: int) -> None:
    server = new_server()
    runs = {server.pid}

    def restart() -> None:
        server.restart()
        runs.add(server.pid)

    assert overlaps(agent, new_agent, server, restart, rounds) == 0
    assert len(runs) == rounds + 1


@pytest.mark.parametrize("rounds", times(2, 9))
def test_d10_control_without_quarantine(agent: Agent, new_agent: Make, new_server: Make, rounds: int) -> None:
    server = new_server()
    assert overlaps(agent, new_agent, server, server.restart, rounds, **CONTROL) == rounds


def test_d10_crash_and_recovery_with_its_keys(agent: Agent, new_agent: Make, new_server: Make) -> None:
    """The server comes back with every key, and cannot know that all are there: one quarantine."""
    server = new_server("--appendonly", "yes", "--appendfsync", "always")
    client = opened(agent, server)
    lock, other = client.lock("kept"), opened(new_agent(), server, False).lock("kept")
    token = lock.acquire(1, 5000).ok.token
    server.restart()
    until(lambda: knows(server, "kept"))
    assert other.acquire(2, 0).status == "QUARANTINED"
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > before)
    assert lock.state(1) == "HELD" and lock.token(1).ok.token == token
    wait = other.start("acquire", 2, -1, thread=1)
    lock.release(1).ok
    assert wait.answer().ok.token > token


@pytest.mark.parametrize("wrong", ["folder", "replica", "database"])
def test_d11_restart_into_a_wrong_configuration(
    agent: Agent, new_server: Make, wrong: str, tmp_path: pathlib.Path
) -> None:
    """An empty folder, a replica of an empty server, another database: no grant, or none before the quarantine is over."""
    server = new_server("--appendonly", "yes")
    client = opened(agent, server)
    lock = client.lock("wrong")
    lock.acquire(1, 5000).ok
    lock.release(1).ok
    if wrong == "folder":
        server.options += ("--dir", str(tmp_path))
        server.restart()
    elif wrong == "replica":
        server.command("REPLICAOF", "127.0.0.1", new_server().port)
        until(lambda: b"master_link_status:up" in server.command("INFO", "replication"))
    else:
        lock = opened(agent, server, False, db=1).lock("wrong")
    answers = [lock.acquire(1, 0).status for _ in range(20)]
    refusals = {"SERVER_READ_ONLY"} if wrong == "replica" else {"QUARANTINED", "UNREACHABLE"}
    assert set(answers) <= refusals
    if wrong == "replica":
        server.command("REPLICAOF", "NO", "ONE")
        answers.append(lock.acquire(1, 0).status)
    assert answers[-1] == "QUARANTINED"
    lock.acquire(1, 20_000).ok


@pytest.mark.parametrize("rounds", times(2, 8))
def test_d12_the_tail_of_the_log_is_lost(agent: Agent, new_agent: Make, new_server: Make, rounds: int) -> None:
    """Power fails before the last second reaches the disk: the log ends early, in the middle of a command."""
    server = new_server("--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes")
    lost = []

    def power_fails() -> None:
        server.kill()
        (log,) = (server.folder / "appendonlydir").glob("*.incr.aof")
        text = log.read_bytes()
        grant = text.rindex(b"PEXPIRE") if b"PEXPIRE" in text else text.rindex(b"HSET")
        log.write_bytes(text[: text.rindex(b"MULTI", 0, grant) + 20])
        server.start()
        until(lambda: knows(server, "nothing") is False)
        lost.append(not knows(server, "memory"))

    assert overlaps(agent, new_agent, server, power_fails, rounds) == 0
    assert lost == [True] * rounds


# ---- mutants: defects of the scripts that must be found


MUTANTS = {
    "another run is the same server": ("quarantine", "if told[1] ~= run .. ':' .. id or", "if not told[1] or told[1]:sub(42) ~= id or"),
    "a failover is no loss": ("quarantine", "if told[1] ~= run .. ':' .. id or", "if not told[1] or told[1]:sub(1, 40) ~= run or"),
    "it begins and is over": ("quarantine", "till = known or longest, now + lasts", "till = known or longest, now"),
    "it never ends": ("quarantine", "    write('HSET', marker, 'epoch',", "    write('HMGET', marker, 'epoch',"),
    "any lease will do": ("quarantine", "if known ~= longest then", "if false then"),
    "nobody waits": ("quarantine", "elseif till > now then", "elseif till < 0 then"),
    "a loss is seen and passed over": ("quarantine_grant", "if quiet then", "if quiet and quiet[1] == -4 then"),
    "a release grants meanwhile": ("quarantine_free", "  KEYS[#KEYS] = nil\n", ""),
    "a release grants at a full server": ("quarantine_free", "  KEYS[#KEYS] = nil\n", "  KEYS[#KEYS] = marker\n"),
    "a full server refuses releases": ("quarantine_free", "write = redis.pcall", "write = redis.call"),
    "a lease may be longer than any": ("quarantine_grant", "redis.call('PTTL', KEYS[1])) > most and", "redis.call('PTTL', KEYS[1])) < 0 and"),
    "a quarantine may be longer than any": ("quarantine", "  if known == longest and till > now + drifts then", "  if false then"),
}


class Scripts:
    """The scripts of a folder for one lock, with a marker, and a longest lease of a second."""

    def __init__(self, redis: Any, folder: pathlib.Path) -> None:
        self.redis, self.folder, self.wire = redis, folder, Wire(redis, "mutant")

    def run(self, stem: str, *words: Any, longest: int = 1000) -> Any:
        text = "".join(line + "\n" for line in embed.load(path_of(stem, self.folder)))
        wire = self.wire
        keys = wire.name, wire.fence, wire.line, wire.about, wire.gate, MARKER
        return self.redis.command("EVAL", text, len(keys), *keys, *words, longest, longest + 10)

    def acquire(self, owner: str, mode: int = 0, **more: int) -> Any:
        return self.run("quarantine_acquire", owner, 500, 1, mode, 0, 60_000, 600_000, 1, **more)

    def release(self, owner: str) -> Any:
        return self.run("quarantine_release", owner, self.wire.channel, 0, 0, 0, 1)

    def epoch(self) -> bytes:
        return self.redis.command("HGET", MARKER, "epoch")


def frees_without_memory(scripts: Scripts, next_: str, holder: str) -> bool:
    """A release at a full server that has lost the marker: the lock is free, next_ in line is granted nothing."""
    redis = scripts.redis
    good = scripts.acquire(next_, 2)[0] == 0
    redis.pipeline(["DEL", MARKER], ["CONFIG", "SET", "maxmemory", "1"])
    try:
        released = scripts.release(holder)
    except ReplyError:
        released = None
    redis.command("CONFIG", "SET", "maxmemory", "0")
    return bool(good and released == 1 and redis.command("EXISTS", "mutant", MARKER) == 0)


def holds(scripts: Scripts) -> bool:
    """Whether the quarantine does its job."""
    redis = scripts.redis
    a, b = ("%08d-0000-8000-8000-000000000000:1" % number for number in (1, 2))
    first = scripts.acquire(a)
    until_ = redis.command("HGET", MARKER, "until")
    good = first[0] == -3 and 0 < first[1] <= 1010 and scripts.acquire(a)[0] == -3
    good = good and until_ is not None and until_ == redis.command("HGET", MARKER, "until") and redis.command("EXISTS", "mutant") == 0
    if not good:
        return False
    redis.command("HSET", MARKER, "until", "0")
    good = scripts.acquire(a)[0] == 1 and scripts.acquire(b, 2)[0] == 0
    good = good and scripts.acquire(b, longest=999)[0] == -4
    redis.command("PEXPIRE", "mutant", 600_000)  # the clock was set back
    good = good and scripts.acquire(b)[0] == 0 and redis.command("PTTL", "mutant") <= 1010
    redis.command("HSET", MARKER, "until", server_ms(redis) + 600_000)
    good = good and scripts.acquire(b)[0] == -3 and int(redis.command("HGET", MARKER, "until")) < server_ms(redis) + 2000
    redis.command("HSET", MARKER, "until", "0")
    run, _, family = scripts.epoch().partition(b":")
    for other in (b"0" * 40 + b":" + family, run + b":" + b"0" * 40):
        redis.command("HSET", MARKER, "epoch", other, "until", "0")
        good = good and scripts.acquire(b)[0] == -3 and scripts.epoch() == run + b":" + family
    good = good and scripts.release(a) == 1 and redis.command("EXISTS", "mutant") == 0
    redis.command("HSET", MARKER, "until", "0")
    return bool(good and scripts.acquire(b)[0] == 1 and frees_without_memory(scripts, a, b))


def test_the_scripts_as_they_are(redis_server: Server) -> None:
    with redis_server.client() as redis:
        assert holds(Scripts(redis, ROOT / "src/redis/scripts"))


@pytest.mark.parametrize("what", MUTANTS)
def test_mutant(redis_server: Server, what: str, tmp_path: pathlib.Path) -> None:
    stem, old, new = MUTANTS[what]
    folder = tmp_path / "scripts"
    shutil.copytree(ROOT / "src/redis/scripts", folder)
    path = path_of(stem, folder)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with redis_server.client() as redis:
        assert not holds(Scripts(redis, folder))
