"""Calls of other agents: starting sub-jobs, waiting for them, taking up their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from api_client.contract import Outcome, sub_job_id
from worker import budget
from worker.agent import Agent
from worker.effects import Awaiting, End, Part, StartJobs, SubJob, SubResult
from worker.job import Job
from worker.limits import limit
from worker.messages import observation
from worker.tools.arguments import clean_surrogates


def _is_delegated(agent: Agent, job: Job, call: Mapping[str, Any]) -> bool:
    """Whether an open call is to be answered by a sub-job."""
    tool = agent.toolbox.get(call["function"]["name"])
    return tool is not None and tool.role == "agent" and call["id"] not in job.state.problems


def answer_by_sub_jobs(agent: Agent, job: Job) -> Part:
    """Start what is not started, answer what has ended, wait for the rest."""
    calls = [call for call in job.transcript.pending if _is_delegated(agent, job, call)]
    if not calls:
        return None
    limits = job.limits(agent.limits)
    started = set(job.state.children)
    fresh = [c for c in calls if sub_job_id(job.id, c["id"]) not in started]
    if fresh and (spent := budget.before_sub_jobs(job.state, limits)):
        return limit(agent, job, spent)
    caps = budget.shares(job.state, limits, len(calls))
    jobs = tuple(_sub_job(agent, job, call, caps) for call in calls)
    if fresh:
        job.state.children = [sub.job_id for sub in jobs]
        yield job.commit("delegated", jobs=job.state.children)
    results: Sequence[SubResult | None] = yield StartJobs(jobs)
    for call, sub, result in zip(calls, jobs, results, strict=True):
        if result is not None:
            yield from _take(agent, job, call, sub, result)
    return _await(job) if job.state.children else None


def _sub_job(agent: Agent, job: Job, call: Mapping[str, Any], caps: Mapping[str, float]) -> SubJob:
    tool = agent.tool(call["function"]["name"])
    assert tool.delegate is not None
    arguments = json.loads(call["function"]["arguments"])
    return SubJob(
        job_id=sub_job_id(job.id, call["id"]),
        agent=tool.delegate.name,
        input=clean_surrogates(arguments["task"]),
        caps=dict(caps),
    )


def _take(agent: Agent, job: Job, call: Mapping[str, Any], sub: SubJob, result: SubResult) -> Part:
    """A sub-job has ended: its answer is the observation, its spending ours."""
    account = job.state.usage
    account.prompt_tokens += result.usage.prompt_tokens
    account.completion_tokens += result.usage.completion_tokens
    account.cached_tokens += result.usage.cached_tokens
    account.estimated = account.estimated or result.usage.estimated
    account.cost_micros += result.usage.cost_micros
    job.state.active_ms += result.active_ms
    job.state.children.remove(sub.job_id)
    job.count_call(agent.tool(call["function"]["name"]))
    text = _observation_text(agent, result.outcome)
    index = job.transcript.append(observation(call["id"], text))
    data: dict[str, Any] = {"i": index, "s": job.state.steps, "ms": result.active_ms}
    if not result.outcome.ok:
        data["error"] = True
    yield job.commit("observation", job=sub.job_id, **data)
    return None


def _observation_text(agent: Agent, outcome: Outcome) -> str:
    if not outcome.ok:
        return agent.texts.sub_job_failed(outcome.text)
    value = outcome.value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= agent.max_observation:
        return text or agent.texts.empty_text()
    return f"{text[: agent.max_observation]}\n{agent.texts.truncated(len(text))}"


def _await(job: Job) -> End:
    messages, consumes = job.carry()
    return Awaiting(messages, consumes, jobs=tuple(job.state.children))
