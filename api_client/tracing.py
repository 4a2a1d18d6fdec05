"""The caller's place in a distributed trace, for the job that it submits."""

from __future__ import annotations

import sys
from importlib import import_module

_KEPT = ("traceparent", "tracestate")


def trace_headers() -> dict[str, str]:
    """W3C Trace Context headers of the span that is current; empty without OpenTelemetry.

    A program that traces has loaded OpenTelemetry before; for any other this looks up one name.
    Baggage is left out: it may hold what nobody meant to store with a job.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    carrier: dict[str, str] = {}
    import_module("opentelemetry.propagate").inject(carrier)
    return {name: carrier[name] for name in _KEPT if name in carrier}
