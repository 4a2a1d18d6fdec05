"""Many jobs at once in one process: those that wait for a model share one event loop.

A thread a job is the simplest thing and right for dozens of jobs. Thousands that wait for slow
models would need thousands of threads, so with ``STEPKEEPER_IN_FLIGHT`` a Celery slot only claims
a job and hands it to the loop here: a model call is awaited, and takes no thread; what blocks
(commits, tools) runs in small pools of threads. An outcome is published by a hint of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from worker.agent import Agent
from worker.ends import SliceEnd
from worker.runner import Runner
from worker.store.base import Claimed

log = logging.getLogger(__name__)

STORE_THREADS = 8
TOOL_THREADS = 64
MOST_THREADS = STORE_THREADS + TOOL_THREADS


@dataclass
class Threads:
    """Where blocking work of the event loop runs: short store calls apart from tools."""

    store: ThreadPoolExecutor = field(
        default_factory=partial(ThreadPoolExecutor, STORE_THREADS, "stepkeeper-store")
    )
    tools: ThreadPoolExecutor = field(
        default_factory=partial(ThreadPoolExecutor, TOOL_THREADS, "stepkeeper-tools")
    )

    async def commit(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a step of the loop with its commits."""
        return await self._run(self.store, function, *args)

    async def work(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a tool, or a model that cannot be awaited."""
        return await self._run(self.tools, function, *args)

    @staticmethod
    async def _run(pool: ThreadPoolExecutor, function: Callable[..., Any], *args: Any) -> Any:
        """Run it in a thread of the pool, in a copy of this context."""
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(pool, run, function, *args)


class InFlight:
    """The jobs of this process that an event loop advances.

    Args:
        runner: whose leases and store they use.
        limit: most jobs at once.
        on_end: told how each slice ended; runs in a thread.
    """

    def __init__(self, runner: Runner, limit: int, on_end: Callable[[SliceEnd], None]) -> None:
        self._runner = runner
        self._on_end = on_end
        self._places = threading.BoundedSemaphore(limit)
        self._threads = Threads()
        self._empty = threading.Condition()
        self._running = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="stepkeeper-loop", daemon=True).start()

    def __len__(self) -> int:
        return self._running

    def change_agents(self, agents: Mapping[str, Agent]) -> None:
        """Slices that begin from now on run these agents."""
        self._runner = self._runner.with_agents(agents)

    def run(self, job_id: str) -> SliceEnd | None:
        """Claim a job and hand it to the loop.

        Blocks while as many jobs run as may.

        Returns:
            ``None`` if it was handed over, else what there is to do with it here.
        """
        with self._empty:
            self._running += 1
        self._places.acquire()
        try:
            claim = self._runner.claim(job_id)
        except BaseException:
            self._leave()
            raise
        if not isinstance(claim, Claimed):
            self._leave()
            return claim
        future = asyncio.run_coroutine_threadsafe(self._advance(claim), self._loop)
        future.add_done_callback(self._finished)
        return None

    async def _advance(self, claim: Claimed) -> None:
        end = await self._runner.advance_on_loop(claim, self._threads)
        await self._threads.commit(self._on_end, end)

    def _finished(self, future: Future[None]) -> None:
        self._leave()
        if error := future.exception():
            log.error("a job in flight broke off; the sweep finds it", exc_info=error)

    def _leave(self) -> None:
        self._places.release()
        with self._empty:
            self._running -= 1
            self._empty.notify_all()

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until no job runs here; whether that came to pass."""
        with self._empty:
            return self._empty.wait_for(lambda: self._running == 0, timeout_s)
