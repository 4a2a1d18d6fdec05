"""One log line an event, and the form of lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from api_client.contract import Answer, JobSpec, JobStatus, Outcome
from tests.unit.telemetry.agents import BUSY, SECRET, act, agent, reply
from tests.unit.telemetry.conftest import Lab
from worker.context import ActionContext
from worker.redact import Redactor, environment_secrets
from worker.telemetry.binding import Bound, binding
from worker.telemetry.formats import (
    ConsoleFormatter,
    JsonFormatter,
    make_formatter,
)
from worker.telemetry.logs import LogObserver
from worker.telemetry.observer import JobEnded, LeaseLost, Swept, TakenOver

LOOK = act(("look", '{"what": "the-private-thing"}'), ("fail", '{"what": "x"}'))
ASK = act(("hand_to_human", '{"reason": "the-private-question"}'))
SPEC = JobSpec(job_id="job-1", agent="clerk", input="the-private-task")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The messages that were logged for jobs."""
    caplog.set_level(logging.DEBUG, logger="stepkeeper.job")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "stepkeeper.job"]


def test_each_event_is_a_line_that_says_it_all(lines: Callable[[], list[str]]) -> None:
    script = (reply(LOOK), BUSY, reply(ASK), reply({"content": "Done."}))
    lab = Lab(agent(*script), LogObserver())
    lab.submit("the-private-task")
    lab.slice()
    lab.now += 3_600_000
    lab.slice()
    lab.answer(Answer(value="the-private-answer"))
    lab.slice()
    text = "\n".join(lines())
    for line in (
        "job job-1: claimed agent=clerk epoch=1 waited_ms=0",
        "job job-1 step 1: model answered model=script ms=5 finish=tool_calls",
        "job job-1 step 1: committed kind=reply model=script in=100 out=10 cost=0.00012 ms=5",
        "job job-1 step 1: tool ended tool=look ms=5",
        "job job-1 step 1: tool failed tool=fail ms=5",
        "job job-1 step 2: model failed model=script ms=5 error=429 text=busy, says https://",
        "job job-1 step 2: paused kind=hand_to_human pause=p1",
        "job job-1: resumed agent=clerk epoch=3 waited_ms=0 signal=answer",
    ):
        assert line in text
    assert "job job-1 step 1: retried later in_s=" in text
    assert "private" not in text
    assert "hunter22" not in text
    assert SECRET not in text


def test_tokens_in_the_log_add_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="stepkeeper.job")
    lab = Lab(agent(reply(LOOK), reply({"content": "Done."})), LogObserver())
    lab.submit()
    lab.slice()
    told = [vars(r)["fields"] for r in caplog.records if vars(r).get("event") == "committed"]
    assert (
        sum(fields.get("in", 0) for fields in told) == lab.store.read("job-1").usage.prompt_tokens
    )


def test_what_happens_beside_the_slices(lines: Callable[[], list[str]]) -> None:
    observer = LogObserver()
    observer.note(LeaseLost("job-1"))
    observer.note(TakenOver(SPEC))
    observer.note(JobEnded(SPEC, JobStatus.SUCCEEDED, Outcome(ok=True, value="private")))
    observer.note(JobEnded(SPEC, JobStatus.FAILED, Outcome(ok=False, reason="poison", text="x")))
    observer.note(Swept(3, 12, 0))
    observer.note(Swept(0, 12, 0))
    assert lines() == [
        "job job-1: lease lost",
        "job job-1: freed from this worker's previous start",
        "job job-1: succeeded agent=clerk",
        "job job-1: failed agent=clerk reason=poison",
        "swept hints=3 ms=12 late_ms=0",
    ]


def test_taking_over_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(agent(reply({"content": "Done."})), LogObserver())
    lab.submit()
    lab.store.claim("job-1", owner="dead", nonce="x", lease_ms=1000, max_tries=5)
    lab.now += 2_000
    with caplog.at_level(logging.INFO, logger="stepkeeper.job"):
        lab.slice()
    first = caplog.records[0]
    assert first.levelno == logging.WARNING
    assert "taken over agent=clerk epoch=2 tries=2" in first.getMessage()


