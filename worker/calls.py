"""Answering the calls of a reply.

One at a time, in the model's order:

1. A call that cannot be run (unknown tool, malformed or invalid arguments) gets an error.
2. Calls of other agents start together and are waited for, when their siblings are answered.
   Last come ``hand_to_human`` and calls that need approval: the job pauses for the first of them,
   or for all that need approval at once.
3. ``terminate``, or a terminal tool that succeeds, ends the job; the calls behind it are not run
   and are answered with "skipped". Beside a call that comes last, ``terminate`` is refused: the
   model has not read that answer yet.
4. Neighbouring calls of ``safe`` tools run side by side if the agent says so; their observations
   are still committed one by one, in order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from api_client.contract import PauseKind, ProposedAction
from worker import budget
from worker.agent import Agent
from worker.context import CallInfo
from worker.delegation import answer_by_sub_jobs
from worker.effects import CallTool, CallTools, End, Part, ToolAnswer
from worker.errors import ArgumentError, PauseRequested
from worker.job import Job
from worker.limits import limit
from worker.pausing import pause
from worker.repeats import action_of, count_repeat, is_repeated
from worker.tools import Arguments, Observation, Tool
from worker.turns import bad_replies_text


def answer_calls(agent: Agent, job: Job) -> Part:
    """Answer every open call; those that need a person come last."""
    if agent.parallel_safe:
        end = yield from _answer_side_by_side(agent, job)
        if end is not None:
            return end
    for call in job.transcript.pending:
        end = yield from _answer(agent, job, call)
        if end is not None:
            return end
    end = yield from answer_by_sub_jobs(agent, job)
    if end is not None:
        return end
    if job.transcript.pending:
        return _hand_over(agent, job)
    return _give_up(job) if job.state.bad_turns >= agent.max_bad_turns else None


def _comes_last(job: Job, call: Mapping[str, Any], tool: Tool, arguments: Arguments) -> bool:
    """Whether a call is answered after its siblings: by another agent, or by a person."""
    if tool.role in ("human", "agent"):
        return True
    return call["id"] not in job.state.approved and tool.needs_approval(arguments)


def _hand_over(agent: Agent, job: Job) -> End:
    """Pause for a question of the model, or for the calls that a person must allow."""
    calls = job.transcript.pending
    if agent.tool(calls[0]["function"]["name"]).role == "human":
        action = _checked_action(agent, calls[0])
        reason = str(action.arguments["reason"])
        return pause(agent, job, PauseKind.HAND_TO_HUMAN, reason, actions=[action])
    actions = [
        _checked_action(agent, call)
        for call in calls
        if agent.tool(call["function"]["name"]).role == "tool"
    ]
    return pause(agent, job, PauseKind.APPROVAL, _may_it(actions), actions=actions)


def _may_it(actions: Sequence[ProposedAction]) -> str:
    if len(actions) == 1:
        return f"May the agent run {actions[0].tool} with these arguments?"
    names = ", ".join(action.tool for action in actions)
    return f"May the agent run these {len(actions)} calls: {names}?"


def _checked_action(agent: Agent, call: Mapping[str, Any]) -> ProposedAction:
    tool = agent.tool(call["function"]["name"])
    return _action(call, json.loads(tool.parse(call["function"]["arguments"]).canonical))


def _ask_again(
    agent: Agent, job: Job, call: Mapping[str, Any], arguments: Arguments, error: ArgumentError
) -> End:
    """A call was approved with other arguments, and the tool has changed since: it takes none."""
    del job.state.approved[call["id"]]
    name = call["function"]["name"]
    question = (
        f"{name} was not run: the arguments that were given in place of the agent's do not fit. "
        f"{error.text}\nMay the agent run {name} with its own arguments, or with others?"
    )
    action = _action(call, json.loads(arguments.canonical))
    return pause(agent, job, PauseKind.APPROVAL, question, actions=[action])


def _give_up(job: Job) -> End:
    last = job.transcript.stored[-1].get("content", "")
    return job.failed("bad_replies", bad_replies_text(job, last))


def _answer(agent: Agent, job: Job, call: Mapping[str, Any]) -> Part:
    """Answer one call: with an error, by ending the job, or by running its tool."""
    call_id, name = call["id"], call["function"]["name"]
    if job.state.started == call_id:
        return _in_doubt(agent, job, call)
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
    if _comes_last(job, call, tool, arguments):
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
    """Whether an open call will be answered after its siblings."""
    tool = agent.toolbox.get(call["function"]["name"])
    if tool is None or call["id"] in job.state.problems:
        return False
    try:
        arguments = tool.parse(call["function"]["arguments"], agent.texts)
    except ArgumentError:
        return False
    return _comes_last(job, call, tool, arguments)


def _end_with(agent: Agent, job: Job, value: Any) -> End:
    """The job has its answer: whatever else the model asked for is not run."""
    for call in job.transcript.pending:
        job.observe(call["id"], agent.texts.skipped_after_answer())
    return job.finished(value)


def _act(agent: Agent, job: Job, call: Mapping[str, Any], tool: Tool, arguments: Arguments) -> Part:
    """Run a tool, within the budgets and under the rule of its side effects."""
    changed = job.state.approved.get(call["id"])
    if changed is not None:
        try:
            arguments = tool.parse(json.dumps(changed), agent.texts)
        except ArgumentError as error:
            return _ask_again(agent, job, call, arguments, error)
    most = tool.max_repeats or agent.max_repeats
    action = action_of(tool, arguments, most)
    if call["id"] not in job.state.approved and is_repeated(job.state.repeats, action, most):
        return _repeated(agent, job, call, arguments)
    if spent := budget.before_tool_call(
        job.state, job.limits(agent.limits), tool.name, tool.max_calls
    ):
        return limit(agent, job, spent)
    if tool.effects == "once":
        job.state.started = call["id"]
        yield job.commit("started", call=call["id"])
    answer: ToolAnswer = yield CallTool(tool, arguments, _info(job, call["id"]))
    job.state.started = None
    job.state.active_ms += answer.elapsed_ms
    job.count_call(tool)
    if isinstance(answer.result, PauseRequested):
        return _tool_asks(agent, job, call, arguments, answer.result)
    result = answer.result
    count_repeat(job.state.repeats, action, result.content)
    if changed is not None:
        told = agent.texts.ran_with_changes(arguments.canonical, result.content)
        result = replace(result, content=told)
    if tool.name in agent.terminal_names and not result.error:
        job.observe(call["id"], result.content)
        return _end_with(agent, job, result.value)
    return (yield from _observe(job, call["id"], result, answer.elapsed_ms, arguments))


def _answer_side_by_side(agent: Agent, job: Job) -> Part:
    """Run the leading calls of ``safe`` tools at once, if there are several."""
    batch = _leading_safe_calls(agent, job)
    if len(batch) < 2:
        return None
    job.state.bad_turns = 0
    answers: tuple[ToolAnswer, ...] = yield CallTools(tuple(batch))
    job.state.active_ms += max(answer.elapsed_ms for answer in answers)
    asking: End | None = None
    for call, answer in zip(batch, answers, strict=True):
        job.count_call(call.tool)
        if isinstance(answer.result, PauseRequested):
            continue
        action = action_of(call.tool, call.arguments, call.tool.max_repeats or agent.max_repeats)
        count_repeat(job.state.repeats, action, answer.result.content)
        yield from _observe(
            job, call.info.call_id, answer.result, answer.elapsed_ms, call.arguments
        )
    for call, answer in zip(batch, answers, strict=True):
        if isinstance(answer.result, PauseRequested) and asking is None:
            pending = {item["id"]: item for item in job.transcript.pending}
            asking = _tool_asks(
                agent, job, pending[call.info.call_id], call.arguments, answer.result
            )
    return asking


def _leading_safe_calls(agent: Agent, job: Job) -> list[CallTool]:
    """The calls, from the first open one on, that nothing speaks against running at once."""
    batch: list[CallTool] = []
    planned = dict(job.state.calls)
    for call in job.transcript.pending:
        ready = _ready(agent, job, call)
        if ready is None or (
            ready.tool.max_calls is not None
            and planned.get(ready.tool.name, 0) >= ready.tool.max_calls
        ):
            break
        planned[ready.tool.name] = planned.get(ready.tool.name, 0) + 1
        batch.append(ready)
    return batch


def _ready(agent: Agent, job: Job, call: Mapping[str, Any]) -> CallTool | None:
    """The call, if it may run beside others: safe, valid, needs nobody, no repetition."""
    tool = agent.toolbox.get(call["function"]["name"])
    usable = tool is not None and call["id"] not in {*job.state.problems, job.state.started}
    if not usable or tool is None or tool.role != "tool" or tool.effects != "safe":
        return None
    try:
        arguments = tool.parse(call["function"]["arguments"], agent.texts)
    except ArgumentError:
        return None
    most = tool.max_repeats or agent.max_repeats
    repeated = is_repeated(job.state.repeats, action_of(tool, arguments, most), most)
    over = budget.before_tool_call(job.state, job.limits(agent.limits), tool.name, tool.max_calls)
    if repeated or over or tool.needs_approval(arguments) or tool.name in agent.terminal_names:
        return None
    return CallTool(tool, arguments, _info(job, call["id"]))


def _info(job: Job, call_id: str) -> CallInfo:
    return CallInfo(
        job_id=job.id,
        call_id=call_id,
        step=job.state.steps,
        attempt=job.attempt_of(call_id),
        idempotency_key=f"{job.spec.keys_of or job.id}:{call_id}",
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


def _in_doubt(agent: Agent, job: Job, call: Mapping[str, Any]) -> End:
    """A ``once`` call was begun and its worker died: only a person can find out (rule 5).

    So it is whatever has become of the tool since, and with the arguments that it was begun with.
    """
    name = call["function"]["name"]
    changed = job.state.approved.get(call["id"])
    arguments = json.loads(call["function"]["arguments"]) if changed is None else changed
    return pause(
        agent,
        job,
        PauseKind.UNKNOWN_OUTCOME,
        f"{name} was started and its worker died before the result was known. It must not run "
        "twice. Did it take effect?",
        actions=[_action(call, arguments)],
        details={"idempotency_key": _info(job, call["id"]).idempotency_key},
    )


def _tool_asks(
    agent: Agent, job: Job, call: Mapping[str, Any], arguments: Arguments, wish: PauseRequested
) -> End:
    """A tool cannot go on without a person, whose answer becomes its observation."""
    return pause(
        agent,
        job,
        PauseKind.HAND_TO_HUMAN,
        wish.question,
        actions=[_action(call, json.loads(arguments.canonical))],
        details={} if wish.data is None else {"data": wish.data},
    )


def _repeated(agent: Agent, job: Job, call: Mapping[str, Any], given: Arguments) -> End:
    times = job.state.repeats.times + 1
    action = f"{call['function']['name']}({given.canonical})"
    text = f"the same action {times} times, with the same result: {action}"
    if agent.on_limit == "stop":
        return job.failed("repeated_action", f"stopped: {text}")
    return pause(
        agent,
        job,
        PauseKind.REPEATED_ACTION,
        f"The model asks for {text}. Run it once more, answer in its place, or finish the job?",
        actions=[_action(call, json.loads(given.canonical))],
        details={"times": times},
    )
