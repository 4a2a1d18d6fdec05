"""Flower, unchanged, in a real browser: what it shows of jobs on both pools, and what it can do."""

from __future__ import annotations

import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from prometheus_client.parser import text_string_to_metric_families

from api_client import AgentClient
from tests.acceptance.test_console import ARGUMENTS
from tests.support.flower import Flower
from tests.support.nursery import Nursery
from tests.support.workers import Ledger, RunningWorker, eventually
from worker.embedded import EmbeddedServer

pytestmark = pytest.mark.browser

POOLS = ("threads", "prefork")
REFUND = "I want a refund for order 1187."


@dataclass(frozen=True)
class Floor:
    """A shop floor: a worker of each pool on a queue of its name, and Flower, which sees both."""

    flower: Flower
    url: str
    gates: Path
    ledger: Ledger

    def submit(self, pool: str, task: str) -> str:
        """A job for the worker of this pool."""
        client = AgentClient(self.url, queue=pool)
        return client.submit("support", task, check_agent=False)

    @property
    def client(self) -> AgentClient:
        """Looks at jobs and answers them."""
        return AgentClient(self.url)

    def hold(self, gate: str) -> None:
        """Shut a gate: ``model-TAG-STEP``."""
        (self.gates / gate).touch()

    def open(self, gate: str) -> None:
        """Open it again."""
        (self.gates / gate).unlink()

    def wait_status(self, job_id: str, status: str) -> None:
        """Wait until the store says so."""
        eventually(lambda: self.client.get(job_id).status == status, f"{job_id} is {status}")


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Floor]:
    """One Flower and one worker a pool, for the whole file."""
    folder = tmp_path_factory.mktemp("flower")
    gates, ledger = folder / "gates", Ledger(folder / "ledger")
    gates.mkdir()
    env = {"TEST_GATES": str(gates), "TEST_LEDGER": str(ledger.path)}
    with EmbeddedServer(folder / "valkey") as valkey, Flower(valkey.url, folder) as flower:
        workers = [start(nursery, valkey.url, pool, env) for pool in POOLS]
        try:
            for worker in workers:
                worker.wait_ready()
            yield Floor(flower, valkey.url, gates, ledger)
        finally:
            for worker in workers:
                worker.kill()


def start(nursery: Nursery, url: str, pool: str, env: dict[str, str]) -> RunningWorker:
    """A worker on a queue of its own."""
    return nursery.start(
        url,
        app="worker.app",
        name=f"{pool}@floor",
        pool=pool,
        concurrency=2,
        agents="tests.support.support_agents",
        env=env,
        options=(f"--queues={pool}",),
    )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page of a window of its own, in which no script may go wrong."""
    page = chromium.new_page(viewport={"width": 1500, "height": 800})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    page.close()
    assert wrong == []


def row(page: Page, floor: Floor, job_id: str) -> Any:
    """The job's one row in the table of tasks, loaded anew."""
    page.goto(f"{floor.flower.url}/tasks?search={job_id}")
    rows = page.locator("#tasks-table tbody tr", has_text=job_id)
    expect(rows).to_have_count(1)
    return rows


def press(page: Page, floor: Floor, job_id: str, button: str) -> None:
    """Press a button of the task's page, which must be there."""
    page.goto(f"{floor.flower.url}/task/{job_id}")
    page.locator(button).click()
    expect(page.locator(button)).to_be_disabled()


@pytest.mark.parametrize("pool", POOLS)
def test_one_row_from_the_question_over_the_answer_to_the_end(
    floor: Floor, page: Page, pool: str, tmp_path: Path
) -> None:
    job_id = floor.submit(pool, f"{REFUND} @{pool}")
    floor.flower.wait_state(job_id, "PAUSED")
    expect(row(page, floor, job_id)).to_contain_text("agent.support")
    expect(row(page, floor, job_id)).to_contain_text(REFUND)
    expect(row(page, floor, job_id)).to_contain_text("PAUSED")
    assert len(page.screenshot(path=tmp_path / "paused.png")) > 10_000
    floor.hold(f"model-{pool}-3")
    floor.client.signal(job_id, {"kind": "answer", "value": "yes", "by": "anna"})
    floor.flower.wait_state(job_id, "STARTED")
    expect(row(page, floor, job_id)).to_contain_text("STARTED")
    floor.open(f"model-{pool}-3")
    floor.flower.wait_state(job_id, "SUCCESS")
    expect(row(page, floor, job_id)).to_contain_text("SUCCESS")
    assert page.screenshot(path=tmp_path / "succeeded.png")
    known = floor.flower.task(job_id)
    assert "delivered on 26 October" in known["result"]
    assert known["worker"] == f"{pool}@floor"


