"""Handing in a job, and waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from api_client.contract import JobStatus
from api_client.errors import IdempotencyConflict, InvalidInput, UnknownAgent
from tests.support.paused import ended_job, paused_job
from tests.unit.cli.conftest import Desk
from worker.cli import failures
from worker.cli.submitting import submit, wait_for


def test_the_id_of_the_job_is_all_that_is_printed(desk: Desk) -> None:
    said = desk.run(submit, "shop", "Where is 1187?")
    job_id = said.out.strip()
    assert (said.code, said.err) == (0, "")
    assert desk.store.read(job_id).spec.input == "Where is 1187?"
    assert desk.run(submit, "shop", "x", json=True).value.keys() == {"job_id"}


def test_everything_that_belongs_to_a_job_can_be_given(desk: Desk) -> None:
    said = desk.run(
        submit,
        "shop",
        '{"order": 7}',
        as_json=True,
        metadata='{"user": 1}',
        tenant="t1",
        label=["cs", "de"],
        priority="3",
        delay=60.0,
    )
    view = desk.store.read(said.out.strip())
    assert view.spec.input == {"order": 7}
    assert view.spec.metadata == {"user": 1}
    assert (view.spec.tenant, view.spec.labels) == ("t1", ("cs", "de"))
    assert view.spec.message["priority"] == 3
    assert view.status is JobStatus.WAITING


def test_one_key_is_one_job(desk: Desk) -> None:
    first, second = (desk.run(submit, "shop", "x", idempotency_key="k").out for _ in range(2))
    assert first == second
    with pytest.raises(IdempotencyConflict, match="exists with another input"):
        desk.run(submit, "shop", "y", idempotency_key="k")


def test_bad_input_accepts_no_job(desk: Desk) -> None:
    with pytest.raises(UnknownAgent, match="unknown agent 'shpo'; workers have announced: shop"):
        desk.run(submit, "shpo", "x")
    with pytest.raises(InvalidInput, match="--metadata: not JSON"):
        desk.run(submit, "shop", "x", metadata="user=1")
    with pytest.raises(InvalidInput, match="the text: not JSON"):
        desk.run(submit, "shop", "x", as_json=True)
    with pytest.raises(InvalidInput, match="an agent name has"):
        desk.run(submit, "no such", "x", no_check=True)
    assert desk.store.count(JobStatus.QUEUED) == 0


def test_an_agent_that_nobody_announced_can_be_asked_all_the_same(desk: Desk) -> None:
    said = desk.run(submit, "later", "x", no_check=True)
    assert desk.store.read(said.out.strip()).spec.agent == "later"


def test_waiting_prints_the_trace_beside_and_the_answer_alone(desk: Desk) -> None:
    ended_job(desk.store, "job-1", value={"total": 420})
    said = desk.run(wait_for, "job-1", 5.0)
    assert (said.code, said.out) == (failures.OK, '{"total": 420}\n')
    assert "worker        w@t" in said.err
    assert "succeeded · " in said.err
    assert "420" not in said.err


def test_waiting_for_a_job_that_fails(desk: Desk) -> None:
    ended_job(desk.store, "job-1", reason="poison")
    said = desk.run(wait_for, "job-1", 5.0)
    assert (said.code, said.out) == (failures.FAILED, "")
    assert "reason        it is poison [poison]" in said.err


def test_waiting_ends_at_a_pause_and_says_how_to_answer(desk: Desk) -> None:
    paused_job(desk.store)
    said = desk.run(wait_for, "job-1", 5.0)
    assert (said.code, said.out) == (failures.PAUSED, "")
    assert "paused        May I?" in said.err
    assert 'stepkeeper answer job-1 "TEXT"' in said.err


def test_waiting_too_long_says_how_to_go_on(desk: Desk) -> None:
    desk.job()
    said = desk.run(wait_for, "job-1", 0.01)
    assert said.code == failures.TIMED_OUT
    assert said.err.splitlines()[-1] == (
        "stepkeeper: job job-1 is still queued after 0.01 s and goes on; "
        "see: stepkeeper trace job-1 --follow"
    )


@pytest.mark.parametrize(
    ("make", "code", "status"),
    [
        (lambda desk: ended_job(desk.store, "job-1", value="x"), 0, "succeeded"),
        (lambda desk: ended_job(desk.store, "job-1", reason="poison"), 1, "failed"),
        (lambda desk: paused_job(desk.store), 3, "paused"),
        (lambda desk: desk.job(), 4, "queued"),
    ],
)
def test_waiting_as_json_prints_the_record_alone(
    desk: Desk, make: Callable[[Desk], str], code: int, status: str
) -> None:
    make(desk)
    said = desk.run(wait_for, "job-1", 0.01, json=True)
    assert (said.code, said.value["status"], said.err) == (code, status, "")


def test_a_job_is_followed_while_it_runs(desk: Desk) -> None:
    desk.job()
    later = threading.Timer(0.05, lambda: desk.store.cancel("job-1", by="anna"))
    later.start()
    said = desk.run(wait_for, "job-1", 30.0)
    later.join()
    assert said.code == failures.FAILED
    assert "cancel        wanted by anna" in said.err


def test_an_interrupt_ends_the_waiting_and_not_the_job(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.submitting.wait_for", interrupted)
    said = desk.run(submit, "shop", "x", wait=True)
    assert said.code == failures.INTERRUPTED
    assert "goes on; see: stepkeeper trace" in said.err
    assert desk.store.count(JobStatus.QUEUED) == 1
