"""What all requests share."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from api_client import AgentClient
from api_client.admin import AdminStore
from api_client.connection import Client, connect, describe, translated
from api_client.keys import Keys, partition_of
from worker.flow.base import Limit
from worker.flow.redis import RedisLedger
from worker.flow.settings import FlowSettings
from worker.flow.standing import Standing, standings
from worker.web.callers import Caller
from worker.web.desk import Desk
from worker.web.keys import KeyRing
from worker.web.limits import RateLimit
from worker.web.settings import WebSettings
from worker.web.tail import Tail


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one server.

    Attributes:
        ledger: of the calls of models.
        model_limits: those of the settings, which are the workers' own.
        redis: for short commands; its connections are shared.
        secret: signs sessions.
    """

    settings: WebSettings
    client: AgentClient
    store: AdminStore
    ring: KeyRing
    limit: RateLimit
    tail: Tail
    ledger: RedisLedger
    model_limits: Mapping[str, Limit]
    redis: Client
    where: str
    partitions: int
    secret: bytes

    @classmethod
    def open(
        cls, url: str, settings: WebSettings, *, broker_url: str | None = None, partitions: int = 1
    ) -> Self:
        """Parts on one store; opens no connection yet.

        Raises:
            InvalidInput: the URL, or a setting of limits, has another form.
        """
        shared = FlowSettings.from_env()
        where = describe(url)
        redis = connect(url)
        store = AdminStore(redis, partitions=partitions, where=where)
        given = settings.secret.get_secret_value().encode()
        return cls(
            settings=settings,
            client=AgentClient(url, broker_url=broker_url, store=store),
            store=store,
            ring=KeyRing(redis, where),
            limit=RateLimit(redis, settings.rate_per_s, settings.rate_burst, where=where),
            tail=Tail(redis, where),
            ledger=RedisLedger(redis, where=where, minute_ms=int(shared.limits_minute_s * 1000)),
            model_limits=shared.model_limits,
            redis=redis,
            where=where,
            partitions=partitions,
            secret=given or secrets.token_bytes(32),
        )

    def desk(self, caller: Caller) -> Desk:
        """Jobs as this caller may see them."""
        return Desk(self.client, self.store, caller, self.models)

    def models(self) -> list[Standing]:
        """The models that have a limit, and how much of it is used.

        Raises:
            StoreUnavailable
        """
        return standings(self.ledger, self.model_limits)

    def trace_key(self, job_id: str) -> str:
        """The Redis stream that holds a job's trace."""
        return Keys(partition_of(job_id, self.partitions)).trace(job_id)

    def live_key(self, job_id: str) -> str:
        """The Redis stream that holds what a job's model says."""
        return Keys(partition_of(job_id, self.partitions)).live(job_id)

    @property
    def event_keys(self) -> list[str]:
        """The Redis streams of what happens to all jobs."""
        return [Keys(number).events for number in range(self.partitions)]

    def ping(self) -> None:
        """Make sure that the store answers.

        Raises:
            StoreUnavailable
        """
        with translated(self.where):
            self.redis.ping()

    def close(self) -> None:
        """Let go of everybody who follows a stream, and of the connections."""
        self.tail.close()
        self.redis.close()
