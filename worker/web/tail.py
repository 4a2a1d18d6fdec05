"""Following streams: one thread and one connection wake everybody who follows any of them.

A follower registers first, then reads what is there, then waits; so nothing falls in between. The
thread reads no records for anybody: it only says that there are new ones.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import RedisError
from starlette.concurrency import run_in_threadpool

from api_client.connection import Client, translated

log = logging.getLogger(__name__)

BLOCK_MS = 200
"""How long the first record of a stream that nobody followed before may stay unnoticed."""

_BATCH = 100


class Watch:
    """One follower of one stream."""

    def __init__(self) -> None:
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    async def changed(self, timeout_s: float) -> bool:
        """Wait for records that came since the last call; False when the time is over."""
        try:
            await asyncio.wait_for(self._news.wait(), max(0.0, timeout_s))
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def wake(self) -> None:
        """Called by the thread."""
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            log.debug("a follower's event loop is closed; nobody waits there any more")


class Tail:
    """All followers of one server.

    Args:
        client: an open redis-py client.
        where: what errors call the server.
    """

    def __init__(self, client: Client, where: str = "the store") -> None:
        self._redis = client
        self._where = where
        self._changed = threading.Condition()
        self._cursors: dict[str, str] = {}
        self._watches: dict[str, set[Watch]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="stepkeeper-tail", daemon=True)
        self._started = False

    @asynccontextmanager
    async def watch(self, *keys: str) -> AsyncIterator[Watch]:
        """Follow the streams ``keys``, from their newest records on.

        Raises:
            StoreUnavailable
        """
        newest = {key: await run_in_threadpool(self._newest, key) for key in keys}
        watch = Watch()
        self._add(newest, watch)
        try:
            yield watch
        finally:
            self._remove(keys, watch)

    def followers(self, key: str) -> frozenset[Watch]:
        """Who follows the stream ``key`` now."""
        with self._changed:
            return frozenset(self._watches.get(key, ()))

    def _newest(self, key: str) -> str:
        with translated(self._where):
            entries = self._redis.xrevrange(key, count=1)
        return entries[0][0].decode() if entries else "0"

    def _add(self, newest: Mapping[str, str], watch: Watch) -> None:
        with self._changed:
            watch.closed = self._closed
            for key, entry_id in newest.items():
                self._cursors.setdefault(key, entry_id)
                self._watches.setdefault(key, set()).add(watch)
            if not self._started and not self._closed:
                self._started = True
                self._thread.start()
            self._changed.notify_all()

    def _remove(self, keys: Sequence[str], watch: Watch) -> None:
        with self._changed:
            for key in keys:
                self._watches[key].discard(watch)
                if not self._watches[key]:
                    del self._watches[key], self._cursors[key]

    def close(self) -> None:
        """Let everybody go; whoever follows from now on is told at once."""
        with self._changed:
            self._closed = True
            for watch in self._everybody():
                watch.closed = True
                watch.wake()
            self._changed.notify_all()
        if self._started and self._thread is not threading.current_thread():
            self._thread.join()

    def _everybody(self) -> list[Watch]:
        return [watch for watches in self._watches.values() for watch in watches]

    def _run(self) -> None:
        while (cursors := self._wanted()) is not None:
            try:
                self._look(cursors)
            except RedisError as error:
                log.warning("followers of streams: %s", error)
                self._tell_trouble()

    def _wanted(self) -> dict[str, str] | None:
        """The streams that are followed; waits until there are any; ``None`` at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._cursors)
            return None if self._closed else dict(self._cursors)

    def _look(self, cursors: dict[str, str]) -> None:
        reply = self._redis.xread(cursors, count=_BATCH, block=BLOCK_MS)
        with self._changed:
            for name, entries in reply or ():
                key = name.decode()
                if key in self._cursors:
                    self._cursors[key] = entries[-1][0].decode()
                for watch in self._watches.get(key, ()):
                    watch.wake()

    def _tell_trouble(self) -> None:
        """Let everybody look by themselves, and meet the error that is ours; then wait a bit."""
        with self._changed:
            for watch in self._everybody():
                watch.wake()
            self._changed.wait_for(lambda: self._closed, 1.0)
