"""The judge of ./dev soak --chaos finds what it is for; a short run of the load itself."""
from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
from typing import Any

import mutants
import pytest

from harness.build import BUILD, LIBRARY, ROOT
from harness.chaos.judge import Hold, findings

SEATS = 3


def hold(mode: str, who: str, began: int, ended: int, token: int, permits: int = 0, adopted: bool = False) -> Hold:
    return Hold("job", mode, who, permits, token, adopted, began, ended)


GOOD = {
    "one after the other": [hold("alone", "a", 0, 10, 1), hold("alone", "b", 10, 20, 2)],
    "an owner that holds it twice": [hold("alone", "a", 0, 10, 1), hold("alone", "a", 5, 20, 1)],
    "readers": [hold("read", "a", 0, 10, 1, 1), hold("read", "b", 5, 20, 2, 1), hold("read", "c", 11, 12, 1, 1)],
    "all permits": [hold("seats", "a", 0, 10, 1, 2), hold("seats", "b", 5, 20, 2, 1), hold("seats", "c", 10, 12, 1, 2)],
    "a grant that another has adopted": [hold("alone", "a", 0, 10, 1), hold("alone", "b", 11, 20, 1, adopted=True)],
    "no tokens": [hold("alone", "a", 0, 10, 0), hold("alone", "b", 10, 20, 0)],
}
BAD = {
    "two at a time": ([hold("alone", "a", 0, 10, 1), hold("alone", "b", 9, 20, 2)], "both hold it"),
    "two, and a moment between": ([hold("alone", "a", 0, 10, 1), hold("alone", "c", 3, 3, 2), hold("alone", "b", 9, 20, 3)], "both hold it"),
    "a reader and a writer": ([hold("read", "a", 0, 10, 1, 1), hold("alone", "b", 9, 20, 2)], "both hold it"),
    "a writer and a reader": ([hold("alone", "a", 0, 10, 1), hold("read", "b", 9, 20, 2, 1)], "both hold it"),
    "too many permits": ([hold("seats", "a", 0, 10, 1, 2), hold("seats", "b", 5, 20, 2, 2)], "4 permits"),
    "a token that falls": ([hold("alone", "a", 0, 10, 2), hold("alone", "b", 10, 20, 1)], "a token falls"),
    "a token that stays": ([hold("alone", "a", 0, 10, 2), hold("alone", "b", 10, 20, 2)], "a token falls"),
    "a writer's token below a reader's": ([hold("read", "a", 0, 10, 2, 1), hold("alone", "b", 10, 20, 1)], "a token falls"),
    "one that falls later": ([hold("alone", "a", 0, 10, 5), hold("alone", "b", 10, 20, 6), hold("alone", "a", 20, 30, 5)], "a token falls"),
}


def shuffled(holds: list[Hold]) -> list[Hold]:
    return random.sample(holds, len(holds))


@pytest.mark.parametrize("holds", GOOD.values(), ids=GOOD)
def test_good(holds: list[Hold]) -> None:
    assert findings(shuffled(holds), SEATS) == []


@pytest.mark.parametrize("holds, word", BAD.values(), ids=BAD)
def test_bad(holds: list[Hold], word: str) -> None:
    (found,) = findings(shuffled(holds), SEATS)
    assert word in found


def soak(*words: str, library: pathlib.Path = LIBRARY) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_BUILD": str(BUILD), "DLOCK_LIBRARY": str(library)}
    command: Any = [sys.executable, ROOT / "python-tests/chaos.py", *words]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ["single", "cluster", "quorum"])
def test_a_short_run(engine: str) -> None:
    done = soak("0.2", "--engine", engine, "--seed", str(random.random()))
    assert done.returncode == 0 and f"{engine}: passed" in done.stdout, done.stdout


@pytest.mark.full
@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(400)
def test_a_broken_build_is_rejected(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An acquisition takes what another one holds."""
    library = mutants.library(ROOT, BUILD, tmp_path, mutants.BESIDE)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    done = soak("1", "--engine", "single", library=library)
    assert done.returncode == 1 and "both hold it" in done.stdout, done.stdout
