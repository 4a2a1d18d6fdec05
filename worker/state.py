"""The loop's own small state: all of a job that is neither its spec nor its messages.

Stored as one JSON object in the record's ``run`` field with every commit, so it must stay small:
its size does not grow with the number of steps. Its shape has a version of its own.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

RUN_VERSION = 1


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
        count: messages committed; fewer in the store means that state was lost.
        steps: model replies committed.
        active_ms: time spent in model and tool calls; waiting for people is not in it.
        calls: executions by tool.
        granted: what people have added to a budget, by its name.
        failures: model errors in a row.
        bad_turns: replies in a row of which nothing could be run or accepted.
        problems: what is wrong with calls of the last reply, by call id, found when it was read.
        approved: call ids a person approved, with changed arguments if there are any.
        started: the ``once`` call that was begun and has no observation yet.
        room: tokens that a model may be shown, after it said that there were too many.
        compacted: the step at which that was last found out.
        summary: place of the summary that is shown in place of older messages: ``[upto, at]``.
        children: ids of sub-jobs whose answers have not been taken up.
        pauses: how many times the job has paused; part of a pause's id.
    """

    version: str = ""
    count: int = 0
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
    children: list[str] = field(default_factory=list)
    pauses: int = 0

    def dump(self) -> str:
        """The state as JSON; fields that hold their defaults are left out."""
        usage = asdict(self.usage)
        usage["cost"] = self.usage.cost_micros / 1e6 if self.usage.cost_micros else None
        data: dict[str, Any] = {"v": RUN_VERSION, "usage": usage}
        for name in _PLAIN:
            value = getattr(self, name)
            if value:
                data[name] = value
        if self.repeats.times:
            data["repeats"] = asdict(self.repeats)
        return json.dumps(data, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def load(cls, text: str | None) -> RunState:
        """Read a stored state; unknown fields of a newer minor shape are ignored.

        Raises:
            ValueError: the shape's version is higher than this program's.
        """
        data: dict[str, Any] = json.loads(text) if text else {"v": RUN_VERSION}
        if data["v"] > RUN_VERSION:
            raise ValueError(f"run state has version {data['v']}, this worker reads {RUN_VERSION}")
        usage = {
            f.name: data.get("usage", {})[f.name]
            for f in fields(Tokens)
            if f.name in data.get("usage", {})
        }
        return cls(
            usage=Tokens(**usage),
            repeats=Repeats(**data.get("repeats", {})),
            **{name: data[name] for name in _PLAIN if name in data},
        )


_PLAIN = tuple(f.name for f in fields(RunState) if f.name not in ("usage", "repeats"))
