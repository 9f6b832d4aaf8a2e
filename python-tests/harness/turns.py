"""Processes that take turns on locks while servers come and go, and checks of their turns.

    with Turns({"load": [one.lock("load"), other.lock("load")]}) as turns:     # each of its own agent
        turns.all_go_on()                           # returns when everybody has had a turn since now
        with turns.fault() as since:                # no grant is required until the body ends
            server.kill()
            until(lambda: where() is not server)
            late = turns.first("load", now())       # seconds until the next grant, less the time the machine stalled
    turns.judge(safety_ms)                          # checks tokens and wake-ups; reports how often two held at once
"""
from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from typing import Any, Iterator

from .agent import Lock, now
from .faults import SLACK_MS
from .waiting import until

SECOND = 1_000_000


@dataclasses.dataclass(frozen=True)
class Turn:
    """In microseconds of the agents' clock."""

    granted: int
    token: int
    asked: int  # when the release was requested
    released: int
    kept: bool  # still held at the release


class Pulse(threading.Thread):
    """How long the machine delays a thread that is ready to run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stop, self.lags = threading.Event(), list[tuple[int, int]]()

    def run(self) -> None:
        while not self.stop.is_set():
            before = now()
            time.sleep(0.01)
            after = now()
            if after - before > 30_000:
                self.lags.append((before, after))

    def lag(self, begin: int, end: int) -> int:
        """How much of the interval was delay."""
        return sum(max(min(end, after) - max(begin, before), 0) for before, after in list(self.lags))


class Turns:
    def __init__(self, locks: dict[str, list[Lock]]) -> None:
        self.turns: dict[str, list[Turn]] = {name: [] for name in locks}
        self.errors: list[Any] = []
        self.faults: list[tuple[int, int]] = []
        self.counts = [0] * sum(map(len, locks.values()))
        self.pulse, self._stop = Pulse(), threading.Event()
        all_of_them = [(name, lock) for name, same in locks.items() for lock in same]
        self._threads = [threading.Thread(target=self._run, args=[i, *each]) for i, each in enumerate(all_of_them)]

    def _run(self, index: int, name: str, lock: Lock) -> None:
        while not self._stop.is_set():
            answer = lock.acquire(1, 60_000, timeout=90)
            if answer.status != "OK":
                if answer.status != "LOST" and not answer.retryable:
                    self.errors.append(answer)
                time.sleep(0.02)
                continue
            end = lock.release(1, timeout=90)
            self.turns[name].append(Turn(answer.done, answer.token, end.began, end.done, end.status == "OK"))
            self.counts[index] += 1

    def all_go_on(self, timeout: float = 90) -> None:
        before = list(self.counts)
        until(lambda: all(count > then for count, then in zip(self.counts, before)), timeout)

    @contextlib.contextmanager
    def fault(self) -> Iterator[int]:
        since = now()
        try:
            yield since
        finally:
            self.faults.append((since, now()))

    def first(self, name: str, since: int, timeout: float = 30) -> float:
        turns, seen = self.turns[name], len(self.turns[name])
        until(lambda: any(turn.granted > since for turn in turns[max(seen - 4, 0) :]), timeout)
        granted = min(turn.granted for turn in turns[max(seen - 4, 0) :] if turn.granted > since)
        return (granted - since - self.pulse.lag(since, granted)) / SECOND

    def judge(self, safety_ms: int) -> str:
        """Checks all turns; returns a summary.

        Tokens grow from grant to grant, also across faults. No two hold at once. Waiters wake up within the safety interval.
        Around a fault an old and a new primary may both grant for a moment, in the same microsecond even: that is counted, and wake-ups
        may be late there.
        """
        assert not self.errors, self.errors[:3]
        overlaps, longest, grants = 0, 0, 0
        for name, turns in self.turns.items():
            order = sorted(turns, key=lambda turn: turn.granted)
            grants += len(order)
            for last, turn in zip(order, order[1:]):
                both = turn.granted < last.asked and last.kept or turn.token <= last.token
                overlaps += both
                fault = any(last.granted < end + SECOND and begin < turn.granted for begin, end in self.faults)
                assert turn.token != last.token or fault, f"{name}: a token twice, {last} {turn}, faults {self.faults}"
                assert fault or not both, f"{name}: token {turn.token} behind {last.token}, {turn} {last}"
                if not fault:
                    longest = max(longest, turn.granted - last.released - self.pulse.lag(last.released, turn.granted))
        assert longest <= (safety_ms + SLACK_MS) * 1000, f"a waiter heard nothing for {longest / 1000} ms"
        assert overlaps <= len(self.faults) * len(self.turns), f"two held {overlaps} times"
        return f"{grants} grants, two held {overlaps} times, longest wait for a free lock {longest / 1000:.0f} ms, {len(self.faults)} faults"

    def __enter__(self) -> Turns:
        for thread in [self.pulse, *self._threads]:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.pulse.stop.set()
