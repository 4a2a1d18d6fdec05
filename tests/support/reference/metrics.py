"""What Prometheus finds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry

from api_client.survey import Survey
from tests.support.reference.markup import code, page, table
from worker.telemetry.gauges import StoreGauges
from worker.telemetry.metrics import MetricsObserver

LEAD = (
    "With `STEPKEEPER_METRICS_PORT`, for both pools. Counters and histograms are of one worker: "
    "add them up. Gauges are of the whole store, the same from every worker: take the largest."
)


def metrics() -> str:
    """The page."""
    registry = CollectorRegistry()
    MetricsObserver(registry)
    counted = "## Counters and histograms\n\n" + _table(registry.collect())
    seen = "## Gauges\n\n" + _table(StoreGauges(Survey).collect())
    return page("Metrics", LEAD, (counted, seen))


def _table(families: Iterable[Any]) -> str:
    rows = [(code(_name(each)), each.type, each.documentation) for each in families]
    return table(("metric", "kind", "what it counts or shows"), sorted(rows))


def _name(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)
