"""Helpers for tests that run with every kind of lock over the ABI.

    KINDS                                           # kinds that an owner can hold, except the mutex, which has tests of its own
    mine, theirs = sides(client, other, "read")     # a read lock of client, a write lock of other: they exclude each other
    seats = one(client, "semaphore", lease_ms=900)  # a handle; semaphores have one permit
    image(server)                                   # the server's content, except what may stay behind
"""
from __future__ import annotations

import hashlib
import re
from typing import Any

from .agent import Client, Lock
from .server import Server

KINDS = ["fair", "read", "write", "semaphore", "permit_semaphore"]
LEASED = [kind for kind in KINDS if kind != "semaphore"]  # kinds whose holds have a lease
REENTRANT = ["fair", "read", "write"]
RIVAL = {"read": "write", "write": "read"}  # the kind that a holder excludes; other kinds exclude themselves

# What may stay: the token counters, and records of answered requests.
REST = re.compile(rb"redisson_lock_token:|dlock_once:|dlock_taken:|dlock_holders:")


def one(client: Client, kind: str, name: str = "lock", seats: int = 1, **options: Any) -> Lock:
    lock = client.lock(name, kind=kind, **options)
    if "semaphore" in kind:
        assert lock.permits_set(seats).status in ("OK", "UNCHANGED")
    return lock


def sides(first: Client, second: Client, kind: str, name: str = "lock", **options: Any) -> tuple[Lock, Lock]:
    """A lock of first and one of second that exclude each other."""
    return one(first, kind, name, **options), one(second, RIVAL.get(kind, kind), name, **options)


def is_tombstone(field: bytes) -> bool:
    return field.startswith(b"dlock_tombstone:")


def only_tombstones(server: Server, key: bytes) -> bool:
    """Whether the key has only ids of requests that get nothing any more; the turns that foreign clients are owed stay with them."""
    type = server.command("TYPE", key)
    if type == "string" and b":rwlock_timeout:" in key:
        return bool(server.command("GET", key) == b"-")
    fields = server.command("HKEYS", key) if type == "hash" else []
    return any(map(is_tombstone, fields)) and all(field == b"*" or is_tombstone(field) for field in fields)


def image(server: Server) -> dict[bytes, str]:
    """Every key with its content, except REST and tombstones."""
    keys = sorted(key for key in server.command("KEYS", "*") if not REST.match(key) and not only_tombstones(server, key))
    return {key: hashlib.sha1(content(server, key)).hexdigest() for key in keys}


def content(server: Server, key: bytes) -> bytes:
    """The content as bytes. A hash that had a long value keeps the form for those: it is compared by its fields."""
    if server.command("TYPE", key) != "hash":
        return server.command("DUMP", key) or b""
    told = server.command("HGETALL", key)
    return repr(sorted(zip(told[::2], told[1::2]))).encode()


def rss_kb(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())
    assert found
    return int(found[1])


def calls(server: Server, command: str = "evalsha") -> int:
    """How often a command was called, in the server's statistics."""
    found = re.search(rb"cmdstat_%s:calls=(\d+)" % command.encode(), server.command("INFO", "commandstats"))
    return int(found[1]) if found else 0
