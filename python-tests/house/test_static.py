"""The static library: a program that links it sees the functions of dlock.h, and no other name."""
from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from harness.build import BUILD, ROOT, clean_env

pytestmark = pytest.mark.house


def test_only_the_public_names_are_global(tmp_path: pathlib.Path) -> None:
    objects = [*BUILD.glob("libdlock_internal.a.p/*.o"), *BUILD.glob("src/etcd/codec/libdlock_messages.a.p/*.o")]
    if not objects:
        pytest.skip("the build under test has no objects")
    made = tmp_path / "libdlock.a"
    subprocess.run([sys.executable, ROOT / "tools/static.py", made, tmp_path, *objects], check=True, env=clean_env())
    listed = subprocess.run(["nm", "-g", "--defined-only", made], check=True, capture_output=True, text=True, env=clean_env())
    names = [line.split()[2] for line in listed.stdout.splitlines() if len(line.split()) == 3]
    assert [name for name in names if not name.startswith(("dlock_", "__"))] == []  # __: a sanitizer's
    wanted = {line.strip(" ;\n") for line in (ROOT / "abi/dlock.map").read_text().splitlines() if line.strip().startswith("dlock_")}
    assert {name for name in wanted if "*" not in name} <= set(names)
    assert len([name for name in names if name.startswith("dlock_")]) > 50
