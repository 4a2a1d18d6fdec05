"""One commit's call of ``lua/commit.lua``: sent by the wire; by the general way if that fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from api_client.connection import translated
from worker.store.base import CommitAnswer
from worker.store.wire import Sent, Wire

_ANSWERS: dict[int, CommitAnswer] = {
    0: "fenced",
    1: "committed",
    2: "cancel",
    3: "halt",
    4: "mail",
}


class CommitCall:
    """A commit on its way; calling it waits for the answer.

    Args:
        command: packed.
        general: makes the same call by redis-py's general way; it connects again, loads the
            script, and raises ``StoreUnavailable`` for what cannot be had now.
        where: what errors call the server.
    """

    __slots__ = ("_general", "_sent", "_where")

    def __init__(self, wire: Wire, command: bytes, general: Callable[[], Any], where: str) -> None:
        self._general = general
        self._where = where
        self._sent: Sent | None = None
        with suppress(RedisError):  # the general way finds out what is the matter, and says it
            self._sent = wire.send(command)

    def __call__(self) -> CommitAnswer:
        """The answer; a call whose answer got lost is made again (the script knows it).

        Raises:
            StoreUnavailable: Redis cannot be reached, or refuses the call for now.
        """
        sent, self._sent = self._sent, None
        if sent is None:
            return _ANSWERS[self._general()]
        try:
            return _ANSWERS[sent.wait()]
        except RedisTimeoutError:
            with translated(self._where):  # a silent server is not asked a second time
                raise
        except RedisError:
            return _ANSWERS[self._general()]
