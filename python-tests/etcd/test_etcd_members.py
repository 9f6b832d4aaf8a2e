"""Faults of the members of etcd: they die, stop, cannot be reached, have a slow or full disk, or a clock that jumps."""
from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, Callable

import pytest

from harness.agent import Agent, now
from harness.build import LIBRARY, ROOT
from harness.engines.disks import SLOW, fill, slow_syncs, small_disk
from harness.engines.members import ISLANDS, connected, cut_off_from_a_member, cut_off_with_the_leader, on_slow_disks
from harness.etcd import LOCAL, Etcd
from harness.faults import Island, Namespace, times
from harness.tally import tell
from harness.waiting import until

Make = Callable[..., Any]


# ---- members


@pytest.mark.parametrize("rounds", times(2, 4, soak=20))
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_l11_the_leader_fails(new_etcd: Make, new_agent: Make, how: str, rounds: int) -> None:
    """Held locks are kept, waiters are served, tokens grow, whoever leads."""
    etcd = new_etcd(3)
    agents = [new_agent() for _ in range(3)]
    clients = [agent.open(etcd, lease_ms=10000, command_timeout_ms=1000) for agent in agents]
    kept = clients[0].lock("kept")
    kept_token = kept.acquire(1, 5000).ok.token
    before = 0
    for _ in range(rounds):
        locks = [client.lock("job") for client in clients]
        token = locks[0].acquire(1, 20000).ok.token
        assert token > before
        waiting = locks[1].start("acquire", 1, -1)
        until(lambda: len(etcd.keys("job/")) == 2)
        leader = etcd.leader()
        getattr(leader, how)()
        if how == "kill":
            began = now()
        locks[0].release(1)
        before = waiting.answer(40).ok.token
        assert before > token
        locks[1].release(1)
        if how == "kill":
            leader.start()
        else:
            leader.resume()
        assert etcd.is_up(30)
        until(lambda: kept.state(1) == "HELD", timeout=30)  # it is AT_RISK while a busy machine elects
        assert kept.token(1).ok.token == kept_token
        until(lambda: etcd.keys("job/") == [], timeout=30)
    tell(done=rounds, fired=rounds)


@pytest.mark.parametrize("moves", times(10, 100))
def test_l11_the_leadership_moves_by_order(new_etcd: Make, new_agent: Make, moves: int) -> None:
    """Whoever waits meanwhile, waits on: what a leader drops is asked for again."""
    etcd = new_etcd(3)
    locks = [new_agent().open(etcd, lease_ms=10000).lock(f"job{number % 2}") for number in range(4)]
    tokens = {"job0": 0, "job1": 0}
    for move in range(moves):
        waits = [(lock, f"job{number % 2}", lock.start("acquire", 1, -1)) for number, lock in enumerate(locks)]
        etcd.lead(etcd.nodes[move % 3])
        while waits:
            lock, name, wait = served = until(lambda: next((one for one in waits if one[2].ready()), None))
            token = wait.answer().ok.token
            assert token > tokens[name]
            tokens[name] = token
            lock.release(1).ok
            waits.remove(served)
    tell(done=moves, fired=moves)


WORKER = """
import fcntl, os, sys, time, dlock
url, names, kind, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

def write(name, token):
    # a resource that refuses lower tokens than it has seen
    with open(f"{folder}/{name}", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        taken = token >= int(file.read() or 0)
        if taken:
            file.seek(0)
            file.truncate()
            file.write(str(token))
        return taken

with dlock.Client(url, lease_ms=4000, command_timeout_ms=700, connects_per_second=50) as client:
    locks = [getattr(client, kind)(f"load{number}") for number in range(names)]
    turn = 0
    while not os.path.exists(f"{folder}/stop"):
        lock, turn = locks[turn % names], turn + 1
        try:
            if not lock.acquire(timeout=20):
                continue
        except dlock.DlockError:
            continue
        began, token = time.monotonic_ns(), lock.token
        taken = write(turn % names, token)
        time.sleep(0.001)
        sure, ended = lock.held, time.monotonic_ns()
        print(turn % names, began, ended if sure else began, token, int(taken or not sure))
        try:
            lock.release()
        except dlock.DlockError:
            pass
"""


