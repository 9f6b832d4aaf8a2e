"""Threads that take and release locks, and write down what they were told: the lines of python-tests/models/porcupine/main.go.

Usage: worker.py URL NUMBER OPERATIONS HOLD_MS NAMES... [option=value ...]
"""
from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

import dlock

THREADS = 2


class Worker:
    def __init__(self, client: dlock.Client, number: int, share: int, hold: float, names: list[str]) -> None:
        self.number, self.share, self.hold = number, share, hold
        self.locks = {name: client.lock(name) for name in names}
        self.random = random.Random(number)
        self.count = 0

    def note(self, name: str, does: str, token: int, began: int, ended: int) -> None:
        self.count += 1
        sys.stdout.write(f"{name} {self.number} {does} {token} {began} {ended}\n")

    def run(self) -> None:
        while self.count < self.share:
            name = self.random.choice(list(self.locks))
            began = time.monotonic_ns()
            try:
                if not self.locks[name].acquire(timeout=5):
                    continue
            except dlock.DlockError:
                continue
            token = self.locks[name].token
            self.note(name, "acquire", token, began, time.monotonic_ns())
            self.use(name, self.locks[name], token)

    def use(self, name: str, lock: Any, token: int) -> None:
        last = time.monotonic_ns()
        for _ in range(self.random.randrange(1, 4)):
            began = time.monotonic_ns()
            if not lock.held:
                break
            last = time.monotonic_ns()
            self.note(name, "check", token, began, last)
            time.sleep(self.random.random() * self.hold)
        began = time.monotonic_ns()
        try:
            lock.release()
        except dlock.DlockError:
            self.note(name, "end", token, last, 0)
        else:
            self.note(name, "release", token, began, time.monotonic_ns())


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    url, number, share, hold, *words = sys.argv[1:]
    options: dict[str, Any] = {}
    for name, _, value in (word.partition("=") for word in words if "=" in word):
        options[name] = int(value) if value.isdigit() else value
    names = [word for word in words if "=" not in word]
    with dlock.Client(url, **options) as client:
        workers = [Worker(client, int(number) * THREADS + one, int(share) // THREADS, int(hold) / 1000, names) for one in range(THREADS)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


main()
