"""Which observers a worker has: by its settings, made anew in each process of the pool."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from api_client.contract import JobView
from api_client.errors import InvalidInput
from worker.eventbus import EventBus
from worker.settings import Settings
from worker.telemetry.events import EventObserver
from worker.telemetry.logs import LogObserver
from worker.telemetry.observer import NOBODY, Observer, Several

if TYPE_CHECKING:
    from api_client.survey import Survey
    from worker.telemetry.gauges import Limits

log = logging.getLogger(__name__)

LAST_SPANS_S = 2.0
"""A worker that ends waits so long for a collector to take what is left."""


class Surveyed(Protocol):
    """A store, as far as telemetry looks at it."""

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""

    def survey(self) -> Survey:
        """See ``SurveyStore.survey``."""


@dataclass(slots=True)
class Telemetry:
    """A worker's logs, metrics and traces.

    A program that only submits has none: ``start`` is the worker's.
    """

    settings: Settings
    started: bool = False
    _registry: Any = None
    _closers: list[tuple[int, Callable[[], object]]] = field(default_factory=list)

    def start(self, pool: str) -> None:
        """Called in a worker's main process, before the pool has any children.

        Args:
            pool: ``"prefork"``, or one whose jobs run in this process.

        Raises:
            InvalidInput: a setting asks for what cannot be had.
        """
        self.started = True
        if self.settings.metrics_port is not None:
            from worker.telemetry.exposing import prepare_children

            if pool == "prefork":
                prepare_children()
            _import("prometheus_client", "metrics", "STEPKEEPER_METRICS_PORT")
        if self.settings.otel:
            _import("opentelemetry.sdk.trace", "otel", "STEPKEEPER_OTEL")

    def observer(self, store: Surveyed, bus: EventBus | None = None) -> Observer:
        """The observer of this process; nobody in a program that is no worker."""
        if not self.started:
            return NOBODY
        observers: list[Observer] = [LogObserver()]
        if bus is not None:
            observers.append(EventObserver(bus.wanted, bus.send))
            self._closers.append((os.getpid(), bus.close))
        if self.settings.metrics_port is not None:
            observers.append(self._metrics())
        if self.settings.otel:
            observers.append(self._otel(store))
        return Several(observers)

    def _metrics(self) -> Observer:
        from prometheus_client import CollectorRegistry

        from worker.telemetry.exposing import fresh_values, in_files
        from worker.telemetry.metrics import MetricsObserver

        if in_files():
            fresh_values()
            return MetricsObserver(None)
        self._registry = CollectorRegistry()
        return MetricsObserver(self._registry)

    def _otel(self, store: Surveyed) -> Observer:
        from worker.telemetry.otel import OtelObserver, Tracing, make_tracer

        provider, tracer = make_tracer()
        self._closers.append((os.getpid(), provider.force_flush))
        return OtelObserver(Tracing(tracer, store.read, self.settings.otel_content))

    def expose(self, store: Surveyed, limits: Callable[[], Limits] = dict) -> None:
        """Serve the metrics, if the settings give a port; in the main process.

        Args:
            limits: the limits of models and their use.

        Raises:
            InvalidInput: the address cannot be used.
        """
        if self.settings.metrics_port is None:
            return
        from worker.telemetry import exposing
        from worker.telemetry.gauges import StoreGauges

        registry = exposing.reading_registry() if exposing.in_files() else self._registry
        registry.register(StoreGauges(store.survey, limits=limits))
        exposed = exposing.serve(self.settings.metrics_host, self.settings.metrics_port, registry)
        self._closers.append((os.getpid(), exposed.close))
        log.info("metrics at http://%s:%d/metrics", exposed.host, exposed.port)

    def close(self) -> None:
        """This process ends: send what is still here. What a parent has opened is not ours."""
        mine = [close for pid, close in self._closers if pid == os.getpid()]
        self._closers = []
        for close in mine:
            last = threading.Thread(target=close, name="stepkeeper-last-spans", daemon=True)
            last.start()
            last.join(LAST_SPANS_S)


def _import(module: str, extra: str, setting: str) -> None:
    from importlib import import_module

    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"{setting} needs an extra: pip install 'stepkeeper[{extra}]' ({error.name} is missing)"
        ) from None
