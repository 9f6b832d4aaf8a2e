"""Transactions on etcd: what is a conflict, what is written once, what is told after a lost answer, and what etcd refuses."""
from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Handle
from harness.build import LIBRARY, ROOT
from harness.engines.nth import Nth
from harness.etcd import Etcd, url
from harness.etcd.users import CHEAP, LOCKS, enable, forget
from harness.faults import times
from harness.proxy import Proxy
from harness.tally import tell
from harness.waiting import until

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Client

Make = Callable[..., Any]
MIB = 1 << 20
DONE = " done"  # in the marker that a commit writes


@pytest.fixture
def client(etcd: Etcd) -> Iterator[Client]:
    with Client(etcd.url) as made:
        yield made


def value(etcd: Etcd, key: str) -> bytes | None:
    found = etcd.call("kv/range", key=key).get("kvs")
    return base64.b64decode(found[0].get("value", "")) if found else None


def users(etcd: Etcd) -> dict[str, bytes]:
    """All keys but those of the library, with their values."""
    found = {base64.b64decode(one["key"]).decode(): base64.b64decode(one.get("value", "")) for one in etcd.found("")}
    return {key: text for key, text in found.items() if not key.startswith("dlock_")}


def put(etcd: Etcd, **values: Any) -> None:
    for key, text in values.items():
        etcd.call("kv/put", key=key, value=text)


def begun(client: Handle, *keys: str) -> Handle:
    txn = client.txn()
    for key in keys:
        txn.watch(key).ok
    return txn


# ---- what it does


def test_read_and_write(etcd: Etcd, client: Client) -> None:
    put(etcd, a=1, gone=2, n=40)
    with client.transaction_begin("a", "gone", "n") as txn:
        assert (txn.get("a"), txn.get("none")) == (b"1", None)
        txn.set("a", b"one")
        txn.set("new", b"")
        txn.delete("gone")
        txn.delete("never there")
        txn.incr("n", 2)
        txn.incr("m", -7)
        before = users(etcd)
        txn.commit()
    assert before == {"a": b"1", "gone": b"2", "n": b"40"}  # nothing before the commit
    assert users(etcd) == {"a": b"one", "new": b"", "n": b"42", "m": b"-7"}
    assert len({one["mod_revision"] for one in etcd.found("") if one["key"] != base64.b64encode(b"gone").decode()}) == 1


def test_writes_of_one_key_are_done_in_their_order(etcd: Etcd, client: Client) -> None:
    with client.transaction_begin("a") as txn:
        for key, text in ("a", b"1"), ("b", b"first"), ("a", b"2"), ("b", b"last"):
            txn.set(key, text)
        txn.incr("a", 2**63 - 3)
        txn.delete("b"), txn.incr("b", 5), txn.incr("b", -7)
        txn.set("c", b"x"), txn.delete("c")
        txn.delete("d"), txn.set("d", b"there")
        txn.commit()
    assert users(etcd) == {"a": b"%d" % (2**63 - 1), "b": b"-2", "d": b"there"}


@pytest.mark.parametrize("key", [b"\0", b"a\0b", b"\xff" * 9, b" ", "schlüssel", b"k" * 65536])
def test_keys_and_values_are_bytes(etcd: Etcd, client: Client, key: bytes | str) -> None:
    raw = key.encode() if isinstance(key, str) else key
    etcd.call("kv/put", key=raw, value=b"be\0fore")
    with client.transaction_begin(key) as txn:
        assert txn.get(key) == b"be\0fore"
        txn.set(key, raw)
        txn.commit()
        txn.watch(key)
        assert txn.get(key) == raw


