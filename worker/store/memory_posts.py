"""What others are told of jobs, in the store in memory: events, and announcements."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from api_client.contract import Delivery, JobEvent, JobStatus
from api_client.errors import InvalidInput, shorten
from api_client.records import EVENT_ID_PATTERN
from worker.store.base import Post, PostState

if TYPE_CHECKING:
    from worker.store.memory_record import Record as _Record

EVENTS_KEPT = 10_000


@dataclass(slots=True)
class Letter:
    """An announcement, and how far it has come."""

    post: Post
    due: int | None
    state: PostState = "pending"
    error: str = ""


class MemoryPosts:
    """Mixed into ``MemoryStore``, which has the jobs and the lock."""

    _clock: Callable[[], int]
    _lock: threading.Condition
    _happened: list[JobEvent]

    def _find(self, job_id: str) -> _Record | None:
        raise NotImplementedError

    def _all(self) -> list[_Record]:
        raise NotImplementedError

    # --- telling others ----------------------------------------------------------------------

    def _tell(self, job: _Record, event: str, data: dict[str, Any]) -> None:
        """Let followers of all jobs know."""
        last = int(self._happened[-1].cursor.partition("-")[2]) if self._happened else 0
        now = self._clock()
        self._happened.append(
            JobEvent(
                cursor=f"{now}-{last + 1}",
                job_id=job.spec.job_id,
                event=event,
                at=now,
                agent=job.spec.agent,
                data=data,
            )
        )
        del self._happened[:-EVENTS_KEPT]
        self._lock.notify_all()

    def _announce(self, job: _Record, channels: Sequence[str], event: str) -> None:
        """Put one announcement for each channel into the outbox."""
        payload = job.pause.stored() if job.pause else _json(job.outcome)
        for channel in channels:
            post = Post(
                post_id=f"{job.spec.job_id}/{len(job.desk.letters) + 1}",
                channel=channel,
                event=event,
                at=self._clock(),
                agent=job.spec.agent,
                payload=payload,
                tries=0,
            )
            job.desk.letters.append(Letter(post, due=post.at))

    def job_events(
        self, after: str = "", count: int = 1000, block_s: float = 0.0
    ) -> list[JobEvent]:
        """See ``JobStore.job_events``."""
        deadline = time.monotonic() + block_s
        with self._lock:
            number = self._number(after)
            while True:
                found = [e for e in self._happened if self._number(e.cursor) > number]
                left = deadline - time.monotonic()
                if found or left <= 0:
                    return found[: max(0, count)]
                self._lock.wait(left)

    def job_cursor(self, after: str) -> str:
        """See ``JobStore.job_cursor``."""
        with self._lock:
            return f"0-{self._number(after)}"

    def _number(self, cursor: str) -> int:
        if cursor == "$":
            cursor = self._happened[-1].cursor if self._happened else ""
        if cursor and not EVENT_ID_PATTERN.fullmatch(cursor):
            raise InvalidInput(f"event cursor {shorten(cursor)}: give one as it was read")
        return int(cursor.partition("-")[2] or 0)

    # --- announcements -----------------------------------------------------------------------

    def deliveries(self, job_id: str = "", limit: int = 100) -> list[Delivery]:
        """See ``JobStore.deliveries``."""
        with self._lock:
            one = self._find(job_id) if job_id else None
            jobs = self._all() if not job_id else [one] if one else []
            found = [_delivery(letter) for job in jobs for letter in job.desk.letters]
        found.sort(key=lambda delivery: (delivery.at, delivery.id), reverse=True)
        return found[: max(0, limit)]

    def fetch_post(self, limit: int, lease_ms: int) -> list[Post]:
        """See ``CheckpointStore.fetch_post``."""
        with self._lock:
            now = self._clock()
            due = [
                letter
                for job in self._all()
                for letter in job.desk.letters
                if letter.due is not None and letter.due <= now
            ]
            due.sort(key=lambda letter: (letter.due, letter.post.post_id))
            for letter in due[:limit]:
                letter.due = now + lease_ms
                letter.post = replace(letter.post, tries=letter.post.tries + 1)
            return [letter.post for letter in due[:limit]]

    def note_post(self, post_id: str, state: PostState, error: str = "", delay_ms: int = 0) -> None:
        """See ``CheckpointStore.note_post``."""
        with self._lock:
            job_id, _, number = post_id.rpartition("/")
            job = self._find(job_id)
            letter = None if job is None else job.desk.letters[int(number) - 1]
            if letter is None or letter.due is None:
                return
            letter.state, letter.error = state, error
            letter.due = self._clock() + delay_ms if state == "pending" else None


def told_as(status: JobStatus) -> str:
    """What the end of a job is called where others are told of it."""
    return "finished" if status is JobStatus.SUCCEEDED else str(status)


def _json(value: Any) -> str:
    return str(value.model_dump_json()) if value is not None else json.dumps(None)


def _delivery(letter: Letter) -> Delivery:
    post = letter.post
    return Delivery(
        id=post.post_id,
        job_id=post.job_id,
        channel=post.channel,
        event=post.event,
        state=letter.state,
        tries=post.tries,
        error=letter.error,
        at=post.at,
        due=letter.due,
    )
