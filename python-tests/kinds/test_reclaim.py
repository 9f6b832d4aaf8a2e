"""Permits of a plain semaphore whose holder died come back by a reclaim, and no other permits do: README, semaphore."""
from __future__ import annotations

import itertools
import pathlib
import time
from typing import Any, Callable, Iterator

import pytest

import dlock
import mutants
from harness.agent import Agent, Lock, until
from harness.build import BUILD, ROOT
from harness.cluster import Cluster
from harness.steps.counting import Subscriber, JavaSemaphore
from harness.kinds import one
from harness.server import Server
from harness.steps.scripts import SCRIPTS, SHA, teach
from harness.tally import tell
from harness.watch import Monitor

Make = Callable[..., Any]
LEASE = 600
SEATS = 5


def seats(client: Any, permits: int = 1, **options: Any) -> Lock:
    return one(client, "semaphore", "seats", seats=SEATS, permits=permits, **options)


def comes_back(lock: Lock, permits: int) -> None:
    """So many come back, and no more, once the leases of dead holders are over."""
    back = 0
    while back < permits:
        back += until(lambda: lock.permits_reclaim(0).ok.value)
    assert back == permits and lock.permits_reclaim(0).ok.value == 0


def test_a_killed_holder(new_agent: Make, redis_server: Server) -> None:
    """kill -9: its permits come back once, a waiter elsewhere gets a message, and Redisson sees the number and the message."""
    holder, other = new_agent(), new_agent().open(redis_server, safety_ms=60_000)
    mine, java = seats(holder.open(redis_server, lease_ms=LEASE), 2), JavaSemaphore(redis_server.client())
    mine.acquire(1, 0).ok
    mine.acquire(2, 0).ok
    waits = seats(other, 4).start("acquire", 1, -1, thread=1)
    subscriber = Subscriber(redis_server, b"redisson_sc:{seats}")
    until(lambda: redis_server.command("PUBSUB", "NUMSUB", "redisson_sc:{seats}")[1] == 2)
    holder.kill()
    theirs = seats(other)
    comes_back(theirs, 4)
    waits.answer().ok
    assert subscriber.messages()[-1] == b"5" and java.call("try_acquire", 1) == 1 and java.call("try_acquire", 1) == 0
    assert redis_server.command("GET", "seats") == b"0"
    tell(done=1, fired=1)


def test_who_lives_keeps_them(new_agent: Make, redis_server: Server) -> None:
    """Also when idle for many leases, among many; permits that Redisson took have no owner and stay."""
    holder, other = new_agent().open(redis_server, lease_ms=LEASE), new_agent().open(redis_server)
    mine, theirs, java = seats(holder), seats(other), JavaSemaphore(redis_server.client(), "seats")
    for owner in range(1, 4):
        mine.acquire(owner, 0).ok
    assert java.call("try_acquire", 1) == 1
    before = holder.counters()["renewed"]
    while holder.counters()["renewed"] < before + 3 * 8:
        assert theirs.permits_reclaim(0).ok.value == 0
    assert theirs.permits().ok.value == 1 and mine.state(1) == "HELD" and mine.remaining(1).ok.remaining == -1
    for owner in range(1, 4):
        mine.release(owner).ok
    assert theirs.permits().ok.value == 4


@pytest.mark.parametrize("how", ["free", "stop"])
def test_a_client_that_went_without_a_word(new_agent: Make, redis_server: Server, how: str) -> None:
    """A client that is freed without a close is dead, even if its process lives. A stopped one learns of the loss, and gives nothing back.
    """
    holder, other = new_agent(), new_agent().open(redis_server)
    client, theirs = holder.open(redis_server, lease_ms=LEASE), seats(other, 3)
    mine = seats(client, 3)
    token = mine.acquire(1, 0).ok.token
    assert theirs.acquire(2, 0).status == "BUSY"
    client.free() if how == "free" else holder.stop()
    comes_back(theirs, 3)
    higher = theirs.acquire(2, 0).ok.token
    assert higher > token
    if how == "stop":
        holder.resume()
        event = client.event()
        assert event.type == "LOST" and event.token == token and event.owner == 1
        assert mine.release(1).status == "LOST"
        assert mine.acquire(1, 0).status == "BUSY"
    theirs.release(2).ok
    assert theirs.permits().ok.value == SEATS


