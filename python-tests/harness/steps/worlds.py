"""Locks of each kind with a crowd around them, and the script calls that are measured there, for harness/costs.py.

    world = WORLDS["fair"](meter)
    words = world.situation("waiters", 10_000, world.steps[0])     # a call, while 10,000 wait
    meter.cost(words)

A crowd is written directly. Its entries are copies of one that the scripts wrote, under other ids.
"""
from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Callable, Sequence

from .meter import TOMBS, Meter
from ..resp import Client
from . import counting, fair, rw, wire
from .scripts import SCRIPTS
from .wire import LEASE, LINE, server_ms

FOREIGN = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa:1"
DAY = 86_400_000
NEXT = 31  # waiters that a grant names
CHUNK = 1000
PROCESSES = "subscribed processes"
RELEASED = range(1, 1000)  # 1 + the number of other processes that listen
SET_ALL = "for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end"


def nothing() -> None:
    pass


@dataclasses.dataclass
class Step:
    script: str
    title: str
    call: Callable[[], Any]
    replies: Sequence[Any]  # the replies, or the first elements of them, that such a call may get
    before: Callable[[], Any] = nothing


def ids(count: int, number: int = 7) -> list[str]:
    return [f"{one:08x}-1111-8000-8000-000000000001:{number}" for one in range(count)]


class World:
    kind = ""
    wire: Any
    spare: dict[bytes, list[Client]] = {}  # channel -> connections that are subscribed to it, one for each process

    def __init__(self, meter: Meter) -> None:
        self.meter, self.redis = meter, meter.redis
        self.crowds: dict[str, Callable[[int], None]] = {}
        self.steps: list[Step] = []
        self.make()

    def make(self) -> None:
        raise NotImplementedError

    def base(self) -> None:
        raise NotImplementedError

    def situation(self, crowd: str, count: int, step: Step) -> tuple[Any, ...]:
        """An empty server, a lock that is held, the crowd, and what the step needs. Returns the words of the call."""
        if crowd != PROCESSES:
            self.unsubscribe()
        self.redis.command("FLUSHALL")
        self.base()
        self.crowds[crowd](count)
        step.before()
        return self.meter.plan(lambda _: step.call())

    def visitor(self, channel: bytes) -> None:
        """One more process subscribes."""
        if not World.spare.get(b"visitor"):
            World.spare[b"visitor"] = [self.meter.server.client()]
            World.spare[b"visitor"][0].subscribe(channel)

    @staticmethod
    def unsubscribe() -> None:
        for clients in World.spare.values():
            for client in clients:
                client.close()
        World.spare.clear()

    # ---- before a step

    def free(self) -> None:
        self.redis.command("DEL", self.wire.name)

    def shut(self) -> None:
        self.redis.command("SET", self.wire.gate, 1, "PX", LEASE)

    # ---- for crowds

    def many(self, command: str, key: Any, words: Sequence[Any], *first: Any, width: int = 2) -> None:
        for at in range(0, len(words), CHUNK * width):
            self.redis.command(command, key, *first, *words[at : at + CHUNK * width])

    def tombs(self, about: bytes, doubt: Callable[[], Any], ended: bool = False) -> Callable[[int], None]:
        """Tombstones like the one that doubt leaves, of other processes. ended: their time is over."""

        def fill(count: int) -> None:
            doubt()
            mark = next(field for field in self.redis.command("HKEYS", about) if field.startswith(b"dlock_tombstone:"))
            number, till = self.redis.command("HGET", about, mark).split()
            told = b"%s %s" % (number, b"1" if ended else till)
            self.many("HSET", about, list(itertools.chain(*(("dlock_tombstone:" + one[:36], told) for one in ids(count - 1)))))

        return fill

    def once(self, key: bytes, doubt: Callable[[], Any], ended: bool = False) -> Callable[[int], None]:
        """The same for the kinds that keep them by id."""

        def fill(count: int) -> None:
            doubt()
            (told,) = self.redis.command("HVALS", key)
            told = b"1 " + told.split(b" ", 1)[1] if ended else told
            self.many("HSET", key, list(itertools.chain(*((one, told) for one in ids(count - 1)))))

        return fill

    def line_of(self, count: int) -> None:
        """Processes that wait to be called, and that have died since."""
        self.many("ZADD", self.wire.turns, list(itertools.chain(*((at, one[:36]) for at, one in enumerate(ids(count), 1)))))

    def processes(self, channel: bytes) -> Callable[[int], None]:
        def fill(count: int) -> None:
            spare = World.spare.get(channel, [])
            if len(spare) > count or not spare:
                self.unsubscribe()
                spare = World.spare[channel] = []
            while len(spare) < count:
                spare.append(self.meter.server.client())
                spare[-1].subscribe(channel)

        return fill

    # ---- steps that every kind has

    def common(self, name: bytes, keys: list[bytes], gate_keys: list[bytes], gate: bytes, channel: bytes, kind: str) -> list[Step]:
        """keys: those of inspect. gate_keys: those of a gate, from the third on."""

        def run(stem: str, *words: Any) -> Callable[[], Any]:
            return lambda: self.redis.command("EVAL", SCRIPTS[stem], *words)

        close = [2 + len(gate_keys), name, gate, *gate_keys]
        return [
            Step("inspect", "", run("inspect", len(keys), *keys, kind), (b"", str, bytes)),
            Step("gate", "close", run("gate", *close, LEASE, kind, channel), (1, bytes)),
            Step("gate", "open", run("gate", *close, 0, kind, channel), (1,), lambda: self.redis.command("SET", gate, 1)),
        ]


