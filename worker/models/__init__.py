"""Models: what answers an agent's requests. Each adapter is imported when it is first named."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from worker.models.base import (
    Fate,
    Message,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    Usage,
)

if TYPE_CHECKING:
    from worker.models.function import FunctionModel
    from worker.models.openai import OpenAIModel
    from worker.models.scripted import ScriptedModel, act, say

__all__ = [
    "Fate",
    "FunctionModel",
    "Message",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "OpenAIModel",
    "ScriptedModel",
    "Usage",
    "act",
    "say",
]

_HOMES = {
    "FunctionModel": "worker.models.function",
    "OpenAIModel": "worker.models.openai",
    "ScriptedModel": "worker.models.scripted",
    "act": "worker.models.scripted",
    "say": "worker.models.scripted",
}


def __getattr__(name: str) -> Any:
    """Import an adapter, and with it its SDK, only when somebody asks for it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
