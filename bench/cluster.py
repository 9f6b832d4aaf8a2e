"""Compare one lock on a Redis Cluster with one lock on one server, in one run."""
from __future__ import annotations

import os

from measure import Bench, interleave
from report import Section, Spread, Target

from harness.cluster import Cluster  # noqa: E402
from harness.server import Server  # noqa: E402

WAYS = {
    "one": "one server",
    "six": "cluster, six primaries",
    "copied": "one server, one replica",
    "pairs": "cluster, three primaries, three replicas",
}
LIKE = {"six": "one", "pairs": "copied"}  # the way that differs from it only by the cluster


def row_cluster(bench: Bench) -> list[Section]:
    """All servers share the first core; the client has the last one."""
    cores = bench.place("own cores")
    with Cluster(6, 0) as six, Cluster(3, 1) as pairs, Server() as copied, Server("--replicaof", copied.host, str(copied.port)) as copy:
        urls = {"one": bench.server.urls["tcp"], "six": six.url, "copied": copied.url, "pairs": pairs.url}
        for node in [*six.nodes, *pairs.nodes, copied, copy]:
            os.sched_setaffinity(node.pid, {bench.cores[0]})
        results = interleave(bench.rounds(15), list(WAYS), lambda way: bench.run(cores, "own", "dlock", urls[way], 1, bench.some(0.3, 0.1)))
    rows, targets = [], []
    for way, all_ in results.items():
        like = LIKE.get(way, "one")
        ratio = Spread.of([ours["pair_p50"] / theirs["pair_p50"] for ours, theirs in zip(all_, results[like])])
        rows.append([WAYS[way], *(str(Spread.of([result[field] for result in all_])) for field in ("pair_p50", "pair_p99", "per_s")), f"{ratio}x {WAYS[like]}"])
        if way in LIKE:
            targets.append(Target("cluster", f"p50 of a pair, {WAYS[way].removeprefix('cluster, ')}", ratio, 1.1, True))
    text = """One thread acquires and releases its own lock over TCP, on one server and on clusters of six. A primary with a replica also
writes every change to the replica, here on the same core. So a cluster with replicas is compared with a server that has one."""
    return [Section("A cluster", text, ["where", "pair p50 us", "p99 us", "pairs/s", "p50 against"], rows, targets)]
