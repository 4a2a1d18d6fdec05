"""Commands for jobs and events of jobs, through Celery's own tooling, on both pools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from tests.support.lab import Lab, plain_app
from tests.support.nursery import Nursery
from tests.support.workers import ROOT, WorkerProcess, eventually, running
from worker.embedded import EmbeddedServer
from worker.telemetry.events import FIELDS

POOLS = ("threads", "prefork")
EVERYBODY = {"threads@floor", "prefork@floor"}

AGENTS = """
from tests.support.agents import plan
from worker import Agent
from worker.models import FunctionModel
from {tools} import VERSION

again = Agent(
    name="again", goal="Say the version.", version="v{version}",
    model=FunctionModel(lambda messages: "{answer} " + VERSION),
)
"""


class Floor:
    """A worker of each pool on a queue of its name; one plain Celery app that commands them."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.app: Celery = lab.plain
        self.folder = folder

    def submit(self, pool: str, words: str) -> str:
        """A job for the worker of this pool."""
        return self.lab.send(words, queue=pool).id

    def ask(self, command: str, pool: str = "", **arguments: Any) -> dict[str, Any]:
        """Each worker's answer, by its name."""
        with self.app.connection_for_write() as connection:
            answers = self.app.control.broadcast(
                command,
                arguments=arguments,
                destination=[f"{pool}@floor"] if pool else None,
                reply=True,
                timeout=10,
                limit=1 if pool else 2,
                connection=connection,
            )
        return {name: answer for one in answers or () for name, answer in one.items()}

    def write(self, version: int, answer: str, more: str = "") -> None:
        """A version of the module that the workers' setting names."""
        text = AGENTS.format(tools="again_tools", version=version, answer=answer) + more
        (self.folder / "again_agents.py").write_text(text)


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Floor]:
    """The workers, for the whole file."""
    folder = tmp_path_factory.mktemp("floor")
    (folder / "again_tools.py").write_text('VERSION = "one"\n')
    with EmbeddedServer(folder / "valkey") as valkey:
        lab = Lab(nursery, valkey.url, folder)
        floor = Floor(lab, folder)
        floor.write(1, "first")
        path = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
        agents = {"STEPKEEPER_AGENTS": "tests.support.agents,again_agents"}
        workers = [
            WorkerProcess(
                valkey.url,
                app="tests.support.lab_app",
                name=f"{pool}@floor",
                pool=pool,
                concurrency=2,
                env={**lab.env, **path, **agents},
                options=(f"--queues={pool}",),
            )
            for pool in POOLS
        ]
        try:
            for worker in workers:
                worker.wait_ready()
            yield floor
        finally:
            for worker in workers:
                worker.kill()
            lab.close()


# --- looking -------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS)
def test_each_worker_tells_the_jobs_that_it_runs(floor: Floor, pool: str) -> None:
    with floor.lab.shut(f"put-jobs-{pool}-1"):
        job_id = floor.submit(pool, f"put @jobs-{pool}")
        floor.lab.wait_gate(f"put-jobs-{pool}-1")
        answers = floor.ask("agent_jobs")
        assert set(answers) == EVERYBODY
        [job] = answers[f"{pool}@floor"]["jobs"]
        assert (job["job"], job["agent"], job["status"]) == (job_id, "plan", "running")
        assert job["step"] == 1
        assert job["worker"].startswith(f"{pool}@floor/")
        assert [answer["count"] for answer in answers.values()].count(0) == 1
    floor.lab.wait_published(job_id)


def test_any_worker_tells_where_any_job_stands(floor: Floor) -> None:
    job_id = floor.submit("threads", "look ask")
    floor.lab.wait_status(job_id, "paused")
    answers = floor.ask("agent_job", job_id=job_id)
    assert set(answers) == EVERYBODY
    told = answers["prefork@floor"]
    assert told["status"] == "paused"
    assert told["step"] == 2
    assert told["pause"] == {"id": "p1", "kind": "hand_to_human", "question": "question 2"}
    assert "look ask" not in json.dumps(answers)
    floor.lab.client.cancel(job_id)


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("agent_job", {"job_id": "nobody"}, "no job 'nobody'"),
        ("agent_job", {"job_id": "a b"}, "not the form of a job id"),
        ("agent_job", {"job_id": 7}, "7 is no text"),
        ("agent_job", {}, "missing a required argument: 'job_id'; it is called as: agent_job <job"),
        ("agent_job", {"job_id": "x", "colour": "red"}, "unexpected keyword argument 'colour'"),
        ("agent_jobs", {"job_id": "x"}, "unexpected keyword argument 'job_id'"),
        ("agent_pause", {"job_id": "nobody"}, "no job 'nobody'"),
        ("agent_pause", {"job_id": "nobody", "note": 7}, "note"),
        ("agent_drain", {"queue": "x"}, "unexpected keyword argument 'queue'"),
    ],
)
def test_what_cannot_be_done_is_answered(
    floor: Floor, command: str, arguments: dict[str, Any], words: str
) -> None:
    answers = floor.ask(command, "threads", **arguments)
    assert words in answers["threads@floor"]["error"]


