"""The deterministic simulator (native/sim/sim.h): seeds that must pass, controls that must fail, and its model of Redis against a real
server.
"""
from __future__ import annotations

import dataclasses
import mmap
import os
import pathlib
import random
import subprocess
import tempfile
from typing import Any, Iterator
from unittest import mock

import pytest

from harness import server as harness_server
from harness.build import ROOT, clean_env, native, preloadable
from harness.faults import times
from harness.resp import Client, ReplyError
from harness.server import Server
from test_scripts import SCRIPTS

SIMULATOR = native("dlock_sim")
FOLDER = ROOT / "src/redis/scripts"
BASE = 1
JOBS = str(os.cpu_count() or 1)

pytestmark = [pytest.mark.timeout(1800), pytest.mark.no_tsan]


def simulate(*arguments: object, program: pathlib.Path = SIMULATOR, scripts: pathlib.Path = FOLDER) -> tuple[int, str]:
    command = ["nice", *(str(word) for word in (program, "--scripts", scripts, *arguments))]  # others have timers to meet
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def test_there_is_a_simulator() -> None:
    assert SIMULATOR.exists(), "install liblua5.1-0-dev and build again"


@pytest.mark.parametrize("count", times(80, 200, 1800, 40_000))
def test_seeds_hold(count: int) -> None:
    code, out = simulate("--seeds", f"{BASE}:{count}", "--jobs", JOBS)
    assert code == 0, out


WORLDS = ("rw", "semaphore", "permit", "fair", "turns")


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("count", times(30, 100, 1800, 20_000))
def test_seeds_of_other_kinds_hold(world: str, count: int) -> None:
    code, out = simulate("--world", world, "--seeds", f"{BASE}:{count}", "--jobs", JOBS, "--void-ok")
    assert code == 0, out


@pytest.mark.parametrize("world", ["mutex", *WORLDS])
@pytest.mark.parametrize("count", times(12, 60, 1800, 10_000))
def test_seeds_hold_on_servers_that_forget(world: str, count: int) -> None:
    """All memory is lost, between any two scripts and in restarts: tokens rise all the same, and holders are told in time."""
    code, out = simulate("--world", world, "--forgets", "--seeds", f"{BASE}:{count}", "--jobs", JOBS, "--void-ok")
    assert code == 0 and "memory-lost=0" not in out and "restart=0" not in out, out


def test_clocks_worse_than_allowed_are_caught() -> None:
    code, out = simulate("--seeds", f"{BASE}:2000", "--jobs", JOBS, "--void-ok", "--drift", 8)
    assert code == 1 and ("exclusion" in out or "deadline" in out), out


def test_the_same_seed_gives_the_same_run() -> None:
    for seed in (3, 7, 574):
        assert simulate("--verbose", seed) == simulate("--verbose", seed)
    for world in ("mutex", *WORLDS):
        summary = simulate("--world", world, "--seeds", f"{BASE}:4", "--void-ok")
        assert summary == simulate("--world", world, "--seeds", f"{BASE}:4", "--void-ok", "--jobs", 2)
        assert summary != simulate("--world", world, "--seeds", f"{BASE + 1}:4", "--void-ok")


def test_a_fault_that_never_struck_is_an_error() -> None:
    code, out = simulate("--seeds", f"{BASE}:1")
    assert code == 3 and "never struck" in out


# ---- the model of Redis, command by command, against a real server with a clock that the test sets


class FrozenServer(Server):
    """A server whose wall clock shows self.now."""

    def start(self) -> None:
        path = self.folder / "clock"
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.clock = mmap.mmap(file.fileno(), 8)
        self.set_clock(1_700_000_000_000_000)
        env = clean_env(LD_PRELOAD=preloadable("simclock.so"), SIM_CLOCK=str(path))
        with mock.patch.object(harness_server, "clean_env", lambda: env):
            super().start()
        # Background expiry of newer servers removes a key in the millisecond in which it ends; a read removes it one later.
        self.command("DEBUG", "SET-ACTIVE-EXPIRE", 0)

    def set_clock(self, now: int) -> None:
        self.clock[:8] = now.to_bytes(8, "little")


