#!/usr/bin/env python3
"""The commands that run a program under a lock, side by side: bench/commands.py BUILD [--consul PROGRAM]

Each does the same with a real server: dlock run, flock(1), etcdctl lock, and consul lock if there is one. Prints a table in Markdown.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Callable, Iterator, NamedTuple, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from server import Server, free_port  # noqa: E402

LONG = 40


class Way(NamedTuple):
    name: str
    run: Callable[[str], list[str]]  # the words before the command, for a lock
    at_once: Callable[[str], list[str]]  # the same without waiting; [] when it cannot
    env: dict[str, str]
    server: Optional[subprocess.Popen[bytes]]  # what keeps the locks


def until(condition: Callable[[], bool], seconds: float = LONG) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (OSError, IndexError):
        return False


class Case:
    """One way, with a folder for what the commands leave."""

    def __init__(self, way: Way, folder: pathlib.Path) -> None:
        self.way, self.folder, self.number = way, folder, 0

    def lock(self) -> str:
        self.number += 1
        return f"case-{self.way.name.split()[0]}-{self.number}"

    def start(self, before: list[str], *command: str, **more: object) -> subprocess.Popen[str]:
        env = {**os.environ, **self.way.env, "OUT": str(self.folder / f"out-{self.number}")}
        return subprocess.Popen([*before, *command], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, **more)  # type: ignore[call-overload,no-any-return]

    def code(self, before: list[str], *command: str, **more: object) -> str:
        process = self.start(before, *command, **more)
        try:
            process.communicate(more.get("input"), timeout=LONG)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "waits for ever"
        return str(process.returncode)

    @contextlib.contextmanager
    def held(self, script: str = "echo $$ > $OUT; exec sleep 600") -> Iterator[tuple[subprocess.Popen[str], int, str]]:
        """The process, the pid of its command, and the lock that it holds."""
        lock = self.lock()
        process = self.start(self.way.run(lock), "sh", "-c", script)
        out = self.folder / f"out-{self.number}"
        assert until(lambda: out.exists() and out.read_text().strip() != ""), f"{self.way.name}: its command did not start"
        pid = int(out.read_text())
        try:
            yield process, pid, lock
        finally:
            for one in (process.pid, pid):
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            process.wait()


# ---- the rows


def exit_code(case: Case) -> str:
    return case.code(case.way.run(case.lock()), "sh", "-c", "exit 3")


def killed(case: Case) -> str:
    return case.code(case.way.run(case.lock()), "sh", "-c", "kill -KILL $$")


def taken(case: Case) -> str:
    with case.held() as (_, _, lock):
        return case.code(case.way.at_once(lock), "true") if case.way.at_once(lock) else "waits for ever"


def tool_killed(case: Case) -> str:
    with case.held() as (process, pid, _):
        process.kill()
        process.wait()
        return "the command dies" if until(lambda: not alive(pid), 3) else "the command runs on"


def terminated(case: Case) -> str:
    with case.held("trap 'echo term > $OUT.term; exit 9' TERM; echo $$ > $OUT; while :; do sleep 0.1; done") as (process, pid, _):
        process.terminate()
        reached = until(lambda: (case.folder / f"out-{case.number}.term").exists(), 8)
        ended = until(lambda: process.poll() is not None, 8)
        return ("reaches the command" if reached else "does not reach it") + (f", ends with {process.returncode}" if ended else ", does not end")


def stdin(case: Case) -> str:
    process = case.start(case.way.run(case.lock()), "sh", "-c", "cat > $OUT", stdin=subprocess.PIPE)
    try:
        process.communicate("x" * 100_000, timeout=10)
    except (subprocess.TimeoutExpired, BrokenPipeError):
        os.killpg(process.pid, signal.SIGKILL)
    out = case.folder / f"out-{case.number}"
    return "the command's" if out.exists() and out.stat().st_size == 100_000 else "none"


def words(case: Case) -> str:
    case.code(case.way.run(case.lock()), "sh", "-c", 'printf "%s" "$2" > $OUT', "sh", "one", "a  b $HOME;c")
    out = case.folder / f"out-{case.number}"
    return "as they are" if out.exists() and out.read_text() == "a  b $HOME;c" else "changed"


def token(case: Case) -> str:
    case.code(case.way.run(case.lock()), "sh", "-c", "env > $OUT")
    names = [line.split("=")[0] for line in (case.folder / f"out-{case.number}").read_text().splitlines()]
    return next((name for name in names if name in ("DLOCK_TOKEN", "ETCD_LOCK_REV")), "no")


def lost(case: Case) -> str:
    """The server is killed for good while the command runs."""
    if case.way.server is None:
        return "cannot happen"
    with case.held() as (process, pid, _):
        case.way.server.kill()
        case.way.server.wait()
        stopped = until(lambda: not alive(pid), LONG)
        return f"the command is stopped; {process.wait(LONG)}" if stopped else f"the command runs on ({LONG} s)"


ROWS: list[tuple[str, Callable[[Case], str]]] = [
    ("exit 3 of the command", exit_code), ("SIGKILL of the command", killed), ("the lock is taken, no wait", taken), ("SIGKILL of it", tool_killed),
    ("SIGTERM to it", terminated), ("stdin", stdin), ("arguments", words), ("fencing token", token), ("its server is killed", lost),
]  # fmt: skip


# ---- the ways


def wait_for(*command: str) -> None:
    assert until(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0), f"{command[0]} does not start"


@contextlib.contextmanager
def ways(build: pathlib.Path, consul: Optional[str], folder: pathlib.Path) -> Iterator[list[Way]]:
    redis = Server()
    dlock, url = str(build / "tools/dlock/dlock"), ["--url", redis.urls["unix"], "--lease", "3s"]
    found = [Way("dlock run", lambda lock: [dlock, "run", *url, lock, "--"], lambda lock: [dlock, "run", *url, "--wait", "0", lock, "--"], {}, redis.process)]
    file = str(folder / "flock-")
    found.append(Way("flock", lambda lock: ["flock", file + lock], lambda lock: ["flock", "-n", file + lock], {}, None))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if shutil.which("etcd") and shutil.which("etcdctl"):
        client, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        etcd = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
                                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"], **quiet)
        env = {"ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": client}
        os.environ.update(env)
        wait_for("etcdctl", "endpoint", "health")
        found.append(Way("etcdctl lock", lambda lock: ["etcdctl", "lock", "--ttl", "3", lock, "--"], lambda lock: [], env, etcd))
    if consul:
        port = free_port()
        config = ["-http-port", str(port), "-dns-port", "-1", "-grpc-port", "-1", "-grpc-tls-port", "-1", "-serf-lan-port", str(free_port()), "-serf-wan-port", "-1", "-server-port", str(free_port())]
        agent = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", consul, "agent", "-dev", "-bind", "127.0.0.1", *config], **quiet)
        env = {"CONSUL_HTTP_ADDR": f"127.0.0.1:{port}"}
        os.environ.update(env)
        wait_for(consul, "kv", "put", "ready", "1")
        found.append(Way("consul lock", lambda lock: [consul, "lock", "-shell=false", lock], lambda lock: [consul, "lock", "-shell=false", "-timeout=1s", lock], env, agent))
    try:
        yield found
    finally:
        for way in found[1:]:
            if way.server:
                way.server.kill()
                way.server.wait()
        redis.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--consul")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ways(given.build, given.consul, pathlib.Path(folder)) as found:
        cases = [Case(way, pathlib.Path(folder)) for way in found]
        for case in cases:
            (case.folder / case.way.name.replace(" ", "-")).mkdir()
            case.folder /= case.way.name.replace(" ", "-")
        print("| | " + " | ".join(way.name for way in found) + " |\n| --- |" + " --- |" * len(found))
        for title, row in ROWS:
            print(f"| {title} | " + " | ".join(row(case) for case in cases) + " |", flush=True)


if __name__ == "__main__":
    main()
