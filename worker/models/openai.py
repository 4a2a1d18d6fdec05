"""Any server that speaks OpenAI's chat completions, through the openai SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import openai

from worker.models.base import ModelReply, ModelRequest
from worker.models.chat_stream import ChatCollector
from worker.models.completion import Dialect, EmptyContent, read_completion, write_request
from worker.models.http import HttpModel
from worker.models.http_settings import Times
from worker.models.streaming import Collector


class OpenAIModel(HttpModel):
    """A model behind OpenAI's chat-completions API.

    Args:
        model: its name; ``LLM_MODEL`` of the environment if left out.
        base_url: of the API, with its ``/v1``; ``LLM_BASE_URL`` if left out, or else OpenAI's own.
        api_key: ``LLM_API_KEY`` if left out. The environment is read at the first call, so an
            agent can be imported without it.
        extra_body: further fields of every request, such as ``temperature``; they win over ours.
        extra_headers: further headers of every request.
        tool_choice: sent when a request with tools names none itself.
        parallel_tool_calls: the same.
        timeout: seconds of silence after which a call is given up.
        total_timeout: seconds after which it is given up whatever has come.
        connect_timeout: seconds to reach the server.
        max_connections: at most so many calls at once per process or event loop; more wait.
        limit_key: under which the limits stand that it shares over all workers; by default the
            address's host and the model's name, such as ``api.openai.com/gpt-5``.
        empty_content: how the server wants a message that has tool calls but no text.
        drop_fields: fields of assistant messages that the server refuses to take back; True for
            all that are not standard. By default everything it sent goes back unchanged.
        stream_usage: ask for the count of tokens at the end of a stream (``stream_options``); False
            for servers that refuse to be asked.
        clock: gives the seconds since the epoch, to read ``Retry-After`` dates against.

    Raises:
        ValueError: for a time that is not a positive, finite number.
    """

    sdk: ClassVar[Any] = openai
    sync_client: ClassVar[Any] = openai.OpenAI
    async_client: ClassVar[Any] = openai.AsyncOpenAI
    path = "/chat/completions"
    default_base_url = "https://api.openai.com/v1"

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        tool_choice: str | dict[str, Any] | None = None,
        parallel_tool_calls: bool | None = None,
        timeout: float = 180.0,
        total_timeout: float = 300.0,
        connect_timeout: float = 10.0,
        max_connections: int = 100,
        limit_key: str | None = None,
        empty_content: EmptyContent = "null",
        drop_fields: bool | Collection[str] = False,
        stream_usage: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            model,
            base_url=base_url,
            api_key=api_key,
            extra_body=extra_body,
            extra_headers=extra_headers,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            times=Times(timeout, total_timeout, connect_timeout),
            max_connections=max_connections,
            limit_key=limit_key,
            clock=clock,
        )
        self._dialect = Dialect(empty_content, drop_fields)
        self._stream_usage = stream_usage

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return write_request(request, self._named_model(), self._dialect, self._extra_body)

    def _streamed(self, body: dict[str, Any]) -> dict[str, Any]:
        usage = {"stream_options": {"include_usage": True}} if self._stream_usage else {}
        return {**usage, **body, "stream": True}

    def _collector(self) -> Collector:
        return ChatCollector()

    def _read(
        self, raw: bytes, *, retry_after: float | None, secrets: Collection[str]
    ) -> ModelReply:
        return read_completion(raw, retry_after=retry_after, secrets=secrets)
