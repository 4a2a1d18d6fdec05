"""Models: what answers an agent's requests. Each adapter is imported when it is first named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.extras import fetch
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
    from worker.models.anthropic import AnthropicModel
    from worker.models.fallback import FallbackModel
    from worker.models.function import FunctionModel
    from worker.models.openai import OpenAIModel
    from worker.models.responses import OpenAIResponsesModel
    from worker.models.scripted import ScriptedModel, act, say

__all__ = [
    "AnthropicModel",
    "FallbackModel",
    "Fate",
    "FunctionModel",
    "Message",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "OpenAIModel",
    "OpenAIResponsesModel",
    "ScriptedModel",
    "Usage",
    "act",
    "say",
]

_HOMES = {
    "AnthropicModel": "worker.models.anthropic",
    "FallbackModel": "worker.models.fallback",
    "FunctionModel": "worker.models.function",
    "OpenAIModel": "worker.models.openai",
    "OpenAIResponsesModel": "worker.models.responses",
    "ScriptedModel": "worker.models.scripted",
    "act": "worker.models.scripted",
    "say": "worker.models.scripted",
}


def __getattr__(name: str) -> Any:
    """Import an adapter, and with it its SDK, only when somebody asks for it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return fetch(home, name)
