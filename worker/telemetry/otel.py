"""OpenTelemetry: one trace a job, over its slices, pauses and workers.

    caller's span, if it had one
    └─ invoke_agent NAME              from the submission to the end, written when the job ends
       ├─ chat MODEL                  each model call
       ├─ execute_tool NAME           each tool call; spans made inside a tool stand under it
       ├─ pause KIND                  each wait for a person, written when it is over
       └─ invoke_agent OTHER          a sub-job

All stand directly under the job's span, so that a worker that is killed costs its call in flight
and never the place of others. Spans that were not sent yet when a process is killed are lost; a
worker that leaves at once sends those of its main process first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from api_client.contract import JobSpec, JobView, Pause
from worker.models.base import ModelError
from worker.redact import Redactor
from worker.telemetry import genai
from worker.telemetry.observer import (
    Call,
    JobClaimed,
    JobEnded,
    ModelCall,
    ModelCalled,
    Moment,
    Observer,
    ToolCalled,
)
from worker.telemetry.trace_ids import TRACEPARENT, JobTrace, job_trace
from worker.telemetry.watch import kind_of
from worker.tools import Observation

_wanted: ContextVar[tuple[int, int] | None] = ContextVar("stepkeeper_span_ids", default=None)
_REDACTOR = Redactor()


class JobIds(RandomIdGenerator):
    """Random ids; for a job's own span those that follow from the job."""

    def generate_span_id(self) -> int:
        """See ``IdGenerator``."""
        wanted = _wanted.get()
        return wanted[1] if wanted else super().generate_span_id()

    def generate_trace_id(self) -> int:
        """See ``IdGenerator``."""
        wanted = _wanted.get()
        return wanted[0] if wanted else super().generate_trace_id()


@dataclass(frozen=True, slots=True)
class Tracing:
    """What spans are made with.

    Attributes:
        tracer: the SDK's; its id generator is replaced.
        read: reads a job's record.
        content: whether messages, arguments and results are recorded.
        clock_ns: nanoseconds since the epoch.
    """

    tracer: Tracer
    read: Callable[[str], JobView]
    content: bool = False
    clock_ns: Callable[[], int] = time.time_ns


