"""Runs one call of a tool, and makes of whatever happens the observation that the model reads."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any

from worker.context import ActionContext, CallInfo, current_call
from worker.errors import PauseRequested, ToolFailed, ToolRegistrationError, ToolRetry
from worker.redact import Redactor
from worker.texts import Texts
from worker.tools.arguments import Arguments
from worker.tools.isolate import Died, Raised, run_isolated
from worker.tools.results import Fit, Unwritable, clean, to_json, write
from worker.tools.seats import run_here_or_by
from worker.tools.threads import Outcome, TimedOut, TooManyLeftBehind, crew

if TYPE_CHECKING:
    from worker.tools.base import Tool

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the model reads of one call.

    Attributes:
        content: never empty, without secrets, cut to the tool's limit.
        value: the whole result as a JSON value without secrets, or None after an error.
        error: whether the call failed.
        full_length: length of the content before it was cut, in characters; None if it was not.
    """

    content: str
    value: Any = None
    error: bool = False
    full_length: int | None = None


@dataclass(slots=True)
class Surroundings:
    """What an invocation needs besides the call: the texts, what to hide, the length limit."""

    texts: Texts
    redactor: Redactor
    limit: int


def invoke(
    tool: Tool,
    arguments: Arguments,
    context: ActionContext | None,
    info: CallInfo,
    around: Surroundings,
) -> Observation:
    """Run one call; see ``Tool.invoke``."""
    kwargs = _keywords(tool, arguments, context)
    hiding = around.redactor.knowing(context)
    try:
        outcome = _run(tool, kwargs, arguments, info)
    except (TimedOut, TooManyLeftBehind, Died) as error:
        outcome = Outcome(error=error)
    if isinstance(outcome.error, PauseRequested):
        return _pause(tool, outcome.error, hiding, around)
    if outcome.error is not None:
        return _failed(tool, outcome.error, hiding, around)
    return _succeeded(tool, outcome.value, hiding, around)


def overdue(tool: Tool, context: ActionContext | None, around: Surroundings) -> Observation:
    """What the model reads of a call that has been left behind."""
    return _failed(tool, TimedOut(), around.redactor.knowing(context), around)


def _keywords(tool: Tool, arguments: Arguments, context: ActionContext | None) -> dict[str, Any]:
    kwargs = tool.reader.fresh(arguments)
    if tool.context_name is not None and tool.context_type is not None:
        kwargs[tool.context_name] = _injected(tool, tool.context_type, context)
    return kwargs


def _injected(
    tool: Tool, wanted: type[ActionContext], context: ActionContext | None
) -> ActionContext | None:
    if isinstance(context, wanted):
        return context
    if wanted is ActionContext:
        return ActionContext()
    if context is None and tool.context_optional:
        return None
    raise ToolRegistrationError(
        f"tool {tool.name!r} needs a context of class {wanted.__name__}, but this job has "
        f"{'none' if context is None else type(context).__name__}"
    )


def _run(tool: Tool, kwargs: dict[str, Any], arguments: Arguments, info: CallInfo) -> Outcome:
    if tool.place is not None:
        return run_isolated(tool.place, arguments.canonical, info, tool.timeout)
    context = copy_context()
    context.run(current_call.set, info)
    call = partial(tool.function, **kwargs)
    if tool.is_async:
        return crew().run_async(call, context, tool.timeout)
    outcome = run_here_or_by(crew(), call, context, tool.timeout)
    if type(outcome.value) is not str and isawaitable(outcome.value):
        return _await(outcome.value, context, tool.timeout)
    return outcome


def _await(awaitable: Awaitable[Any], context: Context, seconds: float) -> Outcome:
    """Await what a plain function has returned, for example a wrapped coroutine function."""
    try:
        return crew().run_async(lambda: awaitable, context, seconds)
    except TooManyLeftBehind:
        if iscoroutine(awaitable):
            awaitable.close()
        raise


def _pause(
    tool: Tool, error: PauseRequested, hiding: Redactor, around: Surroundings
) -> Observation:
    try:
        data = to_json(error.data)
    except (Unwritable, RecursionError) as unwritable:
        return _failed(tool, unwritable, hiding, around)
    raise PauseRequested(hiding.text(clean(error.question)), hiding.value(data)) from None


def _succeeded(tool: Tool, result: Any, hiding: Redactor, around: Surroundings) -> Observation:
    try:
        written = write(result, around.texts)
    except Exception as error:  # noqa: BLE001 - attributes of a result may raise anything
        return _failed(tool, error, hiding, around)
    if len(written.content) <= around.limit:
        content = hiding.text(written.content)
    else:
        fit = Fit(around.limit, tool.cut, hiding.longest)
        content = fit.apply(written.content, hiding.text, around.texts)
    if content == written.content:
        return Observation(content, written.value)
    cut = len(written.content) if len(written.content) > around.limit else None
    return Observation(content, hiding.value(written.value), full_length=cut)


def _failed(
    tool: Tool, error: BaseException, hiding: Redactor, around: Surroundings
) -> Observation:
    error = _single(error)
    _log(tool, error, hiding)
    fit = Fit(around.limit, "head", hiding.longest)

    def hide(text: str) -> str:
        return fit.apply(clean(text), hiding.error, around.texts)

    told = _told(tool, error, hide, around.texts)
    # Its frames hold the job's values, and they hold it: together they would outlive the call.
    error.__traceback__ = None
    return Observation(told, error=True)


def _single(error: BaseException) -> BaseException:
    """The only exception in a group, as a failing task group raises it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _told(tool: Tool, error: BaseException, hide: Callable[[str], str], texts: Texts) -> str:
    match error:
        case TimedOut():
            return texts.timeout(tool.timeout)
        case TooManyLeftBehind(count=count):
            return texts.overloaded(count)
        case Died():
            return texts.died(str(error))
        case Unwritable():
            return texts.unwritable(hide(str(error)))
        case ToolRetry(text=text):
            return texts.tool_retry(hide(text))
        case ToolFailed(text=text):
            return texts.tool_failed(hide(text))
        case Raised(kind=kind):
            return texts.tool_error(kind, hide(str(error)))
    return texts.tool_error(type(error).__name__, hide(text_of(error)))


def text_of(error: BaseException) -> str:
    """The text of an exception, or nothing if making it fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception of the tool's own may fail even at this
        return ""


def _log(tool: Tool, error: BaseException, hiding: Redactor) -> None:
    """Tell the operator what the model is not shown: the traceback, without secrets."""
    if isinstance(error, (ToolRetry, ToolFailed)):
        return
    if isinstance(error, (TimedOut, TooManyLeftBehind, Died, Unwritable)):
        log.warning("tool %s: %s %s", tool.name, type(error).__name__, error)
        return
    lines = [error.trace] if isinstance(error, Raised) else traceback.format_exception(error)
    log.warning("tool %s raised an error\n%s", tool.name, hiding.error("".join(lines)))
