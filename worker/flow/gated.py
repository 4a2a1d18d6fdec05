"""A model behind the gate: the same to whoever asks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from worker.flow.base import Limit, limit_key
from worker.flow.gate import Caller, Entry, Gate
from worker.models.base import Model, ModelReply, ModelRequest, OnDelta
from worker.models.fallback import FallbackModel
from worker.models.streaming import stream_or_show


def behind(gate: Gate, model: Model, caller: Caller) -> Model:
    """The model behind a gate; itself, if nothing limits it.

    Awaitable only if the model itself is. Of several models as one, each stands under its own key.
    """
    if isinstance(model, FallbackModel):
        caller = replace(caller, elsewhere=tuple(limited_keys(gate, model)))
        return model.over([behind(gate, one, caller) for one in model.models])
    key = limit_key(model)
    limit = gate.limit(key)
    if limit is None and not caller.elsewhere:
        return model
    kind = AwaitableGatedModel if getattr(model, "areply", None) else GatedModel
    return kind(model, gate, key, limit, caller)


def limited_keys(gate: Gate, model: Model) -> Iterator[str]:
    """The keys under which a model, or one of several as one, has a limit."""
    if isinstance(model, FallbackModel):
        for one in model.models:
            yield from limited_keys(gate, one)
    elif gate.limit(limit_key(model)) is not None:
        yield limit_key(model)


class GatedModel:
    """Asks the model when the gate lets the call pass."""

    def __init__(
        self, model: Model, gate: Gate, key: str, limit: Limit | None, caller: Caller
    ) -> None:
        self.name = model.name
        self.limit_key = key
        self._model = model
        self._gate = gate
        self._limit = limit
        self._caller = caller

    def _entry(self, request: ModelRequest) -> Entry:
        return self._gate.entry(self.limit_key, self._limit, self._caller, request)

    def reply(self, request: ModelRequest) -> ModelReply:
        """The model's reply.

        Raises:
            ModelError: the model's, and the gate's.
        """
        return self._gate.call(self._entry(request), lambda: self._model.reply(request))

    def stream(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """The same, its pieces shown while they come.

        Raises:
            ModelError: as ``reply``.
            StreamStopped: what ``on_delta`` raised.
        """
        entry = self._entry(request)
        return self._gate.call(entry, lambda: stream_or_show(self._model, request, on_delta))


class AwaitableGatedModel(GatedModel):
    """The same for a model that can be awaited."""

    async def areply(self, request: ModelRequest) -> ModelReply:
        """The same as ``reply``, on an event loop."""
        model = self._model
        return await self._gate.acall(
            self._entry(request),
            lambda: model.areply(request),  # type: ignore[attr-defined]
        )
