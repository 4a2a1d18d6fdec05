"""What the adapters over HTTP share: one request per call, a finite time, errors with a fate.

The SDKs do the connections, the headers and the authorization. Bodies are written and read by us,
as plain JSON: the SDKs' typed methods walk through every message of the history at each call, and
drop or refuse what real servers send besides the standard.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import httpx2

from worker.models.base import ALIVE, ModelError, ModelReply, ModelRequest, OnDelta
from worker.models.classify import Failure, failure_from_body, judge, retry_after
from worker.models.clients import Clients
from worker.models.http_settings import (
    Times,
    checked_key,
    checked_url,
    refuse_elsewhere,
    setting,
)
from worker.models.json_body import to_json
from worker.models.streaming import (
    DONE,
    Collector,
    SentEvent,
    cut_off,
    read_data,
    sent_events,
    show,
)
from worker.models.transport import DeadlineTransport, ends_after, proxy_for
from worker.models.wide import WideTransport
from worker.real_calls import real_calls_forbidden

_KEPT_OPEN = 30.0
"""Seconds that an idle connection is kept."""
_LAST_BYTES = 1.0
"""Seconds for a stream to end after its last event."""


class HttpModel:
    """A model behind an HTTP API with an SDK of the usual build.

    One instance serves all threads and event loops of a process, before and after a fork. It makes
    one request per call: waiting and trying again is the caller's, by the error's fate. Adapters
    say where the API is (`path`, `default_base_url`), which SDK reaches it, and how bodies are
    written and read.
    """

    sdk: ClassVar[Any]
    sync_client: ClassVar[Any]
    async_client: ClassVar[Any]
    path: ClassVar[str]
    default_base_url: ClassVar[str]

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | None,
        api_key: str | None,
        extra_body: Mapping[str, Any] | None,
        extra_headers: Mapping[str, str] | None,
        tool_choice: str | dict[str, Any] | None,
        parallel_tool_calls: bool | None,
        times: Times,
        max_connections: int,
        limit_key: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limit_key = limit_key
        self._model, self._base_url, self._api_key = model, base_url, api_key
        self._extra_body = dict(extra_body or {})
        self._headers = {**(extra_headers or {}), "Content-Type": "application/json"}
        self._tool_choice, self._parallel_tool_calls = tool_choice, parallel_tool_calls
        self._times = times
        self._timeout = times.for_http()
        self._max_connections = max_connections
        self._clock = clock
        self._clients: Clients[Any, Any] = Clients(self._make_client, self._make_async_client)

    @property
    def name(self) -> str:
        """The model's name; ``"unnamed"`` while neither argument nor environment gives one."""
        return self._model or os.environ.get("LLM_MODEL", "").strip() or "unnamed"

    @property
    def limit_key(self) -> str:
        """Under which the limits stand that all workers share: ``HOST/MODEL``, if not given."""
        return self._limit_key or f"{_place(self._address())}/{self.name}"

    def named(self, name: str) -> Self:
        """The same, asking another model of the same API over the same connections."""
        other = copy(self)
        other._model = name
        return other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer the request; blocks for at most the total time.

        Raises:
            ModelError: for everything that keeps the model from answering.
        """
        content = to_json(self._body(self._with_defaults(request)))
        client = self._clients.get()
        try:
            with ends_after(self._times.total):
                response = client.post(self.path, **self._sent(content))
        except self.sdk.APIError as error:
            raise self._translated(error) from error
        return self._answer(response)

    async def areply(self, request: ModelRequest) -> ModelReply:
        """The same as `reply`, for an event loop; the connections belong to that loop."""
        content = to_json(self._body(self._with_defaults(request)))
        client = await self._clients.get_async()
        try:
            async with asyncio.timeout(self._times.total):
                response = await client.post(self.path, **self._sent(content))
        except TimeoutError as error:
            raise judge(self._silence()) from error
        except self.sdk.APIError as error:
            raise self._translated(error) from error
        return self._answer(response)

    def stream(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """The same as `reply`, with the pieces shown as they arrive.

        Raises:
            ModelError: for everything that keeps the model from answering to the end.
            StreamStopped: what ``on_delta`` raised; the connection has been closed.
        """
        body = self._streamed(self._body(self._with_defaults(request)))
        sent = self._sent(to_json(body))
        client = self._clients.get()
        try:
            with ends_after(self._times.total):
                response = client.post(
                    self.path, stream=True, stream_cls=self.sdk.Stream[Any], **sent
                )
                try:
                    return self._gathered(response, on_delta)
                finally:
                    response.close()
        except self.sdk.APIError as error:
            raise self._translated(error) from error
        except httpx2.TimeoutException as error:
            raise judge(self._silence()) from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise judge(connection_failure(error)) from error

    def close(self) -> None:
        """Close this process's connections; the next call opens new ones."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the running event loop's connections."""
        await self._clients.aclose()

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """The body of a request, in the API's format."""
        raise NotImplementedError

    def _streamed(self, body: dict[str, Any]) -> dict[str, Any]:
        """The same body, asking for a stream."""
        return {**body, "stream": True}

    def _collector(self) -> Collector:
        """Puts the events of a stream together again."""
        raise NotImplementedError

    def _read(
        self, raw: bytes, *, retry_after: float | None, secrets: Collection[str]
    ) -> ModelReply:
        """The reply in a body that came with a good status; raises `ModelError` if it is none."""
        raise NotImplementedError

    def _named_model(self) -> str:
        return self._model or setting("LLM_MODEL", "the name of the model")

    def _with_defaults(self, request: ModelRequest) -> ModelRequest:
        """The request with the model's own choices about tools where it makes none."""
        if not request.tools:
            return request
        if request.tool_choice is None and self._tool_choice is not None:
            request = replace(request, tool_choice=self._tool_choice)
        if request.parallel_tool_calls is None and self._parallel_tool_calls is not None:
            request = replace(request, parallel_tool_calls=self._parallel_tool_calls)
        return request

    def _sent(self, content: bytes) -> dict[str, Any]:
        if real_calls_forbidden():
            refuse_elsewhere(self._address())
        options = {"headers": self._headers, "timeout": self._timeout}
        return {"content": content, "cast_to": httpx2.Response, "options": options}

    def _gathered(self, response: httpx2.Response, on_delta: OnDelta) -> ModelReply:
        """The whole of a reply that comes in pieces, or at once from a server that does not."""
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.read()
            reply = self._answer(response)
            show(reply.message, on_delta)
            return reply
        wait = retry_after(response.headers, self._clock())
        collector, pieces = self._collector(), response.iter_bytes()
        for event in sent_events(pieces):
            if event.data == DONE:
                break
            self._take(event, collector, on_delta, wait)
        _finish(pieces)
        if not collector.complete:
            raise cut_off()
        raw = json.dumps(collector.body()).encode()
        return self._read(raw, retry_after=wait, secrets=self._secrets())

    def _take(
        self, event: SentEvent, collector: Collector, on_delta: OnDelta, wait: float | None
    ) -> None:
        """Take one event, and show what there is to show of it."""
        if not event.data:
            on_delta(ALIVE)
            return
        data = read_data(event)
        if data.get("error") or "error" in (event.name, data.get("type")):
            failure = failure_from_body(data, retry_after=wait)
            raise judge(failure, secrets=self._secrets())
        for delta in collector.take(event.name, data):
            on_delta(delta)

    def _answer(self, response: httpx2.Response) -> ModelReply:
        wait = retry_after(response.headers, self._clock())
        return self._read(response.content, retry_after=wait, secrets=self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        return (self._api_key or os.environ.get("LLM_API_KEY", "").strip(),)

    def _translated(self, error: Exception) -> ModelError:
        return judge(self._failure(error), secrets=self._secrets())

    def _failure(self, error: Any) -> Failure:
        """An error of the SDK, before it is judged."""
        if isinstance(error, self.sdk.APIStatusError):
            wait = retry_after(error.response.headers, self._clock())
            body = error.body or error.response.text
            return failure_from_body(body, status=error.status_code, retry_after=wait)
        if isinstance(error, self.sdk.APITimeoutError):
            return self._silence()
        return connection_failure(error)

    def _silence(self) -> Failure:
        silence, total = self._times.silence, self._times.total
        text = f"no complete answer within {silence:g} s of silence or {total:g} s in all"
        return Failure(text, code="timeout")

    def _address(self) -> str:
        return self._base_url or os.environ.get("LLM_BASE_URL", "").strip() or self.default_base_url

    def _make_client(self) -> Any:
        settings = self._client_settings()
        transport = DeadlineTransport(settings["base_url"], self._max_connections, _KEPT_OPEN)
        http_client = httpx2.Client(transport=transport, timeout=self._timeout)
        return self.sync_client(http_client=http_client, **settings)

    def _make_async_client(self) -> Any:
        settings = self._client_settings()
        transport = WideTransport(
            self._max_connections, _KEPT_OPEN, proxy_for(settings["base_url"])
        )
        http_client = httpx2.AsyncClient(transport=transport, timeout=self._timeout)
        return self.async_client(http_client=http_client, **settings)

    def _client_settings(self) -> dict[str, Any]:
        return {
            "api_key": checked_key(self._api_key or setting("LLM_API_KEY", "the key of the API")),
            "base_url": checked_url(self._address()),
            "max_retries": 0,
            "timeout": self._timeout,
        }


def _place(url: str) -> str:
    """Host and port of an address, without user and password; what it is instead, if it is none."""
    return urlsplit(url).netloc.rpartition("@")[2] or "unknown"


def _finish(pieces: Iterator[bytes]) -> None:
    """Read the end of a stream whose last event has come, so that its connection can be kept.

    A server that does not end it in time only loses the connection.
    """
    with contextlib.suppress(httpx2.TransportError), ends_after(_LAST_BYTES):
        for _ in pieces:
            pass


def connection_failure(error: BaseException) -> Failure:
    """A call that brought no answer: the network's trouble, unless a setting is plainly wrong."""
    causes = list(_causes(error))
    words = next((str(c) for c in reversed(causes) if str(c)), type(error).__name__)
    if any(isinstance(c, ssl.SSLCertVerificationError) for c in causes):
        return Failure(f"the server's certificate is not trusted: {words}", code="certificate")
    return Failure(f"no connection to the model's server: {words}", code="connection")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
