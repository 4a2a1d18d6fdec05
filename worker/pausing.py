"""Making a job pause: who may answer, by when, and what an answer looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from api_client.contract import Pause, PauseKind, ProposedAction, Wish
from worker.agent import Agent
from worker.effects import Paused
from worker.job import Job
from worker.pauses import PausePolicy, make_pause, merged
from worker.tools import TERMINATE, Tool
from worker.tools.forms import Schema, inlined


def pause(
    agent: Agent,
    job: Job,
    kind: PauseKind,
    question: str,
    *,
    actions: Sequence[ProposedAction] = (),
    details: Mapping[str, Any] | None = None,
) -> Paused:
    """The job waits for a person.

    Args:
        actions: what the question is about.
        details: figures and names, JSON values.
    """
    tools = [tool for one in actions if (tool := agent.toolbox.get(one.tool)) is not None]
    job.state.pauses += 1
    record = make_pause(
        kind,
        question,
        number=job.state.pauses,
        step=job.state.steps,
        actions=actions,
        details=details,
        policy=_policy(agent, job, kind, tools),
        schemas=_schemas(agent, job, kind, actions),
    )
    return Paused(*job.carry(), pause=record)


def operator_pause(agent: Agent, job: Job, wish: Wish) -> Paused:
    """Somebody wants the job paused, whatever it is doing."""
    by = wish.by or "somebody who gave no name"
    why = f": {wish.note}" if wish.note else ""
    question = f"Paused by {by}{why}. Go on, or finish the job?"
    return pause(agent, job, PauseKind.OPERATOR, question, details=wish.model_dump())


def pause_again(agent: Agent, job: Job, before: Pause, problem: str) -> Paused:
    """Ask the same once more: the answer cannot be used, and nothing of it was."""
    asked = str(before.details.get("question", before.question))
    return pause(
        agent,
        job,
        before.kind,
        f"The values of the last answer do not fit. {problem}\n{asked}",
        actions=proposed(before),
        details={**before.details, "question": asked, "problem": problem},
    )


def proposed(record: Pause) -> Sequence[ProposedAction]:
    """All actions that a pause is about."""
    return record.actions or ((record.action,) if record.action else ())


def _policy(agent: Agent, job: Job, kind: PauseKind, tools: Sequence[Tool]) -> PausePolicy:
    """Of the tools, of the kind of pause, and of the agent; and the job's own labels."""
    own = PausePolicy(labels=job.spec.labels)
    of_tools = [part for t in tools for part in (t.pause_policy, PausePolicy(labels=t.labels))]
    return merged([own, *of_tools, agent.policies.get(kind), agent.pause_policy])


# --- what an answer looks like ---------------------------------------------------------------


def _schemas(
    agent: Agent, job: Job, kind: PauseKind, actions: Sequence[ProposedAction]
) -> dict[str, dict[str, Any]]:
    """Schemas of single fields, by kind of signal and field."""
    found: dict[str, dict[str, Any]] = {"edit": {"answers": _open_calls(job)}}
    if (output := output_schema(agent)) is not None:
        found["finish"] = {"answer": output}
    if kind is PauseKind.HAND_TO_HUMAN and agent.human is not None and not _of_tool(agent, actions):
        found["answer"] = {"value": agent.human.schema}
    if kind is PauseKind.APPROVAL and len(actions) == 1:
        found["approve"] = {"arguments": _parameters(agent, actions[0])}
    if kind is PauseKind.APPROVAL and len(actions) > 1:
        found["decide"] = {"calls": _decisions(agent, actions)}
    return found


def _of_tool(agent: Agent, actions: Sequence[ProposedAction]) -> bool:
    """Whether a tool asks, and not the model."""
    tool = agent.toolbox.get(actions[0].tool) if actions else None
    return tool is not None and tool.role == "tool"


def asks_for_typed_answer(agent: Agent, record: Pause) -> bool:
    """Whether the answer must be of the agent's ``human_answer``."""
    return (
        record.kind is PauseKind.HAND_TO_HUMAN
        and agent.human is not None
        and not _of_tool(agent, proposed(record))
    )


def output_schema(agent: Agent) -> Schema | None:
    """The schema of the agent's final answer; ``None`` if it may be anything."""
    tool = agent.toolbox.get(TERMINATE) if agent.output is not None else None
    if tool is None:
        return None
    if not tool.answer_is_wrapped:
        return tool.parameters
    kept = {"$defs": tool.parameters["$defs"]} if "$defs" in tool.parameters else {}
    return {**tool.parameters["properties"]["result"], **kept}


def _open_calls(job: Job) -> Schema:
    calls = {call["id"]: {"title": call["function"]["name"]} for call in job.transcript.pending}
    return {"type": "object", "properties": calls, "additionalProperties": False}


def _parameters(agent: Agent, action: ProposedAction) -> Schema:
    tool = agent.toolbox.get(action.tool)
    return {"type": "object"} if tool is None else tool.parameters


def _decisions(agent: Agent, actions: Sequence[ProposedAction]) -> Schema:
    return {
        "type": "object",
        "properties": {one.call_id: _decision(agent, one) for one in actions},
        "additionalProperties": False,
        "minProperties": 1,
    }


def _decision(agent: Agent, action: ProposedAction) -> Schema:
    arguments = {"anyOf": [inlined(_parameters(agent, action)), {"type": "null"}]}
    properties = {
        "approve": {"type": "boolean"},
        "arguments": arguments,
        "reason": {"type": "string"},
    }
    return {
        "title": action.tool,
        "type": "object",
        "properties": properties,
        "required": ["approve"],
        "additionalProperties": False,
    }
