"""The console's page of shares, limits and backlogs, without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import JobSpec
from api_client.tenants import TenantPolicy
from tests.integration.web.browser import Browser, Markup, Rows
from tests.integration.web.test_console import EVIL
from tests.support.web import WebServer
from worker.flow.base import Ask, Limit, Settled
from worker.store.base import Slots

KEY = "api.test/small"


@pytest.fixture
def flow(web: WebServer) -> WebServer:
    """A store with two tenants, a model that is closed, and caps of what waits."""
    store, ledger = web.store, web.parts.ledger
    store.announce_slots(Slots("w1", 4, ["celery"], {"shop": "celery"}, 60_000))
    store.set_policy("acme", TenantPolicy(weight=2.5, concurrency=4, backlog=5000))
    for number in range(3):
        store.create(JobSpec(job_id=f"a{number}", agent="shop", input="x", tenant="acme"))
    store.create(JobSpec(job_id="b", agent="shop", input="x", tenant=EVIL[:-1]))
    store.claim("a0", owner="w1/b/1/", nonce="n", lease_ms=60_000, max_tries=5)
    store.set_cap("agent", "shop", 3)
    limit = Limit(rpm=500, tpm=5000, in_flight=1)
    ledger.set_limit(KEY, limit)
    ledger.reserve(KEY, limit, Ask("c0", "a0", "acme", 1200))
    ledger.settle(KEY, Settled("c0", 0, 0, 5, close_ms=60_000))
    ledger.reserve(KEY, limit, Ask("c1", "a1", "acme", 100))
    ledger.reserve(KEY, limit, Ask("c2", "a2", "acme", 6000))
    return web


def opened(web: WebServer, language: str = "en", **key: Any) -> str:
    """The page, as somebody with this key reads it."""
    browser = Browser(web, **{"Accept-Language": language})
    browser.login(web.key("operate", **key))
    text = browser.get("/flow")
    assert browser.page.status_code == 200, text
    browser.http.close()
    return text


def test_shares_limits_and_backlogs_are_read_without_javascript(flow: WebServer) -> None:
    rows = Rows(opened(flow))
    assert rows.found["Tenant"] == [
        *("Weight", "Running", "Queued", "Waiting", "Backlog", "Paused", "Steps, 2 days")
    ]
    assert rows.found["acme"] == ["2.5", "1 of 4", "2", "0", "2 of 5,000", "0", "0"]
    [model] = [name for name in rows.found if name.startswith(KEY)]
    assert rows.found["Model"] == ["Requests", "Tokens", "In flight", "Jobs waiting"]
    assert rows.found[model] == ["1 of 500", "1,200 of 5,000", "0 of 1", "1"]
    assert "its provider wants no call for" in model
    assert "a call of 6,000 tokens is more than a minute allows" in model
    assert rows.found["shop"] == ["3 of 3"]
    assert rows.found["celery"] == ["3"]
    assert rows.tight == ["Backlog"], "only the backlog of the agent is used up"


def test_it_speaks_german(flow: WebServer) -> None:
    text = opened(flow, "de")
    rows = Rows(text)
    assert rows.found["acme"] == ["2,5", "1 von 4", "2", "0", "2 von 5.000", "0", "0"]
    assert rows.found["Mandant"][:5] == [
        *("Gewicht", "Laufend", "In der Schlange", "Wartend", "Rückstand")
    ]
    assert any("Anbieter bittet um" in name for name in rows.found)
    assert "Modelle, in der letzten Minute" in text


def test_names_of_tenants_are_text(flow: WebServer) -> None:
    text = opened(flow)
    assert EVIL[:-1] in Rows(text).found
    assert "img" not in {tag for tag, _ in Markup(text).tags}


def test_a_tenants_key_sees_its_own_share_and_no_limit(flow: WebServer) -> None:
    text = opened(flow, tenant="acme")
    assert set(Rows(text).found) == {"Tenant", "acme"}
    assert KEY not in text


def test_only_operators_see_it(flow: WebServer) -> None:
    browser = Browser(flow)
    browser.login(flow.key("review"))
    assert 'href="/flow"' not in browser.page.text
    browser.get("/flow")
    assert browser.page.status_code == 403
    browser.http.close()


def test_an_empty_store_says_so(web: WebServer) -> None:
    text = opened(web)
    for words in ("No tenant has jobs or a share.", "No model has a limit."):
        assert words in text


def test_a_hundred_tenants_are_shown_the_busiest_first(web: WebServer) -> None:
    for number in range(102):
        spec = JobSpec(job_id=f"j{number}", agent="shop", input="x", tenant=f"t{number:03}")
        web.store.create(spec)
    web.store.create(JobSpec(job_id="more", agent="shop", input="x", tenant="t101"))
    text = opened(web)
    shown = [name for name in Rows(text).found if name.startswith("t")]
    assert shown == ["t101", *(f"t{number:03}" for number in range(99))]
    assert "2 more tenants have less." in text
