"""SIGKILL at every commit point, on the threads pool: see ``tests.support.matrix``."""

from __future__ import annotations

from tests.support.matrix import CrashMatrix


class TestThreads(CrashMatrix):
    """The whole worker dies."""

    mode = "threads"
