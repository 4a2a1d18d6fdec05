"""The worker app of the acceptance tests, whose event loop is slow in sending Celery's events."""

from __future__ import annotations

import threading
from typing import Any

from celery.events.dispatcher import EventDispatcher

from tests.support.lab_app import app

__all__ = ["app"]

SLOW_S = 0.1


class SlowDispatcher(EventDispatcher):
    """Celery's, which the main thread flushes late."""

    def flush(self, *args: Any, **kwargs: Any) -> None:
        """Send what is kept back."""
        if threading.current_thread() is threading.main_thread():
            threading.Event().wait(SLOW_S)
        super().flush(*args, **kwargs)


app.events.dispatcher_cls = f"{__name__}:{SlowDispatcher.__name__}"
