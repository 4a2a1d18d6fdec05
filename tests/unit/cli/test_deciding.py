"""What people decide: signals, and cancelling."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest

from api_client.contract import JobStatus, PauseKind, ProposedAction
from api_client.errors import (
    AlreadyAnswered,
    InvalidInput,
    JobNotFound,
    NotPaused,
    SignalRefused,
    WrongPause,
)
from tests.support.paused import ended_job, paused_job
from tests.unit.cli.conftest import Desk
from worker.cli import deciding, failures

REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"euro": 50})


def last_signal(desk: Desk) -> dict[str, Any]:
    """The signal that the trace of job-1 ends with."""
    event = desk.store.events("job-1")[-1]
    assert event.kind == "signal"
    return event.data


@pytest.mark.parametrize(
    ("kind", "function", "args", "fields"),
    [
        (PauseKind.HAND_TO_HUMAN, deciding.answer, ("yes",), {"kind": "answer", "value": "yes"}),
        (PauseKind.APPROVAL, deciding.approve, (), {"kind": "approve", "arguments": None}),
        (PauseKind.APPROVAL, deciding.reject, ("no",), {"kind": "reject", "reason": "no"}),
        (PauseKind.BUDGET, deciding.extend, ("2.5",), {"kind": "extend", "amount": 2.5}),
        (PauseKind.BUDGET, deciding.finish, ("420",), {"kind": "finish", "answer": "420"}),
        (PauseKind.MODEL_ERROR, deciding.retry, (), {"kind": "retry"}),
    ],
)
def test_each_short_form_sends_its_signal(
    desk: Desk,
    kind: PauseKind,
    function: Callable[..., int],
    args: tuple[str, ...],
    fields: dict[str, Any],
) -> None:
    paused_job(desk.store, kind=kind, action=REFUND)
    said = desk.run(function, "job-1", *args, by="anna", note="because")
    assert (said.code, said.out) == (0, f"{fields['kind']} by anna accepted; job job-1 goes on\n")
    assert last_signal(desk) == {**fields, "by": "anna", "note": "because"}


@pytest.mark.parametrize(
    ("kind", "args", "fields"),
    [
        (PauseKind.HAND_TO_HUMAN, ("answer", "yes"), {"value": "yes"}),
        (PauseKind.APPROVAL, ("approve",), {"arguments": None}),
        (PauseKind.APPROVAL, ("reject", "no"), {"reason": "no"}),
        (PauseKind.BUDGET, ("extend", "3"), {"amount": 3.0}),
        (PauseKind.BUDGET, ("finish", "x"), {"answer": "x"}),
        (PauseKind.MODEL_ERROR, ("retry",), {}),
        (PauseKind.UNKNOWN_OUTCOME, ("happened", "paid"), {"result": "paid"}),
        (PauseKind.UNKNOWN_OUTCOME, ("happened",), {"result": "done"}),
        (PauseKind.UNKNOWN_OUTCOME, ("did_not_happen",), {}),
    ],
)
def test_every_kind_of_signal_can_be_sent(
    desk: Desk, kind: PauseKind, args: tuple[str, ...], fields: dict[str, Any]
) -> None:
    paused_job(desk.store, kind=kind, action=REFUND)
    assert desk.run(deciding.signal, "job-1", *args, by="bo").code == 0
    assert last_signal(desk) == {"kind": args[0], "by": "bo", "note": "", **fields}
    assert desk.store.read("job-1").status is JobStatus.QUEUED


def test_changed_arguments_go_with_an_approval(desk: Desk) -> None:
    paused_job(desk.store, "job-1", PauseKind.APPROVAL, action=REFUND)
    desk.run(deciding.approve, "job-1", arguments='{"euro": 5}', by="a")
    assert last_signal(desk)["arguments"] == {"euro": 5}
    paused_job(desk.store, "job-2", PauseKind.APPROVAL, action=REFUND)
    desk.run(deciding.signal, "job-2", "approve", arguments='{"euro": 6}', by="a")
    assert desk.store.events("job-2")[-1].data["arguments"] == {"euro": 6}


def test_who_decides_is_the_user_unless_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "cleo")
    paused_job(desk.store)
    said = desk.run(deciding.answer, "job-1", "yes", json=True)
    assert said.value == {"job_id": "job-1", "accepted": "answer", "by": "cleo"}
    assert last_signal(desk)["by"] == "cleo"


def test_an_answer_may_be_json_or_come_from_a_pipe(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused_job(desk.store, "job-1")
    desk.run(deciding.answer, "job-1", '{"ok": true}', as_json=True)
    assert last_signal(desk)["value"] == {"ok": True}
    paused_job(desk.store, "job-2")
    monkeypatch.setattr(sys, "stdin", io.StringIO("line one\nline two\n"))
    desk.run(deciding.answer, "job-2", "-")
    assert desk.store.events("job-2")[-1].data["value"] == "line one\nline two"


@pytest.mark.parametrize(
    ("args", "error", "said"),
    [
        (("dance",), InvalidInput, "no signal 'dance'; give one of answer, approve"),
        (("retry", "now"), InvalidInput, "retry takes no value"),
        (("extend", "much"), SignalRefused, "extend.amount: Input should be a valid number"),
        (("extend", "-1"), SignalRefused, "extend.amount: Input should be greater than 0"),
        (("answer",), SignalRefused, "answer.value: Field required"),
        (("answer", "  "), SignalRefused, "the answer is empty"),
        (("approve",), SignalRefused, "this pause takes no 'approve', but: answer, finish"),
    ],
)
def test_a_signal_of_the_wrong_form_changes_nothing(
    desk: Desk, args: tuple[str, ...], error: type[Exception], said: str
) -> None:
    paused_job(desk.store)
    before = desk.store.events("job-1")
    with pytest.raises(error, match=said):
        desk.run(deciding.signal, "job-1", *args)
    assert desk.store.events("job-1") == before
    assert desk.store.read("job-1").status is JobStatus.PAUSED


def test_arguments_belong_to_an_approval(desk: Desk) -> None:
    paused_job(desk.store)
    with pytest.raises(SignalRefused, match=r"answer\.arguments: Extra inputs are not permitted"):
        desk.run(deciding.signal, "job-1", "answer", "yes", arguments="{}")


def test_a_signal_for_the_wrong_pause_or_job_is_refused(desk: Desk) -> None:
    paused_job(desk.store)
    with pytest.raises(WrongPause, match="pause 'p9' is not the open one; answer 'p1'"):
        desk.run(deciding.answer, "job-1", "yes", pause="p9")
    with pytest.raises(JobNotFound):
        desk.run(deciding.answer, "nobody", "yes")
    desk.job("job-2")
    with pytest.raises(NotPaused, match="job job-2 is queued, not paused"):
        desk.run(deciding.answer, "job-2", "yes")


def test_who_comes_late_is_told_who_was_first(desk: Desk) -> None:
    paused_job(desk.store)
    desk.run(deciding.answer, "job-1", "yes", by="anna")
    with pytest.raises(NotPaused, match=r"its last pause was answered by anna \(answer\) at "):
        desk.run(deciding.answer, "job-1", "no", by="ben")


def test_a_second_signal_is_told_who_was_first(desk: Desk) -> None:
    paused_job(desk.store)
    desk.run(deciding.answer, "job-1", "yes", by="anna", pause="p1")
    with pytest.raises(AlreadyAnswered, match="was answered by anna"):
        desk.run(deciding.answer, "job-1", "no", by="bo", pause="p1")
    assert last_signal(desk)["by"] == "anna"


def test_cancel_ends_a_queued_job_and_says_by_whom(desk: Desk) -> None:
    desk.job()
    said = desk.run(deciding.cancel, "job-1", by="anna", note="sent twice")
    assert (said.code, said.out) == (0, "job job-1 is cancelled\n")
    outcome = desk.store.read("job-1").outcome
    assert outcome is not None
    assert outcome.text == "cancelled by anna: sent twice"
    assert desk.run(deciding.cancel, "job-1").code == 0


def test_cancel_of_a_running_job_waits_for_its_call(desk: Desk) -> None:
    desk.job()
    desk.store.claim("job-1", owner="w@t/b/1/", nonce="n", lease_ms=9000, max_tries=5)
    said = desk.run(deciding.cancel, "job-1", json=True)
    assert said.value == {"job_id": "job-1", "status": "running", "pending": True}
    assert desk.run(deciding.cancel, "job-1").out == (
        "job job-1 ends as soon as its running call is over\n"
    )


def test_cancel_of_an_ended_job_says_that_nothing_was_changed(desk: Desk) -> None:
    ended_job(desk.store, "job-1", value="x")
    said = desk.run(deciding.cancel, "job-1")
    assert said.code == failures.REFUSED
    assert said.out == "job job-1 has succeeded before; nothing was changed\n"
