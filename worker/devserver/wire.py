"""Just enough HTTP/1.1 for a server that only the SDKs of model providers talk to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

_LONGEST_HEAD = 65_536
PIECE = 8
"""Characters in one piece of a stream."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; header names are lower-case, the body is decoded JSON or None."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request of a connection, None when the client has closed it.

    Raises:
        ValueError: when what came is not HTTP or its body is not JSON.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    raw = await _read_body(reader, headers)
    return HttpRequest(method, path.partition("?")[0], headers, json.loads(raw) if raw else None)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(parts)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The first line and the headers of an answer."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:  # 529 is common in the field and unknown to the standard
        phrase = "Unnamed"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer; a body that is not text or bytes is written as JSON."""
    raw = to_bytes(body)
    described = {"content-type": "application/json", "content-length": str(len(raw))}
    return head(status, {**described, **(headers or {})}) + raw


def to_bytes(body: Any) -> bytes:
    """A body as bytes: JSON, unless it is text or bytes already."""
    if isinstance(body, bytes):
        return body
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.encode()


def event(kind: str, data: Mapping[str, Any]) -> str:
    """One event of a stream whose data names its type, as most formats want it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data}, ensure_ascii=False)}\n\n"


def pieces(text: str) -> Iterator[str]:
    """A text in the pieces that a stream sends."""
    return (text[i : i + PIECE] for i in range(0, len(text), PIECE))


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)
