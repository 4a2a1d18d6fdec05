"""A model that notes when it is asked, and how many ask at once."""

from __future__ import annotations

import asyncio
import threading
import time

from worker.models.base import ModelReply, ModelRequest, Usage


class CountingModel:
    """Answers after ``seconds``; with ``held`` set, only when that is cleared.

    Attributes:
        starts: monotonic seconds of each request.
        tasks: what each request was about, in the same order.
        now, most: requests that are being answered, and how many were at most.
    """

    name = "counting"

    def __init__(self, seconds: float, usage: Usage | None = None) -> None:
        self.seconds = seconds
        self.usage = usage or Usage(10, 5)
        self.held = False
        self.starts: list[float] = []
        self.tasks: list[str] = []
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def reply(self, request: ModelRequest) -> ModelReply:
        """The same as ``areply``."""
        return asyncio.run(self.areply(request))

    async def areply(self, request: ModelRequest) -> ModelReply:
        """Answer ``ok``."""
        with self._lock:
            self.starts.append(time.monotonic())
            self.tasks.append(str(request.messages[-1]["content"]))
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.seconds)
            while self.held:  # noqa: ASYNC110 - the test's thread knows no event loop
                await asyncio.sleep(0.01)
        finally:
            with self._lock:
                self.now -= 1
        return ModelReply({"role": "assistant", "content": "ok"}, self.usage, "stop")

    def forget(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self.starts.clear()
            self.tasks.clear()
            self.most = 0

    def most_within(self, seconds: float) -> int:
        """The most requests that began within any span of so many seconds."""
        starts = sorted(self.starts)
        return max(sum(begin <= at < begin + seconds for at in starts) for begin in starts)
