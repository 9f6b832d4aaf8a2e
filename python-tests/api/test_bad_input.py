"""Bad values for every parameter of the Python binding: a ValueError or a TypeError, as Python raises them; nothing is sent, and the
objects still work. Go's tests are in bindings/go/bad_input_test.go, those of Lua in test_lua.py and below.
"""
from __future__ import annotations

import array
import asyncio
import contextlib
import copy
import decimal
import fractions
import inspect
import math
import os
import pickle
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY, ROOT
from harness.server import Server

os.environ.setdefault("DLOCK_LIBRARY", str(LIBRARY))

import dlock
import dlock.aio
from dlock import Client, Lock


class Odd:
    """An object that no parameter accepts."""


# Values that are not text, not a number, ... ; bool is an int in Python, and 1.0 is not.
NO_TEXT: list[Any] = [None, 7, True, 1.5, [], {}, Odd(), Odd, len]
BAD_TEXT = ["", "a\0b", "\0", "\ud800", "x\udcff"]
NO_NUMBER: list[Any] = ["5", b"5", [], {}, Odd(), 1j, Odd, math.floor]
NO_WHOLE: list[Any] = [*NO_NUMBER, 1.0, 0.5, math.nan, decimal.Decimal(1), fractions.Fraction(1)]
HUGE = [2**63, -(2**63) - 1, 2**64, -(2**64), 10**30, -(10**30), 10**5000, -(10**5000)]
BAD_TIME: list[Any] = [-2, -0.001, -1e300, -math.inf, math.nan, -(10**400), decimal.Decimal("-0.1"), decimal.Decimal("nan")]
NO_BYTES: list[Any] = [None, 5, True, 10**12, -1, 1.5, "text", [1, 2], Odd()]

GOOD = (ValueError, TypeError)


@pytest.fixture
def client(redis_server: Server) -> Iterator[Client]:
    with Client(redis_server.url) as made:
        yield made


@pytest.fixture(params=[Client, dlock.aio.Client], ids=["", "asyncio"])
def form(request: pytest.FixtureRequest, redis_server: Server) -> Any:
    """A client on which only locks are made: that is the same in both forms."""
    return request.param(redis_server.url)


def refused(kinds: tuple[type[Exception], ...], call: Callable[..., Any], *values: Any, **named: Any) -> None:
    """The call raises one of the kinds; otherwise the test fails and shows the value."""
    try:
        result = call(*values, **named)
    except kinds:
        return
    except Exception as error:
        pytest.fail(f"{call} with {shown(values, named)} raised {type(error).__name__}: {error}")
    pytest.fail(f"{call} with {shown(values, named)} returned {result!r}")


def shown(*values: Any) -> str:
    try:
        return repr(values)
    except ValueError:  # too many digits
        return "a huge number"


def each(call: Callable[[Any], Any], wrong_type: list[Any], wrong_value: list[Any]) -> None:
    """One parameter: values of other types raise TypeError, values out of range ValueError."""
    for value in wrong_type:
        refused((TypeError,), call, value)
    for value in wrong_value:
        refused((ValueError,), call, value)


@pytest.mark.parametrize("kind", [Client, dlock.aio.Client])
def test_urls(kind: type[Any]) -> None:
    each(kind, [*NO_TEXT, b"redis://localhost"], [*BAD_TEXT, "redis://h\0x", "redis://\ud800", "redis://x:99999", "x" * 10**6])


MAKERS = ["lock", "fair_lock", "read_lock", "write_lock", "semaphore", "permit_semaphore", "latch"]


@pytest.mark.parametrize("maker", MAKERS)
def test_names(form: Any, maker: str) -> None:
    make = getattr(form, maker)
    each(make, NO_TEXT, [*BAD_TEXT, "x" * 1025, "\u20ac" * 400, b"", b"a\0", bytearray(), memoryview(b"")])
    for name in "a", b"a", bytearray(b"a"), memoryview(b"a"), array.array("B", [97]):
        assert make(name).id  # all of them are the name "a"


