"""The Go binding: its own tests (bindings/go/*_test.go) against the installed library, the findings of tools, and what a program prints
when there is no library or an old one.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness.build import ROOT
from harness.golang import BINDING, GO, MODULE, Done, Tool, finish
from harness.server import Server

LINES = 710  # of code, by hand
NETWORK = {name: os.environ.get(name, "") for name in ("GOPROXY", "GOSUMDB")}  # modules are fetched once

pytestmark = [
    pytest.mark.house,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not GO, reason="there is no Go: apt-get install golang-go"),
]


@pytest.fixture(scope="module")
def go() -> Tool:
    return Tool()


def test_vet_and_format(go: Tool) -> None:
    go("vet", "./...")
    gofmt = str(pathlib.Path(go("env", "GOROOT").stdout.strip(), "bin/gofmt"))
    assert finish([gofmt, "-l", "."], cwd=BINDING).stdout == ""


def test_its_own_tests(go: Tool) -> None:
    go("test", "-count=1", "-timeout=5m", "./...")


@pytest.mark.full
def test_its_own_tests_with_full_counts(go: Tool) -> None:
    go("test", "-count=1", "-v", "-timeout=9m", ".", DLOCK_TEST_FULL="1")


@pytest.mark.full
def test_under_the_race_detector(go: Tool) -> None:
    go("test", "-race", "-count=1", "-timeout=9m", "./...")


@pytest.mark.full
def test_the_collector(go: Tool, redis_server: Server) -> None:
    """It is a module of its own, with the needs of client_golang; those are fetched once."""
    collector = BINDING / "metrics"
    go("vet", "./...", cwd=collector, **NETWORK)
    gofmt = str(pathlib.Path(go("env", "GOROOT").stdout.strip(), "bin/gofmt"))
    assert finish([gofmt, "-l", "."], cwd=collector).stdout == ""
    go("test", "-count=1", "-timeout=2m", "./...", cwd=collector, DLOCK_TEST_URL=redis_server.url, **NETWORK)


# The program around the lines of docs/metrics.md.
OPENTELEMETRY = """package main

import (
	"context"
	"log"
	"os"

	dlock "%(module)s"
	"%(module)s/metrics"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/sdk/metric"
)

func main() {
	ctx := context.Background()
	client, err := dlock.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	lock, err := client.Mutex("exported")
	if err != nil {
		log.Fatal(err)
	}
	if _, err = lock.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	exporter, err := stdoutmetric.New()
	if err != nil {
		log.Fatal(err)
	}
%(lines)s
	if err = provider.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	if err = client.Close(); err != nil {
		log.Fatal(err)
	}
}
"""
NEEDS = """module example

go 1.20

require (
	%(module)s v0.0.0
	%(module)s/metrics v0.0.0
	go.opentelemetry.io/contrib/bridges/prometheus v0.46.1
	go.opentelemetry.io/otel/exporters/stdout/stdoutmetric v0.44.0
	go.opentelemetry.io/otel/sdk/metric v1.21.0
)

replace %(module)s => %(binding)s

