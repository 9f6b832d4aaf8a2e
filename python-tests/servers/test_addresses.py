"""Names and addresses: several of them, dead ones first, IPv6, name servers that are down, hang or change their answer."""
from __future__ import annotations

import os
import pathlib
import socket
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, now, until
from harness.faults import always, times
from harness.proxy import Proxy
from harness.server import Server
from harness.tally import tell

NAME = "locks.example"
Make = Callable[..., Any]


class At(Proxy):
    """A proxy at a chosen address."""

    def __init__(self, server: Server, host: str, port: int = 0) -> None:
        self.at = (host, port)
        super().__init__((server.host, server.port))

    def accept(self) -> None:
        self.host, self.port = self.at
        super().accept()


class Names:
    """The name server of an agent."""

    def __init__(self, folder: pathlib.Path, new_agent: Make) -> None:
        self.file = folder / "names"
        self.say("NONAME")
        self.agent: Agent = new_agent(preload="names.so", DLOCK_NAMES=str(self.file))

    def say(self, *words: str) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(" ".join([NAME, *words]) + "\n")
        new.replace(self.file)


@pytest.fixture
def names(tmp_path: pathlib.Path, new_agent: Make) -> Names:
    return Names(tmp_path, new_agent)


@pytest.fixture
def at(redis_server: Server) -> Iterator[Callable[..., At]]:
    made: list[At] = []

    def make(host: str, port: int = 0) -> At:
        made.append(At(redis_server, host, port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def silent() -> Iterator[Callable[[int], str]]:
    """An address where connection attempts get no answer at all: the port's backlog is full."""
    open_: list[socket.socket] = []

    def make(port: int, host: str = "127.0.0.9") -> str:
        listener = socket.socket()
        open_.append(listener)
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(8):
            link = socket.socket()
            open_.append(link)
            link.setblocking(False)
            link.connect_ex((host, port))
        probe = socket.socket()
        open_.append(probe)
        probe.settimeout(0.2)
        with pytest.raises(TimeoutError):
            probe.connect((host, port))
        return host

    yield make
    for link in open_:
        link.close()


def url(port: int) -> str:
    return f"redis://{NAME}:{port}"


# ---- several addresses


def test_c12_the_first_that_answers(names: Names, at: Make) -> None:
    """Addresses that refuse cost no time."""
    proxy = at("127.0.0.1")
    names.say("127.0.0.2", "127.0.0.3", "127.0.0.1")
    lock = names.agent.open(url(proxy.port)).lock("the lock")
    assert lock.acquire(1, 0).ok.token > 0 and proxy.connections == 1
    lock.release(1).ok


def test_they_are_tried_in_their_order(names: Names, at: Make) -> None:
    first = at("127.0.0.2")
    second = at("127.0.0.1", first.port)
    names.say("127.0.0.2", "127.0.0.1")
    client = names.agent.open(url(first.port))
    client.lock("the lock").acquire(1, 0).ok
    assert (first.connections, second.connections) == (1, 0)


def test_c12_all_are_dead(names: Names) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names.say("127.0.0.2", "127.0.0.3")
    answer = names.agent.open(url(port)).lock("the lock").acquire(1, 0)
    assert answer.status == "UNREACHABLE" and f"{NAME}:{port} cannot be reached: Connection refused" in answer.message


def test_c12_the_first_is_silent(names: Names, at: Make, silent: Callable[[int], str]) -> None:
    """It gets its share of the time, not all of it."""
    proxy = at("127.0.0.1")
    names.say(silent(proxy.port), "127.0.0.1")
    lock = names.agent.open(url(proxy.port), connect_timeout_ms=1000).lock("the lock")
    answer = lock.acquire(1, 0).ok
    assert proxy.connections == 1 and answer.took >= 490_000
    lock.release(1).ok
    lock.submit_acquire(1, 20_000, 1).ok
    until(lambda: lock.state(1) == "HELD")
    lock.release(1).ok


def test_c12_more_addresses_than_are_kept(names: Names, at: Make) -> None:
    proxy = at("127.0.0.1")
    names.say(*(f"127.0.1.{n}" for n in range(1, 40)), "127.0.0.1")
    answer = names.agent.open(url(proxy.port)).lock("the lock").acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "cannot be reached" in answer.message
    names.say("127.0.0.1", *(f"127.0.1.{n}" for n in range(1, 40)))
    names.agent.open(url(proxy.port)).lock("the lock").acquire(1, 0).ok


def test_ipv6(names: Names, new_server: Make) -> None:
    """As an address in the URL, behind a name, and before and after an address of the other family."""
    server = new_server("--bind", "127.0.0.1", "::1")
    for host, words in (("[::1]", ()), (NAME, ("::1",)), (NAME, ("::1", "127.0.0.1")), (NAME, ("127.0.0.2", "::1"))):
        if words:
            names.say(*words)
        client = names.agent.open(f"redis://{host}:{server.port}")
        assert client.ping(5000).ok
        (address,) = {row.split()[1] for row in server.command("CLIENT", "LIST", "TYPE", "normal").decode().splitlines() if "name=dlock" in row}
        assert address.startswith("addr=[::1]:")
        client.close(5000).ok
        client.free().ok
        until(lambda: b"name=dlock" not in server.command("CLIENT", "LIST"))
    with socket.socket(socket.AF_INET6) as free:
        free.bind(("::1", 0))
        answer = names.agent.open(f"redis://[::1]:{free.getsockname()[1]}").lock("the lock").acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "[::1]:" in answer.message


def test_ipv6_is_dead(names: Names, at: Make) -> None:
    proxy = at("127.0.0.1")
    names.say("::1", "127.0.0.1")
    names.agent.open(url(proxy.port)).lock("the lock").acquire(1, 0).ok
    assert proxy.connections == 1


# ---- name servers


@pytest.mark.parametrize("word", ["AGAIN", "FAIL", "NONAME"])
def test_c13_no_answer_at_first(names: Names, at: Make, word: str) -> None:
    """A waiter gets the lock once the name resolves."""
    proxy = at("127.0.0.1")
    names.say(word)
    lock = names.agent.open(url(proxy.port)).lock("the lock")
    answer = lock.acquire(1, 0)
    assert answer.status == "UNREACHABLE" and f"{NAME}:{proxy.port} cannot be found" in answer.message
    wait = lock.start("acquire", 1, 20_000, thread=1)
    until(lambda: lock.state(1) == "WAITING")
    names.say("127.0.0.1")
    wait.answer().ok
    lock.release(1).ok


def test_c13_a_name_server_that_hangs(names: Names, at: Make) -> None:
    """The call ends in time, the process does not wait, and the number of hanging threads is bounded."""
    proxy = at("127.0.0.1")
    names.say("HANG")
    client = names.agent.open(url(proxy.port), connect_timeout_ms=200, connects_per_second=1000)
    lock = client.lock("the lock")
    answer = lock.acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "was not found in time" in answer.message and answer.took >= 190_000
    others = [names.agent.open(url(proxy.port), connect_timeout_ms=200, connects_per_second=1000).lock("the lock") for _ in range(5)]
    waits = [other.start("acquire", 1, 0, thread=n + 1) for _ in range(8) for n, other in enumerate(others)]
    assert {wait.answer().status for wait in waits} <= {"UNREACHABLE"}
    statuses = os.listdir(f"/proc/{names.agent.pid}/task")
    assert sum("dlock-resolve" in comm(names.agent, task) for task in statuses) <= 32
    wait = lock.start("acquire", 1, 20_000, thread=1)
    names.say("127.0.0.1")
    wait.answer().ok
    lock.release(1).ok
    until(lambda: not any("dlock-resolve" in comm(names.agent, task) for task in os.listdir(f"/proc/{names.agent.pid}/task")))


def comm(agent: Agent, task: str) -> str:
    try:
        return pathlib.Path(f"/proc/{agent.pid}/task/{task}/comm").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("word", always("AGAIN", full=("FAIL", "HANG")))
def test_c13_an_outage_of_names_loses_no_lease(names: Names, at: Make, word: str) -> None:
    """A connection that breaks meanwhile goes to the old address."""
    proxy = at("127.0.0.1")
    names.say("127.0.0.1")
    client = names.agent.open(url(proxy.port), lease_ms=3000, connect_timeout_ms=600)
    lock = client.lock("the lock")
    lock.acquire(1, 5000).ok
    until(lambda: client.counters()["renewed"] >= 1)
    names.say(word)
    for _ in range(3):
        connections, renewed = proxy.connections, client.counters()["renewed"]
        proxy.cut()
        until(lambda: client.counters()["renewed"] > renewed)
        assert proxy.connections > connections
    assert lock.state(1) == "HELD" and client.counters()["lost"] == 0
    lock.release(1).ok


@pytest.mark.parametrize("seconds", times(2, 5, soak=600, soak_seconds=700))
def test_c13_a_long_outage(names: Names, at: Make, seconds: int) -> None:
    """The table's ten minutes are for the soak: ten clients, whose connections break again and again."""
    proxy = at("127.0.0.1")
    names.say("127.0.0.1")
    clients = [names.agent.open(url(proxy.port), lease_ms=3000, connect_timeout_ms=600) for _ in range(10)]
    locks = [client.lock(f"c13 {i}") for i, client in enumerate(clients)]
    for lock in locks:
        lock.acquire(1, 5000).ok
    until(lambda: all(client.counters()["renewed"] for client in clients))
    names.say("HANG")
    began = now()
    while now() < began + seconds * 1_000_000:
        renewed = [client.counters()["renewed"] for client in clients]
        proxy.cut()
        until(lambda: all(client.counters()["renewed"] > old for client, old in zip(clients, renewed)))
    tell(done=seconds)
    assert {lock.state(1) for lock in locks} == {"HELD"} and sum(client.counters()["lost"] for client in clients) == 0


def test_c13_a_name_that_is_gone_is_not_used(names: Names, at: Make) -> None:
    """The name server itself denies the name; then the name comes back with another address."""
    old = at("127.0.0.1")
    new = at("127.0.0.2", old.port)
    names.say("127.0.0.1")
    lock = names.agent.open(url(old.port), private_connections=1).lock("the lock")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    names.say("NONAME")
    connections = old.connections
    old.cut()
    answer = lock.acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "cannot be found" in answer.message and old.connections == connections
    names.say("127.0.0.2")
    wait = lock.start("acquire", 1, 20_000, thread=1)
    wait.answer().ok
    assert new.connections > 0 and old.connections == connections
    lock.release(1).ok


def test_c13_an_address_that_changes(names: Names, at: Make) -> None:
    """Connections stay at the old address while they last. The next ones go to the new address, and the lock is kept."""
    old = at("127.0.0.1")
    new = at("127.0.0.2", old.port)
    names.say("127.0.0.1")
    client = names.agent.open(url(old.port), lease_ms=3000)
    lock = client.lock("the lock")
    token = lock.acquire(1, 5000).ok.token
    until(lambda: client.counters()["renewed"] >= 1)
    names.say("127.0.0.2")
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > renewed)
    assert new.connections == 0
    old.cut(), old.refuse()
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > renewed)
    assert new.connections > 0 and lock.token(1).token == token and lock.state(1) == "HELD"
    lock.release(1).ok
