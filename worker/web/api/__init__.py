"""The routes under ``/v1``: jobs, streams, people's decisions, and what operators do."""

from fastapi import APIRouter

from worker.web.api import backlogs, deciding, jobs, operating, streams, tenants
from worker.web.api.strict import StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute)
for room in (jobs, streams, deciding, operating, tenants, backlogs):
    router.include_router(room.router)

__all__ = ["router"]
