"""A store that tells of its round trips."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from api_client.contract import JobView
from api_client.scripts import Argument, Scripts
from api_client.survey import SurveyStore
from worker.store.base import CommitAnswer, Progress, Ticket
from worker.store.redis import RedisCheckpointStore
from worker.telemetry.observer import NOBODY, Observer, StoreCalled


class WatchedStore(RedisCheckpointStore, SurveyStore):
    """The store on Redis; each script and each reading of a record is told to ``observer``."""

    observer: Observer = NOBODY

    def _run(
        self, name: str, keys: Sequence[str], args: Sequence[Argument], *scripts: Scripts
    ) -> Any:
        if name == "commit":  # told of below, whichever way it goes
            return super()._run(name, keys, args, *scripts)
        with self._told(name):
            return super()._run(name, keys, args, *scripts)

    def _begin_commit(self, ticket: Ticket, progress: Progress) -> Callable[[], CommitAnswer]:
        start = time.perf_counter()
        answer = super()._begin_commit(ticket, progress)
        took = time.perf_counter() - start

        def told() -> CommitAnswer:
            with self._told("commit", took):
                return answer()

        return told

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""
        with self._told("read"):
            return super().read(job_id)

    @contextmanager
    def _told(self, name: str, before_s: float = 0.0) -> Iterator[None]:
        """Around a call, whose sending took ``before_s`` already."""
        start = time.perf_counter() - before_s
        failed = True
        try:
            yield
            failed = False
        finally:
            ms = (time.perf_counter() - start) * 1000
            self.observer.note(StoreCalled(name, ms, failed))
