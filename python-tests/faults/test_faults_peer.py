"""Faults of the peer, of credentials and of names: rows K of the matrix beside test_faults_host.py, test_tls.py and test_acl.py. Each test
counts that its fault happened.
"""
from __future__ import annotations

import pathlib
import random
import re
import subprocess
import threading
import time
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.agent import Agent, Answer, now, until
from harness.build import BUILD, ROOT, SANITIZED, clean_env, native
from harness.cluster import slot_of
from harness.fake import FakeServer, LockServer
from harness.faults import Fenced, alive, owners, times
from harness.proxy import Link, Proxy
from harness.steps.scripts import SHA, teach
from harness.server import Server
from harness.tally import tell
from harness.tls import Authority, secure

Make = Callable[..., Any]
FAST = {"connects_per_second": 1000}
SECRET = "s3cret-canary"


# ---- K-01: the wrong password, from the start and after a change


def logins(server: Server) -> int:
    """Refused logins so far."""
    return sum(int(count) for count in re.findall(rb"errorstat_(?:WRONGPASS|NOAUTH):count=(\d+)", server.command("INFO", "errorstats")))


@pytest.mark.parametrize("seconds", times(3, 6))
@pytest.mark.parametrize("how", ["at open", "rotated"])
def test_k01_wrong_password(new_server: Make, new_agent: Make, how: str, seconds: int) -> None:
    """A refused client logs in again once per second, however many calls, waiters and renewals need it; each gets the error at once."""
    server: Server = new_server()
    server.command("ACL", "SETUSER", "someone", "on", ">" + SECRET, "~*", "&*", "+@all")
    password = SECRET if how == "rotated" else "wrong-" + SECRET
    client = new_agent().open(f"redis://someone:{password}@127.0.0.1:{server.port}", lease_ms=1500, command_timeout_ms=500)
    locks = [client.lock(f"k01 {i}") for i in range(5)]
    if how == "rotated":
        locks[0].acquire(1, 0).ok
        until(lambda: client.counters()["renewed"] > 0)
        server.command("ACL", "SETUSER", "someone", "resetpass", ">another-" + SECRET)
        server.command("CLIENT", "KILL", "USER", "someone")
    until(lambda: locks[1].acquire(1, 0).status == "DENIED")
    first, began, told = logins(server), now(), 0
    waits = [lock.start("acquire", 1, 60_000, thread=1 + i) for i, lock in enumerate(locks[2:])]
    while now() < began + seconds * 1_000_000:
        answers = [locks[1].acquire(1, 0), locks[1].acquire(1, 100), locks[1].inspect()]
        assert {answer.status for answer in answers} == {"DENIED"}, answers
        assert all("refused the user name or password" in answer.message and SECRET not in answer.message for answer in answers), answers
        told += len(answers)
        time.sleep(0.05)
    tried, took = logins(server) - first, (now() - began) / 1e6
    assert {wait.answer().status for wait in waits} == {"DENIED"}
    tell(done=tried, fired=told)
    print(f"K-01: {tried} logins refused in {took:.1f} s, {told} calls told, {how}")
    assert 1 <= tried <= took + 2
    if how == "rotated":
        assert locks[0].state(1) == "LOST"
    server.command("ACL", "SETUSER", "someone", "resetpass", ">" + password)
    until(lambda: locks[1].acquire(1, 0).status == "OK")


def test_k01_no_password(new_server: Make, agent: Agent) -> None:
    server: Server = new_server()
    lock = agent.open(server).lock("k01")
    lock.acquire(1, 0).ok
    with server.client() as redis:
        redis.command("CONFIG", "SET", "requirepass", SECRET)
        redis.command("AUTH", SECRET)
        redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        until(lambda: lock.inspect().status == "DENIED")
        answer = lock.inspect()
        assert "wants a password" in answer.message
        redis.command("CONFIG", "SET", "requirepass", "")
    tell(done=1, fired=1)
    until(lambda: lock.inspect().status == "OK")


