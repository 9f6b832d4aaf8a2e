"""Tests of kinds run on Redis; those that ask for a store run on locks in memory, too."""
from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, Callable

import pytest

from harness.agent import Agent

numbers = itertools.count()


@pytest.fixture(params=["redis", "memory"])
def store(request: pytest.FixtureRequest) -> Any:
    """What has a URL under which clients meet: in memory only those of one process."""
    if request.param == "redis":
        return request.getfixturevalue("redis_server")
    return SimpleNamespace(url=f"memory://kinds-{next(numbers)}")


@pytest.fixture
def beside(store: Any, agent: Agent, new_agent: Callable[..., Agent]) -> Agent:
    """Where another client of the store is: in another process, if clients meet there."""
    return agent if store.url.startswith("memory:") else new_agent()
