"""What a run has shown. Pure: from the evidence to the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from api_client.contract import Event, JobStatus, JobView, PauseKind
from worker.chaos.evidence import Evidence, JobFacts
from worker.chaos.ledger import Entries
from worker.chaos.report import ClassEffects, Recovery, Report
from worker.chaos.script import EFFECTS, Call
from worker.chaos.wreck import Victim
from worker.store.outcomes import POISON

SLOWEST = 10
_CELERYS_WORD = {
    JobStatus.SUCCEEDED: "SUCCESS",
    JobStatus.FAILED: "FAILURE",
    JobStatus.CANCELLED: "REVOKED",
}


def judge(evidence: Evidence, elapsed_s: float) -> Report:
    """Count what was lost and what was doubled."""
    jobs = evidence.jobs
    statuses = Counter(facts.view.status for facts in jobs if facts.view is not None)
    lost = {facts.job_id: why for facts in jobs if (why := why_lost(facts))}
    paid_twice = replies_paid_twice(jobs, evidence.ledger)
    expected = list(expected_effects(facts for facts in jobs if facts.job_id not in lost))
    effects = {name: _effects(tool, expected, evidence.ledger) for tool, name in EFFECTS.items()}
    recovered = list(recoveries(evidence.victims, jobs))
    alone = [(v, s) for v, s in recovered if not _struck_again(v, s, evidence.moments)]
    return Report(
        submitted=len(jobs),
        finished=statuses[JobStatus.SUCCEEDED],
        paused=statuses[JobStatus.PAUSED],
        failed=statuses[JobStatus.FAILED],
        cancelled=statuses[JobStatus.CANCELLED],
        poison=sum(_is_poison(facts.view) for facts in jobs),
        lost=len(lost),
        lost_jobs=lost,
        effects=effects,
        replies_paid=len(evidence.ledger.calls),
        replies_paid_twice=paid_twice,
        replies_repaid_in_flight=repaid(evidence.ledger) - paid_twice,
        pauses=dict(_pauses(jobs)),
        signals=evidence.signals,
        signals_refused=evidence.signals_refused,
        pauses_answered_twice=sum(answered_twice(facts.events) for facts in jobs),
        steps_backwards=sum(steps_backwards(facts.events) for facts in jobs),
        cancels=evidence.cancels,
        kills=evidence.deeds.get("kill", 0),
        redis_restarts=evidence.deeds.get("restart_redis", 0),
        hints_doubled=evidence.deeds.get("double_hint", 0),
        hints_dropped=evidence.deeds.get("drop_hint", 0),
        jobs_struck=len(evidence.victims),
        recovery_s=_recovery(seconds for _, seconds in recovered),
        recovery_restarted_s=_recovery(s for victim, s in alone if not victim.down_s),
        recovery_taken_over_s=_recovery(s for victim, s in alone if victim.down_s),
        slowest_recoveries=_slowest(recovered),
        elapsed_s=round(elapsed_s, 1),
        options=evidence.options,
        versions=dict(evidence.surroundings["versions"]),
        machine=dict(evidence.surroundings["machine"]),
    )


# --- jobs ----------------------------------------------------------------------------------


def why_lost(facts: JobFacts) -> str:
    """Why a job counts as lost; empty if it has come to the end that it had to."""
    view = facts.view
    if view is None:
        return "its record is gone"
    if not view.status.ended:
        return _why_not_ended(facts, view)
    if not view.published:
        return f"{view.status}, but not published"
    if facts.state != _CELERYS_WORD[view.status]:
        return f"{view.status}, but Celery's result backend says {facts.state}"
    match view.status:
        case JobStatus.SUCCEEDED:
            return _why_wrong(facts, view)
        case JobStatus.FAILED:
            return _why_failed(facts, view)
    return "" if facts.job.cancel_at is not None else "cancelled, which nobody asked for"


def _why_not_ended(facts: JobFacts, view: JobView) -> str:
    reason = f" ({view.pause.kind}: {view.pause.question})" if view.pause else ""
    asked = view.pause is not None and view.pause.kind is PauseKind.HAND_TO_HUMAN
    if asked and not facts.job.answered:
        return ""
    return f"still {view.status}{reason}"


def _why_wrong(facts: JobFacts, view: JobView) -> str:
    wanted = facts.job.script.answer(_people(facts.events))
    given = None if view.outcome is None else view.outcome.value
    if given != wanted:
        return f"answered {given!r} in place of {wanted!r}"
    if facts.result != wanted:
        return f"Celery's result backend has {facts.result!r} in place of {wanted!r}"
    return ""


def _why_failed(facts: JobFacts, view: JobView) -> str:
    reason = "" if view.outcome is None else view.outcome.reason
    planned = facts.job.kind == "break" and reason == "chaos_break"
    return "" if planned or reason == POISON else f"failed with {reason}: {view.outcome}"


def _is_poison(view: JobView | None) -> bool:
    return view is not None and view.outcome is not None and view.outcome.reason == POISON


def _pauses(jobs: Iterable[JobFacts]) -> Counter[str]:
    """How often jobs paused, by kind."""
    return Counter(
        str(event.data["kind"])
        for facts in jobs
        for event in facts.events
        if event.kind == "paused"
    )


def _people(events: Iterable[Event]) -> list[str]:
    """Who answered the questions, in their order."""
    return [
        str(event.data["by"])
        for event in events
        if event.kind == "signal" and event.data["kind"] == "answer"
    ]


def answered_twice(events: Iterable[Event]) -> int:
    """Signals that were accepted beyond one for each pause."""
    open_pauses = beyond = 0
    for event in events:
        if event.kind == "paused":
            open_pauses = 1
        elif event.kind == "signal":
            beyond += open_pauses == 0
            open_pauses = 0
    return beyond


def steps_backwards(events: Iterable[Event]) -> int:
    """How often a step number falls, or a message index does not rise, along a trace."""
    last_step, last_index, wrong = 0, -1, 0
    for event in events:
        step, index = event.data.get("s"), event.data.get("i")
        if isinstance(step, int) and isinstance(index, int):
            wrong += step < last_step or index <= last_index
            last_step, last_index = step, index
    return wrong


# --- effects -------------------------------------------------------------------------------


def expected_effects(jobs: Iterable[JobFacts]) -> Iterator[Call]:
    """The effects that must have happened; of cancelled and poison jobs nobody can say."""
    for facts in jobs:
        view = facts.view
        if view is None or view.status is JobStatus.CANCELLED or _is_poison(view):
            continue
        until = view.steps if view.status is JobStatus.PAUSED else None
        yield from facts.job.script.effects(until)


def _effects(tool: str, expected: Iterable[Call], ledger: Entries) -> ClassEffects:
    safe = EFFECTS[tool] == "safe"
    done = ledger.attempts if safe else ledger.applied
    calls = [call for call in expected if call.tool == tool]
    return ClassEffects(
        expected=len(calls),
        seen=sum((tool, call.place) in done for call in calls),
        doubled=0 if safe else _beyond_one(done, tool),
        repeated=_beyond_one(ledger.attempts, tool),
    )


def _beyond_one(counts: Counter[tuple[str, str]], tool: str) -> int:
    return sum(times - 1 for (name, _), times in counts.items() if name == tool)


# --- model calls ---------------------------------------------------------------------------


def replies_paid_twice(jobs: Iterable[JobFacts], ledger: Entries) -> int:
    """Model calls that began although the reply to them had been committed before."""
    committed: dict[str, int] = {}
    for facts in jobs:
        for event in facts.events:
            if event.kind in ("reply", "finished", "failed") and "i" in event.data:
                committed.setdefault(f"{facts.job.number}.{event.data['s']}", event.at)
    return sum(call.at_ms >= committed.get(call.place, math.inf) for call in ledger.calls)


def repaid(ledger: Entries) -> int:
    """Model calls beyond one for each reply."""
    return len(ledger.calls) - len({call.place for call in ledger.calls})


# --- recovery ------------------------------------------------------------------------------


def recoveries(
    victims: Iterable[Victim], jobs: Iterable[JobFacts]
) -> Iterator[tuple[Victim, float]]:
    """For each struck job the seconds until a worker had it again, or it had ended."""
    events = {facts.job_id: facts.events for facts in jobs}
    for victim in victims:
        after = (
            event.at
            for event in events[victim.job_id]
            if event.at > victim.killed_ms
            and event.kind in ("claimed", "failed")
            and event.data.get("worker") != victim.owner
        )
        first = next(after, None)
        if first is not None:
            yield victim, (first - victim.killed_ms) / 1000


def _struck_again(victim: Victim, seconds: float, moments: Iterable[int]) -> bool:
    """Whether something else was struck before a job had recovered from its worker's death."""
    until = victim.killed_ms + seconds * 1000
    return any(victim.killed_ms < moment <= until for moment in moments)


def _recovery(seconds: Iterable[float]) -> Recovery | None:
    """Median, 95th percentile (nearest rank) and maximum; ``None`` without any."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    rank = {share: ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.95)}
    return Recovery(round(rank[0.5], 2), round(rank[0.95], 2), round(ordered[-1], 2))


def _slowest(recovered: Iterable[tuple[Victim, float]]) -> list[dict[str, Any]]:
    """Where to look, if a recovery took long."""
    ordered = sorted(recovered, key=lambda pair: -pair[1])[:SLOWEST]
    return [asdict(victim) | {"seconds": round(seconds, 2)} for victim, seconds in ordered]
