"""Slow and full disks of servers.

    with slow_syncs([member.process.pid], tmp_path) as syncs:       # each sync of theirs takes 0.7 s
        syncs()                                                     # how many there were
    with small_disk(tmp_path, "200m") as folder:
        fill(folder)
"""
from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import subprocess
from typing import Callable, Iterator, Sequence

import pytest

from ..build import clean_env
from ..waiting import until

SLOW = pytest.mark.skipif(not shutil.which("strace"), reason="it needs strace, which delays system calls")


def traced(pid: int) -> bool:
    """All threads of a process have a tracer."""
    try:
        tasks = [(task / "status").read_text() for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # a thread has just ended
        return False
    return all("TracerPid:\t0\n" not in task for task in tasks)


@contextlib.contextmanager
def slow_syncs(pids: Sequence[int], folder: pathlib.Path, ms: int = 700) -> Iterator[Callable[[], int]]:
    """At the end nothing is slow any more."""
    logs = [folder / f"syncs-{pid}" for pid in pids]
    tracers = [subprocess.Popen(["strace", "-f", "-q", "-o", str(log), "-e", "trace=fsync,fdatasync", f"--inject=fsync,fdatasync:delay_enter={ms * 1000}",
                                 "-p", str(pid)], stderr=subprocess.DEVNULL, env=clean_env()) for pid, log in zip(pids, logs)]  # fmt: skip
    try:
        until(lambda: all(traced(pid) for pid in pids), timeout=60)  # the log exists before that
        yield lambda: sum(log.read_text().count("sync(") for log in logs)
    finally:
        for tracer in tracers:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(20)


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: str) -> Iterator[pathlib.Path]:
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(small)], check=True)
    try:
        yield small
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def fill(folder: pathlib.Path) -> None:
    """Not a byte is left."""
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as filler:
        for piece in (1 << 20, 1):
            with contextlib.suppress(OSError):
                while filler.write(bytes(piece)):
                    pass
