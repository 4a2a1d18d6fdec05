"""One claimed job, from claim to return of its lease: pull the loop's steps, commit each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from api_client.contract import JobStatus, Outcome, Pause, Wish
from api_client.errors import StoreUnavailable
from worker.agent import Agent
from worker.context import ActionContext
from worker.effects import Awaiting, Backoff, Commit, End, Failed, Finished, Paused
from worker.ends import Awaited, Deferred, Ended, HandedOver, Left, SliceEnd, Suspended
from worker.job import Job
from worker.loop import advance
from worker.messages import InvalidHistory, Transcript
from worker.models.base import StreamStopped
from worker.patience import patiently
from worker.pausing import operator_pause
from worker.performing import Outside, Performer
from worker.retry import backoff_s
from worker.state import RunState
from worker.store.base import Claimed, Progress, Settlement, Ticket
from worker.telemetry.binding import binding
from worker.telemetry.watch import SliceWatch

if TYPE_CHECKING:
    from worker.runner import Runner

log = logging.getLogger(__name__)

AWAITING = "awaiting"
"""The kind of commit with which a job begins to wait for sub-jobs; ``settle.lua`` knows it."""

AWAIT_POLL_MS = 30_000
"""When a job that waits for sub-jobs looks by itself, should nobody have woken it."""

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
        self._seq = claim.seq
        self._job: Job | None = None
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
                work = self._work()
                performer = self._performer(context)
                end, asked = _pull(work, None)
                while asked is not None:
                    end, asked = _pull(work, performer.perform(asked))
                assert end is not None
                return end
        except Exception as error:  # noqa: BLE001 - logged; the try counts
            return self._broken(error)

    async def arun(self, threads: Offload) -> SliceEnd:
        """The same on an event loop: a model call that can be awaited takes no thread."""
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
                end, asked = await threads.commit(_pull, work, None)
                while asked is not None:
                    waiting = performer.asynchronous(asked)
                    answer = await (waiting or threads.work(performer.perform, asked))
                    end, asked = await threads.commit(_pull, work, answer)
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
        first_step = job.state.steps
        answer: Any = None
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as stop:
                return self._settle(job, stop.value)
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

    def _ticket(self) -> Ticket:
        self._seq += 1
        return Ticket(self._claim.spec.job_id, self._claim.epoch, self._seq)

    def _commit(self, job: Job, effect: Commit, steps: int) -> SliceEnd | None:
        ticket = self._ticket()
        progress = Progress(
            job.state.dump(),
            effect.kind,
            effect.data,
            effect.messages,
            effect.consumes_signal,
            effect.heard,
        )
        start = self._runner.clock_ms()
        verdict = patiently(
            lambda: self._runner.store.commit(ticket, progress), self._settings.patience_s
        )
        if verdict == "fenced":
            return Left("fenced")
        self._watch.committed(effect.kind, job.state, self._runner.clock_ms() - start)
        self._runner.solitude.leave(job.id)  # it makes progress: no suspect any more
        if verdict == "cancel":
            return self._hand_over(job)
        if effect.kind == UNINTERRUPTIBLE:
            return None
        if verdict == "halt":
            return self._halt(job)
        if verdict == "mail":
            job.mail = patiently(lambda: self._runner.store.mail(job.id), self._settings.patience_s)
        if self._runner.stopping() or steps >= self._settings.slice_steps:
            return self._hand_over(job)
        return None

    def _hand_over(self, job: Job) -> SliceEnd:
        """Back to the queue; a cancel that is wanted takes effect in the same script."""
        settlement = Settlement(JobStatus.QUEUED, delay_ms=self._settings.hint_grace_ms)
        messages, consumes = job.carry()
        progress = Progress(job.state.dump(), "released", {}, messages, consumes)
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
        return self._close(progress, self._ended(JobStatus.FAILED, outcome))

    def _ended(self, status: JobStatus, outcome: Outcome) -> Settlement:
        return Settlement(status, outcome, self._settings.publish_grace_ms)

    def _settle(self, job: Job, end: End) -> SliceEnd:
        kind, data, settlement = self._settlement(end)
        progress = Progress(job.state.dump(), kind, data, end.messages, end.consumes_signal)
        return self._close(progress, settlement, end)

    def _settlement(self, end: End) -> tuple[str, dict[str, Any], Settlement]:
        match end:
            case Finished(value=value, data=data):
                outcome = Outcome(ok=True, value=value)
                return "finished", data, self._ended(JobStatus.SUCCEEDED, outcome)
            case Failed(reason=reason, text=text, data=data):
                outcome = Outcome(ok=False, reason=reason, text=text)
                data = {**data, "reason": reason, "text": text}
                return "failed", data, self._ended(JobStatus.FAILED, outcome)
            case Paused(pause=pause):
                data = {"pause": pause.id, "kind": pause.kind, "question": pause.question}
                channels = self._runner.channels(self._agent, "paused")
                return "paused", data, Settlement(JobStatus.PAUSED, pause, channels=channels)
            case Awaiting(jobs=jobs):
                waiting = Settlement(JobStatus.WAITING, delay_ms=AWAIT_POLL_MS)
                return AWAITING, {"jobs": list(jobs)}, waiting
            case Backoff(seconds=seconds, text=text, attempt=attempt):
                data = {"in_s": round(seconds, 3), "text": text, "attempt": attempt}
                delay = Settlement(JobStatus.WAITING, delay_ms=int(seconds * 1000))
                return "retry", data, delay

    @property
    def _children(self) -> tuple[str, ...]:
        return () if self._job is None else tuple(self._job.state.children)

    def _close(
        self, progress: Progress, settlement: Settlement, end: End | None = None
    ) -> SliceEnd:
        ticket = self._ticket()
        start = self._runner.clock_ms()
        status = patiently(
            lambda: self._runner.store.settle(ticket, progress, settlement),
            self._settings.patience_s,
        )
        spec = self._claim.spec
        if status is None:
            return Left("fenced")
        if self._job is not None:
            ms = self._runner.clock_ms() - start
            self._watch.committed(progress.kind, self._job.state, ms)
        if status is not settlement.status:
            return self._overtaken(status)
        if isinstance(settlement.payload, Outcome):
            return Ended(spec, status, settlement.payload, children=self._children)
        if isinstance(settlement.payload, Pause):
            return Suspended(spec, settlement.payload)
        if isinstance(end, Awaiting):
            return Awaited(spec, end.jobs)
        if isinstance(end, Backoff):
            return Deferred(spec, end.seconds, end.text, end.attempt)
        return HandedOver(spec)

    def _overtaken(self, status: JobStatus) -> SliceEnd:
        """The job was cancelled; or the settlement's reply was lost, and the job has gone on."""
        spec = self._claim.spec
        outcome = self._runner.store.read(spec.job_id).outcome
        if outcome is None:
            return Left("moved_on", status)
        return Ended(spec, status, outcome, children=self._children)


def _pull(
    work: Generator[Outside, Any, SliceEnd], answer: Any
) -> tuple[SliceEnd, None] | tuple[None, Outside]:
    """Send an answer; returns how the slice ended, or what it asks for next."""
    try:
        return None, work.send(answer)
    except StopIteration as stop:
        return stop.value, None


class _StateLost(Exception):
    """The store has lost the transcript."""


def _load(claim: Claimed) -> Job:
    state = RunState.load(claim.run)
    if state.steps and not claim.messages:
        raise _StateLost(
            f"{state.steps} replies were committed, and no message is there; "
            "check the server's maxmemory-policy (it must be noeviction)"
        )
    return Job(
        spec=claim.spec,
        transcript=Transcript(claim.messages),
        state=state,
        attempt=claim.tries,
        pause=claim.pause,
        signal=claim.signal,
        mail=claim.mail,
    )