def test_the_command_line_knows_them_and_their_arguments(floor: Floor) -> None:
    """``celery -A app inspect agent_job ID``."""
    job_id = floor.submit("threads", "look")
    floor.lab.wait_published(job_id)
    told = celery(floor, "inspect", "--json", "--timeout=2", "agent_job", job_id)
    assert json.loads(told)["prefork@floor"]["status"] == "succeeded"


def celery(floor: Floor, *arguments: str) -> str:
    """What the command ``celery`` prints in a project that has our package."""
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "worker.app", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "STEPKEEPER_REDIS_URL": floor.lab.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- pausing, draining ---------------------------------------------------------------------


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_is_paused_whichever_worker_hears_it_first(floor: Floor, pool: str) -> None:
    with floor.lab.shut(f"put-halt-{pool}-1"):
        job_id = floor.submit(pool, f"put look @halt-{pool}")
        floor.lab.wait_gate(f"put-halt-{pool}-1")
        answers = floor.ask("agent_pause", job_id=job_id, note="the shop is closed", by="anna")
        running = {"ok": {"job": job_id, "status": "running"}}
        assert answers == dict.fromkeys(EVERYBODY, running)
    view = floor.lab.wait_status(job_id, "paused")
    assert view.pause is not None
    assert view.pause.kind == "operator"
    again = floor.ask("agent_pause", job_id=job_id)
    assert again == {worker: {"ok": {**running["ok"], "status": "paused"}} for worker in EVERYBODY}
    floor.lab.client.signal(job_id, {"kind": "retry", "by": "anna"})
    assert floor.lab.client.result(job_id, 30) == "put 1; look 2"
    ended = floor.ask("agent_pause", job_id=job_id)
    assert all("succeeded" in answer["error"] for answer in ended.values())


@pytest.mark.parametrize("pool", POOLS)
def test_a_drained_worker_finishes_its_calls_and_takes_no_job(floor: Floor, pool: str) -> None:
    with floor.lab.shut(f"put-drain-{pool}-1"):
        job_id = floor.submit(pool, f"put look @drain-{pool}")
        floor.lab.wait_gate(f"put-drain-{pool}-1")
        answer = {"ok": {"queues": [pool], "jobs": [job_id]}}
        assert floor.ask("agent_drain", pool) == {f"{pool}@floor": answer}
        assert floor.ask("agent_drain", pool) == {f"{pool}@floor": answer}
    floor.lab.wait_event(job_id, "released")
    later = floor.submit(pool, "look")
    eventually(
        lambda: (
            floor.ask("agent_jobs", pool)[f"{pool}@floor"]
            == {"count": 0, "draining": True, "jobs": []}
        ),
        "the worker has nothing left",
    )
    assert [entry["tag"] for entry in floor.lab.ledger.entries("put", tag=f"drain-{pool}")]
    assert floor.lab.view(job_id).status == "queued"
    assert floor.lab.events(job_id, "observation")
    assert floor.lab.redis.llen(pool) >= 2
    assert floor.ask("agent_undrain", pool) == {f"{pool}@floor": {"ok": {"queues": [pool]}}}
    assert floor.lab.client.result(job_id, 30) == "put 1; look 2"
    assert floor.lab.plain.AsyncResult(later).get(timeout=30) == "look 1"
    assert len(floor.lab.ledger.entries("put", tag=f"drain-{pool}")) == 1


# --- new code ------------------------------------------------------------------------------


def answer_of(floor: Floor, pool: str) -> str:
    """What the reloaded agent says on this worker."""
    result = floor.app.send_task("agent.again", args=["Which?"], queue=pool)
    return str(result.get(timeout=30))


def test_new_code_is_for_new_slices_and_bad_code_for_none(floor: Floor) -> None:
    assert [answer_of(floor, pool) for pool in POOLS] == ["first one"] * 2
    (floor.folder / "again_tools.py").write_text('VERSION = "number two"\n')
    floor.write(2, "the second")
    answers = floor.ask("agent_reload")
    assert set(answers) == EVERYBODY
    for answer in answers.values():
        told = answer["ok"]
        assert told["agents"]["again"] == {"version": "v2", "before": "v1"}
        assert "again_agents" in told["modules"]
        assert "again_tools is used by" in told["kept"]["again_tools"]
    for pool in POOLS:
        assert [answer_of(floor, pool) for _ in range(6)] == ["the second one"] * 6
    assert {info.version for info in floor.lab.client.agents() if info.name == "again"} == {"v2"}

    floor.write(3, "the third", more="\nthis is no Python\n")
    broken = floor.ask("agent_reload")
    assert all("again_agents" in answer["error"] for answer in broken.values())
    assert [answer_of(floor, pool) for pool in POOLS] == ["the second one"] * 2

    floor.write(4, "the fourth", more='\nmore = Agent(name="more", goal="g", model=again.model)\n')
    told = floor.ask("agent_reload")
    assert all("it is new" in answer["ok"]["kept"]["more"] for answer in told.values())
    assert [answer_of(floor, pool) for pool in POOLS] == ["the fourth one"] * 2


