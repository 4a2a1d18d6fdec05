"""Places for the features, and which of them an ordinary run tries.

``make features`` tries every feature at every place. An ordinary run tries each feature at some
places, so that each place has its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.nursery import Nursery
from tests.support.places import PLACES, Place, Servers, open_place
from tests.support.rabbitmq import RabbitServer, server_program
from worker.embedded import EmbeddedServer

DIAGONAL = ("redis-threads", "rabbitmq-prefork")


@pytest.fixture(scope="session")
def servers(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A Redis that does not wait for the disk, for it is not killed here; RabbitMQ, if need be."""
    started: list[RabbitServer] = []

    @cache
    def rabbit() -> RabbitServer:
        if server_program() is None:
            pytest.skip("rabbitmq-server is not installed (Debian: apt install rabbitmq-server)")
        server = RabbitServer(tmp_path_factory.mktemp("rabbitmq"), ("threads", "prefork"))
        started.append(server.__enter__())
        return server

    with EmbeddedServer(tmp_path_factory.mktemp("valkey"), appendfsync="no") as valkey:
        yield Servers(nursery, valkey, rabbit, tmp_path_factory.mktemp("places"))
        for server in started:
            server.__exit__(None, None, None)


def _places() -> list[object]:
    rabbit = pytest.mark.rabbitmq
    return [
        pytest.param(name, marks=rabbit if name.startswith("rabbitmq") else ()) for name in PLACES
    ]


@pytest.fixture(scope="module", params=_places())
def place_name(request: pytest.FixtureRequest) -> str:
    """Each of the places."""
    return str(request.param)


@pytest.fixture(scope="module")
def place(place_name: str, servers: Servers) -> Iterator[Place]:
    """Workers at one place, for a whole file."""
    with open_place(servers, place_name) as place:
        yield place


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only ``make features`` runs."""
    if config.getoption("features", None):
        return
    here = Path(__file__).parent
    left_out = [item for item in items if here in item.path.parents and not _ordinary(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _ordinary(item: pytest.Item) -> bool:
    """Whether an ordinary run tries this feature at this place."""
    params = getattr(item, "callspec").params  # noqa: B009 - only parametrized items have it
    turns = [param.turn for param in params.values() if hasattr(param, "turn")]
    if not turns:
        return params["place_name"] in DIAGONAL
    return bool(params["place_name"] == PLACES[turns[0] % len(PLACES)])
