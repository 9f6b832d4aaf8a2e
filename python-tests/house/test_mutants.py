"""The numbers of seeded defects."""
from __future__ import annotations

from typing import Any, Iterator

import pytest

import mutants

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
