"""What decides in .ci/run, with a ./dev that does as it is told; and that ./dev test --sanitize retries no finding."""
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

from harness.build import ROOT, clean_env

pytestmark = [pytest.mark.house, pytest.mark.timeout(120)]
STEPS = ["lint", "test", "fuzz 60 1", "test --sanitize address --durations=10", "test --sanitize thread --durations=10", "test --slow"]
# It says how it was called, ends as the file "codes" says for these words, the first time, and closes as pytest does.
DEV = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >>calls
line=$(grep -n -m 1 -x "$* [0-9]*" codes) || line=":$* 0"
code=${line##* }
if [ "$line" != ":$* 0" ]; then sed -i "${line%%:*}d" codes; fi
if [ "${1#t}" != "$1" ]; then echo "======= $code failed, 7 passed in 3.21s ($*) ======="; fi
exit "$code"
"""


def run(folder: pathlib.Path, codes: str = "") -> tuple[int, list[str], str]:
    """The exit code, how ./dev was called, and the last line."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "dev").write_text(DEV)
    (folder / "dev").chmod(0o755)
    (folder / "codes").write_text(codes)
    done = subprocess.run([folder / ".ci/run"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_env())
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("==== ok") or line.startswith("==== FAILED") or line.startswith("==== not ok")], done.stdout
    return done.returncode, (folder / "calls").read_text().splitlines(), lines[-1]


def test_all_is_well(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path) == (0, STEPS, "======= 0 failed, 7 passed in 3.21s (test) =======")


@pytest.mark.parametrize("step", STEPS[:5])
def test_each_of_them_decides_alone(tmp_path: pathlib.Path, step: str) -> None:
    """Nothing is tried again here, and the others still run."""
    code, calls, closing = run(tmp_path, f"{step} 1\n")
    assert (code, calls) == (1, STEPS)
    assert re.fullmatch(r"=+ \d failed, 7 passed in 3.21s \(.*\) =+", closing)
    if step.startswith("test"):
        assert closing == f"======= 1 failed, 7 passed in 3.21s ({step}) ======="


def test_the_slow_tests_inform(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "test --slow 1\n") == (0, STEPS, "======= 0 failed, 7 passed in 3.21s (test) =======")


# ---- failed tests


def cmd_test(tmp_path: pathlib.Path, pytest_does: str, *words: str) -> subprocess.CompletedProcess[str]:
    """cmd_test of ./dev, with words in place of the build and of pytest."""
    functions = (ROOT / "dev").read_text()
    names = ("run_tests_twice", "chosen", "is_word", "cmd_test")
    taken = [re.search(rf"^{name}\(\) {{.*?^}}", functions, re.M | re.S)[0] for name in names]  # type: ignore[index]
    (tmp_path / "dev").write_text("\n".join([
        f"set -uo pipefail; cd '{tmp_path}'; worst=0 build_packages= test_packages= more_test_packages= go_packages=",
        "need() { :; }; lua_packages() { :; }; stage() { :; }; finish() { :; }",
        'last_stage() { shift; "$@"; exit $?; }', f'run_tests() {{ echo "ran $*"; {pytest_does}; }}', *taken, 'cmd_test "$@"']))  # fmt: skip
    return subprocess.run(["bash", tmp_path / "dev", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


ONCE_RED = "if [ -e again ]; then return 0; fi; touch again; return 1"


@pytest.mark.parametrize("words", [[], ["fencing"], ["-k", "fair"]])
def test_failed_tests_run_once_more(tmp_path: pathlib.Path, words: list[str]) -> None:
    done = cmd_test(tmp_path, ONCE_RED, *words)
    ran = [line for line in done.stdout.splitlines() if line.startswith("ran")]
    assert done.returncode == 0 and len(ran) == 2 and "--last-failed" in ran[1] and "once more, alone" in done.stdout, done.stdout


@pytest.mark.parametrize("words", [[], ["fencing"]])
def test_and_then_decide(tmp_path: pathlib.Path, words: list[str]) -> None:
    done = cmd_test(tmp_path, "return 1", *words)
    assert done.returncode == 1 and done.stdout.count("ran") == 2, done.stdout


@pytest.mark.parametrize("words", [["python-tests/api/test_status.py"], ["--lf"], ["-x"], ["fencing", "--maxfail=1"]])
def test_chosen_tests_run_once(tmp_path: pathlib.Path, words: list[str]) -> None:
    done = cmd_test(tmp_path, ONCE_RED, *words)
    assert done.returncode == 1 and done.stdout.count("ran") == 1, done.stdout


@pytest.mark.parametrize("words, given", [
    ([], "{root}/python-tests -n 2"), (["-k", "api"], "{root}/python-tests -n 2 -k api"),
    (["python-tests/api"], "-n 2 {root}/python-tests/api"), (["python-tests/api/", "python-tests/kinds", "-k", "fair"], "-n 2 {root}/python-tests/api {root}/python-tests/kinds -k fair"),
    (["python-tests/api/test_x.py"], "{root}/python-tests/api/test_x.py"), (["python-tests/nowhere"], "{root}/python-tests -n 2 python-tests/nowhere"),
])  # fmt: skip
def test_a_file_or_a_folder_takes_the_place_of_all(tmp_path: pathlib.Path, words: list[str], given: str) -> None:
    """What pytest gets: tests that are named, and no others. A folder's tests run beside each other."""
    taken = re.search(r"^run_tests\(\) {.*?^}", (ROOT / "dev").read_text(), re.M | re.S)[0]  # type: ignore[index]
    (tmp_path / "api").mkdir(), (tmp_path / "python-tests/api").mkdir(parents=True), (tmp_path / "python-tests/kinds").mkdir()
    (tmp_path / "python-tests/api/test_x.py").touch()
    lines = [f"root={tmp_path} workers=2 launch=(echo) python=python", "compile_tests() { :; }", taken, 'run_tests debug "$@"']
    done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + "\n".join(lines), "dev", *words], text=True, capture_output=True, cwd=tmp_path)
    expected = f"python -m pytest -c python-tests/pytest.ini --rootdir {tmp_path} " + given.format(root=tmp_path)
    assert (done.stdout.replace(" --dist loadfile", ""), done.stderr) == (expected + "\n", "")


# ---- findings of sanitizers


def sanitized(tmp_path: pathlib.Path, pytest_does: str) -> subprocess.CompletedProcess[str]:
    """run_sanitized of ./dev, with words in place of the build and of pytest."""
    functions = (ROOT / "dev").read_text()
    taken = [re.search(rf"^{name}\(\) {{.*?^}}", functions, re.M | re.S)[0] for name in ("run_tests_twice", "telling", "run_sanitized")]  # type: ignore[index]
    (tmp_path / "build/address").mkdir(parents=True)
    words = [f"root={tmp_path}", "launch=()", "build() { :; }", f"run_tests() {{ echo ran; {pytest_does}; }}", *taken, "run_sanitized address"]
    return subprocess.run(["bash", "-c", "set -uo pipefail\n" + "\n".join(words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.parametrize(
    "does, code, runs",
    [
        ("return 0", 0, 1),
        ("return 1", 1, 2),
        ('if [ -e "$root/again" ]; then return 0; fi; touch "$root/again"; return 1', 0, 2),
        ('if [ -e "$root/again" ]; then return 0; fi; touch "$root/again"; echo "x.c:1:2: runtime error: signed integer overflow" >&2; return 1', 1, 2),
        ('echo "x.c:1:2: runtime error: index out of bounds"', 1, 1),
        ('if [ -e "$root/again" ]; then return 0; fi; touch "$root/again"; echo race >"$root/build/address/reports/tsan.1"; return 1', 1, 2),
        ("return 98", 98, 1),
    ],
    ids=["green", "red", "green again", "UBSan, then green", "UBSan", "a report, then green", "ended by UBSan"],
)
def test_a_finding_is_final(tmp_path: pathlib.Path, does: str, code: int, runs: int) -> None:
    """Green in the second run helps a failed test, and not a finding."""
    done = sanitized(tmp_path, does)
    assert done.returncode == code and done.stdout.splitlines().count("ran") == runs, done.stdout


def test_a_process_that_was_left_behind_holds_up_nothing(tmp_path: pathlib.Path) -> None:
    """It has the output open, and lives on until the test ends it."""
    done = sanitized(tmp_path, 'mkfifo "$root/end"; sh -c "echo alive; read -r word <$root/end" & :')
    (tmp_path / "end").write_text("now\n")
    assert done.returncode == 0 and "alive" in done.stdout
