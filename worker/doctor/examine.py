"""Everything that the doctor looks at, in order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from celery import Celery

from api_client.connection import connect, describe, translated
from api_client.errors import StoreUnavailable
from api_client.survey import SurveyStore
from worker.celery_config import bare_app
from worker.doctor import (
    celery_rules,
    encryption,
    environment,
    fleet,
    model_api,
    model_limits,
    server,
)
from worker.doctor.findings import Finding, Findings, Level, error, warning
from worker.flow.assemble import ledger_on
from worker.flow.redis import RedisLedger
from worker.settings import Settings

_LEVELS: tuple[Level, ...] = ("error", "warning", "advice")


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at.

    Attributes:
        app: whose settings are checked; one of our own, as ``stepkeeper worker`` has it, if not
            given.
        workers: whether workers should be running.
        model: whether to ask the model's API.
        writes: whether the Redis user should be able to do what jobs need; a monitor's is not.
    """

    settings: Settings
    app: Celery | None = None
    workers: bool = True
    model: bool = False
    writes: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def examine(patient: Patient) -> list[Finding]:
    """Look at everything; errors first, advice last.

    Raises:
        InvalidInput: the store's URL has another form.
    """
    found = [*_examine(patient)]
    return sorted(found, key=lambda finding: _LEVELS.index(finding.level))


def _examine(patient: Patient) -> Findings:
    settings = patient.settings
    app = patient.app or bare_app(settings)
    yield from environment.check(patient.environment, settings)
    if settings.agents:
        yield from environment.check_agents(settings)
    yield from celery_rules.check(app.conf, settings)
    yield from _store(patient, app)
    if patient.model:
        yield from model_api.check(model_api.gather(patient.environment))


def _store(patient: Patient, app: Celery) -> Findings:
    """The server, and what stands in it; without a server nothing else can be said."""
    settings = patient.settings
    where = describe(settings.redis_url)
    with connect(settings.redis_url, timeout_s=3.0) as client:
        try:
            facts = server.gather(client, where, settings.partitions, writes=patient.writes)
        except StoreUnavailable as reason:
            yield error(
                "redis", "STEPKEEPER_REDIS_URL", str(reason), "start it, or correct the URL"
            )
            return
        yield from server.check(facts, settings)
        if facts.denied:
            return
        store = SurveyStore(client, partitions=settings.partitions, where=where)
        survey, agents = store.survey(), store.agents()
        yield from encryption.check(encryption.gather(store, writes=patient.writes))
        yield from _limits(ledger_on(client, settings), settings)
        with translated(where):
            seconds, micros = client.time()
    now_ms = seconds * 1000 + micros // 1000
    told = fleet.FleetFacts(agents, now_ms, version("stepkeeper"), survey=survey)
    if patient.workers:
        fleet.ask_broker(app, told)
    yield from fleet.check(told)


def _limits(ledger: RedisLedger, settings: Settings) -> Findings:
    """Limits of models, as far as this user may read them."""
    try:
        limits = {**settings.model_limits, **ledger.limits()}
        uses = {key: ledger.use(key) for key in limits}
    except StoreUnavailable as reason:
        yield warning(
            model_limits.AREA, "ACL SETUSER", f"the limits of models cannot be read: {reason}",
            "allow ~sk:limits and ~{sk:*",
        )  # fmt: skip
        return
    yield from model_limits.check(limits, uses)
