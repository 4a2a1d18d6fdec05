"""What an observer is told of the jobs it watches."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from api_client.contract import Answer, JobStatus, PauseKind
from tests.unit.telemetry.agents import BUSY, act, agent, reply
from tests.unit.telemetry.conftest import Lab, Noting
from worker.ends import Deferred, Ended, HandedOver, Left, Suspended
from worker.models.base import ModelError
from worker.telemetry.binding import bound
from worker.telemetry.observer import (
    Committed,
    JobClaimed,
    ModelCall,
    ModelCalled,
    Observer,
    Several,
    SliceEnded,
    Spent,
    ToolCall,
    ToolCalled,
)
from worker.telemetry.watch import kind_of
from worker.tools import Observation

LOOK = act(("look", '{"what": "it"}'))
ASK = act(("hand_to_human", '{"reason": "May I?"}'))


def only(moments: list[Any], kind: type) -> list[Any]:
    """The moments of one kind."""
    return [moment for moment in moments if isinstance(moment, kind)]


def test_a_job_is_told_from_claim_to_end(noting: Noting) -> None:
    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), noting)
    lab.submit()
    lab.slice()
    assert noting.kinds() == [
        "JobClaimed", "ModelCalled", "ToolCalled", "Committed", "Committed", "ModelCalled",
        "Committed", "SliceEnded",
    ]  # fmt: skip
    claimed = noting.moments[0]
    assert isinstance(claimed, JobClaimed)
    assert (claimed.was, claimed.tries, claimed.place.worker) == ("queued", 1, "w@lab/boot/1/")
    steps = [m.step for m in only(noting.moments, Committed)]
    assert steps == [1, 1, 2]
    assert [m.kind for m in only(noting.moments, Committed)] == ["reply", "observation", "finished"]
    (tool,) = only(noting.moments, ToolCalled)
    assert (tool.call.call.tool.name, tool.call.step, tool.ms) == ("look", 1, 5)
    assert isinstance(tool.result, Observation)
    assert isinstance(only(noting.moments, SliceEnded)[0].end, Ended)


def test_what_was_spent_adds_up_to_the_jobs_account(noting: Noting) -> None:
    lab = Lab(agent(reply(LOOK, (100, 10)), reply({"content": "Done."}, (200, 20))), noting)
    lab.submit()
    lab.slice()
    spent = [m.spent for m in only(noting.moments, Committed)]
    assert spent == [Spent(100, 10, 7, 120), Spent(), Spent(200, 20, 7, 240)]
    assert not spent[1]
    usage = lab.store.read("job-1").usage
    assert sum(s.prompt_tokens for s in spent) == usage.prompt_tokens == 300
    assert sum(s.completion_tokens for s in spent) == usage.completion_tokens == 30
    assert sum(s.cost_micros for s in spent) / 1e6 == usage.cost
    assert {m.model for m in only(noting.moments, Committed)} == {"script"}


def test_a_later_slice_tells_only_what_it_spent_itself(noting: Noting) -> None:
    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), noting, slice_steps=1)
    lab.submit()
    assert isinstance(lab.slice(), HandedOver)
    before = len(noting.moments)
    lab.slice()
    later = only(noting.moments[before:], Committed)
    assert sum(m.spent.prompt_tokens for m in later) == 100
    assert [m.step for m in later] == [1, 2]


def test_a_pause_and_its_answer_are_told(noting: Noting) -> None:
    lab = Lab(agent(reply(ASK), reply({"content": "Done."})), noting)
    lab.submit()
    lab.slice()
    (ended,) = only(noting.moments, SliceEnded)
    assert isinstance(ended.end, Suspended)
    assert ended.end.pause.kind is PauseKind.HAND_TO_HUMAN
    lab.now += 60_000
    lab.answer(Answer(value="yes", by="anna"))
    lab.now += 1_000
    lab.slice()
    resumed = only(noting.moments, JobClaimed)[-1]
    assert resumed.pause is not None
    assert resumed.signal.kind == "answer"
    assert resumed.waited_ms == 1_000


def test_a_model_error_is_told_with_its_class(noting: Noting) -> None:
    lab = Lab(agent(BUSY, reply({"content": "Done."})), noting)
    lab.submit()
    assert isinstance(lab.slice(), Deferred)
    (called,) = only(noting.moments, ModelCalled)
    assert isinstance(called.result, ModelError)
    assert (called.result.status, str(called.result)) == (
        429,
        "busy, says https://[hidden]@api.example",
    )
    (ended,) = only(noting.moments, SliceEnded)
    assert ended.error == "429"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelError("x", status=503, code="overloaded"), "503"),
        (ModelError("x", code="empty_response"), "empty_response"),
        (ModelError("x", code="Some prose, which would be a label each time"), "no_answer"),
        (ModelError("x"), "no_answer"),
    ],
)
def test_classes_of_model_errors_are_few(error: ModelError, kind: str) -> None:
    assert kind_of(error) == kind


def test_a_lease_that_was_lost_is_told_at_the_commit(noting: Noting) -> None:
    lab = Lab(agent(reply(LOOK)), noting)
    lab.submit()
    taken = False

    class Thief(Observer):
        """Takes the job while its model is asked."""

        def note(self, moment: Any) -> None:
            nonlocal taken
            if isinstance(moment, ModelCalled) and not taken:
                taken = True
                lab.now += 20_000
                lab.store.claim("job-1", owner="x", nonce="x", lease_ms=9, max_tries=5)

    lab.runner.observer = Several([noting, Thief()])
    end = lab.slice()
    assert end == Left("fenced")
    assert only(noting.moments, Committed) == []
    assert only(noting.moments, SliceEnded)[0].end == end


def test_a_job_whose_worker_died_is_told_as_running_before(noting: Noting) -> None:
    lab = Lab(agent(reply({"content": "Done."})), noting)
    lab.submit()
    lab.store.claim("job-1", owner="dead", nonce="x", lease_ms=1000, max_tries=5)
    lab.now += 2_000
    lab.slice()
    (claimed,) = only(noting.moments, JobClaimed)
    assert (claimed.was, claimed.tries) == (JobStatus.RUNNING, 2)


def test_calls_are_watched_from_begin_to_end(noting: Noting) -> None:
    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), noting)
    lab.submit()
    lab.slice()
    order = [(what, type(call)) for what, call in noting.calls]
    assert order == [
        ("begin", ModelCall), ("end", ModelCall), ("begin", ToolCall), ("end", ToolCall),
        ("begin", ModelCall), ("end", ModelCall),
    ]  # fmt: skip
    assert [c.step for what, c in noting.calls if what == "begin"] == [1, 1, 2]


def test_an_observer_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Observer):
        """Fails at everything."""

        def note(self, moment: Any) -> None:
            raise RuntimeError("no note")

        def calling(self, call: Any) -> Any:
            raise RuntimeError("no call")

        def headers(self, spec: Any) -> Any:
            raise RuntimeError("no headers")

    noting = Noting()
    watching = Several([Broken(), noting])
    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), watching)
    spec = lab.submit()
    with caplog.at_level(logging.ERROR):
        assert isinstance(lab.slice(), Ended)
        assert watching.headers(spec) == {}
    assert lab.store.read("job-1").status is JobStatus.SUCCEEDED
    assert len(noting.moments) == 8
    assert "Broken failed at JobClaimed" in caplog.text
    assert "Broken failed at a call" in caplog.text
    assert "Broken failed at headers" in caplog.text


def test_running_code_knows_its_job_and_step_and_nothing_after_it(noting: Noting) -> None:
    seen: list[Any] = []

    class Looking(Observer):
        """Notes what is bound where a moment happens."""

        def note(self, moment: Any) -> None:
            here = bound()
            seen.append((type(moment).__name__, here and dict(here.fields)))

    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), Looking())
    lab.submit()
    lab.slice()
    job = {"job": "job-1", "agent": "clerk"}
    assert seen[0] == ("JobClaimed", job)
    assert ("ToolCalled", {**job, "step": 1}) in seen
    assert bound() is None
