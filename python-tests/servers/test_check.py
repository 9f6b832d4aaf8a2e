"""dlock_client_check and the option checks: what they inspect on a server, and each finding with a server that causes it."""
from __future__ import annotations

import os
import pathlib
import time
from typing import Any, Callable

import pytest

from harness.agent import Agent, Client, now, until
from harness.build import LIBRARY
from harness.fake import FakeServer
from harness.faults import Fenced
from harness.steps.scripts import SCRIPTS, SHA
from harness.server import Server

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock

WARNING, DANGER = 1, 2
Make = Callable[..., Any]


def look(client: Client) -> dict[str, tuple[int, str]]:
    """Name of each finding: severity and sentence."""
    answer = client.check(5000).ok
    assert answer.count == len(answer.findings)
    return {name: (severity, text) for name, severity, text in answer.findings}


def only(agent: Agent, where: Any, name: str, severity: int, words: str, **options: Any) -> None:
    answer = agent.open(where, quarantine_ms=30_000, **options).check(5000).ok  # this option needs no log
    found = {what: (how, text) for what, how, text in answer.findings}
    assert [what for what, _, _ in answer.findings] == [name] and found[name][0] == severity
    assert words in found[name][1] and found[name][1].endswith(".") or severity == DANGER


# ---- findings


def test_a_fit_server(agent: Agent, new_server: Make) -> None:
    server = new_server("--appendonly", "yes")
    client = agent.open(server)
    assert look(client) == {} == look(client)
    until(lambda: server.command("DBSIZE") == 0)
    assert server.command("EXISTS", "dlock_check", "redisson_lock_token:{dlock_check}") == 0


def test_eviction(agent: Agent, new_server: Make) -> None:
    only(agent, new_server("--maxmemory-policy", "allkeys-lru"), "EVICTION", DANGER, "noeviction")


def test_persistence(agent: Agent, redis_server: Server) -> None:
    found = look(agent.open(redis_server))
    assert list(found) == ["PERSISTENCE"] and found["PERSISTENCE"][0] == WARNING and "quarantine_ms" in found["PERSISTENCE"][1]
    assert look(agent.open(redis_server, quarantine_ms=30_000)) == {}


def test_persistence_that_fails(agent: Agent, new_server: Make, tmp_path: pathlib.Path) -> None:
    (tmp_path / "gone").mkdir()
    server = new_server("--dir", str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    server.command("BGSAVE")
    until(lambda: b"rdb_last_bgsave_status:err" in server.command("INFO", "persistence"))
    only(agent, server, "PERSISTENCE_FAILS", DANGER, "disk")


def test_a_replica(agent: Agent, new_server: Make) -> None:
    primary = new_server()
    replica = new_server("--replicaof", f"127.0.0.1 {primary.port}", "--repl-diskless-sync-delay", "0")
    until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"), 20)
    only(agent, replica, "READ_ONLY", DANGER, "primary")
    only(agent, primary, "REPLICAS", WARNING, "min-replicas-to-write")
    assert look(agent.open(primary, quarantine_ms=30_000, replicas=1)) == {}
    primary.command("CONFIG", "SET", "min-replicas-to-write", "1")
    client = agent.open(primary, quarantine_ms=30_000)
    until(lambda: look(client) == {})  # the server updates these numbers once a second


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_clock_that_is_wrong(agent: Agent, seconds: int) -> None:
    with FakeServer() as fake:
        fake.on("EVALSHA", lambda link, words: b"*1\r\n:%d\r\n" % ((time.time() + seconds) * 1_000_000))
        only(agent, fake, "CLOCK", WARNING, "-" if seconds < 0 else "clocks")


OLD = """
local real = redis
local redis = { pcall = function(...)
  local command, section = ...
  return command == 'INFO' and section == 'server' and '# Server\\r\\nredis_version:%s\\r\\n' or real.pcall(...)
end }
"""


@pytest.mark.parametrize("version, found", [("5.0.14", True), ("4.0.0", True), ("6.0.0", False), ("10.1.0", False)])
def test_a_version_that_is_too_old(agent: Agent, redis_server: Server, version: str, found: bool) -> None:
    """A server whose INFO has that version, and is otherwise as it should be: a fake server runs the script with another INFO."""
    with FakeServer() as fake, redis_server.client() as redis:

        def look_there(_: Any, words: list[bytes]) -> bytes:
            assert words[1].decode() == SHA["check"]
            clock, *said = redis.command("EVAL", OLD % version + SCRIPTS["check"], *words[2:])
            return b"*%d\r\n:%d\r\n" % (1 + len(said), clock) + b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in said)

        fake.on("EVALSHA", look_there)
        if found:
            only(agent, fake, "VERSION", DANGER, f"older than 6.0 ({version})", command_timeout_ms=10_000)
        else:
            assert look(agent.open(fake, quarantine_ms=30_000, command_timeout_ms=10_000)) == {}
        assert fake.count("EVALSHA") == 1


