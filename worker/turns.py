"""Taking up what a model call brought: a reply to commit, or an error to wait out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api_client.contract import PauseKind
from worker.agent import Agent
from worker.effects import Backoff, End, ModelAnswer, Part
from worker.errors import ArgumentError
from worker.job import Job
from worker.messages import user
from worker.models.base import ModelError, ModelReply, Usage
from worker.replies import Call, Turn, read_reply
from worker.retry import backoff_s
from worker.state import Tokens

EMPTY_REPLY = "empty_response"


def take_reply(agent: Agent, job: Job, answer: ModelAnswer) -> Part:
    """Commit a reply with its calls, or decide what an error means."""
    job.state.active_ms += answer.elapsed_ms
    if isinstance(answer.result, ModelError):
        return _model_error(agent, job, answer.result)
    reply = answer.result
    turn = read_reply(
        reply.message,
        history=job.transcript.view,
        tool_names=agent.toolbox.names,
        finish_reason=reply.finish_reason,
    )
    if _is_empty(turn):
        _charge(agent, job, turn, reply)
        text = "the model sent an empty reply: no text and no tool call"
        return _model_error(agent, job, ModelError(text, "retry", code=EMPTY_REPLY))
    return (yield from _take_turn(agent, job, turn, reply, answer.elapsed_ms))


def _is_empty(turn: Turn) -> bool:
    return not turn.calls and not turn.text.strip() and turn.refusal is None


def _take_turn(agent: Agent, job: Job, turn: Turn, reply: ModelReply, elapsed_ms: int) -> Part:
    spent = _charge(agent, job, turn, reply)
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
        yield job.commit("reply", **data)
        return None
    return (yield from _take_text(agent, job, turn, reply, data))


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
        return agent.texts.unknown_tool(call.raw_name, agent.toolbox.names)
    if call.problem == "truncated":
        return agent.texts.cut_call()
    if call.problem == "malformed":
        try:
            tool.parse(call.arguments)
        except ArgumentError as error:
            return error.text
        return agent.texts.cut_call()
    return None


def _charge(agent: Agent, job: Job, turn: Turn, reply: ModelReply) -> dict[str, Any]:
    """Add a reply's tokens and price to the job's account; returns them for the trace."""
    usage = reply.usage or _estimated(agent, job, turn.message)
    tokens = Tokens(
        usage.prompt_tokens, usage.completion_tokens, min(usage.cached_tokens, usage.prompt_tokens)
    )
    account = job.state.usage
    account.prompt_tokens += tokens.prompt_tokens
    account.completion_tokens += tokens.completion_tokens
    account.cached_tokens += tokens.cached_tokens
    account.estimated = account.estimated or usage.estimated
    data: dict[str, Any] = {"in": tokens.prompt_tokens, "out": tokens.completion_tokens}
    if usage.estimated:
        data["est"] = 1
    if agent.price is not None:
        micros = agent.price.micros(tokens)
        account.cost_micros += micros
        data["cost"] = micros / 1e6
    return data


def _estimated(agent: Agent, job: Job, message: Mapping[str, Any]) -> Usage:
    return Usage(
        prompt_tokens=job.prompt_tokens(agent.count_tokens),
        completion_tokens=agent.count_tokens([dict(message)]),
        estimated=True,
    )


def _model_error(agent: Agent, job: Job, error: ModelError) -> End:
    """Wait and try again, ask a person, or give up; see the failure table."""
    job.state.failures += 1
    failures = job.state.failures
    if error.fate == "retry" and failures < agent.max_model_attempts:
        seconds = backoff_s(job.id, failures, error.retry_after)
        messages, consumes = job.carry()
        return Backoff(messages, consumes, seconds=seconds, text=error.text, attempt=failures)
    if error.fate == "fail" or error.code == EMPTY_REPLY:
        return job.failed(error.code or "model_error", error.text)
    attempts = f" after {failures} attempts" if failures > 1 else ""
    return job.paused(
        PauseKind.MODEL_ERROR,
        f"The model call failed{attempts}: {error.text}. Try again, or finish the job?",
        details={"code": error.code, "status": error.status, "attempts": failures},
    )
