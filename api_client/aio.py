"""The client for coroutines: ``AgentClient``'s own methods, each awaited.

client = AsyncAgentClient("redis://127.0.0.1:6379/0")
job_id = await client.submit("shop", "I want to return order 1187.")
async for event in client.trace(job_id, follow=True):
    print(event.kind)

There is one implementation: a method of ``AgentClient`` runs in a thread of this client's, and the
event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from api_client.client import AgentClient

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 32
"""Calls of one client that may wait at once; more of them wait for a thread."""

_OVER: Any = object()


def _awaited(
    method: Callable[Concatenate[AgentClient, P], R],
) -> Callable[Concatenate[AsyncAgentClient, P], Coroutine[Any, Any, R]]:
    """The method, in a thread."""

    async def call(self: AsyncAgentClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(partial(method, self.client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def _iterated(
    method: Callable[Concatenate[AgentClient, P], Iterator[R]],
) -> Callable[Concatenate[AsyncAgentClient, P], AsyncIterator[R]]:
    """The method's items, each waited for in a thread."""

    async def items(
        self: AsyncAgentClient, /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[R]:
        found = method(self.client, *args, **kwargs)
        while (item := await self._run(partial(next, found, _OVER))) is not _OVER:
            yield item

    update_wrapper(items, method)
    return items


class AsyncAgentClient:
    """``AgentClient`` for coroutines; takes what that takes.

    Args:
        threads: calls that may wait at once.

    Attributes:
        client: the one that does the work.
    """

    def __init__(self, *args: Any, threads: int = THREADS, **kwargs: Any) -> None:
        self.client = AgentClient(*args, **kwargs)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="stepkeeper-client")

    async def _run(self, call: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the threads go; calls that are under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    submit = _awaited(AgentClient.submit)
    submit_many = _awaited(AgentClient.submit_many)
    get = _awaited(AgentClient.get)
    wait = _awaited(AgentClient.wait)
    result = _awaited(AgentClient.result)
    messages = _awaited(AgentClient.messages)
    agents = _awaited(AgentClient.agents)
    tenants = _awaited(AgentClient.tenants)
    policies = _awaited(AgentClient.policies)
    set_tenant = _awaited(AgentClient.set_tenant)
    forget_tenant = _awaited(AgentClient.forget_tenant)
    backlogs = _awaited(AgentClient.backlogs)
    set_backlog = _awaited(AgentClient.set_backlog)
    forget_backlog = _awaited(AgentClient.forget_backlog)
    workers = _awaited(AgentClient.workers)
    inbox = _awaited(AgentClient.inbox)
    jobs = _awaited(AgentClient.jobs)
    deliveries = _awaited(AgentClient.deliveries)
    signal = _awaited(AgentClient.signal)
    signal_many = _awaited(AgentClient.signal_many)
    cancel = _awaited(AgentClient.cancel)
    message = _awaited(AgentClient.message)
    pause = _awaited(AgentClient.pause)
    hint = _awaited(AgentClient.hint)
    trace = _iterated(AgentClient.trace)
    live = _iterated(AgentClient.live)
    follow = _iterated(AgentClient.follow)
