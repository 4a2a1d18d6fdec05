"""Testing agents without Redis, Celery, a network or a model.

    run_inline       runs one job here and now, with the real loop and a store in memory
    InlineClient     an ``AgentClient`` whose jobs run in this process
    ScriptedModel    a model that follows a script and objects to surprises
    act, say         the lines of a script
    FunctionModel    a model that is a function
    forbid_real_calls, real_calls    no call leaves this machine for a model

With pytest all of this is there by itself, as fixtures; see ``worker.testing.plugin``. Each name is
imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.inline import InlineRun, InlineStore, InlineWorker, run_inline
    from worker.models.function import FunctionModel
    from worker.models.scripted import ScriptedModel, act, say
    from worker.real_calls import forbid_real_calls, real_calls
    from worker.testing.client import InlineClient

_HOMES = {
    "FunctionModel": "worker.models.function",
    "InlineClient": "worker.testing.client",
    "InlineRun": "worker.inline",
    "InlineStore": "worker.inline",
    "InlineWorker": "worker.inline",
    "ScriptedModel": "worker.models.scripted",
    "act": "worker.models.scripted",
    "forbid_real_calls": "worker.real_calls",
    "real_calls": "worker.real_calls",
    "run_inline": "worker.inline",
    "say": "worker.models.scripted",
}

__all__ = [
    "FunctionModel",
    "InlineClient",
    "InlineRun",
    "InlineStore",
    "InlineWorker",
    "ScriptedModel",
    "act",
    "forbid_real_calls",
    "real_calls",
    "run_inline",
    "say",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
