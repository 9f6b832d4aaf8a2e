#!/usr/bin/env python3
"""Measure libdlock against its targets: ./dev bench [--bindings] [--engines] [--quick] [--only ROW...] [--out FOLDER]

A full run writes docs/benchmarks.md and docs/benchmarks.svg, except the parts on the bindings and on the engines: --bindings and
--engines write those. --quick and --only print, and write only to the folder of --out.
"""
from __future__ import annotations

import argparse
import pathlib
import signal
import subprocess
import sys
import time
from typing import Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import bindings  # noqa: E402
import cluster  # noqa: E402
import engines  # noqa: E402
import redisson  # noqa: E402
import scale  # noqa: E402
from chart import bars, draw  # noqa: E402
from measure import Bench, Result, Steps, cpu_of, interleave, one, parse, ratio, spread  # noqa: E402
from report import PARTS, Bars, Section, Spread, Target, document, facts, number, part, part_of, with_part  # noqa: E402
from server import ROOT  # noqa: E402

from harness.left import Left, remember, remembered  # noqa: E402

# ---- rows

WAYS = {"dlock": "libdlock", "scripts": "hiredis, the same scripts", "poll": "hiredis, SET NX PX / script release"}


def row_pair(bench: Bench) -> list[Section]:
    rows, targets, groups = [], [], []
    for transport in ("unix", "tcp"):
        for where in ("same core", "own cores"):
            cores = bench.place(where)
            results = interleave(bench.rounds(15), list(WAYS), lambda way: bench.run(
                cores, "own", way, bench.server.urls[transport], 1, bench.some(0.3, 0.1)))
            for way, all_ in results.items():
                rows.append([f"{transport}, {where}", WAYS[way], str(spread(all_, "pair_p50")), str(spread(all_, "pair_p99")),
                             str(spread(all_, "per_s")), number(spread(all_, "switches").median),
                             number(spread(all_, "client_us").median), str(spread(all_, "server_us"))])
            targets.append(Target("uncontended pair", f"p50, {transport}, {where}",
                                  ratio(results["dlock"], results["scripts"], "pair_p50"), 1.05, True))
            if transport == "tcp":
                groups.append(bars(f"pairs of 1 caller, {where}", WAYS, results, lambda result: result["per_s"]))
    text = """One thread acquires and releases its own lock. The rival sends the very same two scripts by `redisCommandArgv` on one blocking
connection. The plain `SET NX PX` is for information: it has no token, no queue and nothing of Redisson's layout."""
    head = ["placement", "way", "pair p50 us", "p99 us", "pairs/s", "switches", "client CPU us", "server CPU us"]
    return [Section("Uncontended pair", text, head, rows, targets, groups)]


def row_own(bench: Bench) -> list[Section]:
    rows, targets, groups = [], [], []
    cores = bench.place("own cores")
    for threads, more, less in ((8, 1.0, None), (64, 1.3, 0.7), (256, 2.5, 0.7)):
        ways = ["dlock", "scripts"]
        results = interleave(bench.rounds(9), ways, lambda way: bench.run(
            cores, "own", way, bench.server.urls["tcp"], threads, bench.some(0.7, 0.2)))
        for way, all_ in results.items():
            rows.append([str(threads), WAYS[way], str(spread(all_, "per_s", 2)), str(spread(all_, "pair_p50")),
                         str(spread(all_, "pair_p99")), number(spread(all_, "switches").median),
                         number(spread(all_, "client_us").median), str(spread(all_, "server_us"))])
        groups.append(bars(f"pairs of {threads} threads, own locks", WAYS, results, lambda result: result["per_s"] / 2))
        name = f"own locks, {threads} threads"
        targets.append(Target(name, "ops/s", ratio(results["dlock"], results["scripts"], "per_s"), more, False))
        if less:
            targets.append(Target(name, "p99", ratio(results["dlock"], results["scripts"], "pair_p99"), less, True))
    text = """Every thread has its own lock, over TCP. The server is on one core, all client threads are on another. The rival has a connection per thread.
An op is an acquire or a release; latencies, switches and CPU are of a pair. With 256 threads the server is the limit. libdlock saves it
reads and writes, and, because up to 16 callers share a script, some of the commands in the script. What stays is what is written per lock."""
    head = ["threads", "way", "ops/s", "pair p50 us", "p99 us", "switches", "client CPU us", "server CPU us"]
    return [Section("Own locks, many threads", text, head, rows, targets, groups)]


