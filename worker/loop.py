"""The agent loop: ask the model, answer its calls, repeat. A pure generator.

It yields effects and is sent their answers (see ``worker.effects``); the runner performs them.
Every way back in, after a crash, a pause, a spent budget or a deploy, is the same: take up the
person's answer if there is one, answer the calls that have none, go on.

How the calls of one reply are answered: one at a time, in the model's order.

1. A call that cannot be run (unknown tool, malformed or invalid arguments) gets an error.
2. ``hand_to_human`` waits until its siblings are answered; then the job pauses for it.
3. ``terminate``, or a terminal tool that succeeds, ends the job; the calls behind it are not run
   and are answered with "skipped". Beside a call that waits for a person, ``terminate`` is
   refused: the model has not read the person's answer yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from api_client.contract import PauseKind, ProposedAction
from worker import budget
from worker.agent import Agent
from worker.budget import Spent
from worker.context import CallInfo
from worker.effects import (
    CallModel,
    CallTool,
    End,
    ModelAnswer,
    Part,
    Steps,
    ToolAnswer,
)
from worker.errors import ArgumentError, PauseRequested
from worker.job import Job
from worker.messages import system, user
from worker.models.base import ModelRequest
from worker.resume import resume
from worker.tools import Arguments, Observation, Tool
from worker.turns import bad_replies_text, take_reply


def advance(agent: Agent, job: Job) -> Steps:
    """Run a job to its next end: an answer, a failure, a pause or a wait."""
    end = yield from _enter(agent, job)
    while end is None:
        end = yield from _answer_calls(agent, job)
        if end is None:
            end = yield from _ask(agent, job)
    return end


def _enter(agent: Agent, job: Job) -> Part:
    """Begin a new job, or take up a paused one."""
    if not job.transcript.stored:
        job.transcript.append(system(agent.goal))
        job.transcript.append(user(input_text(job.spec.input)))
        job.state.version = agent.version
    if job.signal is not None:
        end = yield from resume(agent, job)
        if end is not None:
            return end
    if job.state.version != agent.version:
        return (yield from _meet_new_code(agent, job))
    return None


def input_text(value: Any) -> str:
    """A job's input as the model reads it: text as it is, other JSON values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _meet_new_code(agent: Agent, job: Job) -> Part:
    """The job began under another version of the agent."""
    before, job.state.version = job.state.version, agent.version
    if agent.on_version_change == "pause":
        return job.paused(
            PauseKind.VERSION_CHANGE,
            f"The agent changed from version {before} to {agent.version}. Go on with the new one?",
            details={"before": before, "now": agent.version},
        )
    yield job.commit("version", before=before, now=agent.version)
    return None


# --- asking the model ----------------------------------------------------------------------


def _ask(agent: Agent, job: Job) -> Part:
    """One model call and the commit of its reply, within the budgets."""
    reserve = job.prompt_tokens(agent.count_tokens) if agent.max_tokens is not None else 0
    if spent := budget.before_model_call(job.state, agent.limits, reserve):
        return _limit(agent, job, spent)
    request = ModelRequest(
        messages=job.transcript.request(),
        tools=agent.schemas,
        tool_choice=agent.tool_choice,
        parallel_tool_calls=agent.parallel_tool_calls,
    )
    answer: ModelAnswer = yield CallModel(request)
    return (yield from take_reply(agent, job, answer))


def _limit(agent: Agent, job: Job, spent: Spent) -> End:
    """A budget is used up: a person decides, or the job stops."""
    if agent.on_limit == "stop":
        reason = "max_calls" if spent.name.startswith("calls:") else f"max_{spent.name}"
        return job.failed(reason, f"stopped: {budget.describe(spent)} without an answer")
    return job.paused(
        PauseKind.BUDGET,
        f"The job has used {budget.describe(spent)} without an answer. "
        "Extend the budget, or finish the job with an answer?",
        details={"budget": spent.name, "spent": spent.spent, "limit": spent.limit},
    )


# --- answering its calls -------------------------------------------------------------------


