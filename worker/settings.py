"""A worker's settings: read once from the environment, passed down.

Each field is the environment variable ``STEPKEEPER_`` plus its name in capitals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from api_client.connection import DEFAULT_URL
from api_client.contract import DEFAULT_RETENTION_S
from api_client.protection import Protection
from api_client.sizes import Sizes
from worker.flow.settings import FlowSettings
from worker.redact import Redactor
from worker.runner import RunnerSettings

_REDACTOR = Redactor()


class Settings(Sizes, Protection, FlowSettings):
    """Everything a worker can be told from outside; further fields stand in the bases.

    Attributes:
        redis_url: the store.
        broker_url: Celery's broker; the store's Redis if empty.
        result_backend: Celery's result backend; the store's Redis if empty.
        agents: import paths, comma separated: ``package.module`` for every agent in it, or
            ``package.module:name`` for one agent or a list of them.
        partitions: over which the store is spread; the same for every program.
        lease_s: seconds after which a job of a dead worker is taken over; at least 1.
        sweep_s: seconds between two sweeps.
        max_attempts: starts without progress before a job is quarantined as poison.
        slice_steps: model replies after which a job goes back to the queue.
        shared_slice_steps: the same while jobs of other tenants wait for the slot.
        hint_grace_s: seconds a hint gets before a sweep sends another; doubles with each. While
            messages wait in the job's queue, the third is sent, and then one every hint_cap_s.
        hint_cap_s: the longest such time.
        publish_grace_s: seconds a worker has to publish an outcome before another may.
        patience_s: seconds a commit is tried again while Redis is away.
        retention_s: seconds to keep a job after its end, if its submitter does not say.
        shutdown_grace_s: seconds that calls in flight get after the first SIGTERM.
        stall_s: seconds of not taking waiting messages after which a worker restarts itself.
        wait_replicas: replicas that must hold a job before it counts as accepted (``WAIT``).
        wait_timeout_s: how long to wait for them.
        concurrency: Celery slots of one worker process; without ``in_flight``, jobs at once.
        in_flight: jobs at once on an event loop beside the slots (threads pool only); for
            thousands of jobs that wait for models. 0: none, a slot runs its job itself.
        log_format: of a worker that runs nothing but agents: ``console`` or ``json``.
        metrics_port: where Prometheus finds this worker's metrics; none are kept if not given.
            0 takes a free port, and the log says which.
        metrics_host: the address of that port; its readers need no password.
        webhook_url: where pauses and ends of jobs are announced (``worker.announce``).
        webhook_secret: with which what is sent there is signed.
        webhook_timeout_s: bound on connecting and on waiting for an answer.
        webhook_attempts: before an announcement is given up, on every channel.
        watch_only: this program looks, and gives no commands: it asks workers through a mailbox
            that takes none (``worker.watching``). For ``doctor``, ``top`` and Flower.
        otel: make OpenTelemetry spans; where they go stands in ``OTEL_…``.
        otel_content: record messages, arguments and results in them.
    """

    model_config = SettingsConfigDict(env_prefix="STEPKEEPER_", frozen=True, extra="ignore")

    redis_url: str = DEFAULT_URL
    broker_url: str = ""
    result_backend: str = ""
    agents: Annotated[tuple[str, ...], NoDecode] = ()
    partitions: int = Field(default=1, ge=1, le=4096)
    lease_s: float = Field(default=15.0, ge=1.0, le=3600)
    sweep_s: float = Field(default=1.0, ge=0.05, le=60)
    max_attempts: int = Field(default=5, ge=1)
    slice_steps: int = Field(default=50, ge=1)
    shared_slice_steps: int = Field(default=5, ge=1)
    hint_grace_s: float = Field(default=5.0, gt=0)
    hint_cap_s: float = Field(default=300.0, gt=0)
    publish_grace_s: float = Field(default=10.0, gt=0)
    patience_s: float = Field(default=60.0, gt=0)
    retention_s: int = Field(default=DEFAULT_RETENTION_S, ge=1)
    shutdown_grace_s: float = Field(default=25.0, gt=0)
    stall_s: float = Field(default=60.0, gt=0)
    wait_replicas: int = Field(default=0, ge=0)
    wait_timeout_s: float = Field(default=2.0, gt=0)
    concurrency: int = Field(default=16, ge=1)
    in_flight: int = Field(default=0, ge=0)
    log_format: Literal["console", "json"] = "console"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    metrics_host: str = "127.0.0.1"
    webhook_url: str = ""
    webhook_secret: SecretStr = SecretStr("")
    webhook_timeout_s: float = Field(default=10.0, gt=0, le=300)
    webhook_attempts: int = Field(default=15, ge=1)
    watch_only: bool = False
    otel: bool = False
    otel_content: bool = False

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Without the passwords in URLs."""
        for name, value in super().__repr_args__():
            yield name, _REDACTOR.text(value) if isinstance(value, str) else value

    @field_validator("agents", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @property
    def runner(self) -> RunnerSettings:
        """The part that the runner goes by."""
        return RunnerSettings(
            lease_ms=int(self.lease_s * 1000),
            max_attempts=self.max_attempts,
            slice_steps=self.slice_steps,
            shared_slice_steps=self.shared_slice_steps,
            publish_grace_ms=int(self.publish_grace_s * 1000),
            hint_grace_ms=int(self.hint_grace_s * 1000),
            patience_s=self.patience_s,
        )
