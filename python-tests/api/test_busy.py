"""Busy polling: a waiter polls for the answer before it sleeps, and polls seldom where that is in vain (net/busy.h)."""
from __future__ import annotations

import ctypes
import pathlib
import subprocess
from typing import Any, Callable, Iterable

import pytest

import mutants
from harness.agent import Agent, Answer, Lock, now, until
from harness.build import ROOT
from harness.proxy import Proxy
from harness.server import Server

LONGEST = 1_000_000  # microseconds
ROUND = 16


# ---- the decision


class Busy(ctypes.Structure):
    _fields_ = [("pause", ctypes.c_int64), ("until", ctypes.c_int64), ("asked", ctypes.c_int), ("came", ctypes.c_int)]


class Caller:
    """Calls one after the other. Each takes `took` microseconds; its last yield takes `away`, all yields before it `before`."""

    def __init__(self, library: ctypes.CDLL, took: int, away: int = 1, before: int = 0) -> None:
        self.library, self.took, self.away, self.before, self.busy, self.now = library, took, away, before, Busy(), 1_000_000

    def call(self, in_time: bool) -> bool:
        asked = bool(self.library.dli_busy_may(ctypes.byref(self.busy), ctypes.c_int64(self.now)))
        self.now += self.took
        if asked:
            times = (ctypes.c_int64(one) for one in (self.before, self.away, self.now))
            self.library.dli_busy_result(ctypes.byref(self.busy), in_time, *times)
        return asked

    def share(self, answers: Iterable[bool]) -> float:
        asked = [self.call(answer) for answer in answers]
        return sum(asked) / len(asked)

    def asked_and(self, pattern: list[bool], calls: int) -> float:
        """The pattern of the calls that poll; the result of the others is unknown."""
        asked = 0
        for _ in range(calls):
            asked += self.call(pattern[asked % len(pattern)])
        return asked / calls


def always_in_time(library: ctypes.CDLL) -> None:
    assert Caller(library, 50).share([True] * 1000) == 1


def never_in_time(library: ctypes.CDLL) -> None:
    caller = Caller(library, 500)
    assert caller.share([False] * 200_000) < 0.01  # 100 seconds
    assert caller.busy.pause == LONGEST


def one_in_four(library: ctypes.CDLL) -> None:
    assert Caller(library, 100).asked_and([True, False, False, False], 200_000) < 0.02


def mostly_in_time(library: ctypes.CDLL) -> None:
    assert Caller(library, 100).asked_and([False] + [True] * 7, 10_000) == 1


def in_time_again(library: ctypes.CDLL) -> None:
    """The pause under way ends, and there is no other. Later ones begin short."""
    caller = Caller(library, 100)
    caller.share([False] * 200_000)
    caller.now = caller.busy.until
    assert caller.share([True] * 1000) == 1
    caller.share([False] * ROUND)
    assert caller.busy.pause < LONGEST / 50


def seldom_asked(library: ctypes.CDLL) -> None:
    caller = Caller(library, 100)
    for _ in range(100):
        assert caller.call(False)  # costs next to nothing
        caller.now += LONGEST


def beside_the_server(library: ctypes.CDLL) -> None:
    """Its script runs while the caller gives way."""
    assert Caller(library, 50, away=15).share([True] * 1000) == 1


def on_cores_of_their_own(library: ctypes.CDLL) -> None:
    assert Caller(library, 30, away=1, before=20).share([True] * 1000) == 1
    assert Caller(library, 30, away=2, before=1).share([True] * 1000) == 1
    assert Caller(library, 30, away=6, before=12).share([True] * 1000) == 1  # a slow one


def beside_a_server_that_is_not_let_run(library: ctypes.CDLL) -> None:
    """Yields were in vain at first."""
    assert Caller(library, 50, away=15, before=3).share([True] * 200_000) < 0.01


def beside_others(library: ctypes.CDLL) -> None:
    """The answer is there when the caller gets the core back, as after a sleep."""
    assert Caller(library, 300, away=200).share([True] * 200_000) < 0.01


def a_slice_lost(library: ctypes.CDLL) -> None:
    caller = Caller(library, 50)
    caller.share([True] * 1000)
    caller.away = 4000
    assert caller.call(True) and not caller.call(True)
    assert caller.busy.pause == LONGEST // 100 * 16
    for _ in range(2):  # again, and again
        caller.now = caller.busy.until
        assert caller.call(True)
    assert caller.busy.until == caller.now + LONGEST and not caller.call(True)


RULES = (
    *(always_in_time, never_in_time, one_in_four, mostly_in_time, in_time_again, seldom_asked, beside_the_server),
    *(on_cores_of_their_own, beside_a_server_that_is_not_let_run, beside_others, a_slice_lost),
)


def decision(folder: pathlib.Path, source: pathlib.Path) -> ctypes.CDLL:
    made = folder / "busy.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{source}", source / "net/busy.c", "-o", made], check=True)
    return ctypes.CDLL(str(made))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return decision(tmp_path_factory.mktemp("busy"), ROOT / "src")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(library: ctypes.CDLL, rule: Callable[[ctypes.CDLL], None]) -> None:
    rule(library)


@pytest.mark.parametrize("mutant", mutants.BUSY, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, tmp_path: pathlib.Path) -> None:
    folder = mutants.copy_of(ROOT, tmp_path, mutant, ("src/net",))
    broken = decision(tmp_path, folder / "src")
    found = 0
    for rule in RULES:
        try:
            rule(broken)
        except AssertionError:
            found += 1
    assert found


# ---- in the library


CALLS: tuple[Callable[[Lock], Answer], ...] = (lambda lock: lock.acquire(1, 0), lambda lock: lock.release(1))


def opened(agent: Agent, url: str | Proxy, **options: Any) -> Lock:
    """The first pair of calls connects."""
    lock = agent.open(url, **options).lock("the lock")
    for call in CALLS:
        call(lock).ok
    return lock


def given_way(agent: Agent, lock: Lock, pairs: int) -> list[int]:
    """How often each call yielded."""

    def counted(call: Callable[[Lock], Answer]) -> int:
        agent("shim", "yield", 0, 0)  # 0: no call fails
        return call(lock).ok.counted

    return [counted(call) for _ in range(pairs) for call in CALLS]


def test_who_waits_gives_way(new_agent: Callable[..., Agent], redis_server: Server) -> None:
    agent = new_agent(shim=True)
    lock = opened(agent, redis_server.url, busy_poll_us=10_000)
    until(lambda: sum(given_way(agent, lock, 1)) > 0)  # where others need the core it polls once a second


@pytest.mark.parametrize("options", [{"busy_poll_us": 0}, {"private_connections": 0, "busy_poll_us": 10_000}], ids=["off", "shared"])
def test_nobody_asks(new_agent: Callable[..., Agent], redis_server: Server, options: dict[str, Any]) -> None:
    agent = new_agent(shim=True)
    assert sum(given_way(agent, opened(agent, redis_server.url, **options), 3)) == 0


def test_a_server_far_away(new_agent: Callable[..., Agent], new_proxy: Callable[[Server], Proxy], redis_server: Server) -> None:
    """Each answer takes 10 ms. After some polls in vain the caller pauses, for longer and longer, up to a second."""
    agent, proxy = new_agent(shim=True), new_proxy(redis_server)
    proxy.up.delay = 0.01
    lock = opened(agent, proxy, busy_poll_us=1000)
    began = now()
    asked = sum(times > 0 for times in given_way(agent, lock, 100))
    assert proxy.up.fired["delay"] >= 200
    assert 0 < asked <= ROUND * (5 + (now() - began) / LONGEST)
    assert asked < 200
