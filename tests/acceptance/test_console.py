"""The console in a real browser, on a real worker: a refund is found, changed and approved."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from api_client import AgentClient
from api_client.contract import JobSpec, JobStatus
from api_client.runs import write_run
from tests.support.nursery import Nursery
from tests.support.refund_agents import EVIL
from tests.support.web import WebServer
from tests.support.workers import eventually
from worker.embedded import EmbeddedServer
from worker.flow.base import Ask, Limit
from worker.store.base import Claimed, Progress, Ticket

pytestmark = pytest.mark.browser

AGENTS = "tests.support.refund_agents"
TASK = "The headphones of order 1187 are broken. I want my money back."
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = {"width": 375, "height": 812}
TABLET = {"width": 900, "height": 1100}
DESK = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def store_url(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[str]:
    """A store on which a worker runs the agent ``refunds``."""
    with EmbeddedServer(tmp_path_factory.mktemp("console-valkey")) as valkey:
        worker = nursery.start(valkey.url, app="worker.app", name="w1@console", agents=AGENTS)
        try:
            worker.wait_ready()
            eventually(AgentClient(valkey.url).agents, "the agent is announced")
            yield valkey.url
        finally:
            worker.kill()


@pytest.fixture(scope="module")
def client(store_url: str) -> AgentClient:
    """Submits the jobs."""
    return AgentClient(store_url)


@pytest.fixture(scope="module")
def web(store_url: str) -> Iterator[WebServer]:
    """The console."""
    with WebServer(store_url) as web:
        yield web


@contextmanager
def person(
    chromium: Browser, web: WebServer, name: str, key: str = "", **options: Any
) -> Iterator[Page]:
    """Somebody at a browser of their own, logged in; nothing may go wrong in it."""
    settings = {"viewport": DESK, "locale": "en-GB", **options}
    context = chromium.new_context(**settings)
    page = context.new_page()
    wrong: list[str] = []
    asked: set[str] = set()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: asked.add(request.url))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.goto(f"{web.url}/login")
    page.locator("#key").fill(key or web.key(name="desk"))
    page.locator("#name").fill(name)
    page.locator("main button").click()
    expect(page.locator("h1")).to_have_text(
        "Inbox" if "en" in settings["locale"] else "Posteingang"
    )
    yield page
    context.close()
    allowed = "409 (Conflict)"
    assert [text for text in wrong if allowed not in text] == []
    assert {url for url in asked if not url.startswith(web.url)} == set()


def paused(client: AgentClient, text: str, **options: Any) -> str:
    """A job that has come to its pause."""
    job_id = client.submit("refunds", text, **options)
    eventually(lambda: client.get(job_id).status is JobStatus.PAUSED, "the job is paused")
    return job_id


def test_a_refund_is_found_read_changed_and_approved(
    chromium: Browser, web: WebServer, client: AgentClient, tmp_path: Path
) -> None:
    job_id = paused(client, TASK)
    with person(chromium, web, "Anna") as anna, person(chromium, web, "Bo") as bo:
        anna.locator("select[name=kind]").select_option("approval")
        expect(anna).to_have_url(f"{web.url}/inbox?agent=&kind=approval&label=&age=&order=oldest")
        row = anna.locator(".row", has_text=TASK)
        expect(row).to_contain_text("amount 59.9")
        row.locator("a.lead").click()
        expect(anna.locator("#asks")).to_have_text("May the agent do this?")
        expect(anna.locator("#trace")).to_contain_text("First I look at the order.")
        expect(anna.locator("#trace")).to_contain_text('"status": "delivered"')
        expect(anna.locator("#budgets")).to_contain_text("2 of 10")
        expect(anna.locator("#time rect.model")).not_to_have_count(0)
        bo.goto(f"{web.url}/jobs/{job_id}")
        bo.get_by_label("amount").fill("59.90")

        anna.get_by_label("amount").fill("25")
        anna.get_by_label("way").select_option("voucher")
        anna.get_by_role("button", name="Approve").click()
        expect(anna.locator("[role=status]")).to_contain_text("Accepted: Approve")
        expect(anna.locator(".outcome")).to_contain_text("refunded 25.00 EUR for 1187 by voucher")
        expect(anna.locator("#trace")).to_contain_text("Approved by Anna (desk)")
        expect(anna.locator("#status")).to_have_text("succeeded")

        expect(bo.locator(".changed")).to_contain_text("Something has happened to this job")
        expect(bo.get_by_label("amount")).to_have_value("59.90")
        bo.get_by_role("button", name="Approve").click()
        expect(bo.locator("[role=alert]")).to_contain_text("Anna (desk) was first. Approved")
        expect(bo.locator(".outcome")).to_contain_text("refunded 25.00 EUR")
    assert client.result(job_id, 10).endswith("refunded 25.00 EUR for 1187 by voucher")
    signals = [event.data for event in client.trace(job_id) if event.kind == "signal"]
    assert [signal["by"] for signal in signals] == ["Anna (desk)"]


def test_a_question_is_answered_by_keyboard_alone(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    job_id = paused(client, "ask: the order came late")
    with person(chromium, web, "Anna") as page:
        page.goto(f"{web.url}/jobs/{job_id}")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        for _ in range(10):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "answer.value":
                break
        page.keyboard.type("Yes, promise 20 €.")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".outcome")).to_contain_text("Yes, promise 20 €.")
    assert client.get(job_id).status is JobStatus.SUCCEEDED


def test_a_question_is_answered_without_javascript(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    job_id = paused(client, "ask: the order came late")
    with person(chromium, web, "Anna", java_script_enabled=False) as page:
        page.locator(f'a[href="/jobs/{job_id}"]').click()
        page.get_by_label("Your answer").fill("No.")
        page.get_by_role("button", name="Answer", exact=True).click()
        expect(page.locator("[role=status]")).to_contain_text("Accepted: Answer")
    assert "No." in client.result(job_id, 20)


def test_lists_and_pages_follow_what_happens(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    with person(chromium, web, "Anna", locale="de-DE") as page:
        expect(page.locator(".pulse")).to_be_visible()
        job_id = paused(client, "ask: will it appear by itself?")
        row = page.locator(f'a[href="/jobs/{job_id}"]')
        expect(row).to_be_visible()
        row.click()
        expect(page.locator("#asks")).to_have_text("Der Agent fragt dich")
        client.signal(job_id, {"kind": "finish", "answer": "Erledigt.", "by": "Otto"})
        expect(page.locator("#status")).to_have_text("gelungen")
        expect(page.locator("#trace")).to_contain_text("Abgeschlossen durch Otto")
        expect(page.locator("#decision form")).to_have_count(0)


def test_the_model_is_read_while_it_speaks(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    """Of a job that the test itself runs: its words come piece by piece, and go into the trace."""
    store = web.store
    job_id = "speaks"
    store.create(JobSpec(job_id=job_id, agent="elsewhere", input="Speak."))
    held = store.claim(job_id, owner="test@h/b/1/", nonce="n", lease_ms=600_000, max_tries=5)
    assert isinstance(held, Claimed)
    with person(chromium, web, "Anna") as page:
        page.goto(f"{web.url}/jobs/{job_id}")
        words = page.locator("#words")
        expect(words).to_be_hidden()
        store.emit(job_id, held.epoch, [{"step": 1, "kind": "begin"}, piece("Let me <b>see")])
        expect(words).to_contain_text("Let me <b>see")
        store.emit(job_id, held.epoch, [piece(" it.")])
        expect(words).to_contain_text("Let me <b>see it.")
        reply = {"role": "assistant", "content": "Let me <b>see it. Done."}
        run = write_run({"steps": 1, "usage": [9, 9]})
        data = {"i": 0, "s": 1, "ms": 5, "in": 9, "out": 9}
        store.commit(
            Ticket(job_id, held.epoch, held.seq + 1), Progress(run, "reply", data, [reply])
        )
        expect(page.locator("#trace")).to_contain_text("Let me <b>see it. Done.")
        expect(words).to_be_hidden()
    client.cancel(job_id, by="test")


def piece(text: str) -> dict[str, Any]:
    """Some of what a model says in its first step."""
    return {"step": 1, "kind": "text", "text": text}


def test_many_are_decided_by_their_label(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    jobs = [paused(client, f"ask: number {n}", labels=["many"]) for n in range(3)]
    with person(chromium, web, "Anna", java_script_enabled=False) as page:
        page.goto(f"{web.url}/inbox?label=many")
        page.get_by_role("link", name="Decide all of these").click()
        page.locator("#bulk-signal").select_option("answer")
        page.locator("#bulk-value").fill("Yes, to all of you.")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator("#report h2")).to_have_text("3 would take it, 0 would not")
        page.get_by_role("button", name="Answer: 3 jobs").click()
        expect(page.locator("#report h2")).to_have_text("3 took it, 0 did not")
    assert all("Yes, to all of you." in client.result(job_id, 30) for job_id in jobs)


def test_the_worker_is_shown_though_it_is_idle(chromium: Browser, web: WebServer) -> None:
    with person(chromium, web, "Anna") as page:
        page.goto(f"{web.url}/workers")
        row = page.locator(".row.worker", has_text="w1@console")
        expect(row).to_contain_text("at once")
        expect(row).to_contain_text("queues: celery")
        expect(row).to_contain_text("refunds")


def test_scripts_in_models_and_tools_words_do_not_run(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    job_id = paused(client, "evil")
    with person(chromium, web, "Anna") as page:
        for path in ("/inbox", f"/jobs/{job_id}"):
            page.goto(web.url + path)
            expect(page.locator(".pulse")).to_be_visible()
            expect(page.locator("main")).to_contain_text("<script>document.title='owned'</script>")
        page.get_by_label("Your answer").fill(EVIL)
        page.get_by_role("button", name="Answer", exact=True).click()
        expect(page.locator(".outcome")).to_contain_text("<img src=x onerror=")
        assert page.locator("img").count() == 0
        page.goto(f"{web.url}/jobs?status=succeeded")
        expect(page.locator("main")).to_contain_text("<script>")
        assert "owned" not in page.title()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, TABLET, PHONE], ids=["desk", "tablet", "phone"])
def test_pages_fit_every_screen_in_both_themes(
    chromium: Browser,
    web: WebServer,
    client: AgentClient,
    theme: str,
    size: dict[str, int],
    tmp_path: Path,
) -> None:
    tenant = f"a customer {'longname' * 20}"
    job_id = paused(client, f"{TASK} {'longword' * 30}", labels=["support"], tenant=tenant)
    client.set_tenant(tenant, weight=2.5, concurrency=1_000, backlog=500_000)
    web.parts.ledger.set_limit(f"api.test/{'long' * 20}", Limit(rpm=500, tpm=2_000_000))
    options: dict[str, Any] = {"color_scheme": theme, "viewport": size}
    with person(chromium, web, "Anna", **options) as page:
        for number, path in enumerate(
            ("/inbox", f"/jobs/{job_id}", "/workers", "/flow", "/jobs?status=failed", "/bulk")
        ):
            page.goto(web.url + path)
            expect(page.locator("h1")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
            shot = page.screenshot(path=tmp_path / f"{number}-{theme}.png", full_page=True)
            assert len(shot) > 10_000
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            dark = sum(int(part) for part in background[4:-1].split(", ")) < 384
            assert dark is (theme == "dark")
            assert contrasts(page) >= 4.5, path
    client.cancel(job_id, by="test")
    client.forget_tenant(tenant)
    web.parts.ledger.set_limit(f"api.test/{'long' * 20}", None)


def test_a_limit_is_followed_on_a_phone_without_javascript(
    chromium: Browser, web: WebServer, client: AgentClient
) -> None:
    limit = Limit(rpm=10)
    web.parts.ledger.set_limit("api.test/small", limit)
    options: dict[str, Any] = {"viewport": PHONE, "locale": "de-DE", "java_script_enabled": False}
    with person(chromium, web, "Anna", **options) as page:
        page.goto(f"{web.url}/flow")
        line = page.get_by_role("row").filter(has_text="api.test/small")
        expect(line).to_contain_text("0 von 10")
        for number in range(9):
            web.parts.ledger.reserve("api.test/small", limit, Ask(f"c{number}", "j", "", 1))
        page.reload()
        expect(line.locator(".tight")).to_have_text("9 von 10")
        expect(line.locator("td").first).to_have_css("display", "grid")
    web.parts.ledger.set_limit("api.test/small", None)


CONTRASTS = """
() => {
  const luminance = ([r, g, b]) => [r, g, b]
    .map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parts = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let least = 21;
  for (const node of document.querySelectorAll("main *, header *, footer *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const style = getComputedStyle(node);
    if (!own || !node.checkVisibility() || style.color.startsWith("color")) continue;
    const one = luminance(parts(style.color)) + 0.05, two = luminance(behind(node)) + 0.05;
    least = Math.min(least, Math.max(one, two) / Math.min(one, two));
  }
  return least;
}
"""


def contrasts(page: Page) -> float:
    """The least contrast of any text on the page with what is behind it."""
    return float(page.evaluate(CONTRASTS))
