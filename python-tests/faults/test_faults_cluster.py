"""Cluster faults: rows F of the matrix and E-12. Each test counts that its fault happened."""
from __future__ import annotations

import contextlib
import pathlib
import re
import time
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.agent import Agent, Client, now, until
from harness.build import BUILD, ROOT, SANITIZED
from harness.cluster import SLOTS, Cluster, Node, Pulse
from harness.fake import FakeServer, LockServer
from harness.faults import SLACK_MS, Fenced, times
from harness.kinds import one, rss_kb, sides
from harness.sentinel import ask
from harness.tally import tell
from harness.turns import Turns

Make = Callable[..., Any]
SAFETY_MS = 300


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(replicas=0) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    _cluster.flush()
    return _cluster


@pytest.fixture
def new_cluster() -> Iterator[Make]:
    made: list[Cluster] = []

    def make(*how: Any, **more: Any) -> Cluster:
        made.append(Cluster(*how, **more))
        return made[-1]

    yield make
    for one_of in made:
        one_of.stop()


def errors(cluster: Cluster, code: str) -> int:
    """How often the servers have replied with an error, by their own count."""
    found = [re.search(rf"errorstat_{code}:count=(\d+)".encode(), ask(node, "INFO", "errorstats")) for node in cluster.running()]
    return sum(int(one_of[1]) for one_of in found if one_of)


def elsewhere(cluster: Cluster, node: Node) -> Node:
    primaries = cluster.primaries()
    return primaries[(primaries.index(node) + 1) % len(primaries)]


def log_of(client: Client) -> list[Any]:
    """The queued events, for assertion messages."""
    found = []
    while (answer := client.next(0)).status == "OK":
        found.append(answer.event)
    return found


# ---- F-01: MOVED


@pytest.mark.parametrize("moves", times(3, 60))
def test_f01_moved(agent: Agent, cluster: Cluster, moves: int) -> None:
    """The slot moves between two calls: the same call finds it (unless a map refresh came first); holds stay held."""
    client = agent.open(cluster, lease_ms=1500)
    lock, held = client.lock("{moved}"), client.lock("held{moved}")
    token, before = held.acquire(1, 0).ok.token, errors(cluster, "MOVED")
    for _ in range(moves):
        cluster.until_settled()  # gossip of the move before may still be in flight
        target = elsewhere(cluster, cluster.owner("{moved}"))
        cluster.migrate(cluster.slot("moved"), target)
        sent = client.counters()["commands"]
        assert lock.acquire(1, 0).ok.token
        lock.release(1).ok
        assert client.counters()["commands"] - sent <= 2 + 2 + 2  # two redirects, and renewals of the other lock
        assert held.state(1) == "HELD" and ask(target, "EXISTS", "held{moved}") == 1
    until(lambda: client.counters()["renewed"] > 0)
    assert errors(cluster, "MOVED") - before >= moves / 2 and held.token(1).ok.token == token
    held.release(1).ok


# ---- F-02: ASK, slots that move under held locks


