"""Compare the bindings with other lock clients of their languages, and with the C API: ./dev bench --bindings"""
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import time
from typing import Optional

from chart import bars
from measure import Bench, Result, interleave, parse, spread
from report import Bars, Section, Spread, Target

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
WAYS = {
    "Python": ["dlock", "dlock+linger", "dlock-aio", "dlock-aio+linger", "redis-py", "redis-py-aio", "python-redis-lock", "pottery"],
    "Go": ["dlock", "dlock+linger", "redsync", "rueidislock", "redislock"],
    "Rust": ["dlock", "dlock-tasks", "redlock", "rslock"],
    "Node.js": ["dlock", "redlock", "redis-semaphore", "simple-redis-mutex"],
}
LINGER = "?linger_ms=2"
TURN = 0.02  # seconds
IN_MEMORY = "?linger_ms=1000&handover_ms=1000&handover_turns=1024"
NAMES = {
    "dlock": "libdlock", "dlock-aio": "libdlock, asyncio", "dlock+linger": "libdlock, `linger_ms=2`",
    "dlock-aio+linger": "libdlock, asyncio, `linger_ms=2`", "redis-py": "redis-py `Lock`", "redis-py-aio": "redis-py `Lock`, asyncio",
    "python-redis-lock": "python-redis-lock", "pottery": "pottery `Redlock`", "redsync": "redsync", "rueidislock": "rueidislock, NOLOOP",
    "redislock": "bsm/redislock", "dlock-tasks": "libdlock, tokio", "redlock": "redlock", "rslock": "rslock, tokio",
    "redis-semaphore": "redis-semaphore", "simple-redis-mutex": "simple-redis-mutex", "c": "C API", "python": "Python", "go": "Go",
    "lua": "LuaJIT", "rust": "Rust", "node": "Node.js",
}


def command(bench: Bench, language: str, way: str, url: str, callers: int, seconds: float, kind: str) -> list[str]:
    if way.endswith("+linger"):
        way, url = way.removesuffix("+linger"), url + LINGER
    arguments = [url, str(callers), str(seconds), kind]
    if language in ("go", "rust"):
        return [os.environ[f"DLOCK_BENCH_{language.upper()}"], way, *arguments]
    if language in ("node", "node.js"):
        return ["node", os.environ["DLOCK_BENCH_NODE"], way, *arguments]
    if language == "lua":
        return ["luajit", str(HERE / "pair.lua"), url, str(seconds)]
    if language == "c":
        return [str(bench.programs / "bench_own"), "dlock", *arguments[:3]]
    return [os.environ["DLOCK_BENCH_PYTHON"], str(HERE / "rivals.py"), way, *arguments]


def start(bench: Bench, cores: Optional[set[int]], words: list[str]) -> subprocess.Popen[str]:
    pin = None if cores is None else lambda: os.sched_setaffinity(0, cores)
    return subprocess.Popen(words, env=bench.environment, preexec_fn=pin, text=True, stdout=subprocess.PIPE)


def ended(process: subprocess.Popen[str]) -> Result:
    output, _ = process.communicate(timeout=120)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, process.args))}: failed")  # type: ignore[arg-type]
    result = parse(output)
    return {("p50" if name == "pair_p50" else "p99" if name == "pair_p99" else name): value for name, value in result.items()}


def run(bench: Bench, cores: Optional[set[int]], language: str, way: str, *arguments: object) -> Result:
    return ended(start(bench, cores, command(bench, language, way, *arguments)))  # type: ignore[arg-type]


