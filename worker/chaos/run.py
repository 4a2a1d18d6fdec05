"""One chaos run from its first job to its report. Leaves nothing behind."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from worker.chaos import interrupt
from worker.chaos.agents import AGENT
from worker.chaos.evidence import Evidence, gather
from worker.chaos.field import Field
from worker.chaos.ledger import Ledger
from worker.chaos.options import Options
from worker.chaos.people import People
from worker.chaos.plan import PlannedJob, make_plan
from worker.chaos.processes import WorkerProcess, worker_environment
from worker.chaos.report import Report
from worker.chaos.verdict import judge
from worker.chaos.wreck import Wrecker
from worker.embedded import EmbeddedServer

Say = Callable[[str], None]

SAY_EVERY_S = 5.0


def run_chaos(options: Options, say: Say = lambda _line: None) -> Report:
    """Run the jobs through the strikes and judge what has become of them.

    Args:
        say: told now and then, in one line, how far the run is.

    Raises:
        EmbeddedServerError: there is no Redis to strike at.
        WorkerDied: a worker ended although nobody had killed it.
        InvalidInput: the folder to keep holds an earlier run.
    """
    folder = options.keep or Path(tempfile.mkdtemp(prefix="stepkeeper-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report = _run_in(folder, options, say)
    except Exception:
        say(f"ledger, logs and data are kept in {folder}")
        raise
    except BaseException:  # interrupted: nobody wants to look at it
        _remove(folder, options)
        raise
    if report.faults:
        say(f"ledger, logs, data and report are kept in {folder}")
    else:
        _remove(folder, options)
    return report


def _remove(folder: Path, options: Options) -> None:
    if options.keep is None:
        shutil.rmtree(folder)


def _run_in(folder: Path, options: Options, say: Say) -> Report:
    """A run whose files all lie in one folder; when it returns, all its processes are dead."""
    began = time.monotonic()
    ledger = Ledger.create(folder / "ledger.sqlite3")
    with ExitStack() as cleanup:
        server = cleanup.enter_context(
            EmbeddedServer(folder / "redis", appendfsync=options.appendfsync)
        )
        field = Field(options, make_plan(options), server.url, ledger)
        cleanup.callback(field.close)
        workers = _start_workers(field, folder, cleanup)
        evidence = _Run(field, server, workers, say).run(cleanup)
        report = judge(evidence, elapsed_s=time.monotonic() - began)
    (folder / "report.json").write_text(report.to_json() + "\n")
    return report


def _start_workers(field: Field, folder: Path, cleanup: ExitStack) -> list[WorkerProcess]:
    env = worker_environment(field.options, field.url, field.ledger.path)
    workers = []
    for node in field.options.nodes:
        worker = WorkerProcess(node, field.options, env, folder / f"{node}.log")
        cleanup.callback(worker.kill)
        worker.start()
        workers.append(worker)
    return workers


class _Run:
    """The driver: submits, waits for the end, and looks after who strikes and who answers."""

    def __init__(
        self, field: Field, server: EmbeddedServer, workers: list[WorkerProcess], say: Say
    ) -> None:
        self._field = field
        self._workers = workers
        self._wrecker = Wrecker(field, server, workers)
        self._people = People(field)
        self._say = say
        self._said = time.monotonic()
        self._others: list[Future[None]] = []

    def run(self, cleanup: ExitStack) -> Evidence:
        """Everything that can be known when all jobs have ended, or the time is up."""
        pool = cleanup.enter_context(ThreadPoolExecutor(2, thread_name_prefix="chaos"))
        cleanup.callback(self._field.close)  # before the pool waits for its threads
        self._wait_for_workers()
        self._others = [pool.submit(self._wrecker.work), pool.submit(self._people.work)]
        try:
            self._submit_all()
            self._wait_for_ends()
        except _Stuck:
            self._say("nothing moves any more")
        return gather(self._field, self._wrecker, self._people)

    def _wait_for_workers(self) -> None:
        """Wait until a worker has announced the agent.

        Raises:
            WorkerDied: none will.
        """
        while not self._field.patiently(self._field.client.agents):
            self._look_after()
            self._field.pause()

    def _submit_all(self) -> None:
        """Submit every job, at the pace of the strikes and of the workers."""
        for job in self._field.plan.jobs:
            self._wait_for(partial(self._may_submit, job))
            self._submit(job)
        self._wait_for(lambda: self._wrecker.finished)

    def _may_submit(self, job: PlannedJob) -> bool:
        under_way = len(self._field.ids) - self._field.ended() - self._field.staying()
        return under_way < self._field.options.window and self._wrecker.allows(job.number)

    def _submit(self, job: PlannedJob) -> None:
        """Submit under an idempotency key: if Redis dies before it answers, once more."""
        job_id = self._field.patiently(
            lambda: self._field.client.submit(
                AGENT, job.script.text, idempotency_key=str(job.number)
            )
        )
        self._field.accepted(job, job_id)

    # --- waiting ---------------------------------------------------------------------------

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds.

        Raises:
            _Stuck: for the time of the deadline no job has ended and nothing was struck.
        """
        moved, deadline = self._moved(), self._deadline()
        while not self._field.patiently(condition):
            self._look_after()
            self._field.pause()
            if moved != (moved := self._moved()):
                deadline = self._deadline()
            elif time.monotonic() > deadline:
                raise _Stuck

    def _moved(self) -> tuple[int, int]:
        return self._field.ended(), self._wrecker.done.total()

    def _deadline(self) -> float:
        return time.monotonic() + self._field.options.deadline_s

    def _wait_for_ends(self) -> None:
        """Wait until every job has come to its end, at most until the deadline."""
        deadline = self._deadline()
        left = set(self._field.jobs)
        while left and time.monotonic() < deadline:
            self._look_after()
            left = {job_id for job_id in left if not self._has_come_to_rest(job_id)}
            self._field.pause()

    def _has_come_to_rest(self, job_id: str) -> bool:
        view = self._field.view(job_id)
        if view is None:
            return True  # lost; it will not come any more
        stays = not self._field.jobs[job_id].answered
        return view.published or (stays and self._field.is_asked(view))

    def _look_after(self) -> None:
        """Say how far things are; raises what went wrong with the others.

        Workers are looked at while nobody kills them; the wrecker does it otherwise.
        """
        interrupt.check()
        if not self._others or self._wrecker.finished:
            for worker in self._workers:
                worker.check()
        for other in self._others:
            if other.done():
                other.result()
        if time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            done = self._wrecker.done
            self._say(
                f"{len(self._field.ids)} of {self._field.options.jobs} jobs accepted, "
                f"{self._field.ended()} ended, {done['kill']} kills, "
                f"{done['restart_redis']} Redis restarts"
            )


class _Stuck(Exception):
    """Jobs are under way, and none of them moves."""
