"""Servers of a quorum that lie about their clock."""
from __future__ import annotations

import pathlib
import socket
import time
from typing import Any, Iterator

import mutants
import pytest

from harness.agent import Agent
from harness.build import BUILD, ROOT
from harness.fake import LockServer
from harness.quorum import url_of
from harness.steps.scripts import SHA

CLOCKS = (-(2**63), -(2**63) + 1, -1, 2**53, 2**63 - 1)
PATIENT = {"lease_ms": 180_000, "command_timeout_ms": 20_000, "connects_per_second": 1000}


class Voter(LockServer):
    """One server of a quorum. clock: its time."""

    def __init__(self, number: int) -> None:
        self.clock: int | None = None
        self.number = number
        super().__init__()

    def _run(self, link: socket.socket, words: list[bytes]) -> bytes | None:
        if words[1].decode() == SHA["join"]:
            clock = time.time_ns() // 1000 if self.clock is None else self.clock
            return b"*5\r\n$40\r\n%040x\r\n:0\r\n$%d\r\n%s\r\n:%d\r\n:100\r\n" % (self.number, len(words[4]), words[4], clock)
        return b":1\r\n" if words[1].decode() == SHA["floor"] else super()._run(link, words)


@pytest.fixture
def voters() -> Iterator[list[Voter]]:
    made = [Voter(number) for number in (1, 2, 3)]
    yield made
    for one in made:
        one.close()


def opened(agent: Agent, voters: list[Voter], **options: Any) -> Any:
    return agent.open(url_of(*voters), **PATIENT, **options).lock("job")


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_clock_that_none_can_be(agent: Agent, voters: list[Voter], clock: int) -> None:
    """The answer is none; the other servers vote with their own time."""
    for one in voters:
        one.clock = clock
    lock = opened(agent, voters)
    assert lock.acquire(1, 0).status == "PROTOCOL_ERROR"
    voters[0].clock = voters[1].clock = None
    lock.acquire(1, 20_000).ok
    times = [int(word.split(b"@")[1]) for words in voters[1].requests for word in words if word.startswith(b"86400000@")]
    assert times and all(abs(at - time.time_ns() // 1000) < 3_600_000_000 for at in times), times


@mutants.each(mutants.VOTERS)
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(200)
def test_mutant(tmp_path: pathlib.Path, mutant: mutants.Mutant, file: str, words: str) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, file, words, timeout=60, agents=True)
