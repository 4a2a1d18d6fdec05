"""The worker app of the acceptance tests, with a command that breaks its consumer.

``deafen`` makes the worker stop taking messages, as faults in the field do: it stays connected,
answers pings, and Celery itself believes that it consumes.
"""

from __future__ import annotations

from typing import Any

from celery.worker.control import control_command

from tests.support.lab_app import app

__all__ = ["app"]


@control_command()
def deafen(state: Any) -> dict[str, str]:
    """Stop consuming, and tell nobody."""
    state.consumer.task_consumer.cancel()
    return {"ok": "deaf"}
