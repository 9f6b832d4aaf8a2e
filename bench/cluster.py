"""One lock on a Redis Cluster beside the same on one server, in one run."""
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Callable

from report import Section, Spread, Target
from server import ROOT

sys.path.insert(0, str(ROOT / "python-tests"))

from harness.cluster import Cluster  # noqa: E402

if TYPE_CHECKING:
    from run import Bench, Result

WAYS = {"one": "one server", "six": "cluster, six primaries", "pairs": "cluster, three primaries, three replicas"}


def row_cluster(bench: Bench, interleave: Callable[..., dict[str, list[Result]]]) -> list[Section]:
    """Everybody's servers share the first core, the client has the last one."""
    cores = bench.place("own cores")
    with Cluster(6, 0) as six, Cluster(3, 1) as pairs:
        urls = {"one": bench.server.urls["tcp"], "six": six.url, "pairs": pairs.url}
        for node in [*six.nodes, *pairs.nodes]:
            os.sched_setaffinity(node.pid, {bench.cores[0]})
        results = interleave(bench.rounds(15), list(WAYS), lambda way: bench.run(cores, "own", "dlock", urls[way], 1, bench.some(0.3, 0.1)))
    rows, targets = [], []
    for way, all_ in results.items():
        ratio = Spread.of([ours["pair_p50"] / theirs["pair_p50"] for ours, theirs in zip(all_, results["one"])])
        rows.append([WAYS[way], *(str(Spread.of([result[field] for result in all_])) for field in ("pair_p50", "pair_p99", "per_s")), str(ratio)])
        if way == "six":
            targets.append(Target("cluster", "p50 of a pair, six servers against one", ratio, 1.1, True))
    text = """One thread acquires and releases its own lock over TCP, on one server and on clusters of six. A primary with a replica also
writes every change to the replica, here on the same core; that is in the last line."""
    return [Section("A cluster", text, ["where", "pair p50 us", "p99 us", "pairs/s", "p50 against one server"], rows, targets)]