@pytest.mark.parametrize("count", times(60, 300, 600))
def test_f02_resharding(agent: Agent, new_agent: Make, cluster: Cluster, count: int) -> None:
    """Locks that are held and waited for while their slots move key by key: nothing is lost, nobody gets in too early."""
    options = {"lease_ms": 3000, "safety_ms": SAFETY_MS}
    client, other = agent.open(cluster, **options), new_agent().open(cluster, **options)
    third = new_agent().open(cluster, command_timeout_ms=50)
    names = [f"held-{number}" for number in range(count)]
    locks, rivals = [client.lock(name) for name in names], [other.lock(name) for name in names[:12]]
    for lock in locks:
        lock.acquire(1, 0).ok
    waits = [rival.start("acquire", 2, -1, thread=index + 1) for index, rival in enumerate(rivals)]
    until(lambda: all(rival.state(2) == "WAITING" for rival in rivals))
    before = {code: errors(cluster, code) for code in ("ASK", "CROSSSLOT", "MOVED")}
    where, primaries = cluster.owners(), cluster.primaries()

    def settle() -> None:
        for name in [event.text.split("'")[1] for event in log_of(client) if event.type == "AT_RISK"]:
            cluster.insist(cluster.slot(name), name, where[cluster.slot(name)], primaries)

    with Pulse(primaries) as pulse:
        for index, (name, lock) in enumerate(zip(names, locks)):
            slot = cluster.slot(name)
            source, target = where[slot], primaries[(primaries.index(where[slot]) + 1) % 3]
            with cluster.moving(slot, target, primaries, source):
                where[slot] = target
                cluster.move_keys(slot, source, target, None if index % 8 == 4 else 1)  # all keys, or the first
                answer = third.lock(name).acquire(3, 0) if index % 4 == 0 else None
                assert not answer or answer.status == "BUSY" or (answer.status != "OK" and answer.retryable), answer
                assert lock.state(1) == "HELD", (name, str(pulse), client.counters()["lost"])
            if index % 4 == 0:
                cluster.until_settled()  # of many moves at once two may take the same epoch, and then Redis itself loses keys
            settle()
        renewed = client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= renewed + count, 30)
        until(lambda: settle() or all(lock.state(1) == "HELD" for lock in locks), 30)  # some may have missed their renewals while their slot moved
        assert client.counters()["lost"] == 0, str(pulse)
    assert not any(wait.ready() for wait in waits)
    assert errors(cluster, "ASK") > before["ASK"] and errors(cluster, "MOVED") > before["MOVED"]
    assert errors(cluster, "CROSSSLOT") == before["CROSSSLOT"]
    for lock in locks:
        lock.release(1).ok
    for wait, rival in zip(waits, rivals):
        wait.answer(30).ok
        rival.release(2).ok


@pytest.mark.full
def test_f02_a_server_stands_still(agent: Agent, new_cluster: Make, count: int = 600) -> None:
    """It stops for half a lease, with hundreds of locks in their own slots: all are renewed in time when it resumes."""
    cluster = new_cluster(replicas=0, timeout_ms=15_000)
    client = agent.open(cluster, lease_ms=6000)
    locks = [client.lock(f"still-{number}") for number in range(count)]
    for lock in locks:
        lock.acquire(1, 0).ok
    until(lambda: client.counters()["renewed"] >= count, 30)
    server = cluster.nodes[0]
    server.pause()
    time.sleep(3)
    server.resume()
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] >= renewed + count, 30)
    assert client.counters()["lost"] == 0 and all(lock.state(1) == "HELD" for lock in locks)
    for lock in locks:
        lock.release(1).ok


def test_f02_locks_of_one_slot_half_moved(agent: Agent, cluster: Cluster, count: int = 40) -> None:
    """Locks that share a slot are renewed in one request, which Redis refuses while some of them have moved: each is renewed nevertheless.
    """
    client = agent.open(cluster, lease_ms=1000)
    locks = {name: client.lock(name) for name in (f"{{torn}}{number}" for number in range(count))}
    for lock in locks.values():
        lock.acquire(1, 0).ok
    with cluster.moving(cluster.slot("torn"), elsewhere(cluster, cluster.owner("torn"))) as (source, target):
        ask(source, "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *list(locks)[::2])
        before, renewed = errors(cluster, "TRYAGAIN"), client.counters()["renewed"]
        until(lambda: client.counters()["renewed"] >= renewed + 6 * count or client.counters()["lost"])
        assert client.counters()["lost"] == 0, log_of(client)
        tell(fired=errors(cluster, "TRYAGAIN") - before)
        assert errors(cluster, "TRYAGAIN") > before, "they were never asked for together"
    for lock in locks.values():
        assert lock.state(1) == "HELD"
        lock.release(1).ok


def test_f02_a_torn_lock_delays_no_other(agent: Agent, cluster: Cluster) -> None:
    """The keys of a read lock stay on two servers, for nobody may move them, until it is lost: locks of other slots on these servers are renewed in the meantime.
    """
    client = agent.open(cluster.without("migrate"), lease_ms=1000)
    slot = cluster.slot("torn")
    source = cluster.owner(slot)
    near = [number for number, owner in cluster.owners().items() if owner is source and number != slot][:30]
    readers = [client.lock(f"{{torn}}{number}", kind="read") for number in range(30)]
    others = [client.lock(cluster.key(number)) for number in near]
    for lock in readers + others:
        lock.acquire(1, 0).ok
    before = errors(cluster, "TRYAGAIN")
    with cluster.moving(slot, elsewhere(cluster, source)) as (_, target):
        keys = ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1000)
        ask(source, "MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *(key for key in keys if b"timeout" in key))
        until(lambda: all(reader.state(1) == "LOST" for reader in readers))
    assert errors(cluster, "TRYAGAIN") > before
    assert client.counters()["lost"] == len(readers)
    for lock in others:
        assert lock.state(1) == "HELD"
        lock.release(1).ok


# ---- F-03: TRYAGAIN


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "semaphore", "permit_semaphore"])
def test_f03_tryagain(agent: Agent, cluster: Cluster, kind: str) -> None:
    """A slot stays half moved for a while: calls wait for it, and none fails before its time is over."""
    client = agent.open(cluster.without("migrate"), lease_ms=4000, command_timeout_ms=3000)
    lock = one(client, kind, "half")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    slot, before = cluster.slot("half"), errors(cluster, "TRYAGAIN")
    with cluster.moving(slot, elsewhere(cluster, cluster.owner(slot))) as (source, target):
        if len(ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 2)) > 1:  # else the old server has one key and lacks the others
            cluster.move_keys(slot, source, target, 1)
        wait = lock.start("acquire", 1, 20_000, thread=1)
        until(lambda: errors(cluster, "TRYAGAIN") > before + 2)
        assert not wait.ready()
    wait.answer().ok
    lock.release(1).ok


