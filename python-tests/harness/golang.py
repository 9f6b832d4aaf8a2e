"""The go command, in an environment where programs find the library of this build as if it were installed."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import zlib
from typing import Any

from .build import ROOT, clean_env
from .compilers.installed import installed

GO = os.environ.get("DLOCK_GO") or shutil.which("go")
BINDING = ROOT / "bindings/go"
MODULE = "github.com/libdlock/libdlock/bindings/go"


Done = subprocess.CompletedProcess[str]


def finish(command: list[str], **more: Any) -> Done:
    """Runs a command to its end. An error shows the output."""
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


class Tool:
    """The go command, in an environment that has the library of this build installed in a folder.

    Build results are kept in build/go, so that the next run is faster. Go does not notice a changed header or a library that has moved.
    So the folder stays the same, and a compiler flag tells headers apart.
    """

    def __init__(self) -> None:
        there = installed("go")
        kept = there.folder
        header = zlib.crc32(there.find("dlock.h").read_bytes())
        self.env = clean_env(
            **there.env, CGO_CFLAGS=f"-O2 -g -DHEADER_{header:x}",
            GOCACHE=str(kept / "cache"), GOPATH=str(kept / "path"), GOFLAGS="-buildvcs=false -modcacherw",
            GOTOOLCHAIN="local", GOPROXY="off", CGO_ENABLED="1",
        )  # fmt: skip
        self.minor = int(re.search(r"go1\.(\d+)", self("version").stdout)[1])

    def __call__(self, *words: str, check: bool = True, cwd: pathlib.Path = BINDING, **env: str) -> Done:
        done = finish([GO, *words], cwd=cwd, env={**self.env, **env})
        print(done.stdout)
        assert not check or done.returncode == 0, done.stdout[-6000:]
        return done
