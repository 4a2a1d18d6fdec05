"""Who is asking, and what they may see and do. Pure values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from api_client.contract import JobSpec, JobView

MAX_BY = 200
"""Characters of a name in the trace; the contract allows no more."""


class Role(StrEnum):
    """What a key is good for; one key may have several."""

    SUBMIT = "submit"  # submit jobs, cancel them
    REVIEW = "review"  # see the inbox, decide pauses, talk to jobs
    OPERATE = "operate"  # lists, workers, cancel, quarantine, purge


@dataclass(frozen=True, slots=True)
class Caller:
    """One API key, or whoever sits at this machine.

    Attributes:
        id: of the key; ``""`` for a caller without one.
        name: how the trace calls the caller.
        labels: those whose jobs it may see and answer; none: all.
        tenant: the one whose jobs it may see and submit; ``""``: all.
    """

    id: str
    name: str
    roles: frozenset[Role]
    labels: frozenset[str] = frozenset()
    tenant: str = ""

    def has(self, *roles: Role) -> bool:
        """Whether the caller has one of the roles."""
        return not self.roles.isdisjoint(roles)

    def sees(self, view: JobView) -> bool:
        """Whether a job is visible: its own label, or the one that its pause has come to."""
        if not self._tenant_fits(view.spec):
            return False
        return self._fits(view.spec.labels) or any(
            label in self.labels for label in pause_labels(view)
        )

    def answers(self, view: JobView) -> bool:
        """Whether the caller's labels fit the job's open pause."""
        return self._tenant_fits(view.spec) and self._fits(pause_labels(view))

    def _tenant_fits(self, spec: JobSpec) -> bool:
        return self.tenant in ("", spec.tenant)

    def _fits(self, labels: Iterable[str]) -> bool:
        """Nobody's labels, everybody's key, or one in common."""
        wanted = set(labels)
        return not wanted or not self.labels or not wanted.isdisjoint(self.labels)

    def signs(self, by: str) -> str:
        """The name under which a decision stands in the trace.

        A key can't be made to look like another one: its own name always stands in it.
        """
        if not by or by == self.name:
            return self.name[:MAX_BY]
        if not self.id:
            return by[:MAX_BY]
        return f"{by} ({self.name})"[:MAX_BY]


def pause_labels(view: JobView) -> tuple[str, ...]:
    """Who may answer a job's open pause; the job's own labels, if the pause names none."""
    own: tuple[str, ...] = getattr(view.pause, "labels", ())
    return own or view.spec.labels


LOCAL = Caller(id="", name="local", roles=frozenset(Role))
"""Whoever sits at this machine, where no key is asked for."""
