"""The other side on etcd: a program with Go's clientv3/concurrency, python-tests/etcd/peer. It is built once.

    with Peer(etcd.nodes[0], ttl=5) as peer:
        peer("lock a job")                          # sends a line
        peer.wait("a locked")                       # the words of the first line that begins so
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import time
from typing import Any, TypeVar

from ..build import ROOT
from ..golang import GO

FOLDER = ROOT / "python-tests/etcd/peer"
PROGRAM = ROOT / "build/etcd-peer/peer"

Side = TypeVar("Side", bound="Peer")


def build() -> str:
    """The module's packages come from the Go module proxy, as go.sum has them."""
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with open(PROGRAM.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in FOLDER.iterdir())
        if not PROGRAM.exists() or PROGRAM.stat().st_mtime < newest:
            env = {**os.environ, "GOFLAGS": "-buildvcs=false -modcacherw", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            subprocess.run([str(GO), "build", "-o", str(PROGRAM), "."], cwd=FOLDER, env=env, check=True)
    return str(PROGRAM)


class Peer:
    def __init__(self, node: Any, ttl: int = 5) -> None:
        self.start([build(), f"{node.host}:{node.port}", str(ttl)])

    def start(self, command: list[str], env: dict[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.rest, self.lines = b"", list[str]()
        self.wait("ready")

    def __call__(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def _read(self, timeout: float) -> None:
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], max(timeout, 0))[0]:
            return
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise EOFError(f"the peer has ended: {self.lines}")
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.lines += [line.decode() for line in lines]

    def wait(self, begin: str, timeout: float = 20) -> list[str]:
        """The words behind begin, of the first line that begins so; the line is taken out."""
        end = time.monotonic() + timeout
        while True:
            for line in self.lines:
                if line.startswith("failed"):
                    raise AssertionError(line)
                if line.startswith(begin):
                    self.lines.remove(line)
                    return line[len(begin) :].split()
            if time.monotonic() > end:
                raise TimeoutError(f"no line begins with {begin!r}: {self.lines[-3:]}")
            self._read(end - time.monotonic())

    def said(self, begin: str) -> bool:
        self._read(0)
        return any(line.startswith(begin) for line in self.lines)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):  # what it did not read
                    pipe.close()

    def __enter__(self: Side) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
