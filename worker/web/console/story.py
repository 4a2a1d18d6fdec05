"""A trace as a conversation: the task, each step with its calls and what came of them, and what
people decided. Pure functions of records and messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from api_client.contract import Event
from worker.rendering.texts import node_of, plain
from worker.rendering.transcript import Call, TranscriptReader, text_of

Tone = Literal["quiet", "wait", "bad"]


@dataclass(slots=True)
class Action:
    """One call of a step.

    Attributes:
        arguments: JSON text, as it was stored.
        observation: what the model read of it; ``None`` if that is not known yet.
        by_person: a person's decision is what it read.
        full: characters before it was cut, if it was.
        jobs: sub-jobs that answer it.
    """

    id: str
    tool: str
    arguments: str
    observation: str | None = None
    error: bool = False
    by_person: bool = False
    ms: int | None = None
    full: int | None = None
    once: bool = False
    ignored: str = ""
    job: str = ""


@dataclass(slots=True)
class Step:
    """One reply of the model with all its calls."""

    shape: ClassVar[str] = "step"

    number: int
    at: int
    plan: str = ""
    ms: int = 0
    tokens: int = 0
    estimated: bool = False
    cost: float | None = None
    repaired: str = ""
    actions: list[Action] = field(default_factory=list)


@dataclass(slots=True)
class Note:
    """Something that happened beside the steps.

    Attributes:
        name: of a sentence of the console (``note_…``), or the record's kind.
        fields: of that sentence.
    """

    shape: ClassVar[str] = "note"

    name: str
    at: int
    fields: dict[str, Any] = field(default_factory=dict)
    tone: Tone = "quiet"


@dataclass(slots=True)
class Ask:
    """A pause: what a person was asked."""

    shape: ClassVar[str] = "ask"

    pause: str
    kind: str
    question: str
    at: int


@dataclass(slots=True)
class Decision:
    """What a person decided."""

    shape: ClassVar[str] = "decision"

    kind: str
    by: str
    note: str
    value: Any
    at: int
    waited: int | None


Entry = Step | Note | Ask | Decision

_VALUES = ("value", "arguments", "reason", "amount", "answer", "result", "message", "calls")


class Teller:
    """Turns records into entries, in order.

    Args:
        fetch: gives the messages from an index to the end.
    """

    def __init__(self, fetch: Callable[[int], list[dict[str, Any]]]) -> None:
        self.entries: list[Entry] = []
        self._transcript = TranscriptReader(fetch)
        self._actions: dict[str, Action] = {}
        self._node = ""
        self._paused_at: int | None = None
        self._named = -1
        self._tellers: dict[str, Callable[[Event], None]] = {
            "submitted": self._submitted,
            "claimed": self._claimed,
            "reply": self._reply,
            "observation": self._observation,
            "started": self._started,
            "paused": self._paused,
            "signal": self._signal,
            "resumed": self._resumed,
            "finished": self._end,
            "failed": self._end,
            "cancelled": self._end,
            "heard": self._nothing,
        }

    def tell(self, events: Iterable[Event]) -> list[Entry]:
        """All entries so far."""
        for event in events:
            self._tellers.get(event.kind, self._noted)(event)
        return self.entries

    # --- steps -----------------------------------------------------------------------------

    def _reply(self, event: Event) -> None:
        index = self._take_index(event)
        data = event.data
        message = self._transcript.at(index)
        step = Step(
            number=_whole(data.get("s")),
            at=event.at,
            plan=text_of(message).strip(),
            ms=_whole(data.get("ms")),
            tokens=_whole(data.get("in")) + _whole(data.get("out")),
            estimated=bool(data.get("est")),
            cost=_money(data.get("cost")),
            repaired=plain(data["raw"]) if "raw" in data else "",
            actions=[_action(call) for call in self._transcript.calls_at(index)],
        )
        self._actions = {action.id: action for action in step.actions}
        self.entries.append(step)
        if not step.actions:
            self._correction(index + 1, event.at)

    def _correction(self, index: int, at: int) -> None:
        """What the model was told about a reply that could not be the answer."""
        message = self._transcript.at(index)
        if message is not None and message.get("role") == "user":
            self.entries.append(Note("note_told", at, {"text": text_of(message)}, "wait"))

    def _observation(self, event: Event) -> None:
        data = event.data
        action = self._answered(self._take_index(event))
        if action is None:
            return
        action.error = bool(data.get("error"))
        action.by_person = "pause" in data
        action.ms = None if action.by_person else _whole(data.get("ms"))
        action.full = _whole(data["full"]) if "full" in data else None
        action.ignored = plain(data["ignored"]) if "ignored" in data else ""
        action.job = plain(data.get("job", ""))

    def _answered(self, index: int) -> Action | None:
        """The call that a message answers; also of a step whose reply came with no record."""
        call = self._transcript.call_answered_at(index)
        if call is None:
            return None
        action = self._actions.get(call.id)
        if action is not None:
            action.observation = text_of(self._transcript.at(index))
        return action

    def _started(self, event: Event) -> None:
        action = self._actions.get(plain(event.data.get("call", "")))
        if action is not None:
            action.once = True

    # --- people ----------------------------------------------------------------------------

    def _paused(self, event: Event) -> None:
        self._paused_at = event.at
        data = event.data
        self.entries.append(
            Ask(
                plain(data.get("pause")),
                plain(data.get("kind")),
                plain(data.get("question")),
                event.at,
            )
        )

    def _signal(self, event: Event) -> None:
        data = event.data
        value = next((data[name] for name in _VALUES if data.get(name) not in (None, "", {})), "")
        waited = None if self._paused_at is None else event.at - self._paused_at
        self.entries.append(
            Decision(
                kind=plain(data.get("kind")),
                by=plain(data.get("by") or ""),
                note=plain(data.get("note") or ""),
                value=value,
                at=event.at,
                waited=waited,
            )
        )

    def _resumed(self, event: Event) -> None:
        """A decision may have answered several calls at once."""
        answers = event.data.get("answers")
        for index in answers if isinstance(answers, list) else ():
            action = self._answered(_whole(index))
            if action is not None:
                action.by_person = True

    # --- beside the steps ------------------------------------------------------------------

    def _submitted(self, event: Event) -> None:
        for job in event.data.values():
            self._note("note_forked", event, job=plain(job))

    def _claimed(self, event: Event) -> None:
        node, before = node_of(plain(event.data.get("worker", ""))), self._node
        self._node = node
        if event.data.get("was") == "running":
            self._note("note_retaken", event, "wait", worker=node)
        elif node != before:
            self._note("note_claimed", event, worker=node)

    def _end(self, event: Event) -> None:
        """The answers that no record of their own names."""
        if "i" in event.data:
            self._reply(event)
        for index in self._transcript.answers_after(self._named):
            self._answered(index)
        self._note(f"note_{event.kind}", event, "bad" if event.kind == "failed" else "quiet")

    def _nothing(self, event: Event) -> None:
        """An earlier record has told it already."""

    def _noted(self, event: Event) -> None:
        """Records that say all by themselves; one of an unknown kind is shown as it is."""
        make = _NOTES.get(event.kind)
        if make is None:
            self._note(event.kind, event, text=plain(event.data))
            return
        tone, fields = make(event.data)
        if event.kind == "summary":
            fields["text"] = text_of(self._transcript.at(self._take_index(event)))
        self._note(f"note_{event.kind}", event, tone, **fields)

    def _note(self, name: str, event: Event, tone: Tone = "quiet", /, **fields: Any) -> None:
        self.entries.append(Note(name, event.at, fields, tone))

    def _take_index(self, event: Event) -> int:
        self._named = _whole(event.data.get("i"))
        return self._named


_Data = dict[str, Any]

_NOTES: dict[str, Callable[[_Data], tuple[Tone, _Data]]] = {
    "released": lambda _: ("quiet", {}),
    "version": lambda d: ("wait", {"before": plain(d.get("before")), "now": plain(d.get("now"))}),
    "retry": lambda d: (
        "bad",
        {"text": plain(d.get("text")), "attempt": plain(d.get("attempt")), "in_s": d.get("in_s")},
    ),
    "held_back": lambda d: ("wait", {"text": plain(d.get("text")), "in_s": d.get("in_s")}),
    "summary": lambda _: ("quiet", {}),
    "compacted": lambda d: ("wait", {"shown": plain(d.get("messages")), "all": plain(d.get("of"))}),
    "awaiting": lambda d: ("wait", {"jobs": _jobs(d)}),
    "delegated": lambda d: ("quiet", {"jobs": _jobs(d)}),
    "cancel": lambda d: ("wait", {"by": plain(d.get("by") or ""), "note": d.get("note", "")}),
    "pause_wanted": lambda d: ("wait", {"by": plain(d.get("by") or ""), "note": d.get("note", "")}),
    "message": lambda d: ("wait", {"by": plain(d.get("by") or ""), "text": plain(d.get("text"))}),
    "reminder": lambda _: ("wait", {}),
    "escalated": lambda d: ("wait", {"labels": _list(d.get("labels"))}),
}


def _jobs(data: _Data) -> str:
    return _list(data.get("jobs"))


def _list(value: Any) -> str:
    return ", ".join(map(plain, value)) if isinstance(value, list) else plain(value)


def _action(call: Call) -> Action:
    return Action(call.id, call.tool, call.arguments)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _money(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
