"""A primary with replicas, and sentinels that watch it.

    with Watched(replicas=1, sentinels=3) as watched:
        watched.url                                 # redis+sentinel://...
        watched.primary()                           # the Server that the sentinels name now
        watched.failover()                          # orders one; returns when another server is the primary
    Watched(secured=options_of_tls)             # all of them use TLS only, also among themselves
"""
from __future__ import annotations

import contextlib
import time
from typing import Any

from .resp import ReplyError
from .server import Server

SERVICE = "orders"


def ask(server: Server, *words: Any) -> Any:
    """One command on a connection of its own: a failover closes the existing connections."""
    with server.client() as client:
        return client.command(*words)


class Sentinel(Server):
    def __init__(self, primary: Server, quorum: int, *lines: str, secured: tuple[str, ...] = (), island: Any = None) -> None:
        self.lines = [
            f"sentinel monitor {SERVICE} {primary.host} {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {SERVICE} 700",
            f"sentinel failover-timeout {SERVICE} 3000",
            *lines,
        ]
        super().__init__(secured=secured, island=island)

    def start(self) -> None:
        config = self.folder / "sentinel.conf"
        if not config.exists():  # the sentinel rewrites it
            config.write_text("\n".join(self.lines) + "\n")
        self.config, self.options = (str(config),), ("--sentinel",)
        super().start()


class Watched:
    def __init__(
        self, replicas: int = 1, sentinels: int = 3, secured: tuple[str, ...] = (), open_: bool = False, island: Any = None
    ) -> None:
        """open_: also accepts clients of other machines. island: the first primary and the last sentinel are there."""
        self.secured = secured
        more = ("--protected-mode", "no") if open_ else ()
        self.servers = [Server("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *more, secured=secured, island=island)]
        self.sentinels: list[Sentinel] = []
        first = self.servers[0]
        for _ in range(replicas):
            of = ("--replicaof", f"{first.host} {first.port}", "--repl-diskless-sync-delay", "0", *more)
            self.servers.append(Server(*of, secured=secured))
        for number in range(sentinels):
            lines, where = ["protected-mode no"] if open_ else [], island if number == sentinels - 1 else None
            self.sentinels.append(Sentinel(first, sentinels // 2 + 1, *lines, secured=secured, island=where))
        self.until(lambda: all(self._knows(sentinel) for sentinel in self.sentinels))

    def _knows(self, sentinel: Sentinel) -> bool:
        words = sentinel.command("SENTINEL", "MASTER", SERVICE)
        about = dict(zip(words[::2], words[1::2]))
        return (
            about[b"flags"] == b"master"
            and int(about[b"num-slaves"]) == len(self.servers) - 1
            and int(about[b"num-other-sentinels"]) == len(self.sentinels) - 1
            and all(b"master_link_status:down" not in ask(server, "INFO", "replication") for server in self.servers)
        )

    @staticmethod
    def until(condition: Any, timeout: float = 30) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout} s"
            time.sleep(0.05)

    @property
    def url(self) -> str:
        places = ",".join(f"{sentinel.host}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis{'s' if self.secured else ''}+sentinel://{places}/{SERVICE}"

    def port(self) -> int:
        """The port of the primary, from the first live sentinel."""
        for sentinel in self.sentinels:
            if sentinel.process:
                return int(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])
        raise AssertionError("no sentinel runs")

    def primary(self) -> Server:
        port = self.port()
        (server,) = [server for server in self.servers if server.port == port]
        return server

    def replica(self) -> Server:
        """A live server that is not the primary."""
        port = self.port()
        return [server for server in self.servers if server.port != port and server.process][0]

    def settled(self) -> bool:
        """Whether all sentinels name the same primary, and it is a primary that has its replicas."""
        ports = {int(s.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1]) for s in self.sentinels if s.process}
        if len(ports) != 1:
            return False
        running = [server for server in self.servers if server.process]
        role = ask(self.primary(), "ROLE") if self.primary().process else [b"none"]
        return role[0] == b"master" and len(role[2]) == len(running) - 1

    def failover(self) -> None:
        before = self.port()
        self.until(lambda: (self.port() != before or self.order()) and self.settled(), 60)

    def order(self) -> bool:
        """Orders a failover. False until the primary is another one: a failover may be in progress already, or fail."""
        with contextlib.suppress(ReplyError):
            self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
        return False

    def stop(self) -> None:
        for server in [*self.sentinels, *self.servers]:
            server.stop()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
