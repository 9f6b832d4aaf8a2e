"""Messages that somebody else writes to a client's channel: a grant is believed only with the proof of the waiter's place in line,
and then it gets the same check as an answer. All others are at most a reason to ask the server.
"""
from __future__ import annotations

import time
from typing import Callable, Iterator

import pytest

from harness.agent import Agent, Client, until
from harness.kinds import calls, one
from harness.server import Server

KINDS = {"mutex": b"grant", "fair": b"fair"}
BIG = 2**53 - 2


class Scene:
    """A holder, a waiter of another process in line, and somebody who may publish to the waiter's channel."""

    def __init__(self, server: Server, agents: list[Agent], kind: str) -> None:
        self.server, self.kind = server, kind
        self.clients = [agent.open(server, lease_ms=30_000, safety_ms=60_000) for agent in agents]
        self.held, self.wanted = (client.lock("order", kind=kind) for client in self.clients)
        self.token = self.held.acquire(1, 0).ok.token
        self.wait = self.wanted.start("acquire", 1, -1, thread=1)
        until(lambda: self.ticket() != b"")
        (self.channel,) = [name for name in server.command("PUBSUB", "CHANNELS", "dlock_client:*")]
        until(lambda: server.command("PUBSUB", "NUMSUB", self.channel)[1] == 1)
        self.settle()

    def record(self) -> tuple[bytes, list[bytes]]:
        """The waiter's id, and what the server has about it."""
        found = self.server.command("HGETALL", ("dlock_waiters" if self.kind == "mutex" else "dlock_fair") + ":{order}")
        for who, told in zip(found[::2], found[1::2]):
            if len(who) > 36 and b" " in told:
                return who, told.split(b" ")
        return b"", []

    def ticket(self) -> bytes:
        told = self.record()[1]
        return told[5] if told else b""

    def settle(self) -> None:
        """Its last probe was answered: behind an answer nothing is under way that could grant it the lock."""
        seen = b""
        while seen != self.ticket():
            seen = self.ticket()
            for client in self.clients:
                client.ping(5000).ok

    def grant(self, ticket: bytes, token: int, tokens: int = 1, number: int | None = None) -> bytes:
        number = int(self.record()[0][37:]) if number is None else number
        behind = b", " if self.kind == "fair" else b""
        return b"%s %d %s %d %d %sorder" % (KINDS[self.kind], number, ticket, token, tokens, behind)

    def say(self, *texts: bytes) -> None:
        for text in texts:
            assert self.server.command("PUBLISH", self.channel, text) == 1  # it is heard
        for client in self.clients:
            client.ping(5000).ok

    def stands(self) -> None:
        assert not self.wait.ready() and self.wanted.state(1) == "WAITING" and self.held.state(1) == "HELD"

    def end(self) -> None:
        """The true grant still comes, with a token above all others."""
        self.held.release(1).ok
        answer = self.wait.answer()
        assert answer.status == "OK" and self.token < answer.token < BIG // 2, answer
        self.wanted.release(1).ok
        again = self.held.acquire(1, 0).ok
        assert again.token > answer.token


@pytest.fixture
def scene(new_server: Callable[..., Server], new_agent: Callable[..., Agent], request: pytest.FixtureRequest) -> Iterator[Scene]:
    yield Scene(new_server(), [new_agent(), new_agent()], request.param)


@pytest.mark.parametrize("scene", KINDS, indirect=True)
def test_a_grant_without_the_proof(scene: Scene) -> None:
    """Whoever knows everything but the proof: the channel, the grant number, the probe, the name."""
    seq, proof = scene.ticket().split(b"-")
    assert len(proof) == 16
    wrong = [b"%016x" % (int(proof, 16) ^ 1 << bit) for bit in range(64)]
    texts = [scene.grant(seq + b"-" + one, BIG) for one in wrong]
    texts += [scene.grant(b"%d" % number, BIG) for number in range(8)]  # as before there were proofs
    texts += [scene.grant(b"%d-%s" % (number, proof), BIG) for number in range(8) if number != int(seq)]  # of another probe
    texts += [scene.grant(scene.ticket(), BIG, number=number) for number in range(1, 8) if str(number) != scene.record()[0][37:].decode()]
    texts += [scene.grant(scene.ticket().upper().replace(b"-", b" -"), BIG), scene.grant(scene.ticket()[:-1], BIG), scene.grant(scene.ticket() + b"0", BIG)]
    scene.say(*texts)
    scene.stands()
    scene.end()


@pytest.mark.parametrize("scene", KINDS, indirect=True)
def test_a_proven_grant_gets_the_check_of_an_answer(scene: Scene) -> None:
    """Tokens outside their range, more of them than were asked for, tokens that fall: the waiter asks instead."""
    ticket = scene.ticket()
    last = scene.token
    for token, tokens in [(2**53 - 1, 2), (2**53 - 1, 1), (2**53, 1), (2**63 - 1, 1), (BIG, 2**63 - 1), (BIG, 2**62), (last + 1, 10**6),
                          (0, 1), (last + 1, 0), (99999999999999999999, 1), (last + 1, 99999999999999999999)]:  # fmt: skip
        scene.say(scene.grant(ticket, token, tokens))
        scene.stands()
    scene.end()


@pytest.mark.parametrize("scene", KINDS, indirect=True)
def test_a_grant_that_is_repeated(scene: Scene) -> None:
    """The message of an earlier grant is nothing to the next waiter of the same client."""
    before = scene.grant(scene.ticket(), BIG)
    scene.held.release(1).ok
    assert scene.wait.answer().status == "OK"
    scene.wanted.release(1).ok
    scene.token = scene.held.acquire(1, 0).ok.token
    scene.wait = scene.wanted.start("acquire", 1, -1, thread=1)
    until(lambda: scene.ticket() != b"")
    scene.settle()
    scene.say(*[before] * 20)
    scene.stands()
    scene.end()


