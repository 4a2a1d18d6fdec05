"""Importing agents anew: all or nothing, and what stays as it is is said."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from worker import install
from worker.errors import AgentDefinitionError
from worker.flags import Generation
from worker.reloading import reload_agents
from worker.service import Service
from worker.settings import Settings

NOWHERE = "redis://127.0.0.1:1/0"
AGENT = """
from worker import Agent
from worker.models import FunctionModel

shop = Agent(name="shop", goal="g", version="{version}", model=FunctionModel(lambda m: "x"))
"""

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules of a project, by their dotted names; they are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        if hasattr(sys.modules[name], "__file__") and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def installed(*paths: str, agents: Any = ()) -> Service:
    """A service with the agents of these import paths, and with these."""
    app = Celery("x", broker="memory://", backend="cache+memory://", set_as_current=False)
    return install(app, agents=agents, settings=Settings(redis_url=NOWHERE, agents=paths))


def test_new_slices_have_the_new_agent_and_running_ones_the_old(write: Write) -> None:
    write("fresh_shop", AGENT.format(version="v1"))
    service = installed("fresh_shop")
    running, old = service.runner, sys.modules["fresh_shop"]
    write("fresh_shop", AGENT.format(version="v2 is longer"))
    reloaded = reload_agents(service)
    assert reloaded.agents["shop"].version == "v2 is longer"
    assert (reloaded.modules, reloaded.kept) == (["fresh_shop"], {})
    assert running.agents["shop"].version == "v1"
    assert service.runner.agents["shop"] is service.agents["shop"] is reloaded.agents["shop"]
    task: Any = service.app.tasks["agent.shop"]
    assert task.agent is reloaded.agents["shop"]
    assert service.runner.solitude is running.solitude
    assert sys.modules["fresh_shop"] is not old


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("this is no Python", "fresh_shop"),
        ("x = 1", "there is no Agent at 'fresh_shop'"),
        (AGENT.format(version="v2") + "raise RuntimeError('broken')\n", "broken"),
    ],
)
def test_code_that_cannot_be_used_changes_nothing(write: Write, text: str, words: str) -> None:
    write("fresh_shop", AGENT.format(version="v1"))
    service = installed("fresh_shop")
    module, agent = sys.modules["fresh_shop"], service.agents["shop"]
    write("fresh_shop", text)
    with pytest.raises(AgentDefinitionError, match=words):
        reload_agents(service)
    assert sys.modules["fresh_shop"] is module
    assert service.agents["shop"] is service.runner.agents["shop"] is agent
    write("fresh_shop", AGENT.format(version="v3 works again"))
    assert reload_agents(service).agents["shop"].version == "v3 works again"


def test_a_package_is_taken_with_what_lies_in_it(write: Write) -> None:
    write("fresh.__init__", "")
    write("fresh.agents.__init__", "from fresh.agents.shop import shop\n")
    write("fresh.agents.shop", "from fresh import prices\n" + AGENT.format(version="v1"))
    write("fresh.prices", "LIST = {}\n")
    service = installed("fresh.agents")
    write("fresh.agents.shop", "from fresh import prices\n" + AGENT.format(version="version 2"))
    reloaded = reload_agents(service)
    assert reloaded.agents["shop"].version == "version 2"
    assert reloaded.modules == ["fresh.agents", "fresh.agents.shop"]
    assert "restart to change it" in reloaded.kept["fresh.prices"]
    assert sys.modules["fresh"].agents is sys.modules["fresh.agents"]
    write("fresh.agents.shop", "nonsense here")
    with pytest.raises(AgentDefinitionError):
        reload_agents(service)
    assert sys.modules["fresh"].agents.shop is reloaded.agents["shop"]


def test_an_agent_that_was_handed_over_is_found_in_its_module(write: Write) -> None:
    write("fresh_shop", AGENT.format(version="v1"))
    import fresh_shop  # type: ignore[import-not-found]

    service = installed(agents=[fresh_shop.shop])
    write("fresh_shop", AGENT.format(version="v2 is longer"))
    assert reload_agents(service).agents["shop"].version == "v2 is longer"


def test_an_agent_that_is_in_no_module_is_kept(write: Write) -> None:
    namespace: dict[str, Any] = {}
    exec(AGENT.format(version="v1"), namespace)
    service = installed(agents=[namespace["shop"]])
    reloaded = reload_agents(service)
    assert "name the one to import anew in STEPKEEPER_AGENTS" in reloaded.kept["shop"]
    assert service.agents["shop"] is namespace["shop"]


def test_agents_that_are_new_or_gone_are_said_and_the_old_one_stays(write: Write) -> None:
    write("fresh_shop", AGENT.format(version="v1"))
    service = installed("fresh_shop")
    old = service.agents["shop"]
    write("fresh_shop", AGENT.format(version="v2").replace("shop", "other"))
    kept = reload_agents(service).kept
    assert "no longer there" in kept["shop"]
    assert "it is new: restart the worker" in kept["other"]
    assert service.agents == {"shop": old}


def test_a_module_that_makes_the_app_is_not_imported_anew(write: Write) -> None:
    write("fresh_shop", AGENT.format(version="v1"))
    service = installed("fresh_shop")
    sys.modules["fresh_shop"].app = service.app  # type: ignore[attr-defined]
    with pytest.raises(AgentDefinitionError, match="'fresh_shop' holds the Celery app"):
        reload_agents(service)


def test_a_process_learns_once_that_there_is_something_newer() -> None:
    generation = Generation()
    assert not generation.catch_up()
    generation.move_on()
    assert not generation.catch_up()  # this process did it
    generation._known -= 1  # as in a child that was forked before
    assert generation.catch_up()
    assert not generation.catch_up()
