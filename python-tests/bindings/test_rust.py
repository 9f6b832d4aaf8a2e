"""The crates in bindings/rust: their own tests, the examples of their documentation, clippy, the one file with unsafe code, and a crowd of
tasks on one thread. The table of scenarios and the matrix are in test_scenarios.py and test_matrix.py.
"""
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

from harness.compilers.rust import BINDING, CARGO, RUNNER, Tool
from harness.scenarios import values_of
from harness.server import Server

pytestmark = [pytest.mark.house, pytest.mark.skipif(not CARGO, reason="there is no cargo: apt-get install cargo"), pytest.mark.timeout(900)]
FULL = pytest.mark.full  # compilers take their time
SOURCES = sorted((BINDING / "dlock/src").glob("*.rs"))


def test_unsafe_code_is_in_one_file() -> None:
    texts = {path.name: re.sub(r"//.*", "", path.read_text()) for path in SOURCES}
    assert [name for name, text in texts.items() if re.search(r"\bunsafe\b(?!_)", text)] == ["raw.rs"]
    assert "#![deny(unsafe_code" in texts["lib.rs"]


def test_the_versions_are_that_of_the_library() -> None:
    version = re.search(r"^  version: '(.*)',$", (BINDING.parents[1] / "meson.build").read_text(), re.M)[1]  # type: ignore[index]
    for crate in "dlock", "dlock-sys":
        assert f'\nversion = "{version}"\n' in (BINDING / crate / "Cargo.toml").read_text()


@FULL
def test_its_own_tests(redis_server: Server) -> None:
    tool = Tool()
    for features in ([], ["--features", "tokio"]):
        done = tool("test", "-p", "dlock", "--tests", *features, DLOCK_TEST_URL=redis_server.url)
        counts = [int(count) for count in re.findall(r"test result: ok\. (\d+) passed; 0 failed; 0 ignored", done.stdout)]
        assert sum(counts) >= (18 if features else 11), done.stdout


@FULL
def test_the_examples_run(redis_server: Server, tmp_path: pathlib.Path) -> None:
    """Those of the documentation, on a server of this test."""
    tree = shutil.copytree(BINDING, tmp_path / "rust", ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    for path in (tree / "dlock/src").glob("*.rs"):
        text = path.read_text().replace("```no_run", "```").replace("redis://localhost", redis_server.url)
        path.write_text(text.replace("# async fn example() ->", "# #[tokio::main(flavor = \"current_thread\")] async fn main() ->"))
    done = Tool()("test", "-p", "dlock", "--doc", "--features", "tokio", cwd=tree)
    assert re.search(r"test result: ok\. 4 passed; 0 failed; 0 ignored", done.stdout), done.stdout
    assert len(redis_server.command("KEYS", "redisson_lock_token:*")) == 1  # of the two examples that need a server


@FULL
@pytest.mark.parametrize("folder", [BINDING, RUNNER], ids=["crates", "runner"])
def test_clippy_has_nothing_to_say(folder: pathlib.Path) -> None:
    tool, pedantic = Tool(), []
    if folder == BINDING:
        pedantic = ["-W", "clippy::pedantic"]
    tool("clippy", "--quiet", "--all-targets", *(["--features", "dlock/tokio"] if folder == BINDING else []), "--", "-D", "warnings", *pedantic, cwd=folder)
    tool("fmt", *(["-p", "dlock"] if folder == BINDING else []), "--", "--check", cwd=folder)


@FULL
def test_the_documentation_builds_without_a_warning() -> None:
    Tool()("doc", "-p", "dlock", "--no-deps", "--features", "tokio", RUSTDOCFLAGS="-D warnings")


@FULL
@pytest.mark.parametrize("waiters", [10_000])
def test_a_crowd_of_tasks_on_one_thread(redis_server: Server, waiters: int) -> None:
    """Each is served once, in the order of the tokens; those who wait need no threads."""
    tool = Tool()
    done = subprocess.run([tool.runner(), "crowd", redis_server.url, str(waiters)], env=tool.env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    _, values = values_of("OK " + done.stdout.strip())
    assert (values["served"], values["grew"]) == (str(waiters), "true")
    assert values["before"] == values["during"]
