"""The tools of MCP servers as an agent's tools (extra ``mcp``).

from worker.mcp import Stdio, mcp_tools

files = mcp_tools(
    Stdio("files-server", ["/data"]),
    effects={"read_file": "safe", "send_file": "once"},
)
clerk = Agent(name="clerk", goal="…", tools=files)

servers    where a server is: a program to start, or an address
tools      a server's list of tools, each made a Tool
reader     arguments checked against a server's own schemas
results    what the model reads of a server's answer
hub        the sessions of this process, and the thread that they live on
session    one server's session, begun again when it has ended
"""

from __future__ import annotations

try:
    import mcp as _sdk
except ModuleNotFoundError as error:
    if error.name != "mcp":
        raise
    raise ModuleNotFoundError(
        "worker.mcp needs the MCP SDK: pip install 'stepkeeper[mcp]'", name="mcp"
    ) from error

from worker.mcp.servers import Http, Stdio
from worker.mcp.tools import mcp_tools

__all__ = ["Http", "Stdio", "mcp_tools"]

del _sdk
