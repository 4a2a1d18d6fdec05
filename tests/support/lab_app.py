"""The worker app of the acceptance tests: agents beside ordinary tasks, and planned crashes.

``TEST_CONF`` holds further settings of Celery (JSON), such as a result backend. With
``TEST_NOTE_RUNS`` each message of a job that runs is noted with its options.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from celery.signals import task_prerun

import worker.tasks
from api_client.contract import JobSpec
from tests.support.agents import gate, note
from tests.support.crashes import maybe_die
from worker.app import make_app
from worker.store.redis import RedisCheckpointStore


def dying(method: Callable[..., Any], what: Callable[..., tuple[str, str]]) -> Callable[..., Any]:
    """A method of the store that may die before and after its work.

    Args:
        what: of the method's arguments, the point's name and the job's id.
    """

    @wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        name, job_id = what(*args)
        maybe_die("before", name, job_id)
        result = method(self, *args, **kwargs)
        maybe_die("after", name, job_id)
        gate(f"{method.__name__}-{job_id}")
        return result

    return wrapped


POINTS: dict[str, Callable[..., tuple[str, str]]] = {
    "claim": lambda job_id, *_: ("claim", job_id),
    "commit": lambda ticket, progress, *_: (progress.kind, ticket.job_id),
    "begin_commit": lambda ticket, progress, *_: (progress.kind, ticket.job_id),
    "settle": lambda ticket, progress, *_: (progress.kind, ticket.job_id),
    "published": lambda job_id, *_: ("published", job_id),
}
for name, point in POINTS.items():
    setattr(RedisCheckpointStore, name, dying(getattr(RedisCheckpointStore, name), point))


def losing(hint: Callable[[Any, JobSpec], bool]) -> Callable[[Any, JobSpec], bool]:
    """Sending the first message of a job, which is lost if the test holds ``lose-JOB`` shut."""

    def hint_or_lose(app: Any, spec: JobSpec) -> bool:
        lost = Path(os.environ["TEST_GATES"], f"lose-{spec.job_id}").exists()
        return True if lost else hint(app, spec)

    return hint_or_lose


_tasks: Any = worker.tasks
_tasks.try_hint = losing(_tasks.try_hint)

app = make_app()
app.conf.update(json.loads(os.environ.get("TEST_CONF", "{}")))
if visibility_s := os.environ.get("TEST_VISIBILITY_TIMEOUT_S"):
    app.conf.broker_transport_options["visibility_timeout"] = float(visibility_s)


def note_run(task: Any, **_: Any) -> None:
    """Note with which options the message of a job came."""
    request = task.request
    if task.name.startswith("agent."):
        note(
            "run",
            job=request.id,
            queue=request.delivery_info["routing_key"],
            priority=request.delivery_info["priority"],
            headers=request.headers,
            stamps=request.stamps,
            shadow=request.shadow,
            root=request.root_id,
            parent=request.parent_id,
        )


if os.environ.get("TEST_NOTE_RUNS"):
    task_prerun.connect(note_run, weak=False)


@app.task(name="lab.note")
def lab_note(value: Any, where: str = "") -> Any:
    """An ordinary task that notes what it was given, and passes it on."""
    note("task", where=where, value=value)
    return value


@app.task(name="lab.failed")
def lab_failed(request: Any, error: Any, traceback: Any, where: str = "") -> None:
    """An errback, in the form that Celery calls where the task failed."""
    note("errback", where=where, value=request.id, error=str(error), traced=bool(traceback))


@app.task(name="lab.upper")
def lab_upper(value: Any) -> Any:
    """An ordinary link of a chain."""
    return str(value).upper()


@app.task(name="lab.submit")
def lab_submit(words: str) -> str:
    """An ordinary task that submits a job and does not wait for it; returns the job's id."""
    return str(app.tasks["agent.plan"].delay(words).id)


@app.task(name="lab.replace", bind=True)
def lab_replace(self: Any, words: str) -> Any:
    """An ordinary task that has a job take its place."""
    raise self.replace(app.tasks["agent.plan"].s(words))
