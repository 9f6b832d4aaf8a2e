"""Histories of locks under faults, and their judge: python-tests/models/porcupine, a program on Go's porcupine.

    with EtcdLeaders() as world:                    # or any other World: an engine and its faults
        rows = world.history(1000)                  # processes take and release locks while world.fault() happens
    judge(rows)                                     # ["ok", "1007"], or ["wrong", "1007", "name", ...]

A new engine is one more World: url, options and fault().
"""
from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

from ..build import LIBRARY, ROOT
from ..etcd import Etcd
from ..golang import GO
from ..proxy import Proxy
from ..quorum import Quorum
from ..server import Server
from ..waiting import until
from ..zookeeper import Zookeeper

FOLDER = ROOT / "python-tests/models/porcupine"
PROGRAM = ROOT / "build/porcupine/judge"
WORKER = pathlib.Path(__file__).with_name("worker.py")
NAMES = ("stock", "cart")
PROCESSES = 4


def build() -> str:
    """The module's package comes from the Go module proxy, as go.sum has it."""
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    with open(PROGRAM.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in FOLDER.iterdir())
        if not PROGRAM.exists() or PROGRAM.stat().st_mtime < newest:
            env = {**os.environ, "GOFLAGS": "-buildvcs=false -modcacherw", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            subprocess.run([str(GO), "build", "-o", str(PROGRAM), "."], cwd=FOLDER, env=env, check=True)
    return str(PROGRAM)


def judge(rows: list[str]) -> list[str]:
    done = subprocess.run([build()], input="\n".join(rows) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


class World:
    """An engine and its faults."""

    url = ""
    options: dict[str, Any] = {}
    hold_ms = 2  # most time between two looks of a holder
    faults = 0  # how many have happened
    every = 200  # rows between two of them

    def url_of(self, _process: int) -> str:
        return self.url

    def ready(self) -> bool:
        """Whether a fault may come now."""
        return True

    def fault(self) -> None:
        """Makes one fault and repairs it."""

    def stop(self) -> None:
        """Ends the servers."""

    def history(self, operations: int, library: pathlib.Path = LIBRARY) -> list[str]:
        """At least so many rows. library: of the workers."""
        env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings/python"), "DLOCK_LIBRARY": str(library)}
        words = [*NAMES, *(f"{name}={value}" for name, value in self.options.items())]
        share = (operations + PROCESSES - 1) // PROCESSES
        workers = [subprocess.Popen([sys.executable, str(WORKER), self.url_of(number), str(number), str(share), str(self.hold_ms), *words], env=env,
                                    stdout=subprocess.PIPE, text=True) for number in range(PROCESSES)]  # fmt: skip
        rows: list[str] = []
        readers = [threading.Thread(target=rows.extend, args=(worker.stdout,)) for worker in workers]
        for reader in readers:
            reader.start()
        try:
            while alive := [reader for reader in readers if reader.is_alive()]:
                if len(rows) >= (self.faults + 1) * self.every and self.ready():
                    self.fault()
                    self.faults += 1
                alive[0].join(0.01)
        finally:
            for worker in workers:
                worker.kill() if sys.exc_info()[0] else worker.wait()
            for reader in readers:
                reader.join()
        assert all(worker.returncode == 0 for worker in workers)
        return [row.rstrip() for row in rows]

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class EtcdLeaders(World):
    """Three members; the leader is killed, or stopped, again and again."""

    options = {"lease_ms": 3000, "command_timeout_ms": 700, "connects_per_second": 50}

    def __init__(self) -> None:
        self.etcd = Etcd(3)
        self.url = self.etcd.url

    def fault(self) -> None:
        leader = self.etcd.leader()
        others = [node for node in self.etcd.nodes if node is not leader]
        leader.pause() if self.faults % 2 else leader.kill()
        until(lambda: any(node.revision() for node in others), timeout=30)
        leader.resume() if self.faults % 2 else leader.start()
        assert self.etcd.is_up(60)

    def stop(self) -> None:
        self.etcd.stop()


class ZookeeperLeaders(World):
    """Three members; the leader is killed, or stopped, again and again."""

    options = {"lease_ms": 3000, "command_timeout_ms": 700, "connects_per_second": 50}

    def __init__(self) -> None:
        self.zookeeper = Zookeeper(3)
        self.url = self.zookeeper.url

    def fault(self) -> None:
        leader = self.zookeeper.leader()
        leader.pause() if self.faults % 2 else leader.kill()
        self.zookeeper.wait_for_another(leader)
        leader.resume() if self.faults % 2 else leader.start(self.zookeeper.members)
        assert self.zookeeper.is_up(60)

    def stop(self) -> None:
        self.zookeeper.stop()


class Cuts(World):
    """One server; connections are cut."""

    every = 40

    def __init__(self, server: Any, first: Any, scheme: str, connects: int = 100) -> None:
        """first: what has the address of the server. Of etcd and ZooKeeper also for builds that are broken: only the client is in doubt."""
        self.options = {"lease_ms": 3000, "command_timeout_ms": 700, "connects_per_second": connects}
        self.server, self.proxy = server, Proxy((first.host, first.port))
        self.url = f"{scheme}://{self.proxy.host}:{self.proxy.port}"

    def fault(self) -> None:
        self.proxy.cut()

    def stop(self) -> None:
        self.proxy.close()
        self.server.stop()


class EtcdCuts(Cuts):
    def __init__(self) -> None:
        etcd = Etcd()
        super().__init__(etcd, etcd.nodes[0], "etcd")


class ZookeeperCuts(Cuts):
    def __init__(self) -> None:
        zookeeper = Zookeeper()
        super().__init__(zookeeper, zookeeper.members[0], "zookeeper")


class RedisCuts(Cuts):
    def __init__(self) -> None:
        server = Server()
        super().__init__(server, server, "redis", 200)


class RedisFailover(World):
    """A primary with two replicas behind one address. Once, while a lock is held, a replica is promoted and has the address. confirmed:
    replicas confirm each grant; else they know nothing of the run, and the first process still uses the old primary.
    """

    hold_ms, every = 300, 150

    def __init__(self, confirmed: bool = True) -> None:
        self.options = {"lease_ms": 3000, "command_timeout_ms": 700, "connects_per_second": 50, "replicas": 2 if confirmed else "none"}
        self.primary = Server("--repl-diskless-sync-delay", "0")
        of = ("--replicaof", f"{self.primary.host} {self.primary.port}", "--repl-diskless-sync-delay", "0")
        self.replicas = [Server(*of) for _ in range(2)]
        for replica in self.replicas:
            until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"), timeout=30)
            if not confirmed:
                replica.command("REPLICAOF", "127.0.0.1", "1")
        self.proxy = Proxy((self.primary.host, self.primary.port))
        self.url = self.proxy.url
        self.confirmed = confirmed

    def url_of(self, process: int) -> str:
        return self.url if self.confirmed or process else f"redis://{self.primary.host}:{self.primary.port}"

    def fault(self) -> None:
        if self.faults:
            return
        new, other = self.replicas
        until(lambda: any(self.primary.command("EXISTS", name) for name in NAMES))
        self.proxy.refuse()
        self.proxy.cut()
        self.promote(new)
        for server in (other, self.primary) if self.confirmed else (other,):
            server.command("REPLICAOF", new.host, new.port)
        self.proxy.target = (new.host, new.port)
        self.proxy.accept()

    def promote(self, new: Server) -> None:
        new.command("REPLICAOF", "NO", "ONE")

    def stop(self) -> None:
        self.proxy.close()
        for server in (self.primary, *self.replicas):
            server.stop()


def provision(url: str, **options: Any) -> None:
    """The operator's word that nobody holds a lock."""
    import dlock  # the library has its name by now

    with dlock.Client(url, **options) as client:
        client.provision()


class RedisForgets(RedisFailover):
    """L2q: the promoted replica has lost its memory, and quarantine_ms begins."""

    def __init__(self) -> None:
        super().__init__()
        self.options["quarantine_ms"] = self.options["lease_ms"]
        provision(self.url, **self.options)

    def promote(self, new: Server) -> None:
        super().promote(new)
        new.command("FLUSHALL")


class RedisRestarts(World):
    """One server that is restarted, and has forgotten its locks. quarantined: L0q; else L0, which does not promise exclusion over this."""

    hold_ms = 100

    def __init__(self, quarantined: bool = True) -> None:
        self.options = {"lease_ms": 1000, "command_timeout_ms": 700, "connects_per_second": 200}
        self.server = Server()
        self.url = self.server.url
        if quarantined:
            self.hold_ms, self.every = 10, 400
            self.options["quarantine_ms"] = 1000
            provision(self.url, **self.options)

    def ready(self) -> bool:
        return all(self.server.command("EXISTS", name) for name in NAMES)

    def fault(self) -> None:
        self.server.restart()

    def stop(self) -> None:
        self.server.stop()


class RedisQuorum(World):
    """L3: four of five servers must agree, so two may lose their memory within a lease. One after the other does, and is away for a moment."""

    options = {"lease_ms": 2000, "command_timeout_ms": 700, "connects_per_second": 200, "quorum": 4}

    def __init__(self) -> None:
        self.quorum = Quorum()
        self.url = self.quorum.url
        self.lost_at = [0.0, 0.0]

    def ready(self) -> bool:
        return time.monotonic() > self.lost_at[0] + 2

    def fault(self) -> None:
        node = self.quorum.nodes[self.faults % 5]
        node.kill()
        node.start()
        self.lost_at = [self.lost_at[1], time.monotonic()]

    def stop(self) -> None:
        self.quorum.stop()