def in_turns(processes: list[subprocess.Popen[str]]) -> list[Result]:
    """Run one process at a time, for TURN seconds each, so that the load of the machine affects all of them alike."""
    try:
        while any(process.poll() is None for process in processes):
            for process in processes:
                process.send_signal(signal.SIGCONT)
                time.sleep(TURN)
                process.send_signal(signal.SIGSTOP)
        return [ended(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def fastest(ways: dict[str, list[Result]], rivals: list[str], field: str) -> list[float]:
    """The result of the best rival in each round."""
    return [max(rounds) for rounds in zip(*([result[field] for result in ways[way]] for way in rivals))]


def times(ours: list[Result], theirs: list[float], field: str) -> Spread:
    return Spread.of([one[field] / other for one, other in zip(ours, theirs)])


# kind of work, placement, callers, seconds, rounds, measured field, bounds
CASES: list[tuple[str, str, int, float, int, str, dict[str, float]]] = [
    ("own", "same core", 1, 0.7, 7, "per_s", {"Python": 2, "Go": 1.2}),
    ("own", "own cores", 1, 0.7, 7, "per_s", {"Python": 2, "Go": 1.2, "Rust": 1.2, "Node.js": 1.2}),
    ("own", "free", 1, 0.7, 7, "per_s", {"Python": 2, "Go": 1.2}),
    ("one", "free", 64, 2.0, 5, "handoffs_per_s", {"Python": 50, "Go": 10, "Rust": 20, "Node.js": 20}),
]
TEXTS = {
    "Python": """Threads for libdlock, redis-py, python-redis-lock and pottery, tasks of one loop for asyncio. Server and client
are on one core, on one each, or where the system puts them. asyncio is compared with redis-py's own asyncio. One lock: hand-offs are
acquisitions by another caller than the last one, latencies are of the wait; else they are of the pair.""",
    "Go": """Goroutines. redsync and bsm/redislock on go-redis; bsm/redislock looks every 100 ms, as in its examples; rueidislock
answers an unlock before the server has seen it. With `linger_ms` the lock goes back to the server after 64 pairs.""",
    "Rust": """Threads for libdlock and redlock, tasks of one thread for libdlock with tokio and for rslock, which are compared with each other.
redlock and rslock ask again after a random time of up to 200 ms, as they come.""",
    "Node.js": """One process with its loop. redlock and redis-semaphore on ioredis, simple-redis-mutex on node-redis. redlock asks again after 100
to 300 ms and redis-semaphore after 10 ms, as they come; simple-redis-mutex hears a message when the lock is free.""",
}


def rivals_of(language: str, way: str, ways: list[str]) -> tuple[str, list[str]]:
    """Whose rate this way of ours is compared with: Python's with redis-py, of the same manner; Rust's tasks with tasks; others with the
    fastest of all.
    """
    if language == "Python":
        return "redis-py's", ["redis-py-aio" if "aio" in way else "redis-py"]
    if way == "dlock-tasks":
        return "rslock's", ["rslock"]
    return "the fastest rival's", [other for other in ways if not other.startswith("dlock")]


def languages(bench: Bench) -> list[Section]:
    rows: dict[str, list[list[str]]] = {language: [] for language in WAYS}
    groups: dict[str, list[Bars]] = {language: [] for language in WAYS}
    targets = []
    url = bench.server.urls["tcp"]
    for kind, where, callers, full, rounds, field, bounds in CASES:
        cores = bench.place(where)
        case = f"1 caller, own lock, {where}" if kind == "own" else "64 callers, one lock"
        what = "pairs/s" if kind == "own" else "hand-offs/s"
        for language, bound in bounds.items():
            ways = [way for way in WAYS[language] if kind == "own" or "+" not in way]
            results = interleave(bench.rounds(rounds), ways, lambda way: run(
                bench, cores, language.lower(), way, url, callers, bench.some(full, 0.3), kind))
            for way, all_ in results.items():
                rates = [str(spread(all_, "per_s")), str(spread(all_, "handoffs_per_s")) if kind == "one" else ""]
                rows[language].append([case, NAMES[way], *rates, str(spread(all_, "p50")), str(spread(all_, "p99"))])
            ours = [way for way in ways if way.startswith("dlock")]
            groups[language].append(bars(f"{language}: {what.removesuffix('/s')}, {case}", {way: NAMES[way] for way in ways}, results,
                                         lambda result: result[field], ours))
            for way in ours:
                whose, rivals = rivals_of(language, way, ways)
                name = NAMES[way].replace("libdlock", language, 1)
                ratio = times(results[way], fastest(results, rivals, field), field)
                targets.append(Target(name, f"{what} to {whose}, {case}", ratio, bound, False))
    head = ["case", "way", "pairs/s", "hand-offs/s", "p50 us", "p99 us"]
    last = list(WAYS)[-1]
    return [Section(name, TEXTS[name], head, rows[name], targets if name == last else [], groups[name]) for name in WAYS]


# The most that a pair may take over the C API's, in us.
OVER_C = {"python": 10, "go": 3, "lua": 1, "rust": 0.3, "node": 3}
WITH_SERVER = {"python": 10, "go": 3, "lua": 1}


def overhead(bench: Bench, title: str, where: str, url: str, bounds: dict[str, float], text: str) -> Section:
    """The time of a pair in each language minus that in C. The programs run in turns."""
    cores = bench.place(where)
    ways = ["c", *OVER_C]
    results: dict[str, list[Result]] = {way: [] for way in ways}
    for _ in range(bench.rounds(7)):
        words = [command(bench, way, "dlock", url, 1, bench.some(12, 3), "pair") for way in ways]
        for way, result in zip(ways, in_turns([start(bench, cores, line) for line in words])):
            results[way].append(result)
    rows, targets = [], []
    for language in ways:
        more = Spread.of([a["p50"] - b["p50"] for a, b in zip(results[language], results["c"])])
        rows.append([NAMES[language], str(spread(results[language], "p50")), str(spread(results[language], "p99")),
                     "" if language == "c" else str(more)])
        if language in bounds:
            targets.append(Target(NAMES[language], f"p50 of a pair over the C API's, {title}", more, bounds[language], True, " us"))
    return Section(f"Over the C API, {title}", text, ["binding", "pair p50 us", "p99 us", "more than C"], rows, targets)


def crowd(bench: Bench) -> Section:
    """Goroutines that wait for one lock, from few to many."""
    bench.place("free")
    counts = {f"{count:,}": count for count in (64, 1_000, 10_000, int(bench.some(100_000, 20_000)))}
    results = interleave(bench.rounds(5), list(counts), lambda way: run(bench, None, "go", "dlock", bench.server.urls["tcp"], counts[way], 0, "drain"))
    rows = [[way, str(spread(all_, "per_s")), str(spread(all_, "threads"))] for way, all_ in results.items()]
    text = """Each goroutine waits for one lock, gets it once, and unlocks it. Measured once all wait. Threads are those of the process in the end."""
    many = list(counts)[-1]
    targets = [Target(f"Go, {many} goroutines", "acquisitions/s, one lock", spread(results[many], "per_s"), 30_000, False, "/s")]
    return Section("Go: a crowd on one lock", text, ["goroutines", "acquisitions/s", "threads"], rows, targets)


def versions() -> str:
    """The versions that ran."""
    pins = (HERE / "requirements.in").read_text().split()
    modules = [line.split() for line in (HERE / "go/go.mod").read_text().splitlines() if line.startswith("\t") and "indirect" not in line]
    names = {name.removeprefix("github.com/"): version for name, version in modules if version != "v0.0.0"}
    crates = re.findall(r'^(\w+) = .*"=([\d.]+)"', (HERE / "rust/Cargo.toml").read_text(), re.M)
    packages = json.loads((HERE / "node/package.json").read_text())["dependencies"]
    python, node = (subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
                    for program in (os.environ["DLOCK_BENCH_PYTHON"], "node"))
    found = ["CPython " + python, *(pin.replace("==", " ") for pin in pins), os.environ["DLOCK_BENCH_GO_VERSION"]]
    found += [f"{name} {version}" for name, version in names.items()]
    found += [os.environ["DLOCK_BENCH_RUST_VERSION"], *(f"{name} {version}" for name, version in crates)]
    return "; ".join([*found, "Node.js " + node, *(f"{name} {version}" for name, version in packages.items())])


def row_bindings(bench: Bench) -> list[Section]:
    with_server = """One thread acquires and releases its own lock by each binding, through a Unix socket. The programs run in turns of 20 ms, and
the difference is taken within each round."""
    lingering = """The same with a lock that lingers (`linger_ms`), so that one pair of a thousand reaches the server. It shows what the bindings add, and
nothing else. Node.js waits for no event when the answer is there at once."""
    in_memory = "The same with `memory:`, an engine in the process."
    unix = bench.server.urls["unix"]
    sections = [overhead(bench, f"with a server, {where}", where, unix, WITH_SERVER, with_server) for where in ("free", "own cores", "same core")]
    sections.append(overhead(bench, "in memory", "same core", unix + IN_MEMORY, OVER_C, lingering))
    return [*languages(bench), crowd(bench), *sections, overhead(bench, "`memory:`", "same core", "memory:", OVER_C, in_memory)]
