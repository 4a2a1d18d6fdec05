"""A worker's heartbeat: it tells the store what it is, again and again, until it ends."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from api_client.errors import StoreUnavailable
from api_client.sealing import keyring
from api_client.workers import BEAT_S, WorkerInfo
from worker.forking import no_fork

if TYPE_CHECKING:
    import threading

    from worker.service import Service

log = logging.getLogger(__name__)

_POOLS = {"thread": "threads"}
"""Celery's modules, where they are called otherwise than the option that asks for them."""


def describe_worker(service: Service, worker: Any) -> WorkerInfo:
    """What there is to say of a Celery worker."""
    pool = worker.pool_cls.__module__.rpartition(".")[2]
    queues = worker.app.amqp.queues.consume_from
    agents = service.agents.values()
    return WorkerInfo(
        name=service.node,
        pool=_POOLS.get(pool, pool),
        slots=worker.concurrency,
        in_flight=service.settings.in_flight,
        queues=tuple(sorted(queues)),
        agents=tuple(f"{agent.name} {agent.info('').version}" for agent in agents),
        release=version("stepkeeper"),
        keys=keyring().names,
    )


def beat_until(done: threading.Event, service: Service, worker: Any) -> None:
    """Beat until the event is set, then take leave; a store that is away is tried again."""
    info = describe_worker(service, worker)
    while True:
        try:
            with no_fork():
                info = service.store.beat(info)
        except StoreUnavailable as error:
            log.warning("heartbeat: %s", error)
        if done.wait(BEAT_S):
            break
    try:
        service.store.part(service.node)
    except StoreUnavailable as error:
        log.warning("heartbeat: %s", error)
