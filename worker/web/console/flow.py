"""What is shown of shares, limits and backlogs: who may have how much, and how much is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from api_client.backlogs import EACH, Backlog
from api_client.tenants import Tenant
from worker.flow.standing import Standing
from worker.web.callers import Role
from worker.web.console.templates import page
from worker.web.console.visitors import VisitorHere

router = APIRouter(include_in_schema=False)

TENANTS = 100
"""Most tenants on the page, the busiest first."""

TIGHT = 0.9
"""The part of a limit from which on it stands out."""


@dataclass(frozen=True, slots=True)
class Figure:
    """How much of something there is, and how much may be.

    Attributes:
        name: of the sentence that says what it is.
        limit: ``None``: there is none.
    """

    name: str
    used: float
    limit: float | None = None

    @property
    def tight(self) -> bool:
        """Hardly anything is left."""
        return self.limit is not None and self.used >= TIGHT * self.limit


@dataclass(frozen=True, slots=True)
class Line:
    """One tenant, model, agent or queue.

    Attributes:
        closed_ms: for so long a model's provider wants no call.
        too_large: tokens of a call that is larger than a whole minute's limit.
    """

    name: str
    figures: tuple[Figure, ...]
    closed_ms: int = 0
    too_large: int = 0


@router.get("/flow")
def flow(request: Request, visitor: VisitorHere) -> Response:
    """Tenants and their shares, models and their limits, what waits for agents and queues."""
    visitor.desk.needs(Role.OPERATE)
    tenants, _ = visitor.desk.tenants()
    backlogs = visitor.desk.backlogs()
    return page(
        request,
        visitor,
        "flow.html",
        tenants=[of_tenant(one) for one in busiest(tenants)[:TENANTS]],
        more=max(0, len(tenants) - TENANTS),
        models=[of_model(one) for one in visitor.desk.models()],
        agents=[of_backlog(one) for one in backlogs if one.kind == "agent" and one.name != EACH],
        queues=[of_backlog(one) for one in backlogs if one.kind == "queue" and one.name != EACH],
    )


def busiest(tenants: Sequence[Tenant]) -> list[Tenant]:
    """The tenants, those with the most jobs that run or wait first."""
    return sorted(tenants, key=lambda one: (-one.running, -one.ready, -one.waiting, one.name))


def of_tenant(tenant: Tenant) -> Line:
    """A tenant's share, and its jobs."""
    policy = tenant.policy
    figures = (
        Figure("flow_weight", policy.weight),
        Figure("list_running", tenant.running, policy.concurrency),
        Figure("list_queued", tenant.ready),
        Figure("list_waiting", tenant.waiting),
        Figure("flow_backlog", tenant.ready + tenant.waiting, policy.backlog),
        Figure("flow_paused", tenant.paused),
        Figure("flow_steps", tenant.steps),
    )
    return Line(tenant.name, figures)


def of_model(model: Standing) -> Line:
    """A model's limits, and the calls of this minute."""
    limit, use = model.limit, model.use
    figures = (
        Figure("flow_rpm", use.requests, limit.rpm),
        Figure("flow_tpm", use.tokens, limit.tpm),
        Figure("flow_in_flight", use.in_flight, limit.in_flight),
        Figure("flow_held", use.waiting),
    )
    return Line(model.key, figures, use.closed_ms, use.too_large)


def of_backlog(backlog: Backlog) -> Line:
    """How many jobs wait for an agent or a queue."""
    return Line(backlog.name, (Figure("flow_backlog", backlog.present, backlog.cap),))
