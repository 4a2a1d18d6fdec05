"""A valkey-server of our own, for development, the demo and the tests.

    server   EmbeddedServer: starts one in a folder, stops it, or kills it to see what happens
    sharing  shared: one server per folder for several commands; the first starts it
    folder   what stands in the folder beside the data: the lock, and the notice of who runs there
    errors   what can go wrong

The data survives in the folder, and no two servers ever write there: the server itself inherits
the locked file, so that the lock lasts exactly as long as somebody could still write. The server
runs in a session of its own, out of reach of a Ctrl-C meant for us, and a guard process ends it
should we die without a word. It listens on loopback only and knows no passwords: it is not for
production.
"""

from worker.embedded.errors import EmbeddedServerError, FolderInUse, ServerMissing
from worker.embedded.folder import Endpoint, find_server
from worker.embedded.ports import free_ports
from worker.embedded.server import EmbeddedServer, Fsync
from worker.embedded.sharing import SharedServer, shared

__all__ = [
    "EmbeddedServer",
    "EmbeddedServerError",
    "Endpoint",
    "FolderInUse",
    "Fsync",
    "ServerMissing",
    "SharedServer",
    "find_server",
    "free_ports",
    "shared",
]
