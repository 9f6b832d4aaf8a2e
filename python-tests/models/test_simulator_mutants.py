"""Seeded defects that the simulator finds, and changes that it must not object to."""
from __future__ import annotations

import pathlib

import pytest

import mutants
from harness.build import ROOT
from test_simulator import JOBS, simulate

pytestmark = [pytest.mark.house, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    return mutants.compile_simulator(ROOT, tmp_path_factory.mktemp("simulator"))


@pytest.mark.parametrize("mutant", mutants.MUTANTS + mutants.KINDS, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, objects: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    folder = mutants.copy_of(ROOT, tmp_path, mutant)
    program = mutants.link(folder, objects, mutant)
    seeds = ("--seeds", f"{mutant.first}:{mutant.seeds}", "--jobs", JOBS, "--void-ok", "--driver-mutant", mutant.driver)
    seeds += ("--world", mutant.world, *["--forgets"] * mutant.forgets)
    code, out = simulate(*seeds, program=program, scripts=folder / "src/redis/scripts")
    assert code == (1 if mutant.caught else 0), out