@pytest.mark.parametrize("change", ["put", "same value", "delete", "recreate", "create", "create and delete", "lease"])
def test_a_change_is_a_conflict(etcd: Etcd, client: Client, change: str) -> None:
    """By another client, of a key that is there or of one that is not."""
    put(etcd, a="0")
    with client.transaction_begin("a", "b") as txn:
        assert (txn.get("a"), txn.get("b")) == (b"0", None)
        if change == "put":
            put(etcd, a="1")
        elif change == "same value":
            put(etcd, a="0")
        elif change == "lease":
            etcd.call("kv/put", key="a", ignore_value=True, lease=etcd.call("lease/grant", TTL=60)["ID"])
        if change in ("delete", "recreate"):
            etcd.call("kv/deleterange", key="a")
        if change == "recreate":
            put(etcd, a="0")
        if change.startswith("create"):
            put(etcd, b="")
        if change == "create and delete":
            etcd.call("kv/deleterange", key="b")
        txn.set("a", b"mine")
        txn.incr("c")
        before = users(etcd)
        if change == "create and delete":  # as it was: absent
            txn.commit()
            return
        with pytest.raises(dlock.Conflict) as caught:
            txn.commit()
        assert caught.value.retryable and str(etcd.nodes[0].port) in caught.value.message
        assert users(etcd) == before


def test_a_key_that_ends_with_its_lease_has_changed(etcd: Etcd, client: Client) -> None:
    lease = etcd.call("lease/grant", TTL=60)["ID"]
    etcd.call("kv/put", key="a", value="1", lease=lease)
    with client.transaction_begin("a") as txn:
        etcd.call("lease/revoke", ID=lease)
        txn.set("b", b"x")
        with pytest.raises(dlock.Conflict):
            txn.commit()
    assert users(etcd) == {}


def test_a_commit_without_writes_says_whether_what_was_read_holds(etcd: Etcd, client: Client) -> None:
    with client.transaction_begin("a") as txn:
        txn.commit()
        txn.watch("a")
        put(etcd, a="1")
        with pytest.raises(dlock.Conflict):
            txn.commit()
    assert etcd.keys("dlock_") == [] and etcd.leases() == []  # nothing was written


def test_a_watched_key_is_read_as_it_was_then(etcd: Etcd, client: Client) -> None:
    put(etcd, a="old", b="old")
    with client.transaction_begin("a") as txn:
        put(etcd, a="new", b="new")
        assert (txn.get("a"), txn.get("b")) == (b"old", b"new")
        with pytest.raises(dlock.Conflict):
            txn.commit()


def test_what_others_add_is_no_conflict(etcd: Etcd, new_proxy: Make, agent: Agent) -> None:
    """A key that is only added to is changed between the commit's own read and its write."""
    put(etcd, n="1")
    proxy = new_proxy(etcd.nodes[0])
    txn = begun(agent.open(url(proxy)), "a")
    txn.incr("n", 10).ok
    gate = proxy.up.pause_at(DONE)
    commit = txn.start("commit", thread=1)
    gate.wait()
    put(etcd, n="100")
    gate.open()
    commit.answer().ok
    assert users(etcd) == {"n": b"110"}


@pytest.mark.parametrize("text", ["", "x", "1x", " 1", "+1", "01", "-0", "1.5", "9223372036854775808", "9223372036854775807"])
def test_what_is_no_number_is_not_added_to(etcd: Etcd, client: Client, text: str) -> None:
    put(etcd, n=text, a="before")
    with client.transaction_begin("a") as txn:
        txn.set("a", b"after")
        txn.incr("n")
        with pytest.raises(dlock.ServerError, match="nothing was written: key 'n'"):
            txn.commit()
    assert users(etcd) == {"n": text.encode(), "a": b"before"}


# ---- time to live


