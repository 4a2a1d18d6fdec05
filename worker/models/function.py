"""A model that is a Python function: for tests, rules and small experiments."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from worker.models.base import Message, ModelError, ModelReply, ModelRequest

Answer = str | Message | ModelReply
ModelFunction = Callable[..., Answer | Awaitable[Answer]]


def as_reply(answer: Any, model: str = "") -> ModelReply:
    """A reply out of what is convenient to write: text, a message, or a reply.

    Raises:
        ModelError: with fate ``fail`` for anything else.
    """
    if isinstance(answer, ModelReply):
        return answer
    if isinstance(answer, str):
        answer = {"content": answer}
    if not isinstance(answer, dict):
        text = f"a model answers with text, a message or a ModelReply, not {type(answer).__name__}"
        raise ModelError(text, "fail", code="bad_answer")
    message = {"role": "assistant", "content": None, **answer}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return ModelReply(message, finish_reason=reason, model=model)


class FunctionModel:
    """Answers by calling a function.

    Args:
        function: takes the messages, or the messages and the tools; gives text, a message or a
            `ModelReply`. May be a coroutine function. Whatever it raises besides `ModelError`
            fails the job with that error's words.
        name: stands in traces.
    """

    def __init__(self, function: ModelFunction, name: str = "function") -> None:
        self.name = name
        self._function = function
        self._takes_tools = _takes_two(function)

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer the request; a coroutine function runs in an event loop of its own."""
        answer = self._call(request)
        if inspect.isawaitable(answer):
            answer = _run(self._await(answer))
        return as_reply(answer, self.name)

    async def areply(self, request: ModelRequest) -> ModelReply:
        """Answer the request; a plain function runs in a thread, so it may block."""
        answer = await asyncio.to_thread(self._call, request)
        if inspect.isawaitable(answer):
            answer = await self._await(answer)
        return as_reply(answer, self.name)

    def _call(self, request: ModelRequest) -> Any:
        given = (request.messages, request.tools) if self._takes_tools else (request.messages,)
        try:
            return self._function(*given)
        except ModelError:
            raise
        except Exception as error:  # only a ModelError may leave a model
            raise self._failed(error) from error

    async def _await(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except ModelError:
            raise
        except Exception as error:  # only a ModelError may leave a model
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> ModelError:
        text = f"the function of model {self.name!r} raised {type(error).__name__}: {error}"
        return ModelError(text, "fail", code="function_raised")


def _takes_two(function: ModelFunction) -> bool:
    """Whether the function can take the tools besides the messages."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in positional for kind in kinds) >= 2


def _run(coroutine: Any) -> Any:
    """The coroutine's result, also when the caller stands inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
