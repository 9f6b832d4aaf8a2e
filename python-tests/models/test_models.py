"""The models of models/, searched completely by spin: correct variants have no error, broken ones have the intended error.

The head of each model explains it and its variants. A variant is a list of preprocessor defines.
"""
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

MODELS = pathlib.Path(__file__).resolve().parent
DEPTH = 2_000_000
MEGABYTES = 3000

TWO_HOLDERS = "assertion violated (believers<=1)"
STALE_WRITE = "assertion violated (client[_pid].grant>=seen_grant)"
SAME_TOKEN = "assertion violated  !((reported&(1<<client[_pid].highest)))"
OLD_TOKEN = "assertion violated (client[_pid].highest>client[_pid].before)"
ASLEEP = "invalid end state"
STARVED = "acceptance cycle"

RIGHT = [
    ("lease", ""),
    ("lease", "PAUSE"),
    ("quorum", ""),
    ("quorum", "ALL LIES=2"),
    ("failover", "COPIES=2"),
    ("failover", "COPIES=2 QUARANTINE FORGETS SKEW"),
    ("failover", "COPIES=0 QUARANTINE CRASH_ONLY"),
    ("waiting", ""),
    ("waiting", "FOREVER"),
    ("waiting", "FOREVER WAITERS=3 BREAKS=0 FOREIGN_TURNS=0"),
    ("quorum_token", "CLIENTS=2"),
]

BROKEN = [
    ("lease", "REPLY_STAMP", TWO_HOLDERS),
    ("lease", "NO_GUARD", TWO_HOLDERS),
    ("lease", "RELEASE_ANY", TWO_HOLDERS),
    ("lease", "TRUST", TWO_HOLDERS),
    ("lease", "PAUSE BELIEF", TWO_HOLDERS),
    ("lease", "PAUSE UNFENCED", STALE_WRITE),
    ("lease", "PAUSE TOKEN_LOST", STALE_WRITE),
    ("quorum", "NO_QUARANTINE", TWO_HOLDERS),
    ("quorum", "LIES=1", TWO_HOLDERS),
    ("quorum", "ALL LIES=3", TWO_HOLDERS),
    ("quorum", "MINORITY", TWO_HOLDERS),
    ("quorum", "REPLY_STAMP", TWO_HOLDERS),
    ("quorum", "NO_GUARD", TWO_HOLDERS),
    ("failover", "COPIES=0", TWO_HOLDERS),
    ("failover", "COPIES=1", TWO_HOLDERS),
    ("failover", "COPIES=2 FORGETS", TWO_HOLDERS),
    ("failover", "COPIES=2 SKEW", TWO_HOLDERS),
    ("failover", "COPIES=2 LEFT_COUNT", TWO_HOLDERS),
    ("failover", "COPIES=0 QUARANTINE", TWO_HOLDERS),
    ("failover", "COPIES=2 QUARANTINE FORGETS NO_GUARD", TWO_HOLDERS),
    ("waiting", "SLEEP_UNSUBSCRIBED", ASLEEP),
    ("waiting", "NO_PROBE", ASLEEP),
    ("waiting", "NO_TIMER", ASLEEP),
    ("waiting", "FOREIGN_LATE", ASLEEP),
    ("waiting", "CANCEL_KEEPS", ASLEEP),
    ("waiting", "FOREVER WAITERS=3 LAST_FIRST", STARVED),
    ("quorum_token", "ONE_ROUND", SAME_TOKEN),
    ("quorum_token", "BLIND", SAME_TOKEN),
    ("quorum_token", "FLOOR_OF_ONE", OLD_TOKEN),
    ("quorum_token", "FORGETS", OLD_TOKEN),
]

pytestmark = [pytest.mark.full, pytest.mark.house, pytest.mark.timeout(900)]


def run(folder: pathlib.Path, *words: str) -> str:
    done = subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def search(folder: pathlib.Path, model: str, variant: str, optimise: str) -> str:
    """The verdict of spin's verifier on a variant. It exits with 0 whatever it has found. To optimise pays in a long search only."""
    assert shutil.which("spin"), "spin is missing: apt-get install spin, which ./dev test --full does"
    defines = [f"-D{word}" for word in variant.split()]
    forever = "FOREVER" in variant
    run(folder, "spin", "-a", *defines, str(MODELS / f"{model}.pml"))
    kind = ["-DNFAIR=3"] if forever else ["-DSAFETY"]
    run(folder, "gcc", optimise, "-w", *kind, "-DNOREDUCE", f"-DMEMLIM={MEGABYTES}", "-DVECTORSZ=2048", "-o", "pan", "pan.c")
    how = ["-a", "-f"] if forever else [] if model == "waiting" else ["-E"]  # only waiting.pml checks states without progress
    return run(folder, "./pan", f"-m{DEPTH}", "-w24", *how)


@pytest.mark.parametrize("model, variant", RIGHT, ids=[" ".join(one).strip() for one in RIGHT])
def test_right(model: str, variant: str, tmp_path: pathlib.Path) -> None:
    said = search(tmp_path, model, variant, "-O2")
    assert re.search(r"errors: 0$", said, re.M), said
    assert "search depth too small" not in said and "Search not completed" not in said, said
    states = int(float(re.search(r"([\d.e+]+) states, stored", said)[1]))
    print(f"{model} {variant}: {states:,} states")
    assert states > 100_000, "it does next to nothing"


@pytest.mark.parametrize("model, variant, error", BROKEN, ids=[" ".join(one[:2]) for one in BROKEN])
def test_broken(model: str, variant: str, error: str, tmp_path: pathlib.Path) -> None:
    said = search(tmp_path, model, variant, "-O0")
    assert re.search(r"errors: 1$", said, re.M), said
    assert f"pan:1: {error} (at depth" in said, said
    assert "search depth too small" not in said, said