# ---- F-04: CLUSTERDOWN


def test_f04_clusterdown(new_agent: Make, new_cluster: Make) -> None:
    """Two of three primaries die: the third refuses, holders learn in time, waiters wait. When they come back, all goes on."""
    cluster = new_cluster(replicas=0, timeout_ms=500)
    agent = new_agent()
    survivor, *victims = cluster.primaries()
    client = agent.open(cluster, lease_ms=1500, safety_ms=SAFETY_MS)
    name = cluster.key_of(survivor)
    held, waited = client.lock(name), new_agent().open(cluster, safety_ms=SAFETY_MS).lock(name)
    held.acquire(1, 0).ok
    wait = waited.start("acquire", 2, -1, thread=1)
    until(lambda: waited.state(2) == "WAITING")
    for victim in victims:
        victim.kill()
    until(lambda: errors(cluster, "CLUSTERDOWN") > 0)
    until(lambda: held.state(1) == "LOST", 20)
    assert client.counters()["lost"] == 1
    answer = client.lock(name).acquire(5, 0)
    assert answer.status in ("SERVER_LOADING", "UNREACHABLE") and answer.retryable, answer
    assert not wait.ready()
    for victim in victims:
        victim.start()
    cluster.until_settled()
    wait.answer(10).ok
    waited.release(2).ok


# ---- F-06: redirects that lead nowhere


def shards(*nodes: FakeServer, host: bytes = b"127.0.0.1", single: bool = False, first: int = 0) -> bytes:
    """The reply to CLUSTER SHARDS: the nodes share the slots from first on in equal ranges, or alternately."""
    parts = [b"*%d\r\n" % len(nodes)]
    for index, node in enumerate(nodes):
        if single:
            ranges = [(slot, slot) for slot in range(first, SLOTS) if slot % len(nodes) == index]
        else:
            size = (SLOTS - first) // len(nodes)
            last = SLOTS - 1 if index == len(nodes) - 1 else first + (index + 1) * size - 1
            ranges = [(first + index * size, last)]
        parts.append(b"*4\r\n+slots\r\n*%d\r\n" % (2 * len(ranges)))
        parts += [b":%d\r\n:%d\r\n" % both for both in ranges]
        parts.append(b"+nodes\r\n*1\r\n*8\r\n+port\r\n:%d\r\n+endpoint\r\n$%d\r\n%s\r\n" % (node.port, len(host), host))
        parts.append(b"+role\r\n+master\r\n+health\r\n+online\r\n")
    return b"".join(parts)


@pytest.fixture
def fakes() -> Iterator[list[FakeServer]]:
    made = [FakeServer() for _ in range(3)]
    for fake in made:
        fake.on("CLUSTER", shards(*made[:2]))
    yield made
    for fake in made:
        fake.close()


def fake_url(*fakes: FakeServer) -> str:
    return "redis+cluster://:secret-password@" + ",".join(f"127.0.0.1:{fake.port}" for fake in fakes)


