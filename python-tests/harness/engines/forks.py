"""A fork, where locks belong to a session of their client, on etcd and on ZooKeeper: what a child may do with the clients of its parent, and
that it does not keep their sessions.
"""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from harness.agent import Agent, Client
from harness.build import LIBRARY, ROOT
from harness.waiting import until

HOLDER = """
import os, sys, dlock
client = dlock.Client(sys.argv[1], lease_ms=1000)
assert client.lock("job").acquire()
child = os.fork()
if child == 0:
    sys.stdin.read()  # it has all descriptors, and lives until the test ends
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""


def check_not_kept(agent: Agent, server: Any) -> None:
    """The holder dies; its child lives on and has the descriptors."""
    command = [sys.executable, "-c", HOLDER, server.url]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as parent:
        assert parent.stdout and parent.stdin
        child = int(parent.stdout.readline())
        lock = agent.open(server).lock("job")
        assert lock.acquire(1, 0).status == "BUSY"
        parent.kill()
        lock.acquire(1, -1).ok
        os.kill(child, 0)  # it lives


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
