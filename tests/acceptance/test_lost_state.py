"""State that vanished from Redis, as under an eviction policy: a clear failure, no new start."""

from __future__ import annotations

import pytest

from api_client.errors import JobFailed
from api_client.keys import Keys
from tests.support.lab import Lab


def test_e12_a_paused_job_without_its_transcript_fails_as_state_lost(lab: Lab) -> None:
    lab.worker()
    job_id = lab.submit("put ask put")
    lab.wait_status(job_id, "paused")
    lab.redis.delete(Keys(0).messages(job_id))
    lab.client.signal(job_id, {"kind": "answer", "value": "yes"})
    with pytest.raises(JobFailed, match="noeviction") as failed:
        lab.client.result(job_id, 30)
    assert failed.value.reason == "state_lost"
    assert len(lab.ledger.entries("put")) == 1


def test_e12_a_running_job_whose_record_is_gone_never_starts_again(lab: Lab) -> None:
    lab.worker()
    with lab.shut("put-held-1"):
        job_id = lab.submit("put put @held")
        lab.wait_gate("put-held-1")
        lab.redis.delete(*Keys(0).of_job(job_id))
    other = lab.submit("look")
    assert lab.client.result(other, 30) == "look 1"
    assert len(lab.ledger.entries("put")) == 1
    assert lab.redis.exists(Keys(0).job(job_id)) == 0


def test_e12_a_hint_whose_job_is_gone_is_a_failure_that_says_why(lab: Lab) -> None:
    job_id = lab.submit("put")
    lab.redis.delete(*Keys(0).of_job(job_id))
    lab.worker()
    with pytest.raises(JobFailed, match="record is gone from the store"):
        lab.plain.AsyncResult(job_id).get(timeout=30)
    assert lab.ledger.entries("model") == []
