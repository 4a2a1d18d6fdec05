"""Options that every command takes, declared once."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from worker.cli.output import leave_pipe

_PANEL = "Where, and how it is said"
EMBEDDED = "--embedded"


@dataclass(frozen=True, slots=True)
class Common:
    """The options of every command.

    Attributes:
        embedded: ``None``: no embedded server; ``""``: one in the default folder.
    """

    redis_url: Annotated[
        str,
        typer.Option(
            envvar="STEPKEEPER_REDIS_URL",
            help="The store: redis://, rediss://, unix:// or sentinel://.",
            show_default="redis://127.0.0.1:6379/0",
            rich_help_panel=_PANEL,
        ),
    ] = ""
    broker_url: Annotated[
        str,
        typer.Option(
            envvar="STEPKEEPER_BROKER_URL",
            help="Celery's broker.",
            show_default="the store's Redis",
            rich_help_panel=_PANEL,
        ),
    ] = ""
    embedded: Annotated[
        str | None,
        typer.Option(
            EMBEDDED,
            metavar="[=DIR]",
            help="For development: start a valkey-server here, or join the one that runs in the "
            "folder. The data stays in $XDG_DATA_HOME/stepkeeper or ~/.local/share/stepkeeper, "
            "or where --embedded=DIR says.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    partitions: Annotated[
        int | None,
        typer.Option(
            envvar="STEPKEEPER_PARTITIONS",
            min=1,
            max=4096,
            help="Over which the store is spread; the same for every program.",
            show_default="1",
            rich_help_panel=_PANEL,
        ),
    ] = None
    json: Annotated[
        bool,
        typer.Option("--json", help="Results and errors as JSON.", rich_help_panel=_PANEL),
    ] = False

    @property
    def options(self) -> str:
        """What a command that is shown to people needs so that it finds the same store."""
        if self.embedded is None:
            return ""
        return shlex.join([f"{EMBEDDED}={self.embedded}" if self.embedded else EMBEDDED])


class Command(TyperCommand):
    """A command whose ``--embedded`` may stand alone: only ``--embedded=DIR`` has a value.

    A value behind a blank would swallow the argument that follows, such as an agent's name.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a lone ``--embedded`` its empty value."""
        end = args.index("--") if "--" in args else len(args)
        options = [f"{word}=" if word == EMBEDDED else word for word in args[:end]]
        return super().parse_args(ctx, [*options, *args[end:]])


def command(
    app: typer.Typer, name: str, *, epilog: str | None = None, hidden: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register ``function(session, …) -> exit code`` as a command that also takes ``Common``."""

    def register(function: Callable[..., int]) -> Callable[..., int]:
        app.command(name, cls=Command, epilog=epilog, hidden=hidden)(_with_common(function))
        return function

    return register


def _with_common(function: Callable[..., int]) -> Callable[..., None]:
    names = [field.name for field in fields(Common)]

    def run(**given: Any) -> None:
        from worker.cli.session import Session

        common = Common(**{name: given.pop(name) for name in names})
        with Session(common) as session:
            try:
                code = function(session, **given)
            except BrokenPipeError:  # as in: stepkeeper trace JOB | head
                leave_pipe()
                code = 0
        raise typer.Exit(code)

    parameters = [*_own_parameters(function), *_common_parameters()]
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def _own_parameters(function: Callable[..., int]) -> list[inspect.Parameter]:
    """The function's parameters behind the session, with their annotations evaluated."""
    hints = get_type_hints(function, localns={"Session": object}, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    return [
        item.replace(annotation=hints[item.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for item in own
    ]


def _common_parameters() -> list[inspect.Parameter]:
    hints = get_type_hints(Common, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(Common)
    ]
