"""Taking up a person's decision. Each one ends in the same place: the calls, then the model.

The signal stays on the record until the commit that carries its effect, so that a worker that
dies in between leaves the decision for the next one.
"""

from __future__ import annotations

import json
from typing import Any

from api_client.contract import (
    Answer,
    Approve,
    DidNotHappen,
    Extend,
    Finish,
    Happened,
    Pause,
    Reject,
    Retry,
)
from worker.agent import Agent
from worker.effects import End, Part
from worker.job import Job


def resume(agent: Agent, job: Job) -> Part:
    """Apply the signal of the pause that was open."""
    signal, pause = job.signal, job.pause
    assert signal is not None
    assert pause is not None
    job.consume_signal()
    match signal:
        case Finish(answer=value):
            return _finish(agent, job, value)
        case Answer(value=value):
            text = agent.texts.human_answer(answer_text(value))
            return (yield from _observe(job, pause, text))
        case Happened(result=value):
            text = agent.texts.outcome_reported(answer_text(value))
            return (yield from _observe(job, pause, text))
        case Reject(reason=reason):
            return (yield from _observe(job, pause, agent.texts.rejected(reason)))
        case DidNotHappen():
            job.state.started = None
        case Approve(arguments=changed):
            job.state.approved[_call_id(pause)] = changed
        case Extend(amount=amount):
            name = str(pause.details["budget"])
            job.state.granted[name] = job.state.granted.get(name, 0) + amount
        case Retry():
            job.state.failures = 0
            if pause.action is not None:
                job.state.approved[pause.action.call_id] = None
    yield job.commit("resumed", signal=signal.kind, pause=pause.id)
    return None


def answer_text(value: Any) -> str:
    """A person's answer as the model reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call_id(pause: Pause) -> str:
    assert pause.action is not None
    return pause.action.call_id


def _observe(job: Job, pause: Pause, text: str) -> Part:
    """The decision is what the model reads of the call that the pause was about."""
    job.state.started = None
    index = job.observe(_call_id(pause), text)
    yield job.commit("observation", i=index, s=job.state.steps, ms=0, pause=pause.id)
    return None


def _finish(agent: Agent, job: Job, value: Any) -> End:
    """A person gives the answer; what the model still asked for is not run."""
    for call in job.transcript.pending:
        job.observe(call["id"], agent.texts.skipped_after_answer())
    return job.finished(value)
