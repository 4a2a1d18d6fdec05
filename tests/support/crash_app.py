"""A worker app that kills its own process once, at a commit point named by the environment.

``TEST_CRASH``: ``WHEN:WHAT[:NUMBER]`` with WHEN ``before`` or ``after``, WHAT a method of the
store, or a kind of commit (``claim``, ``reply``, ``started``, ``observation``, ``finished``,
``paused``, ``published``), NUMBER which of them (from 1). ``TEST_CRASH_MARK``: a file that is
made before the kill, so that it happens once.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from worker.app import make_app
from worker.store.redis import RedisCheckpointStore

WHEN, WHAT, NUMBER = (os.environ.get("TEST_CRASH", "never:x") + ":1").split(":")[:3]
MARK = Path(os.environ.get("TEST_CRASH_MARK", "/nonexistent/mark"))
_seen: Counter[str] = Counter()


def _die_once(when: str, what: str) -> None:
    if (when, what) != (WHEN, WHAT) or MARK.exists():
        return
    _seen[what] += 1
    if _seen[what] == int(NUMBER):
        MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class CrashingStore(RedisCheckpointStore):
    """Dies before or after the chosen call."""

    def claim(self, *args: Any, **kwargs: Any) -> Any:
        _die_once("before", "claim")
        result = super().claim(*args, **kwargs)
        _die_once("after", "claim")
        return result

    def commit(self, ticket: Any, progress: Any) -> Any:
        _die_once("before", progress.kind)
        result = super().commit(ticket, progress)
        _die_once("after", progress.kind)
        return result

    def settle(self, ticket: Any, progress: Any, settlement: Any) -> Any:
        _die_once("before", progress.kind)
        result = super().settle(ticket, progress, settlement)
        _die_once("after", progress.kind)
        return result

    def published(self, job_id: str) -> None:
        _die_once("before", "published")
        super().published(job_id)
        _die_once("after", "published")


import worker.service  # noqa: E402 - the class must be replaced before the app is made

worker.service.RedisCheckpointStore = CrashingStore  # type: ignore[misc]

app = make_app()
