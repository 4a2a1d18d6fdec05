"""An agent as a tool of another: the call becomes a job of its own, and its answer the result."""

from __future__ import annotations

from typing import Protocol

from worker.texts import ENGLISH, Texts
from worker.tools.arguments import ParameterReader
from worker.tools.base import Tool
from worker.tools.builtin import never_run
from worker.tools.schema import build_model, model_schema
from worker.tools.signature import Parameter, Signature


class Delegate(Protocol):
    """What an agent tool needs of the agent behind it."""

    @property
    def name(self) -> str:
        """The agent's name."""
        ...

    @property
    def goal(self) -> str:
        """What it does."""
        ...

    @property
    def description(self) -> str:
        """What it does, for others."""
        ...


def agent_tool(
    agent: Delegate,
    *,
    name: str | None = None,
    description: str | None = None,
    texts: Texts = ENGLISH,
) -> Tool:
    """A tool whose call is a job of ``agent``.

    The calling job gives its slot back and waits; several such calls in one reply run at the same
    time. The sub-job may spend what is left of the caller's tokens, money and active time, shared
    equally among those that start together, and what it spent is added to the caller's account.
    When the caller is cancelled or ends, sub-jobs that still run are cancelled.

    Args:
        agent: the agent that does the work.
        name: of the tool; the agent's name if not given.
        description: for the model; the agent's own if not given.
    """
    parameters = (Parameter("task", str),)
    tool_name = name or agent.name
    model = build_model(tool_name, parameters, {"task": texts.delegated_task()})
    schema = model_schema(model, parameters)
    return Tool(
        name=tool_name,
        description=description or agent.description or agent.goal.strip().splitlines()[0],
        parameters=schema,
        function=never_run,
        reader=ParameterReader(model, Signature(parameters, None, frozenset()), schema),
        effects="idempotent",
        origin=f"{__name__}:agent_tool({agent.name})",
        role="agent",
        delegate=agent,
    )
