"""The private server of one benchmark run: redis-server, or the program that DLOCK_SERVER names.

It has a temporary folder, a unix socket, a free TCP port, and no persistence.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import redis

PROGRAM = os.environ.get("DLOCK_SERVER", "redis-server")
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python-tests"))

from harness.steps.scripts import load  # noqa: E402

POLL_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

BARE_RENEW = """local call, kept, count, ends = redis.call, {}, #KEYS, ARGV[#KEYS + 1]
for i = 1, count do
  if call('HEXISTS', KEYS[i], ARGV[i]) == 1 then
    call('PEXPIREAT', KEYS[i], ends)
    kept[i] = 1
  end
end
return kept"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-bench-"))
        self.socket = self.folder / "redis.sock"
        self.port = free_port()
        self.urls = {"unix": f"redis+unix://{self.socket}", "tcp": f"redis://127.0.0.1:{self.port}"}
        command = ["setpriv", "--pdeathsig", "KILL", PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", "", "--logfile", "log"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.redis = redis.Redis(unix_socket_path=str(self.socket), decode_responses=True)
        self._await()
        self.version = self.redis.info("server")["redis_version"]
        self.shas = {}
        self.load_scripts()

    def _await(self) -> None:
        for _ in range(1000):
            if self.process.poll() is not None:
                break
            try:
                self.redis.ping()
                return
            except redis.RedisError:
                time.sleep(0.01)
        self.stop()
        raise SystemExit(f"{PROGRAM} did not start")

    def load_scripts(self) -> None:
        texts = {name: load(name) for name in ("acquire", "release", "renew")}
        texts.update(poll_release=POLL_RELEASE, bare_renew=BARE_RENEW)
        self.shas = {f"BENCH_SHA_{name}": self.redis.script_load(text) for name, text in texts.items()}

    def pin(self, cores: set[int]) -> None:
        os.sched_setaffinity(self.process.pid, cores)

    def cpu(self) -> float:
        """The CPU seconds of the server until now."""
        info = self.redis.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