FUTEXES = "futexes"
CONTENDERS = {"dlock": "libdlock", "scripts_poll": "hiredis, 1 ms poll, the same scripts", "poll": "hiredis, 1 ms poll, `SET NX PX`"}


def contended(bench: Bench, processes: int, threads: int, rounds: int, ways: list[str]) -> tuple[dict[str, dict[str, list[Result]]], list[list[str]]]:
    """Measure: results by placement and way, and the rows of a table."""
    fields = ("acquired_per_s", "handoffs_per_s", "turns_per_s", "least_turns_per_s", "wait_p50", "wait_p99")
    medians = ("wait_max", "jain_threads", "jain_processes", "server_us")
    found, rows = {}, []
    for where in ("free", "own cores"):
        cores = bench.place(where)
        found[where] = interleave(bench.rounds(rounds), ways, lambda way: bench.run(
            cores, "one", way, bench.server.urls["tcp"], *((1, processes * threads) if way == FUTEXES else (processes, threads)), bench.some(1.0, 0.3)))
        for way, all_ in found[where].items():
            rows.append([where, CONTENDERS.get(way, "bare futexes of one process"), *(str(spread(all_, field)) for field in fields),
                         *(number(spread(all_, field).median) for field in medians), number(spread(all_, "violations").high)])
    return found, rows


def handoffs(case: str, found: dict[str, dict[str, list[Result]]]) -> list[Bars]:
    return [bars(f"hand-offs, {case}, {where}", CONTENDERS, results, lambda result: result["handoffs_per_s"]) for where, results in found.items()]


CONTENDED = ["placement", "way", "acquired/s", "hand-offs/s", "turns/s", "fewest of a process", "wait p50 us", "p99 us", "max us",
             "Jain, threads", "processes", "server CPU us", "violations"]


def row_processes(bench: Bench) -> list[Section]:
    found, rows = contended(bench, 8, 8, 7, ["dlock", "scripts_poll", "poll", FUTEXES])
    targets = []
    for where, results in found.items():
        ours, name = results["dlock"], f"one lock, 8 x 8, {where}"
        turns = Spread.of([result["handoffs_per_s"] / 64 / 8 for result in results[FUTEXES]])
        targets += [
            Target(name, f"hand-offs/s, {what}", ratio(ours, results[way], "handoffs_per_s"), 30, False, "x",
                   ("bare futexes", ratio(results[FUTEXES], results[way], "handoffs_per_s")))
            for way, what in (("scripts_poll", "the same scripts"), ("poll", "`SET NX PX`"))
        ]
        targets += [
            Target(name, "Jain, processes", spread(ours, "jain_processes"), 0.99, False, ""),
            Target(name, "Jain, threads", spread(ours, "jain_threads"), 0.99, False, ""),
            Target(name, "fewest turns of a process", spread(ours, "least_turns_per_s"), 150, False, "/s", ("bare futexes", turns)),
            Target(name, "two inside, or a token that fell", spread(ours, "violations"), 0, True, ""),
        ]
    text = """Eight processes of eight threads want one lock; nothing is done inside. A hand-off is an acquisition by another thread than the last
one. A turn is an acquisition by another process. Exclusion and rising tokens are checked in shared memory. The polling rivals try once a
millisecond, with libdlock's own scripts, or with a plain `SET NX PX` that has no token and nothing of Redisson's layout.

Free: waking a thread on another core takes most of a hand-off. Own cores: the server has one core, all clients share the other.

Bare futexes are a fair queue of as many threads in the memory of one process, without a server. They show how long this machine takes to
run one thread after another, in any lock that hands over in order. A turn is up to 64 hand-overs, and 8 turns make a round."""
    return [Section("One lock, 8 processes x 8 threads", text, CONTENDED, rows, targets, handoffs("8 processes x 8 threads", found))]


