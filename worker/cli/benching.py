"""``bench``: what each thing costs, measured on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "bench")(bench)


def bench(
    session: Session,
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PART...",
            help="steps, throughput, waiting, latency, paused, recover, submit; all, if none is given.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: at most 40 seconds a part.")
    ] = False,
    repeat: Annotated[
        int | None,
        typer.Option(min=1, help="Samples of each figure.", show_default="5; 3 with --quick"),
    ] = None,
) -> int:
    """Measure on this machine what each thing costs, beside the least that it could cost.

    Starts a server and workers of its own, and takes them away again.
    """
    from worker.bench.options import Options
    from worker.bench.report import tables
    from worker.bench.run import run_bench
    from worker.chaos import interrupt

    interrupt.listen()
    found = run_bench(parts or (), Options(quick=quick, repeat=repeat), session.out.note)
    if session.out.as_json:
        session.out.value(found)
        return failures.OK
    for table in tables(found):
        session.out.console.print(table)
    return failures.OK
