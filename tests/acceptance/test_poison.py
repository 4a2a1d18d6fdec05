"""Jobs that kill whoever runs them: counted, quarantined, and out of the others' way (rule 15)."""

from __future__ import annotations

import pytest

from api_client.admin import AdminStore
from api_client.errors import JobFailed
from tests.support.lab import Lab

TRIES = 3
ENV = {"STEPKEEPER_MAX_ATTEMPTS": str(TRIES), "STEPKEEPER_LEASE_S": "1"}
POISON = {"os._exit": "die @bad", "SIGKILL": "put die @bad"}
"""The tool ``die`` ends its process by ``os._exit`` in odd steps, by SIGKILL in even ones."""


def check_quarantined(lab: Lab, job_id: str) -> None:
    """Failed with the reason, after exactly so many tries; listable."""
    view = lab.wait_published(job_id)
    assert view.status == "failed"
    assert view.outcome is not None
    assert view.outcome.reason == "poison"
    assert str(TRIES) in view.outcome.text
    assert [entry["attempt"] for entry in lab.ledger.entries("die")] == [1, 2, 3]
    quarantined = AdminStore.from_url(lab.url).quarantined()
    assert [poisoned.job_id for poisoned in quarantined] == [job_id]


@pytest.mark.parametrize("death", list(POISON))
def test_in_a_pool_process(lab: Lab, death: str) -> None:
    """FAILURE comes once, at the end, with the errback; other jobs are not disturbed."""
    lab.worker(pool="prefork", concurrency=2, env=ENV)
    result = lab.send(
        POISON[death],
        link_error=lab.plain.signature("lab.failed", kwargs={"where": "errback"}),
    )
    with lab.shut("put-good-2"):
        good = lab.submit("look put look @good")
        with pytest.raises(JobFailed, match="quarantined") as raised:
            result.get(timeout=60)
    assert raised.value.reason == "poison"
    assert lab.states.of(str(result.id)) == ["FAILURE"]
    check_quarantined(lab, str(result.id))
    lab.ledger.wait("errback")
    assert lab.wait_published(good).status == "succeeded"
    assert lab.view(good).epoch == 1
    assert len(lab.ledger.entries("errback")) == 1


@pytest.mark.parametrize("death", list(POISON))
def test_in_a_whole_worker(lab: Lab, death: str) -> None:
    """A worker of threads dies with every job it holds; those that are not poison come through."""
    with lab.supervised(env=ENV):
        others = [lab.submit(f"look put @good{number}") for number in range(3)]
        bad = lab.submit(POISON[death])
        check_quarantined(lab, bad)
        for job_id in others:
            assert lab.wait_published(job_id).status == "succeeded"


def test_a_long_call_beside_poison(lab: Lab) -> None:
    """A job in a call that takes longer than all those deaths is not condemned for them.

    Both are suspects after two deaths: from then on they run one after the other.
    """
    with lab.supervised(env=ENV):
        with lab.shut("put-good-1"):
            good = lab.submit("put @good")
            lab.wait_gate("put-good-1")
            bad = lab.submit(POISON["os._exit"])
            lab.wait_event(good, "claimed", TRIES)
        assert lab.wait_published(good).status == "succeeded"
        check_quarantined(lab, bad)
        assert len(lab.events(good, "claimed")) == TRIES


def test_released_from_quarantine(lab: Lab) -> None:
    """What was poison may be cured: it goes on from its checkpoint, under a new id."""
    lab.worker(pool="prefork", concurrency=1, env=ENV)
    bad = lab.submit(POISON["SIGKILL"])
    check_quarantined(lab, bad)
    admin = AdminStore.from_url(lab.url)
    released = admin.release(bad)
    assert admin.quarantined() == []
    view = lab.wait_published(released.job_id)
    assert view.outcome is not None
    assert view.outcome.reason == "poison"
    assert len(lab.ledger.entries("put", tag="bad")) == 1
