"""What each tenant may have, and how much of it each uses."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from api_client.tenants import TenantPolicy
from worker.web.api.strict import StrictRoute
from worker.web.callers import Role
from worker.web.documents import POLICY, TENANTS, answer, errors, for_roles
from worker.web.identify import DeskHere
from worker.web.shapes import PolicyRequest, TenantAnswer, Tenants

router = APIRouter(tags=["operating"], route_class=StrictRoute)

Name = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        pattern=r"^[^/\x00-\x1f\x7f]+$",
        description="The tenant; `*` for each that has no policy of its own.",
    ),
]
_EXAMPLES = {"a share and two limits": {"value": POLICY}}


@router.get(
    "/tenants",
    operation_id="list_tenants",
    responses={200: answer("By name.", TENANTS), **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def list_tenants(desk: DeskHere) -> Tenants:
    """Tenants that have jobs to run, or a policy, or have used steps lately."""
    found, policies = desk.tenants()
    return Tenants(tenants=found, policies=policies)


@router.put(
    "/tenants/{name}",
    operation_id="set_tenant",
    responses={200: answer("It holds.", {"name": "acme", "policy": POLICY}), **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def set_tenant(
    name: Name,
    body: Annotated[PolicyRequest, Body(openapi_examples=_EXAMPLES)],
    desk: DeskHere,
) -> TenantAnswer:
    """Say what a tenant may have, for all workers, from its next turn on."""
    return TenantAnswer(name=name, policy=desk.set_tenant(name, TenantPolicy(**body.model_dump())))


@router.delete(
    "/tenants/{name}",
    status_code=204,
    operation_id="forget_tenant",
    responses={204: {"description": "It has no policy of its own."}, **errors()},
    openapi_extra=for_roles(Role.OPERATE),
)
def forget_tenant(name: Name, desk: DeskHere) -> Response:
    """Forget what a tenant may have; that of `*` holds again."""
    desk.forget_tenant(name)
    return Response(status_code=204)
