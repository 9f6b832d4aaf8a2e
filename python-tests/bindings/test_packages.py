"""Each binding from its package, in an empty folder, on a machine that has only the installed library, or not even that.

The library is built for a private prefix, with hiredis linked in: the same file serves as the private copy that a wheel can carry.
Only tests marked full need a network.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import Any, Iterator

import pytest

from harness.build import LIBRARY, ROOT, build_library, clean_env
from harness.server import Server

GO = os.environ.get("DLOCK_GO") or shutil.which("go")
MODULE = "github.com/libdlock/libdlock/bindings/go"
VERSION = re.search(r"^  version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)[1]  # type: ignore[index]
SAID = re.compile(r"mine, with token \d+\n")

pytestmark = [pytest.mark.house, pytest.mark.timeout(300)]

Done = subprocess.CompletedProcess[str]


def run(*command: Any, cwd: pathlib.Path, env: dict[str, str], check: bool = True) -> Done:
    """Runs a command with only a path, a home and the given variables in its environment."""
    words, full = [str(word) for word in command], {"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8", **env}
    done = subprocess.run(words, cwd=cwd, env=full, text=True, capture_output=True)
    assert not check or done.returncode == 0, f"{words}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


class Installed:
    """The library as meson installs it into a prefix."""

    def __init__(self, folder: pathlib.Path) -> None:
        build, self.prefix = folder / "build", folder / "prefix"
        build_library(build, f"--prefix={self.prefix}", "-Dprefer_static=true", "-Detcd=disabled", "-Dcommand=false", "-Dman=disabled")
        install = ["meson", "install", "-C", build, "--no-rebuild"]
        subprocess.run(install, check=True, env=clean_env(), stdout=subprocess.DEVNULL)
        self.library = next(self.prefix.rglob("libdlock.so.1"))
        self.env = {"LD_LIBRARY_PATH": str(self.library.parent)}
        self.build_env = {"PKG_CONFIG_PATH": str(next(self.prefix.rglob("dlock.pc")).parent)}


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-"))  # without blanks: cgo's pkg-config cannot handle them
    yield Installed(folder)
    shutil.rmtree(folder)


def needed(path: pathlib.Path) -> list[str]:
    done = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True)
    return re.findall(r"NEEDED.*\[(.*)\]", done.stdout)


# ---- Python

PYTHON = """
import dlock, sys
with dlock.Client(sys.argv[1]) as client:
    with client.lock("sale") as lock:
        print("mine, with token", lock.token)
print(dlock.__version__, dlock.__file__, file=sys.stderr)
print([line.rstrip("\\n").split(None, 5)[5] for line in open("/proc/self/maps") if "dlock.so" in line][0], file=sys.stderr)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy of the package's folder, because a build writes to it."""
    folder = tmp_path_factory.mktemp("source") / "python"
    return shutil.copytree(ROOT / "bindings/python", folder, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))


