"""Signatures of a release, by a key that is thrown away: docs/install.md says how to verify them, and a changed byte is seen. Pinned tools."""
from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any, Callable, Iterator

import pytest

from harness.build import ROOT, clean_env

pytestmark = [pytest.mark.house, pytest.mark.timeout(120)]
NO_GPG = pytest.mark.skipif(not shutil.which("gpg-agent") or not shutil.which("gpg"), reason="there is no gpg: apt-get install gpg gpg-agent")
WHO = "signer@libdlock.invalid"
Run = Callable[..., subprocess.CompletedProcess[str]]


def runner(home: pathlib.Path) -> Run:
    def run(*words: Any, cwd: pathlib.Path = home, check: bool = True) -> subprocess.CompletedProcess[str]:
        env = clean_env(GNUPGHOME=str(home), HOME=str(home), GIT_CONFIG_GLOBAL="/dev/null", LC_ALL="C")
        done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert not check or done.returncode == 0, done.stdout
        return done

    return run


def keyring(key: str = "") -> Iterator[Run]:
    """A folder of gpg, with a short name: its socket stands there."""
    with tempfile.TemporaryDirectory(prefix="gpg") as name:
        run = runner(pathlib.Path(name))
        if key:
            run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", key, "ed25519", "sign", "1d")
        yield run
        run("gpgconf", "--kill", "all", check=False)


@pytest.fixture
def signer() -> Iterator[Run]:
    yield from keyring(WHO)


@pytest.fixture
def reader() -> Iterator[Run]:
    """Who has no key yet."""
    yield from keyring()


def documented() -> list[str]:
    """The lines of docs/install.md that verify a release."""
    page = (ROOT / "docs/install.md").read_text().partition("\n## Verify a release\n")[2].partition("\n## ")[0]
    return [line.strip() for block in re.findall(r"```sh\n(.*?)```", page, re.S) for line in block.splitlines() if line.strip()]


def artefacts(folder: pathlib.Path) -> pathlib.Path:
    (folder / "debian").mkdir(parents=True)
    (folder / "libdlock-1.2.3.tar.xz").write_text("the source\n")
    (folder / "debian/libdlock1.deb").write_text("a package\n")
    sums = subprocess.run(["sha256sum", "libdlock-1.2.3.tar.xz", "debian/libdlock1.deb"], cwd=folder, text=True, capture_output=True, check=True)
    (folder / "SHA256SUMS").write_text(sums.stdout)
    return folder


@NO_GPG
def test_a_signed_release_is_verified_as_the_page_says(signer: Run, reader: Run, tmp_path: pathlib.Path) -> None:
    made = artefacts(tmp_path / "made")
    signer(ROOT / "packaging/sign.sh", WHO, "sums", made)
    lines = documented()
    assert [line.split()[0] for line in lines] == ["gpg", "gpg", "gpg", "sha256sum"]
    said = [reader("sh", "-ec", line, cwd=made).stdout for line in lines]
    listed = signer("gpg", "--batch", "--with-colons", "--fingerprint", WHO).stdout
    (fingerprint,) = re.findall(r"^fpr:+(\w+):", listed, re.M)
    assert fingerprint in said[0].replace(" ", "") and "Good signature" in said[2] and fingerprint in said[2].replace(" ", "")
    assert said[3].count(": OK") == 2


