"""Rows G of the fault matrix: a quorum of servers. Each test counts that its fault happened.

Where the matrix has 500 runs, the full run has 20 to 40: a round of G-03 restarts a server, one of G-08 lasts as long as a lease.
G-09 has 10,000 grants in the full run and 10^6 in test_votes.py, without servers. Servers that a client cannot reach are behind
proxies of their own. Clients then write the servers differently, so they give the quorum a name.
"""
from __future__ import annotations

import pathlib
import random
import urllib.parse
from typing import Any, Callable, Iterator

import pytest

import mutants
from harness.agent import Agent, Client, now, until
from harness.build import BUILD, ROOT
from harness.faults import times
from harness.proxy import Proxy
from harness.quorum import Quorum, Skewed, url_of
from harness.waiting import wait_until

Make = Callable[..., Any]
LEASE = 2000
NAMED = {"quorum_name": "the-quorum"}


@pytest.fixture
def new_quorum() -> Iterator[Make]:
    made: list[Quorum] = []

    def make(*arguments: Any, **more: Any) -> Quorum:
        made.append(Quorum(*arguments, **more))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def quorum(new_quorum: Make) -> Quorum:
    made: Quorum = new_quorum(5)
    return made


class Seen:
    """A client and the proxies through which it sees the servers."""

    def __init__(self, agent: Agent, servers: Quorum, new_proxy: Make, **options: Any) -> None:
        self.proxies: list[Proxy] = [new_proxy(node) for node in servers.nodes]
        self.client: Client = agent.open(url_of(*self.proxies), **{"lease_ms": LEASE, **NAMED, **options})

    def lock(self, name: str = "lock", **options: Any) -> Any:
        return self.client.lock(name, **options)

    def hide(self, *nodes: int) -> None:
        for node in nodes:
            self.proxies[node].refuse()
            self.proxies[node].cut()

    def show(self) -> None:
        for proxy in self.proxies:
            if not proxy._listener:
                proxy.accept()


# ---- G-01, G-02: servers that are down