def row_threads(bench: Bench) -> list[Section]:
    found, rows = contended(bench, 1, 64, 7, ["dlock", "poll", FUTEXES])
    targets = []
    for where, results in found.items():
        name = f"one lock, 64 callers, {where}"
        targets += [
            Target(name, "hand-offs/s", ratio(results["dlock"], results["poll"], "handoffs_per_s"), 15, False, "x",
                   ("bare futexes", ratio(results[FUTEXES], results["poll"], "handoffs_per_s"))),
            Target(name, "p99 wait", ratio(results["dlock"], results["poll"], "wait_p99"), 0.05, True),
            Target(name, "two inside, or a token that fell", spread(results["dlock"], "violations"), 0, True, ""),
        ]
    text = """As above, in one process."""
    return [Section("One lock, 64 callers in one process", text, CONTENDED, rows, targets, handoffs("64 threads", found))]


def row_wake(bench: Bench) -> list[Section]:
    rows, targets, groups = [], [], []
    names = {"dlock": "libdlock", "queued": "hiredis, the same scripts and messages", LEAST: "hiredis, the least script", "blpop": "BLPOP",
             "poll": "hiredis, 1 ms poll"}
    for where in ("free", "same core"):
        cores = bench.place(where)
        results = interleave(bench.rounds(9), list(names), lambda way, cores=cores: bench.run(
            cores, "wake", way, bench.server.urls["tcp"], int(bench.some(150, 30))))
        rows += [[where, names[way], str(spread(all_, "wake_p50")), str(spread(all_, "wake_p99"))] for way, all_ in results.items()]
        least = "the least script", ratio(results[LEAST], results["blpop"], "wake_p50")
        targets += [Target("release to acquired", f"p50 to {name}, {where}", ratio(results["dlock"], results[way], "wake_p50"), most, True, "x", floor)
                    for way, name, most, floor in (("blpop", "BLPOP's", 1.5, least), ("queued", "the same scripts and messages", 1.1, None))]
        if where == "free":
            groups.append(bars("wake-ups of another process, 1 / p50", names, results, lambda result: 1e6 / result["wake_p50"]))
    text = """One process holds the lock, another waits and sleeps. Measured from just before the release in one to the return from acquire in the
other. BLPOP is the least that a server can do: one push, no lock. The same scripts and messages over bare hiredis, with nothing else in either
process, are the least that this lock can take: the release picks the next in line, reserves its token and publishes the grant. The least
script is a lock with a line, a lease and a token, and nothing else: it gives the lock to waiters that are dead, and Redisson's clients are
not in its line. On one core the work alone counts. On several it also counts which of them the system wakes, and whether that one was asleep."""
    return [Section("Release in one process to acquired in another", text, ["where", "way", "p50 us", "p99 us"], rows, targets, groups)]


def kept(bench: Bench, way: str, locks: int, seconds: float, lease_ms: int = 9000) -> Result:
    """Hold locks and renew them. First the CPU time of both sides is measured, then the PING of another client."""
    bench.fresh()
    bench.server.load_scripts()
    cores, url = bench.place("own cores"), bench.server.urls["tcp"]
    idle = bench.run(cores, "ping", url, seconds / 3)
    process = bench.popen(cores, "keep", way, url, locks, lease_ms, seconds, stdin=subprocess.PIPE)
    steps = Steps(process)
    try:
        steps.until("held")
        before, own = bench.server.cpu(), cpu_of(process.pid)
        steps.go()
        steps.until("measured")
        result = {"cpu_s": bench.server.cpu() - before, "client_s": cpu_of(process.pid) - own, "idle_ping_p99": idle["ping_p99"]}
        if way == "dlock":
            steps.go()
            result.update(bench.run(cores, "ping", url, seconds * 0.9))
            steps.until("done")
        result.update(parse(steps.text))
        result["server_us"] = result["cpu_s"] * 1e6 / max(result["renewed"], 1)
    finally:
        process.kill()
        process.wait()
    return result


KEEPERS = {"dlock": "libdlock", "bare": "its two commands alone, 64 locks in a script", "scripts": "one EVALSHA per lock"}


