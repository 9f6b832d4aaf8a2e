"""The man pages: mandoc has nothing to say about them, and they have every call, option, subcommand and status."""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from harness.build import BUILD, LIBRARY, ROOT, SANITIZED, clean_env

pytestmark = [pytest.mark.house, pytest.mark.timeout(300), pytest.mark.skipif(SANITIZED, reason="the pages are the same without a sanitizer")]

MAKE = ROOT / "docs/man/make.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("man")
    command = [sys.executable, MAKE, made, LIBRARY, BUILD / "tools/dlock/dlock"]
    done = subprocess.run(command, env=clean_env(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, "")
    return made


def shown(page: pathlib.Path) -> str:
    """As a terminal shows it, in one line."""
    text = subprocess.run(["mandoc", "-Tascii", "-Owidth=200", page], check=True, stdout=subprocess.PIPE, text=True).stdout
    return " ".join(re.sub(r".\x08", "", text).split())


def test_mandoc_is_content(folder: pathlib.Path) -> None:
    pages = sorted(folder.glob("*.[137]"))
    assert len(pages) >= 14
    done = subprocess.run(["mandoc", "-Tlint", *pages], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_call_has_a_page(folder: pathlib.Path) -> None:
    links = [line.split() for line in subprocess.run([sys.executable, MAKE, "--links"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    calls = set(re.findall(r"^    (dlock_\w+);$", (ROOT / "abi/dlock.map").read_text(), re.M))
    assert calls == {name for page, *names in links for name in [page, *names]} - {page for page, *_ in links if page not in calls}
    for page, *names in links:
        text = shown(folder / f"{page}.3")
        for name in names:
            assert f"{name}(" in text and re.search(rf"NAME .*\b{name}\b.* - ", text), name
    statuses = set(re.findall(r"\b(DLOCK_[A-Z_]+) = -?\d+", (ROOT / "abi/dlock.h").read_text()))
    assert statuses <= set(re.findall(r"\bDLOCK_[A-Z_]+", shown(folder / "dlock_types.3")))


def test_every_option_and_subcommand(folder: pathlib.Path) -> None:
    options = shown(folder / "dlock_options.7")
    for name in re.findall(r"^\| `(\w+)` ", (ROOT / "docs/options.md").read_text(), re.M):
        assert re.search(rf"\b{name} \(", options), name
    command = shown(folder / "dlock.1")
    for name in re.findall(r'{"(\w+)", ', (ROOT / "tools/dlock/commands.c").read_text()):
        assert f"Usage: dlock {name}" in command, name


def test_promises(folder: pathlib.Path) -> None:
    text = shown(folder / "dlock.7")
    assert all(level in text for level in ("L0q", "L2q", "L3", "LC")) and "at most one unpaused holder" in text
    assert not re.search(r"\.md\b|\]\(|\.py\b", text), "a link or a path of the tree"
