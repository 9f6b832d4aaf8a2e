"""Many waiters of one lock in one process: each costs the same, however many there are (src/engine/owners.c, src/client/subscription.c).

Every bound is a ratio of CPU times within one run, so a busy or slow machine changes nothing.
"""
from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

import mutants
from harness.build import BUILD, ROOT, native
from harness.faults import times
from harness.server import Server

FEW, MANY = 1_000, 40_000
MOST = 4  # many waiters may cost this much more each than a few: with a walk over all it is 10 and more
ENDS = ("drain", "cancel", "shuffle", "timeout", "close")


def run(*command: object, **env: str) -> tuple[int, str]:
    done = subprocess.run([*map(str, command)], text=True, stdout=subprocess.PIPE, env={**os.environ, **env}, timeout=1500)
    return done.returncode, done.stdout


def numbers(said: str) -> dict[str, int]:
    words = said.split()
    return dict(zip(words[::2], map(int, words[1::2])))


# ---- what a waiter costs


def costs(server: Server, end: str, rounds: int = 3, kind: str = "mutex", **env: str) -> dict[str, float]:
    """How much more a waiter among MANY costs than one among FEW: to queue up, and to end its wait."""
    best: dict[int, dict[str, int]] = {}
    for count in (FEW, MANY) * rounds:
        code, said = run(native("many"), server.unix_url, count, end, kind, **env)
        assert code == 0, said
        one, least = numbers(said), best.get(count, {})
        best[count] = {phase: min(time, least.get(phase, time)) for phase, time in one.items()}
    return {phase: best[MANY][phase] / best[FEW][phase] for phase in ("queue", "end")}


def linear(ratios: dict[str, float]) -> None:
    assert max(ratios.values()) <= MOST, ratios


@pytest.mark.no_tsan
@pytest.mark.parametrize("end", ENDS)
def test_each_waiter_costs_the_same(redis_server: Server, end: str) -> None:
    linear(costs(redis_server, end))


@pytest.mark.no_tsan
@pytest.mark.parametrize("kind", ["write", "semaphore"])
@pytest.mark.parametrize("end", ["drain", "cancel", "close"])
def test_each_waiter_of_a_line_costs_the_same(redis_server: Server, kind: str, end: str) -> None:
    linear(costs(redis_server, end, rounds=3 if end == "drain" else 2, kind=kind))


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(300)
def test_all_hear(redis_server: Server, tmp_path: pathlib.Path) -> None:
    made = mutants.library(ROOT, BUILD, tmp_path, mutants.ALL_HEAR)
    with pytest.raises(AssertionError, match="end"):
        linear(costs(redis_server, "drain", rounds=1, kind="semaphore", LD_PRELOAD=str(made)))


@pytest.mark.house  # it tests a library with a mutant, not the library under test
@pytest.mark.timeout(300)
def test_walks(redis_server: Server, tmp_path: pathlib.Path) -> None:
    made = mutants.library(ROOT, BUILD, tmp_path, mutants.WALKS)
    with pytest.raises(AssertionError, match="queue"):
        linear(costs(redis_server, "cancel", rounds=1, LD_PRELOAD=str(made)))


# ---- the machine finds what a walk finds


@pytest.mark.no_tsan
@pytest.mark.parametrize("seeds, steps", times((12, 30_000), (14, 60_000), 1500, (100, 60_000)))
def test_found_as_by_a_walk(seeds: int, steps: int) -> None:
    code, said = run(native("waiters"), 1, seeds, steps)
    assert code == 0, said
    counted = numbers(said)
    assert counted["most"] > 1000 and min(counted.values()) > 0, counted


@pytest.mark.house  # the program is compiled here with a sanitizer of its own
@pytest.mark.parametrize("mutant", mutants.WAITERS, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, tmp_path: pathlib.Path) -> None:
    folder = mutants.copy_of(ROOT, tmp_path, mutant)
    files = [ROOT / "python-tests/native/sim/waiters.c", *sorted((folder / "src/engine").glob("*.c")), folder / "src/base/list.c"]
    includes = [f"-I{folder / 'src'}", f"-I{folder / 'abi'}", f"-I{ROOT / 'python-tests/native'}"]
    # The sanitizer ends a search that reads beyond what there is.
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-fsanitize=address", *includes, *files, "-Wl,--wrap=calloc,--wrap=malloc", "-o", tmp_path / "waiters"], check=True)
    code, said = run("timeout", "-s", "KILL", 60, tmp_path / "waiters", 1, 12, 30_000)
    assert code != 0, said
