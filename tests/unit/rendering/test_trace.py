"""A job's trace as people read it."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest

from api_client.contract import (
    Answer,
    Approve,
    Event,
    Extend,
    Finish,
    JobSpec,
    JobStatus,
    JobView,
    Outcome,
)
from tests.support.recorded import Recorded, printed, record
from worker.inline import InlineRun
from worker.models import ModelError
from worker.models.scripted import act, say
from worker.rendering import Line, Narrator, TranscriptReader, make_console

ASK = ("hand_to_human", {"reason": "May I?"})


def without_times(text: str) -> str:
    """The trace with every duration and date replaced, which differ from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE", text)
    return re.sub(r"\d+(\.\d)? (ms|s)\b", "T", text)


def test_a_whole_job_reads_as_plan_action_observation_answer() -> None:
    source = record([act("I look it up.", ("status", {"order": "1187"})), say("Delivered.")])
    assert without_times(printed(source)) == (
        "job job-1  agent clerk  DATE\n"
        "task          Where is 1187?\n"
        "worker        inline  at +T\n"
        "step 1        400 in + 30 out tokens · T · at +T\n"
        "  plan        I look it up.\n"
        '  action      status(order="1187")\n'
        "  observation 1187: delivered  T\n"
        "step 2        400 in + 30 out tokens · T · at +T\n"
        "answer        Delivered.\n"
        "succeeded · 2 steps · 800 in + 60 out tokens · T of work\n"
    )


def test_a_pause_says_what_is_asked_and_how_to_answer() -> None:
    shown = printed(record([act("Hm.", ASK)]))
    assert "paused        May I?  hand_to_human, pause p1\n" in shown
    assert 'answer with   stepkeeper answer job-1 "TEXT"\n' in shown
    assert 'stepkeeper finish job-1 "ANSWER"\n' in shown
    assert "paused · 1 step" in shown


def test_a_signal_says_who_what_and_why() -> None:
    source = record(
        [act("Hm.", ASK), say("Done.")],
        answers=lambda _: Answer(value="yes, 10 %", by="anna", note="goodwill"),
    )
    shown = without_times(printed(source))
    assert "signal        answer by anna: yes, 10 % (note: goodwill)  after T\n" in shown
    assert "  observation Answer of a person: yes, 10 %\n" in shown


def test_a_signal_without_a_name_says_so() -> None:
    source = record([act("Hm.", ASK)], answers=lambda _: Finish(answer={"ok": True}))
    shown = printed(source)
    assert 'signal        finish by somebody who gave no name: {"ok": true}' in shown
    assert 'answer        {"ok": true}\n' in shown


def test_an_approval_shows_the_action_and_the_changed_arguments() -> None:
    script = [act("I pay.", ("refund", {"euro": 50})), say("Paid.")]
    waiting = printed(record(script))
    assert "about         refund(euro=50)\n" in waiting
    assert "answer with   stepkeeper approve job-1\n" in waiting
    done = printed(record(script, answers=lambda _: Approve(arguments={"euro": 5}, by="bo")))
    assert 'signal        approve by bo: {"euro": 5}' in done
    assert "5 € paid" in done


def test_a_spent_budget_and_its_extension() -> None:
    script = [act("a", ("status", {"order": "1"})), say("Late.")]
    shown = printed(record(script, max_steps=1, answers=lambda _: Extend(amount=2, by="cy")))
    assert "budget, pause p1\n" in shown
    assert "signal        extend by cy: 2.0" in shown
    assert "answer        Late.\n" in shown


def test_each_observation_of_parallel_calls_stands_behind_its_action() -> None:
    calls: list[Any] = [ASK, ("lines", {"count": 1}), ("nope", {})]
    source = record([act("Three.", *calls), say("Done.")], answers=lambda _: Answer(value="yes"))
    starts = [line for line in printed(source).splitlines() if re.match(r"  \S", line)]
    inside = [line[2:40].rstrip() for line in starts]
    assert [re.sub(r"  \d+ ms$", "", line) for line in inside] == [
        "plan        Three.",
        'action      hand_to_human(reason="May',
        "action      lines(count=1)",
        "observation line 0",
        "action      nope()",
        "observation Error: there is no tool ca",
        'action      hand_to_human(reason="May',
        "observation Answer of a person: yes",
    ]


