"""Faults of the holder of a lock: rows A of the matrix. Each test counts that its fault happened."""
from __future__ import annotations

import random
import threading
from typing import Any, Callable

import pytest

from harness.agent import Agent, Client, Lock, Pending, now, until
from harness.build import SANITIZED
from harness.faults import SLACK_MS, Fenced, alive, owners, times
from harness.proxy import Hook, Link, Proxy
from harness.steps.scripts import SHA, teach
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
FAST = {"connects_per_second": 1000}
RENEWED = b"*1\r\n:1\r\n"  # the reply of the renewal script for one lock


@pytest.fixture
def server(redis_server: Server) -> Server:
    teach(redis_server)
    return redis_server


def wait_ms(done: int, since: int) -> float:
    return (done - since) / 1000


# ---- the holder is killed


@pytest.mark.parametrize("rounds", times(1, 2))
def test_a01_killed_holder(server: Server, new_agent: Make, rounds: int) -> None:
    lease, many, late = 500, 10 if rounds == 1 else 25, 400 if rounds == 1 or SANITIZED else 150
    names = [f"a01 {i}" for i in range(many)]
    waiter = new_agent().open(server, lease_ms=lease)
    locks = [waiter.lock(name) for name in names]
    took: list[float] = []
    for _ in range(rounds):
        holders = [new_agent() for _ in names]
        tokens = [agent.open(server, lease_ms=lease).lock(name).acquire(1, 0).ok.token for agent, name in zip(holders, names)]
        waits = [lock.start("acquire", 1, 20_000, thread=1 + i) for i, lock in enumerate(locks)]
        until(lambda: all(lock.state(1) == "WAITING" for lock in locks))
        assert alive(server, names) == many and not any(wait.ready() for wait in waits)
        killed = []
        for agent in holders:
            killed.append(now())
            agent.kill()
            assert agent.process.returncode == -9
        for lock, wait, since, token in zip(locks, waits, killed, tokens):
            answer = wait.answer().ok
            assert answer.token > token
            took.append(wait_ms(answer.done, since))
            lock.release(1).ok
    print(f"A-01: {len(took)} holders killed, the next one had the lock after {max(took):.0f} ms at most, lease {lease} ms")
    tell(done=len(took))
    assert len(took) == rounds * many and max(took) <= lease + late


# ---- the holder is stopped past its lease and resumed


@pytest.mark.parametrize("rounds", times(2, 5))
def test_a03_stopped_holder(server: Server, new_agent: Make, rounds: int) -> None:
    lease, processes, each = 500, 4 if rounds == 2 else 10, 5
    fenced, other = Fenced(server), new_agent().open(server, lease_ms=lease)
    holders = [new_agent().open(server, lease_ms=lease) for _ in range(processes)]
    rows = [(holder, name, holder.lock(name), other.lock(name)) for p, holder in enumerate(holders) for name in (f"a03 {p} {i}" for i in range(each))]
    lost_ms: list[float] = []
    runs = 0
    for _ in range(rounds):
        tokens = [mine.acquire(1, 20_000).ok.token for _, _, mine, _ in rows]
        assert all(fenced.write(name, token) for (_, name, _, _), token in zip(rows, tokens))
        waits = [theirs.start("acquire", 1, 20_000, thread=1 + i) for i, (_, _, _, theirs) in enumerate(rows)]
        until(lambda: all(theirs.state(1) == "WAITING" for _, _, _, theirs in rows))
        assert all(mine.state(1) == "HELD" for _, _, mine, _ in rows)
        events = [holder.start("next", 20_000, thread=1) for holder in holders]
        for holder in holders:
            holder.agent.stop()
        stopped = now()
        newer = [wait.answer().ok.token for wait in waits]
        assert all(fenced.write(name, token) for (_, name, _, _), token in zip(rows, newer))
        until(lambda: now() > stopped + lease * 1500)
        looks = [mine.start("state", 1) for _, _, mine, _ in rows]  # the first calls after waking up
        for holder in holders:
            holder.agent.resume()
        resumed = now()
        accepted = sum(fenced.write(name, token) for (_, name, _, _), token in zip(rows, tokens))
        assert accepted == 0
        assert [look.answer().ok.state for look in looks] == ["LOST"] * len(rows)
        for holder, event in zip(holders, events):
            lost_ms.append(wait_ms(hear_losses(holder, event, each), resumed))
        assert all(mine.release(1).status == "LOST" for _, _, mine, _ in rows)
        assert all(theirs.state(1) in ("HELD", "AT_RISK") for _, _, _, theirs in rows)
        for _, _, _, theirs in rows:
            theirs.release(1).ok
        runs += len(rows)
    for _, name, _, _ in rows:
        seen = fenced.witness(name)
        assert [taken for _, taken in seen] == [True, True, False] * rounds
        kept = [token for token, taken in seen if taken]
        assert kept == sorted(kept)
    print(f"A-03: {runs} runs, LOST heard {max(lost_ms):.0f} ms after resume at most")
    tell(done=runs)
    assert runs == rounds * processes * each and max(lost_ms) <= 5 * SLACK_MS


