"""One slice of a job: claim it, pull the loop's steps, commit each, give the lease back.

Knows the store and the loop, and nothing of Celery: what follows from a slice's end (publishing,
hinting, events) is the caller's.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from api_client.contract import JobSpec, JobStatus, JobView, Outcome, Pause
from api_client.errors import StoreUnavailable
from worker.agent import Agent
from worker.context import ActionContext
from worker.effects import (
    Awaiting,
    Backoff,
    CallModel,
    CallTool,
    CallTools,
    Commit,
    End,
    Failed,
    Finished,
    ModelAnswer,
    Paused,
    StartJobs,
    SubJob,
    SubResult,
    ToolAnswer,
)
from worker.errors import PauseRequested
from worker.job import Job
from worker.leases import Leases
from worker.loop import advance
from worker.messages import InvalidHistory, Transcript
from worker.models.base import Model, ModelError
from worker.parallel import side_by_side
from worker.patience import patiently
from worker.state import RunState, Tokens
from worker.store.base import (
    CheckpointStore,
    Claimed,
    NotClaimed,
    Progress,
    Settlement,
    Ticket,
    ToPublish,
)

log = logging.getLogger(__name__)

AWAITING = "awaiting"
"""The kind of commit with which a job begins to wait for sub-jobs; ``settle.lua`` knows it."""

AWAIT_POLL_MS = 30_000
"""When a job that waits for sub-jobs looks by itself, should nobody have woken it."""

UNINTERRUPTIBLE = "started"
"""Behind this commit a ``once`` call must really begin: ending the slice would put it in doubt."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job has ended; the outcome is to be published.

    Attributes:
        again: perhaps it has been published before.
        children: sub-jobs that nobody waits for any more.
    """

    spec: JobSpec
    status: JobStatus
    outcome: Outcome
    again: bool = False
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job waits for a person."""

    spec: JobSpec
    pause: Pause


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The slice is over and the job is not: it wants a hint."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class Deferred:
    """The job waits for a model; the sweep hints it when the time has come."""

    spec: JobSpec
    seconds: float
    text: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Awaited:
    """The job waits for its sub-jobs; the last of them wakes it."""

    spec: JobSpec
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """Nothing was done, or nothing more may be done here: another runner has the job."""

    why: str
    detail: str = ""


