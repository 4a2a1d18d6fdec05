"""``eval``: a file of tasks, run and checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import failures

if TYPE_CHECKING:
    from worker.evaluation import Report

STDOUT = "-"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)


def evaluate(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="A .toml or .json file, or: examples.")
    ],
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the results there; - for stdout."),
    ] = None,
    real: Annotated[
        bool,
        typer.Option("--real", help="Ask the agents' own models, or that of LLM_MODEL; no script."),
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Times for each task.")] = 1,
    only: Annotated[
        str, typer.Option("-k", metavar="TEXT", help="The tasks whose names hold this.")
    ] = "",
) -> None:
    """Run agents on tasks; check their answers and their ways. Exits with 1 if a check fails."""
    from worker.evaluation import evaluate as run
    from worker.evaluation import load_suite

    report = run(load_suite(suite), real=real, repeat=repeat, only=only)
    if json_file != STDOUT:
        _print(report)
    if json_file is not None:
        _write(report, json_file)
    raise typer.Exit(failures.OK if report.passed else failures.FAILED)


def _print(report: Report) -> None:
    from worker.rendering import make_console

    report.print(make_console())


def _write(report: Report, where: str) -> None:
    text = json.dumps(report.as_json(), ensure_ascii=False, indent=1) + "\n"
    if where == STDOUT:
        sys.stdout.write(text)
        return
    try:
        Path(where).write_text(text, "utf-8")
    except OSError as error:
        from api_client.errors import InvalidInput

        raise InvalidInput(f"--json {where}: cannot be written: {error}") from None
