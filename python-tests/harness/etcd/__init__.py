"""A private etcd: one node, or a cluster of three, in a temporary folder on free ports.

    with Etcd() as etcd:                            # Etcd(3); Etcd("--auth-token-ttl", "1")
        etcd.url                                    # for dlock_client_open: all members
        etcd.keys("lock/")                          # the keys below a prefix, by create revision
        etcd.call("kv/put", key=..., value=...)     # the JSON gateway; bytes and texts are encoded
        etcd.nodes[0].pause(); .resume(); .kill(); .restart()
        etcd.leader()                               # the node that leads

The program is the one in DLOCK_ETCD, or etcd of the path.
"""
from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

from ..build import clean_env
from ..proxy import Proxy
from ..server import free_port
from ..tally import saw
from ..waiting import until

MEMORY = "/dev/shm"  # every write is synced, and others use the disk
PROGRAM = os.environ.get("DLOCK_ETCD", "etcd")
TEXTS = ("key", "range_end", "value")

Place = tuple[str, tuple[str, ...]]  # address, words before the command
LOCAL: Place = ("127.0.0.1", ())


def encoded(value: Any) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else str(value).encode()).decode()


def url(proxy: Proxy) -> str:
    """For dlock_client_open: the member behind a proxy."""
    return f"etcd://{proxy.host}:{proxy.port}"


class Node:
    token = ""  # of a user, for call

    def __init__(self, name: str, folder: pathlib.Path, options: tuple[str, ...], secured: tuple[str, ...] = (), place: Place = LOCAL) -> None:
        """secured: TLS options; clients then use TLS, and the gateway is not asked."""
        self.name, self.folder, self.options, self.secured = name, folder, options, secured
        self.host, self.prefix = place
        self.port, self.peer = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.members = ""

    @property
    def url(self) -> str:
        return f"etcd{'s' if self.secured else ''}://{self.host}:{self.port}"

    def start(self) -> None:
        client, peer = f"http{'s' if self.secured else ''}://{self.host}:{self.port}", f"http://{self.host}:{self.peer}"
        command = [*self.prefix, "setpriv", "--pdeathsig", "KILL", PROGRAM, "--name", self.name, "--data-dir", str(self.folder / self.name)]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", self.members]
        command += ["--log-level", "error", *self.options, *self.secured]
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(command, env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def call(self, path: str, **request: Any) -> dict[str, Any]:
        """A call of the JSON gateway. RuntimeError when etcd refuses, OSError when it is not there."""
        body = {name: encoded(value) if name in TEXTS else value for name, value in request.items()}
        where = f"http://{self.host}:{self.port}/v3/{path}"
        try:
            headers = {"Authorization": self.token} if self.token else {}
            with urllib.request.urlopen(urllib.request.Request(where, json.dumps(body).encode(), headers), timeout=5) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def revision(self) -> int:
        """As this member has it, after it has asked the leader; 0: it has no leader now."""
        try:
            return int(self.call("kv/range", key="up")["header"]["revision"])
        except (OSError, RuntimeError):
            return 0

    def signal(self, which: int) -> None:
        assert self.process
        os.kill(self.process.pid, which)

    def pause(self) -> None:
        saw(1)
        self.signal(signal.SIGSTOP)
        while b"State:\tT" not in pathlib.Path(f"/proc/{self.process.pid}/status").read_bytes():  # type: ignore[union-attr]
            time.sleep(0.001)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL. Its data stays."""
        saw(self.process is not None)
        self.end()

    def end(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.kill()
        self.start()


class Etcd:
    def __init__(self, *options: Any, secured: tuple[str, ...] = (), places: list[Place] | None = None) -> None:
        """places: where each node is, and what its command begins with."""
        count = options[0] if options and isinstance(options[0], int) else 1
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        more = tuple(str(one) for one in options if not isinstance(one, int))
        for attempt in range(5):  # a port may be taken between the check and the start
            self.nodes = [Node(f"n{number}", self.folder, more, secured, places[number] if places else LOCAL) for number in range(count)]
            members = ",".join(f"{node.name}=http://{node.host}:{node.peer}" for node in self.nodes)
            for node in self.nodes:
                node.members = members
                node.start()
            if self.is_up():
                return
            self.end()
            if attempt == 4:
                break
        log = "".join(path.read_text() for path in self.folder.glob("*.log"))
        self.stop()
        raise RuntimeError(f"{PROGRAM} did not start:\n{log}")

    @property
    def url(self) -> str:
        return self.nodes[0].url.partition("//")[0] + "//" + ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    def is_up(self, seconds: float = 20) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end and all(node.process and node.process.poll() is None for node in self.nodes):
            try:
                for node in self.nodes:
                    if node.secured:
                        socket.create_connection((node.host, node.port), 1).close()
                    else:
                        node.call("kv/range", key="up")
                return True
            except (OSError, RuntimeError):
                time.sleep(0.02)
        return False

    def call(self, path: str, **request: Any) -> dict[str, Any]:
        """By any member that answers."""
        for node in self.nodes[:-1]:
            try:
                return node.call(path, **request)
            except OSError:
                continue
        return self.nodes[-1].call(path, **request)

    def found(self, prefix: str) -> list[dict[str, Any]]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else b"\0"
        answer = self.call("kv/range", key=prefix or b"\0", range_end=end, sort_target="CREATE", sort_order="ASCEND")
        return answer.get("kvs", [])

    def keys(self, prefix: str = "") -> list[str]:
        return [base64.b64decode(one["key"]).decode() for one in self.found(prefix)]

    def leases(self) -> list[int]:
        return [int(one["ID"]) for one in self.call("lease/leases").get("leases", [])]

    def received(self, method: str = "") -> float:
        """Messages to the first node so far, those of streams among them; with a name, those of one method of gRPC."""
        node = self.nodes[0]
        metrics = urllib.request.urlopen(f"http://{node.host}:{node.port}/metrics", timeout=10).read().decode()
        rows = [row for row in metrics.splitlines() if row.startswith("grpc_server_msg_received_total") and f'grpc_method="{method}' in row]
        return sum(float(row.split()[-1]) for row in rows)

    def revision(self) -> int:
        return int(self.call("kv/range", key="up")["header"]["revision"])

    def clear(self) -> None:
        """No key is left, and no lease."""
        self.call("kv/deleterange", key=b"\0", range_end=b"\0")
        for lease in self.leases():
            self.call("lease/revoke", ID=lease)

    def _leads(self, node: Node) -> bool:
        with contextlib.suppress(OSError):
            status = node.call("maintenance/status")
            return bool(status["leader"] == status["header"]["member_id"])
        return False

    def leader(self) -> Node:
        """Who leads. While they elect one, it waits."""
        leader: Node = until(lambda: next(filter(self._leads, self.nodes), None), 30)
        return leader

    def lead(self, node: Node) -> None:
        """Makes the node the leader."""
        while (leader := self.leader()) is not node:
            target = node.call("maintenance/status")["header"]["member_id"]
            with contextlib.suppress(RuntimeError):  # the old leader was on its way out
                leader.call("maintenance/transfer-leadership", targetID=target)

    def end(self) -> None:
        for node in self.nodes:
            node.end()

    def stop(self) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Etcd:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
