"""Defects in the engine in memory: a test of this folder finds each of them."""
from __future__ import annotations

import pathlib

import pytest

import mutants
from harness.build import BUILD, ROOT

pytestmark = [pytest.mark.house, pytest.mark.timeout(300)]


@mutants.each(mutants.MEMORY)
def test_mutant(mutant: mutants.Mutant, file: str, words: str, tmp_path: pathlib.Path) -> None:
    mutants.check_found(ROOT, BUILD, tmp_path, mutant, f"memory/{file}", words)
