"""The console as a browser without JavaScript meets it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from api_client.contract import Answer, PauseKind, ProposedAction
from tests.integration.web.browser import Browser, Forms, Markup
from tests.support.paused import ended_job, paused_job
from tests.support.web import WebServer
from worker.web.console.visitors import SESSION_COOKIE

REFUND = ProposedAction(call_id="c1", tool="refund", arguments={"order": "1187", "amount": 50.0})
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def browsers(web: WebServer) -> Iterator[Any]:
    """Makes browsers that are logged in."""
    made: list[Browser] = []

    def make(*roles: str, person: str = "", language: str = "en", **key: Any) -> Browser:
        browser = Browser(web, **{"Accept-Language": language})
        made.append(browser)
        browser.login(web.key(*roles, **{"name": "desk", **key}), person)
        assert browser.page.status_code == 200, browser.page.text
        return browser

    yield make
    for browser in made:
        browser.http.close()


def test_one_logs_in_with_a_key_and_out_again(web: WebServer, browsers: Any) -> None:
    browser = browsers(person="Anna")
    assert browser.page.url.path == "/inbox"
    assert "Signed in as Anna (desk)" in browser.page.text
    first = browser.page.history[0]
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    browser.send("/logout")
    assert browser.page.url.path == "/login"
    browser.get("/inbox")
    assert browser.page.url.path == "/login"


def test_a_wrong_key_is_told_and_the_key_not_repeated(web: WebServer) -> None:
    browser = Browser(web)
    text = browser.login("sk_wrong_key", "Anna")
    assert browser.page.status_code == 401
    assert "This key is not valid." in text
    assert "sk_wrong_key" not in text
    browser.http.close()


def test_one_comes_back_to_the_page_that_was_asked_for(web: WebServer) -> None:
    job_id = paused_job(web.store)
    browser = Browser(web)
    browser.get(f"/jobs/{job_id}")
    assert browser.page.url.path == "/login"
    browser.send("/login", key=web.key())
    assert browser.page.url.path == f"/jobs/{job_id}"
    browser.http.close()


def test_a_link_on_another_site_leads_in_all_the_same(web: WebServer) -> None:
    browser = Browser(web, **{"Sec-Fetch-Site": "cross-site"})
    text = browser.get("/jobs/x")
    assert browser.page.status_code == 200
    assert 'http-equiv="refresh"' in text
    browser.http.close()


def test_a_forged_session_is_no_session(web: WebServer, browsers: Any) -> None:
    browser = browsers()
    sealed = browser.http.cookies[SESSION_COOKIE]
    browser.http.cookies.set(SESSION_COOKIE, sealed[:-1] + ("0" if sealed[-1] != "0" else "1"))
    browser.http.cookies.delete(SESSION_COOKIE, domain="127.0.0.1")
    browser.get("/inbox")
    assert browser.page.url.path == "/login"


def test_a_revoked_key_ends_its_sessions(web: WebServer, browsers: Any) -> None:
    browser = browsers()
    for key in web.parts.ring.list():
        web.parts.ring.revoke(key.id)
    browser.get("/inbox")
    assert browser.page.url.path == "/login"


def test_a_question_is_answered(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store, question="May I promise 20 €?")
    browser = browsers(person="Anna")
    assert "May I promise 20 €?" in browser.page.text
    assert "May I promise 20 €?" in browser.get(f"/jobs/{job_id}")
    text = browser.send(f"/jobs/{job_id}/signals/answer", **{"answer.value": "Yes.", "note": "ok"})
    assert browser.page.url.path == f"/jobs/{job_id}"
    assert "Accepted: Answer. The job goes on." in text
    signal = web.store.events(job_id)[-1]
    assert (signal.data["value"], signal.data["by"]) == ("Yes.", "Anna (desk)")
    assert signal.data["note"] == "ok"
    assert web.parts.redis.llen("celery") == 1


def test_a_proposed_action_is_changed_and_approved(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store, kind=PauseKind.APPROVAL, action=REFUND)
    browser = browsers()
    browser.get(f"/jobs/{job_id}")
    browser.send(f"/jobs/{job_id}/signals/approve", **{"approve.amount": "25"})
    signal = web.store.events(job_id)[-1].data
    assert signal["arguments"] == {"order": "1187", "amount": 25.0}


def test_an_untouched_action_is_approved_as_it_was(web: WebServer, browsers: Any) -> None:
    arguments = {"text": f"a\r\nb {EVIL}", "n": None, "list": [1, {"x": "ä"}], "on": False}
    action = ProposedAction(call_id="c1", tool="post", arguments=arguments)
    job_id = paused_job(web.store, kind=PauseKind.APPROVAL, action=action)
    browser = browsers()
    browser.get(f"/jobs/{job_id}")
    browser.send(f"/jobs/{job_id}/signals/approve")
    assert web.store.events(job_id)[-1].data.get("arguments") is None


def test_what_is_wrong_is_said_beside_what_was_typed(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store, kind=PauseKind.APPROVAL, action=REFUND)
    browser = browsers()
    browser.get(f"/jobs/{job_id}")
    text = browser.send(
        f"/jobs/{job_id}/signals/approve", **{"approve.amount": "much", "note": "half"}
    )
    assert browser.page.status_code == 422
    assert "Give a number." in text
    form = Forms(text).found[f"/jobs/{job_id}/signals/approve"]
    assert (form["approve.amount"], form["note"]) == ("much", "half")
    assert web.store.read(job_id).pause is not None
    browser.send(f"/jobs/{job_id}/signals/approve", **{"approve.amount": "25,50"})
    arguments = web.store.events(job_id)[-1].data["arguments"]
    assert arguments == {"order": "1187", "amount": 25.5}


def test_the_second_is_told_who_was_first(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store)
    anna, bo = browsers(person="Anna"), browsers(person="Bo", language="de")
    anna.get(f"/jobs/{job_id}")
    bo.get(f"/jobs/{job_id}")
    anna.send(f"/jobs/{job_id}/signals/answer", **{"answer.value": "Yes."})
    text = bo.send(f"/jobs/{job_id}/signals/answer", **{"answer.value": "No."})
    assert bo.page.status_code == 409
    assert "Anna (desk) war zuerst da. Beantwortet, gerade eben" in text
    signals = [event.data["value"] for event in web.store.events(job_id) if event.kind == "signal"]
    assert signals == ["Yes."]


def test_a_pause_that_has_gone_is_not_answered_by_its_old_form(
    web: WebServer, browsers: Any
) -> None:
    job_id = paused_job(web.store)
    browser = browsers()
    browser.get(f"/jobs/{job_id}")
    web.store.cancel(job_id, "root")
    browser.send(f"/jobs/{job_id}/signals/answer", **{"answer.value": "Yes."})
    assert browser.page.status_code == 409
    assert "This was not accepted." in browser.page.text


def test_a_form_without_its_token_does_nothing(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store)
    browser, other = browsers(), browsers()
    browser.get(f"/jobs/{job_id}")
    other.get(f"/jobs/{job_id}")
    action = f"/jobs/{job_id}/signals/answer"
    stolen = Forms(other.page.text).found[action]["token"]
    for token in ("", "x", stolen, "ä"):
        browser.get(f"/jobs/{job_id}")
        browser.send(action, token=token, **{"answer.value": "Yes."})
        assert browser.page.status_code == 403
    assert web.store.read(job_id).pause is not None


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}])
def test_a_form_of_another_site_does_nothing(
    web: WebServer, browsers: Any, headers: dict[str, str]
) -> None:
    job_id = paused_job(web.store)
    browser = browsers()
    browser.get(f"/jobs/{job_id}")
    action = f"/jobs/{job_id}/signals/answer"
    form = Forms(browser.page.text).found[action]
    done = browser.http.post(action, data={**form, "answer.value": "Yes."}, headers=headers)
    assert done.status_code == 403
    key = {"key": web.key(), "next": "/inbox"}
    assert browser.http.post("/login", data=key, headers=headers).status_code == 403


def test_who_may_not_decide_sees_no_form(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store)
    operator = browsers("operate")
    text = operator.get(f"/jobs/{job_id}")
    assert "Your key may look, but not decide." in text
    assert f"/jobs/{job_id}/signals/answer" not in Forms(text).found
    token = Forms(text).found["/logout"]["token"]
    sent = {"token": token, "pause": "p1", "answer.value": "Yes."}
    done = operator.http.post(f"/jobs/{job_id}/signals/answer", data=sent)
    assert done.status_code in (403, 422)
    assert web.store.read(job_id).pause is not None


def test_a_job_of_another_label_is_not_there(web: WebServer, browsers: Any) -> None:
    paused_job(web.store, "theirs", labels=("finance",))
    paused_job(web.store, "ours", labels=("support",))
    browser = browsers("review", labels=["support"])
    assert "/jobs/ours" in browser.page.text
    assert "/jobs/theirs" not in browser.page.text
    browser.get("/jobs/theirs")
    assert browser.page.status_code == 404
    assert "There is no such job." in browser.page.text
    browser.get("/live/jobs/theirs")
    assert browser.page.status_code == 404


def test_a_submitter_has_no_inbox(web: WebServer, browsers: Any) -> None:
    browser = Browser(web)
    browser.login(web.key("submit"))
    assert browser.page.status_code == 403
    assert browser.get(f"/jobs/{paused_job(web.store)}")
    assert browser.page.status_code == 200
    browser.http.close()


PAGES = [
    "/inbox",
    "/jobs?status=succeeded",
    "/jobs?status=failed",
    "/workers",
    "/flow",
    "/jobs/evil",
]


@pytest.mark.parametrize("path", [*PAGES, "/jobs/ended", "/inbox?label=" + "%3Cscript%3E"])
@pytest.mark.parametrize("language", ["en", "de"])
def test_what_comes_from_outside_is_text(
    web: WebServer, browsers: Any, path: str, language: str
) -> None:
    action = ProposedAction(call_id="c1", tool=EVIL, arguments={EVIL: EVIL})
    web.job("evil", input=EVIL)
    web.job("of-a-tenant", tenant=EVIL)
    paused_job(web.store, "evil", PauseKind.APPROVAL, EVIL, action, labels=(EVIL,), problem=EVIL)
    web.job("ended", input={EVIL: EVIL})
    ended_job(web.store, "ended", value={EVIL: EVIL})
    web.job("failed", input=EVIL)
    ended_job(web.store, "failed", reason=EVIL)
    text = browsers(language=language).get(path)
    markup = Markup(text)
    if "label" not in path:
        assert EVIL[:-1] + "\\u202e" in markup.text or "workers" in path
    assert "\u202e" not in markup.text
    for tag, attributes in markup.tags:
        assert tag not in ("img", "iframe", "style", "object", "base")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        if tag == "script":
            assert str(attributes["src"]).startswith("/static/desk.js")
        if tag == "a":
            assert str(attributes["href"]).startswith(("/", "#"))


def test_the_inbox_is_filtered_and_paged(web: WebServer, browsers: Any) -> None:
    for number in range(30):
        paused_job(web.store, f"ask-{number:02}", question=f"Question {number}?")
    paused_job(web.store, "refund", PauseKind.APPROVAL, action=REFUND)
    browser = browsers()
    text = browser.get("/inbox")
    assert "31 found" in text
    assert "/jobs/ask-00" in text
    assert "/jobs/refund" not in text
    following = re.search(r'href="(/inbox\?cursor=[^"]+)" rel="next"', text)
    assert following is not None
    assert "/jobs/refund" in browser.get(following[1].replace("&amp;", "&"))
    text = browser.get("/inbox", kind="approval")
    assert re.findall(r'href="/jobs/([^"?]+)"', text) == ["refund"]
    assert "/jobs/ask-29" in browser.get("/inbox", order="newest")
    assert "Nobody is waited for." in browser.get("/inbox", age="3600")
    for odd in ({"kind": "x"}, {"age": "x"}, {"order": "x"}):
        browser.get("/inbox", **odd)
        assert browser.page.status_code == 200
    browser.get("/inbox", cursor="x")
    assert browser.page.status_code == 422


def test_jobs_are_told_ended_and_paused(web: WebServer, browsers: Any) -> None:
    job_id = web.job()
    browser = browsers(person="Anna")
    browser.get(f"/jobs/{job_id}")
    text = browser.send(f"/jobs/{job_id}/message", text="The customer\r\ncalled again.")
    assert "The agent reads it next." in text
    told = web.store.events(job_id)[-1]
    assert (told.kind, told.data["text"]) == ("message", "The customer\ncalled again.")
    assert "Anna (desk): The customer" in text
    browser.send(f"/jobs/{job_id}/pause", note="let me look")
    assert web.store.read(job_id).pause_wanted is not None
    browser.send(f"/jobs/{job_id}/cancel", note="sent twice")
    assert "cancelled by Anna (desk): sent twice" in browser.page.text
    assert f"/jobs/{job_id}/cancel" not in Forms(browser.page.text).found


def test_a_message_that_is_refused_is_told(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store)
    browser = browsers()
    browser.get(f"/jobs/{job_id}")
    text = browser.send(f"/jobs/{job_id}/message", text="   ")
    assert browser.page.status_code == 409
    assert "it is empty" in text


def test_a_poison_job_is_released(web: WebServer, browsers: Any) -> None:
    web.job("poison")
    for number in range(4):
        claim: Any = {"nonce": f"n{number}", "lease_ms": 1, "max_tries": 2}
        web.store.claim("poison", owner=f"w{number}@host/b/1/", **claim)
        web.store.abandon(f"w{number}@host/")
    browser = browsers()
    assert "/jobs/poison" in browser.get("/jobs?status=poison")
    text = browser.send("/quarantine/poison/release")
    assert browser.page.url.path != "/jobs/poison"
    assert "Goes on from poison" in text


def test_workers_and_agents_are_shown(web: WebServer, browsers: Any) -> None:
    web.job("running", input="look at 1187")
    claim: Any = {"nonce": "n", "lease_ms": 60_000, "max_tries": 5}
    web.store.claim("running", owner="w1@host/b/1/", **claim)
    text = browsers().get("/workers")
    assert "w1@host" in text
    assert "look at 1187" in text
    assert "<h3>shop</h3>" in text


def test_the_language_can_be_chosen(web: WebServer, browsers: Any) -> None:
    browser = browsers()
    assert 'lang="en"' in browser.page.text
    text = browser.get("/language/de", next="/workers")
    assert browser.page.url.path == "/workers"
    assert '<html lang="de">' in text
    assert "Posteingang" in browser.get("/inbox")
    browser.get("/language/de", next="//evil.example")
    assert browser.page.url.path == "/inbox"
    browser.get("/language/klingon")
    assert '<html lang="de">' in browser.page.text


@pytest.mark.parametrize("path", ["/nowhere", "/jobs?status=x", "/jobs/no-such-job"])
def test_what_is_not_there_is_a_page(web: WebServer, browsers: Any, path: str) -> None:
    browser = browsers()
    text = browser.get(path)
    assert browser.page.status_code == 404
    assert browser.page.headers["content-type"].startswith("text/html")
    assert "That did not work" in text


def test_pages_change_by_themselves(web: WebServer, browsers: Any) -> None:
    job_id = paused_job(web.store)
    browser = browsers()
    with browser.http.stream("GET", f"/live/jobs/{job_id}") as job:
        lines = job.iter_lines()
        assert next(lines) == "event: look"
        web.store.signal(job_id, "p1", Answer(value="yes"), "s1")
        assert [next(lines) for _ in range(3)] == ["data: ", "", "event: look"]
    with browser.http.stream("GET", "/live/lists") as lists:
        lines = lists.iter_lines()
        assert next(lines) == "event: look"
        paused_job(web.store, "another")
        assert [next(lines) for _ in range(3)] == ["data: ", "", "event: look"]


def test_files_are_kept_as_long_as_they_stay_the_same(web: WebServer, browsers: Any) -> None:
    browser = browsers()
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', browser.page.text)
    assert len(files) == 3
    for address in files:
        got = browser.http.get(address)
        assert got.status_code == 200
        assert "immutable" in got.headers["cache-control"]
        assert got.headers["x-content-type-options"] == "nosniff"
    assert "immutable" not in browser.http.get("/static/desk.css").headers["cache-control"]
    assert browser.http.get("/static/../pages.py").status_code == 404


def test_a_store_that_is_away_is_a_page(redis_url: str) -> None:
    with WebServer("redis://127.0.0.1:1/0", keyless_loopback=True) as web:
        browser = Browser(web)
        text = browser.get("/inbox")
        assert browser.page.status_code == 503
        assert "The store cannot be reached." in text
        browser.http.close()


def test_this_machine_needs_no_login_if_it_was_said_so(redis_url: str) -> None:
    with WebServer(redis_url, keyless_loopback=True) as web:
        job_id = paused_job(web.store)
        browser = Browser(web)
        browser.get(f"/jobs/{job_id}")
        browser.send(f"/jobs/{job_id}/signals/answer", **{"answer.value": "Yes."})
        assert browser.page.status_code == 200
        assert web.store.events(job_id)[-1].data["by"] == "local"
        stranger = Browser(web, Host="evil.example")
        stranger.get("/inbox")
        assert stranger.page.url.path == "/login"
        browser.http.close()
        stranger.http.close()


def test_several_actions_are_decided_one_by_one(web: WebServer, browsers: Any) -> None:
    mail = ProposedAction(call_id="c2", tool="mail", arguments={"to": "kim"})
    job_id = paused_job(web.store, kind=PauseKind.APPROVAL, action=REFUND)
    record = web.store.read(job_id).pause
    assert record is not None
    several = {"actions": (REFUND, mail), "accepts": ("decide", *record.accepts)}
    stored = record.model_copy(update=several).stored()
    web.parts.redis.hset(f"{{sk:0}}:j:{job_id}", "pause", stored)
    browser = browsers()
    text = browser.get(f"/jobs/{job_id}")
    assert "Approve all" in text
    action = f"/jobs/{job_id}/signals/decide"
    browser.send(action, **{"decide.c2.verdict": "false"})
    assert browser.page.status_code == 422
    browser.send(
        action,
        **{
            "decide.c1.verdict": "true",
            "decide.c1.arg.amount": "25",
            "decide.c2.verdict": "false",
            "decide.c2.reason": "no mails",
        },
    )
    calls = web.store.events(job_id)[-1].data["calls"]
    assert isinstance(calls, dict)
    assert calls["c1"]["arguments"] == {"order": "1187", "amount": 25.0}  # type: ignore[index, call-overload]
    assert calls["c2"]["reason"] == "no mails"  # type: ignore[index, call-overload]
