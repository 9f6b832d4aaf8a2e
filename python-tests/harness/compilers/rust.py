"""cargo, in an environment where crates find the library of this build as if it were installed.

The crates that they need come from Debian's packages where these are installed, so that no network is needed; else cargo fetches them.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from typing import Any

from ..build import ROOT, clean_env
from .installed import installed

CARGO = os.environ.get("DLOCK_CARGO") or shutil.which("cargo")
BINDING = ROOT / "bindings/rust"
RUNNER = ROOT / "python-tests/scenarios/rust"
PACKAGED = pathlib.Path("/usr/share/cargo/registry")
CONFIG = f"""\
[source.crates-io]
replace-with = "packaged"
[source.packaged]
directory = "{PACKAGED}"
"""
Done = subprocess.CompletedProcess[str]


class Tool:
    def __init__(self) -> None:
        kept = installed("rust")
        home = kept.folder / "cargo"
        self.env = clean_env(**kept.env, CARGO_TARGET_DIR=str(kept.folder / "target"))
        if all(list(PACKAGED.glob(f"{name}-[0-9]*")) for name in ("cc", "pkg-config", "tokio")):
            home.mkdir(exist_ok=True)
            (home / "config.toml").write_text(CONFIG)
            self.env.update(CARGO_HOME=str(home), CARGO_NET_OFFLINE="true")

    def __call__(self, *words: str, cwd: pathlib.Path = BINDING, check: bool = True, **env: str) -> Done:
        assert CARGO, "there is no cargo: apt-get install cargo"
        done = self.run(cwd, *words, **env)
        if done.returncode and "lock file version" in done.stdout:  # a newer cargo wrote it
            (cwd / "Cargo.lock").unlink(missing_ok=True)
            done = self.run(cwd, *words, **env)
        print(done.stdout)
        assert not check or done.returncode == 0, done.stdout[-6000:]
        return done

    def run(self, cwd: pathlib.Path, *words: str, **env: str) -> Done:
        command: list[Any] = [CARGO, *words]
        return subprocess.run(command, cwd=cwd, env={**self.env, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def runner(self) -> str:
        """The program of the scenarios, built if need be."""
        self("build", "--quiet", cwd=RUNNER)
        return f"{self.env['CARGO_TARGET_DIR']}/debug/scenarios"
