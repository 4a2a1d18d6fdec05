"""Events of jobs: what they say, and what monitors make of them by Celery's own ``State``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.events.state import State

from api_client.contract import Answer
from tests.unit.telemetry.agents import BUSY, act, agent, reply
from tests.unit.telemetry.conftest import Lab
from worker.telemetry.events import (
    FIELDS,
    MAX_QUESTION,
    SHOWS_RUNNING,
    Event,
    EventObserver,
    revoked,
    state_shown,
)

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "events.md").read_text()
ASK = reply(act(("hand_to_human", '{"reason": "May I?"}')))
LOOK = reply(act(("look", '{"what": "x"}')))


class Monitor:
    """A monitor of tasks, such as Flower: it knows nothing but events."""

    def __init__(self) -> None:
        self.state: Any = State()
        self.events: list[Event] = []
        self.clock = 0

    def see(self, *events: Event) -> None:
        """Take up events as they come from the bus."""
        for kind, fields in events:
            self.events.append((kind, fields))
            self.clock += 1
            received = {"hostname": "w@lab", "clock": self.clock, "local_received": 1.0}
            self.state.event({"type": kind, "timestamp": 1.0, **received, **fields})

    def celery(self, *kinds: str) -> None:
        """What Celery itself sends of a message."""
        for kind in kinds:
            self.see((kind, {"uuid": "job-1", "name": "agent.clerk"}))

    @property
    def shown(self) -> str:
        """The job's state."""
        return str(self.state.tasks["job-1"].state)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The fields of each event of a type."""
        return [fields for one, fields in self.events if one == kind]


@pytest.fixture
def monitor() -> Monitor:
    """A monitor that has seen nothing."""
    return Monitor()


@pytest.fixture
def watched(monitor: Monitor, make_lab: Callable[..., Lab]) -> Callable[..., Lab]:
    """Makes a lab whose agent says these lines, and whose events the monitor sees."""
    return lambda *lines, **settings: make_lab(
        agent(*lines), EventObserver(lambda: True, monitor.see), **settings
    )


def begin(monitor: Monitor) -> None:
    """A message of the job is received, and taken by the pool."""
    monitor.celery("task-received", "task-started")


def test_a_running_job_is_shown_as_started_behind_each_step(
    monitor: Monitor, watched: Callable[..., Lab]
) -> None:
    lab = watched(LOOK, LOOK, slice_steps=1)
    lab.submit()
    begin(monitor)
    lab.slice()
    assert monitor.shown == "STARTED"
    [step] = monitor.of("task-step")
    assert (step["step"], step["tokens"], step["model"]) == (1, 110, "script")
    assert (step["prompt_tokens"], step["completion_tokens"]) == (100, 10)
    assert step["cost"] == pytest.approx(0.00012)


def test_a_pause_an_answer_and_the_end_are_shown(
    monitor: Monitor, watched: Callable[..., Lab]
) -> None:
    lab = watched(ASK, reply({"content": "done"}))
    lab.submit()
    begin(monitor)
    lab.slice()
    assert monitor.shown == "PAUSED"
    [paused] = monitor.of("task-paused")
    assert (paused["pause_id"], paused["kind"]) == ("p1", "hand_to_human")
    assert (paused["question"], paused["step"], paused["tokens"]) == ("May I?", 1, 110)
    lab.answer(Answer(value="yes", by="anna"))
    begin(monitor)
    assert monitor.shown == "PAUSED"
    lab.slice()
    [resumed] = monitor.of("task-resumed")
    assert (resumed["pause_id"], resumed["signal"], resumed["step"]) == ("p1", "answer", 1)
    assert "anna" not in str(monitor.events)
    monitor.celery("task-succeeded")
    assert monitor.shown == "SUCCESS"


def test_the_last_step_is_told_after_the_end_without_undoing_it(
    monitor: Monitor, watched: Callable[..., Lab]
) -> None:
    """The end comes from another process: nobody knows which of them is first."""
    lab = watched(reply({"content": "done"}))
    lab.submit()
    begin(monitor)
    monitor.celery("task-succeeded")
    lab.slice()
    assert monitor.of("task-step")
    assert monitor.of(SHOWS_RUNNING) == []
    assert monitor.shown == "SUCCESS"


@pytest.mark.parametrize("before", ["PAUSED", "STARTED", "RETRY"])
def test_a_cancel_is_shown_whatever_was(monitor: Monitor, before: str) -> None:
    begin(monitor)
    monitor.see(state_shown("job-1", before) if before != "PAUSED" else ("task-paused", UUID))
    assert monitor.shown == before
    monitor.see(revoked("job-1"))
    assert monitor.shown == "REVOKED"


UUID = {"uuid": "job-1"}


def test_a_job_that_waits_for_its_model_is_shown_so_until_it_is_taken_up(
    monitor: Monitor, watched: Callable[..., Lab]
) -> None:
    lab = watched(BUSY, reply({"content": "done"}))
    lab.submit()
    begin(monitor)
    lab.slice()
    assert monitor.shown == "RETRY"
    assert "hunter22" not in str(monitor.events)
    begin(monitor)
    assert monitor.shown == "STARTED"


def test_a_long_question_is_cut(monitor: Monitor, watched: Callable[..., Lab]) -> None:
    lab = watched(reply(act(("hand_to_human", f'{{"reason": "{"x" * 2000}"}}'))))
    lab.submit()
    lab.slice()
    [paused] = monitor.of("task-paused")
    assert len(paused["question"]) == MAX_QUESTION + 1


def test_nobody_pays_for_events_that_nobody_wants(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(agent(ASK), EventObserver(lambda: False, pytest.fail))
    lab.submit()
    lab.slice()


def test_the_page_lists_each_event_with_its_fields() -> None:
    for kind, fields in FIELDS.items():
        section = PAGE.partition(f"## `{kind}`")[2].partition("\n## ")[0]
        rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, re.MULTILINE))
        assert rows == fields, kind


def test_events_hold_the_documented_fields_and_no_other(
    monitor: Monitor, watched: Callable[..., Lab]
) -> None:
    lab = watched(ASK, reply({"content": "done"}))
    lab.submit()
    lab.slice()
    lab.answer(Answer(value="yes", by="anna"))
    lab.slice()
    for kind, fields in FIELDS.items():
        assert monitor.of(kind), kind
        for event in monitor.of(kind):
            assert event.keys() == fields.keys()


def test_celery_knows_no_task_attribute_that_a_field_would_replace() -> None:
    """Monitors keep an event's fields as attributes of the task."""
    own = {field for fields in FIELDS.values() for field in fields} - {"uuid", "name"}
    task = State().Task(uuid="x", cluster_state=None)
    assert [field for field in own if hasattr(task, field)] == []
    assert Celery(set_as_current=False).conf.event_serializer == "json"
