"""``demo``: the whole product on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.command import command

if TYPE_CHECKING:
    from worker.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "demo")(demo)


def demo(
    session: Session,
    real: Annotated[
        bool,
        typer.Option(
            "--real", help="Ask the model of LLM_API_KEY, LLM_BASE_URL and LLM_MODEL, not a script."
        ),
    ] = False,
) -> int:
    """Run three agents, kill a worker, answer a pause: in a scratch folder, under a minute."""
    from worker.demo import run_demo

    return run_demo(real=real, json_output=session.out.as_json)