def _answer_calls(agent: Agent, job: Job) -> Part:
    """Answer every open call; those that need a person come last."""
    for call in job.transcript.pending:
        end = yield from _answer(agent, job, call)
        if end is not None:
            return end
    for call in job.transcript.pending:
        return _hand_over(agent, job, call)
    return _give_up(job) if job.state.bad_turns >= agent.max_bad_turns else None


def _needs_person(job: Job, call: Mapping[str, Any], tool: Tool, arguments: Arguments) -> bool:
    """Whether a person decides about this call: a question, or an action to approve."""
    if tool.role == "human":
        return True
    return call["id"] not in job.state.approved and tool.needs_approval(arguments)


def _hand_over(agent: Agent, job: Job, call: Mapping[str, Any]) -> End:
    """Pause for a call that only a person can answer or allow."""
    tool = agent.tool(call["function"]["name"])
    arguments = json.loads(tool.parse(call["function"]["arguments"]).canonical)
    action = _action(call, arguments)
    if tool.role == "human":
        return job.paused(PauseKind.HAND_TO_HUMAN, str(arguments["reason"]), action=action)
    question = f"May the agent run {tool.name} with these arguments?"
    return job.paused(PauseKind.APPROVAL, question, action=action)


def _give_up(job: Job) -> End:
    last = job.transcript.stored[-1].get("content", "")
    return job.failed("bad_replies", bad_replies_text(job, last))


def _answer(agent: Agent, job: Job, call: Mapping[str, Any]) -> Part:
    """Answer one call: with an error, by ending the job, or by running its tool."""
    call_id, name = call["id"], call["function"]["name"]
    tool = agent.toolbox.get(name)
    problem = job.state.problems.get(call_id)
    if problem is None and tool is None:
        problem = agent.texts.unknown_tool(name, agent.toolbox.names)
    if problem is not None or tool is None:
        return (yield from _observe(job, call_id, Observation(problem or "", error=True)))
    try:
        arguments = tool.parse(call["function"]["arguments"], agent.texts)
    except ArgumentError as error:
        return (yield from _observe(job, call_id, Observation(error.text, error=True)))
    job.state.bad_turns = 0
    if _needs_person(job, call, tool, arguments):
        return None
    if tool.role == "terminate":
        return (yield from _terminate(agent, job, call_id, tool, arguments))
    return (yield from _act(agent, job, call, tool, arguments))


def _terminate(agent: Agent, job: Job, call_id: str, tool: Tool, arguments: Arguments) -> Part:
    if any(_waits(agent, job, other) for other in job.transcript.pending):
        text = agent.texts.terminate_too_early()
        return (yield from _observe(job, call_id, Observation(text, error=True)))
    job.observe(call_id, agent.texts.accepted())
    return _end_with(agent, job, tool.answer(arguments))


def _waits(agent: Agent, job: Job, call: Mapping[str, Any]) -> bool:
    """Whether an open call will be answered by a person."""
    tool = agent.toolbox.get(call["function"]["name"])
    if tool is None or call["id"] in job.state.problems:
        return False
    try:
        arguments = tool.parse(call["function"]["arguments"], agent.texts)
    except ArgumentError:
        return False
    return _needs_person(job, call, tool, arguments)


def _end_with(agent: Agent, job: Job, value: Any) -> End:
    """The job has its answer: whatever else the model asked for is not run."""
    for call in job.transcript.pending:
        job.observe(call["id"], agent.texts.skipped_after_answer())
    return job.finished(value)