SliceEnd = Ended | Suspended | HandedOver | Deferred | Awaited | Left


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What a runner goes by.

    Attributes:
        lease_ms: how long a claim holds without a renewal.
        max_attempts: starts without progress before a job is poison.
        slice_steps: model replies after which a job goes back to the queue.
        publish_grace_ms: time to publish an outcome before another worker may.
        hint_grace_ms: time a hint gets before a sweep sends another.
        patience_s: how long a commit is tried again while Redis is away.
    """

    lease_ms: int = 15_000
    max_attempts: int = 5
    slice_steps: int = 50
    publish_grace_ms: int = 10_000
    hint_grace_ms: int = 5_000
    patience_s: float = 60.0


@dataclass
class Runner:
    """Runs slices of jobs in this process; safe to use from several threads.

    Args:
        owner: ``node/boot/pid/`` of this process.
        stopping: whether jobs shall be handed over at their next commit.
        clock_ms: monotonic milliseconds, for measuring calls.
        default_model: for agents that name none.
        hint: tells the workers of a job; a sweep finds it later if this does nothing.
    """

    store: CheckpointStore
    agents: Mapping[str, Agent]
    owner: str
    leases: Leases
    clock_ms: Callable[[], int]
    default_model: Callable[[], Model]
    stopping: Callable[[], bool] = lambda: False
    hint: Callable[[JobSpec], object] = lambda _spec: None
    settings: RunnerSettings = field(default_factory=RunnerSettings)

    def run(self, job_id: str) -> SliceEnd:
        """Advance a job until it ends, pauses, waits, or has had its turn."""
        nonce = uuid.uuid4().hex
        claim = patiently(
            lambda: self.store.claim(
                job_id,
                owner=self.owner,
                nonce=nonce,
                lease_ms=self.settings.lease_ms,
                max_tries=self.settings.max_attempts,
            ),
            self.settings.patience_s,
        )
        match claim:
            case NotClaimed(why=why, detail=detail):
                return Left(why, detail)
            case ToPublish(spec=spec, status=status, outcome=outcome, children=children):
                return Ended(spec, status, outcome, again=True, children=children)
            case Claimed():
                with self.leases.hold(job_id, claim.epoch):
                    return _Slice(self, claim).run()


class _Slice:
    """One claimed job, from its claim to the return of its lease."""

    def __init__(self, runner: Runner, claim: Claimed) -> None:
        self._runner = runner
        self._settings = runner.settings
        self._claim = claim
        self._seq = claim.seq
        self._job: Job | None = None

    def run(self) -> SliceEnd:
        """Drive the loop; whatever goes wrong here leaves the job to the sweep."""
        try:
            return self._run()
        except StoreUnavailable as error:
            return Left("store_unavailable", str(error))
        except Exception:
            log.exception("job %s: this attempt broke off", self._claim.spec.job_id)
            self._let_go()
            return Left("broke_off")

    def _let_go(self) -> None:
        """Give the lease up without progress, so that the try counts."""
        try:
            self._runner.store.abandon(self._runner.owner, job_id=self._claim.spec.job_id)
        except StoreUnavailable as error:
            log.warning("job %s: lease runs out by itself: %s", self._claim.spec.job_id, error)

    def _run(self) -> SliceEnd:
        agent = self._runner.agents.get(self._claim.spec.agent)
        if agent is None:
            known = ", ".join(sorted(self._runner.agents))
            text = f"this worker has no agent {self._claim.spec.agent!r}, only: {known}"
            return self._fail("unknown_agent", text)
        try:
            job = self._job = _load(self._claim)
        except (InvalidHistory, _StateLost, ValueError) as error:
            return self._fail("state_lost", f"the stored state cannot be used: {error}")
        with agent.contexts.open(job.spec) as context:
            return self._drive(agent, job, context)

    def _drive(self, agent: Agent, job: Job, context: ActionContext | None) -> SliceEnd:
        steps = advance(agent, job)
        first_step = job.state.steps
        answer: Any = None
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as stop:
                return self._settle(job, stop.value)
            match effect:
                case CallModel(request=request, model=named):
                    model = named or agent.model or self._runner.default_model()
                    answer = self._timed(partial(_ask, model, request), ModelAnswer)
                case CallTool():
                    answer = self._tool_call(agent, effect, context)()
                case CallTools(calls=calls):
                    answer = side_by_side([self._tool_call(agent, c, context) for c in calls])
                case StartJobs(jobs=jobs):
                    answer = tuple(self._start(job.spec, sub) for sub in jobs)
                case Commit():
                    answer = None
                    end = self._commit(job, effect, job.state.steps - first_step)
                    if end is not None:
                        steps.close()
                        return end

    def _tool_call(
        self, agent: Agent, call: CallTool, context: ActionContext | None
    ) -> Callable[[], ToolAnswer]:
        return partial(self._timed, partial(_invoke, agent, call, context), ToolAnswer)

    def _start(self, parent: JobSpec, sub: SubJob) -> SubResult | None:
        """Start a sub-job unless it exists; its result if it has ended."""
        spec = JobSpec(
            job_id=sub.job_id,
            agent=sub.agent,
            input=sub.input,
            metadata=parent.metadata,
            tenant=parent.tenant,
            labels=parent.labels,
            retention_s=parent.retention_s,
            parent=parent.job_id,
            caps=sub.caps,
        )
        store, patience = self._runner.store, self._settings.patience_s
        if patiently(lambda: store.create(spec), patience).new:
            self._runner.hint(spec)
        view = patiently(lambda: store.read(sub.job_id), patience)
        return None if view.outcome is None else _result_of(view.outcome, view)

    def _timed(self, action: Callable[[], Any], wrap: Callable[[Any, int], Any]) -> Any:
        start = self._runner.clock_ms()
        result = action()
        return wrap(result, self._runner.clock_ms() - start)

    # --- writing ---------------------------------------------------------------------------

    def _ticket(self) -> Ticket:
        self._seq += 1
        return Ticket(self._claim.spec.job_id, self._claim.epoch, self._seq)

    def _commit(self, job: Job, effect: Commit, steps: int) -> SliceEnd | None:
        ticket = self._ticket()
        progress = Progress(
            job.state.dump(), effect.kind, effect.data, effect.messages, effect.consumes_signal
        )
        verdict = patiently(
            lambda: self._runner.store.commit(ticket, progress), self._settings.patience_s
        )
        if verdict == "fenced":
            return Left("fenced")
        if verdict == "cancel":
            return self._hand_over(job)
        if effect.kind == UNINTERRUPTIBLE:
            return None
        if self._runner.stopping() or steps >= self._settings.slice_steps:
            return self._hand_over(job)
        return None

    def _hand_over(self, job: Job) -> SliceEnd:
        """Back to the queue; a cancel that is wanted takes effect in the same script."""
        settlement = Settlement(JobStatus.QUEUED, delay_ms=self._settings.hint_grace_ms)
        return self._close(Progress(job.state.dump(), "released"), settlement)

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
                return "paused", data, Settlement(JobStatus.PAUSED, pause)
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
        status = patiently(
            lambda: self._runner.store.settle(ticket, progress, settlement),
            self._settings.patience_s,
        )
        spec = self._claim.spec
        if status is None:
            return Left("fenced")
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


def _result_of(outcome: Outcome, view: JobView) -> SubResult:
    usage = view.usage
    tokens = Tokens(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens,
        usage.estimated,
        round((usage.cost or 0) * 1e6),
    )
    return SubResult(outcome, tokens, view.active_ms)


class _StateLost(Exception):
    """The store holds fewer messages than were committed."""


def _load(claim: Claimed) -> Job:
    state = RunState.load(claim.run)
    if len(claim.messages) != state.count:
        raise _StateLost(
            f"{state.count} messages were committed, {len(claim.messages)} are there; "
            "check the server's maxmemory-policy (it must be noeviction)"
        )
    return Job(
        spec=claim.spec,
        transcript=Transcript(claim.messages),
        state=state,
        attempt=claim.tries,
        pause=claim.pause,
        signal=claim.signal,
    )


def _ask(model: Model, request: Any) -> Any:
    """The model's reply, or its error as a value. A model's own bug waits for a person."""
    try:
        return model.reply(request)
    except ModelError as error:
        return error
    except Exception as error:
        log.exception("model %s raised something that is no ModelError", model.name)
        return ModelError(f"the model adapter raised {type(error).__name__}", "pause")


def _invoke(agent: Agent, call: CallTool, context: ActionContext | None) -> Any:
    try:
        return call.tool.invoke(
            call.arguments,
            context,
            call.info,
            texts=agent.texts,
            max_observation=agent.max_observation,
        )
    except PauseRequested as wish:
        return wish
