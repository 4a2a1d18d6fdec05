"""How many jobs wait for each agent and queue, and how many may."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from api_client.backlogs import Kind
from worker.web.api.strict import StrictRoute
from worker.web.callers import Role
from worker.web.documents import BACKLOG, BACKLOGS, answer, errors, for_roles
from worker.web.identify import DeskHere
from worker.web.shapes import Backlogs, CapAnswer, CapRequest

router = APIRouter(tags=["operating"], route_class=StrictRoute)

KindHere = Annotated[
    Kind, Path(description="An agent, or all agents that workers have announced for a queue.")
]
Name = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        pattern=r"^[^/\x00-\x1f\x7f]+$",
        description="Of the agent or queue; `*` for each that has no cap of its own.",
    ),
]
_EXAMPLES = {"at most 500": {"value": {"cap": 500}}}


@router.get(
    "/backlogs",
    operation_id="list_backlogs",
    responses={200: answer("Agents first, then queues, by name.", BACKLOGS), **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def list_backlogs(desk: DeskHere) -> Backlogs:
    """What waits for agents and queues, and how much may; a tenant's key sees none."""
    return Backlogs(backlogs=desk.backlogs())


@router.put(
    "/backlogs/{kind}/{name}",
    operation_id="set_backlog",
    responses={200: answer("It holds.", BACKLOG), **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def set_backlog(
    kind: KindHere,
    name: Name,
    body: Annotated[CapRequest, Body(openapi_examples=_EXAMPLES)],
    desk: DeskHere,
) -> CapAnswer:
    """Say how many jobs may wait; one more is refused from now on."""
    desk.set_cap(kind, name, body.cap)
    return CapAnswer(kind=kind, name=name, cap=body.cap)


@router.delete(
    "/backlogs/{kind}/{name}",
    status_code=204,
    operation_id="forget_backlog",
    responses={204: {"description": "It has no cap of its own."}, **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def forget_backlog(kind: KindHere, name: Name, desk: DeskHere) -> Response:
    """Forget a cap; that of the agent's code, or of `*`, holds again."""
    desk.set_cap(kind, name, None)
    return Response(status_code=204)