class OtelObserver(Observer):
    """Makes spans."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._tracer = tracing.tracer
        self._tracer.id_generator = JobIds()

    @contextmanager
    def calling(self, call: Call) -> Iterator[None]:
        """A span around a call, current while it runs; what ``note`` says of it goes there."""
        parent = self._inside(call.place.spec)
        with self._tracer.start_as_current_span(
            _name(call),
            parent,
            kind=SpanKind.CLIENT if isinstance(call, ModelCall) else SpanKind.INTERNAL,
            attributes=self._attributes(call),
            record_exception=False,
        ):
            yield

    def _attributes(self, call: Call) -> genai.Attributes:
        wants = self._tracing.content
        if isinstance(call, ModelCall):
            content = genai.request_content(call) if wants else {}
            return genai.of_model_call(call) | content
        return genai.of_tool_call(call) | (genai.tool_content(call) if wants else {})

    def note(self, moment: Moment) -> None:
        """See ``Observer.note``."""
        match moment:
            case ModelCalled():
                self._answered(trace.get_current_span(), moment)
            case ToolCalled(result=Observation() as result):
                self._observed(trace.get_current_span(), result)
            case JobClaimed(pause=Pause() as pause):
                self._paused(moment, pause)
            case JobEnded():
                self._job(moment)

    def headers(self, spec: JobSpec) -> dict[str, str]:
        """A sub-job stands under this job's span."""
        return {TRACEPARENT: self._trace(spec).traceparent}

    # --- calls -----------------------------------------------------------------------------

    def _answered(self, span: Span, moment: ModelCalled) -> None:
        result = moment.result
        if isinstance(result, ModelError):
            _failed(span, kind_of(result), str(result))
            return
        span.set_attributes(genai.of_reply(result))
        if self._tracing.content:
            span.set_attributes(genai.reply_content(result))

    def _observed(self, span: Span, result: Observation) -> None:
        if self._tracing.content:
            span.set_attributes(genai.result_content(result))
        if result.error:
            _failed(span, "tool_error", result.content if self._tracing.content else "")

    # --- the job ---------------------------------------------------------------------------

    def _paused(self, moment: JobClaimed, pause: Pause) -> None:
        """A person's time, from the pause to the worker that goes on."""
        spec, decision = moment.place.spec, moment.signal
        attributes = {**genai.of_job(spec), "stepkeeper.pause.kind": str(pause.kind)}
        if decision is not None:
            attributes["stepkeeper.signal.kind"] = decision.kind
        start = pause.created * 1_000_000 or self._tracing.clock_ns()
        span = self._tracer.start_span(
            f"pause {pause.kind}", self._inside(spec), attributes=attributes, start_time=start
        )
        span.end(max(start, self._tracing.clock_ns()))

    def _job(self, moment: JobEnded) -> None:
        """The job's own span, from beginning to end, with the ids that its calls stand under."""
        spec, outcome = moment.spec, moment.outcome
        view = self._tracing.read(spec.job_id)
        ids = self._trace(spec)
        attributes = genai.of_agent(view)
        if self._tracing.content:
            attributes["stepkeeper.input"] = genai.as_text(spec.input)
        token = _wanted.set((ids.trace, ids.span))
        try:
            span = self._tracer.start_span(
                f"invoke_agent {spec.agent}",
                _context(ids.trace, ids.parent, ids.sampled is not False),
                kind=SpanKind.INTERNAL,
                attributes=attributes,
                start_time=view.created * 1_000_000,
            )
        finally:
            _wanted.reset(token)
        if not outcome.ok:
            _failed(span, outcome.reason or str(moment.status), outcome.text)
        span.end(max(view.created * 1_000_000, self._tracing.clock_ns()))

    def _inside(self, spec: JobSpec) -> Context:
        """The context of what happens inside a job."""
        ids = self._trace(spec)
        return _context(ids.trace, ids.span, ids.sampled is not False)

    def _trace(self, spec: JobSpec) -> JobTrace:
        """A job's ids; without a caller the sampler decides, by the trace's id as always."""
        ids = job_trace(spec)
        if ids.sampled is not None:
            return ids
        decision = self._tracer.sampler.should_sample(None, ids.trace, f"invoke_agent {spec.agent}")
        return replace(ids, sampled=decision.decision is not Decision.DROP)


def _name(call: Call) -> str:
    if isinstance(call, ModelCall):
        return f"chat {call.model}"
    return f"execute_tool {call.call.tool.name}"


def _failed(span: Span, kind: str, text: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, _REDACTOR.error(text) or None))


def _context(trace_id: int, span_id: int, sampled: bool) -> Context:
    """The context of a span that lives somewhere else; an empty one for span id 0."""
    if not span_id:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    remote = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(remote), Context())


def make_tracer() -> tuple[Any, Tracer]:
    """The program's tracer provider, or one of our own from ``OTEL_…``; and our tracer of it.

    Our own exports over OTLP/HTTP (``OTEL_EXPORTER_OTLP_ENDPOINT``), from a thread of its own.

    Raises:
        InvalidInput: the program's provider is not the SDK's.
    """
    from importlib.metadata import version

    from opentelemetry.sdk.trace import TracerProvider

    from api_client.errors import InvalidInput

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = _own_provider()
    if not isinstance(provider, TracerProvider):
        raise InvalidInput(
            f"STEPKEEPER_OTEL: the tracer provider {type(provider).__name__} is not that of "
            "opentelemetry-sdk; set none, or opentelemetry.sdk.trace.TracerProvider"
        )
    tracer = provider.get_tracer("stepkeeper", version("stepkeeper"))
    if not isinstance(tracer, Tracer):
        raise InvalidInput("STEPKEEPER_OTEL: OTEL_SDK_DISABLED is set; unset one of them")
    return provider, tracer


def _own_provider() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME") or "stepkeeper"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