class Mutex(World):
    kind = "mutex"

    def make(self) -> None:
        self.wire = one = wire.Wire(self.redis, "order")
        server = self.meter.server
        self.a, self.b, self.c, self.z = (wire.Who(server) for _ in range(4))
        doubt = lambda: self.drop(self.c, 1)  # noqa: E731
        self.crowds = {
            "waiters": self.waiters, "dead waiters": self.dead, "tombstones": self.tombs(one.about, doubt),
            "ended tombstones": self.tombs(one.about, doubt, True), PROCESSES: self.processes(one.channel),
        }  # fmt: skip
        self.steps = [*self._tries(), *self._ends(), *self._others()]

    def base(self) -> None:
        assert self.wire.acquire(self.a)[0] == 1

    def drop(self, who: wire.Who, doubt: int) -> int:
        reply: int = self.wire.run("release", who.id, self.wire.channel, 0, 0, doubt, wire.BLOCK)
        return reply

    def line(self, told: bytes, score: int, count: int) -> None:
        self.many("HSET", self.wire.about, list(itertools.chain(*((one, told) for one in ids(count)))))
        self.many("ZADD", self.wire.line, list(itertools.chain(*((score + at, one) for at, one in enumerate(ids(count))))))

    def waiters(self, count: int, before: bool = False) -> None:
        self.wire.acquire(self.b, LINE)
        told, score = self.redis.command("HGET", self.wire.about, self.b.id), int(self.redis.command("ZSCORE", self.wire.line, self.b.id))
        self.line(b"1 " + told.split(b" ", 1)[1] if before else told, 1 if before else score + 1, count)

    def dead(self, count: int) -> None:
        self.waiters(count, before=True)

    def undone(self) -> None:
        self.free()
        self.drop(self.z, 1)

    def foreign(self) -> None:
        self.free()
        self.redis.command("HSET", self.wire.name, FOREIGN, 1)
        self.redis.command("PEXPIRE", self.wire.name, LEASE)

    def queue(self) -> None:
        self.wire.acquire(self.z, LINE)

    def _tries(self) -> list[Step]:
        w, a, z = self.wire, self.a, self.z
        return [
            Step("acquire", "free", lambda: w.acquire(z), (0, 1), self.free),
            Step("acquire", "held", lambda: w.acquire(z), (0,)),
            Step("acquire", "held, joins the line", lambda: w.acquire(z, LINE), (0,)),
            Step("acquire", "held, probes", lambda: w.acquire(z, LINE), (0,), self.queue),
            Step("acquire", "held by Redisson, joins the line", lambda: w.acquire(z, LINE), (0,), self.foreign),
            Step("acquire", "by its holder", lambda: w.acquire(a), (1,)),
            Step("acquire", "the gate is closed", lambda: w.acquire(z), (-2,), self.shut),
            Step("acquire", "after its undo", lambda: w.acquire(z), (0,), self.undone),
        ]

    def _ends(self) -> list[Step]:
        w, a, z = self.wire, self.a, self.z
        return [
            Step("release", "held", lambda: w.release(a), (1,)),
            Step("release", "held, a client of Redisson waits", lambda: w.release(a), (1,), lambda: self.visitor(w.channel)),
            Step("release", "with a rest", lambda: w.release(a, rest=500), (1,)),
            Step("release", "in doubt, held", lambda: self.drop(a, 1), (1,)),
            Step("release", "in doubt, not held", lambda: self.drop(z, 1), (0,)),
            Step("release", "leaves the line", lambda: w.release(z), (0,), self.queue),
            Step("pass", "to the next of the process", lambda: w.pass_on(a, a.again()), (1,)),
            Step("force", "", w.force, (1,)),
        ]

    def _others(self) -> list[Step]:
        w, a, z, name = self.wire, self.a, self.z, self.wire.name
        run = lambda stem, *words: self.redis.command("EVAL", SCRIPTS[stem], *words)  # noqa: E731
        heir = a.again()
        batch = [LEASE, wire.BLOCK, LINE, 0, wire.BEAT, wire.KEEP]
        export = lambda: run("export", 2, name, w.about, a.id, LEASE, 1, 1, LEASE, "proof")  # noqa: E731
        return [
            Step("renew", "one row", lambda: run("renew", 1, name, a.id, LEASE), (1,)),
            Step("export", "", export, (1,)),
            Step("adopt", "", lambda: run("adopt", 2, name, w.about, a.id, heir.id, 0, heir.number, "proof"), (1,), export),
            Step("disown", "", lambda: run("disown", 2, name, w.about, a.id, heir.id, a.number), (1,)),
            Step("multi_acquire", "held, one row", lambda: run("multi_acquire", 5, *w.keys, DAY, z.id, LEASE, 1), (0,)),
            Step("multi_acquire", "free, one row", lambda: run("multi_acquire", 5, *w.keys, DAY, z.id, LEASE, 1), (0, 1), self.free),
            Step("batch_acquire", "held, one row", lambda: run("batch_acquire", 5, *w.keys, *batch, z.id, 1, "", "", ""), (0,)),
            Step("batch_acquire", "free, one row", lambda: run("batch_acquire", 5, *w.keys, *batch, z.id, 1, "", "", ""), (0, 1, int), self.free),
            Step("batch_release", "one row", lambda: run("batch_release", 5, *w.keys, 0, 0, a.id, w.channel), (1,)),
            Step("again", "one row", lambda: run("again", 2, name, w.fence, a.id, LEASE, 1), (1,)),
            Step("floor", "", lambda: run("floor", 2, name, w.fence, a.id, w.last_token(), w.last_token() + 5, DAY), (1,)),
            *self.common(name, w.keys[:3], [w.line, w.about], w.gate, w.channel, "mutex"),
        ]


