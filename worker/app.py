"""The Celery app of a worker that runs nothing but agents: ``celery -A worker.app worker``."""

from __future__ import annotations

from celery import Celery

from worker.celery_config import ours
from worker.installing import install
from worker.settings import Settings
from worker.telemetry.formats import AgentLogging


def make_app(settings: Settings | None = None) -> Celery:
    """An app configured from the settings, with the agents they name.

    Raises:
        InvalidInput, AgentDefinitionError: see ``worker.installing``.
    """
    settings = settings or Settings.from_env()
    app = Celery("stepkeeper", log=AgentLogging)
    app.conf.update(ours(settings))
    install(app, settings=settings)
    return app


def __getattr__(name: str) -> Celery:
    """``worker.app.app``, made from the environment when something first asks for it."""
    if name != "app":
        raise AttributeError(name)
    app = globals()["app"] = make_app()
    return app
