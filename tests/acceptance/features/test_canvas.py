"""Canvas around a job.

Each kind of canvas, through each trouble that the job in it may meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api_client.errors import JobFailed
from tests.support.canvases import KINDS, TROUBLES, Started, Trouble, Wave
from tests.support.places import Place

GET_S = 30
REVOKED = "revoked"


@pytest.fixture(scope="module", params=TROUBLES, ids=str)
def trouble(request: pytest.FixtureRequest) -> Trouble:
    """What befalls the jobs."""
    trouble: Trouble = request.param
    return trouble


@pytest.fixture(scope="module")
def wave(place: Place, trouble: Trouble) -> Wave:
    """All canvases of one trouble, whose jobs are through it."""
    wave = Wave(place, trouble)
    wave.roll()
    return wave


@pytest.mark.feature("{kind}, {trouble}")
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_goes_where_the_canvas_sends_it(wave: Wave, kind: str) -> None:
    """Once, and in its order; of a job that has no answer nothing goes on, and nobody waits."""
    started = wave.started[kind]
    if wave.trouble.answer:
        ANSWERED[kind](wave, started, wave.trouble.answer)
    else:
        check_no_answer(wave, started)
        check_errbacks(wave, started, kind)


def noted(wave: Wave, *where: str) -> list[Any]:
    """What ordinary tasks of these names were given."""
    return [value for name in where for value in wave.place.noted(name)]


def check_no_answer(wave: Wave, started: Started) -> None:
    """Whoever waits is told, and no task behind the job has run."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - a chord wraps what was raised
        started.result.get(timeout=GET_S)
    assert wave.trouble.error in f"{caught.value!r}".lower()
    behind = [f"{started.id}-{end}" for end in ("in", "one", "two", "next")]
    assert noted(wave, *behind) == []
    state = "REVOKED" if wave.trouble.error == REVOKED else "FAILURE"
    assert str(wave.place.lab.plain.AsyncResult(started.id).state) == state


def check_errbacks(wave: Wave, started: Started, kind: str) -> None:
    """A failure calls them, once; a cancel does not, as of any task."""
    called = kind in ("link", "link_error") and wave.trouble.error != REVOKED
    assert noted(wave, started.id, f"{started.id}-never") == [started.id] * called


def check_chain(wave: Wave, started: Started, answer: str) -> None:
    assert started.result.get(timeout=GET_S) == answer.upper()
    assert noted(wave, started.id) == [answer.upper()]


def check_middle(wave: Wave, started: Started, answer: str) -> None:
    assert started.result.get(timeout=GET_S) == answer
    assert noted(wave, started.id) == [answer]


def check_next(wave: Wave, started: Started, answer: str) -> None:
    """The answer of the first is the task of the second."""
    job_id = str(started.result.id)
    wave.place.lab.wait_published(job_id)
    assert wave.place.lab.client.messages(job_id)[1]["content"] == answer


def check_group(wave: Wave, started: Started, answer: str) -> None:
    assert started.result.get(timeout=GET_S) == ["look 1", answer]


def check_chord(wave: Wave, started: Started, answer: str) -> None:
    assert started.result.get(timeout=GET_S) == ["look 1", answer, "PLAIN"]
    assert noted(wave, started.id) == [["look 1", answer, "PLAIN"]]


def check_chord_of_chords(wave: Wave, started: Started, answer: str) -> None:
    assert started.result.get(timeout=GET_S) == [[answer, "IN"], "OUT"]
    assert noted(wave, f"{started.id}-in") == [[answer, "IN"]]
    assert noted(wave, started.id) == [[[answer, "IN"], "OUT"]]


def check_link(wave: Wave, started: Started, answer: str) -> None:
    assert started.result.get(timeout=GET_S) == answer
    names = [f"{started.id}-{end}" for end in ("one", "two", "never")]
    assert noted(wave, *names) == [answer, answer]


def check_link_error(wave: Wave, started: Started, answer: str) -> None:
    with pytest.raises(JobFailed, match="the model does not exist"):
        started.result.get(timeout=GET_S)
    assert noted(wave, started.id, f"{started.id}-never") == [started.id]


ANSWERED: dict[str, Callable[[Wave, Started, str], None]] = {
    "chain": check_chain,
    "job amid a chain": check_middle,
    "job behind a job": check_next,
    "group": check_group,
    "chord": check_chord,
    "chord of chords": check_chord_of_chords,
    "link": check_link,
    "link_error": check_link_error,
}
