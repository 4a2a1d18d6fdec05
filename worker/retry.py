"""How long to wait after a model error. A decision, not an action."""

from __future__ import annotations

import zlib

BASE_S = 1.0
CAP_S = 60.0
RETRY_AFTER_CEILING_S = 3600.0


def backoff_s(job_id: str, failures: int, retry_after: float | None) -> float:
    """Seconds until the next attempt.

    Doubles from one second to a minute, spread over the upper half of each interval so that jobs
    that failed together do not come back together. The spread is drawn from the job's id and the
    number of the attempt, so that the same history always gives the same wait. What the provider
    asks for (``Retry-After``, RFC 9110 section 10.2.3) is a lower bound, up to an hour.

    Args:
        failures: model errors in a row, this one included.
        retry_after: seconds the provider asked for.
    """
    ceiling = min(CAP_S, BASE_S * 2.0 ** min(failures - 1, 30))
    share = zlib.crc32(f"{job_id}:{failures}".encode()) / 2**32
    delay = ceiling * (0.5 + share / 2)
    if retry_after is None:
        return delay
    return max(delay, min(retry_after, RETRY_AFTER_CEILING_S))
