"""``python -m worker.devserver --model package.module:attribute``: the server as a process."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from worker.devserver.server import ModelServer
from worker.devserver.strict import Strict
from worker.models.base import Model


def load(path: str) -> Any:
    """What stands at ``module:attribute``; a function without parameters there makes the model.

    Raises:
        SystemExit: naming the path, when there is nothing.
    """
    module, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SystemExit(f"--model {path}: {error}; give it as package.module:attribute") from error
    is_model = isinstance(found, Model) and not isinstance(found, type)
    if is_model or not callable(found):
        return found
    return found()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the first line of output is the address."""
    parser = argparse.ArgumentParser(prog="python -m worker.devserver", description=__doc__)
    parser.add_argument("--model", required=True, help="package.module:attribute, or its factory")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; loopback")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--strict", action="store_true", help="refuse what strict providers refuse")
    given = parser.parse_args(arguments)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    server = ModelServer(
        load(given.model),
        strict=Strict() if given.strict else None,
        latency=given.latency,
        port=given.port,
        host=given.host,
        keep_requests=False,
    )
    with server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        over.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
