"""The process that runs one call of an isolated tool: ``python -m worker.tools.child``.

Reads one line of JSON from its standard input, writes one JSON document to its standard output.
What the tool prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import runpy
import threading
import traceback
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, BinaryIO

from worker.context import ActionContext, CallInfo, current_call
from worker.errors import PauseRequested, ToolFailed, ToolRetry
from worker.texts import ENGLISH
from worker.tools.base import ToolOptions
from worker.tools.build import build_tool
from worker.tools.isolate import LARGEST_ANSWER
from worker.tools.results import Unwritable, to_json


def main() -> None:
    """Serve the one request."""
    request_from, answer_to = _private_streams()
    request = json.loads(request_from.readline())
    threading.Thread(target=_end_with_parent, args=(request_from,), daemon=True).start()
    _be_first_to_die()
    answer_to.write(_answer(request))
    answer_to.flush()


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipe and the file to the worker, out of the tool's reach."""
    request_from, answer_to = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return os.fdopen(request_from, "rb"), os.fdopen(answer_to, "wb")


def _end_with_parent(pipe: BinaryIO) -> None:
    pipe.read()
    os._exit(1)


def _be_first_to_die() -> None:
    """Where the kernel runs out of memory, it should take this process and not the worker."""
    adjustment = Path("/proc/self/oom_score_adj")
    if adjustment.exists():
        adjustment.write_text("1000")


def _answer(request: dict[str, Any]) -> bytes:
    try:
        told = {"value": _run(request)}
    except ToolRetry as error:
        told = _error("retry", error.text)
    except ToolFailed as error:
        told = _error("failed", error.text)
    except PauseRequested as error:
        told = _error("pause", error.question, to_json(error.data))
    except Unwritable as error:
        told = _error("unwritable", str(error))
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
        told = _error("raised", type(error).__name__, _text(error), traceback.format_exc())
    answer = json.dumps(told).encode()
    if len(answer) > LARGEST_ANSWER:
        return json.dumps(_error("unwritable", f"a result of {len(answer)} bytes")).encode()
    return answer


def _error(kind: str, *args: Any) -> dict[str, Any]:
    return {"error": kind, "args": args}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception may fail even at this
        return ""


def _run(request: dict[str, Any]) -> Any:
    place = request["place"]
    given = place.pop("parameters")
    function = _find(**place)
    options: ToolOptions = {"name": "isolated", "isolate": False}
    if given is not None:
        options["parameters"] = given
    tool = build_tool(function, **options)
    values = tool.parse(request["arguments"], ENGLISH).values
    if tool.context_name:
        values[tool.context_name] = ActionContext()
    current_call.set(CallInfo(**request["call"]))
    result = function(**values)
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    return to_json(result)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _find(module: str, name: str, path: str | None) -> Callable[..., Any]:
    if path is None:
        found: Any = importlib.import_module(module)
    else:
        found = _Namespace(runpy.run_path(path, run_name="__stepkeeper_child__"))
    function: Callable[..., Any] = reduce(getattr, name.split("."), found)
    return function


class _Namespace:
    """What a script defined, as attributes."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__.update(names)


if __name__ == "__main__":
    main()
