"""What services and workers agree on: plain values, no behaviour.

Readers ignore fields they do not know, so that an old client outlives a new worker. Every stored
shape carries ``SCHEMA_VERSION``; a reader that meets a higher one refuses loudly.
Times are milliseconds since the epoch on Redis's clock, unless a name says otherwise.
"""

from __future__ import annotations

import re
import uuid
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue, field_validator

from api_client.pauses import Appointment as Appointment
from api_client.pauses import Pause as Pause
from api_client.pauses import PauseKind as PauseKind
from api_client.pauses import ProposedAction as ProposedAction
from api_client.shapes import Contract as Contract
from api_client.signals import SIGNAL as SIGNAL
from api_client.signals import Answer as Answer
from api_client.signals import AnsweredPause as AnsweredPause
from api_client.signals import Approve as Approve
from api_client.signals import CallDecision as CallDecision
from api_client.signals import Cancel as Cancel
from api_client.signals import Decide as Decide
from api_client.signals import DidNotHappen as DidNotHappen
from api_client.signals import Edit as Edit
from api_client.signals import Extend as Extend
from api_client.signals import Fail as Fail
from api_client.signals import Finish as Finish
from api_client.signals import Happened as Happened
from api_client.signals import Mail as Mail
from api_client.signals import Reject as Reject
from api_client.signals import Retry as Retry
from api_client.signals import Signal as Signal
from api_client.signals import Wish as Wish

SCHEMA_VERSION = 2

TASK_PREFIX = "agent."
SIGNAL_TASK = "stepkeeper.signal"
CANCEL_TASK = "stepkeeper.cancel"

JOB_ID_PATTERN = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
AGENT_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")

DEFAULT_RETENTION_S = 30 * 24 * 3600
MAX_TENANT_CHARACTERS = 200

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


class JobSpec(Contract):
    """What was asked for. Written once, never changed."""

    job_id: str
    agent: str
    input: JsonValue
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    tenant: str = ""
    labels: tuple[str, ...] = ()
    retention_s: int = Field(default=DEFAULT_RETENTION_S, ge=1)
    start_within_ms: int | None = Field(default=None, ge=0)
    """A job that no worker has begun so long after its submission is cancelled."""
    parent: str = ""
    """The job that started this one as a sub-job."""
    caps: dict[str, float] = Field(default_factory=dict)
    """What it may spend at most, by budget, whatever its agent allows."""
    keys_of: str = ""
    """The job whose idempotency keys this one's calls have, if not its own: released from
    quarantine, it goes on with the calls of that job."""
    priority: Literal["", "high", "normal", "low"] = ""
    """Which of its tenant's jobs go first, and which messages; see ``api_client.tenants``."""
    model: str = ""
    """Name of the model to ask in place of the one that the agent names."""
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
    granted: dict[str, float] = Field(default_factory=dict)
    """What people have added to a budget, by its name."""
    worker: str | None = None
    due: int | None = None
    children: tuple[str, ...] = ()
    pause: Pause | None = None
    answered: AnsweredPause | None = None
    outcome: Outcome | None = None
    cancel_requested: bool = False
    pause_wanted: Wish | None = None
    """A person wants it paused; it is, at its next commit."""
    unheard: int = 0
    """Messages of people that the model has not been shown."""
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
    limits: dict[str, float] = Field(default_factory=dict)
    """What one job may spend, by budget: ``steps``, ``tokens``, ``cost``, ``active_s``."""
    release: str = ""
    """Version of Stepkeeper in the worker that has announced it."""


class JobEvent(Contract):
    """Something that happened to one of all jobs.

    Attributes:
        cursor: of this event; following goes on behind it.
        event: ``paused``, ``resumed``, ``reminder``, ``escalated``, ``finished``, ``failed`` or
            ``cancelled``.
        data: which pause, by whom, why.
    """

    cursor: str
    job_id: str
    event: str
    at: int
    agent: str = ""
    data: dict[str, JsonValue] = Field(default_factory=dict)


class Delivery(Contract):
    """One announcement on its way to somebody outside.

    Attributes:
        id: the same at every attempt; receivers may see it more than once.
        channel: ``webhook`` or ``task``.
        event: as in ``JobEvent``.
        state: ``pending``, ``delivered``, or ``given_up`` after the last attempt.
        tries: attempts begun.
        error: why the last attempt failed.
        at: when it happened; ``due``: the next attempt.
    """

    id: str
    job_id: str
    channel: str
    event: str
    state: Literal["pending", "delivered", "given_up"] = "pending"
    tries: int = 0
    error: str = ""
    at: int = 0
    due: int | None = None
