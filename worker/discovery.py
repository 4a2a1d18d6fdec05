"""Finding agents by their import paths, from ``STEPKEEPER_AGENTS`` or ``--agents``."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from worker.agent import Agent
from worker.errors import AgentDefinitionError, StepkeeperError

_OURS = Path(__file__).parent


def load_agents(paths: Iterable[str]) -> list[Agent]:
    """The agents at ``package.module`` or ``package.module:name``, in order.

    Raises:
        AgentDefinitionError: nothing is there, or something else; names the path.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return unique([agent for path in paths for agent in _load(path)])


def unique(agents: Iterable[Agent]) -> list[Agent]:
    """The same agents; one that is named twice stands once.

    Raises:
        AgentDefinitionError: two different agents have one name.
    """
    found: dict[str, Agent] = {}
    for agent in agents:
        if found.setdefault(agent.name, agent) is not agent:
            raise AgentDefinitionError(
                f"two agents are called {agent.name!r}; rename one of them, or list only one"
            )
    return list(found.values())


def with_delegates(agents: Iterable[Agent]) -> list[Agent]:
    """The agents and, however deep, those that they call as tools; each once.

    Raises:
        AgentDefinitionError: two different agents have one name.
    """
    found: list[Agent] = []
    waiting = list(agents)
    while waiting:
        agent = waiting.pop(0)
        if agent not in found:
            found.append(agent)
            waiting.extend(tool.delegate for tool in agent.toolbox if tool.delegate is not None)
    return unique(found)


def _load(path: str) -> list[Agent]:
    name, _, attribute = path.partition(":")
    if not name or name.startswith("."):
        raise AgentDefinitionError(
            f"agents: {path!r} is no import path; give one such as 'shop.agents' or "
            "'shop.agents:refunds'"
        )
    module = _imported(name)
    if not attribute:
        return _agents_in(path, list(vars(module).values()))
    if not hasattr(module, attribute):
        raise AgentDefinitionError(f"agents: module {name!r} has no {attribute!r}")
    value = getattr(module, attribute)
    return _agents_in(path, list(value) if isinstance(value, (list, tuple)) else [value])


def _imported(name: str) -> ModuleType:
    """The module; whatever its own lines raise is told with the line that raised it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise AgentDefinitionError(
            f"agents: cannot import {name!r}: {error}; give import paths such as "
            "'shop.agents' or 'shop.agents:refunds', relative to the working directory"
        ) from error
    except StepkeeperError as error:
        raise AgentDefinitionError(f"{error} ({_place_in_user_code(error)})") from error
    except Exception as error:
        raise AgentDefinitionError(
            f"agents: importing {name!r} raised {type(error).__name__}: {error} "
            f"({_place_in_user_code(error)})"
        ) from error


def _place_in_user_code(error: BaseException) -> str:
    """File and line of the last frame that is neither ours nor generated."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _is_machinery(frame.filename)]
    if isinstance(error, SyntaxError) or not theirs:
        return f"{getattr(error, 'filename', None) or 'unknown file'}"
    return f"{theirs[-1].filename}, line {theirs[-1].lineno}"


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<") or Path(filename).is_relative_to(_OURS)


def _agents_in(path: str, values: list[Any]) -> list[Agent]:
    agents = [value for value in values if isinstance(value, Agent)]
    if not agents:
        raise AgentDefinitionError(f"agents: there is no Agent at {path!r}")
    return agents
