"""Independent servers that vote.

    with Quorum(5) as quorum:
        quorum.url                                  # redis+quorum://...; quorum.url_of(needed=4)
        quorum.nodes[0].kill()                      # harness.server.Server
        quorum.holders("name")                      # its holder on each server, b"" for nobody
        quorum.tokens("name")                       # the highest token reserved on each server, 0 for none
"""
from __future__ import annotations

import tempfile
from typing import Any

from .build import preloadable
from .server import Server

FENCE = "redisson_lock_token:{%s}"


def url_of(*servers: Any, **options: Any) -> str:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"redis+quorum://{','.join(f'{one.host}:{one.port}' for one in servers)}" + (f"?{query}" if query else "")


class Skewed(Server):
    """A server whose wall clock jumps: skewed.jump(ms); or whose clock runs faster by so many millionths."""

    def __init__(self, *options: str, fast: int = 0) -> None:
        self.page = tempfile.NamedTemporaryFile()
        self.ahead = 0
        self.jump(0)
        self.environment = {"LD_PRELOAD": preloadable("simclock.so"), "SIM_CLOCK": self.page.name, "SIM_CLOCK_RUNS": str(fast)}
        super().__init__(*options)

    def jump(self, ms: int) -> None:
        self.ahead += 1000 * ms
        self.page.seek(0)
        self.page.write(self.ahead.to_bytes(8, "little", signed=True))
        self.page.flush()


class Quorum:
    def __init__(self, count: int = 5, *options: str, of: type[Server] = Server) -> None:
        self.nodes = [of(*options) for _ in range(count)]

    @property
    def url(self) -> str:
        return url_of(*self.nodes)

    def url_of(self, **options: Any) -> str:
        return url_of(*self.nodes, **options)

    def each(self, *words: Any) -> list[Any]:
        """The answers of the live servers; None for the others."""
        return [node.command(*words) if node.process else None for node in self.nodes]

    def holders(self, name: str) -> list[bytes | None]:
        return [None if held is None else (held or [b""])[0] for held in self.each("HKEYS", name)]

    def held(self, name: str) -> int:
        """The number of servers on which somebody holds it."""
        return sum(bool(holder) for holder in self.holders(name))

    def tokens(self, name: str) -> list[int]:
        return [int(token or 0) for token in self.each("GET", FENCE % name)]

    def flush(self) -> None:
        self.each("FLUSHALL")

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Quorum:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
