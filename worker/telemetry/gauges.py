"""What stands in the store, measured when Prometheus asks: jobs, pauses, what is overdue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from api_client.errors import StoreUnavailable
from api_client.survey import Survey
from worker.flow.base import Limit, Use

Limits = Mapping[str, tuple[Limit, Use]]

KEEP_S = 5.0
"""Seconds for which an answer holds: several scrapers don't multiply the work."""


class StoreGauges(Collector):
    """Gauges of the whole store: every worker shows the same, so take ``max`` over workers.

    Args:
        look: looks at the store.
        clock: monotonic seconds.
        limits: the limits of models and their use, by model key.
    """

    def __init__(
        self,
        look: Callable[[], Survey],
        clock: Callable[[], float] = time.monotonic,
        limits: Callable[[], Limits] = dict,
    ) -> None:
        self._look = look
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._sight: tuple[Survey, Limits] | None = None
        self._until = float("-inf")

    def describe(self) -> Iterable[Any]:
        """Nothing: registering must not look at the store."""
        return ()

    def collect(self) -> Iterator[Any]:
        """The gauges; without a store only that it is away."""
        with self._lock:
            if self._clock() >= self._until:
                self._sight = self._seen()
                self._until = self._clock() + KEEP_S
            sight = self._sight
        up = "Whether the store answered when it was last looked at."
        yield GaugeMetricFamily("stepkeeper_store_up", up, 0.0 if sight is None else 1.0)
        if sight is not None:
            yield from _families(sight[0])
            yield from _limit_families(sight[1])

    def _seen(self) -> tuple[Survey, Limits] | None:
        try:
            return self._look(), self._limits()
        except StoreUnavailable:
            return None


def _families(sight: Survey) -> Iterator[Any]:
    jobs = GaugeMetricFamily("stepkeeper_jobs", "Jobs in the store.", labels=["agent", "status"])
    for (agent, status), count in sorted(sight.jobs.items()):
        jobs.add_metric([agent, status], count)
    yield jobs
    paused = GaugeMetricFamily(
        "stepkeeper_open_pauses", "Jobs that wait for a person.", labels=["agent", "kind"]
    )
    oldest = GaugeMetricFamily(
        "stepkeeper_oldest_pause_seconds", "How long the longest of them has waited.",
        labels=["agent", "kind"],
    )  # fmt: skip
    for (agent, kind), waits in sorted(sight.waits.items()):
        paused.add_metric([agent, kind], len(waits))
        oldest.add_metric([agent, kind], max(waits))
    yield paused
    yield oldest
    text = "Poison jobs that nobody has released or dropped."
    yield GaugeMetricFamily("stepkeeper_quarantined_jobs", text, sight.quarantined)
    text = "For how long the most overdue job has been due; more than a few sweeps is a trouble."
    yield GaugeMetricFamily("stepkeeper_overdue_seconds", text, sight.overdue_s)


def _limit_families(limits: Limits) -> Iterator[Any]:
    allowed = GaugeMetricFamily(
        "stepkeeper_limit_allowed", "What all workers may ask of a model.", labels=["key", "what"]
    )
    used = GaugeMetricFamily(
        "stepkeeper_limit_used", "How much of it is used: in the last minute, or now.",
        labels=["key", "what"],
    )  # fmt: skip
    waiting = GaugeMetricFamily(
        "stepkeeper_limit_waiting", "Jobs that wait their turn to call a model.", labels=["key"]
    )
    for key, (limit, use) in sorted(limits.items()):
        for what, most, now in (
            ("requests", limit.rpm, use.requests),
            ("tokens", limit.tpm, use.tokens),
            ("in_flight", limit.in_flight, use.in_flight),
        ):
            used.add_metric([key, what], now)
            if most is not None:
                allowed.add_metric([key, what], most)
        waiting.add_metric([key], use.waiting)
    yield from (allowed, used, waiting)