@pytest.mark.parametrize("pool", POOLS)
def test_a_slice_that_runs_goes_on_with_its_own_code(floor: Floor, pool: str) -> None:
    with floor.lab.shut(f"put-code-{pool}-1"):
        job_id = floor.submit(pool, f"put look @code-{pool}")
        floor.lab.wait_gate(f"put-code-{pool}-1")
        assert "ok" in floor.ask("agent_reload", pool)[f"{pool}@floor"]
    assert floor.lab.client.result(job_id, 30) == "put 1; look 2"


# --- events --------------------------------------------------------------------------------


@contextmanager
def listening(url: str) -> Iterator[list[dict[str, Any]]]:
    """Every event that is sent meanwhile, as ``celery events`` hears it."""
    heard: list[dict[str, Any]] = []
    app = plain_app(url)
    with app.connection_for_read() as connection, redis.Redis.from_url(url) as client:
        before: Any = client.pubsub_numpat()
        receiver = app.events.Receiver(connection, handlers={"*": heard.append}, app=app)
        thread = threading.Thread(target=receiver.capture, kwargs={"wakeup": False}, daemon=True)
        thread.start()
        eventually(lambda: client.pubsub_numpat() != before, "the receiver has subscribed")
        yield heard
        receiver.should_stop = True
        thread.join(30)


def kinds(heard: list[dict[str, Any]], job_id: str) -> list[str]:
    """The types of one job's events, in their order."""
    return [event["type"] for event in list(heard) if event.get("uuid") == job_id]


@pytest.mark.parametrize("pool", POOLS)
def test_steps_pauses_and_resumes_are_told_with_their_documented_fields(
    floor: Floor, pool: str
) -> None:
    with listening(floor.lab.url) as heard:
        job_id = floor.submit(pool, "look ask")
        floor.lab.wait_status(job_id, "paused")
        floor.lab.client.signal(job_id, {"kind": "answer", "value": "yes", "by": "anna"})
        floor.lab.wait_published(job_id)
        eventually(lambda: "task-succeeded" in kinds(heard, job_id), "the end is told")
    told = kinds(heard, job_id)
    assert [kind for kind in told if kind in FIELDS] == [
        *("task-step", "task-step", "task-paused", "task-resumed", "task-step"),
    ]
    for kind, documented in FIELDS.items():
        for event in heard:
            if event.get("uuid") == job_id and event["type"] == kind:
                assert documented.keys() <= event.keys()
                assert event["agent"] == "plan"
                assert event["hostname"] == f"{pool}@floor"
    steps = [e for e in heard if e.get("uuid") == job_id and e["type"] == "task-step"]
    assert [event["step"] for event in steps] == [1, 2, 3]
    usage = floor.lab.view(job_id).usage
    assert steps[-1]["tokens"] == usage.total_tokens > 0
    assert sum(event["prompt_tokens"] for event in steps) == usage.prompt_tokens
    [resumed] = [e for e in heard if e.get("uuid") == job_id and e["type"] == "task-resumed"]
    assert (resumed["pause_id"], resumed["kind"]) == ("p1", "hand_to_human")
    assert resumed["signal"] == "answer"


def test_nothing_is_told_when_events_are_switched_off(floor: Floor) -> None:
    assert set(floor.ask("disable_events")) == EVERYBODY
    try:
        with listening(floor.lab.url) as heard:
            for pool in POOLS:
                floor.lab.wait_published(floor.submit(pool, "look"))
        assert [event for event in heard if event["type"] in FIELDS] == []
    finally:
        floor.ask("enable_events")


def test_a_retry_is_told_behind_the_start_of_its_slice(lab: Lab) -> None:
    """Or else monitors would show the job as running while it waits for its model."""
    app = "tests.support.slow_loop_app"
    with running(lab.url, app=app, env=lab.env), listening(lab.url) as heard:
        job_ids = [lab.submit(f"busy @late{number}") for number in range(5)]
        eventually(
            lambda: all("task-succeeded" in kinds(heard, job_id) for job_id in job_ids), "the ends"
        )
    for job_id in job_ids:
        told = kinds(heard, job_id)
        assert told.index("task-started") < told.index("task-retried"), told
