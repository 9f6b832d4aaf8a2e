"""How much work a script is for the server: the commands that it executes, and the elements that these touch.

    meter = Meter(server)
    words = meter.plan(lambda redis: Wire(redis, "order").acquire(a))   # the EVALSHA that a stepper would send
    cost = meter.cost(words)                        # cost.reply, cost.commands, cost.work
    meter.micros(words)                             # the server's time for it, the median of several runs

MONITOR shows the commands of a script with their arguments. They are replayed on a copy of the script's keys, in another
database of the same server, and their replies tell how many elements each one touches. A command that takes O(1) or
O(log n) counts as 1. The work is the sum.
"""
from __future__ import annotations

import ast
import dataclasses
import re
from typing import Any, Callable

from ..resp import Client, ReplyError
from ..server import Server
from .scripts import SCRIPTS, SHA, commands, teach

LONGEST, LASTS = 10_000_000, 10_000_000  # of a quarantine, in ms
MARKER = b"dlock_memory"
NODE = 100  # a list keeps its elements in nodes of more than that, and skips whole nodes
TOMBS = b":tombstones"  # a key that the scripts of the fair lock derive from another
STEM = {sha: stem for stem, sha in SHA.items()}
BY_TEXT = {text: SHA[stem] for stem, text in SCRIPTS.items()}

# Commands that take O(1) or O(log n), whatever they are called with. What UNLINK frees is freed by another thread.
CONSTANT = set(
    "TIME INFO TYPE GET SET INCRBY DECRBY STRLEN PTTL PEXPIRE PEXPIREAT PEXPIRETIME PERSIST HGET HEXISTS HLEN HINCRBY LLEN RPUSH ZCARD"
    " ZSCORE ZCOUNT PUBSUB UNLINK".split()
)
ARGUMENTS = {"EXISTS": 0, "HDEL": 1, "ZREM": 1, "HSET": 1, "ZADD": 1}  # arguments before those that are touched one by one
REPLY = set(
    "HKEYS HVALS HMGET MGET ZRANGE ZRANGEBYSCORE LRANGE ZREMRANGEBYSCORE ZREMRANGEBYRANK HRANDFIELD HGETALL HSCAN".split()
)


@dataclasses.dataclass
class Cost:
    reply: Any
    commands: int
    work: int
    by_command: dict[str, int]


class Planned(Exception):
    """Carries the words of a script call instead of sending it."""


class Planner(Client):
    """A connection for steppers. While planning, a script call raises Planned. Otherwise it is sent by its hash."""

    planning = False

    def command(self, *words: Any) -> Any:
        if words[0] == "EVAL" and words[1] in BY_TEXT:
            words = ("EVALSHA", BY_TEXT[words[1]], *words[2:])
        if self.planning and words[0] == "EVALSHA":
            raise Planned(words)
        return super().command(*words)


def unquoted(line: str) -> list[bytes]:
    """The words of a line of MONITOR."""
    return [ast.literal_eval(f'b"{word}"') for word in re.findall(r'"((?:[^"\\]|\\.)*)"', line.split("]", 1)[1])]