@NO_GPG
@pytest.mark.parametrize("changed", ["libdlock-1.2.3.tar.xz", "debian/libdlock1.deb", "SHA256SUMS", "SHA256SUMS.asc"])
def test_a_changed_byte_is_seen(signer: Run, reader: Run, tmp_path: pathlib.Path, changed: str) -> None:
    made = artefacts(tmp_path / "made")
    signer(ROOT / "packaging/sign.sh", WHO, "sums", made)
    data = bytearray((made / changed).read_bytes())
    data[len(data) // 2] ^= 1
    (made / changed).write_bytes(data)
    assert 0 in [reader("sh", "-ec", line, cwd=made, check=False).returncode for line in documented()[:2]]
    assert [reader("sh", "-ec", line, cwd=made, check=False).returncode for line in documented()[2:]] != [0, 0]


@NO_GPG
def test_another_key_is_seen(signer: Run, reader: Run, tmp_path: pathlib.Path) -> None:
    """Who replaces files, sums and signature has another key: the keyring of who has verified an earlier release does not know it."""
    made = artefacts(tmp_path / "made")
    signer(ROOT / "packaging/sign.sh", WHO, "sums", made)
    reader("gpg", "--import", "release-key.asc", cwd=made)
    for other in keyring("other@libdlock.invalid"):
        other(ROOT / "packaging/sign.sh", "other@libdlock.invalid", "sums", made)
    done = reader("gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS", cwd=made, check=False)
    assert done.returncode and "No public key" in done.stdout, done.stdout


@NO_GPG
def test_nothing_is_signed_that_is_not_so(signer: Run, tmp_path: pathlib.Path) -> None:
    made = artefacts(tmp_path / "made")
    (made / "libdlock-1.2.3.tar.xz").write_text("something else\n")
    assert signer(ROOT / "packaging/sign.sh", WHO, "sums", made, check=False).returncode
    assert not (made / "SHA256SUMS.asc").exists()
    assert signer(ROOT / "packaging/sign.sh", "nobody@libdlock.invalid", "sums", artefacts(tmp_path / "more"), check=False).returncode


@NO_GPG
def test_a_signed_tag(signer: Run, reader: Run, tmp_path: pathlib.Path) -> None:
    git = ["git", "-c", "user.name=someone", "-c", "user.email=someone@libdlock.invalid"]
    signer("git", "init", "-q", tmp_path)
    signer(*git, "config", "user.name", "someone", cwd=tmp_path), signer(*git, "config", "user.email", WHO, cwd=tmp_path)
    signer(*git, "commit", "-q", "--allow-empty", "-m", "first", cwd=tmp_path)
    for _ in range(2):  # the second one takes the place of the first one
        signer(ROOT / "packaging/sign.sh", WHO, "tag", "v1.2.3", "libdlock 1.2.3", cwd=tmp_path)
    assert reader("git", "verify-tag", "v1.2.3", cwd=tmp_path, check=False).returncode
    (tmp_path / "key").write_text(signer("gpg", "--armor", "--export", WHO).stdout)
    reader("gpg", "--import", tmp_path / "key")
    assert "Good signature" in reader("git", "verify-tag", "v1.2.3", cwd=tmp_path).stdout
    text = reader("git", "cat-file", "tag", "v1.2.3", cwd=tmp_path).stdout.replace("libdlock 1.2.3", "libdlock 1.2.4")
    (tmp_path / "tag").write_text(text)
    name = reader("git", "hash-object", "-t", "tag", "-w", "tag", cwd=tmp_path).stdout.strip()
    reader("git", "update-ref", "refs/tags/v1.2.4", name, cwd=tmp_path)
    assert reader("git", "verify-tag", "v1.2.4", cwd=tmp_path, check=False).returncode


def test_a_release_without_the_secret_key_stops_at_once() -> None:
    done = subprocess.run([ROOT / "packaging/release.sh", "--dry", "--sign", "nobody@libdlock.invalid", "99.0.0"], text=True, capture_output=True)
    assert done.returncode and "gpg has no secret key" in done.stderr and not (ROOT / "build/release-99.0.0").exists()


# ---- pinned tools

LISTS = [*sorted((ROOT / "packaging/pinned").glob("*.txt")), ROOT / "bench/requirements.txt"]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_tool_has_a_version_and_hashes(path: pathlib.Path) -> None:
    entries = path.read_text().replace("\\\n", " ").splitlines()
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ;[^#]*?)?( +--hash=sha256:[0-9a-f]{64})+", entry), entry
    wanted = {re.split(r"[=<>]", line)[0] for line in path.with_suffix(".in").read_text().split()}
    assert wanted <= {entry.split("==")[0] for entry in entries}


def test_pip_installs_nothing_else() -> None:
    """What is not pinned is what we have built ourselves."""
    for path in [ROOT / "dev", *(path for path in (ROOT / "packaging").rglob("*") if path.is_file())]:
        for line in path.read_text(errors="replace").splitlines():
            if re.search(r"pip[\"']? install ", line) and not line.lstrip().startswith("#"):
                ours = "--no-index" in line or "./*.tar.gz" in line
                assert ours or "--require-hashes" in line or "pytest" in line or "uvloop" in line, (path, line)


def test_locks_of_other_registries() -> None:
    node = json.loads((ROOT / "bench/node/package-lock.json").read_text())
    packages = {name: package for name, package in node["packages"].items() if name}
    wanted = json.loads((ROOT / "bench/node/package.json").read_text())["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    crates = (ROOT / "bench/rust/Cargo.lock").read_text().split("[[package]]")[1:]
    assert len(crates) > 20 and all(("source = " in crate) == ("checksum = " in crate) for crate in crates)
    assert [re.findall(r'name = "(.*)"', crate)[0] for crate in crates if "source = " not in crate] == ["dlock", "dlock-sys", "rivals"]
