"""Tenants' turns in the store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from api_client.contract import JobSpec, JobStatus
from api_client.tenants import (
    DAY_MS,
    EVERY_TENANT,
    EVERYBODY,
    Tenant,
    TenantPolicy,
    check_name,
    turn_of,
)
from worker.store.base import Hint, NotClaimed, Slots
from worker.store.memory_desk import MemoryDesk
from worker.store.memory_record import Record
from worker.store.turns import HINT_MS, RANKS, Place, Turns

_COULD_RUN = (JobStatus.QUEUED, JobStatus.WAITING, JobStatus.RUNNING)


class MemoryTurns(MemoryDesk):
    """Mixed into ``MemoryStore``, which has the jobs, the lock and the clock.

    Attributes:
        on_turn: see ``CheckpointStore``.
    """

    on_turn: Callable[[JobSpec], object] = staticmethod(lambda _spec: None)
    _jobs: dict[str, Record]

    def __init__(self) -> None:
        self.turns = Turns()
        self._used: dict[int, Counter[str]] = {}
        self._slots_said: dict[str, tuple[int, Slots]] = {}

    def _expired(self, job: Record) -> bool:
        raise NotImplementedError

    # --- jobs --------------------------------------------------------------------------------

    def _place(self, spec: JobSpec, now: int) -> Place | None:
        if not spec.tenant:
            return None
        queue, _ = turn_of(spec)
        rank = RANKS[spec.priority or "normal"]
        return Place(spec.job_id, spec.tenant, spec.agent, str(queue), rank, now)

    def _arrive(self, job: Record) -> bool:
        """A new job lines up; whether it must wait for its turn."""
        if job.place is None or job.status is not JobStatus.QUEUED:
            return False
        self._line_up(job)
        self._hinted(self.turns.fill_window(job.place.lane, self._clock(), job.place))
        return job.place.turn == "ready"

    def _line_up(self, job: Record) -> None:
        assert job.place is not None
        self.turns.line_up(job.place)
        job.due = job.start_by if job.epoch == 0 else None

    def _step_out(self, job: Record) -> None:
        if job.place is not None:
            self.turns.step_out(job.place)

    def _hinted(self, places: Iterable[Place]) -> list[Record]:
        """The jobs of places that have come into a window; a sweep looks at them later."""
        found = [self._jobs[place.job_id] for place in places]
        for job in found:
            now = self._clock()
            job.due, job.hints = now + HINT_MS, 0
            if job.epoch == 0 and job.start_by is not None and job.start_by > now:
                job.due = min(job.due, job.start_by)
        return found

    def _tell_turns(self, places: Iterable[Place]) -> None:
        for job in self._hinted(places):
            self.on_turn(job.spec)

    def _fill(self, *lanes: str) -> None:
        """Tell whose turn has come in lanes in which a slot or a place has become free."""
        for lane in dict.fromkeys(lanes):
            self._tell_turns(self.turns.fill_window(lane, self._clock()))

    def _not_its_turn(self, job: Record) -> NotClaimed | None:
        if job.place is None or job.status.ended or job.cancel is not None:
            return None
        if job.place.turn not in ("hinted", "ready"):
            self.turns.step_out(job.place)
            self._line_up(job)
        its_turn, found = self.turns.has_turn(job.place, self._clock())
        self._tell_turns(found)
        return None if its_turn else NotClaimed("turn")

    def _take_turn(self, job: Record) -> None:
        if job.place is None:
            return
        if job.status.ended:
            self.turns.step_out(job.place)
            return
        self.turns.take_turn(job.place)
        self._fill(job.place.lane)

    def _end_slice(self, job: Record, steps: int, status: JobStatus) -> None:
        """The job gives up its slot; handed over, it waits for its next turn."""
        place = job.place
        if place is None:
            return
        lanes = [place.lane] if place.turn else []
        self.turns.charge_slice(place, steps)
        if steps:
            self._used.setdefault(self._clock() // DAY_MS, Counter())[place.tenant] += steps
        self.turns.step_out(place)
        if status is JobStatus.QUEUED:
            self._line_up(job)
        if lanes:
            self._fill(*lanes, *([place.lane] if place.turn else []))

    def _retake(self, job: Record) -> None:
        """A lease was renewed: if its job had been taken for dead, it runs after all."""
        place = job.place
        if place is not None and job.status is JobStatus.RUNNING and place.turn != "running":
            self.turns.retake_turn(place)
            job.due = job.lease

    def _lines_up_in_sweep(self, job: Record) -> bool:
        place = job.place
        if place is None or place.turn in ("hinted", "loose") or job.status not in _COULD_RUN:
            return False
        self.turns.step_out(place)
        if self._expired(job):
            place.turn = "loose"
            return False
        self._line_up(job)
        return True

    def _sweep_lanes(self) -> Iterator[Hint]:
        now = self._clock()
        for lane in self.turns.lanes():
            for job_id in self.turns.unclaimed(lane, now):
                place = self._jobs[job_id].place
                assert place is not None
                self.turns.loosen(place)
            for job in self._hinted(self.turns.fill_window(lane, now)):
                yield Hint(job.spec, job.status)
            self.turns.tidy(lane)

    # --- tenants -----------------------------------------------------------------------------

    def policies(self) -> dict[str, TenantPolicy]:
        """See ``JobStore.policies``."""
        with self._lock:
            return dict(self.turns.policies)

    def set_policy(self, name: str, policy: TenantPolicy | None) -> None:
        """See ``JobStore.set_policy``."""
        check_name(name)
        with self._lock:
            self.turns.set_policy(name, policy)

    def tenants(self) -> list[Tenant]:
        """See ``JobStore.tenants``."""
        with self._lock:
            today = self._clock() // DAY_MS
            used = self._used.get(today, Counter()) + self._used.get(today - 1, Counter())
            jobs = [job for job in self._all() if job.spec.tenant and not job.status.ended]
            turns = ("ready", "hinted", "running")
            placed = {job.spec.tenant for job in jobs if job.place and job.place.turn in turns}
            names = placed | set(used) | set(self.turns.policies)
            return [
                self._tenant(name, [job.status for job in jobs if job.spec.tenant == name], used)
                for name in sorted(names - {EVERYBODY, EVERY_TENANT})
            ]

    def _tenant(self, name: str, statuses: Sequence[JobStatus], used: Counter[str]) -> Tenant:
        return Tenant(
            name=name,
            policy=self.turns.policy(name),
            own=name in self.turns.policies,
            running=self.turns.running(name),
            ready=statuses.count(JobStatus.QUEUED),
            waiting=statuses.count(JobStatus.WAITING),
            paused=statuses.count(JobStatus.PAUSED),
            steps=used[name],
        )

    def announce_slots(self, slots: Slots) -> None:
        """See ``CheckpointStore.announce_slots``."""
        with self._lock:
            now = self._clock()
            self._slots_said[slots.node] = now + slots.kept_ms, slots
            alive = {n: said for n, said in self._slots_said.items() if said[0] > now}
            self._slots_said = alive
            sums: Counter[str] = Counter()
            agents: dict[str, str] = {}
            for _, said in alive.values():
                sums.update(dict.fromkeys(said.queues, said.slots))
                agents.update(said.agents)
            self.turns.slots, self.turns.agents = dict(sums), agents
