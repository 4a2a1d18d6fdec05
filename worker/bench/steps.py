"""``steps``: one job of K steps, on the store that workers use, in this process.

Floor: a bare loop of as many RPUSHes of as many bytes, each waiting for its answer. Beside it, what
any fenced store must do: one script a step that compares an epoch and appends.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from api_client.records import dumps
from worker.bench.counting import Counters, CountingConnection, stored_bytes
from worker.bench.floors import bare_client, fenced_steps_per_s, rpush_steps_per_s
from worker.bench.load import observation_message, reply_message
from worker.bench.measuring import Row, growth, in_turns, median_of, ratio, row
from worker.bench.options import Options
from worker.bench.room import FSYNCS, Room, room
from worker.bench.stepping import DEFAULT_SLICE, Run, Stepper, stepper

SIZES = (10, 100, 500, 1000, 5000)
QUICK_SIZES = (10, 100, 500)

LEAST_STEPS, QUICK_LEAST_STEPS = 500, 200
"""In one sample: short jobs are run as often as it takes."""

WARM_UP = 50


def measure(options: Options, say: Callable[[str], None]) -> list[Row]:
    """A row for each K and each ``appendfsync``.

    Raises:
        EmbeddedServerError: there is no server to measure on.
        JobFailed: a job did not come to its end.
    """
    sizes = QUICK_SIZES if options.quick else SIZES
    least = QUICK_LEAST_STEPS if options.quick else LEAST_STEPS
    rows = []
    for fsync in FSYNCS:
        with room(fsync) as here, stepper(here) as steps:
            steps.run(WARM_UP)  # loads the scripts
            for k in sizes:
                say(f"steps: {k} steps, appendfsync {fsync}")
                rows.append(measure_k(here, steps, k, options.samples, least) | {"fsync": fsync})
    return rows


def measure_k(here: Room, steps: Stepper, k: int, samples: int, least: int) -> Row:
    """The row of one K, on the server that is there."""
    floors, values = in_turns(
        samples, lambda: _floors(here, max(k, least)), lambda: _Sample(steps, k, least)
    )
    fenced = median_of(floors, lambda floor: floor[1])
    per_s = median_of(values, lambda sample: sample.per_s)
    return row(
        [floor[0] for floor in floors],
        [sample.per_s for sample in values],
        k=k,
        steps_per_s=per_s,
        fenced_append_per_s=fenced,
        step_to_fenced_append=ratio(fenced, per_s),
        idempotent_steps_per_s=median_of(values, lambda sample: sample.idempotent_per_s),
        sliced_steps_per_s=median_of(values, lambda sample: sample.sliced_per_s),
        sliced_growth=median_of(values, lambda sample: growth(sample.sliced[-1].steps_s, fmean)),
        growth=median_of(values, lambda sample: growth(sample.runs[-1].steps_s, median)),
        first_tenth_us=median_of(values, lambda sample: _tenth_us(sample.runs[-1], last=False)),
        last_tenth_us=median_of(values, lambda sample: _tenth_us(sample.runs[-1], last=True)),
        **counts(here, steps, k),
    )


class _Sample:
    """The product once: jobs in one slice with a ``safe`` tool, with an ``idempotent`` one, and
    in the slices of a worker."""

    def __init__(self, steps: Stepper, k: int, least: int) -> None:
        times = range(max(1, least // k))
        self._k = k
        self.runs = [steps.run(k) for _ in times]
        self.sliced = [steps.run(k, slice_steps=DEFAULT_SLICE) for _ in times]
        self.per_s = self._of(self.runs)
        self.idempotent_per_s = self._of([steps.run(k, effects="idempotent") for _ in times])
        self.sliced_per_s = self._of(self.sliced)

    def _of(self, runs: list[Run]) -> float:
        return self._k * len(runs) / sum(run.seconds for run in runs)


def _tenth_us(run: Run, *, last: bool) -> float:
    tenth = max(1, len(run.steps_s) // 10)
    return median(run.steps_s[-tenth:] if last else run.steps_s[:tenth]) * 1e6


def _floors(here: Room, steps: int) -> tuple[float, float]:
    """Steps per second of the bare loop, and of fenced appends."""
    payload = (dumps(reply_message(1)) + dumps(observation_message(1))).encode()
    with bare_client(here.url) as client:
        client.ping()  # connecting is no step
        return (
            rpush_steps_per_s(client, payload, steps),
            fenced_steps_per_s(client, payload, steps),
        )


def counts(here: Room, steps: Stepper, k: int) -> dict[str, Any]:
    """What one job of K steps adds to the counters: not timed, and the same on every machine.

    ``round_trips_per_step`` is counted from the first request to the model to the last, which are K
    steps; all else from the claim to the settlement.
    """
    job = steps.ready(k)
    before, sent = Counters.of(here.redis), CountingConnection.sent
    run = job.run()
    sent = CountingConnection.sent - sent
    added = Counters.of(here.redis) - before
    stored = stored_bytes(here.redis)
    messages = sum(len(dumps(message).encode()) for message in steps.store.messages(run.job_id))
    return {
        "round_trips_per_step": run.trips / k,
        "round_trips_per_job": sent,
        "commands_per_step": added.commands / k,
        "sent_bytes_per_step": added.received / k,
        "messages_bytes": messages,
        "stored_bytes": stored,
        "stored_bytes_ratio": ratio(stored, messages),
        "aof_bytes": added.aof,
        "aof_bytes_ratio": ratio(added.aof, messages),
    }
