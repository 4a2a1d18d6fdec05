"""How long a job waits after a model error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.retry import CAP_S, RETRY_AFTER_CEILING_S, backoff_s

JOBS = [f"job-{n}" for n in range(200)]


@pytest.mark.parametrize(
    ("failures", "ceiling"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (50, 60), (5000, 60)]
)
def test_waits_double_up_to_a_minute(failures: int, ceiling: float) -> None:
    waits = [backoff_s(job, failures, None) for job in JOBS]
    assert min(waits) >= ceiling / 2
    assert max(waits) <= ceiling
    assert max(waits) - min(waits) > ceiling / 4, "jobs that failed together come back spread out"


def test_the_same_history_waits_the_same_time() -> None:
    """A worker that takes over computes nothing else."""
    assert backoff_s("job", 3, None) == backoff_s("job", 3, None)
    assert backoff_s("job", 3, None) != backoff_s("job", 4, None)


@pytest.mark.parametrize(
    ("wish", "wait"),
    [(10.0, 10.0), (3600.0, 3600.0), (86_400.0, RETRY_AFTER_CEILING_S)],
)
def test_the_providers_wish_is_a_lower_bound_up_to_an_hour(wish: float, wait: float) -> None:
    assert backoff_s("job", 1, wish) == wait


@pytest.mark.parametrize("wish", [-5.0, 0.0, 0.1])
def test_a_wish_that_is_shorter_changes_nothing(wish: float) -> None:
    assert backoff_s("job", 4, wish) == backoff_s("job", 4, None)


@given(st.text(), st.integers(1, 10**6), st.none() | st.floats(0, 1e9))
def test_a_wait_is_always_positive_and_bounded(job: str, failures: int, wish: float | None) -> None:
    wait = backoff_s(job.encode("utf-8", "replace").decode(), failures, wish)
    assert 0.5 <= wait <= max(CAP_S, RETRY_AFTER_CEILING_S)
