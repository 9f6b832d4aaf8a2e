"""The README's programs run as they stand, and docs/options.md says what the library says."""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness.build import BUILD, LIBRARY, ROOT, SANITIZED, clean_env
from harness.options import options_page

README = (ROOT / "README.md").read_text()


def block(language: str, place: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)[place]


def run_python(url: str, folder: pathlib.Path, place: int) -> str:
    """What a Python program of the README prints."""
    source = folder / "program.py"
    source.write_text(block("python", place).replace("redis://localhost:6379", url))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(LIBRARY)}
    done = subprocess.run([sys.executable, source], capture_output=True, text=True, timeout=30, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_c_program(redis_server, tmp_path: pathlib.Path) -> None:
    source, program = tmp_path / "sale.c", tmp_path / "sale"
    source.write_text(block("c").replace("redis://localhost:6379", redis_server.url))
    more = ["-Wl,--allow-shlib-undefined"] if SANITIZED else []  # the sanitizer is preloaded
    command = ["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/abi", source, LIBRARY, *more, "-o", program]
    subprocess.run(command, check=True, env=clean_env())
    env = {**os.environ, "LD_LIBRARY_PATH": str(BUILD)}
    done = subprocess.run([program], capture_output=True, text=True, timeout=30, env=env)
    assert done.returncode == 0
    assert re.fullmatch(r"mine, with token \d+\n", done.stdout)
    assert done.stderr == ""


def test_python_program(redis_server, tmp_path: pathlib.Path) -> None:
    assert re.fullmatch(r"mine, with token \d+\n", run_python(redis_server.url, tmp_path, 0))


def test_each_kind_in_python(redis_server, tmp_path: pathlib.Path) -> None:
    told = [
        r"fair, token \d+", "read-write", "seats free 2", "permits 2", "open True", r"both, token \d+",
        "the sale is over", "item 20", "nightly",
    ]  # fmt: skip
    assert re.fullmatch("\n".join(told) + "\n", run_python(redis_server.url, tmp_path, 1))
    assert redis_server.command("GET", "stock") == b"19" and redis_server.command("EXISTS", "billing:nightly") == 1


def test_options_page_is_fresh() -> None:
    assert (ROOT / "docs/options.md").read_text() == options_page(ctypes.CDLL(str(LIBRARY)))
