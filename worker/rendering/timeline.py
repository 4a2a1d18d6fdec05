"""When a job did what: spans of time out of its trace records, and places for them on a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from api_client.contract import Event
from worker.rendering.transcript import TranscriptReader

SpanKind = Literal["model", "tool", "pause", "wait", "queue", "gone"]
"""``model``, ``tool``: calls. ``pause``: for a person. ``wait``: for a model or a sub-job.
``queue``: for a worker. ``gone``: between the last commit of a worker that died and the next."""

IDLE: frozenset[SpanKind] = frozenset({"pause", "wait", "queue", "gone"})

_IDLE_AFTER: dict[str, SpanKind] = {
    "submitted": "queue",
    "signal": "queue",
    "released": "queue",
    "paused": "pause",
    "retry": "wait",
    "held_back": "wait",
    "awaiting": "wait",
}
_LONGEST_IDLE = 0.25
"""Of all work: an idle time is drawn no longer, so that a night's pause hides no call."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time; milliseconds since the epoch."""

    kind: SpanKind
    start: int
    end: int
    label: str

    @property
    def ms(self) -> int:
        """How long it took."""
        return max(0, self.end - self.start)


def spans(events: Sequence[Event], transcript: TranscriptReader) -> list[Span]:
    """What the records tell, by its beginning.

    Args:
        events: a whole trace, oldest first.
    """
    found: list[Span] = []
    for before, event in zip([None, *events], events, strict=False):
        if before is not None:
            found += _idle(before, event)
        found += _call(event, transcript)
    if events and (kind := _IDLE_AFTER.get(events[-1].kind)):
        found.append(Span(kind, events[-1].at, events[-1].at, _idle_label(events[-1], kind)))
    return sorted(found, key=lambda span: (span.start, span.end))


def _idle(before: Event, event: Event) -> Iterator[Span]:
    """The time between two records, if nothing was done in it."""
    if event.kind == "claimed" and event.data.get("was") == "running":
        yield Span("gone", before.at, event.at, "its worker was gone")
    elif (kind := _IDLE_AFTER.get(before.kind)) is not None:
        yield Span(kind, before.at, event.at, _idle_label(before, kind))


def _idle_label(event: Event, kind: SpanKind) -> str:
    if kind == "pause":
        return f"waits for a person: {event.data.get('kind')}"
    if kind == "wait":
        why = event.data.get("text") or "sub-jobs"
        return f"waits: {why}"
    return "waits for a worker"


def _call(event: Event, transcript: TranscriptReader) -> Iterator[Span]:
    """The call that a record reports."""
    ms, index = event.data.get("ms"), event.data.get("i")
    if not isinstance(ms, int) or not isinstance(index, int):
        return
    if event.kind == "observation":
        call = transcript.call_answered_at(index)
        label = call.tool if call else "tool"
        if ms or "pause" not in event.data:
            yield Span("tool", event.at - ms, event.at, label)
        return
    yield Span("model", event.at - ms, event.at, f"step {event.data.get('s', '?')}: model")


class Scale:
    """Places on a line from 0 to 1, with long idle times shortened.

    Args:
        found: spans by their beginning.
    """

    def __init__(self, found: Sequence[Span]) -> None:
        times = sorted({time for span in found for time in (span.start, span.end)})
        work = sum(span.ms for span in found if span.kind not in IDLE)
        longest = max(1.0, work * _LONGEST_IDLE)
        self._places: dict[int, float] = {}
        at = 0.0
        for before, time in zip([None, *times], times, strict=False):
            if before is not None:
                length = float(time - before)
                at += min(length, longest) if _is_idle(found, before, time) else length
            self._places[time] = at
        self._whole = at or 1.0

    def place(self, time: int) -> float:
        """The place of a span's beginning or end."""
        return self._places[time] / self._whole


def _is_idle(found: Sequence[Span], start: int, end: int) -> bool:
    """Whether no call was under way between two neighbouring times."""
    return not any(
        span.start <= start and span.end >= end and span.kind not in IDLE for span in found
    )


def totals(found: Sequence[Span]) -> dict[str, Any]:
    """Milliseconds by kind, those that are above 0."""
    sums: dict[str, int] = {}
    for span in found:
        sums[span.kind] = sums.get(span.kind, 0) + span.ms
    return {kind: ms for kind, ms in sums.items() if ms}
