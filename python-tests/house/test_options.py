"""No part of an option is forgotten: whose it is on its page, the code that obeys it, the manual, a test."""
from __future__ import annotations

import ctypes
import functools
import re

import pytest

from harness.build import LIBRARY, ROOT
from harness.options import OF_CLIENTS, OF_NAMES, rows

pytestmark = pytest.mark.house
HEADER, CODE = ROOT / "src/base/options.h", ROOT / "src/api/lock.c"
TABLES = {HEADER, ROOT / "src/base/option_table.c", ROOT / "src/base/url.c"}  # what they say of an option obeys nothing
LISTS = {ROOT / "python-tests/harness/options.py", ROOT / "python-tests/api/test_status.py"}  # a name there tests nothing of it


@functools.lru_cache(maxsize=None)
def options() -> dict[str, str]:
    """The name of each option, by its number in options.h."""
    names = [name for (name,) in rows(ctypes.CDLL(str(LIBRARY)), "name")]
    numbers = re.findall(r"^    (DLI_OPT_\w+),$", re.search(r"enum dli_option \{(.*?)\}", HEADER.read_text(), re.S)[1], re.M)[:-1]
    assert len(numbers) == len(names) > 40, "is the library built?"
    return dict(zip(numbers, names))


def read_by(function: str) -> set[str]:
    """The options that a function of lock.c reads."""
    body = re.search(rf"^static void {function}\(.*?^}}", CODE.read_text(), re.S | re.M)[0]
    return {options()[number] for number in re.findall(r"\bDLI_OPT_\w+", body)}


def texts(*patterns: str) -> list[str]:
    paths = {path for pattern in patterns for path in ROOT.glob(pattern)} - TABLES - LISTS
    return [path.read_text() for path in sorted(paths)]


def not_in(found: list[str], words: dict[str, str]) -> list[str]:
    """The options whose word is in none of the texts."""
    known = set(re.findall(r"\w+", "\n".join(found)))
    return [name for name, word in words.items() if word not in known]


def test_options_of_clients() -> None:
    first = re.search(r"DLI_OPT_OF_CLIENTS = (\w+)", HEADER.read_text())[1]
    assert list(options().values())[list(options()).index(first) :] == OF_CLIENTS, "OF_CLIENTS in harness/options.py"


def test_options_of_names() -> None:
    """They are rules of the lock. What is a term of each handle, too, may differ between handles."""
    assert sorted(read_by("read_rules") - read_by("read_terms") - set(OF_CLIENTS)) == sorted(OF_NAMES), "OF_NAMES in harness/options.py"


def test_each_is_obeyed() -> None:
    assert not not_in(texts("src/**/*.c"), {name: number for number, name in options().items()})


def test_each_has_its_page() -> None:
    """A page of the manual besides the table of all options."""
    pages = [text for text in texts("docs/*.md") if not text.startswith("# Options\n")]
    assert not not_in(pages, {name: name for name in options().values()})


def test_each_has_a_test() -> None:
    assert not not_in(texts("python-tests/*/*.py", "bindings/go/*_test.go"), {name: name for name in options().values()})
