"""The same action again and again: the limit may be a tool's own (A19)."""

from __future__ import annotations

from typing import Any

import pytest

from worker import Agent, run_inline, tool
from worker.errors import ToolRegistrationError
from worker.models.scripted import act, say

ANSWERS = {"moving": ["queued", "40%", "80%", "done"], "stuck": ["queued"] * 10}


def polling(kind: str, **options: Any) -> Any:
    answers = iter(ANSWERS[kind])

    @tool(effects="safe", **options)
    def status(job: int) -> str:
        """How far it is."""
        return next(answers)

    return status


def poll(kind: str, times: int, **options: Any) -> Any:
    agent = Agent(
        name="a", goal="g", tools=[polling(kind, **options)], on_limit="stop", max_repeats=3
    )
    lines = [act("poll", ("status", {"job": 7})) for _ in range(times)]
    return run_inline(agent, "t", model=[*lines, say("done")])


def test_a19_a_changed_result_starts_the_count_again() -> None:
    assert poll("moving", 4).answer == "done"


@pytest.mark.parametrize(("options", "run"), [({}, 2), ({"max_repeats": 6}, 5)])
def test_a19_the_same_result_stops_at_the_threshold(options: dict[str, int], run: int) -> None:
    stopped = poll("stuck", 10, **options)
    assert stopped.outcome.reason == "repeated_action"
    assert stopped.observations == ["queued"] * run


def test_a_limit_that_would_refuse_the_first_repetition_only_is_the_least() -> None:
    with pytest.raises(ToolRegistrationError, match="max_repeats must be a whole number from 2"):
        polling("moving", max_repeats=1)
