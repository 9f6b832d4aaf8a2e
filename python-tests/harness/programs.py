"""The programs of README.md and docs: taken from fenced blocks, and run unchanged against a server of the tests."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any, Callable, NamedTuple

import pytest

from .build import BUILD, LIBRARY, ROOT, SANITIZED, clean_env
from .compilers.node import BINDING as NODE_BINDING, Tool as Node, ready as node_ready
from .compilers.rust import BINDING as RUST_BINDING, CARGO, Tool as Cargo
from .golang import GO, MODULE, Tool

URL = "redis://localhost:6379"


class Block(NamedTuple):
    """A fenced block of a page."""

    page: pathlib.Path
    line: int  # line number of its fence
    language: str
    body: str
    output: str  # its output: the block "text" right after a line "It prints:"; "" without one


def blocks(page: pathlib.Path) -> list[Block]:
    found, text = [], page.read_text()
    for match in re.finditer(r"^( *)```([^\n]*)\n(.*?)^\1```$", text, re.M | re.S):
        assert not match[1], f"{page.name}: a fence that is indented is not read"
        behind = re.match(r"\n+It prints:\n+```text\n(.*?)^```$", text[match.end() :], re.M | re.S)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[2], match[3], behind[1] if behind else ""))
    return found


def finish(command: list[str | pathlib.Path], cwd: pathlib.Path, **env: str) -> str:
    """The output of a program that exits with 0 and writes nothing to stderr."""
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


def js(source: str, folder: pathlib.Path) -> str:
    node = Node()
    (folder / "node_modules").mkdir(exist_ok=True)
    if not (folder / "node_modules/dlock").exists():
        (folder / "node_modules/dlock").symlink_to(NODE_BINDING)
    (folder / "sale.mjs").write_text(source)
    return finish(node.command("sale.mjs"), folder, **{name: node.env[name] for name in ("DLOCK_ADDON", "LD_LIBRARY_PATH")})


def rust(source: str, folder: pathlib.Path) -> str:
    cargo = Cargo()
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src/main.rs").write_text(source)
    (folder / "Cargo.toml").write_text(f'[package]\nname = "sale"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\ndlock = {{ path = "{RUST_BINDING}/dlock" }}\n')
    cargo("build", "--quiet", cwd=folder)
    return finish([f"{cargo.env['CARGO_TARGET_DIR']}/debug/sale"], folder, LD_LIBRARY_PATH=str(BUILD))


def marks(language: str) -> list[Any]:
    """For tests of its programs."""
    no_node = pytest.mark.skipif(not node_ready(), reason="there is no Node.js with headers: apt-get install nodejs libnode-dev")
    no_cargo = pytest.mark.skipif(not CARGO, reason="there is no cargo: apt-get install cargo")
    slow = [pytest.mark.house, pytest.mark.full]
    return {"go": [pytest.mark.house], "js": [*slow, no_node], "rust": [*slow, no_cargo, pytest.mark.timeout(300)]}.get(language, [])


RUN: dict[str, Callable[[str, pathlib.Path], str]] = {"c": c, "python": python, "go": go, "lua": lua, "js": js, "rust": rust}


def run(block: Block, url: str, folder: pathlib.Path) -> str:
    """The program's output, with a test server in the place of the one that it names."""
    return RUN[block.language](block.body.replace(URL, url), folder)