class Fair(World):
    kind = "fair"

    def make(self) -> None:
        self.wire = one = fair.Wire(self.redis, "order")
        server = self.meter.server
        self.a, self.b, self.c, self.z = (fair.Process(server).hold() for _ in range(4))
        doubt = lambda: self.drop(self.c, 1)  # noqa: E731
        self.crowds = {
            "waiters": self.waiters, "dead waiters": self.dead, "waiters that Redisson gave up": self.given_up,
            "tombstones": self.tombs(one.about + TOMBS, doubt), "ended tombstones": self.tombs(one.about + TOMBS, doubt, True),
            PROCESSES: self.processes(one.channel),
        }  # fmt: skip
        self.steps = self._steps()

    def base(self) -> None:
        assert self.wire.acquire(self.a)[0] == 1

    def drop(self, who: fair.Hold, doubt: int) -> int:
        reply: int = self.wire.run("release", who.id, self.wire.channel, 0, 0, doubt)
        return reply

    def told(self, change: Callable[[list[bytes]], None], count: int, later: int = 1) -> None:
        """Records like b's, with a change. They arrived one after the other, later than b, or earlier (-1)."""
        record = self.redis.command("HGET", self.wire.about, self.b.id).split()
        arrived = int(record[0])
        change(record)
        told = (b" ".join([b"%d" % (arrived + later * at), *record[1:]]) for at in range(1, count + 1))
        self.many("HSET", self.wire.about, list(itertools.chain(*zip(ids(count), told))))

    def stand(self, command: str, count: int) -> None:
        score = int(self.redis.command("ZSCORE", self.wire.timeout_key, self.b.id))
        self.many(command, self.wire.queue_key, ids(count), width=1)
        self.many("ZADD", self.wire.timeout_key, list(itertools.chain(*((score + at, one) for at, one in enumerate(ids(count))))))

    def waiters(self, count: int) -> None:
        self.wire.acquire(self.b, LINE)
        self.told(lambda record: None, count)
        self.stand("RPUSH", count)

    def dead(self, count: int) -> None:
        self.wire.acquire(self.b, LINE)
        self.told(lambda record: record.__setitem__(7, b"1"), count, -1)
        self.stand("LPUSH", count)

    def given_up(self, count: int) -> None:
        self.wire.acquire(self.b, LINE)
        self.told(lambda record: record.__setitem__(4, b"1"), count)
        self.redis.command("DEL", self.wire.queue_key, self.wire.timeout_key)

    def queue(self) -> None:
        self.wire.acquire(self.z, LINE)

    def middle(self) -> None:
        """z stands in the middle of the line."""
        self.queue()
        half = self.redis.command("LLEN", self.wire.queue_key) // 2
        before = self.redis.command("LINDEX", self.wire.queue_key, half)
        self.redis.command("LREM", self.wire.queue_key, -1, self.z.id)
        self.redis.command("LINSERT", self.wire.queue_key, "AFTER", before, self.z.id)
        arrived = self.redis.command("HGET", self.wire.about, before).split()[0]
        record = self.redis.command("HGET", self.wire.about, self.z.id).split()
        self.redis.command("HSET", self.wire.about, self.z.id, b" ".join([arrived, *record[1:]]))

    def turns(self) -> None:
        """As many of a's process come next as a grant can name. They have their turns in memory."""
        self.served = [fair.Hold(self.a.process, 1000 + at) for at in range(NEXT)]
        for one in self.served:
            self.wire.acquire(one, LINE)
        others = self.redis.command("LRANGE", self.wire.queue_key, 0, -NEXT - 1)
        self.redis.command("DEL", self.wire.queue_key)
        for at in range(0, len(mine := [*(one.id for one in self.served), *others]), CHUNK):
            self.redis.command("RPUSH", self.wire.queue_key, *mine[at : at + CHUNK])

    def removed(self) -> None:
        self.queue()
        self.redis.command("LREM", self.wire.queue_key, -1, self.z.id)
        self.redis.command("ZREM", self.wire.timeout_key, self.z.id)

    def _steps(self) -> list[Step]:
        w, a, b, z = self.wire, self.a, self.b, self.z
        return [
            Step("fair_acquire", "free", lambda: w.acquire(z), (0, 1), self.free),
            Step("fair_acquire", "held", lambda: w.acquire(z), (0,)),
            Step("fair_acquire", "held, joins the line", lambda: w.acquire(z, LINE), (0,)),
            Step("fair_acquire", "held, probes", lambda: w.acquire(z, LINE), (0,), self.queue),
            Step("fair_acquire", "held, comes back after Redisson gave it up", lambda: w.acquire(z, LINE), (0,), self.removed),
            Step("fair_acquire", "by its holder", lambda: w.acquire(a), (1,)),
            Step("fair_acquire", "the gate is closed", lambda: w.acquire(z), (-2,), self.shut),
            Step("fair_acquire", "after its undo", lambda: w.acquire(z), (0,), lambda: self.drop(z, 1)),
            Step("fair_release", "held", lambda: w.release(a), (1,)),
            Step("fair_release", "held, after turns in memory", lambda: w.release(a, served=self.served), (1,), self.turns),
            Step("fair_release", "with a rest", lambda: w.release(a, rest=500), (1,)),
            Step("fair_release", "in doubt, held", lambda: self.drop(a, 1), (1,)),
            Step("fair_release", "in doubt, not held", lambda: self.drop(z, 1), (0,)),
            Step("fair_release", "leaves the head of the line", lambda: w.release(b), (0,), lambda: w.acquire(b, LINE)),
            Step("fair_release", "leaves the middle of the line", lambda: w.release(z), (0,), self.middle),
            Step("fair_release", "leaves the end of the line", lambda: w.release(z), (0,), self.queue),
            Step("fair_force", "", w.force, (1,)),
            Step("renew", "one row", lambda: self.redis.command("EVAL", SCRIPTS["renew"], 1, w.name, a.id, LEASE), (1,)),
            *self.common(w.name, w.keys[:3], [w.queue_key, w.timeout_key, w.about], w.gate, w.channel, "fair"),
        ]


