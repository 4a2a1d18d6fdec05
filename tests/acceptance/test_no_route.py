"""A job whose hint no worker can send keeps no other job waiting."""

from __future__ import annotations

import json

from api_client.contract import JobSpec, JobStatus
from tests.support.lab import Lab


def test_a_job_without_a_route_delays_no_other(lab: Lab) -> None:
    """Its queue is known to its caller alone; hints of them all are lost, and due at once."""
    lab.store.create(JobSpec(job_id="lost", agent="plan", input="@a", message={"queue": "attic"}))
    others = [f"job-{number}" for number in range(3)]
    for job_id in others:
        lab.store.create(JobSpec(job_id=job_id, agent="plan", input="@a"))
    worker = lab.worker(env={"TEST_CONF": json.dumps({"task_create_missing_queues": False})})
    for job_id in others:
        lab.wait_status(job_id, JobStatus.SUCCEEDED)
    worker.wait_line("job lost: its hint cannot be sent; tried again")
    assert lab.view("lost").status is JobStatus.QUEUED
