"""Environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from api_client.protection import Protection
from api_client.sizes import Sizes
from tests.support.reference.markup import attributes, code, page, table
from worker.flow.settings import FlowSettings
from worker.settings import Settings
from worker.web.settings import WebSettings

LEAD = (
    "Everything is read once, from the environment, when a program starts. A value that cannot be "
    "used ends the program with the name of its variable; `stepkeeper doctor` finds names that "
    "look like settings and are none."
)
GROUPS: tuple[tuple[str, str, type[BaseSettings]], ...] = (
    ("Workers", "Read by `stepkeeper worker`, and by `install(app)` in an app of yours.", Settings),
    ("How large things may be", "Read by workers and by every program that submits.", Sizes),
    (
        "Limits of models",
        "Read by workers and by `stepkeeper serve`, `top`, `limits` and `doctor`, which show them.",
        FlowSettings,
    ),
    (
        "Signed messages and encryption",
        "Read by workers and by every program that submits or reads.",
        Protection,
    ),
    ("The web server", "Read by `stepkeeper serve`.", WebSettings),
)
_SHARED = (Sizes, Protection, FlowSettings)
_TYPES: dict[Any, str] = {
    bool: "`true` or `false`",
    dict: "JSON",
    float: "number",
    int: "whole number",
    Mapping: "JSON",
    tuple: "list",
}
MODEL = (
    ("LLM_API_KEY", "The key. A server that wants none gets one all the same."),
    ("LLM_BASE_URL", "Where the API is; OpenAI's own if it is not given."),
    ("LLM_MODEL", "The model's name."),
)


def settings() -> str:
    """The page."""
    parts = [f"## {title}\n\n{lead}\n\n{_table(kind)}" for title, lead, kind in GROUPS]
    rows = [(code(name), text) for name, text in MODEL]
    model = "## The model\n\nOf an agent that names none.\n\n" + table(
        ("variable", "what it is"), rows
    )
    return page("Settings", LEAD, (*parts, model))


def _table(kind: type[BaseSettings]) -> str:
    told = {
        name: text for base in reversed(kind.__mro__) for name, text in attributes(base).items()
    }
    prefix = kind.model_config.get("env_prefix") or "STEPKEEPER_"
    shared = {name for base in _SHARED for name in base.model_fields}
    own = [name for name in kind.model_fields if kind in _SHARED or name not in shared]
    rows = [
        (
            code(f"{prefix}{name}".upper()),
            _type(kind.model_fields[name].annotation),
            code(_default(kind.model_fields[name])),
            told[name],
        )
        for name in own
    ]
    return table(("variable", "type", "default", "what it is"), rows)


def _type(annotation: Any) -> str:
    """What may be written there, in a word or two."""
    parts = [kind for kind in get_args(annotation) if kind is not type(None)]
    if get_origin(annotation) is Literal:
        return " or ".join(code(str(choice)) for choice in parts)
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_type, parts)))
    kind = get_origin(annotation) or annotation
    return _TYPES.get(kind, "text")


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value in ("", (), None, {}):
        return ""
    return value if isinstance(value, str) else json.dumps(value)
