"""Rights behind Sentinel, as docs/acl.md has them: at the sentinels, at a server that becomes the primary, and without the default user."""
from __future__ import annotations

from typing import Iterator

import pytest

from harness.acl import rights
from harness.agent import Agent
from harness.sentinel import Watched, ask

SECRET = "word"
PLACE, COUNT = "+sentinel|get-master-addr-by-name", "+sentinel|master"


def allow(server: object, *more: str) -> None:
    rules = [*rights("mutex", "billing").rules(), "+role", "+wait", "+info", *more]
    ask(server, "ACL", "SETUSER", "billing", "reset", "on", ">" + SECRET, "resetchannels", "-@all", *rules)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with Watched(replicas=1, sentinels=1) as watched:
        for server in watched.servers:
            allow(server)
        yield watched


@pytest.mark.parametrize("has, replicas, status", [([PLACE], "none", "OK"), ([PLACE, COUNT], "all", "OK"), ([COUNT], "none", "DENIED"), ([PLACE], "all", "DENIED")])
def test_at_the_sentinels(agent: Agent, watched: Watched, has: list[str], replicas: str, status: str) -> None:
    for sentinel in watched.sentinels:
        sentinel.command("ACL", "SETUSER", "finder", "reset", "on", ">" + SECRET, "resetchannels", "-@all", *has)
    options = {"username": "billing", "password": SECRET, "sentinel_username": "finder", "sentinel_password": SECRET, "command_timeout_ms": 20_000}
    client = agent.open(watched.url, namespace="billing", replicas=replicas, **options)
    answer = client.lock("job").acquire(1, 0)
    assert answer.status == status and ("NOPERM" in answer.message) == (status != "OK"), answer
    client.close(5000)


def test_a_replica_that_does_not_know_the_user(agent: Agent) -> None:
    """It becomes the primary, and refuses the login until it is told."""
    with Watched(replicas=1, sentinels=1) as watched:
        first = watched.primary()
        allow(first)
        options = {"namespace": "billing", "username": "billing", "password": SECRET}
        assert agent.open(watched.url, **options).lock("job").acquire(1, 0).status == "OK"
        watched.failover()
        assert watched.primary() is not first
        assert agent.open(watched.url, **options).lock("other").acquire(1, 0).status == "DENIED"
        allow(watched.primary())
        assert agent.open(watched.url, **options).lock("other").acquire(1, 0).status == "OK"


def test_without_the_default_user(agent: Agent) -> None:
    """Replicas and sentinels have users of their own. A failover goes well, and nobody comes in without a name."""
    with Watched(replicas=1, sentinels=1) as watched:
        for server in watched.servers:
            allow(server)
            ask(server, "ACL", "SETUSER", "inner", "reset", "on", ">" + SECRET, "allchannels", "+@all")
            ask(server, "CONFIG", "SET", "masteruser", "inner", "masterauth", SECRET)
        for sentinel in watched.sentinels:
            sentinel.command("SENTINEL", "SET", "orders", "auth-user", "inner")
            sentinel.command("SENTINEL", "SET", "orders", "auth-pass", SECRET)
        lock = agent.open(watched.url, namespace="billing", username="billing", password=SECRET).lock("job")
        lock.acquire(1, 0).ok
        for server in watched.servers:
            ask(server, "ACL", "SETUSER", "default", "off")
        first = watched.port()
        watched.until(lambda: watched.port() != first or watched.order(), 60)
        answer = agent.open(watched.url, namespace="billing").lock("job").acquire(1, 0)
        assert answer.status == "DENIED", answer
        lock.release(1).ok
