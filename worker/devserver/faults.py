"""What can go wrong between a worker and its model, made to happen on purpose.

A fault is one way to handle a request. A server takes the next one of its plan for each request
and answers properly when the plan is empty or says None.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.devserver.wire import answer, chunk, head

Compute = Callable[[], Awaitable[bytes]]
"""Makes the whole proper answer, head and body."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to mistreat one request; made by the functions of this class.

    ``act`` gets the connection's writer and the maker of the proper answer, and says whether the
    connection may be used again.
    """

    name: str
    act: Callable[[asyncio.StreamWriter, Compute], Awaitable[bool]]
    edit: Callable[[dict[str, Any]], Any] | None = None

    @classmethod
    def status(
        cls,
        status: int,
        message: str = "made to fail",
        *,
        code: str | int | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Fault:
        """An error status, with OpenAI's error body or another one."""
        if body is None:
            body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
        return cls._sent(f"status {status}", answer(status, body, headers))

    @classmethod
    def body(cls, body: Any) -> Fault:
        """Status 200 with any body: JSON, or text that is none."""
        return cls._sent("body", answer(200, body))

    @classmethod
    def edited(cls, edit: Callable[[dict[str, Any]], Any]) -> Fault:
        """The proper answer's body, changed: ``edit`` changes the dict or returns another one."""
        return cls("edited", _serve, edit)

    @classmethod
    def delay(cls, seconds: float) -> Fault:
        """The proper answer, late."""

        async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
            await asyncio.sleep(seconds)
            return await _serve(writer, compute)

        return cls(f"delay {seconds}", act)

    @classmethod
    def hang(cls) -> Fault:
        """No answer, ever; the connection stays open."""

        async def act(_writer: asyncio.StreamWriter, _compute: Compute) -> bool:
            await asyncio.Event().wait()
            return False

        return cls("hang", act)

    @classmethod
    def drip(cls, seconds: float, *, after: int = 0) -> Fault:
        """The proper answer, one byte every so many seconds.

        Args:
            after: so many bytes come at once before; -1 for the whole head.
        """

        async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
            raw = await compute()
            start = raw.index(b"\r\n\r\n") + 4 if after < 0 else after
            writer.write(raw[:start])
            for byte in raw[start:]:
                await writer.drain()
                await asyncio.sleep(seconds)
                writer.write(bytes([byte]))
            return True

        return cls(f"drip {seconds}", act)

    @classmethod
    def reset(cls) -> Fault:
        """The connection is reset instead of an answer."""

        async def act(writer: asyncio.StreamWriter, _compute: Compute) -> bool:
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False

        return cls("reset", act)

    @classmethod
    def truncated(cls) -> Fault:
        """Half of the body that the head announces, then the end of the connection."""

        async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
            raw = await compute()
            start = raw.index(b"\r\n\r\n") + 4
            writer.write(raw[: start + (len(raw) - start) // 2])
            return False

        return cls("truncated", act)

    @classmethod
    def cut_stream(cls, events: int) -> Fault:
        """A stream that ends properly as HTTP after so many events, without a finish reason."""

        async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
            raw = await compute()
            pieces = raw[raw.index(b"\r\n\r\n") + 4 :].split(b"\n\n")
            body = b"".join(piece + b"\n\n" for piece in pieces[:events])
            writer.write(answer(200, body, {"content-type": "text/event-stream"}))
            return True

        return cls(f"cut stream after {events}", act)

    @classmethod
    def paced_stream(cls, every: float) -> Fault:
        """The proper stream, one event every so many seconds."""

        async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
            await _begin_stream(writer, await compute(), None, every)
            writer.write(chunk(b""))
            return True

        return cls(f"paced stream {every}", act)

    @classmethod
    def held_stream(cls, events: int, every: float = 0.02) -> Fault:
        """A stream that stops after so many events and is kept open by comments alone.

        It ends when the client goes away.

        Args:
            every: seconds between two comments.
        """

        async def act(writer: asyncio.StreamWriter, compute: Compute) -> bool:
            await _begin_stream(writer, await compute(), events, 0.0)
            while True:  # until writing fails
                writer.write(chunk(b": still here\n\n"))
                await writer.drain()
                await asyncio.sleep(every)

        return cls(f"held stream after {events}", act)

    @classmethod
    def _sent(cls, name: str, raw: bytes) -> Fault:
        async def act(writer: asyncio.StreamWriter, _compute: Compute) -> bool:
            writer.write(raw)
            return True

        return cls(name, act)


async def _begin_stream(
    writer: asyncio.StreamWriter, raw: bytes, events: int | None, every: float
) -> None:
    """Send the head and the first events of a whole answer, in chunks."""
    described = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    writer.write(head(200, described))
    sent = raw[raw.index(b"\r\n\r\n") + 4 :].split(b"\n\n")
    for piece in sent[:-1][:events]:
        writer.write(chunk(piece + b"\n\n"))
        await writer.drain()
        await asyncio.sleep(every)


async def _serve(writer: asyncio.StreamWriter, compute: Compute) -> bool:
    writer.write(await compute())
    return True
