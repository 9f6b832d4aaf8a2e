"""A private server in a temporary folder, on a unix socket and a free TCP port: redis-server, or what DLOCK_SERVER names.

    with Server("--maxmemory", "10mb") as server:
        server.url, server.unix_url                 # for dlock_client_open
        server.command("PING")                      # one command on a connection kept for this
        with server.client() as redis: ...          # separate connections
        server.pause(); server.resume()             # SIGSTOP, SIGCONT
        server.restart(); server.kill()             # the same port and socket again; SIGKILL
"""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

from .build import clean_env
from .resp import Client, Closed
from .tally import saw


PROGRAM = os.environ.get("DLOCK_SERVER", "redis-server")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    host = "127.0.0.1"
    config: tuple[str, ...] = ()  # a file goes before all options
    environment: dict[str, str] = {}
    prefix: tuple[str, ...] = ()

    def __init__(self, *options: str, secured: tuple[str, ...] = (), island: Any = None) -> None:
        """secured: TLS options; its port then uses TLS. island: the faults.Island it is on."""
        self.options, self.secured = options, secured
        if island:
            self.host, self.prefix = island.theirs, tuple(island.prefix)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-"))
        self.path = str(self.folder / "redis.sock")
        self.process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        for attempt in range(5):  # the port may be taken between the check and the start
            self.port = free_port()
            try:
                self.start()
                return
            except RuntimeError:
                if attempt == 4:
                    self.stop()
                    raise

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"redis+unix://{self.path}"

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def start(self) -> None:
        # It dies with the thread that starts it (as a rule the main thread), also when a sanitizer ends the interpreter.
        command = ["setpriv", "--pdeathsig", "KILL", *self.prefix, PROGRAM, *self.config, "--port", str(self.port), "--bind", self.host, "--unixsocket", self.path]
        command += ["--dir", str(self.folder), "--logfile", str(self.folder / "log")]
        command += ["--save", ""] if not self.config else []
        command += ["--enable-debug-command", "yes"] if not self.config else []
        command += ["--port", "0", "--tls-port", str(self.port), *self.secured] if self.secured else []
        command += self.options
        self.process = subprocess.Popen(command, env=clean_env(**self.environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with self.client(timeout=1) as client:
                    client.pipeline(["PING"])  # when all its ports are open it replies, if only with an error
                socket.create_connection((self.host, self.port), 1).close()
                return
            except (OSError, Closed):
                time.sleep(0.01)
        self._end()
        raise RuntimeError(f"{PROGRAM} did not start:\n" + self.log())

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def client(self, timeout: float = 5) -> Client:
        return Client(path=self.path, timeout=timeout)

    def command(self, *words: Any) -> Any:
        if not self._client:
            self._client = self.client()
        return self._client.command(*words)

    def pause(self) -> None:
        saw(1)
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL (also for a paused server). Its data is gone."""
        saw(self.process is not None)
        self._end()

    def _end(self) -> None:
        if self._client:
            self._client.close()
            self._client = None
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
