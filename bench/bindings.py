"""Compare the bindings with other lock clients of their languages, and with the C API: ./dev bench --bindings"""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
from typing import Optional

from chart import bars
from measure import Bench, Result, interleave, parse, spread
from report import Bars, Section, Spread, Target

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = ["dlock", "dlock+linger", "dlock-aio", "dlock-aio+linger", "redis-py", "redis-py-aio", "python-redis-lock", "pottery"]
GO = ["dlock", "dlock+linger", "redsync", "rueidislock", "redislock"]
LINGER = "?linger_ms=2"
TURN = 0.02  # seconds
IN_MEMORY = "?linger_ms=1000&handover_ms=1000&handover_turns=1024"
NAMES = {
    "dlock": "libdlock", "dlock-aio": "libdlock, asyncio", "dlock+linger": "libdlock, `linger_ms=2`",
    "dlock-aio+linger": "libdlock, asyncio, `linger_ms=2`", "redis-py": "redis-py `Lock`", "redis-py-aio": "redis-py `Lock`, asyncio",
    "python-redis-lock": "python-redis-lock", "pottery": "pottery `Redlock`", "redsync": "redsync", "rueidislock": "rueidislock, NOLOOP",
    "redislock": "bsm/redislock", "c": "C API", "python": "Python", "go": "Go", "lua": "LuaJIT",
}


def command(bench: Bench, language: str, way: str, url: str, callers: int, seconds: float, kind: str) -> list[str]:
    if way.endswith("+linger"):
        way, url = way.removesuffix("+linger"), url + LINGER
    arguments = [url, str(callers), str(seconds), kind]
    if language == "go":
        return [os.environ["DLOCK_BENCH_GO"], way, *arguments]
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


# kind of work, placement, callers, seconds, rounds, measured field, bound for Python, bound for Go
CASES = [
    ("own", "same core", 1, 0.7, 7, "per_s", 2, 1.2),
    ("own", "own cores", 1, 0.7, 7, "per_s", 2, 1.2),
    ("own", "free", 1, 0.7, 7, "per_s", 2, 1.2),
    ("one", "free", 64, 2.0, 5, "handoffs_per_s", 50, 10),
]


def languages(bench: Bench) -> list[Section]:
    rows: dict[str, list[list[str]]] = {"Python": [], "Go": []}
    groups: dict[str, list[Bars]] = {"Python": [], "Go": []}
    targets = []
    url = bench.server.urls["tcp"]
    for kind, where, callers, full, rounds, field, python, go in CASES:
        cores = bench.place(where)
        case = f"1 caller, own lock, {where}" if kind == "own" else "64 callers, one lock"
        what = "pairs/s" if kind == "own" else "hand-offs/s"
        for language, every in (("Python", PYTHON), ("Go", GO)):
            ways = [way for way in every if kind == "own" or "+" not in way]
            results = interleave(bench.rounds(rounds), ways, lambda way: run(
                bench, cores, language.lower(), way, url, callers, bench.some(full, 0.3), kind))
            for way, all_ in results.items():
                rates = [str(spread(all_, "per_s")), str(spread(all_, "handoffs_per_s")) if kind == "one" else ""]
                rows[language].append([case, NAMES[way], *rates, str(spread(all_, "p50")), str(spread(all_, "p99"))])
            ours = [way for way in ways if way.startswith("dlock")]
            groups[language].append(bars(f"{language}: {what.removesuffix('/s')}, {case}", {way: NAMES[way] for way in ways}, results,
                                         lambda result: result[field], ours))
            whose, bound = ("the fastest rival's", go) if language == "Go" else ("redis-py's", python)
            for way in ours:
                rivals = [way for way in ways if way not in ours] if language == "Go" else ["redis-py-aio" if "aio" in way else "redis-py"]
                name = NAMES[way].replace("libdlock", language, 1)
                ratio = times(results[way], fastest(results, rivals, field), field)
                targets.append(Target(name, f"{what} to {whose}, {case}", ratio, bound, False))
    head = ["case", "way", "pairs/s", "hand-offs/s", "p50 us", "p99 us"]
    text = {
        "Python": "Threads for libdlock, redis-py, python-redis-lock and pottery, tasks of one loop for asyncio. Server and client\n"
                  "are on one core, on one each, or where the system puts them. asyncio is compared with redis-py's own asyncio.",
        "Go": "Goroutines. redsync and bsm/redislock on go-redis; bsm/redislock looks every 100 ms, as in its examples; rueidislock\n"
              "answers an unlock before the server has seen it. With `linger_ms` the lock goes back to the server after 64 pairs.",
    }
    text["Python"] += " One lock: hand-offs are\nacquisitions by another caller than the last one, latencies are of the wait; else they are of the pair."
    return [Section(name, text[name], head, rows[name], targets if name == "Go" else [], groups[name]) for name in rows]


def overhead(bench: Bench, title: str, where: str, options: str, text: str) -> Section:
    """The time of a pair in each language minus that in C. The programs run in turns."""
    cores, url = bench.place(where), bench.server.urls["unix"] + options
    ways = ["c", "python", "go", "lua"]
    results: dict[str, list[Result]] = {way: [] for way in ways}
    for _ in range(bench.rounds(7)):
        words = [command(bench, way, "dlock", url, 1, bench.some(8, 2), "pair") for way in ways]
        for way, result in zip(ways, in_turns([start(bench, cores, line) for line in words])):
            results[way].append(result)
    rows, targets = [], []
    for language, bound in (("c", 0), ("python", 10), ("go", 3), ("lua", 1)):
        more = Spread.of([a["p50"] - b["p50"] for a, b in zip(results[language], results["c"])])
        rows.append([NAMES[language], str(spread(results[language], "p50")), str(spread(results[language], "p99")),
                     "" if language == "c" else str(more)])
        if bound:
            targets.append(Target(NAMES[language], f"p50 of a pair over the C API's, {title}", more, bound, True, " us"))
    return Section(f"Over the C API, {title}", text, ["binding", "pair p50 us", "p99 us", "more than C"], rows, targets)


def versions() -> str:
    """The versions that ran."""
    pins = (HERE / "requirements.txt").read_text().split()
    modules = [line.split() for line in (HERE / "go/go.mod").read_text().splitlines() if line.startswith("\t") and "indirect" not in line]
    names = {name.removeprefix("github.com/"): version for name, version in modules if version != "v0.0.0"}
    python = subprocess.run([os.environ["DLOCK_BENCH_PYTHON"], "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    found = ["CPython " + python, *(pin.replace("==", " ") for pin in pins), os.environ["DLOCK_BENCH_GO_VERSION"]]
    return "; ".join([*found, *(f"{name} {version}" for name, version in names.items())])


def row_bindings(bench: Bench) -> list[Section]:
    with_server = """One thread acquires and releases its own lock by each binding, through a Unix socket. The four programs run in turns of 20 ms, and
the difference is taken within each round."""
    in_memory = """The same with a lock that lingers (`linger_ms`), so that one pair of a thousand reaches the server. It shows what the bindings add, and
nothing else."""
    sections = [overhead(bench, f"with a server, {where}", where, "", with_server) for where in ("free", "own cores", "same core")]
    return [*languages(bench), *sections, overhead(bench, "in memory", "same core", IN_MEMORY, in_memory)]
