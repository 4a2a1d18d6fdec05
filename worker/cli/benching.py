"""``bench``: what each thing costs, measured on this machine."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from worker.cli.session import Session


class Part(StrEnum):
    """What can be measured, in the order in which it is."""

    STEPS = "steps"
    THROUGHPUT = "throughput"
    WAITING = "waiting"
    LATENCY = "latency"
    PAUSED = "paused"
    RECOVER = "recover"
    SUBMIT = "submit"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "bench")(bench)


def bench(
    session: Session,
    parts: Annotated[
        list[Part] | None,
        typer.Argument(metavar="PART...", help=f"Of {', '.join(Part)}; all, if none is given."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: at most 40 seconds a part.")
    ] = False,
    repeat: Annotated[
        int | None,
        typer.Option(min=1, help="Samples of each figure.", show_default="5; 3 with --quick"),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the figures into this file.")
    ] = None,
) -> int:
    """Measure on this machine what each thing costs, beside the least that it could cost.

    Starts servers and workers of its own, and takes them away again.
    """
    from worker.bench.options import Options
    from worker.bench.plot import check_plot, draw
    from worker.bench.run import run_bench
    from worker.chaos import interrupt

    options = Options(quick=quick, repeat=repeat)
    if png is not None:
        check_plot(png)
    interrupt.listen()
    found = run_bench([part.value for part in parts or Part], options, session.out.note)
    if png is not None:
        draw(found, png)
    _tell(session, found)
    return failures.OK


def _tell(session: Session, found: dict[str, Any]) -> None:
    from worker.bench.report import tables

    if session.out.as_json:
        session.out.value(found)
        return
    for table in tables(found):
        session.out.console.print(table)
