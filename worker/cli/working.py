"""``worker``: run agents until a signal says stop."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from celery import Celery

    from worker.cli.session import Session
    from worker.settings import Settings

Pool = Literal["threads", "prefork"]
Level = Literal["debug", "info", "warning", "error", "critical"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "worker")(worker)


def worker(
    session: Session,
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="PATHS",
            help="Import paths, comma separated: package.module or package.module:name.",
            show_default="STEPKEEPER_AGENTS",
        ),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Jobs at once.", show_default="16; prefork: CPUs")
    ] = None,
    pool: Annotated[
        Pool, typer.Option(help="prefork is for agents whose tools keep a CPU busy.")
    ] = "threads",
    name: Annotated[
        str,
        typer.Option(
            metavar="NODE",
            help="A name of its own for each worker on one machine; one that is started again "
            "under its name takes up its jobs at once. %h is the host.",
        ),
    ] = "stepkeeper@%h",
    queues: Annotated[
        str | None, typer.Option(metavar="A,B", help="Celery queues.", show_default="celery")
    ] = None,
    log_level: Annotated[Level, typer.Option(help="Of the log on stderr.")] = "info",
) -> int:
    """Run agents. SIGTERM hands running jobs over at their next commit, then ends."""
    settings = _settings(session, agents, concurrency, pool)
    from worker.app import make_app

    app = make_app(settings)
    if session.out.as_json:
        session.out.detach_stdout()
    _announce_when_ready(session, app, settings)
    return _run(
        app,
        hostname=node_name(name),
        pool_cls=pool,
        concurrency=settings.concurrency,
        queues=queues,
        loglevel=getattr(logging, log_level.upper()),
    )


def _settings(
    session: Session, agents: str | None, concurrency: int | None, pool: Pool
) -> Settings:
    """The settings of the environment, and over them what the command line says.

    Raises:
        InvalidInput: one of them cannot be used, or there is no agent to run.
    """
    from api_client.errors import InvalidInput
    from worker.settings import Settings

    given = {
        "agents": agents,
        "concurrency": concurrency,
        "broker_url": session.common.broker_url or None,
        "partitions": session.common.partitions,
    }
    known = {name: value for name, value in given.items() if value is not None}
    settings = Settings.from_env(redis_url=session.url, **known)
    if not settings.agents:
        raise InvalidInput(
            "there is no agent to run; give import paths with --agents or STEPKEEPER_AGENTS, "
            "for example --agents shop.agents:refunds"
        )
    if pool == "prefork" and "concurrency" not in settings.model_fields_set:
        return settings.model_copy(update={"concurrency": os.cpu_count() or 1})
    return settings


def node_name(name: str) -> str:
    """A Celery node name out of ``name@host``, or a name alone; ``%h`` stands for the host."""
    from celery.utils.nodenames import default_nodename, host_format

    return str(host_format(default_nodename(name if "@" in name else f"{name}@%h")))


def _announce_when_ready(session: Session, app: Celery, settings: Settings) -> None:
    from celery.signals import worker_ready

    from api_client.connection import describe

    names = sorted(app.stepkeeper.agents)  # type: ignore[attr-defined]
    store = describe(settings.redis_url)

    def say(sender: Any, **_: Any) -> None:
        node = str(sender.hostname)
        value = {"event": "ready", "node": node, "agents": names, "store": store}
        text = f"stepkeeper: worker {node} runs {', '.join(names)} from {store}"
        session.out.result({**value, "pid": os.getpid()}, text)

    worker_ready.connect(say, weak=False, dispatch_uid="stepkeeper-cli-ready")


def _run(app: Celery, **options: Any) -> int:
    """Run a Celery worker in this process until a signal ends it; returns its exit code.

    Celery counts a Ctrl-C as a failure; here it is an interrupt, as for every command.
    """
    from celery.signals import worker_shutting_down

    signals: list[str] = []

    def note(sig: str, **_: Any) -> None:
        signals.append(sig)

    worker_shutting_down.connect(note)
    node = app.Worker(quiet=True, no_color=_no_color(), **options)
    node.start()
    interrupted = "SIGINT" in signals and node.exitcode == failures.FAILED
    return failures.INTERRUPTED if interrupted else int(node.exitcode or failures.OK)


def _no_color() -> bool | None:
    return True if os.environ.get("NO_COLOR") else None