@pytest.mark.parametrize("pool", POOLS)
def test_a_failure_is_shown_with_its_words(floor: Floor, page: Page, pool: str) -> None:
    job_id = floor.submit(pool, "closed")
    floor.flower.wait_state(job_id, "FAILURE")
    expect(row(page, floor, job_id)).to_contain_text("FAILURE")
    page.goto(f"{floor.flower.url}/task/{job_id}")
    expect(page.locator("#task-page")).to_contain_text("the model does not exist")


@pytest.mark.parametrize("pool", POOLS)
def test_revoke_pressed_ends_a_job_that_waits_for_its_model(
    floor: Floor, page: Page, pool: str
) -> None:
    gate = f"model-late-{pool}-1"
    floor.hold(gate)
    job_id = floor.submit(pool, f"busy @late-{pool}")
    floor.ledger.wait("gate", name=gate)
    floor.flower.wait_state(job_id, "STARTED")  # Celery sends that in its own time
    floor.open(gate)
    floor.flower.wait_state(job_id, "RETRY")
    expect(row(page, floor, job_id)).to_contain_text("RETRY")
    press(page, floor, job_id, "#task-revoke")
    floor.flower.wait_state(job_id, "REVOKED")
    expect(row(page, floor, job_id)).to_contain_text("REVOKED")
    floor.wait_status(job_id, "cancelled")


@pytest.mark.parametrize("pool", POOLS)
def test_terminate_pressed_ends_a_running_job(floor: Floor, page: Page, pool: str) -> None:
    """Behind a step of its own: that has not taken the button away."""
    gate = f"model-end-{pool}-2"
    floor.hold(gate)
    job_id = floor.submit(pool, f"look @end-{pool}")
    floor.ledger.wait("gate", name=gate)
    eventually(lambda: "I look" not in str(floor.flower.task(job_id)), "no words in events")
    floor.flower.wait_state(job_id, "STARTED")
    press(page, floor, job_id, "#task-terminate")
    eventually(
        lambda: floor.client.get(job_id).cancel_requested or floor.client.get(job_id).status.ended,
        "the store knows of it",
    )
    floor.open(gate)
    floor.flower.wait_state(job_id, "REVOKED")
    expect(row(page, floor, job_id)).to_contain_text("REVOKED")
    floor.wait_status(job_id, "cancelled")


@pytest.mark.parametrize("pool", POOLS)
def test_terminate_pressed_ends_a_job_that_has_paused_meanwhile(
    floor: Floor, page: Page, pool: str
) -> None:
    """The page was opened while the job ran, and still shows its button."""
    gate = f"model-meanwhile-{pool}-1"
    floor.hold(gate)
    job_id = floor.submit(pool, f"{REFUND} @meanwhile-{pool}")
    floor.flower.wait_state(job_id, "STARTED")
    page.goto(f"{floor.flower.url}/task/{job_id}")
    expect(page.locator("#task-terminate")).to_be_visible()
    floor.open(gate)
    floor.flower.wait_state(job_id, "PAUSED")
    page.locator("#task-terminate").click()
    floor.flower.wait_state(job_id, "REVOKED")
    expect(row(page, floor, job_id)).to_contain_text("REVOKED")
    floor.wait_status(job_id, "cancelled")


