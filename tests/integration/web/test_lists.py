"""Lists over HTTP and in the console: pages, filters, workers, and records that cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from api_client.contract import JobStatus, PauseKind, ProposedAction
from api_client.keys import WORKERS, Keys
from api_client.workers import LIVE_S, WorkerInfo
from tests.integration.web.browser import Browser
from tests.support.paused import ended_job, paused_job
from tests.support.web import WebServer, problem

REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"order": "1187", "amount": 50.0})
WORKER = WorkerInfo(
    name="idle@host",
    pool="prefork",
    slots=4,
    in_flight=100,
    queues=("celery", "slow"),
    agents=("shop 3f2a",),
    release="9.9",
)


@pytest.fixture
def browsers(web: WebServer) -> Iterator[Any]:
    """Makes browsers that are logged in."""
    made: list[Browser] = []

    def make(*roles: str, language: str = "en", **key: Any) -> Browser:
        browser = Browser(web, **{"Accept-Language": language})
        made.append(browser)
        browser.login(web.key(*roles, **{"name": "desk", **key}), "Anna")
        return browser

    yield make
    for browser in made:
        browser.http.close()


def run(web: WebServer, job_id: str, worker: str) -> None:
    """Let a worker hold a job."""
    web.store.claim(job_id, owner=f"{worker}/b/1/", nonce="n", lease_ms=60_000, max_tries=5)


def pages(api: httpx.Client, path: str, **params: Any) -> list[str]:
    """Ids of all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        body = api.get(path, params={**params, "cursor": cursor}).json()
        found += [job["job_id"] for job in body["jobs"]]
        cursor = body["next"]
        if not cursor:
            return found


def test_a_list_is_read_in_pages_by_agent_tenant_and_label(
    web: WebServer, api: httpx.Client
) -> None:
    for number in range(7):
        tenant, labels = "north" if number % 2 else "", ["sales"] if number % 3 else []
        web.job(f"n{number}", tenant=tenant, labels=labels)
    path = "/v1/jobs"
    every: dict[str, Any] = {"status": "queued", "limit": 2}
    assert sorted(pages(api, path, **every)) == [f"n{n}" for n in range(7)]
    assert sorted(pages(api, path, tenant="north", **every)) == ["n1", "n3", "n5"]
    assert sorted(pages(api, path, label="sales", **every)) == ["n1", "n2", "n4", "n5"]
    assert pages(api, path, agent="docs", **every) == []
    body = api.get(path, params=every).json()
    assert body["total"] == 7
    wrong = api.get(path, params={"status": "running", "cursor": body["next"]})
    assert "belongs to 'queued'" in problem(wrong, 422, "invalid")["detail"]


def test_a_key_with_a_label_pages_over_what_it_sees(web: WebServer) -> None:
    for number in range(6):
        web.job(f"n{number}", labels=["sales"] if number % 2 else ["other"])
    sales = web.client(web.key(labels=["sales"]))
    assert sorted(pages(sales, "/v1/jobs", status="queued", limit=1)) == ["n1", "n3", "n5"]


def test_workers_are_listed_with_what_they_hold(web: WebServer, api: httpx.Client) -> None:
    web.store.beat(WORKER)
    web.job("running")
    run(web, "running", "lost@host")
    idle, lost = api.get("/v1/workers").json()["workers"]
    told = (idle["name"], idle["pool"], idle["slots"], idle["jobs"])
    assert told == ("idle@host", "prefork", 4, [])
    assert idle["seen"] > 0
    assert (lost["name"], lost["seen"], lost["jobs"][0]["job_id"]) == ("lost@host", 0, "running")


def test_a_worker_that_is_silent_or_has_left_is_not_listed(web: WebServer) -> None:
    fresh = web.store.beat(WORKER)
    assert web.store.beat(fresh).started == fresh.started
    old = fresh.model_copy(update={"seen": fresh.seen - int(LIVE_S * 1000) - 5000})
    web.store._redis.hset(WORKERS, WORKER.name, old.model_dump_json())
    assert web.store.workers() == []
    web.store.beat(WORKER)
    assert [info.name for info in web.store.workers()] == ["idle@host"]
    web.store.part(WORKER.name)
    assert web.store.workers() == []


def test_the_workers_page_shows_idle_and_silent_ones(web: WebServer, browsers: Any) -> None:
    web.store.beat(WORKER)
    web.job("running", input="a long task")
    run(web, "running", "lost@host")
    text = browsers().get("/workers")
    assert "Pool prefork, 4 at once · 100 on the event loop · queues: celery, slow" in text
    for said in ("idle@host", "shop 3f2a", "9.9", "Heartbeat", "lost@host", "a long task"):
        assert said in text
    assert "Gives no sign of life" in text
    assert "Gibt kein Lebenszeichen" in browsers(language="de").get("/workers")


def test_the_console_pages_and_filters_its_lists(web: WebServer, browsers: Any) -> None:
    for number in range(30):
        tenant = "north" if number < 3 else ""
        web.job(f"n{number:02}", tenant=tenant, input=f"task {number:02}.")
    browser = browsers()
    text = browser.get("/jobs", status="queued")
    following = re.search(r'<a href="([^"]+)" rel="next">', text)
    assert following is not None
    assert "30 found" in text
    rest = browser.get(following[1].replace("&amp;", "&"))
    seen = re.findall(r"task (\d\d)\.", text + rest)
    assert sorted(seen) == [f"{n:02}" for n in range(30)]
    text = browser.get("/jobs", status="queued", tenant="north", order="oldest")
    assert sorted(re.findall(r"task (\d\d)\.", text)) == ["00", "01", "02"]