def test_longer_silence_may_be_asked_for(new_agent: Make, redis_server: Server) -> None:
    holder, other = new_agent(), seats(new_agent().open(redis_server))
    seats(holder.open(redis_server, lease_ms=LEASE)).acquire(1, 0).ok
    holder.kill()
    until(lambda: int(redis_server.command("ZRANGE", "dlock_holders:{seats}", 0, 0, "WITHSCORES")[1]) < time.time() * 1000)
    assert other.permits_reclaim(60_000).ok.value == 0
    comes_back(other, 1)


def test_numbers_that_are_none(agent: Agent, store: Any) -> None:
    client = agent.open(store)
    lock = seats(client)
    for silent in -1, 31_536_000_001, 2**62:
        answer = lock.permits_reclaim(silent)
        assert answer.status == "INVALID_ARGUMENT" and str(silent) in answer.message
        assert lock.submit("permits_reclaim", 1, silent).status == "INVALID_ARGUMENT"
    assert lock.permits_reclaim(31_536_000_000).ok.value == 0
    for kind in "mutex", "latch":
        assert client.lock(kind, kind=kind).permits_reclaim(0).status == "UNSUPPORTED"
    assert lock.permits().ok.value == SEATS


def test_submitted(new_agent: Make, redis_server: Server) -> None:
    holder, client = new_agent(), new_agent().open(redis_server)
    seats(holder.open(redis_server, lease_ms=LEASE), 2).acquire(1, 0).ok
    holder.kill()
    lock, back, tag = seats(client), 0, 0
    while not back:
        tag += 1
        lock.submit("permits_reclaim", tag, 0).ok
        event = client.event()
        assert event.tag == tag and event.status == 0
        back = event.value
    assert back == 2 and lock.permits().ok.value == SEATS


def test_max_hold_gives_back_once(new_agent: Make, redis_server: Server) -> None:
    """Permits that came back after max_hold_ms do not come back again."""
    client, other = new_agent().open(redis_server, lease_ms=LEASE, max_hold_ms=200), seats(new_agent().open(redis_server))
    seats(client, 2).acquire(1, 0).ok
    event = client.event()
    assert event.type == "LOST" and event.cause == "MAX_HOLD"
    until(lambda: other.permits().ok.value == SEATS)
    assert redis_server.command("EXISTS", "dlock_holders:{seats}") == 0
    assert other.permits_reclaim(0).ok.value == 0


def many_died(holder: Agent, server: Server, count: int) -> None:
    mine = one(holder.open(server, lease_ms=LEASE), "semaphore", "seats", seats=count)
    for owner in range(1, count + 1):
        mine.acquire(owner, 0).ok
    holder.kill()
    until(lambda: float(server.command("ZRANGE", "dlock_holders:{seats}", -1, -1, "WITHSCORES")[1]) < time.time() * 1000)


def test_many_dead_holders(new_agent: Make, redis_server: Server) -> None:
    """The server gives back the permits of some with each request; one call goes on until all are back."""
    theirs = new_agent().open(redis_server).lock("seats", kind="semaphore")
    many_died(new_agent(), redis_server, 100)
    assert theirs.permits_reclaim(0).ok.value == theirs.permits().ok.value == 100
    assert theirs.permits_reclaim(0).ok.value == 0


def test_what_has_come_back_counts(new_agent: Make, new_proxy: Make, redis_server: Server) -> None:
    """The first request reclaims some, and the server refuses the second one."""
    proxy, requests = new_proxy(redis_server), itertools.count(1)

    def may(right: str) -> None:
        redis_server.command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", right)

    teach(redis_server)
    may("+zrangebyscore")
    proxy.up.on(SHA["semaphore_change"], lambda *_: may("-zrangebyscore") if next(requests) == 2 else None)
    theirs = new_agent().open(f"redis://limited:secret@{proxy.host}:{proxy.port}").lock("seats", kind="semaphore")
    many_died(new_agent(), redis_server, 60)
    assert theirs.permits_reclaim(0).ok.value == 16 and theirs.permits().ok.value == 16
    assert theirs.permits_reclaim(0).status == "DENIED"
    may("+zrangebyscore")
    assert theirs.permits_reclaim(0).ok.value == 44 and theirs.permits().ok.value == 60


