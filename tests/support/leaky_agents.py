"""An agent whose tools leak their hidden context in every way that a tool can."""

from __future__ import annotations

import os
from dataclasses import dataclass

from worker import (
    ActionContext,
    Agent,
    FunctionModel,
    OpenAIModel,
    ToolFailed,
    ToolRetry,
    hand_to_human,
    tool,
)

SECRET = "xyzzy-plugh-1976"
URL = f"postgres://svc:{SECRET}@db.internal/prod"


@dataclass
class Vault(ActionContext):
    """What the model must never see."""

    api_key: str
    database_url: str


@tool
def raises(vault: Vault) -> str:
    """Raise with the secret in the error."""
    raise ConnectionError(f"cannot connect to {vault.database_url} with {vault.api_key}")


@tool
def returns(vault: Vault) -> dict[str, str]:
    """Return the secret."""
    return {"key": vault.api_key, "url": vault.database_url}


@tool
def fails(vault: Vault) -> str:
    """Fail with the secret."""
    raise ToolFailed(f"the key {vault.api_key} is refused")


@tool
def retries(vault: Vault) -> str:
    """Ask again with the secret."""
    raise ToolRetry(f"not with {vault.api_key}")


@tool
def shows_itself(vault: Vault) -> str:
    """Return what a debugger would print."""
    return repr(vault)


@tool
def unwritable(vault: Vault) -> object:
    """Return something that has no written form, and holds the secret."""
    return {("key", vault.api_key): {vault.database_url}}


@tool(timeout=0.2)
def hangs(vault: Vault) -> str:
    """Never come back; the secret is in the frame."""
    held = vault.api_key
    while held:
        os.sched_yield()
    return held


@tool(effects="once")
def dies(vault: Vault) -> str:
    """Exit with the secret."""
    raise SystemExit(vault.api_key)


def worker_environment() -> str:
    """What a worker is told from outside, secrets among it."""
    told = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("STEPKEEPER_", "LLM_"))]
    return " ".join(sorted(told))


@tool
def shows_environment(vault: Vault) -> str:
    """Return what the worker was started with."""
    del vault
    return worker_environment()


@tool
def raises_environment(vault: Vault) -> str:
    """Raise with it."""
    del vault
    raise ValueError(worker_environment())


def spill(_messages: object) -> str:
    """A model whose error tells the worker's environment."""
    raise RuntimeError(worker_environment())


spilling = Agent(name="spilling", goal="Break.", tools=[], model=FunctionModel(spill))

leaky = Agent(
    name="leaky",
    goal="Try everything.",
    tools=[
        raises,
        returns,
        fails,
        retries,
        shows_itself,
        unwritable,
        hangs,
        dies,
        shows_environment,
        raises_environment,
        hand_to_human,
    ],
    model=OpenAIModel(),
    context=Vault(SECRET, URL),
    max_steps=None,
    max_repeats=None,
    max_bad_turns=20,
)
