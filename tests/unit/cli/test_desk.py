"""Telling jobs, deciding many, following: the commands of the human desk."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import JobStatus, PauseKind, ProposedAction
from api_client.errors import Conflict, InvalidInput
from tests.support.paused import ended_job, paused_job
from tests.unit.cli.conftest import Desk
from worker.cli import desk as commands
from worker.cli import failures, looking

REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"euro": 50})


def fill(desk: Desk) -> None:
    paused_job(desk.store, "a", PauseKind.APPROVAL, action=REFUND)
    paused_job(desk.store, "b", PauseKind.BUDGET, budget="steps")
    paused_job(desk.store, "c", PauseKind.APPROVAL, action=REFUND)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a", "b", "c"]),
        ({"kind": "approval"}, ["a", "c"]),
        ({"agent": "nobody"}, []),
        ({"label": ""}, ["a", "b", "c"]),
        ({"label": "sales"}, []),
        ({"older_than": 3600.0}, []),
    ],
)
def test_the_inbox_is_filtered(desk: Desk, options: dict[str, Any], expected: list[str]) -> None:
    fill(desk)
    said = desk.run(looking.inbox, json=True, **options)
    assert sorted(item["spec"]["job_id"] for item in said.value) == expected


def test_the_inbox_says_how_to_go_on(desk: Desk) -> None:
    fill(desk)
    said = desk.run(looking.inbox, 2)
    assert "go on with --cursor " in said.err
    cursor = said.err.split()[-1]
    rest = desk.run(looking.inbox, 2, cursor=cursor, json=True)
    assert len(rest.value) == 1
    assert rest.err == ""


@pytest.mark.parametrize("options", [{"kind": "lunch"}, {"order": "random"}, {"cursor": "x"}])
def test_an_inbox_that_cannot_be_meant_is_refused(desk: Desk, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        desk.run(looking.inbox, **options)


def test_a_message_is_stored_with_its_author(desk: Desk) -> None:
    job = desk.job()
    said = desk.run(commands.message, job, "Be quick.", by="anna", note="late")
    assert (said.code, said.out) == (0, "job job-1 reads it before its next step\n")
    (mail,) = desk.store.mail(job)
    assert (mail.text, mail.by, mail.note) == ("Be quick.", "anna", "late")


def test_a_job_is_paused(desk: Desk) -> None:
    job = desk.job()
    assert desk.run(commands.pause, job, by="anna", json=True).value["by"] == "anna"
    wish = desk.store.read(job).pause_wanted
    assert wish is not None
    assert wish.by == "anna"
    ended_job(desk.store, "over", "x")
    with pytest.raises(Conflict, match="has ended"):
        desk.run(commands.pause, "over", by="anna")


def test_a_job_is_taken_over(desk: Desk) -> None:
    paused_job(desk.store, "a", PauseKind.HAND_TO_HUMAN, action=REFUND)
    said = desk.run(commands.edit, "a", "Look again.", answers='{"c1": 5}', by="anna")
    assert said.out == "edit by anna accepted; job a goes on\n"
    data = desk.store.events("a")[-1].data
    assert (data["answers"], data["message"]) == ({"c1": 5}, "Look again.")


def test_a_job_is_failed(desk: Desk) -> None:
    paused_job(desk.store, "a")
    assert desk.run(commands.fail, "a", "no use", by="anna").code == 0
    assert desk.store.events("a")[-1].data["reason"] == "no use"


def test_bulk_only_says_what_it_would_do_unless_told(desk: Desk) -> None:
    fill(desk)
    said = desk.run(commands.bulk, "reject", "too late", kind="approval", by="anna")
    assert said.code == failures.OK
    assert said.out.count("yes") == 2
    assert said.err == (
        "stepkeeper: 2 would take it, 0 would not; nothing was done: --yes does it\n"
    )
    assert desk.store.count(JobStatus.PAUSED) == 3


def test_bulk_reports_each_job(desk: Desk) -> None:
    fill(desk)
    said = desk.run(commands.bulk, "approve", by="anna", dry_run=False)
    assert said.code == failures.REFUSED
    assert "takes no 'approve'" in said.out
    assert said.err == "stepkeeper: 2 took it, 1 did not\n"
    assert [v.job_id for v in desk.store.list_jobs(JobStatus.PAUSED)] == ["b"]
    report = desk.run(commands.bulk, "cancel", json=True, by="anna", dry_run=False).value
    assert report["items"] == [{"job_id": "b", "pause_id": "p1", "done": True, "error": ""}]
    assert desk.run(commands.bulk, "cancel", by="anna").out == "no such job\n"


def test_events_of_all_jobs_are_told_one_a_line(desk: Desk) -> None:
    fill(desk)
    desk.store.cancel("b", "anna", "\x1b[31mred")
    said = desk.run(commands.events, after="", for_s=0.0)
    lines = said.out.splitlines()
    assert [line.split()[2] for line in lines] == ["paused"] * 3 + ["cancelled"]
    assert "\\x1b[31mred" in lines[-1]
    values = desk.run(commands.events, after="", for_s=0.0, json=True).out.splitlines()
    assert len(values) == 4


def test_deliveries_are_listed(desk: Desk) -> None:
    assert desk.run(commands.deliveries).out == "nothing was announced\n"
    paused_job(desk.store, "a")
    desk.store._announce(desk.store._jobs["a"], ["webhook"], "paused")
    (post,) = desk.store.fetch_post(1, 1000)
    desk.store.note_post(post.post_id, "given_up", "the receiver answered 500")
    (value,) = desk.run(commands.deliveries, "a", json=True).value
    assert (value["state"], value["error"]) == ("given_up", "the receiver answered 500")
    assert "given_up" in desk.run(commands.deliveries).out


def test_watching_shows_the_trace_to_its_end(desk: Desk) -> None:
    ended_job(desk.store, "over", "42")
    said = desk.run(commands.watch, "over")
    assert "succeeded" in said.out
