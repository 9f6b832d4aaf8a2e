"""Fixtures for tests on ZooKeeper.

    zookeeper            one server for a whole file, emptied before each test that uses it
    new_zookeeper        new_zookeeper(3): private servers
"""
from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest

from harness.zookeeper import Zookeeper


@pytest.fixture(scope="module")
def _zookeeper() -> Iterator[Zookeeper]:
    with Zookeeper() as zookeeper:
        yield zookeeper


@pytest.fixture
def zookeeper(_zookeeper: Zookeeper) -> Zookeeper:
    _zookeeper.clear()
    return _zookeeper


@pytest.fixture
def new_zookeeper() -> Iterator[Callable[..., Zookeeper]]:
    made: list[Zookeeper] = []

    def make(*options: Any, **more: Any) -> Zookeeper:
        made.append(Zookeeper(*options, **more))
        return made[-1]

    yield make
    for one in made:
        one.stop()
