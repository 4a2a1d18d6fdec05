"""Where an agent's hidden context comes from, checked when the agent is defined (rule 10)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_type_hints

from api_client.contract import JobSpec
from worker.context import ActionContext
from worker.errors import AgentDefinitionError
from worker.tools import ToolBox


@dataclass(frozen=True, slots=True)
class ContextSource:
    """Opens the context of one slice and closes it again."""

    make: Callable[[JobSpec], ActionContext | None]
    owned: bool

    @contextmanager
    def open(self, spec: JobSpec) -> Iterator[ActionContext | None]:
        """The context for one job's slice; one that we made is closed afterwards."""
        context = self.make(spec)
        try:
            yield context
        finally:
            close = getattr(context, "close", None)
            if self.owned and callable(close):
                close()


def make_source(
    agent: str,
    context: ActionContext | Callable[[JobSpec], ActionContext] | None,
    toolbox: ToolBox,
) -> ContextSource:
    """Check a context against every tool that asks for one.

    Raises:
        AgentDefinitionError: it is no context.
        ToolRegistrationError: a tool needs a context of another class.
    """
    toolbox.check_context(_type_of(agent, context))
    if context is None:
        return ContextSource(lambda _spec: None, owned=False)
    if isinstance(context, ActionContext):
        return ContextSource(lambda _spec: context, owned=False)
    return ContextSource(context, owned=True)


def _type_of(agent: str, context: Any) -> type[ActionContext] | None:
    if context is None:
        return None
    if isinstance(context, ActionContext):
        return type(context)
    if inspect.isclass(context) and issubclass(context, ActionContext):
        raise AgentDefinitionError(
            f"agent {agent!r}: context={context.__name__} is a class; pass an instance, or a "
            "function of the JobSpec that returns one"
        )
    if not callable(context):
        raise AgentDefinitionError(f"agent {agent!r}: context={context!r} is no ActionContext")
    returned = get_type_hints(context).get("return")
    if not (inspect.isclass(returned) and issubclass(returned, ActionContext)):
        raise AgentDefinitionError(
            f"agent {agent!r}: the context function needs a return annotation that is a "
            "subclass of ActionContext, so that missing context is found at start-up"
        )
    return returned
