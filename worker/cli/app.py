"""The command tree; what runs first and what an error becomes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from worker.cli import (
    backlogs,
    benching,
    chaos,
    deciding,
    desk,
    doctor,
    evaluating,
    failures,
    keeping,
    limits,
    looking,
    operating,
    pinging,
    rerunning,
    serve,
    showing,
    submitting,
    tenants,
    top,
    working,
)
from worker.cli.output import cannot_write, leave_pipe, reopen_closed

app = typer.Typer(
    name="stepkeeper",
    help="Agent jobs that survive crashes and wait for people.",
    epilog=failures.EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for room in (
    working,
    submitting,
    looking,
    deciding,
    desk,
    showing,
    operating,
    limits,
    tenants,
    backlogs,
    rerunning,
    doctor,
    pinging,
    keeping,
    top,
    chaos,
    benching,
    evaluating,
    serve,
):
    room.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"stepkeeper {version('stepkeeper')}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Agent jobs that survive crashes and wait for people."""


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code. Errors of ours become one line."""
    words = list(arguments) or ["--help"]
    reopen_closed()
    _never_fail_to_print()
    try:
        code = app(args=words, prog_name="stepkeeper", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return failures.INTERRUPTED
    except BrokenPipeError:
        leave_pipe()
        return failures.OK
    except OSError as error:
        if not cannot_write(error):
            raise
        leave_pipe()
        return failures.output_lost(error).say("--json" in words)
    except Exception as error:
        failure = failures.explain(error)
        if failure is None:
            raise
        return failure.say("--json" in words)
    return code if isinstance(code, int) else failures.OK


def _never_fail_to_print() -> None:
    """What the terminal's encoding lacks is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