def hear_losses(holder: Client, first: Any, count: int) -> int:
    """All LOST events, each once and with the right cause. Returns when the first one was read."""
    heard: dict[int, int] = {}
    pending = first
    while len(heard) < count:
        answer = pending.answer().ok if pending else holder.next(20_000).ok
        pending = None
        if answer.event.type == "LOST":
            assert answer.event.cause == "EXPIRED" and answer.event.lock_id not in heard
            heard[answer.event.lock_id] = answer.done
    return min(heard.values())


# ---- stopped between send and reply of the grant


def stop_at_grant(agent: Agent, proxy: Proxy) -> Hook:
    """The agent is stopped before its next acquire reaches the server."""

    def stop(_link: Link, _data: bytes) -> None:
        agent.stop()

    return proxy.up.on(SHA["acquire"], stop, times=1)


def stopped_try(lock: Lock, hook: Hook) -> Pending:
    """An attempt that the hook stopped. An attempt without a connection in time did not reach it."""
    while True:
        attempt = lock.start("acquire", 1, 0)
        until(lambda: hook.count or attempt.ready())
        if hook.count:
            return attempt


@pytest.mark.parametrize("rounds", times(3, 19))
def test_a04_stopped_before_the_reply(server: Server, new_agent: Make, new_proxy: Make, rounds: int) -> None:
    """When it wakes up, even locks belong to others and odd ones are free."""
    lease, many = 200, 8 if rounds == 3 else 16
    names = [f"a04 {i}" for i in range(many)]
    proxies, agents = [new_proxy(server) for _ in names], [new_agent() for _ in names]
    locks = [agent.open(proxy, lease_ms=lease, renew="false", **FAST).lock(name) for agent, proxy, name in zip(agents, proxies, names)]
    other = new_agent().open(server)
    others = [other.lock(name) for name in names]
    fired, statuses = 0, set()
    for _ in range(rounds):
        for lock in locks:
            until(lambda: lock.acquire(1, 1000).status == "OK")  # it is connected again
            lock.release(1)
        hooks = [stop_at_grant(agent, proxy) for agent, proxy in zip(agents, proxies)]
        until(lambda: alive(server, names) == 0)
        tries = [stopped_try(lock, hook) for lock, hook in zip(locks, hooks)]
        stopped = now()
        until(lambda: all(server.command("GET", f"redisson_lock_token:{{{name}}}") for name in names))
        stale = [int(server.command("GET", f"redisson_lock_token:{{{name}}}")) for name in names]  # the highest of its block
        fired += many
        for other in others[::2]:
            other.acquire(1, 20_000).ok
        until(lambda: now() > stopped + 2 * lease * 1000)
        for agent in agents:
            agent.resume()
        for i, (lock, attempt, old) in enumerate(zip(locks, tries, stale)):
            answer = attempt.answer()
            statuses.add(answer.status)
            assert answer.status in ("OK", "BUSY", "UNREACHABLE", "TIMED_OUT"), answer
            assert answer.status != "OK" or (i % 2 == 1 and answer.token > old), "a grant that is over was taken for good"
            assert answer.status == "OK" or lock.state(1) == "NONE"
            if answer.status == "OK":
                lock.release(1)
        assert all(other.state(1) == "HELD" for other in others[::2])
        for other in others[::2]:
            other.release(1).ok
    until(lambda: alive(server, names) == 0)
    print(f"A-04: {fired} stopped between send and reply, answers {sorted(statuses)}")
    assert fired == rounds * many
    tell(done=fired)


