"""An MCP server for tests: ``python mcp_server.py`` over stdio, ``… PORT`` over HTTP.

What its tools do is written to the file named in ``TEST_LEDGER``, one JSON line each.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import EmbeddedResource, ImageContent, TextContent, TextResourceContents
from pydantic import BaseModel

server: MCPServer[Any] = MCPServer("orders", log_level="ERROR")


def note(kind: str, **data: Any) -> None:
    path = os.environ.get("TEST_LEDGER")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps({"kind": kind, "pid": os.getpid(), **data}) + "\n")


class Address(BaseModel):
    street: str
    number: int


class Order(BaseModel):
    id: str
    address: Address


@server.tool()
def status(order: str, ctx: Context[Any], days: int = 3) -> str:
    """Status of an order."""
    meta = ctx.request_context.meta or {}
    note("status", order=order, days=days, key=meta.get("stepkeeper/idempotency-key"))
    return f"{order}: sent {days} days ago"


@server.tool()
def find(order: str) -> Order:
    """The whole order."""
    return Order(id=order, address=Address(street="Lange Straße", number=7))


@server.tool(structured_output=False)
def move(order: str, to: Address) -> str:
    """Sends an order somewhere else."""
    note("move", order=order, to=to.model_dump())
    return f"{order} goes to {to.street} {to.number}"


@server.tool()
def refuse(order: str) -> str:
    """Never works."""
    raise ToolError(f"order {order} is locked")


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG....", format="png")


@server.tool(structured_output=False)
def mixed() -> list[Any]:
    """Several kinds of content."""
    data = base64.b64encode(b"x").decode()
    page = TextResourceContents(uri="note://1", text="a note", mime_type="text/plain")
    return [
        TextContent(type="text", text="look:"),
        ImageContent(type="image", data=data, mime_type="image/jpeg"),
        EmbeddedResource(type="resource", resource=page),
    ]


@server.tool(structured_output=False)
def nothing() -> None:
    """Says nothing."""


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    note("slow")
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        note("called off")
        raise
    return "done"


@server.tool()
def die() -> str:
    """Ends the server in the middle of a call."""
    note("die")
    os._exit(3)


@server.tool()
def whoami() -> str:
    """The server's process, and what it sees of its surroundings."""
    return json.dumps({"pid": os.getpid(), "env": sorted(os.environ), "cwd": str(Path.cwd())})


if __name__ == "__main__":
    note("start")
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
    note("stop")
