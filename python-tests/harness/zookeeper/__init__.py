"""A private ZooKeeper: one server, or an ensemble of three, in a temporary folder on free ports.

    with Zookeeper() as zookeeper:                  # Zookeeper(3); Zookeeper("maxSessionTimeout=1000")
        zookeeper.url                               # for dlock_client_open: all members
        zookeeper.nodes("lock")                     # names below a path, in the order of their numbers
        zookeeper.admin.set("/lock/x", b"")         # a kazoo client
        zookeeper.members[0].pause(); .resume(); .kill(); .restart()
        zookeeper.leader()                          # the member that leads
        zookeeper.lead(zookeeper.members[2])        # the last one can be made to
    Zookeeper(java=["-Xmx1000m"])               # instead of QUICK, with which it starts fast and stays small

The server is that of Debian's package, or the jars that DLOCK_ZOOKEEPER names, as a class path.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, NotEmptyError

from ..build import clean_env
from ..proxy import Proxy
from ..server import free_port
from ..tally import saw
from ..waiting import until

MEMORY = "/dev/shm"  # every write is synced, and others use the disk
JARS = os.environ.get("DLOCK_ZOOKEEPER", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar")
QUICK = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Xshare:auto"]
TICK = 100  # ms; a timeout of a session is rounded up to it
# Sessions may be shorter than tests wait, and as long as users want.
SETTINGS = {
    "tickTime": TICK, "initLimit": 50, "syncLimit": 20, "minSessionTimeout": 2 * TICK, "maxSessionTimeout": 60000,
    "maxClientCnxns": 0, "admin.enableServer": "false", "4lw.commands.whitelist": "*",
    "clientPortAddress": "127.0.0.1", "quorumListenOnAllIPs": "false",
}  # fmt: skip
# The server looks for empty containers this often, and members that elect repeat what they say.
PROPERTIES = {"znode.container.checkIntervalMs": 500, "zookeeper.preAllocSize": 64, "zookeeper.cnxTimeout": 300, "zookeeper.fastleader.maxNotificationInterval": 1000,
              "org.slf4j.simpleLogger.defaultLogLevel": "warn"}  # fmt: skip


Place = tuple[str, tuple[str, ...]]  # address, words before the command
LOCAL: Place = ("127.0.0.1", ())


def url(proxy: Proxy) -> str:
    """For dlock_client_open: the member behind a proxy."""
    return f"zookeeper://{proxy.host}:{proxy.port}"


class Member:
    def __init__(self, number: int, folder: pathlib.Path, settings: dict[str, Any], place: Place = LOCAL, java: list[str] = QUICK) -> None:
        self.number, self.folder, self.settings, self.java = number, folder, settings, java
        self.name, self.host, self.prefix = f"member {number}", str(settings.get("clientPortAddress", place[0])), place[1]
        self.port, self.secure, self.peer, self.election = (free_port() for _ in range(4))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, members: list[Member]) -> None:
        self.folder.mkdir(exist_ok=True)
        lines = {**SETTINGS, "dataDir": self.folder, "clientPort": self.port, "clientPortAddress": self.host, **self.settings}
        if "ssl.keyStore.location" in lines:
            lines |= {"secureClientPort": self.secure, "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory"}
        if len(members) > 1:
            lines |= {f"server.{one.number}": f"{one.host}:{one.peer}:{one.election}" for one in members}
            (self.folder / "myid").write_text(str(self.number))
        config = self.folder / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        properties = [f"-D{name}={value}" for name, value in PROPERTIES.items()]
        command = [*self.prefix, "setpriv", "--pdeathsig", "KILL", "java", *self.java, *properties, "-cp", JARS]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.members = members

    def word(self, word: str) -> str:
        """What a four-letter word is answered with; "" when it is not there."""
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 2) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        return ""

    def mode(self) -> str:
        """"leader", "follower", "standalone"; "": it does not serve."""
        return next((line[6:] for line in self.word("srvr").splitlines() if line.startswith("Mode: ")), "")

    def zxid(self) -> int:
        """The last transaction that it knows of; 0: it does not serve."""
        return next((int(line[6:], 16) for line in self.word("srvr").splitlines() if line.startswith("Zxid: ")), 0)

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
        self.start(self.members)


class Zookeeper:
    def __init__(self, *settings: Any, places: list[Place] | None = None, folders: dict[int, pathlib.Path] | None = None, java: list[str] = QUICK) -> None:
        """places: where each member is, and what its command begins with. folders: of the data of some. java: options."""
        count = settings[0] if settings and isinstance(settings[0], int) else 1
        more = dict(str(one).split("=", 1) for one in settings if not isinstance(one, int))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self._admin: KazooClient | None = None
        for attempt in range(5):  # a port may be taken between the check and the start
            self.members = [Member(number + 1, (folders or {}).get(number, self.folder / str(number + 1)), more, places[number] if places else LOCAL, java)
                            for number in range(count)]  # fmt: skip
            for member in self.members:
                member.start(self.members)
            if self.is_up():
                return
            self.end()
            if attempt == 4:
                break
        log = "".join(path.read_text() for path in self.folder.glob("*/log"))
        self.stop()
        raise RuntimeError(f"ZooKeeper did not start:\n{log}")

    @property
    def secure_url(self) -> str:
        return "zookeepers://" + ",".join(f"{member.host}:{member.secure}" for member in self.members)

    @property
    def hosts(self) -> str:
        return ",".join(f"{member.host}:{member.port}" for member in self.members)

    @property
    def url(self) -> str:
        return f"zookeeper://{self.hosts}"

    def is_up(self, seconds: float = 40) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end and all(member.process and member.process.poll() is None for member in self.members):
            if all(member.mode() for member in self.members):
                return True
            time.sleep(0.02)
        return False

    @property
    def admin(self) -> KazooClient:
        if not self._admin:
            self._admin = KazooClient(self.hosts, timeout=10, connection_retry={"max_tries": -1}, command_retry={"max_tries": -1})
            self._admin.start(30)
        return self._admin

    def nodes(self, path: str = "") -> list[str]:
        """The names below a path, in the order of the numbers at their ends."""
        try:
            self.admin.retry(self.admin.sync, f"/{path}")
            return sorted(self.admin.retry(self.admin.get_children, f"/{path}"), key=lambda name: name[-10:])
        except NoNodeError:
            return []

    def clear(self) -> None:
        """No node is left."""
        for name in self.nodes():
            while name != "zookeeper":
                with contextlib.suppress(NotEmptyError):  # somebody makes one meanwhile
                    self.admin.delete(f"/{name}", recursive=True)
                    break

    def received(self) -> int:
        """Requests to the first member so far."""
        return int(next(line.split()[1] for line in self.members[0].word("srvr").splitlines() if line.startswith("Received")))

    def sessions(self) -> int:
        """Without that of admin."""
        return sum(member.word("cons").count("sid=0x") for member in self.members) - (self._admin is not None)

    def expire(self, path: str) -> None:
        """Ends the session that a node belongs to, as if it was its client. A session's password follows from its id."""
        owner = self.admin.get(path)[1].ephemeralOwner
        seed, word = ((owner ^ 0xB3415C00) ^ 0x5DEECE66D) & (1 << 48) - 1, b""
        while len(word) < 16:  # java.util.Random
            seed = (seed * 0x5DEECE66D + 0xB) & (1 << 48) - 1
            word += (seed >> 16).to_bytes(4, "little")
        while self.admin.exists(path):
            other = KazooClient(self.hosts, client_id=(owner, word))
            other.start(10)
            other.stop()
            other.close()

    def leader(self) -> Member:
        """Who leads. While they elect one, it waits."""
        leads = lambda: next((member for member in self.members if member.mode() in ("leader", "standalone")), None)  # noqa: E731
        leader: Member = until(leads, 30)
        return leader

    def lead(self, member: Member) -> None:
        """Makes the last member the leader: it has the highest number, which decides between members that know as much."""
        assert self.is_up(60)
        while (leader := self.leader()) is not member:
            leader.restart()
            assert self.is_up(60)

    def wait_for_another(self, member: Member) -> None:
        """Until another member than this one leads."""
        until(lambda: any(other.mode() == "leader" for other in self.members if other is not member), 30)

    def end(self) -> None:
        for member in self.members:
            member.end()

    def stop(self) -> None:
        if self._admin:
            with contextlib.suppress(Exception):
                self._admin.stop()
            self._admin.close()
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Zookeeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
