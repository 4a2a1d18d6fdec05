"""What happens at a deadline: on a store whose time is moved, not slept."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import Answer, JobStatus, Reject
from api_client.errors import AlreadyAnswered, JobFailed
from worker.agent import Agent
from worker.appointments import keep_appointment
from worker.models.scripted import act
from worker.pauses import Escalate
from worker.testing import InlineClient
from worker.tools import hand_to_human, tool

DAY = 24 * 3600.0


@tool(approval=True)
def refund(euro: int) -> str:
    """Pay back."""
    return f"{euro} € paid"


class Desk:
    """One paused job and the sweeps over it."""

    def __init__(self, call: tuple[str, dict[str, Any]], **options: Any) -> None:
        agent = Agent(name="shop", goal="Sell.", tools=[refund, hand_to_human], **options)
        self.client = InlineClient([agent], model=[act("", call), "done"])
        self.store = self.client.worker.store
        self.id = self.client.submit("shop", "x")
        self.channels: list[tuple[str, str]] = []

    def sweep(self) -> list[str]:
        """As a keeper does; returns the ids of the jobs that go on."""
        going = []
        for hint in self.store.sweep(limit=10, grace_ms=1000, cap_ms=1000):
            if hint.status is JobStatus.PAUSED:
                spec = keep_appointment(self.store, hint.spec.job_id, self._channels)
                going += [spec.job_id] if spec else []
        for job_id in going:
            self.client.worker.run(job_id)
        return going

    def _channels(self, agent: str, event: str) -> tuple[str, ...]:
        self.channels.append((agent, event))
        return ("webhook",)

    def after(self, seconds: float) -> list[str]:
        """Let time pass, then sweep until nothing is due."""
        self.store.skip(seconds)
        going: list[str] = []
        while any(h for h in [self.sweep()] if h):
            going.append(self.id)
        return going


ASK = ("hand_to_human", {"reason": "?"})
PAY = ("refund", {"euro": 5})


def test_nothing_happens_before_the_deadline() -> None:
    desk = Desk(ASK, pause_deadline_s=2 * DAY, on_deadline=Answer(value="no"))
    assert desk.after(2 * DAY - 1) == []
    assert desk.client.get(desk.id).status is JobStatus.PAUSED


def test_the_default_answer_is_given_by_the_deadline() -> None:
    desk = Desk(ASK, pause_deadline_s=2 * DAY, on_deadline=Answer(value="no"))
    assert desk.after(2 * DAY) == [desk.id]
    assert desk.client.result(desk.id) == "done"
    (event,) = [e for e in desk.client.trace(desk.id) if e.kind == "signal"]
    assert (event.data["by"], event.data["value"]) == ("deadline", "no")


def test_a_rejection_is_read_by_the_model() -> None:
    desk = Desk(PAY, pause_deadline_s=60, on_deadline=Reject(reason="nobody was there"))
    desk.after(60)
    assert desk.client.result(desk.id) == "done"
    assert "nobody was there" in desk.client.messages(desk.id)[3]["content"]


def test_without_a_decision_the_job_fails_and_says_why() -> None:
    desk = Desk(ASK, pause_deadline_s=60)
    desk.after(60)
    with pytest.raises(JobFailed, match="nobody answered in time") as caught:
        desk.client.result(desk.id)
    assert caught.value.reason == "deadline"


def test_people_are_reminded_then_others_are_asked_then_it_is_decided() -> None:
    desk = Desk(
        ASK,
        labels=("desk",),
        pause_deadline_s=100,
        remind_after_s=(40,),
        on_deadline=Escalate(("leads",), within_s=50, then=Answer(value="no")),
    )
    seen = []
    for seconds in (40, 60, 40, 10):
        desk.after(seconds)
        view = desk.client.get(desk.id)
        seen.append((view.status, view.pause.labels if view.pause else ()))
    assert seen == [
        (JobStatus.PAUSED, ("desk",)),
        (JobStatus.PAUSED, ("leads",)),
        (JobStatus.PAUSED, ("leads",)),
        (JobStatus.SUCCEEDED, ()),
    ]
    kinds = [e.kind for e in desk.client.trace(desk.id)]
    assert [k for k in kinds if k in ("reminder", "escalated", "signal")] == [
        "reminder",
        "escalated",
        "reminder",
        "signal",
    ]
    assert desk.channels == [("shop", "reminder"), ("shop", "escalated"), ("shop", "reminder")]
    told = [d.event for d in desk.client.deliveries(desk.id)]
    assert sorted(told) == ["escalated", "reminder", "reminder"]


def test_a_person_who_answers_first_wins_over_the_deadline() -> None:
    desk = Desk(ASK, pause_deadline_s=60, on_deadline=Answer(value="no"))
    desk.store.skip(60)
    (hint,) = desk.store.sweep(limit=10, grace_ms=1000, cap_ms=1000)
    desk.client.signal(desk.id, {"kind": "answer", "value": "yes", "by": "anna"})
    assert keep_appointment(desk.store, hint.spec.job_id, desk._channels) is None
    assert "yes" in desk.client.messages(desk.id)[3]["content"]


def test_a_person_who_comes_after_the_deadline_is_told_so() -> None:
    desk = Desk(ASK, pause_deadline_s=60, on_deadline=Answer(value="no"))
    desk.after(60)
    with pytest.raises(AlreadyAnswered, match="answered by deadline"):
        desk.client.signal(desk.id, {"kind": "answer", "value": "yes"}, pause_id="p1")


def test_a_job_that_is_gone_or_answered_has_no_appointments() -> None:
    desk = Desk(ASK, pause_deadline_s=60)
    assert keep_appointment(desk.store, "unknown", desk._channels) is None
    desk.client.cancel(desk.id)
    assert keep_appointment(desk.store, desk.id, desk._channels) is None
