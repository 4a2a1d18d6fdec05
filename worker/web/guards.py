"""What stands around everything: limits on the size of a request, and headers of every answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worker.web.problems import problem_of_status

Headers = Iterable[tuple[bytes, bytes]]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No page runs, loads or styles with anything that is not a file of ours."""

_EVERYWHERE = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_HSTS = {"strict-transport-security": "max-age=63072000"}
_DEFAULTS = {"cache-control": "no-store"}


class Guard:
    """Refuses what is too large, and signs every answer with the headers of safety.

    Args:
        max_body, max_head: in bytes; the head is the address and all headers.
        https: tell browsers to come by HTTPS only.
    """

    def __init__(self, app: ASGIApp, *, max_body: int, max_head: int, https: bool = False) -> None:
        self._app = app
        self._max_body = max_body
        self._max_head = max_head
        always = {**_EVERYWHERE, **(_HSTS if https else {})}
        self._always = [(k.encode(), v.encode()) for k, v in always.items()]
        self._defaults = [(k.encode(), v.encode()) for k, v in _DEFAULTS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI wants it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = self._signing(send)
        problem = self._refusal(scope)
        if problem is None:
            await self._app(scope, self._counting(receive), guarded)
            return
        await problem_of_status(*problem).response()(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        head = len(scope["raw_path"]) + len(scope["query_string"])
        head += sum(len(name) + len(value) for name, value in scope["headers"])
        if head > self._max_head:
            return 431, f"address and headers: {head} bytes, at most {self._max_head} are allowed"
        length = _declared_length(scope["headers"])
        if length > self._max_body:
            return 413, self._too_large
        return None

    @property
    def _too_large(self) -> str:
        return f"the body is larger than {self._max_body} bytes"

    def _counting(self, receive: Receive) -> Receive:
        """Also for a body that does not say its length before."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_body:
                raise HTTPException(413, self._too_large)
            return message

        return counted

    def _signing(self, send: Send) -> Callable[[MutableMapping[str, Any]], Awaitable[None]]:
        async def signed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = {name.lower() for name, _ in headers}
                headers += [item for item in self._defaults if item[0] not in present]
                message = {**message, "headers": headers + self._always}
            await send(message)

        return signed


def _declared_length(headers: Headers) -> int:
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
