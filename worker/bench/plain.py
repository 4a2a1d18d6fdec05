"""A Celery app with nothing but an empty task: the floor of everything that Celery carries."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

BROKER = "STEPKEEPER_BENCH_BROKER"
RESULTS = "STEPKEEPER_BENCH_RESULTS"
QUEUE = "bench-empty"
TASK = "bench.empty"


def make_app(broker: str, results: str) -> Celery:
    """An app with Celery's own settings, but for the queue."""
    made = Celery("bench", broker=broker, backend=results, set_as_current=False)
    made.conf.update(task_default_queue=QUEUE, broker_connection_retry_on_startup=True)

    @made.task(name=TASK, shared=False)
    def empty() -> None:
        """Do nothing."""

    return made


def __getattr__(name: str) -> Any:
    """``app``, made from the environment when a worker asks for it."""
    if name != "app":
        raise AttributeError(name)
    made = globals()["app"] = make_app(os.environ[BROKER], os.environ[RESULTS])
    return made