@dataclasses.dataclass
class Lock:
    name: str
    tagged: str

    @property
    def channel(self) -> str:
        return f"redisson_lock__channel:{self.tagged}"

    @property
    def keys(self) -> list[str]:
        own = [f"{what}:{self.tagged}" for what in ("dlock_queue", "dlock_waiters", "dlock_gate")]
        return [self.name, f"redisson_lock_token:{self.tagged}", *own]


LOCKS = [Lock("a", "{a}"), Lock("b{1}", "b{1}")]
OURS = [f"{i:08x}-0000-8000-8000-000000000000" for i in range(3)]
THEIRS = "ffffffff-0000-4000-8000-000000000000"
CHANNELS = [f"dlock_client:{uuid}" for uuid in OURS] + [lock.channel for lock in LOCKS]
KINDS = ["acquire"] * 8 + ["release"] * 5 + ["pass"] * 3 + ["renew", "inspect", "foreign", "foreign", "call", "clock", "clock", "subscribers"]

Step = tuple[Any, ...]


class Trace:
    """A random trace of steps: ("at", now), ("oom", on), ("subscribers", count, channel), ("run", script, keys, args), ("call", words)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_700_000_000_000_000
        self.subscribers = dict.fromkeys(CHANNELS, 0)

    def owner(self) -> str:
        return f"{self.random.choice(OURS)}:{self.random.randint(1, 3)}"

    def try_args(self) -> list[str]:
        draw = self.random
        numbers = [draw.choice([20, 1000, 30000]), draw.choice([1, 65]), draw.randrange(3), draw.randrange(2)]
        numbers += [draw.choice([30, 4000]), draw.choice([60000, 100]), draw.randint(1, 9)]
        return [self.owner(), *map(str, numbers)]

    def run(self, kind: str, lock: Lock) -> Step:
        if kind == "acquire":
            return "run", kind, lock.keys, self.try_args()
        if kind == "release":
            listening, rest = self.random.randrange(2), self.random.choice([0, 0, 20])
            return "run", kind, lock.keys, [self.owner(), lock.channel, str(listening), str(rest), "0", "1"]
        if kind == "pass":
            return "run", kind, lock.keys, [*self.try_args(), self.owner(), lock.channel, self.random.choice(["0", "20"])]
        if kind == "renew":
            return "run", kind, [each.name for each in LOCKS], [self.owner(), "500", self.owner(), "40"]
        return "run", kind, lock.keys, []

    def foreign(self, lock: Lock) -> list[Step]:
        choice = self.random.randrange(5)
        owner = f"{THEIRS}:{self.random.randint(1, 2)}"
        if choice == 0:
            return [("call", ["HINCRBY", lock.name, owner, "1"]), ("call", ["PEXPIRE", lock.name, "1000"])]
        if choice == 1:
            return [("call", ["DEL", lock.name]), ("call", ["PUBLISH", lock.channel, "0"])]
        if choice == 2:
            return [("call", ["INCR", lock.keys[1]])]
        if choice == 3:
            return [("run", "force", lock.keys, [lock.channel])]
        return [("call", ["HSET", lock.name, "mode", "read"]), ("run", "acquire", lock.keys, self.try_args())]

    def call(self) -> Step:
        key = self.random.choice([key for lock in LOCKS for key in lock.keys] + ["x"])
        small = str(self.random.choice([-5, 0, 1, 2, 7, 30]))
        soon = str(self.now // 1000 + int(small))
        words = self.random.choice([
            ["HKEYS", key], ["HVALS", key], ["HLEN", key], ["HEXISTS", key, "f"], ["HGET", key, "f"], ["HSET", key, "f", small],
            ["HSET", key, "f"], ["HDEL", key, "f", "g"], ["HINCRBY", key, "f", small], ["HINCRBY", key, "f", "1.5"],
            ["ZADD", key, small, "m"], ["ZADD", key, "NX", small, "m" + small], ["ZADD", key, "x", "m"], ["ZREM", key, "m"],
            ["ZCARD", key], ["ZCOUNT", key, "0", "+inf"], ["ZCOUNT", key, "(1", "7"], ["ZSCORE", key, "m"], ["ZRANGE", key, "0", "0"],
            ["ZRANGE", key, "0", "-1", "WITHSCORES"], ["ZRANGEBYSCORE", key, "-inf", "(5"],
            ["ZRANGEBYSCORE", key, "1", "+inf", "LIMIT", "1", small], ["ZRANGEBYSCORE", key, "(2", "9", "LIMIT", "0", "1"], ["ZRANGE", key, "-2", "5"], ["GET", key], ["SET", key, small],
            ["SET", key, "v", "PX", small], ["INCR", key], ["DEL", key, "x"], ["EXISTS", key, "x"], ["PTTL", key], ["PEXPIRETIME", key],
            ["RPUSH", key, "p" + small], ["RPUSH", key, "p", "q"], ["LLEN", key], ["LINDEX", key, "0"], ["LINDEX", key, "-1"],
            ["LRANGE", key, "0", "1"], ["LRANGE", key, "-2", "9"], ["LREM", key, "1", "p"], ["LREM", key, "0", "q"],
            ["LINSERT", key, "BEFORE", "p", small], ["LINSERT", key, "AFTER", "q", "z"], ["LINSERT", key, "x", "q", "z"],
            ["TYPE", key], ["PERSIST", key], ["STRLEN", key], ["INCRBY", key, small], ["DECRBY", key, small], ["INCRBY", key, "x"],
            ["HMGET", key, "f", "g"], ["HGETALL", key], ["ZREMRANGEBYSCORE", key, "-inf", "(5"], ["ZREMRANGEBYSCORE", key, "1", "2"],
            ["PEXPIRE", key, small], ["PEXPIRE", key, small, "GT"], ["PEXPIRE", key, small, "x"],
            ["PEXPIREAT", key, soon], ["PEXPIREAT", key, soon, "GT"], ["PEXPIREAT", key, small, "GT"], ["TIME"], ["PUBSUB", "NUMSUB", *CHANNELS], ["PTTL"], ["NOSUCH", key],
        ])  # fmt: skip
        return "call", words

    def steps(self, count: int) -> Iterator[Step]:
        for _ in range(count):
            kind = self.random.choice(KINDS)
            if kind == "clock":
                self.now += self.random.choice([0, 1, 500, 1000, 19_000, 21_000, 26_000, 40_000, 1_000_000, 5_000_000])
                yield "at", self.now
                if self.random.random() < 0.1:
                    yield "oom", self.random.randrange(2)
            elif kind == "subscribers":
                channel = self.random.choice(CHANNELS)
                self.subscribers[channel] = self.random.randrange(3)
                yield "subscribers", self.subscribers[channel], channel
            elif kind == "foreign":
                yield from self.foreign(self.random.choice(LOCKS))
            elif kind == "call":
                yield self.call()
            else:
                yield self.run(kind, self.random.choice(LOCKS))


def shown(reply: Any) -> str:
    """A reply as sim_replay.c writes it; of errors only the first word, the part that programs may evaluate."""
    if isinstance(reply, ReplyError):
        return "-" + str(reply).split()[0]
    if reply is None:
        return "_"
    if isinstance(reply, int):
        return f":{reply}"
    if isinstance(reply, str):
        return f"+{reply}"
    if isinstance(reply, bytes):
        return f"${reply.hex()}"
    return "[" + " ".join(map(shown, reply)) + "]"


class Real:
    """A trace on a real server."""

    def __init__(self, server: FrozenServer) -> None:
        self.server = server
        self.redis = server.client()
        self.listeners: dict[str, list[Client]] = {channel: [] for channel in CHANNELS}
        self.received: list[tuple[str, str]] = []

    def drain(self, channel: str, client: Client) -> None:
        client.send("UNSUBSCRIBE", channel)
        while (push := client.read())[0] != b"unsubscribe":
            self.received.append((push[1].hex(), push[2].hex()))

    def set_ears(self, count: int, channel: str) -> None:
        clients = self.listeners[channel]
        while len(clients) > count:
            client = clients.pop()
            if clients:
                client.send("UNSUBSCRIBE", channel)
                while client.read()[0] != b"unsubscribe":
                    pass
            else:
                self.drain(channel, client)
            client.close()
        while len(clients) < count:
            clients.append(self.server.client())
            clients[-1].subscribe(channel)

    def step(self, step: Step) -> str | None:
        kind, *rest = step
        if kind == "at":
            self.server.set_clock(rest[0])
        elif kind == "oom":
            self.redis.command("CONFIG", "SET", "maxmemory", rest[0])
        elif kind == "subscribers":
            self.set_ears(*rest)
        elif kind == "run":
            script, keys, args = rest
            return shown(self.redis.pipeline(["EVAL", SCRIPTS[script], len(keys), *keys, *args])[0])
        else:
            text = "return redis.pcall(unpack(ARGV))"
            return shown(self.redis.pipeline(["EVAL", text, 0, *rest[0]])[0])
        return None

    def finish(self) -> None:
        self.redis.command("CONFIG", "SET", "maxmemory", 0)
        for channel in CHANNELS:
            self.set_ears(0, channel)
        self.redis.close()


def line_of(step: Step) -> str:
    kind, *rest = step

    def words(texts: list[str]) -> str:
        return "".join(f" .{text.encode().hex()}" for text in texts)

    if kind == "run":
        return f"run {rest[0]} {len(rest[1])}" + words(rest[1] + rest[2])
    if kind == "call":
        return "call" + words(rest[0])
    if kind == "subscribers":
        return f"subscribers {rest[0]}" + words([rest[1]])
    return f"{kind} {rest[0]}"


def model(steps: list[Step]) -> list[str]:
    command = [str(SIMULATOR), "--scripts", str(FOLDER), "--replay"]
    text = "".join(line_of(step) + "\n" for step in steps)
    done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout.splitlines()


def compare(server: FrozenServer, seed: int, count: int) -> int:
    """Returns how many replies and messages were equal."""
    start = 1_700_000_000_000_000
    server.set_clock(start)
    server.command("FLUSHALL")
    steps: list[Step] = [("at", start), *Trace(seed).steps(count)]
    real = Real(server)
    expected = [reply for step in steps if (reply := real.step(step)) is not None]
    real.finish()
    spoken = [step for step in steps if step[0] in ("run", "call")]
    told: list[tuple[str, str]] = []
    subscribers = {channel: 0 for channel in CHANNELS}
    lines = iter(model(steps))
    number = 0
    for step in steps:
        if step[0] == "subscribers":
            subscribers[step[2]] = step[1]
        if step[0] not in ("run", "call"):
            continue
        reply, *messages = next(lines).split("\t")
        if reply.startswith("-"):
            reply = reply.split()[0]
        assert reply == expected[number], f"seed {seed}, step {number}: {step}"
        number += 1
        pairs = [(channel, text) for channel, text in (message.split(" ") for message in messages)]
        told += [pair for pair in pairs if subscribers.get(bytes.fromhex(pair[0]).decode())]
    assert number == len(spoken) and sorted(told) == sorted(real.received), f"seed {seed}: messages"
    return number + len(told)


@pytest.fixture(scope="module")
def frozen_server() -> Iterator[FrozenServer]:
    with FrozenServer("--maxmemory-policy", "noeviction", "--hz", "10") as server:
        yield server


@pytest.mark.house
@pytest.mark.parametrize("seed", range(10))
def test_model_answers_as_redis_does(frozen_server: FrozenServer, seed: int) -> None:
    assert compare(frozen_server, seed, 1500) > 1000


@pytest.mark.house
@pytest.mark.full
def test_model_answers_as_redis_does_at_length(frozen_server: FrozenServer) -> None:
    assert sum(compare(frozen_server, 1000 + seed, 5000) for seed in range(12)) > 45_000


@pytest.mark.house
def test_clock_stands_still(frozen_server: FrozenServer) -> None:
    frozen_server.set_clock(1_800_000_000_000_001)
    assert frozen_server.command("TIME") == [b"1800000000", b"1"]
