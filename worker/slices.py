"""One claimed job, from claim to return of its lease: pull the loop's steps, commit each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from api_client.contract import JobStatus, Outcome, Pause, Wish
from api_client.errors import StoreUnavailable
from api_client.sizes import sizes
from worker.agent import Agent
from worker.commits import Answered, Commits
from worker.context import ActionContext
from worker.driving import Drive, Work, pull
from worker.effects import (
    Awaiting,
    Backoff,
    CallTool,
    CallTools,
    Commit,
    Effect,
    End,
)
from worker.ends import Awaited, Deferred, Ended, HandedOver, Left, SliceEnd, Suspended
from worker.job import Job
from worker.loop import advance
from worker.messages import InvalidHistory, Transcript
from worker.models.base import StreamStopped
from worker.patience import patiently
from worker.pausing import operator_pause
from worker.performing import Outside, Performer
from worker.retry import backoff_s
from worker.settling import ended, settlement_of
from worker.shelf import Kept
from worker.state import RunState
from worker.store.base import Claimed, Progress, Settlement
from worker.telemetry.binding import binding
from worker.telemetry.watch import SliceWatch

if TYPE_CHECKING:
    from worker.runner import Runner

log = logging.getLogger(__name__)

UNINTERRUPTIBLE = "started"
"""Behind this commit a ``once`` call must really begin: ending the slice would put it in doubt."""


class Offload(Protocol):
    """Threads for what would block an event loop."""

    async def commit(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run something short that talks to the store."""

    async def work(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run something that may take its time."""


class Slice:
    """Advances one job until it ends, pauses, waits, or has had its turn."""

    def __init__(self, runner: Runner, claim: Claimed) -> None:
        self._runner = runner
        self._settings = runner.settings
        self._claim = claim
        self._commits = Commits(runner.store, claim, self._settings.patience_s, runner.clock_ms)
        self._overlaps = True
        self._job: Job | None = None
        self._first_step = 0
        agent = runner.agents.get(claim.spec.agent)
        version = agent.version if agent else ""
        self._watch = SliceWatch(runner.observer, claim, runner.owner, version)

    # --- driving ---------------------------------------------------------------------------

    def run(self) -> SliceEnd:
        """Drive the loop; whatever goes wrong here leaves the job to the sweep."""
        with binding(self._watch.bound):
            self._watch.claimed()
            end = self._run()
            self._watch.ended(end)
            return end

    def _run(self) -> SliceEnd:
        try:
            with self._context() as context:
                return Drive(self._work(), self._performer(context)).to_end()
        except Exception as error:  # noqa: BLE001 - logged; the try counts
            return self._broken(error)

    async def arun(self, threads: Offload) -> SliceEnd:
        """The same on an event loop: a model call that can be awaited takes no thread.

        No commit stays on its way here: it would keep its connection while a tool waits for a
        thread, and there are thousands of jobs.
        """
        self._overlaps = False
        with binding(self._watch.bound):
            self._watch.claimed()
            end = await self._arun(threads)
            self._watch.ended(end)
            return end

    async def _arun(self, threads: Offload) -> SliceEnd:
        try:
            with self._context() as context:
                work = self._work()
                performer = self._performer(context)
                end, asked = await threads.commit(pull, work, None)
                while asked is not None:
                    waiting = performer.asynchronous(asked)
                    if waiting is None:
                        end, asked = await threads.work(_perform, performer, work, asked)
                    else:
                        end, asked = await threads.commit(pull, work, await waiting)
                return end  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001 - logged; the try counts
            return await threads.commit(self._broken, error)  # type: ignore[no-any-return]

    def _context(self) -> AbstractContextManager[ActionContext | None]:
        return self._agent.contexts.open(self._claim.spec)

    @property
    def _agent(self) -> Agent:
        return self._runner.agents[self._claim.spec.agent]

    def _performer(self, context: ActionContext | None) -> Performer:
        runner = self._runner
        self._watch.bound.context = context
        return Performer(
            spec=self._claim.spec,
            epoch=self._claim.epoch,
            agent=self._agent,
            context=context,
            store=runner.store,
            default_model=runner.default_model,
            clock_ms=runner.clock_ms,
            hint=runner.hint,
            patience_s=self._settings.patience_s,
            watch=self._watch,
            gate=runner.gate,
        )

    def _broken(self, error: Exception) -> SliceEnd:
        """This attempt is over, the job is not: the lease is given up, and the try counts."""
        job_id = self._claim.spec.job_id
        if isinstance(error, StoreUnavailable):
            return Left("store_unavailable", str(error))
        log.error("job %s: this attempt broke off", job_id, exc_info=error)
        try:
            self._runner.store.abandon(
                self._runner.owner,
                job_id=job_id,
                delay_ms=int(1000 * backoff_s(job_id, self._claim.tries, None)),
            )
        except StoreUnavailable as unreachable:
            log.warning("job %s: its lease runs out by itself: %s", job_id, unreachable)
        return Left("broke_off")

    def _work(self) -> Generator[Outside, Any, SliceEnd]:
        """The loop with its commits: yields only what touches the world outside."""
        agent = self._agent
        try:
            job = self._job = _load(self._claim)
        except (InvalidHistory, _StateLost, ValueError) as error:
            return self._fail("state_lost", f"the stored state cannot be used: {error}")
        self._watch.loaded(job.state)
        if self._claim.halt is not None and job.signal is None:
            return self._halt(job)
        steps = advance(agent, job)
        first_step = self._first_step = job.state.steps
        answer: Any = None
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as stop:
                return self._caught_up(job) or self._settle(job, stop.value)
            end = None if _may_be_ahead(effect) else self._caught_up(job)
            if end is None:
                if isinstance(effect, Commit):
                    answer = None
                    end = self._commit(job, effect, job.state.steps - first_step)
                else:
                    answer = yield effect
                    end = self._unwanted(job, answer)
            if end is not None:
                steps.close()
                return end

    def _unwanted(self, job: Job, answer: Any) -> SliceEnd | None:
        """How the slice ends if a reply was broken off, because nobody wants it."""
        if not isinstance(answer, StreamStopped):
            return None
        return self._hand_over(job) if answer.why == "cancel" else Left("fenced")

    # --- writing ---------------------------------------------------------------------------

    def _commit(self, job: Job, effect: Commit, steps: int) -> SliceEnd | None:
        """Make progress durable, or send it on its way where the loop may go on meanwhile."""
        progress = Progress(
            job.state.dump(),
            effect.kind,
            effect.data,
            effect.messages,
            effect.consumes_signal,
            effect.heard,
        )
        if effect.reads_next and self._overlaps and not self._is_over(steps):
            self._commits.begin(progress)
            self._watch.sent(job.state)
            return None
        *earlier, answer = self._commits.commit(progress)
        for one in earlier:  # what it asks for, the last answer asks for too
            self._note(job, one)
        end = self._answered(job, answer)
        if end is None and effect.kind != UNINTERRUPTIBLE and self._is_over(steps):
            return self._hand_over(job)
        return end

    def _is_over(self, steps: int) -> bool:
        return steps >= self._most_steps or self._runner.stopping()

    @property
    def _most_steps(self) -> int:
        """A slice is shorter while other tenants wait for its slot."""
        settings = self._settings
        if not self._runner.leases.crowded(self._claim.spec.job_id):
            return settings.slice_steps
        return min(settings.slice_steps, settings.shared_slice_steps)

    def _caught_up(self, job: Job) -> SliceEnd | None:
        """Wait for what is on its way, before anything but a commit or a reading tool comes next.

        The loop has gone on from that commit. So a job that must stop goes back as it was
        committed; its next claim knows of the wish.
        """
        answer = self._commits.arrived()
        if answer is None or answer.verdict not in ("cancel", "halt"):
            return None if answer is None else self._answered(job, answer)
        self._note(job, answer)
        return self._release(Progress(answer.progress.run, "released"))

    def _note(self, job: Job, answer: Answered) -> None:
        if answer.verdict == "fenced":
            return
        self._watch.committed(answer.progress.kind, job.state, answer.ms)
        self._runner.solitude.leave(job.id)  # it makes progress: no suspect any more

    def _answered(self, job: Job, answer: Answered) -> SliceEnd | None:
        """How the slice ends by what the store answered to a commit."""
        verdict, kind = answer.verdict, answer.progress.kind
        self._note(job, answer)
        if verdict == "fenced":
            return Left("fenced")
        if verdict == "cancel":
            return self._hand_over(job)
        if verdict == "halt" and kind != UNINTERRUPTIBLE:
            return self._halt(job)
        if verdict == "mail" and kind != UNINTERRUPTIBLE:
            job.mail = patiently(lambda: self._runner.store.mail(job.id), self._settings.patience_s)
        return None

    def _hand_over(self, job: Job) -> SliceEnd:
        """Back to the queue; a cancel that is wanted takes effect in the same script."""
        messages, consumes = job.carry()
        return self._release(Progress(job.state.dump(), "released", {}, messages, consumes))

    def _release(self, progress: Progress) -> SliceEnd:
        settlement = Settlement(JobStatus.QUEUED, delay_ms=self._settings.hint_grace_ms)
        return self._close(progress, settlement)

    def _halt(self, job: Job) -> SliceEnd:
        """A person wants the job paused: it waits where it stands, its open calls unanswered."""
        wish = self._claim.halt
        if wish is None:
            view = patiently(lambda: self._runner.store.read(job.id), self._settings.patience_s)
            wish = view.pause_wanted or Wish()
        return self._settle(job, operator_pause(self._agent, job, wish))

    def _fail(self, reason: str, text: str) -> SliceEnd:
        """End a job whose loop cannot even begin; its stored run state stays as it is."""
        outcome = Outcome(ok=False, reason=reason, text=text)
        data = {"reason": reason, "text": text}
        progress = Progress(self._claim.run or RunState().dump(), "failed", data)
        return self._close(progress, ended(JobStatus.FAILED, outcome, self._settings))

    def _settle(self, job: Job, end: End) -> SliceEnd:
        channels = partial(self._runner.channels, self._agent, "paused")
        kind, data, settlement = settlement_of(end, self._settings, channels)
        progress = Progress(job.state.dump(), kind, data, end.messages, end.consumes_signal)
        return self._close(progress, settlement, end)

    @property
    def _children(self) -> tuple[str, ...]:
        return () if self._job is None else tuple(self._job.state.children)

    def _close(
        self, progress: Progress, settlement: Settlement, end: End | None = None
    ) -> SliceEnd:
        if self._job is not None:
            settlement = replace(settlement, steps=self._job.state.steps - self._first_step)
        start = self._runner.clock_ms()
        status = self._commits.settle(progress, settlement)
        spec = self._claim.spec
        if status is None:
            return Left("fenced")
        if self._job is not None:
            ms = self._runner.clock_ms() - start
            self._watch.committed(progress.kind, self._job.state, ms)
            self._count_bytes(self._job)
        if status is not settlement.status:
            return self._overtaken(status)
        if isinstance(settlement.payload, Outcome):
            return Ended(spec, status, settlement.payload, children=self._children)
        if isinstance(settlement.payload, Pause):
            return Suspended(spec, settlement.payload)
        if isinstance(end, Awaiting):
            return Awaited(spec, end.jobs)
        self._keep_messages(progress)
        if isinstance(end, Backoff):
            return Deferred(spec, end.seconds, end.text, end.attempt)
        return HandedOver(spec)

    def _keep_messages(self, progress: Progress) -> None:
        """The job may soon come back to this process; unless the loop was ahead of its commits."""
        job = self._job
        if job is not None and job.transcript.is_saved and progress.run == job.state.dump():
            mark = self._claim.mark(self._commits.seq, len(job.transcript.stored))
            self._runner.shelf.put(job.id, Kept(mark, job.transcript, job.state.stored))

    def _count_bytes(self, job: Job) -> None:
        """Count what the job stores to its tenant, if tenants have a quota."""
        try:
            self._runner.store.hold(job.spec, job.state.stored)
        except StoreUnavailable as error:
            log.warning("job %s: counted at its next slice: %s", job.id, error)

    def _overtaken(self, status: JobStatus) -> SliceEnd:
        """The job was cancelled; or the settlement's reply was lost, and the job has gone on."""
        spec = self._claim.spec
        outcome = self._runner.store.read(spec.job_id).outcome
        if outcome is None:
            return Left("moved_on", status)
        return Ended(spec, status, outcome, children=self._children)


class _StateLost(Exception):
    """The store has lost the transcript."""


def _perform(
    performer: Performer, work: Work, asked: Outside
) -> tuple[SliceEnd, None] | tuple[None, Outside]:
    """Do what blocks and commit what came of it, without a change of threads."""
    return pull(work, performer.perform(asked))


def _may_be_ahead(effect: Effect) -> bool:
    """Whether it may be done before the store has answered to the commit before it."""
    if isinstance(effect, CallTool):
        return effect.tool.only_reads
    return isinstance(effect, (CallTools, Commit))


def _load(claim: Claimed) -> Job:
    state = RunState.load(claim.run)
    transcript = claim.transcript or Transcript(claim.messages)
    if state.steps and not transcript.stored:
        raise _StateLost(
            f"{state.steps} replies were committed, and no message is there; "
            "check the server's maxmemory-policy (it must be noeviction)"
        )
    return Job(
        spec=claim.spec,
        transcript=transcript,
        state=state,
        attempt=claim.tries,
        pause=claim.pause,
        signal=claim.signal,
        mail=claim.mail,
        sizes=sizes(),
    )
