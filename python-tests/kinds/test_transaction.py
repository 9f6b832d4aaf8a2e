"""Optimistic transactions: what is read and written together, conflicts, lost connections, refusals, and the retry helper."""
from __future__ import annotations

import contextlib
import ctypes
import os
import random
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterator

import pytest

from harness.agent import Agent, Answer, Handle, until
from harness.build import LIBRARY, ROOT
from harness.fake import FakeServer
from harness.faults import SLACK_MS
from harness.proxy import Proxy
from harness.server import Server
from harness.watch import Monitor

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Client, DlockError, Transaction, _abi, _lib, transaction

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

SECRET = "s3cret-canary"
MIB = 1 << 20
SPARES = 8  # idle connections that a client keeps
EXEC = b"$4\r\nEXEC\r\n"
MULTI = b"$5\r\nMULTI\r\n"
Make = Callable[..., Any]


@pytest.fixture(name="redis_server")
def without_links(redis_server: Server) -> Server:
    """Leftovers of an earlier test, for example in a traceback, are not counted here."""
    for link in links(redis_server):
        redis_server.command("CLIENT", "KILL", "ID", link["id"])
    return redis_server


@pytest.fixture
def client(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


def error_of(name: str) -> Any:
    """pytest.raises for the exception class of a status, by its name."""
    return pytest.raises(getattr(dlock, name))


def links(server: Server) -> list[dict[str, str]]:
    """The connections of libdlock in CLIENT LIST."""
    rows = server.command("CLIENT", "LIST").decode().splitlines()
    found = [dict(word.partition("=")[::2] for word in row.split()) for row in rows]
    return [link for link in found if link["name"].startswith("dlock")]


def watching(server: Server, key: str | bytes) -> int:
    """How many connections watch a key: it is changed, which marks them."""
    server.command("EXISTS", key) and server.command("DEL", key)
    server.command("SET", key, "touched")
    return sum("d" in link["flags"] for link in links(server))


def begun(where: Any, agent: Agent, *keys: str, **options: Any) -> Handle:
    """A transaction that watches keys."""
    txn = agent.open(where, **options).txn()
    for key in keys:
        txn.watch(key).ok
    return txn


# ---- what a transaction does


def test_read_and_write(client: Client, redis_server: Server) -> None:
    redis_server.command("MSET", "a", 1, "gone", 2, "n", 40)
    with client.transaction_begin("a", "gone", "n") as txn:
        assert (txn.get("a"), txn.get("none")) == (b"1", None)
        txn.set("a", b"one")
        txn.set("new", b"")
        txn.delete("gone")
        txn.delete("never there")
        txn.incr("n", 2)
        txn.incr("m", -7)
        assert redis_server.command("MGET", "a", "gone", "n") == [b"1", b"2", b"40"]  # nothing before the commit
        txn.commit()
    assert redis_server.command("MGET", "a", "new", "gone", "n", "m") == [b"one", b"", None, b"42", b"-7"]


def test_writes_are_done_in_their_order(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("a") as txn:
        for value in b"1", b"2":
            txn.set("a", value)
        txn.incr("a", 2**63 - 3)
        txn.incr("b", -(2**63))
        txn.commit()
    assert redis_server.command("MGET", "a", "b") == [b"%d" % (2**63 - 1), b"-%d" % 2**63]


def test_time_to_live(client: Client, redis_server: Server) -> None:
    redis_server.command("SET", "b", 1, "PX", 100_000)
    with client.transaction_begin("a") as txn:
        txn.set("a", b"x", ttl=50.5)
        txn.set("b", b"x")
        txn.set("c", b"x", ttl=2**33)
        txn.commit()
    assert 0 < redis_server.command("PTTL", "a") <= 50_500
    assert redis_server.command("PTTL", "b") == -1
    assert redis_server.command("PTTL", "c") > 2**33
    with client.transaction_begin("a") as txn, error_of("InvalidArgument"):
        txn.set("a", b"x", ttl=0)


@pytest.mark.parametrize(
    "change", ["SET a 1", "SET a 0", "DEL a", "APPEND a x", "EXPIRE a 100", "FLUSHALL", "SET b 1"]
)
def test_a_change_is_a_conflict(client: Client, redis_server: Server, change: str) -> None:
    redis_server.command("SET", "a", 0)
    with client.transaction_begin("a", "b") as txn:  # b does not exist
        assert (txn.get("a"), txn.get("b")) == (b"0", None)
        redis_server.command(*change.split())
        txn.set("a", b"mine")
        txn.incr("c")
        before = redis_server.command("MGET", "a", "b", "c")
        with error_of("Conflict") as caught:
            txn.commit()
        assert caught.value.retryable and redis_server.url.partition("//")[2] in caught.value.message
        assert redis_server.command("MGET", "a", "b", "c") == before


def test_what_others_do_elsewhere_is_none(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("a") as txn:
        redis_server.command("SET", "b", 1)
        redis_server.command("GET", "a")
        txn.set("a", b"mine")
        txn.commit()


def test_a_key_that_expires_has_changed(client: Client, redis_server: Server) -> None:
    redis_server.command("SET", "a", 1, "PX", 30)
    with client.transaction_begin("a") as txn:
        until(lambda: redis_server.command("EXISTS", "a") == 0)
        txn.set("b", b"x")
        with error_of("Conflict"):
            txn.commit()


def test_a_commit_without_writes_says_whether_what_was_read_holds(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("a") as txn:
        txn.commit()
        txn.watch("a")
        redis_server.command("SET", "a", 1)
        with error_of("Conflict"):
            txn.commit()


def test_one_connection_serves_one_round_after_the_other(client: Client, redis_server: Server) -> None:
    with client.transaction_begin() as txn:
        assert links(redis_server) == []  # nothing was sent
        for turn in range(5):
            txn.watch("a")
            txn.incr("a")
            if turn % 2:
                redis_server.command("INCR", "a")
            with contextlib.suppress(dlock.Conflict):
                txn.commit()
            txn.watch("b")
            txn.rollback()
        assert len(links(redis_server)) == client.stats()["connects"] == 1
    assert redis_server.command("GET", "a") == b"5"  # three by it, two by the other
    assert client.stats()["commands"] == 5 * (1 + 3 + 1 + 1)


def test_reads_come_before_writes(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("a") as txn:
        txn.set("a", b"x")
        for call in (lambda: txn.get("a")), (lambda: txn.watch("b")):
            with pytest.raises(ValueError, match="before the first write") as caught:
                call()
            assert isinstance(caught.value, dlock.InvalidArgument)
        txn.commit()  # that did not end the round
    assert redis_server.command("GET", "a") == b"x"


def test_nobody_waits_for_a_transaction(client: Client, redis_server: Server) -> None:
    """Two of them on one key at once, and locks on the same names: the first to commit wins."""
    with client.transaction_begin("a") as first, client.transaction_begin("a") as second, client.lock("a2"):
        for txn in first, second:
            assert txn.get("a") is None
            txn.set("a", b"x")
        second.commit()
        with error_of("Conflict"):
            first.commit()


def test_rollback(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("a") as txn:
        assert watching(redis_server, "a") == 1
        txn.set("a", b"mine")
        txn.rollback()
        assert watching(redis_server, "a") == 0  # the server was told
        txn.rollback()
        with error_of("NoTransaction"):
            txn.commit()
        txn.watch("a")
        assert txn.get("a") == b"touched"
        txn.commit()  # queued writes are gone
    assert redis_server.command("GET", "a") == b"touched"


@pytest.mark.parametrize("how", ["end", "exception", "close", "forgotten"])
def test_what_is_not_committed_is_rolled_back(client: Client, redis_server: Server, how: str) -> None:
    txn = client.transaction_begin("a")
    txn.set("a", b"mine")
    if how == "exception":
        with pytest.raises(ZeroDivisionError), txn:
            1 / 0
    elif how == "end":
        with txn:
            pass
    elif how == "close":
        txn.close()
    else:
        del txn
    until(lambda: watching(redis_server, "a") == 0)
    assert redis_server.command("GET", "a") == b"touched"


def test_use_after_close(client: Client) -> None:
    txn = client.transaction_begin("a")
    txn.close()
    txn.close()
    for call in (
        lambda: txn.watch("a"), lambda: txn.get("a"), lambda: txn.set("a", b""), lambda: txn.incr("a"), lambda: txn.delete("a"),
        txn.commit, txn.rollback,
    ):  # fmt: skip
        with error_of("Closed"):
            call()


# ---- keys and values


@pytest.mark.parametrize("key", [b"\0", b"a\0b", b"\r\n", b"$3\r\nSET\r\n", b"\xff" * 9, b"{x}", b" ", b"k" * 65536, "schlüssel"])
def test_keys_may_be_any_bytes(client: Client, redis_server: Server, key: bytes | str) -> None:
    raw = key.encode() if isinstance(key, str) else key
    redis_server.command("SET", raw, b"before")
    with client.transaction_begin(key) as txn:
        assert txn.get(key) == b"before"
        txn.set(key, raw)
        txn.delete(b"x" + raw[1:])
        txn.incr(raw[:-1] + b"n")
        txn.commit()
        assert redis_server.command("GET", raw) == raw and redis_server.command("GET", raw[:-1] + b"n") == b"1"
        txn.watch(bytearray(raw))  # type: ignore[arg-type]  # any object with a buffer
        assert watching(redis_server, raw) == 1


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 16 * 1024, 16 * 1024 + 1, MIB - 1, MIB])
def test_values_of_any_size(client: Client, redis_server: Server, size: int) -> None:
    value = random.Random(size).randbytes(size)
    with client.transaction_begin("a") as txn:
        txn.set("a", value)
        txn.commit()
        assert redis_server.command("GET", "a") == value
        txn.watch("a")
        assert txn.get("a") == value


def test_values_that_are_too_large(client: Client, redis_server: Server) -> None:
    redis_server.command("SET", "large", b"x" * (MIB + 1))
    with client.transaction_begin("a") as txn:
        with error_of("InvalidArgument"):
            txn.set("a", b"x" * (MIB + 1))
        txn.set("a", b"small")
        txn.commit()
        txn.watch("large")
        with error_of("ProtocolError"):
            txn.get("large")
        with error_of("NoTransaction"):  # that ended the round
            txn.commit()
        txn.watch("a")
        assert txn.get("a") == b"small"


def test_limits_of_one_round(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("n") as txn:
        for _ in range(4096):
            txn.incr("n")
        with pytest.raises(dlock.InvalidArgument, match="4096"):
            txn.incr("n")
        txn.commit()
        assert redis_server.command("GET", "n") == b"4096"
        txn.watch("v")
        for number in range(15):
            txn.set(f"v{number}", b"x" * MIB)
        with error_of("InvalidArgument"):
            txn.set("v16", b"x" * MIB)
        txn.commit()
        assert redis_server.command("DBSIZE") == 16
        txn.watch("v0")
        assert txn.get("v0") == b"x" * MIB  # and there is room again


def test_bad_arguments(client: Client) -> None:
    with client.transaction_begin("a") as txn:
        for key in "", b"", b"k" * 65537:
            for call in txn.watch, txn.get, txn.incr, txn.delete:
                with error_of("InvalidArgument"):
                    call(key)  # type: ignore[operator]
        for bad in 17, None, 1.5:
            with pytest.raises(TypeError):
                txn.get(bad)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                txn.set("a", bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            txn.set("a", "text")  # type: ignore[arg-type]
        for by in 2**63, -(2**63) - 1:
            with error_of("InvalidArgument"):
                txn.incr("a", by)
        txn.set("a", memoryview(b"abc"))  # type: ignore[arg-type]
        txn.commit()  # none of this ended the round


def test_bad_arguments_of_the_abi(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    txn = client.txn()
    txn.watch("a").ok
    for command, *words in (
        ("watch", ""), ("get", "", 9), ("set", "", "v", -1), ("set", "a", "v", 0), ("set", "a", "v", -2),
        ("set", "a", "v", (1 << 53) + 1), ("incr", "", 1), ("delete", ""),
    ):  # fmt: skip
        assert agent(command, txn.index, *words).status == "INVALID_ARGUMENT"
    for command, *words in (
        ("watch", "a"), ("get", "a", 9), ("set", "a", "v", -1), ("incr", "a", 1), ("delete", "a"), ("commit",), ("rollback",),
        ("txn",),
    ):  # fmt: skip
        answer = agent(command, "-", *words)
        assert answer.status == "INVALID_ARGUMENT" and answer.message.startswith(("no transaction", "a transaction needs"))
    txn.commit().ok
    agent("end_txn", "-").ok
    assert redis_server.command("DBSIZE") == 0


def test_buffers_of_the_abi(agent: Agent, redis_server: Server) -> None:
    redis_server.command("MSET", "a", "12345", "empty", "")
    txn = begun(redis_server, agent, "a")
    for room in 0, 1, 4:
        answer = txn.get("a", room)
        assert (answer.status, answer.size) == ("BUFFER_TOO_SMALL", 5) and "5 bytes" in answer.message
    for room in 5, 100:
        answer = txn.get("a", room).ok
        assert (answer.size, bytes.fromhex(answer.value)) == (5, b"12345")
    assert txn.get("empty", 0).ok.size == 0
    answer = txn.get("none", 9)
    assert (answer.status, answer.size) == ("NOT_FOUND", 0)  # unchanged
    txn.commit().ok
    lib = _lib.library()
    with Client(redis_server.url) as client, client.transaction_begin("a") as other:
        size = ctypes.c_size_t()
        assert lib.dlock_txn_get(other._live(), b"a", 1, None, 0, size, None) == _abi.DLOCK_BUFFER_TOO_SMALL and size.value == 5
        assert lib.dlock_txn_get(other._live(), b"a", 1, None, 1, size, None) == _abi.DLOCK_INVALID_ARGUMENT
        assert lib.dlock_txn_get(other._live(), b"empty", 5, None, 0, None, None) == _abi.DLOCK_OK
        assert lib.dlock_txn_set(other._live(), b"a", 1, None, 0, -1, None) == _abi.DLOCK_OK
        assert lib.dlock_txn_set(other._live(), b"a", 1, None, 1, -1, None) == _abi.DLOCK_INVALID_ARGUMENT


# ---- many at once

COUNT = """
import sys, dlock, time
from dlock import transaction
conflicts, rounds = 0, int(sys.argv[2])

def add(txn):
    global runs
    runs += 1
    number = int(txn.get("count") or 0)
    time.sleep(0.0005)
    txn.set("count", b"%d" % (number + 1))

runs = 0
with dlock.Client(sys.argv[1]) as client:
    client.ping()
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(rounds):
        client.transaction(add, "count", attempts=None)
print(runs - rounds)
"""


def test_processes_lose_nothing(redis_server: Server) -> None:
    processes, rounds = 8, 20
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")}
    command = [sys.executable, "-c", COUNT, redis_server.url, str(rounds)]
    programs = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for program in programs:
            assert program.stdout and program.stdout.readline() == "ready\n"
        for program in programs:
            assert program.stdin
            program.stdin.write("\n")
            program.stdin.flush()
        conflicts = [int(program.communicate(timeout=50)[0]) for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert redis_server.command("GET", "count") == b"%d" % (processes * rounds)
    assert sum(conflicts) > 0


def test_threads_lose_nothing(client: Client, redis_server: Server) -> None:
    """Two keys that stay equal, and one that is only written. Before the commit a body may see a mix of two states."""
    threads, rounds = 8, 25
    runs: list[int] = []
    mixed: list[Transaction] = []

    def move(txn: Transaction) -> None:
        runs.append(1)
        left, right = int(txn.get("left") or 0), int(txn.get("right") or 0)
        time.sleep(0)
        txn.set("left", b"%d" % (left + 1))
        txn.set("right", b"%d" % (right + 1))
        if left != right:
            mixed.append(txn)
            txn.set("mixed", b"written")
        txn.incr("both", 2)

    def work() -> None:
        for _ in range(rounds):
            client.transaction(move, "left", "right", attempts=None)

    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=guarded) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(50)
    assert not errors
    total = threads * rounds
    assert redis_server.command("MGET", "left", "right", "both") == [b"%d" % total, b"%d" % total, b"%d" % (2 * total)]
    assert len(runs) > total  # there were conflicts
    assert redis_server.command("GET", "mixed") is None, f"{len(mixed)} mixed views, one was committed"
    assert client.stats()["connects"] <= threads + 2, "connections serve again"


# ---- connections


def test_no_connection_stays(redis_server: Server) -> None:
    assert links(redis_server) == []
    with Client(redis_server.url) as client:
        for _ in range(20):
            client.transaction(lambda txn: txn.incr("n"), "n")
        assert len(links(redis_server)) == 1
        many = [client.transaction_begin("n") for _ in range(9)]  # as many as connects_per_second allows
        assert len(links(redis_server)) == 9 and watching(redis_server, "n") == 9
        for txn in many:
            txn.close()
        until(lambda: len(links(redis_server)) == SPARES)
        assert watching(redis_server, "n") == 0
        held = client.transaction_begin("n")
    until(lambda: len(links(redis_server)) <= 1)  # close() closes the idle ones
    with error_of("Closed"):
        held.get("n")
    until(lambda: links(redis_server) == [])


@pytest.mark.parametrize("end", ["end_txn", "client close", "client free"])
def test_the_end_of_a_watched_connection(agent: Agent, redis_server: Server, end: str) -> None:
    client = agent.open(redis_server)
    txn = client.txn()
    txn.watch("a").ok
    assert watching(redis_server, "a") == 1
    if end == "client close":
        client.close(1000).ok
    elif end == "client free":
        client.free()
    if end != "end_txn":
        assert txn.set("a", "x", -1).status == "CLOSED"
        until(lambda: links(redis_server) == [])
        for command, *words in ("watch", "a"), ("get", "a", 9), ("commit",), ("rollback",):
            answer = agent(command, txn.index, *words)
            assert answer.status == "CLOSED" and "127.0.0.1:" in answer.message
    txn.end_txn()
    until(lambda: links(redis_server) == [])
    if end != "client free":
        client.free()
    until(lambda: not agent.threads())


@pytest.mark.parametrize("form", ["blocking", "submitted"])
def test_rounds_of_any_handle_share_connections(agent: Agent, redis_server: Server, form: str) -> None:
    """More handles, one after the other, than connections may be made in that time; and more rounds at once than are kept."""
    client = agent.open(redis_server)
    tags = iter(range(1000))

    def call(txn: Handle, command: str, *words: Any) -> None:
        if form == "blocking":
            return agent(command, txn.index, *words).ok and None
        txn.submit_txn(command, tag := next(tags), *words).ok
        event = client.event()
        assert (event.tag, event.status) == (tag, 0), event

    for number in range(40):
        txn = client.txn()
        call(txn, "watch", "a")
        txn.incr("n", 1).ok
        call(txn, "commit" if number % 2 else "rollback")
        if number % 3:
            txn.end_txn()  # the others live on, and do not need this connection
    assert redis_server.command("GET", "n") == b"20" and len(links(redis_server)) == 1
    assert client.counters()["connects"] == 1
    many = [client.txn() for _ in range(SPARES + 1)]
    for txn in many:
        call(txn, "watch", "a")
    assert watching(redis_server, "a") == SPARES + 1
    for txn in many:
        call(txn, "rollback")
    assert len(links(redis_server)) == SPARES + 1  # the last one keeps its own
    many[-1].end_txn()
    until(lambda: len(links(redis_server)) == SPARES)
    client.close(5000).ok
    until(lambda: links(redis_server) == [])


def test_a_connection_in_a_round_is_nobody_elses(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    first, second = client.txn(), client.txn()
    first.watch("a").ok
    second.watch("b").ok
    assert len(links(redis_server)) == 2
    redis_server.command("SET", "a", "meanwhile")
    second.incr("n", 1).ok
    second.commit().ok
    first.incr("n", 1).ok
    assert first.commit().status == "CONFLICT"
    third = client.txn()
    third.watch("c").ok
    first.end_txn(), second.end_txn()
    third.incr("n", 1).ok
    third.commit().ok
    assert redis_server.command("GET", "n") == b"2" and len(links(redis_server)) == 2


def test_any_trouble_closes_the_connection(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """Requests without a reply: the server forgets the watched keys as well."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, command_timeout_ms=100, connects_per_second=1000)
    txn = client.txn()
    for marker, calls, status in (
        ("WATCH", [("watch", "a")], "UNREACHABLE"), ("later", [("watch", "later")], "UNREACHABLE"),
        ("GET", [("get", "a", 9)], "UNREACHABLE"), (MULTI, [("commit",)], "UNREACHABLE"), (EXEC, [("commit",)], "UNKNOWN_OUTCOME"),
        ("UNWATCH", [("rollback",)], "OK"),
    ):  # fmt: skip
        if marker != "WATCH":
            txn.watch("a").ok
        gate = proxy.up.pause_at(marker)
        for command, *words in calls:
            answer = agent(command, txn.index, *words)
            assert answer.status == status, (marker, answer)
            assert answer.took < 200_000 + SLACK_MS * 1000
        gate.wait(0)
        proxy.cut()  # the data at the gate goes no further
        until(lambda: links(redis_server) == [])
        assert txn.commit().status == "NO_TRANSACTION"
    assert redis_server.command("DBSIZE") == 0


def test_an_idle_connection_that_was_closed_is_made_anew(client: Client, redis_server: Server) -> None:
    with client.transaction_begin("a") as txn:
        txn.commit()
        for pause in 0.0, 1.1:  # a younger one is used without a check
            time.sleep(pause)
            redis_server.command("CLIENT", "KILL", "ID", links(redis_server)[0]["id"])
            txn.watch("a")
            txn.incr("a")
            txn.commit()
    assert redis_server.command("GET", "a") == b"2"


def test_a_connection_that_is_closed_in_a_round_ends_it(client: Client, redis_server: Server) -> None:
    with client.transaction_begin() as txn:
        for call in (lambda: txn.get("a")), (lambda: txn.watch("b")), txn.commit:
            txn.watch("a")
            if call == txn.commit:
                txn.set("a", b"x")
            redis_server.command("CLIENT", "KILL", "ID", links(redis_server)[0]["id"])
            with error_of("Unreachable"):
                call()
            with error_of("NoTransaction"):
                txn.commit()
    assert redis_server.command("DBSIZE") == 0


def test_the_connect_budget(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, connects_per_second=1, connect_timeout_ms=300)
    first, second = client.txn(), client.txn()
    first.watch("a").ok
    answer = second.watch("a")
    assert answer.status == "UNREACHABLE" and "connects_per_second" in answer.message
    assert answer.took < 300_000 + SLACK_MS * 1000
    patient = agent.open(redis_server, connects_per_second=1)
    first, second = patient.txn(), patient.txn()
    first.watch("a").ok
    assert second.watch("a").ok.took > 500_000
    assert patient.counters()["connects"] == 2


def test_unreachable_servers(agent: Agent) -> None:
    for url in "redis://127.0.0.1:1", "redis+unix:///nowhere", "redis://name.invalid:1":
        txn = agent.open(url, connect_timeout_ms=500).txn()
        for _ in range(2):
            answer = txn.watch("a")
            assert answer.status == "UNREACHABLE" and answer.retryable and "key 'a'" in answer.message
            assert answer.took < 500_000 + SLACK_MS * 1000
        assert txn.commit().status == "NO_TRANSACTION"


@pytest.mark.parametrize("unix", [False, True])
def test_urls_databases_and_passwords(new_server: Make, unix: bool) -> None:
    server: Server = new_server("--requirepass", SECRET)
    server.client().command("AUTH", SECRET)
    url = f"redis+unix://:{SECRET}@{server.path}?db=3" if unix else f"redis://:{SECRET}@{server.host}:{server.port}/3"
    with Client(url) as client:
        client.transaction(lambda txn: txn.set("a", b"x"), "a")
        with server.client() as redis:
            assert redis.pipeline(["AUTH", SECRET], ["SELECT", 3], ["GET", "a"])[2] == b"x"
    with Client(url.replace(SECRET, "wrong" + SECRET)) as client:
        for _ in range(2):
            with error_of("Denied") as caught:
                client.transaction(lambda txn: None, "a")
            assert SECRET not in caught.value.message


# ---- EXEC without an answer


def test_the_reply_to_exec_is_lost(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    proxy: Proxy = new_proxy(redis_server)
    txn = begun(proxy, agent, "a")
    txn.set("a", "x", -1).ok
    proxy.lose_reply(EXEC)
    answer = txn.commit()
    assert proxy.down.fired["cut"] == 1
    assert answer.status == "UNKNOWN_OUTCOME" and not answer.retryable and "EXEC" in answer.message
    assert redis_server.command("GET", "a") == b"x"
    assert txn.commit().status == "NO_TRANSACTION"
    txn.watch("a").ok
    assert bytes.fromhex(txn.get("a", 9).ok.value) == b"x"


def test_exec_never_arrives(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    proxy: Proxy = new_proxy(redis_server)
    txn = begun(proxy, agent, "a")
    txn.set("a", "x", -1).ok
    cut = proxy.up.cut_at(EXEC)
    assert txn.commit().status == "UNKNOWN_OUTCOME"
    assert cut.count == 1 and redis_server.command("GET", "a") is None
    until(lambda: links(redis_server) == [])


def test_exec_arrives_after_the_answer_was_given_up(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    """The reason for UNKNOWN_OUTCOME: the writes may still be done."""
    proxy: Proxy = new_proxy(redis_server)
    txn = begun(proxy, agent, "a", command_timeout_ms=100)
    txn.set("a", "x", -1).ok
    gate = proxy.up.pause_at(EXEC)
    answer = txn.commit()
    gate.wait(0)
    assert answer.status == "UNKNOWN_OUTCOME" and answer.took < 200_000 + SLACK_MS * 1000
    assert redis_server.command("GET", "a") is None
    gate.open()
    until(lambda: redis_server.command("GET", "a") == b"x")


def test_the_server_is_killed_in_the_middle_of_exec(agent: Agent, new_server: Make, new_proxy: Make) -> None:
    server: Server = new_server()
    proxy: Proxy = new_proxy(server)
    txn = begun(proxy, agent, "a")
    txn.set("a", "x", -1).ok
    gate = proxy.up.pause_at(EXEC)
    wait = txn.start("commit", thread=1)
    gate.wait()
    server.kill()
    gate.open()
    answer = wait.answer()
    assert answer.status == "UNKNOWN_OUTCOME" and f"{proxy.host}:{proxy.port}" in answer.message
    server.restart()
    txn.watch("a").ok
    assert txn.get("a", 9).status == "NOT_FOUND"


def test_a_server_that_stops_before_multi_writes_nothing(agent: Agent, new_server: Make) -> None:
    server: Server = new_server()
    txn = begun(server, agent, "a", command_timeout_ms=100)
    txn.set("a", "x", -1).ok
    server.pause()
    answer = txn.commit()
    server.resume()
    assert answer.status == "UNREACHABLE"
    until(lambda: links(server) == [])
    assert server.command("GET", "a") is None


def test_a_commit_that_is_not_sent_as_a_whole_writes_nothing(redis_server: Server, new_proxy: Make) -> None:
    proxy: Proxy = new_proxy(redis_server)
    with Client(proxy.url, command_timeout_ms=300) as client, client.transaction_begin("a") as txn:
        for number in range(15):
            txn.set(f"k{number}", bytes(MIB))
        gate = proxy.up.pause_at(b"$2\r\nk0\r\n")  # nobody reads on: the kernel buffers some of it
        with error_of("Unreachable") as caught:
            txn.commit()
        gate.wait(0)
        assert "nothing was written" in caught.value.message
        before = proxy.up.bytes
        gate.open()
        until(lambda: proxy.up.bytes > before)  # the buffered part goes on
        proxy.cut()
        until(lambda: links(redis_server) == [])
    assert redis_server.command("DBSIZE") == 0


@pytest.mark.parametrize("reset", [False, True])
def test_cuts_anywhere(agent: Agent, redis_server: Server, new_proxy: Make, reset: bool) -> None:
    """The connection is cut after so many bytes in either direction: the commit's answer is true."""
    proxy: Proxy = new_proxy(redis_server)
    client = agent.open(proxy, connects_per_second=1000)
    txn, seen = client.txn(), set()
    for way, markers in (
        (proxy.up, ["WATCH", "GET", "MULTI", "SET", "INCRBY", "EXEC"]), (proxy.down, ["+OK", "+QUEUED\r\n+QUEUED", "*2\r\n+OK"]),
    ):  # fmt: skip
        for marker in markers:
            redis_server.command("FLUSHALL")
            answers = []
            cut = way.cut_at(marker, reset=reset)
            for command, *words in ("watch", "a"), ("get", "a", 9), ("set", "a", "1", -1), ("incr", "n", 1), ("commit",):
                answers.append(agent(command, txn.index, *words))
            assert cut.count == 1, marker
            status, written = answers[-1].status, redis_server.command("MGET", "a", "n")
            seen.add(status)
            assert written in ([None, None], [b"1", b"1"])
            assert status != "OK" or written == [b"1", b"1"], marker
            assert status in ("OK", "UNKNOWN_OUTCOME") or written == [None, None], marker
            txn.rollback().ok
    assert seen >= {"UNKNOWN_OUTCOME", "UNREACHABLE", "NO_TRANSACTION"}


# ---- refusals of the server


@pytest.mark.parametrize("command", ["watch", "get", "multi", "set", "exec"])
def test_commands_that_are_not_permitted(agent: Agent, redis_server: Server, command: str) -> None:
    """Above all: without MULTI no command may be executed on its own."""
    redis_server.command("ACL", "SETUSER", "limited", "reset", "on", f">{SECRET}", "~*", "&*", "+@all", f"-{command}")
    txn = agent.open(f"redis://limited:{SECRET}@{redis_server.host}:{redis_server.port}").txn()
    answers = [agent(name, txn.index, *words) for name, *words in
               (("watch", "a"), ("get", "a", 9), ("set", "b", "x", -1), ("incr", "a", 1), ("commit",))]  # fmt: skip
    statuses = dict(zip(("watch", "get", "set", "incr", "commit"), (answer.status for answer in answers)))
    denied = answers[{"watch": 0, "get": 1}.get(command, 4)]
    assert denied.status == "DENIED" and "NOPERM" in denied.message and SECRET not in denied.message
    if command == "watch":
        assert statuses["commit"] == "NO_TRANSACTION"
    elif command == "get":
        assert statuses["commit"] == "OK"  # the round goes on after a refused read
        return
    elif command == "set":
        assert "SET of key 'b'" in denied.message and "nothing was written" in denied.message
    assert redis_server.command("DBSIZE") == 0
    until(lambda: links(redis_server) == [])


def test_keys_that_are_not_permitted(agent: Agent, redis_server: Server) -> None:
    redis_server.command("ACL", "SETUSER", "limited", "reset", "on", f">{SECRET}", "~mine:*", "&*", "+@all")
    txn = agent.open(f"redis://limited:{SECRET}@{redis_server.host}:{redis_server.port}", connects_per_second=1000).txn()
    assert txn.watch("other").status == "DENIED"
    txn.watch("mine:a").ok
    assert txn.get("other", 9).status == "DENIED"
    txn.set("mine:a", "x", -1).ok, txn.set("other", "x", -1).ok
    answer = txn.commit()
    assert answer.status == "DENIED" and "key 'other'" in answer.message
    assert redis_server.command("DBSIZE") == 0


def test_keys_of_another_kind(agent: Agent, redis_server: Server) -> None:
    redis_server.command("RPUSH", "list", 1)
    redis_server.command("MSET", "word", "x", "full", 2**63 - 1)
    txn = begun(redis_server, agent, "list")
    answer = txn.get("list", 9)
    assert answer.status == "WRONG_KIND" and "WRONGTYPE" in answer.message
    txn.set("a", "%", -1).ok  # the round goes on
    txn.commit().ok
    for number, (key, text) in enumerate({"list": "WRONGTYPE", "word": "not an integer", "full": "overflow"}.items()):
        txn.watch("a").ok
        txn.set("before\n", "x", 50_000).ok, txn.incr(key, 1).ok, txn.incr("after", 1).ok
        answer = txn.commit()
        assert answer.status == "SERVER_ERROR" and f"INCRBY of key '{key}' failed" in answer.message and text in answer.message
        assert "other writes of the transaction were done" in answer.message
        assert redis_server.command("GET", "after") == b"%d" % (number + 1)  # Redis does not roll back
        assert redis_server.command("GET", "before\n") == b"x"
    txn.watch("list").ok
    txn.set("list", "x", -1).ok, txn.delete("word").ok
    txn.commit().ok
    assert redis_server.command("MGET", "list", "word") == [b"x", None]


def test_a_full_server(agent: Agent, new_server: Make) -> None:
    server: Server = new_server()
    server.command("MSET", "a", 1, "b", 2)
    txn = begun(server, agent, "a", connects_per_second=1000)
    server.command("CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction")
    txn.delete("b").ok, txn.set("a", "x", -1).ok
    answer = txn.commit()
    assert answer.status == "SERVER_OUT_OF_MEMORY" and answer.retryable and "nothing was written" in answer.message
    assert server.command("MGET", "a", "b") == [b"1", b"2"]
    txn.watch("a").ok
    assert txn.get("a", 9).ok.size == 1
    txn.commit().ok  # it can be read
    txn.watch("a").ok
    txn.set("c", "x", -1).ok
    server.command("CONFIG", "SET", "maxmemory", 0)
    txn.commit().ok


def test_a_server_that_loads(agent: Agent, new_server: Make) -> None:
    server: Server = new_server()
    txn = begun(server, agent, "a")
    server.command("EVAL", "for i = 1, 3000 do redis.call('SET', 'key' .. i, i) end", 0)
    server.command("CONFIG", "SET", "key-load-delay", 2000, "loading-process-events-interval-bytes", 1024)
    with server.client(30) as redis:
        redis.send("DEBUG", "RELOAD")
        until(lambda: txn.get("a", 9).status == "SERVER_LOADING")
        txn.set("a", "x", -1).ok
        answer = txn.commit()
        assert answer.status == "SERVER_LOADING" and answer.retryable
        server.kill()


def test_a_server_in_a_script(agent: Agent, new_server: Make) -> None:
    server: Server = new_server("--busy-reply-threshold", "20")
    txn = begun(server, agent, "a")
    with server.client() as redis:
        redis.send("EVAL", "while true do end", 0)
        until(lambda: txn.get("a", 9).status == "SERVER_BUSY")
        txn.set("a", "x", -1).ok
        answer = txn.commit()
        assert answer.status == "SERVER_BUSY" and answer.retryable and "nothing was written" in answer.message
        with server.client() as other:
            other.command("SCRIPT", "KILL")
    until(lambda: agent("watch", txn.index, "a").status == "OK")
    assert txn.get("a", 9).status == "NOT_FOUND"
    txn.set("a", "x", -1).ok
    txn.commit().ok


def test_a_server_with_too_many_clients(agent: Agent, new_server: Make) -> None:
    server: Server = new_server()
    server.command("CONFIG", "SET", "maxclients", 1)
    assert agent.open(server).txn().watch("a").status == "SERVER_BUSY"


def test_a_replica(agent: Agent, new_server: Make) -> None:
    server: Server = new_server()
    txn = begun(server, agent, "a")
    server.command("REPLICAOF", "127.0.0.1", 1)
    txn.set("a", "x", -1).ok
    answer = txn.commit()
    assert answer.status == "SERVER_READ_ONLY" and "nothing was written" in answer.message


def test_a_server_that_cannot_save(agent: Agent, new_server: Make) -> None:
    """An error without a status of its own: its sentence says that nothing was written."""
    server: Server = new_server("--rename-command", "INCRBY", "")
    txn = begun(server, agent, "a")
    txn.set("a", "x", -1).ok, txn.incr("n", 1).ok
    answer = txn.commit()
    assert answer.status == "SERVER_ERROR" and answer.message.count("nothing was written, INCRBY of key 'n' was refused") == 1
    assert server.command("DBSIZE") == 0


# ---- servers that are not Redis

ODD = [b":1\r\n", b"$-1\r\n", b"*0\r\n", b"*1\r\n+OK\r\n", b"HTTP/1.1 400 Bad\r\n\r\n", b"_\r\n", b"%1\r\n+a\r\n+b\r\n", b"*9999999\r\n"]


def scripted(fake: FakeServer, **replies: bytes) -> None:
    usual = {"WATCH": b"+OK\r\n", "GET": b"$1\r\nx\r\n", "MULTI": b"+OK\r\n", "SET": b"+QUEUED\r\n", "INCRBY": b"+QUEUED\r\n"}
    for command, reply in {**usual, "EXEC": b"*2\r\n+OK\r\n:1\r\n", **replies}.items():
        fake.on(command, reply)


def play(agent: Agent, fake: FakeServer) -> list[Answer]:
    txn = agent.open(fake, connects_per_second=1000).txn()
    said = (("watch", "a"), ("get", "a", 9), ("set", "a", "x", -1), ("incr", "n", 1), ("commit",))
    answers = [agent(name, txn.index, *words) for name, *words in said]
    txn.end_txn()
    return answers


def test_odd_replies(agent: Agent) -> None:
    with FakeServer() as fake:
        for place, (command, status) in enumerate({"WATCH": "PROTOCOL_ERROR", "GET": "PROTOCOL_ERROR", "MULTI": "PROTOCOL_ERROR",
                                                   "INCRBY": "UNKNOWN_OUTCOME", "EXEC": "UNKNOWN_OUTCOME"}.items()):  # fmt: skip
            for reply in [*ODD, b"+OK\r\n"]:
                if (command, reply) in (("WATCH", b"+OK\r\n"), ("MULTI", b"+OK\r\n"), ("GET", b"+OK\r\n")):
                    continue
                scripted(fake, **{command: reply})
                answers = play(agent, fake)
                wanted = status
                if (command, reply) == ("GET", b"$-1\r\n"):
                    wanted = "NOT_FOUND"
                if (command, reply) == ("EXEC", b"$-1\r\n"):
                    wanted = "CONFLICT"
                answer = answers[{"WATCH": 0, "GET": 1}.get(command, 4)]
                assert answer.status == wanted, (command, reply, answer)


def test_fitting_replies_and_more(agent: Agent) -> None:
    with FakeServer() as fake:
        scripted(fake)
        assert [answer.status for answer in play(agent, fake)] == ["OK"] * 5
        for reply, status in (
            (b"*2\r\n+OK\r\n:1\r\n+more\r\n", "OK"),  # the answer counts, the connection is closed
            (b"*2\r\n+OK\r\n-ERR no\r\n", "SERVER_ERROR"), (b"-EXECABORT Transaction discarded because of: OOM no\r\n", "SERVER_OUT_OF_MEMORY"),
            (b"-EXECABORT Transaction discarded because of previous errors.\r\n", "SERVER_ERROR"), (b"-NOPERM no\r\n", "DENIED"),
            (b"-EXECABORT because of: \r\n", "SERVER_ERROR"), (b"*3\r\n+OK\r\n:1\r\n:1\r\n", "UNKNOWN_OUTCOME"),
        ):  # fmt: skip
            scripted(fake, EXEC=reply)
            assert play(agent, fake)[-1].status == status, reply
        # A refused write, and an EXEC that was executed nevertheless: this is not Redis.
        scripted(fake, INCRBY=b"-ERR no\r\n", EXEC=b"*1\r\n+OK\r\n")
        assert play(agent, fake)[-1].status == "UNKNOWN_OUTCOME"
        # MULTI is refused: nothing else is sent.
        before = fake.count("SET")
        scripted(fake, MULTI=b"-ERR unknown command 'MULTI'\r\n")
        assert play(agent, fake)[-1].status == "SERVER_ERROR" and fake.count("SET") == before


def test_server_text_is_made_printable(agent: Agent) -> None:
    with FakeServer() as fake:
        scripted(fake, EXEC=b"*2\r\n+OK\r\n-ERR \x1b[31m" + b"x" * 1000 + b"\r\n")
        message = play(agent, fake)[-1].message
        assert "\\x1b" in message and "\x1b" not in message and "..." in message and "INCRBY of key 'n'" in message


# ---- fork and threads


def test_in_a_child(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    txn, unused = client.txn(), client.txn()
    txn.watch("a").ok
    txn.set("a", "mine", -1).ok
    calls = [("watch", "a"), ("get", "a", 9), ("set", "a", "x", -1), ("incr", "a", 1), ("delete", "a"), ("commit",), ("rollback",)]
    lines = [handle.line(command, *words) for handle in (txn, unused) for command, *words in calls]
    (child,) = agent.fork(*lines, client.line("txn"), agent.line("run", "true"), txn.line("end_txn"), unused.line("end_txn"))
    assert [answer.status for answer in child.answers] == ["FORKED"] * (len(lines) + 1) + ["OK"] * 3 and child.code == 0
    assert "before the fork" in child.answers[0].message
    assert redis_server.command("GET", "a") is None
    txn.commit().ok  # the parent's connection is unchanged
    assert redis_server.command("GET", "a") == b"mine"


def test_a_client_that_was_not_used_is_the_childs_own(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    txn = client.txn()
    (child,) = agent.fork(txn.line("watch", "a"), txn.line("incr", "a", 1), txn.line("commit"), txn.line("end_txn"))
    assert [answer.status for answer in child.answers] == ["OK"] * 4 and child.code == 0
    txn.watch("a").ok
    txn.incr("a", 1).ok
    txn.commit().ok
    assert redis_server.command("GET", "a") == b"2"


def in_child(function: Callable[[], Any]) -> None:
    """Runs function in a forked child; it must not raise."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def sockets() -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return found


@pytest.mark.no_tsan
def test_python_in_a_child(client: Client, redis_server: Server) -> None:
    spare, txn = client.transaction_begin("b"), client.transaction_begin("a")
    spare.close()
    txn.set("a", b"mine")
    assert len(links(redis_server)) == 2

    def child() -> None:
        before = sockets()
        handle = txn._handle
        assert _lib.library().dlock_txn_commit(handle, None) == _abi.DLOCK_FORKED
        with error_of("NoTransaction"):
            txn.commit()  # on its own handle
        del handle
        assert sockets() == before - 1  # the transaction's; the idle one belongs to the client
        assert client.transaction(lambda own: own.get("a"), "a") is None

    in_child(child)
    txn.commit()
    txn.close()
    assert redis_server.command("GET", "a") == b"mine"


@pytest.mark.no_tsan
def test_a_child_does_not_keep_the_parents_connection_up(client: Client, redis_server: Server) -> None:
    txn = client.transaction_begin("a")
    ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(ends[0], 1)
        os._exit(0)
    try:
        assert watching(redis_server, "a") == 1
        client.close()
        with error_of("Closed"):
            txn.get("a")
        until(lambda: links(redis_server) == [])
    finally:
        os.write(ends[1], b"x")
        os.waitpid(pid, 0)
        os.close(ends[0]), os.close(ends[1])


def test_two_threads_in_one_transaction(agent: Agent, redis_server: Server, new_proxy: Make) -> None:
    proxy: Proxy = new_proxy(redis_server)
    txn = begun(proxy, agent, "a")
    gate = proxy.up.pause_at("GET")
    wait = txn.start("get", "a", 9, thread=1)
    gate.wait()
    for command, *words in ("watch", "b"), ("set", "a", "x", -1), ("commit",), ("rollback",):
        answer = agent(command, txn.index, *words)
        assert answer.status == "INVALID_ARGUMENT" and "another thread" in answer.message
    gate.open()
    assert wait.answer().status == "NOT_FOUND"
    txn.commit().ok


def test_free_goes_in_any_order(agent: Agent, redis_server: Server) -> None:
    before = agent.fds()
    for order in ("txn client", "client txn"):
        for used in False, True:
            client = agent.open(redis_server)
            txn = client.txn()
            if used:
                txn.watch("a").ok
            for what in order.split():
                txn.end_txn() if what == "txn" else client.free()
            until(lambda: not agent.threads() and agent.fds() == before)
    assert links(redis_server) == []


# ---- no memory, no descriptors


@pytest.mark.parametrize("on", [0, 1], ids=["once", "from then on"])
@pytest.mark.parametrize("what", ["alloc", "socket", "eventfd"])
def test_the_system_refuses(new_agent: Make, redis_server: Server, what: str, on: int) -> None:
    agent: Agent = new_agent(shim=True)
    warm = agent.open(redis_server)
    warm.txn().watch("a")
    seen: dict[str, int] = {}

    def steps(txn: Handle) -> Iterator[tuple[str, Callable[[], Answer]]]:
        yield "watch", lambda: txn.watch("a")
        yield "get", lambda: txn.get("big", 1 << 16)
        yield "set", lambda: txn.set("a", b"x" * 8000, -1)
        yield "commit", lambda: txn.commit()

    redis_server.command("SET", "big", b"v" * 60000)
    live = 0
    for failing in ("watch", "get", "set", "commit") if what == "alloc" else ("watch",):
        for k in range(1, 60):
            redis_server.command("DEL", "a")
            client = agent.open(redis_server)
            client.ping(1000).ok
            txn = client.txn()
            answers = {}
            for name, call in steps(txn):
                if name == failing:
                    agent("shim", what, k, on)
                answers[name] = call()
            failed = answers[failing]
            assert failed.status in ("OK", "OUT_OF_MEMORY", "SYSTEM_ERROR", "UNREACHABLE", "UNKNOWN_OUTCOME"), failed
            seen[failed.status] = seen.get(failed.status, 0) + 1
            written = redis_server.command("EXISTS", "a")
            if answers["commit"].status == "OK" and answers["set"].status == "OK":
                assert written
            elif answers["commit"].status != "UNKNOWN_OUTCOME":
                assert not written, answers
            txn.rollback()
            txn.watch("a").ok
            txn.set("a", "y", -1).ok
            txn.commit().ok
            txn.end_txn(), client.free()
            until(lambda: len(links(redis_server)) == 1 and not [t for t in agent.threads() if len(agent.threads()) > 1])
            live = live or agent("live").live
            if not failed.fired:
                break
        assert k > 1 or failing == "set", failing
    assert seen["OK"] and len(seen) > 1, seen
    until(lambda: agent("live").live <= live + 8)


# ---- the retry helper


def test_what_the_body_returns(client: Client, redis_server: Server) -> None:
    def sell(txn: Transaction) -> int:
        left = int(txn.get("stock") or 0)
        if left > 0:
            txn.set("stock", b"%d" % (left - 1))
        return left

    redis_server.command("SET", "stock", 2)
    assert [client.transaction(sell, "stock") for _ in range(4)] == [2, 1, 0, 0]
    assert redis_server.command("GET", "stock") == b"0"
    assert client.transaction(lambda txn: "nothing was watched") == "nothing was watched"


class Meddler:
    """A body during which another client changes the key, the first so many times."""

    def __init__(self, server: Server, times: int) -> None:
        self.server, self.times, self.runs = server, times, 0

    def __call__(self, txn: Transaction) -> bytes | None:
        self.runs += 1
        value = txn.get("a")
        if self.runs <= self.times:
            self.server.command("INCR", "a")
        txn.set("b", b"done")
        return value


def test_conflicts_are_tried_again(client: Client, redis_server: Server) -> None:
    body = Meddler(redis_server, 3)
    assert client.transaction(body, "a") == b"3" and body.runs == 4
    assert redis_server.command("GET", "b") == b"done"


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_the_last_conflict_is_raised(client: Client, redis_server: Server, attempts: int) -> None:
    body = Meddler(redis_server, 99)
    with error_of("Conflict") as caught:
        client.transaction(body, "a", attempts=attempts)
    assert body.runs == attempts and caught.value.retryable
    assert redis_server.command("GET", "b") is None and watching(redis_server, "a") == 0


def test_a_timeout_bounds_the_attempts(client: Client, redis_server: Server) -> None:
    body, begin = Meddler(redis_server, 10**9), time.monotonic()
    with error_of("Conflict"):
        client.transaction(body, "a", attempts=None, timeout=0.3)
    assert body.runs > 1 and time.monotonic() - begin < 0.3 + 2
    body = Meddler(redis_server, 10**9)
    with error_of("Conflict"):
        client.transaction(body, "a", attempts=None, timeout=0)
    assert body.runs == 1
    for bad in {"attempts": 0}, {"attempts": -1}, {"timeout": -2}:
        with error_of("InvalidArgument"):
            client.transaction(body, "a", **bad)  # type: ignore[arg-type]


def bound(attempt: int) -> int:
    return 1 if attempt < 1 else min(2 ** min(attempt, 20), 250)


@pytest.mark.parametrize("attempt", [-(2**31), 0, 1, 2, 3, 7, 8, 9, 2**31 - 1])
def test_pauses_are_random(attempt: int) -> None:
    drawn = {_lib.library().dlock_txn_pause_ms(attempt) for _ in range(3000)}
    assert min(drawn) == 0 and bound(attempt) * 0.95 <= max(drawn) <= bound(attempt)
    assert len(drawn) > bound(attempt) / 2


def test_pauses_grow(client: Client, redis_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(transaction.time, "sleep", slept.append)
    with error_of("Conflict"):
        client.transaction(Meddler(redis_server, 10**9), "a", attempts=60)
    assert len(slept) == 59
    assert all(0 <= seconds * 1000 <= bound(number) + 0.01 for number, seconds in enumerate(slept, 1))
    assert max(slept[10:]) > 0.1 and len(set(slept[10:])) > 10


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, dlock.DlockError])
def test_what_the_body_raises_rolls_back(client: Client, redis_server: Server, kind: type[BaseException]) -> None:
    runs = 0

    def body(txn: Transaction) -> None:
        nonlocal runs
        runs += 1
        txn.set("a", b"x")
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        client.transaction(body, "a")
    assert runs == 1 and watching(redis_server, "a") == 0
    assert redis_server.command("GET", "a") == b"touched"


def test_the_body_may_end_it_itself(client: Client, redis_server: Server) -> None:
    def give_up(txn: Transaction) -> str:
        txn.set("a", b"x")
        txn.rollback()
        return "no"

    def commit(txn: Transaction) -> str:
        txn.set("a", b"x")
        txn.commit()
        return "yes"

    def two(txn: Transaction) -> None:
        commit(txn)
        txn.watch("b")
        txn.incr("b")

    assert client.transaction(give_up, "a") == "no" and redis_server.command("GET", "a") is None
    assert client.transaction(commit, "a") == "yes" and redis_server.command("GET", "a") == b"x"
    client.transaction(two, "a")
    assert redis_server.command("GET", "b") == b"1"


def test_only_conflicts_are_tried_again(client: Client, redis_server: Server, new_proxy: Make) -> None:
    redis_server.command("RPUSH", "list", 1)
    runs = 0

    def body(txn: Transaction) -> None:
        nonlocal runs
        runs += 1
        txn.incr("list")

    with error_of("ServerError"):
        client.transaction(body, "a")
    assert runs == 1
    proxy: Proxy = new_proxy(redis_server)
    with Client(proxy.url) as other:
        proxy.lose_reply(EXEC)
        with error_of("UnknownOutcome"):
            other.transaction(lambda txn: txn.incr("n"), "n")
        other.transaction(lambda txn: txn.incr("n"), "n")
    assert redis_server.command("GET", "n") == b"2"


def test_a_body_that_hides_a_lost_connection_does_not_succeed(client: Client, redis_server: Server) -> None:
    def body(txn: Transaction) -> None:
        redis_server.command("CLIENT", "KILL", "ID", links(redis_server)[0]["id"])
        with contextlib.suppress(DlockError):
            txn.get("a")

    with error_of("NoTransaction"):
        client.transaction(body, "a")


def test_transactions_in_transactions(client: Client, redis_server: Server) -> None:
    def outer(txn: Transaction) -> None:
        client.transaction(lambda inner: inner.incr("b"), "b")
        txn.incr("a")

    client.transaction(outer, "a")
    assert redis_server.command("MGET", "a", "b") == [b"1", b"1"]


def test_what_goes_over_the_wire(client: Client, redis_server: Server) -> None:
    with Monitor(redis_server) as seen:
        client.transaction(lambda txn: txn.set("a", b"x", ttl=9), "a", "b")
        with client.transaction_begin("c"):
            pass
        seen.catch_up()
        words = [b" ".join(command.words) for command in seen.commands if command.words[0] not in (b"ECHO", b"CLIENT")]
    assert words == [b"WATCH a", b"WATCH b", b"MULTI", b"SET a x PX 9000", b"EXEC", b"WATCH c", b"UNWATCH"]


def test_the_class_is_typed_and_documented() -> None:
    for name, member in vars(Transaction).items():
        if callable(member):
            assert "return" in member.__annotations__, name
            assert member.__doc__ or name.startswith("_"), name
