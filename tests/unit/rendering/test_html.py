"""The page of a trace: whole, harmless, and nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from api_client.contract import Answer
from tests.support.recorded import Recorded, record
from worker.models.scripted import act, say
from worker.rendering import trace_page

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e\x1b[31m"


class Reader(HTMLParser):
    """Elements with their attributes, and the text; complains if one is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "line"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str, kind: str = "") -> int:
        """How many elements there are of a name and a class."""
        return sum(
            name == tag and (not kind or kind in (attributes.get("class") or "").split())
            for name, attributes in self.elements
        )


def shop_run() -> Recorded:
    """Two tools, a person, an answer."""
    script = [
        act("I look.", ("status", {"order": "1187"}), ("lines", {"count": 40})),
        act("May I?", ("hand_to_human", {"reason": "Pay?"})),
        say("It is delivered."),
    ]
    return record(script, answers=lambda _: Answer(value="Yes, pay.", by="anna"))


def test_the_page_tells_the_whole_job() -> None:
    page = Reader(trace_page(shop_run(), "job-1"))
    for text in (
        "clerk", "succeeded", "Where is 1187?", "I look.", 'status(order="1187")',
        "1187: delivered", "line 39", "answer by anna: Yes, pay.", "It is delivered.",
        "step 3", "400 in + 30 out tokens", "3 steps",
    ):  # fmt: skip
        assert text in page.text
    assert page.count("section", "step") == 3
    assert page.count("details") == 1
    assert page.count("rect", "model") == 3
    assert page.count("rect", "tool") == 2
    assert page.count("rect", "pause") == 1


def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    page = trace_page(shop_run(), "job-1")
    reader = Reader(page)
    tags = {tag for tag, _ in reader.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "a", "image"}
    for _, attributes in reader.elements:
        assert not any(
            name.startswith("on") or name in ("src", "href", "style") for name in attributes
        )
    assert "url(" not in page
    assert "@import" not in page
    assert "http://" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page


def test_everything_of_the_job_is_text() -> None:
    script = [
        act(ATTACK, ("status", {"order": ATTACK}), ("no_such" , ATTACK)),
        say(ATTACK),
    ]  # fmt: skip
    page = trace_page(record(script, task=ATTACK), "job-1")
    reader = Reader(page)
    assert reader.count("script") == reader.count("img") == 0
    assert reader.text.count("<script>alert(1)</script>") >= 4
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_a_failure_and_an_open_pause_are_told() -> None:
    failed = record([act("x", ("status", {"order": "1"}))], max_steps=1, on_limit="stop")
    assert Reader(trace_page(failed, "job-1")).count("section", "reason") == 1
    waiting = Reader(trace_page(record([act("x", ("refund", {"euro": 5}))]), "job-1"))
    assert waiting.count("section", "waits") == 1
    assert "refund(euro=5)" in waiting.text
    assert "stepkeeper approve job-1" in waiting.text


def test_it_is_light_and_dark() -> None:
    page = trace_page(shop_run(), "job-1")
    assert '<meta name="color-scheme" content="light dark">' in page
    assert "prefers-color-scheme: dark" in page
    names = set(re.findall(r"var\((--[a-z]+)\)", page))
    assert names <= set(re.findall(r"(--[a-z]+):", page))
