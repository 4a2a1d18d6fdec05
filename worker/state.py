"""The loop's own small state: all of a job that is neither its spec nor its messages.

Stored as one JSON object in the record's ``run`` field with every commit, so it must stay small:
its size does not grow with the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from api_client.runs import RUN_KEYS, read_run, read_usage, write_short


@dataclass(slots=True)
class Tokens:
    """Tokens spent so far, and money in millionths of the price table's currency."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    cost_micros: int = 0

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def dump(self) -> list[int]:
        """The account in the order in which it is stored, without zeros at its end."""
        values = [
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            int(self.estimated),
            self.cost_micros,
        ]
        while values and not values[-1]:
            values.pop()
        return values


@dataclass(slots=True)
class Repeats:
    """How often the same action has been followed by the same observation, in a row."""

    action: str = ""
    observation: str = ""
    times: int = 0


@dataclass(slots=True)
class RunState:
    """What a job must remember between two commits.

    Attributes:
        version: of the agent whose code ran last.
        steps: model replies committed.
        active_ms: time spent in model and tool calls; waiting for people is not in it.
        calls: executions of the tools that have a limit.
        granted: what people have added to a budget, by its name.
        failures: model errors in a row.
        bad_turns: replies in a row of which nothing could be run or accepted.
        problems: what is wrong with calls of the last reply, by call id, found when it was read.
        approved: call ids a person approved, with changed arguments if there are any.
        started: the ``once`` call that was begun and has no observation yet.
        room: tokens that a model may be shown, after it said that there were too many.
        compacted: the step at which that was last found out.
        summary: place of the summary that is shown in place of older messages: ``[upto, at]``.
        told: what people have told the model and it has not been shown yet.
        children: ids of sub-jobs whose answers have not been taken up.
        pauses: how many times the job has paused; part of a pause's id.
        stored: about the bytes of all messages, as JSON before it is compressed.
    """

    version: str = ""
    steps: int = 0
    active_ms: int = 0
    usage: Tokens = field(default_factory=Tokens)
    calls: dict[str, int] = field(default_factory=dict)
    granted: dict[str, float] = field(default_factory=dict)
    failures: int = 0
    bad_turns: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    approved: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)
    started: str | None = None
    room: int | None = None
    compacted: int = 0
    summary: list[int] | None = None
    told: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    pauses: int = 0
    stored: int = 0

    def dump(self) -> str:
        """The state as compact JSON; fields that hold their defaults are left out."""
        values = zip(_PLAIN_KEYS, _plain_of(self), strict=True)
        data = {key: value for key, value in values if value}
        data[RUN_KEYS["usage"]] = self.usage.dump()
        repeats = self.repeats
        if repeats.times:
            seen = [repeats.action, repeats.observation, repeats.times]
            data[RUN_KEYS["repeats"]] = seen
        return write_short(data)

    @classmethod
    def load(cls, text: str | None) -> RunState:
        """Read a stored state; keys of a newer shape are ignored."""
        data = read_run(text) if text else {}
        return cls(
            usage=Tokens(**read_usage(data.get("usage", []))),
            repeats=Repeats(*data.get("repeats", ())),
            **{name: data[name] for name in _PLAIN if name in data},
        )


_PLAIN = tuple(f.name for f in fields(RunState) if f.name not in ("usage", "repeats"))

_PLAIN_KEYS = tuple(RUN_KEYS[name] for name in _PLAIN)
_plain_of = attrgetter(*_PLAIN)