def test_a_long_observation_is_cut_unless_the_whole_is_wanted() -> None:
    source = record([act("", ("lines", {"count": 40})), say("Long.")])
    assert "… (34 more lines)" in printed(source)
    assert "line 39" not in printed(source)
    assert "line 39" in printed(source, full=True)


def test_an_observation_cut_for_the_model_says_its_full_length() -> None:
    source = record([act("", ("lines", {"count": 900})), say("Long.")], max_observation=500)
    assert re.search(r"cut from [\d,]+ characters", printed(source))


def test_a_model_error_says_when_the_next_attempt_comes() -> None:
    source = record([ModelError("429 slow down", "retry", retry_after=3.0), say("Now.")])
    shown = printed(source)
    assert re.search(
        r"model error   429 slow down; attempt 1 failed, the next one in 3\.\d s", shown
    )
    assert "answer        Now.\n" in shown


def test_a_wait_for_a_shared_limit_is_no_error() -> None:
    used = ModelError("model m: its shared limit is used", "wait", 12.0, code="limit")
    shown = printed(record([used, say("Now.")]))
    assert "limit         model m: its shared limit is used; asks again in 12.0 s" in shown
    assert "model error" not in shown


def test_a_failure_ends_with_its_reason() -> None:
    shown = printed(record([ModelError("no such model", "fail", code="model_not_found")]))
    assert "reason        no such model [model_not_found]\n" in shown
    assert "failed · 0 steps" in shown


def test_an_answer_by_a_terminal_tool_is_told_once() -> None:
    script = [act("I send it.", ("ship", {"order": "7"}), ("status", {"order": "7"}))]
    shown = printed(record(script, terminal=["ship"]))
    assert "  started     must not run twice from here on\n" in shown
    assert shown.count("7 sent") == 1
    assert '  action      status(order="7")\n  observation (not run' in shown
    assert "answer        7 sent\n" in shown


def test_an_answer_by_terminate_is_told_without_its_receipt() -> None:
    shown = printed(record([act("Sum.", ("terminate", {"result": 420}))], output=int))
    assert "  action      terminate(result=420)\n" in shown
    assert "accepted" not in shown
    assert "answer        420\n" in shown


def test_a_reply_that_could_not_be_the_answer_shows_what_the_model_was_told() -> None:
    script = [say("It is 420."), act("", ("terminate", {"result": 420}))]
    shown = printed(record(script, output=int))
    assert "  plan        It is 420.\n  told        This is not yet an answer" in shown


def test_a_text_of_a_model_cannot_steer_the_terminal() -> None:
    script = [
        act("\x1b]0;title\x07", ("status", {"order": "\u202e7811"})),
        say("\x1b[2J[red]ok[/]"),
    ]
    shown = printed(record(script))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "answer        \\x1b[2J[red]ok[/]\n" in shown


def test_a_narrow_window_puts_texts_below_their_labels() -> None:
    source = record([act("I look it up at once.", ("status", {"order": "1187"})), say("中" * 30)])
    shown = printed(source, width=30)
    assert "  plan\n    I look it up at once.\n" in shown
    assert shown.count("中") == 30
    for line in shown.splitlines()[1:-1]:
        assert sum(2 if c == "中" else 1 for c in line) <= 30, line


def test_a_wide_text_is_wrapped_behind_its_label() -> None:
    shown = printed(record([act("word " * 30, ("status", {"order": "1"})), say("x")]), width=60)
    plan = shown[shown.index("  plan") : shown.index("  action")].splitlines()
    assert len(plan) > 2
    assert all(line.startswith(" " * 14 + "word") for line in plan[1:])


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = printed(record([act("word " * 100, ("status", {"order": "1"})), say("x")]))
    assert ("word " * 100).strip() in shown


def test_a_trace_can_begin_behind_an_offset() -> None:
    source = record([act("I look it up.", ("status", {"order": "1187"})), say("Delivered.")])
    reply = next(event for event in source.run.events if event.kind == "reply")
    shown = printed(source, after=reply.id)
    assert "step 1" not in shown
    assert '  action      status(order="1187")\n  observation 1187: delivered' in shown


def test_the_transcript_is_not_read_anew_for_each_record() -> None:
    script: list[Any] = [act("a", ("status", {"order": str(n)})) for n in range(10)]
    source = record([*script, say("x")])
    printed(source)
    assert source.reads <= 2


