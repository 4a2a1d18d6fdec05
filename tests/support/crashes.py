"""Killing a worker at an exact point of one job, from within, once.

The test writes a plan into the folder ``TEST_CRASHES``, in a file named by the job's id:
``WHEN WHAT NUMBER TARGET``. WHEN is ``before``, ``during`` or ``after``. WHAT is a call of the
store (``claim``, ``published``), the kind of a commit (``reply``, ``started``, ``observation``,
``paused``, ``finished`` …), ``effect``, which is a tool, or ``model``, with ``during``. NUMBER
says which of them, from 1.
TARGET is ``process``, or ``group`` for a whole worker with its pool children.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

CRASHES = "TEST_CRASHES"


def plan_crash(
    folder: Path, job_id: str, when: str, what: str, *, number: int = 1, target: str = "process"
) -> None:
    """Write a plan; it takes effect at once, in every worker."""
    Path(folder, job_id).write_text(f"{when} {what} {number} {target}")


def has_died(folder: Path, job_id: str) -> bool:
    """Whether the plan was carried out."""
    return Path(folder, f"{job_id}.done").exists()


def maybe_die(when: str, what: str, job_id: str) -> None:
    """Kill this process by SIGKILL, if that is the plan."""
    path = Path(os.environ.get(CRASHES, "/nonexistent"), job_id)
    if not path.is_file():
        return
    *point, number, target = path.read_text().split()
    if point != [when, what]:
        return
    with path.with_suffix(".seen").open("a+") as seen:
        seen.write(".")
        if seen.tell() < int(number):
            return
    path.rename(path.with_suffix(".done"))
    if target == "group":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
