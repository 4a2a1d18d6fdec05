"""Several models as one: the next is asked when the one before cannot answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Self

from worker.models.base import Delta, Fate, Model, ModelError, ModelReply, ModelRequest, OnDelta
from worker.models.streaming import stream_or_show


class FallbackModel:
    """Asks models in their order until one answers.

    The next one is asked when an error says to try later or to fetch a person; an error that the
    request itself is to blame for goes up at once. A model that asked for a wait (``Retry-After``)
    is left out until it is over, in this process. If none answers, the error of the first decides,
    unless another one only needs to wait: then the job is tried again when the earliest is ready.

    Args:
        models: at least one, the preferred first.
        name: stands in traces before a model has answered; the reply names the one that did.
        clock: monotonic seconds.

    Raises:
        ValueError: without any model.
    """

    def __init__(
        self,
        models: Sequence[Model],
        name: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ValueError("a FallbackModel needs at least one model")
        self.models = tuple(models)
        self.name = name or models[0].name
        self._clock = clock
        self._not_before = [0.0] * len(models)

    def over(self, models: Sequence[Model]) -> Self:
        """The same over other faces of its models, in their order; knows who asked to wait."""
        other = copy(self)
        other.models = tuple(models)
        return other

    def reply(self, request: ModelRequest) -> ModelReply:
        """The first answer that one of the models gives.

        Raises:
            ModelError: when none does, with the words of each.
        """
        errors = self._waiting()
        for index, model in self._ready():
            try:
                return model.reply(request)
            except ModelError as error:
                errors.append(self._noted(index, error))
        raise self._all_failed(errors)

    async def areply(self, request: ModelRequest) -> ModelReply:
        """The same as `reply`; a model that only blocks is asked in a thread."""
        errors = self._waiting()
        for index, model in self._ready():
            try:
                if hasattr(model, "areply"):
                    found: ModelReply = await model.areply(request)
                    return found
                return await asyncio.to_thread(model.reply, request)
            except ModelError as error:
                errors.append(self._noted(index, error))
        raise self._all_failed(errors)

    def stream(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """The same as `reply`; what a model showed before it failed is declared void.

        Raises:
            ModelError: when none answers, with the words of each.
            StreamStopped: what ``on_delta`` raised.
        """
        errors = self._waiting()
        for index, model in self._ready():
            if errors:
                on_delta(Delta("begin"))
            try:
                return stream_or_show(model, request, on_delta)
            except ModelError as error:
                errors.append(self._noted(index, error))
        raise self._all_failed(errors)

    def _ready(self) -> Iterator[tuple[int, Model]]:
        for index, model in enumerate(self.models):
            if self._not_before[index] <= self._clock():
                yield index, model

    def _waiting(self) -> list[ModelError]:
        """An error for each model that wants no call yet."""
        now = self._clock()
        return [
            ModelError(f"{model.name} asked to wait", "retry", until - now, code="waiting")
            for model, until in zip(self.models, self._not_before, strict=True)
            if until > now
        ]

    def _noted(self, index: int, error: ModelError) -> ModelError:
        """The error, if the next model may do better; raises it if not."""
        if error.fate in ("compact", "fail"):
            raise error
        if error.retry_after is not None and error.fate != "wait":
            self._not_before[index] = self._clock() + error.retry_after
        return error

    def _all_failed(self, errors: Sequence[ModelError]) -> ModelError:
        text = "no model answered: " + "; ".join(error.text for error in errors)
        again = [error for error in errors if error.fate in ("retry", "wait")]
        if not again:
            first = errors[0]
            return ModelError(text, first.fate, None, first.status, first.code)
        waits = [error.retry_after for error in again]
        wait = None if None in waits else min(w for w in waits if w is not None)
        fate: Fate = "wait" if all(error.fate == "wait" for error in again) else "retry"
        return ModelError(text, fate, wait, again[0].status, again[0].code)
