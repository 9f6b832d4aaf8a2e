"""Transactions in memory: what is a conflict, that all writes are done or none, and what faults do to them."""
from __future__ import annotations

import contextlib
import os
import threading
from typing import Iterator

import pytest

from harness.build import LIBRARY

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
from dlock import Client, Transaction

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

NAME = "memory://transactions"


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(NAME) as made:
        yield made


@pytest.fixture
def other(client: Client) -> Iterator[Client]:
    with Client(NAME) as made:
        yield made


def put(client: Client, ttl: float | None = None, **values: object) -> None:
    with client.transaction_begin("-") as txn:
        for key, value in values.items():
            txn.set(key, str(value).encode(), ttl=ttl)
        txn.commit()


def drop(client: Client, *keys: str) -> None:
    with client.transaction_begin("-") as txn:
        for key in keys:
            txn.delete(key)
        txn.commit()


def values(client: Client, *keys: str) -> list[bytes | None]:
    with client.transaction_begin("-") as txn:
        return [txn.get(key) for key in keys]


def test_read_and_write(client: Client, other: Client) -> None:
    put(other, a=1, gone=2, n=40)
    with client.transaction_begin("a", "gone", "n") as txn:
        assert (txn.get("a"), txn.get("none")) == (b"1", None)
        txn.set("a", b"one")
        txn.set("new", b"")
        txn.delete("gone")
        txn.delete("never there")
        txn.incr("n", 2)
        txn.incr("m", -7)
        assert values(other, "a", "gone", "n") == [b"1", b"2", b"40"]  # nothing before the commit
        txn.commit()
    assert values(other, "a", "new", "gone", "n", "m") == [b"one", b"", None, b"42", b"-7"]


def test_writes_are_done_in_their_order(client: Client) -> None:
    with client.transaction_begin("a") as txn:
        for value in b"1", b"2":
            txn.set("a", value)
        txn.incr("a", 2**63 - 3)
        txn.incr("b", -(2**63))
        for value in b"x", b"y":
            txn.set("c", value)
        txn.delete("c")
        txn.delete("d")
        txn.incr("d", 5)
        txn.commit()
    assert values(client, "a", "b", "c", "d") == [b"%d" % (2**63 - 1), b"-%d" % 2**63, None, b"5"]


def test_all_writes_or_none(client: Client) -> None:
    put(client, text="x", most=2**63 - 1, n=1)
    for key in "text", "most":
        with client.transaction_begin("n") as txn:
            txn.set("n", b"2")
            txn.set("new", b"2")
            txn.incr(key)
            with pytest.raises(dlock.ServerError, match=f"nothing was written: key '{key}'"):
                txn.commit()
        assert values(client, "n", "new", "text") == [b"1", None, b"x"]


@pytest.mark.parametrize("change", ["set", "same", "delete", "made", "made and gone"])
def test_a_change_is_a_conflict(client: Client, other: Client, change: str) -> None:
    put(other, a=0)
    with client.transaction_begin("a", "b") as txn:  # b does not exist
        assert (txn.get("a"), txn.get("b")) == (b"0", None)
        if change == "delete":
            drop(other, "a")
        else:
            put(other, **{"a" if change in ("set", "same") else "b": 1 if change == "set" else 0})
        if change == "made and gone":
            drop(other, "b")
        before = values(other, "a", "b")
        txn.set("a", b"mine")
        txn.incr("c")
        with pytest.raises(dlock.Conflict) as caught:
            txn.commit()
        assert caught.value.retryable and NAME in caught.value.message
    assert values(other, "a", "b", "c") == [*before, None]


def test_what_others_do_elsewhere_is_none(client: Client, other: Client) -> None:
    with client.transaction_begin("a") as txn:
        put(other, b=1)
        drop(other, "a")  # it is not there
        txn.set("a", b"mine")
        txn.commit()
    assert values(other, "a") == [b"mine"]


def test_time_to_live(client: Client, other: Client) -> None:
    """By the store's clock, which a test may set. Adding keeps it; another value has its own."""
    put(other, ttl=50, a=1, b=1, c=1)
    with client.transaction_begin("a") as txn:
        put(other, b=2)
        with client.transaction_begin("c") as more:
            more.incr("c")
            more.commit()
        client.fault("clock", seconds=60)
        assert [txn.get(key) for key in "abc"] == [None, b"2", None]
        txn.set("d", b"x")
        with pytest.raises(dlock.Conflict):
            txn.commit()


def test_a_key_that_expires_has_changed(client: Client, other: Client) -> None:
    """Nobody has looked at it since."""
    put(other, ttl=50, a=1)
    with client.transaction_begin("a") as txn:
        client.fault("clock", seconds=60)
        txn.set("b", b"x")
        with pytest.raises(dlock.Conflict):
            txn.commit()


def test_a_child_has_no_values_of_its_parent(client: Client) -> None:
    put(client, a=1)
    txn = client.transaction_begin("a")
    child = os.fork()
    if child == 0:
        try:
            with Client(NAME) as own:
                seen = values(own, "a")
            with contextlib.suppress(dlock.NoTransaction):
                txn.get("a")
                seen = [b"the parent's"]
            txn.close()
            os._exit(0 if seen == [None] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    txn.set("a", b"2")
    txn.commit()
    assert values(client, "a") == [b"2"]


def test_a_commit_without_writes_says_whether_what_was_read_holds(client: Client, other: Client) -> None:
    with client.transaction_begin("a") as txn:
        txn.commit()
        txn.watch("a")
        put(other, a=1)
        with pytest.raises(dlock.Conflict):
            txn.commit()


def test_nothing_is_lost(client: Client) -> None:
    """Eight threads add, each with what it has read."""

    def add(txn: Transaction) -> None:
        txn.set("sum", b"%d" % (int(txn.get("sum") or 0) + 1))

    def work() -> None:
        for _ in range(100):
            client.transaction(add, "sum", attempts=10_000)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(client, "sum") == [b"800"]


@pytest.mark.parametrize("what", ["cut", "pause", "deny"])
def test_faults(what: str) -> None:
    with Client(NAME, command_timeout_ms=100) as client, Client(NAME) as other:
        with client.transaction_begin("a") as txn:
            txn.set("a", b"mine")
            client.fault(what, seconds=None)
            with pytest.raises(dlock.Denied if what == "deny" else dlock.Unreachable):
                txn.commit()
            client.fault("heal")
            assert values(other, "a") == [None]
            with pytest.raises(dlock.NoTransaction):
                txn.get("a")
        put(client, a=2)
        assert values(other, "a") == [b"2"]


def test_the_values_end_with_the_last_client() -> None:
    with Client(NAME) as client:
        put(client, a=1)
        txn = client.transaction_begin("a", "b")
    txn.close()
    with Client(NAME) as client:
        assert values(client, "a") == [None]


def test_many_keys(client: Client) -> None:
    """What has expired is removed as others come."""
    for start in range(0, 20_000, 2000):
        with client.transaction_begin("-") as txn:
            for number in range(start, start + 2000):
                txn.set(f"key {number}", b"x" * 10, ttl=1)
            txn.commit()
        client.fault("clock", seconds=2)
    put(client, a=1)
    assert values(client, "key 19999", "a") == [None, b"1"]