def row_keep(bench: Bench) -> list[Section]:
    locks, seconds = int(bench.some(100_000, 5_000)), bench.some(9, 3.5)
    results = interleave(bench.rounds(3), list(KEEPERS), lambda way: kept(bench, way, locks, seconds))
    bench.fresh()
    ours, bare, theirs, name = results["dlock"], results["bare"], results["scripts"], f"{locks:,} held locks"
    ping = spread(ours, "ping_p99", 1e-3)
    rows = [[KEEPERS["dlock"], str(spread(ours, "server_us")), number(spread(ours, "renewed").median / seconds),
             f"{spread(ours, 'ping_p50')} / {spread(ours, 'ping_p99')}", number(spread(ours, "late").high),
             number(spread(ours, "lost").high)],
            [KEEPERS["bare"], str(spread(bare, "server_us")), str(spread(bare, "per_s")), "", "", ""],
            [KEEPERS["scripts"], str(spread(theirs, "server_us")), str(spread(theirs, "per_s")), "", "", ""],
            ["nobody renews", "", "", f"p99 {spread(ours + theirs, 'idle_ping_p99')}", "", ""]]
    targets = [
        Target(name, "server CPU per renewal", ratio(ours, theirs, "server_us"), 0.25, True),
        Target(name, "server CPU per renewal, to its two commands alone", ratio(ours, bare, "server_us"), 1.25, True),
        Target(name, "p99 of another client's PING", ping, 0.5, True, " ms"),
        Target(name, "late renewals", spread(ours, "late"), 0, True, ""),
        Target(name, "lost locks", spread(ours, "lost"), 0, True, ""),
        Target(name, "share that is held at the end", Spread.of([result["held"] / locks for result in ours]), 1, False, ""),
    ]
    text = f"""{locks:,} locks in one client with the default single watchdog thread and a lease of 9 s, so that each is renewed every 3 s.
Server CPU is that of the whole server while it does nothing else. The PING comes from another process, twice a millisecond. A renewal is two
commands: does the owner hold the lock, and a later end. A script with these alone, for 64 locks at a time in a random order and at the same
pace, shows what they take at least: mostly, to get the keys into the processor's cache."""
    head = ["way", "server CPU us per renewal", "renewals/s", "PING p50 / p99 us", "late", "lost"]
    group = bars("renewals per second of the server's CPU", KEEPERS, results, lambda result: 1e6 / result["server_us"] if result["server_us"] else 0)
    return [Section("Many held locks", text, head, rows, targets, [group])]


def row_million(bench: Bench) -> list[Section]:
    """One round: it takes a minute."""
    locks, seconds = int(bench.some(1_000_000, 20_000)), bench.some(15, 3.5)
    result = kept(bench, "dlock", locks, seconds, 30_000)
    bench.fresh()
    name, share = f"{locks:,} held locks, 30 s", 100 * result["client_s"] / seconds
    targets = [
        Target(name, "late renewals", one(result["late"]), 0, True, ""),
        Target(name, "lost locks", one(result["lost"]), 0, True, ""),
        Target(name, "client's share of a core", one(share), 35, True, " %"),
        Target(name, "server CPU per renewal", one(result["server_us"]), 4, True, " us"),
    ]
    rows = [[f"{locks:,}", number(result["renewed"] / seconds), f"{share:.0f}", f"{1e6 * result['client_s'] / max(result['renewed'], 1):.2f}",
             f"{result['server_us']:.2f}", f"{result['late']:.0f}", f"{result['lost']:.0f}"]]
    head = ["locks", "renewals/s", "client's % of a core", "client CPU us per renewal", "server CPU us per renewal", "late", "lost"]
    text = f"""As above, with a lease of 30 s: each lock is renewed every 10 s, by one thread of one client. Measured for {seconds:g} s, once."""
    return [Section("A million held locks", text, head, rows, targets)]


