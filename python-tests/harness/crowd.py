"""Many owners of one process who take turns with one lock, and the events that they get.

    crowd = Crowd(client, lock, 30, seed)       # they ask at once
    before = dict(crowd.turns)
    until(lambda: crowd.went_on(before))        # everybody has had a turn since
    crowd.stop()
    next(events(client, *ENDS))                 # the next event of these types
"""
from __future__ import annotations

import random
from typing import Iterator

from .agent import Client, Event, Lock
from .waiting import until

ENDS = ("ACQUIRED", "ACQUIRE_FAILED")


def events(client: Client, *types: str) -> Iterator[Event]:
    while True:
        if (event := client.event()).type in types:
            yield event


class Crowd:
    """Owners of one lock in one process, who acquire, hold and release; some give up. Runs in the test's thread, event by event."""

    def __init__(self, client: Client, lock: Lock, owners: int, seed: int) -> None:
        self.client, self.lock, self.random = client, lock, random.Random(seed)
        self.turns = dict.fromkeys(range(1, owners + 1), 0)
        self.stopping = False
        for owner in self.turns:
            self.ask(owner)

    def ask(self, owner: int) -> None:
        if self.stopping:
            return
        self.lock.submit_acquire(owner, self.random.choice([-1, -1, 5, 50]), owner).ok

    def went_on(self, before: dict[int, int]) -> bool:
        """Whether everybody has had a turn since. Reads some events."""
        for _ in range(200):
            if not self.step():
                break
        return all(self.turns[owner] > turns for owner, turns in before.items())

    def stop(self) -> None:
        """All waits end, and everything is released."""
        self.stopping = True
        for owner in self.turns:
            self.lock.cancel(owner)
        until(lambda: not self.step() and sum(map(self.client.counters().get, ("held", "waiting"))) == 0, 30)

    def step(self) -> bool:
        """One event, if there is one."""
        if not self.client.poll(0).readable:
            return False
        event = self.client.event()
        if event.type == "ACQUIRED":
            self.turns[event.owner] += 1
            self.lock.submit_release(event.owner, event.owner)
        elif event.type in ("ACQUIRE_FAILED", "RELEASED", "RELEASE_FAILED"):
            self.ask(event.owner)
        elif event.type == "LOST":
            self.lock.submit_release(event.owner, event.owner)
            self.ask(event.owner)
        if self.random.random() < 0.02:
            self.lock.cancel(self.random.choice(list(self.turns)))
        return True
