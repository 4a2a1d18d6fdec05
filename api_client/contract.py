"""What services and workers agree on: plain values, no behaviour.

Readers ignore fields they do not know, so that an old client outlives a new worker. Every stored
shape carries ``SCHEMA_VERSION``; a reader that meets a higher one refuses loudly.
Times are milliseconds since the epoch on Redis's clock, unless a name says otherwise.
"""

from __future__ import annotations

import re
import uuid
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, field_validator

SCHEMA_VERSION = 1

TASK_PREFIX = "agent."
SIGNAL_TASK = "stepkeeper.signal"
CANCEL_TASK = "stepkeeper.cancel"

JOB_ID_PATTERN = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
AGENT_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")

DEFAULT_RETENTION_S = 30 * 24 * 3600
MAX_INPUT_CHARACTERS = 1_000_000
MAX_SIGNAL_CHARACTERS = 200_000

_SUB_JOB_NAMESPACE = uuid.UUID("0b0e3d53-1df2-5d1c-8f0b-6a6c7a1f6f0e")
_IDEMPOTENCY_NAMESPACE = uuid.UUID("6f2f6c5e-4c43-5a61-9e0b-6f7a0d2b9a57")


def task_name(agent: str) -> str:
    """The Celery task name of an agent: ``"shop"`` gives ``"agent.shop"``."""
    return TASK_PREFIX + agent


def job_id_for_key(tenant: str, idempotency_key: str) -> str:
    """The job id that belongs to a caller's idempotency key.

    A name-based UUID (RFC 9562, version 5) over tenant and key: the same key always names the same
    job, so the store needs no second index to find it, and tenants never meet.
    """
    return str(uuid.uuid5(_IDEMPOTENCY_NAMESPACE, f"{len(tenant)}:{tenant}:{idempotency_key}"))


def sub_job_id(parent: str, call_id: str) -> str:
    """The id of the job that a call of another agent starts: always the same, so it starts once.

    A name-based UUID (RFC 9562, version 5) over the parent's id and the call's.
    """
    return str(uuid.uuid5(_SUB_JOB_NAMESPACE, f"{len(parent)}:{parent}:{call_id}"))


