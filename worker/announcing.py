"""Telling callers which agents a worker has."""

from __future__ import annotations

from importlib.metadata import version

from worker.service import Service
from worker.store.base import Slots

SLOTS_KEPT_S = 180
"""What a worker says of its slots holds for so long, three times as long as it stays unsaid."""


def announce_slots(service: Service, slots: int) -> None:
    """Say from which queues this worker takes messages, and how many it works on at once.

    Raises:
        StoreUnavailable
    """
    queues = list(service.app.amqp.queues.consume_from)
    agents = {agent.name: service.queue_of(agent) or queues[0] for agent in service.agents.values()}
    caps = {a.name: a.max_backlog for a in service.agents.values() if a.max_backlog is not None}
    told = Slots(service.node, slots, queues, agents, SLOTS_KEPT_S * 1000, caps)
    service.store.announce_slots(told)


def announce_agents(service: Service) -> None:
    """Say which agents there are, and to which queue their jobs go.

    Raises:
        StoreUnavailable
    """
    infos = []
    for agent in service.agents.values():
        info = agent.info(service.queue_of(agent))
        infos.append(info.model_copy(update={"release": version("stepkeeper")}))
    service.store.announce(infos)