# ---- K-03: a TLS server that ends without close_notify, or wants to renegotiate


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("papers"))


def test_k03_renegotiation_is_refused(agent: Agent, authority: Authority) -> None:
    """openssl s_server: an input line that begins with r requests a new handshake, other lines are sent."""
    pair = authority.issue("localhost")
    program = subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:0", "-tls1_2", "-cert", pair.cert, "-key", pair.key, "-crlf"],
                               env=clean_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)  # fmt: skip
    try:
        assert program.stdout and program.stdin
        said = b""
        while b"ACCEPT" not in said or not said.endswith(b"\n"):
            said += program.stdout.read(1)
        (port,) = re.findall(rb"ACCEPT [\d.]+:(\d+)", said)
        client = agent.open(f"rediss://localhost:{int(port)}", tls_ca_file=authority.file, command_timeout_ms=8000, connect_timeout_ms=8000)
        ping = client.start("ping", 20000, thread=1)
        while b"SETNAME" not in said:
            said += program.stdout.read(1)
        program.stdin.write(b"r\n")
        while b"no renegotiation" not in said.lower() and b"error" not in said.lower():  # it has been refused, and not timed out
            more = program.stdout.read(1)
            assert more, said
            said += more
        answer = ping.answer()
        assert answer.status in ("UNREACHABLE", "TLS_FAILED", "TIMED_OUT"), answer
        tell(done=1, fired=1)
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("at", ["between replies", "in a reply"])
def test_k03_an_end_without_notice(agent: Agent, authority: Authority, new_server: Make, new_proxy: Make, at: str) -> None:
    """TCP ends without close_notify of TLS: the data so far is not a complete answer."""
    server = secure(new_server, authority, authority.issue("localhost", "127.0.0.1"))
    proxy = Proxy((server.host, server.tls_port))  # type: ignore[attr-defined]
    with proxy:
        client = agent.open(f"rediss://127.0.0.1:{proxy.port}", tls_ca_file=authority.file, **FAST)
        lock = client.lock("k03")
        for _ in range(5):
            lock.acquire(1, 5000).ok
            lock.release(1).ok
            ends = proxy.connections
            if at == "between replies":
                proxy.down.half_close()
            else:
                proxy.down.drip = (7, 0.001)
                hook = proxy.down.on(b"\x17\x03\x03", lambda link, data: link.cut(), times=1)  # the header of a record
            answer = lock.acquire(1, 2000)
            assert answer.status in ("OK", "UNREACHABLE"), answer
            proxy.down.drip = None
            until(lambda: lock.acquire(1, 2000).status == "OK")
            lock.release(1).ok
            until(lambda: lock.release(1).status == "NOT_HELD")
            assert proxy.connections > ends and (at == "between replies" or hook.count == 1)
            tell(done=1, fired=1)


# ---- K-06: a server that lies


ODD = [(1 << 63) - 1, -(1 << 63), -5, 1 << 53, 0]


def reply(*numbers: Any) -> bytes:
    return b"*%d\r\n" % len(numbers) + b"".join(b":%d\r\n" % number if isinstance(number, int) else number for number in numbers)


