"""Server faults: rows D of the matrix. Each test counts that its fault happened."""
from __future__ import annotations

import contextlib
import pathlib
import re
import socket
import threading
from typing import Any, Callable, Iterator

import mutants
import pytest

from harness.agent import Agent, now, until
from harness.build import BUILD, ROOT
from harness.fake import LockServer
from harness.server import Server
from harness.tally import tell
from harness.watch import script_of


@contextlib.contextmanager
def again_and_again(what: Callable[[], Any], pause: float) -> Iterator[list[int]]:
    """Repeats what() in a thread until the block ends; yields how often so far."""
    ended, count = threading.Event(), [0]

    def run() -> None:
        while not ended.wait(pause):
            what()
            count[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield count
    finally:
        ended.set()
        thread.join()


# ---- D-01: the script cache is flushed


@pytest.mark.parametrize("pairs", [400, pytest.param(50_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_d01_script_flush(agent: Agent, redis_server: Server, pairs: int) -> None:
    client = agent.open(redis_server, lease_ms=1500)
    held, lock, second = client.lock("held"), client.lock("lock"), client.lock("second")
    held.acquire(1, 0).ok
    with redis_server.client() as redis, again_and_again(lambda: redis.command("SCRIPT", "FLUSH"), 0.01) as flushes:
        statuses = []
        for _ in range(pairs // 50):
            for own in (lock, second):
                calls = [("acquire", own.index, 1, 100), ("extend", own.index, 1, 2000), ("inspect", own.index), ("release", own.index, 1)]
                statuses += [answer.status for answer in agent.many(calls * 25)]
        until(lambda: client.counters()["renewed"] >= 2)
    counters = client.counters()
    assert statuses and set(statuses) == {"OK"}
    tell(done=len(statuses), fired=flushes[0])
    assert flushes[0] > 10 and counters["script_reloads"] > 10
    assert counters["lost"] == 0 and held.state(1) == "HELD"


def test_d01_order_is_kept(agent: Agent, count: int = 12) -> None:
    """A server without its scripts refuses pipelined commands; they are sent again in their order, the first of them in full."""
    with LockServer() as fake:
        client = agent.open(fake)
        client.lock("first").acquire(1, 0).ok
        came: list[bytes] = []
        ran: list[bytes] = []

        def by_hash(link: socket.socket, words: list[bytes]) -> bytes | None:
            if len(came) == count:
                ran.append(words[3])
                return fake._run(link, words)
            came.append(words[3])
            return b"" if len(came) < count else b"-NOSCRIPT no such script\r\n" * count

        def in_full(link: socket.socket, words: list[bytes]) -> bytes | None:
            ran.append(words[3] + b" in full")
            return fake._run(link, words)

        fake.on("EVALSHA", by_hash)
        fake.on("EVAL", in_full)
        for number in range(count):  # with different leases, so that none share a batch
            client.lock(f"n{number}", lease_ms=30_000 + number).submit_acquire(1, 0, number).ok
        assert {client.event().status for _ in range(count)} == {0}
        assert ran == [came[0] + b" in full", *came[1:]]
        tell(fired=count)


class Forgetful:
    """A server whose scripts are gone. It replies nothing until count calls have come, refuses them all, and then runs the full scripts."""

    def __init__(self, fake: LockServer, count: int) -> None:
        self.fake, self.count = fake, count
        self.came: list[bytes] = []  # the lock of each call, in order of first arrival
        self.ran: list[bytes] = []  # and in order of execution
        self.known: set[str | None] = set()
        self.held = 0
        fake.on("EVALSHA", self.by_hash)
        fake.on("EVAL", self.in_full)

    def names(self, words: list[bytes]) -> list[bytes]:
        return words[3 : 3 + int(words[2]) : 5]

    def run(self, link: socket.socket, words: list[bytes]) -> bytes | None:
        self.ran += self.names(words)
        return self.fake.usual(str(script_of(words)), words)

    def in_full(self, link: socket.socket, words: list[bytes]) -> bytes | None:
        self.known.add(script_of(words))
        return self.run(link, words)

    def by_hash(self, link: socket.socket, words: list[bytes]) -> bytes | None:
        if script_of(words) in self.known:
            return self.run(link, words)
        if len(self.came) < self.count:
            self.came += self.names(words)
            self.held += 1
            if len(self.came) < self.count:
                return b""
            return b"-NOSCRIPT no such script\r\n" * self.held
        return b"-NOSCRIPT no such script\r\n"


def order_of_a_pipeline(new_agent: Callable[..., Agent], count: int = 41, **environment: str) -> tuple[list[bytes], list[bytes]]:
    """A server comes back without its scripts while many calls wait to be sent: batched acquires, and single ones between them.
    Returns the order of arrival and the order of execution.
    """
    with LockServer() as fake:
        client = new_agent(**environment).open(fake, private_connections=0)
        locks = [client.lock(f"n{number}", lease_ms=30_000 + (number if number % 5 == 4 else 0)) for number in range(count)]
        ready, handshakes = threading.Event(), []

        def handshake(_: socket.socket, words: list[bytes]) -> None:
            handshakes.append(words)
            ready.wait(20)

        def rush() -> None:
            """All at once, while the connection is being made."""
            ready.clear()
            before = len(handshakes)
            fake.on("CLIENT", handshake)
            fake.hang_up()
            ping = client.start("ping", 10_000, thread=1)
            while not len(handshakes) > before:
                if ping.ready():
                    ping = client.start("ping", 10_000, thread=1)
            for number, lock in enumerate(locks):
                lock.submit_acquire(1, 0, number).ok
            ready.set()
            ended = 0
            while ended < count:
                event = client.event()
                assert event.status == 0 or event.type == "LOG", event
                ended += event.type != "LOG"

        rush()  # the client learns that the server has the scripts
        for lock in locks:
            lock.release(1).ok
        assert fake.asked["batch_acquire"] > 0
        forgetful = Forgetful(fake, count)
        rush()
        assert len(forgetful.came) == len(forgetful.ran) == count
        return forgetful.came, forgetful.ran


def test_d01_order_is_kept_by_those_that_go_together(new_agent: Callable[..., Agent]) -> None:
    came, ran = order_of_a_pipeline(new_agent)
    assert ran == came
    tell(fired=len(came))


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_of_the_order(new_agent: Callable[..., Agent], tmp_path: pathlib.Path) -> None:
    changed = str(mutants.library(ROOT, BUILD, tmp_path, mutants.OVERTAKEN))
    came, ran = order_of_a_pipeline(new_agent, LD_PRELOAD=changed)
    assert sorted(ran) == sorted(came) and ran != came


# ---- D-02: the server is loading its data


def test_d02_loading(agent: Agent, new_server: Callable[..., Server]) -> None:
    server = new_server()
    client = agent.open(server, lease_ms=6000)
    held, free = client.lock("held"), client.lock("free")
    token = held.acquire(1, 0).ok.token
    free.acquire(1, 0).ok  # load the script
    free.release(1).ok
    server.command("EVAL", "for i = 1, 3000 do redis.call('SET', 'key' .. i, i) end", 0)
    server.command("CONFIG", "SET", "key-load-delay", 2000, "loading-process-events-interval-bytes", 1024)
    with server.client(30) as redis:
        redis.send("DEBUG", "RELOAD")
        until(lambda: free.inspect().status == "SERVER_LOADING")
        wait = free.start("acquire", 1, 20_000, thread=1)
        refused = [free.acquire(2, 0), free.inspect(), free.force(), held.extend(1, 6000)]
        assert {answer.status for answer in refused} <= {"SERVER_LOADING", "BUSY", "UNREACHABLE"}, refused  # the server may be slow, too
        assert sum(answer.status == "SERVER_LOADING" for answer in refused) >= 2 and all(answer.retryable for answer in refused)
        assert held.state(1) in ("HELD", "AT_RISK") and not wait.ready()
        ending, renewed = now(), client.counters()["renewed"]
        server.command("CONFIG", "SET", "key-load-delay", 0)
        assert redis.read() == "OK"
    loaded = now()
    answer = wait.answer().ok
    assert ending <= answer.done <= loaded + 1_000_000, "a waiter looks within 250 ms of the end (and then some, on a busy machine)"
    until(lambda: client.counters()["renewed"] > renewed)
    assert held.state(1) == "HELD" and held.token(1).token == token
    assert client.counters()["lost"] == 0
    held.release(1).ok


@pytest.mark.parametrize("code, status", [("LOADING Redis is loading", "SERVER_LOADING"), ("MASTERDOWN Link is down", "SERVER_LOADING"),
                                          ("BUSY Redis is busy", "SERVER_BUSY")])  # fmt: skip
def test_d02_answers_of_a_loading_server(agent: Agent, code: str, status: str) -> None:
    with LockServer() as fake:
        client = agent.open(fake, lease_ms=6000)
        held, lock = client.lock("held"), client.lock("lock")
        held.acquire(1, 0).ok
        for script in ("acquire", "renew", "inspect"):
            fake.say(script, f"-{code}\r\n".encode(), 4)
        answer = lock.acquire(1, 0)
        assert (answer.status, answer.retryable) == (status, 1)
        assert lock.inspect().status == held.extend(1, 6000).status == status
        assert lock.acquire(1, 10_000).ok.token > 0
        assert fake.said["acquire"] == 4, "it was tried until the server had loaded"
        fake.say("release", f"-{code}\r\n".encode(), 2)
        assert lock.release(1).status == "OK" and fake.said["release"] == 2
        assert held.state(1) == "HELD" and client.counters()["lost"] == 0


# ---- D-06: the server's memory is full


def refusals(server: Server) -> int:
    """How many commands were refused for want of memory."""
    found = re.search(rb"errorstat_OOM:count=(\d+)", server.command("INFO", "errorstats"))
    return int(found[1]) if found else 0


def test_d06_out_of_memory(new_agent: Callable[..., Agent], new_server: Callable[..., Server]) -> None:
    server, agent, other = new_server("--maxmemory-policy", "noeviction"), new_agent(), new_agent()
    client, next_client = agent.open(server, lease_ms=1500), other.open(server, lease_ms=1500)
    locks, free = [client.lock(f"lock{i}") for i in range(30)], client.lock("free")
    assert {answer.status for answer in agent.many([("acquire", lock.index, 1, 0) for lock in locks])} == {"OK"}
    waiter = next_client.lock("lock0")
    wait = waiter.start("acquire", 1, 20_000, thread=1)
    until(lambda: locks[0].inspect().ok.event.waiters == 1)
    server.command("CONFIG", "SET", "maxmemory", 1)
    refused = [free.acquire(1, 0), free.acquire(1, 400), next_client.lock("free").acquire(1, 0)]
    assert [answer.status for answer in refused] == ["SERVER_OUT_OF_MEMORY"] * 3
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= renewed + 3 * len(locks))
    before = refusals(server)
    until(lambda: refusals(server) >= before + 3, 20)  # the waiter's probes need memory, too
    assert locks[1].extend(1, 5000).status == "OK"
    assert {lock.state(1) for lock in locks} == {"HELD"} and client.counters()["lost"] == 0
    assert {answer.status for answer in agent.many([("release", lock.index, 1) for lock in locks])} == {"OK"}
    assert wait.answer(30).status == "OK"  # it stood in line before
    assert server.command("EXISTS", *(f"lock{i}" for i in range(1, 30))) == 0
    server.command("CONFIG", "SET", "maxmemory", 0)
    assert free.acquire(1, 2000).status == "OK"


@mutants.each(mutants.FULL)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(120)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)


# ---- D-14: connections are killed


@pytest.mark.parametrize("turns", [30, pytest.param(1000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_d14_client_kill(new_agent: Callable[..., Agent], new_server: Callable[..., Server], turns: int) -> None:
    """Two processes pass a lock back and forth while the connections of each kind are killed in turn."""
    server, agents = new_server(), [new_agent(), new_agent()]
    options = {"lease_ms": 3000, "safety_ms": 250, "connects_per_second": 1000}
    clients = [agent.open(server, **options) for agent in agents]
    held = [client.lock(f"held{i}") for i, client in enumerate(clients)]
    locks = [client.lock("lock") for client in clients]
    for lock in held:
        lock.acquire(1, 0).ok
    locks[0].acquire(1, 0).ok
    killed = {"normal": 0, "pubsub": 0}
    with server.client() as redis:

        def kill() -> None:
            for kind in killed:
                killed[kind] += redis.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

        late: list[int] = []
        with again_and_again(kill, 0.02):
            while len(late) < turns or killed["normal"] < 40 or killed["pubsub"] < 10:
                has, gets = locks[len(late) % 2], locks[1 - len(late) % 2]
                wait = gets.start("acquire", 1, 20_000, thread=1)
                until(lambda: gets.state(1) == "WAITING")
                began = now()
                status = has.release(1).status
                assert status in ("OK", "UNKNOWN_OUTCOME"), status
                answer = wait.answer(30).ok
                late.append((answer.done - began) // 1000)
    assert sorted(late)[len(late) // 2] <= 600 and max(late) < 3000, f"milliseconds of each hand-over: {late}"
    assert sum(client.counters()["lost"] for client in clients) == 0
    assert {lock.state(1) for lock in held} == {"HELD"}
    tell(done=turns, fired=killed["normal"] + killed["pubsub"])


# ---- D-20: the server is suspended while requests wait


@pytest.mark.parametrize("rounds", [2, pytest.param(34, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_d20_server_stopped(new_agent: Callable[..., Agent], new_server: Callable[..., Server], rounds: int) -> None:
    """Thirty locks per round: renewed, released or extended while the server is suspended, and wanted by another process."""
    server, lease = new_server(), 600
    first, second = new_agent(), new_agent()
    options = {"lease_ms": lease, "connects_per_second": 1000, "release_timeout_ms": 200, "command_timeout_ms": 200}
    one, two = first.open(server, **options), second.open(server, **options)
    for _ in range(rounds):
        locks, others = [one.lock(f"lock{i}") for i in range(30)], [two.lock(f"lock{i}") for i in range(30)]
        taken = first.many([("acquire", lock.index, 1, 5000) for lock in locks])
        assert {answer.status for answer in taken} == {"OK"}
        waits = [lock.start("acquire", 1, 30_000, thread=i + 1) for i, lock in enumerate(others)]
        until(lambda: two.counters()["waiting"] == 30)
        server.pause()
        began = now()
        late = [lock.start("release", 1, thread=i + 1) for i, lock in enumerate(locks) if i % 3 == 1]
        late += [lock.start("extend", 1, 5000, thread=i + 1) for i, lock in enumerate(locks) if i % 3 == 2]
        until(lambda: now() > began + 3000 * lease)
        ends = {wait.answer().status for wait in late}
        assert ends <= {"UNKNOWN_OUTCOME", "UNREACHABLE", "LOST"} and len(ends) > 1, ends
        assert not any(wait.ready() for wait in waits)
        assert {lock.state(1) for lock in locks} <= {"LOST", "NONE"}
        server.resume()
        for lock, other, wait, before in zip(locks, others, waits, taken):
            answer = wait.answer(30).ok
            assert lock.state(1) in ("LOST", "NONE"), "two holders"
            assert answer.token > before.token
            assert other.state(1) == "HELD"
        renewed = two.counters()["renewed"]
        until(lambda: two.counters()["renewed"] >= renewed + 90)  # all requests that waited at the server were executed
        assert {lock.state(1) for lock in others} == {"HELD"} and two.counters()["lost"] == 0, "a foreign release"
        assert {answer.status for answer in second.many([("release", lock.index, 1) for lock in others])} == {"OK"}
        first.many([("release", lock.index, 1) for lock in locks])
        for lock in (*locks, *others):
            lock.drop()
    tell(done=30 * rounds)
    assert one.counters()["lost"] > 10 * rounds
