"""What the tests of the loop share."""

from __future__ import annotations

import pytest

from tests.unit.loop.bench import Bench


@pytest.fixture
def bench() -> Bench:
    """A bench with an empty book."""
    return Bench()
