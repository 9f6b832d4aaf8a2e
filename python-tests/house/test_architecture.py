"""ARCHITECTURE.md: each file, folder and function that it names exists, the function in the file named last; and it is short."""
from __future__ import annotations

import re

import pytest

from harness.build import ROOT

pytestmark = pytest.mark.house
PAGE = ROOT / "ARCHITECTURE.md"
PATH = re.compile(r"(?:src|abi|python-tests|bindings)/[\w/.-]*\w|[A-Z]+\.md")
FUNCTION = re.compile(r"(?:dli|dlock)_\w+")
LINES = 250


def prose() -> str:
    """The page without its pictures."""
    return re.sub(r"^```.*?^```", "", PAGE.read_text(), flags=re.S | re.M)


def named(text: str | None = None) -> list[str]:
    """What stands in code quotes, in order; on the whole page unless a text is given."""
    return re.findall(r"`([^`\n]+)`", prose() if text is None else text)


def test_files_exist() -> None:
    paths = [name for name in named() if PATH.fullmatch(name)]
    assert len(paths) > 25
    assert not [path for path in paths if not (ROOT / path).exists()]


def steps() -> list[tuple[str, str]]:
    """Each function with the file that the same sentence names: the nearest one behind or before it."""
    found = []
    for sentence in re.split(r"(?<=\.)\s", prose()):
        names = named(sentence)
        files = [name for name in names if PATH.fullmatch(name) and (ROOT / name).is_file()]
        found += [(name, files[-1]) for name in names if FUNCTION.fullmatch(name) and len(files) == 1]
    return found


def test_functions_are_where_it_says() -> None:
    pairs = steps()
    assert len(pairs) > 12
    assert not [(name, path) for name, path in pairs if not re.search(rf"\b{name}\b", (ROOT / path).read_text())]


def test_names_exist() -> None:
    sources = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.[ch]")))
    assert not [name for name in named() if FUNCTION.fullmatch(name) and not re.search(rf"\b{name}\b", sources)]


def test_each_room_is_on_the_picture() -> None:
    picture = PAGE.read_text().split("```")[1]
    rooms = [path.name for path in [*(ROOT / "src").iterdir(), *(ROOT / "src/redis").iterdir()] if path.is_dir() and path.name != "__pycache__"]
    assert not [room for room in rooms if f"{room}/" not in picture]


def test_it_is_short() -> None:
    lines = PAGE.read_text().splitlines()
    assert len(lines) <= LINES and max(len(line) for line in lines if line[:1] != "|") <= 160
