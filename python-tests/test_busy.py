"""Busy polling: who waits for an answer asks for it again before sleeping, and seldom where that is in vain (redis/busy.h)."""
from __future__ import annotations

import ctypes
import pathlib
import subprocess
from typing import Any, Callable, Iterable

import pytest

import mutants
from harness.agent import Agent, now
from harness.build import ROOT
from harness.proxy import Proxy
from harness.server import Server

LONGEST = 1_024_000  # microseconds


# ---- the decision


class Busy(ctypes.Structure):
    _fields_ = [("pause", ctypes.c_int64), ("until", ctypes.c_int64)]


class Caller:
    """Calls one after the other, each of which takes so many microseconds."""

    def __init__(self, library: ctypes.CDLL, took: int) -> None:
        self.library, self.took, self.busy, self.now = library, took, Busy(), 1_000_000

    def call(self, in_time: bool) -> bool:
        asked = bool(self.library.dli_busy_may(ctypes.byref(self.busy), ctypes.c_int64(self.now)))
        self.now += self.took
        if asked:
            self.library.dli_busy_result(ctypes.byref(self.busy), in_time, ctypes.c_int64(self.now))
        return asked

    def share(self, answers: Iterable[bool]) -> float:
        asked = [self.call(answer) for answer in answers]
        return sum(asked) / len(asked)

    def asked_and(self, pattern: list[bool], calls: int) -> float:
        """The pattern is of the calls that ask: what the others would have had, nobody knows."""
        asked = 0
        for _ in range(calls):
            asked += self.call(pattern[asked % len(pattern)])
        return asked / calls


def always_in_time(library: ctypes.CDLL) -> None:
    assert Caller(library, 50).share([True] * 1000) == 1


def never_in_time(library: ctypes.CDLL) -> None:
    caller = Caller(library, 500)
    assert caller.share([False] * 20_000) < 0.001  # ten seconds
    assert caller.busy.pause == LONGEST


def as_often_as_not(library: ctypes.CDLL) -> None:
    assert Caller(library, 100).asked_and([True, False], 100_000) < 0.001


def mostly_in_time(library: ctypes.CDLL) -> None:
    assert Caller(library, 100).asked_and([False] + [True] * 7, 100_000) > 0.2


def in_time_again(library: ctypes.CDLL) -> None:
    caller = Caller(library, 100)
    caller.share([False] * 20_000)
    caller.now = caller.busy.until
    assert LONGEST * 0.99 < (1 - caller.share([True] * 30_000)) * 30_000 * 100 < LONGEST * 1.01
    assert caller.share([True] * 1000) == 1


def seldom_asked(library: ctypes.CDLL) -> None:
    caller = Caller(library, 100)
    for _ in range(100):
        assert caller.call(False)  # costs next to nothing
        caller.now += LONGEST


RULES = (always_in_time, never_in_time, as_often_as_not, mostly_in_time, in_time_again, seldom_asked)


def decision(folder: pathlib.Path, source: pathlib.Path) -> ctypes.CDLL:
    made = folder / "busy.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{source}", source / "redis/busy.c", "-o", made], check=True)
    return ctypes.CDLL(str(made))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return decision(tmp_path_factory.mktemp("busy"), ROOT / "src")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(library: ctypes.CDLL, rule: Callable[[ctypes.CDLL], None]) -> None:
    rule(library)


@pytest.mark.parametrize("mutant", mutants.BUSY, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, tmp_path: pathlib.Path) -> None:
    folder = mutants.copy_of(ROOT, tmp_path, mutant, ("src/redis",))
    broken = decision(tmp_path, folder / "src")
    found = 0
    for rule in RULES:
        try:
            rule(broken)
        except AssertionError:
            found += 1
    assert found


# ---- in the library


def given_way(agent: Agent, call: Callable[[], Any]) -> int:
    agent("shim", "yield", 0, 0)  # counted, and none fails
    return call().ok.counted


def pairs(agent: Agent, url: str, **options: Any) -> list[int]:
    """How often each call of three pairs gave way; one before connects."""
    lock = agent.open(url, **options).lock("the lock")
    lock.acquire(1).ok
    lock.release(1).ok
    return [given_way(agent, call) for _ in range(3) for call in (lambda: lock.acquire(1, 0), lambda: lock.release(1))]


def test_who_waits_gives_way(new_agent: Callable[..., Agent], redis_server: Server) -> None:
    assert sum(pairs(new_agent(shim=True), redis_server.url, busy_poll_us=10_000)) >= 1


@pytest.mark.parametrize("options", [{"busy_poll_us": 0}, {"private_connections": 0, "busy_poll_us": 10_000}], ids=["off", "shared"])
def test_nobody_asks(new_agent: Callable[..., Agent], redis_server: Server, options: dict[str, Any]) -> None:
    assert pairs(new_agent(shim=True), redis_server.url, **options) == [0] * 6


def test_a_server_far_away(new_agent: Callable[..., Agent], new_proxy: Callable[[Server], Proxy], redis_server: Server) -> None:
    """Each answer takes 30 ms: who asked for one of them in vain pauses, for longer and longer, up to a second."""
    agent, proxy = new_agent(shim=True), new_proxy(redis_server)
    proxy.up.delay = 0.03
    lock = agent.open(proxy, busy_poll_us=1000).lock("the lock")
    lock.acquire(1).ok
    lock.release(1).ok
    began = now()
    asked = sum(given_way(agent, call) > 0 for _ in range(30) for call in (lambda: lock.acquire(1, 0), lambda: lock.release(1)))
    assert proxy.up.fired["delay"] >= 60
    assert 2 <= asked <= 8 + (now() - began) / LONGEST
