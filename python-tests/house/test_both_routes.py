"""promises.md: each promise of three pages of the manual has two tests that exist, by two routes, and no section is without one."""
from __future__ import annotations

import pathlib
import re

import pytest

from harness.build import ROOT
from harness.scenarios import scenarios

pytestmark = pytest.mark.house

PAGE = ROOT / "python-tests/house/promises.md"
PAGES = ("levels.md", "waiting.md", "servers.md")
ROW = re.compile(r"^\| \[(?P<promise>.+?)\]\(\.\./\.\./docs/(?P<page>[a-z]+\.md)#?(?P<anchor>[\w-]*)\) \| `(?P<first>[^`]+)` \| `(?P<second>[^`]+)`: (?P<route>.+) \|$")
# What says where to read, or what is not promised.
NOT_PROMISES = {"which-level-do-i-need", "the-levels"}


def rows() -> list[re.Match[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| [")]
    found = [ROW.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found) if not match]
    return [match for match in found if match]


def anchors(page: pathlib.Path) -> set[str]:
    """Of its sections below the title."""
    titles = re.findall(r"^##+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def is_there(name: str, table: set[str]) -> bool:
    stem, _, test = name.partition(": ")
    if not test.startswith("test_"):
        return name in table
    path = next((ROOT / "python-tests").glob(f"*/test_{stem}.py"), None)
    return path is not None and re.search(rf"^def {test}\(", path.read_text(), re.M) is not None


def test_all_tests_exist_and_differ() -> None:
    table = {scenario.name for scenario in scenarios()}
    found = rows()
    missing = [name for row in found for name in (row["first"], row["second"]) if not is_there(name, table)]
    assert not missing
    assert not [row["promise"] for row in found if row["first"] == row["second"]]
    assert len(found) > 100


def test_every_section_has_a_promise() -> None:
    found = rows()
    for page in PAGES:
        named, there = {row["anchor"] for row in found if row["page"] == page} - {""}, anchors(ROOT / "docs" / page)
        assert named <= there, named - there
        assert there - named <= NOT_PROMISES, there - named
