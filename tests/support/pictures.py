"""The pictures of the documentation, taken of the real thing: ``make pictures``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, ViewportSize, sync_playwright

from api_client import AgentClient
from tests.support.flower import Flower
from tests.support.web import WebServer
from tests.support.workers import ROOT, eventually, running
from worker.embedded import EmbeddedServer

FOLDER = ROOT / "docs" / "pictures"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
WIDE: ViewportSize = {"width": 1200, "height": 640}
BELOW_THE_HEAD: FloatRect = {"x": 0, "y": 95, "width": 1200, "height": 545}
TALL: ViewportSize = {"width": 1100, "height": 900}
REFUND = "The headphones of order 1187 are broken. I want my money back."


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def flower(browser: Browser, folder: Path) -> None:
    """Jobs in every state, in the table of tasks of an unchanged Flower."""
    gates = folder / "gates"
    gates.mkdir()
    env = {"TEST_GATES": str(gates)}
    agents = "tests.support.support_agents"
    with (
        EmbeddedServer(folder / "valkey") as valkey,
        Flower(valkey.url, folder, "name,args,state,received,runtime,worker") as seen,
        running(valkey.url, agents=agents, name="worker1@shop", env=env),
    ):
        client = AgentClient(valkey.url)
        jobs = {
            "I want a refund for order 2051.": "PAUSED",
            "Is the shop closed on Sundays?": "FAILURE",
            "Is support busy today?": "RETRY",
            "Where is order 1187?": "SUCCESS",
            "I want a refund for order 1187.": "PAUSED",
        }
        ids = [client.submit("support", task, check_agent=False) for task in jobs]
        for job_id, state in zip(ids, jobs.values(), strict=True):
            seen.wait_state(job_id, state)
        client.cancel(ids[0])
        (gates / "model--2").touch()
        seen.wait_state(ids[0], "REVOKED")
        last = client.submit("support", "How long is the warranty?", check_agent=False)
        seen.wait_state(last, "STARTED")
        page = browser.new_page(viewport=WIDE)
        page.goto(f"{seen.url}/tasks")
        page.locator("#tasks-table", has_text="How long is the warranty?").wait_for()
        page.screenshot(path=FOLDER / "flower.png", clip=BELOW_THE_HEAD)
        page.close()


def console(browser: Browser, folder: Path) -> None:
    """A refund that waits for an approval, in the console."""
    with (
        EmbeddedServer(folder / "console") as valkey,
        running(valkey.url, agents="tests.support.refund_agents", name="worker1@shop"),
        WebServer(valkey.url) as web,
    ):
        client = AgentClient(valkey.url)
        job_id = client.submit("refunds", REFUND, check_agent=False)
        eventually(lambda: client.get(job_id).pause, "the refund waits for an approval")
        page = browser.new_page(viewport=TALL, locale="en-GB")
        page.goto(f"{web.url}/login")
        page.locator("#key").fill(web.key(name="desk"))
        page.locator("#name").fill("Anna")
        page.locator("main button").click()
        page.goto(f"{web.url}/jobs/{job_id}")
        page.locator("#asks").wait_for()
        page.screenshot(path=FOLDER / "console.png")
        page.close()


PICTURES = {"flower": flower, "console": console}


def main(names: list[str]) -> None:
    """Take the pictures of these names; of all, if none is given."""
    FOLDER.mkdir(exist_ok=True)
    with _chromium() as browser:
        for name in names or PICTURES:
            with tempfile.TemporaryDirectory() as folder:
                PICTURES[name](browser, Path(folder))
            size = (FOLDER / f"{name}.png").stat().st_size
            print(f"docs/pictures/{name}.png: {size / 1024:.0f} KB")


if __name__ == "__main__":
    main(sys.argv[1:])