@pytest.mark.parametrize("loss", ["flush", "restart"])
def test_a_holder_hears_that_the_server_forgot(agent: Agent, new_server: Callable[..., Server], loss: str) -> None:
    server = new_server()
    client = agent.open(server, lease_ms=LEASE)
    lock = seats(client)
    token = lock.acquire(1, 0).ok.token
    server.command("FLUSHALL") if loss == "flush" else server.restart()
    while (event := client.event()).type != "LOST":
        pass
    assert event.token == token and lock.release(1).status == "LOST"


def test_a_server_that_was_away(new_agent: Make, redis_server: Server) -> None:
    """Holders are heard again when it is back; a reclaim with a longer silence than that takes nothing from them."""
    client, other = new_agent().open(redis_server, lease_ms=LEASE), seats(new_agent().open(redis_server))
    mine = seats(client)
    mine.acquire(1, 0).ok
    redis_server.pause()
    until(lambda: client.ping(200).status != "OK")
    time.sleep(2 * LEASE / 1000)  # the leases end while no holder is heard
    redis_server.resume()
    assert other.permits_reclaim(10_000).ok.value == 0
    renewed = client.counters()["renewed"]
    until(lambda: client.counters()["renewed"] > renewed)
    assert other.permits_reclaim(0).ok.value == 0 and mine.state(1) == "HELD"
    mine.release(1).ok


def asked_again(seen: Monitor) -> list[list[bytes]]:
    """The requests since the waiter is subscribed."""
    words = [one.words for one in list(seen.commands)]
    begun = next((at for at, one in enumerate(words) if b"redisson_sc:{seats}" in one and b"SUBSCRIBE" in one[0].upper()), len(words))
    return [one for one in words[begun:] if one[1:2] == [SHA["semaphore_acquire"].encode()]]


def test_a_waiter_that_was_granted_unseen(new_agent: Make, redis_server: Server) -> None:
    """The answer to its request was lost and a reclaim takes the permit back: it waits on, and gets the next permit."""
    mine, theirs = (seats(new_agent().open(redis_server, lease_ms=LEASE, safety_ms=60_000), 5) for _ in "ab")
    mine.acquire(1, 0).ok
    with Monitor(redis_server) as seen:
        waits = theirs.start("acquire", 1, -1, thread=1)
        seen.wait(lambda: asked_again(seen))
        request = asked_again(seen)[0]
    redis_server.command("INCRBY", "seats", 5)  # without a message
    copy = [SCRIPTS["semaphore_acquire"].encode(), *request[2:]]
    copy[3 + int(request[2])] = b"1"  # its lease, ms
    assert redis_server.command("EVAL", *copy)[0] == 1  # nobody gets this answer
    assert until(lambda: mine.permits_reclaim(0).ok.value) == 5
    assert waits.answer().ok.token > 0
    theirs.release(1).ok
    tell(done=1, fired=1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, replicas=False) as cluster:
        yield cluster


def test_on_a_cluster_with_a_namespace(new_agent: Make, cluster: Cluster) -> None:
    holder, other = new_agent(), new_agent().open(cluster.url, namespace="shop")
    held = holder.open(cluster.url, namespace="shop", lease_ms=LEASE)
    for name in "seats", "x{y}", "z":
        one(other, "semaphore", name, seats=3).permits_set(3)
        held.lock(name, kind="semaphore", permits=2).acquire(1, 0).ok
    holder.kill()
    for name in "seats", "x{y}", "z":
        comes_back(other.lock(name, kind="semaphore"), 2)


def test_python(new_agent: Make, redis_server: Server) -> None:
    holder = new_agent()
    seats(holder.open(redis_server, lease_ms=LEASE), 2).acquire(1, 0).ok
    holder.kill()
    with dlock.Client(redis_server.url) as client:
        mine = client.semaphore("seats")
        with mine:
            assert until(lambda: mine.reclaim_permits(silent=0)) == 2
            assert mine.available_permits == SEATS - 1
        assert client.permit_semaphore("other").reclaim_permits(1.5) == 0


