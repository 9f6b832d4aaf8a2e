"""Servers that put the password where a name belongs: no message or event repeats it."""
from __future__ import annotations

import itertools
import pathlib
import socket
import ssl
import time
from typing import Any

import mutants
import pytest

from harness.agent import Agent
from harness.build import BUILD, ROOT
from harness.fake import FakeServer, LockServer
from harness.quorum import url_of
from harness.steps.scripts import SHA
from harness.tls import Authority, Pair

SECRET = "s3cret-canary"
QUICK = {"connects_per_second": 1000, "command_timeout_ms": 500, "connect_timeout_ms": 500}
HOSTS = [SECRET, f"a.{SECRET}.example"]


def word(value: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(value.encode()), value.encode())


def shards(host: str, port: int, *replicas: str) -> bytes:
    def node(name: str, role: str) -> bytes:
        return b"*8\r\n" + word("port") + b":%d\r\n" % port + word("ip") + word(name) + word("endpoint") + word(name) + word("role") + word(role)

    nodes = node(host, "master") + b"".join(node(name, "replica") for name in replicas)
    return b"*1\r\n*4\r\n" + word("slots") + b"*2\r\n:0\r\n:16383\r\n" + word("nodes") + b"*%d\r\n" % (1 + len(replicas)) + nodes


class TlsServer(FakeServer):
    """At every address of this host."""

    host = "0.0.0.0"

    def __init__(self, pair: Pair) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        super().__init__()

    def _serve(self, link: socket.socket) -> None:
        try:
            secured = self._context.wrap_socket(link, server_side=True)
        except OSError:
            return
        super()._serve(secured)


class OldZookeeper(FakeServer):
    """It answers the word srvr: its version is a number that it was told."""

    def __init__(self, version: str) -> None:
        self.version = version
        super().__init__()

    def _serve(self, link: socket.socket) -> None:
        with link:
            if link.recv(4) == b"srvr":
                link.sendall(f"Zookeeper version: {self.version}, built in 2010\nMode: standalone\n".encode())


def is_silent(agent: Agent, client: Any, secret: str = SECRET) -> str:
    """What the call says. Neither it nor an event has the secret or a part of it."""
    answer = client.lock("job").acquire(1, 0)
    told = [answer.message, client.ping(1000).message]
    while (more := client.next(0)).status == "OK":
        told.append(more.event.text)
    assert answer.status != "OK" and "***" in answer.message, answer
    assert not [text for text in told if secret in text or secret[:7] in text], told
    assert secret not in agent.written()
    return answer.message


def test_the_view_of_a_quorum(agent: Agent) -> None:
    voters = [LockServer() for _ in range(3)]
    numbers = itertools.count()

    def run(link: socket.socket, words: list[bytes]) -> bytes | None:
        if words[1].decode() == SHA["join"]:
            return b"*5\r\n" + word(f"{next(numbers):040x}") + b":0\r\n" + word(f"a view of {SECRET}") + b":1700000000000000\r\n:1\r\n"
        return b"-ERR no\r\n"

    for one in voters:
        one.on("EVALSHA", run)
    said = is_silent(agent, agent.open(url_of(*voters), password=SECRET, **QUICK))
    assert "a view of ***" in said
    for one in voters:
        one.close()


@pytest.mark.parametrize("host", HOSTS)
def test_the_map_of_a_cluster(agent: Agent, host: str) -> None:
    with FakeServer() as fake:
        fake.on("PUBSUB", b"*0\r\n")
        fake.on("CLUSTER", shards(host, 1))
        is_silent(agent, agent.open(f"redis+cluster://:{SECRET}@127.0.0.1:{fake.port}", **QUICK))


def test_replicas_of_a_cluster(agent: Agent) -> None:
    """A check asks them, too."""
    with FakeServer() as fake:
        fake.on("EVALSHA", b"*1\r\n:%d\r\n" % (time.time_ns() // 1000))
        fake.on("PUBSUB", b"*0\r\n")
        fake.on("CLUSTER", shards("127.0.0.1", fake.port, SECRET))
        client = agent.open(f"redis+cluster://:{SECRET}@127.0.0.1:{fake.port}", **QUICK)
        said = str(client.check(2000))
        assert "***:" in said and SECRET not in said, said


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("whose", ["password", "sentinel_password"])
def test_sentinels(agent: Agent, host: str, whose: str) -> None:
    with FakeServer() as fake:
        fake.on("SENTINEL", b"*2\r\n" + word(host) + word("1"))
        is_silent(agent, agent.open(f"redis+sentinel://127.0.0.1:{fake.port}/service", **{whose: SECRET}, **QUICK))


def test_a_host_of_the_url_is_shown(agent: Agent) -> None:
    """Also when it looks like the password: the user wrote it."""
    with FakeServer() as fake:
        fake.on("PUBSUB", b"*0\r\n")
        fake.on("CLUSTER", shards("127.0.0.1", 1))
        answer = agent.open(f"redis+cluster://:127.0.0@127.0.0.1:{fake.port}", **QUICK).lock("job").acquire(1, 0)
        assert "127.0.0.1:1 " in answer.message, answer


def test_the_version_of_a_zookeeper(agent: Agent) -> None:
    secret = "20240512345"
    with OldZookeeper(f"2.{secret}") as fake:
        client = agent.open(f"zookeeper://user:{secret}@127.0.0.1:{fake.port}", command_timeout_ms=500)
        answer = client.check(2000)
        assert "(2.***)" in str(answer.findings) and secret not in str(answer), answer


def test_a_certificate_for_other_names(agent: Agent, tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path)
    with TlsServer(authority.issue("localhost")) as fake:
        fake.on("PUBSUB", b"*0\r\n")
        fake.on("CLUSTER", shards("127.1.2.3", fake.port))
        client = agent.open(f"rediss+cluster://localhost:{fake.port}", password="127.1.2.3", tls_ca_file=authority.file, **QUICK)
        assert "for other names than '***'" in is_silent(agent, client, "127.1.2.3")


@mutants.each(mutants.NAMED)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(200)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, timeout=60, agents=True)
