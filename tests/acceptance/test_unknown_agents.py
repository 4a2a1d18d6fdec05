"""A worker that does not have a job's agent, as during a deploy, leaves the job to one that has."""

from __future__ import annotations

from celery.result import AsyncResult

from api_client.contract import JobStatus
from api_client.keys import Keys
from tests.support.lab import Lab
from tests.support.workers import eventually

OTHERS = "tests.support.leaky_agents"


def test_a_job_is_left_for_a_worker_that_has_its_agent(lab: Lab) -> None:
    other = lab.worker("other@test", agents=OTHERS)
    job_id = lab.submit("work")
    other.wait_line(f"job {job_id} is left alone: this worker does not have the agent 'plan'")
    eventually(
        lambda: lab.redis.hexists(Keys(0).job(job_id), "missed"),
        "the next hint is known to be no repetition",
    )
    lab.wait_heard()
    result: AsyncResult[str] = AsyncResult(job_id, app=lab.plain)
    assert result.state == "PENDING", "a hint that comes to the wrong worker is no failure"
    view = lab.view(job_id)
    assert (view.status, view.tries) == (JobStatus.QUEUED, 0)
    other.stop()
    lab.worker("w1@test")
    assert result.get(timeout=30)
    assert lab.states.of(job_id)[-1] == "SUCCESS"
    assert "FAILURE" not in lab.states.of(job_id)


def test_a_message_without_a_job_fails_as_celery_has_it(lab: Lab) -> None:
    other = lab.worker("other@test", agents=OTHERS)
    result = lab.send("work")
    other.wait_line("Received unregistered task of type 'agent.plan'")
    assert type(result.get(timeout=30, propagate=False)).__name__ == "NotRegistered"
