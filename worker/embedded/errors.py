"""What can go wrong with an embedded server.

EmbeddedServerError
├── ServerMissing   the extra that brings the server is not installed
└── FolderInUse     another process runs a server in this folder
"""

from __future__ import annotations

from api_client.errors import StepkeeperError


class EmbeddedServerError(StepkeeperError):
    """The embedded server could not be started."""


class ServerMissing(EmbeddedServerError):
    """There is no valkey-server to start here; names the extra that brings it."""


class FolderInUse(EmbeddedServerError):
    """Another process runs a server in this folder, or is starting one."""
