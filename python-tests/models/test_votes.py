"""The votes of engine/votes.c in a simulated world (native/sim/votes.c), the defects that it must find, and the scripts of a quorum.

Row G-09 without servers: 10^6 grants in ./dev soak, 200,000 in the full run, 12,000 in every run.
"""
from __future__ import annotations

import pathlib
import subprocess
import time
from typing import Any

import pytest

import mutants
from harness.build import ROOT, native
from harness.faults import times
from harness.steps.scripts import SCRIPTS
from harness.server import Server

FENCE = "redisson_lock_token:{lock}"


def run(program: pathlib.Path, *arguments: int) -> tuple[int, str]:
    done = subprocess.run(["nice", str(program), *map(str, arguments)], text=True, stdout=subprocess.PIPE, timeout=1500)
    return done.returncode, done.stdout


@pytest.mark.no_tsan
@pytest.mark.parametrize("seeds, grants", times((30, 400), (60, 1000), 1500, (1000, 1000)))
def test_g09_tokens_and_holders(seeds: int, grants: int) -> None:
    code, said = run(native("votes"), 1, seeds, grants)
    assert code == 0, said
    words = said.split()
    counted = dict(zip(words[::2], map(int, words[1::2])))
    assert counted["grants"] == seeds * grants
    assert min(counted[fault] for fault in ("cut", "lost", "doubled", "forgot", "splits", "ordered", "topped", "losses")) > 0


@pytest.mark.parametrize("mutant", mutants.VOTES, ids=lambda mutant: f"{mutant.number}: {mutant.what}")
def test_mutant(mutant: mutants.Mutant, tmp_path: pathlib.Path) -> None:
    folder = mutants.copy_of(ROOT, tmp_path, mutant)
    files = [ROOT / "python-tests/native/sim/votes.c", folder / "src/engine/votes.c", folder / "src/engine/lease.c"]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{folder / 'src'}", f"-I{folder / 'abi'}", *files, "-o", tmp_path / "votes"], check=True)
    code, said = run(tmp_path / "votes", 1, 40, 500)
    assert code == 1 and said


# ---- the scripts


def script(server: Server, name: str, keys: list[str], *arguments: Any) -> Any:
    return server.command("EVAL", SCRIPTS[name], len(keys), *keys, *arguments)


def test_floor(redis_server: Server) -> None:
    redis = redis_server.command
    redis("HSET", "lock", "me", "1")
    redis("SET", FENCE, "100")
    assert script(redis_server, "floor", ["lock", FENCE], "me", 100, 150, 60_000) == 1
    assert redis("GET", FENCE) == b"150" and redis("PTTL", FENCE) == -1  # unchanged
    assert script(redis_server, "floor", ["lock", FENCE], "me", 100, 150, 60_000) == 1  # repeated: still 1
    assert script(redis_server, "floor", ["lock", FENCE], "me", 100, 160, 60_000) == 0  # somebody has reserved since
    assert script(redis_server, "floor", ["lock", FENCE], "me", 150, 140, 60_000) == 0  # never lower
    assert script(redis_server, "floor", ["lock", FENCE], "you", 150, 170, 60_000) == 0
    redis("SET", FENCE, "150", "PX", 1000)
    assert script(redis_server, "floor", ["lock", FENCE], "me", 150, 170, 60_000) == 1 and redis("PTTL", FENCE) > 50_000
    redis("DEL", "lock")
    assert script(redis_server, "floor", ["lock", FENCE], "me", 170, 180, 60_000) == 0 and redis("GET", FENCE) == b"170"
    redis("SET", "lock", "text")
    assert script(redis_server, "floor", ["lock", FENCE], "me", 170, 180, 60_000) == 0


def test_again(redis_server: Server) -> None:
    redis = redis_server.command
    keys = ["lock", FENCE, "mine", "fence of mine", "theirs", "fence of theirs", "text", "fence of text"]
    redis("HSET", "mine", "me", "1")
    redis("HSET", "theirs", "you", "1")
    redis("SET", "text", "x")
    row = ("me", 5000, 77)
    assert script(redis_server, "again", keys, *row, *row, *row, *row) == [1, 1, 0, 0]
    assert redis("HKEYS", "lock") == [b"me"] and 0 < redis("PTTL", "lock") <= 5000
    assert redis("GET", FENCE) == b"77" and redis("PTTL", FENCE) > 5000
    assert redis("PTTL", "mine") == -1 and redis("EXISTS", "fence of theirs", "fence of mine") == 0
    redis("DEL", "lock")
    redis("SET", FENCE, "99")
    assert script(redis_server, "again", keys[:2], *row) == [1] and redis("GET", FENCE) == b"99"


def test_again_of_one_that_cannot_be(redis_server: Server) -> None:
    """A counter of another type costs its own lock the hold, and no other lock."""
    redis = redis_server.command
    redis("RPUSH", "fence of bad", "not a counter")
    keys = [key for name in ("one", "bad", "two") for key in (name, f"fence of {name}")]
    assert script(redis_server, "again", keys, *("me", 5000, 77) * 3) == [1, 0, 1]
    assert redis("EXISTS", "one", "two") == 2 and redis("EXISTS", "bad") == 0


def test_join(redis_server: Server) -> None:
    redis = redis_server.command
    run_id, sharded, view, clock, up = script(redis_server, "join", ["dlock_quorum"], "3 of 5", 60_000)
    assert len(run_id) == 40 and sharded == 0 and view == b"3 of 5" and up >= 0
    *answer, later, _ = script(redis_server, "join", ["dlock_quorum"], "2 of 3", 90_000)
    assert answer == [run_id, 0, b"3 of 5"]
    seconds, micros = (int(part) for part in redis("TIME"))
    assert 0 < clock < later < seconds * 1_000_000 + micros
    assert redis("PTTL", "dlock_quorum") <= 60_000
    script(redis_server, "join", ["dlock_quorum"], "3 of 5", 90_000)
    assert redis("PTTL", "dlock_quorum") > 80_000
    script(redis_server, "join", ["dlock_quorum"], "3 of 5", 1000)
    assert redis("PTTL", "dlock_quorum") > 80_000


def test_join_compares_members(redis_server: Server) -> None:
    """A quorum of 3 with a name: what this server accepts of its two others. Lines: run id, seconds since its start, run id before."""

    def fits(*members: str) -> bool:
        view = script(redis_server, "join", ["dlock_quorum"], "2 of 3: q", 60_000, 2, "".join(line + "\n" for line in members))[2]
        return bool(view == b"2 of 3: q")

    assert fits("a 100 -") and fits("a 100 -", "b 100 -") and fits("b 100 -", "a 100 -")
    assert not fits("a 100 -", "c 100 -"), "b and c live at a time"
    assert not fits("c 100 -", "d 100 -") and not fits("a 100 -", "c 0 -")
    assert fits("a 100 -", "b 100 -"), "those that it knows are welcome"
    assert fits("a 100 -", "e 0 b"), "the client has seen that e has replaced b"
    assert not fits("a 100 -", "b 100 -"), "who still knows b is told"
    redis_server.command("SET", "dlock_quorum", f"2 of 3: q\na {int(time.time() * 1000) - 5000}\nb {int(time.time() * 1000) - 5000}")
    assert fits("a 100 -", "f 1 -"), "f was started when b had not been seen for seconds"
    redis_server.command("SET", "dlock_quorum", f"2 of 3: q\ng {int(time.time() * 1000) - 61_000}\nh {int(time.time() * 1000) - 61_000}")
    assert fits("a 100 -", "b 100 -"), "what was not seen for so long is forgotten"
