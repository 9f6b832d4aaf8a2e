"""One process full of buyers in the flash sale of flash_sale.py, in Python.

    buyer.py VARIANT URL SOCKET SCRIPT THREADS SEED HALTS BUYERS

The same as buyer.c, which says how it goes. The library is found as the binding does it, by DLOCK_LIBRARY.
"""
from __future__ import annotations

import json
import os
import pathlib
import queue
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings/python"), str(ROOT / "python-tests")]

import dlock  # noqa: E402
from harness import resp  # noqa: E402

LOCK, ITEMS, SOLD = "sale:{stock}", "items:{stock}", "sold:{stock}"
LEFT, SALES, BOUGHT = "left:{stock}", "sales:{stock}", "bought:{stock}:"  # of the optimistic variant
GATE = 600.0  # seconds
COUNTERS = ("acquired", "wire_grants", "pushed_grants", "handovers", "lost", "renewed")


def await_word() -> None:
    """Wait until the conductor says go on."""
    if not os.read(0, 1):
        raise EOFError("the conductor is gone")


def now() -> int:
    """CLOCK_MONOTONIC, microseconds."""
    return time.monotonic_ns() // 1000


def say(what: str, **more: Any) -> None:
    line = (json.dumps({"is": what, **more}) + "\n").encode()
    while line:
        line = line[os.write(1, line) :]


@dataclass
class Turn:
    """One turn with the lock."""

    buyer: int
    asked: int = field(default_factory=now)
    granted: int = 0
    token: int = 0
    left: int = 0
    answer: str = ""


class Crowd:
    """Buyers with a lock."""

    def __init__(
        self, variant: str, url: str, path: str, script: str, seed: int, halts: set[int], buyers: list[int]
    ) -> None:
        self.client, self.variant = dlock.Client(url), variant
        self.lock = self.client.fair_lock(LOCK) if variant == "fair" else self.client.lock(LOCK)
        self.stock_path, self.script, self.seed, self.halts = path, script, seed, halts
        self.buyers: queue.SimpleQueue[int] = queue.SimpleQueue()
        for buyer in buyers:
            self.buyers.put(buyer)

    def stats(self) -> dict[str, int]:
        counters = self.client.stats()
        return {name: counters[name] for name in COUNTERS}

    def run(self, threads: int) -> None:
        say("ready")
        await_word()
        crew = [threading.Thread(target=self.serve) for _ in range(threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        say("end", stats=self.stats())
        self.client.close(timeout=2)

    def serve(self) -> None:
        """A thread: serve the next buyer until there are none."""
        try:
            self.serve_all()
        except queue.Empty:
            pass
        except Exception as error:
            say("error", text=f"{type(error).__name__}: {error}")
            os._exit(1)

    def serve_all(self) -> None:
        with resp.Client(path=self.stock_path, timeout=30) as stock:
            while True:
                buyer = self.buyers.get_nowait()
                while self.take_turn(stock, buyer) == "refused":
                    pass  # nothing was written: ask again

    def take_turn(self, stock: resp.Client, buyer: int) -> str:
        """Lock, buy, release. The turn is told before the release: who is killed later has told all it did."""
        turn = Turn(buyer)
        try:
            self.lock.acquire()
        except dlock.GateClosed:
            say("turned away", buyer=buyer, asked=turn.asked, told=now())
            return "turned away"
        turn.granted, turn.token = now(), self.lock.token
        turn.answer = self.buy(stock, turn)
        state, checked = self.lock.state, now()
        say("turn", **vars(turn), state=state.name, checked=checked)
        released = "OK"
        if self.variant == "gate" and turn.left == 1 and turn.answer == "bought":
            asked = now()
            self.lock.close_gate(GATE)
            say("closed", buyer=buyer, token=turn.token, asked=asked, closed=now())
        try:
            self.lock.release()
        except dlock.Lost:
            released = "LOST"
        if released == "LOST" or state is dlock.State.LOST:
            cause = self.lost_event(turn.token)
            say("lost", buyer=buyer, token=turn.token, cause=cause, told=now(), release=released)
        return turn.answer

    def buy(self, stock: resp.Client, turn: Turn) -> str:
        """What the lock is for: read, think, write."""
        fenced = ("EVALSHA", self.script, 2, ITEMS, SOLD, turn.token)
        turn.left = stock.command(*fenced)
        if turn.left < 0:
            return "refused"
        self.think(turn)
        if turn.left == 0:
            return "sold out"
        self.halt(turn)
        return "bought" if stock.command(*fenced, turn.left - 1, turn.buyer) >= 0 else "refused"

    def think(self, turn: Turn) -> None:
        time.sleep(random.Random(self.seed + turn.buyer).uniform(0.001, 0.003))

    def halt(self, turn: Turn) -> None:
        """Between reading and writing. Whether the conductor stops the process meanwhile is not seen."""
        if turn.left in self.halts:
            say("inside", **vars(turn), stats=self.stats())
            await_word()

    def lost_event(self, token: int) -> int:
        """The cause in the LOST event of this grant, 0 when none comes."""
        until = time.monotonic() + 1
        while (left := until - time.monotonic()) > 0:
            event = self.client.next_event(timeout=left)
            if event and event.type is dlock.EventType.LOST and event.token == token:
                return int(event.cause)
        return 0


class OptimisticCrowd(Crowd):
    """Buyers without a lock: watch and read the stock, think, write, commit; again after a conflict. See buyer_txn.c."""

    def serve_all(self) -> None:
        while True:
            turn, attempts = Turn(self.buyers.get_nowait()), [0]
            own = f"{BOUGHT}{turn.buyer}"

            def attempt(transaction: dlock.Transaction) -> None:
                attempts[0] += 1
                self.attempt(transaction, turn, own)

            self.client.transaction(attempt, LEFT, own, attempts=None, timeout=40)
            say("turn", **vars(turn), checked=now(), conflicts=attempts[0] - 1)

    def attempt(self, transaction: dlock.Transaction, turn: Turn, own: str) -> None:
        """Up to the commit."""
        turn.granted = now()
        turn.left, mine = int(transaction.get(LEFT) or 0), transaction.get(own)
        if mine:  # bought by a process that was killed before it could tell
            turn.left, turn.answer = int(mine), "bought"
            return
        self.think(turn)
        turn.answer = "bought" if turn.left > 0 else "sold out"
        if turn.left > 0:
            self.halt(turn)
            transaction.set(LEFT, b"%d" % (turn.left - 1))
            transaction.set(own, b"%d" % turn.left)
            transaction.incr(SALES)


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def main() -> None:
    variant, url, path, script, threads, seed, halts, buyers = sys.argv[1:]
    crowd = OptimisticCrowd if variant == "optimistic" else Crowd
    crowd(variant, url, path, script, int(seed), set(numbers(halts)), numbers(buyers)).run(int(threads))


if __name__ == "__main__":
    main()
