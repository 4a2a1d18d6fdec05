"""One log line an event: what an observer is told, without the job's content.

Neither the task, nor questions, arguments, observations or answers stand in a line: whoever may
read the log may not read the jobs. Words of a provider's error do; secrets are taken out of them.
"""

from __future__ import annotations

import logging
from typing import Any

from api_client.contract import JobStatus
from worker.ends import Awaited, Deferred, Ended, HandedOver, Left, SliceEnd, Suspended
from worker.models.base import ModelError
from worker.redact import Redactor
from worker.telemetry.observer import (
    Committed,
    JobClaimed,
    JobEnded,
    LeaseLost,
    ModelCalled,
    Moment,
    Observer,
    SliceEnded,
    Spent,
    Swept,
    TakenOver,
    ToolCalled,
)
from worker.telemetry.watch import kind_of
from worker.tools import Observation

log = logging.getLogger("stepkeeper.job")

_REDACTOR = Redactor()


class LogObserver(Observer):
    """Writes to the logger ``stepkeeper.job``; each record has ``event`` and ``fields``."""

    heeds = frozenset(
        {
            *(JobClaimed, ModelCalled, ToolCalled, Committed, SliceEnded),
            *(JobEnded, LeaseLost, TakenOver, Swept),
        }
    )

    def note(self, moment: Moment) -> None:
        """See ``Observer.note``."""
        match moment:
            case JobClaimed():
                self._claimed(moment)
            case ModelCalled():
                self._model(moment)
            case ToolCalled():
                self._tool(moment)
            case Committed():
                self._committed(moment)
            case SliceEnded(place=place, step=step, end=end):
                level, event, fields = _how_it_ended(end)
                _say(level, event, place.spec.job_id, step, fields)
            case JobEnded(spec=spec, status=status, outcome=outcome):
                level = logging.INFO if status is JobStatus.SUCCEEDED else logging.WARNING
                reason = {"reason": outcome.reason} if outcome.reason else {}
                _say(level, str(status), spec.job_id, 0, {"agent": spec.agent, **reason})
            case LeaseLost(job_id=job_id):
                _say(logging.WARNING, "lease lost", job_id, 0, {})
            case TakenOver(spec=spec):
                _say(logging.INFO, "freed from this worker's previous start", spec.job_id, 0, {})
            case Swept(hints=hints, ms=ms, late_ms=late_ms) if hints:
                log.debug(
                    "swept hints=%d ms=%d late_ms=%d",
                    *(hints, ms, late_ms),
                    extra={"event": "swept", "fields": {"hints": hints, "ms": ms, "late": late_ms}},
                )

    def _claimed(self, moment: JobClaimed) -> None:
        place, taken_over = moment.place, moment.was is JobStatus.RUNNING
        fields: dict[str, Any] = {"agent": place.spec.agent, "epoch": place.epoch}
        if moment.tries > 1:
            fields["tries"] = moment.tries
        if moment.waited_ms is not None:
            fields["waited_ms"] = moment.waited_ms
        if moment.signal is not None:
            fields["signal"] = moment.signal.kind
        event = "taken over" if taken_over else "resumed" if moment.signal else "claimed"
        level = logging.WARNING if taken_over else logging.INFO
        _say(level, event, place.spec.job_id, 0, fields)

    def _committed(self, moment: Committed) -> None:
        spent = moment.spent
        level = logging.INFO if spent else logging.DEBUG
        if log.isEnabledFor(level):
            fields = {"kind": moment.kind, **_spent(spent, moment.model), "ms": moment.ms}
            _say(level, "committed", moment.place.spec.job_id, moment.step, fields)

    def _model(self, moment: ModelCalled) -> None:
        call, result = moment.call, moment.result
        if not (isinstance(result, ModelError) or log.isEnabledFor(logging.INFO)):
            return
        fields: dict[str, Any] = {"model": call.model, "ms": moment.ms}
        if isinstance(result, ModelError):
            fields |= {"error": kind_of(result), "text": _REDACTOR.error(str(result))}
            _say(logging.WARNING, "model failed", call.place.spec.job_id, call.step, fields)
            return
        fields["finish"] = result.finish_reason
        _say(logging.INFO, "model answered", call.place.spec.job_id, call.step, fields)

    def _tool(self, moment: ToolCalled) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        call, result = moment.call, moment.result
        fields: dict[str, Any] = {"tool": call.call.tool.name, "ms": moment.ms}
        if call.call.info.attempt > 1:
            fields["attempt"] = call.call.info.attempt
        if isinstance(result, Observation):
            event = "tool failed" if result.error else "tool ended"
        else:
            event = "tool asks for a person"
        _say(logging.INFO, event, call.place.spec.job_id, call.step, fields)


def _spent(spent: Spent, model: str) -> dict[str, Any]:
    if not spent:
        return {}
    fields: dict[str, Any] = {"model": model, "in": spent.prompt_tokens}
    fields["out"] = spent.completion_tokens
    if spent.cost_micros:
        fields["cost"] = spent.cost_micros / 1e6
    return fields


def _how_it_ended(end: SliceEnd) -> tuple[int, str, dict[str, Any]]:
    match end:
        case Ended(status=status):
            return logging.DEBUG, "slice ended", {"status": str(status)}
        case Suspended(pause=pause):
            return logging.INFO, "paused", {"kind": str(pause.kind), "pause": pause.id}
        case HandedOver():
            return logging.INFO, "handed over", {}
        case Deferred(seconds=seconds, attempt=0):
            return logging.INFO, "held back", {"in_s": round(seconds, 3)}
        case Deferred(seconds=seconds, attempt=attempt):
            return logging.WARNING, "retried later", {"in_s": round(seconds, 3), "attempt": attempt}
        case Awaited(jobs=jobs):
            return logging.INFO, "waits for sub-jobs", {"count": len(jobs)}
        case Left(why=why):
            level = logging.INFO if why == "moved_on" else logging.WARNING
            return level, "left", {"why": why}


def _say(level: int, event: str, job_id: str, step: int, fields: dict[str, Any]) -> None:
    """One line; its text says it all, for formats that know nothing of ``fields``."""
    if not log.isEnabledFor(level):
        return
    where = f"job {job_id} step {step}" if step else f"job {job_id}"
    told = "".join(f" {name}={value}" for name, value in fields.items())
    known = {"job": job_id, **({"step": step} if step else {}), **fields}
    log.log(level, "%s: %s%s", where, event, told, extra={"event": event, "fields": known})
