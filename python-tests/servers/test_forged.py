"""Messages that somebody else writes to a client's channel: a grant is believed only with the proof of the waiter's place in line,
and then it gets the same check as an answer. All others are at most a reason to ask the server.
"""
from __future__ import annotations

from typing import Callable, Iterator

import pytest

from harness.agent import Agent, until
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
