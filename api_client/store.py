"""What a service asks of the store. Workers ask more: see ``worker.store.base``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from api_client.backlogs import Backlog, Kind
from api_client.contract import (
    AgentInfo,
    Delivery,
    Event,
    JobEvent,
    JobSpec,
    JobStatus,
    JobView,
    Mail,
    Signal,
    Wish,
)
from api_client.inbox import InboxFilter, InboxPage, Order
from api_client.lists import EVERY, JobFilter, JobPage, ListName
from api_client.live import LiveRecord
from api_client.tenants import Tenant, TenantPolicy
from api_client.workers import WorkerInfo


@dataclass(frozen=True, slots=True)
class Created:
    """The answer to ``create``: the stored spec, and whether this call stored it.

    ``held``: it waits for its tenant's turn; it is hinted when that has come, and not before.
    """

    spec: JobSpec
    new: bool
    held: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The answer to ``cancel``: the job's status now, and whether a runner must still notice."""

    status: JobStatus
    pending: bool


class JobStore(Protocol):
    """Jobs as their callers see them. Every method may raise ``StoreUnavailable``."""

    def create(self, spec: JobSpec, delay_ms: int = 0, *, arrived: bool = False) -> Created:
        """Accept a job once; the same id again returns what was stored first.

        Args:
            delay_ms: it must not start before this time has passed.
            arrived: a message has come for it already; its claim finds out whether it has its turn.

        Raises ``BacklogFull``, ``StorageFull``; then nothing was stored. Sub-jobs are never
        refused.
        """

    def hold(self, spec: JobSpec, size: int) -> None:
        """Count a job's bytes to its tenant, if tenants have a quota."""

    def read(self, job_id: str) -> JobView:
        """Raises ``JobNotFound``, ``JobUnreadable``."""

    def messages(self, job_id: str, start: int = 0) -> list[dict[str, Any]]:
        """The transcript from index ``start``; empty for a job that is unknown or has not begun."""

    def events(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[Event]:
        """Trace records behind the offset ``after``; waits up to ``block_s`` for the first.

        Empty for an unknown job. Raises ``InvalidInput`` if ``after`` is no offset.
        """

    def live(
        self, job_id: str, after: str = "0", count: int = 1000, block_s: float = 0.0
    ) -> list[LiveRecord]:
        """Records of the live stream behind the offset ``after``, as ``events`` gives the trace's.

        Empty for an unknown job and for one whose stream has been forgotten.
        """

    def signal(
        self,
        job_id: str,
        pause_id: str,
        signal: Signal,
        signal_id: str,
        labels: Collection[str] | None = None,
    ) -> None:
        """Close a pause. Raises ``JobNotFound`` or a ``Conflict``; then nothing was changed.

        Args:
            signal_id: the same again is the same signal, and changes nothing.
            labels: of the signer; ``None`` for one who may everything.
        """

    def message(self, job_id: str, mail: Mail, message_id: str) -> None:
        """Add a message to a job that has not ended. Raises ``JobNotFound`` or ``Conflict``.

        Args:
            message_id: one of the latest 128 again is the same message, and changes nothing.
        """

    def halt(self, job_id: str, wish: Wish) -> None:
        """Pause a job at its next commit. Raises ``JobNotFound`` or ``Conflict``."""

    def inbox(
        self,
        chosen: InboxFilter,
        *,
        order: Order = "oldest",
        limit: int = 100,
        cursor: str = "",
    ) -> InboxPage:
        """Paused jobs, a page at a time, found by indexes.

        Raises ``InvalidInput`` for a cursor that is none of this order.
        """

    def jobs(
        self,
        name: ListName,
        chosen: JobFilter = EVERY,
        *,
        newest_first: bool = True,
        limit: int = 100,
        cursor: str = "",
    ) -> JobPage:
        """Jobs of one list, by the time they entered it, a page at a time, found by indexes.

        A job that stays where it is while the pages are read is on exactly one of them, and no job
        is on two.

        Raises ``InvalidInput`` for a cursor of another list or order.
        """

    def job_events(
        self, after: str = "", count: int = 1000, block_s: float = 0.0
    ) -> list[JobEvent]:
        """What happened to all jobs behind a cursor, oldest first; the latest are kept.

        Args:
            after: a cursor; everything that is kept if empty, ``"$"`` for what comes from now on.
        """

    def job_cursor(self, after: str) -> str:
        """A cursor that stays where it is: ``"$"`` becomes the latest event's.

        Raises ``InvalidInput`` for what is no cursor.
        """

    def deliveries(self, job_id: str = "", limit: int = 100) -> list[Delivery]:
        """Announcements: a job's, or the latest of all jobs, the newest first."""

    def cancel(self, job_id: str, by: str = "", note: str = "") -> Cancelled:
        """End a job; ended ones stay as they are. Raises ``JobNotFound``."""

    def list_jobs(
        self, status: JobStatus, limit: int = 100, newest_first: bool = False
    ) -> list[JobView]:
        """Jobs in one status, by the time they entered it; those that are unreadable left out."""

    def count(self, status: JobStatus) -> int:
        """How many jobs are in one status; expired ones may count until the next sweep."""

    def policies(self) -> dict[str, TenantPolicy]:
        """What tenants may have, by name; ``*`` is for those not named, ``""`` for all together."""

    def set_policy(self, name: str, policy: TenantPolicy | None) -> None:
        """Say what a tenant may have from now on; ``None`` forgets it. Raises ``InvalidInput``."""

    def tenants(self) -> list[Tenant]:
        """Tenants that have jobs to run, or a policy, or have used steps lately, by name."""

    def backlogs(self) -> list[Backlog]:
        """How many jobs wait for each agent and for each queue's agents, and how many may.

        Agents and queues that workers have announced, and those that have a cap; ``*`` last.
        """

    def set_cap(self, kind: Kind, name: str, cap: int | None) -> bool:
        """Say how many jobs may wait from now on; ``None`` forgets it.

        Returns ``False`` if there was nothing to forget.

        Args:
            kind: whose jobs: ``agent``, or ``queue`` for those of all agents of a queue.
            name: ``*``: each that has no cap of its own.
            cap: 0: no limit, whatever else is said.

        Raises ``InvalidInput``.
        """

    def workers(self) -> Sequence[WorkerInfo]:
        """The workers that are alive, by name."""

    def agents(self) -> Sequence[AgentInfo]:
        """What workers have announced, by name."""
