"""The whole library over a model of etcd, one of ZooKeeper, and with locks in memory, in virtual time (native/worlds/worlds.h): seeds that must pass, and defects that must be found."""
from __future__ import annotations

import pathlib
import subprocess

import pytest

import mutants
from harness.build import BUILD, ROOT, native
from harness.faults import times

PROGRAM = native("dlock_worlds")
WORLDS = [(world, *more) for world in ("etcd", "zookeeper", "memory") for more in ((), ("--semaphores",), ("--latches",))]

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_tsan]


def simulate(*arguments: object, program: pathlib.Path = PROGRAM) -> tuple[int, str]:
    command = ["nice", str(program), *map(str, arguments)]  # others have timers to meet
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


@pytest.mark.parametrize("world", WORLDS, ids=" ".join)
@pytest.mark.parametrize("count", times(100, 300, 600, 20_000))
def test_seeds_hold(world: tuple[str, ...], count: int) -> None:
    code, out = simulate("--world", *world, "--seeds", f"1:{count}")
    assert code == 0, out


# Seeds that found something which the few seeds above do not reach.
ONCE = [
    (("etcd",), 2494),  # a session was lost while the client was being closed, and its lease was revoked twice
    (("etcd", "--latches"), 107_319),  # the judge forgot that a paused process has not closed yet
    (("zookeeper", "--semaphores"), 100_328),  # a permit's node of an older session was taken for that of the new one
    (("memory", "--semaphores"), 8629),  # the judge took two locks with the same token for one
]


@pytest.mark.parametrize(("world", "seed"), ONCE, ids=str)
def test_a_seed_that_failed_once(world: tuple[str, ...], seed: int) -> None:
    code, out = simulate("--world", *world, "--seeds", f"{seed}:1", "--void-ok")
    assert code == 0, out


@pytest.mark.parametrize("world", WORLDS, ids=" ".join)
def test_the_same_seed_gives_the_same_run(world: tuple[str, ...]) -> None:
    def run(seeds: str) -> tuple[int, str]:
        return simulate("--world", *world, "--seeds", seeds, "--void-ok")

    assert run("1:20") == run("1:20") != run("2:20")


@pytest.mark.parametrize("world", WORLDS, ids=" ".join)
def test_a_fault_that_never_struck_is_an_error(world: tuple[str, ...]) -> None:
    code, out = simulate("--world", *world, "--seeds", "1:1")
    assert code == 3 and "never struck" in out


@pytest.mark.house
@pytest.mark.parametrize("mutant", mutants.rows(mutants.WORLDS))
def test_mutant(mutant: mutants.Mutant, tmp_path: pathlib.Path) -> None:
    program = mutants.worlds(ROOT, BUILD, tmp_path, mutant)
    kinds = ["--semaphores"] if mutant.semaphores else ["--latches"] if mutant.latches else []
    code, out = simulate("--world", mutant.world, *kinds, "--seeds", f"{mutant.first}:{mutant.seeds}", "--void-ok", program=program)
    assert code == 1, out
