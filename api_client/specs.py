"""Making a job's spec from what a caller gives, in every way of submitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from api_client.contract import (
    DEFAULT_RETENTION_S,
    MAX_TENANT_CHARACTERS,
    JobSpec,
)
from api_client.errors import IdempotencyConflict, InvalidInput, shorten
from api_client.faithful import check_faithful
from api_client.records import dumps, one_line
from api_client.sizes import check_depth, check_size, sizes

_ELSEWHERE = "store it elsewhere and pass a reference"
_TEN_YEARS_S = 10 * 365 * 24 * 3600
_KEYWORDS = ("input", "metadata", "tenant", "labels", "priority")


def make_spec(
    *,
    job_id: str,
    agent: str,
    input: Any,
    metadata: Mapping[str, Any] | None = None,
    tenant: str = "",
    labels: Sequence[str] = (),
    priority: str | None = None,
    retention_s: int = DEFAULT_RETENTION_S,
    start_within_ms: int | None = None,
    message: Mapping[str, Any] | None = None,
) -> JobSpec:
    """A checked spec.

    Args:
        priority: ``high``, ``normal`` or ``low``.

    Raises:
        InvalidInput: names the field, the value and what is wrong.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata: a JSON object is expected (given: {shorten(metadata)})")
    if isinstance(labels, str):
        raise InvalidInput(f"labels: a list of texts is expected (given: {shorten(labels)})")
    allowed = sizes()
    for name, value in (("input", input), ("metadata", metadata)):
        check_depth(name, value, allowed.max_depth)
    try:
        spec = JobSpec.model_validate(
            {
                "job_id": job_id,
                "agent": agent,
                "input": input,
                "metadata": dict(metadata or {}),
                "tenant": tenant,
                "labels": tuple(labels),
                "priority": priority or "",
                "retention_s": retention_s,
                "start_within_ms": start_within_ms,
                "message": dict(message or {}),
            }
        )
        texts = dumps(spec.input), dumps(spec.metadata)
    except ValidationError as error:
        raise InvalidInput(f"job for agent {shorten(agent)}: {one_line(error)}") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"job for agent {shorten(agent)}: {error}") from None
    except RecursionError:
        raise InvalidInput(f"job for agent {shorten(agent)}: nested too deeply") from None
    for name, text in zip(("input", "metadata"), texts, strict=True):
        field = f"max_{name}_bytes"
        check_size(name, text, getattr(allowed, field), field, _ELSEWHERE)
    check_faithful(f"job for agent {shorten(agent)}", spec)
    check_job_tenant(spec.tenant)
    return spec


def check_job_tenant(tenant: str) -> None:
    """Refuse what cannot be the tenant of a job.

    Raises:
        InvalidInput: it is too long, or means all tenants.
    """
    if len(tenant) > MAX_TENANT_CHARACTERS:
        raise InvalidInput(
            f"tenant {shorten(tenant)}: at most {MAX_TENANT_CHARACTERS} characters are allowed"
        )
    if tenant == "*":
        raise InvalidInput("tenant '*' means each tenant that has no policy; name one")


def spec_from_call(
    job_id: str,
    agent: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    retention_s: int,
    message: Mapping[str, Any],
    start_within_ms: int | None = None,
) -> JobSpec:
    """A spec from a Celery call ``agent.NAME(input, metadata=…, tenant=…, …)``.

    Raises:
        InvalidInput: as ``make_spec``, and for arguments that the call does not take.
    """
    given = dict(kwargs)
    if len(args) > 1:
        raise InvalidInput(
            f"agent.{agent} takes one positional argument, the input; {len(args)} were given "
            "(what a chain, a chord or a link passes on is one: .si(…) leaves it out)"
        )
    if args:
        given["input"] = args[0]
    unknown = sorted(set(given) - set(_KEYWORDS))
    if unknown:
        raise InvalidInput(
            f"agent.{agent} takes no argument {unknown[0]!r}; it takes: {', '.join(_KEYWORDS)}"
        )
    given.setdefault("input", None)
    return make_spec(
        job_id=job_id,
        agent=agent,
        retention_s=retention_s,
        start_within_ms=start_within_ms,
        message=message,
        **given,
    )


def check_same(wanted: JobSpec, stored: JobSpec) -> None:
    """A second submission under one id must ask for the same.

    Raises:
        IdempotencyConflict: it asks for something else; nothing was changed.
    """
    for name in ("agent", "input", "metadata", "labels"):
        if getattr(wanted, name) != getattr(stored, name):
            raise IdempotencyConflict(
                f"job {stored.job_id} exists with another {name} "
                f"({shorten(getattr(stored, name))}); use a new key or id for a new job"
            )


def delay_ms(delay_s: float, name: str = "delay_s") -> int:
    """A start's delay in milliseconds; a negative one is none.

    Args:
        name: what an error calls it.

    Raises:
        InvalidInput: it is no number, or beyond ten years.
    """
    if not delay_s <= _TEN_YEARS_S:  # so written, NaN is refused as well
        raise InvalidInput(f"{name}: at most ten years, in seconds (given: {delay_s})")
    return int(max(0.0, delay_s) * 1000)
