"""Where Celery keeps results.

Each result backend that a job can end in, with ``result_extended`` and without.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord
from celery.exceptions import TaskRevokedError

from api_client.errors import JobFailed
from tests.support.canvases import HUMAN
from tests.support.places import Place, Servers, open_place
from tests.support.workers import eventually

GET_S = 30


@dataclass(frozen=True)
class Backend:
    """A result backend.

    Attributes:
        url: of a folder of its own; empty for the store's Redis.
        turn: at which of the places an ordinary run tries it.
    """

    name: str
    url: Callable[[Path], str]
    turn: int
    extended: bool = False

    def __str__(self) -> str:
        return f"{self.name}, result_extended {'on' if self.extended else 'off'}"

    def conf(self, folder: Path) -> dict[str, Any]:
        """Celery's settings."""
        url = self.url(folder)
        conf = {"result_extended": self.extended, "result_chord_retry_interval": 0.2}
        return {**conf, "result_backend": url} if url else conf


BACKENDS = [
    Backend(name, url, turn, extended)
    for turn, (name, url, extended) in enumerate(
        (name, url, extended)
        for extended in (False, True)
        for name, url in (
            ("Redis", lambda _folder: ""),
            ("database (SQLite)", lambda folder: f"db+sqlite:///{folder}/results.sqlite"),
            ("file system", lambda folder: f"file://{folder}"),
        )
    )
]


@pytest.fixture(scope="module", params=BACKENDS, ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Where results are kept."""
    backend: Backend = request.param
    return backend


@pytest.fixture(scope="module")
def place_of_backend(
    place_name: str, backend: Backend, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Workers and programs with this backend."""
    folder = tmp_path_factory.mktemp("results")
    with open_place(servers, place_name, backend.conf(folder)) as place:
        yield place


@pytest.mark.feature("{backend}")
def test_every_end_of_a_job_is_there(place_of_backend: Place, backend: Backend) -> None:
    """States on the way, the answer, a failure, a cancel; a chain and a chord behind them."""
    place = place_of_backend
    check_states(place, backend)
    check_failures(place)
    check_canvas(place)


def check_states(place: Place, backend: Backend) -> None:
    """PAUSED with its reason, RETRY before it, then SUCCESS."""
    result: Any = place.by_name("busy ask").apply_async()
    eventually(lambda: str(result.state) == "PAUSED", "Celery's state is PAUSED")
    assert result.info["question"] == "question 2"
    place.answer(result.id)
    assert result.get(timeout=GET_S) == f"look 1; {HUMAN}"
    assert str(result.state) == "SUCCESS"
    assert result.name == ("agent.plan" if backend.extended else None)


def check_failures(place: Place) -> None:
    failed = place.by_name("refuse").apply_async()
    cancelled = place.by_name("ask").apply_async()
    with pytest.raises(Exception, match="the model does not exist") as caught:
        failed.get(timeout=GET_S)
    assert type(caught.value).__name__ == JobFailed.__name__
    eventually(lambda: str(cancelled.state) == "PAUSED", "Celery's state is PAUSED")
    place.lab.client.cancel(str(cancelled.id))
    with pytest.raises(TaskRevokedError):
        cancelled.get(timeout=GET_S)


def check_canvas(place: Place) -> None:
    """Also where Celery has to ask again and again whether a chord's parts have ended."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    steps: Any = chain(place.agent("ask", task_id=first), place.task("upper"))
    behind = steps.apply_async()
    parts = [place.agent("look"), place.agent("ask", task_id=second)]
    body = chord(parts, app=place.app)(place.task("note", where=second))
    for job_id in (first, second):
        place.answer(job_id)
    assert behind.get(timeout=GET_S) == HUMAN.upper()
    assert body.get(timeout=GET_S) == ["look 1", HUMAN]
    assert place.noted(second) == [["look 1", HUMAN]]