def wheel(source: pathlib.Path, to: pathlib.Path, **env: str) -> pathlib.Path:
    """The wheel that pip makes of the source, with the setuptools of this machine."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "-w", to, source]
    run(*command, cwd=source.parent, env=env)
    (made,) = to.glob("*.whl")
    return made


def venv_with(made: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The interpreter of a new environment that has the wheel and nothing else."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder, env={})
    python = folder / "venv/bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", made, cwd=folder, env={})
    return python


def program(folder: pathlib.Path, text: str, name: str) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.full
def test_the_wheel_finds_the_library_by_its_name(
    installed: Installed, source: pathlib.Path, redis_server: Server, tmp_path: pathlib.Path
) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=source, env={})
    made = wheel(tmp_path / f"dlock-{VERSION}.tar.gz", tmp_path / "dist")  # from the source distribution, as packagers do
    assert made.name == f"dlock-{VERSION}-py3-none-any.whl"
    python, used = venv_with(made, tmp_path), program(tmp_path / "empty", PYTHON, "sale.py")
    done = run(python, used, redis_server.url, cwd=used.parent, env=installed.env)
    version, package, library = done.stderr.split()
    assert SAID.fullmatch(done.stdout) and version == VERSION
    assert pathlib.Path(package).is_relative_to(tmp_path / "venv") and library == str(installed.library)
    without = run(python, used, redis_server.url, cwd=used.parent, env={}, check=False)
    if without.returncode:  # otherwise libdlock is installed on this machine
        assert re.search(r"^\S*LibraryError: .*Tried libdlock\.so\.1: ", without.stderr, re.M)


@pytest.mark.full
def test_a_wheel_with_a_private_copy_needs_nothing(
    installed: Installed, source: pathlib.Path, redis_server: Server, tmp_path: pathlib.Path
) -> None:
    assert not [name for name in needed(installed.library) if not re.match(r"(libc|ld-linux.*|libpthread|libssl|libcrypto)\.so", name)]
    made = wheel(source, tmp_path / "dist", DLOCK_BUNDLE=str(installed.library))
    assert re.fullmatch(rf"dlock-{VERSION}-py3-none-linux_\w+\.whl", made.name)
    python, used = venv_with(made, tmp_path), program(tmp_path / "empty", PYTHON, "sale.py")
    done = run(python, used, redis_server.url, cwd=used.parent, env={})
    version, package, library = done.stderr.split()
    assert SAID.fullmatch(done.stdout) and version == VERSION
    assert pathlib.Path(library) == pathlib.Path(package).with_name("libdlock.so.1")
    # The private copy must not get into the next wheel from the same folder.
    after = wheel(source, tmp_path / "after")
    assert after.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(after) as archive:
        names = archive.namelist()
    assert {"dlock/py.typed", "dlock/_statuses.pyi"} <= set(names) and not [name for name in names if ".so" in name]
    assert [name for name in names if name.endswith("LICENSE")]
    modules = {f"dlock/{path.name}" for path in (ROOT / "bindings/python/dlock").glob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}


def test_a_private_copy_that_is_not_there(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "-w", tmp_path, source]
    done = run(*command, cwd=source, env={"DLOCK_BUNDLE": "/nowhere/libdlock.so.1"}, check=False)
    assert done.returncode and "DLOCK_BUNDLE=/nowhere/libdlock.so.1: there is no such file." in done.stdout + done.stderr


def network(*names: str) -> dict[str, str]:
    """The variables by which the caller's tools reach their registries."""
    more = [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]
    return {name: os.environ[name] for name in [*names, *more] if name in os.environ}


@pytest.mark.full
def test_pip_install_as_the_readme_has_it(
    installed: Installed, source: pathlib.Path, redis_server: Server, tmp_path: pathlib.Path
) -> None:
    """`pip install ./bindings/python` in a new environment, which fetches setuptools."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path, env={})
    python, used = tmp_path / "venv/bin/python", program(tmp_path / "empty", PYTHON, "sale.py")
    done = run(tmp_path / "venv/bin/pip", "install", "-v", source, cwd=tmp_path, env=network(), check=False)
    if re.search(r"No matching distribution found for setuptools|Temporary failure in name resolution", done.stderr):
        pytest.xfail("setuptools cannot be fetched")
    assert done.returncode == 0, done.stderr
    assert not re.search("deprecat", done.stdout + done.stderr, re.I), done.stdout + done.stderr  # by the newest setuptools
    assert SAID.fullmatch(run(python, used, redis_server.url, cwd=used.parent, env=installed.env).stdout)


# ---- Go

GO_PROGRAM = f"""package main

import (
	"context"
	"fmt"
	"log"
	"os"

	dlock "{MODULE}"
)