LOOPS = {
    "to itself": lambda own, other: b"-MOVED 7 127.0.0.1:%d\r\n" % own.port,
    "to itself without a host": lambda own, other: b"-MOVED 7 :%d\r\n" % own.port,
    "to and fro": lambda own, other: b"-MOVED 7 127.0.0.1:%d\r\n" % other.port,
    "ask": lambda own, other: b"-ASK 7 127.0.0.1:%d\r\n" % other.port,
    "nonsense": lambda own, other: b"-MOVED x y\r\n",
    "no port": lambda own, other: b"-MOVED 7 127.0.0.1\r\n",
    "a slot too far": lambda own, other: b"-ASK 16384 127.0.0.1:%d\r\n" % own.port,
    "an endless host": lambda own, other: b"-MOVED 7 %s:1\r\n" % (b"h" * 4000),
}


@pytest.mark.parametrize("how", LOOPS)
def test_f06_loops(agent: Agent, fakes: list[FakeServer], how: str) -> None:
    """At most five redirects, then an error, within the time of a command."""
    first, second, _ = fakes
    for own, other in ((first, second), (second, first)):
        own.on("EVALSHA", LOOPS[how](own, other))
    lock = agent.open(fake_url(first), command_timeout_ms=500).lock("x")
    answer = lock.acquire(1, 0)
    assert answer.status in ("UNREACHABLE", "SERVER_LOADING") and answer.retryable, answer
    assert "secret" not in answer.message and answer.took <= (500 + SLACK_MS) * 1000
    asked = first.count("EVALSHA") + second.count("EVALSHA")
    assert asked <= 6 if how in ("to itself", "to itself without a host", "to and fro", "ask") else asked > 1


def test_f06_servers_that_agree_a_little_later(agent: Agent, fakes: list[FakeServer], later_us: int = 100_000) -> None:
    """In a failover two servers redirect to each other until both know of it: the five redirects must not be used up before."""
    first, second, _ = fakes
    agreed: list[int] = []

    def sends_to(other: FakeServer) -> Callable[..., bytes]:
        def answer(link: Any, words: list[bytes]) -> bytes:
            agreed.append(now() + later_us)
            return b"*2\r\n:1\r\n:12345\r\n" if now() >= agreed[0] else LOOPS["to and fro"](other, other)

        return answer

    first.on("EVALSHA", sends_to(second))
    second.on("EVALSHA", sends_to(first))
    agent.open(fake_url(first)).lock("x").acquire(1, 0).ok
    assert len(agreed) > 1


def test_f06_foreign_hosts(agent: Agent, fakes: list[FakeServer]) -> None:
    """A redirect out of the cluster is not followed, neither MOVED nor ASK. Once the map lists that host, it is."""
    first, second, foreign = fakes
    for code in (b"MOVED", b"ASK"):
        for own in (first, second):
            own.on("EVALSHA", b"-%s 7 127.0.0.1:%d\r\n" % (code, foreign.port))
        answer = agent.open(fake_url(first), command_timeout_ms=500).lock("x").acquire(1, 0)
        assert answer.status == "UNREACHABLE" and "secret" not in answer.message, answer
    assert first.count("EVALSHA") + second.count("EVALSHA") >= 2 and foreign.connections == 0
    foreign.on("EVALSHA", b"*2\r\n:1\r\n:12345\r\n")
    lock = agent.open(fake_url(first)).lock("x")
    for own in (first, second):
        own.on("EVALSHA", b"-MOVED %d 127.0.0.1:%d\r\n" % (Cluster.slot("x"), foreign.port))
        own.on("CLUSTER", shards(*fakes))
    lock.acquire(1, 0).ok
    assert foreign.connections > 0


