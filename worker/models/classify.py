"""Which fate a failed model call has: one table, read from top to bottom.

Every adapter brings its failures into the form of `Failure` and asks `judge`. Nothing here knows
an SDK, a socket or the clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from worker.models.base import Fate, ModelError

LONGEST_WAIT = 3600.0
"""Seconds. A provider that asks for more than this wants a person, not a timer."""

_LONGEST_TEXT = 500
"""Characters of the provider's words that an error keeps."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call before it is judged.

    ``status`` is the HTTP status or the one that an error inside a 200 stands for, ``code`` and
    ``kind`` are the provider's machine-readable words, ``retry_after`` is in seconds.
    """

    text: str
    status: int | None = None
    code: str | None = None
    kind: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table; a part left empty matches everything."""

    fate: Fate
    statuses: Collection[int] = ()
    words: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matches(self, failure: Failure) -> bool:
        """Whether every part that this line names is found in the failure."""
        if self.statuses and failure.status not in self.statuses:
            return False
        if self.words and not self.words & {failure.code, failure.kind}:
            return False
        return self.pattern is None or self.pattern.search(failure.text) is not None


_TOO_LONG = re.compile(
    r"maximum context length|context[ _](?:length|window|size)|prompt is too long"
    r"|input (?:is|was) too long|too many (?:input )?tokens"
    r"|reduce the length of the (?:messages|input)",
    re.IGNORECASE,
)
# A single request above the rate limit of a whole minute: waiting never helps, shortening does.
_ABOVE_THE_LIMIT = re.compile(r"request too large", re.IGNORECASE)

TABLE: tuple[Rule, ...] = (
    Rule("compact", words=frozenset({"context_length_exceeded", "exceed_context_size_error"})),
    Rule("compact", statuses=frozenset({413})),
    Rule("compact", statuses=frozenset({400, 422, 500}), pattern=_TOO_LONG),
    Rule("compact", statuses=frozenset({429}), pattern=_ABOVE_THE_LIMIT),
    Rule(
        "pause",
        words=frozenset(
            {
                "insufficient_quota",
                "billing_hard_limit_reached",
                "billing_not_active",
                "account_deactivated",
                # Words of our own adapters, for trouble that stays until a setting is changed.
                "bad_setting",
                "certificate",
            }
        ),
    ),
    Rule("retry", statuses=frozenset({408, 409, 425, 429})),
    Rule("retry", statuses=range(500, 600)),
    Rule("pause", statuses=range(300, 500)),
    # No status at all: no answer came, or one that cannot be read.
    Rule("retry"),
)

_STATUS_OF_WORD = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "timeout_error": 408,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "overloaded_error": 529,
}


def judge(failure: Failure, *, secrets: Collection[str] = ()) -> ModelError:
    """The error that stands for this failure, with its fate, and without the secrets."""
    fate = next(rule.fate for rule in TABLE if rule.matches(failure))
    text = clean(failure.text, secrets)
    if fate == "retry" and (failure.retry_after or 0.0) > LONGEST_WAIT:
        fate = "pause"
        text = f"{text} (asks to wait {failure.retry_after:.0f} s, more than {LONGEST_WAIT:.0f} s)"
    wait = failure.retry_after if fate == "retry" else None
    code = failure.code or failure.kind
    return ModelError(text, fate, wait, failure.status, clean(code, secrets) if code else None)


def failure_from_body(
    body: Any, *, status: int | None = None, retry_after: float | None = None
) -> Failure:
    """Read the provider's words out of an error body, whatever its shape.

    Args:
        body: decoded JSON or text; either the whole body or what stood under ``error``.
        status: the HTTP status when it says that the call failed, else None: then an error code
            inside the body takes its place.
        retry_after: seconds, from the headers.
    """
    inner = _inner_error(body)
    code, kind = _word(inner.get("code")), _word(inner.get("type"))
    if status is None:
        status = _status_of(code) or _status_of(kind)
    text = _words_of(inner) or f"the provider answered with status {status or 'unknown'}"
    return Failure(text, status, code, kind, retry_after)


def _inner_error(body: Any) -> Mapping[str, Any]:
    """The mapping that holds the message, at most two levels down."""
    for _ in range(2):
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, dict) and body.get("error"):
            body = body["error"]
    return body if isinstance(body, dict) else {"message": body}


def _words_of(inner: Mapping[str, Any]) -> str:
    """The first text that a person can read."""
    for name in ("message", "detail", "error_description", "msg", "reason"):
        value = inner.get(name)
        if value:
            return value if isinstance(value, str) else str(value)
    return ""


def _word(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)


def _status_of(word: str | None) -> int | None:
    """The HTTP status that a code stands for, None if it says nothing."""
    if word is None:
        return None
    if word.isascii() and word.isdigit() and 300 <= int(word[:9]) <= 599:
        return int(word)
    return _STATUS_OF_WORD.get(word.lower())


_KEY_SHAPES = re.compile(r"\bsk-[^\s\"',;)}\]]+|(?i:\bbearer\s+)[^\s\"',;)}\]]+")


def clean(text: str, secrets: Collection[str] = ()) -> str:
    """One bounded line of the text, with keys and the given secrets blacked out."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[secret]")
    text = " ".join(_KEY_SHAPES.sub("[secret]", text).split())
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the provider asks to wait, None if it does not or not readably.

    Args:
        headers: of the response; looked up by lower-case name.
        now: seconds since the epoch, to read an HTTP date against.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is None:
        seconds = _seconds_until(text, now)
    return seconds if seconds is not None else limit_reset(headers, now)


_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_LONG_AGO = 1e9
"""A number above this is a moment in seconds since the epoch, above a thousand times it in ms."""


def limit_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the provider's own limits allow a call, if it says that one is used up.

    Reads ``x-ratelimit-remaining-…`` with ``x-ratelimit-reset-…``, and the same of Anthropic.
    """
    names = [
        form.format(what=what, fact="{}")
        for form in ("x-ratelimit-{fact}-{what}", "anthropic-ratelimit-{what}-{fact}")
        for what in ("requests", "tokens")
    ]
    waits = (
        _reset(headers.get(name.format("reset")) or "", now)
        for name in names
        if (headers.get(name.format("remaining")) or "").strip() == "0"
    )
    return max((wait for wait in waits if wait is not None), default=None)


def _reset(text: str, now: float) -> float | None:
    """Seconds of ``1.5``, ``6m0s``, ``120ms``, a moment since the epoch, or an RFC 3339 date."""
    value = _number(text)
    if value is not None:
        moment = value / 1000 if value > _LONG_AGO * 1000 else value
        return value if value < _LONG_AGO else max(0.0, moment - now)
    found = _DURATION.fullmatch(text.strip())
    if found is not None and any(found.groups()):
        units = (3600.0, 60.0, 1.0, 0.001)
        return sum(float(n or 0) * unit for n, unit in zip(found.groups(), units, strict=True))
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp() - now)
    except ValueError:
        return None


def _number(text: str | None) -> float | None:
    """A finite number of at least zero, None for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0.0 <= value < float("inf") else None


def _seconds_until(date: str | None, now: float) -> float | None:
    """Seconds from ``now`` to an HTTP date, zero if it has passed."""
    try:
        return max(0.0, parsedate_to_datetime(date or "").timestamp() - now)
    except ValueError:
        return None
