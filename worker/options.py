"""What the options of a call ask of a job: when it may start, and what no job can keep."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery import Celery
from celery.utils.time import maybe_iso8601, maybe_make_aware

from api_client.errors import InvalidInput, shorten
from api_client.specs import delay_ms
from api_client.tracing import trace_headers

_LIMITS = (
    "set the agent's max_active_s, a tool's timeout or the model's total_timeout, which hold on "
    "every pool"
)
NOT_KEPT = {"time_limit": _LIMITS, "soft_time_limit": _LIMITS}
"""Options of a submission that are refused, and what to do in their place."""


def check_options(task: str, options: Mapping[str, Any]) -> None:
    """Refuse what cannot be kept over the messages of a durable job.

    Raises:
        InvalidInput: names the option, its value and what to do instead.
    """
    for name, instead in NOT_KEPT.items():
        if options.get(name) is not None:
            raise InvalidInput(
                f"{task}: {name}={options[name]!r} cannot be kept for a durable job; {instead}"
            )


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Options from several sources: the last one that gives a value wins."""
    return {name: value for part in parts for name, value in part.items() if value is not None}


def inherited(caller: Any) -> dict[str, Any]:
    """Options that a task passes on to those that it calls.

    Args:
        caller: the Celery task that runs in this thread, if one does.
    """
    if caller is None:
        return {}
    request = caller.request
    family = {"root_id": request.root_id or request.id, "parent_id": request.id}
    if caller.app.conf.task_inherit_parent_priority:
        family["priority"] = (request.delivery_info or {}).get("priority")
    return family


def is_passed_on(caller: Any, options: Mapping[str, Any]) -> bool:
    """Whether Celery itself calls, to pass on the result of the task that has just run here."""
    return caller is not None and options.get("parent_id") == caller.request.id


def with_trace(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with the caller's trace in the headers, if there is one and none is given."""
    headers = {**trace_headers(), **(options.get("headers") or {})}
    return {**options, "headers": headers}


def start_delay_ms(app: Celery, options: Mapping[str, Any]) -> int:
    """Milliseconds before which a job must not start: of ``eta``, or else of ``countdown``.

    Raises:
        InvalidInput: names the option and its value.
    """
    name = "countdown" if options.get("eta") is None else "eta"
    return delay_ms(_seconds_until(app, name, options.get(name)) or 0.0, name)


def start_within_ms(app: Celery, expires: Any) -> int | None:
    """Milliseconds within which a job must start, of ``expires``; ``None`` for ever.

    Raises:
        InvalidInput: names the option and its value.
    """
    seconds = _seconds_until(app, "expires", expires)
    return None if seconds is None else delay_ms(seconds, "expires")


def _seconds_until(app: Celery, name: str, value: Any) -> float | None:
    """Seconds from now.

    Args:
        value: seconds; or a time, as a datetime or in ISO 8601. One without a time zone is in UTC,
            as Celery's workers take it.
    """
    if value is None or isinstance(value, (int, float)):
        return value
    try:
        time = maybe_iso8601(value)
    except (AttributeError, TypeError, ValueError):
        time = None
    if not isinstance(time, datetime):
        raise InvalidInput(
            f"{name}: seconds, a datetime or a time in ISO 8601 is expected "
            f"(given: {shorten(value)})"
        )
    return float((maybe_make_aware(time, app.timezone) - app.now()).total_seconds())
