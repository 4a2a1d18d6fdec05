"""What was seen of a job: how it ended, and the way that led there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from worker.agent import Agent
from worker.inline import InlineRun


@dataclass(frozen=True, slots=True)
class SeenAction:
    """One call that the model asked for.

    Attributes:
        arguments: as the model sent them; a text if that is no JSON object.
        observation: what the model read of it; ``None`` if the job ended before.
    """

    tool: str
    arguments: Any
    observation: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """A job from outside.

    Attributes:
        outcome: ``succeeded``, ``failed`` or ``paused``.
        reason, text: why it failed, for programs and for people; or what the open pause asks.
        descriptions: of the agent's tools, by their names.
    """

    outcome: str
    reason: str
    text: str
    answer: Any
    actions: tuple[SeenAction, ...]
    steps: int
    tokens: int
    pauses: tuple[str, ...]
    descriptions: Mapping[str, str]
    fingerprint: str


def see(agent: Agent, run: InlineRun) -> Seen:
    """Everything that checks may look at."""
    outcome, pause = run.outcome, run.pause
    return Seen(
        outcome=str(run.view.status),
        reason=outcome.reason if outcome else "",
        text=outcome.text if outcome else (pause.question if pause else ""),
        answer=outcome.value if outcome else None,
        actions=tuple(_actions(run.messages)),
        steps=run.view.steps,
        tokens=run.view.usage.total_tokens,
        pauses=tuple(str(e.data.get("kind")) for e in run.events if e.kind == "paused"),
        descriptions={tool.name: tool.description for tool in agent.toolbox},
        fingerprint=fingerprint_of(agent),
    )


def _actions(messages: list[dict[str, Any]]) -> list[SeenAction]:
    read = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    return [
        SeenAction(
            call["function"]["name"], _loaded(call["function"]["arguments"]), read.get(call["id"])
        )
        for message in messages
        for call in message.get("tool_calls") or ()
    ]


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def fingerprint_of(agent: Agent) -> str:
    """Of everything that a model is told of an agent's tools: changes when any of it does."""
    told = [tool.schema()["function"] for tool in agent.toolbox]
    text = json.dumps(told, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
