"""Who is asking, and what they may see and do. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from api_client.contract import JobSpec, JobView
from api_client.labels import may_answer
from api_client.signals import MAX_NAME_CHARACTERS


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
        return may_answer(view.spec.labels, self.held) or bool(
            view.pause and self.labels.intersection(view.pause.labels)
        )

    def answers(self, view: JobView) -> bool:
        """Whether the caller may answer the job's open pause."""
        wanted = view.pause.labels if view.pause else ()
        return self._tenant_fits(view.spec) and may_answer(wanted, self.held)

    @property
    def held(self) -> tuple[str, ...] | None:
        """The labels as stores want them; ``None``: all."""
        return tuple(sorted(self.labels)) or None

    def _tenant_fits(self, spec: JobSpec) -> bool:
        return self.tenant in ("", spec.tenant)

    def signs(self, by: str) -> str:
        """The name under which a decision stands in the trace.

        A key can't be made to look like another one: its own name always stands in it.
        """
        if not by or by == self.name:
            return self.name[:MAX_NAME_CHARACTERS]
        if not self.id:
            return by[:MAX_NAME_CHARACTERS]
        return f"{by} ({self.name})"[:MAX_NAME_CHARACTERS]


LOCAL = Caller(id="", name="local", roles=frozenset(Role))
"""Whoever sits at this machine, where no key is asked for."""