# --- records that need several workers, told from hand-made events ---------------------------


def told(*events: Event, messages: list[dict[str, Any]] | None = None) -> list[Line]:
    spec = JobSpec(job_id="job-1", agent="clerk", input="x")
    outcome = Outcome(ok=False, reason="cancelled", text="cancelled by anna")
    view = JobView(spec=spec, status=JobStatus.CANCELLED, created=0, outcome=outcome)
    source = Recorded(InlineRun(outcome, messages or [], list(events), view))
    reader = TranscriptReader(lambda start: source.messages("job-1", start))
    narrator = Narrator(reader, lambda: view)
    return [line for event in events for line in narrator.tell(event)]


def claimed(at: int, node: str, was: str = "queued", tries: int = 1) -> Event:
    data = {"worker": f"{node}/boot/1/", "tries": tries, "was": was}
    return Event(id=f"{at}-0", kind="claimed", data=data)


def test_a_takeover_names_the_worker_and_the_attempt() -> None:
    lines = told(claimed(0, "w1@a"), claimed(4000, "w2@b", was="running", tries=2))
    assert [(line.label, line.text, line.aside) for line in lines] == [
        ("worker", "w1@a", "at +0 ms"),
        (
            "taken over",
            "by w2@b: the attempt before broke off, attempt 2 at this step",
            "at +4.0 s",
        ),
    ]


def test_a_worker_that_goes_on_is_not_named_again() -> None:
    assert [line.text for line in told(claimed(0, "w1@a"), claimed(1, "w1@a"))] == ["w1@a"]
    assert [line.text for line in told(claimed(0, "w1@a"), claimed(1, "w2@a"))] == ["w1@a", "w2@a"]


def test_a_cancel_says_who_wanted_it() -> None:
    wanted = Event(id="5-0", kind="cancel", data={"by": "anna", "note": "sent twice"})
    lines = told(wanted, Event(id="6-0", kind="cancelled"))
    assert [(line.label, line.text) for line in lines] == [("cancel", "wanted by anna: sent twice")]


def test_the_rarer_records_are_told_too() -> None:
    summary = [{"role": "user", "content": "Summary: all is well."}]
    lines = told(
        Event(id="1-0", kind="submitted", data={"released_from": "job-0"}),
        Event(id="2-0", kind="released"),
        Event(id="3-0", kind="version", data={"before": "1", "now": "2"}),
        Event(id="4-0", kind="summary", data={"i": 0, "upto": 9, "in": 50, "out": 5, "cost": 0.5}),
        Event(id="5-0", kind="compacted", data={"room": 900, "messages": 4, "of": 9}),
        Event(id="6-0", kind="resumed", data={"signal": "retry", "pause": "p1"}),
        Event(id="7-0", kind="delegated", data={"jobs": ["a", "b"]}),
        Event(id="8-0", kind="awaiting", data={"jobs": ["b"]}),
        Event(id="9-0", kind="observation", data={"i": 0, "ms": 7, "job": "b"}),
        messages=summary,
    )
    assert [(line.label, line.text) for line in lines] == [
        ("task", "x"),
        ("released from", "job-0"),
        ("handed back", "to the queue"),
        ("version", "the agent changed from 1 to 2"),
        ("summary", "Summary: all is well."),
        ("shortened", "too long for the model, which is shown 4 of 9 messages"),
        ("delegated", "to job a, job b"),
        ("waits for", "job b"),
        ("observation", "Summary: all is well."),
    ]
    assert lines[-1].aside == "7 ms · by job b"
    assert lines[4].aside == "50 in + 5 out tokens · cost 0.5"


def test_a_record_of_a_newer_version_is_shown_as_it_is() -> None:
    (line,) = told(Event(id="1-0", kind="teleported", data={"to": "mars"}))
    assert (line.label, line.text) == ("teleported", '{"to": "mars"}')


def test_messages_that_have_gone_leave_the_rest_readable() -> None:
    lines = told(
        Event(id="1-0", kind="reply", data={"i": 2, "s": 1, "ms": 3, "in": 1, "out": 1}),
        Event(id="2-0", kind="observation", data={"i": 3, "s": 1, "ms": 3}),
    )
    assert [line.label for line in lines] == ["step 1", "observation"]


def test_columns_of_zero_are_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert make_console(StringIO()).width > 1000
