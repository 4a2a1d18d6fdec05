"""LangGraph with its Redis saver, which needs a server with RedisJSON and RediSearch.

Persists in the default mode, ``async``: a checkpoint is written while the next node runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from redis import Redis

from tests.peers.langgraph_agent import LangGraph, OpenSaver
from tests.peers.script import Asked, measure, tell, versions_of

POOL = {"max_connections": 1000}
"""Each checkpoint under way takes a connection; a long job can have more than redis-py's 100."""


@asynccontextmanager
async def open_saver(url: str) -> AsyncIterator[Any]:
    """A saver with a client of its own, whose indexes are there."""
    async with AsyncRedisSaver.from_conn_string(url, connection_args=POOL) as saver:
        yield saver


class LangGraphRedis(LangGraph):
    """Runs graphs on one server."""

    def __init__(self, asked: Asked, opens: OpenSaver, runner: asyncio.Runner) -> None:
        super().__init__(asked, opens, runner)
        self._redis = Redis.from_url(asked.server, decode_responses=True)

    def stored(self) -> int:
        """The memory of the server, indexes included."""
        return int(self._info()["used_memory"])

    def durability(self) -> str:
        """When the server syncs its append-only file."""
        settings: Any = self._redis.config_get("append*")
        return f"appendfsync {settings['appendfsync']}; durability async"

    def versions(self) -> dict[str, str]:
        """Of the packages, the server and its modules."""
        packages = versions_of("langgraph", "langgraph-checkpoint-redis")
        modules: Any = self._redis.module_list()
        return (
            packages
            | {"redis": str(self._info()["redis_version"])}
            | {module["name"]: str(module["ver"]) for module in modules}
        )

    def _info(self) -> dict[str, Any]:
        info: Any = self._redis.info("everything")
        return dict(info)


if __name__ == "__main__":
    wanted = Asked.read(sys.argv[1:])
    with asyncio.Runner() as loop, closing(LangGraphRedis(wanted, open_saver, loop)) as peer:
        tell(measure(peer, wanted))
