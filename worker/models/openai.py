"""Any server that speaks OpenAI's chat completions, through the openai SDK.

The SDK does the connections, the headers and the authorization. Bodies are written and read here,
as plain JSON: its typed methods walk through every message of the history at each call, and drop
or refuse what real servers send besides the standard.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from worker.models.base import ModelError, ModelReply, ModelRequest
from worker.models.classify import Failure, failure_from_body, judge, retry_after
from worker.models.clients import Clients
from worker.models.completion import (
    Dialect,
    EmptyContent,
    read_completion,
    to_json,
    write_request,
)
from worker.models.transport import DeadlineTransport, ends_after

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_PATH = "/chat/completions"
_JSON = {"Content-Type": "application/json"}


class OpenAIModel:
    """A model behind OpenAI's chat-completions API.

    One instance serves all threads and event loops of a process, before and after a fork. It makes
    one request per call: waiting and trying again is the caller's, by the error's fate.

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
        empty_content: how the server wants a message that has tool calls but no text.
        drop_fields: fields of assistant messages that the server refuses to take back; True for
            all that are not standard. By default everything it sent goes back unchanged.
        clock: gives the seconds since the epoch, to read ``Retry-After`` dates against.

    Raises:
        ValueError: for a time that is not a positive, finite number.
    """

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
        empty_content: EmptyContent = "null",
        drop_fields: bool | Collection[str] = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._model, self._base_url, self._api_key = model, base_url, api_key
        self._extra_body = dict(extra_body or {})
        self._extra_headers = {**(extra_headers or {}), **_JSON}
        self._tool_choice, self._parallel_tool_calls = tool_choice, parallel_tool_calls
        self._total = positive_seconds("total_timeout", total_timeout)
        self._timeout = httpx2.Timeout(
            positive_seconds("timeout", timeout),
            connect=positive_seconds("connect_timeout", connect_timeout),
            pool=self._total,
        )
        self._max_connections = max_connections
        self._dialect = Dialect(empty_content, drop_fields)
        self._clock = clock
        self._clients = Clients(self._make_client, self._make_async_client)

    @property
    def name(self) -> str:
        """The model's name; ``"unnamed"`` while neither argument nor environment gives one."""
        return self._model or os.environ.get("LLM_MODEL", "").strip() or "unnamed"

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r})"

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer the request; blocks for at most ``total_timeout`` seconds.

        Raises:
            ModelError: for everything that keeps the model from answering.
        """
        content = self._write(request)
        client = self._clients.get()
        try:
            with ends_after(self._total):
                response = client.post(
                    _PATH, content=content, cast_to=httpx2.Response, options=self._options()
                )
        except (openai.OpenAIError, httpx2.InvalidURL) as error:
            raise self._translate(error) from error
        return self._read(response)

    async def areply(self, request: ModelRequest) -> ModelReply:
        """The same as `reply`, for an event loop; the connections belong to that loop."""
        content = self._write(request)
        client = await self._clients.get_async()
        try:
            async with asyncio.timeout(self._total):
                response = await client.post(
                    _PATH, content=content, cast_to=httpx2.Response, options=self._options()
                )
        except TimeoutError as error:
            raise self._late() from error
        except (openai.OpenAIError, httpx2.InvalidURL) as error:
            raise self._translate(error) from error
        return self._read(response)

    def close(self) -> None:
        """Close this process's connections; the next call opens new ones."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the running event loop's connections."""
        await self._clients.aclose()

    def _options(self) -> Any:
        return {"headers": self._extra_headers}

    def _write(self, request: ModelRequest) -> bytes:
        if request.tools:
            request = self._with_defaults(request)
        return to_json(write_request(request, self._named_model(), self._dialect, self._extra_body))

    def _with_defaults(self, request: ModelRequest) -> ModelRequest:
        if request.tool_choice is None and self._tool_choice is not None:
            request = replace(request, tool_choice=self._tool_choice)
        if request.parallel_tool_calls is None and self._parallel_tool_calls is not None:
            request = replace(request, parallel_tool_calls=self._parallel_tool_calls)
        return request

    def _named_model(self) -> str:
        return self._model or setting("LLM_MODEL", "the name of the model")

    def _read(self, response: httpx2.Response) -> ModelReply:
        wait = retry_after(response.headers, self._clock())
        return read_completion(response.content, retry_after=wait, secrets=self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        return (self._api_key or os.environ.get("LLM_API_KEY", "").strip(),)

    def _translate(self, error: Exception) -> ModelError:
        """An error of the SDK as one of ours."""
        return judge(self._failure(error), secrets=self._secrets())

    def _failure(self, error: Exception) -> Failure:
        if isinstance(error, openai.APIStatusError):
            wait = retry_after(error.response.headers, self._clock())
            body = error.body or error.response.text
            return failure_from_body(body, status=error.status_code, retry_after=wait)
        if isinstance(error, openai.APITimeoutError):
            return self._silence()
        return connection_failure(error)

    def _silence(self) -> Failure:
        text = f"no complete answer within {self._timeout.read:g} s of silence or {self._total:g} s"
        return Failure(f"{text} in all", code="timeout")

    def _late(self) -> ModelError:
        return judge(self._silence())

    def _make_client(self) -> openai.OpenAI:
        settings = self._client_settings()
        transport = DeadlineTransport(settings["base_url"], self._max_connections)
        return openai.OpenAI(
            http_client=httpx2.Client(transport=transport, timeout=self._timeout), **settings
        )

    def _make_async_client(self) -> openai.AsyncOpenAI:
        limits = httpx2.Limits(
            max_connections=self._max_connections,
            max_keepalive_connections=self._max_connections,
            keepalive_expiry=30.0,
        )
        return openai.AsyncOpenAI(
            http_client=httpx2.AsyncClient(limits=limits, timeout=self._timeout),
            **self._client_settings(),
        )

    def _client_settings(self) -> dict[str, Any]:
        base_url = self._base_url or os.environ.get("LLM_BASE_URL", "").strip() or DEFAULT_BASE_URL
        return {
            "api_key": checked_key(self._api_key or setting("LLM_API_KEY", "the key of the API")),
            "base_url": checked_url(base_url),
            "max_retries": 0,
            "timeout": self._timeout,
        }


def positive_seconds(name: str, value: float | None) -> float:
    """The value, if it is a time that ends."""
    if value is None or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a positive, finite number of seconds, not {value!r}")
    return float(value)


def setting(variable: str, meaning: str) -> str:
    """A setting from the environment.

    Raises:
        ModelError: with fate ``pause``, naming the variable, when it is missing or empty.
    """
    value = os.environ.get(variable, "").strip()
    if not value:
        text = f"{variable} is not set: it must hold {meaning}, in the environment of the worker"
        raise ModelError(text, "pause", code="missing_setting")
    return value


def checked_key(key: str) -> str:
    """The key, if it can stand in a header; never shown in an error."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        text = "the API key (LLM_API_KEY) holds a blank or a letter that cannot stand in a header"
        raise ModelError(text, "pause", code="bad_setting")
    return key


def checked_url(url: str) -> str:
    """The address, if it is one that can be called."""
    try:
        usable = bool(urlsplit(url).hostname) and httpx2.URL(url).scheme in ("http", "https")
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if not usable:
        text = f"the address of the API (LLM_BASE_URL) is not of the form https://host/v1: {url!r}"
        raise ModelError(text, "pause", code="bad_setting")
    return url


def connection_failure(error: BaseException) -> Failure:
    """A call that brought no answer: the network's trouble, unless a setting is plainly wrong."""
    causes = list(_causes(error))
    words = next((str(c) for c in reversed(causes) if str(c)), type(error).__name__)
    if any(isinstance(c, ssl.SSLCertVerificationError) for c in causes):
        return Failure(f"the server's certificate is not trusted: {words}", code="certificate")
    if any(isinstance(c, httpx2.InvalidURL | httpx2.UnsupportedProtocol) for c in causes):
        return Failure(f"the address of the API is not usable: {words}", code="bad_setting")
    return Failure(f"no connection to the model's server: {words}", code="connection")


def _causes(error: BaseException | None) -> Any:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
