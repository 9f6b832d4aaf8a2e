"""Node.js, and the package dlock of this tree with its addon for the library of this build.

    node = Tool()                        # builds the addon if need be
    node("script.mjs", "word")           # a finished program
    node.command("script.mjs")           # with node.env: to start one
"""
from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess
from typing import Any

from ..build import ROOT, clean_env
from .installed import installed

NODE = os.environ.get("DLOCK_NODE") or shutil.which("node")
BINDING = ROOT / "bindings/node"
RUNNER = ROOT / "python-tests/scenarios/runner.mjs"
HEADERS = [pathlib.Path("/usr/include/node"), *([pathlib.Path(NODE).resolve().parent.parent / "include/node"] if NODE else [])]
Done = subprocess.CompletedProcess[str]


def ready() -> bool:
    """Whether there are Node.js and the headers for addons."""
    return bool(NODE) and any((folder / "node_api.h").exists() for folder in HEADERS)


class Tool:
    """A folder node_modules with the package stands beside the addon, so that programs there find it by its name."""

    def __init__(self) -> None:
        assert NODE, "there is no Node.js: apt-get install nodejs libnode-dev"
        self.kept = installed("node")
        include = next(folder for folder in HEADERS if (folder / "node_api.h").exists())
        self.folder = self.kept.prefix / "work"
        addon = self.folder / "dlock.node"
        self.env = clean_env(**self.kept.env, DLOCK_ADDON=str(addon), NODE_INCLUDE=str(include))
        with open(self.kept.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.build(addon)
        self.runner = self.place(RUNNER)

    def build(self, addon: pathlib.Path) -> None:
        """The addon, if it is older than what it is made of."""
        made_of = [*BINDING.glob("src/*"), BINDING / "build.js", self.kept.find("libdlock.so.1")]
        (self.folder / "node_modules").mkdir(parents=True, exist_ok=True)
        link = self.folder / "node_modules/dlock"
        if not link.is_symlink():
            link.symlink_to(BINDING)
        if not addon.exists() or any(path.stat().st_mtime > addon.stat().st_mtime for path in made_of):
            self(str(BINDING / "build.js"), str(addon))

    def place(self, program: pathlib.Path) -> pathlib.Path:
        """The program in the folder where it finds the package: the same text, not the same file."""
        there, text = self.folder / program.name, program.read_bytes()
        if not there.exists() or there.read_bytes() != text:
            new = there.with_suffix(f".{os.getpid()}")
            new.write_bytes(text)
            new.replace(there)
        return there

    def command(self, *words: Any) -> list[str]:
        assert NODE
        return [NODE, *map(str, words)]

    def __call__(self, *words: Any, check: bool = True, **more: Any) -> Done:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done: Done = subprocess.run(self.command(*words), **{"env": self.env, **pipes, **more})
        assert not check or done.returncode == 0, done.stdout[-6000:]
        return done
