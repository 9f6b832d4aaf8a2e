"""How the bindings carry the library: a bundle of C sources in Go's module and in the crate dlock-sys, a file in a rock.

The bundle here is a small one with the same layout. ./dev package tries the real one where nothing else is installed.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

from harness.build import LIBRARY, ROOT, clean_env
from harness.compilers.rust import CARGO, Tool
from harness.server import Server

GO = os.environ.get("DLOCK_GO") or shutil.which("go")
MODULE = "github.com/libdlock/libdlock/bindings/go"
BUNDLE = {
    "flags.txt": '-std=c11\n-w\n-include\ncompat.h\n-DDLOCK_API=__attribute__((visibility("default")))\n-I.\n-Isrc\n',
    "sources.txt": "src/one/one.c\nsrc/two/two-and.c\n",
    "compat.h": "#define two dli_two\n",
    "dlock.h": "int dlock_one(void);\n",
    "src/one/one.c": '#include "dlock.h"\n#include "two/two.h"\nint dlock_one(void) { return two() + 1; }\n',
    "src/two/two.h": "int two(void);\n",
    "src/two/two-and.c": '#include "two/two.h"\nint two(void) { return 2; }\n',
    "Makefile": "all:\n",
}
PROBE = """package dlock

// #cgo CFLAGS: -I${SRCDIR}/internal/libdlock
// #include <dlock.h>
import "C"

func One() int { return int(C.dlock_one()) }
"""

pytestmark = [pytest.mark.house, pytest.mark.timeout(300)]
Done = subprocess.CompletedProcess[str]


def bundle_in(folder: pathlib.Path) -> pathlib.Path:
    for name, text in BUNDLE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(*command: Any, cwd: pathlib.Path, check: bool = True, **env: str) -> Done:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=clean_env(**env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert not check or done.returncode == 0, f"{words}\n{done.stdout[-3000:]}"
    return done


# ---- Go


def go(*words: Any, cwd: pathlib.Path, check: bool = True) -> Done:
    return run(GO, *words, cwd=cwd, check=check, GOPROXY="off", GOFLAGS="-buildvcs=false -modcacherw", GOTOOLCHAIN="local", CGO_ENABLED="1",
               GOCACHE=str(ROOT / "build/go/cache"), GOPATH=str(ROOT / "build/go/path"), HOME=str(ROOT / "build/go"), GO111MODULE="on", GOWORK="off")


@pytest.fixture
def module(tmp_path: pathlib.Path) -> pathlib.Path:
    """Go's module with the small bundle, and a program in it."""
    binding, made = ROOT / "bindings/go", tmp_path / "module"
    shutil.copytree(binding / "internal", made / "internal")
    for name in ("go.mod", "static.go"):
        shutil.copy(binding / name, made)
    (made / "probe.go").write_text(PROBE)
    (made / "show").mkdir()
    (made / "show/main.go").write_text(f'package main\n\nimport dlock "{MODULE}"\n\nfunc main() {{ println(dlock.One()) }}\n')
    run(sys.executable, ROOT / "packaging/bundle/golang.py", bundle_in(tmp_path / "bundle"), made, "1.2.3", tmp_path / "proxy",
        cwd=tmp_path, SOURCE_DATE_EPOCH="1700000000")
    return made


@pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go")
def test_go_compiles_the_bundle_folder_by_folder(module: pathlib.Path) -> None:
    """Each folder is a package, and functions of one are called from another."""
    assert go("run", "-tags", "dlock_static", "./show", cwd=module).stdout.split() == ["3"]
    listed = go("list", "-tags", "dlock_static", "-deps", "-f", "{{.CFiles}}", "./show", cwd=module).stdout
    assert {"one.c", "two-and.c"} <= set(re.findall(r"[\w-]+\.c\b", listed))


@pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go")
def test_a_module_with_a_bundle_is_taken_along_by_go_mod_vendor(module: pathlib.Path, tmp_path: pathlib.Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    shutil.copy(module / "show/main.go", user)
    (user / "go.mod").write_text(f"module user\n\ngo 1.19\n\nrequire {MODULE} v1.2.3\n\nreplace {MODULE} => ../module\n")
    go("mod", "vendor", cwd=user)
    shutil.move(module, tmp_path / "gone")
    assert go("run", "-tags=dlock_static", "-mod=vendor", ".", cwd=user).stdout.split() == ["3"]


def test_the_same_bundle_makes_the_same_module(module: pathlib.Path, tmp_path: pathlib.Path) -> None:
    again = ["golang.py", tmp_path / "bundle", module, "1.2.3", tmp_path / "again"]
    run(sys.executable, ROOT / "packaging/bundle" / again[0], *again[1:], cwd=tmp_path, SOURCE_DATE_EPOCH="1700000000")
    first, second = (next((tmp_path / folder).rglob("v1.2.3.zip")).read_bytes() for folder in ("proxy", "again"))
    assert first == second


@pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go")
def test_the_tree_says_that_it_has_no_bundle() -> None:
    done = go("build", "-tags=dlock_static", ".", cwd=ROOT / "bindings/go", check=False)
    assert done.returncode and "this tree of the Go module has no sources of libdlock" in done.stdout


# ---- Rust


@pytest.mark.full
@pytest.mark.skipif(not CARGO, reason="there is no cargo: apt-get install cargo")
def test_the_crate_compiles_the_bundle(tmp_path: pathlib.Path) -> None:
    cargo, tree = Tool(), tmp_path / "rust"
    shutil.copytree(ROOT / "bindings/rust/dlock-sys", tree / "dlock-sys", ignore=shutil.ignore_patterns("target"))
    (tree / "src").mkdir()
    (tree / "src/main.rs").write_text('use dlock_sys as _;\nextern "C" { fn dlock_one() -> i32; }\nfn main() { println!("{}", unsafe { dlock_one() }) }\n')
    (tree / "Cargo.toml").write_text('[workspace]\n[package]\nname = "show"\nversion = "0.1.0"\nedition = "2021"\n'
                                     '[dependencies]\ndlock-sys = { path = "dlock-sys", features = ["bundled"] }\n')
    target = str(tmp_path / "target")
    done = cargo("run", "--quiet", cwd=tree, check=False, CARGO_TARGET_DIR=target)
    assert done.returncode and 'the feature "bundled" needs the folder "bundle"' in done.stdout
    bundle_in(tree / "dlock-sys/bundle")
    assert cargo("run", "--quiet", cwd=tree, CARGO_TARGET_DIR=target).stdout.splitlines()[-1] == "3"
    (tree / "dlock-sys/bundle/src/two/two-and.c").write_text("no C\n")
    done = cargo("run", "--quiet", cwd=tree, check=False, CARGO_TARGET_DIR=target)
    assert done.returncode and "src/two/two-and.c was not compiled" in done.stdout


# ---- Lua

LUA = """
local dlock = require "dlock"
local client = assert(dlock.open(arg[1]))
assert(client:lock("sale"):with({wait = 5}, function(lock) print("mine, with token " .. lock:token()) end))
client:close()
for line in io.lines "/proc/self/maps" do
  local path = line:match "^%S+ %S+ %S+ %S+ %S+ +(/.*libdlock%.so.*)$"
  if path then print(path) break end
end
"""


@pytest.mark.skipif(not shutil.which("luajit"), reason="there is no LuaJIT: apt-get install luajit")
def test_lua_finds_a_library_beside_its_modules(redis_server: Server, tmp_path: pathlib.Path) -> None:
    beside = tmp_path / "tree/dlock/libdlock.so"
    beside.parent.mkdir(parents=True)
    shutil.copy(LIBRARY, beside)
    (tmp_path / "sale.lua").write_text(LUA)
    lua = {"LUA_PATH": f"{ROOT}/bindings/lua/?.lua;;", "LUA_CPATH": f"{tmp_path}/tree/?.so;;"}
    said = run("luajit", "sale.lua", redis_server.url, cwd=tmp_path, DLOCK_LIBRARY="", **lua).stdout.splitlines()
    assert said[0].startswith("mine, with token ") and said[1] == str(beside)
    said = run("luajit", "sale.lua", redis_server.url, cwd=tmp_path, DLOCK_LIBRARY=str(LIBRARY), **lua).stdout.splitlines()
    assert said[1] == str(pathlib.Path(LIBRARY).resolve())
