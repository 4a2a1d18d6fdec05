"""People's decisions over HTTP: the first one wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx
import pytest

from api_client.contract import PauseKind, ProposedAction
from tests.support.paused import paused_job
from tests.support.web import WebServer, problem

YES = {"kind": "answer", "value": "yes", "by": "anna"}
REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"order": "1187", "amount": 50.0})


def test_fifty_clients_answer_one_pause_at_once(web: WebServer) -> None:
    """E3."""
    job_id = paused_job(web.store)
    clients = [web.client(web.key("review", name=f"reviewer-{n}")) for n in range(50)]
    start = Barrier(50)

    def answer(client: httpx.Client) -> httpx.Response:
        start.wait(30)
        path = f"/v1/jobs/{job_id}/signals"
        return client.post(path, params={"pause": "p1"}, json={"kind": "answer", "value": "yes"})

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(answer, clients))
    codes = sorted(response.status_code for response in answers)
    assert codes == [200] + [409] * 49
    winner = next(done.json()["by"] for done in answers if done.status_code == 200)
    for late in answers:
        if late.status_code == 409:
            body = problem(late, 409, "already-answered")
            assert body["answered"]["by"] == winner
            assert winner in body["detail"]
    signals = [event for event in web.store.events(job_id) if event.kind == "signal"]
    assert [event.data["by"] for event in signals] == [winner]
    assert web.parts.redis.llen("celery") == 1


def test_a_decision_sent_again_is_the_same_decision(web: WebServer, api: httpx.Client) -> None:
    job_id = paused_job(web.store)
    path, headers = f"/v1/jobs/{job_id}/signals?pause=p1", {"Idempotency-Key": "once"}
    first = api.post(path, json=YES, headers=headers)
    again = api.post(path, json=YES, headers=headers)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    stranger = web.client(web.key("review", name="bo"))
    problem(stranger.post(path, json=YES, headers=headers), 409, "already-answered")


def test_a_key_cannot_sign_as_another_one(web: WebServer) -> None:
    job_id = paused_job(web.store)
    done = web.client(web.key("review", name="desk")).post(
        f"/v1/jobs/{job_id}/signals", json={**YES, "by": "root"}
    )
    assert done.json()["by"] == "root (desk)"
    assert web.store.read(job_id).answered.by == "root (desk)"  # type: ignore[union-attr]


def test_changed_arguments_are_taken(web: WebServer, api: httpx.Client) -> None:
    job_id = paused_job(web.store, kind=PauseKind.APPROVAL, question="May it?", action=REFUND)
    changed = {"order": "1187", "amount": 25.0}
    body = {"kind": "approve", "arguments": changed, "note": "half of it"}
    assert api.post(f"/v1/jobs/{job_id}/signals", json=body).status_code == 200
    event = web.store.events(job_id)[-1]
    assert (event.kind, event.data["arguments"], event.data["by"]) == ("signal", changed, "root")


def test_another_pause_than_the_open_one_is_refused(web: WebServer, api: httpx.Client) -> None:
    job_id = paused_job(web.store)
    problem(api.post(f"/v1/jobs/{job_id}/signals?pause=p7", json=YES), 409, "wrong-pause")


def test_a_kind_that_the_pause_does_not_take_is_refused(web: WebServer, api: httpx.Client) -> None:
    job_id = paused_job(web.store)
    refused = api.post(f"/v1/jobs/{job_id}/signals", json={"kind": "retry"})
    assert "answer, finish" in problem(refused, 409, "signal-refused")["detail"]


def test_an_early_answer_is_told_where_the_job_stands(web: WebServer, api: httpx.Client) -> None:
    """E4."""
    refused = api.post(f"/v1/jobs/{web.job()}/signals", json=YES)
    assert "is queued" in problem(refused, 409, "not-paused")["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "dance"}, "body"),
        ({"value": "yes"}, "body"),
        ({"kind": "answer"}, "body.answer.value"),
        ({"kind": "answer", "value": "  "}, "body.answer.value"),
        ({"kind": "extend", "amount": "much"}, "body.extend.amount"),
        ({"kind": "extend", "amount": -1}, "body.extend.amount"),
        ({"kind": "reject", "reason": ""}, "body.reject.reason"),
        ({"kind": "approve", "arguments": [1]}, "body.approve.arguments"),
        ({"kind": "approve", "colour": "red"}, "body.approve.colour"),
        ({"kind": "answer", "value": "x" * 300_000}, "body"),
    ],
)
def test_a_decision_of_the_wrong_form_changes_nothing(
    web: WebServer, api: httpx.Client, body: dict[str, Any], field: str
) -> None:
    """E5."""
    job_id = paused_job(web.store)
    refused = problem(api.post(f"/v1/jobs/{job_id}/signals", json=body), 422, "invalid")
    assert [error["field"] for error in refused["errors"]] == [field]
    assert web.store.read(job_id).pause is not None
    assert api.post(f"/v1/jobs/{job_id}/signals", json=YES).status_code == 200


def test_the_inbox_is_filtered_and_paged(web: WebServer, api: httpx.Client) -> None:
    paused_job(web.store, "night", labels=("night",))
    for number in range(5):
        paused_job(web.store, f"ask-{number}")
    paused_job(web.store, "refund", PauseKind.APPROVAL, action=REFUND)
    web.job("queued")

    def ids(**params: Any) -> list[str]:
        answer = api.get("/v1/inbox", params=params)
        assert answer.status_code == 200, answer.text
        return [job["job_id"] for job in answer.json()["jobs"]]

    assert ids() == ["night", *(f"ask-{n}" for n in range(5)), "refund"]
    assert ids(kind="approval") == ["refund"]
    assert ids(label="night") == ["night"]
    assert ids(agent="other") == []
    assert ids(agent="shop", kind="hand_to_human", limit=2) == ["night", "ask-0"]
    found, cursor = [], ""
    for _ in range(5):
        page = api.get("/v1/inbox", params={"limit": 3, "cursor": cursor}).json()
        found += [job["job_id"] for job in page["jobs"]]
        cursor = page["next"]
        if not cursor:
            break
    assert found == ids()


def test_many_pauses_are_decided_at_once_after_a_dry_run(web: WebServer, api: httpx.Client) -> None:
    paused_job(web.store, "theirs", labels=("finance",))
    for number in range(3):
        paused_job(web.store, f"ask-{number}", labels=("support",))
    paused_job(web.store, "refund", PauseKind.APPROVAL, action=REFUND, labels=("support",))
    client = web.client(web.key("review", name="desk", labels=["support"]))
    body = {"filter": {"agent": "shop"}, "signal": {"kind": "answer", "value": "yes", "by": "bo"}}
    tried = client.post("/v1/signals", json=body).json()
    assert (tried["dry_run"], tried["done"], tried["refused"], tried["more"]) == (True, 3, 1, False)
    assert web.store.count("paused") == 5  # type: ignore[arg-type]
    done = client.post("/v1/signals", json={**body, "dry_run": False, "limit": 3}).json()
    assert (done["done"], done["refused"], done["more"]) == (3, 0, True)
    assert [line["job_id"] for line in done["jobs"]] == ["ask-0", "ask-1", "ask-2"]
    answered = web.store.read("ask-0").answered
    assert answered is not None
    assert answered.by == "bo (desk)"
    assert web.store.read("theirs").pause is not None
    assert web.store.read("refund").pause is not None


def test_a_job_is_told_something_once(web: WebServer, api: httpx.Client) -> None:
    job_id = web.job()
    headers = {"Idempotency-Key": "one"}
    body = {"text": "The customer has called.", "by": "anna", "note": "twice"}
    for _ in range(2):
        told = api.post(f"/v1/jobs/{job_id}/messages", json=body, headers=headers)
        assert (told.status_code, told.json()["by"]) == (202, "anna (root)")
    messages = [event.data for event in web.store.events(job_id) if event.kind == "message"]
    assert [message["text"] for message in messages] == ["The customer has called."]
    web.store.cancel(job_id, "root")
    late = api.post(f"/v1/jobs/{job_id}/messages", json=body)
    assert "has ended" in problem(late, 409, "conflict")["detail"]
    problem(api.post(f"/v1/jobs/{job_id}/messages", json={"text": " "}), 422, "invalid")


def test_a_job_is_paused_by_an_operator(web: WebServer, api: httpx.Client) -> None:
    job_id = web.job()
    done = api.post(f"/v1/jobs/{job_id}/pause", json={"note": "let me look"})
    assert (done.status_code, done.json()["by"]) == (202, "root")
    wish = web.store.read(job_id).pause_wanted
    assert wish is not None
    assert wish.note == "let me look"
    problem(api.post(f"/v1/jobs/{paused_job(web.store)}/pause"), 409, "conflict")


def test_a_value_that_the_pause_does_not_allow_is_named(web: WebServer, api: httpx.Client) -> None:
    """E5."""
    parameters = {
        "type": "object",
        "properties": {"order": {"type": "string"}, "amount": {"type": "number", "maximum": 100}},
        "required": ["order", "amount"],
        "additionalProperties": False,
    }
    job_id = paused_job(web.store, kind=PauseKind.APPROVAL, action=REFUND)
    record = web.store.read(job_id).pause
    assert record is not None
    closer = record.model_copy(update={"schemas": {"approve": {"arguments": parameters}}})
    web.parts.redis.hset(f"{{sk:0}}:j:{job_id}", "pause", closer.stored())
    body = {"kind": "approve", "arguments": {"order": "1187", "amount": 1000}}
    refused = api.post(f"/v1/jobs/{job_id}/signals", json=body)
    (error,) = problem(refused, 422, "invalid")["errors"]
    assert error["field"] == "body.arguments.amount"
    assert "1000" in error["detail"]
    body["arguments"] = {"order": "1187", "amount": 99}
    assert api.post(f"/v1/jobs/{job_id}/signals", json=body).status_code == 200