def test_f06_channels_that_nobody_has(agent: Agent, fakes: list[FakeServer]) -> None:
    """Two servers redirect a subscribe to each other: each is asked once per map refresh."""
    pair, slot = fakes[:2], Cluster.slot("x")
    for own, other in (pair, pair[::-1]):
        own.on("PUBSUB", b"*0\r\n")
        own.on("EVALSHA", b"*3\r\n:0\r\n:60000\r\n:1\r\n")
        own.on("SSUBSCRIBE", b"-MOVED %d 127.0.0.1:%d\r\n" % (slot, other.port))
        own.on("SUNSUBSCRIBE", lambda link, words: b"*3\r\n$12\r\nsunsubscribe\r\n$%d\r\n%s\r\n:0\r\n" % (len(words[1]), words[1]))

    def count(command: str) -> int:
        return sum(fake.count(command) for fake in pair)

    agent.open(fake_url(pair[0])).lock("x", safety_ms=60_000).start("acquire", 1, 100_000, thread=1)
    until(lambda: count("SSUBSCRIBE") > 3)
    before = count("SSUBSCRIBE"), count("CLUSTER")
    until(lambda: count("CLUSTER") > before[1] + 3)
    assert count("SSUBSCRIBE") - before[0] <= count("CLUSTER") - before[1] + 2


def sends_around(agent: Agent, fakes: list[FakeServer]) -> None:
    """The outcome of redirects of every kind; each of mutants.CLUSTER breaks one of them."""
    first, second, third = fakes
    grant, slot = b"*2\r\n:1\r\n:12345\r\n", Cluster.slot("x")
    open_one = lambda: agent.open(fake_url(first), command_timeout_ms=500).lock("x")

    def first_says(*replies: bytes) -> Callable[..., bytes]:
        left = list(replies)
        return lambda link, words: left.pop(0) if len(left) > 1 else left[0]

    for fake in fakes:
        fake.on("CLUSTER", shards(first, first=slot) if fake is first else b"-ERR\r\n")
        fake.on("EVALSHA", grant)
    first.on("CLUSTER", lambda link, words: shards(first, second, first=0))
    low, high = (first, second) if slot < SLOTS // 2 else (second, first)
    low.on("EVALSHA", first_says(b"-TRYAGAIN keys\r\n", b"-TRYAGAIN keys\r\n", grant))
    open_one().acquire(1, 0).ok
    low.on("EVALSHA", b"-MOVED %d :%d\r\n" % (slot, high.port))
    open_one().acquire(1, 0).ok
    low.on("EVALSHA", first_says(b"-ASK %d 127.0.0.1:%d\r\n" % (slot, high.port), b":1\r\n"))
    before, lock = len(high.requests), open_one()
    lock.acquire(1, 0).ok
    seen = [words[0] for words in high.requests[before:]]
    assert b"ASKING" in seen and seen.index(b"ASKING") + 1 == seen.index(b"EVALSHA")
    asked = low.count("EVALSHA")
    lock.release(1).ok
    assert low.count("EVALSHA") == asked + 1
    for own, other in ((low, high), (high, low)):
        own.on("EVALSHA", LOOPS["to and fro"](own, other))
    asked = first.count("EVALSHA") + second.count("EVALSHA")
    assert open_one().acquire(1, 0).status == "UNREACHABLE"
    assert first.count("EVALSHA") + second.count("EVALSHA") - asked <= 6
    # a server that was in the map and is not any more
    lock = open_one()
    high.on("EVALSHA", grant)
    low.on("EVALSHA", b":1\r\n")
    first.on("CLUSTER", lambda link, words: shards(*fakes))
    agent.open(fake_url(first)).ping(5000).ok
    client = agent.open(fake_url(first), command_timeout_ms=500)
    client.ping(5000).ok
    first.on("CLUSTER", lambda link, words: shards(first, second))
    looks = first.count("CLUSTER") + second.count("CLUSTER") + third.count("CLUSTER")
    for fake in fakes:
        fake.on("EVALSHA", b"-MOVED %d 127.0.0.1:%d\r\n" % (slot, first.port if fake is not first else second.port))
    client.lock("x").acquire(1, 0)
    until(lambda: first.count("CLUSTER") + second.count("CLUSTER") + third.count("CLUSTER") > looks)
    until(lambda: client.lock("x").acquire(1, 0).status == "UNREACHABLE")
    for fake in (first, second):
        fake.on("EVALSHA", b"-MOVED %d 127.0.0.1:%d\r\n" % (slot, third.port))
    third.on("EVALSHA", grant)
    asked = third.count("EVALSHA")
    assert client.lock("x").acquire(1, 0).status == "UNREACHABLE" and third.count("EVALSHA") == asked


