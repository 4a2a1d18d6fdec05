"""A model that is a Python function: for tests, rules and small experiments."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from worker.models.base import Message, ModelError, ModelReply, ModelRequest

Answer = str | Message | ModelReply
ModelFunction = Callable[..., Answer | Awaitable[Answer]]

_MADE = re.compile(r"call_(\d+)(_\d+)?$")
"""How the ids look that ``with_ids`` gives."""


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


def with_ids(message: Message, line: int) -> Message:
    """A copy of the message whose calls all have ids: ``call_2``, or ``call_2_1``, ``call_2_2``."""
    if not _lacks_ids(message):
        return dict(message)
    calls = message["tool_calls"]
    alone = len(calls) == 1
    made = (f"call_{line}" if alone else f"call_{line}_{n}" for n in range(1, len(calls) + 1))
    numbered = [
        call if "id" in call else {"id": i, **call} for call, i in zip(calls, made, strict=True)
    ]
    return {**message, "tool_calls": numbered}


def _lacks_ids(message: Message) -> bool:
    """Whether there are calls without ids; what is no call at all is for others to object to."""
    calls = message.get("tool_calls")
    if not isinstance(calls, (list, tuple)) or not all(isinstance(call, dict) for call in calls):
        return False
    return not all("id" in call for call in calls)


class FunctionModel:
    """Answers by calling a function.

    Args:
        function: takes the messages, or the messages and the tools; gives text, a message or a
            `ModelReply`; calls may be without ids. May be a coroutine function. Whatever it raises
            besides `ModelError` fails the job with that error's words.
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
        return self._finished(answer, request)

    async def areply(self, request: ModelRequest) -> ModelReply:
        """Answer the request; a plain function runs in a thread, so it may block."""
        answer = await asyncio.to_thread(self._call, request)
        if inspect.isawaitable(answer):
            answer = await self._await(answer)
        return self._finished(answer, request)

    def _finished(self, answer: Any, request: ModelRequest) -> ModelReply:
        """The reply, with ids for those of its calls that the function has given none."""
        reply = as_reply(answer, self.name)
        if not _lacks_ids(reply.message):
            return reply
        return replace(reply, message=with_ids(reply.message, _next_line(request.messages)))

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


def _next_line(messages: Sequence[Message]) -> int:
    """The number for the ids of a reply's calls: one above that of the last calls that have one."""
    for message in reversed(messages):
        for call in message.get("tool_calls") or ():
            if found := _MADE.match(str(call.get("id"))):
                return int(found[1]) + 1
    return 1


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
