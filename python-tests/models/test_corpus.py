"""The inputs that the fuzz targets keep (native/corpus): each target still takes each of them. ./dev fuzz looks for new ones."""
from __future__ import annotations

import pathlib
import subprocess

import pytest

from harness.build import ROOT, clean_env, native

CORPUS = ROOT / "python-tests/native/corpus"
# The worlds behind these run all threads of the library in one. TSan cannot know that a mutex which one of them holds is not held by the others.
ONE_THREAD = {"fuzz_over_etcd", "fuzz_over_redis", "fuzz_over_zookeeper"}
TARGETS = sorted(path.stem for path in (ROOT / "python-tests/native/fuzz").glob("fuzz_*.c") if "LLVMFuzzerTestOneInput" in path.read_text())


def replay(target: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([native(target), folder], env=clean_env(), text=True, capture_output=True, timeout=50)


@pytest.mark.parametrize("target", [pytest.param(name, marks=pytest.mark.no_tsan if name in ONE_THREAD else ()) for name in TARGETS])
def test_inputs_that_are_kept(target: str) -> None:
    inputs = [path for path in (CORPUS / target).iterdir() if path.name[0] != "."]
    done = replay(target, CORPUS / target)
    assert inputs and (done.returncode, done.stdout) == (0, f"{len(inputs)}\n"), done.stderr


def test_a_folder_that_is_not_there(tmp_path: pathlib.Path) -> None:
    assert replay("fuzz_url", tmp_path / "none").returncode == 2