def keep_order(agent: Agent, fakes: list[FakeServer], count: int = 20) -> bool:
    """Requests that are delayed for a moment: until the map is known, and because their keys are moving.
    Whether they arrive in the order in which they were submitted, both times.
    """
    first, second, _ = fakes
    client = agent.open(fake_url(first), private_connections=0)
    came: list[bytes] = []

    def refuse(_: Any, words: list[bytes]) -> bytes:
        came.append(words[3])
        if len(came) > count:
            return b"*2\r\n:1\r\n:12345\r\n"
        return b"" if len(came) < count else b"-TRYAGAIN keys are on their way\r\n" * count

    for fake in (first, second):
        fake.on("EVALSHA", refuse)
    for number in range(count):
        client.lock("{x}%d" % number).submit_acquire(1, 0, number).ok
    assert {client.event().status for _ in range(count)} == {0} and len(came) == 2 * count
    return came == 2 * [b"{x}%d" % number for number in range(count)]


def test_f03_order_is_kept(agent: Agent, fakes: list[FakeServer]) -> None:
    assert keep_order(agent, fakes)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_mutant_of_the_order(new_agent: Make, fakes: list[FakeServer], tmp_path: pathlib.Path) -> None:
    agent = new_agent(LD_PRELOAD=str(mutants.library(ROOT, BUILD, tmp_path, mutants.STACK)))
    assert not all(keep_order(agent, fakes) for _ in range(10))  # what is turned round twice, and what never waited, keeps its order


def test_f06_sent_around(agent: Agent, fakes: list[FakeServer]) -> None:
    sends_around(agent, fakes)


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.parametrize("mutant", mutants.CLUSTER, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, new_agent: Make, fakes: list[FakeServer], tmp_path: pathlib.Path) -> None:
    """The test above finds a seeded defect in the routing of requests."""
    made = mutants.library(ROOT, BUILD, tmp_path, mutant)
    for _ in range(3):  # on a busy machine a late command may hide the defect
        try:
            sends_around(new_agent(LD_PRELOAD=str(made)), fakes)
        except AssertionError:
            return
    pytest.fail("it was not caught")


# ---- F-07: odd maps


def test_f07_slots_one_by_one(agent: Agent, fakes: list[FakeServer]) -> None:
    """16,384 slots with alternating owners are read, in little memory."""
    first, second, _ = fakes
    first.on("CLUSTER", shards(first, second, single=True))
    for fake in (first, second):
        fake.on("EVALSHA", b"*2\r\n:1\r\n:12345\r\n")
    agent.open(fake_url(second)).ping(5000).ok
    before = rss_kb(agent.process.pid)
    client = agent.open(fake_url(first))
    client.ping(5000).ok
    assert SANITIZED or rss_kb(agent.process.pid) - before <= 4096
    for number in range(20):
        name = f"n{number}"
        client.lock(name).acquire(1, 0).ok
        assert (first, second)[Cluster.slot(name) % 2].requests[-1][3] == name.encode()


