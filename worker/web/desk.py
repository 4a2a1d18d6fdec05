"""Jobs as one caller may see and decide them. The API and the console both stand on this."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from api_client.answers import problems
from api_client.contract import AgentInfo, Event, JobStatus, JobView, Pause, Signal
from api_client.deciding import ManyReport
from api_client.errors import AlreadyAnswered
from api_client.inbox import InboxFilter, InboxPage, Order
from api_client.lists import EVERY, JobFilter, JobPage, ListName
from api_client.live import LiveRecord
from api_client.refusals import not_found
from api_client.store import Cancelled
from api_client.workers import WorkerInfo
from worker.web.callers import Role
from worker.web.operators_desk import OperatorsDesk
from worker.web.problems import Problem, already_answered, invalid

Filter = TypeVar("Filter", bound=JobFilter)

HELD = 500
"""The most running jobs that are shown beside their workers."""


@dataclass(frozen=True, slots=True)
class Held:
    """A worker, and the jobs in its hands that the caller may see.

    Attributes:
        info: ``seen`` is 0 if it gives no sign of life.
    """

    info: WorkerInfo
    jobs: list[JobView]


@dataclass(frozen=True, slots=True)
class Decided:
    """A signal that was accepted."""

    job_id: str
    pause_id: str
    kind: str
    by: str


class Desk(OperatorsDesk):
    """What one caller may see and do.

    A job that the caller may not see is as unknown as one that does not exist. Every method may
    raise ``StoreUnavailable``, and those that take a job's id ``JobNotFound``.
    """

    # --- submitting ------------------------------------------------------------------------

    def submit(
        self,
        agent: str,
        input: Any,
        *,
        labels: Sequence[str] = (),
        tenant: str = "",
        **options: Any,
    ) -> str:
        """Accept a job in the caller's name; returns its id. See ``AgentClient.submit``.

        Raises:
            Problem: the labels or the tenant are not the caller's.
            InvalidInput, UnknownAgent, IdempotencyConflict
        """
        self.needs(Role.SUBMIT)
        return self._client.submit(
            agent,
            input,
            labels=self._own_labels(labels),
            tenant=self._own_tenant(tenant),
            **options,
        )

    def _own_labels(self, labels: Sequence[str]) -> Sequence[str]:
        own = self.caller.labels
        if not own:
            return labels
        foreign = sorted(set(labels) - own)
        if foreign:
            text = f"key {self.caller.name!r} has no label {foreign[0]!r}"
            raise invalid(text, ("body.labels", text))
        return labels or sorted(own)

    def _own_tenant(self, tenant: str) -> str:
        own = self.caller.tenant
        if own and tenant not in ("", own):
            text = f"key {self.caller.name!r} belongs to another tenant"
            raise invalid(text, ("body.tenant", text))
        return own or tenant

    # --- looking ---------------------------------------------------------------------------

    def job(self, job_id: str) -> JobView:
        """Where a job stands."""
        view = self._client.get(job_id)
        if not self.caller.sees(view):
            raise not_found(job_id)
        return view

    def messages(self, job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """The transcript of a job that the caller has seen."""
        return self._client.messages(job_id, start)

    def events(self, job_id: str, after: str = "0", count: int = 1000) -> list[Event]:
        """Records of the trace of a job that the caller has seen.

        Raises:
            InvalidInput: ``after`` is no offset.
        """
        return self._store.events(job_id, after, count)

    def live(self, job_id: str, after: str = "0") -> list[LiveRecord]:
        """What the model of a job that the caller has seen says, as it comes."""
        return self._store.live(job_id, after)

    def jobs(
        self,
        name: ListName,
        wanted: JobFilter = EVERY,
        *,
        newest_first: bool = True,
        limit: int = 50,
        cursor: str = "",
    ) -> JobPage:
        """Jobs of one list, by the time they entered it.

        Args:
            wanted: which of them; what the caller may not see is left out.

        Raises:
            InvalidInput: the cursor is none of this list and order.
        """
        page = self._store.jobs(
            name, self._own(wanted), newest_first=newest_first, limit=limit, cursor=cursor
        )
        return self._shown(page)

    def _shown(self, page: JobPage) -> JobPage:
        """The page without what a label that has changed meanwhile, or never was one, hides.

        Whose a job is that cannot be read, nobody knows: who sees a part only does not see it.
        """
        seen = tuple(view for view in page if self.caller.sees(view))
        return replace(page, items=seen, unreadable=() if self._restricted else page.unreadable)

    def inbox(
        self,
        wanted: InboxFilter,
        *,
        order: Order = "oldest",
        limit: int = 50,
        cursor: str = "",
    ) -> InboxPage:
        """Jobs that wait for a person whom the caller can be.

        Args:
            wanted: which of them; what the caller may not see is left out.

        Raises:
            InvalidInput: the cursor is none of this order.
        """
        page = self._store.inbox(self._own(wanted), order=order, limit=limit, cursor=cursor)
        return replace(page, unreadable=() if self._restricted else page.unreadable)

    def _own(self, wanted: Filter) -> Filter:
        """The same, of those that the caller may see."""
        own: dict[str, Any] = {"visible_to": self.caller.held}
        if self.caller.tenant:
            own["tenant"] = self.caller.tenant
        return wanted.model_copy(update=own)

    @property
    def _restricted(self) -> bool:
        return bool(self.caller.labels or self.caller.tenant)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each status, whoever they belong to."""
        return {str(status): self._store.count(status) for status in JobStatus}

    def agents(self) -> Sequence[AgentInfo]:
        """The agents that workers have announced."""
        return self._client.agents()

    def workers(self) -> list[Held]:
        """The workers that are alive or hold a job, by name, and what they hold."""
        held: dict[str, list[JobView]] = {}
        for view in self.jobs(JobStatus.RUNNING, limit=HELD):
            held.setdefault(node_of(view.worker or "?"), []).append(view)
        alive = {info.name: info for info in self._store.workers()}
        return [
            Held(alive.get(name) or WorkerInfo(name=name), held.get(name, []))
            for name in sorted({*held, *alive})
        ]

    # --- deciding --------------------------------------------------------------------------

    def decide(
        self,
        job_id: str,
        signal: Signal,
        *,
        pause_id: str | None = None,
        signal_id: str | None = None,
    ) -> Decided:
        """Close a pause; the first decision wins.

        Raises:
            Problem: the caller has not the role or the label; or somebody was first: says who.
            InvalidInput, NotPaused, WrongPause, SignalRefused
        """
        self.needs(Role.REVIEW)
        view = self.job(job_id)
        if view.pause is not None and not self.caller.answers(view):
            raise Problem(403, "not-allowed", "this pause waits for somebody with another label")
        pause_id = pause_id or (view.pause.id if view.pause else None)
        given = {**signal.model_dump(mode="json"), "by": self.caller.signs(signal.by)}
        if view.pause is not None and view.pause.id == pause_id:
            _check_form(view.pause, given)
        own_id = uuid.uuid4().hex if signal_id is None else f"{self.caller.id}:{signal_id}"
        try:
            self._client.signal(
                job_id, given, pause_id=pause_id, signal_id=own_id, labels=self.caller.held
            )
        except AlreadyAnswered as error:
            answered = self.job(job_id).answered
            same = answered is not None and answered.pause_id == pause_id
            raise already_answered(str(error), answered if same else None) from None
        return Decided(job_id, pause_id or "", signal.kind, given["by"])

    def decide_many(
        self, wanted: InboxFilter, signal: Signal, *, dry_run: bool, limit: int
    ) -> ManyReport:
        """Decide many pauses in the same way. See ``AgentClient.signal_many``."""
        self.needs(Role.REVIEW)
        given = {**signal.model_dump(mode="json"), "by": self.caller.signs(signal.by)}
        return self._client.signal_many(
            self._own(wanted), given, dry_run=dry_run, limit=limit, labels=self.caller.held
        )

    def message(
        self, job_id: str, text: str, *, by: str = "", note: str = "", message_id: str | None = None
    ) -> None:
        """Tell a job something; the model reads it before its next reply.

        Raises:
            InvalidInput, Conflict
        """
        self.needs(Role.REVIEW)
        self.job(job_id)
        own_id = None if message_id is None else f"{self.caller.id}:{message_id}"
        signed = self.caller.signs(by)
        self._client.message(job_id, text, by=signed, note=note, message_id=own_id)

    def pause(self, job_id: str, *, by: str = "", note: str = "") -> None:
        """Pause a job at its next commit.

        Raises:
            Conflict
        """
        self.needs(Role.REVIEW, Role.OPERATE)
        self.job(job_id)
        self._client.pause(job_id, by=self.caller.signs(by), note=note)

    def cancel(self, job_id: str, *, by: str = "", note: str = "") -> Cancelled:
        """End a job: at once, or at its runner's next commit."""
        self.needs(Role.SUBMIT, Role.OPERATE)
        self.job(job_id)
        return self._client.cancel(job_id, by=self.caller.signs(by), note=note)


def _check_form(pause: Pause, given: Mapping[str, Any]) -> None:
    """Refuse values that the pause's schema does not allow, each by its name.

    Raises:
        Problem: 422.
    """
    if given["kind"] not in pause.accepts:
        return  # the store refuses it, and says what the pause takes
    found = list(problems(pause.answer_schema.get(given["kind"], {}), given))
    if found:
        listed = [text.partition(": ")[::2] for text in found]
        raise invalid("; ".join(found), *((f"body.{place}", text) for place, text in listed))


def node_of(owner: str) -> str:
    """A worker's node name out of a lease's owner ``node/boot/pid/``."""
    return owner.partition("/")[0]
