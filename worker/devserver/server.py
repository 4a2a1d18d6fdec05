"""The server itself: an event loop in a thread, on a free loopback port."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Self

from worker.devserver import chat, messages, responses, wire
from worker.devserver.faults import Fault
from worker.devserver.strict import Strict, WireError
from worker.models.base import Model, ModelError, ModelReply, ModelRequest
from worker.models.function import FunctionModel
from worker.models.scripted import ScriptedModel

_FORMATS: dict[str, ModuleType] = {m.PATH: m for m in (chat, responses, messages)}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it came: path, headers with lower-case names, decoded body."""

    path: str
    headers: dict[str, str]
    body: Any


def as_model(source: Any) -> Model:
    """A model out of what is convenient to write: a model, a function, or a script."""
    if isinstance(source, Model):
        return source
    return FunctionModel(source) if callable(source) else ScriptedModel(source)


class ModelServer:
    """Serves a model over the wire formats of the providers, from a thread of its own.

    Use it as a context manager, or call `start` and `stop`. Requests are kept in `requests`, so
    a test can look at what was sent.

    Args:
        source: a model, a function of the messages (and the tools), or the lines of a script.
        strict: checks each request and answers 400 to what a particular provider refuses.
        faults: for the first requests, in their order; None answers properly.
        latency: seconds before each proper answer.
        port: 0 for a free one.
        host: the address to listen on.
        keep_requests: False for load tests; only the number is kept then.
    """

    def __init__(
        self,
        source: Any,
        *,
        strict: Strict | None = None,
        faults: Iterable[Fault | None] = (),
        latency: float = 0.0,
        port: int = 0,
        host: str = "127.0.0.1",
        keep_requests: bool = True,
    ) -> None:
        self.model = as_model(source)
        self.strict = strict
        self.faults: deque[Fault | None] = deque(faults)
        self.always: Fault | None = None
        self.latency = latency
        self.port = port
        self._host = host
        self.requests: list[Recorded] = []
        self.count = 0
        self.connections = 0
        self._keep = keep_requests
        self._arrived = threading.Condition()
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server")
        self._thread.daemon = True
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        """Where the OpenAI SDK finds the server."""
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """Where Anthropic's SDK finds it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """Connections that clients hold open now."""
        return len(self._open)

    def start(self) -> Self:
        """Listen; returns when requests are taken.

        Raises:
            OSError: when the port is taken.
        """
        self._thread.start()
        try:
            self._server = self._run(self._listen())
        except OSError:
            self._end_loop()
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Close every connection, hanging ones too, and the port."""
        if self._server is not None:
            self._run(self._close(self._server))
            self._server = None
            self._end_loop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait_for(self, count: int, timeout: float = 10.0) -> None:
        """Return when so many requests have come in all.

        Raises:
            TimeoutError: when they have not after ``timeout`` seconds.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: self.count >= count, timeout):
                raise TimeoutError(f"{self.count} of {count} requests after {timeout:g} s")

    def wait_for_connections(self, count: int, timeout: float = 10.0) -> None:
        """Return when clients hold exactly so many connections open.

        Raises:
            TimeoutError: when they do not after ``timeout`` seconds.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self._open) == count, timeout):
                raise TimeoutError(f"{len(self._open)} connections after {timeout:g} s")

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests for a reply so far."""
        return [r.body for r in self.requests]

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10.0)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._serve_connection, self._host, self.port, limit=2**20, backlog=4096
        )

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            while await self._serve_one(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        except asyncio.CancelledError:
            # stop() ends a connection this way; there is nobody above to tell.
            writer.transport.abort()
        finally:
            writer.close()
            with self._arrived:
                self._open.discard(task)
                self._arrived.notify_all()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        try:
            request = await wire.read_request(reader)
        except ValueError as error:
            writer.write(wire.answer(400, _error(f"not a request: {error}")))
            return False
        if request is None:
            return False
        form = _FORMATS.get(request.path)
        if request.method != "POST" or form is None:
            writer.write(self._about(request))
            return True
        return await self._reply(request, form, writer)

    def _about(self, request: wire.HttpRequest) -> bytes:
        """The answer to everything that asks for no reply."""
        if request.method == "GET" and request.path == "/v1/models":
            entry = {"id": self.model.name, "object": "model", "created": 0, "owned_by": "dev"}
            return wire.answer(200, {"object": "list", "data": [entry]})
        if request.method == "GET" and request.path == "/health":
            return wire.answer(200, {"status": "ok"})
        return wire.answer(404, _error(f"unknown address {request.method} {request.path}"))

    async def _reply(
        self, request: wire.HttpRequest, form: ModuleType, writer: asyncio.StreamWriter
    ) -> bool:
        number = self._record(request)
        fault = self.faults.popleft() if self.faults else self.always

        async def compute() -> bytes:
            return await self._compute(request.body, form, number, fault)

        if fault is not None:
            return await fault.act(writer, compute)
        writer.write(await compute())
        return True

    def _record(self, request: wire.HttpRequest) -> int:
        with self._arrived:
            self.count += 1
            if self._keep:
                found = Recorded(request.path, dict(request.headers), request.body)
                self.requests.append(found)
            self._arrived.notify_all()
            return self.count

    async def _compute(
        self, body: Any, form: ModuleType, number: int, fault: Fault | None
    ) -> bytes:
        """The proper answer to a request: its reply, or why there is none."""
        try:
            request = understood(body, form)
            if self.strict is not None:
                self.strict.check(body if form is chat else as_chat(body, request))
            if self.latency:
                await asyncio.sleep(self.latency)
            reply = await ask(self.model, request)
            return _written(reply, body, form, number, fault)
        except WireError as error:
            return wire.answer(error.status, _error(error.message, error.code))
        except ModelError as error:
            return _refusal(error)


def understood(body: Any, form: ModuleType) -> ModelRequest:
    """What the model is asked.

    Raises:
        WireError: when the body lacks something that its format needs.
    """
    if not isinstance(body, dict):
        raise WireError("the body must be a JSON object")
    try:
        request: ModelRequest = form.read_body(body)
    except KeyError as error:
        raise WireError(f"{error.args[0]}: field required") from error
    except (TypeError, AttributeError) as error:
        raise WireError(f"the body is not of this format: {error}") from error
    return request


def as_chat(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """A request of another format as a body of the chat format, which is the one to check."""
    tools = {"tools": request.tools} if request.tools else {}
    return {"model": body.get("model"), "messages": request.messages, **tools}


async def ask(model: Model, request: ModelRequest) -> ModelReply:
    """The model's reply, without blocking the event loop."""
    if not hasattr(model, "areply"):
        return await asyncio.to_thread(model.reply, request)
    reply: ModelReply = await model.areply(request)
    return reply


def _written(
    reply: ModelReply, body: dict[str, Any], form: ModuleType, number: int, fault: Fault | None
) -> bytes:
    if body.get("stream"):
        events = "".join(form.write_events(reply, body, number))
        return wire.answer(200, events, {"content-type": "text/event-stream"})
    answer = form.write_reply(reply, body, number)
    if fault is not None and fault.edit is not None:
        changed = fault.edit(answer)
        answer = answer if changed is None else changed
    return wire.answer(200, answer)


def _refusal(error: ModelError) -> bytes:
    """What a provider says that cannot answer: by the fate that the script wants to see."""
    status = error.status or {"retry": 503, "compact": 400}.get(error.fate, 400)
    code = "context_length_exceeded" if error.fate == "compact" else error.code
    wait = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}
    return wire.answer(status, _error(error.text, code), wait)


def _error(message: str, code: str | None = None) -> dict[str, Any]:
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
