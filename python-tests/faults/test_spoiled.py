"""Real servers whose answers are changed on their way (harness/spoil.py): any calls end, nothing crashes, memory stays bounded. Under
AddressSanitizer this says most: ./dev soak --proxy does it for hours.
"""
from __future__ import annotations

import random

import pytest

from harness.faults import always
from harness.spoil import SETUPS, WAYS, Spoiling, spoiled
from harness.tally import tell
from spoiled import load


@pytest.mark.parametrize("way", sorted(WAYS))
def test_each_way_changes_something(way: str) -> None:
    spoiling = Spoiling([], "down")
    spoiling.begin(1, 1)
    spoiling.before.append(b"before")
    data = random.Random(2).randbytes(50) + b"17"
    assert sum(WAYS[way](spoiling, data) != data for _ in range(20)) > 10


@pytest.mark.timeout(300)
@pytest.mark.parametrize("setup", always("single", full=[name for name in SETUPS if name != "single"]))
def test_any_calls_over_changed_answers(setup: str) -> None:
    runs = 3
    with spoiled(setup, seed=1, every=20) as servers:
        for seed in range(1, runs + 1):
            code, said = load(servers.url, seed)
            assert code == 0, said
        changes, answers = servers.changes.total(), servers.answers
    assert changes > 0
    tell(done=runs, fired=changes)
    print(f"{setup}: {changes} of {answers} answers changed")