def test_a_revoke_by_flowers_api_ends_a_paused_job(floor: Floor, page: Page) -> None:
    """What its buttons send; on the fresh page of a PAUSED task this Flower has none."""
    job_id = floor.submit("threads", REFUND)
    floor.flower.wait_state(job_id, "PAUSED")
    page.goto(f"{floor.flower.url}/task/{job_id}")
    told = page.evaluate(
        "id => fetch('/api/task/revoke/' + id, {method: 'POST'}).then(answer => answer.json())",
        job_id,
    )
    assert told == {"message": f"Revoked '{job_id}'"}
    floor.flower.wait_state(job_id, "REVOKED")
    floor.wait_status(job_id, "cancelled")


@pytest.mark.parametrize("pool", POOLS)
def test_the_page_of_a_worker(floor: Floor, page: Page, pool: str) -> None:
    gate = f"model-active-{pool}-1"
    floor.hold(gate)
    job_id = floor.submit(pool, f"Where is order 1187? @active-{pool}")
    floor.ledger.wait("gate", name=gate)
    refresh = f"{floor.flower.url}/api/workers?refresh=1&workername={pool}@floor"
    urllib.request.urlopen(refresh, timeout=30).close()
    page.goto(f"{floor.flower.url}/worker/{urllib.parse.quote(pool)}@floor")
    expect(page.locator("#tab-pool")).to_contain_text("Max concurrency")
    expect(page.locator("#tab-pool")).to_contain_text("2")
    page.locator("#worker-tab-queues").click()
    expect(page.locator("#worker-queues")).to_contain_text(pool)
    page.locator("#worker-tab-tasks").click()
    processed = page.locator("#tab-tasks table").first
    expect(processed).to_contain_text("agent.support")
    active = page.locator("#tab-tasks table", has_text="Active tasks")
    expect(active).to_contain_text(job_id)
    expect(active).to_contain_text("Where is order 1187?")
    floor.open(gate)
    floor.wait_status(job_id, "succeeded")


OF_THREE_JOBS = {
    "task-received": 4,
    "task-started": 4,
    "task-step": 5,
    "task-paused": 1,
    "task-resumed": 1,
    "task-succeeded": 2,
    "task-failed": 1,
}


@pytest.mark.parametrize("pool", POOLS)
def test_its_metrics_count_each_agents_events(floor: Floor, pool: str) -> None:
    before = counted(floor, pool)
    jobs = [floor.submit(pool, REFUND), floor.submit(pool, "closed"), floor.submit(pool, "look")]
    floor.flower.wait_state(jobs[0], "PAUSED")
    floor.client.signal(jobs[0], {"kind": "answer", "value": "no", "by": "anna"})
    for job_id, state in zip(jobs, ("SUCCESS", "FAILURE", "SUCCESS"), strict=True):
        floor.flower.wait_state(job_id, state)
    eventually(lambda: added(floor, pool, before) == OF_THREE_JOBS, "Flower has counted them all")
    assert value(floor, "flower_worker_prefetched_tasks", pool) == 0


def added(floor: Floor, pool: str, before: dict[str, float]) -> dict[str, float]:
    """What Flower has counted since; not what only shows a state, as ``task-STARTED`` does."""
    more = {kind: now - before.get(kind, 0) for kind, now in counted(floor, pool).items()}
    return {kind: count for kind, count in more.items() if count and kind.islower()}


def counted(floor: Floor, pool: str) -> dict[str, float]:
    """How many events of each type Flower has counted for the agent on this worker."""
    return {
        sample.labels["type"]: sample.value
        for sample in samples(floor, pool)
        if sample.name == "flower_events_total"
    }


def value(floor: Floor, name: str, pool: str) -> float:
    """One metric of the agent on this worker."""
    [found] = [sample.value for sample in samples(floor, pool) if sample.name == name]
    return float(found)


def samples(floor: Floor, pool: str) -> Iterator[Any]:
    """What Flower exposes of the agent on this worker."""
    for family in text_string_to_metric_families(floor.flower.get("/metrics")):
        for sample in family.samples:
            labels = sample.labels
            if labels.get("worker") == f"{pool}@floor" and labels.get("task") == "agent.support":
                yield sample
