"""The go command, in an environment where programs find the library of this build as if it were installed."""
from __future__ import annotations

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zlib
from typing import Any

from .build import BUILD, ROOT, clean_env

GO = os.environ.get("DLOCK_GO") or shutil.which("go")
BINDING = ROOT / "bindings/go"
MODULE = "github.com/libdlock/libdlock/bindings/go"


Done = subprocess.CompletedProcess[str]


def finish(command: list[str], **more: Any) -> Done:
    """Runs a command to its end. An error shows the output."""
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def without_spaces(path: pathlib.Path) -> pathlib.Path:
    """The same folder under a path without spaces, which pkg-config would break. The path is always the same."""
    if " " not in str(path):
        return path
    link = pathlib.Path(tempfile.gettempdir(), f"dlock-go-{zlib.crc32(bytes(path)):x}")
    path.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(path)
    return link


class Tool:
    """The go command, in an environment that has the library of this build installed in a folder.

    Build results are kept in build/go, so that the next run is faster. Go does not notice a changed header or a library that has moved.
    So the folder stays the same, and a compiler flag tells headers apart.
    """

    def __init__(self) -> None:
        kept = without_spaces(ROOT / "build/go")
        prefix = kept / BUILD.name
        kept.mkdir(parents=True, exist_ok=True)
        install = ["meson", "install", "-C", str(BUILD), "--no-rebuild", "--destdir", str(prefix)]
        made_of = [BUILD / "libdlock.so.1", BUILD / "dlock.pc", ROOT / "abi/dlock.h"]
        stamp, now = prefix / "stamp", " ".join(str(path.stat().st_mtime_ns) for path in made_of)
        with open(kept / ".lock", "w") as lock:  # tests of other files run in parallel and use this folder
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stamp.exists() or stamp.read_text() != now:
                subprocess.run(install, check=True, stdout=subprocess.DEVNULL, env=clean_env())
                stamp.write_text(now)
        header = zlib.crc32(next(prefix.rglob("dlock.h")).read_bytes())
        self.env = clean_env(
            PKG_CONFIG_SYSROOT_DIR=str(prefix), PKG_CONFIG_PATH=str(next(prefix.rglob("dlock.pc")).parent),
            LD_LIBRARY_PATH=str(next(prefix.rglob("libdlock.so.1")).parent), CGO_CFLAGS=f"-O2 -g -DHEADER_{header:x}",
            GOCACHE=str(kept / "cache"), GOPATH=str(kept / "path"), GOFLAGS="-buildvcs=false -modcacherw",
            GOTOOLCHAIN="local", GOPROXY="off", CGO_ENABLED="1",
        )  # fmt: skip
        self.minor = int(re.search(r"go1\.(\d+)", self("version").stdout)[1])

    def __call__(self, *words: str, check: bool = True, cwd: pathlib.Path = BINDING, **env: str) -> Done:
        done = finish([GO, *words], cwd=cwd, env={**self.env, **env})
        print(done.stdout)
        assert not check or done.returncode == 0, done.stdout[-6000:]
        return done
