"""The command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from types import NoneType
from typing import Any, get_args

from typer.main import get_command

from tests.support.reference.markup import code, page, table
from worker.cli.app import app
from worker.cli.command import Common
from worker.cli.failures import EXIT_CODES

LEAD = f"`stepkeeper COMMAND --help` says the same. {EXIT_CODES}"
COMMON = {field.name for field in fields(Common)}


def commands() -> str:
    """The page."""
    root: Any = get_command(app)
    found = [(path, each) for path, each in _walk(root, "stepkeeper") if not each.hidden]
    first = next(each for _, each in found if {p.name for p in each.params} >= COMMON)
    shared = [p for p in first.params if p.name in COMMON]
    parts = [_section(path, each) for path, each in found]
    return page("Commands", LEAD, ("## Options of every command\n\n" + _options(shared), *parts))


def _walk(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _walk(each, f"{path} {name}")
        else:
            yield f"{path} {name}", each


def _section(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    own = [p for p in options if p.name not in COMMON and p.name != "help" and not p.hidden]
    words = [path, *(_argument(p) for p in arguments)]
    parts = [f"## {path}", f"`{' '.join(words)}`", _text(command.help or "")]
    told = [(code(_argument(p)), _text(p.help or "")) for p in arguments if p.help]
    if told:
        parts.append(table(("argument", "what it is"), told))
    if own:
        parts.append(_options(own))
    return "\n\n".join(parts)


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper()).strip("[]")
    return name if parameter.required else f"[{name}]"


def _options(parameters: list[Any]) -> str:
    return table(
        ("option", "default", "what it does"), [_option(parameter) for parameter in parameters]
    )


def _option(parameter: Any) -> tuple[str, str, str]:
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    value = "" if parameter.is_flag else f" {_metavar(parameter)}"
    help_text = _text(parameter.help or "")
    if parameter.envvar:
        help_text += f" Read from `{parameter.envvar}`, too."
    return code(names + value), code(_default(parameter)), help_text


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.type_descriptor.annotation
    choices = get_args(kind)
    if choices and all(isinstance(choice, str) for choice in choices):
        return "|".join(choices)
    kinds = [each for each in choices if each is not NoneType] or [kind]
    return str(kinds[0].__name__).upper()


def _default(parameter: Any) -> str:
    shown = parameter.show_default
    if isinstance(shown, str):
        return shown
    value = parameter.default
    empty = value is None or value is False or value in ("", ()) or callable(value)
    return "" if empty or shown is False else str(getattr(value, "value", value))


def _text(text: str) -> str:
    """The help as paragraphs, without what only a terminal shows."""
    paragraphs = text.replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs)
