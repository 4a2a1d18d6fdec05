"""A scratch folder with a server of its own, for one part of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from api_client.connection import Client, connect
from worker.embedded import EmbeddedServer, Fsync
from worker.undisturbed import scratch_folder

FSYNCS: tuple[Fsync, ...] = ("everysec", "always")
"""Every figure stands beside the one that is durable on loss of power."""

_PREFIX = "stepkeeper-bench-"
# A rewrite of the file in the middle of a measurement would make it shorter.
_CONFIG = {"auto-aof-rewrite-percentage": "0"}


@dataclass(frozen=True, slots=True)
class Room:
    """Where a part measures. Everything in it is gone when the part has ended."""

    folder: Path
    url: str
    redis: Client

    @property
    def results_url(self) -> str:
        """A database of its own for Celery's results, so that they can be counted."""
        return self.url.removesuffix("/0") + "/1"

    def results(self) -> int:
        """How many results of Celery there are."""
        return int(self.redis.info("keyspace").get("db1", {}).get("keys", 0))

    def forget_results(self) -> None:
        """Drop the results of Celery, so that the next ones can be counted."""
        with connect(self.results_url) as results:
            results.flushdb()

    def empty(self) -> None:
        """Forget all keys, so that the next sample finds the server as the one before did."""
        self.redis.flushall()


@contextmanager
def room(fsync: Fsync = "everysec") -> Iterator[Room]:
    """Start a server in a folder of its own; both are gone afterwards, whatever happens.

    Raises:
        EmbeddedServerError: it could not be started.
    """
    with (
        scratch_folder(_PREFIX) as folder,
        EmbeddedServer(folder / "redis", appendfsync=fsync, config=_CONFIG) as server,
        connect(server.url) as redis,
    ):
        yield Room(folder, server.url, redis)
