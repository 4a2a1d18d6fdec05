"""The human desk's part of the store in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from api_client.contract import JobEvent, JobStatus, JobView, Mail, Pause, Wish
from api_client.inbox import INBOX, NO_DEADLINE, InboxFilter, InboxPage, Order, check_page
from api_client.labels import may_answer
from api_client.lists import (
    EVERY,
    POISON,
    JobFilter,
    JobPage,
    ListName,
    Place,
    check_limit,
    order_name,
    read_cursor,
    status_of,
    write_cursor,
)
from api_client.pauses import to_ms
from api_client.redis_desk import MAX_UNHEARD, MESSAGES_KNOWN
from api_client.refusals import not_told
from api_client.workers import WorkerInfo, living
from worker.store.memory_posts import Letter, MemoryPosts

if TYPE_CHECKING:
    from worker.store.memory_record import Record as _Record


@dataclass(slots=True)
class DeskRecord:
    """What the desk keeps of one job."""

    kept: int = 0
    asked: int = 0
    labels: tuple[str, ...] | None = None
    mail: list[Mail] = field(default_factory=list)
    mails: int = 0
    mail_ids: deque[str] = field(default_factory=partial(deque, maxlen=MESSAGES_KNOWN))
    halt: Wish | None = None
    letters: list[Letter] = field(default_factory=list)

    def hear(self, heard: int | None) -> None:
        """The model has been shown the messages up to this one."""
        if heard is not None:
            self.mail = [mail for mail in self.mail if mail.number > heard]

    def forget_pause(self) -> None:
        """The pause is over."""
        self.kept, self.asked, self.labels = 0, 0, None


class MemoryDesk(MemoryPosts):
    """Mixed into ``MemoryStore``, which has the jobs and the lock."""

    _clock: Callable[[], int]
    _lock: threading.Condition
    _happened: list[JobEvent]
    _beats: dict[str, WorkerInfo]

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
            if message_id in desk.mail_ids:
                return
            if job.status.ended:
                raise not_told(job_id, "ended", job.status)
            if len(desk.mail) >= MAX_UNHEARD:
                raise not_told(job_id, "full", str(len(desk.mail)))
            desk.mails += 1
            desk.mail_ids.append(message_id)
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

    # --- workers -----------------------------------------------------------------------------

    def workers(self) -> Sequence[WorkerInfo]:
        """See ``JobStore.workers``."""
        with self._lock:
            return living(sorted(self._beats.values(), key=lambda one: one.name), self._clock())

    def beat(self, info: WorkerInfo) -> WorkerInfo:
        """See ``CheckpointStore.beat``."""
        with self._lock:
            now = self._clock()
            fresh = info.model_copy(update={"started": info.started or now, "seen": now})
            self._beats[info.name] = fresh
            return fresh

    def part(self, name: str) -> None:
        """See ``CheckpointStore.part``."""
        with self._lock:
            self._beats.pop(name, None)

    # --- lists -------------------------------------------------------------------------------

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
        after = read_cursor(cursor, INBOX, order).place
        with self._lock:
            views = [self._view(job) for job in self._all() if job.status is JobStatus.PAUSED]
            now = self._clock()
        placed = [(_place(view, order), view) for view in views if _fits(view, chosen, now)]
        page, more = _page(placed, limit, after, backwards=order == "newest")
        cursor = write_cursor(INBOX, order, more) if more else ""
        return InboxPage(page, cursor, len(placed))

    def jobs(
        self,
        name: ListName,
        chosen: JobFilter = EVERY,
        *,
        newest_first: bool = True,
        limit: int = 100,
        cursor: str = "",
    ) -> JobPage:
        """See ``JobStore.jobs``."""
        check_limit(name, limit)
        order = order_name(newest_first)
        mark = read_cursor(cursor, name, order)
        with self._lock:
            until = mark.until or self._clock()
            placed = [
                (Place(job.since, job.spec.job_id), self._view(job))
                for job in self._all()
                if job.status is status_of(name) and job.since <= until
            ]
        fitting = [(place, view) for place, view in placed if _listed(name, view, chosen)]
        page, more = _page(fitting, limit, mark.place, backwards=newest_first)
        following = write_cursor(name, order, more, until) if more else ""
        return JobPage(page, following, len(fitting))


def _page(
    placed: Sequence[tuple[Place, JobView]], limit: int, after: Place | None, *, backwards: bool
) -> tuple[tuple[JobView, ...], Place | None]:
    """The next jobs in their order, and the place behind which there are more."""
    ordered = sorted(placed, key=lambda item: item[0], reverse=backwards)
    behind = [
        (place, view)
        for place, view in ordered
        if after is None or (place < after if backwards else place > after)
    ]
    page = behind[:limit]
    more = page[-1][0] if len(behind) > limit else None
    return tuple(view for _, view in page), more


def _listed(name: ListName, view: JobView, chosen: JobFilter) -> bool:
    """Whether a job of the right status stands in a list and fits."""
    poison = view.outcome is not None and view.outcome.reason == POISON
    if name == POISON and not poison:
        return False
    paused = view.pause.labels if view.pause is not None else None
    labels = view.spec.labels if paused is None else paused
    return (
        chosen.agent in (None, view.spec.agent)
        and chosen.tenant in (None, view.spec.tenant)
        and (chosen.label is None or chosen.label in (labels or ("",)))
        and may_answer(labels, chosen.visible_to)
    )


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
