"""What the fair lock must do, whatever the order of events: a model without time, and random steps that compare it with the server."""
from __future__ import annotations

import random
from typing import Any

from .fair import BEAT, LINE, POLL, SEEN, TRY, Hold, Process, Wire
from .redisson_fair import Waiter as Java


def only_the_counter_is_left(wire: Wire) -> None:
    assert wire.redis.command("KEYS", "*") == [wire.fence]
    assert wire.left(wire.fence) > 0


class World:
    """The expected state, without time: the holder, the line, and the owners that were thrown out of the line and may come back."""

    def __init__(self, wire: Wire, processes: list[Process], javas: list[Java], picks: random.Random) -> None:
        self.wire, self.processes, self.javas, self.picks = wire, processes, javas, picks
        self.holder: Hold | Java | None = None
        self.line: list[Any] = []
        self.aside: list[Hold] = []
        self.arrivals: dict[str, int] = {}
        self.modes: dict[str, int] = {}
        self.flags: dict[str, int] = {}
        self.gone: list[Hold] = []
        self.expected: dict[Process, list[bytes]] = {one: [] for one in processes}
        self.token = 0
        self.foreigners = False
        self.buried: Java | None = None

    def reachable(self, hold: Hold) -> bool:
        return hold.process.subscribed or self.modes[hold.id] == POLL

    def refill(self) -> bool:
        if not self.line:
            back = sorted(filter(self.reachable, self.aside), key=lambda hold: self.arrivals[hold.id])
            self.line = list(back)
            self.aside = [hold for hold in self.aside if hold not in back]
        return bool(self.line)

    def hand_on(self, own: Hold | None = None) -> Any:
        """Hands a free lock on; returns whom it went to or waits for."""
        while self.refill():
            first = self.line[0]
            if isinstance(first, Java):
                if first is not self.buried:
                    return first
                self.line.pop(0)
                continue
            self.line.pop(0)
            if first is own or self.reachable(first):
                self.holder = first
                return first
            self.aside.append(first)
        return None

    def stand(self, hold: Hold, mode: int) -> None:
        known = hold in self.line or hold in self.aside
        self.modes[hold.id] = mode
        if not known:
            self.arrivals[hold.id] = len(self.arrivals)
            before = isinstance(self.holder, Java) or any(isinstance(one, Java) for one in self.line)
            self.flags[hold.id] = int(before)
            self.line.append(hold)
        elif hold in self.aside:
            self.aside.remove(hold)
            later = [
                at for at, one in enumerate(self.line)
                if isinstance(one, Hold) and self.arrivals[one.id] > self.arrivals[hold.id]
            ]  # fmt: skip
            at = later[0] if later else len(self.line)
            self.flags[hold.id] |= any(isinstance(one, Java) for one in self.line[:at])
            self.line.insert(at, hold)

    # ---- our steps

    def waiting(self) -> list[Hold]:
        return [one for one in self.line if isinstance(one, Hold)] + self.aside

    def take(self, hold: Hold, mode: int) -> None:
        if mode != TRY:
            self.stand(hold, mode)
        redisson = isinstance(self.holder, Java) or any(isinstance(one, Java) for one in self.line[:1])
        reply = self.wire.acquire(hold, mode)
        if self.holder:
            if redisson:
                self.refill()
            assert reply[0] == 0, reply
            if mode != TRY:
                assert reply[2] >= self.flags[hold.id]
                assert reply[2] == 0 or self.foreigners or len(self.line) > SEEN
            return
        first = self.hand_on(hold)
        if first is None:
            self.holder = first = hold
        if first is hold:
            assert reply[0] == 1 and reply[1] > self.token, reply
            self.token = reply[1]
        else:
            assert reply[0] == 0, reply
            self.pushed(first)
            if isinstance(first, Java):
                assert reply[2] == 1 and (reply[1] == -1 or 25 <= reply[1] <= 100)

    def pushed(self, first: Any) -> None:
        """The owner first was granted the lock; the token of the message is checked."""
        if isinstance(first, Hold):
            self.token, before = self.wire.last_token(), self.token
            assert self.token > before
            if first.process.subscribed:
                self.expected[first.process].append(b"fair %d 1 %d 1 , order" % (first.number, self.token))

    def step_new(self) -> None:
        self.take(self.picks.choice(self.processes).hold(), self.picks.choice([TRY, LINE, LINE, LINE, POLL]))

    def step_probe(self) -> None:
        if self.waiting():
            self.take(self.picks.choice(self.waiting()), self.picks.choice([LINE, LINE, POLL]))

    def step_release(self) -> None:
        if isinstance(self.holder, Hold):
            self.gone.append(self.holder)
            assert self.wire.release(self.holder) == 1
            self.holder = None
            self.pushed(self.hand_on())

    def step_leave(self) -> None:
        if self.waiting():
            hold = self.picks.choice(self.waiting())
            (self.line if hold in self.line else self.aside).remove(hold)
            self.gone.append(hold)
            assert self.wire.release(hold) == 0
            if self.holder:
                self.refill()
            else:
                self.pushed(self.hand_on())

    def step_again(self) -> None:
        if isinstance(self.holder, Hold):
            assert self.wire.acquire(self.holder, self.picks.choice([TRY, LINE, POLL])) == [1, self.token]
        if self.gone:
            before = self.wire.state()
            assert self.wire.release(self.picks.choice(self.gone)) == 0
            assert self.wire.state() == before

    def step_force(self) -> None:
        assert self.wire.force() == (1 if self.holder else 0)
        if self.holder:
            if isinstance(self.holder, Hold):
                self.gone.append(self.holder)
            self.holder = None
            self.pushed(self.hand_on())

    # ---- steps of foreign clients

    def step_expire(self) -> None:
        self.wire.redis.command("DEL", self.wire.name)
        if isinstance(self.holder, Hold):
            self.gone.append(self.holder)
        self.holder = None

    def step_subscribe(self) -> None:
        one: Any = self.picks.choice([*self.processes, *self.javas])
        if isinstance(one, Process):
            self.drain(one)
        one.subscribe(not one.subscribed)

    def java(self) -> Java:
        self.foreigners = True
        return self.picks.choice(self.javas)

    def step_java(self) -> None:
        one, queue = self.java(), self.picks.random() < 0.8
        if one is self.holder:
            return
        got = one.acquire(queue)
        if not self.holder and self.line[:1] in ([], [one]):
            assert got is None
            self.line = self.line[1:]
            self.holder = one
        else:
            assert got is not None
            if queue and one not in self.line:
                self.line.append(one)

    def step_java_release(self) -> None:
        if isinstance(self.holder, Java):
            assert self.holder.release() == 1
            self.holder = None

    def step_java_cancel(self) -> None:
        one = self.java()
        if one in self.line:
            one.cancel()
            self.line.remove(one)

    def step_java_gives_up(self) -> None:
        """The deadlines of the first few are invalid, and Redisson throws them out."""
        one, many = self.java(), self.picks.randint(1, 4)
        if one is self.holder or one in self.line or (not self.holder and len(self.line) <= many):
            return
        for owner in self.line[:many]:
            self.wire.redis.command("ZADD", self.wire.timeout_key, 1, owner.id)
        assert not one.try_acquire()
        self.aside += [owner for owner in self.line[:many] if isinstance(owner, Hold)]
        del self.line[:many]

    def step_bury(self) -> None:
        """A free lock has waited for a dead head long enough."""
        if not self.holder and self.line and isinstance(self.line[0], Java) and not self.line[0].subscribed:
            self.buried = self.line[0]
            self.wire.redis.command("HSET", self.wire.about, "?", f"1 1 {self.wire.now()} {self.buried.id}")
            self.wire.redis.command("PEXPIRE", self.wire.about, BEAT)
            self.take(self.picks.choice(self.processes).hold(), LINE)
            self.buried = None

    # ---- comparing

    def drain(self, process: Process) -> None:
        for message in self.expected[process]:
            assert process.message() == message
        self.expected[process].clear()
        assert not process.subscribed or process.nothing()

    def check(self) -> None:
        wire = self.wire
        assert wire.holder() == (self.holder.raw if self.holder else None)
        assert wire.line() == [one.raw for one in self.line]
        assert set(wire.scores()) == set(wire.line())
        for key in wire.name, wire.fence, wire.about:
            assert wire.left(key) != -1, key
        if not self.foreigners:
            assert wire.left(wire.queue_key) != -1 != wire.left(wire.timeout_key)

    def end(self) -> None:
        """Everybody leaves, and nothing stays on the server."""
        for one in [one for one in self.line if isinstance(one, Java)]:
            one.cancel()
            self.line.remove(one)
        for hold in self.waiting():
            self.wire.release(hold)
        self.step_expire()
        last = self.processes[0].hold()
        for process in self.processes:
            self.expected[process].clear()
            assert not process.subscribed or process.messages() is not None
        assert self.wire.acquire(last, TRY)[0] == 1 and self.wire.release(last) == 1
        only_the_counter_is_left(self.wire)


STEPS = {
    "new": 10, "probe": 8, "release": 8, "leave": 3, "again": 1, "force": 0.5, "expire": 1, "subscribe": 2,
    "java": 6, "java_release": 5, "java_cancel": 1, "java_gives_up": 1, "bury": 3,
}  # fmt: skip


def run_seed(wire: Wire, processes: list[Process], javas: list[Java], seed: int, steps: int) -> None:
    picks = random.Random(seed)
    wire.redis.command("FLUSHALL")
    everybody: list[Any] = [*processes, *javas]
    for one in everybody:
        if not one.subscribed:
            one.subscribe(True)
    world = World(wire, processes, javas, picks)
    chances = {name: chance for name, chance in STEPS.items() if seed % 4 or "java" not in name}
    trail: list[str] = []
    try:
        for _ in range(steps):
            trail.append(picks.choices(list(chances), list(chances.values()))[0])
            getattr(world, "step_" + trail[-1])()
            world.check()
        for process in processes:
            world.drain(process)
        world.end()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, step {len(trail)}, {' '.join(trail[-8:])}: {error}") from error
