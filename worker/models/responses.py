"""OpenAI's Responses API, through the openai SDK."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import openai

from worker.models.base import ModelReply, ModelRequest
from worker.models.http import HttpModel
from worker.models.http_settings import Times
from worker.models.responses_body import read_response, write_request
from worker.models.responses_stream import ResponsesCollector
from worker.models.streaming import Collector


class OpenAIResponsesModel(HttpModel):
    """A model behind OpenAI's Responses API.

    It keeps nothing at the provider: each request carries the whole message list, so a job can go
    on anywhere. The arguments that it shares with `worker.models.OpenAIModel` mean the same.

    Args:
        keep_reasoning: ask for the model's reasoning in encrypted form and send it back with the
            history. Reasoning models answer better with it; other models refuse it.
    """

    sdk: ClassVar[Any] = openai
    sync_client: ClassVar[Any] = openai.OpenAI
    async_client: ClassVar[Any] = openai.AsyncOpenAI
    path = "/responses"
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
        keep_reasoning: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        include = {"include": ["reasoning.encrypted_content"]} if keep_reasoning else {}
        super().__init__(
            model,
            base_url=base_url,
            api_key=api_key,
            extra_body={**include, **(extra_body or {})},
            extra_headers=extra_headers,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            times=Times(timeout, total_timeout, connect_timeout),
            max_connections=max_connections,
            limit_key=limit_key,
            clock=clock,
        )

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        return write_request(request, self._named_model(), self._extra_body)

    def _collector(self) -> Collector:
        return ResponsesCollector()

    def _read(
        self, raw: bytes, *, retry_after: float | None, secrets: Collection[str]
    ) -> ModelReply:
        return read_response(raw, retry_after=retry_after, secrets=secrets)
