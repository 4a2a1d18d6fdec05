"""Fixtures for tests of tools: running one call the way the loop does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from worker.context import ActionContext, CallInfo
from worker.tools import Observation, Tool, as_tool

INFO = CallInfo(job_id="job-1", call_id="call_1", step=1, attempt=1, idempotency_key="job-1:call_1")


class Run(Protocol):
    """Parses arguments and runs one call."""

    def __call__(
        self,
        function: Callable[..., Any] | Tool,
        arguments: str = "{}",
        context: ActionContext | None = None,
        **kwargs: Any,
    ) -> Observation: ...


@pytest.fixture
def info() -> CallInfo:
    return INFO


@pytest.fixture
def run() -> Run:
    def run_one(
        function: Callable[..., Any] | Tool,
        arguments: str = "{}",
        context: ActionContext | None = None,
        **kwargs: Any,
    ) -> Observation:
        tool = as_tool(function)
        return tool.invoke(tool.parse(arguments), context, INFO, **kwargs)

    return run_one
