"""Taking up what a model call brought: a reply to commit, or an error to wait out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api_client.contract import PauseKind
from api_client.sizes import size_of, too_large
from worker.accounting import charge
from worker.agent import Agent
from worker.effects import Backoff, End, ModelAnswer, Part
from worker.errors import ArgumentError
from worker.job import Job
from worker.memory import SummaryPlace, shown
from worker.messages import Message, user
from worker.models.base import ModelError, ModelReply
from worker.pausing import pause
from worker.replies import Call, Turn, read_turn
from worker.retry import backoff_s

EMPTY_REPLY = "empty_response"

_SHOWN = 200
"""Characters of a name that no tool has: a run state must stay small."""


def take_reply(agent: Agent, job: Job, answer: ModelAnswer, sent: Sequence[Message]) -> Part:
    """Commit a reply with its calls, or decide what an error means.

    Args:
        sent: the messages that the model was shown.
    """
    job.state.active_ms += answer.elapsed_ms
    if isinstance(answer.result, ModelError):
        if answer.result.fate == "compact":
            return (yield from _compact(agent, job, answer.result, sent))
        return _model_error(agent, job, answer.result)
    reply = answer.result
    if (size := size_of(reply.message)) > job.sizes.max_reply_bytes:
        return _reply_too_large(agent, job, reply, size)
    turn = read_turn(
        reply.message,
        taken=job.transcript.call_ids,
        step=job.transcript.replies,
        tool_names=agent.toolbox.names,
        finish_reason=reply.finish_reason,
    )
    if _is_empty(turn):
        charge(agent, job, turn.message, reply)
        text = "the model sent an empty reply: no text and no tool call"
        return _model_error(agent, job, ModelError(text, "retry", code=EMPTY_REPLY))
    return (yield from _take_turn(agent, job, turn, reply, answer.elapsed_ms))


def _reply_too_large(agent: Agent, job: Job, reply: ModelReply, size: int) -> End:
    """Nothing of the reply is kept but what it has cost."""
    charge(agent, job, reply.message, reply)
    advice = "let the model answer in parts, or raise the limit"
    text = too_large("reply", size, job.sizes.max_reply_bytes, "max_reply_bytes", advice)
    return _model_error(agent, job, ModelError(text, "pause", code="reply_too_large"))


def _is_empty(turn: Turn) -> bool:
    return not turn.calls and not turn.text.strip() and turn.refusal is None


def _take_turn(agent: Agent, job: Job, turn: Turn, reply: ModelReply, elapsed_ms: int) -> Part:
    spent = charge(agent, job, turn.message, reply)
    state = job.state
    state.steps += 1
    state.failures = 0
    state.approved = {}
    state.problems = _problems(agent, turn)
    if turn.calls:
        state.bad_turns += 1  # until the first of them turns out to be usable
    index = job.transcript.append(turn.message)
    data = {"i": index, "s": state.steps, "ms": elapsed_ms, **spent}
    if turn.raw:
        data["raw"] = turn.raw
    if turn.calls:
        yield job.commit("reply", reads_next=_reads_next(agent, turn.calls[0]), **data)
        return None
    return (yield from _take_text(agent, job, turn, reply, data))


def _reads_next(agent: Agent, call: Call) -> bool:
    tool = agent.toolbox.get(call.name)
    return tool is not None and tool.only_reads


def _take_text(agent: Agent, job: Job, turn: Turn, reply: ModelReply, data: dict[str, Any]) -> Part:
    """A reply without calls: the answer, a refusal, or something to correct."""
    note = _note(agent, turn, reply.finish_reason)
    if turn.refusal is not None:
        return job.failed("refused", f"the model refused: {turn.refusal}", **data)
    if note is None:
        return job.finished(turn.text, **data)
    job.state.bad_turns += 1
    if job.state.bad_turns < agent.max_bad_turns:
        job.transcript.append(user(note))
        yield job.commit("reply", **data)
        return None
    return job.failed("bad_replies", bad_replies_text(job, turn.text), **data)


def bad_replies_text(job: Job, last: str) -> str:
    """Why a job whose model sends nothing usable ends."""
    bad = job.state.bad_turns
    return f"the model sent {bad} unusable replies in a row; the last one: {last[:500]}"


def _note(agent: Agent, turn: Turn, finish_reason: str | None) -> str | None:
    """What the model is told about a text that cannot be the answer."""
    if turn.refusal is not None:
        return None
    if turn.text_call:
        return agent.texts.text_call()
    if finish_reason == "length":
        return agent.texts.answer_cut()
    if not agent.ends_by_text:
        exits = ["terminate"] if agent.output is not None else sorted(agent.terminal_names)
        return agent.texts.answer_by_tool(exits[0])
    return None


def _problems(agent: Agent, turn: Turn) -> dict[str, str]:
    """The error text of each call of a reply that can never be run, by call id."""
    found = {call.id: _problem(agent, call) for call in turn.calls}
    return {call_id: text for call_id, text in found.items() if text is not None}


def _problem(agent: Agent, call: Call) -> str | None:
    tool = agent.toolbox.get(call.name)
    if tool is None:
        return agent.texts.unknown_tool(call.raw_name[:_SHOWN], agent.toolbox.names)
    if call.problem == "truncated":
        return agent.texts.cut_call()
    if call.problem == "malformed":
        try:
            tool.parse(call.arguments, agent.texts)
        except ArgumentError as error:
            return error.text
        return agent.texts.cut_call()
    return None


def _compact(agent: Agent, job: Job, error: ModelError, sent: Sequence[Message]) -> Part:
    """The history is too long for the model: show half of it, once a step, then ask a person."""
    state = job.state
    room = agent.count_tokens(sent) // 2
    place = SummaryPlace(*state.summary) if state.summary else None
    less = shown(job.transcript.request(), room, agent.count_tokens, agent.texts, place)
    if state.compacted == state.steps + 1 or len(less) >= len(sent):
        return _model_error(agent, job, error)
    state.room, state.compacted = room, state.steps + 1
    yield job.commit("compacted", room=room, messages=len(less), of=len(sent))
    return None


def held_back(job: Job, error: ModelError) -> End:
    """The call must wait its turn at a limit that all workers share: no failure of the model."""
    messages, consumes = job.carry()
    return Backoff(messages, consumes, seconds=error.retry_after or 1.0, text=error.text, attempt=0)


def _model_error(agent: Agent, job: Job, error: ModelError) -> End:
    """Wait and try again, ask a person, or give up; see the failure table."""
    if error.fate == "wait":
        return held_back(job, error)
    job.state.failures += 1
    failures = job.state.failures
    if error.fate == "retry" and failures < agent.max_model_attempts:
        seconds = backoff_s(job.id, failures, error.retry_after)
        messages, consumes = job.carry()
        return Backoff(messages, consumes, seconds=seconds, text=error.text, attempt=failures)
    if error.fate == "fail" or error.code == EMPTY_REPLY:
        return job.failed(error.code or "model_error", error.text)
    attempts = f" after {failures} attempts" if failures > 1 else ""
    return pause(
        agent,
        job,
        PauseKind.MODEL_ERROR,
        f"The model call failed{attempts}: {error.text}. Try again, or finish the job?",
        details={"code": error.code, "status": error.status, "attempts": failures},
    )
