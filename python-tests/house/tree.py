"""Shared parts of the checks of this folder: the list of files, and how problems are reported.

Each check runs as a program, "sizes.py [ROOT]": it prints its problems, one per line, and exits with 1 if there are any.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Callable, Iterator

SKIPPED = {"Cargo.lock", "target", ".git", "build", "corpus", "__pycache__", ".pytest_cache", ".mypy_cache", "dlock.egg-info"}
MADE = {"out", "env"}  # by the README's lines for installing


def all_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED - (MADE if folder == str(root) else set()))
        yield from (pathlib.Path(folder, name) for name in sorted(set(names) - SKIPPED))  # .git is a file in a worktree


def sources(root: pathlib.Path, *suffixes: str, folder: str = "src") -> list[pathlib.Path]:
    """Files under src, or another folder, that have one of these suffixes."""
    return [path for path in all_files(root / folder) if path.suffix in suffixes]


def functions(root: pathlib.Path, folder: str = "src") -> list[dict]:
    """Every function of the library, or of another folder, from ctags: name, path, line, end, file (True when static)."""
    files = [str(path) for path in sources(root, ".c", ".h", folder=folder)]
    command = ["ctags", "--options=NONE", "--output-format=json", "--languages=C", "--langmap=C:.c.h"]
    command += ["--kinds-C=f", "--fields=+neF", "-f", "-", *files]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout if files else ""
    return [json.loads(line) for line in output.splitlines()]


def main(problems: Callable[[pathlib.Path], list[str]]) -> None:
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = problems(root)
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
