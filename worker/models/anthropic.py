"""Anthropic's Messages API, through its SDK (extra ``anthropic``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import anthropic

from worker.models.base import ModelReply, ModelRequest
from worker.models.http import HttpModel
from worker.models.http_settings import Times
from worker.models.messages_body import read_message, write_request
from worker.models.messages_stream import MessagesCollector
from worker.models.streaming import Collector


class AnthropicModel(HttpModel):
    """A model behind Anthropic's Messages API.

    The message list stays in the chat format; it is translated at each call, thinking blocks
    included. The arguments that it shares with `worker.models.OpenAIModel` mean the same.

    Args:
        base_url: of the API, without its ``/v1``.
        max_tokens: at most so many tokens in one reply; the API wants to be told.
    """

    sdk: ClassVar[Any] = anthropic
    sync_client: ClassVar[Any] = anthropic.Anthropic
    async_client: ClassVar[Any] = anthropic.AsyncAnthropic
    path = "/v1/messages"
    default_base_url = "https://api.anthropic.com"

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int = 8192,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        tool_choice: str | dict[str, Any] | None = None,
        parallel_tool_calls: bool | None = None,
        timeout: float = 180.0,
        total_timeout: float = 300.0,
        connect_timeout: float = 10.0,
        max_connections: int = 100,
        limit_key: str | None = None,
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
        self._max_tokens = max_tokens

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return write_request(request, self._named_model(), self._max_tokens, self._extra_body)

    def _collector(self) -> Collector:
        return MessagesCollector()

    def _read(
        self, raw: bytes, *, retry_after: float | None, secrets: Collection[str]
    ) -> ModelReply:
        return read_message(raw, retry_after=retry_after, secrets=secrets)
