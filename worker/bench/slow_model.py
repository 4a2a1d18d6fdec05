"""A slow model: a server for thousands of calls at once (``python -m … PORT SECONDS``).

It speaks as much HTTP/1.1 and as much of chat completions as an SDK needs, and nothing else, so
that its own work is little beside what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from worker.bench.load import ANSWER, reply_message

STEPS = 3
"""Model calls of a job: the last one answers."""

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"
_BACKLOG = 8192


class Connection(asyncio.Protocol):
    """One client's connection: a request at a time, each answered after ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with the next piece of a request."""
        self._received += data
        head, end, body = self._received.partition(_END_OF_HEAD)
        if end and len(body) >= _length(head):
            self._received = b""
            answer = completion(json.loads(body)["messages"])
            asyncio.get_running_loop().call_later(self._seconds, self._answer, answer)

    def _answer(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _length(head: bytes) -> int:
    lines = (line.lower() for line in head.split(b"\r\n"))
    return int(next(line for line in lines if line.startswith(_LENGTH)).removeprefix(_LENGTH))


def completion(messages: list[dict[str, Any]]) -> bytes:
    """The whole HTTP answer to a request with these messages."""
    number = sum(message["role"] == "assistant" for message in messages) + 1
    last = number >= STEPS
    message = {"role": "assistant", "content": ANSWER} if last else reply_message(number)
    choice = {"index": 0, "message": message, "finish_reason": "stop" if last else "tool_calls"}
    usage = {"prompt_tokens": 1000, "completion_tokens": 60, "total_tokens": 1060}
    frame = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "slow"}
    body = json.dumps(frame | {"choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + _END_OF_HEAD + body


async def serve(port: int, seconds: float) -> None:
    """Serve until the process ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(seconds), "127.0.0.1", port, backlog=_BACKLOG
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
