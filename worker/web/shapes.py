"""Requests and answers of the API. Times are milliseconds since the epoch, on Redis's clock."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from api_client.backlogs import MOST, Backlog, Kind
from api_client.contract import (
    AgentInfo,
    AnsweredPause,
    Appointment,
    JobStatus,
    JobView,
    Outcome,
    PauseKind,
    ProposedAction,
    Signal,
    Usage,
)
from api_client.lists import JobPage
from api_client.tenants import Tenant, TenantPolicy
from worker.web.desk import Held

JOB_ID = "6f1c0b9e-3b8f-4c39-9d0e-0d6d5a1f2c11"
_TEN_YEARS_S = 10 * 366 * 86_400

Label = Annotated[str, Field(min_length=1, max_length=100)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SubmitRequest(_Request):
    """A job to accept."""

    agent: str = Field(
        description="One that workers have announced.", pattern="^[A-Za-z0-9_-]{1,64}$"
    )
    input: JsonValue = Field(description="The task: a text or another JSON value, not null.")
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="For the agent's context; the model does not see it."
    )
    labels: list[Label] = Field(
        default_factory=list, max_length=50, description="Who may answer its pauses; none: anybody."
    )
    tenant: str = Field(default="", max_length=100)
    retention_s: int | None = Field(
        default=None, ge=1, le=_TEN_YEARS_S, description="Seconds to keep it after its end."
    )
    delay_s: float = Field(
        default=0.0, ge=0, le=_TEN_YEARS_S, description="Seconds before which it must not start."
    )
    priority: Annotated[int, Field(ge=0, le=255)] | Literal["high", "normal", "low"] | None = Field(
        default=None, description="A class; or a number, of the Celery message alone."
    )


class Submitted(BaseModel):
    """A job that was accepted: it is stored, and will be run."""

    job_id: str
    url: str = Field(description="Where to ask for it; the same as the header Location.")


class PauseShape(BaseModel):
    """What the job asks a person."""

    model_config = ConfigDict(title="Pause", from_attributes=True)

    id: str
    kind: PauseKind
    question: str
    accepts: tuple[str, ...] = Field(description="Kinds of signals that it takes.")
    action: ProposedAction | None = Field(default=None, description="What is to be approved.")
    actions: tuple[ProposedAction, ...] = Field(default=(), description="All, if several are.")
    details: dict[str, JsonValue]
    step: int
    labels: tuple[str, ...] = Field(default=(), description="Who may answer; none: anybody.")
    created: int
    deadline: int | None = Field(
        default=None, description="When something happens though nobody has answered."
    )
    timetable: tuple[Appointment, ...] = Field(default=(), description="What that is.")
    answer_schema: dict[str, dict[str, Any]] = Field(
        description="The JSON schema of each kind of signal that it takes."
    )


class Job(BaseModel):
    """Where a job stands."""

    job_id: str
    agent: str
    status: JobStatus
    input: JsonValue
    tenant: str
    labels: tuple[str, ...]
    parent: str = Field(description="The job that started this one as a sub-job, or nothing.")
    children: tuple[str, ...]
    created: int
    due: int | None = Field(default=None, description="When a waiting job goes on by itself.")
    steps: int
    usage: Usage
    active_ms: int = Field(description="Time in model and tool calls.")
    granted: dict[str, float] = Field(description="What people have added to a budget.")
    worker: str | None = Field(default=None, description="The worker that runs it.")
    tries: int = Field(description="Starts without progress.")
    pause: PauseShape | None = None
    answered: AnsweredPause | None = Field(
        default=None, description="The last pause that was answered."
    )
    outcome: Outcome | None = Field(default=None, description="How it ended.")
    cancel_requested: bool

    @classmethod
    def of(cls, view: JobView) -> Self:
        """A view without what is between services and workers only."""
        pause = view.pause and PauseShape.model_validate(view.pause)
        spec = view.spec
        return cls(
            job_id=spec.job_id,
            agent=spec.agent,
            status=view.status,
            input=spec.input,
            tenant=spec.tenant,
            labels=spec.labels,
            parent=spec.parent,
            children=view.children,
            created=view.created,
            due=view.due,
            steps=view.steps,
            usage=view.usage,
            active_ms=view.active_ms,
            granted=view.granted,
            worker=view.worker and view.worker.partition("/")[0],
            tries=view.tries,
            pause=pause,
            answered=view.answered,
            outcome=view.outcome,
            cancel_requested=view.cancel_requested,
        )


class UnreadableJob(BaseModel):
    """A job whose record was written by hand or by a newer version."""

    model_config = ConfigDict(from_attributes=True)

    job_id: str
    reason: str


class JobList(BaseModel):
    """Some jobs of a list."""

    jobs: list[Job]
    next: str = Field(description="The cursor of the next page; empty at the end.")
    total: int = Field(description="How many there are at most; exact for a single condition.")
    unreadable: list[UnreadableJob] = Field(
        default_factory=list, description="Jobs of this page that cannot be shown."
    )

    @classmethod
    def of(cls, page: JobPage) -> Self:
        """A page without what is between services and workers only."""
        return cls(
            jobs=[Job.of(view) for view in page],
            next=page.next_cursor,
            total=page.total,
            unreadable=[UnreadableJob.model_validate(one) for one in page.unreadable],
        )


class Result(BaseModel):
    """How a job ended; with status 202 it has not ended, and ``outcome`` is null."""

    job_id: str
    status: JobStatus
    outcome: Outcome | None = None


class Messages(BaseModel):
    """The transcript, in the OpenAI chat format."""

    job_id: str
    start: int
    messages: list[dict[str, Any]]


class Accepted(BaseModel):
    """A decision that was the first one."""

    job_id: str
    pause_id: str
    kind: str
    by: str = Field(description="The name under which it stands in the trace.")


class WishRequest(_Request):
    """Who wants something of a job, and why."""

    by: str = Field(default="", max_length=200)
    note: str = Field(default="", max_length=10_000)


class Wanted(_Request):
    """Which of the paused jobs; what is not given does not matter."""

    agent: str | None = Field(default=None, max_length=64)
    label: str | None = Field(default=None, max_length=100)
    kind: PauseKind | None = None
    tenant: str | None = Field(default=None, max_length=100)
    older_than_s: float | None = Field(default=None, ge=0, le=1e9)


class ManyRequest(_Request):
    """One decision about many pauses."""

    filter: Wanted
    signal: Signal
    dry_run: bool = Field(default=True, description="Only say which jobs would take it.")
    limit: int = Field(default=100, ge=1, le=1000, description="The longest waiting first.")


class ManyLine(BaseModel):
    """What became of one job of many."""

    model_config = ConfigDict(from_attributes=True)

    job_id: str
    pause_id: str
    done: bool = Field(description="It was accepted; in a dry run: it would be.")
    error: str = Field(description="Why not.")


class ManyAnswer(BaseModel):
    """What became of one decision about many pauses."""

    dry_run: bool
    done: int
    refused: int
    more: bool = Field(description="There are more jobs than were looked at.")
    jobs: list[ManyLine]


class MessageRequest(_Request):
    """Something that a person tells a job."""

    text: str = Field(min_length=1, max_length=100_000, description="The model reads it.")
    by: str = Field(default="", max_length=200)
    note: str = Field(default="", max_length=10_000)


class Heard(BaseModel):
    """What a person wants of a job was noted."""

    job_id: str
    by: str


class CancelAnswer(BaseModel):
    """What became of a wish to cancel."""

    job_id: str
    status: JobStatus
    pending: bool = Field(description="A worker is in a call, and ends the job after it.")


class Released(BaseModel):
    """A poison job that goes on under a new id."""

    job_id: str
    released_from: str
    url: str


class PolicyRequest(_Request):
    """What a tenant may have; what is left out has no limit."""

    weight: float = Field(
        default=1.0, ge=0.001, le=1000, description="Its share, against the weights of others."
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=10**6, description="Jobs that may run at once, over all workers."
    )
    backlog: int | None = Field(
        default=None, ge=1, le=10**9, description="Jobs that may wait to run."
    )


class TenantAnswer(BaseModel):
    """A tenant's policy."""

    name: str
    policy: TenantPolicy


