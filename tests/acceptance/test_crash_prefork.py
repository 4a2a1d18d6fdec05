"""SIGKILL at every commit point, on the prefork pool: see ``tests.support.matrix``."""

from __future__ import annotations

from tests.support.matrix import CrashMatrix


class TestChild(CrashMatrix):
    """One pool process dies."""

    mode = "prefork-child"


class TestGroup(CrashMatrix):
    """The main process and its children die."""

    mode = "prefork-group"
