"""A program with two Celery apps, which have an agent of the same name each and share nothing."""

from __future__ import annotations

from celery import Celery

from worker import Agent, install
from worker.celery_config import ours
from worker.models import FunctionModel
from worker.settings import Settings


def shop(name: str, url: str, retention_s: int) -> Celery:
    """An app whose agent ``shop`` answers with the app's name."""
    settings = Settings(redis_url=url, retention_s=retention_s)
    app = Celery(name, set_as_current=False)
    app.conf.update(ours(settings))
    model = FunctionModel(lambda _messages: f"I am the {name}.")
    install(app, agents=[Agent("shop", goal="Help.", model=model)], settings=settings)
    return app
