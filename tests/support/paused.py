"""Jobs that wait for a person, put into a store without running an agent."""

from __future__ import annotations

from typing import Any

from api_client.contract import (
    JobSpec,
    JobStatus,
    Outcome,
    Pause,
    PauseKind,
    ProposedAction,
)
from worker.pauses import ACCEPTS
from worker.state import RunState
from worker.store.base import CheckpointStore, Claimed, Progress, Settlement, Ticket


def _settle(store: CheckpointStore, job_id: str, kind: str, settlement: Settlement) -> None:
    claim = store.claim(job_id, owner="w@t/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
    assert isinstance(claim, Claimed)
    payload = settlement.payload
    data = {}
    if isinstance(payload, Pause):
        data = {"pause": payload.id, "kind": payload.kind, "question": payload.question}
    ticket = Ticket(job_id, claim.epoch, claim.seq + 1)
    store.settle(ticket, Progress(RunState().dump(), kind, data), settlement)


def paused_job(
    store: CheckpointStore,
    job_id: str = "job-1",
    kind: PauseKind = PauseKind.HAND_TO_HUMAN,
    question: str = "May I?",
    action: ProposedAction | None = None,
    labels: tuple[str, ...] = (),
    **details: Any,
) -> str:
    """A job of the agent ``shop`` that has paused once."""
    store.create(JobSpec(job_id=job_id, agent="shop", input="hello", labels=labels))
    pause = Pause(
        id="p1",
        kind=kind,
        question=question,
        accepts=ACCEPTS[kind],
        action=action,
        details=details,
        labels=labels,
        step=1,
    )
    _settle(store, job_id, "paused", Settlement(JobStatus.PAUSED, pause))
    return job_id


def ended_job(store: CheckpointStore, job_id: str, value: Any = None, reason: str = "") -> str:
    """A job of the agent ``shop`` that has ended, with an answer or for a reason."""
    store.create(JobSpec(job_id=job_id, agent="shop", input="hello"))
    ok = not reason
    status = JobStatus.SUCCEEDED if ok else JobStatus.FAILED
    outcome = Outcome(ok=ok, value=value, reason=reason, text=reason and f"it is {reason}")
    _settle(store, job_id, "finished" if ok else "failed", Settlement(status, outcome))
    return job_id
