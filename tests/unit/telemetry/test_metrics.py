"""What is counted, and what is measured in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry

from api_client.contract import Answer, JobSpec, JobStatus, Outcome
from api_client.errors import StoreUnavailable
from api_client.survey import Survey
from tests.unit.telemetry.agents import BUSY, act, agent, reply
from tests.unit.telemetry.conftest import Lab
from worker.telemetry.gauges import StoreGauges
from worker.telemetry.metrics import MetricsObserver
from worker.telemetry.observer import JobEnded, LeaseLost, StoreCalled, Swept, TakenOver

LOOK = act(("look", '{"what": "it"}'), ("fail", '{"what": "it"}'))
ASK = act(("hand_to_human", '{"reason": "May I?"}'))
SPEC = JobSpec(job_id="job-1", agent="clerk", input="x")


class Metrics:
    """An observer and the values it has counted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.observer = MetricsObserver(self.registry)

    def value(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """One sample; 0 if there is none."""
        return self.registry.get_sample_value(f"stepkeeper_{name}", dict(labels or {})) or 0.0


@pytest.fixture
def metrics() -> Metrics:
    """Nothing counted yet."""
    return Metrics()


CLERK = {"agent": "clerk"}
SCRIPT = {"agent": "clerk", "model": "script"}


def test_a_jobs_way_is_counted(metrics: Metrics) -> None:
    script = (reply(LOOK, (100, 10)), BUSY, reply(ASK, (200, 20)), reply({"content": "Done."}))
    lab = Lab(agent(*script), metrics.observer)
    lab.submit()
    lab.now += 2_000
    lab.slice()
    lab.now += 3_600_000
    lab.slice()
    lab.answer(Answer(value="yes"))
    lab.slice()
    value = metrics.value
    usage = lab.store.read("job-1").usage
    assert value("claims_total", CLERK) == 3
    assert value("queue_wait_seconds_count", CLERK) == 3
    assert value("queue_wait_seconds_bucket", {**CLERK, "le": "1.0"}) < 3
    assert value("model_call_seconds_count", {**SCRIPT, "outcome": "ok"}) == 3
    assert value("model_call_seconds_count", {**SCRIPT, "outcome": "error"}) == 1
    assert value("tool_call_seconds_count", {**CLERK, "tool": "look", "outcome": "ok"}) == 1
    assert value("tool_call_seconds_count", {**CLERK, "tool": "fail", "outcome": "error"}) == 1
    assert value("tokens_total", {**SCRIPT, "kind": "input"}) == usage.prompt_tokens
    assert value("tokens_total", {**SCRIPT, "kind": "output"}) == usage.completion_tokens
    assert value("tokens_total", {**SCRIPT, "kind": "cached"}) == usage.cached_tokens
    assert value("cost_total", SCRIPT) == pytest.approx(usage.cost)
    assert value("pauses_total", {**CLERK, "kind": "hand_to_human"}) == 1
    assert value("resumes_total", {**CLERK, "kind": "hand_to_human"}) == 1
    assert value("retries_total", {**CLERK, "error": "429"}) == 1
    errors = {**SCRIPT, "error": "429", "fate": "retry"}
    assert value("model_errors_total", errors) == 1
    assert value("commit_seconds_count") == 8


def test_a_steps_work_is_its_model_call_and_its_tool_calls(metrics: Metrics) -> None:
    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), metrics.observer)
    lab.submit()
    lab.slice()
    assert metrics.value("step_seconds_count", CLERK) == 2
    assert metrics.value("step_seconds_sum", CLERK) == pytest.approx(0.020)


def test_a_recovery_is_no_wait_in_the_queue(metrics: Metrics) -> None:
    lab = Lab(agent(reply({"content": "Done."})), metrics.observer)
    lab.submit()
    lab.store.claim("job-1", owner="dead", nonce="x", lease_ms=1000, max_tries=5)
    lab.now += 2_000
    lab.slice()
    assert metrics.value("recoveries_total", CLERK) == 1
    assert metrics.value("queue_wait_seconds_count", CLERK) == 0


