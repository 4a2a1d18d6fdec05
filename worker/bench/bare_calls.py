"""The floor of ``waiting``: the same calls in a bare asyncio script, with the same SDK.

``python -m worker.bench.bare_calls URL JOBS`` prints one JSON object. Nothing is stored.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import httpx2
from openai import AsyncOpenAI

from worker.bench.load import OBSERVATION, look
from worker.tools import build_tool

_SCHEMA: Any = build_tool(look).schema()


async def job(client: AsyncOpenAI) -> None:
    """Ask and observe until the model answers."""
    messages: list[Any] = [
        {"role": "system", "content": "Work."},
        {"role": "user", "content": "Take so many steps."},
    ]
    while True:
        reply = await client.chat.completions.create(
            model="slow", messages=messages, tools=[_SCHEMA]
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            answer = {"role": "tool", "tool_call_id": call.id, "content": OBSERVATION}
            messages.append(answer)


async def run(url: str, jobs: int) -> dict[str, Any]:
    """All jobs at once."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    http_client = httpx2.AsyncClient(limits=limits, timeout=300)
    async with AsyncOpenAI(
        base_url=url, api_key="none", max_retries=0, http_client=http_client
    ) as client:
        begin = time.perf_counter()
        ends = await asyncio.gather(*(job(client) for _ in range(jobs)), return_exceptions=True)
        seconds = time.perf_counter() - begin
    errors = [str(end) for end in ends if end is not None]
    return {"seconds": seconds, "errors": len(errors), "first_error": (errors or [""])[0]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(sys.argv[1], int(sys.argv[2])))))
