"""Taking up a decision. Each one ends in the same place: the calls, then the model.

The signal stays on the record until the commit that carries its effect, so that a worker that
dies in between leaves the decision for the next one. One that cannot be used has no effect: the
job asks again, and says what was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from api_client.contract import (
    Answer,
    Approve,
    Cancel,
    Decide,
    DidNotHappen,
    Edit,
    Extend,
    Fail,
    Finish,
    Happened,
    Pause,
    Reject,
    Retry,
    Signal,
)
from api_client.signals import BY_DEADLINE
from worker.agent import Agent
from worker.effects import End, Part
from worker.errors import ArgumentError
from worker.job import Job
from worker.pausing import asks_for_typed_answer, pause_again, proposed
from worker.tools import TERMINATE


def resume(agent: Agent, job: Job) -> Part:
    """Apply the signal of the pause that was open."""
    signal, pause = job.signal, job.pause
    assert signal is not None
    assert pause is not None
    job.consume_signal()
    try:
        signal = _checked(agent, job, pause, signal)
    except ArgumentError as error:
        return pause_again(agent, job, pause, error.text)
    match signal:
        case Finish(answer=value):
            return _finish(agent, job, value)
        case Fail(reason=text):
            reason = "deadline" if signal.by == BY_DEADLINE else "failed_by_person"
            return job.failed(reason, text)
        case Edit():
            return (yield from _edit(agent, job, pause, signal))
        case Decide():
            return (yield from _decide(agent, job, pause, signal))
        case Answer() | Happened() | Reject():
            return (yield from _observe(job, pause, _observations(agent, pause, signal)))
        case _:
            _go_on(job, pause, signal)
    yield job.commit("resumed", signal=signal.kind, pause=pause.id)
    return None


def _observations(agent: Agent, pause: Pause, signal: Answer | Happened | Reject) -> dict[str, str]:
    """What the model reads of the calls that the pause was about, by call id."""
    calls = [one.call_id for one in proposed(pause)]
    match signal:
        case Answer(value=value):
            return {calls[0]: agent.texts.human_answer(answer_text(value))}
        case Happened(result=value):
            return {calls[0]: agent.texts.outcome_reported(answer_text(value))}
        case Reject(reason=reason):
            return dict.fromkeys(calls, agent.texts.rejected(reason))


def _go_on(
    job: Job, pause: Pause, signal: Approve | Extend | Retry | DidNotHappen | Cancel
) -> None:
    """Decisions that answer no call."""
    match signal:
        case Approve(arguments=changed):
            job.state.approved |= {one.call_id: changed for one in proposed(pause)}
        case DidNotHappen():
            job.state.started = None
        case Extend(amount=amount):
            name = str(pause.details["budget"])
            job.state.granted[name] = job.state.granted.get(name, 0) + amount
        case Retry():
            job.state.failures = 0
            job.state.approved |= {one.call_id: None for one in proposed(pause)}
        case Cancel():
            raise RuntimeError("a job that was cancelled is not claimed to run")


def answer_text(value: Any) -> str:
    """A person's answer as the model reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- what can be used --------------------------------------------------------------------------


def _checked(agent: Agent, job: Job, pause: Pause, signal: Signal) -> Signal:
    """The signal, its values in the types that they must have.

    Raises:
        ArgumentError: says which value cannot be used, and why.
    """
    match signal:
        case Finish(answer=value):
            return signal.model_copy(update={"answer": _output(agent, value)})
        case Answer(value=value) if asks_for_typed_answer(agent, pause):
            assert agent.human is not None
            return signal.model_copy(update={"value": agent.human.read(value)})
        case Approve(arguments=changed) if changed is not None:
            calls = [one.call_id for one in proposed(pause)]
            if len(calls) != 1:
                raise ArgumentError("several actions are proposed; give arguments by call")
            _check_arguments(agent, pause, {calls[0]: changed})
        case Decide(calls=decided):
            _check_names(decided, [one.call_id for one in proposed(pause)])
            changes = {name: one.arguments for name, one in decided.items() if one.arguments}
            _check_arguments(agent, pause, changes)
        case Edit(answers=answers):
            _check_names(answers, [call["id"] for call in job.transcript.pending])
    return signal


def _output(agent: Agent, value: Any) -> Any:
    """An agent's final answer in its own type."""
    tool = agent.toolbox.get(TERMINATE) if agent.output is not None else None
    if tool is None:
        return value
    given = {"result": value} if tool.answer_is_wrapped else value
    return tool.answer(tool.parse(json.dumps(given)))


def _check_arguments(agent: Agent, pause: Pause, changes: Mapping[str, Mapping[str, Any]]) -> None:
    names = {one.call_id: one.tool for one in proposed(pause)}
    for call_id, changed in changes.items():
        tool = agent.toolbox.get(names[call_id])
        if tool is not None:  # the model is told of a tool that is gone
            tool.parse(json.dumps(changed))


def _check_names(given: Iterable[str], there: Iterable[str]) -> None:
    known = list(there)
    for name in given:
        if name not in known:
            raise ArgumentError(f"{name!r} is no open call; there are: {', '.join(known)}")


# --- what follows ------------------------------------------------------------------------------


def _observe(job: Job, pause: Pause, texts: Mapping[str, str]) -> Part:
    """The decision is what the model reads of the calls that the pause was about."""
    job.state.started = None
    places = [job.observe(call_id, text) for call_id, text in texts.items()]
    if len(places) == 1:
        yield job.commit("observation", i=places[0], s=job.state.steps, ms=0, pause=pause.id)
    else:
        yield job.commit("resumed", pause=pause.id, s=job.state.steps, answers=places)
    return None


def _decide(agent: Agent, job: Job, pause: Pause, signal: Decide) -> Part:
    """Some actions are approved, others refused; those not named are asked for again."""
    refused = {}
    for call_id, decision in signal.calls.items():
        if decision.approve:
            job.state.approved[call_id] = decision.arguments
        else:
            refused[call_id] = agent.texts.rejected(decision.reason)
    places = [job.observe(call_id, text) for call_id, text in refused.items()]
    yield job.commit("resumed", signal=signal.kind, pause=pause.id, answers=places)
    return None


def _edit(agent: Agent, job: Job, pause: Pause, signal: Edit) -> Part:
    """A person answers in the tools' place, and may tell the model something."""
    roles = {call["id"]: call["function"]["name"] for call in job.transcript.pending}
    places = []
    for call_id, value in signal.answers.items():
        tool, text = agent.toolbox.get(roles[call_id]), answer_text(value)
        human = tool is not None and tool.role == "human"
        places.append(job.observe(call_id, agent.texts.human_answer(text) if human else text))
        if job.state.started == call_id:
            job.state.started = None
    if signal.message.strip():
        job.state.told.append(signal.message)
    job.state.failures = 0
    yield job.commit("resumed", signal=signal.kind, pause=pause.id, answers=places)
    return None


def _finish(agent: Agent, job: Job, value: Any) -> End:
    """A person gives the answer; what the model still asked for is not run."""
    for call in job.transcript.pending:
        job.observe(call["id"], agent.texts.skipped_after_answer())
    return job.finished(value)