# --- the form of lines -----------------------------------------------------------------------


def record(text: str, *args: object, **more: object) -> logging.LogRecord:
    """A record as a library would log it."""
    made = logging.LogRecord("lib", logging.WARNING, "x.py", 1, text, args, None)
    vars(made).update(more)
    return made


def test_json_lines_say_to_which_job_they_belong() -> None:
    formatter = make_formatter("json", Redactor(), color=True)
    here = Bound("job-9", "clerk", 1, step=4)
    with binding(here):
        line = json.loads(formatter.format(record("it is %s", "so")))
    assert line["message"] == "it is so"
    assert (line["job"], line["agent"], line["step"]) == ("job-9", "clerk", 4)
    assert (line["level"], line["logger"]) == ("warning", "lib")
    assert line["at"].endswith("+00:00")
    alone = json.loads(formatter.format(record("a\nb", fields={"job": "j"}, event="claimed")))
    assert (alone["job"], alone["event"], alone["message"]) == ("j", "claimed", "a\nb")


def test_console_lines_name_the_job_once() -> None:
    formatter = ConsoleFormatter(Redactor(), color=False)
    with binding(Bound("job-9", "clerk", 1, step=4)):
        assert formatter.format(record("hello")).endswith(" lib: hello job=job-9 step=4")
        assert formatter.format(record("job job-9: x")).endswith(" lib: job job-9: x")
    assert formatter.format(record("two\nlines")).endswith(" lib: two\n  lines")


def test_warnings_have_a_color_where_there_is_one() -> None:
    colored = ConsoleFormatter(Redactor(), color=True).format(record("hello"))
    assert colored.startswith("\x1b[33m")
    assert colored.endswith("\x1b[0m")


class Keys(ActionContext):
    """A context with a secret."""

    def __init__(self) -> None:
        self.api_key = "xyzzy-plugh-1976"


@pytest.mark.parametrize("kind", ["json", "console"])
def test_secrets_are_in_no_line(kind: str) -> None:
    redactor = Redactor(
        environment_secrets(
            {
                "LLM_API_KEY": "key-from-environment",
                "STEPKEEPER_REDIS_URL": "redis://u:p%40ssword-in-url@host/0",
                "PWD": "/home/somebody",
                "SHORT_TOKEN": "true",
            }
        )
    )
    formatter = make_formatter(kind, redactor, color=False)  # type: ignore[arg-type]
    try:
        raise ValueError("postgres://svc:s3cretpass@db/prod with key-from-environment")
    except ValueError as error:
        made = record(
            "sent key-from-environment, xyzzy-plugh-1976 and p@ssword-in-url "
            "to true in /home/somebody"
        )
        made.exc_info = (type(error), error, error.__traceback__)
    with binding(Bound("job-9", "clerk", 1, context=Keys())):
        line = formatter.format(made)
    for secret in ("key-from-environment", "xyzzy-plugh-1976", "p@ssword-in-url", "s3cretpass"):
        assert secret not in line
    assert "to true in /home/somebody" in line
    assert "ValueError" in line


def test_celery_does_not_tell_a_jobs_answer() -> None:
    made = record("Task %(name)s succeeded: %(return_value)s")
    made.name = "celery.app.trace"
    made.args = {"name": "agent.clerk", "return_value": "'the private answer'"}
    line = json.loads(JsonFormatter(Redactor()).format(made))
    assert line["message"] == "Task agent.clerk succeeded: (not shown)"
    made.msg, made.args = "Task %(name)s failed: %(exc)s", {"name": "agent.clerk", "exc": "private"}
    line = json.loads(JsonFormatter(Redactor()).format(made))
    assert line["message"] == "Task agent.clerk failed: (not shown)"
    made.args = {"name": "shop.mail", "exc": "seen by its own team"}
    assert "seen by its own team" in JsonFormatter(Redactor()).format(made)
