"""JSON as its standard has it, and the headers that carry meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Header, Path, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from worker.web.problems import Problem

_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"', re.ASCII)
_BARE = re.compile(r"[!#-+\--:<-\[\]-~]+", re.ASCII)
_LONGEST_KEY = 255

JobId = Annotated[str, Path(description="The job's id.", examples=["6f1c0b9e-3b8f-4c39"])]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key again is the same request: it changes nothing and has the same "
        "answer. A structured string in quotes, or a bare word; at most 255 characters.",
        examples=['"8e03978e-40d5-43dd-bc93-6894a57f9324"'],
    ),
]


class _StrictRequest(Request):
    """No NaN, no lone surrogates, no depth without end."""

    async def json(self) -> Any:
        """The body; raises ``ValueError``, which becomes status 400."""
        return from_json(await self.body(), allow_inf_nan=False)


class StrictRoute(APIRoute):
    """Reads bodies strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See ``APIRoute``."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def read_key(header: str | None) -> str | None:
    """An idempotency key out of its header.

    Raises:
        Problem: 400, it is neither a structured string nor a bare word.
    """
    if header is None:
        return None
    text = header.strip()
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if not key or len(key) > _LONGEST_KEY or not (quoted or _BARE.fullmatch(text)):
        raise Problem(
            400, "bad-request", 'Idempotency-Key: give 1 to 255 characters in quotes: "8e03978e…"'
        )
    return key