def test_d18_commands_that_are_missing(agent: Agent, new_server: Make) -> None:
    """Renamed commands are found at once, by name. Without scripts nothing works, and the sentence says what is unknown."""
    only(agent, new_server("--rename-command", "ZADD", ""), "COMMAND_MISSING", DANGER, "ZADD")
    for missing in ("EVAL", "EVALSHA"):
        server = new_server("--rename-command", missing, "")
        began = now()
        answer = agent.open(server).check(5000)
        assert answer.status != "OK" and missing.lower() in answer.message.lower() and now() - began < 1_000_000_000
        answer = agent.try_open(server, checks="refuse")
        assert answer.status != "OK" and missing.lower() in answer.message.lower()


def test_rights_that_are_missing(agent: Agent, redis_server: Server) -> None:
    for right, named in (("-hincrby", "HINCRBY"), ("-publish", "PUBLISH"), ("-info", "INFO"), ("-time", "TIME")):
        redis_server.command("ACL", "SETUSER", "less", "reset", "on", ">word", "~*", "&*", "+@all", right)
        # each command once, and nothing is said about what the user may not see
        only(agent, redis_server, "COMMAND_DENIED", DANGER, named, username="less", password="word")
    redis_server.command("ACL", "SETUSER", "less", "resetkeys", "~other:*", "+@all")
    assert agent.open(redis_server, username="less", password="word").check(5000).status == "DENIED"


def test_a_full_server(agent: Agent, new_server: Make) -> None:
    server = new_server()
    server.command("SET", "filler", "x" * 1_000_000)
    server.command("CONFIG", "SET", "maxmemory", "1")
    only(agent, server, "WRITE_REFUSED", DANGER, "OOM")


def test_names_of_findings_and_places(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    assert client.check(-2).status == "INVALID_ARGUMENT"
    client.submit_check(5, 5000).ok
    event = client.event()
    assert event.type == "DONE" and event.tag == 5 and event.value == 1
    client.close(5000).ok
    assert client.check(5000).status == "CLOSED"


# ---- D-07: eviction; the option


def test_d07_an_evicting_server_is_refused(agent: Agent, new_server: Make) -> None:
    server = new_server("--maxmemory-policy", "volatile-lru", "--maxmemory", "3mb")
    assert agent.try_open(server, checks="none").status == "INVALID_OPTION"
    answer = agent.try_open(server, checks="refuse")
    assert answer.status == "UNFIT" and "volatile-lru" in answer.message and f"127.0.0.1:{server.port}" in answer.message
    client = agent.open(server, checks="warn")
    texts = [client.event().text, client.event().text]
    assert any("volatile-lru" in text for text in texts) and any("appendonly" in text for text in texts)


@pytest.mark.parametrize("policy", ["volatile-lru", "allkeys-lru"])
def test_d07_with_the_override_a_loss_is_reported(agent: Agent, new_server: Make, policy: str) -> None:
    """Locks are evicted: their holders learn it at the next renewal, and a stale token is refused."""
    server = new_server("--maxmemory-policy", policy, "--maxmemory", "4mb")
    client = agent.open(server, lease_ms=1500)
    locks = [client.lock(f"lock{i}") for i in range(20)]
    tokens = [lock.acquire(1, 5000).ok.token for lock in locks]
    with server.client() as redis:
        for i in range(1500):
            redis.command("SET", f"filler{i}", "x" * 4000, "PX", 600_000)
    evicted = [i for i in range(20) if not server.command("EXISTS", f"lock{i}")]
    assert evicted and int(dict(line.split(b":", 1) for line in server.command("INFO", "stats").split(b"\r\n") if b":" in line)[b"evicted_keys"]) > 0
    until(lambda: client.counters()["lost"] >= len(evicted), 10)
    with Server() as store:
        fenced = Fenced(store)
        for i in evicted:
            assert locks[i].state(1) == "LOST"
            newer = agent.open(server, lease_ms=1500).lock(f"lock{i}").acquire(9, 5000)
            if newer.status == "OK":
                assert newer.token > tokens[i] and fenced.write(f"l{i}", newer.token) and not fenced.write(f"l{i}", tokens[i])


def test_checks_when_nobody_answers(agent: Agent, new_server: Make) -> None:
    server = new_server()
    server.kill()
    assert agent.try_open(server, checks="refuse").status == "UNREACHABLE"
    client = agent.open(server, checks="warn")
    assert "cannot be reached" in client.event().text
    assert agent.try_open(server, checks="off").status == "OK"


# ---- bindings


def test_python(redis_server: Server) -> None:
    with dlock.Client(redis_server.url) as client:
        (finding,) = client.check()
        assert finding.name == "PERSISTENCE" and not finding.danger and "appendonly" in finding.text
    with pytest.raises(dlock.InvalidOption):
        dlock.Client(redis_server.url, checks="maybe")