def test_k06_odd_numbers(agent: Agent) -> None:
    """Times that nobody can wait for, and text in the place of numbers: calls end in time, and held locks stay held."""
    with LockServer() as fake:
        client = agent.open(fake, command_timeout_ms=300, safety_ms=100, lease_ms=2000, release_timeout_ms=300, **FAST)
        kept = client.lock("kept")
        token = kept.acquire(1, 0).ok.token
        lies: list[tuple[str, bytes]] = [("acquire", reply(0, ms, foreign)) for ms in ODD for foreign in (0, 1, -7, 1 << 40)]
        lies += [("acquire", reply(code, 5)) for code in ODD[1:4]] + [("acquire", reply(1, 5 << 53)), ("acquire", b"*3\r\n:0\r\n$3\r\nNaN\r\n:0\r\n")]
        lies += [("acquire", b"*2\r\n:1\r\n$3\r\nnan\r\n"), ("acquire", b"*3\r\n:0\r\n$4\r\n-inf\r\n:0\r\n"), ("acquire", b"*3\r\n:0\r\n$2\r\n12\r\n:0\r\n")]
        lies += [("inspect", b"*5\r\n$1\r\nx\r\n" + b"".join(b":%d\r\n" % number for number in row)) for row in
                 ([odd] * 4 for odd in ODD)] + [("inspect", b"*5\r\n$1\r\nx\r\n$3\r\nnan\r\n:1\r\n:1\r\n:1\r\n")]  # fmt: skip
        lies += [("release", b":%d\r\n" % number) for number in ODD]
        for number, (script, lie) in enumerate(lies):
            lock = client.lock(f"lock {number}")
            if script == "release":
                until(lambda: lock.acquire(1, 1000).status == "OK")
            said = fake.said[script]
            fake.say(script, lie)
            for wait in (0, 250) if script == "acquire" and number % 7 == 0 else (0,):
                while fake.said[script] == said or wait:  # there may be no connection yet
                    answer: Answer = lock.acquire(1, wait) if script == "acquire" else getattr(lock, script)(*([1] if script == "release" else []))
                    assert answer.status != "OK" or script != "acquire", (lie, answer)
                    assert answer.took < 5_000_000, (lie, answer)
                    wait = 0
            fake.sane()
            lock.drop()
            tell(done=1)
        assert kept.state(1) == "HELD" and kept.token(1).token == token


def test_k06_renewals_that_lie(agent: Agent) -> None:
    """Anything but 1 is a loss, and a LOST event comes."""
    with LockServer() as fake:
        client = agent.open(fake, lease_ms=600, **FAST)
        for number in [0, -1, 2, (1 << 63) - 1, -(1 << 63)]:
            lock = client.lock(f"lock {number}")
            lock.acquire(1, 0).ok
            fake.say("renew", b"*1\r\n:%d\r\n" % number)
            until(lambda: lock.state(1) == "LOST")
            fake.sane()
            assert lock.release(1).status == "LOST"
            tell(done=1)
        assert client.counters()["lost"] == 5


@pytest.mark.parametrize("lie", [b"+OK\r\n", b"$2\r\nxy\r\n", b":2\r\n", b"*2\r\n+OK\r\n+OK\r\n", b"*2\r\n:1\r\n$2\r\nxy\r\n", b"*2\r\n:1\r\n*2\r\n+a\r\n+b\r\n", b"*0\r\n", b"$-1\r\n"])
def test_k06_a_turn_that_lies(agent: Agent, lie: bytes) -> None:
    """The reply to a release that also takes the lock for the next owner."""
    with LockServer() as fake:
        client = agent.open(fake, command_timeout_ms=200, handover_turns=0, release_timeout_ms=300, **FAST)
        lock = client.lock("turn")
        lock.acquire(1, 0).ok
        wait = lock.start("acquire", 2, 5000, thread=1)
        until(lambda: lock.state(2) == "WAITING")
        fake.say("pass", lie, 1)
        lock.release(1)
        until(lambda: fake.said["pass"] == 1)
        answer = wait.answer()
        assert answer.status in ("OK", "PROTOCOL_ERROR", "UNREACHABLE"), answer
        until(lambda: client.ping(1000).status == "OK")
        tell(done=1)


