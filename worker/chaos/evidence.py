"""What can be known when a run is over, read from the store, the result backend and the ledger."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from celery import Celery

from api_client.connection import Client
from api_client.contract import Event, JobView
from worker.chaos.field import Field
from worker.chaos.ledger import Entries
from worker.chaos.options import Options
from worker.chaos.people import People
from worker.chaos.plan import PlannedJob
from worker.chaos.wreck import Victim, Wrecker


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One accepted job at the end.

    Attributes:
        view: ``None`` if its record is gone.
        events: its trace.
        state, result: what Celery's result backend says.
    """

    job: PlannedJob
    job_id: str
    view: JobView | None
    events: tuple[Event, ...]
    state: str
    result: Any


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the verdict goes by.

    Attributes:
        victims, moments: see ``Wrecker``.
        deeds: how often each strike was done.
        surroundings: versions and machine.
    """

    options: Options
    jobs: tuple[JobFacts, ...]
    ledger: Entries
    victims: tuple[Victim, ...]
    moments: tuple[int, ...]
    deeds: Mapping[str, int]
    signals: int
    signals_refused: int
    cancels: int
    surroundings: Mapping[str, Mapping[str, Any]]


def gather(field: Field, wrecker: Wrecker, people: People) -> Evidence:
    """Read everything. The workers may still be running; every job has come to rest."""
    app = Celery("stepkeeper-chaos", broker=field.url, backend=field.url, set_as_current=False)
    with app:
        jobs = tuple(_facts(field, app, job_id) for job_id in field.jobs)
    return Evidence(
        options=field.options,
        jobs=jobs,
        ledger=field.ledger.entries(),
        victims=tuple(wrecker.victims),
        moments=tuple(wrecker.moments),
        deeds=dict(wrecker.done),
        signals=people.signals,
        signals_refused=people.refused,
        cancels=people.cancels,
        surroundings={"versions": versions(field.redis), "machine": machine()},
    )


def _facts(field: Field, app: Celery, job_id: str) -> JobFacts:
    view = field.view(job_id)
    meta: Mapping[str, Any] = field.patiently(lambda: app.backend.get_task_meta(job_id))
    return JobFacts(
        job=field.jobs[job_id],
        job_id=job_id,
        view=view,
        events=() if view is None else tuple(field.client.trace(job_id)),
        state=str(meta["status"]),
        result=meta["result"],
    )


def versions(client: Client) -> dict[str, str]:
    """What ran, by name."""
    server = client.info("server")
    found = {name: version(name) for name in ("stepkeeper", "celery", "kombu", "redis")}
    kind = server.get("server_name", "redis")
    return found | {f"{kind} server": str(server.get(f"{kind}_version", server["redis_version"]))}


def machine() -> dict[str, Any]:
    """Where it ran."""
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
