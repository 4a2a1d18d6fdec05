"""Running slices of jobs in one process.

Knows the store and the loop, and nothing of Celery: what follows from a slice's end (publishing,
hinting, events) is the caller's.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from api_client.contract import JobSpec
from worker.agent import Agent
from worker.ends import Ended, Left, SliceEnd
from worker.flow.gate import Gate
from worker.leases import Leases
from worker.models.base import Model
from worker.patience import patiently
from worker.shelf import Shelf
from worker.slices import Offload, Slice
from worker.solitude import Solitude
from worker.store.base import CheckpointStore, Claim, Claimed, Mark, NotClaimed, ToPublish
from worker.telemetry.observer import NOBODY, Observer

log = logging.getLogger(__name__)


NONCE_LENGTH = 12
"""Hexadecimal digits that tell a claim from all others of its job; each commit shows them."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What a runner goes by.

    Attributes:
        lease_ms: how long a claim holds without a renewal.
        max_attempts: starts without progress before a job is poison.
        slice_steps: model replies after which a job goes back to the queue.
        shared_slice_steps: the same while other tenants wait for the slot.
        publish_grace_ms: time to publish an outcome before another worker may.
        publishes: whether an outcome is published here; else it is left to who takes a hint.
        hint_grace_ms: time a hint gets before a sweep sends another.
        patience_s: how long a commit is tried again while Redis is away.
    """

    lease_ms: int = 15_000
    max_attempts: int = 5
    slice_steps: int = 50
    shared_slice_steps: int = 5
    publish_grace_ms: int = 10_000
    publishes: bool = True
    hint_grace_ms: int = 5_000
    patience_s: float = 60.0

    @property
    def shared_attempts(self) -> int:
        """Starts without progress after which a job runs beside no other such job (rule 15)."""
        return (self.max_attempts + 1) // 2


@dataclass
class Runner:
    """Runs slices of jobs in this process; safe to use from several threads.

    Args:
        owner: ``node/boot/pid/`` of this process.
        stopping: whether jobs shall be handed over at their next commit.
        clock_ms: monotonic milliseconds, for measuring calls.
        default_model: for agents that name none.
        hint: tells the workers of a job; a sweep finds it later if this does nothing.
        observer: told of what happens.
        channels: on which something that happened to an agent's job is announced.
        gate: where model calls wait their turn; ``None``: nothing limits them.
    """

    store: CheckpointStore
    agents: Mapping[str, Agent]
    owner: str
    leases: Leases
    clock_ms: Callable[[], int]
    default_model: Callable[[], Model]
    stopping: Callable[[], bool] = lambda: False
    hint: Callable[[JobSpec], object] = lambda _spec: None
    channels: Callable[[Agent, str], Sequence[str]] = lambda _agent, _event: ()
    settings: RunnerSettings = field(default_factory=RunnerSettings)
    observer: Observer = NOBODY
    gate: Gate | None = None
    solitude: Solitude = field(default_factory=Solitude, init=False)
    shelf: Shelf = field(default_factory=Shelf, init=False)

    def with_agents(self, agents: Mapping[str, Agent]) -> Runner:
        """The same with other agents; slices that run keep those with which they began."""
        other = replace(self, agents=dict(agents))
        other.solitude, other.shelf = self.solitude, self.shelf
        return other

    def run(self, job_id: str) -> SliceEnd:
        """Advance a job until it ends, pauses, waits, or has had its turn."""
        claim = self.claim(job_id)
        if not isinstance(claim, Claimed):
            return claim
        with self._hold(claim):
            return Slice(self, claim).run()

    async def advance_on_loop(self, claim: Claimed, threads: Offload) -> SliceEnd:
        """Advance a claimed job on an event loop; ``threads`` run what blocks."""
        with self._hold(claim):
            return await Slice(self, claim).arun(threads)

    @contextmanager
    def _hold(self, claim: Claimed) -> Iterator[None]:
        """Keep the lease while the block runs; afterwards leave the place of a suspect."""
        try:
            with self.leases.hold(claim.spec.job_id, claim.epoch, claim.crowded):
                yield
        finally:
            self.solitude.leave(claim.spec.job_id)

    def claim(self, job_id: str) -> Claimed | SliceEnd:
        """Take a job; or say what there is to do with it instead."""
        alone = self.solitude.enter(job_id)
        kept = self.shelf.take(job_id)
        claim: Claim | None = None
        try:
            claim = self._claim(job_id, alone, kept.mark if kept else None)
        finally:
            if alone and not self._is_suspect(claim):
                self.solitude.leave(job_id)
        if isinstance(claim, Claimed):
            return replace(claim, transcript=kept.transcript) if claim.unchanged and kept else claim
        if kept and isinstance(claim, NotClaimed):
            self.shelf.put(job_id, kept)
        if isinstance(claim, NotClaimed) and claim.why == "unknown":
            log.error("job %s is left alone: %s", job_id, no_such_agent(claim.detail))
            patiently(lambda: self.store.missed(job_id), self.settings.patience_s)
        return _nothing_to_run(claim)

    def _claim(self, job_id: str, alone: bool, known: Mark | None) -> Claim:
        nonce = uuid.uuid4().hex[:NONCE_LENGTH]
        return patiently(
            lambda: self.store.claim(
                job_id,
                owner=self.owner,
                nonce=nonce,
                lease_ms=self.settings.lease_ms,
                max_tries=self.settings.max_attempts,
                wary_of=0 if alone else self.settings.shared_attempts,
                known=known,
                agents=self.agents,
            ),
            self.settings.patience_s,
        )

    def _is_suspect(self, claim: Claim | None) -> bool:
        """Whether a job has been claimed that must be the only one of its kind here."""
        return isinstance(claim, Claimed) and claim.tries > self.settings.shared_attempts


def no_such_agent(agent: str) -> str:
    """Why a worker leaves a job to others, and what to do if none of them takes it."""
    return (
        f"this worker does not have the agent {agent!r}; a worker that has it goes on with the "
        "job. If none has, start one (STEPKEEPER_AGENTS), or cancel the job"
    )


def _nothing_to_run(claim: NotClaimed | ToPublish) -> SliceEnd:
    match claim:
        case NotClaimed(why=why, detail=detail):
            return Left(why, detail)
        case ToPublish(spec=spec, status=status, outcome=outcome, children=children):
            return Ended(spec, status, outcome, again=True, children=children)
