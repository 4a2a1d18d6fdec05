"""Bodies as JSON, in both directions, with every surprise turned into a `ModelError`."""

from __future__ import annotations

import json
from typing import Any

from worker.models.base import ModelError

_MOST = 2**53


def to_json(body: dict[str, Any]) -> bytes:
    """The body as UTF-8; half a surrogate pair, which no server takes, becomes a question mark.

    Raises:
        ModelError: with fate ``fail`` when the body holds something that is not JSON.
    """
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"the request cannot be written as JSON: {error}"
        raise ModelError(message, "fail", code="not_json") from error
    return text.encode("utf-8", "replace")


def from_json(raw: bytes) -> Any:
    """What a body says.

    Raises:
        ModelError: with fate ``retry`` when it is not JSON.
    """
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        excerpt = raw[:80].decode("utf-8", "replace")
        message = f"the answer is not JSON: {error}; it begins with {excerpt!r}"
        raise ModelError(message, "retry", code="malformed_answer") from error
    # Only an escape can hide half a surrogate pair, and only then is the search worth its time.
    return _whole(value) if b"\\ud" in raw or b"\\uD" in raw else value


def _whole(value: Any) -> Any:
    """The value with every lone surrogate replaced, which could not be stored or sent."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def count(value: Any) -> int | None:
    """A number of tokens; True, text, negative numbers and what no account could hold are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= _MOST:  # also neither infinite, as 1e400 is, nor no number at all
        return None
    return int(value)


def empty_response() -> ModelError:
    """The error for an answer that is well formed and says nothing."""
    return ModelError("empty response: the model's answer holds nothing", code="empty_response")
