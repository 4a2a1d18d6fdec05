"""What ``tests/unit`` promises: it reaches no network."""

from __future__ import annotations

import socket

import pytest


def test_a_unit_test_cannot_reach_the_network() -> None:
    with socket.socket() as client, pytest.raises(AssertionError, match="integration"):
        client.connect(("127.0.0.1", 9))