class Shared(World):
    """A read-write lock."""

    def make(self) -> None:
        self.wire = rw.RwWire(self.redis, "order")
        self.a, self.c, self.z, self.w = (rw.Hold() for _ in range(4))
        self.crowds = {"tombstones": self.buried, PROCESSES: self.processes(self.wire.channel)}
        self.steps = self.own_steps()

    def free(self) -> None:
        self.redis.command("DEL", self.wire.name, self.wire.ours)

    def own_steps(self) -> list[Step]:
        raise NotImplementedError

    def drop(self, script: str, owner: str, doubt: int) -> int:
        reply: int = self.wire.run(script, self.wire.keys(self.wire.hold_key(owner)), owner, self.wire.channel, 0, 0, doubt)
        return reply

    def buried(self, count: int) -> None:
        self.hold_keys(count, "-")

    def hold_keys(self, count: int, value: str) -> None:
        keys = [self.wire.hold_key(one) for one in ids(count)]
        for at in range(0, count, CHUNK):
            some = keys[at : at + CHUNK]
            self.redis.command("EVAL", SET_ALL, len(some), *some, value, 4 * LEASE)

    def dead(self, count: int) -> None:
        self.many("HSET", self.wire.name, list(itertools.chain(*((one, 1) for one in ids(count)))))
        self.noted(count, -1000)

    def noted(self, count: int, left: int) -> None:
        ends = server_ms(self.redis) + left
        self.many("ZADD", self.wire.ours, list(itertools.chain(*((ends, one) for one in ids(count)))))

    def living(self, count: int) -> None:
        self.dead(count)
        self.noted(count, LEASE)
        self.hold_keys(count, "17")

    def shared_steps(self) -> list[Step]:
        w = self.wire
        return [
            Step("rw_force", "", w.force, (1,)),
            *self.common(w.name, [w.name, w.fence, w.gate], [], w.gate, w.channel, "rw"),
        ]


