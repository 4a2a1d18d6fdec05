"""Putting agents into a Celery app: one call, in the program that submits and in the worker.

app = Celery("shop", broker="redis://…", backend="redis://…")
install(app, agents=[shop])
"""

from __future__ import annotations

from collections.abc import Iterable

from celery import Celery
from celery.signals import task_revoked
from celery.utils.imports import symbol_by_name

from worker import commands as commands  # registers what any Celery tooling may send
from worker.agent import Agent, by_name
from worker.announce.channels import check_webhook
from worker.bootsteps import Keeper
from worker.celery_config import protect
from worker.consumer import with_calm_leave
from worker.control import note_revoked, with_durable_revoke
from worker.discovery import load_agents, with_delegates
from worker.einfo import reuse_copies
from worker.service import Service
from worker.settings import Settings
from worker.tasks import agent_task, cancel_task, signal_task
from worker.watching import Onlookers


def install(
    app: Celery, agents: Iterable[Agent] = (), *, settings: Settings | None = None
) -> Service:
    """Register one Celery task for each agent, and what keeps their jobs alive.

    The app keeps its own broker, result backend, routes and tasks. Agents come from ``agents``
    and from the setting ``STEPKEEPER_AGENTS``. Jobs are stored where ``STEPKEEPER_REDIS_URL`` says;
    without it in the app's broker, or else its result backend, if that is a Redis.

    Raises:
        AgentDefinitionError: an agent cannot be used.
        InvalidInput: a setting or one of the app's own settings would harm jobs; says which.
    """
    settings = settings or _settings_for(app)
    agents = tuple(agents)
    found = with_delegates([*agents, *load_agents(settings.agents)])
    protect(app)
    reuse_copies()
    check_webhook(settings.webhook_url, settings, "STEPKEEPER_WEBHOOK_URL")
    for agent in found:
        check_webhook(agent.webhook_url, settings, f"agent {agent.name!r}: webhook_url")
    service = Service(app, settings, by_name(found), given=agents)
    for agent in found:
        app.register_task(agent_task(agent, service))
    app.register_task(signal_task(service))
    app.register_task(cancel_task(service))
    app.control_cls = with_durable_revoke(symbol_by_name(str(app.control_cls)), service)  # type: ignore[assignment]
    app.conf.worker_consumer = with_calm_leave(
        symbol_by_name(app.conf.worker_consumer), lambda job_id: service.store.missed(job_id)
    )
    app.steps["worker"].add(Keeper)
    app.steps["consumer"].add(Onlookers)
    app.stepkeeper = service  # type: ignore[attr-defined]
    task_revoked.connect(note_revoked, weak=False, dispatch_uid="stepkeeper-revoked")
    return service


def _settings_for(app: Celery) -> Settings:
    settings = Settings.from_env()
    if "redis_url" in settings.model_fields_set:
        return settings
    for url in (str(app.conf.broker_url), str(app.conf.result_backend)):
        if url.startswith("redis://") and ";" not in url:
            return Settings.from_env(redis_url=url)
    return settings
