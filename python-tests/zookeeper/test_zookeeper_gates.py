"""Gates on ZooKeeper: every wait for a name ends, in every process, and nobody gets in until it opens."""
from __future__ import annotations

from typing import Any, Callable

import pytest

from harness.agent import Agent, Client, Lock
from harness.faults import times
from harness.tally import tell
from harness.waiting import until
from harness.zookeeper import Zookeeper, url

Make = Callable[..., Any]
CROWD = 25  # of each process
PATIENT = {"safety_ms": 60_000, "command_timeout_ms": 10_000}  # who learns of a gate within seconds has heard of it
KINDS = ["mutex", "fair", "read", "write", "permit_semaphore", "latch"]


def line(zookeeper: Zookeeper, path: str = "job") -> list[str]:
    return [name for name in zookeeper.nodes(path) if name.startswith("_c_")]


def stands(zookeeper: Zookeeper, count: int) -> None:
    until(lambda: len(line(zookeeper)) == count)


def holds(client: Client, kind: str) -> Lock:
    """Nobody else gets it."""
    lock = client.lock("job", kind="write" if kind == "read" else kind)
    if kind == "permit_semaphore":
        lock.permits_set(1).ok
    lock.latch_set(1).ok if kind == "latch" else lock.acquire(1, 0).ok
    return lock


def all_refused(client: Client, count: int) -> None:
    for _ in range(count):
        while (event := client.event()).type not in ("ACQUIRED", "ACQUIRE_FAILED"):
            pass
        assert (event.type, event.status) == ("ACQUIRE_FAILED", 7) and "gate" in event.text, event


# ---- closed


@pytest.mark.parametrize("kind", KINDS)
def test_every_wait_ends(zookeeper: Zookeeper, new_agent: Make, kind: str) -> None:
    """Fifty waiters of two processes hear of it, one by one and in memory. Their nodes go, and the holder goes on."""
    first, others, closer = new_agent().open(zookeeper), [new_agent().open(zookeeper, **PATIENT) for _ in range(2)], new_agent().open(zookeeper)
    mine = holds(first, kind)
    for client in others:
        for owner in range(CROWD):
            client.lock("job", kind=kind).submit_acquire(owner + 2, -1, owner).ok
    until(lambda: all(client.counters()["waiting"] == CROWD for client in others))
    if kind == "permit_semaphore":  # the first in line has a node of a permit that there is not
        until(lambda: len(line(zookeeper, "job/leases")) == 2 and len(line(zookeeper, "job/locks")) >= 2)
    elif kind != "latch":
        until(lambda: len(line(zookeeper)) >= 3)
    closer.lock("job", kind=kind).close_gate(60_000).ok
    for client in others:
        all_refused(client, CROWD)
        assert client.lock("job", kind=kind).acquire(1, 0).status == "GATE_CLOSED" == client.lock("job", kind=kind).acquire(1, -1).status
    until(lambda: len(line(zookeeper) + line(zookeeper, "job/locks") + line(zookeeper, "job/leases")) == (kind != "latch"))
    if kind == "latch":
        assert mine.latch_count().ok.value == 1 and mine.latch_down(1).ok.value == 0
    else:
        assert mine.state(1) == "HELD"
        mine.extend(1, 20_000).ok
        mine.release(1).ok
    assert mine.acquire(1, 0).status == "GATE_CLOSED"
    others[0].lock("job", kind=kind).open_gate().ok
    assert closer.lock("job", kind=kind).open_gate().status == "UNCHANGED" and "dlock_gate" not in zookeeper.nodes("job")
    others[1].lock("job", kind=kind).acquire(1, 5000).ok


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "latch"])
def test_a_wait_behind_one_that_hears_nothing_ends(zookeeper: Zookeeper, new_agent: Make, kind: str) -> None:
    """The first in line is stopped, and its session lives on. Who waits behind it sees the gate by itself."""
    holder = new_agent().open(zookeeper)
    holds(holder, kind)
    waits = []
    for agent in (deaf := new_agent()), new_agent():
        client = agent.open(zookeeper, lease_ms=60_000, **PATIENT)
        waits.append(client.lock("job", kind=kind).start("acquire", 2, -1, thread=1))
        where = "job/locks" if kind == "permit_semaphore" else "job"
        until(lambda: len(line(zookeeper, where)) >= len(waits) + (kind != "permit_semaphore"))
    deaf.stop()
    holder.lock("job", kind=kind).close_gate(60_000).ok
    assert waits[1].answer().status == "GATE_CLOSED"
    deaf.resume()
    assert waits[0].answer().status == "GATE_CLOSED"