class Read(Shared):
    kind = "read"

    def base(self) -> None:
        assert self.wire.read(self.a)[0] == 1

    def make(self) -> None:
        super().make()
        self.crowds.update({"readers": self.living, "dead readers": self.dead})

    def gone(self) -> None:
        """The only living reader has died."""
        self.wire.kill(self.a.id)

    def own_steps(self) -> list[Step]:
        w, a, z = self.wire, self.a, self.z
        return [
            Step("read_acquire", "free", lambda: w.read(z), (1,), self.free),
            Step("read_acquire", "others read", lambda: w.read(z), (1,)),
            Step("read_acquire", "by its holder", lambda: w.read(a), (1,)),
            Step("read_acquire", "the gate is closed", lambda: w.read(z), (-2,), self.shut),
            Step("read_acquire", "after its undo", lambda: w.read(z), (0,), lambda: self.drop("read_release", z.id, 1)),
            Step("read_release", "held", lambda: w.read_release(a), (1,)),
            Step("read_release", "with a rest", lambda: w.read_release(a, rest=500), (1,)),
            Step("read_release", "in doubt, held", lambda: self.drop("read_release", a.id, 1), (1,)),
            Step("read_release", "in doubt, not held", lambda: self.drop("read_release", z.id, 1), (0,)),
            Step("read_renew", "one row", lambda: w.read_renew(a), (1,)),
            Step("write_acquire", "others read", lambda: w.write(z), (0,)),
            Step("write_acquire", "the last reader is dead", lambda: w.write(z), (0, 1), self.gone),
            *self.shared_steps(),
        ]


