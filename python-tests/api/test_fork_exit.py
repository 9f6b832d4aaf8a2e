"""A library that disturbs nothing: fork, exit, destruction in any order, dlclose, descriptors, signals, no output."""
from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from typing import Callable

import pytest

from harness.agent import Agent, Client, Lock, until
from harness.build import LIBRARY, ROOT, SANITIZED, clean_env, native
from harness.proxy import Proxy
from harness.server import Server

PROMPT = 10.0 if SANITIZED else 2.0  # the most seconds an end may take


def holder_of(server: Server, name: str) -> list[bytes]:
    return server.command("HKEYS", name)


# ---- fork


def test_nothing_runs_before_first_use(agent: Agent, redis_server: Server) -> None:
    before = agent.fds()
    client = agent.open(redis_server)
    lock = client.lock("quiet")
    lock.state(1), client.stats().ok, client.fd().ok
    until(lambda: not agent.threads())  # they have ended their work, and exit
    assert not [name for name in agent.fds().values() if name.startswith("socket:")]
    client.free(), lock.drop()
    assert agent.fds() == before


def test_create_then_fork_then_use(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    lock = client.lock("both")
    use = [lock.line("acquire", 1, 0), lock.line("state", 1), lock.line("release", 1), client.line("close", 1000)]
    for child in agent.fork(*use, count=3):
        assert child.code == 0
        assert [answer.status for answer in child.answers] == ["OK"] * 4
        assert child.answers[1].state == "HELD"
    lock.acquire(1, 0).ok
    lock.release(1).ok


def test_a_child_polls_a_descriptor_of_its_own(agent: Agent, redis_server: Server) -> None:
    """It is readable if an event waited at the fork, and the parent does not notice what the child does."""
    quiet, warned = agent.open(redis_server), agent.open("rediss://127.0.0.1:1?tls_verify=off")
    assert (quiet.poll(0).readable, warned.poll(0).readable) == (0, 1)
    for child in agent.fork(warned.line("poll", 0), quiet.line("poll", 0), quiet.line("free"), warned.line("next", 0), warned.line("free")):
        assert child.code == 0 and [answer.readable for answer in child.answers[:2]] == [1, 0]
        assert child.answers[3].status == "OK"
    for child in agent.fork(quiet.line("free"), warned.line("free")):
        assert child.code == 0
    assert (quiet.poll(0).readable, warned.poll(0).readable) == (0, 1)


FINDING = """
import ctypes, os, sys
lib = ctypes.CDLL(sys.argv[2])
lib.dlock_event_new.restype, lib.dlock_status_name.restype = ctypes.c_void_p, ctypes.c_char_p
client, event = ctypes.c_void_p(), ctypes.c_void_p(lib.dlock_event_new())
assert lib.dlock_client_open(sys.argv[1].encode(), None, ctypes.byref(client), None) == 0
assert lib.dlock_client_ping(client, ctypes.c_int64(5000), None) == 0
said = lib.dlock_client_finding(client, ctypes.c_size_t(0), event, None)
if not (child := os.fork()):
    print(lib.dlock_status_name(said).decode(), lib.dlock_status_name(lib.dlock_client_finding(client, ctypes.c_size_t(0), event, None)).decode(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_findings_are_not_a_childs(redis_server: Server) -> None:
    quiet = [sys.executable, "-W", "ignore::DeprecationWarning"]  # Python 3.12 and later warn of forks beside threads
    done = subprocess.run([*quiet, "-c", FINDING, redis_server.url, str(LIBRARY)], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (0, "NO_EVENT FORKED\n", "")


@pytest.mark.no_tsan
def test_no_child_waits_for_a_thread_of_its_parent(redis_server: Server) -> None:
    """native/agents/forks.c: threads make and free locks of an unused client, and read its counters, while the process forks."""
    done = subprocess.run([str(native("forks")), redis_server.url, "40" if SANITIZED else "400"], text=True, stdout=subprocess.PIPE, timeout=60, env=clean_env())
    assert done.returncode == 0, done.stdout


@pytest.mark.no_tsan  # it reports its own mutex of a thread that was cancelled
def test_a_cancelled_thread_leaves_no_call_half_done(redis_server: Server) -> None:
    """native/agents/cancelled.c: pthread_cancel before a call, and while it waits."""
    done = subprocess.run([str(native("cancelled")), redis_server.url], text=True, stdout=subprocess.PIPE, timeout=60, env=clean_env())
    assert done.returncode == 0, done.stdout


def test_every_call_holds_a_cancel_back() -> None:
    """The first statement of each function of the ABI that may lock a mutex or talk to the server."""
    pure = {"event.c", "library.c", "options.c"}
    for path in (ROOT / "src/api").glob("*.c"):
        for name, first in re.findall(r"^(?!static)[a-z][^\n;{}]*\b(dlock_\w+)\([^;{}]*\)\n\{\n *([^\n]*)", path.read_text(), re.M):
            assert path.name in pure or first == "DLI_UNCANCELLED;", (path.name, name)


def test_clients_of_parent_and_child_exclude_each_other(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, lease_ms=700)
    lock = client.lock("one")
    (child,) = agent.fork(lock.line("acquire", 1, 0))  # it ends holding the lock
    assert child.answers[0].status == "OK"
    assert lock.acquire(1, 0).status == "BUSY"
    mine = lock.acquire(1, 5000).ok
    assert mine.token > child.answers[0].token


def test_events_of_parent_and_child_are_apart(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    lock = client.lock("apart")
    submit = lock.line("submit_acquire", 1, 1000, 7)
    (child,) = agent.fork(submit, client.line("poll", 5000))  # its event stays unread
    assert [answer.status for answer in child.answers] == ["OK", "OK"] and child.answers[1].readable == 1
    assert client.poll(0).readable == 0
    client.wake().ok
    (child,) = agent.fork(client.line("next", 0), client.line("next", 0), client.line("poll", 0))
    assert child.answers[-1].readable == 0
    assert client.poll(0).readable == 1
    assert client.next(0).status == "NO_EVENT" and client.poll(0).readable == 0


EVERY_CALL = [
    ("client", "close", 100), ("client", "submit_close", 100), ("client", "fd"), ("client", "next", 0), ("client", "wake"), ("client", "stats"),
    ("client", "ping", 100), ("client", "new", 1, "other"), ("lock", "acquire", 1, 0), ("lock", "acquire", 0, -1),
    ("lock", "release", 1), ("lock", "acquire_local", 1), ("lock", "release_local", 1), ("lock", "submit_acquire", 1, 0, 0),
    ("lock", "submit_release", 1, 0), ("lock", "cancel", 2), ("lock", "extend", 1, 5000), ("lock", "force"),
    ("lock", "state", 1), ("lock", "remaining", 1), ("lock", "token", 1), ("lock", "count", 1), ("lock", "inspect"),
    ("lock", "export", 1, 600), ("lock", "adopt", 1, "x"),
]  # fmt: skip


def silent(proxy: Proxy) -> bool:
    """Whether nothing is sent for a while."""
    before = proxy.up.bytes
    time.sleep(0.3)
    return proxy.up.bytes == before


@pytest.mark.parametrize("waiting", [False, True], ids=["held", "held-and-waiting"])
def test_used_then_forked(agent: Agent, redis_server: Server, new_proxy: Callable[..., Proxy], waiting: bool) -> None:
    proxy = new_proxy(redis_server)
    client = agent.open(proxy)
    lock = client.lock("mine")
    token = lock.acquire(1, 0).ok.token
    if waiting:
        wait = lock.start("acquire", 2, -1, thread=1)
        until(lambda: lock.state(2) == "WAITING")
        until(lambda: silent(proxy))  # the parent has subscribed
    holder, sent = holder_of(redis_server, "mine"), proxy.up.bytes
    handles = {"client": client, "lock": lock}
    lines = [handles[kind].line(command, *words) for kind, command, *words in EVERY_CALL]
    (child,) = agent.fork(*lines, lock.line("drop"), client.line("free"))
    statuses = [answer.status for answer in child.answers]
    assert child.code == 0
    assert statuses == ["FORKED"] * len(EVERY_CALL) + ["OK", "OK"]
    assert "before the fork" in child.answers[0].message
    assert proxy.up.bytes == sent, "the child wrote to the parent's connection"
    assert holder_of(redis_server, "mine") == holder and lock.state(1) == "HELD"
    assert lock.token(1).token == token
    lock.release(1).ok
    if waiting:
        assert wait.answer().ok.token > token
        lock.release(2).ok


def test_a_child_opens_a_client_of_its_own(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    lock = client.lock("mine")
    lock.acquire(1, 0).ok
    number = client.index + 1  # handles are numbered in order
    (child,) = agent.fork(
        agent.line("open", redis_server.url),
        agent.line("new", number, 1, "own"),
        agent.line("acquire", lock.index + 1, 1, 0),
        agent.line("release", lock.index + 1, 1),
        agent.line("close", number, 1000),
        agent.line("free", number),
    )
    assert [answer.status for answer in child.answers] == ["OK"] * 6 and child.code == 0
    assert lock.state(1) == "HELD"


# ---- exit


def busy(agent: Agent, where: Server | Proxy) -> tuple[Client, Lock]:
    """A held lock, one thread that waits for it, one that waits for events, one submitted wait."""
    client = agent.open(where, lease_ms=1000)
    lock = client.lock("held")
    lock.acquire(1, 0).ok
    lock.start("acquire", 2, -1, thread=1)
    lock.submit_acquire(3, -1, 5).ok
    client.start("next", -1, thread=2)
    until(lambda: client.counters()["waiting"] == 2)
    return client, lock


@pytest.mark.parametrize("how", ["exit", "return"])
@pytest.mark.parametrize("fault", ["none", "server stopped", "server gone"])
def test_exit_while_all_is_busy(agent: Agent, new_server: Callable[..., Server], how: str, fault: str) -> None:
    server = new_server()
    busy(agent, server)
    if fault == "server stopped":
        server.pause()
    elif fault == "server gone":
        server.kill()
    start = time.monotonic()
    if how == "exit":
        assert agent.exit(7) == 7
    else:
        assert agent.process.stdin
        agent.process.stdin.close()
        assert agent.process.wait(20) == 0
    assert time.monotonic() - start < PROMPT


def test_close_ends_all_waits_and_gives_back(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server)
    lock = client.lock("held")
    lock.acquire(1, 0).ok
    waits = [lock.start("acquire", owner, -1, thread=owner) for owner in (2, 3)]
    lock.submit_acquire(4, -1, 44).ok
    until(lambda: client.counters()["waiting"] == 3)
    client.close(5000).ok
    assert [wait.answer().status for wait in waits] == ["CLOSED", "CLOSED"]
    assert redis_server.command("KEYS", "*") == [b"redisson_lock_token:{held}"]
    until(lambda: not agent.threads())  # they have ended their work, and exit
    client.close(0).ok
    for kind, command, *words in EVERY_CALL:
        if (kind, command) == ("lock", "acquire") or command in ("ping", "new", "submit_acquire"):
            assert {"client": client, "lock": lock}[kind].__getattr__(command)(*words).status == "CLOSED", command


def test_close_says_when_the_server_does_not_answer(agent: Agent, new_server: Callable[..., Server]) -> None:
    server = new_server()
    client = agent.open(server, lease_ms=1000)
    lock = client.lock("held")
    lock.acquire(1, 0).ok
    server.pause()
    answer = client.close(300)
    server.resume()
    assert answer.status == "TIMED_OUT" and f"{server.host}:{server.port}" in answer.message
    assert answer.took < 300_000 + PROMPT * 1_000_000
    client.free(), lock.drop()
    until(lambda: not agent.threads())


def test_close_without_time(agent: Agent, redis_server: Server) -> None:
    """If nothing is held there is nothing to confirm, also for callers that do not wait for the threads."""
    for _ in range(20):
        client = agent.open(redis_server)
        lock = client.lock("nothing")
        lock.acquire(1, 0).ok
        lock.release(1).ok
        client.close(0).ok
        assert client.next(5000).status == "CLOSED"
        lock.drop(), client.free()
    until(lambda: not agent.threads())


def last_words(client: Client) -> list[tuple[str, int]]:
    """Types and statuses of the events until a client has closed."""
    said = []
    while (answer := client.next(5000)).status == "OK":
        said.append((answer.event.type, answer.event.status))
    assert answer.status == "CLOSED"
    return said


@pytest.mark.parametrize("threads", [1, 3])
def test_a_submitted_close_blocks_nobody(agent: Agent, redis_server: Server, threads: int) -> None:
    client = agent.open(redis_server, watchdog_threads=threads)
    locks = [client.lock(f"held{number}") for number in range(20)]
    for lock in locks:
        lock.acquire(1, 0).ok
    wait = locks[0].start("acquire", 2, -1, thread=2)
    locks[1].submit_acquire(4, -1, 44).ok
    until(lambda: client.counters()["waiting"] == 2)
    client.submit_close(5000).ok
    assert wait.answer().status == "CLOSED" and locks[2].acquire(2, 0).status == "CLOSED"
    said = last_words(client)
    assert said.count(("LOST", -201)) == 20 and said.count(("ACQUIRE_FAILED", -107)) == 1 and len(said) == 21
    assert redis_server.command("EXISTS", *[f"held{number}" for number in range(20)]) == 0
    client.submit_close(0).ok
    client.close(0).ok
    until(lambda: not [name for name in agent.threads() if "watch" in name])


def test_a_submitted_close_ends_in_time(agent: Agent, new_server: Callable[..., Server]) -> None:
    server = new_server()
    unused = agent.open(server)
    unused.submit_close(1000).ok
    assert last_words(unused) == []
    client = agent.open(server, lease_ms=1000)
    lock = client.lock("held")
    lock.acquire(1, 0).ok
    server.pause()
    assert client.submit_close(300).ok.took < 100_000
    assert ("LOG", 2) in last_words(client)
    server.resume()
    client.free(), lock.drop()
    until(lambda: not agent.threads())


# ---- destruction in any order

STEPS = ("close", "free", "drop held", "drop waited")
ORDERS = [order for size in (3, 4) for order in itertools.permutations(STEPS, size)
          if {*STEPS[1:]} <= {*order} and ("close" not in order or order.index("close") < order.index("free"))]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_destruction_in_any_order(agent: Agent, redis_server: Server, order: tuple[str, ...]) -> None:
    """One lock is held, an event waits for another, and a thread waits through a handle of its own."""
    agent("count", "-", 1, thread=1)  # starts the agent's thread
    before = agent.fds()
    client = agent.open(redis_server, lease_ms=1000)
    held, third, waited = client.lock("held"), client.lock("held"), client.lock("waited")
    redis_server.command("HSET", "waited", "somebody", 1)
    held.acquire(1, 0).ok
    waited.submit_acquire(2, -1, 9).ok
    wait = third.start("acquire", 3, -1, thread=1)
    until(lambda: client.counters()["waiting"] == 2)
    steps = {"close": lambda: client.close(5000), "free": client.free, "drop held": held.drop, "drop waited": waited.drop}
    for step in order:
        steps[step]().ok
    assert wait.answer().status == "CLOSED"
    assert third.acquire(3, 0).status == "CLOSED"
    third.drop().ok
    if "close" in order:
        assert redis_server.command("EXISTS", "held") == 0
    until(lambda: not agent.threads())
    until(lambda: agent.fds() == before)


def test_a_client_that_is_freed_abandons_what_it_holds(agent: Agent, redis_server: Server) -> None:
    """Nothing is ever released, however far its threads have got: a release must not depend on luck."""
    for turn in range(150):
        client = agent.open(redis_server)
        locks = [client.lock(f"{turn} {number}") for number in range(4)]
        for lock in locks:
            lock.submit_acquire(1, 0, 5).ok
        for lock in locks:
            until(lambda: lock.state(1) == "HELD")
        client.free()
        for lock in locks:
            lock.drop()
    assert redis_server.command("EXISTS", *(f"{turn} {number}" for turn in range(150) for number in range(4))) == 600


def test_all_who_close_hear_when_it_is_done(agent: Agent, redis_server: Server) -> None:
    for turn in range(20):
        client = agent.open(redis_server)
        locks = [client.lock(f"{turn} {number}") for number in range(3)]
        for lock in locks:
            lock.acquire(1, 0).ok
        closes = [client.start("close", 60_000, thread=1 + number) for number in range(4)]
        assert [close.answer().status for close in closes] == ["OK"] * 4
        client.free().ok
        for lock in locks:
            lock.drop()


def test_nothing_is_granted_behind_a_close(agent: Agent, redis_server: Server) -> None:
    """A caller during the close is granted the lock and loses it, or gets CLOSED. Nothing stays on the server."""
    for turn in range(100):
        client = agent.open(redis_server)
        locks = [client.lock(f"{turn} {number}", kind=("fair", "read", "permit_semaphore")[number % 3]) for number in range(6)]
        for lock in locks[2::3]:
            lock.permits_set(1)
        asked = [lock.start("acquire", 1, 0, thread=1 + number) for number, lock in enumerate(locks)]
        client.close(10_000).ok
        assert {one.answer().status for one in asked} <= {"OK", "CLOSED"}
        assert [redis_server.command("GET", f"{turn} {number}") for number in (2, 5)] == [b"1", b"1"]
        assert redis_server.command("EXISTS", *(f"{turn} {number}" for number in (0, 1, 3, 4))) == 0
        client.free().ok
        for lock in locks:
            lock.drop()


def test_a_client_that_is_freed_leaves_no_descriptors(agent: Agent, redis_server: Server) -> None:
    """Even though renewals of its many locks are due at that moment."""
    before = agent.fds()
    for turn in range(6):
        client = agent.open(redis_server, lease_ms=500)
        locks = [client.lock(f"{turn} {number}") for number in range(1500)]
        agent.many([("acquire", lock.index, 1, 0) for lock in locks])
        until(lambda: client.counters()["renewed"] > turn * 300)
        client.free().ok
        agent.many([("drop", lock.index) for lock in locks])
        until(lambda: agent.fds() == before)


# ---- other effects on the process

DLCLOSE = """
import _ctypes, ctypes, sys, time
url, path = sys.argv[1].encode(), sys.argv[2]
for turn in range(20):
    lib = ctypes.CDLL(path)
    for name in ("dlock_client_open", "dlock_lock_new", "dlock_lock_acquire", "dlock_client_free", "dlock_lock_free"):
        getattr(lib, name).argtypes = None
    client, lock, token = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    name = b"lock%d" % turn
    assert lib.dlock_client_open(url, None, ctypes.byref(client), None) == 0
    assert lib.dlock_lock_new(client, 1, name, ctypes.c_size_t(len(name)), None, ctypes.byref(lock), None) == 0
    assert lib.dlock_lock_acquire(lock, ctypes.c_int64(1), ctypes.c_int64(0), ctypes.byref(token), None) == 0
    if turn % 2:
        lib.dlock_client_free(client)
    _ctypes.dlclose(lib._handle)
time.sleep(0.5)  # the threads of the others renew meanwhile
print("fine")
"""


def test_dlclose_while_threads_run(redis_server: Server) -> None:
    command = [sys.executable, "-c", DLCLOSE, redis_server.url + "?lease_ms=600", str(LIBRARY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@pytest.mark.no_tsan
def test_descriptors_are_not_inherited(agent: Agent, redis_server: Server) -> None:
    before = set(agent.fds())
    busy(agent, redis_server)
    found = {fd: name for fd, name in agent.fds().items() if fd not in before and not name.startswith("pipe:")}
    kinds = {name.split(":")[0] + name.split(":")[1].rstrip("0123456789[]") for name in found.values()}
    assert kinds >= {"socket", "anon_inode[eventfd", "anon_inode[timerfd"}, kinds
    for fd in found:
        flags = dict(line.split(":\t") for line in open(f"/proc/{agent.pid}/fdinfo/{fd}") if ":\t" in line)["flags"]
        assert int(flags, 8) & os.O_CLOEXEC, (fd, found[fd])
    listed = agent("run", "ls /proc/self/fd").output.split()
    assert set(listed) == {"0", "1", "2", "3"}  # 3: ls itself reads the folder


def test_threads_block_all_signals(agent: Agent, redis_server: Server) -> None:
    client = agent.open(redis_server, watchdog_threads=3)
    lock = client.lock("x")
    lock.acquire(1, 0).ok
    never = 1 << (signal.SIGKILL - 1) | 1 << (signal.SIGSTOP - 1) | 1 << 31 | 1 << 32  # and two of the C library
    until(lambda: len(agent.threads()) == 3)  # they have their names, so they are visible
    for lines in agent.threads().values():
        assert int(lines["SigBlk"], 16) | never == (1 << 64) - 1, lines["SigBlk"]


def test_no_handlers_are_installed(agent: Agent, redis_server: Server) -> None:
    def handled() -> list[int]:
        status = open(f"/proc/{agent.pid}/status").read()
        lines = [line.split(":\t") for line in status.split("\n") if line.startswith(("SigIgn", "SigCgt"))]
        return [int(mask, 16) & ~(1 << 31 | 1 << 32) for _, mask in lines]  # two are the C library's

    before = handled()
    busy(agent, redis_server)
    assert handled() == before


@pytest.mark.parametrize("url", ["redis://localhost:1", "redis://127.0.0.1:1", "redis+unix:///nowhere"])
def test_unreachable_servers_do_not_delay_the_end(agent: Agent, url: str) -> None:
    client = agent.open(url)
    lock = client.lock("x")
    assert lock.acquire(1, 0).status == "UNREACHABLE"
    lock.start("acquire", 1, -1, thread=1)
    until(lambda: lock.state(1) == "WAITING")
    start = time.monotonic()
    assert agent.exit(3) == 3
    assert time.monotonic() - start < PROMPT
