"""Who is measured: name, server, script, and the sizes and the shape that suit it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.peers.ours import measure_in_process, measure_on_workers
from tests.peers.script import Asked, Figures
from tests.peers.servers import (
    PYTHON,
    OpenServer,
    PeerMissing,
    clean_environment,
    postgres,
    redis_with_modules,
    restate_server,
    temporal_server,
)
from tests.support.workers import ROOT
from worker.embedded import Fsync
from worker.guarded import GuardedProcess

SCRIPT_WITHIN_S = 600.0
_SIZES = Asked(server="", folder=Path(), one=(100, 500), jobs=100, steps=20)
_LOOK_EVERY_S = 0.05


class ScriptFailed(Exception):
    """A peer's script did not come to its end; says what it printed last."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the table.

    Attributes:
        measure: measures it once, from an empty server to the figures.
        asked: what is measured; its server and folder are filled in then.
        ours: it is Stepkeeper.
        note: what a reader must know of how it is measured.
    """

    name: str
    measure: Callable[[Asked], Figures]
    asked: Asked
    ours: bool = False
    note: str = ""


def measure_script(script: str, open_server: OpenServer, asked: Asked) -> Figures:
    """Start a peer's server, run its script, stop both.

    Raises:
        PeerMissing: the server or the venv is not there.
        ServerFailed: the server did not start.
        ScriptFailed: the script failed, or did not end in time.
    """
    if not PYTHON.exists():
        raise PeerMissing("the peers' venv is not there; make peers lays it down")
    with open_server() as place:
        words = replace(asked, server=place.address, folder=place.folder).words()
        command = [str(PYTHON), "-m", f"tests.peers.{script}", *words]
        log = place.folder.parent / "script"
        process = GuardedProcess(command, clean_environment(), log, ROOT)
        try:
            _wait(process)
        finally:
            process.kill()
        if process.code != 0:
            raise ScriptFailed(f"{script} ended with code {process.code}: {process.last_words()}")
        return Figures.read(process.last_words(1))


def _wait(process: GuardedProcess) -> None:
    deadline = time.monotonic() + SCRIPT_WITHIN_S
    while process.code is None and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _ours(name: str, fsync: Fsync, measure: Callable[..., Figures]) -> Contender:
    sizes = replace(_SIZES, jobs=200)
    return Contender(f"Stepkeeper, {name}", partial(measure, fsync=fsync), sizes, ours=True)


def _peer(name: str, script: str, server: OpenServer, asked: Asked, note: str = "") -> Contender:
    return Contender(name, partial(measure_script, script, server), asked, note=note)


CONTENDERS = (
    _ours("workers", "everysec", measure_on_workers),
    _peer(
        "LangGraph, Postgres",
        "langgraph_postgres",
        postgres,
        replace(_SIZES, at_once=8, processes=2),
    ),
    _peer(
        "LangGraph, Postgres, DeltaChannel",
        "langgraph_postgres",
        postgres,
        replace(_SIZES, at_once=8, processes=2, variant="delta"),
        "a kind of channel that is in beta",
    ),
    _ours("workers", "always", measure_on_workers),
    _peer(
        "LangGraph, Redis",
        "langgraph_redis",
        redis_with_modules,
        replace(_SIZES, at_once=8, processes=2),
    ),
    _peer("DBOS, Postgres", "dbos_postgres", postgres, replace(_SIZES, at_once=8)),
    _ours("in one process", "everysec", measure_in_process),
    _peer("Restate", "restate", restate_server, replace(_SIZES, jobs=200, at_once=200)),
    _peer(
        "Temporal, development server",
        "temporal",
        temporal_server,
        replace(_SIZES, one=(100,), jobs=20, at_once=10),
        "not made for throughput; the history of 500 such steps is over its limit",
    ),
    _ours("in one process", "always", measure_in_process),
)
