"""Outcomes that the store itself decides."""

from __future__ import annotations

from api_client.contract import Outcome

POISON = "poison"


def expired_outcome() -> Outcome:
    """A job that was to begin by a certain time, and that nobody has begun."""
    text = "cancelled: it expired before any worker had begun it"
    return Outcome(ok=False, reason="cancelled", text=text)


def poison_outcome(max_tries: int) -> Outcome:
    """A job whose worker dies again and again at the same step (rule 15)."""
    return Outcome(
        ok=False,
        reason=POISON,
        text=f"its worker died {max_tries} times at the same step; the job is quarantined",
    )