func main() {{
	client, err := dlock.Open(os.Args[1])
	if err != nil {{
		log.Fatal(err)
	}}
	defer client.Close()
	lock, err := client.Mutex("sale")
	if err != nil {{
		log.Fatal(err)
	}}
	grant, err := lock.Lock(context.Background())
	if err != nil {{
		log.Fatal(err)
	}}
	fmt.Println("mine, with token", grant.Token())
	if err := grant.Unlock(context.Background()); err != nil {{
		log.Fatal(err)
	}}
}}
"""


def publish(proxy: pathlib.Path) -> None:
    """The module in the form of a module proxy: a list of versions, and the date, go.mod and files of this version."""
    binding, folder = ROOT / "bindings/go", proxy / MODULE / "@v"
    folder.mkdir(parents=True)
    (folder / "list").write_text(f"v{VERSION}\n")
    (folder / f"v{VERSION}.info").write_text(json.dumps({"Version": f"v{VERSION}", "Time": "2026-01-01T00:00:00Z"}))
    shutil.copy(binding / "go.mod", folder / f"v{VERSION}.mod")
    with zipfile.ZipFile(folder / f"v{VERSION}.zip", "w") as archive:
        others = [path.parent for path in binding.glob("*/go.mod")]  # modules of their own
        files = [path for path in sorted(binding.rglob("*")) if path.is_file() and not any(other in path.parents for other in others)]
        for path in [ROOT / "LICENSE", *files]:
            name = path.name if path.parent == ROOT else path.relative_to(binding)
            archive.write(path, f"{MODULE}@v{VERSION}/{name}")


@pytest.mark.full
@pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go")
def test_go_get(installed: Installed, redis_server: Server, tmp_path: pathlib.Path) -> None:
    publish(tmp_path / "proxy")
    env = {
        "GOPROXY": (tmp_path / "proxy").as_uri(), "GOSUMDB": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1",
        "GOFLAGS": "-modcacherw", "GOPATH": str(tmp_path / "go"), "GOCACHE": str(ROOT / "build/go/cache"), **installed.build_env,
    }  # fmt: skip
    used = program(tmp_path / "empty", GO_PROGRAM, "main.go")
    run(GO, "mod", "init", "sale", cwd=used.parent, env=env)
    run(GO, "get", f"{MODULE}@v{VERSION}", cwd=used.parent, env=env)
    assert f"{MODULE} v{VERSION}" in (used.parent / "go.mod").read_text()
    run(GO, "build", "-o", "sale", ".", cwd=used.parent, env=env)
    done = run(used.parent / "sale", redis_server.url, cwd=used.parent, env=installed.env)
    assert SAID.fullmatch(done.stdout)
    assert "libdlock.so.1" in needed(used.parent / "sale")


# ---- Lua

LUA = """
local dlock = require "dlock"
local client = assert(dlock.open(arg[1]))
assert(client:lock("sale"):with({wait = 5}, function(lock) print("mine, with token " .. lock:token()) end))
client:close()
io.stderr:write(package.searchpath("dlock", package.path), "\\n")
"""


@pytest.mark.full
def test_luarocks_make(installed: Installed, redis_server: Server, tmp_path: pathlib.Path) -> None:
    shutil.copytree(ROOT / "bindings/lua", tmp_path / "source")
    tree = tmp_path / "tree"
    run("luarocks", "--lua-version=5.1", "make", "--tree", tree, cwd=tmp_path / "source", env={})
    listed = run("luarocks", "--lua-version=5.1", "--tree", tree, "list", "--porcelain", cwd=tmp_path, env={}).stdout
    assert listed.split()[:2] == ["dlock", f"{VERSION}-1"]
    found = run("luarocks", "--lua-version=5.1", "--tree", tree, "path", "--lr-path", cwd=tmp_path, env={}).stdout.strip()
    used = program(tmp_path / "empty", LUA, "sale.lua")
    done = run("luajit", used, redis_server.url, cwd=used.parent, env={**installed.env, "LUA_PATH": found})
    assert SAID.fullmatch(done.stdout) and done.stderr.startswith(str(tree))


# ---- the library in Debian's packages

PROGRAM = """#include <dlock.h>
#include <stdio.h>