LOST = {
    "permit_semaphore": {
        "count": "seats", "leases": "{seats}:timeout", "once": "dlock_once:{seats}", "turns": "dlock_turns:{seats}", "fence": "redisson_lock_token:{seats}",
    },
    "semaphore": {
        "count": "seats", "taken": "dlock_taken:{seats}", "holders": "dlock_holders:{seats}", "once": "dlock_once:{seats}",
        "turns": "dlock_turns:{seats}", "fence": "redisson_lock_token:{seats}",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind, lost", [pytest.param(kind, lost, id=f"{kind}-seats-{lost}") for kind, keys in LOST.items() for lost in keys])
def test_permits_survive_the_loss_of_a_key(new_agent: Make, redis_server: Server, kind: str, lost: str) -> None:
    """By themselves; after that of the leases by a reclaim, once no holder can believe in its lease any more."""
    holder, other = new_agent().open(redis_server, lease_ms=LEASE), new_agent().open(redis_server, lease_ms=LEASE)
    mine, theirs = holder.lock("seats", kind=kind, permits=2), other.lock("seats", kind=kind)
    mine.permits_set(3).ok
    mine.acquire(1, 0).ok
    redis_server.command("DEL", LOST[kind][lost])
    if lost == "leases":
        assert holder.event().type == "LOST"
        assert theirs.permits_reclaim(0).ok.value == 0 and theirs.permits().ok.value == 1  # another one may not know it yet
        told = redis_server.command("HGET", "dlock_once:{seats}", "?").decode().split()
        redis_server.command("HSET", "dlock_once:{seats}", "?", f"{told[0]} {int(told[1]) - 30_000}")
        assert theirs.permits_reclaim(0).ok.value == 2
    else:
        renewed = holder.counters()["renewed"]
        until(lambda: holder.counters()["renewed"] > renewed)
        assert mine.state(1) == "HELD"
        mine.release(1).ok
    assert theirs.permits().ok.value == 3 and theirs.permits_reclaim(0).ok.value == 0


def test_two_names_with_one_key(new_agent: Make, redis_server: Server) -> None:
    """Redisson's {k}:timeout is that of k and of {k}. A dead holder's permit comes back to its own name."""
    dying, a, b = new_agent(), new_agent().open(redis_server), new_agent().open(redis_server)
    mine, theirs = (client.lock("k", kind="permit_semaphore") for client in (a, b))
    mine.permits_set(1).ok
    dead = dying.open(redis_server, lease_ms=LEASE).lock("{k}", kind="permit_semaphore")
    dead.permits_set(1).ok
    dead.acquire(1, 0).ok
    mine.acquire(1, 0).ok
    dying.kill()

    until(lambda: float(redis_server.command("ZRANGE", "{k}:timeout", 0, 0, "WITHSCORES")[1]) < time.time() * 1000)
    assert theirs.acquire(1, 0).status == "BUSY"  # it finds the ended permit
    assert b.lock("{k}", kind="permit_semaphore").permits().ok.value == 1
    assert theirs.acquire(1, 0).status == "BUSY" and mine.state(1) == "HELD"


@mutants.each(mutants.LOST_KEYS)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(120)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, agents=True)


def test_permits_with_a_lease_elsewhere(agent: Agent) -> None:
    """In memory no key gets lost, and there is nothing to reclaim."""
    assert agent.open("memory:").lock("seats", kind="permit_semaphore").permits_reclaim(0).status == "UNSUPPORTED"


@pytest.mark.parametrize("name", ["seats", "{seats}"])
def test_the_id_of_a_permit_is_the_one_on_the_server(agent: Agent, redis_server: Server, name: str) -> None:
    """Also where one pair of braces is the name: those ids have a mark."""
    lock = agent.open(redis_server).lock(name, kind="permit_semaphore", permits=2)
    lock.permits_set(2).ok
    lock.acquire(1, 0).ok
    ids = {bytes.fromhex(lock.permit(1, index, 33).ok.permit) for index in range(2)}
    assert ids == set(redis_server.command("ZRANGE", "{seats}:timeout", 0, -1))
