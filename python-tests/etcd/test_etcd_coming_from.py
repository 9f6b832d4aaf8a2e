"""docs/coming-from.md, clientv3/concurrency: old and new calls run, row by row, on one etcd."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness.build import ROOT
from harness.etcd import Etcd
from harness.etcd.peer import FOLDER
from harness.golang import GO
from harness.programs import go

pytestmark = [
    pytest.mark.house,
    pytest.mark.timeout(300),  # the first build takes long
    pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go"),
]

PAGE = (ROOT / "docs/coming-from.md").read_text()
SOURCE = """package main

import (
{imports}
)

func main() {{
	ctx := context.Background()
{lines}
	fmt.Println("done")
}}
"""


def rows() -> list[tuple[str, str]]:
    lines = re.search(r"^\| clientv3/concurrency \| libdlock \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGE, re.M)
    assert lines
    found = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", lines[1], re.M)
    assert len(found) == lines[1].count("\n") > 8
    return found


def program(calls: list[str], *imports: str) -> str:
    lines = []
    for call in calls:
        names, _, _ = call.partition(" :=") if " :=" in call else call.partition(" =")
        lines.append(call)
        if "err" in names:
            lines.append("if err != nil { panic(err) }")
        lines += [f"_ = {name.strip()}" for name in names.split(",") if name.strip() not in ("err", "_")]
    return SOURCE.format(imports="\n".join(imports), lines="\n".join(lines))


@pytest.mark.full
def test_old_calls(etcd: Etcd, tmp_path: pathlib.Path) -> None:
    node = etcd.nodes[0]
    source = program([old.replace("endpoints", f'[]string{{"{node.host}:{node.port}"}}') for old, _ in rows()], '"context"', '"fmt"',
                     '"go.etcd.io/etcd/client/v3"', '"go.etcd.io/etcd/client/v3/concurrency"')  # fmt: skip
    for name in ("go.mod", "go.sum"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "main.go").write_text(source)
    env = {**os.environ, "GOFLAGS": "-buildvcs=false -modcacherw -mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    done = subprocess.run([str(GO), "run", "."], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    assert etcd.keys("sale/") == []


def test_new_calls(etcd: Etcd, tmp_path: pathlib.Path) -> None:
    calls = [new.replace("etcd://e1.example,e2.example", etcd.url) for _, new in rows()]
    source = program(calls, '"context"', '"fmt"', '"time"', 'dlock "github.com/libdlock/libdlock/bindings/go"')
    assert go(source, tmp_path) == "done\n"
    assert etcd.keys("sale/") == []