class JobStatus(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # backing off after a model error, until its due time
    PAUSED = "paused"  # waits for a person
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the job will never run again."""
        return self in _ENDED


_ENDED = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})


class Contract(BaseModel):
    """Base of every shared value: frozen, strict about types, deaf to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class JobSpec(Contract):
    """What was asked for. Written once, never changed."""

    job_id: str
    agent: str
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    tenant: str = ""
    labels: tuple[str, ...] = ()
    retention_s: int = Field(default=DEFAULT_RETENTION_S, ge=1)
    parent: str = ""
    """The job that started this one as a sub-job."""
    caps: dict[str, float] = Field(default_factory=dict)
    """What it may spend at most, by budget, whatever its agent allows."""
    message: dict[str, JsonValue] = Field(default_factory=dict)
    """Celery options of the first message (links, chain, chord, queue …), used for each hint."""

    @field_validator("job_id")
    @classmethod
    def _job_id_form(cls, value: str) -> str:
        if not JOB_ID_PATTERN.fullmatch(value):
            raise ValueError("a job id has 1 to 128 of the characters A-Z a-z 0-9 _ . : @ -")
        return value

    @field_validator("agent")
    @classmethod
    def _agent_form(cls, value: str) -> str:
        if not AGENT_NAME_PATTERN.fullmatch(value):
            raise ValueError("an agent name has 1 to 64 of the characters A-Z a-z 0-9 _ -")
        return value

    @field_validator("input")
    @classmethod
    def _input_given(cls, value: JsonValue) -> JsonValue:
        if value is None:
            raise ValueError("the input is missing; give the task as a text or another JSON value")
        return value


class Usage(Contract):
    """Tokens and money of a job so far. ``cost`` is in units of the price table's currency."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    cost: float | None = None

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.prompt_tokens + self.completion_tokens


class PauseKind(StrEnum):
    """Why a job waits for a person."""

    HAND_TO_HUMAN = "hand_to_human"
    APPROVAL = "approval"
    BUDGET = "budget"
    REPEATED_ACTION = "repeated_action"
    MODEL_ERROR = "model_error"
    UNKNOWN_OUTCOME = "unknown_outcome"
    VERSION_CHANGE = "version_change"
    OPERATOR = "operator"


class ProposedAction(Contract):
    """A tool call that a pause is about."""

    call_id: str
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class Pause(Contract):
    """A wait record: what a person is asked, and which signals it takes."""

    id: str
    kind: PauseKind
    question: str
    accepts: tuple[str, ...]
    action: ProposedAction | None = None
    answer_schema: dict[str, JsonValue] | None = None
    details: dict[str, JsonValue] = Field(default_factory=dict)
    step: int = 0
    created: int = 0
    deadline: int | None = None


class _Decision(Contract):
    """Who decided, and why. Both go into the trace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str = Field(default="", max_length=200)
    note: str = Field(default="", max_length=10_000)


class Answer(_Decision):
    """The answer to a question; the model reads it as the observation of its call."""

    kind: Literal["answer"] = "answer"
    value: JsonValue

    @field_validator("value")
    @classmethod
    def _not_empty(cls, value: JsonValue) -> JsonValue:
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError("the answer is empty")
        return value


class Approve(_Decision):
    """Run the proposed action, with ``arguments`` in place of the model's if they are given."""

    kind: Literal["approve"] = "approve"
    arguments: dict[str, JsonValue] | None = None


class Reject(_Decision):
    """Do not run the proposed action; the model reads ``reason``."""

    kind: Literal["reject"] = "reject"
    reason: str = Field(min_length=1, max_length=10_000)


class Extend(_Decision):
    """Raise the spent budget by ``amount`` in its own unit (steps, tokens, money, seconds)."""

    kind: Literal["extend"] = "extend"
    amount: float = Field(gt=0, le=1e12, allow_inf_nan=False)


class Finish(_Decision):
    """End the job with this answer."""

    kind: Literal["finish"] = "finish"
    answer: JsonValue


class Retry(_Decision):
    """Go on as if the pause had not happened; what failed is tried again."""

    kind: Literal["retry"] = "retry"


class Happened(_Decision):
    """The call in doubt did take effect; ``result`` is what the model reads of it."""

    kind: Literal["happened"] = "happened"
    result: JsonValue = "done"


class DidNotHappen(_Decision):
    """The call in doubt took no effect; it is run now."""

    kind: Literal["did_not_happen"] = "did_not_happen"


Signal = Annotated[
    Answer | Approve | Reject | Extend | Finish | Retry | Happened | DidNotHappen,
    Field(discriminator="kind"),
]
SIGNAL: TypeAdapter[Signal] = TypeAdapter(Signal)


class AnsweredPause(Contract):
    """Which signal closed a pause."""

    pause_id: str
    by: str = ""
    kind: str = ""
    at: int = 0


class Outcome(Contract):
    """How a job ended."""

    ok: bool
    value: JsonValue = None
    reason: str = ""
    text: str = ""


class Event(Contract):
    """One record of a job's trace. ``at`` comes from ``id``, a Redis stream id."""

    id: str
    kind: str
    data: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def at(self) -> int:
        """Milliseconds since the epoch."""
        return int(self.id.partition("-")[0])


class JobView(Contract):
    """A job as a service sees it; the transcript is read separately."""

    spec: JobSpec
    status: JobStatus
    created: int
    epoch: int = 0
    tries: int = 0
    steps: int = 0
    usage: Usage = Field(default_factory=Usage)
    active_ms: int = 0
    worker: str | None = None
    due: int | None = None
    children: tuple[str, ...] = ()
    pause: Pause | None = None
    answered: AnsweredPause | None = None
    outcome: Outcome | None = None
    cancel_requested: bool = False
    published: bool = False

    @property
    def job_id(self) -> str:
        """The job's id, which is its Celery task id."""
        return self.spec.job_id


class AgentInfo(Contract):
    """What workers have announced of an agent."""

    name: str
    version: str = ""
    description: str = ""
    queue: str = ""
    seen: int = 0
