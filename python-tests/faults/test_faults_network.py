"""Network faults: rows C of the matrix. Each test counts that its fault happened."""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import Agent, Answer, Client, Lock, now, until
from harness.build import SANITIZED
from harness.faults import NETWORK, SLACK_MS, Fenced, alive, network, owners, times
from harness.proxy import Gate, Proxy
from harness.steps.scripts import SHA, runs, teach
from harness.server import Server
from harness.tally import tell

Make = Callable[..., Any]
FAST = {"connects_per_second": 1000}


@pytest.fixture
def server(redis_server: Server) -> Server:
    teach(redis_server)
    return redis_server


# ---- C-01, C-02, C-03: packets are lost, both ways or one

LEASE, DRIFT = 1000, 200_000  # LOST 302 ms before the server's end: room for a busy machine
EARLY_MS = LEASE * DRIFT // 1_000_000 + 2 + 100


def expiry(server: Server, names: list[str]) -> dict[str, int]:
    """When the server lets each lock expire, on the clock of answers; 0 when it is gone."""
    with server.client() as redis:
        left = redis.pipeline(*(["PTTL", name] for name in names))
        return {name: now() + 1000 * ms if ms > 0 else 0 for name, ms in zip(names, left)}


def hear_losses(server: Server, client: Client, names: dict[int, str]) -> dict[str, tuple[int, int]]:
    """When each loss was read, and when the lock was to expire on the server at that time. Each comes once."""
    heard: dict[str, tuple[int, int]] = {}
    while len(heard) < len(names):
        answer = client.next(20_000).ok
        if answer.event.type == "LOST":
            name = names[answer.event.lock_id]
            assert answer.event.cause == "EXPIRED" and name not in heard
            heard[name] = answer.done, expiry(server, [name])[name]
    return heard