def test_time_to_live(etcd: Etcd, client: Client) -> None:
    def ttl(key: str) -> int:
        lease = int(etcd.call("kv/range", key=key)["kvs"][0].get("lease", 0))
        return int(etcd.call("lease/timetolive", ID=lease)["grantedTTL"]) if lease else -1

    with client.transaction_begin("a") as txn:
        txn.set("a", b"x", ttl=50.5)
        txn.set("b", b"x", ttl=51)
        txn.set("c", b"1", ttl=0.001)
        txn.set("d", b"x")
        txn.incr("c")
        txn.commit()
        leases = len(etcd.leases())
        assert (ttl("a"), ttl("b"), ttl("d")) == (51, 51, -1) and ttl("c") >= 1 and value(etcd, "c") == b"2"
        txn.watch("a")
        txn.set("a", b"x")
        txn.incr("c")
        txn.commit()
        assert ttl("a") == -1 and ttl("c") >= 1  # what is added to lives as long as before
        assert leases == 3 == len(etcd.leases())  # two lengths, and the marker's


def test_the_lease_of_what_was_not_written_is_given_back(etcd: Etcd, client: Client) -> None:
    with client.transaction_begin("a") as txn:
        txn.set("a", b"x", ttl=1000)
        put(etcd, a="other")
        with pytest.raises(dlock.Conflict):
            txn.commit()
        until(lambda: len(etcd.leases()) == 1)


# ---- many at once

COUNT = """
import sys, dlock
url, rounds, ready = sys.argv[1], int(sys.argv[2]), sys.stdin
again = (dlock.Conflict, dlock.Unreachable, dlock.ServerError, dlock.ServerBusy)

def add(txn):
    number = int(txn.get("count") or 0)
    txn.set("count", b"%d" % (number + 1))
    txn.incr("added")

with dlock.Client(url, command_timeout_ms=int(sys.argv[3]), connects_per_second=100) as client:
    print("ready", flush=True)
    ready.readline()
    for _ in range(rounds):
        while True:
            try:
                client.transaction(add, "count", attempts=None)
                break
            except again as error:
                print("again", error, file=sys.stderr)
print("done")
"""