def test_many_servers_and_a_silent_one() -> None:
    """A server that does not reply delays no renewals of other servers, however many there are."""
    with contextlib.ExitStack() as stack:
        fakes = [stack.enter_context(LockServer()) for _ in range(34)]
        client = stack.enter_context(Agent()).open(fake_url(fakes[0]), lease_ms=3000)
        for fake in fakes:
            fake.on("CLUSTER", shards(*fakes))
        numbers = range(len(fakes))
        names = {number: [name for name in map(str, range(8000)) if Cluster.slot(name) // (SLOTS // len(fakes)) == number] for number in numbers}
        silent = [client.lock(name) for name in names[0][:150]]
        others = [client.lock(names[number][0]) for number in numbers[1:]]
        for lock in silent + others:
            lock.acquire(1, 0).ok
        fakes[0].say("renew", b"")
        until(lambda: all(lock.state(1) == "LOST" for lock in silent))
        assert client.counters()["lost"] == len(silent) and all(lock.state(1) == "HELD" for lock in others)
        assert min(fake.asked["renew"] for fake in fakes[1:]) >= 2  # once in each third of the lease so far


def slots_reply(*rows: tuple[int, int, bytes, int]) -> bytes:
    parts = [b"*%d\r\n" % len(rows)]
    parts += [b"*3\r\n:%d\r\n:%d\r\n*3\r\n%s:%d\r\n$2\r\nid\r\n" % (low, high, host, port) for low, high, host, port in rows]
    return b"".join(parts)


@pytest.mark.parametrize("host", [b"$9\r\n127.0.0.1\r\n", b"$0\r\n\r\n", b"$-1\r\n"], ids=["named", "empty", "nil"])
def test_f07_before_shards(agent: Agent, fakes: list[FakeServer], host: bytes) -> None:
    """Servers before 7.0 have CLUSTER SLOTS only, and no sharded channels; an empty host means the one that replies."""
    first = fakes[0]

    def cluster(_: Any, words: list[bytes]) -> bytes:
        if words[1] == b"SHARDS":
            return b"-ERR Unknown subcommand or wrong number of arguments for 'SHARDS'\r\n"
        return slots_reply((0, SLOTS - 1, host, first.port))

    first.on("CLUSTER", cluster)
    first.on("PUBSUB", b"-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'\r\n")
    first.on("EVALSHA", b"*2\r\n:1\r\n:12345\r\n")
    agent.open(fake_url(first)).lock("x").acquire(1, 0).ok


BAD_MAPS = {
    "empty": b"*0\r\n",
    "no array": b"+OK\r\n",
    "numbers": b"*2\r\n:1\r\n:2\r\n",
    "half a shard": b"*1\r\n*2\r\n+slots\r\n*0\r\n",
    "slots that are none": shards().replace(b"*0", b"*1") + b"*4\r\n+slots\r\n*2\r\n:5\r\n:99999\r\n+nodes\r\n*1\r\n*4\r\n+port\r\n:1\r\n+role\r\n+master\r\n",
    "a port that is none": b"*1\r\n*4\r\n+slots\r\n*2\r\n:0\r\n:5\r\n+nodes\r\n*1\r\n*4\r\n+port\r\n:99999\r\n+role\r\n+master\r\n",
    "a host that is none": b"*1\r\n*4\r\n+slots\r\n*2\r\n:0\r\n:5\r\n+nodes\r\n*1\r\n*6\r\n+port\r\n:1\r\n+endpoint\r\n+a b\r\n+role\r\n+master\r\n",
    "an error": b"-ERR not now\r\n",
}


@pytest.mark.parametrize("bad", BAD_MAPS)
def test_f07_bad_maps(agent: Agent, fakes: list[FakeServer], bad: str) -> None:
    """A senseless reply: the next server is asked. If there is no other, the call gets the error."""
    first, second, _ = fakes
    first.on("CLUSTER", BAD_MAPS[bad])
    answer = agent.open(fake_url(first)).lock("x").acquire(1, 0)
    assert answer.status in ("PROTOCOL_ERROR", "SERVER_ERROR", "SERVER_LOADING") and f":{first.port}" in answer.message, answer
    second.on("CLUSTER", shards(second))
    second.on("EVALSHA", b"*2\r\n:1\r\n:12345\r\n")
    agent.open(fake_url(first, second)).lock("x").acquire(1, 0).ok


def test_f07_old_maps(agent: Agent, fakes: list[FakeServer]) -> None:
    """A server that is cut off from the others names a dead one, for ever: the next server is asked."""
    old, good, gone = fakes
    gone.close()
    old.on("CLUSTER", shards(gone))
    good.on("CLUSTER", shards(good))
    good.on("EVALSHA", b"*2\r\n:1\r\n:12345\r\n")
    agent.open(fake_url(old, good)).lock("x").acquire(1, 15_000).ok
    assert old.count("CLUSTER") > 1


def test_f07_slots_of_nobody(agent: Agent, fakes: list[FakeServer]) -> None:
    first = fakes[0]
    first.on("CLUSTER", shards(first, first=10_000))
    first.on("EVALSHA", b"*2\r\n:1\r\n:12345\r\n")
    client = agent.open(fake_url(first), command_timeout_ms=300)
    low, high = (next(n for n in map(str, range(10**6)) if (Cluster.slot(n) < 10_000) == side) for side in (True, False))
    answer = client.lock(low).acquire(1, 0)
    assert answer.status == "UNREACHABLE" and "slot" in answer.message
    client.lock(high).acquire(1, 0).ok
    wait = client.lock(low).start("acquire", 2, 10_000, thread=1)
    until(lambda: client.lock(low).state(2) == "WAITING")
    first.on("CLUSTER", shards(first))
    wait.answer().ok


# ---- F-08: pub/sub while a slot moves


@pytest.mark.parametrize("kind", ["mutex", "fair", "read", "write", "semaphore"])
def test_f08_told_over_a_move(agent: Agent, new_agent: Make, cluster: Cluster, kind: str) -> None:
    """A waiter is woken by the new server while the slot moves, or finds the lock with its probe."""
    options = {"lease_ms": 30_000, "safety_ms": 2000}
    mine, theirs = sides(agent.open(cluster, **options), new_agent().open(cluster, **options), kind, "told")
    mine.acquire(1, 0).ok
    wait = theirs.start("acquire", 2, -1, thread=1)
    until(lambda: theirs.state(2) == "WAITING")
    source = cluster.owner("told")
    target = elsewhere(cluster, source)
    cluster.migrate(cluster.slot("told"), target)
    assert cluster.owner("told") is target and not wait.ready()
    mine.release(1).ok
    wait.answer(10).ok
    theirs.release(2).ok


# ---- E-01: a primary dies before its replica has the grant


@pytest.mark.parametrize("rounds", times(1, 4))
def test_e01_on_a_cluster_two_hold(new_agent: Make, new_cluster: Make, new_server: Make, rounds: int) -> None:
    """The control: the promoted replica grants again what it does not know. The later token is higher, and the resource accepts only that
    one.
    """
    cluster, fenced, overlaps = new_cluster(timeout_ms=600), Fenced(new_server()), 0
    options = {"lease_ms": 20_000, "command_timeout_ms": 500, "safety_ms": SAFETY_MS}
    client, other = (new_agent().open(cluster, **options) for _ in range(2))
    for number in range(rounds):
        primary = cluster.primaries()[number % 3]
        name, replica = cluster.key_of(primary, f"e01-{number}"), cluster.replica_of(primary)
        mine, theirs = client.lock(name), other.lock(name)
        assert other.lock(name + "x").inspect().status == "OK"
        replica.pause()
        ask(primary, "CLIENT", "KILL", "TYPE", "replica")
        token = mine.acquire(1, 0).ok.token
        primary.kill()
        replica.resume()
        answers: list[Any] = []
        until(lambda: answers.append(theirs.acquire(2, 10_000)) or answers[-1].status == "OK", 60)
        overlaps += mine.state(1) in ("HELD", "AT_RISK")
        assert answers[-1].token > token and cluster.owner(name) is replica
        assert fenced.write(name, token) and fenced.write(name, answers[-1].token) and not fenced.write(name, token)
        theirs.release(2).ok
        mine.release(1)
        primary.start()
        cluster.until_settled()
    tell(done=rounds, fired=overlaps)
    assert overlaps == rounds


# ---- E-12: primaries change under load


@pytest.mark.parametrize("failovers", times(2, 6, 900))
def test_e12_primaries_die_under_load(new_agent: Make, new_cluster: Make, failovers: int) -> None:
    """kill -9 and ordered failovers in turn. Nobody hangs, no waiter of a free lock is forgotten, and grants go on within a second after
    the new primary. Around a failover two may hold a lock, or the old primary may grant for a moment beside the new one: that is counted.
    All other tokens grow from grant to grant.
    """
    cluster = new_cluster(timeout_ms=800)
    names = [cluster.key_of(node, "load") for node in cluster.primaries()]
    options = {"lease_ms": 1000, "command_timeout_ms": 500, "safety_ms": SAFETY_MS}
    late = []
    with Turns({name: [new_agent().open(cluster, **options).lock(name) for _ in range(2)] for name in names}) as turns:
        for number in range(failovers):
            turns.all_go_on()
            name = names[number % 3]
            victim = cluster.owner(name)
            replica = cluster.replica_of(victim)
            with turns.fault():
                if number % 2 == 0:
                    victim.kill()
                until(lambda: (victim.process is None or cluster.order(replica)) and cluster.owner(name) is replica, 60)
                late.append(turns.first(name, now()))
            if not victim.process:
                victim.start()
            cluster.until_settled()
        turns.all_go_on()
    tell(done=failovers)
    print("E-12:", turns.judge(SAFETY_MS), "| s behind the failover:", *(f"{each:.2f}" for each in late))
    assert len(late) == failovers and max(late) <= 1, late
