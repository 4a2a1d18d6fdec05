"""From the evidence to the verdict: a clean run is clean, and every fault is seen."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from api_client.contract import Event, JobSpec, JobStatus, JobView, Outcome, Pause, PauseKind
from worker.chaos.evidence import Evidence, JobFacts
from worker.chaos.ledger import Entries, ModelCall
from worker.chaos.options import Options
from worker.chaos.plan import PlannedJob
from worker.chaos.report import Recovery, Report
from worker.chaos.script import Script
from worker.chaos.verdict import judge
from worker.chaos.wreck import Victim

ANSWER = "<put 1.1.0> <pay 1.2.0>"
CALLS = tuple(ModelCall(f"1.{step}", 100 * step) for step in (1, 2, 3))
DONE = Counter({("put", "1.1.0"): 1, ("pay", "1.2.0"): 1})
PAUSE = Pause(id="p1", kind=PauseKind.HAND_TO_HUMAN, question="question 1.1.0", accepts=())


def event(at: int, kind: str, /, **data: Any) -> Event:
    """A record of a trace."""
    return Event(id=f"{at}-0", kind=kind, data=data)


TRACE = (
    event(90, "claimed"),
    event(110, "reply", i=2, s=1),
    event(120, "observation", i=3, s=1),
    event(210, "reply", i=4, s=2),
    event(220, "observation", i=5, s=2),
    event(310, "finished", i=6, s=3),
)


def view(status: JobStatus = JobStatus.SUCCEEDED, **fields: Any) -> JobView:
    """A job at the end."""
    spec = JobSpec(job_id="j1", agent="chaos", input="job 1: put pay")
    defaults = {"published": True, "outcome": Outcome(ok=True, value=ANSWER)}
    return JobView(spec=spec, status=status, created=0, **(defaults | fields))


def facts(**fields: Any) -> JobFacts:
    """A job that has come to the right end, but for the given fields."""
    job = PlannedJob("put", Script(1, ("put", "pay")))
    right = JobFacts(job, "j1", view(), TRACE, "SUCCESS", ANSWER)
    return replace(right, **fields)


def evidence(job: JobFacts | None = None, **fields: Any) -> Evidence:
    """A clean run of one job, but for the given fields."""
    clean = Evidence(
        options=Options(jobs=1, kills=0, redis_restarts=0),
        jobs=(job or facts(),),
        ledger=Entries(CALLS, DONE, DONE),
        victims=(),
        moments=(),
        deeds={},
        signals=0,
        signals_refused=0,
        cancels=0,
        surroundings={"versions": {}, "machine": {"cpus": 2}},
    )
    return replace(clean, **fields)


def verdict(job: JobFacts | None = None, **fields: Any) -> Report:
    """The report on that."""
    return judge(evidence(job, **fields), elapsed_s=1.0)


def why(job: JobFacts) -> str:
    """Why a job is lost, if it is."""
    return verdict(job).lost_jobs.get("j1", "")


def test_a_clean_run_has_no_faults() -> None:
    report = verdict()
    assert report.faults == {}
    assert report.lost_jobs == {}
    assert report.effects["once"].expected == report.effects["once"].seen == 1
    assert "nothing lost, nothing doubled" in report.table()


# --- lost jobs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"view": None, "events": ()}, "its record is gone"),
        ({"view": view(JobStatus.RUNNING)}, "still running"),
        ({"view": view(JobStatus.PAUSED, pause=PAUSE)}, "still paused (hand_to_human: question"),
        ({"view": view(published=False)}, "succeeded, but not published"),
        ({"state": "PENDING"}, "succeeded, but Celery's result backend says PENDING"),
        ({"result": "<put 1.1.0>"}, "Celery's result backend has '<put 1.1.0>' in place of"),
        (
            {"view": view(outcome=Outcome(ok=True, value="<put 1.1.0>"))},
            "answered '<put 1.1.0>' in place of",
        ),
        (
            {"view": view(JobStatus.FAILED, outcome=Outcome(ok=False, reason="x", text="y"))},
            "failed, but Celery's result backend says SUCCESS",
        ),
        (
            {
                "view": view(JobStatus.FAILED, outcome=Outcome(ok=False, reason="x", text="y")),
                "state": "FAILURE",
            },
            "failed with x",
        ),
        (
            {"view": view(JobStatus.CANCELLED), "state": "REVOKED"},
            "cancelled, which nobody asked for",
        ),
    ],
)
def test_a_job_with_another_end_than_it_must_have_is_lost(
    fields: dict[str, Any], reason: str
) -> None:
    assert why(facts(**fields)).startswith(reason)


def test_a_lost_job_is_a_fault() -> None:
    assert verdict(facts(state="PENDING")).faults == {"lost": 1}


def test_a_job_that_nobody_answers_must_be_paused_for_its_question() -> None:
    job = PlannedJob("stay", Script(1, ("ask",)), answered=False)
    assert why(facts(job=job, view=view(JobStatus.PAUSED, pause=PAUSE))) == ""
    doubt = PAUSE.model_copy(update={"kind": PauseKind.UNKNOWN_OUTCOME})
    assert "unknown_outcome" in why(facts(job=job, view=view(JobStatus.PAUSED, pause=doubt)))


def test_cancelled_and_broken_jobs_end_as_planned() -> None:
    script = Script(1, ("put", "break"))
    cancelled = PlannedJob("cancel", script, cancel_at=1)
    gone = view(JobStatus.CANCELLED, outcome=Outcome(ok=False, reason="cancelled"))
    assert why(facts(job=cancelled, view=gone, state="REVOKED")) == ""
    broken = view(JobStatus.FAILED, outcome=Outcome(ok=False, reason="chaos_break"))
    assert why(facts(job=PlannedJob("break", script), view=broken, state="FAILURE")) == ""
    assert why(facts(view=broken, state="FAILURE")).startswith("failed with chaos_break")


def test_poison_is_counted_apart() -> None:
    poison = view(JobStatus.FAILED, outcome=Outcome(ok=False, reason="poison"))
    report = verdict(facts(view=poison, state="FAILURE"))
    assert (report.poison, report.lost, report.effects["once"].expected) == (1, 0, 0)


# --- doubled -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "fault"),
    [(("pay", "1.2.0"), "once_doubled"), (("put", "1.1.0"), "idempotent_doubled")],
)
def test_an_effect_that_took_place_twice_is_a_fault(place: tuple[str, str], fault: str) -> None:
    twice = DONE + Counter({place: 1})
    report = verdict(ledger=Entries(CALLS, twice, twice))
    assert report.faults == {fault: 1}
    assert f"FAILED: {fault} 1" in report.table()


def test_an_execution_that_the_key_made_harmless_is_none() -> None:
    report = verdict(ledger=Entries(CALLS, DONE + Counter({("put", "1.1.0"): 1}), DONE))
    assert report.faults == {}
    assert report.effects["idempotent"].repeated == 1


def test_an_effect_that_a_job_reports_and_nobody_saw_is_a_fault() -> None:
    done = Counter({("put", "1.1.0"): 1})
    assert verdict(ledger=Entries(CALLS, done, done)).faults == {"effects_missing": 1}


def test_a_call_after_the_commit_of_its_reply_is_paid_twice() -> None:
    again = Entries((*CALLS, ModelCall("1.2", 215)), DONE, DONE)
    assert verdict(ledger=again).faults == {"replies_paid_twice": 1}


def test_a_call_begun_again_before_any_commit_is_not() -> None:
    report = verdict(ledger=Entries((ModelCall("1.2", 150), *CALLS), DONE, DONE))
    assert report.faults == {}
    assert report.replies_repaid_in_flight == 1


def test_a_second_signal_to_one_pause_is_a_fault() -> None:
    paused, signal = event(320, "paused", kind="approval"), event(330, "signal", kind="approve")
    once = facts(events=(*TRACE, paused, signal, paused, signal))
    twice = facts(events=(*TRACE, paused, signal, signal))
    assert verdict(once).faults == {}
    assert verdict(twice).faults == {"pauses_answered_twice": 1}


@pytest.mark.parametrize("late", [event(320, "reply", i=7, s=1), event(320, "reply", i=6, s=3)])
def test_a_trace_that_goes_backwards_is_a_fault(late: Event) -> None:
    assert verdict(facts(events=(*TRACE, late))).faults == {"steps_backwards": 1}


def test_the_answer_must_be_that_of_the_person_who_was_first() -> None:
    job = PlannedJob("ask", Script(1, ("ask",)))
    by_ben = event(115, "signal", kind="answer", by="ben")
    outcome = Outcome(ok=True, value="<ask 1.1.0 anna>")
    wrong = facts(job=job, events=(by_ben,), view=view(outcome=outcome))
    assert why(wrong) == "answered '<ask 1.1.0 anna>' in place of '<ask 1.1.0 ben>'"


# --- recovery ------------------------------------------------------------------------------


def _struck(*ends: tuple[int, float], moments: tuple[int, ...] = ()) -> Report:
    claims = ((1001, "w1"), (1500, "w2"), (3000, "w2"), (9000, "w2"))
    events = tuple(event(at, "claimed", worker=worker) for at, worker in claims)
    victims = tuple(Victim("j1", "w1", at, down_s) for at, down_s in ends)
    return verdict(facts(events=events), victims=victims, moments=moments)


def test_recovery_runs_from_the_kill_to_the_next_claim() -> None:
    """A claim by the dying worker itself, a moment before its death, is none."""
    report = _struck((1000, 0.0), (2000, 0.0), (3000, 7.0))
    assert report.recovery_s == Recovery(p50=1.0, p95=6.0, max=6.0)
    assert report.recovery_restarted_s == Recovery(p50=0.5, p95=1.0, max=1.0)
    assert report.recovery_taken_over_s == Recovery(p50=6.0, p95=6.0, max=6.0)
    assert [slow["seconds"] for slow in report.slowest_recoveries] == [6.0, 1.0, 0.5]


def test_who_was_struck_again_meanwhile_stands_only_in_the_whole() -> None:
    report = _struck((1000, 0.0), moments=(1000, 1200))
    assert report.recovery_s == Recovery(p50=0.5, p95=0.5, max=0.5)
    assert report.recovery_restarted_s is None


def test_a_run_without_kills_has_no_recovery() -> None:
    assert verdict().recovery_s is None
    assert "recovery" in verdict().table()


# --- JSON ----------------------------------------------------------------------------------


def test_the_json_begins_with_the_promised_counts() -> None:
    found = json.loads(_struck((1000, 0.0)).to_json())
    assert list(found)[:13] == [
        *("submitted", "finished", "paused", "failed", "lost"),
        *("once_doubled", "idempotent_doubled", "safe_repeated", "replies_paid_twice"),
        *("kills", "redis_restarts", "recovery_s", "seed"),
    ]
    assert set(found["recovery_s"]) == {"p50", "p95", "max"}
    assert found["options"]["jobs"] == 1
