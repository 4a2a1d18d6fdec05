"""Celery's revoke, wherever the job stands; cancelling in awkward moments (rule 13, G5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError

from api_client.errors import NotPaused
from tests.support.lab import Lab
from worker.installing import install
from worker.settings import Settings

POOLS = ("threads", "prefork")
Cancel = Callable[[Lab, str], None]


def by_revoke(lab: Lab, job_id: str) -> None:
    """Celery's broadcast, from a program without our package."""
    lab.plain.control.revoke(job_id)


def by_terminate(lab: Lab, job_id: str) -> None:
    """The same, with the wish that a running task be killed."""
    lab.plain.control.revoke(job_id, terminate=True)


WAYS = pytest.mark.parametrize("cancel", [by_revoke, by_terminate])


def submitting_app(lab: Lab) -> Celery:
    """A program that has our package installed into its Celery app, and runs no worker."""
    app = Celery("shop", broker=lab.url, backend=lab.url, set_as_current=False)
    app.conf.update(accept_content=["json"])
    install(app, settings=Settings(redis_url=lab.url, agents=("tests.support.agents",)))
    return app


def check_cancelled(lab: Lab, job_id: str, steps: int) -> None:
    """One end, for the store as for Celery; no call after it; no signal any more."""
    view = lab.wait_published(job_id)
    assert view.status == "cancelled"
    with pytest.raises(TaskRevokedError):
        lab.plain.AsyncResult(job_id).get(timeout=30)
    assert set(lab.states.of(job_id)) <= {"PAUSED", "REVOKED"}
    assert len(lab.events(job_id, "cancelled")) == 1
    assert max((e["step"] for e in lab.ledger.entries("model", tag="c")), default=0) == steps
    with pytest.raises(NotPaused, match="cancelled"):
        lab.client.signal(job_id, {"kind": "answer", "value": "too late"}, pause_id="p1")


@pytest.mark.parametrize("pool", POOLS)
@WAYS
def test_in_a_model_call(lab: Lab, pool: str, cancel: Cancel) -> None:
    """The reply is the last one; its tools do not run."""
    lab.worker(pool=pool)
    with lab.shut("model-c-1"):
        job_id = lab.submit("put @c")
        lab.wait_gate("model-c-1")
        cancel(lab, job_id)
        lab.wait_event(job_id, "cancel")
    check_cancelled(lab, job_id, steps=1)
    assert lab.ledger.entries("put") == []


@pytest.mark.parametrize("pool", POOLS)
@WAYS
def test_in_a_tool(lab: Lab, pool: str, cancel: Cancel) -> None:
    """The tool of the same reply behind it does not run, and no model call either."""
    lab.worker(pool=pool)
    with lab.shut("put-c-1"):
        job_id = lab.submit("put+pay look @c")
        lab.wait_gate("put-c-1")
        cancel(lab, job_id)
        lab.wait_event(job_id, "cancel")
    check_cancelled(lab, job_id, steps=1)
    assert lab.ledger.entries("pay") == []


@WAYS
def test_while_paused(lab: Lab, cancel: Cancel) -> None:
    """At once; nobody has to look at it first."""
    lab.worker()
    job_id = lab.submit("ask @c")
    lab.wait_status(job_id, "paused")
    cancel(lab, job_id)
    check_cancelled(lab, job_id, steps=1)
    assert list(lab.client.inbox()) == []


def test_twice(lab: Lab) -> None:
    """The second is told how it stands; the first one's name stays."""
    lab.worker()
    job_id = lab.submit("ask @c")
    lab.wait_status(job_id, "paused")
    lab.client.cancel(job_id, by="anna")
    again = lab.client.cancel(job_id, by="berta")
    assert (again.status, again.pending) == ("cancelled", False)
    check_cancelled(lab, job_id, steps=1)
    outcome = lab.view(job_id).outcome
    assert outcome is not None
    assert outcome.text == "cancelled by anna"


@WAYS
def test_after_the_end(lab: Lab, cancel: Cancel) -> None:
    """Finished stays finished."""
    lab.worker()
    job_id = lab.submit("put")
    lab.wait_published(job_id)
    before = lab.record(job_id)
    cancel(lab, job_id)
    lab.wait_heard()
    assert lab.record(job_id) == before
    assert lab.plain.AsyncResult(job_id).get(timeout=30) == "put 1"


def test_at_the_end(lab: Lab) -> None:
    """Cancelled while the last reply is being written: one of both ends, and no mixture."""
    lab.worker(concurrency=8)
    for number in range(20):
        with lab.shut(f"model-e{number}-2"):
            job_id = lab.submit(f"put @e{number}")
            lab.wait_gate(f"model-e{number}-2")
        lab.client.cancel(job_id)
        view = lab.wait_published(job_id)
        assert view.outcome is not None
        ends = [e.kind for e in lab.events(job_id) if e.kind in ("finished", "cancelled")]
        states = lab.wait_states(job_id)
        if view.status == "succeeded":
            assert (ends, states, view.outcome.value) == (["finished"], ["SUCCESS"], "put 1")
        else:
            assert (view.status, ends, states) == ("cancelled", ["cancelled"], ["REVOKED"])


def test_while_its_worker_is_dead(lab: Lab) -> None:
    """The lease still holds, so nobody can end it yet; whoever comes next does nothing else."""
    worker = lab.worker()
    with lab.shut("model-c-2"):
        job_id = lab.submit("put look @c")
        lab.wait_gate("model-c-2")
        worker.kill()
        assert lab.client.cancel(job_id).pending
    lab.worker("w2@test")
    check_cancelled(lab, job_id, steps=2)
    assert len(lab.ledger.entries("model", tag="c")) == 2


@pytest.mark.parametrize("stands", ["running", "paused"])
def test_revoked_while_every_worker_is_down(lab: Lab, stands: str) -> None:
    """No worker hears the broadcast; with our package in the sender's app, the store does."""
    worker = lab.worker()
    gate = "put-c-1"
    if stands == "running":
        lab.hold(gate)
    job_id = lab.submit("put look @c" if stands == "running" else "ask @c")
    if stands == "running":
        lab.wait_gate(gate)
    else:
        lab.wait_status(job_id, "paused")
    worker.kill()
    lab.open(gate)
    app = submitting_app(lab)
    app.control.revoke(job_id)
    app.close()
    lab.worker("w2@test")
    check_cancelled(lab, job_id, steps=1)
