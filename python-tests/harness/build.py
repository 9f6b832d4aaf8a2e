"""Where the build under test is. ./dev sets DLOCK_BUILD and DLOCK_LIBRARY; the default is build/debug."""
from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DLOCK_BUILD", ROOT / "build/debug"))
LIBRARY = pathlib.Path(os.environ.get("DLOCK_LIBRARY", BUILD / "libdlock.so.1"))
SANITIZED = "LD_PRELOAD" in os.environ


def native(name: str) -> pathlib.Path:
    """A program of python-tests/native."""
    return BUILD / "python-tests/native" / name


def preloadable(name: str) -> str:
    """A shared object of python-tests/native under a path without spaces: LD_PRELOAD cannot have any."""
    path = native(name)
    if " " not in str(path):
        return str(path)
    link = pathlib.Path(tempfile.mkdtemp(prefix="dlock-")) / name
    link.symlink_to(path)
    atexit.register(shutil.rmtree, link.parent, ignore_errors=True)
    return str(link)


def build_library(folder: pathlib.Path, *options: str) -> pathlib.Path:
    """The library of this tree, compiled in a folder with these options of meson, and without optimisation, which takes most of the time."""
    for command in (["meson", "setup", folder, ROOT, "--buildtype=plain", "-Dtests=false", "-Ddemo=false", *options], ["ninja", "-C", folder, "libdlock.so.1"]):
        done = subprocess.run([str(word) for word in command], env=clean_env(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "libdlock.so.1"


def clean_env(**more: str) -> dict[str, str]:
    """The environment for programs that are not under test: no preloaded sanitizer."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**env, **more}
