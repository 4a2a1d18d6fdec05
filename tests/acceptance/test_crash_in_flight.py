"""SIGKILL at every commit point, on the event loop: see ``tests.support.matrix``."""

from __future__ import annotations

from tests.support.matrix import CrashMatrix


class TestInFlight(CrashMatrix):
    """The whole worker dies."""

    mode = "threads-in-flight"