@pytest.mark.parametrize("rounds", times(3, 9))
def test_a04_stopped_before_the_push(server: Server, new_agent: Make, rounds: int) -> None:
    """The grant comes to a stopped waiter. When it wakes up, even locks belong to others and odd ones are free."""
    lease, names = 300, [f"a04 {i}" for i in range(10)]
    agent, other = new_agent(), new_agent().open(server, lease_ms=1000)
    client = agent.open(server, lease_ms=lease, renew="false")
    locks, others = [client.lock(name) for name in names], [other.lock(name) for name in names]
    fired = 0
    for _ in range(rounds):
        for theirs in others:
            theirs.acquire(1, 20_000).ok
        waits = [lock.start("acquire", 1, 20_000, thread=1 + i) for i, lock in enumerate(locks)]
        until(lambda: all(server.command("ZCARD", f"dlock_queue:{{{name}}}") for name in names))
        before = owners(server, names)
        agent.stop()
        stopped = now()
        for theirs in others:
            theirs.release(1).ok
        fired += sum(owner not in (b"", *before) for owner in owners(server, names))
        stale = [int(server.command("GET", f"redisson_lock_token:{{{name}}}")) for name in names]
        until(lambda: not alive(server, names))
        for theirs in others[::2]:
            theirs.acquire(1, 20_000).ok
        until(lambda: now() > stopped + 2 * lease * 1000)
        agent.resume()
        got = [wait.answer().ok.token for wait in waits[1::2]]
        assert all(token > old for token, old in zip(got, stale[1::2])), "a grant that is over was taken for good"
        assert not any(wait.ready() for wait in waits[::2]) and all(theirs.state(1) == "HELD" for theirs in others[::2])
        for theirs in others[::2]:
            theirs.release(1).ok
        got = [wait.answer().ok.token for wait in waits[::2]]
        assert all(token > old for token, old in zip(got, stale[::2])), "a grant that is over was taken for good"
        for lock in locks:
            lock.release(1)
        until(lambda: not alive(server, names))
    print(f"A-04: {fired} grants pushed to a waiter that stood still")
    assert fired >= rounds * len(names) * 9 // 10


