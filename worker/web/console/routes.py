"""All routes of the console, and its files."""

from __future__ import annotations

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from worker.web.console import acts, bulk, flow, lists, live, pages
from worker.web.console.templates import STATIC

ROUTERS = (pages.router, lists.router, flow.router, bulk.router, acts.router, live.router)

_FOR_EVER = "public, max-age=31536000, immutable"


class _Files(StaticFiles):
    """Files whose addresses change with what is in them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """See ``StaticFiles``."""
        response = await super().get_response(path, scope)
        if response.status_code == 200 and b"v=" in scope["query_string"]:
            response.headers["cache-control"] = _FOR_EVER
        return response


def files() -> StaticFiles:
    """The style, the script, the icon."""
    return _Files(directory=STATIC)