@pytest.mark.parametrize("rounds", times(1, 3))
@pytest.mark.parametrize("ways", [("in", "out"), ("in",), ("out",)], ids=["C-01 both ways", "C-02 the answers", "C-03 the requests"])
@pytest.mark.parametrize("kind", [NETWORK], ids=lambda kind: kind.__name__)
def test_packets_are_lost(new_server: Make, new_agent: Make, kind: Any, ways: tuple[str, ...], rounds: int) -> None:
    many = 20 if rounds == 1 else 100
    with network(new_server) as net:
        server = net.server
        teach(server)
        options = {"connect_timeout_ms": 150, "command_timeout_ms": 300, "private_connections": 4, **FAST}
        client = new_agent(prefix=net.prefix).open(net.url, lease_ms=LEASE, drift_ppm=DRIFT, **options)
        names = [f"lost {i}" for i in range(many)]
        locks = [client.lock(name) for name in names]
        ids = {lock.id: name for lock, name in zip(locks, names)}
        lead: list[int] = []  # ms from LOST to the expiry on the server
        back: list[float] = []
        unheard = 0
        for turn in range(1, rounds + 1):
            for lock in locks:
                lock.acquire(turn, 5000).ok
            goal = client.counters()["renewed"] + many
            until(lambda: client.counters()["renewed"] >= goal)
            assert all(lock.state(turn) == "HELD" for lock in locks)
            net.drop(*ways)
            before = expiry(server, names)
            heard = hear_losses(server, client, ids)
            assert all(lock.state(turn) == "LOST" for lock in locks)
            for name, (when, end) in heard.items():
                assert when < end, f"{name} was given up after the server forgot it"
                unheard += end > before[name] + 50_000
                lead.append((min(end, before[name]) - when) // 1000)
            net.heal()
            healed = now()
            probe = client.lock(f"probe {turn}")
            back.append((probe.acquire(turn, 10_000).ok.done - healed) / 1000)
            until(lambda: not alive(server, names), (LEASE + 2 * SLACK_MS) / 1000)
            assert all(lock.release(turn).status == "LOST" for lock in locks)
            probe.release(turn).ok
        print(f"{ways} by {kind.__name__}: {net.fired()} losses, {len(lead)} runs, LOST {min(lead)} to {max(lead)} ms before the end")
        print(f"    {unheard} renewed without hearing of it, back after {max(back):.0f} ms at most")
        assert net.fired() >= rounds and len(lead) == rounds * many
        tell(done=len(lead))
        assert max(lead) <= EARLY_MS + 2 * SLACK_MS, "given up before the limit"
        assert (unheard > 0) == (ways == ("in",))
        assert max(back) <= 500 + (5 * SLACK_MS if rounds == 1 or SANITIZED else 0)


# ---- C-05: a request arrives three leases late


class Kept(Gate):
    """A gate that holds back every request, also those of closed connections, and counts them."""

    def __init__(self, proxy: Proxy, *markers: str) -> None:
        super().__init__()
        self.hooks = [proxy.up.on(marker, self) for marker in markers]

    @property
    def count(self) -> int:
        return sum(hook.count for hook in self.hooks)


@pytest.mark.parametrize("rounds", times(2, 7))
def test_c05_delivered_three_leases_late(server: Server, new_agent: Make, new_proxy: Make, rounds: int) -> None:
    """On arrival even locks belong to others, odd ones are free."""
    lease, names = 500, [f"c05 {i}" for i in range(10)]
    fenced, held_back, created = Fenced(server), 0, 0
    other = new_agent().open(server)
    theirs = [other.lock(name) for name in names]
    for turn in range(rounds):
        proxy = new_proxy(server)
        client = new_agent().open(proxy, lease_ms=lease, command_timeout_ms=100, private_connections=len(names), **FAST)
        mine = [client.lock(name) for name in names]
        client.ping(1000).ok
        kept = Kept(proxy, SHA["acquire"], SHA["batch_acquire"], "fences[#fences + 1]")  # or the text of a batch script
        waits = [lock.start("acquire", 1, 200 if i % 3 else 0, thread=1 + i) for i, lock in enumerate(mine)]
        kept.wait()
        began = now()
        late = [wait.answer() for wait in waits]
        assert all(answer.status in ("TIMED_OUT", "UNREACHABLE", "BUSY") for answer in late), late
        tokens = [lock.acquire(1, 0).ok.token for lock in theirs]
        assert all(fenced.write(name, token) for name, token in zip(names, tokens))
        for lock in theirs[1::2]:
            lock.release(1).ok
        until(lambda: now() > began + 3 * lease * 1000)
        holding = owners(server, names)
        assert all(holding[::2]) and not any(holding[1::2]) and kept.count > 0
        held_back += kept.count
        before = runs(server)
        kept.open()
        delivered = now()
        until(lambda: runs(server) > before)
        # What comes of it: nothing. Their ids were given up, and the server remembers that.
        while (now() - delivered) / 1000 < lease + 2 * SLACK_MS:
            held = owners(server, names)
            assert held[::2] == holding[::2]
            created += sum(map(bool, held[1::2]))
            assert all(lock.state(1) == "NONE" for lock in mine)
            if (now() - delivered) / 1000 > lease:
                break
        for lock in theirs[::2]:
            lock.release(1).ok
        tokens = [lock.acquire(1, 5000).ok.token for lock in theirs]
        assert all(fenced.write(name, token) for name, token in zip(names, tokens))
        for lock in theirs:
            lock.release(1).ok
        client.close(2000), client.free()
        proxy.close()
    assert held_back >= 2 * rounds, held_back  # not every one found a connection in its time, some went in a batch
    assert created == 0, "a late request took a lock for nobody"
    tell(done=held_back)
    print(f"C-05: {held_back} requests three leases late")
    assert not alive(server, names)


# ---- C-10: replies drip


@pytest.mark.parametrize("pause", [0.02, 0.15])
def test_c10_dripping_replies(server: Server, agent: Agent, new_proxy: Make, pause: float) -> None:
    """Every call ends by its own timeout, whatever trickles in. A busy machine has three tries."""
    limit, proxy = 250, new_proxy(server)
    client = agent.open(proxy, command_timeout_ms=limit, connect_timeout_ms=limit, release_timeout_ms=limit, lease_ms=30_000, **FAST)
    fresh: Callable[[], Lock] = lambda: client.lock("c10 free")
    late: dict[str, float] = {}
    calls: list[tuple[str, int, Callable[[], Answer]]] = [
        ("ping", limit, lambda: client.ping(limit)),
        ("ping, no time of its own", 2 * limit, lambda: client.ping(-1)),
        ("try", limit, lambda: fresh().acquire(1, 0)),
        ("acquire", 400, lambda: fresh().acquire(1, 400)),
        ("inspect", limit, lambda: fresh().inspect()),
        ("force", limit, lambda: fresh().force()),
        ("extend", limit, lambda: held.extend(1, 30_000)),
        ("release", limit, lambda: held.release(1)),
    ]
    held = client.lock("c10")
    for name, own_ms, call in calls:
        for _ in range(3):
            proxy.down.drip = None
            until(lambda: held.state(1) == "HELD" or held.acquire(1, 1000).status == "OK")
            before = proxy.down.fired["drip"]
            proxy.down.drip = (1, pause)
            answer = call()
            late[name] = min(late.get(name, 1e9), answer.took / 1000 - own_ms)
            assert answer.status in ("OK", "BUSY", "NOT_HELD", "TIMED_OUT", "UNREACHABLE", "UNKNOWN_OUTCOME"), answer
            assert proxy.down.fired["drip"] > before, (name, answer)
            if late[name] <= SLACK_MS:
                break
    proxy.down.drip = None
    print(f"C-10: 1 byte per {pause} s, latest {max(late, key=late.__getitem__)}: {max(late.values()):.0f} ms over its time")
    assert max(late.values()) <= SLACK_MS, late
    assert proxy.down.fired["drip"] >= len(calls)


# ---- latency so high that connecting takes longer than one command may


def test_a_connection_takes_longer_than_a_command_may(server: Server, agent: Agent, new_proxy: Make) -> None:
    """Callers that wait for their own answers use the shared connection, which is made in the meantime."""
    proxy: Proxy = new_proxy(server)
    proxy.down.delay = 0.4  # a handshake and a command take twice that
    lock = agent.open(proxy, command_timeout_ms=600, **FAST).lock("far away")
    tries = [lock.acquire(1, 0).status]
    until(lambda: tries.append(lock.acquire(1, 0).status) or tries[-1] == "OK", 10)
    assert tries[0] == "UNREACHABLE"
    for _ in range(3):
        lock.release(1).ok
        lock.acquire(1, 0).ok
    tell(done=1, fired=proxy.down.fired["delay"])
