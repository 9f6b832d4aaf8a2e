"""Fixtures for tests on etcd.

    new_etcd        new_etcd(3): private nodes
"""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.etcd import Etcd


@pytest.fixture
def new_etcd() -> Iterator[Callable[..., Etcd]]:
    made: list[Etcd] = []

    def make(*options: Any, **more: Any) -> Etcd:
        made.append(Etcd(*options, **more))
        return made[-1]

    yield make
    for one in made:
        one.stop()