def test_a04_the_grant_is_given_back(server: Server, new_agent: Make, new_proxy: Make) -> None:
    """Awake after its own limit but before the server's: the key does not stay until then."""
    lease, proxy, agent = 4000, new_proxy(server), new_agent()
    client = agent.open(proxy, lease_ms=lease, drift_ppm=200_000, renew="false", **FAST)
    lock = client.lock("a04 back")
    lock.acquire(1, 0).ok
    lock.release(1).ok
    hook = stop_at_grant(agent, proxy)
    attempt = stopped_try(lock, hook)
    stopped = now()
    until(lambda: alive(server, ["a04 back"]))
    (stale,) = owners(server, ["a04 back"])
    until(lambda: now() > stopped + (lease * 8 // 10 - 100) * 1000)
    assert owners(server, ["a04 back"]) == [stale]
    agent.resume()
    answer = attempt.answer()
    until(lambda: owners(server, ["a04 back"]) != [stale])
    assert wait_ms(now(), stopped) < lease
    until(lambda: client.counters()["undone"] == 1)
    if answer.status == "OK":
        lock.release(1).ok
    until(lambda: not alive(server, ["a04 back"]))
    assert hook.count == 1


# ---- the unlock races a renewal in flight


class Renewals:
    """All renewals that go to the server."""

    def __init__(self, proxy: Proxy) -> None:
        self.pieces: list[bytes] = []
        proxy.up.on(SHA["renew"], lambda _link, data: self.pieces.append(data))

    def naming(self, owner: bytes) -> int:
        return self.among([owner], self.pieces)

    @staticmethod
    def among(ids: list[bytes], pieces: list[bytes]) -> int:
        return sum(owner + b"\r\n" in piece for piece in pieces for owner in ids)


@pytest.mark.parametrize("rounds", times(60, 600))
@pytest.mark.parametrize("held", ["request", "reply"])
def test_a09_release_while_one_renewal_is_held(server: Server, agent: Agent, new_proxy: Make, held: str, rounds: int) -> None:
    proxy: Proxy = new_proxy(server)
    renewals = Renewals(proxy)
    lock = agent.open(proxy, **FAST).lock("a09")
    for turn in range(1, rounds + 1):
        lock.acquire(1, 0).ok
        (owner,) = owners(server, ["a09"])
        gate = proxy.up.pause_at(SHA["renew"]) if held == "request" else proxy.down.pause_at(RENEWED)
        renewal = lock.start("extend", 1, 30_000, thread=1)
        gate.wait()
        lock.release(1).ok
        assert not alive(server, ["a09"])
        gate.open()
        answer = renewal.answer()
        assert answer.status in (("NOT_HELD",) if held == "request" else ("OK", "NOT_HELD")), answer
        assert lock.state(1) == "NONE" and not alive(server, ["a09"])
        assert renewals.naming(owner) == 1 and len(renewals.pieces) == turn  # the one that was held back


@pytest.mark.parametrize("rounds", times(2, 8))
def test_a09_release_while_the_watchdog_renews(server: Server, agent: Agent, new_proxy: Make, rounds: int) -> None:
    """One script is in flight per watchdog thread: scripts after the one that was held back were sent after the releases."""
    lease, proxy = 2000, new_proxy(server)
    renewals = Renewals(proxy)
    client = agent.open(proxy, lease_ms=lease, **FAST)
    names = [f"a09 {i}" for i in range(30)]
    locks = [client.lock(name) for name in names]
    raced = 0
    for turn in range(rounds):
        for lock in locks:
            lock.acquire(1, 5000).ok
        ids = owners(server, names)
        gate = proxy.up.pause_at(SHA["renew"])
        gate.wait()
        reached = now()
        until(lambda: wait_ms(now(), reached) > lease / 20)  # the others fall due meanwhile and are queued
        if turn % 2:  # they are in flight too, in the next script
            first, gate = gate, proxy.up.pause_at(SHA["renew"])
            first.open()
            gate.wait()
            reached = now()
        before = len(renewals.pieces)
        releases = [lock.start("release", 1, thread=1 + i % 4) for i, lock in enumerate(locks)]
        assert all(release.answer().status == "OK" for release in releases)
        in_time = wait_ms(now(), reached) < lease / 9 - 20  # otherwise it was taken for lost and sent again
        gate.open()
        if in_time:
            raced += renewals.among(ids, renewals.pieces[before - 1 : before])
            client.ping(1000).ok
            for lock in locks:
                assert lock.state(1) == "NONE"
            assert not alive(server, names)
            until(lambda: client.counters()["held"] == 0)
            locks[0].acquire(1, 5000).ok  # the thread finishes with the old grants before this renewal
            until(lambda: len(renewals.pieces) > before)
            assert renewals.among(ids, renewals.pieces[before:]) == 0
            locks[0].release(1).ok
        until(lambda: not alive(server, names))
    losses = client.counters()["lost"]
    print(f"A-09: {raced} released with their renewal in flight, {losses} lost")
    assert raced >= rounds * 5 and losses == 0


@pytest.mark.parametrize("rounds", times(15, 150))
def test_a09_release_and_extend_at_once(server: Server, agent: Agent, rounds: int) -> None:
    client = agent.open(server, lease_ms=500)
    names = [f"a09 {i}" for i in range(40)]
    locks = [client.lock(name) for name in names]
    fates: dict[str, int] = {}
    for turn in range(rounds):
        for lock in locks:
            lock.acquire(1, 5000).ok
        pending = []
        for i, lock in enumerate(locks):
            words = [("extend", 1, 500), ("release", 1)]
            for thread in random.Random(turn * 100 + i).sample((0, 1), 2):
                pending.append(lock.start(*words[thread], thread=1 + thread))
        for wait in pending:
            answer = wait.answer()
            assert answer.status in ("OK", "NOT_HELD"), answer
            fates[answer.status] = fates.get(answer.status, 0) + 1
        assert not alive(server, names)
    assert fates["OK"] >= rounds * len(locks) and fates.get("NOT_HELD", 0) > 0, fates
    assert client.counters()["lost"] == 0


# ---- acquire ends while the server grants


class Gathering:
    """Requests wait until there are enough; then they go on, and no reply comes back any more."""

    def __init__(self, proxy: Proxy, size: int) -> None:
        self.barrier = threading.Barrier(size, proxy.down.hold)
        proxy.up.on(SHA["acquire"], self.come)
        self.open = True

    def come(self, _link: Link, _data: bytes) -> None:
        if not self.open:
            self.barrier.wait(30)
            self.open = True


@pytest.mark.parametrize("rounds", times(6, 18))
@pytest.mark.parametrize("ends", ["timed out", "cancelled"])
def test_a10_nobody_wants_the_grant(server: Server, agent: Agent, new_proxy: Make, ends: str, rounds: int) -> None:
    limit, many, proxy = 1000 if SANITIZED else 300, 16, new_proxy(server)
    client = agent.open(proxy, command_timeout_ms=limit, private_connections=many, **FAST)
    names = [f"a10 {i}" for i in range(many)]
    locks = [client.lock(name) for name in names]
    gathering = Gathering(proxy, many)
    longest, late, granted = 0.0, 0.0, 0
    for _ in range(rounds):
        until(lambda: client.ping(1000).status == "OK")
        gathering.open = False
        waits = [lock.start("acquire", 1, limit if ends == "timed out" else -1, thread=1 + i) for i, lock in enumerate(locks)]
        until(lambda: alive(server, names) == many)
        granted += many
        if ends == "cancelled":
            assert {lock.cancel(1).status for lock in locks} == {"OK"}
        answers = [wait.answer() for wait in waits]
        assert {answer.status for answer in answers} <= ({"TIMED_OUT", "UNREACHABLE"} if ends == "timed out" else {"CANCELLED"}), answers
        late = max(late, *(wait_ms(answer.took, 1000 * limit) for answer in answers))
        proxy.down.release()
        since = now()
        until(lambda: not alive(server, names))
        longest = max(longest, wait_ms(now(), since))
        assert all(lock.state(1) == "NONE" for lock in locks)
    assert proxy.down.fired["hold"] > 0 and granted == rounds * many
    print(f"A-10: {granted} grants nobody wanted, {ends}; free after {longest:.0f} ms, calls {late:.0f} ms late at most")
    tell(done=granted)
    assert longest <= 10 * SLACK_MS and late <= 3 * SLACK_MS
