"""A store that tells of its round trips."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from api_client.contract import JobView
from api_client.scripts import Argument, Scripts
from api_client.survey import SurveyStore
from worker.store.committing import Told
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

    @property
    def _told_of_commits(self) -> Told | None:
        return self._note_commit if self.observer.is_heeding(StoreCalled) else None

    def _note_commit(self, ms: float, failed: bool) -> None:
        self.observer.note(StoreCalled("commit", ms, failed))

    def read(self, job_id: str) -> JobView:
        """See ``JobStore.read``."""
        with self._told("read"):
            return super().read(job_id)

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        failed = True
        try:
            yield
            failed = False
        finally:
            ms = (time.perf_counter() - start) * 1000
            self.observer.note(StoreCalled(name, ms, failed))
