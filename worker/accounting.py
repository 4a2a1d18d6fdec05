"""What a reply costs, added to the job's account."""

from __future__ import annotations

from typing import Any

from worker.agent import Agent
from worker.job import Job
from worker.messages import Message
from worker.models.base import ModelReply, Usage
from worker.state import Tokens


def charge(agent: Agent, job: Job, message: Message, reply: ModelReply) -> dict[str, Any]:
    """Add a reply's tokens and price to the job's account; returns them for the trace.

    Args:
        message: the reply as it will be stored; estimated where the provider gave no count.
    """
    usage = reply.usage or _estimated(agent, job, message)
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


def _estimated(agent: Agent, job: Job, message: Message) -> Usage:
    whole = job.prompt_tokens(agent.count_tokens)
    rooms = [tokens for tokens in (agent.memory.tokens, job.state.room) if tokens]
    return Usage(
        prompt_tokens=min([whole, *rooms]),
        completion_tokens=agent.count_tokens([message]),
        estimated=True,
    )
