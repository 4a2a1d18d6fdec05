"""Limits of models: those that cannot work, and what they keep waiting."""

from __future__ import annotations

from collections.abc import Mapping

from worker.doctor.findings import Findings, error, warning
from worker.flow.base import Limit, Use

AREA = "limits"
QUEUE_MINUTES = 10
"""A queue that takes longer than this is told of."""


def check(limits: Mapping[str, Limit], uses: Mapping[str, Use]) -> Findings:
    """All checks of the limits and their use, by model key."""
    for key, limit in sorted(limits.items()):
        use = uses[key]
        if limit.tpm is not None and use.too_large > limit.tpm:
            yield error(
                AREA, f"limits of {key}",
                f"a call needed {use.too_large} tokens, and a minute allows {limit.tpm}: such jobs "
                "pause, for no wait helps them",
                f"stepkeeper limits set {key} --tpm {use.too_large} or more, or let the agents "
                "show their model less (memory=…)",
            )  # fmt: skip
        if limit.rpm is not None and use.waiting > QUEUE_MINUTES * limit.rpm:
            yield warning(
                AREA, f"limits of {key}",
                f"{use.waiting} jobs wait for {limit.rpm} requests a minute: the last of them "
                f"for {use.waiting // limit.rpm} minutes",
                "raise the limit, if the provider allows it, or submit fewer jobs",
            )  # fmt: skip