# ---- messages that prove nothing


@pytest.mark.parametrize("scene", KINDS, indirect=True)
def test_a_gate_that_nobody_has_closed(scene: Scene) -> None:
    """Neither the waiter nor the holder's process believes it, nor does it open a gate that is closed."""
    behind = scene.held.start("acquire", 2, -1, thread=2)  # in the holder's process
    until(lambda: scene.held.state(2) == "WAITING")
    channels, before = scene.server.command("PUBSUB", "CHANNELS", "dlock_client:*"), calls(scene.server, "pttl")
    for channel in channels:
        for text in (b"gate 60000 order", b"gate 0 order", b"gate 99999999999999 order", b"gate -1 order"):
            assert scene.server.command("PUBLISH", channel, text) == 1
    until(lambda: calls(scene.server, "pttl") > before)
    for client in scene.clients:
        client.ping(5000).ok
    scene.stands()
    assert not behind.ready()
    scene.held.release(1).ok
    left = [(behind, scene.held, 2), (scene.wait, scene.wanted, 1)]
    while left:  # in whichever order they get it
        until(lambda: any(wait.ready() for wait, _, _ in left))
        wait, lock, owner = next(one for one in left if one[0].ready())
        assert wait.answer().status == "OK"
        lock.release(owner).ok
        left.remove((wait, lock, owner))


class Flood:
    """So many messages, and the questions that they caused."""

    MANY, BURST, PER_MS = 6000, 64, 0.5

    def __init__(self, server: Server, clients: list[Client], command: str) -> None:
        self.server, self.clients, self.command = server, clients, command
        server.command("CONFIG", "RESETSTAT")

    def pour(self, channel: str | bytes, text: bytes) -> int:
        begun = time.monotonic()
        for _ in range(self.MANY):
            assert self.server.command("PUBLISH", channel, text) >= 1
        for client in self.clients:
            client.ping(5000).ok
        self.spent = (time.monotonic() - begun) * 1000
        return calls(self.server, self.command)

    def most(self) -> float:
        return 2 + self.BURST + self.PER_MS * self.spent


@pytest.mark.parametrize("scene", KINDS, indirect=True)
@pytest.mark.parametrize("what, command", [("gate", "pttl"), ("open", "evalsha")])
def test_a_flood_of_hints(scene: Scene, what: str, command: str) -> None:
    """Each may be true, so it is a reason to ask. But the questions of a wait have a limit, and the wait goes on."""
    number = int(scene.record()[0][37:])
    flood = Flood(scene.server, scene.clients, command)
    count = flood.pour(scene.channel, b"gate 60000 order" if what == "gate" else b"open %d 0 order" % number)
    assert 0 < count <= flood.most() < flood.MANY, (count, flood.spent)
    scene.stands()
    scene.end()


@pytest.mark.parametrize("kind, text", [("write", b"free lock"), ("semaphore", b"free lock"), ("permit_semaphore", b"free lock"), ("mutex", b"0")])
def test_a_flood_of_calls(new_server: Callable[..., Server], new_agent: Callable[..., Agent], kind: str, text: bytes) -> None:
    """The same for the kinds whose processes are called, and for a mutex that a foreign client holds."""
    redis_server = new_server()
    mine, theirs = (new_agent().open(redis_server, safety_ms=60_000) for _ in range(2))
    held, wanted = one(mine, kind), one(theirs, kind)
    if kind == "mutex":
        redis_server.command("HSET", "lock", "somebody:1", 1)
    else:
        held.acquire(1, 0).ok
    wait = wanted.start("acquire", 1, -1, thread=1)
    places = ["redisson_lock__channel:{lock}"] if kind == "mutex" else [channel_of(redis_server)]
    until(lambda: redis_server.command("PUBSUB", "NUMSUB", places[0])[1] == 1 and wanted.state(1) == "WAITING")
    theirs.ping(5000).ok
    flood = Flood(redis_server, [theirs], "evalsha")
    count = flood.pour(places[0], text)
    assert 0 < count <= flood.most() < flood.MANY, (count, flood.spent)
    assert not wait.ready()
    if kind == "mutex":
        redis_server.command("DEL", "lock")
        redis_server.command("PUBLISH", places[0], "0")
    else:
        held.release(1).ok
    assert wait.answer().status == "OK"


def channel_of(server: Server) -> bytes:
    """The channel of the only client that is subscribed to its own."""
    until(lambda: len(server.command("PUBSUB", "CHANNELS", "dlock_client:*")) == 1)
    (channel,) = server.command("PUBSUB", "CHANNELS", "dlock_client:*")
    assert isinstance(channel, bytes)
    return channel


def test_a_flood_about_a_hold(new_server: Callable[..., Server], new_agent: Callable[..., Agent]) -> None:
    """A hold may be lost, says a message: its renewal tells. Such renewals have a limit, too, and go out together with others."""
    server = new_server()
    mine, theirs = (new_agent().open(server, lease_ms=60_000) for _ in range(2))
    held, wanted = mine.lock("lock"), theirs.lock("lock")
    held.acquire(1, 0).ok
    wait = wanted.start("acquire", 1, -1, thread=1)
    channel = channel_of(server)
    until(lambda: server.command("ZCARD", "dlock_queue:{lock}") > 0)
    held.release(1).ok
    assert wait.answer().status == "OK"
    flood = Flood(server, [theirs], "evalsha")
    flood.BURST, flood.PER_MS = 1, 0.1
    count = flood.pour(channel, b"open 1 0 lock")
    assert count <= flood.most() < flood.MANY and wanted.state(1) == "HELD", (count, flood.spent)
    wanted.release(1).ok
