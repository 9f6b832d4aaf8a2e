"""The library of this build, installed in a folder as meson does it, for compilers of other languages.

    kept = installed("rust")       # build/rust/BUILD-NAME has it from now on
    kept.env                       # PKG_CONFIG_PATH and so on
"""
from __future__ import annotations

import fcntl
import pathlib
import subprocess
import tempfile
import zlib
from dataclasses import dataclass

from ..build import BUILD, ROOT, clean_env


@dataclass(frozen=True)
class Installed:
    folder: pathlib.Path  # for what the language keeps: build/LANGUAGE
    prefix: pathlib.Path
    env: dict[str, str]

    def find(self, name: str) -> pathlib.Path:
        return next(self.prefix.rglob(name))


def without_spaces(path: pathlib.Path) -> pathlib.Path:
    """The same folder under a path without spaces, which pkg-config would break. The path is always the same."""
    if " " not in str(path):
        return path
    link = pathlib.Path(tempfile.gettempdir(), f"dlock-{path.name}-{zlib.crc32(bytes(path)):x}")
    path.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(path)
    return link


def installed(language: str) -> Installed:
    """Tests of other files may run in parallel and use the same folder."""
    kept = without_spaces(ROOT / "build" / language)
    prefix = kept / BUILD.name
    kept.mkdir(parents=True, exist_ok=True)
    install = ["meson", "install", "-C", str(BUILD), "--no-rebuild", "--destdir", str(prefix)]
    made_of = [BUILD / "libdlock.so.1", BUILD / "dlock.pc", ROOT / "abi/dlock.h", ROOT / "abi/dlock.json"]
    stamp, now = prefix / "stamp", " ".join(str(path.stat().st_mtime_ns) for path in made_of)
    with open(kept / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != now:
            subprocess.run(install, check=True, stdout=subprocess.DEVNULL, env=clean_env())
            stamp.write_text(now)
    env = {
        "PKG_CONFIG_SYSROOT_DIR": str(prefix), "PKG_CONFIG_PATH": str(next(prefix.rglob("dlock.pc")).parent),
        "LD_LIBRARY_PATH": str(next(prefix.rglob("libdlock.so.1")).parent),
    }  # fmt: skip
    return Installed(kept, prefix, env)
