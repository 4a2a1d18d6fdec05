"""Importing what an extra brings, and naming the extra where it is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_BROUGHT_BY = {
    "openai": "worker",
    "rich": "worker",
    "tenacity": "worker",
    "typer": "worker",
    "anthropic": "anthropic",
}


def fetch(module: str, name: str) -> Any:
    """The attribute ``name`` of ``module``.

    Raises:
        ModuleNotFoundError: a package of an extra is not installed; says how to install it.
    """
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        extra = _BROUGHT_BY.get(error.name or "")
        if extra is None:
            raise
        raise ModuleNotFoundError(
            f"{name} needs an extra: pip install 'stepkeeper[{extra}]' ({error.name} is missing)",
            name=error.name,
        ) from error
