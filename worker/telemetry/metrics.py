"""Metrics for Prometheus: what an observer is told, counted.

Counters and histograms only: they are right whatever becomes of the process that counted, so a
pool's children may be killed. What stands in the store is measured there (``gauges``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from api_client.contract import JobStatus
from worker.ends import Deferred, Left, Suspended
from worker.models.base import ModelError
from worker.telemetry.observer import (
    Committed,
    JobClaimed,
    JobEnded,
    LeaseLost,
    LimitRefused,
    LimitWaited,
    ModelCalled,
    Moment,
    Observer,
    SliceEnded,
    StoreCalled,
    Swept,
    TakenOver,
    ToolCalled,
)
from worker.telemetry.watch import kind_of
from worker.tools import Observation

POISON = "poison"

QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
"""Bounds in seconds for what should take milliseconds."""
CALLS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Bounds in seconds for calls of models and tools."""
WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
"""Bounds in seconds for waiting in a queue."""


class MetricsObserver(Observer):
    """Counts.

    Args:
        registry: of the metrics; ``None`` in the multiprocess mode, where files are the registry.
    """

    def __init__(self, registry: CollectorRegistry | None) -> None:
        counter, histogram = _makers(registry)
        self.claims = counter("claims", "Slices begun.", "agent")
        self.queue_wait = histogram(
            "queue_wait_seconds",
            "From the moment a job could be taken until a worker took it.",
            WAITS,
            "agent",
        )
        self.step = histogram(
            "step_seconds", "Work of one step: its model call and its tool calls.", CALLS, "agent"
        )
        self.model_call = histogram(
            "model_call_seconds", "Model calls.", CALLS, "agent", "model", "outcome"
        )
        self.tool_call = histogram(
            "tool_call_seconds", "Tool calls.", CALLS, "agent", "tool", "outcome"
        )
        self.tokens = counter(
            "tokens", "Tokens in committed replies; cached ones are input, too.",
            *("agent", "model", "kind"),
        )  # fmt: skip
        self.cost = counter(
            "cost", "Money, in the currency of the agents' prices.", "agent", "model"
        )
        self.commit = histogram("commit_seconds", "Commits, with the store's reply.", QUICK)
        self.pauses = counter("pauses", "Jobs that began to wait for a person.", "agent", "kind")
        self.resumes = counter("resumes", "Pauses that a person has ended.", "agent", "kind")
        self.retries = counter(
            "retries", "Waits after a model error, by its class.", "agent", "error"
        )
        self.model_errors = counter(
            "model_errors", "Failed model calls.", "agent", "model", "error", "fate"
        )
        self.ended = counter("jobs_ended", "Jobs that ended.", "agent", "status", "reason")
        self.lease_losses = counter(
            "lease_losses", "Leases that another worker has taken.", "found_by"
        )
        self.recoveries = counter(
            "recoveries", "Jobs taken over from a worker that was gone, or from a broken attempt.",
            "agent",
        )  # fmt: skip
        self.freed = counter("freed", "Jobs freed that this worker's previous start had held.")
        self.poison = counter("poison_jobs", "Jobs put in quarantine.", "agent")
        self.sweep = histogram("sweep_seconds", "Sweeps.", QUICK)
        self.sweep_late = histogram(
            "sweep_lag_seconds", "How much later than planned a sweep began.", WAITS
        )
        self.hints = counter("hints", "Hints sent by sweeps.")
        self.store_call = histogram(
            "store_call_seconds", "Round trips to the store.", QUICK, "call", "outcome"
        )
        self.limit_wait = histogram(
            "limit_wait_seconds", "Waits of model calls for a limit that all workers share.",
            WAITS, *("key", "where"),
        )  # fmt: skip
        self.limit_refusals = counter(
            "limit_refusals", "Model calls that no wait helps, or that a provider put off.",
            *("key", "why"),
        )  # fmt: skip
        self._steps = _Steps(lambda agent, s: self.step.labels(agent).observe(s))

    def note(self, moment: Moment) -> None:
        """See ``Observer.note``."""
        match moment:
            case StoreCalled(name=name, ms=ms, failed=failed):
                self.store_call.labels(name, "error" if failed else "ok").observe(ms / 1000)
            case Committed():
                self._committed(moment)
            case ModelCalled():
                self._model_called(moment)
            case ToolCalled():
                self._tool_called(moment)
            case JobClaimed():
                self._claimed(moment)
            case SliceEnded():
                self._slice_ended(moment)
            case JobEnded():
                self._job_ended(moment)
            case _:
                self._kept(moment)

    def _kept(self, moment: Moment) -> None:
        """What happens beside the jobs' slices."""
        match moment:
            case LimitWaited(key=key, ms=ms, here=here):
                self.limit_wait.labels(key, "here" if here else "away").observe(ms / 1000)
            case LimitRefused(key=key, why=why):
                self.limit_refusals.labels(key, why).inc()
            case LeaseLost():
                self.lease_losses.labels("renewal").inc()
            case TakenOver():
                self.freed.inc()
            case Swept(hints=hints, ms=ms, late_ms=late_ms):
                self.sweep.observe(ms / 1000)
                self.sweep_late.observe(late_ms / 1000)
                self.hints.inc(hints)

    def _claimed(self, moment: JobClaimed) -> None:
        agent = moment.place.spec.agent
        self.claims.labels(agent).inc()
        if moment.was is JobStatus.RUNNING:
            self.recoveries.labels(agent).inc()
        elif moment.waited_ms is not None:
            self.queue_wait.labels(agent).observe(moment.waited_ms / 1000)
        if moment.pause is not None:
            self.resumes.labels(agent, str(moment.pause.kind)).inc()

    def _model_called(self, moment: ModelCalled) -> None:
        place, model, result = moment.call.place, moment.call.model, moment.result
        agent, failed = place.spec.agent, isinstance(result, ModelError)
        outcome = "error" if failed else "ok"
        self.model_call.labels(agent, model, outcome).observe(moment.ms / 1000)
        if isinstance(result, ModelError):
            self.model_errors.labels(agent, model, kind_of(result), result.fate).inc()
        self._steps.worked(place.spec.job_id, agent, moment.ms, begins=True)

    def _tool_called(self, moment: ToolCalled) -> None:
        place, result = moment.call.place, moment.result
        name, agent = moment.call.call.tool.name, place.spec.agent
        asks = not isinstance(result, Observation)
        outcome = "asks" if asks else "error" if result.error else "ok"  # type: ignore[union-attr]
        self.tool_call.labels(agent, name, outcome).observe(moment.ms / 1000)
        self._steps.worked(place.spec.job_id, agent, moment.ms)

    def _committed(self, moment: Committed) -> None:
        self.commit.observe(moment.ms / 1000)
        spent, agent, model = moment.spent, moment.place.spec.agent, moment.model
        if not spent:
            return
        self.tokens.labels(agent, model, "input").inc(spent.prompt_tokens)
        self.tokens.labels(agent, model, "output").inc(spent.completion_tokens)
        if spent.cached_tokens:
            self.tokens.labels(agent, model, "cached").inc(spent.cached_tokens)
        if spent.cost_micros:
            self.cost.labels(agent, model).inc(spent.cost_micros / 1e6)

    def _slice_ended(self, moment: SliceEnded) -> None:
        agent = moment.place.spec.agent
        self._steps.over(moment.place.spec.job_id)
        match moment.end:
            case Suspended(pause=pause):
                self.pauses.labels(agent, str(pause.kind)).inc()
            case Deferred(attempt=attempt) if attempt:
                self.retries.labels(agent, moment.error or "unknown").inc()
            case Left(why="fenced"):
                self.lease_losses.labels("commit").inc()
            case _:
                return

    def _job_ended(self, moment: JobEnded) -> None:
        agent, status, reason = moment.spec.agent, moment.status, moment.outcome.reason
        shown = "" if status is JobStatus.SUCCEEDED else reason
        self.ended.labels(agent, str(status), shown).inc()
        if reason == POISON:
            self.poison.labels(agent).inc()


