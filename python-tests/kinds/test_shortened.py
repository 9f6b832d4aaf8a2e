"""Keys that somebody else ends earlier than their holder asked for. A multi-lock of Redisson sends PEXPIRE for each of its members, and does not
look who holds it by then: docs/kinds.md, "Multi-lock". Read-write locks whose hash ends at once: test_rw_holds.py.
"""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import until
from harness.kinds import sides
from harness.server import Server
from harness.steps.redisson import token_key
from harness.tally import tell

Make = Callable[..., Any]
LEASE, SHORT = 6000, 5000  # the next renewal comes after 2000
ALONE = ["mutex", "fair", "read", "write"]


@pytest.mark.parametrize("kind", ALONE)
def test_the_next_renewal_puts_it_right(redis_server: Server, new_agent: Make, kind: str) -> None:
    """Of each key, the token counter's, too. The hold goes on, nobody else gets in, and no token falls."""
    first, second = (new_agent().open(redis_server, lease_ms=LEASE) for _ in range(2))
    lock, theirs = sides(first, second, kind)
    token = lock.acquire(1, 0).ok.token
    for key in redis_server.command("KEYS", "*"):
        assert redis_server.command("PEXPIRE", key, SHORT) == 1
    until(lambda: redis_server.command("PTTL", "lock") > SHORT)
    until(lambda: redis_server.command("EXISTS", token_key("lock")) == 0)
    assert lock.state(1) == "HELD" and theirs.acquire(1, 0).status == "BUSY"
    lock.release(1).ok
    after: int = theirs.acquire(1, 0).ok.token
    assert after > token and redis_server.command("PTTL", token_key("lock")) > LEASE
    tell(done=1, fired=1)


@pytest.mark.parametrize("counter", [False, True], ids=["hash", "hash and counter"])
@pytest.mark.parametrize("kind", ["mutex", "fair"])
def test_one_that_ends_before_that(redis_server: Server, new_agent: Make, kind: str, counter: bool) -> None:
    """A limit: another client gets the lock, with a higher token, and the holder hears of it at its next renewal."""
    first, second = (new_agent().open(redis_server, lease_ms=LEASE) for _ in range(2))
    lock, theirs = sides(first, second, kind)
    token = lock.acquire(1, 0).ok.token
    for key in ("lock", token_key("lock"))[: 1 + counter]:
        assert redis_server.command("PEXPIRE", key, 1) == 1
        until(lambda: redis_server.command("EXISTS", key) == 0)
    assert theirs.acquire(1, 0).ok.token > token
    first.loss()
    assert lock.state(1) == "LOST"
    assert lock.release(1).status == "LOST" and theirs.state(1) == "HELD"
    tell(done=1, fired=1)