def test_a_lost_lease_is_counted_where_it_is_found(metrics: Metrics) -> None:
    metrics.observer.note(LeaseLost("job-1"))
    assert metrics.value("lease_losses_total", {"found_by": "renewal"}) == 1


def test_ends_are_counted_by_status_and_reason(metrics: Metrics) -> None:
    note = metrics.observer.note
    note(JobEnded(SPEC, JobStatus.SUCCEEDED, Outcome(ok=True, value=1)))
    note(JobEnded(SPEC, JobStatus.FAILED, Outcome(ok=False, reason="poison")))
    note(JobEnded(SPEC, JobStatus.CANCELLED, Outcome(ok=False, reason="cancelled")))
    ended = "jobs_ended_total"
    assert metrics.value(ended, {**CLERK, "status": "succeeded", "reason": ""}) == 1
    assert metrics.value(ended, {**CLERK, "status": "failed", "reason": "poison"}) == 1
    assert metrics.value(ended, {**CLERK, "status": "cancelled", "reason": "cancelled"}) == 1
    assert metrics.value("poison_jobs_total", CLERK) == 1


def test_the_keepers_work_is_counted(metrics: Metrics) -> None:
    metrics.observer.note(Swept(hints=4, ms=20, late_ms=1500))
    metrics.observer.note(TakenOver(SPEC))
    metrics.observer.note(StoreCalled("commit", 2.0))
    metrics.observer.note(StoreCalled("commit", 900.0, failed=True))
    assert metrics.value("hints_total") == 4
    assert metrics.value("sweep_seconds_sum") == pytest.approx(0.02)
    assert metrics.value("sweep_lag_seconds_sum") == pytest.approx(1.5)
    assert metrics.value("freed_total") == 1
    call = "store_call_seconds_count"
    assert metrics.value(call, {"call": "commit", "outcome": "ok"}) == 1
    assert metrics.value(call, {"call": "commit", "outcome": "error"}) == 1


def test_gauges_are_what_the_store_holds() -> None:
    jobs = Counter({("clerk", "running"): 2, ("clerk", "paused"): 2, ("", "succeeded"): 9})
    survey = Survey(jobs, {("clerk", "approval"): [5.0, 70.0]}, quarantined=3, overdue_s=4.5)
    registry = CollectorRegistry()
    registry.register(StoreGauges(lambda: survey))
    value = registry.get_sample_value
    assert value("stepkeeper_jobs", {"agent": "clerk", "status": "running"}) == 2
    assert value("stepkeeper_jobs", {"agent": "", "status": "succeeded"}) == 9
    assert value("stepkeeper_open_pauses", {"agent": "clerk", "kind": "approval"}) == 2
    assert value("stepkeeper_oldest_pause_seconds", {"agent": "clerk", "kind": "approval"}) == 70
    assert value("stepkeeper_quarantined_jobs") == 3
    assert value("stepkeeper_overdue_seconds") == 4.5
    assert value("stepkeeper_store_up") == 1


def test_without_a_store_the_gauges_say_so() -> None:
    def away() -> Survey:
        raise StoreUnavailable("gone")

    registry = CollectorRegistry()
    registry.register(StoreGauges(away))
    assert registry.get_sample_value("stepkeeper_store_up") == 0
    assert registry.get_sample_value("stepkeeper_quarantined_jobs") is None


def test_the_store_is_not_looked_at_for_each_scrape() -> None:
    looks, now = [], 100.0

    def look() -> Survey:
        looks.append(now)
        return Survey()

    gauges = StoreGauges(look, lambda: now)
    list(gauges.collect())
    list(gauges.collect())
    assert len(looks) == 1
    now += 10
    list(gauges.collect())
    assert looks == [100.0, 110.0]
