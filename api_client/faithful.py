"""Refusing, before it is stored, what would not come back from JSON as it went in."""

from __future__ import annotations

from pydantic import ValidationError

from api_client.errors import InvalidInput
from api_client.shapes import Contract

_CAUSES = (
    "holds what JSON cannot carry: NaN, an infinite number, half of a surrogate pair, or more "
    "than some 190 levels of nesting"
)


def check_faithful(what: str, value: Contract) -> None:
    """Refuse a value that readers would find changed, or could not read at all.

    Python is more generous than JSON: NaN would come back as null, and a record that holds a null
    where none may be is one that no worker can load any more.

    Args:
        what: what an error calls it.

    Raises:
        InvalidInput: in one line.
    """
    try:
        same = type(value).model_validate_json(value.model_dump_json()) == value
    except (ValidationError, ValueError, RecursionError):
        same = False
    if not same:
        raise InvalidInput(f"{what}: {_CAUSES}")
