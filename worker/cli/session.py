"""One command's connections, opened when they are first used and closed at its end."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from worker.cli.command import Common
from worker.cli.output import Output

if TYPE_CHECKING:
    from api_client import AgentClient
    from api_client.admin import AdminStore
    from api_client.connection import Client
    from api_client.rekeying import RekeyStore
    from api_client.store import JobStore


class Session:
    """What a command works with.

    Args:
        common: the options that every command takes.
    """

    def __init__(self, common: Common) -> None:
        self.common = common
        self.out = Output(common.json)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @cached_property
    def url(self) -> str:
        """The store's URL; starts the embedded server, or joins it, if that was asked for.

        Raises:
            InvalidInput: another store was asked for as well.
            EmbeddedServerError: it could not be started.
        """
        from api_client.connection import DEFAULT_URL

        if self.common.embedded is None:
            return self.common.redis_url or DEFAULT_URL
        self._check_one_store()
        return self._embedded(data_folder(self.common.embedded))

    def _check_one_store(self) -> None:
        from api_client.errors import InvalidInput

        given = self.common.redis_url
        if given and given != os.environ.get("STEPKEEPER_REDIS_URL"):
            raise InvalidInput("--redis-url and --embedded name two stores; give one of them")

    def _embedded(self, folder: Path) -> str:
        from worker.embedded import shared

        server = self._stack.enter_context(shared(folder))
        how = "started" if server.started else "joined"
        self.out.note(f"stepkeeper: {how} the server at {server.url}, data in {folder}")
        return server.url

    @cached_property
    def redis(self) -> Client:
        """The store's server itself; raises what ``url`` does."""
        from api_client.connection import connect

        return self._stack.enter_context(connect(self.url))

    @cached_property
    def store(self) -> JobStore:
        """The store; raises what ``url`` does."""
        from api_client.redis_store import RedisJobStore

        return RedisJobStore.from_url(self.url, partitions=self.common.partitions or 1)

    @cached_property
    def admin(self) -> AdminStore:
        """The store as operators see it; raises what ``url`` does."""
        from api_client.admin import AdminStore

        return AdminStore.from_url(self.url, partitions=self.common.partitions or 1)

    @cached_property
    def rekeying(self) -> RekeyStore:
        """The store, for who changes its keys; raises what ``url`` does."""
        from api_client.rekeying import RekeyStore

        return RekeyStore.from_url(self.url, partitions=self.common.partitions or 1)

    @cached_property
    def client(self) -> AgentClient:
        """The client; raises what ``url`` does."""
        from api_client import AgentClient

        broker = self.common.broker_url or None
        return AgentClient(self.url, broker_url=broker, store=self.store)


def data_folder(given: str) -> Path:
    """Where the embedded server keeps its data: the folder given, or the user's own."""
    if given:
        return Path(given).expanduser().absolute()
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / "stepkeeper"