@pytest.mark.parametrize("maker", MAKERS)
def test_owners(form: Any, maker: str) -> None:
    make = getattr(form, maker)
    each(lambda owner: make("a", owner=owner), NO_WHOLE, [-1, -(2**63), *HUGE])
    each(lambda owner: form.multi_lock(form.lock("a"), owner=owner), NO_WHOLE, [-1, *HUGE])
    assert make("a", owner=2**63 - 1).id and make("a", owner=True).id


def test_options(form: Any, redis_server: Server) -> None:
    for make in (lambda **options: form.lock("a", **options)), (lambda **options: type(form)(redis_server.url, **options)):
        for name in "lease_ms", "renew", "namespace":
            each(lambda value: make(**{name: value}), [1.5, math.nan, b"5", [], {}, Odd(), Odd, 1j], ["a\0b", "\ud800"])
        each(lambda value: make(lease_ms=value), [], ["", "x", "1.5", True, 0, -5, *HUGE])
        each(lambda value: make(renew=value), [], ["", "perhaps", 2, -1, *HUGE])
        for name in "", "a\0", "\ud800", "lease", "LEASE_MS", "x" * 10**5:
            refused((ValueError,), make, **{name: 1})
        assert make(lease_ms=None, renew=None) and make(lease_ms=5000, renew=True) and make(lease_ms="5000", renew="false")


def test_kinds(form: Any) -> None:
    each(lambda kind: form.lock("a", kind=kind), NO_TEXT, ["", "x", "MUTEX", "mutex\0", "\ud800", "multi"])


def test_numbers_of_calls(client: Client) -> None:
    lock = client.lock("a")
    for call in lock.cancel, (lambda owner: lock.submit_acquire(owner=owner)), (lambda owner: lock.submit_release(owner=owner)):
        each(call, NO_WHOLE, [-1, *HUGE])
    for call in lock.submit_acquire, lock.submit_release:
        each(call, [None, *NO_WHOLE], HUGE)


def test_durations(client: Client) -> None:
    lock, latch = client.lock("a"), client.latch("b")
    calls: list[Callable[[Any], Any]] = [
        lambda timeout: lock.acquire(timeout=timeout),
        lambda timeout: lock.submit_acquire(timeout=timeout),
        lambda timeout: latch.wait(timeout),
        client.next_event, client.ping, client.close,
        lambda timeout: client.transaction(len, "k", timeout=timeout),
        lambda ttl: client.transaction_begin("k").set("k", b"", ttl),
    ]  # fmt: skip
    for call in calls:
        each(call, NO_NUMBER, BAD_TIME)
    refused((ValueError,), lock.acquire, False, 5)
    with lock:
        each(lock.extend, NO_NUMBER, [*BAD_TIME, None, -1, 0])
    each(lock.close_gate, NO_NUMBER, [*BAD_TIME, None, -1, 0])
    assert lock.acquire(timeout=decimal.Decimal("0.5")) and lock.acquire(timeout=fractions.Fraction(1, 3))
    assert lock.acquire(timeout=True) and lock.hold_count == 3


def test_amounts(client: Client) -> None:
    for semaphore in client.semaphore("s"), client.permit_semaphore("p"):
        each(semaphore.set_permits, [None, *NO_WHOLE], [-1, *HUGE])
        each(semaphore.add_permits, [None, *NO_WHOLE], HUGE)
        each(semaphore.permit_id, [None, *NO_WHOLE], HUGE)
        refused((ValueError, dlock.NotHeld, dlock.Unsupported), semaphore.permit_id, -1)
        assert semaphore.set_permits(1)
    latch = client.latch("l")
    each(latch.set_count, [None, *NO_WHOLE], [-1, *HUGE])
    each(latch.count_down, [None, *NO_WHOLE], [-1, *HUGE])
    assert latch.set_count(1) and latch.count_down() == 0
    each(lambda n: client.semaphore("s", permits=n), [1.5, [], Odd()], [0, -1, *HUGE, "x"])


def test_grants(client: Client) -> None:
    lock = client.lock("a")
    each(lock.adopt_grant, NO_BYTES, [b"", b"x", b"\0" * 10**6, bytearray(b"x"), memoryview(b"dlock")])


