"""Unit tests reach no network, not even this machine's."""

from __future__ import annotations

import socket
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            raise AssertionError(
                f"a unit test tried to reach {address!r}: make it an integration test"
            )
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
