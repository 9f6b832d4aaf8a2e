"""Fixtures of tests of servers. Files whose clusters are of another make have fixtures of their own by these names."""
from __future__ import annotations

from typing import Iterator

import pytest

from harness.cluster import Cluster


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with Cluster(primaries=2, replicas=0, timeout_ms=15_000) as up:
        yield up


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    _cluster.until_settled()
    _cluster.flush()
    return _cluster
