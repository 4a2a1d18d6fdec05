"""The pytest plugin: there by itself where Stepkeeper is installed.

Fixtures:

``run_inline``      runs one job here and now: ``run_inline(agent, "task", model=…, answers=…)``
``scripted_model``  makes a model of a script; the test fails if lines of it are left over
``memory_store``    a store in memory, the one of ``agent_client``
``agent_client``    makes an ``AgentClient`` whose jobs run in this process:
                    ``agent_client(shop, model=…, answers=…, on_demand=False)``

In every test a call to a model that is not on this machine is refused, unless the test is marked
``@pytest.mark.real_model``.

Nothing of the worker is imported before a test asks for one of the fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from worker.real_calls import forbid_real_calls, real_calls

if TYPE_CHECKING:
    from worker.agent import Agent
    from worker.inline import InlineRun, InlineStore
    from worker.models.scripted import ScriptedModel
    from worker.testing.client import InlineClient

MARKER = "real_model"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and forbid real calls until the session ends."""
    config.addinivalue_line(
        "markers", f"{MARKER}: this test may call a model that is not on this machine"
    )
    before = forbid_real_calls()

    def restore() -> None:
        forbid_real_calls(before)

    config.add_cleanup(restore)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Allow real calls to a test that asks for it, with everything that is set up for it."""
    with real_calls(forbidden=item.get_closest_marker(MARKER) is None):
        return (yield)


@pytest.fixture
def run_inline() -> Callable[..., InlineRun]:
    """``worker.inline.run_inline``: one job, run to its end in this process."""
    from worker.inline import run_inline

    return run_inline


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Makes a ``ScriptedModel``; at the end of the test every line must have been said."""
    from worker.models.scripted import ScriptedModel

    made: list[ScriptedModel] = []

    def make(script: Any, **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(script, **options))
        return made[-1]

    yield make
    for model in made:
        model.assert_finished()


@pytest.fixture
def memory_store() -> InlineStore:
    """A store in memory on which waiting takes no time."""
    from worker.inline import InlineStore

    return InlineStore()


@pytest.fixture
def agent_client(memory_store: InlineStore) -> Callable[..., InlineClient]:
    """Makes an ``AgentClient`` of some agents, whose jobs run in this process."""
    from worker.testing.client import InlineClient

    def make(*agents: Agent, **options: Any) -> InlineClient:
        return InlineClient(agents, store=memory_store, **options)

    return make
