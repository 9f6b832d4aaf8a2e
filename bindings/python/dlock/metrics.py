"""The counters and histograms of clients, for prometheus_client (0.16 or newer):

    import dlock.metrics
    from prometheus_client import REGISTRY

    REGISTRY.register(dlock.metrics.Collector(client))

Several clients of one process need names, which become the label "client": Collector(orders=one, jobs=other).
"""
from __future__ import annotations

from typing import Iterator, Optional

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector as Base

from . import _abi, _errors
from .client import Base as AnyClient

__all__ = ["Collector"]


class Collector(Base):
    """Reads the clients when it is asked. A closed client keeps its last numbers; in a forked child it has none."""

    def __init__(self, client: Optional[AnyClient] = None, /, **named: AnyClient) -> None:
        self._clients: list[tuple[dict[str, str], AnyClient]] = [({}, client)] if client is not None else []
        self._clients += [({"client": name}, other) for name, other in named.items()]

    def describe(self) -> list[Metric]:
        """Nothing: registering a collector does not read the clients."""
        return []

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for labels, client in self._clients:
            try:
                text = client.metrics()
            except _errors.DlockError as error:
                if error.code != _abi.DLOCK_CLOSED:
                    raise
                continue
            for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
                first = Metric(family.name, family.documentation, family.type, family.unit)
                metric = found.setdefault(family.name, first)
                for sample in family.samples:
                    metric.add_sample(sample.name, {**labels, **sample.labels}, sample.value)
        yield from found.values()
