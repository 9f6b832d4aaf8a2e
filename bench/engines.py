"""etcd and ZooKeeper: libdlock beside the locks that people use there, Go's clientv3/concurrency and Java's Curator.

Both sides use one private server with its data in memory. The programs of the other side are those of the tests
(python-tests/etcd/peer, python-tests/zookeeper/peer).
"""
from __future__ import annotations

import re
import subprocess
import time
from typing import Any, Callable, NamedTuple

from measure import Bench, Result, Steps, interleave, ratio, spread
from report import Section, Spread, Target

from harness.etcd import Etcd
from harness.etcd.peer import FOLDER as GO_PEER, Peer as Concurrency
from harness.zookeeper import Zookeeper
from harness.zookeeper.peer import FOLDER as JAVA_PEER, Peer as Curator

LEAD_IN, TTL = 2.0, 10  # s: sessions are made, and a JVM gets warm; of the other side's sessions
JAVA = ["-Xmx1000m"]  # of both JVMs: the heap that ZooKeeper's own scripts give its server, everything else as Java has it


class Case(NamedTuple):
    title: str
    processes: int
    threads: int
    seconds: float
    own: bool = False  # each caller has a lock of its own


ONE = Case("1 caller, its own lock", 1, 1, 2.0, own=True)
MANY = Case("one lock, 64 callers of one process", 1, 64, 3.0)
APART = Case("one lock, 2 processes of 1 caller", 2, 1, 2.0)


class Floor(NamedTuple):
    """The least that one caller can take: a way of the bench programs."""

    way: str
    title: str


class Engine(NamedTuple):
    name: str
    server: Any
    peer: Callable[[Any], Any]  # the other side's program, of the server
    rival: str
    clock: int  # that the peer's times are of
    bounds: dict[Case, float]
    held: int  # locks that one client may acquire at once without being late
    lease_ms: int
    floor: Floor | None = None
    note: str = ""


def ours(bench: Bench, case: Case, url: str, seconds: float) -> Result:
    if case.own:
        return bench.run(None, "own", "dlock", url, case.threads, seconds)
    result = bench.run(None, "one", "dlock", url, case.processes, case.threads, seconds)
    if result["violations"]:
        raise SystemExit(f"{url}: two callers had one lock")
    return {"per_s": result["acquired_per_s"], "pair_p50": 1e6 / result["acquired_per_s"]}


def theirs(peers: list[Any], case: Case, clock: int, seconds: float) -> Result:
    begin = time.clock_gettime_ns(clock) // 1000 + int(LEAD_IN * 1e6)
    end, name = begin + int(seconds * 1e6), f"bench{begin}"
    words = [f"w{number}" for number in range(case.threads)]
    for peer in peers[: case.processes]:
        for word in words:
            peer(f"pairs {word} {name} {begin} {end}")
    told = [peer.wait(f"{word} pairs", 120) for peer in peers[: case.processes] for word in words]
    per_s = sum(int(count) for count, _ in told) / seconds
    return {"per_s": per_s, "pair_p50": float(told[0][1]) if case.own else 1e6 / per_s}


def measure(bench: Bench, engine: Engine, case: Case, url: str, peers: list[Any]) -> tuple[list[list[str]], list[Target]]:
    seconds = bench.some(case.seconds, 0.5)
    floor = engine.floor if case is ONE else None
    ways = {"dlock": "libdlock", "rival": engine.rival} | ({"floor": floor.title} if floor else {})

    def run(way: str) -> Result:
        if floor and way == "floor":
            return bench.run(None, "own", floor.way, url, case.threads, seconds)
        return ours(bench, case, url, seconds) if way == "dlock" else theirs(peers, case, engine.clock, seconds)

    results = interleave(bench.rounds(5), list(ways), run)
    rows = [[case.title, name, str(spread(results[way], "per_s")), str(spread(results[way], "pair_p50"))] for way, name in ways.items()]
    if case not in engine.bounds:
        return rows, []
    many = case is MANY
    measured = ratio(results["dlock"], results["rival"], "per_s" if many else "pair_p50")
    what = f"{engine.name}: {'grants' if many else 'time'}, {case.title}"
    return rows, [Target("engines", what, measured, engine.bounds[case], not many)]


