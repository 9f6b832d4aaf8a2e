"""A fork, where locks belong to a session of their client: what a child may do with the clients of its parent, on etcd and on ZooKeeper."""
from __future__ import annotations

from typing import Any

from harness.agent import Agent, Client
from harness.waiting import until


def check_apart(agent: Agent, other: Client, server: Any) -> None:
    """A client that was used is refused in a child, whose close and free end nothing of the parent's. A client that was not used is the
    child's, with a session of its own, which ends with its lease.
    """
    used, unused = agent.open(server, lease_ms=1500), agent.open(server, lease_ms=1500, safety_ms=60000)
    lock, mine = used.lock("job"), unused.lock("other")
    token = lock.acquire(1, 0).ok.token
    refused = [lock.line("acquire", 2, 0), lock.line("release", 1), used.line("close", 1000)]
    (child,) = agent.fork(*refused, mine.line("acquire", 1, 0), lock.line("drop"), used.line("free"))
    assert child.code == 0
    assert [answer.status for answer in child.answers[:4]] == ["FORKED"] * 3 + ["OK"], child.answers
    renewed = used.counters()["renewed"]
    assert mine.acquire(1, -1).ok.token > child.answers[3].token  # the child ended holding it
    until(lambda: used.counters()["renewed"] >= renewed + 3)
    assert (lock.state(1), lock.token(1).ok.token) == ("HELD", token)
    assert other.lock("job").acquire(1, 0).status == "BUSY"
    lock.release(1).ok
    assert other.lock("job").acquire(1, 5000).ok.token > token