class Tenants(BaseModel):
    """Tenants as they stand, and the policies of `*` and of the whole store (an empty name)."""

    tenants: list[Tenant]
    policies: dict[str, TenantPolicy]


class CapRequest(_Request):
    """How many jobs may wait to run."""

    cap: int = Field(ge=0, le=MOST, description="0: no limit, whatever else is said.")


class CapAnswer(BaseModel):
    """Whose cap it is, and how high."""

    kind: Kind
    name: str
    cap: int


class Backlogs(BaseModel):
    """What waits for agents and queues."""

    backlogs: list[Backlog]


class Agents(BaseModel):
    """The agents that workers have announced."""

    agents: list[AgentInfo]


class RunningJob(BaseModel):
    """A job in the hands of a worker."""

    job_id: str
    agent: str
    steps: int
    tries: int


class WorkerShape(BaseModel):
    """A worker that is alive, or holds jobs."""

    model_config = ConfigDict(title="Worker")

    name: str
    pool: str = ""
    slots: int = Field(default=0, description="Tasks that it runs at once.")
    in_flight: int = Field(default=0, description="Jobs on its event loop; 0: it has none.")
    queues: tuple[str, ...] = ()
    agents: tuple[str, ...] = Field(default=(), description="Each with its version.")
    release: str = Field(default="", description="Version of Stepkeeper.")
    started: int = 0
    seen: int = Field(default=0, description="Its last heartbeat; 0: it gives no sign of life.")
    jobs: list[RunningJob]

    @classmethod
    def of(cls, held: Held) -> Self:
        """A worker with its jobs."""
        jobs = [
            RunningJob(job_id=v.job_id, agent=v.spec.agent, steps=v.steps, tries=v.tries)
            for v in held.jobs
        ]
        return cls(**held.info.model_dump(), jobs=jobs)


class Workers(BaseModel):
    """The workers, and how many jobs are in each status."""

    workers: list[WorkerShape]
    counts: dict[str, int]


class Health(BaseModel):
    """The server runs and reaches its store."""

    status: str = "ok"