@pytest.mark.parametrize("kind", ["lock", pytest.param("write_lock", marks=pytest.mark.full)])
@pytest.mark.parametrize("changes", times(2, 4, 900, 20))
def test_l11_leader_changes_under_load(new_etcd: Make, new_agent: Make, changes: int, kind: str, tmp_path: pathlib.Path) -> None:
    """Four processes, three names: nobody holds at once, tokens grow per name, a resource that checks tokens refuses no holder, and
    everything is served after each change, as a rule within a second of the election.
    """
    etcd = new_etcd(3)
    keeper = new_agent().open(etcd, lease_ms=10000)
    kept = keeper.lock("kept")
    token = kept.acquire(1, 5000).ok.token
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    command = [sys.executable, "-c", WORKER, etcd.url, "3", kind, str(tmp_path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True) for _ in range(4)]
    elections = []
    for change in range(changes):
        until(lambda: len(etcd.found("load")) > 0, timeout=60)
        leader = etcd.leader()
        getattr(leader, ("kill", "pause")[change % 2])()
        revision = until(lambda: next((node.revision() for node in etcd.nodes if node is not leader), 0), timeout=60)
        elections.append(time.monotonic_ns())
        others = next(node for node in etcd.nodes if node is not leader)
        until(lambda: others.revision() > revision + 20, timeout=60)  # they are served
        renewed = keeper.counters()["renewed"]
        until(lambda: keeper.counters()["renewed"] > renewed, timeout=60)
        leader.start() if change % 2 == 0 else leader.resume()
        assert etcd.is_up(60)
    (tmp_path / "stop").touch()
    rows = [tuple(map(int, line.split())) for worker in workers for line in worker.communicate()[0].splitlines()]
    for name in range(3):
        holds = sorted(row[1:] for row in rows if row[0] == name)
        assert len(holds) > 20 * changes and all(row[3] for row in holds), "a holder was refused by the resource"
        for before, after in zip(holds, holds[1:]):
            assert before[1] <= after[0] and before[2] < after[2], "two holders, or a token that falls"
    late = sorted(min(row[1] for row in rows if row[1] > election) - election for election in elections)
    print("served after the election, ms:", [delay // 10**6 for delay in late])
    assert late[len(late) // 2] < 10**9
    until(lambda: kept.state(1) != "AT_RISK", timeout=30)
    if kept.state(1) != "HELD":
        raise AssertionError(keeper.loss())
    assert kept.token(1).ok.token == token
    tell(done=changes, fired=changes)


def test_l12_a_member_that_is_down_is_left(new_etcd: Make, new_agent: Make) -> None:
    etcd = new_etcd(3)
    lock = new_agent().open(etcd, command_timeout_ms=500).lock("job")
    for node in etcd.nodes:
        node.pause()
        lock.acquire(1, 20000).ok
        lock.release(1).ok
        node.resume()
        assert etcd.is_up()


def test_l13_no_member_answers(new_etcd: Make, agent: Agent) -> None:
    """A clear refusal within the time, and service when they are back."""
    etcd = new_etcd(1)
    client = agent.open(etcd, command_timeout_ms=300, connect_timeout_ms=300)
    lock = client.lock("job")
    etcd.nodes[0].kill()
    answer = lock.acquire(1, 0)
    assert answer.status == "UNREACHABLE" and f"{etcd.nodes[0].port}" in answer.message, answer
    waiting = lock.start("acquire", 1, -1, thread=1)
    etcd.nodes[0].start()
    waiting.answer().ok


# ---- partitions


@ISLANDS
@pytest.mark.parametrize("rounds", times(1, 2, soak=10))
def test_l14_a_leader_without_followers(new_etcd: Make, new_agent: Make, rounds: int) -> None:
    """The leader and a holder are cut off from the others: the holder is told before another one has the lock, and nothing is left."""
    with contextlib.closing(Island()) as island:
        etcd = new_etcd(3, places=[(island.theirs, tuple(island.prefix)), (island.ours, ()), (island.ours, ())])
        cut_off_with_the_leader(island, etcd, etcd.nodes[0], (new_agent(prefix=island.prefix), new_agent()), 2000, rounds, lambda: etcd.keys("job/"))


@ISLANDS
@pytest.mark.parametrize("rounds", times(2, 4, soak=20))
def test_l15_a_client_that_does_not_reach_the_leader(new_etcd: Make, new_agent: Make, rounds: int) -> None:
    """Packets to the member it is connected to, which leads, are lost: it goes on by another member, and keeps its lock."""
    with contextlib.closing(Namespace(None)) as net:
        etcd = new_etcd(3, places=[(net.ours, ())] * 3)

        def cut() -> None:
            (leader,) = connected(net, etcd.nodes)
            etcd.lead(leader)
            net.drop_to([leader.port])

        cut_off_from_a_member(net, new_agent(prefix=net.prefix).open(etcd, lease_ms=6000, command_timeout_ms=500), cut, rounds)


# ---- disks


@SLOW
@pytest.mark.parametrize("rounds", times(1, 4, soak=30))
def test_l16_slow_disks(new_etcd: Make, new_agent: Make, rounds: int, tmp_path: pathlib.Path) -> None:
    """Two of three members take 0.7 s for each sync, longer than a command may take: held locks stay, attempts that were given up leave
    nothing, and tokens grow.
    """
    etcd = new_etcd(3)
    clients = [new_agent().open(etcd, lease_ms=30000, command_timeout_ms=600) for _ in range(2)]
    slow = slow_syncs([node.process.pid for node in etcd.nodes[:2] if node.process], tmp_path)
    on_slow_disks(clients, slow, lambda: etcd.call("kv/put", key="sync", value="x"), rounds, lambda: etcd.keys("job/"))


@pytest.mark.full
@pytest.mark.timeout(240)  # seventy large values, which a busy machine writes slowly
@pytest.mark.skipif(os.geteuid() != 0, reason="it needs a file system of its own: run it as root")
def test_l17_a_full_disk(new_agent: Make, tmp_path: pathlib.Path) -> None:
    """The leader's disk is full and the leader dies: held locks stay, and the others serve."""
    with small_disk(tmp_path, "200m") as small, Etcd(3, places=[LOCAL, LOCAL, ("127.0.0.1", ("env", f"ETCD_WAL_DIR={small}/wal"))]) as etcd:
        full = etcd.nodes[2]
        etcd.lead(full)
        client = new_agent().open(etcd, lease_ms=10000, command_timeout_ms=700)
        kept, lock = client.lock("kept"), client.lock("job")
        token = kept.acquire(1, 5000).ok.token
        assert full.process
        fill(small)
        for number in range(200):
            if full.process.poll() is not None:
                break
            with contextlib.suppress(OSError, RuntimeError):
                etcd.nodes[number % 2].call("kv/put", key="large", value="x" * 1_000_000)
        assert full.process.poll() is not None, "the disk was not full"
        assert lock.acquire(1, 20000).ok.token > token
        lock.release(1).ok
        until(lambda: kept.state(1) == "HELD")  # after its next renewal
        assert kept.token(1).ok.token == token
        tell(done=1, fired=1)


# ---- clocks


@pytest.mark.skipif(os.geteuid() != 0, reason="it needs time namespaces: run it as root")
@pytest.mark.parametrize("rounds", times(2, 5))
def test_l18_a_clock_that_is_a_day_ahead(new_etcd: Make, new_agent: Make, rounds: int) -> None:
    """The clock by which a member measures leases is a day ahead: when it becomes the leader, no lease ends by that, and none stays."""
    ahead = ("unshare", "--time", "--fork", "--kill-child", "--monotonic", "86400", "--boottime", "86400")
    etcd = new_etcd(3, places=[LOCAL, LOCAL, ("127.0.0.1", ahead)])
    agent = new_agent()
    kept, dies = new_agent().open(etcd, lease_ms=6000).lock("kept"), agent.open(etcd, lease_ms=2000).lock("job")
    token = kept.acquire(1, 5000).ok.token
    dies.acquire(1, 5000).ok
    for number in range(rounds):
        for node in (etcd.nodes[2], etcd.nodes[0]):
            etcd.lead(node)
            assert kept.agent("live").status == "OK" and (kept.state(1), kept.token(1).ok.token) == ("HELD", token)
            assert dies.state(1) == "HELD"
    etcd.lead(etcd.nodes[2])
    agent.kill()
    assert new_agent().open(etcd).lock("job").acquire(1, -1).ok.token > token
    tell(done=rounds, fired=2 * rounds)
