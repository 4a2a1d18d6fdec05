"""How many jobs wait and may wait, in the store in memory: see ``shared/backlogs.lua``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from api_client.backlogs import (
    WAITING,
    Backlog,
    Kind,
    backlog_full,
    backlogs_of,
    cap_name,
    checked_cap,
    effective,
)
from api_client.contract import AgentInfo, JobSpec
from api_client.tenants import EVERYBODY
from worker.store.base import Slots
from worker.store.memory_turns import MemoryTurns


class MemoryBacklogs(MemoryTurns):
    """Mixed into ``MemoryStore``, which has the jobs, the lock and the agents."""

    _agents: dict[str, AgentInfo]

    def __init__(self) -> None:
        super().__init__()
        self._caps: dict[str, int] = {}

    def _check_backlog(self, spec: JobSpec) -> None:
        """Refuse a job that is one too many; sub-jobs never are.

        Raises:
            BacklogFull
        """
        if spec.parent:
            return
        for kind, name, present, cap in self._limits(spec):
            if cap is not None and present >= cap:
                raise backlog_full(kind, name, present, cap)

    def _limits(self, spec: JobSpec) -> Iterator[tuple[str, str, int, int | None]]:
        """Every backlog of which the job would be a part: whose, its size, its cap."""
        waiting = [job.spec for job in self._all() if job.status in WAITING]
        whole = self.turns.policies.get(EVERYBODY)
        yield "tenant", EVERYBODY, len(waiting), whole.backlog if whole else None
        if spec.tenant:
            own = sum(other.tenant == spec.tenant for other in waiting)
            yield "tenant", spec.tenant, own, self.turns.policy(spec.tenant).backlog
        by_agent = Counter(other.agent for other in waiting)
        cap, _ = effective(self._caps, "agent", spec.agent)
        yield "agent", spec.agent, by_agent[spec.agent], cap
        queue = self.turns.agents.get(spec.agent)
        if queue is not None:
            present = sum(by_agent[a] for a, its in self.turns.agents.items() if its == queue)
            yield "queue", queue, present, effective(self._caps, "queue", queue)[0]

    def set_cap(self, kind: Kind, name: str, cap: int | None) -> bool:
        """See ``JobStore.set_cap``."""
        field = cap_name(kind, name)
        with self._lock:
            if cap is None:
                return self._caps.pop(field, None) is not None
            self._caps[field] = checked_cap(kind, name, cap)
            return True

    def backlogs(self) -> list[Backlog]:
        """See ``JobStore.backlogs``."""
        with self._lock:
            queues = {info.name: info.queue for info in self._agents.values()}
            present = Counter(job.spec.agent for job in self._all() if job.status in WAITING)
            return backlogs_of(self._caps, {**queues, **self.turns.agents}, present)

    def announce_slots(self, slots: Slots) -> None:
        """See ``CheckpointStore.announce_slots``."""
        with self._lock:
            super().announce_slots(slots)
            for agent in slots.agents:
                self._caps.pop(f"own:{agent}", None)
            self._caps.update({f"own:{agent}": cap for agent, cap in slots.backlogs.items()})
