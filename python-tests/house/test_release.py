"""./dev release in its dry form, and the version in all its places."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from typing import Any

import pytest

from harness.build import ROOT, clean_env

sys.path.insert(0, str(ROOT / "packaging"))
import version  # noqa: E402

pytestmark = [pytest.mark.house, pytest.mark.timeout(900)]


def test_one_version_in_all_places() -> None:
    assert version.wrong() == []


def copy_of_places(to: pathlib.Path) -> pathlib.Path:
    for name in {version.filled(path, version.current()) for path, _ in version.PLACES}:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, to / name)
    return to


def test_a_version_is_written_everywhere(tmp_path: pathlib.Path) -> None:
    tree = copy_of_places(tmp_path)
    version.write("12.34.56", "Thu, 26 Nov 2026 12:00:00 +0000", tree)
    assert version.current(tree) == "12.34.56" and version.wrong(tree) == []
    assert (tree / "packaging/debian/changelog").read_text().count("libdlock (") == 2


@pytest.mark.parametrize("number", range(1, len(version.PLACES)))
def test_another_version_is_seen(tmp_path: pathlib.Path, number: int) -> None:
    tree, (path, text) = copy_of_places(tmp_path), version.PLACES[number]
    file, right = tree / version.filled(path, version.current()), version.filled(text, version.current())
    file.write_text(file.read_text().replace(right, version.filled(text, "9.8.7")))
    assert any(found.startswith(f"{path}: ") for found in version.wrong(tree))


def run(*words: Any, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    who = {f"GIT_{role}_{what}": "test@libdlock.invalid" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = clean_env(**who)
    return subprocess.run([str(word) for word in words], cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def announced(tree: pathlib.Path, number: str) -> None:
    changes = tree / "CHANGELOG.md"
    changes.write_text(re.sub(r"^## ", f"## {number}\n\nNot released yet.\n\n## ", changes.read_text(), count=1, flags=re.M))
    assert run("git", "commit", "-qam", "Announced", cwd=tree).returncode == 0


@pytest.mark.full
@pytest.mark.skipif(os.getuid() != 0 and not shutil.which("abidw"), reason="there is no abidw: apt-get install abigail-tools")
def test_a_dry_release(tmp_path: pathlib.Path) -> None:
    tree = tmp_path / "tree"
    assert run("git", "clone", "-q", "--no-local", ROOT, tree, cwd=tmp_path).returncode == 0
    done = run("./dev", "release", "--dry", "9.8.7", cwd=tree)
    assert done.returncode and "CHANGELOG.md has no heading ## 9.8.7" in done.stdout, done.stdout
    announced(tree, "9.8.7")
    done = run("./dev", "release", "--dry", "9.8.7", cwd=tree)
    assert done.returncode == 0, done.stdout
    made = tree / "build/release-9.8.7"
    sums = dict(line.split("  ")[::-1] for line in (made / "artefacts/SHA256SUMS").read_text().splitlines())
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (made / "artefacts").iterdir() if path.name != "SHA256SUMS"}
    archive = "libdlock-9.8.7.tar.xz"
    assert set(sums) == {archive, "libdlock-9.8.7.cdx.json", "libdlock.rb", "dlock.wrap"}
    for recipe in ("libdlock.rb", "dlock.wrap"):
        assert sums[archive] in (made / "artefacts" / recipe).read_text()
    with tarfile.open(made / "artefacts" / archive) as opened:
        changes = opened.extractfile("libdlock-9.8.7/CHANGELOG.md")
        assert changes and re.search(r"^## 9\.8\.7\n\nReleased on \d{4}-\d\d-\d\d\.$", changes.read().decode(), re.M)
    bill = json.loads((made / "artefacts/libdlock-9.8.7.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", "9.8.7")
    # The next release is compared with this one. A function that only this one has stops it.
    tree = made / "tree"
    assert run("git", "describe", "--tags", "--exact-match", "--match", "v*", cwd=tree).stdout == "v9.8.7\n"
    old = tree / "abi/released/libdlock-9.8.7.abi"
    old.write_text(old.read_text().replace("dlock_lock_release", "dlock_lock_vanished"))
    announced(tree, "9.8.8")
    done = run("./dev", "release", "--dry", "9.8.8", cwd=tree)
    assert done.returncode and "the ABI does not only grow" in done.stdout and "dlock_lock_vanished" in done.stdout, done.stdout
    assert run("git", "checkout", "-q", "HEAD~1", "--", old, cwd=tree).returncode == 0
    assert run("git", "commit", "-qm", "As it was", cwd=tree).returncode == 0
    done = run("./dev", "release", "--dry", "9.8.8", cwd=tree)
    assert done.returncode == 0 and "the ABI has additions only, compared with libdlock-9.8.7.abi" in done.stdout, done.stdout
