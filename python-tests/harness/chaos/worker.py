"""Threads that use all kinds of locks in all ways until they are told to stop. They write down what they were told, a line each:

    hold NAME MODE WHO PERMITS TOKEN ADOPTED BEGAN ENDED   from the answer to the last moment for which the library said so, in ns
    late CALL NAME MILLISECONDS                     a call took longer than its own bound
    odd CALL NAME ERROR                             no fault explains this error
    count WHAT NUMBER                               at the end

Usage: worker.py URL NUMBER FOLDER KINDS SEED [option=value ...]. It stops when FOLDER has a file "stop". Grants go to other processes as
files in FOLDER.
"""
from __future__ import annotations

import collections
import contextlib
import pathlib
import random
import sys
import threading
import time
import uuid
from typing import Any, Iterator

import dlock

THREADS = 4
SEATS = 3
PATIENCE = 15.0  # seconds: the time limits of the library's own steps, and a busy machine
WAITS = (0.0, 0.05, 0.5, 5.0, 20.0)
MOST_GRANTS = 5  # files
SILENT = 3.0  # seconds beyond the lease without a renewal: whoever had the permit is dead
NAMES = {
    "mutex": ["m1", "{m}2"], "fair": ["f1", "{f}2"], "read": ["r1", "{r}2"], "write": ["r1", "{r}2"],
    "semaphore": ["s1", "{s}2"], "permit_semaphore": ["p1", "{p}2"], "multi": ["m1"],
}  # fmt: skip
# A fault may cause these: a server is away, an answer or a hold is lost, a time is over.
EXPECTED = {
    "UNREACHABLE", "UNKNOWN_OUTCOME", "LOST", "NOT_HELD", "NOT_REPLICATED", "SERVER_LOADING", "SERVER_READ_ONLY", "SERVER_BUSY", "TIMED_OUT",
    "BUSY", "GATE_CLOSED", "QUARANTINED", "SERVER_FORGOT", "SERVER_ERROR",
}  # fmt: skip
SHARED = 77  # an owner that all threads of a process are, at times
SWITCHED = "authentication switched off"  # for a moment, by an operator
WAITS_TOO = "INVALID_ARGUMENT"  # another thread waits as the same owner


def say(*words: Any) -> None:
    sys.stdout.write(" ".join(str(word).replace(" ", "_") for word in words) + "\n")


class Hold:
    """What a thread was told of one hold."""

    def __init__(self, lock: Any, kind: str, name: str, who: str, permits: int, adopted: bool) -> None:
        self.lock, self.kind, self.name, self.who, self.permits, self.adopted = lock, kind, name, who, permits, adopted
        self.began = self.ended = time.monotonic_ns()
        self.token = 0
        self.shared = who.endswith("shared")

    def lives(self) -> bool:
        """Whether the library says so; if so, it was held until this call."""
        now = time.monotonic_ns()
        if not self.lock.held or (self.shared and self.lock.token != self.token):
            return False
        self.ended = now
        return True

    def tell(self) -> None:
        for name in NAMES["mutex"] if self.kind == "multi" else [self.name]:
            mode = "read" if self.kind == "read" else "seats" if self.permits else "alone"
            say("hold", name, mode, self.who, self.permits, self.token, int(self.adopted), self.began, self.ended)


