"""A caller's trace goes with the job that it submits."""

from __future__ import annotations

import subprocess
import sys

from celery import Celery
from opentelemetry.sdk.trace import TracerProvider

from api_client import AgentClient
from api_client.tracing import trace_headers
from worker.store.memory import MemoryStore
from worker.telemetry.trace_ids import job_trace


def test_a_job_stands_under_the_span_that_submits_it() -> None:
    tracer = TracerProvider().get_tracer("service")
    client = AgentClient(store=MemoryStore(), app=Celery("x", broker="memory://"))
    with tracer.start_as_current_span("request") as span:
        job = client.submit("clerk", "x", check_agent=False)
    found = job_trace(client.get(job).spec)
    context = span.get_span_context()
    assert (found.trace, found.parent, found.sampled) == (context.trace_id, context.span_id, True)


def test_without_a_span_there_is_no_header() -> None:
    assert trace_headers() == {}


def test_a_program_without_opentelemetry_needs_none() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None; "
        "from api_client.tracing import trace_headers; assert trace_headers() == {}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
