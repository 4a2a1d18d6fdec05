"""Workers, queues and agents, as far as they answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from api_client.contract import AgentInfo, JobStatus
from api_client.hints import broker_errors
from api_client.survey import Survey
from worker.doctor.findings import Findings, error, warning

AREA = "workers"
STALE_MS = 180_000
OVERDUE_S = 30.0
ANSWER_S = 2.0

_TO_RUN = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING)


@dataclass(slots=True)
class FleetFacts:
    """What was found.

    Attributes:
        agents: what workers have announced.
        now_ms: the store's clock.
        release: of Stepkeeper, in this program.
        queues: that workers consume, by node; ``None`` if nobody could be asked.
        broker_error: why the broker cannot be reached; empty if it can.
    """

    agents: Sequence[AgentInfo] = ()
    now_ms: int = 0
    release: str = ""
    queues: dict[str, list[str]] | None = None
    broker_error: str = ""
    survey: Survey = field(default_factory=Survey)


def ask_broker(app: Celery, facts: FleetFacts) -> None:
    """Whether the broker is there, and which queues its workers consume."""
    connection = app.connection_for_read()
    try:
        with connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
            asking = app.control.inspect(timeout=ANSWER_S, connection=connection)
            answers: Any = asking.active_queues()
    except broker_errors(connection) as reason:
        facts.broker_error = str(reason).splitlines()[0] or type(reason).__name__
        return
    facts.queues = {
        node: [queue["name"] for queue in queues] for node, queues in (answers or {}).items()
    }


def check(facts: FleetFacts) -> Findings:
    """All checks of the fleet."""
    yield from _broker(facts)
    yield from _agents(facts)
    yield from _versions(facts)
    yield from _work(facts.survey)


def _broker(facts: FleetFacts) -> Findings:
    if facts.broker_error:
        yield error(
            AREA, "STEPKEEPER_BROKER_URL", f"the broker cannot be reached: {facts.broker_error}",
            "start it, or correct the URL; jobs are kept meanwhile, and hinted later",
        )  # fmt: skip
    elif facts.queues == {}:
        yield error(
            AREA, "celery worker", "no worker answers: nobody runs jobs",
            "start one: stepkeeper worker --agents package.module",
        )  # fmt: skip


def _agents(facts: FleetFacts) -> Findings:
    consumed = {name for names in (facts.queues or {}).values() for name in names}
    if not facts.agents and facts.queues:
        yield error(
            AREA, "STEPKEEPER_AGENTS", "workers answer, and none has announced an agent",
            "give the workers of agents STEPKEEPER_AGENTS, or install(app, agents=[…])",
        )  # fmt: skip
    for info in facts.agents:
        stale = facts.now_ms - info.seen > STALE_MS
        if stale:
            yield warning(
                AREA, "STEPKEEPER_AGENTS",
                f"agent {info.name} was last announced {_ago(facts.now_ms - info.seen)} ago: no "
                "worker that runs now has it",
                "start a worker with it; its jobs wait",
            )  # fmt: skip
        elif facts.queues and info.queue and info.queue not in consumed:
            yield error(
                AREA, "--queues", f"no worker consumes queue {info.queue}, to which jobs of agent "
                f"{info.name} go",
                f"start a worker with --queues {info.queue}, or correct task_routes",
            )  # fmt: skip
    yield from _jobs_of_nobody(facts)


def _jobs_of_nobody(facts: FleetFacts) -> Findings:
    """Jobs that could run, of agents that were never announced, or not for a long time."""
    known = {info.name for info in facts.agents}
    could_run = {
        name for (name, status), jobs in facts.survey.jobs.items() if jobs and status in _TO_RUN
    }
    for name in sorted(could_run - known - {""}):
        yield error(
            AREA, "STEPKEEPER_AGENTS", f"jobs of agent {name} wait, and no worker has announced it",
            "start a worker with it, or cancel them",
        )  # fmt: skip


def _versions(facts: FleetFacts) -> Findings:
    others = {info.release for info in facts.agents if info.release and _is_fresh(info, facts)}
    for release in sorted(others - {facts.release}):
        level = error if _major(release) != _major(facts.release) else warning
        yield level(
            AREA, "stepkeeper", f"workers run Stepkeeper {release}, this program {facts.release}",
            "install one version everywhere, the workers first",
        )  # fmt: skip


def _is_fresh(info: AgentInfo, facts: FleetFacts) -> bool:
    return facts.now_ms - info.seen <= STALE_MS


def _major(release: str) -> tuple[str, ...]:
    """What must agree: the first number that is not 0, and those before it."""
    match = re.match(r"(0\.)*\d+", release)
    return (match[0],) if match else (release,)


def _work(survey: Survey) -> Findings:
    if survey.overdue_s > OVERDUE_S:
        yield error(
            AREA, "celery worker",
            f"a job has been due for {_ago(survey.overdue_s * 1000)}, and nobody has taken it up",
            "are workers running for its queue, and can they reach store and broker?",
        )  # fmt: skip
    if survey.quarantined:
        yield warning(
            AREA, "stepkeeper quarantine",
            f"{survey.quarantined} poison jobs wait for somebody to look at them",
            "stepkeeper quarantine list; then release or drop them",
        )  # fmt: skip


def _ago(ms: float) -> str:
    from worker.rendering.texts import duration

    return duration(ms)
