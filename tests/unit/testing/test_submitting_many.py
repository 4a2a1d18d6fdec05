"""``submit_many``: one answer for each input, one hint for each new job."""

from __future__ import annotations

import pytest

from api_client import JobStatus
from api_client.errors import BacklogFull, IdempotencyConflict, InvalidInput, UnknownAgent
from api_client.tenants import TenantPolicy
from worker.agent import Agent
from worker.testing import InlineClient

shop = Agent(name="shop", goal="Sell.")


@pytest.fixture
def client() -> InlineClient:
    return InlineClient([shop], model=lambda messages: f"sold {messages[-1]['content']}")


def test_the_ids_stand_in_the_order_of_the_inputs(client: InlineClient) -> None:
    ids = client.submit_many("shop", (f"book {n}" for n in range(23)))
    assert len(set(ids)) == 23
    assert [client.result(job_id) for job_id in ids[-2:]] == [f"sold book {n}" for n in (21, 22)]
    assert all(client.get(job_id).status is JobStatus.SUCCEEDED for job_id in ids)


def test_what_holds_for_all_is_in_each(client: InlineClient) -> None:
    ids = client.submit_many("shop", ["a", "b"], labels=["sales"], metadata={"k": 1}, tenant="t")
    for job_id in ids:
        spec = client.get(job_id).spec
        assert (spec.labels, spec.metadata, spec.tenant) == (("sales",), {"k": 1}, "t")


def test_the_same_keys_again_are_the_same_jobs(client: InlineClient) -> None:
    first = client.submit_many("shop", ["a", "b"], idempotency_keys=["ka", "kb"])
    assert client.submit_many("shop", ["b", "c"], idempotency_keys=["kb", "kc"])[0] == first[1]
    assert client.submit("shop", "a", idempotency_key="ka") == first[0]


def test_a_key_of_another_job_is_refused_and_holds_up_no_other(client: InlineClient) -> None:
    client.submit("shop", "a", idempotency_key="ka")
    with pytest.raises(IdempotencyConflict):
        client.submit_many("shop", ["other", "b"], idempotency_keys=["ka", "kb"])
    accepted = client.submit("shop", "b", idempotency_key="kb")
    assert client.result(accepted) == "sold b"


def test_a_full_backlog_is_told_after_the_others_have_been_taken(client: InlineClient) -> None:
    client.worker.store.set_policy("t", TenantPolicy(backlog=2))
    waiting = InlineClient([shop], store=client.worker.store, model=["x"], on_demand=True)
    with pytest.raises(BacklogFull, match="tenant 't': 2 jobs wait already"):
        waiting.submit_many("shop", ["a", "b", "c"], tenant="t")
    assert waiting.worker.store.count(JobStatus.QUEUED) == 2


def test_keys_must_be_as_many_as_inputs(client: InlineClient) -> None:
    with pytest.raises(InvalidInput, match="idempotency_keys: 1 keys for 2 inputs"):
        client.submit_many("shop", ["a", "b"], idempotency_keys=["only"])


def test_nothing_is_accepted_if_one_input_is_none(client: InlineClient) -> None:
    with pytest.raises(InvalidInput, match="input"):
        client.submit_many("shop", ["a", None])
    assert client.worker.store.count(JobStatus.SUCCEEDED) == 0


def test_an_unknown_agent_is_refused_at_once(client: InlineClient) -> None:
    with pytest.raises(UnknownAgent):
        client.submit_many("shoe", ["a"])
