"""Connections spread over pools: none is asked for more than it has."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from worker.models.wide import POOL_SIZE, WideTransport


class Answering(httpx2.AsyncBaseTransport):
    """Stands in for one pool: answers when it is let, and notes the most requests at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.now = self.most = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go.wait()
        self.now -= 1
        if request.url.path == "/broken":
            raise httpx2.ConnectError("no")
        return httpx2.Response(200, stream=httpx2.ByteStream(b"whole"))


def wide(connections: int) -> tuple[WideTransport, list[Answering]]:
    transport = WideTransport(connections, 30.0, None)
    stand_ins = [Answering() for _ in transport._pools]
    for pool, stand_in in zip(transport._pools, stand_ins, strict=True):
        pool.transport = stand_in  # type: ignore[assignment]
    return transport, stand_ins


async def gather(transport: WideTransport, paths: list[str], pools: list[Answering]) -> list[Any]:
    async with httpx2.AsyncClient(transport=transport) as client:
        calls = [asyncio.create_task(client.get(f"http://127.0.0.1{path}")) for path in paths]
        while sum(pool.now for pool in pools) < len(paths):  # noqa: ASYNC110 - no clock in it
            await asyncio.sleep(0)
        for pool in pools:
            pool.go.set()
        return await asyncio.gather(*calls, return_exceptions=True)


async def spread() -> None:
    transport, pools = wide(3 * POOL_SIZE)
    answers = await gather(transport, ["/"] * 3 * POOL_SIZE, pools)
    assert [pool.most for pool in pools] == [POOL_SIZE] * 3
    assert {answer.content for answer in answers} == {b"whole"}
    assert [pool.busy for pool in transport._pools] == [0, 0, 0]


async def broken() -> None:
    transport, pools = wide(2)
    answers = await gather(transport, ["/broken", "/"], pools)
    assert isinstance(answers[0], httpx2.ConnectError)
    assert [pool.busy for pool in transport._pools] == [0]


def test_each_request_goes_to_the_pool_with_the_least_to_do() -> None:
    asyncio.run(spread())


def test_a_request_that_fails_leaves_its_place() -> None:
    asyncio.run(broken())


@pytest.mark.parametrize(("connections", "sizes"), [(1, [1]), (50, [50]), (120, [50, 50, 20])])
def test_all_pools_together_have_the_connections_that_were_asked_for(
    connections: int, sizes: list[int]
) -> None:
    transport = WideTransport(connections, 30.0, None)
    pools = [pool.transport._pool._max_connections for pool in transport._pools]
    assert pools == sizes
