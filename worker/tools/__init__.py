"""Tools: Python functions that a model may call."""

from __future__ import annotations

from worker.context import ActionContext, CallInfo
from worker.tools.arguments import Arguments
from worker.tools.base import MAX_OBSERVATION, Tool, ToolOptions
from worker.tools.build import as_tool, build_tool, tool
from worker.tools.builtin import (
    HAND_TO_HUMAN,
    TERMINATE,
    hand_to_human,
    hand_to_human_tool,
    terminate_tool,
)
from worker.tools.delegate import agent_tool
from worker.tools.invoke import Observation
from worker.tools.threads import crew
from worker.tools.toolbox import ToolBox

__all__ = [
    "HAND_TO_HUMAN",
    "MAX_OBSERVATION",
    "TERMINATE",
    "ActionContext",
    "Arguments",
    "CallInfo",
    "Observation",
    "Tool",
    "ToolBox",
    "ToolOptions",
    "agent_tool",
    "as_tool",
    "build_tool",
    "crew",
    "hand_to_human",
    "hand_to_human_tool",
    "terminate_tool",
    "tool",
]