def test_members(form: Any, redis_server: Server) -> None:
    lock = form.lock("a")
    for wrong in [*NO_TEXT, "a", form, [lock]]:
        refused((TypeError,), form.multi_lock, wrong)
        refused((TypeError,), form.multi_lock, lock, wrong)
    refused((ValueError,), form.multi_lock)
    refused((ValueError,), form.multi_lock, *[form.lock(f"n{number}") for number in range(17)])
    refused((ValueError,), form.multi_lock, lock, lock)
    refused((ValueError, dlock.WrongKind, dlock.Unsupported), form.multi_lock, form.latch("l"))
    refused((ValueError, dlock.WrongKind, dlock.Unsupported), form.multi_lock, form.multi_lock(lock))
    for other in Client(redis_server.url), dlock.aio.Client(redis_server.url):
        refused((ValueError, TypeError), form.multi_lock, other.lock("b"))


def test_transactions(client: Client) -> None:
    each(client.transaction_begin, NO_TEXT, ["", "\ud800", b"", "x" * 10**6])
    with client.transaction_begin("k") as transaction:
        for call in transaction.watch, transaction.get, transaction.incr, transaction.delete:
            each(call, NO_TEXT, ["", "\ud800", b""])
        each(lambda key: transaction.set(key, b""), NO_TEXT, ["", "\ud800", b""])
        each(lambda value: transaction.set("k", value), NO_BYTES, [b"x" * (1 << 20) + b"x"])
        each(lambda by: transaction.incr("k", by), [None, *NO_WHOLE], HUGE)
    each(lambda body: client.transaction(body, "k"), [None, 7, "x", []], [])
    each(lambda attempts: client.transaction(len, "k", attempts=attempts), NO_WHOLE, [0, -1, *HUGE])


def test_copies_are_refused(client: Client) -> None:
    """Two objects with one handle would free it twice; a handle is useless in another process."""
    things = [client, client.lock("a"), client.latch("b"), client.multi_lock(client.lock("a")), client.transaction_begin("k")]
    for thing in things:
        for call in copy.copy, copy.deepcopy, pickle.dumps:
            with pytest.raises(TypeError, match=f"^A dlock.{type(thing).__name__} "):
                call(thing)


def test_nothing_was_sent_and_all_goes_on(client: Client, redis_server: Server) -> None:
    for test in test_names, test_owners:
        test(client, "lock")
    test_numbers_of_calls(client)
    assert client.stats()["acquired"] == 0 and redis_server.command("KEYS", "*") == []
    with client.lock("a") as lock:
        assert lock.held


NONSENSE: list[Any] = [
    None, True, 0, -1, 1, 0.5, math.nan, math.inf, 2**63, -(10**30), "", "x", "a\0b", "\ud800", b"", b"x", [], {}, (), Odd(), Odd, len,
]  # fmt: skip


@pytest.mark.no_tsan
def test_every_method_with_nonsense(redis_server: Server) -> None:
    """Each public method with each pair of values: a result, or an exception of Python's or of dlock's."""
    tried = 0
    fine = (TypeError, ValueError, dlock.DlockError, OverflowError)
    with Client(redis_server.url, command_timeout_ms=2000) as client:
        lock, latch, semaphore = client.lock("a"), client.latch("l"), client.semaphore("s")
        things: list[Any] = [client, lock, latch, semaphore, client.transaction_begin("k"), client.multi_lock(lock)]
        for thing in things:
            blocks = {"close", "events", "next_event", "acquire", "wait", "close_gate", "transaction", "transaction_begin"}
            names = [name for name in dir(thing) if not name.startswith("_") and name not in blocks]
            for method in [getattr(type(thing), name, None) for name in names]:
                if not inspect.isfunction(method):
                    continue
                values = NONSENSE if len(inspect.signature(method).parameters) > 1 else [None]
                for first in values:
                    for second in values:
                        for given in (), (first,), (first, second):
                            try:
                                method(thing, *given)
                            except fine:
                                pass
                            tried += 1
    assert tried > 10_000


# ---- methods on objects that were never initialised


