"""A worker that can be seen into: metrics, logs and traces of jobs that crash and wait."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from api_client.contract import Answer, Event, JobStatus
from tests.support.collector import Collector
from tests.support.lab import Lab
from tests.support.scrape import Scrape, metrics_url
from tests.support.workers import RunningWorker, eventually
from worker.rendering import trace_records
from worker.telemetry.trace_ids import job_trace

JOB = "job-30"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CRASHES = (7, 20)
WORDS = " ".join(
    ["ask" if step == 15 else "put" if step in CRASHES else "look" for step in range(1, 30)]
    + ["@whole"]
)
"""The process dies in tools that are not `safe`: a reply with safe calls is committed while they
run, and a process that dies there may have counted that step nowhere but in the trace."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Takes the spans."""
    with Collector() as collector:
        yield collector


def watched(collector: Collector) -> dict[str, str]:
    """Settings of a worker that shows everything."""
    return {
        "STEPKEEPER_METRICS_PORT": "0",
        "STEPKEEPER_LOG_FORMAT": "json",
        "STEPKEEPER_OTEL": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_SERVICE_NAME": "shop-workers",
    }


def json_lines(worker: RunningWorker) -> list[dict[str, Any]]:
    """The worker's log, which is JSON from its first line on but for what Celery prints itself."""
    return [json.loads(line) for line in worker.lines if line.startswith("{")]


def logged(worker: RunningWorker, name: str) -> int:
    """The sum of one figure in the lines of commits."""
    return sum(line.get(name, 0) for line in json_lines(worker) if line.get("event") == "committed")


def tokens(events: list[Event], name: str) -> int:
    """The sum of one figure in the trace."""
    return sum(int(str(event.data.get(name, 0))) for event in events)


@pytest.mark.slow
def test_one_job_is_whole_in_trace_spans_metrics_and_log(lab: Lab, collector: Collector) -> None:
    """Thirty steps, two crashes and a pause, over two workers."""
    env = watched(collector)
    first = lab.worker("w1@test", pool="prefork", concurrency=1, env=env)
    with killed_in_tool(lab, collector, CRASHES[0]):
        lab.send(WORDS, task_id=JOB, headers={"traceparent": CALLER})
    lab.wait_status(JOB, JobStatus.PAUSED)
    metrics = [Scrape(metrics_url(first))]
    first.stop()
    second = lab.worker("w2@test", pool="prefork", concurrency=1, env=env)
    with killed_in_tool(lab, collector, CRASHES[1]):
        lab.client.signal(JOB, Answer(value="go on", by="anna"))
    view = lab.wait_published(JOB, timeout_s=60)
    metrics.append(Scrape(metrics_url(second)))
    second.stop()
    assert (view.status, view.steps) == (JobStatus.SUCCEEDED, 30)

    events = lab.events(JOB)
    assert [e.data["s"] for e in events if "s" in e.data and e.kind != "observation"] == [
        *range(1, 31)
    ]
    assert [e.kind for e in events].count("observation") == 29
    assert sum(e.data.get("was") == "running" for e in events if e.kind == "claimed") == 2
    records = list(trace_records(lab.client._store, JOB, events))
    assert len({record["id"] for record in records}) == len(records)

    usage = view.usage
    for name, field, kind in (
        ("in", usage.prompt_tokens, "input"),
        ("out", usage.completion_tokens, "output"),
    ):
        assert field > 0
        assert tokens(events, name) == field
        assert logged(first, name) + logged(second, name) == field
        assert sum(m.sum("stepkeeper_tokens_total", kind=kind) for m in metrics) == field
    assert sum(m.sum("stepkeeper_recoveries_total", agent="plan") for m in metrics) == 2
    assert metrics[0].sum("stepkeeper_pauses_total", kind="hand_to_human") == 1

    check_spans(collector, view.spec)


