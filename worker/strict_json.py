"""Reading JSON that others wrote."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from pydantic_core import from_json


def strict_json(text: str) -> Any:
    """The value of a JSON text; ``NaN`` and ``Infinity`` are none.

    Raises:
        ValueError: it is no JSON (``json.JSONDecodeError`` where a place can be named).
        RecursionError: it is nested too deeply.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:  # the quick reader also refuses what is odd but allowed, as half surrogates
        return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