class Worker:
    def __init__(self, client: Any, number: int, thread: int, folder: pathlib.Path, kinds: list[str], seed: str) -> None:
        self.client, self.folder, self.kinds, self.process, self.me = client, folder, kinds, number, f"{number}.{thread}"
        self.random = random.Random(f"{seed} {self.me}")
        self.counts: collections.Counter[str] = collections.Counter()

    def run(self) -> None:
        while not (self.folder / "stop").exists():
            with contextlib.suppress(dlock.DlockError):
                self.step()

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.1:
            self.adopt()
        elif draw < 0.11 and "mutex" in self.kinds:
            self.close_gate(self.random.choice(NAMES["mutex"]))
        elif draw < 0.12 and "semaphore" in self.kinds:
            self.reclaim(self.random.choice(NAMES["semaphore"]))
        else:
            self.acquire()

    @contextlib.contextmanager
    def bounded(self, call: str, name: str, seconds: float = 0, also: str = "") -> Iterator[None]:
        """A call that may take so long, and as long as the library may, and end with an error that is expected or this one."""
        began = time.monotonic()
        self.counts[call] += 1
        try:
            yield
        except dlock.DlockError as error:
            self.counts[error.name] += 1
            if error.name not in EXPECTED and error.name != also and SWITCHED not in error.message:
                say("odd", call, name, error.name, error)
            raise
        finally:
            if (took := time.monotonic() - began) > seconds + PATIENCE:
                say("late", call, name, round(took * 1000))

    def lock(self, kind: str, name: str, owner: int | None, permits: int) -> Any:
        if kind == "multi":
            return self.client.multi_lock(*map(self.client.lock, NAMES["mutex"]))
        if kind == "semaphore":
            return self.client.semaphore(name, permits=permits)
        return self.client.lock(name, owner=owner, kind=kind)

    # ---- ways to get a hold

    def acquire(self) -> None:
        kind = self.random.choice(self.kinds)
        name = self.random.choice(NAMES[kind])
        shared = kind in ("mutex", "fair", "write") and self.random.random() < 0.2
        permits = {"read": 1, "permit_semaphore": 1, "semaphore": self.random.randrange(1, SEATS)}.get(kind, 0)
        lock = self.lock(kind, name, SHARED if shared else None, permits)
        wait = self.random.choice(WAITS)
        with self.bounded(f"acquire {kind}", name, wait, WAITS_TOO if shared else ""):
            if not lock.acquire(timeout=wait):
                self.counts["not acquired"] += 1
                return
        self.use(Hold(lock, kind, name, f"{self.process}.shared" if shared else self.me, permits, False), shared)

    def adopt(self) -> None:
        """Takes over what another thread or process has exported."""
        for file in self.folder.glob("grant-*"):
            kind, name, permits = file.name.split("-")[1:4]
            if kind not in self.kinds:
                continue
            claimed = file.with_name(f"taken-{uuid.uuid4()}")
            try:
                file.rename(claimed)
            except FileNotFoundError:
                continue
            grant = claimed.read_bytes()
            claimed.unlink()
            name = bytes.fromhex(name).decode()
            lock = self.lock(kind, name, None, int(permits))
            with self.bounded("adopt", name):
                lock.adopt_grant(grant)
            self.use(Hold(lock, kind, name, self.me, int(permits), True), False)
            return

    # ---- what is done with it

    def use(self, hold: Hold, shared: bool) -> None:
        """Ends the hold, whatever happens meanwhile."""
        try:
            with contextlib.suppress(dlock.DlockError):
                if hold.kind != "multi":
                    hold.token = hold.lock.token
                for _ in range(self.random.randrange(1, 5)):
                    if not hold.lives():
                        break
                    self.act(hold, shared)
                if not shared and hold.kind == "mutex" and self.random.random() < 0.1 and self.export(hold):
                    return
            before = time.monotonic_ns()
            with self.bounded("release", hold.name):
                hold.lock.release()
            if not shared:  # another thread of the owner may have lost the hold and made one
                hold.ended = before
        finally:
            hold.tell()

    def act(self, hold: Hold, shared: bool) -> None:
        draw = self.random.random()
        if draw < 0.15 and hold.kind not in ("multi", "semaphore"):
            with self.bounded("extend", hold.name):
                hold.lock.extend(self.random.uniform(1.0, 4.0))
        elif draw < 0.3 and hold.kind not in ("multi", "semaphore", "permit_semaphore"):
            with self.bounded("re-enter", hold.name, 0.5, WAITS_TOO if shared else ""):
                again = hold.lock.acquire(timeout=0.5)
            if again:
                hold.lives()
                with self.bounded("leave", hold.name):
                    hold.lock.release()
        else:
            time.sleep(self.random.random() * 0.03)

    def export(self, hold: Hold) -> bool:
        if len(list(self.folder.glob("grant-*"))) >= MOST_GRANTS or not hold.lives():
            return False
        with self.bounded("export", hold.name, also="UNSUPPORTED"):
            grant = hold.lock.export_grant()
        made = self.folder / f"made-{uuid.uuid4()}"
        made.write_bytes(grant)
        made.rename(self.folder / f"grant-{hold.kind}-{hold.name.encode().hex()}-{hold.permits}-{uuid.uuid4()}")
        return True

    def close_gate(self, name: str) -> None:
        lock = self.client.lock(name)
        with self.bounded("close gate", name):
            lock.close_gate(0.5)
        time.sleep(self.random.random() * 0.1)
        with self.bounded("open gate", name):
            lock.open_gate()

    def reclaim(self, name: str) -> None:
        """A release that a failover forgets leaves its permit taken until somebody asks for it: docs/levels.md."""
        with self.bounded("reclaim", name):
            self.counts["reclaimed"] += self.client.semaphore(name).reclaim_permits(SILENT)


def main() -> None:
    url, number, folder, kinds, seed, *words = sys.argv[1:]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    pairs = [word.partition("=") for word in words]
    options: dict[str, Any] = {name: int(value) if value.isdigit() else value for name, _, value in pairs}
    with dlock.Client(url, **options) as client:
        workers = [Worker(client, int(number), thread, pathlib.Path(folder), kinds.split(","), seed) for thread in range(THREADS)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for what, number_of in sum((worker.counts for worker in workers), collections.Counter[str]()).items():
        say("count", what, number_of)


if __name__ == "__main__":
    main()
