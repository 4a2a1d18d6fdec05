"""What came of a suite: a table for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from worker.evaluation.checks import Failure
from worker.evaluation.seen import Seen

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One run of one task; ``seen`` is ``None`` if it broke off."""

    task: str
    failures: tuple[Failure, ...]
    seconds: float
    seen: Seen | None

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return not self.failures


@dataclass(frozen=True, slots=True)
class Report:
    """All runs of a suite, in their order."""

    suite: str
    runs: tuple[TaskRun, ...]

    @property
    def passed(self) -> bool:
        """Whether every run passed."""
        return all(run.passed for run in self.runs)

    def reasons(self) -> list[str]:
        """Why it did not, one line a failed check."""
        return [f"{run.task}: {f.check}: {f.text}" for run in self.runs for f in run.failures]

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "suite": self.suite,
            "passed": self.passed,
            "runs": [{**asdict(run), "passed": run.passed} for run in self.runs],
        }

    def print(self, console: Console) -> None:
        """The table, with the reason of each failure, and one line that sums up."""
        from rich.table import Table

        columns = ["", "task", "steps", "tokens", "pauses", "seconds"]
        table = Table(*columns, *(() if self.passed else ("what failed",)), title=self.suite)
        for number in (2, 3, 5):
            table.columns[number].justify = "right"
        for runs in self._by_task():
            reasons = dict.fromkeys(f"{f.check}: {f.text}" for run in runs for f in run.failures)
            table.add_row(*_row(runs), *(() if self.passed else ("\n".join(reasons),)))
        console.print(table)
        good = sum(run.passed for run in self.runs)
        console.print(f"{good} of {len(self.runs)} passed")

    def _by_task(self) -> list[list[TaskRun]]:
        found: dict[str, list[TaskRun]] = {}
        for run in self.runs:
            found.setdefault(run.task, []).append(run)
        return list(found.values())


def _row(runs: Sequence[TaskRun]) -> list[str]:
    good, seen = sum(run.passed for run in runs), [run.seen for run in runs if run.seen]
    verdict = "passed" if good == len(runs) else "FAILED"
    return [
        verdict if len(runs) == 1 else f"{verdict} {good}/{len(runs)}",
        runs[0].task,
        _span([s.steps for s in seen]),
        _span([s.tokens for s in seen]),
        " ".join(dict.fromkeys(kind for s in seen for kind in s.pauses)),
        f"{sum(run.seconds for run in runs):.2f}",
    ]


def _span(numbers: Sequence[int]) -> str:
    """One number, or from the least to the most."""
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"