class Meter:
    def __init__(self, server: Server) -> None:
        self.server = server
        teach(server)
        self.redis, self.copy = Planner(path=server.path, timeout=60), server.client(60)
        self.copy.command("SELECT", 1)
        self.kept: list[bytes] = []

    def close(self) -> None:
        self.redis.close()
        self.copy.close()

    def plan(self, call: Callable[[Client], Any]) -> tuple[Any, ...]:
        self.redis.planning = True
        try:
            call(self.redis)
        except Planned as planned:
            words: tuple[Any, ...] = planned.args[0]
            return words
        finally:
            self.redis.planning = False
        raise AssertionError("it calls no script")

    def _calls(self) -> dict[str, int]:
        return {name: count for name, count in commands(self.redis).items() if name not in ("evalsha", "info", "monitor", "echo")}

    def _keep(self, words: tuple[Any, ...]) -> None:
        """Copies the keys of the script into the other database."""
        self.copy.command("FLUSHDB")
        self.kept = touched_by(words)
        self.redis.pipeline(*(["COPY", key, key, "DB", 1] for key in self.kept))

    def _restore(self) -> None:
        self.redis.command("DEL", *self.kept)
        self.copy.pipeline(*(["COPY", key, key, "DB", 0] for key in self.kept))

    def provide(self) -> None:
        """The server knows quarantine_ms, and no quarantine is on."""
        self.redis.command("EVAL", SCRIPTS["provision"], 1, MARKER, LONGEST)

    def cost(self, words: tuple[Any, ...]) -> Cost:
        """Calls the script once."""
        self._keep(words)
        before = self._calls()
        with self.server.client(60) as monitor:
            monitor.command("MONITOR")
            reply = self.redis.command(*words)
            self.redis.command("ECHO", "the end")
            lines: list[str] = []
            while '"the end"' not in (line := monitor.read()):
                lines += [line] if re.match(r"\S+ \[\d+ lua\]", line) else []
        seen = [unquoted(line) for line in lines]
        work: dict[str, int] = {}
        executed = sum(self._calls().values()) - sum(before.values())
        assert executed == sum(command[0] != b"INFO" for command in seen), "MONITOR does not show all"
        for command in seen:
            name = command[0].decode()
            work[name] = work.get(name, 0) + max(1, self._touched(name, command[1:]))
        return Cost(reply, len(seen), sum(work.values()), work)

    def _touched(self, name: str, args: list[bytes]) -> int:
        """How many elements a command touches. It is executed on the copy."""
        if name in ("PUBLISH", "SPUBLISH"):
            return int(self.redis.command("PUBSUB", "NUMSUB", args[0])[1])
        assert name in CONSTANT or not args or set(args) & set(self.kept), f"{name} {args[0]!r}: a key that was not copied"
        if name == "DEL":
            size = sum(self._size(key) for key in args)
        elif name in ("LREM", "LINSERT", "LINDEX"):
            size = self._place(name, args)
        elif name == "LTRIM":
            size = int(args[1])
        else:
            size = 1
        reply = self.copy.pipeline([name, *args])[0]
        if isinstance(reply, ReplyError) or name in CONSTANT or name in ("DEL", "LREM", "LINSERT", "LINDEX", "LTRIM"):
            return size
        if name in ARGUMENTS:
            return (len(args) - ARGUMENTS[name]) // (2 if name in ("HSET", "ZADD") else 1)
        assert name in REPLY, f"{name}: what does it touch?"
        if isinstance(reply, int):
            return reply
        if name == "HSCAN":
            reply = reply[1]
        pairs = name in ("HGETALL", "HSCAN") or args[-1].upper() in (b"WITHSCORES", b"WITHVALUES")
        skipped = int(args[1]) // NODE if name == "LRANGE" else 0
        return skipped + len(reply) // (2 if pairs else 1)

    def _size(self, key: bytes) -> int:
        count = {"hash": "HLEN", "list": "LLEN", "zset": "ZCARD"}.get(self.copy.command("TYPE", key))
        return self.copy.command(count, key) if count else 1

    def _place(self, name: str, args: list[bytes]) -> int:
        """How many elements of the list are passed."""
        count = self.copy.command("LLEN", args[0])
        if name == "LINDEX":
            return min(int(args[1]) % max(count, 1), -int(args[1]) % max(count, 1)) // (10 * NODE)  # nodes are passed one by one
        pivot = args[2]
        place = self.copy.command("LPOS", args[0], pivot)
        if place is None:
            return int(count)
        return int(count - place if name == "LREM" and int(args[1]) < 0 else place + 1)

    def micros(self, words: tuple[Any, ...], times: int = 15) -> int:
        """The server's time for the script, in microseconds: the fastest of several runs, as other programs use the machine, too. Before
        each run its keys are put back, and the same script runs on other keys: a server in use has it in its caches.
        """
        self._keep(words)
        other = [*words[:3], *(b"other:" + key for key in self.kept[: int(words[2])]), *words[3 + int(words[2]) :]]
        taken = []
        for _ in range(times):
            self._restore()
            self.redis.pipeline(other, other, other)
            before = self._usec()
            self.redis.command(*words)
            taken.append(self._usec() - before)
        return min(taken)

    def _usec(self) -> int:
        found = re.search(rb"cmdstat_evalsha:calls=\d+,usec=(\d+)", self.redis.command("INFO", "commandstats"))
        return int(found[1]) if found else 0


def touched_by(words: tuple[Any, ...]) -> list[bytes]:
    """The keys of a script call, and those that the script may derive from them."""
    keys = [key if isinstance(key, bytes) else str(key).encode() for key in words[3 : 3 + int(words[2])]]
    return keys + [key + TOMBS for key in keys]


def stem_of(words: tuple[Any, ...]) -> str:
    return STEM[words[1]]


def quarantined(words: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The same call with the check of quarantine_ms, where the script has such a form."""
    stem = "quarantine_" + stem_of(words)  # after provide() the server remembers everything
    if stem not in SHA:
        return None
    return ("EVALSHA", SHA[stem], int(words[2]) + 1, *words[3 : 3 + int(words[2])], MARKER, *words[3 + int(words[2]) :], LONGEST, LASTS)
