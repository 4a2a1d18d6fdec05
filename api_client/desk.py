"""The human desk: what people see of jobs that wait for them, decide, and tell jobs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from api_client.contract import (
    Delivery,
    JobEvent,
    JobSpec,
    JobStatus,
    Mail,
    PauseKind,
    Signal,
    Wish,
)
from api_client.deciding import ManyReport, parse_signal, send_many, send_signal
from api_client.errors import InvalidInput
from api_client.inbox import InboxFilter, InboxPage, Order
from api_client.lists import JobFilter, JobPage, ListName, list_name
from api_client.records import one_line
from api_client.store import Cancelled, JobStore
from api_client.workers import WorkerInfo


class Desk:
    """Mixed into ``AgentClient``, which has the store and the broker."""

    _store: JobStore

    def _hint(self, spec: JobSpec) -> None:
        raise NotImplementedError

    # --- looking ---------------------------------------------------------------------------

    def inbox(
        self,
        limit: int = 100,
        cursor: str = "",
        *,
        agent: str | None = None,
        label: str | None = None,
        kind: PauseKind | str | None = None,
        tenant: str | None = None,
        older_than_s: float | None = None,
        visible_to: Collection[str] | None = None,
        order: Order = "oldest",
    ) -> InboxPage:
        """Jobs that wait for a person, a page at a time.

        Args:
            cursor: ``next_cursor`` of the page before.
            label: of the people whom the pause asks; ``""``: it asks anybody.
            older_than_s: waiting for at least so many seconds.
            visible_to: only what somebody with these labels may answer.
            order: ``"oldest"`` (the longest waiting first), ``"newest"`` or ``"deadline"``.

        Raises:
            InvalidInput
        """
        chosen = make_filter(
            agent=agent,
            label=label,
            kind=kind,
            tenant=tenant,
            older_than_s=older_than_s,
            visible_to=None if visible_to is None else tuple(visible_to),
        )
        return self._store.inbox(chosen, order=order, limit=limit, cursor=cursor)

    def jobs(
        self,
        status: ListName | str,
        limit: int = 100,
        cursor: str = "",
        *,
        agent: str | None = None,
        label: str | None = None,
        tenant: str | None = None,
        visible_to: Collection[str] | None = None,
        newest_first: bool = True,
    ) -> JobPage:
        """Jobs in one status, a page at a time, by the time they came to it.

        A job that stays in the status while the pages are read is on exactly one of them, and none
        is on two.

        Args:
            status: ``"running"``, ``"failed"``, …; ``"poison"`` for the quarantine.
            cursor: ``next_cursor`` of the page before.
            label: of the job, or of its pause while it is paused; ``""``: it has none.
            visible_to: only jobs without labels, or with one of these.

        Raises:
            InvalidInput
        """
        name = list_name(status)
        chosen = _checked(
            JobFilter,
            "filter",
            agent=agent,
            label=label,
            tenant=tenant,
            visible_to=None if visible_to is None else tuple(visible_to),
        )
        return self._store.jobs(name, chosen, newest_first=newest_first, limit=limit, cursor=cursor)

    def workers(self) -> Sequence[WorkerInfo]:
        """The workers that are alive, by name; each tells so every ten seconds."""
        return self._store.workers()

    def follow(self, after: str = "$", *, for_s: float | None = None) -> Iterator[JobEvent]:
        """What happens to all jobs, as it happens: paused, resumed, reminder, escalated, …

        Args:
            after: the ``cursor`` of an event; ``""`` for all that are kept (the latest 10,000),
                ``"$"`` for what comes from now on.
            for_s: seconds after which it ends; never, if not given.

        Raises:
            InvalidInput: the cursor.
        """
        deadline = None if for_s is None else time.monotonic() + for_s
        after = self._store.job_cursor(after)
        while True:
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            events = self._store.job_events(after, block_s=max(0.0, left))
            yield from events
            after = events[-1].cursor if events else after
            if left <= 0:
                return

    def deliveries(self, job_id: str = "", limit: int = 100) -> Sequence[Delivery]:
        """How far announcements have come: a job's, or the latest of all, the newest first."""
        return self._store.deliveries(job_id, limit)

    # --- deciding --------------------------------------------------------------------------

    def signal(
        self,
        job_id: str,
        signal: Signal | Mapping[str, Any],
        *,
        pause_id: str | None = None,
        signal_id: str | None = None,
        labels: Collection[str] | None = None,
    ) -> None:
        """Close a job's open pause with a decision; the first one wins.

        Args:
            signal: a signal of ``api_client.contract``, or its fields as a dict with ``kind``.
            pause_id: the pause that was looked at; the one that is open now, if not given.
            signal_id: the same id again is the same signal; a new one, if not given.
            labels: of the signer, who must have one that the pause asks for; ``None`` for a
                program that has checked that itself.

        Raises:
            InvalidInput, SignalRefused: the signal's form; JobNotFound; NotPaused, WrongPause,
            AlreadyAnswered: somebody was first; NotAllowed. Nothing is changed by any of them.
        """
        view = send_signal(
            self._store, job_id, signal, pause_id=pause_id, signal_id=signal_id, labels=labels
        )
        self._hint(view.spec)

    def signal_many(
        self,
        chosen: InboxFilter | Mapping[str, Any],
        signal: Signal | Mapping[str, Any],
        *,
        dry_run: bool = True,
        limit: int = 1000,
        labels: Collection[str] | None = None,
        signal_id: str | None = None,
    ) -> ManyReport:
        """Decide many pauses in the same way.

        Args:
            chosen: which of the paused jobs: ``{"agent": "shop", "older_than_s": 86400}``.
            dry_run: only say which jobs would take it.
            limit: the most jobs, the longest waiting first.
            labels: of the signer; see ``signal``.
            signal_id: the same id again changes nothing where it was taken before.

        Raises:
            InvalidInput, SignalRefused
        """
        report, taken = send_many(
            self._store,
            make_filter(**chosen) if isinstance(chosen, Mapping) else chosen,
            parse_signal(signal),
            dry_run=dry_run,
            limit=limit,
            labels=labels,
            signal_id=signal_id or uuid.uuid4().hex,
        )
        for view in () if dry_run else taken:
            self._hint(view.spec)
        return report

    def cancel(self, job_id: str, *, by: str = "", note: str = "") -> Cancelled:
        """End a job: at once, or at its runner's next commit. Ended jobs stay as they are."""
        cancelled = self._store.cancel(job_id, by, note)
        if not cancelled.pending and cancelled.status is JobStatus.CANCELLED:
            self._hint(self._store.read(job_id).spec)
        return cancelled

    # --- telling a job ---------------------------------------------------------------------

    def message(
        self,
        job_id: str,
        text: str,
        *,
        by: str = "",
        note: str = "",
        message_id: str | None = None,
    ) -> None:
        """Tell a job something; the model reads it as a user message before its next reply.

        One that comes during the job's last model call is not read any more.

        Args:
            message_id: the same id again is the same message, if it is one of the job's latest 128;
                a new one, if not given.

        Raises:
            InvalidInput: it is empty or too long; JobNotFound.
            Conflict: the job has ended, or too many messages wait already.
        """
        mail = _checked(Mail, "message", text=text, by=by, note=note)
        if not text.strip():
            raise InvalidInput("message: it is empty")
        self._store.message(job_id, mail, message_id or uuid.uuid4().hex)

    def pause(self, job_id: str, *, by: str = "", note: str = "") -> None:
        """Pause a job at its next commit, with a pause of the kind ``operator``.

        Raises:
            InvalidInput, JobNotFound
            Conflict: it has ended, or is paused already.
        """
        self._store.halt(job_id, _checked(Wish, "pause", by=by, note=note))


def make_filter(**fields: Any) -> InboxFilter:
    """A checked filter.

    Raises:
        InvalidInput: names the field and the value.
    """
    unknown = sorted(set(fields) - set(InboxFilter.model_fields))
    if unknown:
        known = ", ".join(InboxFilter.model_fields)
        raise InvalidInput(f"filter: there is no {unknown[0]!r}; there are: {known}")
    return _checked(InboxFilter, "filter", **fields)  # type: ignore[no-any-return]


def _checked(model: Any, name: str, **fields: Any) -> Any:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(f"{name}: {one_line(error)}") from None
