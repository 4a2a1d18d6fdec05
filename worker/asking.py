"""Asking the model: what it is shown, within the budgets, and its answer taken up."""

from __future__ import annotations

from worker import budget
from worker.accounting import charge
from worker.agent import Agent
from worker.effects import CallModel, End, ModelAnswer, Part
from worker.job import Job
from worker.limits import limit
from worker.memory import Summarised, SummaryPlace, cut_at, head_length, shown, transcribed
from worker.messages import system, user
from worker.models.base import ModelError, ModelReply, ModelRequest
from worker.state import RunState
from worker.turns import held_back, take_reply


def ask(agent: Agent, job: Job) -> Part:
    """One model call and the commit of its reply."""
    if job.mail or job.state.told:
        yield from _hear(job)
    if isinstance(agent.memory, Summarised):
        end: End | None = yield from _summarise(agent, job, agent.memory)
        if end is not None:
            return end
    room = _room(agent, job.state)
    messages = shown(
        job.transcript.request(), room, agent.count_tokens, agent.texts, _summary(job.state)
    )
    limits = job.limits(agent.limits)
    if spent := budget.before_model_call(job.state, limits, _reserve(agent, job, room)):
        return limit(agent, job, spent)
    if spent := budget.before_storing(job.state, job.sizes.job_quota_bytes):
        return limit(agent, job, spent)
    request = ModelRequest(
        messages=messages,
        tools=agent.schemas,
        tool_choice=agent.tool_choice,
        parallel_tool_calls=agent.parallel_tool_calls,
    )
    live = job.state.steps + 1 if agent.stream else None
    answer: ModelAnswer = yield CallModel(request, live=live)
    return (yield from take_reply(agent, job, answer, messages))


def _hear(job: Job) -> Part:
    """Show the model what people have told it since its last reply."""
    texts = [*job.state.told, *job.open_mail()]
    places = [job.transcript.append(user(text)) for text in texts]
    job.state.told = []
    yield job.commit("heard", i=places[0], n=len(places))
    return None


def _room(agent: Agent, state: RunState) -> int | None:
    """Tokens that may be shown: what the memory allows, or less after a context-length error."""
    allowed, room = agent.memory.tokens, state.room
    return min(allowed, room) if allowed and room else allowed or room


def _reserve(agent: Agent, job: Job, room: int | None) -> int:
    """Estimated input tokens of the next call; counted only where a budget asks for them."""
    if job.limits(agent.limits).tokens is None:
        return 0
    whole = job.prompt_tokens(agent.count_tokens)
    return whole if room is None else min(whole, room)


def _summary(state: RunState) -> SummaryPlace | None:
    return SummaryPlace(*state.summary) if state.summary else None


def _summarise(agent: Agent, job: Job, memory: Summarised) -> Part:
    """Write and commit a summary if the view has outgrown its room.

    A model that fails at this is not asked again for this step: the view is cut instead.
    """
    view, place, count = job.transcript.request(), _summary(job.state), agent.count_tokens
    start = place.upto if place else head_length(view)
    room = (_room(agent, job.state) or memory.tokens) - count(view[: head_length(view)])
    if cut_at(view, start, room, count) <= start:
        return None
    upto = cut_at(view, start, room // 2, count)
    before = [view[place.at]] if place else []
    covered = [m for i, m in enumerate(view[start:upto], start) if not place or i != place.at]
    request = ModelRequest(
        [system(agent.texts.summarise()), user(transcribed([*before, *covered]))]
    )
    answer: ModelAnswer = yield CallModel(request, memory.model)
    job.state.active_ms += answer.elapsed_ms
    if isinstance(answer.result, ModelError) and answer.result.fate == "wait":
        return held_back(job, answer.result)
    if isinstance(answer.result, ModelReply):
        yield from _keep_summary(agent, job, answer.result, upto)
    return None


def _keep_summary(agent: Agent, job: Job, reply: ModelReply, upto: int) -> Part:
    spent = charge(agent, job, reply.message, reply)
    text = str(reply.message.get("content") or "").strip()
    if text:
        at = job.transcript.append(user(agent.texts.summary(text)))
        job.state.summary = [upto, at]
        yield job.commit("summary", i=at, upto=upto, **spent)
    return None
