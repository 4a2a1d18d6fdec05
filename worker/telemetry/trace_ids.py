"""Which trace a job belongs to, and under which span: the same answer in every worker.

A job's own span lasts from its submission to its end, over all slices, pauses and workers. Nobody
holds it open meanwhile: its ids follow from the job's id, so that any worker can put its calls
under it, and whichever publishes the end writes it. Its parent is the caller's span, if the
message that brought the job has a ``traceparent`` (W3C Trace Context).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from api_client.contract import JobSpec

TRACEPARENT = "traceparent"

_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Ids of a job's own span.

    Attributes:
        parent: the caller's span id, 0 if there is no caller.
        sampled: what the caller decided; ``None`` if there is none, or it did not say.
    """

    trace: int
    span: int
    parent: int = 0
    sampled: bool | None = None

    @property
    def traceparent(self) -> str:
        """The header for what happens inside the job."""
        flags = _SAMPLED if self.sampled is not False else 0
        return f"00-{self.trace:032x}-{self.span:016x}-{flags:02x}"


def job_trace(spec: JobSpec) -> JobTrace:
    """The ids of a job, from its message headers and its id alone."""
    span = _number("span", spec.job_id, 8)
    headers = spec.message.get("headers")
    given = headers.get(TRACEPARENT) if isinstance(headers, dict) else None
    match = _FORM.fullmatch(given) if isinstance(given, str) else None
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return JobTrace(_number("trace", spec.job_id, 16), span)
    sampled = bool(int(match[3], 16) & _SAMPLED)
    return JobTrace(int(match[1], 16), span, int(match[2], 16), sampled)


def _number(what: str, job_id: str, size: int) -> int:
    """A number of ``size`` bytes that is never 0."""
    digest = hashlib.sha256(f"stepkeeper {what} of {job_id}".encode()).digest()
    return int.from_bytes(digest[:size]) or 1