def test_a_worker_that_leaves_at_once_sends_the_spans_of_calls_that_have_ended(
    lab: Lab, collector: Collector
) -> None:
    env = {**watched(collector), "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    leaving = lab.worker("w1@test", env=env)
    with lab.shut("put-whole-2"):
        lab.submit("look put look @whole")
        lab.wait_gate("put-whole-2")
        assert collector.spans == []
        leave_at_once(leaving)
        assert leaving.wait_dead(timeout_s=10) == 0
    ended = [span.name for span in collector.spans]
    assert ended == ["chat function", "execute_tool look", "chat function"]


def test_a_collector_that_never_answers_keeps_no_worker(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = {
            "STEPKEEPER_OTEL": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "OTEL_BSP_SCHEDULE_DELAY": "600000",
        }
        leaving = lab.worker("w1@test", env=env)
        with lab.shut("put-whole-2"):
            lab.submit("look put look @whole")
            lab.wait_gate("put-whole-2")
            leave_at_once(leaving)
            assert leaving.wait_dead(timeout_s=8) == 0


def leave_at_once(worker: RunningWorker) -> None:
    """Ask the worker twice to end: it waits for no call in flight."""
    worker.send(signal.SIGTERM)
    worker.wait_line("Warm shutdown")
    worker.send(signal.SIGTERM)


@contextmanager
def killed_in_tool(lab: Lab, collector: Collector, step: int) -> Iterator[None]:
    """SIGKILL the process that runs the tool of this step, its spans so far having been sent."""
    with lab.shut(f"put-whole-{step}"):
        yield
        (effect,) = lab.ledger.wait("put", x=step)

        def chats() -> int:
            return sum(span.name == "chat function" for span in collector.spans)

        eventually(lambda: chats() >= step, f"the spans of {step} model calls")
        os.kill(effect["pid"], signal.SIGKILL)


def check_spans(collector: Collector, spec: Any) -> None:
    """One tree, of which nothing is missing but the calls that were killed."""
    ids = job_trace(spec)
    eventually(lambda: any(s.name == "invoke_agent plan" for s in collector.spans), "the root span")
    spans = [span for span in collector.spans if span.trace == CALLER[3:35]]
    assert len(spans) == len(collector.spans)
    (root,) = [span for span in spans if span.name == "invoke_agent plan"]
    assert (root.span, root.parent) == (f"{ids.span:016x}", CALLER[36:52])
    assert {span.parent for span in spans if span is not root} == {root.span}
    assert len({span.span for span in spans}) == len(spans)
    names = Counter(span.name for span in spans)
    assert names == {
        "invoke_agent plan": 1,
        "chat function": 30,
        "execute_tool look": 26,
        "execute_tool put": 2,
        "pause hand_to_human": 1,
    }
    workers = {str(s.attributes.get("stepkeeper.worker", "")).split("/")[0] for s in spans}
    assert workers >= {"w1@test", "w2@test"}
    assert {span.service for span in spans} == {"shop-workers"}
    assert root.attributes["stepkeeper.steps"] == 30


def test_metrics_survive_a_killed_child(lab: Lab) -> None:
    env = {"STEPKEEPER_METRICS_PORT": "0"}
    worker = lab.worker(pool="prefork", concurrency=2, env=env)
    for number in range(3):
        lab.wait_published(lab.submit(f"look @{number}"))
    url = metrics_url(worker)
    before = Scrape(url).sum("stepkeeper_jobs_ended_total", agent="plan", status="succeeded")
    assert before == 3
    for event in lab.ledger.entries("look"):
        try:
            os.kill(event["pid"], signal.SIGKILL)
        except ProcessLookupError:
            continue
    lab.wait_published(lab.submit("look @again"))
    after = Scrape(url)
    assert after.sum("stepkeeper_jobs_ended_total", agent="plan", status="succeeded") == 4
    assert after.sum("stepkeeper_store_call_seconds_count", call="commit", outcome="ok") >= 4


def test_a_worker_shows_what_waits_in_the_store(lab: Lab) -> None:
    worker = lab.worker(env={"STEPKEEPER_METRICS_PORT": "0"})
    paused = lab.submit("ask @wait")
    lab.wait_status(paused, JobStatus.PAUSED)
    lab.wait_published(lab.submit("look @quick"))
    shown = Scrape(metrics_url(worker))
    assert shown.sum("stepkeeper_jobs", agent="plan", status="paused") == 1
    assert shown.sum("stepkeeper_jobs", status="succeeded") == 1
    assert shown.sum("stepkeeper_open_pauses", agent="plan", kind="hand_to_human") == 1
    assert shown.sum("stepkeeper_store_up") == 1
    assert shown.sum("stepkeeper_queue_wait_seconds_count", agent="plan") == 2


def test_every_line_of_a_json_log_is_json_and_names_its_job(lab: Lab) -> None:
    """A secret in the task, in the words of a failure and in the environment is in no line."""
    env = {"STEPKEEPER_LOG_FORMAT": "json", "LLM_API_KEY": "sk-env-0123456789abcdef"}
    worker = lab.worker(env=env)
    job = lab.submit("look sesame-opens-the-door refuse @tag")
    assert lab.wait_published(job).status is JobStatus.FAILED
    worker.stop()
    lines = json_lines(worker)
    of_job = [line for line in lines if line.get("job") == job]
    assert {"claimed", "model answered", "committed", "tool ended"} <= {
        line["event"] for line in of_job if "event" in line
    }
    assert any(line["logger"].startswith("celery") for line in lines)
    assert "sesame" not in worker.log
    assert "sk-env-0123456789abcdef" not in worker.log
