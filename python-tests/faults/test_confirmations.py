"""Confirmations of subscriptions that nobody asked for: they cost the connection, and make nobody subscribe or ask again and again."""
from __future__ import annotations

import pathlib
import socket

import mutants
import pytest

from harness.agent import Agent, until
from harness.build import BUILD, ROOT
from harness.cluster import slot_of
from harness.fake import FakeServer
from harness.quorum import url_of
from test_voters import Voter, voters  # noqa: F401: a fixture

FOREIGN = b"*3\r\n:0\r\n:60000\r\n:1\r\n"  # a client of Redisson holds it: a waiter subscribes to its channel
FAST = {"connects_per_second": 1000, "command_timeout_ms": 20_000}
MANY = 300


def array(*words: bytes) -> bytes:
    return b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words[:2]) + words[2] + b"\r\n"


class Heard:
    """The subscriptions of a fake, in order: the connection, and the channel."""

    def __init__(self, fake: FakeServer, verb: str) -> None:
        self.all: list[tuple[socket.socket, bytes]] = []
        self.verb = verb.lower().encode()
        fake.on(verb, self._confirm)

    def _confirm(self, link: socket.socket, words: list[bytes]) -> bytes:
        self.all.append((link, words[1]))
        return array(self.verb, words[1], b":1")

    def of(self, part: bytes) -> list[tuple[socket.socket, bytes]]:
        return [(link, name) for link, name in self.all if part in name]


@pytest.mark.parametrize("verb, channel", [(b"unsubscribe", b"redisson"), (b"subscribe", b"redisson"), (b"subscribe", b"dlock_client")])
def test_on_one_server_of_a_quorum(agent: Agent, voters: list[Voter], verb: bytes, channel: bytes) -> None:  # noqa: F811
    heard = [Heard(one, "SUBSCRIBE") for one in voters]
    for one in voters:
        one.say("acquire", FOREIGN)
    agent.open(url_of(*voters), lease_ms=180_000, **FAST).lock("job").start("acquire", 1, 60_000)
    until(lambda: all(one.of(b"redisson") for one in heard))
    link, name = heard[0].of(channel)[0]
    before, connections = [len(one.all) for one in heard], voters[0].connections
    link.sendall(array(verb, name, b":1") * MANY)
    until(lambda: voters[0].connections > connections)
    assert max(len(one.all) - seen for one, seen in zip(heard, before)) < MANY / 10


@pytest.mark.parametrize("verb", [b"sunsubscribe", b"ssubscribe"])
def test_of_another_node_of_a_cluster(agent: Agent, verb: bytes) -> None:
    """A node has no say in the channels of another one."""
    nodes = [FakeServer(), FakeServer()]
    name = next(f"job {i}" for i in range(100) if slot_of(f"job {i}") > 8191)

    def shard(fake: FakeServer, first: int, last: int) -> bytes:
        node = b"*6\r\n$4\r\nport\r\n:%d\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n" % fake.port
        return b"*4\r\n$5\r\nslots\r\n*2\r\n:%d\r\n:%d\r\n$5\r\nnodes\r\n*1\r\n" % (first, last) + node

    heard = [Heard(one, "SSUBSCRIBE") for one in nodes]
    own = [Heard(one, "SUBSCRIBE") for one in nodes]
    for one in nodes:
        one.on("PUBSUB", b"*0\r\n")
        one.on("EVALSHA", FOREIGN)
        one.on("CLUSTER", b"*2\r\n" + shard(nodes[0], 0, 8191) + shard(nodes[1], 8192, 16383))
    agent.open(f"redis+cluster://127.0.0.1:{nodes[0].port}", lease_ms=180_000, **FAST).lock(name).start("acquire", 1, 60_000)
    until(lambda: heard[1].all and own[0].all and nodes[1].count("EVALSHA") > 1)  # the confirmation has led to a question
    channel, began, asked = heard[1].all[0][1], len(heard[1].all), nodes[1].count("EVALSHA")
    for _ in range(MANY):
        own[0].all[0][0].sendall(array(verb, channel, b":1"))
    own[0].all[0][0].sendall(array(b"message", channel, b"$1\r\n0"))  # behind them, a reason to ask
    until(lambda: nodes[1].count("EVALSHA") > asked)
    assert len(heard[1].all) < began + MANY / 10 and nodes[1].count("EVALSHA") < asked + MANY / 10
    for one in nodes:
        one.close()


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@mutants.each(mutants.CONFIRMED)
@pytest.mark.timeout(200)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, timeout=60, agents=True)
