"""What a held lock needs is there before it is due. Each fault comes twice: cold, while only the connection exists on which the lock was
acquired, and warm, after a renewal. The lock is renewed on whatever connection works, and another lock can be acquired on it."""
from __future__ import annotations

import os
import pathlib
import resource
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.agent import Agent, Client, until
from harness.build import BUILD, ROOT
from harness.sentinel import Watched
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
LEASE = 1500


class Case:
    """A client, and a fault after which no new connection can be made. is_over: shows that none can."""

    def __init__(self, agent: Agent, where: Any, fault: Callable[[], None], undo: Callable[[], None] = lambda: None) -> None:
        self.agent, self.where, self.fault, self.undo = agent, where, fault, undo


def refused(new_proxy: Make, new_server: Make, agent: Agent) -> Case:
    proxy = new_proxy(new_server())
    return Case(agent, proxy, proxy.refuse)


def full(new_proxy: Make, new_server: Make, agent: Agent) -> Case:
    server: Server = new_server()

    def fill() -> None:
        rows = server.command("CLIENT", "LIST").splitlines()
        server.command("CONFIG", "SET", "maxclients", len(rows))

    return Case(agent, server, fill)


def another_password(new_proxy: Make, new_server: Make, agent: Agent) -> Case:
    server: Server = new_server()
    return Case(agent, server, lambda: server.command("CONFIG", "SET", "requirepass", "another"))


def path_removed(new_proxy: Make, new_server: Make, agent: Agent) -> Case:
    server: Server = new_server()
    return Case(agent, server.unix_url, lambda: os.rename(server.path, server.path + ".away"), lambda: os.rename(server.path + ".away", server.path))


def no_descriptors(new_proxy: Make, new_server: Make, agent: Agent) -> Case:
    limits = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)

    def use_up() -> None:
        lowest = next(n for n in range(10_000) if n not in agent.fds())
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (lowest, limits[1]))

    return Case(agent, new_server(), use_up, lambda: resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, limits))


FAULTS = (refused, full, another_password, path_removed, no_descriptors)


def renewals(client: Client, count: int) -> None:
    before = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= before + count, 30)


def check(case: Case, warm: bool) -> None:
    client = case.agent.open(case.where, lease_ms=LEASE)
    lock = client.lock("cold")
    token = lock.acquire(1, 0).ok.token
    if warm:
        renewals(client, 1)
    connects = client.counters()["connects"]
    assert warm or connects == 1
    case.fault()
    try:
        renewals(client, 6)  # two leases
        assert lock.state(1) == "HELD" and lock.token(1).ok.token == token
        other = client.lock("another one")
        other.acquire(1, 0).ok
        other.release(1).ok
        assert client.counters()["connects"] == connects and client.counters()["lost"] == 0
        lock.release(1).ok
    finally:
        case.undo()
    tell(done=1, fired=1)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("warm", (False, True), ids=("cold", "warm"))
def test_renewed_without_a_new_connection(new_proxy: Make, new_server: Make, new_agent: Make, fault: Callable[..., Case], warm: bool) -> None:
    check(fault(new_proxy, new_server, new_agent()), warm)


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.COLD, ids=lambda mutant: mutant.number)
def test_cold_mutants(new_proxy: Make, new_server: Make, new_agent: Make, tmp_path: pathlib.Path, mutant: mutants.Mutant) -> None:
    library = str(mutants.library(ROOT, BUILD, tmp_path, mutant))
    with pytest.raises(AssertionError):
        check(refused(new_proxy, new_server, new_agent(LD_PRELOAD=library)), False)


@pytest.fixture
def watched() -> Iterator[Watched]:
    with Watched() as up:
        yield up


@pytest.mark.parametrize("warm", (False, True), ids=("cold", "warm"))
def test_renewed_without_sentinels(watched: Watched, new_agent: Make, warm: bool) -> None:
    def stop() -> None:
        for sentinel in watched.sentinels:
            sentinel.kill()

    check(Case(new_agent(), watched.url, stop), warm)


@pytest.mark.full
@pytest.mark.timeout(200)
def test_renewed_long_after_the_call(new_proxy: Make, new_server: Make, new_agent: Make) -> None:
    """A lock with a long lease is renewed late. Idle connections are closed before, without a call, but for the last one."""
    server = new_server()
    proxy = new_proxy(server)
    client = new_agent().open(proxy, lease_ms=240_000)
    lock = client.lock("long")
    lock.acquire(1, 0).ok
    gate = proxy.up.pause_at("EVAL")
    busy = [client.lock(f"beside {n}").start("acquire", 1, 0, thread=1 + n) for n in range(3)]
    until(lambda: client.counters()["connects"] >= 2, 20)
    gate.open()
    for call in busy:
        call.answer().ok
    assert len(server.command("CLIENT", "LIST", "TYPE", "normal").splitlines()) > 2  # one is who asks
    until(lambda: len(server.command("CLIENT", "LIST", "TYPE", "normal").splitlines()) == 2, 90)
    proxy.refuse()
    renewals(client, 4)
    assert lock.state(1) == "HELD" and client.counters()["lost"] == 0
    tell(done=1, fired=1)