replace %(module)s/metrics => %(binding)s/metrics
"""


@pytest.mark.full
def test_opentelemetry_as_on_its_page(go: Tool, redis_server: Server, tmp_path: pathlib.Path) -> None:
    """The lines of docs/metrics.md export what the collector has. OpenTelemetry itself needs Go 1.20."""
    if go.minor < 20:
        pytest.xfail("OpenTelemetry needs Go 1.20")
    lines = re.search(r"```text\n(registry := .*?)```", (ROOT / "docs/metrics.md").read_text(), flags=re.S)[1]
    words = {"module": MODULE, "binding": str(BINDING), "lines": lines}
    (tmp_path / "go.mod").write_text(NEEDS % words)
    (tmp_path / "main.go").write_text(OPENTELEMETRY % words)
    go("mod", "tidy", cwd=tmp_path, **NETWORK)
    told = json.loads(go("run", ".", redis_server.url, cwd=tmp_path, **NETWORK).stdout)
    metrics = {metric["Name"]: metric["Data"]["DataPoints"] for scope in told["ScopeMetrics"] for metric in scope["Metrics"]}
    assert [point["Value"] for point in metrics["dlock_acquired_total"]] == [1] == [point["Value"] for point in metrics["dlock_held"]]
    assert len(metrics["dlock_wait_seconds"][0]["Bounds"]) > 5


@pytest.mark.full
def test_staticcheck(go: Tool) -> None:
    version = "v0.4.7" if go.minor < 22 else "v0.5.1" if go.minor < 24 else "v0.6.1" if go.minor < 25 else "v0.7.0"
    tool = f"honnef.co/go/tools/cmd/staticcheck@{version}"
    network = {name: os.environ[name] for name in ("GOPROXY", "GOSUMDB") if name in os.environ}
    network.setdefault("GOPROXY", "")
    if go("install", tool, check=False, **network).returncode:
        pytest.xfail("staticcheck cannot be fetched")
    path = f"{pathlib.Path(GO).parent}:{os.environ['PATH']}"
    checked = [f"{go.env['GOPATH']}/bin/staticcheck", "-checks", "all", "./..."]
    done = finish(checked, cwd=BINDING, env={**go.env, "PATH": path})
    assert (done.returncode, done.stdout) == (0, "")


# ---- it agrees with the header


def test_what_is_generated_is_formatted_and_fresh(go: Tool) -> None:
    """abi/gen.py check also tests that it is up to date, see test_abi.py."""
    text = (BINDING / "abi.go").read_text()
    assert re.match(r"// Code generated .* DO NOT EDIT\.\n", text)
    functions = re.findall(r"\bC\.(dlock_[a-z_]+)\(", text)
    declared = re.findall(r"\b(dlock_[a-z_]+)\(", re.sub(r"/\*.*?\*/", "", (ROOT / "abi/dlock.h").read_text(), flags=re.S))
    assert set(declared) <= set(functions)
    assert not re.search(r"runtime\.KeepAlive.*\n\treturn C\.", text), "text of a handle that may be gone"


def test_open_says_what_the_header_says() -> None:
    before = (ROOT / "abi/dlock.h").read_text().split("\ndlock_status dlock_client_open(")[0]
    header = before[before.rindex("/*") :]
    comment = re.search(r"(//.*\n)+(?=func Open\()", (BINDING / "client.go").read_text())[0]
    schemes = re.compile(r"\bredis(?:\+[a-z]+)?://")  # and with rediss, for TLS
    assert set(schemes.findall(comment)) == set(schemes.findall(header)) and "rediss " in comment
    errors = {"err" + name.replace("_", "").lower() for name in re.findall(r"\bDLOCK_(\w+)", header.replace("DLOCK_API", ""))}
    assert errors <= set(re.findall(r"\berr\w+", comment.lower()))


def test_it_is_thin() -> None:
    written = [path for path in BINDING.glob("*.go") if path.name != "abi.go" and not path.name.endswith("_test.go")]
    lines = [line.strip() for path in written for line in path.read_text().splitlines()]
    assert len([line for line in lines if line and not line.startswith("//")]) <= LINES


# ---- a program elsewhere, with the binding as a module and the library from pkg-config

PROGRAM = """package main

import (
	"context"
	"fmt"
	"os"

	dlock "%s"
)

