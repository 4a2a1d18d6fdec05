"""The parts of flow control, put together by a worker's settings."""

from __future__ import annotations

from functools import partial

from api_client.connection import Client, describe
from worker.flow.book import LimitBook, Tick
from worker.flow.gate import Gate
from worker.flow.redis import RedisLedger
from worker.patience import patiently
from worker.settings import Settings
from worker.telemetry.observer import NOBODY, Observer


def ledger_on(client: Client, settings: Settings) -> RedisLedger:
    """The ledger on a client's server; a call's place is held as long as a lease."""
    return RedisLedger(
        client,
        where=describe(settings.redis_url),
        minute_ms=int(settings.limits_minute_s * 1000),
        hold_ms=settings.runner.lease_ms,
    )


def make_gate(
    ledger: RedisLedger, settings: Settings, tick: Tick, observer: Observer = NOBODY
) -> Gate:
    """The gate of one process."""
    return Gate(
        ledger,
        LimitBook(settings.model_limits, ledger.limits, tick),
        hold_s=ledger.hold_ms / 1000,
        patience=partial(patiently, patience_s=settings.patience_s),
        observer=observer,
    )
