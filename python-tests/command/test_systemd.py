"""dlock run as a unit of a real systemd, which is process 1 of namespaces of its own."""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
from typing import Iterator

import pytest

import dlock
from harness.server import Server
from harness.waiting import wait_until
from shell import PROGRAM

SYSTEMD = pathlib.Path("/usr/lib/systemd/systemd")

pytestmark = [
    pytest.mark.full, pytest.mark.house, pytest.mark.timeout(300),
    pytest.mark.skipif(os.getuid() != 0, reason="namespaces with a systemd need root"),
]  # fmt: skip

# A group of its own, then namespaces in which it is the root of all groups. $1 is a folder, $2 a program for the namespaces.
GROUP = """
mkdir "$1/groups" && mount -t cgroup2 none "$1/groups" && mkdir "$1/groups/$3" && echo $$ >"$1/groups/$3/cgroup.procs"
umount "$1/groups"
exec unshare --pid --cgroup --ipc --uts --fork --kill-child sh -ec "$2" sh "$1"
"""

# Nothing of the host's units, generators and sockets is seen, and no setting of the kernel is changed.
BOOT = """
umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
mount -t proc none /proc && mount -o bind,ro /proc/sys /proc/sys
mount -t tmpfs none /run && mkdir -p /run/systemd/system && cp "$1"/units/* /run/systemd/system
mount -t tmpfs none /etc/systemd && mount -t tmpfs none /usr/lib/systemd/system-generators
exec env -i PATH="$PATH" container=test /usr/lib/systemd/systemd --unit=test.target --log-target=null --show-status=no
"""

# What is left of the groups, from the leaves on.
SWEEP = """
mount -t cgroup2 none "$1/groups"
find "$1/groups/$2" -depth -type d -exec rmdir {} +
"""

UNIT = """
[Unit]
DefaultDependencies=no
[Service]
Type=exec
EnvironmentFile={folder}/{name}.env
ExecStart={program} run {options} leader -- {command}
KillMode=mixed
"""


class Systemd:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.group = folder, f"dlock-test-{os.getpid()}"
        (folder / "units").mkdir()
        (folder / "units/test.target").write_text("[Unit]\nDefaultDependencies=no\n")

    def unit(self, name: str, url: str, options: str, script: str) -> None:
        """Before the start. The command is a shell script."""
        command = self.folder / f"{name}.sh"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        (self.folder / f"{name}.env").write_text(f"DLOCK_URL={url}\n")
        text = UNIT.format(folder=self.folder, name=name, program=PROGRAM, options=options, command=command)
        (self.folder / f"units/{name}.service").write_text(text)

    def start(self) -> None:
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", GROUP, "sh", str(self.folder), BOOT, self.group]
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(self.first, timeout=60)
        wait_until(lambda: self("is-active", "test.target").stdout == "active\n", timeout=60)

    def first(self) -> str:
        """The process that is process 1 in there, once it is systemd."""
        assert self.process.poll() is None, self.process.communicate()[1]
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((pid for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "systemd\n"), "")

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """systemctl in there."""
        command = ["nsenter", "-t", self.first(), "--mount", "--pid", "systemctl", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "SYSTEMD_COLORS": "0"})

    def tells(self, name: str, *keys: str) -> dict[str, str]:
        rows = self("show", f"{name}.service", "-p", ",".join(keys)).stdout.splitlines()
        return dict(row.split("=", 1) for row in rows)

    def ended(self, name: str) -> str:
        """The exit code of the unit's process, once it has ended."""
        wait_until(lambda: self.tells(name, "ActiveState")["ActiveState"] in ("inactive", "failed"), timeout=60)
        return self.tells(name, "ExecMainStatus")["ExecMainStatus"]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", SWEEP, "sh", str(self.folder), self.group]
        wait_until(lambda: subprocess.run(command, capture_output=True).returncode == 0, timeout=60)


@pytest.fixture
def systemd(tmp_path: pathlib.Path) -> Iterator[Systemd]:
    assert SYSTEMD.exists() and shutil.which("systemctl"), "there is no systemd: apt-get install systemd"
    one = Systemd(tmp_path)
    yield one
    one.stop()


def test_units(redis_server: Server, tmp_path: pathlib.Path, systemd: Systemd) -> None:
    """Busy ends the unit with 75. A stop reaches the command, and frees the lock when it has ended. A loss stops the command: 76."""
    said = tmp_path / "said"
    worker = f"trap 'echo stopped >>{said}; exit 0' TERM; echo $DLOCK_TOKEN >>{said}; while :; do sleep 0.05; done"
    systemd.unit("worker", redis_server.unix_url, "--lease 10s", worker)
    systemd.unit("second", redis_server.unix_url, "--wait 0", f"echo second >>{said}")
    systemd.unit("lost", redis_server.unix_url, "--lease 2s", worker)
    systemd.start()
    with dlock.Client(redis_server.unix_url) as client:
        assert systemd("start", "worker.service").returncode == 0
        wait_until(lambda: said.exists() and len(said.read_text().split()) == 1, timeout=60)
        systemd("start", "second.service")
        assert systemd.ended("second") == "75" and client.lock("leader").inspect().holder

        assert systemd("stop", "worker.service").returncode == 0
        assert said.read_text().split()[1:] == ["stopped"]
        assert systemd.tells("worker", "Result", "ExecMainStatus") == {"Result": "success", "ExecMainStatus": "0"}
        lock = client.lock("leader")
        assert lock.try_acquire()
        lock.release()

        assert systemd("start", "lost.service").returncode == 0
        wait_until(lambda: len(said.read_text().split()) == 3, timeout=60)
        client.lock("leader").force_release()
        assert systemd.ended("lost") == "76"
        assert said.read_text().split()[3:] == ["stopped"]
        assert systemd.tells("lost", "Result")["Result"] == "exit-code"
