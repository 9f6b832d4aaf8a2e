"""Every language against every other: two processes, one lock, and a counter in Redis that the holder reads and then writes. The count and
the order of the tokens show whether there were ever two holders.
"""
from __future__ import annotations

import itertools
import time
from typing import Any, Callable, Iterator

import pytest

from harness.faults import always
from harness.golang import GO
from harness.scenarios import LATE, Runner, late, values_of
from harness.server import Server

LANGUAGES = ["c", "python", "go", "lua", "python-asyncio", "rust", "rust-tasks", "node"]
KINDS = ["fair", "write", "semaphore", "permit_semaphore"]
PAIRS = list(itertools.product(LANGUAGES, LANGUAGES))
RING = list(zip(LANGUAGES, LANGUAGES[1:] + LANGUAGES[:1]))
TIMES, MANY = 40, 250
PATIENCE = 120.0

pytestmark = pytest.mark.timeout(300)  # the first build of Go's runner takes long


def pairs(of: list[tuple[str, str]]) -> Any:
    no_go = pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go")
    cells = []
    for pair in of:
        marks = [pytest.mark.house] if pair != ("c", "c") else []  # sanitizers are for the library: C suffices
        marks += [no_go] if "go" in pair else []
        marks += late(*pair) if set(pair) & set(LATE) else []
        cells.append(pytest.param(*pair, marks=marks, id="-".join(pair)))
    return pytest.mark.parametrize("first, second", cells)


counts = pytest.mark.parametrize("times", always(TIMES, full=[MANY]))


class Side:
    """A process in one language with a handle of the lock."""

    def __init__(self, language: str, server: Server, kind: str, **options: Any) -> None:
        self.runner, self.server = Runner(language), server
        more = " ".join(f"{name}={value}" for name, value in options.items())
        self.ok(f"client a {server.unix_url} {more}")
        self.ok(f"lock a l {kind} lock")
        if "semaphore" in kind:
            assert self.runner("set l 1") in ("OK", "UNCHANGED")

    def ok(self, line: str) -> dict[str, str]:
        status, values = values_of(self.runner(line))
        assert status == "OK", f"{self.runner.name}: {line}: {status}"
        return values

    def start(self, times: int) -> None:
        self.runner.tell(f"work l 1 {times} {self.server.path}")

    def finish(self, times: int) -> None:
        assert self.runner.answer(PATIENCE) == f"OK done={times}"


Sides = Callable[..., Side]


@pytest.fixture
def side(redis_server: Server) -> Iterator[Sides]:
    made: list[Side] = []

    def make(language: str, kind: str, **options: Any) -> Side:
        made.append(Side(language, redis_server, kind, **options))
        return made[-1]

    yield make
    for side in made:
        side.runner.close()


def tokens(server: Server) -> list[int]:
    return [int(token) for token in server.command("LRANGE", "witness:tokens", 0, -1)]


def counted(server: Server) -> int:
    return int(server.command("GET", "witness:counter") or 0)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)


def waits(server: Server) -> None:
    """Somebody is in line, and its subscription is active."""
    until(lambda: len(server.command("PUBSUB", "CHANNELS")) > 0)


def grow(order: list[int]) -> None:
    assert all(low < high for low, high in zip(order, order[1:])), order


def contend(side: Sides, server: Server, first: str, second: str, kind: str, times: int) -> None:
    """The first holds the lock, the second waits for it, then both acquire it so many times."""
    one, two = side(first, kind), side(second, kind)
    held = int(one.ok("acquire l 7 20000")["token"])
    two.start(times)
    waits(server)
    assert counted(server) == 0 and tokens(server) == []
    one.ok("release l 7")
    one.start(times)
    one.finish(times)
    two.finish(times)
    assert counted(server) == len(tokens(server)) == 2 * times
    grow([held, *tokens(server)])


@pairs(PAIRS)
@counts
def test_every_pair(side: Sides, redis_server: Server, first: str, second: str, times: int) -> None:
    contend(side, redis_server, first, second, "mutex", times)


@pytest.mark.parametrize("kind", KINDS)
@pairs(RING)
@counts
def test_other_kinds(side: Sides, redis_server: Server, first: str, second: str, kind: str, times: int) -> None:
    contend(side, redis_server, first, second, kind, times)


@pairs(RING)
def test_the_holder_is_killed(side: Sides, redis_server: Server, first: str, second: str) -> None:
    one, two = (side(language, "mutex", lease_ms=500) for language in (first, second))
    held = int(one.ok("acquire l 7 20000")["token"])
    two.start(TIMES)
    waits(redis_server)
    one.runner.kill()
    two.finish(TIMES)
    assert counted(redis_server) == TIMES
    grow([held, *tokens(redis_server)])


@pairs(RING)
@pytest.mark.parametrize("rounds", always(1, full=[4]))
def test_one_is_killed_at_work(side: Sides, redis_server: Server, first: str, second: str, rounds: int) -> None:
    """The other goes on, wherever the killed one was. At most one of its counts was not noted."""
    two = side(second, "mutex", lease_ms=500)
    for round_ in range(1, rounds + 1):
        one = side(first, "mutex", lease_ms=500)
        redis_server.command("DEL", "witness:counter", "witness:tokens")
        one.start(10**9)
        until(lambda: counted(redis_server) > round_)
        two.start(TIMES)
        two.finish(TIMES)
        one.runner.kill()
        two.start(TIMES)
        two.finish(TIMES)
        assert counted(redis_server) - len(tokens(redis_server)) in (0, 1)
        assert len(tokens(redis_server)) > 2 * TIMES
        grow(tokens(redis_server))
