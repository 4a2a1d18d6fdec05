"""The Celery app with which a command asks workers, and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery import Celery

    from worker.cli.session import Session


def asking_app(session: Session) -> Celery:
    """An app on the session's broker, configured as workers are."""
    from celery import Celery

    from worker.celery_config import ours
    from worker.settings import Settings

    broker = session.common.broker_url or session.url
    app = Celery("stepkeeper-command", set_as_current=False)
    app.conf.update(ours(Settings.from_env(redis_url=session.url, broker_url=broker)))
    return app
