"""docs/levels.md: each level is backed by tests that exist."""
from __future__ import annotations

import pathlib
import re

import pytest

from harness.build import ROOT

pytestmark = pytest.mark.house
NAMED = re.compile(r"`(\w+): (test_\w+)`")
LEVELS = ["L0", "L0q", "L1", "L2", "L2q", "L3"]


def sections(page: pathlib.Path) -> dict[str, str]:
    """The page's text about each level."""
    return {match[1]: match[2] for match in re.finditer(r"^### (L\dq?)\n(.*?)(?=^#)", page.read_text(), re.M | re.S)}


def test_every_level_has_its_tests() -> None:
    page = ROOT / "docs/levels.md"
    found = sections(page)
    assert list(found) == LEVELS == re.findall(r"^\| \[(L\dq?)\]", page.read_text(), re.M)
    for level, text in found.items():
        assert len(NAMED.findall(text)) >= 2, level
    for level in ("L0", "L1", "L2", "L3"):
        assert "control" in found[level].lower(), f"{level} promises less than all: a test shows what it does not"


def test_the_tests_are_there() -> None:
    missing = []
    for stem, name in NAMED.findall((ROOT / "docs/levels.md").read_text()):
        path = next((ROOT / "python-tests").glob(f"*/test_{stem}.py"), None)
        if not path or not re.search(rf"^def {name}\(", path.read_text(), re.M):
            missing.append(f"{stem}: {name}")
    assert not missing