int main(void)
{
    return puts(dlock_version_string()) < 0;
}
"""


@pytest.mark.full
def test_debian_packages(tmp_path: pathlib.Path) -> None:
    """A program is built with one package and runs with the other; the symbols file has the least version that the library needs of
    itself.
    """
    source, root = tmp_path / "libdlock", tmp_path / "root"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
    shutil.copytree(source / "packaging/debian", source / "debian")
    run("dpkg-buildpackage", "-us", "-uc", "-b", "-d", cwd=source, env={"DEB_BUILD_OPTIONS": "noautodbgsym"})
    packages = sorted(tmp_path.glob("*.deb"))
    assert [package.name.split("_")[:2] for package in packages] == [[name, f"{VERSION}-1"] for name in (
        "dlock", "golang-github-libdlock-libdlock-dev", "libdlock-dev", "libdlock1", "lua-dlock", "python3-dlock")]
    for package in packages:
        run("dpkg-deb", "-x", package, root, cwd=tmp_path, env={})
    assert f" DLOCK_0.1@DLOCK_0.1 {VERSION}\n" in run("dpkg-deb", "-I", packages[3], "symbols", cwd=tmp_path, env={}).stdout
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and re.search("dlock(.fish)?$", path.name))
    checked = subprocess.run(["lintian", "--allow-root", "--fail-on", "none", *map(str, packages)], text=True, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    pages = {path.name for path in root.rglob("usr/share/man/*/*")}
    assert {"dlock.1.gz", "dlock.7.gz", "dlock_options.7.gz", "dlock_lock.3.gz", "dlock_lock_acquire.3.gz"} <= pages
    assert files == ["usr/bin/dlock", "usr/share/bash-completion/completions/dlock", "usr/share/fish/vendor_completions.d/dlock.fish", "usr/share/lintian/overrides/dlock",
                     "usr/share/lintian/overrides/lua-dlock", "usr/share/lintian/overrides/python3-dlock",
                     "usr/share/zsh/vendor-completions/_dlock"]
    (tmp_path / "program.c").write_text(PROGRAM)
    pc = next(root.rglob("dlock.pc"))
    where = {"PKG_CONFIG_LIBDIR": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(root)}
    flags = run("pkg-config", "--cflags", "--libs", "dlock", cwd=tmp_path, env=where).stdout.split()
    run("cc", "program.c", "-o", "program", *flags, cwd=tmp_path, env={})
    done = run(tmp_path / "program", cwd=tmp_path, env={"LD_LIBRARY_PATH": str(pc.parent.parent)})
    assert done.stdout == VERSION + "\n"
    done = run(root / "usr/bin/dlock", "version", cwd=tmp_path, env={"LD_LIBRARY_PATH": str(pc.parent.parent)})
    assert done.stdout == f"dlock {VERSION}\n"


# ---- versions in the packages


def test_versions_are_those_of_the_library() -> None:
    def has(path: str, text: str) -> None:
        assert text in (ROOT / "bindings" / path).read_text(), path

    major, minor, _ = VERSION.split(".")
    has("python/dlock/_lib.py", f'VERSION = "{VERSION}"')
    has("lua/dlock.lua", f'VERSION = "{VERSION}"')
    has(f"lua/dlock-{VERSION}-1.rockspec", f'version = "{VERSION}-1"')
    has(f"lua/dlock-{VERSION}-1.rockspec", f"libdlock-{VERSION}.tar.gz")
    has("go/abi.go", f"const oldest = {major}<<16 | {minor}<<8 ")  # its version is a tag of the tree
    has("go/go.mod", f"module {MODULE}\n")
    has("../packaging/debian/changelog", f"libdlock ({VERSION}-1) ")
    loaded = "import ctypes, sys; v = ctypes.CDLL(sys.argv[1]).dlock_version(); print(v >> 16, v >> 8 & 255, v & 255)"
    done = subprocess.run([sys.executable, "-c", loaded, LIBRARY], check=True, capture_output=True, text=True)
    assert done.stdout.split() == VERSION.split(".")


def test_the_wheels_licence_is_ours() -> None:
    assert (ROOT / "bindings/python/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
