"""docs/levels.md and the table in README.md: each line is backed by tests that exist."""
from __future__ import annotations

import pathlib
import re

import pytest

from harness.build import ROOT

pytestmark = pytest.mark.house
NAMED = re.compile(r"`(\w+): (test_\w+)`")
LEVELS = ["L0", "L0q", "L1", "L2", "L2q", "L3"]


def rows(page: pathlib.Path) -> dict[str, str]:
    """The lines of the table, by level."""
    return {match[1]: match[0] for match in re.finditer(r"^\| (L\dq?) \|.*$", page.read_text(), re.M)}


def test_every_level_has_its_line_and_its_tests() -> None:
    table = rows(ROOT / "docs/levels.md")
    assert list(table) == LEVELS and list(rows(ROOT / "README.md")) == LEVELS
    for level, line in table.items():
        assert len(NAMED.findall(line)) >= 2, level
    for level in ("L0", "L1", "L2", "L3"):
        assert "control" in table[level].lower(), f"{level} promises less than all: a test shows what it does not"


def test_the_tests_are_there() -> None:
    missing = []
    for stem, name in NAMED.findall((ROOT / "docs/levels.md").read_text()):
        path = ROOT / f"python-tests/test_{stem}.py"
        if not path.exists() or not re.search(rf"^def {name}\(", path.read_text(), re.M):
            missing.append(f"{stem}: {name}")
    assert not missing