@pytest.mark.parametrize("kind", [Client, Lock, dlock.Semaphore, dlock.Latch, dlock.MultiLock, dlock.Transaction])
def test_objects_that_were_not_made(kind: type) -> None:
    thing = kind.__new__(kind)
    names = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
    assert names
    for name in names:
        with contextlib.suppress(TypeError, AttributeError):
            getattr(thing, name)()


# ---- asyncio


def test_asyncio(redis_server: Server) -> None:
    """Awaited methods: the same values, the same exceptions, and the loop goes on."""

    async def refuses(wrong: type[Exception], call: Callable[[Any], Any], values: list[Any]) -> None:
        for value in values:
            try:
                result = call(value)
                if inspect.isawaitable(result):
                    result = await result
            except wrong:
                continue
            pytest.fail(f"{call} with {shown(value)} returned {result!r}")

    async def work() -> None:
        async with dlock.aio.Client(redis_server.url) as client:
            lock, latch, seats = client.lock("a"), client.latch("b"), client.permit_semaphore("s")
            for call in (lambda wait: lock.acquire(timeout=wait)), latch.wait, client.aclose:
                await refuses(TypeError, call, NO_NUMBER)
                await refuses(ValueError, call, BAD_TIME)
            await refuses(ValueError, lambda wait: lock.acquire(False, wait), [5, 0.1])
            await refuses(TypeError, seats.permit_id, [None, *NO_WHOLE])
            await refuses(ValueError, seats.permit_id, HUGE)
            await refuses(TypeError, client.multi_lock, [*NO_TEXT, client])
            for number in seats.set_permits, seats.add_permits, latch.set_count, latch.count_down:
                await refuses(TypeError, number, [None, *NO_WHOLE])
                await refuses(ValueError, number, HUGE)
            await refuses(TypeError, lock.adopt_grant, NO_BYTES)
            await refuses(ValueError, lock.adopt_grant, [b"", b"x", b"\0" * 10**6])
            await refuses(TypeError, lock.close_gate, NO_NUMBER)
            await refuses(ValueError, lock.close_gate, [*BAD_TIME, None, -1, 0])
            assert client.stats()["acquired"] == 0
            async with lock:
                await refuses(TypeError, lock.extend, NO_NUMBER)
                await refuses(ValueError, lock.extend, [*BAD_TIME, None, -1, 0])
                assert lock.held
            for thing in client, lock, latch, seats:
                for copied in copy.copy, copy.deepcopy, pickle.dumps:
                    with pytest.raises(TypeError, match="cannot be copied or pickled"):
                        copied(thing)

    asyncio.run(work())


# ---- Lua: cases that test_lua.py does not have