def row_names(bench: Bench) -> list[Section]:
    names = int(bench.some(1_000_000, 20_000))
    bench.fresh()
    bench.server.load_scripts()
    bench.place("free")
    result = bench.run(None, "names", bench.server.urls["unix"], names, 8)
    kinds: dict[str, int] = {}
    for key in bench.server.redis.scan_iter(count=10_000):
        kind = key.split(":", 1)[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    space = bench.server.redis.info("keyspace").get("db0", {"keys": 0, "expires": 0})
    bench.fresh()
    others = sum(count for kind, count in kinds.items() if kind != "redisson_lock_token")
    name = f"{names:,} names"
    targets = [
        Target(name, "client memory that stays per name", one((result["resident_late_mb"] - result["resident_early_mb"]) * 1e6 / (0.9 * names)),
               1, True, " byte"),
        Target(name, "keys left that are not token counters", one(others), 0, True, ""),
        Target(name, "keys left without a TTL", one(space["keys"] - space["expires"]), 0, True, ""),
        Target(name, "locks left in the client", one(result["locks_left"]), 0, True, ""),
    ]
    rows = [[number(result["pairs_per_s"]), f"{result['resident_early_mb']:.2f}", f"{result['resident_late_mb']:.2f}",
             f"{space['keys']:,}", f"{space['expires']:,}", str(others)]]
    head = ["names/s", "MB after a tenth", "MB at the end", "keys left", "with a TTL", "other than token counters"]
    return [Section("Names used once", "Each name: new, acquire, release, free; eight threads, unix socket.", head, rows, targets)]


def row_memory(bench: Bench) -> list[Section]:
    locks = int(bench.some(1_000_000, 20_000))
    bench.fresh()
    bench.server.load_scripts()
    bench.place("free")
    result = bench.run(None, "memory", bench.server.urls["unix"], locks, locks)
    bench.fresh()
    name, taken = f"{locks:,} held locks and as many waiters", locks * (result["held_resident"] + result["waiter_resident"])
    targets = [
        Target(name, "malloc's bytes for each held lock, with its handle", one(result["held_bytes"]), 600, True, ""),
        Target(name, "malloc's bytes that are not back, to what was taken",
               one((result["end_bytes"] - result["start_bytes"]) / (locks * (result["held_bytes"] + result["waiter_bytes"]))), 0.05, True, ""),
        Target(name, "resident memory that is not back, to what was taken", one((result["end_resident"] - result["start_resident"]) / taken), 0.05,
               True, ""),
        Target(name, "seconds for the close", one(result["close_s"]), 10, True, " s"),
    ]
    rows = [[f"{locks:,}", number(result["held_bytes"]), number(result["freed_bytes"]), number(result["waiter_bytes"]),
             number(result["held_resident"]), f"{result['close_s']:.1f}", f"{result['start_resident'] / 1e6:.1f}",
             f"{result['end_resident'] / 1e6:.1f}"]]
    head = ["locks", "bytes per held lock", "without its handle", "per waiter", "resident per held lock", "close s", "MB at the start", "MB at the end"]
    text = """One client holds mutexes that nobody waits for, with names of 12 bytes. Then as many owners wait for one more mutex, by submitted calls. Then
the client is closed, which releases all, and freed. Bytes are those that malloc has given out, in all its arenas.

A held lock is five pieces of memory: what the process knows of the name, the claim of its holder, the name, the handle, and a place in the
table of names. All of them are there from the grant on, so a loss is noticed and reported without any more memory."""
    return [Section("Memory", text, head, rows, targets)]


FLOORS = STRICT, BLPOP, LEAST = "strict", "blpop", "least"
KINDS = {"dlock": "mutex", STRICT: "mutex, 7 hand-overs in a turn", BLPOP: "bare BLPOP, no lock", LEAST: "the least script", "fair": "fair",
         "read": "read", "write": "write", "semaphore": "semaphore", "permits": "permit semaphore", "multi": "multi-lock of 3, one step", "three": "3 mutexes, one by one"}


def kind_row(case: str, way: str, results: dict[str, list[Result]], fields: tuple[str, str, str], against: str = "dlock") -> list[str]:
    """The rows of a kind, and its rate relative to another way in the same rounds."""
    rate, p50, p99 = fields
    all_ = results[way]
    relative = "" if way == against else f"{ratio(all_, results[against], rate)}x {KINDS[against]}"
    return [case, KINDS[way], str(spread(all_, rate)), relative, str(spread(all_, p50)), str(spread(all_, p99)),
            str(spread(all_, "server_us"))]


def in_crowd(bench: Bench, way: str, threads: int) -> Result:
    """Eight processes of so many threads on one name. STRICT: mutexes with turns as short as those of a strict order."""
    url, short = bench.server.urls["tcp"], way == STRICT
    return bench.run(None, "one", "dlock" if short else way, url + ("/?handover_turns=7" if short else ""), 8, threads, bench.some(0.7, 0.3))


def floor_of(results: dict[str, list[Result]], against: str) -> tuple[str, Spread]:
    """The faster of the two ways that only hand over in the order of asking."""
    best = max((BLPOP, LEAST), key=lambda way: spread(results[way], "acquired_per_s").median)
    return KINDS[best], ratio(results[best], results[against], "acquired_per_s")


def row_kinds(bench: Bench) -> list[Section]:
    url, rows, wrong = bench.server.urls["tcp"], [], []
    cores = bench.place("same core")
    alone = [way for way in KINDS if way not in FLOORS]
    results = interleave(bench.rounds(7), alone, lambda way: bench.run(cores, "own", way, url, 1, bench.some(0.3, 0.1)))
    for way in alone:
        against = "three" if way == "multi" else "dlock"
        rows.append(kind_row("uncontended", way, results, ("per_s", "pair_p50", "pair_p99"), against))
    bench.place("free")
    crowd = "8 x 8 on one name"
    targets = []
    for case, threads, ways in ((crowd, 8, ["dlock", "fair", STRICT, BLPOP, LEAST, "write", "semaphore", "permits"]),
                                ("8 x 1 on one name", 1, ["dlock", "read", "write"])):
        results = interleave(bench.rounds(5), ways, lambda way: in_crowd(bench, way, threads))
        rows += [kind_row(case, way, results, ("acquired_per_s", "wait_p50", "wait_p99")) for way in ways]
        wrong += [result["violations"] for all_ in results.values() for result in all_]
        if case == crowd:
            for way, bound in ((STRICT, 0.8), (BLPOP, 0.5), (LEAST, 0.7)):
                targets.append(Target(f"fair, {case}", f"acquisitions/s to {KINDS[way]}", ratio(results["fair"], results[way], "acquired_per_s"), bound,
                                      False, "x", floor_of(results, way) if way == STRICT else None))
        for way in (way for way in ways[1:] if way not in FLOORS and case == crowd):
            name = f"{KINDS[way]}, {case}"
            targets.append(Target(name, "acquisitions/s to the mutex", ratio(results[way], results["dlock"], "acquired_per_s"), 0.5, False, "x",
                                  floor_of(results, "dlock") if way == "fair" else None))
            targets.append(Target(name, "Jain, processes", spread(results[way], "jain_processes"), 0.99, False, ""))
    text = """Each kind beside the mutex of the same rounds; ratios are of rates. Uncontended: one thread, TCP, client and server on one core; the
semaphores have four permits, of which one is used. On one name: eight processes of eight threads, or of one; the semaphores have four
permits, and readers share. Mutexes, write locks and semaphores are handed over in memory within a process, up to 64 times in a turn. Readers
are granted by the server each time. In a strict order each of the eight owners of a process gets the fair lock once. Then another process has
its turn, at the latest. A mutex that hands over seven times in a turn does that, too: it shows what a strict order costs at least when the
waiters of a process stand together. Mostly they do not: whoever releases goes to the end of the line, and so the processes stay mixed in it.
Then nearly each grant wakes another process. Bare BLPOP shows what that costs at least: all threads pop one element and push it back, and
the server serves them in the order in which they came. It has no token and no lease. The least script has them, and a line, and nothing else:
it gives the lock to waiters that are dead, and Redisson's clients are not in its line."""
    targets += [Target("kinds", "more inside than may be, or a token that fell", Spread.of(wrong), 0, True, "")]
    head = ["case", "kind", "pairs/s", "relative to", "p50 us", "p99 us", "server CPU us"]
    return [Section("Kinds", text, head, rows, targets)]


ROWS = {"pair": row_pair, "own": row_own, "processes": row_processes, "threads": row_threads, "wake": row_wake, "keep": row_keep, "million": row_million,
        "kinds": row_kinds, "cluster": cluster.row_cluster, "names": row_names, "memory": row_memory, "scale": scale.row_scale,
        "redisson": redisson.row_redisson}


def same_commands(bench: Bench) -> None:
    """Check that the rival of the first rows sends the commands of libdlock, except for owner and probe number."""
    shapes = []
    for way in ("dlock", "scripts"):
        with bench.server.redis.monitor() as monitor:
            bench.run(None, "own", way, bench.server.urls["unix"], 1, 0.001)
            bench.server.redis.ping()
            sent = {"BENCH_SHA_acquire": "", "BENCH_SHA_release": ""}
            for command in monitor.listen():
                words = command["command"].split()
                if words == ["PING"]:
                    break
                for name in sent:
                    if words[:2] == ["EVALSHA", bench.server.shas[name]] and command["client_type"] != "lua":
                        sent[name] = " ".join(mask(words, 15 if name.endswith("acquire") else -1))
        shapes.append(sent)
    if shapes[0] != shapes[1]:
        raise SystemExit(f"bench/native/ways.c does not send what libdlock sends:\n{shapes[0]}\n{shapes[1]}")


def mask(words: list[str], look: int) -> list[str]:
    """A command without the words that differ in each pair: lock name, owner id, probe number."""
    plain = []
    for place, word in enumerate(words):
        prefix = word.partition("own:")[0] if "own:" in word else None
        plain.append("*" if place in (8, look) else word if prefix is None else prefix + "*")
    return plain


MORE = {"bindings": (bindings.row_bindings, bindings.versions), "engines": (engines.row_engines, engines.versions)}


def publish(sections: list[Section], about: str, out: Optional[pathlib.Path], name: str) -> None:
    """Print the document, or a part of it by its name; write it and its picture to the folder out, if there is one."""
    path = (out or ROOT / "docs") / "benchmarks.md"
    picture = f"benchmarks-{name}.svg" if name else "benchmarks.svg"
    drawn = any(section.bars for section in sections)
    old = path.read_text() if path.exists() else ""
    if name:
        text = part(name, sections, about, picture if out else None)
        print(text)
        text = with_part(old, name, text)
    else:
        text = document(sections, about, picture if out else None)
        print(text)
        for other in PARTS:
            text = with_part(text, other, part_of(old, other))
    if out:
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if drawn:
            draw(sections, out / picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--bindings", action="store_true", help="the bindings and their rivals, nothing else")
    parser.add_argument("--engines", action="store_true", help="etcd and ZooKeeper beside their own recipes, nothing else")
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--out", type=pathlib.Path, help="where to write; a full run writes to docs")
    arguments = parser.parse_args()
    of = "bindings" if arguments.bindings else "engines" if arguments.engines else ""
    names = [of] if of else arguments.only
    full = not arguments.quick and (of != "" or names == list(ROWS))
    out = arguments.out or (ROOT / "docs" if full else None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that finally blocks run
    bench, sections = Bench(arguments.build.resolve(), arguments.quick), []
    try:
        same_commands(bench)
        kind = "bench-quick" if arguments.quick else "bench"
        left = Left(names, remembered(kind))
        for name in names:
            started = time.monotonic()
            sections += MORE[of][0](bench) if of else ROWS[name](bench)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
            remember(kind, {name: time.monotonic() - started})
            left.done(name)
            if sys.stderr.isatty() and left.waiting:
                print(f"-- {left.line()}", file=sys.stderr)
            for target in [target for section in sections for target in section.targets] if of else sections[-1].targets:
                print("   ", " | ".join(target.cells()), file=sys.stderr)
        about = facts(bench.server.version, bench.others())
        if of:
            about += " " + MORE[of][1]()
    finally:
        bench.server.stop()
    publish(sections, about, out, of)


if __name__ == "__main__":
    main()