func main() {
	client, err := dlock.Open(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer client.Close()
	lock, err := client.Mutex("sale")
	if err != nil {
		panic(err)
	}
	grant, err := lock.Lock(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println("mine,", grant.Token() > 0)
	fmt.Println(grant.Unlock(context.Background()))
}
"""


@pytest.fixture(scope="module")
def program(go: Tool, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "main.go").write_text(PROGRAM % MODULE)
    needs = f'require {MODULE} v0.0.0\n\nreplace {MODULE} => "{BINDING}"\n'
    (folder / "go.mod").write_text("module program\n\ngo 1.19\n\n" + needs)
    go("build", "-o", "program", ".", cwd=folder)
    return folder / "program"


def test_go_get(go: Tool, tmp_path: pathlib.Path, redis_server: Server) -> None:
    """From a repository of the module's name with a tag in Go's form, and nothing else."""
    copy, folder = tmp_path / "libdlock.git", tmp_path / "elsewhere"
    shutil.copytree(BINDING, copy / "bindings/go")
    own = {"GIT_CONFIG_GLOBAL": str(tmp_path / "config"), "GIT_CONFIG_SYSTEM": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    settings = {"user.name": "a", "user.email": "a@b", f"url.file://{copy}.insteadOf": "https://github.com/libdlock/libdlock"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"], ["tag", "bindings/go/v0.1.0"]):
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        assert finish(["git", *options, *words], cwd=copy, env={**os.environ, **own}).returncode == 0
    for name, value in settings.items():
        finish(["git", "config", "--global", name, value], env={**os.environ, **own})
    folder.mkdir()
    (folder / "main.go").write_text(PROGRAM % MODULE)
    (folder / "go.mod").write_text("module program\n\ngo 1.19\n")
    fetch = {"GOPROXY": "direct", "GONOSUMDB": "*", "GOPATH": str(tmp_path / "path"), "HOME": str(tmp_path), **own}
    go("get", f"{MODULE}@v0.1.0", cwd=folder, **fetch)
    assert f"{MODULE} v0.1.0" in (folder / "go.mod").read_text()
    go("build", "-o", "program", ".", cwd=folder, **fetch)
    done = run(folder / "program", redis_server.unix_url, LD_LIBRARY_PATH=go.env["LD_LIBRARY_PATH"])
    assert (done.returncode, done.stdout) == (0, "mine, true\n<nil>\n")


def run(program: pathlib.Path, url: str, **env: str) -> Done:
    return finish([str(program), url], env=env)


def test_a_program(go: Tool, program: pathlib.Path, redis_server: Server) -> None:
    done = run(program, redis_server.unix_url, LD_LIBRARY_PATH=go.env["LD_LIBRARY_PATH"])
    assert (done.returncode, done.stdout) == (0, "mine, true\n<nil>\n")


def test_no_library_when_it_is_built(go: Tool, program: pathlib.Path) -> None:
    anew = f"-gcflags={MODULE}=-N"  # so that it is not taken from the cache
    nowhere = {"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": os.devnull}
    done = go("build", anew, "-o", os.devnull, ".", cwd=program.parent, check=False, **nowhere)
    assert done.returncode and re.search("Package '?dlock'?.* not found", done.stdout)


@pytest.mark.parametrize("tags", ["", "dlock_static"])
def test_no_cgo(go: Tool, program: pathlib.Path, tags: str) -> None:
    """The compiler says one thing, which names what is missing. Without cgo Go leaves out the files that use C."""
    done = go("build", f"-tags={tags}", "-o", os.devnull, ".", cwd=program.parent, check=False, CGO_ENABLED="0")
    said = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert done.returncode and len(said) == 1, done.stdout
    assert re.search(r"needs_cgo\.go:\d+:\d+: undefined: libdlock_needs_cgo__set_CGO_ENABLED_1_\w+$", said[0])


def test_no_library_when_it_is_run(program: pathlib.Path, redis_server: Server) -> None:
    done = run(program, redis_server.unix_url)
    assert done.returncode == 127 and "libdlock.so.1: cannot open shared object file" in done.stdout


OLD = """
unsigned dlock_version(void) { return 9; }
const char *dlock_version_string(void) { return "0.0.9"; }
"""


def test_a_library_that_is_too_old(go: Tool, program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source, shim = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text(OLD)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
    done = run(program, "redis://localhost", LD_LIBRARY_PATH=go.env["LD_LIBRARY_PATH"], LD_PRELOAD=str(shim))
    said = "dlock: libdlock 0.0.9 was loaded, which is too old for this binding\n"
    assert (done.returncode, done.stdout) == (1, said)
