"""The tests of this folder on a newer etcd than Debian's, which the Go module proxy has: python-tests/etcd/server."""
from __future__ import annotations

import fcntl
import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness.build import ROOT
from harness.golang import GO

FOLDER = ROOT / "python-tests/etcd/server"
PROGRAM = ROOT / "build/etcd-server/etcd"
NEEDS = 22  # Go 1.22

pytestmark = [pytest.mark.full, pytest.mark.house, pytest.mark.timeout(900)]


def go() -> str:
    for candidate in (GO, "/usr/local/go/bin/go"):
        if candidate and pathlib.Path(candidate).exists():
            found = re.search(r"go1\.(\d+)", subprocess.run([candidate, "version"], capture_output=True, text=True).stdout)
            if found and int(found[1]) >= NEEDS:
                return candidate
    return ""


def build() -> str:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with open(PROGRAM.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not PROGRAM.exists() or PROGRAM.stat().st_mtime < (FOLDER / "go.mod").stat().st_mtime:
            env = {**os.environ, "GOFLAGS": "-buildvcs=false -modcacherw", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            subprocess.run([go(), "build", "-o", str(PROGRAM), "go.etcd.io/etcd/server/v3"], cwd=FOLDER, env=env, check=True)
    return str(PROGRAM)


@pytest.mark.skipif(not go(), reason=f"there is no Go 1.{NEEDS} or newer: say where by DLOCK_GO")
def test_on_a_newer_server() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-c", "python-tests/pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider"]
    command += ["python-tests/etcd", "-m", "not full and not house"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "DLOCK_ETCD": build()}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