# ---- held locks


def held(bench: Bench, engine: Engine, locks: int) -> float:
    """Requests per second of a client that holds so many locks, once each has been renewed."""
    seconds = bench.some(24, 3)
    with engine.server() as server:
        process = bench.popen(None, "keep", "dlock", server.url, locks, engine.lease_ms, 1, stdin=subprocess.PIPE)
        try:
            Steps(process).until("held")
            time.sleep(bench.some(engine.lease_ms / 1000, 1))
            before = server.received()
            time.sleep(seconds)
            return (server.received() - before) / seconds
        finally:
            process.kill()
            process.wait()


def measure_held(bench: Bench, engine: Engine) -> tuple[list[list[str]], list[Target]]:
    few, many = int(bench.some(1_000, 100)), int(bench.some(engine.held, 1_000))
    rate = {locks: held(bench, engine, locks) for locks in (few, many)}
    rows = [[f"{locks:,} held locks, a lease of {engine.lease_ms // 1000} s", "libdlock, the server's requests/s", f"{per_s:.3g}", ""] for locks, per_s in rate.items()]
    relative = Spread.of([rate[many] / rate[few]])
    return rows, [Target("engines", f"{engine.name}: requests, {many:,} held locks to {few:,}", relative, 1.5, True)]


def section(bench: Bench, engine: Engine) -> Section:
    rows, targets, peers = [], [], []
    with engine.server() as server:
        try:
            peers += [engine.peer(server) for _ in range(2)]
            for case in (ONE, MANY, APART):
                more, bounds = measure(bench, engine, case, server.url, peers)
                rows, targets = rows + more, targets + bounds
        finally:
            for peer in peers:
                peer.process.kill()
    more, bounds = measure_held(bench, engine)
    rows, targets = rows + more, targets + bounds
    text = f"""One server on loopback, its data in memory. All callers acquire and release without a pause. {engine.rival} gives each caller a
session or a thread of its own, as its documentation says. For one lock the time is that of a grant: all time divided by all grants."""
    if engine.floor:
        text += f"""
{engine.floor.title} are the least that one caller can take: no session, no token, nobody who waits."""
    text += engine.note
    return Section(engine.name, text, ["case", "way", "pairs or grants/s", "us each"], rows, targets)


def row_engines(bench: Bench) -> list[Section]:
    engines = [
        Engine(
            "etcd",
            Etcd,
            lambda etcd: Concurrency(etcd.nodes[0], TTL),
            "Go's concurrency.Mutex",
            time.CLOCK_BOOTTIME,
            {ONE: 0.8, MANY: 20, APART: 0.7},
            100_000,
            9000,
            Floor("etcd", "Go's two requests over bare HTTP/2"),
        ),
        Engine(
            "ZooKeeper",
            lambda: Zookeeper(java=JAVA),
            lambda zookeeper: Curator(zookeeper, TTL, JAVA),
            "Curator's InterProcessMutex",
            time.CLOCK_MONOTONIC,
            {ONE: 0.8, APART: 0.7},
            100_000,
            30_000,
            note="""
Both JVMs have the heap that ZooKeeper's own scripts give a server, `-Xmx1000m`, and no other options.""",
        ),
    ]
    return [section(bench, engine) for engine in engines]


def versions() -> str:
    """The versions that ran."""
    etcd = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    package = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "zookeeper"], capture_output=True, text=True, check=True).stdout
    go = re.search(r"etcd/client/v3 (\S+)", (GO_PEER / "go.mod").read_text())
    curator = re.search(r"<curator.version>([^<]+)", (JAVA_PEER / "pom.xml").read_text())
    return f"etcd {etcd}; ZooKeeper {package.split('-')[0]}; etcd/client/v3 {go and go[1]}; Curator {curator and curator[1]}."
