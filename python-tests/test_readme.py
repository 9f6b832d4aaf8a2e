"""The README's programs run as they stand, and docs/options.md says what the library says."""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
import subprocess
import sys
from typing import Callable

import pytest

from harness.build import BUILD, LIBRARY, ROOT, SANITIZED, clean_env
from harness.golang import GO, MODULE, Tool
from harness.options import options_page

README = (ROOT / "README.md").read_text()


def blocks(section: str) -> list[tuple[str, str]]:
    """The fenced programs under a heading, each with its language; asyncio is one of its own."""
    text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## )", README, re.M | re.S)
    assert text, section
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text[1], re.M | re.S)
    return [("asyncio" if "import asyncio" in body else language, body) for language, body in found]


def finish(command: list[str | pathlib.Path], cwd: pathlib.Path, **env: str) -> str:
    """What a program prints that ends well and has no complaints."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, text=True, capture_output=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def python(source: str, folder: pathlib.Path) -> str:
    (folder / "sale.py").write_text(source)
    env = {"PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    return finish([sys.executable, "sale.py"], folder, **env)


def c(source: str, folder: pathlib.Path) -> str:
    (folder / "sale.c").write_text(source)
    more = ["-Wl,--allow-shlib-undefined"] if SANITIZED else []  # the sanitizer is preloaded
    command = ["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/abi", "sale.c", LIBRARY, *more, "-o", "sale"]
    subprocess.run(command, check=True, cwd=folder, env=clean_env())
    return finish([folder / "sale"], folder, LD_LIBRARY_PATH=str(BUILD))


def go(source: str, folder: pathlib.Path) -> str:
    assert GO, "there is no Go: apt-get install golang-go"
    tool = Tool()
    (folder / "main.go").write_text(source)
    needs = f'require {MODULE} v0.0.0\n\nreplace {MODULE} => "{ROOT}/bindings/go"\n'
    (folder / "go.mod").write_text("module sale\n\ngo 1.19\n\n" + needs)
    tool("vet", ".", cwd=folder)
    tool("build", "-o", "sale", ".", cwd=folder)
    return finish([folder / "sale"], folder, LD_LIBRARY_PATH=tool.env["LD_LIBRARY_PATH"])


def lua(source: str, folder: pathlib.Path) -> str:
    (folder / "sale.lua").write_text(source)
    env = {"LUA_PATH": f"{ROOT}/bindings/lua/?.lua", "DLOCK_LIBRARY": str(LIBRARY)}
    return finish(["luajit", "sale.lua"], folder, **env)


RUN: dict[str, Callable[[str, pathlib.Path], str]] = {"c": c, "python": python, "asyncio": python, "go": go, "lua": lua}
SHORTEST = blocks("The shortest programs")


@pytest.mark.timeout(300)  # Go compiles its standard library once
@pytest.mark.parametrize(
    "language, source",
    [pytest.param(*one, id=one[0], marks=[pytest.mark.house] if one[0] == "go" else []) for one in SHORTEST],
)
def test_shortest_program(redis_server, tmp_path: pathlib.Path, language: str, source: str) -> None:
    """The same in each language: it opens a client, has the lock, tells its token, and gives it back."""
    assert source.count('"redis://localhost:6379"') == source.count('"sale"') == 1
    output = RUN[language](source.replace("redis://localhost:6379", redis_server.url), tmp_path)
    assert re.fullmatch(r"mine, with token \d+\n", output)
    assert redis_server.command("KEYS", "*") == [b"redisson_lock_token:{sale}"]


def test_each_language_has_its_shortest_program() -> None:
    languages = [language for language, _ in SHORTEST]
    assert len(languages) == len(set(languages)) and set(languages) == set(RUN)
    for language, source in SHORTEST:
        head, main = re.fullmatch(r"(.*?)((?:int main|func main|async def|with|local client)\b.*)", source, re.S).groups()
        assert len([line for line in main.splitlines() if re.search(r"\w", line)]) <= 12, language  # ten or so


def test_each_kind_in_python(redis_server, tmp_path: pathlib.Path) -> None:
    ((language, source),) = blocks("The kinds")
    told = [
        r"fair, token \d+", "read-write", "seats free 2", "permits 2", "open True", r"both, token \d+",
        "the sale is over", "item 20", "nightly",
    ]  # fmt: skip
    assert language == "python"
    output = python(source.replace("redis://localhost:6379", redis_server.url), tmp_path)
    assert re.fullmatch("\n".join(told) + "\n", output)
    assert redis_server.command("GET", "stock") == b"19" and redis_server.command("EXISTS", "billing:nightly") == 1


def test_options_page_is_fresh() -> None:
    assert (ROOT / "docs/options.md").read_text() == options_page(ctypes.CDLL(str(LIBRARY)))