@pytest.mark.parametrize("rounds", times(20, 150))
def test_k06_grants_to_everybody(new_agent: Make, rounds: int) -> None:
    """Two processes are told that they hold the lock: the resource accepts the higher token only. One process never reports a token twice,
    nor a lower one.
    """
    with LockServer() as fake, Server() as store:
        fenced = Fenced(store)
        locks = [new_agent().open(fake, command_timeout_ms=200, **FAST).lock("k06") for _ in range(2)]
        refused = 0
        for turn in range(rounds):
            tokens = [lock.acquire(1, 1000).ok.token for lock in locks]
            assert fenced.write("k06", tokens[1]) and not fenced.write("k06", tokens[0])
            for lock in locks:
                lock.release(1).ok
            for back in (tokens[1], tokens[1] - 1, tokens[1] - 1_000_000):
                fake.say("acquire", reply(1, back), 1)
                answer = locks[1].acquire(1, 0)
                if answer.status == "OK":  # the bad grant was given back within the same call
                    assert answer.token > tokens[1]
                    locks[1].release(1).ok
                    continue
                assert answer.status in ("SERVER_FORGOT", "UNREACHABLE") and locks[1].state(1) == "NONE", answer
                refused += 1
            assert refused > turn
            fake.sane()
            tell(done=1)
        print(f"K-06: {refused} tokens that went back refused, {rounds} double grants fenced")


# ---- K-07: unreadable error texts


NASTY = {
    "controls": b"-ERR \x1b[31mred\x1b[0m \x07\x08\x00\x7f %s \xff\xfe\t|" + bytes(range(1, 10)),
    "long": b"-ERR " + b"long " * 20_000,
    "the password": b"-ERR you said AUTH someone " + SECRET.encode() + b" and " + SECRET.encode() + b"!",
    "the password, late": b"-ERR " + b"x" * 240 + SECRET.encode(),
    "a format": b"-ERR %s%s%n%d%999999d",
    "the password in a code": b"-" + SECRET.encode() + b" is what you said",
}


FLOODS = {
    "incomplete array": b"*65000\r\n" + b":1\r\n" * 60_000 + (b"$100\r\n" + b"x" * 100 + b"\r\n") * 4_000 + b"$1000\r\n",
    "nested arrays": b"*60\r\n" + (b"*1000\r\n" + b":1\r\n" * 1000) * 59,
    "one big string": b"$1048576\r\n" + b"x" * 1_000_000,
}


@pytest.mark.parametrize("what", FLOODS)
def test_k07_answers_on_all_connections(agent: Agent, what: str) -> None:
    """A server that sends megabytes to each of 64 calls at once, and never ends: an error, and 32 MB at most beyond what a good one causes."""

    def peak() -> int:
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{agent.pid}/status").read_text())[1])  # type: ignore[index]

    with LockServer() as fake:
        client = agent.open(fake, private_connections=64, command_timeout_ms=3000, connects_per_second=1000)
        locks = [client.lock(f"flood {n}") for n in range(64)]
        for call in [lock.start("acquire", 1, 0, thread=1 + n) for n, lock in enumerate(locks)]:
            call.answer().ok  # the threads of the agent have their memory now
        for call in [lock.start("release", 1, thread=1 + n) for n, lock in enumerate(locks)]:
            call.answer().ok
        before = peak()
        fake.say("acquire", FLOODS[what])
        calls = [lock.start("acquire", 1, 0, thread=1 + n) for n, lock in enumerate(locks)]
        said = {call.answer().status for call in calls}
        assert "PROTOCOL_ERROR" in said and said <= {"OK", "PROTOCOL_ERROR", "UNREACHABLE"}, said  # OK: in a batch, which has another script
        assert fake.said["acquire"] >= 8
        assert SANITIZED or peak() - before < 32 * 1024, f"{peak() - before} KB"
        fake.say("acquire", b"-ERR " + b"x" * 500_000 + b"\r\n", 1)
        assert client.lock("after").acquire(1, 5000).status == "SERVER_ERROR", "the client has its room back"
        tell(done=1, fired=fake.said["acquire"])