class _Steps:
    """Adds up the work of the steps that are under way, by job.

    Args:
        done: told the agent and the seconds of each step.
    """

    def __init__(self, done: Callable[[str, float], None]) -> None:
        self._done = done
        self._lock = threading.Lock()
        self._open: dict[str, tuple[str, int]] = {}

    def worked(self, job_id: str, agent: str, ms: int, *, begins: bool = False) -> None:
        """A call has ended; ``begins``: a new step began with it."""
        if begins:
            self.over(job_id)
        with self._lock:
            before = self._open.get(job_id, (agent, 0))[1]
            self._open[job_id] = (agent, before + ms)

    def over(self, job_id: str) -> None:
        """The step is over, or has to wait."""
        with self._lock:
            step = self._open.pop(job_id, None)
        if step is not None:
            self._done(step[0], step[1] / 1000)


def _makers(
    registry: CollectorRegistry | None,
) -> tuple[Callable[..., Counter], Callable[..., Histogram]]:
    """Make metrics of ours: names begin with ``stepkeeper_``."""

    def counter(name: str, text: str, *labels: str) -> Counter:
        return Counter(f"stepkeeper_{name}", text, labels, registry=registry)

    def histogram(name: str, text: str, buckets: Any, *labels: str) -> Histogram:
        return Histogram(f"stepkeeper_{name}", text, labels, buckets=buckets, registry=registry)

    return counter, histogram
