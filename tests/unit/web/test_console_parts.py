"""The console's words, stories, pictures, budgets and sessions, as values."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from typing import Any

import pytest

from api_client.contract import Event, JobSpec, JobStatus, JobView, Usage
from worker.pauses import ACCEPTS
from worker.web.console import templates
from worker.web.console.budgets import bars
from worker.web.console.story import Ask, Decision, Note, Step, Teller
from worker.web.console.timeline import WIDTH, Segment, draw, segments
from worker.web.console.visitors import Session, Signer, safe_path
from worker.web.console.words import LANGUAGES, WORDS, chosen, known, number, span, speak
from worker.web.keys import now_ms

# --- words ----------------------------------------------------------------------------------


def fields_in(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("name", WORDS)
def test_every_sentence_is_said_in_every_language(name: str) -> None:
    english, german = WORDS[name]
    assert english.strip()
    assert german.strip()
    assert fields_in(english) == fields_in(german)


def spoken(text: str) -> Iterator[str]:
    """Names of sentences that templates and code say outright."""
    yield from re.findall(r'\bsay\(\s*"([a-z_0-9]+)"\s*[,)]', text)


def test_every_sentence_that_is_said_is_there() -> None:
    folder = templates.FOLDER
    files = [*folder.glob("templates/*.html"), *folder.glob("*.py")]
    said = {name for file in files for name in spoken(file.read_text())}
    assert len(said) > 80
    assert said <= set(WORDS)


def test_every_kind_of_signal_and_pause_has_words() -> None:
    for kind, signals in ACCEPTS.items():
        assert known(f"kind_{kind}")
        assert known(f"asks_{kind}")
        for signal in (*signals, "decide"):
            assert known(f"act_{signal}")
            assert known(f"did_{signal}")
    for status in JobStatus:
        assert known(f"status_{status}")


@pytest.mark.parametrize(
    ("header", "cookie", "language"),
    [
        ("", None, "en"),
        ("de-DE,de;q=0.9,en;q=0.8", None, "de"),
        ("en;q=0.3, de;q=0.7", None, "de"),
        ("fr, en;q=0.5", None, "en"),
        ("de", "en", "en"),
        ("en", "de", "de"),
        ("de;q=0", None, "en"),
        ("de;q=much, en", None, "en"),
        ("x" * 10_000, "klingon", "en"),
    ],
)
def test_a_visitor_is_spoken_to_in_a_language_of_theirs(
    header: str, cookie: str | None, language: str
) -> None:
    assert chosen(header, cookie) == language


def test_numbers_and_times_are_written_as_people_do() -> None:
    assert (number(1234.5, "en"), number(1234.5, "de")) == ("1,234.5", "1.234,5")
    assert (number(7, "en"), number(20_000, "de")) == ("7", "20.000")
    assert (span(3400, "en"), span(3400, "de")) == ("3.4 s", "3,4 s")
    assert span(2 * 86_400_000 + 4 * 3_600_000, "de") == "2 T 4 Std"
    assert span(-5, "en") == "0 ms"


# --- stories --------------------------------------------------------------------------------


def call(call_id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "function": {"name": tool, "arguments": json.dumps(arguments)}}


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Help."},
    {"role": "user", "content": "1187 is broken"},
    {"role": "assistant", "content": "I look.", "tool_calls": [call("c1", "status", order="1187")]},
    {"role": "tool", "tool_call_id": "c1", "content": "delivered"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("c2", "refund", amount=50), call("c3", "mail", to="x")],
    },
    {"role": "tool", "tool_call_id": "c3", "content": "no such address"},
    {"role": "tool", "tool_call_id": "c2", "content": "rejected: too much"},
    {"role": "assistant", "content": "Sorry."},
]


def event(at: int, name: str, /, **data: Any) -> Event:
    return Event(id=f"{at}-0", kind=name, data=data)


EVENTS = [
    event(1000, "submitted"),
    event(1400, "claimed", worker="w1@h/b/1/", tries=1, was="queued"),
    event(1500, "reply", i=2, s=1, ms=90, **{"in": 100, "out": 10}),
    event(1600, "observation", i=3, s=1, ms=20),
    event(1700, "reply", i=4, s=2, ms=80, est=1, cost=0.5, **{"in": 120, "out": 12}),
    event(1720, "observation", i=5, s=2, ms=5, error=True, full=9000),
    event(1730, "paused", pause="p1", kind="approval", question="May it?"),
    event(61_730, "signal", kind="reject", by="anna", reason="too much", note="ask again"),
    event(62_000, "claimed", worker="w2@h/b/1/", tries=1, was="queued"),
    event(62_010, "observation", i=6, s=2, ms=0, pause="p1"),
    event(62_100, "finished", i=7, s=3, ms=70, **{"in": 130, "out": 5}),
]


def told(events: list[Event] = EVENTS) -> list[Any]:
    return Teller(lambda start: MESSAGES[start:]).tell(events)


def test_a_trace_is_told_as_a_conversation() -> None:
    claimed, one, two, ask, decision, again, three, end = told()
    assert claimed == Note("note_claimed", 1400, {"worker": "w1@h"})
    assert isinstance(one, Step)
    assert (one.number, one.plan, one.ms, one.tokens) == (1, "I look.", 90, 110)
    assert (one.actions[0].tool, one.actions[0].observation) == ("status", "delivered")
    assert isinstance(two, Step)
    refund, mail = two.actions
    assert (mail.error, mail.full, mail.ms) == (True, 9000, 5)
    assert (refund.observation, refund.by_person, refund.ms) == ("rejected: too much", True, None)
    assert (two.estimated, two.cost) == (True, 0.5)
    assert ask == Ask("p1", "approval", "May it?", 1730)
    assert decision == Decision("reject", "anna", "ask again", "too much", 61_730, 60_000)
    assert again.fields == {"worker": "w2@h"}
    assert (three.number, three.plan) == (3, "Sorry.")
    assert end.name == "note_finished"


def test_a_step_in_progress_has_open_actions() -> None:
    entries = told(EVENTS[:5])
    assert [action.observation for action in entries[-1].actions] == [None, None]


def test_a_record_of_a_newer_version_is_shown_as_it_is() -> None:
    (entry,) = told([event(1, "teleported", to="Mars")])
    assert (entry.name, entry.fields["text"]) == ("teleported", '{"to": "Mars"}')


@pytest.mark.parametrize(
    ("kind", "data", "fields"),
    [
        ("retry", {"text": "busy", "attempt": 2, "in_s": 3.5}, {"text": "busy", "attempt": "2"}),
        ("held_back", {"text": "used up", "in_s": 9.5}, {"text": "used up", "in_s": 9.5}),
        ("version", {"before": "1", "now": "2"}, {"before": "1", "now": "2"}),
        ("compacted", {"messages": 3, "of": 9}, {"shown": "3", "all": "9"}),
        ("awaiting", {"jobs": ["a", "b"]}, {"jobs": "a, b"}),
        ("cancel", {"by": "bo", "note": "enough"}, {"by": "bo"}),
        ("pause_wanted", {"by": "bo"}, {"by": "bo"}),
        ("message", {"by": "bo", "text": "hurry"}, {"by": "bo", "text": "hurry"}),
        ("escalated", {"labels": ["leads"]}, {"labels": "leads"}),
        ("reminder", {}, {}),
        ("released", {}, {}),
    ],
)
def test_what_happens_beside_the_steps_is_noted(
    kind: str, data: dict[str, Any], fields: dict[str, Any]
) -> None:
    (entry,) = told([event(1, kind, **data)])
    assert entry.name == f"note_{kind}"
    assert known(entry.name)
    assert fields.items() <= entry.fields.items()
    words = dict.fromkeys(fields_in(WORDS[entry.name][0]), "?")
    assert speak("de")(entry.name, **{**words, **entry.fields})


def test_a_transcript_that_is_gone_is_no_error() -> None:
    entries = Teller(lambda _: []).tell(EVENTS)
    assert [type(entry).__name__ for entry in entries].count("Step") == 3


# --- pictures -------------------------------------------------------------------------------


def test_time_is_parted_by_who_used_it() -> None:
    found = segments(EVENTS, now=99_000)
    assert [(item.kind, item.ms) for item in found] == [
        ("queue", 400),
        ("model", 90),
        ("tool", 20),
        ("model", 80),
        ("tool", 5),
        ("person", 60_000),
        ("queue", 270),
        ("model", 70),
    ]
    assert draw(found).totals == {"queue": 670, "model": 240, "tool": 25, "person": 60_000}


def test_a_wait_that_is_open_lasts_until_now() -> None:
    found = segments(EVENTS[:7], now=101_730)
    assert found[-1] == Segment("person", 100_000, 2)


def test_waits_for_models_and_sub_jobs_are_told_apart() -> None:
    events = [
        event(0, "submitted"),
        event(10, "claimed", worker="w"),
        event(20, "retry", in_s=1, text="busy", attempt=1),
        event(1020, "claimed", worker="w"),
        event(1030, "awaiting", jobs=["x"]),
        event(5030, "claimed", worker="w"),
    ]
    assert [(item.kind, item.ms) for item in segments(events, 9000)] == [
        ("backoff", 1000),
        ("jobs", 4000),
    ]


def test_work_is_to_scale_and_waiting_is_not() -> None:
    found = [Segment("model", 3000, 1), Segment("tool", 1000, 1), Segment("person", 10**9, 1)]
    picture = draw(found)
    model, tool, person = picture.blocks
    assert model.width > 2 * tool.width > 0
    assert person.width < tool.width
    assert picture.width == WIDTH
    assert (model.first, tool.first) == (True, False)


def test_blocks_never_overlap_and_a_long_picture_grows() -> None:
    found = [Segment("model" if n % 2 else "tool", n, n // 2 + 1) for n in range(600)]
    picture = draw(found)
    ends = [round(block.x + block.width, 1) for block in picture.blocks]
    starts = [block.x for block in picture.blocks[1:]]
    assert all(end <= start for end, start in zip(ends, starts, strict=False))
    assert picture.width > WIDTH
    assert ends[-1] <= picture.width


def test_a_job_without_a_past_has_an_empty_picture() -> None:
    assert draw([]).blocks == []


# --- budgets --------------------------------------------------------------------------------


def view(**fields: Any) -> JobView:
    spec = JobSpec(job_id="j", agent="shop", input="x", caps=fields.pop("caps", {}))
    return JobView(spec=spec, status=JobStatus.RUNNING, created=0, **fields)


def test_budgets_count_what_people_have_added() -> None:
    usage = Usage(prompt_tokens=900, completion_tokens=100)
    job = view(steps=9, usage=usage, granted={"steps": 5.0}, active_ms=1500)
    found = {bar.name: bar for bar in bars(job, {"steps": 10, "tokens": 1000})}
    assert (found["steps"].limit, found["steps"].percent, found["steps"].granted) == (15, 60, 5)
    assert (found["tokens"].percent, found["tokens"].tight) == (100, True)
    assert (found["active_s"].limit, found["active_s"].used) == (None, 1.5)
    assert "cost" not in found


def test_a_sub_job_may_spend_the_lesser_of_both() -> None:
    job = view(usage=Usage(cost=0.25), caps={"cost": 0.5})
    found = {bar.name: bar for bar in bars(job, {"cost": 2.0})}
    assert (found["cost"].limit, found["cost"].percent) == (0.5, 50)


# --- sessions -------------------------------------------------------------------------------


def test_a_session_is_read_back_and_nothing_else_is() -> None:
    signer = Signer(b"secret")
    session = Session.start("key-1", "  Anna \n Ä. ", 1)
    sealed = signer.seal(session)
    assert signer.open(sealed) == session
    assert session.name == "Anna Ä."
    assert Signer(b"other").open(sealed) is None
    text, _, signature = sealed.partition(".")
    for forged in ("", ".", sealed[:-1], f"{text}x.{signature}", f"{text}.{signature}ä", "a.b"):
        assert signer.open(forged) is None


def test_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer(b"secret")
    sealed = signer.seal(Session.start("key-1", "", 1))
    later = now_ms() + 3_600_001
    monkeypatch.setattr("worker.web.console.visitors.now_ms", lambda: later)
    assert signer.open(sealed) is None


def test_each_session_has_a_token_of_its_own() -> None:
    signer = Signer(b"secret")
    one, two = Session.start("k", "", 1), Session.start("k", "", 1)
    assert signer.token(one) == signer.token(one) != signer.token(two)
    assert signer.token(one) not in signer.seal(one)


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("/jobs/a?x=1", "/jobs/a?x=1"),
        ("", "/inbox"),
        (None, "/inbox"),
        ("https://evil.example", "/inbox"),
        ("//evil.example", "/inbox"),
        ("/\\evil.example", "/inbox"),
        ("/a\\b", "/inbox"),
        ("/\tevil", "/inbox"),
        ("/a b", "/inbox"),
        ("javascript:alert(1)", "/inbox"),
    ],
)
def test_after_logging_in_one_stays_here(path: str | None, safe: str) -> None:
    assert safe_path(path) == safe


# --- what is printed ------------------------------------------------------------------------


def test_everything_is_escaped_and_made_visible() -> None:
    env = templates._ENV
    text = env.from_string("<p title='{{ x }}'>{{ x }}</p>{{ say }}").render(
        x="<b>'\"\u202e\x1b", say="&"
    )
    assert text == (
        "<p title='&lt;b&gt;&#39;&#34;\\u202e\\x1b'>&lt;b&gt;&#39;&#34;\\u202e\\x1b</p>&amp;"
    )


def test_a_field_keeps_its_text_as_it_is() -> None:
    assert str(templates.raw("<\u202e\"'")) == "&lt;\u202e&#34;&#39;"


def test_hidden_characters_are_noticed() -> None:
    assert templates.hides({"to": "bob\u202e"})
    assert not templates.hides({"to": "bob", "n": [1, "ä"]})


def test_both_languages_are_offered() -> None:
    assert LANGUAGES == ("en", "de")
