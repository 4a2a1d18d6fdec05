"""One commit's call of ``lua/commit.lua``: sent by the wire; by the general way if that fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from api_client.connection import translated
from worker.store.base import CommitAnswer
from worker.store.wire import Lane, Wire

_ANSWERS: dict[int, CommitAnswer] = {
    0: "fenced",
    1: "committed",
    2: "cancel",
    3: "halt",
    4: "mail",
}

Told = Callable[[float, bool], None]
"""Told for how long a commit kept us waiting, in milliseconds, and whether it failed."""


class CommitCall:
    """A commit on its way; calling it waits for the answer.

    Args:
        general: makes the same call by redis-py's general way; it connects again, loads the
            script, and raises ``StoreUnavailable`` for what cannot be had now.
        where: what errors call the server.
        told: of each call.
    """

    __slots__ = ("_before", "_general", "_lane", "_told", "_where", "strayed")

    def __init__(self, general: Callable[[], Any], where: str, told: Told | None) -> None:
        self._general = general
        self._where = where
        self._told = told
        self._lane: Lane | None = None
        self._before: CommitCall | None = None
        self.strayed = False
        """Whether its answer did not come by the wire."""

    def send(self, wire: Wire, command: bytes, before: CommitCall | None, hold: bool) -> None:
        """Send it by the wire, behind the commit before it if that is still on its way there.

        Args:
            hold: another commit follows soon.
        """
        self._before = before
        with suppress(RedisError):  # the general way finds out what is the matter, and says it
            if before is None:
                self._lane = wire.send(command, hold=hold)
            elif before._lane is not None:
                before._lane.send(command, hold)
                self._lane = before._lane

    def __call__(self) -> CommitAnswer:
        """The answer; a call whose answer got lost is made again (the script knows it).

        Raises:
            StoreUnavailable: Redis cannot be reached, or refuses the call for now.
        """
        if self._told is None:
            return self._answer()
        start, failed = time.perf_counter(), True
        try:
            answer = self._answer()
            failed = False
        finally:
            self._told((time.perf_counter() - start) * 1000, failed)
        return answer

    def _answer(self) -> CommitAnswer:
        lane, self._lane = self._lane, None
        before, self._before = self._before, None
        if lane is not None:
            with suppress(_Strayed):
                return _ANSWERS[self._read(lane, before)]
        self.strayed = True
        return _ANSWERS[self._general()]

    def _read(self, lane: Lane, before: CommitCall | None) -> Any:
        try:
            answer = lane.read()
        except RedisTimeoutError:
            self.strayed = True
            with translated(self._where):  # a silent server is not asked a second time
                raise
        except RedisError as error:
            raise _Strayed from error
        if before is not None and before.strayed:
            raise _Strayed  # it may have been refused only because the one before it was missing
        return answer


class _Strayed(Exception):
    """The wire brought no answer that counts."""