def test_a_record_that_cannot_be_read_breaks_nothing(
    web: WebServer, api: httpx.Client, browsers: Any
) -> None:
    for name in ("whole", "by-hand"):
        paused_job(web.store, name, question=f"{name}?")
    web.store._redis.hset(Keys(0).job("by-hand"), "spec", "<script>")
    for path in ("/v1/inbox", "/v1/jobs?status=paused"):
        body = api.get(path).json()
        assert [job["job_id"] for job in body["jobs"]] == ["whole"]
        assert [one["job_id"] for one in body["unreadable"]] == ["by-hand"]
        assert "its record cannot be read" in body["unreadable"][0]["reason"]
    assert "cannot be read" in problem(api.get("/v1/jobs/by-hand"), 409, "job-unreadable")["detail"]
    labelled = web.client(web.key(labels=["sales"]))
    assert labelled.get("/v1/inbox").json()["unreadable"] == []
    browser = browsers()
    text = browser.get("/inbox")
    assert "whole?" in text
    assert "<code>by-hand</code>" in text
    assert "<script>" not in text
    assert "cannot be read" in browser.get("/jobs/by-hand")
    assert browser.page.status_code == 409


def test_a_story_that_cannot_be_read_leaves_the_page_and_its_forms(
    web: WebServer, browsers: Any
) -> None:
    paused_job(web.store, "job", question="whole?")
    web.store._redis.rpush(Keys(0).messages("job"), "{")
    web.store._redis.xadd(Keys(0).trace("job"), {"r": "[0,1,2,3,4]"})
    web.store._redis.xadd(Keys(0).trace("job"), {"two": "fields", "in": "one"})
    browser = browsers()
    text = browser.get("/jobs/job")
    assert browser.page.status_code == 200
    assert "A part of it cannot be read: job job: its message 0" in text
    browser.send("/jobs/job/signals/answer", **{"answer.value": "Yes."})
    assert web.store.read("job").status is JobStatus.QUEUED


# --- many at once -------------------------------------------------------------------------------


def test_many_are_tried_then_decided_without_javascript(web: WebServer, browsers: Any) -> None:
    for number in range(3):
        paused_job(web.store, f"a{number}", PauseKind.APPROVAL, action=REFUND, labels=("sales",))
    paused_job(web.store, "question")
    browser = browsers()
    assert "/bulk?label=sales" in browser.get("/inbox", label="sales")
    text = browser.get("/bulk", label="sales")
    assert "3 wait" in text
    text = browser.send("/bulk", signal="reject", value="too old", note="spring", label="sales")
    assert "3 would take it, 0 would not" in text
    assert web.store.read("a0").status is JobStatus.PAUSED
    paused_job(web.store, "late", PauseKind.APPROVAL, action=REFUND, labels=("sales",))
    web.parts.client.signal("a1", {"kind": "cancel", "by": "Otto"})
    text = browser.send_form("bulk-do")
    assert "2 took it, 1 did not" in text
    assert "was answered by Otto" in text
    found = [web.store.read(job).status for job in ("a0", "a2", "late", "question")]
    assert found == ["queued", "queued", "paused", "paused"]
    signal = web.store.events("a0")[-1].data
    assert (signal["reason"], signal["by"], signal["note"]) == ("too old", "Anna (desk)", "spring")


def test_a_try_says_of_each_job_why_not(web: WebServer, browsers: Any) -> None:
    paused_job(web.store, "asks")
    paused_job(web.store, "refund", PauseKind.APPROVAL, action=REFUND)
    browser = browsers()

    def tried(**typed: str) -> str:
        browser.get("/bulk")
        text: str = browser.send("/bulk", **typed)
        return text

    text = tried(signal="approve")
    assert "1 would take it, 1 would not" in text
    assert "this pause takes no" in text
    assert "Something belongs here." in tried(signal="reject")
    assert browser.page.status_code == 422
    assert "Give a number." in tried(signal="extend", value="many")
    assert "Choose one of these." in tried()


def test_many_are_for_reviewers_and_for_what_they_see(web: WebServer, browsers: Any) -> None:
    paused_job(web.store, "other", labels=("other",))
    browser = browsers("review", labels=["sales"])
    browser.get("/bulk")
    assert "0 would take it" in browser.send("/bulk", signal="cancel")
    browser.get("/bulk")
    shown = json.dumps([["other", "p1"]])
    assert "0 took it, 1 did not" in browser.send("/bulk", signal="cancel", do="yes", shown=shown)
    browser.get("/bulk")
    browser.send("/bulk", signal="cancel", do="yes", shown="{")
    assert browser.page.status_code == 422
    assert web.store.read("other").status is JobStatus.PAUSED
    operator = browsers("operate")
    operator.get("/bulk")
    assert operator.page.status_code == 403
    assert operator.http.post("/bulk", data={"signal": "cancel"}).status_code == 403


# --- the model's words --------------------------------------------------------------------------


def test_the_model_is_heard_while_it_speaks(web: WebServer, browsers: Any) -> None:
    job_id = web.job("talks")
    run(web, job_id, "w@h")
    browser = browsers()
    pieces = [{"step": 1, "kind": "begin"}, {"step": 1, "kind": "text", "text": "Hel\u202elo"}]
    with browser.http.stream("GET", f"/live/jobs/{job_id}") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: look"
        web.store.emit(job_id, 1, pieces)
        heard: list[dict[str, Any]] = []
        while len(heard) < 2:
            line = next(lines)
            heard += [json.loads(line[6:])] if line.startswith("data: {") else []
    assert [one["kind"] for one in heard] == ["begin", "text"]
    assert "\u202e" not in heard[1]["text"]


def test_a_page_of_an_ended_job_is_quiet(web: WebServer, browsers: Any) -> None:
    job_id = ended_job(web.store, "done", value="x")
    assert 'id="words" hidden' in browsers().get(f"/jobs/{job_id}")
