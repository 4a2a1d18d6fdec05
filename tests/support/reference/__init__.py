"""The pages of ``docs/reference``, written from the code that they describe.

    settings   environment variables of workers, callers and the web server
    commands   the command line
    python     the public names of the packages
    http       the HTTP API
    metrics    what Prometheus finds

``python -m tests.support.reference`` (``make reference``) writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.reference.commands import commands
from tests.support.reference.http import http
from tests.support.reference.metrics import metrics
from tests.support.reference.python import python
from tests.support.reference.settings import settings

PAGES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "commands": commands,
    "python": python,
    "http": http,
    "metrics": metrics,
}
