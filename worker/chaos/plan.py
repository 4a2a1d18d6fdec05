"""What will happen in a run, drawn from its seed before it begins: jobs and strikes.

Strikes come behind jobs, not at times of day: a strike is due when so many jobs were accepted.
So the plan does not depend on how fast the machine is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from worker.chaos.options import Options
from worker.chaos.script import Script

Deed = Literal["kill", "restart_redis", "double_hint", "drop_hint"]

# How often a kind stands in twenty jobs.
_KINDS = {
    "look": 1,
    "put": 3,
    "pay": 4,
    "many": 3,
    "ask": 2,
    "long": 2,
    "cancel": 1,
    "fail": 1,
    "busy": 1,
    "break": 1,
    "stay": 1,
}
HINTS_PER_JOB = 0.1
MOST_DELAY_S = 1.5
MOST_STAYING = 10
"""Jobs that pause for good; who looks at the inbox looks at all of them each time."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job.

    Attributes:
        cancel_at: replies after which it is cancelled; ``None`` for jobs that are not.
        answered: whether somebody answers its questions; if not, it must still be paused at the
            end.
    """

    kind: str
    script: Script
    cancel_at: int | None = None
    answered: bool = True

    @property
    def number(self) -> int:
        """Its number in the run, from 1."""
        return self.script.number


@dataclass(frozen=True, slots=True)
class Strike:
    """One blow.

    Attributes:
        after: jobs that must have been accepted.
        draw: picks the target, from 0 up to but not including 1.
        delay_s: seconds between the moment at which the target is found busy and the blow.
        down_s: seconds for which what was killed stays down.
        part: kill one process of a worker's pool instead of the whole worker, if it has any.
        both: kill a worker while Redis is down.
    """

    deed: Deed
    after: int
    draw: float
    delay_s: float = 0.0
    down_s: float = 0.0
    part: bool = False
    both: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides."""

    jobs: tuple[PlannedJob, ...]
    strikes: tuple[Strike, ...]

    @property
    def staying(self) -> int:
        """How many jobs pause for good."""
        return sum(not job.answered for job in self.jobs)


def make_plan(options: Options) -> Plan:
    """The plan of a run; the same options give the same one."""
    dice = random.Random(options.seed)  # noqa: S311 - to be drawn again, not to be secret
    jobs = tuple(_jobs(dice, options.jobs))
    return Plan(jobs, tuple(sorted(_strikes(dice, options), key=lambda strike: strike.after)))


# --- jobs ----------------------------------------------------------------------------------


def _jobs(dice: random.Random, count: int) -> Iterator[PlannedJob]:
    kinds: list[str] = []
    staying = 0
    for number in range(1, count + 1):
        if not kinds:
            kinds = [kind for kind, times in _KINDS.items() for _ in range(times)]
            dice.shuffle(kinds)
        kind = kinds.pop()
        staying += kind == "stay"
        yield _job(dice, "ask" if kind == "stay" and staying > MOST_STAYING else kind, number)


def _job(dice: random.Random, kind: str, number: int) -> PlannedJob:
    script = Script(number, tuple(_words(dice, kind)))
    cancel_at = dice.randint(0, 6) if kind == "cancel" else None
    return PlannedJob(kind, script, cancel_at, answered=kind != "stay")


def _words(dice: random.Random, kind: str) -> list[str]:
    """The words of one job."""
    mixed = ["look", "put", "pay", "put+look", "look+pay+put"]
    match kind:
        case "look" | "put":
            return [kind] * dice.randint(2, 5)
        case "pay":
            return ["pay"] * dice.randint(2, 4)
        case "many":
            return ["put+look+pay", "look+look", "pay+put"][: dice.randint(2, 3)]
        case "ask":
            return ["put+ask", "pay", *(["ask"] if dice.random() < 0.5 else [])]
        case "long" | "cancel":
            return dice.choices(mixed, weights=[6, 6, 2, 2, 1], k=dice.randint(20, 26))
        case "fail":
            return ["fail", "put", "fail+look"]
        case "busy":
            return ["busy", "put", "busy", "pay"]
        case "break":
            return ["put", "pay", "break"]
    return ["put", "pay+ask", "look"]


# --- strikes -------------------------------------------------------------------------------


def _strikes(dice: random.Random, options: Options) -> Iterator[Strike]:
    hints = round(options.jobs * HINTS_PER_JOB)
    both = min(options.kills, (options.redis_restarts + 1) // 2)
    for after in _spread(dice, options.kills - both, options.jobs):
        yield Strike(
            "kill",
            after,
            dice.random(),
            delay_s=dice.uniform(0, MOST_DELAY_S),
            down_s=_down(dice, options),
            part=dice.random() < 1 / 3,
        )
    for number, after in enumerate(_spread(dice, options.redis_restarts, options.jobs)):
        down_s = dice.uniform(0, min(2.0, options.lease_s / 2))
        yield Strike(
            "restart_redis",
            after,
            dice.random(),
            delay_s=dice.uniform(0, MOST_DELAY_S),
            down_s=down_s,
            both=number < both,
        )
    for deed in ("double_hint", "drop_hint"):
        for after in _spread(dice, hints, options.jobs):
            yield Strike(deed, after, dice.random())


def _down(dice: random.Random, options: Options) -> float:
    """Mostly a killed worker comes back at once; sometimes only after its lease has run out."""
    long = options.workers > 1 and dice.random() < 0.2
    return options.lease_s + dice.uniform(1, 3) if long else 0.0


def _spread(dice: random.Random, count: int, jobs: int) -> list[int]:
    """``count`` numbers of jobs, each drawn from its own equal share of the run."""
    return [min(jobs, 1 + int((i + dice.random()) * jobs / count)) for i in range(count)]
