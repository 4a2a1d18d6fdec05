"""Commands that change nothing."""

from __future__ import annotations

import json

import pytest

from api_client.contract import JobStatus, PauseKind, ProposedAction
from api_client.errors import InvalidInput, JobNotFound
from tests.support.paused import ended_job, paused_job
from tests.unit.cli.conftest import Desk
from worker.cli import looking

REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"euro": 50})


def test_status_of_a_waiting_job_says_what_to_do(desk: Desk) -> None:
    paused_job(desk.store, kind=PauseKind.APPROVAL, question="May it run?", action=REFUND)
    said = desk.run(looking.status, "job-1")
    facts = dict(line.split("  ", 1) for line in said.out.splitlines() if line[0] != " ")
    assert facts["status"].strip() == "paused"
    assert facts["question"].strip() == "May it run?"
    assert facts["about"].strip() == "refund(euro=50)"
    assert facts["answer with"].strip() == "stepkeeper approve job-1"
    assert 'stepkeeper reject job-1 "REASON"' in said.out
    assert "tenant" not in facts


def test_status_of_an_ended_job_shows_its_answer_or_reason(desk: Desk) -> None:
    ended_job(desk.store, "good", value={"total": 420})
    ended_job(desk.store, "bad", reason="poison")
    assert 'answer   {"total": 420}' in desk.run(looking.status, "good").out
    assert "reason   it is poison [poison]" in desk.run(looking.status, "bad").out


def test_status_says_that_a_cancel_is_wanted(desk: Desk) -> None:
    desk.job()
    desk.store.claim("job-1", owner="w@t/b/1/", nonce="n", lease_ms=9000, max_tries=5)
    desk.store.cancel("job-1", by="anna")
    said = desk.run(looking.status, "job-1").out
    assert "running (a cancel is wanted)" in said
    assert "worker   w@t" in said


def test_status_names_the_job_that_asked_for_this_one(desk: Desk) -> None:
    desk.job(parent="job-0")
    assert "parent   job-0" in desk.run(looking.status, "job-1").out


def test_status_as_json_is_the_whole_record(desk: Desk) -> None:
    desk.job(labels=("cs",), tenant="t1")
    value = desk.run(looking.status, "job-1", json=True).value
    assert value == desk.store.read("job-1").model_dump(mode="json")


def test_status_of_an_unknown_job_is_refused(desk: Desk) -> None:
    with pytest.raises(JobNotFound, match="no job 'nobody'"):
        desk.run(looking.status, "nobody")


def test_trace_is_printed_or_one_json_object_a_record(desk: Desk) -> None:
    ended_job(desk.store, "job-1", value="Done.")
    assert "answer        Done.\n" in desk.run(looking.trace, "job-1").out
    lines = desk.run(looking.trace, "job-1", json=True).out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["submitted", "claimed", "finished"]


def test_trace_follows_to_the_end(desk: Desk) -> None:
    ended_job(desk.store, "job-1", value="Done.")
    assert "answer        Done.\n" in desk.run(looking.trace, "job-1", follow=True).out


def test_trace_refuses_what_is_no_offset_before_it_prints(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.job()
    with pytest.raises(InvalidInput, match="trace offset 'yesterday'"):
        desk.run(looking.trace, "job-1", after="yesterday")
    assert capsys.readouterr().out == ""


def test_inbox_lists_who_waits_for_what(desk: Desk) -> None:
    paused_job(desk.store, "job-1", question="May I\n\x1b[2Jpay?")
    paused_job(desk.store, "job-2", kind=PauseKind.BUDGET, question="More?")
    head, first, second, third = desk.run(looking.inbox).out.splitlines()
    assert head.split() == ["job", "agent", "waits", "for", "question"]
    assert first.split()[:2] == ["job-1", "shop"]
    assert "hand_to_human" in first
    assert second.strip() == "\\x1b[2Jpay?"
    assert "budget" in third
    value = desk.run(looking.inbox, json=True).value
    assert [item["pause"]["question"] for item in value] == ["May I\n\x1b[2Jpay?", "More?"]
    assert len(desk.run(looking.inbox, 1, json=True).value) == 1


def test_inbox_in_a_narrow_window_cuts_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    job_id = "0a979bf1-8a99-4cc5-8606-c5f0cdcfbf4c"
    paused_job(desk.store, job_id, question="May I pay " + "much " * 12)
    said = desk.run(looking.inbox).out
    assert "0a979bf1-8a99-4cc5-8606-c5f0cdcfbf4c"[:28] in said
    assert said.count("much") == 12
    assert max(map(len, said.splitlines())) <= 40


def test_an_empty_inbox_says_so(desk: Desk) -> None:
    assert desk.run(looking.inbox).out == "nobody is waited for\n"
    assert desk.run(looking.inbox, json=True).value == []


def test_jobs_are_counted_by_status(desk: Desk) -> None:
    desk.job("a")
    paused_job(desk.store, "b")
    value = desk.run(looking.jobs, json=True).value
    assert list(value) == [str(status) for status in JobStatus]
    assert (value["queued"], value["paused"], value["failed"]) == (1, 1, 0)
    assert "queued     1\n" in desk.run(looking.jobs).out


def test_jobs_of_one_status_are_listed(desk: Desk) -> None:
    desk.job("a", input="first line\nsecond")
    desk.job("b")
    said = desk.run(looking.jobs, "queued").out
    assert "first line" in said
    assert "second" not in said
    ids = [item["spec"]["job_id"] for item in desk.run(looking.jobs, "queued", json=True).value]
    assert sorted(ids) == ["a", "b"]
    assert desk.run(looking.jobs, "failed").out == "no job is failed\n"


def test_a_list_is_paged_and_filtered(desk: Desk) -> None:
    for number in range(3):
        desk.job(f"n{number}", tenant="north", labels=("sales",))
    desk.job("other")
    first = desk.run(looking.jobs, "queued", 2, oldest=True, tenant="north", json=True)
    cursor = json.loads(first.err)["next_cursor"]
    rest = desk.run(looking.jobs, "queued", 2, True, label="sales", tenant="north", cursor=cursor)
    assert [item["spec"]["job_id"] for item in first.value] == ["n0", "n1"]
    assert "n2" in rest.out
    assert rest.err == ""
    assert "go on with --cursor " in desk.run(looking.jobs, "queued", 2, True).err


def test_an_unknown_status_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="--status 'lost': give one of queued, running"):
        desk.run(looking.jobs, "lost")


def test_agents_are_listed_with_their_queues(desk: Desk) -> None:
    head, line = desk.run(looking.agents).out.splitlines()
    assert head.split() == ["agent", "version", "queue", "announced", "description"]
    assert line.split()[:3] == ["shop", "1", "celery"]
    assert desk.run(looking.agents, json=True).value[0]["name"] == "shop"


def test_without_a_worker_there_are_no_agents(desk: Desk) -> None:
    desk.store._agents.clear()
    assert desk.run(looking.agents).out == "no worker has announced any\n"