def counters(where: str, processes: int, rounds: int, timeout_ms: int = 5000) -> list[subprocess.Popen[str]]:
    """Processes that have begun to add 1 to two keys, rounds times each."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    command = [sys.executable, "-c", COUNT, where, str(rounds), str(timeout_ms)]
    pipe = subprocess.PIPE
    made = [subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(processes)]
    for one in made:
        assert one.stdout and one.stdout.readline() == "ready\n"
    for one in made:
        assert one.stdin
        one.stdin.write("\n")
        one.stdin.flush()
    return made


def finish(made: list[subprocess.Popen[str]], timeout: float) -> None:
    try:
        for one in made:
            out, err = one.communicate(timeout=timeout)
            assert out == "done\n", err[-2000:]
    finally:
        for one in made:
            one.kill()
            one.wait()


@pytest.mark.parametrize("rounds", times(25, 100))
@pytest.mark.timeout(600)
def test_processes_lose_nothing(etcd: Etcd, rounds: int) -> None:
    finish(counters(etcd.url, 8, rounds), 500)
    total = b"%d" % (8 * rounds)
    assert users(etcd) == {"count": total, "added": total}


@pytest.mark.parametrize("rounds", times(60, 300))
@pytest.mark.timeout(600)
def test_l19_cuts_at_any_time(etcd: Etcd, new_proxy: Make, rounds: int) -> None:
    """All connections are cut again and again while processes count."""
    proxy = new_proxy(etcd.nodes[0])
    made = counters(url(proxy), 4, rounds, timeout_ms=10000)
    cuts = 0
    while any(one.poll() is None for one in made):
        seen = proxy.down.bytes
        until(lambda: proxy.down.bytes > seen + random.randrange(20000) or all(one.poll() is not None for one in made), timeout=60)
        proxy.cut(reset=cuts % 2 == 0)
        cuts += 1
    finish(made, 60)
    total = b"%d" % (4 * rounds)
    assert users(etcd) == {"count": total, "added": total}
    tell(done=1, fired=cuts)
    assert cuts > rounds // 20


@pytest.mark.parametrize("changes", times(2, 4))
@pytest.mark.timeout(600)
def test_l22_the_sum_is_exact_whoever_leads(new_etcd: Make, changes: int) -> None:
    """The leader is killed or stopped while processes count: no outcome is unknown, nothing is counted twice."""
    etcd = new_etcd(3)
    made = counters(etcd.url, 4, 60 * changes, timeout_ms=10000)
    for change in range(changes):
        seen = int(until(lambda: value(etcd, "count"), timeout=60))
        until(lambda: int(value(etcd, "count") or 0) > seen + 10, timeout=60)
        leader = etcd.leader()
        getattr(leader, ("kill", "pause")[change % 2])()
        until(lambda: any(node.revision() for node in etcd.nodes if node is not leader), timeout=60)
        leader.start() if change % 2 == 0 else leader.resume()
        assert etcd.is_up(60)
    finish(made, 300)
    total = b"%d" % (4 * 60 * changes)
    assert users(etcd) == {"count": total, "added": total}
    tell(done=changes, fired=changes)


# ---- lost on the way


class Lost:
    """The next commit is lost: its request before the server gets it, or its answer when the server has done it."""

    def __init__(self, proxy: Proxy, etcd: Etcd, what: str) -> None:
        self.etcd, self.what, self.link, self.over = etcd, what, None, threading.Event()
        self.refuse = proxy.refuse
        proxy.up.on(DONE, call=self.request, times=1)
        proxy.down.on(b"", call=self.answer, times=None)

    def request(self, link: Any, _data: bytes) -> None:
        self.refuse()
        self.link, self.before = link, self.etcd.revision()
        if self.what == "request":
            link.cut()
            self.over.set()

    def answer(self, link: Any, _data: bytes) -> None:
        if link is self.link and not self.over.is_set():
            until(lambda: self.etcd.revision() > self.before)
            link.cut()
            self.over.set()


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.timeout(300)
def test_l19_a_cut_at_every_message(etcd: Etcd, new_proxy: Make, agent: Agent, way: str) -> None:
    """Requests (up) or answers (down) are lost at the nth message, for every n: each round is done once, and each says so."""
    for n in range(1, 1000):
        etcd.clear()
        proxy = new_proxy(etcd.nodes[0])
        nth = Nth(getattr(proxy, way), n)
        client = agent.open(url(proxy), command_timeout_ms=5000)
        txn = client.txn()
        for turn in range(3):
            txn.watch("a").ok
            before = txn.get("a", 9)
            assert (before.status, before.value) == (("OK", f"{turn}".encode().hex()) if turn else ("NOT_FOUND", "")), before
            txn.set("a", f"{turn + 1}", -1).ok
            txn.incr("n", 1).ok
            txn.set("ttl", "x", 60000).ok
            txn.commit().ok
        assert users(etcd) == {"a": b"3", "n": b"3", "ttl": b"x"}
        client.close(5000).ok
        if not nth.fired:
            break
    tell(done=n, fired=n - 1)
    assert n > 8


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_others_write_before_the_outcome_is_known(etcd: Etcd, new_proxy: Make, agent: Agent, lost: str) -> None:
    """The commit was done: its writes are not repeated. It was not done: what others have changed is a conflict."""
    put(etcd, watched="1", a="1")
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy), command_timeout_ms=5000)
    begun(client, "warm").commit().ok
    for key in ("watched", "a"):  # changed by others meanwhile: what was watched, or what was written
        txn = begun(client, "watched")
        txn.set("a", "mine", -1).ok
        lose = Lost(proxy, etcd, lost)
        commit = txn.start("commit", thread=1)
        assert lose.over.wait(20)
        put(etcd, **{key: "other"})
        proxy.accept()
        status = commit.answer().status
        if lost == "answer":
            assert status == "OK" and value(etcd, "a") == (b"other" if key == "a" else b"mine")
        elif key == "watched":
            assert status == "CONFLICT" and value(etcd, "a") == b"1"
        else:
            assert status == "OK" and value(etcd, "a") == b"mine"
        txn.start("end_txn", thread=1).answer().ok
        put(etcd, watched="1", a="1")


def test_l20_a_commit_that_arrives_late_does_nothing(etcd: Etcd, new_proxy: Make, agent: Agent) -> None:
    """It waits in the network until the caller knows that nothing was written, although all is then as it was."""
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy), command_timeout_ms=700)
    warm = begun(client, "warm")
    warm.set("warm", "x", -1).ok
    warm.commit().ok
    told, answered, over = (threading.Event() for _ in range(3))

    def deliver(link: Any, data: bytes) -> None:
        """The server gets it late, and has time to answer."""
        told.wait(30)
        proxy.down.on("dlock_txn/", call=lambda other, _: other is link and answered.set(), times=None)  # what etcd reads when it refuses
        link.server.sendall(data)
        until(lambda: answered.is_set() or "late" in etcd.keys())
        link.cut()
        over.set()

    txn = begun(client, "absent")
    txn.set("late", "x", -1).ok
    proxy.up.on(DONE, call=deliver, times=1)
    answer = txn.commit()
    assert answer.status == "UNREACHABLE" and "nothing was written" in answer.message, answer
    assert [text for text in markers(etcd) if text.endswith(b"undone")]
    told.set()
    assert over.wait(30)
    assert sorted(users(etcd)) == ["warm"]
    again = begun(client, "absent")
    again.set("later", "x", -1).ok
    again.commit().ok
    assert sorted(users(etcd)) == ["later", "warm"]


def markers(etcd: Etcd) -> list[bytes]:
    return [base64.b64decode(one["value"]) for one in etcd.found("dlock_txn/")]


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_l21_nobody_answers(etcd: Etcd, new_proxy: Make, agent: Agent, lost: str) -> None:
    """The server cannot be asked in time: the one case with an unknown outcome. The next round is not disturbed by it."""
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy), command_timeout_ms=400)
    for turn in range(2):
        txn = begun(client, "a")
        txn.incr("n", 1).ok
        lose = Lost(proxy, etcd, lost)
        answer = txn.commit()
        assert answer.status == "UNKNOWN_OUTCOME" and "all writes were done or none" in answer.message, answer
        assert lose.over.is_set() and txn.commit().status == "NO_TRANSACTION"
        proxy.accept()
        again = client.txn()
        until(lambda: again.watch("a").status == "OK")
        again.incr("n", 10).ok
        again.commit().ok
        assert value(etcd, "n") == b"%d" % ((turn + 1) * (10 if lost == "request" else 11))


def test_the_marker_is_deleted_by_others(etcd: Etcd, agent: Agent) -> None:
    """An operator deletes it, or revokes its lease: the next commit is done all the same."""
    client = agent.open(etcd)
    txn = client.txn()
    for turn, harm in enumerate((None, "key", "lease", "both", "value")):
        if harm in ("key", "both"):
            etcd.call("kv/deleterange", key=etcd.keys("dlock_txn/")[0])
        if harm in ("lease", "both"):
            etcd.call("lease/revoke", ID=etcd.leases()[0])
        if harm == "value":
            etcd.call("kv/put", key=etcd.keys("dlock_txn/")[0], value="7 done")
        txn.watch("a").ok
        txn.incr("n", 1).ok
        txn.commit().ok
        assert value(etcd, "n") == b"%d" % (turn + 1)


def test_a_lock_finds_first_that_the_lease_is_gone(etcd: Etcd, agent: Agent) -> None:
    """Locks and the marker share a lease. It is revoked, and locks and commits ask at once: each gets another one."""
    client = agent.open(etcd)
    warm = begun(client, "a")
    warm.set("a", "x", -1).ok
    warm.commit().ok
    for turn in range(15):
        locks = [client.lock(f"job{turn}-{number}") for number in range(4)]
        txn = begun(client, "absent")
        txn.incr("n", 1).ok
        (lease,) = etcd.leases()
        etcd.call("lease/revoke", ID=lease)
        asked = [lock.start("acquire", 1, 0, thread=number) for number, lock in enumerate(locks, 2)]
        commit = txn.start("commit", thread=1)
        commit.answer().ok
        for one in asked:
            one.answer().ok
        for lock in locks:
            lock.release(1)
        until(lambda: len(etcd.leases()) == 1)
    assert value(etcd, "n") == b"15"


def test_markers_are_few_and_end_with_the_client(etcd: Etcd, agent: Agent) -> None:
    client = agent.open(etcd)
    for turn in range(20):
        txn = begun(client, "a")
        txn.incr("n", 1).ok
        txn.commit().ok
        txn.end_txn().ok
    assert len(etcd.keys("dlock_txn/")) == 1 and len(etcd.leases()) == 1
    client.close(5000).ok
    until(lambda: etcd.keys("dlock_") == [] and etcd.leases() == [])
    assert value(etcd, "n") == b"20"


# ---- what etcd refuses


@pytest.mark.parametrize("what", ["writes", "watches", "adds", "bytes", "many bytes"])
def test_too_much(etcd: Etcd, client: Client, what: str) -> None:
    """The message says which option of etcd it is, nothing is changed, and the client goes on."""
    with client.transaction_begin("a") as txn:
        if what == "watches":
            for number in range(128):
                txn.watch(f"w{number}")
        for number in range({"writes": 128, "watches": 1, "adds": 128, "bytes": 2, "many bytes": 15}[what]):
            txn.incr(f"k{number}") if what == "adds" else txn.set(f"k{number}", b"x" * (MIB if "bytes" in what else 1))
        with pytest.raises(dlock.ServerError, match="nothing was written.*--max-" + ("request-bytes" if "bytes" in what else "txn-ops")):
            txn.commit()
        assert users(etcd) == {}
        for number in range(126):
            txn.watch(f"w{number}")
        for number in range(127):
            txn.set(f"k{number}", b"x")
        txn.commit()
        assert len(users(etcd)) == 127


def test_values_that_are_large(etcd: Etcd, client: Client) -> None:
    with client.transaction_begin("a") as txn:
        txn.set("a", b"x" * MIB)
        txn.commit()
        txn.watch("a")
        assert txn.get("a") == b"x" * MIB
        etcd.call("kv/put", key="b", value=b"x" * (MIB + 1))
        txn.watch("b")
        with pytest.raises(dlock.ProtocolError):
            txn.get("b")
        with pytest.raises(dlock.NoTransaction):
            txn.commit()


def test_l23_what_fills_the_space_is_refused_and_done(new_etcd: Make) -> None:
    """etcd refuses what fills its space, after it has done it. Who is told that nothing was written has written nothing."""
    etcd = new_etcd("--quota-backend-bytes", str(12 << 20))
    clients = [Client(etcd.url) for _ in range(8)]
    done: set[str] = set()

    def work(number: int) -> None:
        with clients[number].transaction_begin() as txn:
            for turn in range(100):
                txn.watch("absent")
                txn.set(f"k{number}-{turn}", b"x" * 700000)
                try:
                    txn.commit()
                except dlock.ServerOutOfMemory as error:
                    assert "nothing was written" in error.message
                    return
                done.add(f"k{number}-{turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    found = etcd.call("kv/range", key="k", range_end="l", keys_only=True)["kvs"]
    assert {base64.b64decode(one["key"]).decode() for one in found} == done
    for client in clients:
        client.close()


def test_no_space(new_etcd: Make, agent: Agent) -> None:
    etcd = new_etcd("--quota-backend-bytes", "1048576")
    client = agent.open(etcd)
    begun(client, "a").commit().ok
    with pytest.raises(RuntimeError, match="space"):
        for number in range(100):
            put(etcd, **{f"k{number}": "x" * 100000})
    txn = begun(client, "a")
    txn.set("a", "x", -1).ok
    answer = txn.commit()
    assert answer.status == "SERVER_OUT_OF_MEMORY" and "nothing was written" in answer.message, answer
    assert value(etcd, "a") is None


def test_users(new_etcd: Make, agent: Agent) -> None:
    """The user may use its own keys only; the server forgets all tokens in the middle of rounds, and no call fails."""
    etcd = new_etcd(*CHEAP)
    enable(etcd, stock="stocl")
    client = agent.open(etcd, **LOCKS)
    txn = client.txn()
    for turn in range(3):
        txn.watch("stock").ok
        forget(etcd)
        txn.get("stock2", 9)
        txn.incr("stock", 1).ok
        forget(etcd)
        txn.commit().ok
        assert value(etcd, "stock") == b"%d" % (turn + 1)
    assert txn.watch("other").status == "DENIED"
    txn.watch("stock").ok
    assert txn.get("other", 9).status == "DENIED"
    txn.set("other", "x", -1).ok
    answer = txn.commit()
    assert answer.status == "DENIED" and "nothing was written" in answer.message
    assert client.counters()["connects"] == 1 and etcd.received("Authenticate") >= 1 + 6


@pytest.mark.parametrize("failing", ["watch", "get", "set", "commit"])
def test_no_memory(etcd: Etcd, new_agent: Make, failing: str) -> None:
    """The nth allocation fails, for every n: the step says so, or it is done all the same, and the client goes on."""
    agent: Agent = new_agent(shim=True)
    put(etcd, big="v" * 60000)
    client = agent.open(etcd)
    warm = begun(client, "a")
    warm.incr("warm", 1).ok
    warm.commit().ok
    seen: dict[str, int] = {}
    for k in range(1, 200):
        etcd.call("kv/deleterange", key="a")
        txn = client.txn()
        steps = {
            "watch": lambda: txn.watch("a"), "get": lambda: txn.get("big", 1 << 16), "set": lambda: txn.set("a", b"x" * 8000, 60000),
            "commit": lambda: txn.commit(),
        }  # fmt: skip
        answers = {}
        for name, step in steps.items():
            if name == failing:
                agent("shim", "alloc", k, 0)
            answers[name] = step()
            if name == "watch" != failing and answers[name].status == "UNREACHABLE":  # the connection of the last turn was given up
                answers[name] = step()
        status = answers[failing].status
        seen[status] = seen.get(status, 0) + 1
        assert status in ("OK", "OUT_OF_MEMORY", "UNREACHABLE", "PROTOCOL_ERROR"), answers[failing]
        assert (value(etcd, "a") is not None) == (answers["set"].status == answers["commit"].status == "OK"), answers
        txn.end_txn().ok
        if not answers[failing].fired:
            break
    assert seen["OK"] and seen.get("OUT_OF_MEMORY"), seen


# ---- the end


def test_close_in_the_middle(etcd: Etcd, new_proxy: Make, agent: Agent) -> None:
    proxy = new_proxy(etcd.nodes[0])
    client = agent.open(url(proxy))
    txn, idle = begun(client, "a"), begun(client, "a")
    txn.set("b", "x", -1).ok
    gate = proxy.up.pause_at(DONE)
    commit = txn.start("commit", thread=1)
    gate.wait()
    client.close(0)
    assert commit.answer().status in ("UNKNOWN_OUTCOME", "CLOSED")
    gate.open()
    for command, *words in ("watch", "a"), ("get", "a", 9), ("set", "a", "x", -1), ("commit",), ("rollback",):
        assert getattr(idle, command)(*words).status == "CLOSED"
    txn.start("end_txn", thread=1).answer().ok
    idle.end_txn().ok


def test_a_child_of_a_fork_has_no_part_in_it(etcd: Etcd, client: Client) -> None:
    txn = client.transaction_begin("a")
    txn.set("a", b"mine")
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            with client.transaction_begin("a") as own:
                own.set("child", b"x")
                own.commit()
            ok = True
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    txn.commit()
    assert users(etcd) == {"a": b"mine", "child": b"x"}
