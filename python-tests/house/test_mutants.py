"""The numbers of seeded defects."""
from __future__ import annotations

from typing import Any, Iterator

import pytest

import mutants
from harness.build import ROOT

pytestmark = pytest.mark.house


def defects(of: Any) -> Iterator[mutants.Mutant]:
    if isinstance(of, mutants.Mutant):
        yield of
    elif isinstance(of, (tuple, list)):
        for one in of:
            yield from defects(one)


def test_a_number_is_one_defect() -> None:
    known: dict[int, mutants.Mutant] = {}
    for name, value in vars(mutants).items():
        for one in defects(value):
            assert known.setdefault(one.number, one).what == one.what, f"{name}: {one.number}"


def test_every_edit_fits() -> None:
    """What a defect changes is there, once."""
    found = {one.number: one for value in vars(mutants).values() for one in defects(value)}
    assert len(found) > 250
    for one in found.values():
        for name, old, _ in one.edits:
            assert (ROOT / "src" / name).read_text().count(old) == 1, f"{one.number}: {name}: {old}"
