#!/usr/bin/env python3
"""The flash sale: 20 items, 1,000 buyers in 8 processes, C and Python, and one lock. Run it by ./dev demo.

--variant fair: the same with a fair lock. --variant gate: all buyers wait at once, and who sells the last item closes
the gate of the lock, so that everybody else learns at once that the sale is over. --variant optimistic: no lock at all,
a transaction on the stock, which conflicts when somebody else has sold meanwhile and is tried again; only the kill is
part of that story: nobody waits for a halted process there.

The stock is in a redis-server of our own. Each buyer locks "sale:{stock}", reads what is left, thinks, and writes what
is left then; without the lock that would oversell. Read and write carry the fencing token, and the stock refuses a token
lower than the highest it has seen (sell.lua).

Three holders are halted between reading and writing. One is slow, for longer than its lease: the library renews. One is
killed: the lock is free when its lease ends, and the process is started anew with the buyers it still had. One is
stopped until others have had the lock, then goes on as if nothing was: its write must be refused, and the library must
tell it that the lock is LOST.

--engine etcd, --engine zookeeper: the lock is on three such servers of our own, the stock is where it was. The leader of the three
is killed on the way.

At the end stands a table, what was checked, and who held the lock when, here and as an SVG. --picture docs/flash-sale
draws the pictures of the README anew. Leaves with 0 when every
check holds, with 1 otherwise. --no-fence shows what the token is for: the stock ignores it, and the sale fails.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, Optional
from urllib.parse import quote

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "bench/demo"
sys.path.insert(0, str(ROOT / "python-tests"))

import timeline  # noqa: E402
from harness.server import Server  # noqa: E402
from story import LEASE_MS, Away, Closing, Kill, Loss, Stop, Story, Turn, checks, table  # noqa: E402

ITEMS, SOLD = "items:{stock}", "sold:{stock}"
LEFT, SALES, BOUGHT = "left:{stock}", "sales:{stock}", "bought:{stock}:"  # of the optimistic variant
VARIANTS = {"lock": "one lock", "fair": "one fair lock", "gate": "one lock with a gate", "optimistic": "no lock"}
LEASE = LEASE_MS * 1000
HALT = 3 * LEASE // 2  # how long the slow and the stopped holder are halted
TIME_LIMIT = 45.0
KINDS = ("C", "Python")


def now() -> int:
    """CLOCK_MONOTONIC, microseconds."""
    return time.monotonic_ns() // 1000


class Progress:
    """Lines on the way: news, and the state of things, on a terminal in one line that changes."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.terminal = quiet, sys.stdout.isatty()
        self.pause = 0.1 if self.terminal else 1.0
        self.began = self.shown = time.monotonic()

    def news(self, text: str) -> None:
        if not self.quiet:
            print(f"{self._clear()}{time.monotonic() - self.began:5.2f} s  {text}", flush=True)

    def state(self, text: str) -> None:
        if self.quiet or time.monotonic() - self.shown < self.pause:
            return
        self.shown = time.monotonic()
        if self.terminal:
            print(f"{self._clear()}{self.shown - self.began:5.1f} s  {text}", end="", flush=True)
        else:
            self.news(text)

    def end(self) -> None:
        if not self.quiet:
            print(self._clear(), end="", flush=True)

    def _clear(self) -> str:
        return "\r\x1b[K" if self.terminal else ""


