"""Stepkeeper's worker: agents as Celery tasks that survive crashes and wait for people.

The names below are the ones that an agent author needs. Each is imported when it is first used,
so that ``import worker`` is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.agent import Agent
    from worker.budget import Price
    from worker.context import ActionContext
    from worker.errors import PauseRequested, ToolFailed, ToolRetry
    from worker.inline import run_inline
    from worker.installing import install
    from worker.models import FunctionModel, OpenAIModel, ScriptedModel
    from worker.pauses import Escalate, PausePolicy
    from worker.tools import Tool, agent_tool, hand_to_human, tool

_HOMES = {
    "ActionContext": "worker.context",
    "Agent": "worker.agent",
    "Escalate": "worker.pauses",
    "FunctionModel": "worker.models",
    "OpenAIModel": "worker.models",
    "PausePolicy": "worker.pauses",
    "PauseRequested": "worker.errors",
    "Price": "worker.budget",
    "ScriptedModel": "worker.models",
    "Tool": "worker.tools",
    "ToolFailed": "worker.errors",
    "ToolRetry": "worker.errors",
    "agent_tool": "worker.tools",
    "hand_to_human": "worker.tools",
    "install": "worker.installing",
    "run_inline": "worker.inline",
    "tool": "worker.tools",
}

__all__ = [
    "ActionContext",
    "Agent",
    "Escalate",
    "FunctionModel",
    "OpenAIModel",
    "PausePolicy",
    "PauseRequested",
    "Price",
    "ScriptedModel",
    "Tool",
    "ToolFailed",
    "ToolRetry",
    "agent_tool",
    "hand_to_human",
    "install",
    "run_inline",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'worker' has no attribute {name!r}")
    from worker.extras import fetch

    return fetch(_HOMES[name], name)
