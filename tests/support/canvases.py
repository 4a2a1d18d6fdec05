"""Canvases around one job that meets trouble, all kinds at once: one trouble serves them all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery import Celery, chain, chord, group

from tests.support.places import TASKS, Place
from worker.texts import ENGLISH

HUMAN = ENGLISH.human_answer("yes")


@dataclass(frozen=True)
class Trouble:
    """What befalls a job.

    Attributes:
        name: as the table calls it.
        words: of the job's task.
        answer: the job's answer; empty if it has none.
        overcome: given the place and the jobs' ids, makes the trouble and sees them through it.
        gate: where every job stands from its beginning, ``{}`` for its id; empty for nowhere.
        hinted: whether the messages that submit the jobs reach the broker.
        by_name: whether they are submitted by nothing but Celery.
        error: what those are told who wait for a job that has no answer.
    """

    name: str
    words: str
    answer: str
    overcome: Callable[[Place, list[str]], None]
    gate: str = ""
    hinted: bool = True
    by_name: bool = False
    error: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def turn(self) -> int:
        """At which of the places an ordinary run makes this trouble."""
        return TROUBLES.index(self)


def _nothing(place: Place, ids: list[str]) -> None:
    """It just runs."""


def _answer(place: Place, ids: list[str]) -> None:
    for job_id in ids:
        place.answer(job_id)


def _kill_at(gate: str) -> Callable[[Place, list[str]], None]:
    """SIGKILL the worker when all its jobs stand at the gate."""

    def kill(place: Place, ids: list[str]) -> None:
        for job_id in ids:
            place.lab.ledger.wait("gate", name=gate.format(job_id))
        place.kill()
        for job_id in ids:
            place.lab.open(gate.format(job_id))

    return kill


def _pass_time(place: Place, ids: list[str]) -> None:
    for job_id in ids:
        place.lab.wait_view(job_id, lambda _: True, "is stored")
    place.pass_time()


def _answer_unheard(place: Place, ids: list[str]) -> None:
    for job_id in ids:
        place.answer(job_id, hinted=False)
    place.pass_time()


def _revoke(place: Place, ids: list[str]) -> None:
    for job_id in ids:
        place.lab.wait_status(job_id, "paused")
    place.app.control.revoke(ids)


IN_A_TOOL, AT_THE_END = "put-{}-1", "settle-{}"
TROUBLES = (
    Trouble("as it is", "put", "put 1", _nothing),
    Trouble("over a pause", "put ask", f"put 1; {HUMAN}", _answer),
    Trouble("over a SIGKILL in a tool", "put", "put 1", _kill_at(IN_A_TOOL), gate=IN_A_TOOL),
    Trouble(
        "over a SIGKILL before the end is published",
        "put",
        "put 1",
        _kill_at(AT_THE_END),
        gate=AT_THE_END,
        by_name=True,
    ),
    Trouble("over a backoff (status 429)", "put busy", "put 1; look 2", _nothing, by_name=True),
    Trouble("over the loss of its first message", "put", "put 1", _pass_time, hinted=False),
    Trouble(
        "over the loss of a later message",
        "put ask",
        f"put 1; {HUMAN}",
        _answer_unheard,
        by_name=True,
    ),
    Trouble("cancelled while paused", "put ask", "", _revoke, error="revoked"),
    Trouble(
        "whose job fails",
        "put refuse",
        "",
        _nothing,
        by_name=True,
        error="the model does not exist",
    ),
)


@dataclass(frozen=True)
class Started:
    """A canvas that has been applied.

    Attributes:
        id: of the job that meets the trouble.
    """

    id: str
    result: Any


class Wave:
    """Every kind of canvas, each around a job of its own, through one trouble."""

    def __init__(self, place: Place, trouble: Trouble) -> None:
        self.place = place
        self.trouble = trouble
        self.started: dict[str, Started] = {}

    def roll(self) -> None:
        """Apply them all, and see their jobs through the trouble."""
        with self._submitting():
            for kind, apply in KINDS.items():
                job_id = f"{kind}-{uuid.uuid4()}".replace(" ", "-")
                if self.trouble.gate:
                    self.place.lab.hold(self.trouble.gate.format(job_id))
                if not self.trouble.hinted:
                    self.place.lab.hold(f"lose-{job_id}")
                self.started[kind] = Started(job_id, apply(self, job_id))
        ids = [started.id for started in self.started.values()]
        self.trouble.overcome(self.place, ids)
        for job_id in ids:
            self.place.lab.wait_published(job_id)

    @contextmanager
    def _submitting(self) -> Iterator[None]:
        if self.trouble.hinted:
            yield
        else:
            with self.place.losing_hints():
                yield

    def words(self, job_id: str, more: str = "") -> str:
        """The task of the job that meets the trouble."""
        return f"{self.trouble.words}{more} @{job_id}"

    def job(self, job_id: str, more: str = "") -> Any:
        """The job that meets the trouble."""
        return self.agent(self.words(job_id, more), task_id=job_id)

    @property
    def app(self) -> Celery:
        """The program that applies the canvases."""
        return self.place.lab.plain if self.trouble.by_name else self.place.app

    def agent(self, *args: Any, **options: Any) -> Any:
        """A job, as that program submits it."""
        make = self.place.by_name if self.trouble.by_name else self.place.agent
        return make(*args, **options)

    def task(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """An ordinary task of that program."""
        return self.app.signature(f"lab.{name}", args=args, kwargs=kwargs, queue=TASKS)


def _chain(wave: Wave, job_id: str) -> Any:
    task = wave.task
    steps: Any = chain(wave.job(job_id), task("upper"), task("note", where=job_id))
    return steps.apply_async()


def _job_in_the_middle(wave: Wave, job_id: str) -> Any:
    """The task before it gives it its words, outside of the trouble."""
    task, job = wave.task, wave.agent(task_id=job_id)
    steps: Any = chain(task("note", wave.words(job_id)), job, task("note", where=job_id))
    return steps.apply_async()


def _job_behind_a_job(wave: Wave, job_id: str) -> Any:
    return chain(wave.job(job_id), wave.agent(task_id=f"{job_id}-next")).apply_async()


def _group(wave: Wave, job_id: str) -> Any:
    return group([wave.agent("look"), wave.job(job_id)], app=wave.app).apply_async()


def _chord(wave: Wave, job_id: str) -> Any:
    task = wave.task
    header = [wave.agent("look"), wave.job(job_id), task("upper", "plain")]
    return chord(header, app=wave.app)(task("note", where=job_id))


def _chord_of_chords(wave: Wave, job_id: str) -> Any:
    task, app = wave.task, wave.app
    inner = chord(
        [wave.job(job_id), task("upper", "in")], task("note", where=f"{job_id}-in"), app=app
    )
    return chord([inner, task("upper", "out")], app=app)(task("note", where=job_id))


def _link(wave: Wave, job_id: str) -> Any:
    task = wave.task
    return wave.job(job_id).apply_async(
        link=[task("note", where=f"{job_id}-one"), task("note", where=f"{job_id}-two")],
        link_error=task("failed", where=f"{job_id}-never"),
    )


def _link_error(wave: Wave, job_id: str) -> Any:
    task = wave.task
    return wave.job(job_id, " refuse").apply_async(
        link=task("note", where=f"{job_id}-never"), link_error=task("failed", where=job_id)
    )


KINDS: dict[str, Callable[[Wave, str], Any]] = {
    "chain": _chain,
    "job amid a chain": _job_in_the_middle,
    "job behind a job": _job_behind_a_job,
    "group": _group,
    "chord": _chord,
    "chord of chords": _chord_of_chords,
    "link": _link,
    "link_error": _link_error,
}
