"""Texts and JSON from the command line."""

from __future__ import annotations

import getpass
import json
import os
import sys
from typing import Any

STDIN = "-"


def read_text(value: str) -> str:
    """The text itself, or standard input for ``-``.

    Raises:
        InvalidInput: standard input is not UTF-8.
    """
    if value != STDIN:
        return value
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise _invalid(f"standard input is not text in UTF-8: {error.reason}") from None


def read_value(value: str, as_json: bool) -> Any:
    """A text, or the JSON value that it holds.

    Raises:
        InvalidInput: it is no JSON.
    """
    text = read_text(value)
    return parse_json("the text", text) if as_json else text


def parse_json(name: str, text: str) -> Any:
    """A JSON value.

    Args:
        name: what an error calls it.

    Raises:
        InvalidInput: says at which character it breaks.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise _invalid(f"{name}: not JSON: {error} (given: {_shorten(text)})") from None
    except RecursionError:
        raise _invalid(f"{name}: nested too deeply (given: {_shorten(text)})") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is a number of Python's, not of JSON's")


def parse_object(name: str, text: str | None) -> dict[str, Any] | None:
    """A JSON object; ``None`` if nothing was given.

    Raises:
        InvalidInput: it is no JSON, or another kind of value.
    """
    if text is None:
        return None
    value = parse_json(name, text)
    if not isinstance(value, dict):
        raise _invalid(f'{name}: give a JSON object such as {{"a": 1}} (given: {_shorten(text)})')
    return value


def user_name() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid {os.getuid()}"


def _shorten(text: str) -> str:
    from api_client.errors import shorten

    return shorten(text)


def _invalid(message: str) -> Exception:
    from api_client.errors import InvalidInput

    return InvalidInput(message)