def test_waits_behind_a_holder_of_their_own_process_end(zookeeper: Zookeeper, new_agent: Make) -> None:
    """They have no node. They hear when it opens, too."""
    client, other = new_agent().open(zookeeper, **PATIENT), new_agent().open(zookeeper)
    lock, theirs = client.lock("job"), other.lock("job")
    lock.acquire(1, 0).ok
    for _ in range(3):
        wait = lock.start("acquire", 2, -1, thread=1)
        until(lambda: client.counters()["waiting"] == 1)
        theirs.close_gate(60_000).ok
        assert wait.answer().status == "GATE_CLOSED"
        until(lambda: lock.acquire(2, 0).status == "GATE_CLOSED")
        theirs.open_gate().ok
        until(lambda: lock.acquire(2, 0).status == "BUSY")
    assert lock.state(1) == "HELD"


@pytest.mark.parametrize("rounds", times(4, 12))
@pytest.mark.parametrize("members", [1, 3])
def test_nobody_gets_in_behind_a_closing(new_zookeeper: Make, new_agent: Make, members: int, rounds: int) -> None:
    """Who asks after the closing has returned is refused, at every member, until the opening begins."""
    zookeeper = new_zookeeper(members)
    urls = [f"zookeeper://{member.host}:{member.port}" for member in zookeeper.members] * (3 // members)
    busy = [new_agent().open(where, command_timeout_ms=10_000).lock("job") for where in urls]
    closer = new_agent().open(zookeeper, command_timeout_ms=10_000).lock("job")
    for round_ in range(rounds):
        pending = []
        for number in range(20):
            pending += [(lock.start("acquire", 1, -1, thread=1), lock.start("release", 1, thread=1)) for lock in busy]
            if number == 5:
                closed = closer.close_gate(60_000).ok.done
        answers = [(one.answer(), other.answer()) for one, other in pending]
        refused = [one for one, _ in answers if one.began > closed]
        assert len(refused) > 10 and {one.status for one in refused} == {"GATE_CLOSED"}, round_
        closer.open_gate().ok
        assert closer.acquire(1, 5000).ok and closer.release(1).ok
    tell(done=rounds, fired=rounds)


def test_two_closings_at_once(zookeeper: Zookeeper, new_agent: Make) -> None:
    """Each is done, and one opening ends both."""
    locks = [new_agent().open(zookeeper, command_timeout_ms=10_000).lock("job") for _ in range(2)]
    for _ in range(20):
        closing = [lock.start("close_gate", 60_000, thread=1) for lock in locks]
        assert [one.answer().status for one in closing] == ["OK", "OK"]
        assert {lock.acquire(1, 0).status for lock in locks} == {"GATE_CLOSED"}
        opening = [lock.start("open_gate", thread=1) for lock in locks]
        assert sorted(one.answer().status for one in opening) == ["OK", "UNCHANGED"]


# ---- open again


def test_it_opens_by_itself(zookeeper: Zookeeper, new_agent: Make) -> None:
    """Closing it again sets its time anew, longer or shorter. The first one in removes what is left of it."""
    lock, other = new_agent().open(zookeeper).lock("job"), new_agent().open(zookeeper).lock("job")
    lock.close_gate(1).ok
    lock.close_gate(60_000).ok
    assert other.acquire(1, 0).status == "GATE_CLOSED"
    closed = other.close_gate(300).ok.began
    assert lock.acquire(1, 0).status == "GATE_CLOSED"
    answer = until(lambda: (answer := lock.acquire(1, 0)).status != "GATE_CLOSED" and answer)
    assert answer.status == "OK" and answer.done >= closed + 299_000  # the server's clock counts milliseconds
    assert lock.open_gate().status == "UNCHANGED" and "dlock_gate" not in zookeeper.nodes("job")


@pytest.mark.parametrize("kind", ["mutex", "latch", "permit_semaphore"])
def test_what_is_over_is_open(zookeeper: Zookeeper, agent: Agent, kind: str) -> None:
    client = agent.open(zookeeper)
    lock = client.lock("job", kind=kind)
    if kind == "permit_semaphore":
        lock.permits_set(1).ok
    lock.close_gate(1).ok
    until(lambda: lock.open_gate().status == "UNCHANGED" and "dlock_gate" not in zookeeper.nodes("job"))
    lock.close_gate(1).ok
    until(lambda: lock.acquire(1, 0).status == "OK")
    assert "dlock_gate" not in zookeeper.nodes("job")


@pytest.mark.parametrize("anew", [True, False], ids=["made anew", "set again"])
def test_a_gate_that_is_closed_again_is_not_removed(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make, anew: bool) -> None:
    """Somebody meets a gate that is over. Before he removes it, it is closed anew; also when another one has removed it, and the
    new node has the same version."""
    proxy, path = new_proxy(zookeeper.members[0]), b"/job/dlock_gate"
    lock, other = new_agent().open(url(proxy), **PATIENT).lock("job"), new_agent().open(zookeeper, command_timeout_ms=10_000).lock("job")
    other.close_gate(1).ok
    stamp = zookeeper.admin.get("/job/dlock_gate")[1].mtime
    until(lambda: zookeeper.admin.get(zookeeper.admin.create("/clock", sequence=True))[1].ctime > stamp + 1)
    removal = proxy.up.pause_at(b"\0\0\0\2\0\xff\xff\xff\xff" + len(path).to_bytes(4, "big") + path)
    acquire = lock.start("acquire", 1, 5000, thread=1)
    removal.wait()
    if anew:
        assert other.open_gate().status == "UNCHANGED" and "dlock_gate" not in zookeeper.nodes("job")
    other.close_gate(60_000).ok
    removal.open()
    assert acquire.answer().status == "GATE_CLOSED" == other.acquire(1, 0).status
    tell(done=1, fired=1)


# ---- faults


def test_a_gate_is_closed_while_a_bell_is_asked_for(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make) -> None:
    """One has looked and seen no gate. It is closed before he has a watch: he looks again."""
    proxy = new_proxy(zookeeper.members[0])
    mine = holds(new_agent().open(zookeeper), "mutex")
    mine.close_gate(60_000).ok
    mine.open_gate().ok
    lock = new_agent().open(url(proxy), **PATIENT).lock("job")
    wait = lock.start("acquire", 1, -1, thread=1)
    stands(zookeeper, 2)
    mine.close_gate(60_000).ok
    assert wait.answer().status == "GATE_CLOSED"  # the bell has rung, and its watch is over
    mine.open_gate().ok
    watch = proxy.up.pause_at("dlock_gates/")
    wait = lock.start("acquire", 1, -1, thread=1)
    watch.wait()
    mine.close_gate(60_000).ok
    watch.open()
    assert wait.answer().status == "GATE_CLOSED"


@pytest.mark.parametrize("away", [True, False], ids=["while it is away", "when it is back"])
@pytest.mark.parametrize("near", [True, False], ids=["behind its own process", "in line"])
def test_the_connection_of_one_who_waits_is_cut(zookeeper: Zookeeper, new_agent: Make, new_proxy: Make, near: bool, away: bool) -> None:
    """The gate closes meanwhile, or afterwards: the wait ends when the connection is back."""
    proxy = new_proxy(zookeeper.members[0])
    client, other = new_agent().open(url(proxy), connects_per_second=1000, **PATIENT), new_agent().open(zookeeper)
    lock = client.lock("job")
    (lock if near else other.lock("job")).acquire(1, 0).ok
    wait = lock.start("acquire", 2, -1, thread=1)
    until(lambda: client.counters()["waiting"] == 1)
    stands(zookeeper, 1 if near else 2)
    connects = client.counters()["connects"]
    proxy.refuse()
    proxy.cut()
    until(lambda: "/dlock_gates/" not in zookeeper.members[0].word("wchp"))
    if away:
        other.lock("job").close_gate(60_000).ok
    proxy.accept()
    if not away:
        until(lambda: client.counters()["connects"] > connects)
        until(lambda: "/dlock_gates/" in zookeeper.members[0].word("wchp"))
        other.lock("job").close_gate(60_000).ok
    assert wait.answer().status == "GATE_CLOSED"
    stands(zookeeper, 1)
    tell(done=1, fired=1)


def test_the_server_restarts_while_it_is_closed(new_zookeeper: Make, new_agent: Make) -> None:
    zookeeper = new_zookeeper()
    client = new_agent().open(zookeeper, lease_ms=20_000, command_timeout_ms=10_000)
    mine, other = holds(client, "mutex"), new_agent().open(zookeeper, lease_ms=20_000, **PATIENT).lock("job")
    wait = other.start("acquire", 1, -1, thread=1)
    stands(zookeeper, 2)
    mine.close_gate(60_000).ok
    zookeeper.members[0].restart()
    assert wait.answer(40).status == "GATE_CLOSED"
    assert zookeeper.is_up() and other.acquire(1, 10_000).status == "GATE_CLOSED"
    assert mine.state(1) == "HELD"
    mine.open_gate().ok
    mine.release(1).ok
    other.acquire(1, 10_000).ok


def test_who_closed_it_is_killed(zookeeper: Zookeeper, new_agent: Make) -> None:
    closer, lock = new_agent(), new_agent().open(zookeeper).lock("job")
    closer.open(zookeeper).lock("job").close_gate(60_000).ok
    closer.kill()
    until(lambda: zookeeper.sessions() <= 1)
    assert lock.acquire(1, 0).status == "GATE_CLOSED" == lock.acquire(1, 5000).status
    lock.open_gate().ok
    lock.acquire(1, 0).ok


# ---- nodes


def test_users_share_bells(zookeeper: Zookeeper, new_agent: Make) -> None:
    """A user's gate is his own. What tells of gates belongs to all."""
    clients = [new_agent().open(zookeeper, username=name, password=name, **PATIENT) for name in ("ann", "bob")]
    mine, theirs = clients[0].lock("ann/job"), clients[1].lock("bob/job")
    zookeeper.admin.create("/ann", b""), zookeeper.admin.create("/bob", b"")
    mine.acquire(1, 0).ok, theirs.acquire(1, 0).ok
    for lock in (mine, theirs):
        wait = lock.start("acquire", 2, -1, thread=1)
        lock.close_gate(60_000).ok
        assert wait.answer().status == "GATE_CLOSED"
    answer = clients[0].lock("bob/job").open_gate()
    assert answer.status == "DENIED", answer
    zookeeper.admin.add_auth("digest", "ann:ann"), zookeeper.admin.add_auth("digest", "bob:bob")  # to clear


def test_a_lock_may_have_the_name_of_a_gate(zookeeper: Zookeeper, agent: Agent) -> None:
    client = agent.open(zookeeper)
    client.lock("job/dlock_gate").acquire(1, 0).ok
    client.lock("job").acquire(1, 0).ok
    assert client.lock("job").open_gate().status == "UNCHANGED"


def test_a_node_that_says_no_time_is_no_gate(zookeeper: Zookeeper, agent: Agent) -> None:
    lock = agent.open(zookeeper).lock("job")
    for text in (b"", b"x", b"0", b"-5", b"99999999999999999999"):
        zookeeper.admin.ensure_path("/job")
        zookeeper.admin.create("/job/dlock_gate", text)
        lock.acquire(1, 0).ok
        lock.release(1).ok
        zookeeper.admin.delete("/job/dlock_gate")