class Write(Shared):
    kind = "write"

    def base(self) -> None:
        assert self.wire.write(self.w)[0] == 1

    def make(self) -> None:
        super().make()
        self.crowds.update({"reads under the write hold": self.living, "waiting processes": self.line_of})

    def undone(self) -> None:
        self.drop("write_release", self.z.writer, 1)
        self.free()

    def own_steps(self) -> list[Step]:
        w, a, z, own = self.wire, self.a, self.z, self.w
        return [
            Step("write_acquire", "free", lambda: w.write(z), (1,), self.free),
            Step("write_acquire", "held", lambda: w.write(z), (0,)),
            Step("write_acquire", "held, stands in line", lambda: w.write(z, mode=LINE), (0,)),
            Step("write_release", "leaves the line", lambda: w.write_release(z), (0,), lambda: w.write(z, mode=LINE)),
            Step("write_acquire", "by its holder", lambda: w.write(own), (1,)),
            Step("write_acquire", "the gate is closed", lambda: w.write(z), (-2,), self.shut),
            Step("write_acquire", "after its undo", lambda: w.write(z), (0,), self.undone),
            Step("read_acquire", "held by another", lambda: w.read(z), (0,)),
            Step("read_acquire", "under its write hold", lambda: w.read(z, under=own), (1,)),
            Step("read_release", "under its write hold", lambda: w.read_release(a), (1,), lambda: w.read(a, under=own)),
            Step("write_release", "held", lambda: w.write_release(own), RELEASED),
            Step("write_release", "with a rest", lambda: w.write_release(own, rest=500), RELEASED),
            Step("write_release", "in doubt, held", lambda: self.drop("write_release", own.writer, 1), RELEASED),
            Step("write_release", "in doubt, not held", lambda: self.drop("write_release", z.writer, 1), (0,)),
            Step("read_renew", "one row", lambda: w.renew([own.writer], LEASE), (1,)),
            *self.shared_steps(),
        ]


class Counting(World):
    """A semaphore of either kind."""

    SEATS = 100_000

    def base(self) -> None:
        assert self.wire.change("set", self.SEATS, counting.Hold())[0] == 1
        assert self.wire.acquire(self.a)[0] == 1
        self.redis.command("DEL", self.wire.once)

    def make(self) -> None:
        self.wire = one = self.made()
        self.a, self.c, self.z = (counting.Hold() for _ in range(3))
        doubt = lambda: one.release(self.c, doubt=1)  # noqa: E731
        self.crowds = {
            "tombstones": self.once(one.once, doubt), "ended tombstones": self.once(one.once, doubt, True),
            "waiting processes": self.line_of, PROCESSES: self.processes(one.channel),
        }  # fmt: skip
        self.steps = [*self._steps(), *self.own_steps()]

    def made(self) -> Any:
        raise NotImplementedError

    def own_steps(self) -> list[Step]:
        raise NotImplementedError

    def none_left(self) -> None:
        self.redis.command("SET", self.wire.name, 0)

    def shut(self) -> None:
        self.wire.set_gate(True)

    def stood(self) -> None:
        self.none_left()
        self.wire.whole(self.z, mode=LINE)

    def change(self, what: str, number: int = 0) -> Step:
        return Step(f"{self.wire.kind}_change", what, lambda: self.wire.change(what, number), (0, 1))

    def _steps(self) -> list[Step]:
        w, a, z, stem = self.wire, self.a, self.z, self.wire.kind
        return [
            Step(f"{stem}_acquire", "permits are left", lambda: w.acquire(z), (1,)),
            Step(f"{stem}_acquire", "too few are left", lambda: w.acquire(z), (0, 1), self.none_left),
            Step(f"{stem}_acquire", "by its holder", lambda: w.acquire(a), (1,)),
            Step(f"{stem}_acquire", "the gate is closed", lambda: w.acquire(z), (-2,), self.shut),
            Step(f"{stem}_acquire", "after its undo", lambda: w.acquire(z), (0,), lambda: w.release(z, doubt=1)),
            Step(f"{stem}_release", "held", lambda: w.release(a), RELEASED),
            Step(f"{stem}_release", "in doubt, held", lambda: w.release(a, doubt=1), RELEASED),
            Step(f"{stem}_release", "leaves the line", lambda: w.release(z), (0, 1), self.stood),
            Step(f"{stem}_release", "in doubt, not held", lambda: w.release(z, doubt=1), (0,)),
            Step(f"{stem}_renew", "one row", lambda: w.renew((a, LEASE)), (1,)),
            self.change("set", 5), self.change("add", 5), self.change("count"),
            *self.common(w.name, [w.name, w.fence, w.gate], [], w.gate, w.channel, self.kind),
        ]  # fmt: skip


