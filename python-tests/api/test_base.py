"""Parts of src/base that have no I/O: numbers that do not run over, and so on. The tests are in native/base."""
from __future__ import annotations

import subprocess

import pytest

from harness.build import native


@pytest.mark.parametrize("part", ["lists", "numbers", "secrets", "texts"])
def test_base(part: str) -> None:
    done = subprocess.run([native("base"), part], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
