"""Telling callers which agents a worker has."""

from __future__ import annotations

from importlib.metadata import version

from worker.service import Service


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