@pytest.mark.parametrize("count", times(200, 1500))
def test_g01_two_of_five_down(agent: Agent, quorum: Quorum, count: int) -> None:
    client = agent.open(quorum, lease_ms=LEASE)
    lock, held = client.lock("lock"), client.lock("held")
    held.acquire(1, 20_000).ok
    for node in quorum.nodes[1:3]:
        node.kill()
    tokens = []
    for _ in range(count // 100):
        answers = agent.many([("acquire", lock.index, 1, 0), ("release", lock.index, 1)] * 100)
        assert {answer.status for answer in answers} == {"OK"}
        tokens += [answer.token for answer in answers[::2]]
    assert tokens == sorted(set(tokens)) and held.state(1) == "HELD"
    assert client.counters()["connect_failures"] > 0 and client.counters()["lost"] == 0


@pytest.mark.parametrize("rounds", times(1, 6))
def test_g02_three_of_five_down(new_agent: Make, quorum: Quorum, rounds: int) -> None:
    agent = new_agent()
    lock = agent.open(quorum, lease_ms=LEASE).lock("lock")
    for turn in range(rounds):
        down = random.sample(quorum.nodes, 3)
        for node in down:
            node.kill()
        answer = lock.acquire(1, 0)
        assert answer.status == "UNREACHABLE" and "3 must" in answer.message
        for node in quorum.nodes:
            said = answer.message.split(f"127.0.0.1:{node.port} ")[1].split(",")[0]  # later it may be from the round before
            assert said == ("unreachable" if node in down else "yes") or (turn > 0 and said in ("no answer", "in use"))
        assert lock.acquire(1, 300).status == "UNREACHABLE" and lock.state(1) == "NONE"
        until(lambda: quorum.held("lock") == 0)  # the votes of the two live servers are released
        down.pop().start()
        lock.acquire(1, 20_000).ok
        lock.release(1).ok
        for node in down:
            node.start()


# ---- G-03, G-04: a server that forgets, or whose clock jumps


def overlap(mine: Any, theirs: Any) -> bool:
    """The other client gets it while this one holds. Whatever happens, tokens grow."""
    answer = theirs.acquire(1, 0)
    if answer.status != "OK":
        return False
    both = mine.state(1) in ("HELD", "AT_RISK")
    theirs.release(1).ok
    return both


def forgetting(new_agent: Make, new_proxy: Make, quorum: Quorum, needed: int, rounds: int, fault: Callable[[Any], None],
               **options: Any) -> tuple[int, int]:  # fmt: skip
    """The holder has just as many servers as needed; one of them has the fault; another client tries. Returns overlaps and faults."""
    overlaps = fired = 0
    for turn in range(rounds):
        seen = Seen(new_agent(), quorum, new_proxy, quorum=needed, **options)
        other = new_agent().open(quorum, lease_ms=LEASE, quorum=needed, **NAMED, **options)
        if options.get("quarantine_ms"):
            other.provision(10_000).ok
        seen.hide(*range(needed, 5))
        mine, theirs = seen.lock(f"lock {turn}"), other.lock(f"lock {turn}")
        token = mine.acquire(1, 20_000).ok.token
        assert theirs.acquire(1, 0).status == "BUSY"
        until(lambda: quorum.held(f"lock {turn}") == needed)
        fault(quorum.nodes[turn % needed])
        fired += quorum.held(f"lock {turn}") == needed - 1
        overlaps += overlap(mine, theirs)
        mine.agent.kill()
        assert theirs.acquire(1, 30_000).ok.token > token
        theirs.release(1).ok
        seen.show()
    return overlaps, fired


@pytest.mark.parametrize("rounds", times(2, 6))
@pytest.mark.parametrize("needed, quarantine", [(3, 0), (3, LEASE), (4, 0)], ids=["control", "quarantine", "four of five"])
def test_g03_amnesia(new_agent: Make, new_proxy: Make, quorum: Quorum, needed: int, quarantine: int, rounds: int) -> None:
    """One server restarts empty. Three of five need a quarantine on each server that restarts; four of five survive one without it."""
    options = {"quarantine_ms": quarantine} if quarantine else {}
    overlaps, fired = forgetting(new_agent, new_proxy, quorum, needed, rounds, lambda node: node.restart(), **options)
    assert fired == rounds
    assert overlaps == 0 if quarantine or needed == 4 else overlaps > 0


@pytest.mark.parametrize("rounds", times(2, 8, soak=40))
@pytest.mark.parametrize("needed", [3, 4], ids=["control", "four of five"])
def test_g04_a_clock_jumps(new_agent: Make, new_proxy: Make, new_quorum: Make, needed: int, rounds: int) -> None:
    quorum = new_quorum(5, of=Skewed)
    overlaps, fired = forgetting(new_agent, new_proxy, quorum, needed, rounds, lambda node: node.jump(LEASE + 100))
    assert fired == rounds and (overlaps == 0) == (needed == 4)


# ---- G-05: split votes


def granted(node: Any) -> int:
    """How often a server has granted something."""
    _, _, found = node.command("INFO", "commandstats").partition(b"cmdstat_hset:calls=")
    return int(found.split(b",")[0] or 0)


NEAR = ((0, 1), (2, 3), (4,))  # the servers that a client at each of three places reaches first


@pytest.mark.parametrize("clients, rounds", times((6, 4), (20, 4)))
def test_g05_split_votes(new_agent: Make, new_proxy: Make, quorum: Quorum, clients: int, rounds: int) -> None:
    """Three places, each near to other servers: at every start none gets enough votes."""
    seen = [Seen(new_agent(), quorum, new_proxy, lease_ms=20_000) for _ in range(clients)]
    locks = [one.lock(safety_ms=500) for one in seen]
    for lock in locks:  # all are connected now
        lock.acquire(1, 60_000).ok
        lock.release(1).ok
    for place, one in enumerate(seen):
        for node, proxy in enumerate(one.proxies):
            proxy.up.delay = 0.0 if node in NEAR[place % 3] else 0.02
    quorum.each("CONFIG", "RESETSTAT")
    holds = []
    for _ in range(rounds):
        waits = [lock.start("acquire", 1, 200_000, thread=1) for lock in locks]
        left = list(range(clients))
        while left:
            who = until(lambda: [i for i in left if waits[i].ready()], 60)[0]
            answer = waits[who].answer().ok
            holds.append((answer.done, locks[who].release(1).ok.began, answer.token))
            left.remove(who)
    assert len(holds) == clients * rounds
    assert all(before[1] <= after[0] and before[2] < after[2] for before, after in zip(holds, holds[1:]))
    assert sum(map(granted, quorum.nodes)) > 5 * len(holds)  # some servers voted for clients that did not win
    until(lambda: quorum.held("lock") == 0)


def test_g05_a_split_vote_is_released_at_once(new_agent: Make, new_proxy: Make, quorum: Quorum) -> None:
    """A dead client has two votes of five, the caller has two, one server is down: nobody waits for a lease to end."""
    seen = Seen(new_agent(), quorum, new_proxy)
    lock = seen.lock(lease_ms=60_000)
    for node in quorum.nodes[:3]:
        node.command("HSET", "lock", "aaaaaaaa-aaaa-8aaa-8aaa-aaaaaaaaaaaa:1", "1")
        node.command("PEXPIRE", "lock", "60000")
    assert lock.acquire(1, 0).status == "BUSY"
    until(lambda: quorum.holders("lock")[3:] == [b"", b""])
    wait = lock.start("acquire", 1, 60_000, thread=1)
    until(lambda: lock.state(1) == "WAITING")
    quorum.nodes[0].command("DEL", "lock")
    quorum.nodes[0].command("PUBLISH", "redisson_lock__channel:{lock}", "0")
    wait.answer().ok
    lock.release(1).ok


def test_g05_one_by_one_a_silent_server_is_passed(new_agent: Make, new_proxy: Make, new_quorum: Make) -> None:
    """After five split votes servers are asked one by one, and the first does not answer: later attempts ask all."""
    quorum = new_quorum(3)
    seen = Seen(new_agent(), quorum, new_proxy, lease_ms=20_000)
    lock = seen.lock()
    for _ in range(20):  # a vote is not split when the free server answers after the others: then all are asked
        for node in quorum.nodes[:2]:
            node.command("HSET", "lock", "aaaaaaaa-aaaa-8aaa-8aaa-aaaaaaaaaaaa:1", "1")
        for _ in range(5):
            assert lock.acquire(1, 0).status == "BUSY"
            until(lambda: quorum.holders("lock")[2] == b"")
        seen.proxies[0].up.blackhole = True
        quorum.each("DEL", "lock")
        if (status := lock.acquire(1, 0).status) != "OK":
            break
        seen.proxies[0].up.blackhole = False
        lock.release(1).ok
    assert status == "UNREACHABLE"
    until(lambda: lock.acquire(1, 0).status == "OK")  # one by one, none of them could have it
    assert seen.proxies[0].up.fired["blackhole"] > 0
    lock.release(1).ok


# ---- G-06, G-07: servers that are slow


@pytest.mark.parametrize("count", times(20, 150))
def test_g06_slow_servers_are_not_waited_for(new_agent: Make, new_proxy: Make, quorum: Quorum, count: int) -> None:
    """Two servers hold their replies back until the others have granted."""
    seen = Seen(new_agent(), quorum, new_proxy, lease_ms=30_000, command_timeout_ms=20_000)
    lock = seen.lock()
    lock.acquire(1, 20_000).ok
    lock.release(1).ok
    until(lambda: quorum.held("lock") == 0)  # all have the scripts: later requests are executed later
    slow = 0
    for turn in range(count):
        late = [seen.proxies[i] for i in random.sample(range(5), 2)]
        before = [proxy.down.fired["hold"] for proxy in late]
        for proxy in late:
            proxy.down.hold()
        lock.acquire(1, 0).ok
        lock.release(1).ok
        until(lambda: all(proxy.down.fired["hold"] > count for proxy, count in zip(late, before)))
        slow += 1
        for proxy in late:
            proxy.down.release()
    assert slow == count and sum(proxy.down.fired["hold"] for proxy in seen.proxies) >= count
    until(lambda: quorum.held("lock") == 0)


@pytest.mark.parametrize("rounds", times(3, 30))
def test_g07_answers_behind_the_limit(new_agent: Make, new_proxy: Make, quorum: Quorum, rounds: int) -> None:
    """Three servers grant, but the replies arrive when the client's lease is over."""
    seen = Seen(new_agent(), quorum, new_proxy, lease_ms=500)
    lock, other = seen.lock(), quorum
    lock.acquire(1, 20_000).ok
    lock.release(1).ok
    for _ in range(rounds):
        until(lambda: other.held("lock") == 0)
        for proxy in seen.proxies[:3]:
            proxy.down.hold()
        wait = lock.start("acquire", 1, 400, thread=1)
        until(lambda: other.held("lock") >= 3)
        assert wait.answer().status in ("UNREACHABLE", "TIMED_OUT")
        for proxy in seen.proxies[:3]:
            proxy.down.release()
        assert lock.state(1) == "NONE"
        until(lambda: other.held("lock") == 0)
        wait_until(lambda: lock.acquire(1, 0).status == "OK")
        lock.release(1).ok
    assert sum(proxy.down.fired["hold"] for proxy in seen.proxies[:3]) >= rounds


def test_g07_a_silent_server_is_no_refusal(new_agent: Make, new_proxy: Make, new_quorum: Make) -> None:
    """One denies it for good, one is silent for an attempt: the waiter goes on, and gets the lock when that one replies."""
    quorum = new_quorum(3)
    seen = Seen(new_agent(), quorum, new_proxy, lease_ms=20_000)
    lock = seen.lock()
    lock.acquire(1, 20_000).ok
    lock.release(1).ok
    until(lambda: quorum.held("lock") == 0)
    quorum.nodes[0].command("ACL", "SETUSER", "default", "-evalsha", "-eval")
    seen.proxies[1].up.hold()
    grants = granted(quorum.nodes[2])
    wait = lock.start("acquire", 1, 60_000, thread=1)
    until(lambda: granted(quorum.nodes[2]) > grants and quorum.holders("lock")[2] == b"")  # an attempt has failed
    seen.proxies[1].up.release()
    wait.answer(60).ok
    lock.release(1).ok


def test_g07_a_vote_before_the_server_said_whom_it_votes_with(new_agent: Make, new_proxy: Make, new_quorum: Make) -> None:
    """The server was gone when it was asked for its quorum, and a later vote reaches it: that vote does not count."""
    quorum = new_quorum(3)
    seen = Seen(new_agent(), quorum, new_proxy, lease_ms=60_000, command_timeout_ms=2000, connect_timeout_ms=20_000)
    first, second = seen.lock("first"), seen.lock("second")
    for lock in (first, second):
        lock.acquire(1, 20_000).ok
        lock.release(1).ok
    until(lambda: quorum.held("first") == quorum.held("second") == 0)
    quorum.nodes[2].command("SET", "dlock_quorum", "another view")
    seen.proxies[2].down.hold()
    seen.proxies[2].cut()
    seen.hide(0)
    began, votes = now(), granted(quorum.nodes[2])
    asked = first.start("acquire", 1, 0, thread=1)
    until(lambda: now() > began + 1_000_000)
    later = second.start("acquire", 1, 20_000, thread=2)
    assert asked.answer(20).status != "OK" and granted(quorum.nodes[2]) == votes
    seen.proxies[2].down.release()
    assert later.answer(30).status == "INVALID_QUORUM"
    assert seen.proxies[2].down.fired["hold"] > 0 and granted(quorum.nodes[2]) > votes


# ---- G-08: renewals that reach too few servers


@pytest.mark.parametrize("rounds", times(1, 3, soak=30))
def test_g08_renewal_reaches_two(new_agent: Make, new_proxy: Make, quorum: Quorum, rounds: int) -> None:
    agent, other = new_agent(), new_agent().open(quorum, lease_ms=LEASE, **NAMED)
    for turn in range(rounds):
        seen = Seen(agent, quorum, new_proxy)
        mine, theirs = seen.lock(f"lock {turn}"), other.lock(f"lock {turn}")
        token = mine.acquire(1, 20_000).ok.token
        until(lambda: quorum.held(f"lock {turn}") == 5)
        wait = theirs.start("acquire", 1, 60_000, thread=1)
        seen.hide(*random.sample(range(5), 3))
        answer = wait.answer(60).ok
        assert mine.state(1) == "LOST" and answer.token > token  # before anybody else held it
        events = [wait_until(lambda: seen.client.event(30)) for _ in range(1)]
        while events[-1].type != "LOST":
            events.append(seen.client.event(30))
        assert [event.type for event in events if event.type in ("LOST", "AT_RISK")].count("LOST") == 1
        assert events[-1].cause == "EXPIRED"
        theirs.release(1).ok
        seen.client.close(100)


def test_g08_what_is_released_is_not_given_again(new_agent: Make, new_proxy: Make, new_quorum: Make) -> None:
    """One server lacks the hold and executes a renewal after the release: it must not recreate the hold for another lease."""
    quorum = new_quorum(3)
    seen = Seen(new_agent(), quorum, new_proxy, lease_ms=60_000, command_timeout_ms=20_000)
    lock = seen.lock()
    lock.acquire(1, 20_000).ok
    until(lambda: quorum.held("lock") == 3)
    quorum.nodes[2].command("DEL", "lock")
    seen.proxies[2].down.hold()
    lock.extend(1, 90_000).ok
    lock.release(1).ok
    until(lambda: seen.proxies[2].down.fired["hold"] > 0 and quorum.held("lock") == 0)
    seen.proxies[2].down.release()
    quorum.nodes[0].kill()
    lock.inspect().ok  # the other two suffice: all earlier replies have arrived
    lock.acquire(1, 10_000).ok
    lock.release(1).ok


# ---- G-09: tokens over any quorum


@pytest.mark.parametrize("grants", times(60, 180, soak=10_000))
def test_g09_tokens_grow(new_agent: Make, new_proxy: Make, quorum: Quorum, grants: int) -> None:
    """Three clients in turn, each time with another three of five servers; requests to the rest arrive late."""
    clients = [Seen(new_agent(), quorum, new_proxy, lease_ms=30_000, command_timeout_ms=20_000) for _ in range(3)]
    locks = [seen.lock() for seen in clients]
    for lock in locks:
        lock.acquire(1, 20_000).ok
        lock.release(1).ok
    tokens, held = [], 0
    for turn in range(grants):
        seen, lock = clients[turn % 3], locks[turn % 3]
        late = [seen.proxies[i] for i in random.sample(range(5), 2)]
        for proxy in late:
            proxy.up.hold()
        tokens.append(lock.acquire(1, 20_000).ok.token)
        lock.release(1).ok
        for proxy in late:
            proxy.up.release()
        held += len(late)
    assert all(before < after for before, after in zip(tokens, tokens[1:]))
    fired = sum(proxy.up.fired["hold"] for seen in clients for proxy in seen.proxies)
    assert fired > held / 2


def test_g09_tokens_grow_over_a_server_that_forgets(new_agent: Make, new_quorum: Make) -> None:
    """One clock is fast, and one server forgets its counters. Their quarantine outlasts leases; counters are not ahead of the clocks of
    most servers, so a new one begins above all before.
    """
    quorum = new_quorum(5, of=Skewed)
    quorum.nodes[0].jump(60_000)
    some = {"lease_ms": 1500, "quarantine_ms": 1500, "command_timeout_ms": 20_000, "quorum": 3}
    first, second = new_agent().open(quorum, **some), new_agent().open(quorum, **some)
    first.provision(10_000).ok
    second.ping(10_000).ok

    def grant(client: Any, silent: list[int]) -> int:
        for i in silent:
            quorum.nodes[i].pause()
        token = client.lock("lock").acquire(1, 60_000, timeout=90).ok.token
        client.lock("lock").release(1).ok
        for i in silent:
            quorum.nodes[i].resume()
        return token

    before = grant(first, [3, 4])
    quorum.nodes[2].restart()
    assert quorum.tokens("lock")[2] == 0
    after = grant(second, [0, 1])
    assert after > before
    assert grant(first, []) > after


@pytest.mark.house  # it tests a library with a mutant, not the library under test
def test_g09_mutant(new_agent: Make, new_quorum: Make, tmp_path: pathlib.Path) -> None:
    preload = str(mutants.library(ROOT, BUILD, tmp_path, mutants.OWN_TIME))
    with pytest.raises(AssertionError, match=r"\d+ > \d+"):
        test_g09_tokens_grow_over_a_server_that_forgets(lambda: new_agent(LD_PRELOAD=preload), new_quorum)


# ---- G-10: two views of the quorum's members


@pytest.mark.parametrize("rounds", times(2, 6))
def test_g10_two_views(new_agent: Make, quorum: Quorum, rounds: int) -> None:
    patient = {"lease_ms": 180_000, "command_timeout_ms": 20_000}
    first = new_agent().open(quorum, **patient).lock("lock")
    first.acquire(1, 20_000).ok
    first.release(1).ok
    for turn in range(rounds):
        some = random.sample(quorum.nodes, 3)
        for url in (url_of(*some), quorum.url_of(quorum=4), quorum.url_of(quorum_name="another"), url_of(*quorum.nodes, db=3)):
            agent = new_agent()
            lock = agent.open(url, **patient).lock("lock")
            answer = lock.acquire(1, 30_000)
            if urllib.parse.urlsplit(url).query == "db=3":  # other locks, and another key
                assert answer.status == "OK"
                lock.release(1).ok
            else:
                assert answer.status == "INVALID_QUORUM" and "another view of the quorum (3 of 5, db 0" in answer.message
                assert "127.0.0.1:" in answer.message and lock.state(1) == "NONE"
        first.acquire(1, 20_000).ok
        first.release(1).ok
