"""The small words of a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client.contract import JobSpec, JobStatus, JobView, Pause, PauseKind, Usage
from worker.rendering.texts import (
    about,
    action_text,
    clean,
    duration,
    excerpt,
    how_to_answer,
    money,
    node_of,
    plain,
    totals,
)


def view(pause: Pause | None = None, usage: Usage | None = None, steps: int = 2) -> JobView:
    spec = JobSpec(job_id="j", agent="shop", input="x")
    status = JobStatus.PAUSED if pause else JobStatus.RUNNING
    return JobView(
        spec=spec, status=status, created=0, steps=steps, pause=pause, usage=usage or Usage()
    )


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (812.4, "812 ms"),
        (1000, "1.0 s"),
        (3_449, "3.4 s"),
        (60_000, "1 min 0 s"),
        (302_000, "5 min 2 s"),
        (3_600_000, "1 h 0 min"),
        (7_380_000, "2 h 3 min"),
        (86_400_000, "1 d 0 h"),
        (9_000_000_000, "104 d 4 h"),
    ],
)
def test_a_duration_has_the_units_that_matter(ms: float, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"name": "a.md", "start": 81}', 'read(name="a.md", start=81)'),
        ({"name": "ä"}, 'read(name="ä")'),
        ("{}", "read()"),
        ("[1, 2]", "read([1, 2])"),
        ("{oops", "read({oops)"),
    ],
)
def test_an_action_is_shown_as_a_call(arguments: str, text: str) -> None:
    assert action_text("read", arguments) == text


def test_a_short_text_is_shown_whole() -> None:
    assert excerpt("one\ntwo\n\n") == "one\ntwo"


def test_a_cut_text_says_how_much_is_missing() -> None:
    assert excerpt("a\nb\nc\nd", lines=2) == "a\nb\n… (2 more lines)"
    assert excerpt("x" * 10, characters=4) == "xxxx\n… (6 more characters)"


@given(st.text(), st.integers(1, 5), st.integers(1, 40))
def test_an_excerpt_keeps_the_beginning_and_its_bounds(text: str, lines: int, size: int) -> None:
    cut = excerpt(text, lines, size)
    if cut == text.rstrip():
        return
    kept, _, note = cut.rpartition("\n")
    assert text.startswith(kept)
    assert len(kept) <= size
    assert note.startswith("… (")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("bell\x07", "bell\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("pay \u202e001", "pay \\u202e001"),
        ("a\u200bb", "a\\u200bb"),
        ("half \ud83d", "half \\ud83d"),
        ("line\r\nend\tä 中 👍🏽", "line\nend\tä 中 👍🏽"),
    ],
)
def test_nothing_that_steers_a_terminal_or_hides_text_is_left(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text())
def test_cleaned_text_can_be_printed_anywhere(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert not {c for c in cleaned if ord(c) < 32 or 127 <= ord(c) < 160} - {"\n", "\t"}
    assert clean(cleaned) == cleaned


def test_values_are_shown_as_text_or_json() -> None:
    assert plain("as it is") == "as it is"
    assert plain({"total": 420, "note": "ü"}) == '{"total": 420, "note": "ü"}'


def test_totals_name_steps_tokens_money_and_time() -> None:
    usage = Usage(prompt_tokens=1200, completion_tokens=99, cached_tokens=200, cost=0.012300)
    assert totals(view(usage=usage)) == (
        "2 steps · 1,200 in + 99 out tokens (200 cached) · cost 0.0123 · 0 ms of work"
    )
    assert totals(view(steps=1, usage=Usage(estimated=True))).startswith("1 step · about 0 in")


def test_money_has_no_tail_of_zeros() -> None:
    assert (money(2.0), money(0.000001)) == ("cost 2", "cost 0.000001")


def test_an_owner_is_named_by_its_node() -> None:
    assert node_of("w1@host/3f/77/") == "w1@host"


def test_each_kind_that_a_pause_takes_has_its_command() -> None:
    accepts = ("answer", "extend", "happened", "dance")
    pause = Pause(id="p1", kind=PauseKind.BUDGET, question="?", accepts=accepts)
    assert how_to_answer(view(pause)) == [
        'stepkeeper answer j "TEXT"',
        "stepkeeper extend j AMOUNT",
        'stepkeeper signal j happened "RESULT"',
        "stepkeeper signal j dance",
    ]
    assert how_to_answer(view(pause), "--embedded")[1] == "stepkeeper extend j AMOUNT --embedded"
    assert how_to_answer(view()) == []


def test_a_pause_without_an_action_is_about_nothing_more() -> None:
    assert about(Pause(id="p1", kind=PauseKind.BUDGET, question="?", accepts=())) == ""
