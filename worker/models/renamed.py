"""A job that asks for another model than its agent does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from worker.models.base import Model, ModelError, ModelReply, ModelRequest


def renamed(model: Model, name: str) -> Model:
    """The model of another name behind the same API; one that always fails if there is no such."""
    named: Any = getattr(model, "named", None)
    return _NoOther(model.name, name) if named is None else named(name)


@dataclass(frozen=True, slots=True)
class _NoOther:
    """Stands for a model that cannot be had."""

    own: str
    name: str

    def reply(self, request: ModelRequest) -> ModelReply:  # noqa: ARG002
        """Fails: no repetition helps."""
        raise ModelError(
            f"the job asks for model {self.name!r}, and the agent's model {self.own!r} has no "
            "other: only models behind an API are asked by name",
            "fail",
            code="no_such_model",
        )
