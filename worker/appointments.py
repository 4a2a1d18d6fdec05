"""Keeping the timetable of a pause: reminders, escalations, and what happens at the deadline.

A sweep finds the pauses whose time has come. What is done to each is one atomic step of the store
that names the pause and its place in the timetable, so that two workers that sweep at once do it
once; and a decision is a signal like a person's: the first one wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from api_client.contract import SIGNAL, JobSpec
from api_client.errors import Conflict, JobNotFound
from worker.store.base import CheckpointStore

log = logging.getLogger(__name__)


def keep_appointment(
    store: CheckpointStore, job_id: str, channels: Callable[[str, str], Sequence[str]]
) -> JobSpec | None:
    """Do what a pause's timetable asks for now.

    Args:
        channels: on which an agent's event is announced.

    Returns the job's spec if it goes on now and should be hinted.
    """
    try:
        view = store.read(job_id)
    except JobNotFound:
        return None
    pause = view.pause
    if pause is None or pause.kept >= len(pause.timetable):
        return None
    entry = pause.timetable[pause.kept]
    if entry.do == "decide":
        decided = _decide(store, job_id, pause.id, entry.signal)
        return view.spec if decided else None
    labels = entry.labels if entry.do == "escalate" else None
    event = "reminder" if labels is None else "escalated"
    store.pace(job_id, pause.id, pause.kept, labels, channels(view.spec.agent, event))
    return None


def _decide(store: CheckpointStore, job_id: str, pause_id: str, fields: object) -> bool:
    """Send the signal of a deadline; whether it closed the pause."""
    signal = SIGNAL.validate_python(fields)
    try:
        store.signal(job_id, pause_id, signal, f"deadline-{pause_id}")
    except (Conflict, JobNotFound) as error:
        log.info("job %s: the deadline of %s was too late: %s", job_id, pause_id, error)
        return False
    return True
