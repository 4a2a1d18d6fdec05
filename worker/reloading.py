"""New code for new slices, without a restart: agents' modules are imported anew.

The old modules stay as they are for the slices that run them. Each process of a pool imports for
itself: the main process at once, and its children before their next slice.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from celery import Celery

from api_client.errors import StepkeeperError
from worker.agent import Agent, by_name
from worker.announce.channels import check_webhook
from worker.discovery import load_agents, unique, with_delegates
from worker.errors import AgentDefinitionError

if TYPE_CHECKING:
    from worker.service import Service

log = logging.getLogger(__name__)

_OURS = frozenset({"worker", "api_client"})
_LIBRARIES = tuple(
    str(Path(path).resolve())
    for path in {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
)


@dataclass
class Reloaded:
    """What became of it.

    Attributes:
        agents: that new slices run from now on.
        modules: that were imported anew.
        kept: agents and modules that stay as they are, and why.
    """

    agents: dict[str, Agent]
    modules: list[str]
    kept: dict[str, str] = field(default_factory=dict)


def reload_agents(service: Service) -> Reloaded:
    """Import the modules of the service's agents anew, and let new slices of this process run them.

    Raises:
        AgentDefinitionError, InvalidInput: they cannot be imported, or used; then nothing has
            changed.
    """
    paths, kept = _sources(service)
    modules = _loaded({path.partition(":")[0] for path in paths})
    _check_no_app(service.app, modules)
    with _forgotten(modules):
        found = by_name(with_delegates(unique(load_agents(paths))))
        imported = sorted(name for name in sys.modules if _is_under(name, modules))
    for name in sorted(found.keys() - service.agents.keys()):
        kept[name] = "it is new: restart the worker, which then registers its task"
    for name in sorted(service.agents.keys() - found.keys() - kept.keys()):
        kept[name] = "it is no longer there; its jobs go on with the old code until a restart"
    agents = {name: agent for name, agent in found.items() if name in service.agents}
    for name, agent in agents.items():
        check_webhook(agent.webhook_url, service.settings, f"agent {name!r}: webhook_url")
    service.change_agents(agents)
    kept.update(_left_alone(imported))
    return Reloaded(agents, imported, kept)


def catch_up(service: Service) -> None:
    """In a child of a pool, before a slice: reload what the main process has reloaded."""
    if not service.code.catch_up():
        return
    try:
        reload_agents(service)
    except StepkeeperError as error:
        log.error(
            "agents could not be reloaded in this process, which goes on with the old: %s", error
        )


def _sources(service: Service) -> tuple[list[str], dict[str, str]]:
    """Import paths of the agents: those of the setting, and where the others are found."""
    paths, kept = list(service.settings.agents), {}
    named = {path.partition(":")[0] for path in paths}
    for agent in service.given:
        places = [name for name in _places(agent) if not _holds(sys.modules[name], service.app)]
        if named.intersection(places):
            continue
        if len(places) == 1:
            paths += [f"{places[0]}:{name}" for name in _names(sys.modules[places[0]], agent)[:1]]
        else:
            where = ", ".join(places) or "none that can be imported anew"
            kept[agent.name] = (
                f"it was handed to install(), and the modules that hold it are: {where}; name the "
                "one to import anew in STEPKEEPER_AGENTS"
            )
    return paths, kept


def _places(agent: Agent) -> list[str]:
    """Modules in which the agent stands under a name."""
    modules = list(sys.modules.items())
    return [name for name, module in modules if name != "__main__" and _names(module, agent)]


def _names(module: ModuleType, value: Any) -> list[str]:
    held = getattr(module, "__dict__", {})  # what stands in sys.modules need not be a module
    return [name for name, one in list(held.items()) if one is value]


def _holds(module: ModuleType, app: Celery) -> bool:
    return bool(_names(module, app))


def _loaded(names: Iterable[str]) -> list[str]:
    """The modules, and those inside of them, that are imported now."""
    wanted = list(names)
    return [name for name in list(sys.modules) if _is_under(name, wanted)]


def _is_under(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _check_no_app(app: Celery, modules: Iterable[str]) -> None:
    """Imported anew, a module that makes the app would make a second one."""
    for name in modules:
        if _holds(sys.modules[name], app):
            raise AgentDefinitionError(
                f"module {name!r} holds the Celery app, so it cannot be imported anew; put the "
                "agents into a module of their own, or restart the worker"
            )


@contextmanager
def _forgotten(names: list[str]) -> Iterator[None]:
    """Let the block import these modules anew; if that fails, the old ones are back."""
    before = {name: sys.modules.pop(name) for name in names}
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in _loaded(names):
            del sys.modules[name]
        _put_back(before)
        raise


def _put_back(modules: Mapping[str, ModuleType]) -> None:
    """The old modules stand where they stood; those that hold others have kept all they had."""
    sys.modules.update(modules)
    for name, module in modules.items():
        package, _, child = name.rpartition(".")
        if package in sys.modules and package not in modules:
            setattr(sys.modules[package], child, module)


def _left_alone(imported: Iterable[str]) -> dict[str, str]:
    """Modules of the project that the new code uses, as they were imported before."""
    used = {name for module in imported for name in _imports(sys.modules[module])}
    return {
        name: f"{name} is used by the agents' modules, and not one of them; restart to change it"
        for name in sorted(used.difference(imported))
        if name in sys.modules and name.partition(".")[0] not in _OURS
        if _is_project(sys.modules[name])
    }


def _imports(module: ModuleType) -> Iterator[str]:
    """Names of modules, and perhaps of what is in them, that the source imports."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except OSError:  # it has no source at hand
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name(f"{'.' * node.level}{node.module or ''}", module.__package__)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _is_project(module: ModuleType) -> bool:
    """Whether it is neither of the standard library nor installed."""
    file = getattr(module, "__file__", None)
    return file is not None and not str(Path(file).resolve()).startswith(_LIBRARIES)
