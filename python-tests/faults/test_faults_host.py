"""Faults of the host and of the peer of the socket: rows I and K of the matrix."""
from __future__ import annotations

import contextlib
import random
import signal
import socket
from typing import Callable, Iterator

import pytest

from harness.agent import Agent, Answer, Client, Lock, now, until
from harness.fake import LockServer, Reply
from harness.faults import cut_again_and_again, times
from harness.proxy import Proxy
from harness.resp import encode
from harness.server import Server
from harness.watch import Monitor
from test_fork_exit import EVERY_CALL

# ---- I-01: fork while everything runs


@pytest.mark.no_tsan
@pytest.mark.parametrize("forks", [60, pytest.param(10_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_i01_fork_storm(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy], forks: int) -> None:
    """All bytes to the server during the storm are whole commands of the parent: renewals, and an occasional PING."""
    proxy = new_proxy(redis_server)
    client = agent.open(proxy, lease_ms=1500)
    lock = client.lock("mine")
    token = lock.acquire(1, 0).ok.token
    lock.start("acquire", 2, -1, thread=1)
    until(lambda: lock.state(2) == "WAITING")
    (owner,) = redis_server.command("HKEYS", "mine")
    with Monitor(redis_server) as seen:

        def asked() -> int:
            """The bytes of all requests to the server since then."""
            return sum(len(encode(*command.words)) for command in seen.commands if command.words[0] != b"ECHO")

        until(lambda: client.counters()["renewed"] >= 1)
        until(lambda: seen.catch_up() and len(seen.rows()) >= 1)
        before, connections, renewed = proxy.up.bytes - asked(), proxy.connections, len(seen.rows())
        handles, left = {"client": client, "lock": lock}, forks
        lines = [handles[kind].line(command, *words) for kind, command, *words in EVERY_CALL]
        while left > 0 or len(seen.rows()) < renewed + 3:
            children = agent.fork(*lines, lock.line("drop"), client.line("free"), count=20, timeout=60)
            assert all(child.code == 0 for child in children)
            for child in children:
                assert [answer.status for answer in child.answers] == ["FORKED"] * len(EVERY_CALL) + ["OK", "OK"]
            left -= len(children)
            assert lock.state(1) == "HELD"
        until(lambda: seen.catch_up() and proxy.up.bytes - before == asked())
        assert {command.script for command in seen.commands} == {"renew", None}
    assert proxy.connections == connections
    assert client.counters()["lost"] == 0 and lock.token(1).token == token
    assert redis_server.command("HKEYS", "mine") == [owner]
    lock.release(1).ok


# ---- I-04: signals


def lateness(answers: list[Answer], wanted: int) -> list[int]:
    """Milliseconds beyond the timeout, in ascending order."""
    return sorted(answer.took // 1000 - wanted for answer in answers)


@pytest.mark.parametrize("restart", [0, 1], ids=["", "SA_RESTART"])
def test_i04_signals_every_millisecond(agent: Agent, redis_server: Server, new_server: Callable[..., Server], restart: int) -> None:
    silent = new_server()
    client = agent.open(redis_server, lease_ms=3000)
    lock, foreign = client.lock("lock"), client.lock("foreign")
    stalled = agent.open(silent, command_timeout_ms=150, connect_timeout_ms=150).lock("stalled")
    stalled.inspect().ok
    silent.pause()
    redis_server.command("HSET", "foreign", "somebody", 1)
    agent("signals", 1000, restart)
    waits = [foreign.acquire(1, 120) for _ in range(6)]
    silence = [stalled.inspect() for _ in range(6)]
    pairs = agent.many([("acquire", lock.index, 1, 0), ("extend", lock.index, 1, 3000), ("state", lock.index, 1),
                        ("release", lock.index, 1)] * 100)  # fmt: skip
    lock.acquire(1, 0).ok
    meanwhile = [lock.acquire(2, 50), lock.release(3), client.ping(1000)]
    long = lock.start("acquire", 4, 10_000, thread=1)
    until(lambda: lock.state(4) == "WAITING")
    lock.release(1).ok
    assert long.answer().status == "OK"
    signals = agent("signals", 0, 0).signals
    silent.resume()
    assert signals > 100
    assert {answer.status for answer in waits} == {"TIMED_OUT"} and {answer.status for answer in silence} == {"UNREACHABLE"}
    assert {answer.status for answer in pairs} == {"OK"}
    assert [answer.status for answer in meanwhile] == ["TIMED_OUT", "NOT_HELD", "OK"]
    for late in (lateness(waits, 120), lateness(silence, 150)):
        assert late[0] >= -1 and late[len(late) // 2] <= 100, late
    assert client.counters()["lost"] == 0 and lock.state(4) == "HELD"


# ---- I-05: SIGPIPE


@pytest.mark.parametrize("how", ["closed", "reset", "unix"])
def test_i05_no_sigpipe(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy], how: str) -> None:
    proxy = new_proxy(redis_server, unix=how == "unix")
    masks = dict(line.split(":\t") for line in open(f"/proc/{agent.pid}/status").read().split("\n") if line.startswith("Sig"))
    pipe = 1 << (signal.SIGPIPE - 1)
    assert not any(int(masks[name], 16) & pipe for name in ("SigIgn", "SigCgt", "SigBlk")), "the default action is in place"
    client = agent.open(proxy, lease_ms=3000, connects_per_second=1000)
    locks = [client.lock(f"lock{i}") for i in range(3)]
    statuses = cut_again_and_again(client, locks, lambda: proxy.cut(reset=how == "reset"), connects=20, turns=40)
    assert statuses <= {"OK", "UNREACHABLE", "TIMED_OUT", "NOT_HELD", "LOST", "UNKNOWN_OUTCOME"}, statuses
    assert agent.process.poll() is None
    assert locks[0].acquire(1, 5000).ok.token > 0


# ---- K-05: hostile replies


def endless(piece: bytes, first: bytes = b"") -> Reply:
    """Until the client closes, or for 64 MiB."""

    def run(link: socket.socket, _words: list[bytes]) -> bytes:
        with contextlib.suppress(OSError):
            link.sendall(first)
            for _ in range((64 << 20) // len(piece)):
                link.sendall(piece)
        return b""

    return run


def grant(token: int | bytes) -> bytes:
    return b"*2\r\n:1\r\n:%s\r\n" % (token if isinstance(token, bytes) else b"%d" % token)


BAD = {
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n", "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "nul": b"\0" * 100, "nothing": b"\r\n",
    "push": b">2\r\n$7\r\nmessage\r\n:1\r\n", "map": b"%1\r\n+a\r\n:1\r\n", "set": b"~1\r\n:1\r\n", "null": b"_\r\n", "true": b"#t\r\n",
    "double": b",1.5\r\n", "big": b"(12345678901234567890\r\n", "verbatim": b"=5\r\ntxt:x\r\n", "attribute": b"|1\r\n+a\r\n+b\r\n:1\r\n",
    "push inside": b"*2\r\n:1\r\n>1\r\n:1\r\n", "map inside": b"*2\r\n:1\r\n%1\r\n:1\r\n:2\r\n", "double inside": b"*2\r\n:1\r\n,5\r\n",
    "long array": b"*1000000000\r\n", "longer array": b"*99999999999999999999\r\n", "negative array": b"*-5\r\n", "no length": b"*\r\n",
    "long bulk": b"$2147483647\r\n", "longer bulk": b"$999999999999999999999\r\n", "negative bulk": b"$-7\r\n", "bulk without end": b"$3\r\nabcdef\r\n",
    "long integer": b":99999999999999999999\r\n", "no integer": b":x\r\n", "two integers": b":1 2\r\n", "nested": b"*1\r\n" * 1_000_000,
    "nested wide": b"*100\r\n" * 1_000, "wide": b"*65537\r\n" + b":1\r\n" * 65537, "wide nils": b"*65536\r\n" + b"$-1\r\n" * 65536,
    "endless line": endless(b"x" * 65536, b"+"), "endless error": endless(b"x" * 65536, b"-ERR "), "endless number": endless(b"1" * 4096, b":"),
    "endless bulk": endless(b"x" * 65536, b"$536870912\r\n"), "endless array": endless(b":1\r\n" * 16384, b"*2000000000\r\n"),
    "endless texts": endless((b"$1000\r\n" + b"x" * 1000 + b"\r\n") * 64, b"*60000\r\n"), "endless replies": endless(b"+OK\r\n" * 4096),
}  # fmt: skip

SHAPES: dict[str, dict[str, bytes]] = {
    "acquire": {
        "token 0": grant(0), "token -1": grant(-1), "token 2^53": grant(1 << 53), "token 2^63-1": grant((1 << 63) - 1), "token 2^63": grant(1 << 63),
        "token as text": b"*2\r\n:1\r\n$1\r\n5\r\n", "token nil": b"*2\r\n:1\r\n$-1\r\n", "token twice": b"*2\r\n:1\r\n" + grant(5),
        "no token": b"*1\r\n:1\r\n", "empty": b"*0\r\n", "nil": b"$-1\r\n", "nil array": b"*-1\r\n", "status": b"+OK\r\n", "number": b":1\r\n",
        "code 2": b"*2\r\n:2\r\n:5\r\n", "code -9": b"*3\r\n:-9\r\n:5\r\n:0\r\n", "held, short": b"*2\r\n:0\r\n:5\r\n", "held, text": b"*3\r\n:0\r\n+x\r\n:0\r\n",
        "a pass": b"*2\r\n:1\r\n" + grant(5),
    },
    "renew": {"none": b"*0\r\n", "two": b"*2\r\n:1\r\n:1\r\n", "text": b"*1\r\n+1\r\n", "nil": b"*1\r\n$-1\r\n", "number": b":1\r\n", "status": b"+OK\r\n"},
    "release": {"text": b"+OK\r\n", "nil": b"$-1\r\n", "array": b"*1\r\n:1\r\n", "bulk": b"$1\r\n1\r\n"},
    "inspect": {"short": b"*4\r\n+x\r\n:1\r\n:1\r\n:1\r\n", "long": b"*6\r\n+x\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "number": b":1\r\n",
                "no holder": b"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "texts": b"*5\r\n" + b"+1\r\n" * 5, "nil": b"$-1\r\n"},
    "force": {"text": b"+OK\r\n", "array": b"*1\r\n:1\r\n", "nil": b"$-1\r\n"},
}  # fmt: skip

REFUSALS = {"PROTOCOL_ERROR", "UNREACHABLE", "TIMED_OUT"}
CALLS = {"acquire": ("acquire", 1, 0), "renew": ("extend", 1, 5000), "release": ("release", 1), "inspect": ("inspect",), "force": ("force",)}


class Hostile:
    """A server that gives hostile replies to one script, and its client."""

    def __init__(self, agent: Agent, fake: LockServer, **options: object) -> None:
        self.agent, self.fake = agent, fake
        self.client = agent.open(fake, command_timeout_ms=150, release_timeout_ms=250, connects_per_second=1000, **options)
        self.count = 0

    def memory(self) -> int:
        """The peak so far, in KiB."""
        lines = dict(line.split(":", 1) for line in open(f"/proc/{self.agent.pid}/status"))
        return int(lines["VmHWM"].split()[0])

    def answer(self, script: str, reply: Reply) -> tuple[Answer, Lock]:
        """The answer of the call that runs script, for such a reply."""
        for _ in range(20):
            lock, answer, given = self._once(script, reply)
            if given:
                return answer, lock
            assert answer.status == "UNREACHABLE", answer  # it was not even sent: no connection in time
            lock.drop()
        raise AssertionError("the bad reply was never given")

    def _once(self, script: str, reply: Reply) -> tuple[Lock, Answer, bool]:
        self.count += 1
        lock = self.client.lock(f"lock{self.count}")
        if script in ("renew", "release"):
            until(lambda: lock.acquire(1, 0).status == "OK")
        said = self.fake.said[script]
        self.fake.say(script, reply)
        answer = getattr(lock, CALLS[script][0])(*CALLS[script][1:])
        given = self.fake.said[script] > said
        self.fake.sane()
        return lock, answer, given

    def usable(self, lock: Lock) -> None:
        """Once the server is sane again. Half a bad reply may still corrupt the next replies on its connection: one may say BUSY."""
        lock.force()
        until(lambda: lock.release(1).status == "NOT_HELD")
        until(lambda: lock.acquire(1, 500).status == "OK" and lock.release(1).status == "OK", 10)
        lock.drop()


@pytest.fixture
def hostile(agent: Agent) -> Iterator[Hostile]:
    with LockServer() as fake:
        yield Hostile(agent, fake)


def test_k05_rubbish(hostile: Hostile) -> None:
    for name, reply in BAD.items():
        before = hostile.memory()
        for script in ("acquire", "renew", "inspect") if isinstance(reply, bytes) and len(reply) < 100 else ("acquire",):
            answer, lock = hostile.answer(script, reply)
            assert answer.status in REFUSALS, (name, script, answer)
            hostile.usable(lock)
        assert hostile.memory() - before < 24 << 10, name


@pytest.mark.parametrize("script", SHAPES)
def test_k05_replies_no_script_gives(hostile: Hostile, script: str) -> None:
    for name, reply in SHAPES[script].items():
        answer, lock = hostile.answer(script, reply)
        allowed = REFUSALS | ({"UNKNOWN_OUTCOME"} if script == "release" else set())
        assert answer.status in allowed, (name, answer)
        hostile.usable(lock)


@pytest.mark.parametrize("rounds", times(60, 300, soak=5000))
def test_k05_random_and_mutated(hostile: Hostile, rounds: int) -> None:
    """It only has to survive: some mutations are valid replies."""
    noise = random.Random(5)
    base = hostile.memory()
    for turn in range(rounds):
        script = noise.choice(list(CALLS))
        reply = bytearray(hostile.fake.usual(script, [b"EVALSHA", b"", b"1"]))
        if turn % 3 == 0:
            reply = bytearray(noise.randbytes(noise.randrange(1, 200)))
        for _ in range(noise.randrange(1, 4)):
            place = noise.randrange(len(reply))
            kind = noise.randrange(4)
            if kind == 0:
                reply[place] ^= 1 << noise.randrange(8)
            elif kind == 1:
                reply[place:place] = noise.choice([b"\r\n", b"*", b"$", b"-1", b":9", b">", b"99999", b"\0"])
            elif kind == 2 and len(reply) > 1:
                del reply[place]
            else:
                reply[place] = noise.choice(b"*$:+-_#,(=%~>|\r\n0123456789")
        answer, lock = hostile.answer(script, bytes(reply))
        lock.drop()
        hostile.usable(hostile.client.lock(f"sound{turn}"))  # the old one may have seen a token that is too high
    assert hostile.memory() - base < 24 << 10


def test_k05_a_token_that_goes_back(hostile: Hostile) -> None:
    lock = hostile.client.lock("lock")
    token = lock.acquire(1, 0).ok.token
    lock.release(1).ok
    hostile.fake.say("acquire", grant(token))
    assert lock.acquire(1, 0).status == "SERVER_FORGOT"
    hostile.fake.say("acquire", grant(token - 1))
    second = lock.acquire(1, 300)  # if it is released first, it has a reply of its own
    assert second.status in REFUSALS | {"SERVER_FORGOT"} or second.token > token
    if second.status == "OK":
        lock.release(1).ok
    hostile.fake.sane()
    assert lock.acquire(1, 5000).ok.token > token


def test_k05_messages(agent: Agent, new_server: Callable[..., Server]) -> None:
    """On the grant channel of a client and on a lock's channel."""
    server = new_server()  # a new one: others are still leaving the shared one
    client = agent.open(server, safety_ms=200, lease_ms=3000)
    lock, foreign = client.lock("lock"), client.lock("foreign")
    server.command("HSET", "foreign", "somebody", 1)
    wait = foreign.start("acquire", 1, -1, thread=1)
    until(lambda: len(server.command("PUBSUB", "CHANNELS", "dlock_client:*")) == 1)
    token = lock.acquire(1, 0).ok.token
    (channel,) = server.command("PUBSUB", "CHANNELS", "dlock_client:*")
    noise = random.Random(6)
    texts = [b"", b"grant", b"grant ", b"grant 1", b"grant 1 1 1", b"grant 1 1 1 ", b"grant -1 1 1 foreign", b"grant 1 1 0 foreign", b"\0",
             b"grant 99999999999999999999 1 1 foreign", b"grant 1 99999999999999999999 5 foreign", b"grant 1 1 99999999999999999999 foreign",
             b"open", b"open 1", b"open 1 -1 foreign", b"open 1 99999999 foreign", b"open 1 1 nobody", b"x" * 1_000_000]  # fmt: skip
    texts += [noise.randbytes(noise.randrange(100)) for _ in range(100)] + [b"grant " + noise.randbytes(20) for _ in range(100)]
    for text in texts:
        for place in (channel, "redisson_lock__channel:{foreign}"):
            server.command("PUBLISH", place, text)
    assert lock.token(1).token == token and lock.state(1) == "HELD"
    assert not wait.ready() and foreign.state(1) == "WAITING"
    server.command("DEL", "foreign")
    assert wait.answer().status == "OK"
