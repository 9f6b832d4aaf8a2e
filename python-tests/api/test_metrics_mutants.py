"""Defects in the metrics of a client: a test finds each of them."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import mutants
from harness.build import BUILD, ROOT

pytestmark = [pytest.mark.full, pytest.mark.house, pytest.mark.timeout(300)]


@pytest.mark.parametrize("mutant, file, words", mutants.METRICS, ids=[f"{one.number}: {one.what}" for one, _, _ in mutants.METRICS])
def test_mutant(mutant: mutants.Mutant, file: str, words: str, tmp_path: pathlib.Path) -> None:
    library = mutants.library(ROOT, BUILD, tmp_path, mutant)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-c", "python-tests/pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider"]
    command += [f"python-tests/{file}", "-m", "not full", "-k", words, "--timeout", "60"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "DLOCK_LIBRARY": str(library)}, capture_output=True, text=True)
    assert done.returncode == 1 and "failed" in done.stdout, done.stdout[-3000:]
