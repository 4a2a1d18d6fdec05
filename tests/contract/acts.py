"""What workers, callers and people do to a store, in one line each."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

from api_client.contract import (
    Answer,
    JobSpec,
    JobStatus,
    Outcome,
    Pause,
    PauseKind,
    ProposedAction,
    Signal,
)
from tests.contract.worlds import MINUTE, World, run_json
from worker.store.base import (
    Claim,
    Claimed,
    CommitAnswer,
    Hint,
    Mark,
    Progress,
    Settlement,
    Ticket,
    ToPublish,
)

JOB = "job-1"
LEASE = MINUTE
GRACE = 2 * MINUTE
CAP = 7 * MINUTE

_nonces = count(1)

DONE = Outcome(ok=True, value="42")
BROKEN = Outcome(ok=False, reason="refused", text="the model refused: no")
QUESTION = Pause(
    id="p1",
    kind=PauseKind.HAND_TO_HUMAN,
    question="Darf ich? 可以嗎？",
    accepts=("answer", "finish"),
    action=ProposedAction(call_id="c1", tool="hand_to_human", arguments={"reason": "?"}),
    step=1,
)


def message(text: str) -> dict[str, Any]:
    """A message that names itself."""
    return {"role": "user", "content": text}


def submit(world: World, job_id: str = JOB, delay_ms: int = 0, **fields: Any) -> JobSpec:
    """Accept a job."""
    spec = JobSpec.model_validate({"job_id": job_id, "agent": "shop", "input": "buy", **fields})
    assert world.store.create(spec, delay_ms).new
    return spec


def claim(
    world: World,
    job_id: str = JOB,
    *,
    owner: str = "w1/boot/1/",
    nonce: str | None = None,
    max_tries: int = 5,
    wary_of: int = 0,
    known: Mark | None = None,
    agents: Collection[str] = (),
) -> Claim:
    """Try to take a job, by default in an attempt of its own."""
    return world.store.claim(
        job_id,
        owner=owner,
        nonce=nonce or f"n{next(_nonces)}",
        lease_ms=LEASE,
        max_tries=max_tries,
        wary_of=wary_of,
        known=known,
        agents=agents,
    )


def take(world: World, job_id: str = JOB, **how: Any) -> Claimed:
    """Take a job that is there to be taken."""
    found = claim(world, job_id, **how)
    assert isinstance(found, Claimed), found
    return found


def commit(
    world: World, held: Claimed, number: int, *texts: str, consumes: bool = False
) -> CommitAnswer:
    """The ``number``-th commit of this claim, with a message for each text."""
    ticket = Ticket(held.spec.job_id, held.epoch, held.seq + number)
    progress = Progress(
        run_json(number),
        "reply",
        {"i": number},
        [message(text) for text in texts],
        consumes_signal=consumes,
    )
    return world.store.commit(ticket, progress)


def settle(
    world: World,
    held: Claimed,
    number: int,
    status: JobStatus,
    payload: Pause | Outcome | None = None,
    *texts: str,
    delay_ms: int = 0,
    consumes: bool = False,
    left_to_hint: bool = False,
) -> JobStatus | None:
    """End this claim with its ``number``-th commit."""
    ticket = Ticket(held.spec.job_id, held.epoch, held.seq + number)
    progress = Progress(
        run_json(number),
        status.value,
        {"n": number},
        [message(text) for text in texts],
        consumes_signal=consumes,
    )
    settlement = Settlement(status, payload, delay_ms, left_to_hint=left_to_hint)
    return world.store.settle(ticket, progress, settlement)


def bring_to(world: World, status: JobStatus, job_id: str = JOB) -> JobSpec:
    """Accept a job and lead it into a status."""
    spec = submit(world, job_id)
    if status is JobStatus.QUEUED:
        return spec
    if status is JobStatus.CANCELLED:
        world.store.cancel(job_id)
        return spec
    held = take(world, job_id)
    payloads: dict[JobStatus, Pause | Outcome] = {
        JobStatus.PAUSED: QUESTION,
        JobStatus.SUCCEEDED: DONE,
        JobStatus.FAILED: BROKEN,
    }
    if status is not JobStatus.RUNNING:
        assert settle(world, held, 1, status, payloads.get(status), delay_ms=MINUTE) is status
    return spec


def publish(world: World, job_id: str = JOB) -> None:
    """Let the outcome of a job that ended reach the result backend."""
    world.advance(10 * MINUTE)
    assert isinstance(claim(world, job_id), ToPublish)
    world.store.published(job_id)


def answer(
    world: World,
    signal: Signal | None = None,
    *,
    pause_id: str = "p1",
    signal_id: str = "s1",
    job_id: str = JOB,
) -> None:
    """A person decides."""
    world.store.signal(job_id, pause_id, signal or Answer(value="yes", by="anna"), signal_id)


def sweep(world: World, limit: int = 100) -> list[Hint]:
    """What one sweep hints."""
    return world.store.sweep(limit=limit, grace_ms=GRACE, cap_ms=CAP)


def hinted(world: World, limit: int = 100) -> list[str]:
    """The ids of what one sweep hints, sorted."""
    return sorted(hint.spec.job_id for hint in sweep(world, limit))


def kinds(world: World, job_id: str = JOB) -> list[str]:
    """The kinds of the trace's records."""
    return [event.kind for event in world.store.events(job_id)]