@pytest.mark.parametrize("what", ["rests", "most"])
def test_k07_a_reader_that_rests(what: str) -> None:
    """A connection that had large answers takes nothing from the others afterwards."""
    done = subprocess.run([native("reader"), what], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    tell(done=1, fired=1)


@pytest.mark.parametrize("what", NASTY)
def test_k07_what_errors_may_not_do(agent: Agent, what: str) -> None:
    """Escaped, truncated, and never with a password in it: in answers, events and on every kind of connection."""
    with LockServer() as fake:
        fake.on("ECHO", b"+x\r\n")
        client = agent.open(f"redis://someone:{SECRET}@127.0.0.1:{fake.port}", command_timeout_ms=300, release_timeout_ms=300, lease_ms=2000, **FAST)
        lock = client.lock("k07")
        answers = []
        for script, call in (("acquire", lambda: lock.acquire(1, 0)), ("acquire", lambda: lock.acquire(1, 100)), ("inspect", lock.inspect), ("force", lock.force)):
            fake.say(script, NASTY[what] + b"\r\n")
            answers.append(call())
            fake.sane()
        lock.acquire(1, 1000).ok
        fake.say("renew", NASTY[what] + b"\r\n")
        answers.append(lock.extend(1, 5000))
        fake.sane()
        fake.say("release", NASTY[what] + b"\r\n")
        answers.append(lock.release(1))
        fake.sane()
        lock.submit_acquire(1, 0, 7)
        txn = client.txn()
        fake.on("WATCH", NASTY[what] + b"\r\n")
        answers.append(txn.watch("stock"))
        fake.on("WATCH", b"+OK\r\n")
        assert sum(answer.status == "SERVER_ERROR" for answer in answers) >= 5, answers
        texts = [answer.message for answer in answers]
    with FakeServer() as fake:  # in the handshake
        for command in ("AUTH", "SELECT", "CLIENT"):
            fake.on(command, NASTY[what] + b"\r\n")
            answer = agent.open(f"redis://someone:{SECRET}@127.0.0.1:{fake.port}/3").ping(1000)
            texts.append(answer.message)
            fake.on(command, b"+OK\r\n")
    tell(done=len(texts))
    for text in texts:
        assert SECRET not in text and SECRET[:9] not in text, text
        assert len(text) < 512 and text.isprintable(), text
    assert SECRET not in agent.written()


# ---- K-08: old replies are replayed


@pytest.mark.parametrize("rounds", times(8, 30))
def test_k08_an_old_grant_again(redis_server: Server, new_agent: Make, new_proxy: Make, rounds: int) -> None:
    """An earlier grant, injected before the reply that another client holds the lock now: it costs the connection. (Without TLS an
    attacker that can do this can do more: nothing refuses the grants of another name.)
    """
    teach(redis_server)
    proxy: Proxy = new_proxy(redis_server)
    client = new_agent().open(proxy, command_timeout_ms=3000, private_connections=1, **FAST)
    lock, theirs = client.lock("k08"), new_agent().open(redis_server).lock("k08")
    grants: list[bytes] = []
    proxy.down.on(b"*3\r\n:1\r\n:", lambda _link, data: grants.append(data))
    replayed = 0
    for turn in range(rounds):
        until(lambda: lock.acquire(1, 5000).status == "OK", 30)
        lock.release(1).ok
        theirs.acquire(1, 20_000).ok
        old = random.Random(turn).choice(grants)

        def say_it(link: Link, _data: bytes) -> None:
            link.client.sendall(old)

        hook = proxy.up.on(SHA["acquire"], say_it, times=1)
        while hook.count == 0:
            answer = lock.acquire(1, 0)
            assert answer.status in ("SERVER_FORGOT", "PROTOCOL_ERROR", "UNREACHABLE", "BUSY") and lock.state(1) == "NONE", answer
        replayed += 1
        assert theirs.state(1) == "HELD"
        theirs.release(1).ok
    tell(done=replayed, fired=replayed)
    print(f"K-08: {replayed} old grants replayed, none accepted")


def test_k08_replayed_through_tls(agent: Agent, authority: Authority, new_server: Make) -> None:
    """Replayed data is refused: the connection ends, and nobody gets a lock by it."""
    server = secure(new_server, authority, authority.issue("localhost", "127.0.0.1"))
    with Proxy((server.host, server.tls_port)) as proxy:  # type: ignore[attr-defined]
        client = agent.open(f"rediss://127.0.0.1:{proxy.port}", tls_ca_file=authority.file, command_timeout_ms=500, **FAST)
        lock = client.lock("k08")
        passed: list[bytes] = []
        proxy.down.on(b"\x17\x03\x03", lambda _link, data: passed.append(data))
        for _ in range(5):
            until(lambda: lock.acquire(1, 2000).status == "OK")
            token, connections = lock.token(1).token, proxy.connections
            lock.release(1).ok
            hook = proxy.up.on(b"\x17\x03\x03", lambda link, _data: link.client.sendall(passed[-2]), times=1)
            answer = lock.acquire(1, 0)
            assert hook.count == 1 and answer.status in ("UNREACHABLE", "PROTOCOL_ERROR", "TLS_FAILED") or answer.token > token, answer
            until(lambda: lock.release(1).status in ("OK", "NOT_HELD", "LOST"))
            until(lambda: lock.acquire(1, 2000).status == "OK", 40)
            lock.release(1).ok
            assert proxy.connections > connections
            tell(done=1, fired=1)


# ---- K-09: hostile names


PIECES = [b"\r\n", b"*3\r\n$3\r\nDEL\r\n", b"'", b'"', b"%s", b"%n", b"\\", b"\xff\xfe", b"\xc3", b" ", b"..", b"]]", b"return 1", b"--", b":", b"*", b"?", b"[a-z]", b"{", b"}", b"{}",
          b"{x}", b"\t", b"\x1b[2J", b"dlock_queue:", b"redisson_lock_token:", b"$", b"KEYS[1]", b"\x80", b"a", b"lock"]  # fmt: skip


def hostile_name(chance: random.Random) -> bytes:
    return b"".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 7)))[:1024]