class Semaphore(Counting):
    kind = "semaphore"

    def made(self) -> counting.SemaphoreWire:
        wire_of = counting.SemaphoreWire(self.redis, "seats")
        return wire_of

    def make(self) -> None:
        super().make()
        self.crowds.update({"holders": self.living, "dead holders": self.dead})

    def living(self, count: int, score: int | None = None) -> None:
        score, token = score or server_ms(self.redis) + LEASE, server_ms(self.redis) * 1000
        self.many("ZADD", self.wire.taken, list(itertools.chain(*((token + at, one) for at, one in enumerate(ids(count))))))
        self.many("ZADD", self.wire.holders, list(itertools.chain(*((score, "1 " + one) for one in ids(count)))))
        self.redis.command("DECRBY", self.wire.name, count)

    def dead(self, count: int) -> None:
        self.living(count, server_ms(self.redis) - 10_000)

    def own_steps(self) -> list[Step]:
        return [self.change("drain"), self.change("reclaim")]


class PermitSemaphore(Counting):
    kind = "permit semaphore"

    def made(self) -> counting.PermitWire:
        return counting.PermitWire(self.redis, "seats")

    def make(self) -> None:
        super().make()
        self.crowds.update({"permits that are out": self.living, "permits whose lease has ended": self.dead})

    def living(self, count: int, score: int | None = None) -> None:
        score = score or server_ms(self.redis) + 2 * LEASE
        members = [bytes.fromhex(f"{one:020x}{7:012x}") for one in range(count)]
        self.many("ZADD", self.wire.leases, list(itertools.chain(*((score, one) for one in members))))
        self.redis.command("DECRBY", self.wire.name, count)

    def dead(self, count: int) -> None:
        self.living(count, server_ms(self.redis) - 10_000)

    def own_steps(self) -> list[Step]:
        w, a = self.wire, self.a
        changes = [self.change("setpermits", 5), self.change("acquired"), self.change("permits")]
        return [Step("permit_release", "with a rest", lambda: w.release(a, rest=500), RELEASED), *changes]


class Latch(World):
    kind = "latch"

    def make(self) -> None:
        self.wire = w = counting.LatchWire(self.redis, "start")
        doubt = lambda: w.change("down", 1)  # noqa: E731
        self.crowds = {
            "answers that are kept": self.once(w.once, doubt), "answers whose time is over": self.once(w.once, doubt, True),
            PROCESSES: self.processes(w.channel),
        }  # fmt: skip
        self.steps = [
            Step("latch_await", "closed", w.wait, (0,)),
            Step("latch_await", "open", w.wait, (1,), lambda: self.redis.command("DEL", w.name)),
            Step("latch_change", "set", lambda: w.change("set", 5), (1,), lambda: self.redis.command("DEL", w.name)),
            Step("latch_change", "down", lambda: w.change("down", 1), (1,)),
            Step("latch_change", "down to zero", lambda: w.change("down", 100), (1,)),
            Step("latch_change", "count", lambda: w.change("count"), (1,)),
            *self.common(w.name, [w.name, w.fence, w.gate], [], w.gate, w.channel, "latch"),
        ]

    def base(self) -> None:
        assert self.wire.change("set", 100) == [1, 100]
        self.redis.command("DEL", self.wire.once)


WORLDS: dict[str, type[World]] = {world.kind: world for world in (Mutex, Fair, Read, Write, Semaphore, PermitSemaphore, Latch)}
