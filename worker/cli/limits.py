"""``limits``: what all workers together may ask of each model, and how much of it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    from worker.cli.session import Session
    from worker.flow.base import Limit
    from worker.flow.redis import RedisLedger
    from worker.flow.standing import Standing

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The model: HOST/MODEL, or its limit_key.")
]


class Listing(TyperGroup):
    """A group of commands that lists, if none of them is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``list`` in front of options that stand alone."""
        helps = ctx.help_option_names
        alone = not args or (args[0].startswith("-") and args[0] not in helps)
        return super().parse_args(ctx, ["list", *args] if alone else args)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    limits = typer.Typer(help="Limits of models that all workers share.", cls=Listing)
    command(limits, "list")(list_limits)
    command(limits, "set")(set_limit)
    command(limits, "unset")(unset_limit)
    app.add_typer(limits, name="limits")


def list_limits(session: Session) -> int:
    """The limit of each model, where it was set, and its use of this minute."""
    from worker.cli.tables import Listing as Table

    found = found_limits(session)
    if not found and not session.out.as_json:
        session.out.result({}, "no model has a limit: stepkeeper limits set KEY --rpm 500")
        return failures.OK
    rows = [(*cells(one), one.set_by) for one in found]
    session.out.result([one.as_json() for one in found], Table((*COLUMNS, "set by"), rows))
    return failures.OK


def found_limits(session: Session) -> list[Standing]:
    """Every model that has a limit, and its use of this minute.

    Raises:
        StoreUnavailable
    """
    from worker.flow.standing import standings
    from worker.settings import Settings

    settings = Settings.from_env(redis_url=session.url)
    return standings(_ledger(session), settings.model_limits)


COLUMNS = ("model", "requests", "tokens", "in flight", "waiting", "closed")


def cells(one: Standing) -> tuple[str, ...]:
    """A model's limit and use, a cell for each column."""
    from worker.rendering import duration

    limit, use = one.limit, one.use
    return (
        one.key,
        used_of(use.requests, limit.rpm),
        used_of(use.tokens, limit.tpm),
        used_of(use.in_flight, limit.in_flight),
        f"{use.waiting:,}",
        f"for {duration(use.closed_ms)}" if use.closed_ms else "",
    )


def used_of(used: int, limit: int | None) -> str:
    """``3 of 10``; ``3`` if there is no limit."""
    return f"{used:,}" if limit is None else f"{used:,} of {limit:,}"


def set_limit(
    session: Session,
    key: KeyArgument,
    rpm: Annotated[int | None, typer.Option(help="Requests a minute.")] = None,
    tpm: Annotated[int | None, typer.Option(help="Tokens a minute, input and output.")] = None,
    in_flight: Annotated[int | None, typer.Option(help="Calls at once.")] = None,
) -> int:
    """Limit a model for all workers, in place of its limit so far; holds within seconds."""
    from worker.flow.base import checked_limit

    limit = checked_limit(key, {"rpm": rpm, "tpm": tpm, "in_flight": in_flight})
    _ledger(session).set_limit(key, limit)
    value = {"key": key, "limit": limit.model_dump()}
    session.out.result(value, f"{key}: {_words(limit)}, for all workers within some seconds")
    return failures.OK


def _words(limit: Limit) -> str:
    parts = (
        (limit.rpm, "requests a minute"),
        (limit.tpm, "tokens a minute"),
        (limit.in_flight, "calls at once"),
    )
    return ", ".join(f"{number:,} {what}" for number, what in parts if number is not None)


def unset_limit(session: Session, key: KeyArgument) -> int:
    """Forget a limit that was set by command; one of the settings holds again."""
    from api_client.errors import InvalidInput
    from worker.flow.base import checked_key

    if not _ledger(session).set_limit(checked_key(key), None):
        raise InvalidInput(f"{key}: no limit was set by command (stepkeeper limits lists them)")
    session.out.result({"key": key, "limit": None}, f"{key}: forgotten")
    return failures.OK


def _ledger(session: Session) -> RedisLedger:
    from worker.flow.assemble import ledger_on
    from worker.settings import Settings

    settings = Settings.from_env(redis_url=session.url)
    return ledger_on(session.redis, settings)
