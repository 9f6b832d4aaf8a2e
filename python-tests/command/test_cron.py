"""dlock run under the real cron: three of them, each as the cron of a host of its own, start the same job in the same minute."""
from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
from typing import Iterator

import pytest

from harness.server import Server
from harness.waiting import wait_until
from shell import PROGRAM, environment

HOSTS = 3

pytestmark = [
    pytest.mark.full, pytest.mark.timeout(300),
    pytest.mark.skipif(os.getuid() != 0, reason="a cron with tables of its own needs root"),
]  # fmt: skip

# /etc/crontab and what else cron reads are of this mount namespace alone, and so is its lock in /run.
ALONE = """
mount -t tmpfs none /run && mount -t tmpfs none /var/spool/cron && mount -t tmpfs none /etc/cron.d
mkdir /var/spool/cron/crontabs && mount --bind "$1" /etc/crontab && exec cron -f
"""


@pytest.fixture
def crons(tmp_path: pathlib.Path) -> Iterator[list[pathlib.Path]]:
    """The crontabs of running crons, which are empty at first."""
    assert shutil.which("cron"), "there is no cron: apt-get install cron"
    tables, running = [tmp_path / f"crontab-{host}" for host in range(HOSTS)], []
    for table in tables:
        table.write_text("")
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-ec", ALONE, "sh", str(table)]
        running.append(subprocess.Popen(command, env=environment(None), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    yield tables
    for cron in running:
        code = cron.poll()
        cron.kill()
        assert code is None, cron.communicate()[1]
        cron.wait()


def test_one_of_the_hosts_runs_the_job(redis_server: Server, tmp_path: pathlib.Path, crons: list[pathlib.Path]) -> None:
    """The line of the manual. cron gives the job its own environment and shell; the URL comes from a file."""
    url, ran, codes = tmp_path / "url", tmp_path / "ran", tmp_path / "codes"
    url.write_text(redis_server.url + "\n")
    job = f"{shlex.quote(PROGRAM)} run --url-file {url} --wait 0 --min-hold 5m nightly -- sh -c 'echo $DLOCK_NAME $DLOCK_TOKEN >> {ran}'; echo $? >> {codes}"
    for table in crons:
        table.write_text(f"* * * * * root {job}\n")
    wait_until(lambda: codes.exists() and len(codes.read_text().split()) >= HOSTS, timeout=150)
    assert sorted(codes.read_text().split())[:HOSTS] == ["0", "75", "75"]
    name, token = ran.read_text().split()
    assert name == "nightly" and int(token) > 0
