"""The human desk's part of the store in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from api_client.contract import Delivery, JobEvent, JobStatus, JobView, Mail, Pause, Wish
from api_client.errors import InvalidInput, shorten
from api_client.inbox import (
    NO_DEADLINE,
    InboxFilter,
    InboxPage,
    Order,
    Place,
    check_page,
    read_cursor,
)
from api_client.labels import may_answer
from api_client.pauses import to_ms
from api_client.records import EVENT_ID_PATTERN
from api_client.redis_desk import MAX_UNHEARD
from api_client.refusals import not_told
from worker.store.base import Post, PostState

if TYPE_CHECKING:
    from worker.store.memory import _Record

EVENTS_KEPT = 10_000


@dataclass(slots=True)
class Letter:
    """An announcement, and how far it has come."""

    post: Post
    due: int | None
    state: PostState = "pending"
    error: str = ""


@dataclass(slots=True)
class DeskRecord:
    """What the desk keeps of one job."""

    kept: int = 0
    asked: int = 0
    labels: tuple[str, ...] | None = None
    mail: list[Mail] = field(default_factory=list)
    mails: int = 0
    mail_id: str = ""
    halt: Wish | None = None
    letters: list[Letter] = field(default_factory=list)

    def hear(self, heard: int | None) -> None:
        """The model has been shown the messages up to this one."""
        if heard is not None:
            self.mail = [mail for mail in self.mail if mail.number > heard]

    def forget_pause(self) -> None:
        """The pause is over."""
        self.kept, self.asked, self.labels = 0, 0, None


class MemoryDesk:
    """Mixed into ``MemoryStore``, which has the jobs and the lock."""

    _clock: Callable[[], int]
    _lock: threading.Condition
    _happened: list[JobEvent]

    def _find(self, job_id: str) -> _Record | None:
        raise NotImplementedError

    def _get(self, job_id: str) -> _Record:
        raise NotImplementedError

    def _all(self) -> list[_Record]:
        raise NotImplementedError

    def _note(self, job: _Record, kind: str, data: dict[str, Any]) -> None:
        raise NotImplementedError

    def _view(self, job: _Record) -> JobView:
        raise NotImplementedError

    # --- telling a job -----------------------------------------------------------------------

    def message(self, job_id: str, mail: Mail, message_id: str) -> None:
        """See ``JobStore.message``."""
        with self._lock:
            job = self._get(job_id)
            desk = job.desk
            if desk.mail_id == message_id:
                return
            if job.status.ended:
                raise not_told(job_id, "ended", job.status)
            if len(desk.mail) >= MAX_UNHEARD:
                raise not_told(job_id, "full", str(len(desk.mail)))
            desk.mails, desk.mail_id = desk.mails + 1, message_id
            desk.mail.append(mail.model_copy(update={"number": desk.mails}))
            self._note(
                job,
                "message",
                mail.model_dump(mode="json", exclude_defaults=True, exclude={"number"}),
            )

    def halt(self, job_id: str, wish: Wish) -> None:
        """See ``JobStore.halt``."""
        with self._lock:
            job = self._get(job_id)
            if job.status.ended:
                raise not_told(job_id, "ended", job.status)
            if job.status is JobStatus.PAUSED:
                raise not_told(job_id, "paused")
            if job.desk.halt is None:
                job.desk.halt = wish
                self._note(job, "pause_wanted", wish.model_dump(mode="json"))

    def mail(self, job_id: str) -> list[Mail]:
        """See ``CheckpointStore.mail``."""
        with self._lock:
            job = self._find(job_id)
            return [] if job is None else list(job.desk.mail)

    # --- pauses ------------------------------------------------------------------------------

    def _standing(self, job: _Record) -> Pause | None:
        """The open pause as it stands now."""
        if job.status is not JobStatus.PAUSED or job.pause is None:
            return None
        desk = job.desk
        return job.pause.standing(job.since, desk.kept, desk.asked, desk.labels)

    def _keep_time(self, job: _Record) -> None:
        """When the timetable asks for something next."""
        pause = self._standing(job)
        assert pause is not None
        ahead = pause.timetable[pause.kept :]
        job.due = (pause.asked or pause.created) + to_ms(ahead[0].after_s) if ahead else None

    def pace(
        self,
        job_id: str,
        pause_id: str,
        kept: int,
        labels: Sequence[str] | None = None,
        channels: Sequence[str] = (),
    ) -> bool:
        """See ``CheckpointStore.pace``."""
        with self._lock:
            job = self._find(job_id)
            pause = None if job is None else self._standing(job)
            if job is None or pause is None or (pause.id, pause.kept) != (pause_id, kept):
                return False
            if kept >= len(pause.timetable):
                return False
            job.desk.kept, job.hints = kept + 1, 0
            if labels is not None:
                job.desk.asked, job.desk.labels = self._clock(), tuple(labels)
            self._keep_time(job)
            self._pause_event(job, "reminder" if labels is None else "escalated")
            self._announce(job, channels, "reminder" if labels is None else "escalated")
            return True

    def _pause_event(self, job: _Record, event: str) -> None:
        pause = self._standing(job)
        assert pause is not None
        data: dict[str, Any] = {"pause": pause.id, "kind": pause.kind}
        if pause.labels:
            data["labels"] = list(pause.labels)
        if event != "paused":
            self._note(job, event, data)
        self._tell(job, event, data)

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

    # --- the inbox ---------------------------------------------------------------------------

    def inbox(
        self,
        chosen: InboxFilter,
        *,
        order: Order = "oldest",
        limit: int = 100,
        cursor: str = "",
    ) -> InboxPage:
        """See ``JobStore.inbox``."""
        check_page(order, limit)
        after = read_cursor(cursor, order)
        with self._lock:
            views = [self._view(job) for job in self._all() if job.status is JobStatus.PAUSED]
            now = self._clock()
        fitting = [view for view in views if _fits(view, chosen, now)]
        backwards = order == "newest"
        placed = sorted((_place(view, order), view) for view in fitting)[:: -1 if backwards else 1]
        behind = [
            (place, view)
            for place, view in placed
            if after is None or (place < after if backwards else place > after)
        ]
        page = behind[:limit]
        more = page[-1][0].cursor(order) if len(behind) > limit else ""
        return InboxPage(tuple(view for _, view in page), more, len(fitting))

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


def _fits(view: JobView, chosen: InboxFilter, now: int) -> bool:
    pause, spec = view.pause, view.spec
    assert pause is not None
    age = chosen.older_than_s
    return (
        chosen.agent in (None, spec.agent)
        and chosen.kind in (None, pause.kind)
        and chosen.tenant in (None, spec.tenant)
        and (chosen.label is None or chosen.label in (pause.labels or ("",)))
        and may_answer(pause.labels, chosen.visible_to)
        and (age is None or pause.created <= now - age * 1000)
    )


def _place(view: JobView, order: Order) -> Place:
    assert view.pause is not None
    created, deadline = view.pause.created, view.pause.deadline
    if order != "deadline":
        return Place(created, view.job_id)
    return Place(NO_DEADLINE + created if deadline is None else deadline, view.job_id)


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
