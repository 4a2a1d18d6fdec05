"""LangGraph with its Postgres saver; with ``--variant=delta`` in the channel that is in beta.

Persists in the default mode, ``async``: a checkpoint is written while the next node runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from tests.peers.langgraph_agent import LangGraph
from tests.peers.script import Asked, measure, tell, versions_of
from tests.peers.stored import postgres_bytes, postgres_durability, postgres_says


@asynccontextmanager
async def open_saver(url: str) -> AsyncIterator[Any]:
    """A saver with a connection of its own, whose tables are there."""
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        yield saver


class LangGraphPostgres(LangGraph):
    """Runs graphs on one database."""

    def stored(self) -> int:
        """The bytes of all tables."""
        return postgres_bytes(self._asked.server)

    def durability(self) -> str:
        """What the server does at a commit."""
        return f"{postgres_durability(self._asked.server)}; durability async"

    def versions(self) -> dict[str, str]:
        """Of the packages and the server."""
        server = postgres_says(self._asked.server)["server_version"]
        packages = versions_of("langgraph", "langgraph-checkpoint-postgres")
        return packages | {"postgresql": server}


if __name__ == "__main__":
    wanted = Asked.read(sys.argv[1:])
    with asyncio.Runner() as loop, closing(LangGraphPostgres(wanted, open_saver, loop)) as peer:
        tell(measure(peer, wanted))
