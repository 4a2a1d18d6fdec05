"""What each trace record says, as lines of plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from api_client.contract import Event, JobView
from worker.rendering.texts import (
    action_text,
    duration,
    excerpt,
    money,
    node_of,
    plain,
    tokens,
)
from worker.rendering.transcript import Call, TranscriptReader, text_of

Tone = Literal["head", "plain", "action", "quiet", "bad", "wait", "person"]

TERMINATE = "terminate"
_VALUES = (
    "value",
    "arguments",
    "reason",
    "amount",
    "answer",
    "result",
    "calls",
    "answers",
    "message",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a printed trace.

    Attributes:
        label: a word for what it is, such as ``plan``.
        text: may have several lines.
        aside: figures, such as tokens and milliseconds.
        inside: whether it belongs to a step.
    """

    label: str
    text: str = ""
    tone: Tone = "plain"
    aside: str = ""
    inside: bool = False


class Narrator:
    """Tells a job's records one after the other.

    Args:
        transcript: what the records name by index.
        read: where the job stands now.
        full: show observations and plans whole instead of their beginnings.
    """

    def __init__(
        self, transcript: TranscriptReader, read: Callable[[], JobView], *, full: bool = False
    ) -> None:
        self._transcript = transcript
        self._read = read
        self._cut: Callable[[str], str] = str.rstrip if full else excerpt
        self._named = -1
        self._open: list[Call] = []
        self._shown: set[str] = set()
        self._last = ""
        self._worker = ""
        self._paused_at: int | None = None
        self._tellers: dict[str, Callable[[Event], Iterator[Line]]] = {
            "submitted": self._submitted,
            "claimed": self._claimed,
            "reply": self._reply,
            "observation": self._observation,
            "started": self._started,
            "delegated": self._delegated,
            "awaiting": self._awaiting,
            "paused": self._paused,
            "signal": self._signal,
            "resumed": self._resumed,
            "message": self._message,
            "heard": self._heard,
            "pause_wanted": self._pause_wanted,
            "reminder": self._reminder,
            "escalated": self._escalated,
            "version": self._version,
            "retry": self._retry,
            "held_back": self._held_back,
            "summary": self._summary,
            "compacted": self._compacted,
            "released": self._released,
            "finished": self._end,
            "failed": self._end,
            "cancel": self._cancel,
            "cancelled": self._end,
        }

    def tell(self, event: Event) -> Iterator[Line]:
        """The lines of one record; a kind that this version does not know is shown as it is."""
        yield from self._tellers.get(event.kind, self._unknown)(event)

    # --- the way of the job ----------------------------------------------------------------

    def _submitted(self, event: Event) -> Iterator[Line]:
        yield Line("task", self._cut(plain(self._read().spec.input)))
        for why, other in event.data.items():
            yield Line(why.replace("_", " "), plain(other), "quiet")

    def _claimed(self, event: Event) -> Iterator[Line]:
        owner = str(event.data.get("worker", ""))
        node, before, self._worker = node_of(owner), self._worker, node_of(owner)
        tries = event.data.get("tries", 1)
        attempt = f", attempt {tries} at this step" if tries != 1 else ""
        if event.data.get("was") == "running":
            text = f"by {node}: the attempt before broke off{attempt}"
            yield Line("taken over", text, "wait", self._when(event))
        elif node != before:
            yield Line("worker", f"{node}{attempt}", "quiet", self._when(event))

    def _released(self, event: Event) -> Iterator[Line]:
        yield Line("handed back", "to the queue", "quiet", self._when(event))

    def _version(self, event: Event) -> Iterator[Line]:
        text = f"the agent changed from {event.data.get('before')} to {event.data.get('now')}"
        yield Line("version", text, "wait")

    def _retry(self, event: Event) -> Iterator[Line]:
        wait = duration(_number(event.data.get("in_s")) * 1000)
        text = f"{event.data.get('text')}; attempt {event.data.get('attempt')} failed"
        yield Line("model error", f"{text}, the next one in {wait}", "bad")

    def _held_back(self, event: Event) -> Iterator[Line]:
        wait = duration(_number(event.data.get("in_s")) * 1000)
        yield Line("limit", f"{event.data.get('text')}; asks again in {wait}", "wait")

    def _summary(self, event: Event) -> Iterator[Line]:
        text = self._cut(text_of(self._transcript.at(self._take_index(event))))
        yield Line("summary", text, "quiet", _figures(event.data))

    def _compacted(self, event: Event) -> Iterator[Line]:
        shown = f"{event.data.get('messages')} of {event.data.get('of')} messages"
        yield Line("shortened", f"too long for the model, which is shown {shown}", "wait")

    def _nothing(self, _event: Event) -> Iterator[Line]:
        """The record says only what an earlier one has told already."""
        yield from ()

    def _unknown(self, event: Event) -> Iterator[Line]:
        yield Line(event.kind, plain(event.data), "quiet", self._when(event))

    # --- steps -----------------------------------------------------------------------------

    def _reply(self, event: Event) -> Iterator[Line]:
        index = self._take_index(event)
        yield self._step_head(event)
        message = self._transcript.at(index)
        if message is None:
            return
        if text := text_of(message).strip():
            yield Line("plan", self._cut(text), inside=True)
        if raw := event.data.get("raw"):
            yield Line("repaired", plain(raw), "quiet", inside=True)
        self._open = self._transcript.calls_at(index)
        if self._open:
            yield from self._next_action()
        else:
            yield from self._correction(index + 1)

    def _step_head(self, event: Event) -> Line:
        figures = [_figures(event.data), duration(_number(event.data.get("ms"))), self._when(event)]
        return Line(f"step {event.data.get('s', '?')}", "", "head", " · ".join(figures))

    def _correction(self, index: int) -> Iterator[Line]:
        """What the model was told about a reply that could not be the answer."""
        message = self._transcript.at(index)
        if message is not None and message.get("role") == "user":
            yield Line("told", self._cut(text_of(message)), "wait", inside=True)

    def _next_action(self) -> Iterator[Line]:
        """The call whose turn it is, before its result is there."""
        for call in self._open:
            if call.id not in self._shown:
                yield self._action(call)
                return

    def _action(self, call: Call) -> Line:
        self._shown.add(call.id)
        self._last = call.id
        return Line("action", action_text(call.tool, call.arguments), "action", inside=True)

    def _observation(self, event: Event) -> Iterator[Line]:
        index = self._take_index(event)
        data = event.data
        asides = [duration(_number(data.get("ms")))] if "pause" not in data else []
        if "full" in data:
            asides.append(f"cut from {_whole(data['full']):,} characters")
        if ignored := data.get("ignored"):
            asides.append(f"ignored: {plain(ignored)}")
        if "job" in data:
            asides.append(f"by job {data['job']}")
        yield from self._answer(index, bool(data.get("error")), " · ".join(asides))
        yield from self._next_action()

    def _answer(self, index: int, error: bool = False, aside: str = "") -> Iterator[Line]:
        """An observation, behind its action if that is not what was shown last."""
        call = self._transcript.call_answered_at(index)
        if call is not None:
            self._open = [other for other in self._open if other.id != call.id]
            if call.id != self._last:
                yield self._action(call)
        text = self._cut(text_of(self._transcript.at(index)))
        yield Line("observation", text, "bad" if error else "plain", aside, inside=True)

    def _started(self, _event: Event) -> Iterator[Line]:
        yield Line("started", "must not run twice from here on", "quiet", inside=True)

    def _delegated(self, event: Event) -> Iterator[Line]:
        yield Line("delegated", f"to {_sub_jobs(event)}", "wait", inside=True)

    def _awaiting(self, event: Event) -> Iterator[Line]:
        yield Line("waits for", _sub_jobs(event), "quiet", self._when(event))

    # --- people ----------------------------------------------------------------------------

    def _paused(self, event: Event) -> Iterator[Line]:
        self._paused_at = event.at
        data = event.data
        text = f"{data.get('question')}"
        yield Line("paused", text, "wait", f"{data.get('kind')}, pause {data.get('pause')}")

    def _signal(self, event: Event) -> Iterator[Line]:
        data = event.data
        by = data.get("by") or "somebody who gave no name"
        value = next((data[name] for name in _VALUES if data.get(name) is not None), None)
        said = "" if value is None else f": {self._cut(plain(value))}"
        note = f" (note: {data['note']})" if data.get("note") else ""
        waited = "" if self._paused_at is None else f"after {duration(event.at - self._paused_at)}"
        yield Line("signal", f"{data.get('kind')} by {by}{said}{note}", "person", waited)

    def _resumed(self, event: Event) -> Iterator[Line]:
        """What a person answered in the place of several calls."""
        places = event.data.get("answers")
        for index in places if isinstance(places, list) else ():
            yield from self._answer(_whole(index))

    def _message(self, event: Event) -> Iterator[Line]:
        note = f" (note: {event.data['note']})" if event.data.get("note") else ""
        said = self._cut(plain(event.data.get("text")))
        yield Line("message", f"by {_by(event)}: {said}{note}", "person", self._when(event))

    def _heard(self, event: Event) -> Iterator[Line]:
        first = _whole(event.data.get("i"))
        for index in range(first, first + _whole(event.data.get("n"))):
            yield Line("told", self._cut(text_of(self._transcript.at(index))), "person")

    def _pause_wanted(self, event: Event) -> Iterator[Line]:
        note = f": {event.data['note']}" if event.data.get("note") else ""
        yield Line("pause", f"wanted by {_by(event)}{note}", "person", self._when(event))

    def _reminder(self, event: Event) -> Iterator[Line]:
        yield Line("reminded", f"of pause {event.data.get('pause')}", "wait", self._when(event))

    def _escalated(self, event: Event) -> Iterator[Line]:
        labels = event.data.get("labels")
        who = ", ".join(map(str, labels)) if isinstance(labels, list) else ""
        text = f"pause {event.data.get('pause')} now waits for {who}"
        yield Line("escalated", text, "wait", self._when(event))

    def _cancel(self, event: Event) -> Iterator[Line]:
        note = f": {event.data['note']}" if event.data.get("note") else ""
        by = event.data.get("by") or "somebody who gave no name"
        yield Line("cancel", f"wanted by {by}{note}", "person", self._when(event))

    # --- the end ---------------------------------------------------------------------------

    def _end(self, event: Event) -> Iterator[Line]:
        """A reply that came with the end, and answers that no record of their own names."""
        if "i" in event.data:
            self._take_index(event)
            yield self._step_head(event)
        outcome = self._read().outcome
        answer = plain(outcome.value) if outcome is not None and outcome.ok else None
        for index in self._transcript.answers_after(self._named):
            call = self._transcript.call_answered_at(index)
            says = text_of(self._transcript.at(index))
            if (call is None or call.tool != TERMINATE) and says != answer:
                yield from self._answer(index)

    # --- small things ----------------------------------------------------------------------

    def _take_index(self, event: Event) -> int:
        self._named = _whole(event.data.get("i"))
        return self._named

    @cached_property
    def _created(self) -> int:
        return self._read().created

    def _when(self, event: Event) -> str:
        return f"at +{duration(max(0, event.at - self._created))}"


def _by(event: Event) -> str:
    return str(event.data.get("by") or "somebody who gave no name")


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _number(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0.0


def _sub_jobs(event: Event) -> str:
    jobs = event.data.get("jobs")
    return ", ".join(f"job {job}" for job in jobs) if isinstance(jobs, list) else plain(jobs)


def _figures(data: Mapping[str, Any]) -> str:
    """What a model call has cost."""
    spent = tokens(_whole(data.get("in")), _whole(data.get("out")), bool(data.get("est")))
    return f"{spent} · {money(_number(data['cost']))}" if "cost" in data else spent