def _act(agent: Agent, job: Job, call: Mapping[str, Any], tool: Tool, arguments: Arguments) -> Part:
    """Run a tool, within the budgets and under the rule of its side effects."""
    if job.state.started == call["id"]:
        return _in_doubt(job, call, arguments)
    changed = job.state.approved.get(call["id"])
    if changed is not None:
        arguments = tool.parse(json.dumps(changed))
    action = digest(f"{tool.name}({arguments.canonical})")
    if call["id"] not in job.state.approved and _is_repeated(agent, job, action):
        return _repeated(agent, job, call, arguments)
    if spent := budget.before_tool_call(job.state, agent.limits, tool.name, tool.max_calls):
        return _limit(agent, job, spent)
    if tool.effects == "once":
        job.state.started = call["id"]
        yield job.commit("started", call=call["id"])
    answer: ToolAnswer = yield CallTool(tool, arguments, _info(job, call["id"]))
    job.state.started = None
    job.state.active_ms += answer.elapsed_ms
    job.state.calls[tool.name] = job.state.calls.get(tool.name, 0) + 1
    if isinstance(answer.result, PauseRequested):
        return _tool_asks(job, call, arguments, answer.result)
    _count_repeat(job, action, answer.result.content)
    if tool.name in agent.terminal_names and not answer.result.error:
        job.observe(call["id"], answer.result.content)
        return _end_with(agent, job, answer.result.value)
    return (yield from _observe(job, call["id"], answer.result, answer.elapsed_ms, arguments))


def _info(job: Job, call_id: str) -> CallInfo:
    return CallInfo(
        job_id=job.id,
        call_id=call_id,
        step=job.state.steps,
        attempt=job.attempt_of(call_id),
        idempotency_key=f"{job.id}:{call_id}",
    )


def _observe(
    job: Job,
    call_id: str,
    result: Observation,
    elapsed_ms: int = 0,
    arguments: Arguments | None = None,
) -> Part:
    """Commit the observation of one call."""
    index = job.observe(call_id, result.content)
    data: dict[str, Any] = {"i": index, "s": job.state.steps, "ms": elapsed_ms}
    if result.error:
        data["error"] = True
    if result.full_length is not None:
        data["full"] = result.full_length
    if arguments is not None and arguments.ignored:
        data["ignored"] = list(arguments.ignored)
    yield job.commit("observation", **data)
    return None


def _action(call: Mapping[str, Any], arguments: Mapping[str, Any]) -> ProposedAction:
    return ProposedAction(
        call_id=call["id"], tool=call["function"]["name"], arguments=dict(arguments)
    )


def _in_doubt(job: Job, call: Mapping[str, Any], arguments: Arguments) -> End:
    """A ``once`` call was begun and its worker died: only a person can find out (rule 5)."""
    name = call["function"]["name"]
    return job.paused(
        PauseKind.UNKNOWN_OUTCOME,
        f"{name} was started and its worker died before the result was known. It must not run "
        "twice. Did it take effect?",
        action=_action(call, json.loads(arguments.canonical)),
        details={"idempotency_key": _info(job, call["id"]).idempotency_key},
    )


def _tool_asks(
    job: Job, call: Mapping[str, Any], arguments: Arguments, wish: PauseRequested
) -> End:
    """A tool cannot go on without a person, whose answer becomes its observation."""
    return job.paused(
        PauseKind.HAND_TO_HUMAN,
        wish.question,
        action=_action(call, json.loads(arguments.canonical)),
        details={} if wish.data is None else {"data": wish.data},
    )


# --- repeated actions ----------------------------------------------------------------------


def _is_repeated(agent: Agent, job: Job, action: str) -> bool:
    """Whether running this action would be the ``max_repeats``-th time without any news."""
    repeats = job.state.repeats
    limit = agent.max_repeats
    return limit is not None and repeats.action == action and repeats.times >= limit - 1


def _count_repeat(job: Job, action: str, content: str) -> None:
    repeats, seen = job.state.repeats, digest(content)
    if repeats.action == action and repeats.observation == seen:
        repeats.times += 1
    else:
        repeats.action, repeats.observation, repeats.times = action, seen, 1


def digest(text: str) -> str:
    """Sixteen characters that stand for a text of any length in the run state."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _repeated(agent: Agent, job: Job, call: Mapping[str, Any], given: Arguments) -> End:
    times = job.state.repeats.times + 1
    action = f"{call['function']['name']}({given.canonical})"
    text = f"the same action {times} times, with the same result: {action}"
    if agent.on_limit == "stop":
        return job.failed("repeated_action", f"stopped: {text}")
    arguments = json.loads(given.canonical)
    return job.paused(
        PauseKind.REPEATED_ACTION,
        f"The model asks for {text}. Run it once more, answer in its place, or finish the job?",
        action=_action(call, arguments),
        details={"times": times},
    )