class Crowd:
    """A process full of buyers, and what it says."""

    def __init__(self, kind: str, number: int, buyers: list[int]) -> None:
        self.kind, self.name = kind, f"{kind} {number}"
        self.waiting = set(buyers)
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self, command: list[str], env: dict[str, str], news: queue.Queue[tuple[Crowd, bytes]]) -> None:
        """Start the buyers that wait for an answer. The process dies with us."""
        command = ["setpriv", "--pdeathsig", "KILL", *command, ",".join(map(str, sorted(self.waiting)))]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._listen, args=(self.process.stdout, news), daemon=True).start()

    def _listen(self, lines: IO[bytes], news: queue.Queue[tuple[Crowd, bytes]]) -> None:
        for line in lines:
            news.put((self, line))
        news.put((self, b""))

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def go_on(self) -> None:
        """The word that a halted buyer waits for."""
        assert self.process and self.process.stdin
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, and was perhaps seen to
            self.process.stdin.write(b".")
            self.process.stdin.flush()

    def thread_states(self) -> set[str]:
        """The state of every thread, "T" for stopped."""
        stats = pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat")
        try:
            return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}
        except OSError:
            return {"gone"}

    def stop(self) -> set[str]:
        """SIGSTOP, and the states of the threads when it has worked, or has not within a second."""
        os.kill(self.pid, signal.SIGSTOP)
        until = time.monotonic() + 1
        while (states := self.thread_states()) != {"T"} and time.monotonic() < until:
            time.sleep(0.001)
        return states

    def end(self) -> int:
        """Wait for it, or kill it when it does not end; how it ended."""
        if not self.process:
            return 0
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, AttributeError):
                pipe.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Sale:
    """The conductor: starts the processes, halts the holders, writes the story."""

    def __init__(self, server: Server, cluster: Any, options: argparse.Namespace, progress: Progress) -> None:
        self.server, self.cluster, self.options, self.progress = server, cluster, options, progress
        self.news: queue.Queue[tuple[Crowd, bytes]] = queue.Queue()
        self.crowds = [
            Crowd(KINDS[n % 2], n // 2 + 1, list(range(n, options.buyers, options.processes)))
            for n in range(options.processes)
        ]
        self.running = 0
        self.doors: list[Crowd] = []  # who waits for the sale to open
        self.slow_crowd: Optional[Crowd] = None  # halted now
        self.stopped_crowd: Optional[Crowd] = None
        self.killed_crowd: Optional[Crowd] = None
        self.plan(options.items)
        names = [crowd.name for crowd in self.crowds]
        self.story = Story(options.items, options.buyers, names, now(), options.variant)
        self.optimistic = options.variant == "optimistic"

    def plan(self, items: int) -> None:
        """With how many items left holders are halted, and which language is killed, which stopped."""
        self.slow_at = items * 17 // 20
        self.kill_at = range(items * 15 // 20, items * 9 // 20, -1)
        self.stop_at = range(items * 9 // 20, items * 3 // 20, -1)
        self.killed_kind, self.stopped_kind = KINDS if self.options.seed % 2 else KINDS[::-1]

    # ---- running

    def run(self) -> Story:
        self.open_stock()
        try:
            for crowd in self.crowds:
                self.start(crowd)
            until = time.monotonic() + TIME_LIMIT
            while self.running and not self.spoiled and time.monotonic() < until:
                with contextlib.suppress(queue.Empty):
                    self.hear(*self.news.get(timeout=0.02))
                self.resume()
                self.show()
            self.story.ended = now()
            if self.running:
                self.story.problems.append(f"{self.running} processes did not end; they had up to {TIME_LIMIT:.0f} s")
        finally:
            self.progress.end()
            self.kill_all()
        self.count_stock()
        return self.story

    @property
    def spoiled(self) -> bool:
        """A process has failed before the sale was open: it never will be."""
        return len(self.doors) < len(self.crowds) and bool(self.story.problems)

    def open_stock(self) -> None:
        self.script = "-"
        if self.optimistic:
            self.server.command("SET", LEFT, self.options.items)
            return
        guarded = 0 if self.options.no_fence else 1
        stock = ("left", self.options.items, "fence", 0, "refused", 0, "guarded", guarded)
        self.server.command("HSET", ITEMS, *stock)
        self.script = self.server.command("SCRIPT", "LOAD", (HERE / "sell.lua").read_text()).decode()

    def count_stock(self) -> None:
        if self.optimistic:
            self.story.left, self.story.sales = (int(self.server.command("GET", key) or 0) for key in (LEFT, SALES))
            sold = self.server.command("KEYS", f"{BOUGHT}*")
            self.story.sold = [int(key.decode().removeprefix(BOUGHT)) for key in sold]
            return
        left, refused = self.server.command("HMGET", ITEMS, "left", "refused")
        self.story.left, self.story.refused = int(left), int(refused)
        self.story.sold = [int(buyer) for buyer in self.server.command("LRANGE", SOLD, 0, -1)]

    def start(self, crowd: Crowd) -> None:
        build, options = self.options.build, self.options
        program = [str(build / "bench/demo/buyer")] if crowd.kind == "C" else [sys.executable, str(HERE / "buyer.py")]
        url = f"redis+unix://{quote(self.server.path)}?lease_ms={LEASE_MS}&client_name=sale"
        if self.cluster:
            url = f"{self.cluster.url}?lease_ms={LEASE_MS}&connects_per_second=100"
        if options.variant == "fair":  # a grant counts from the waiter's last look, and the lease here is short
            url += f"&safety_ms={LEASE_MS // 5}"
        if self.optimistic:  # each buyer that is served has a connection of its own
            url += "&connects_per_second=1000"
        halts = ",".join(map(str, self.kill_at if self.optimistic else [self.slow_at, *self.kill_at, *self.stop_at]))
        command = [*program, options.variant, url, self.server.path, self.script]
        command += [str(options.threads), str(options.seed), halts]
        crowd.start(command, {**os.environ, "DLOCK_LIBRARY": str(build / "libdlock.so.1")}, self.news)
        self.running += 1

    def kill_all(self) -> None:
        for crowd in self.crowds:
            if crowd.process and crowd.process.poll() is None:
                crowd.process.kill()
            crowd.end()

    def show(self) -> None:
        waiting = sum(len(crowd.waiting) for crowd in self.crowds)
        halted = self.stopped_crowd or self.slow_crowd
        sold = f"sold {self.story.answers('bought')} of {self.options.items}"
        answered = f"answered {self.options.buyers - waiting} of {self.options.buyers}"
        self.progress.state(", ".join([sold, answered] + [f"{crowd.name} halted" for crowd in (halted,) if crowd]))

    # ---- what the processes say

    def hear(self, crowd: Crowd, line: bytes) -> None:
        if not line:
            self.gone(crowd)
            return
        said: dict[str, Any] = json.loads(line)
        kind = said.pop("is")
        if kind == "turn":
            self.turned(crowd, Turn(crowd.name, **said))
        elif kind == "inside":
            counters = said.pop("stats")
            said.pop("answer", None)
            self.inside(crowd, Turn(crowd.name, **said), counters)
        elif kind == "lost":
            self.lost(crowd, said)
        elif kind == "turned away":
            self.story.away.append(Away(crowd.name, **said))
            crowd.waiting.discard(said["buyer"])
        elif kind == "closed":
            self.story.closings.append(Closing(crowd.name, **said))
            self.progress.news(f"{crowd.name}: sold the last item and closed the gate")
        elif kind == "ready":
            self.ready(crowd)
        elif kind == "end":
            self.story.stats.append(said["stats"])
        else:
            self.story.problems.append(f"{crowd.name}: {said['text']}")

    def ready(self, crowd: Crowd) -> None:
        """The sale opens for all at once; one that is started anew finds it open."""
        self.doors.append(crowd)
        if len(self.doors) == len(self.crowds):
            self.story.began = now()
            self.progress.news("the sale is open")
            for waiting in self.crowds:
                waiting.go_on()
        elif len(self.doors) > len(self.crowds):
            crowd.go_on()

    def turned(self, crowd: Crowd, turn: Turn) -> None:
        self.story.turns.append(turn)
        if turn.answer != "refused":
            crowd.waiting.discard(turn.buyer)
        if turn.answer == "refused" or (turn.answer == "bought" and turn.state == "LOST"):
            verdict = "refused" if turn.answer == "refused" else "ACCEPTED"
            self.progress.news(f"{crowd.name}: the write with the old token is {verdict}")

    def lost(self, crowd: Crowd, said: dict[str, Any]) -> None:
        self.story.losses[said["token"]] = Loss(said["token"], said["cause"], said["told"], said["release"])
        self.progress.news(f"{crowd.name}: the library says LOST")

    def gone(self, crowd: Crowd) -> None:
        """A process has ended. The one that was killed is started anew for the buyers that have no answer."""
        self.running -= 1
        code = crowd.end()
        kill = self.story.kill
        if kill and crowd is self.killed_crowd and kill.code is None:
            kill.code = code
            self.progress.news(f"{crowd.name}: started anew")
            self.start(crowd)
        elif code != 0:
            self.story.problems.append(f"{crowd.name} ended with {code}")

    # ---- halting holders: each of them waits between reading and writing, for the word to go on

    def inside(self, crowd: Crowd, turn: Turn, counters: dict[str, int]) -> None:
        story, kind, left = self.story, crowd.kind, turn.left
        if not story.slow and left == self.slow_at and not self.optimistic:
            story.slow, self.slow_crowd = turn, crowd
            self.progress.news(f"{crowd.name}: holds the lock for longer than its lease; the library renews it")
        elif not story.kill and left in self.kill_at and (kind == self.killed_kind or left == self.kill_at[-1]):
            self.kill(crowd, turn, counters)
        elif self.optimistic:
            crowd.go_on()
        elif not story.stop and left in self.stop_at and (kind == self.stopped_kind or left == self.stop_at[-1]):
            self.stop(crowd, turn)
        else:
            crowd.go_on()

    def kill(self, crowd: Crowd, turn: Turn, counters: dict[str, int]) -> None:
        os.kill(crowd.pid, signal.SIGKILL)
        self.story.kill, self.killed_crowd = Kill(turn, now()), crowd
        self.story.stats.append(counters)
        crowd.waiting.discard(turn.buyer)
        how = "in a transaction" if self.optimistic else "with the lock"
        self.progress.news(f"{crowd.name}: SIGKILL, {how}, {turn.left} left")

    def stop(self, crowd: Crowd, turn: Turn) -> None:
        states = crowd.stop()
        self.story.stop, self.stopped_crowd = Stop(turn, now(), states), crowd
        self.progress.news(f"{crowd.name}: SIGSTOP, with the lock, {turn.left} left")

    def resume(self) -> None:
        """Let the slow and the stopped holder go on when it is time."""
        slow, stop = self.story.slow, self.story.stop
        if slow and self.slow_crowd and now() - slow.granted > HALT:
            self.slow_crowd.go_on()
            self.slow_crowd = None
            if self.cluster:
                leader = self.cluster.leader()
                leader.kill()
                self.progress.news(f"{self.options.engine}: SIGKILL of the leader, {leader.name}")
        if stop and self.stopped_crowd and now() - stop.at > HALT and self.others_sold(stop):
            crowd, self.stopped_crowd = self.stopped_crowd, None
            stop.threads |= crowd.thread_states()
            crowd.go_on()  # it finds the word when it wakes up, and writes at once
            stop.resumed = now()
            os.kill(crowd.pid, signal.SIGCONT)
            self.progress.news(f"{crowd.name}: SIGCONT, it goes on to write {stop.turn.left - 1} left")

    def others_sold(self, stop: Stop) -> bool:
        """Whether the stopped holder's write would do harm; not waited for for ever."""
        later = any(turn.token > stop.turn.token and turn.answer == "bought" for turn in self.story.turns)
        return later or now() - stop.at > 10 * LEASE


# ---- the report


def report(story: Story, quiet: bool) -> bool:
    """Print it; whether all checks hold."""
    rows = table(story)
    width = max(len(name) for name, _ in rows)
    print(*(f"  {name:<{width}}  {value}" for name, value in rows), sep="\n")
    found = checks(story)
    failed = [check.name for check in found if not check.holds]
    if not quiet:
        print(*(f"  {'ok    ' if check.holds else 'FAILED'}  {check.name}" for check in found), sep="\n")
    print(*(f"problem: {problem}" for problem in story.problems), sep="\n", end="\n" if story.problems else "")
    print(*(f"FAILED: {name}" for name in failed), sep="\n", end="\n" if failed else "")
    print(f"{len(found) - len(failed)} of {len(found)} checks hold")
    return not failed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev demo", description="A flash sale in C and Python.")
    parser.add_argument("--variant", choices=VARIANTS, default="lock")
    parser.add_argument("--engine", choices=("redis", "etcd", "zookeeper"), default="redis", help="which servers keep the lock")
    parser.add_argument("--build", type=pathlib.Path, default=os.environ.get("DLOCK_BUILD", ROOT / "build/release"))
    parser.add_argument("--buyers", type=int, default=1000)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--processes", type=int, default=8)
    threads = "buyers that are served at once in a process: 25; gate: all; optimistic: 8"
    parser.add_argument("--threads", type=int, help=threads)
    parser.add_argument("--seed", type=int, default=1, help="who thinks how long; odd: C is killed, even: C is stopped")
    parser.add_argument("--svg", type=pathlib.Path, help="where the timeline goes (flash-sale.svg in the build folder)")
    parser.add_argument("--picture", type=pathlib.Path, help="also NAME.svg and NAME-dark.svg for a page: docs/flash-sale")
    parser.add_argument("--no-fence", action="store_true", help="the stock ignores the token: the sale fails")
    parser.add_argument("--quiet", action="store_true", help="only the table and what failed")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.threads is None:
        everybody = -(-options.buyers // max(1, options.processes))
        options.threads = {"gate": everybody, "optimistic": 8}.get(options.variant, 25)
    options.svg = options.svg or options.build / "flash-sale.svg"
    if options.items < 10 or options.processes < 6 or options.buyers < 4 * options.items or options.threads < 1:
        parser.error("it takes 10 items, 6 processes, 1 thread and 4 buyers for each item")
    if options.engine != "redis" and options.variant in ("gate", "optimistic"):
        parser.error(f"{options.engine} has no gates and no transactions here")
    if options.no_fence and options.variant == "optimistic":
        parser.error("without a lock there is no token, and no fence")
    if not (options.build / "bench/demo/buyer").exists():
        parser.error(f"nothing is built in {options.build}: run ./dev build, or ./dev demo")
    return options


def draw(story: Story, picture: pathlib.Path) -> None:
    """The picture for a page, on light and on dark ground."""
    for name, look in timeline.LOOKS.items():
        path = picture.with_name(picture.name + ("" if name == "light" else f"-{name}") + ".svg")
        path.write_text(timeline.svg(story, look, plain=True), encoding="utf-8")


def cluster_of(engine: str) -> contextlib.AbstractContextManager[Any]:
    """Three servers, or nothing for Redis."""
    if engine == "etcd":
        from harness.etcd import Etcd

        return Etcd(3, "--heartbeat-interval", "20", "--election-timeout", "200")  # it gives out leases of a second then
    if engine == "zookeeper":
        from harness.zookeeper import Zookeeper

        return Zookeeper(3)
    return contextlib.nullcontext()


def main() -> int:
    options = arguments()
    progress = Progress(options.quiet)
    with Server() as server, cluster_of(options.engine) as cluster:
        how = VARIANTS[options.variant]
        progress.news(f"{options.items} items, {options.buyers} buyers in {options.processes} processes, {how}")
        story = Sale(server, cluster, options, progress).run()
    options.svg.write_text(timeline.svg(story), encoding="utf-8")
    if options.picture:
        draw(story, options.picture)
    if not options.quiet:
        print(*timeline.text(story, sys.stdout.encoding), "", sep="\n")
    good = report(story, options.quiet)
    print(f"timeline: {options.svg}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
