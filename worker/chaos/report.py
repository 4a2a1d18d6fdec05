"""What a chaos run reports: as JSON for programs, as a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from worker.chaos.options import Options

FIRST = (
    *("submitted", "finished", "paused", "failed", "lost"),
    *("once_doubled", "idempotent_doubled", "safe_repeated", "replies_paid_twice"),
    *("kills", "redis_restarts", "recovery_s", "seed"),
)
"""The counts that stand first in the JSON, in this order."""


@dataclass(frozen=True, slots=True)
class ClassEffects:
    """The effects of one class of tools.

    Attributes:
        expected: effects that the jobs must have had.
        seen: of these, the ones that the ledger holds.
        doubled: effects that took place more often than once.
        repeated: executions beyond the first; allowed, except for ``once``.
    """

    expected: int
    seen: int
    doubled: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds from the SIGKILL of a worker until its jobs moved again."""

    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a run.

    Attributes:
        lost: accepted jobs that neither ended as they had to nor wait for a person as they had
            to, whose outcome is not in Celery's result backend, or whose answer is wrong.
        lost_jobs: why, by job id.
        poison: jobs whose worker died too often at one step; they have ended with that reason.
        replies_paid: model calls in all.
        replies_paid_twice: model calls made although their reply was committed.
        replies_repaid_in_flight: made again because the first was under way at a kill.
        pauses: of all jobs, by kind.
        signals: sent to pauses, two at once to each.
        pauses_answered_twice: pauses that accepted a second signal.
        steps_backwards: places in the traces at which a step number falls.
        jobs_struck: jobs that ran on a worker at the moment of its kill.
        recovery_s: ``None`` if no kill struck a job.
        recovery_restarted_s: where the worker came back at once under its name, and nothing else
            was struck meanwhile.
        recovery_taken_over_s: where it was left down until others took over, likewise.
    """

    submitted: int
    finished: int
    paused: int
    failed: int
    cancelled: int
    poison: int
    lost: int
    lost_jobs: dict[str, str]
    effects: dict[str, ClassEffects]
    replies_paid: int
    replies_paid_twice: int
    replies_repaid_in_flight: int
    pauses: dict[str, int]
    signals: int
    signals_refused: int
    pauses_answered_twice: int
    steps_backwards: int
    cancels: int
    kills: int
    redis_restarts: int
    hints_doubled: int
    hints_dropped: int
    jobs_struck: int
    recovery_s: Recovery | None
    recovery_restarted_s: Recovery | None
    recovery_taken_over_s: Recovery | None
    slowest_recoveries: list[dict[str, Any]]
    elapsed_s: float
    options: Options
    versions: dict[str, str]
    machine: dict[str, Any]

    @property
    def missing(self) -> int:
        """Effects that jobs report and the ledger does not hold."""
        return sum(effects.expected - effects.seen for effects in self.effects.values())

    @property
    def faults(self) -> dict[str, int]:
        """What must be zero, where it is not."""
        counts = {
            "lost": self.lost,
            "once_doubled": self.effects["once"].doubled,
            "idempotent_doubled": self.effects["idempotent"].doubled,
            "effects_missing": self.missing,
            "replies_paid_twice": self.replies_paid_twice,
            "pauses_answered_twice": self.pauses_answered_twice,
            "steps_backwards": self.steps_backwards,
        }
        return {name: count for name, count in counts.items() if count}

    def as_dict(self) -> dict[str, Any]:
        """Every count by its name, as JSON values."""
        counts = asdict(self)
        options = counts.pop("options")
        del options["keep"]
        derived = {
            "once_doubled": self.effects["once"].doubled,
            "idempotent_doubled": self.effects["idempotent"].doubled,
            "safe_repeated": self.effects["safe"].repeated,
            "effects_missing": self.missing,
            "seed": options.pop("seed"),
        }
        found = counts | derived
        first = {name: found.pop(name) for name in FIRST}
        return first | found | {"options": options}

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict(), indent=2)

    def table(self) -> str:
        """The report in lines for people."""
        rows = list(self._rows())
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "jobs submitted", str(self.submitted)
        yield "  finished", str(self.finished)
        yield "  paused for good", str(self.paused)
        yield "  failed", f"{self.failed}, of these poison: {self.poison}"
        yield "  cancelled", str(self.cancelled)
        yield "  lost", str(self.lost)
        for name, effects in self.effects.items():
            yield f"{name} effects", _effects_text(name, effects)
        yield "model calls paid", str(self.replies_paid)
        yield "  after their reply was committed", str(self.replies_paid_twice)
        yield "  again after a kill in the call", str(self.replies_repaid_in_flight)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.pauses.items()))
        yield "pauses", kinds or "none"
        yield "signals", f"{self.signals}, {self.signals_refused} of them refused as second"
        yield "  pauses answered twice", str(self.pauses_answered_twice)
        yield "workers killed", f"{self.kills}, with {self.jobs_struck} running jobs"
        yield "Redis killed", str(self.redis_restarts)
        yield "hints", f"{self.hints_doubled} doubled, {self.hints_dropped} dropped"
        yield "recovery", _recovery_text(self.recovery_s)
        yield "  restarted, struck once", _recovery_text(self.recovery_restarted_s)
        yield "  taken over, struck once", _recovery_text(self.recovery_taken_over_s)
        yield "seed", str(self.options.seed)
        yield "time", f"{self.elapsed_s:g} s on {self.machine['cpus']} CPUs"
        faults = ", ".join(f"{name} {count}" for name, count in self.faults.items())
        yield "verdict", f"FAILED: {faults}" if faults else "nothing lost, nothing doubled"


def _effects_text(name: str, effects: ClassEffects) -> str:
    doubled = "" if name == "safe" else f", {effects.doubled} doubled"
    return (
        f"{effects.expected} expected, {effects.seen} seen{doubled}, "
        f"{effects.repeated} executions repeated"
    )


def _recovery_text(recovery: Recovery | None) -> str:
    if recovery is None:
        return "-"
    return f"p50 {recovery.p50:g} s, p95 {recovery.p95:g} s, max {recovery.max:g} s"
