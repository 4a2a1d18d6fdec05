"""One decision about many jobs, and the filter that chooses them."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import JobStatus
from api_client.errors import InvalidInput, SignalRefused
from worker.agent import Agent
from worker.models.scripted import act
from worker.testing import InlineClient
from worker.tools import hand_to_human, tool


@tool(approval=True)
def refund(euro: int) -> str:
    """Pay back."""
    return f"{euro} € paid"


ASK = act("", ("hand_to_human", {"reason": "?"}))


@pytest.fixture
def client() -> InlineClient:
    """Five jobs that wait: three for an answer, two for an approval."""
    agents = [
        Agent(name="asks", goal="Ask.", tools=[hand_to_human], model=_model(ASK)),
        Agent(
            name="pays",
            goal="Pay.",
            tools=[refund],
            model=_model(act("", ("refund", {"euro": 1}))),
        ),
    ]
    client = InlineClient(agents)
    for number in range(3):
        client.submit("asks", "x", idempotency_key=str(number), labels=["a"] if number else ["b"])
    for number in range(2):
        client.submit("pays", "x", idempotency_key=f"p{number}")
    return client


def _model(first: Any) -> Any:
    from worker.models import FunctionModel

    return FunctionModel(lambda messages: first if len(messages) < 3 else "done")


def statuses(client: InlineClient) -> list[str]:
    views = [*client.worker.store.list_jobs(JobStatus.PAUSED)]
    return sorted(view.spec.agent for view in views)


def test_a_dry_run_says_what_would_happen_and_does_nothing(client: InlineClient) -> None:
    report = client.signal_many({}, {"kind": "approve", "by": "anna"})
    assert report.dry_run
    assert (report.done, report.refused) == (2, 3)
    assert all("takes no 'approve'" in item.error for item in report.items if not item.done)
    assert statuses(client) == ["asks", "asks", "asks", "pays", "pays"]


def test_each_job_is_reported_and_the_others_go_on(client: InlineClient) -> None:
    report = client.signal_many({}, {"kind": "approve"}, dry_run=False)
    assert (report.done, report.refused, report.more) == (2, 3, False)
    assert statuses(client) == ["asks", "asks", "asks"]
    again = client.signal_many({}, {"kind": "approve"}, dry_run=False)
    assert (again.done, again.refused) == (0, 3)


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ({"agent": "asks"}, 3),
        ({"kind": "approval"}, 2),
        ({"label": "a"}, 2),
        ({"agent": "asks", "label": "b"}, 1),
        ({"tenant": "nobody"}, 0),
        ({"older_than_s": 3600}, 0),
        ({"older_than_s": 0}, 5),
    ],
    ids=str,
)
def test_the_filter_chooses(client: InlineClient, chosen: dict[str, Any], count: int) -> None:
    report = client.signal_many(chosen, {"kind": "cancel"})
    assert len(report.items) == count
    assert len(client.inbox(**chosen)) == count


def test_only_what_the_signer_may_answer_is_looked_at(client: InlineClient) -> None:
    report = client.signal_many({}, {"kind": "cancel", "by": "anna"}, labels=["b"], dry_run=False)
    assert report.done == 3
    assert statuses(client) == ["asks", "asks"]


def test_no_more_than_the_limit_are_decided(client: InlineClient) -> None:
    report = client.signal_many({}, {"kind": "cancel"}, dry_run=False, limit=2)
    assert (report.done, report.more) == (2, True)
    assert len(statuses(client)) == 3


def test_a_job_that_somebody_else_decided_meanwhile_is_a_refusal(client: InlineClient) -> None:
    store = client.worker.store
    read = store.inbox

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        page = read(*args, **kwargs)
        if page:
            store.signal(page[0].job_id, "p1", _answer(), "other")
        return page

    store.inbox = overtaken  # type: ignore[method-assign]
    report = client.signal_many({"agent": "asks"}, {"kind": "answer", "value": 1}, dry_run=False)
    assert (report.done, report.refused) == (2, 1)
    assert "was answered by ben" in report.items[0].error


def _answer() -> Any:
    from api_client.contract import Answer

    return Answer(value=0, by="ben")


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"agnet": "x"}, "there is no 'agnet'"),
        ({"kind": "lunch"}, "kind"),
        ({"older_than_s": -1}, "older_than_s"),
        ({"older_than_s": "long"}, "older_than_s"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(
    client: InlineClient, chosen: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        client.signal_many(chosen, {"kind": "cancel"})


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_the_limit_is_bounded(client: InlineClient, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        client.signal_many({}, {"kind": "cancel"}, limit=limit)


def test_a_signal_of_no_known_form_is_refused_before_any_job(client: InlineClient) -> None:
    with pytest.raises(SignalRefused):
        client.signal_many({}, {"kind": "dance"}, dry_run=False)
    assert len(statuses(client)) == 5