@pytest.mark.parametrize("names", times(300, 3000))
def test_k09_hostile_names(redis_server: Server, agent: Agent, names: int) -> None:
    """Every name is used as its bytes or refused as a name; nothing else is created, run or deleted. The keys of one lock share a slot."""
    chance = random.Random(9)
    redis_server.command("SET", "bystander", "here"), redis_server.command("CONFIG", "RESETSTAT")
    client = agent.open(redis_server)
    taken = 0
    with LockServer() as fake:
        shadow = agent.open(fake)
        for number in range(names):
            name = hostile_name(chance)
            answer = client.new(name)
            if answer.status != "OK":
                assert answer.status == "INVALID_NAME", (name, answer)
                continue
            taken += 1
            lock, seen = client.lock(name), shadow.lock(name)
            answer = lock.acquire(1, 0)
            if answer.status == "WRONG_KIND":  # the name is a key of another lock
                assert name.startswith((b"redisson_lock_token:", b"dlock_queue:")), (name, answer)
                continue
            assert answer.ok and redis_server.command("HLEN", name) == 1
            lock.release(1).ok
            if number % 5 == 0:
                seen.acquire(1, 0).ok
                words = next(words for words in reversed(fake.requests) if words[0] in (b"EVALSHA", b"EVAL") and name in words)
                keys = words[3 : 3 + int(words[2])]
                assert keys[0] == name and len({slot_of(key) for key in keys}) == 1, (name, keys)
                fake.requests.clear()
                seen.release(1)
            lock.drop(), seen.drop()
        tell(done=taken, fired=taken)
    assert redis_server.command("GET", "bystander") == b"here" and redis_server.command("DBSIZE") <= taken + 1
    used = set(re.findall(rb"cmdstat_([a-z|]+):", redis_server.command("INFO", "commandstats")))
    assert not used & {b"del", b"flushall", b"flushdb", b"config|set"} - {b"del"}, used
    print(f"K-09: {taken} of {names} hostile names were locked and released")
    assert taken > names // 3


@mutants.each(mutants.PEER)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(120)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)
