"""Random steps of ours and of Redisson's on one read-write lock. Each is compared with a model in Python: replies, fields, hold keys,
leases, messages. Rules beyond the model: nobody gets in beside a writer, no step of ours takes what another holds, tokens rise and
belong to their hold.
"""
from __future__ import annotations

import random
from typing import Any, Callable, Iterator

import pytest

from harness.steps.redisson_rw import JavaRw
from harness.resp import Client
from harness.steps.rw import Hold, RwWire, fields_of
from harness.steps.rw_model import REST, RwModel
from harness.server import Server

pytestmark = pytest.mark.house

SEEDS, STEPS, SLACK = 20, 60, 20_000
ADDED = STEPS  # ms: a renewal that finds a longer lease adds one
LEASES = [200_000, 400_000, 600_000, 800_000]
RESTS = [0, 0, 300_000, 500_000]
JAVA = [f"{letter * 8}-aaaa-4aaa-8aaa-{letter * 12}:{number}" for number, letter in enumerate("abc")]


@pytest.fixture
def redis(redis_server: Server) -> Iterator[Client]:
    with redis_server.client() as client:
        yield client


class Run:
    """One seed."""

    def __init__(self, redis: Client, seed: int) -> None:
        self.redis, self.random, self.model = redis, random.Random(seed), RwModel()
        name = f"order:{seed}" if seed % 2 else f"shop:{{{seed}}}:order"
        self.wire = RwWire(redis, name)
        self.java = [JavaRw(redis, name, owner) for owner in JAVA]
        self.holds = [Hold() for _ in range(4)]
        self.reads: dict[str, int] = {}  # tokens of live reads
        self.writes: dict[str, int] = {}
        self.under: set[str] = set()  # the write hold that the requested read would be under
        self.last = 0
        self.granted = {"ours": 0, "java": 0, "under": 0, "cleared": 0, "kept out": 0}

    # ---- reading the state

    def state(self) -> tuple[dict[str, Any], int, dict[tuple[str, int], int]]:
        keys = list(self.model.holds)
        words: list[list[Any]] = [["HGETALL", self.wire.name], ["PTTL", self.wire.name]]
        words += [["PTTL", self.wire.hold_key(*key)] for key in keys]
        flat, ttl, *lefts = self.redis.pipeline(*words)
        return fields_of(flat), ttl, {key: left for key, left in zip(keys, lefts) if left != -2}

    def check(self) -> None:
        """The server's state equals the model's."""
        fields, ttl, holds = self.state()
        model = self.model
        counts = {key: str(count) for key, count in model.counts.items()}
        assert fields == ({"mode": model.mode, **counts} if model.mode else {})
        assert model.ttl - SLACK < ttl <= model.ttl + ADDED if model.mode else ttl == -2
        assert holds.keys() == model.holds.keys()
        noted = self.wire.noted()
        assert noted.keys() == model.ours.keys() and all(lease - SLACK < noted[one] <= lease + ADDED for one, lease in model.ours.items())
        assert all(lease - SLACK < holds[key] <= lease + ADDED for key, lease in model.holds.items())

    # ---- our steps

    def ours(self) -> Hold:
        """One of a few; now and then a new one replaces it, as ours are always new."""
        at = self.random.randrange(len(self.holds))
        hold = self.holds[at]
        if hold.id not in self.model.counts and hold.writer not in self.model.counts and self.random.random() < 0.7:
            hold = self.holds[at] = Hold()
        return hold

    def take(self, tokens: dict[str, int], owner: str, what: str, reply: list[int], before: set[str]) -> None:
        """An acquire of ours was answered."""
        if what == "gate":
            assert reply == [-2]
        elif what == "busy":
            assert (reply[0], reply[2]) == (0, 1) and self.model.ttl - SLACK < reply[1] <= self.model.ttl + ADDED
        elif what == "kept out":
            kept = self.model.kept_out(owner, *self.under, reads=not owner.endswith(":write"))
            assert (reply[0], reply[2]) == (0, 1) and kept - SLACK < reply[1] <= kept + ADDED
            self.granted["kept out"] += 1
        elif what == "new":
            assert reply[0] == 1 and reply[1] > self.last
            self.last = tokens[owner] = reply[1]
            self.granted["ours"] += 1
            others = before - {owner}
            if not owner.endswith(":write"):
                others = {one for one in others if ":write" in one} - self.under
            assert not others
        elif owner.endswith(":write"):
            assert reply[0] == 1 and tokens[owner] <= reply[1] <= self.last
        else:
            assert reply == [1, tokens[owner]]

    def read(self) -> None:
        hold, lease, before = self.ours(), self.random.choice(LEASES), self.model.living()
        writers = [one for one in self.holds if one.writer in self.model.counts]
        under = writers[0] if writers and self.random.random() < 0.7 else None
        self.under = {under.writer} if under else set()
        reply = self.wire.read(hold, lease, under)
        what = self.model.read(hold.id, lease, under.writer if under else "")
        self.granted["under"] += what == "new" and under is not None
        self.take(self.reads, hold.id, what, reply, before)

    def write(self) -> None:
        hold, lease, before = self.ours(), self.random.choice(LEASES), self.model.living()
        self.under = set()
        dead = bool(self.model.counts) and not before
        reply = self.wire.write(hold, lease)
        what = self.model.write(hold.writer, lease)
        self.granted["cleared"] += what == "new" and dead
        self.take(self.writes, hold.writer, what, reply, before)

    def read_release(self) -> None:
        hold, rest = self.ours(), self.random.choice(RESTS)
        assert self.wire.read_release(hold, rest) == self.model.read_release(hold.id, rest)

    def write_release(self) -> None:
        hold, rest = self.ours(), self.random.choice(RESTS)
        assert self.wire.write_release(hold, rest) == self.model.write_release(hold.writer, rest)

    def renew(self) -> None:
        hold, lease = self.ours(), self.random.choice(LEASES)
        assert self.wire.read_renew(hold, lease=lease) == [self.model.read_renew(hold.id, lease)]
        assert self.wire.write_renew(hold, lease) == self.model.write_renew(hold.writer, lease)

    def force(self) -> None:
        assert self.wire.force() == self.model.force()

    # ---- Redisson's steps

    def java_read(self) -> None:
        java, lease, before = self.random.choice(self.java), self.random.choice(LEASES), self.model.living()
        got = java.read(lease) is None
        assert got == self.model.java_read(java.id, lease)
        self.granted["java"] += got
        assert not got or not {one for one in before if ":write" in one} - {java.writer}

    def java_write(self) -> None:
        java, lease, before = self.random.choice(self.java), self.random.choice(LEASES), self.model.living()
        got = java.write(lease) is None
        assert got == self.model.java_write(java.id, lease)
        self.granted["java"] += got
        assert not got or not before - {java.writer, java.id}

    def java_release(self) -> None:
        java = self.random.choice(self.java)
        if self.random.random() < 0.5:
            assert java.read_release() == self.model.java_read_release(java.id)
        else:
            assert java.write_release() == self.model.java_write_release(java.id)

    def java_renew(self) -> None:
        java = self.random.choice(self.java)
        assert java.read_renew() == self.model.java_read_renew(java.id)
        assert java.write_renew() == self.model.java_write_renew(java.id)

    def java_force(self) -> None:
        mode = self.random.choice(["read", "write"])
        assert self.random.choice(self.java).force(mode) == self.model.java_force(mode)

    # ---- the passing of time

    def kill(self) -> None:
        if self.model.holds:
            owner, number = self.random.choice(sorted(self.model.holds))
            self.wire.kill(owner, number)
            self.model.kill(owner, number)

    def kill_all(self) -> None:
        for owner, number in list(self.model.holds):
            self.wire.kill(owner, number)
            self.model.kill(owner, number)

    def expire(self) -> None:
        self.redis.command("DEL", self.wire.name, self.wire.ours)
        self.model.expire()

    def cut(self) -> None:
        """Redisson ends the hash alone."""
        self.redis.command("DEL", self.wire.name)
        self.model.cut()

    def turn_gate(self) -> None:
        self.model.gate = not self.model.gate
        if self.model.gate:
            self.redis.command("SET", self.wire.gate, 1)
        else:
            self.redis.command("DEL", self.wire.gate)

    def step(self) -> None:
        weights: list[tuple[Callable[[], None], int]] = [
            (self.read, 14), (self.write, 12), (self.read_release, 8), (self.write_release, 9), (self.renew, 4),
            (self.force, 1), (self.java_read, 6), (self.java_write, 5), (self.java_release, 12), (self.java_renew, 3),
            (self.java_force, 1), (self.kill, 4), (self.kill_all, 2), (self.expire, 1), (self.cut, 2),
            (self.turn_gate, 6 if self.model.gate else 1),
        ]  # fmt: skip
        does = self.random.choices([one for one, _ in weights], [weight for _, weight in weights])[0]
        before, ttl = self.model.living(), self.model.ttl
        does()
        self.check()
        if does in (self.read, self.write, self.read_release, self.write_release, self.renew):
            mine = {one + more for hold in self.holds for one in (hold.id, hold.writer) for more in ("", REST)}
            assert before - mine <= self.model.living()
            assert self.model.ttl >= min(ttl, self.model.longest())
            assert self.model.ttl >= ttl or not any(one.endswith(":write") for one in before & self.model.living())


@pytest.mark.parametrize("part", range(16))
def test_random_steps(redis: Client, redis_server: Server, part: int) -> None:
    sums: dict[str, int] = {}
    with redis_server.client() as subscriber:
        for seed in range(part * SEEDS, (part + 1) * SEEDS):
            run = Run(redis, seed)
            subscriber.subscribe(run.wire.channel)
            for number in range(STEPS):
                try:
                    run.step()
                except AssertionError as problem:
                    raise AssertionError(f"seed {seed}, step {number}") from problem
            left = set(redis.command("KEYS", "*:rwlock_timeout:*"))
            assert left == {run.wire.hold_key(*key) for key in run.model.holds}, seed
            redis.command("FLUSHDB")
            subscriber.send("UNSUBSCRIBE", run.wire.channel)
            said = []
            while (push := subscriber.read())[0] != b"unsubscribe":
                said.append(push[2])
            assert said == run.model.said, seed
            sums = {key: sums.get(key, 0) + number for key, number in run.granted.items()}
    assert sums["ours"] > 10 * SEEDS / 4 and all(sums.values()), sums
