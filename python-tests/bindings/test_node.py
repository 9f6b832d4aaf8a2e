"""The package in bindings/node: its own tests, its types, the package that npm makes of it, and a crowd on one thread. The table of
scenarios and the matrix are in test_scenarios.py and test_matrix.py.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness.compilers.node import BINDING, Tool
from harness.scenarios import NO_NODE, values_of
from harness.server import Server

pytestmark = [pytest.mark.house, NO_NODE, pytest.mark.timeout(600)]
FULL = pytest.mark.full
HAND_WRITTEN = 500  # lines of a file
TYPES = ["typescript@5.9.3", "@types/node@20.19.25"]
STRICT = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"]
PRINTED = ["true HELD", "0", "null 0 true true", "HELD 0 string", "invoice:17", "false"]
SMOKE = """
const dlock = require("dlock");
dlock.open(process.argv[1]).then(async (client) => {
  const held = await client.lock("sale").acquire();
  const lost = new Promise((resolve) => held.lost.addEventListener("abort", resolve));
  await client.lock("sale").forceRelease();
  await lost;
  await held.release().catch((error) => console.log(error.code));
  await client.lock("sale").with(({ token }) => console.log(token > held.token));
  await client.close();
});
"""


def npm(*words: str, cwd: pathlib.Path, **env: str) -> str:
    command = [shutil.which("npm") or "npm", "--no-audit", "--no-fund", "--no-update-notifier", *words]
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def passed_of(tests: str, server: Server) -> int:
    """Runs a file of Node's own tests. How many there are; all pass."""
    node = Tool()
    program = node.place(BINDING / "test" / tests)
    done = node("--test", "--test-reporter=tap", program, cwd=node.folder, env={**node.env, "DLOCK_TEST_URL": server.url})
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.M)
    assert passed, done.stdout
    return int(passed[1])


def test_what_is_written_by_hand_is_short() -> None:
    generated = ("calls.c", "numbers.js", "requests.js", "requests.d.ts")
    for path in (*BINDING.glob("src/*"), *BINDING.glob("lib/*")):
        text = path.read_text()
        assert (path.name in generated) == ("do not edit" in text), path
        assert path.name in generated or len(text.splitlines()) <= HAND_WRITTEN, path


def test_the_version_is_that_of_the_library() -> None:
    version = re.search(r"^  version: '(.*)',$", (BINDING.parents[1] / "meson.build").read_text(), re.M)[1]  # type: ignore[index]
    assert json.loads((BINDING / "package.json").read_text())["version"] == version


def test_what_is_called_of_the_addon_exists() -> None:
    rows = "".join(path.read_text() for path in BINDING.glob("src/*.c"))
    there = set(re.findall(r'\{"(\w+)", \w+\}', rows)) | {"out"}
    called = {name for path in BINDING.glob("lib/*.js") for name in re.findall(r"\baddon\.(\w+)(?! *= *require)", path.read_text())} - {"js"}
    assert called and called <= there, called - there


@FULL
def test_its_own_tests(redis_server: Server) -> None:
    assert passed_of("dlock.test.cjs", redis_server) >= 18


def test_arguments_and_listeners(redis_server: Server) -> None:
    """Wrong arguments are refused before anything is sent, and what a listener throws ends no process."""
    assert passed_of("arguments.test.cjs", redis_server) >= 12


@FULL
def test_the_types(tmp_path: pathlib.Path) -> None:
    """tsc accepts the example, and refuses its wrong lines. What it compiles runs."""
    node = Tool()
    (tmp_path / "package.json").write_text("{}")
    npm("install", "--ignore-scripts", *TYPES, cwd=tmp_path)
    (tmp_path / "node_modules/dlock").symlink_to(BINDING)
    shutil.copy(BINDING / "test/example.mts", tmp_path)
    node("node_modules/typescript/lib/tsc.js", *STRICT, "example.mts", cwd=tmp_path)
    assert node("example.mjs", cwd=tmp_path).stdout.splitlines() == PRINTED


@FULL
def test_the_addon_is_for_every_version_of_node() -> None:
    """It uses N-API and libuv, and nothing of V8 or of C++."""
    node = Tool()
    symbols = subprocess.run(["nm", "-D", "--undefined-only", node.env["DLOCK_ADDON"]], capture_output=True, text=True, check=True)
    names = {line.split()[-1].partition("@")[0] for line in symbols.stdout.splitlines()}
    assert not [name for name in names if name.startswith("_Z")]
    foreign = {name for name in names if not re.match(r"napi_|uv_|dlock_|_ITM_|__gmon|__cxa_finalize", name)}
    assert foreign <= {"calloc", "free", "strdup", "__stack_chk_fail"}, foreign


@FULL
def test_the_package_needs_no_compiler(redis_server: Server, tmp_path: pathlib.Path) -> None:
    """Packed with the addon, and installed where neither a compiler nor the source is."""
    node = Tool()
    tree, clean = shutil.copytree(BINDING, tmp_path / "tree"), tmp_path / "clean"
    place = tree / "prebuilds" / node("-p", "process.platform + '-' + process.arch").stdout.strip()
    place.mkdir(parents=True)
    shutil.copy(node.env["DLOCK_ADDON"], place)
    packed = json.loads(npm("pack", "--json", cwd=tree))[0]
    names = {one["path"] for one in packed["files"]}
    assert {"lib/index.d.ts", "README.md", f"prebuilds/{place.name}/dlock.node"} <= names
    assert not [name for name in names if name.startswith("test")]
    clean.mkdir()
    (clean / "package.json").write_text("{}")
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in ("node", "npm", "sh"):
        (bare / program).symlink_to(shutil.which(program) or program)
    npm("install", "--offline", str(tree / packed["filename"]), cwd=clean, PATH=str(bare))
    env = {"LD_LIBRARY_PATH": node.env["LD_LIBRARY_PATH"], "PATH": str(bare)}  # in place of an installed library
    assert node("-e", SMOKE, redis_server.url, cwd=clean, env=env).stdout == "LOST\ntrue\n"


@FULL
@pytest.mark.parametrize("waiters", [10_000])
def test_a_crowd_on_one_thread(redis_server: Server, waiters: int) -> None:
    """Each is served once, in the order of the tokens; those who wait need no threads."""
    node = Tool()
    done = node(node.runner, "crowd", redis_server.url, waiters)
    _, values = values_of("OK " + done.stdout.strip())
    assert (values["served"], values["grew"]) == (str(waiters), "true")
    assert values["before"] == values["during"]
