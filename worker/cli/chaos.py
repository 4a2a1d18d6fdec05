"""``chaos``: the crash proof, for anyone to run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from worker.chaos.report import Report
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "chaos")(chaos)


def chaos(
    session: Session,
    profile: Annotated[
        Literal["small", "default", "nightly"],
        typer.Option(help="A size by name: 40, 300 or 10,000 jobs; what follows overrides it."),
    ] = "default",
    jobs: Annotated[int | None, typer.Option(help="Jobs of mixed kinds.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes to run them on.")] = None,
    kills: Annotated[int | None, typer.Option(help="SIGKILLs of working workers.")] = None,
    redis_restarts: Annotated[int | None, typer.Option(help="SIGKILLs of Redis.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the jobs and the strikes.")] = 1,
    pool: Annotated[
        Literal["threads", "prefork"], typer.Option(help="Of the workers.")
    ] = "threads",
    concurrency: Annotated[int, typer.Option(help="Jobs at once in one worker.")] = 16,
    in_flight: Annotated[
        int, typer.Option(help="Jobs at once on an event loop of each worker; 0: on threads.")
    ] = 0,
    appendfsync: Annotated[Literal["always", "everysec"], typer.Option(help="Of Redis.")] = (
        "always"
    ),
    lease: Annotated[float, typer.Option(help="Seconds until other workers take over.")] = 5.0,
    deadline: Annotated[
        float, typer.Option(help="Seconds after the last strike in which all jobs must end.")
    ] = 120.0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep ledger, logs, data and report here.")
    ] = None,
) -> int:
    """Prove on this machine that nothing is lost and nothing doubled, while workers and Redis die.

    Exits with 1 if a job is lost, or an effect, a model call or a person's answer is doubled.
    """
    from worker.chaos import interrupt
    from worker.chaos.options import PROFILES, Options
    from worker.chaos.run import run_chaos

    sizes = {
        "jobs": jobs,
        "workers": workers,
        "kills": kills,
        "redis_restarts": redis_restarts,
    }
    given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    options = Options(
        **(PROFILES[profile] | given),
        seed=seed,
        pool=pool,
        concurrency=concurrency,
        in_flight=in_flight,
        appendfsync=appendfsync,
        lease_s=lease,
        deadline_s=deadline,
        keep=keep,
    )
    interrupt.listen()
    logging.getLogger("api_client.hints").setLevel(logging.ERROR)  # Redis is away on purpose
    return _tell(session, run_chaos(options, session.out.note))


def _tell(session: Session, report: Report) -> int:
    if session.out.as_json:
        session.out.value(report.as_dict())
    else:
        lost = [f"lost: job {job_id}: {why}" for job_id, why in report.lost_jobs.items()]
        session.out.exactly("\n".join([report.table(), *lost]))
    return failures.FAILED if report.faults else failures.OK