LUA = """
local dlock, url = require "dlock", arg[1]
local function refused(name, good, err)
  if good ~= nil then error("it was accepted", 2) end
  if type(err) ~= "table" or err.name ~= name then error(("not %s but %s"):format(name, tostring(err and err.name)), 2) end
end
local bad = "INVALID_ARGUMENT"
local client, other = assert(dlock.open(url)), assert(dlock.open(url))
local lock = assert(client:lock "a")
-- methods on other things
for _, thing in ipairs {{}, 7, "x", true, print, setmetatable({}, {__index = lock}), newproxy(true), client} do
  for name in pairs(getmetatable(lock).__index) do refused(bad, lock[name](thing)) end
end
for name in pairs(getmetatable(client).__index) do
  refused(bad, client[name]()) refused(bad, client[name](lock)) refused(bad, client[name]({handle = client.handle}))
end
-- times, owners and tags
for _, time in ipairs {-2, -0.5, 0 / 0, -1 / 0, "5", {}, true, print, 5LL} do
  refused(bad, lock:acquire {wait = time}) refused(bad, lock:submit {wait = time}) refused(bad, lock:close_gate(time))
  refused(bad, client:poll(time)) refused(bad, client:ping(time)) refused(bad, client:close(time))
end
lock:acquire()
for _, time in ipairs {-2, -1, 0, 0 / 0, "5", {}, true} do refused(bad, lock:extend(time)) end
refused(bad, lock:extend())
lock:release()
for _, owner in ipairs {-1, 0.5, 2 ^ 53, 1e300, 1 / 0, 0 / 0, "1", {}, true} do
  for _, name in ipairs {"acquire", "try", "release", "submit", "submit_release", "cancel", "state", "token", "hold_count"} do
    refused(bad, lock[name](lock, {owner = owner}))
  end
  refused(bad, client:multi({lock}, {owner = owner}))
end
-- amounts
local seats, latch = client:lock("s", {kind = "semaphore"}), client:lock("l", {kind = "latch"})
for _, amount in ipairs {"x", "1", 0.5, 0 / 0, 1 / 0, 2 ^ 53, -2 ^ 53, {}, true, print} do
  refused(bad, seats:set_permits(amount)) refused(bad, seats:add_permits(amount)) refused(bad, seats:permit_id(amount))
  refused(bad, latch:set_count(amount)) refused(bad, latch:count_down(amount))
end
refused(bad, seats:set_permits()) refused(bad, seats:set_permits(-1)) refused(bad, latch:set_count(-1))
refused(bad, latch:count_down(-1)) refused(bad, seats:permit_id(-1))
-- members
for _, members in ipairs {{}, {1}, {"a"}, {client}, {lock, {}}, {handle = lock.handle}, "a", 7, print} do
  refused(bad, client:multi(members))
end
refused(bad, client:multi()) refused(bad, client:multi {assert(other:lock "b")})
refused("DUPLICATE_NAME", client:multi {lock, lock})
refused(bad, client:multi({lock}, {wait = 5})) refused(bad, client:multi({lock}, {7})) refused(bad, client:multi({lock}, 7))
-- grants
for _, grant in ipairs {7, {}, true, print, 7LL} do refused(bad, lock:adopt_grant(grant)) end
for _, grant in ipairs {"", "x", ("\\0"):rep(1e6)} do refused("INVALID_GRANT", lock:adopt_grant(grant)) end
-- transactions
for _, keys in ipairs {7, "k", true, print, {7}, {{}}, {""}, {("k"):rep(1e6)}, {"k", print}} do
  refused(bad, client:transaction(keys, function() end))
end
for _, body in ipairs {7, "k", true, {}} do refused(bad, client:transaction({"k"}, body)) end
for _, attempts in ipairs {0, -1, 1.5, 0 / 0, 1 / 0, "3", {}} do refused(bad, client:transaction({"k"}, print, attempts)) end
local kept
assert(client:transaction({"k"}, function(txn)
  kept = txn
  for _, key in ipairs {7, true, {}, print, "", ("k"):rep(1e6)} do
    for _, name in ipairs {"watch", "get", "incr", "delete"} do refused(bad, txn[name](txn, key)) end
    refused(bad, txn:set(key, "v"))
  end
  for _, value in ipairs {7, true, {}, print, 7LL, ("x"):rep(2 ^ 20 + 1)} do refused(bad, txn:set("k", value)) end
  for _, ttl in ipairs {-2, 0 / 0, "5", {}, true} do refused(bad, txn:set("k", "v", ttl)) end
  for _, by in ipairs {0.5, 2 ^ 53, 0 / 0, "1", {}, true} do refused(bad, txn:incr("k", by)) end
  for _, name in ipairs {"watch", "get", "set", "incr", "delete"} do
    refused(bad, txn[name]()) refused(bad, txn[name](client, "k")) refused(bad, txn[name](txn))
  end
end))
for _, name in ipairs {"watch", "get", "set", "incr", "delete"} do refused(bad, kept[name](kept, "k", "1")) end
assert(lock:with(function() return 1 end))
print "fine"
"""


def test_lua(redis_server: Server) -> None:
    env = {**os.environ, "DLOCK_LIBRARY": str(LIBRARY), "LUA_PATH": f"{ROOT}/bindings/lua/?.lua;;"}
    command = ["luajit", "-", redis_server.url]
    done = subprocess.run(command, input=LUA, env=env, text=True, capture_output=True, timeout=40)
    assert (done.stdout, done.stderr) == ("fine\n", ""), done.stderr
