"""The form of log lines in our own app: for people, or JSON; Celery's own among them.

Every line says to which job and step it belongs, whoever wrote it: a tool, a library, Celery.
Secrets are taken out: those that the worker's environment holds, those of the job's hidden
context, and whatever looks like one. In a foreign app none of this is used.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any, Literal

from celery.app.log import Logging
from celery.utils.log import get_logger

from api_client.contract import TASK_PREFIX
from worker.redact import Redactor, environment_secrets
from worker.telemetry.binding import bound

LogFormat = Literal["console", "json"]

_CELERYS_TRACE = "celery.app.trace"
_COLORS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[1;31m"}


class AgentLogging(Logging):
    """How an app of ours sets up logging; ``app.log_cls``."""

    def setup_handlers(
        self,
        logger: logging.Logger,
        logfile: Any,
        format: str,  # noqa: ARG002 - ours has its own
        colorize: bool | None,
        formatter: Any = None,  # noqa: ARG002
        datefmt: str | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> logging.Logger:
        """Give a logger a handler with our format, unless it has one."""
        logging_of_celery: Any = super()
        if not logging_of_celery._is_configured(logger):
            handler = logging_of_celery._detect_handler(logfile)
            kind = self.app.stepkeeper.settings.log_format  # type: ignore[attr-defined]
            redactor = Redactor(environment_secrets(os.environ))
            handler.setFormatter(make_formatter(kind, redactor, color=bool(colorize)))
            logger.addHandler(handler)
        return logger

    def setup_task_loggers(self, *_: Any, **__: Any) -> logging.Logger:
        """Task loggers write through the root logger: their lines are like all others."""
        logger: logging.Logger = get_logger("celery.task")
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        return logger


def make_formatter(kind: LogFormat, redactor: Redactor, *, color: bool) -> logging.Formatter:
    """A formatter; ``color`` is for people at a terminal only."""
    return JsonFormatter(redactor) if kind == "json" else ConsoleFormatter(redactor, color)


class _Redacting(logging.Formatter):
    """What both formats share."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def _hidden(self, text: str, *, strict: bool = False) -> str:
        """The text without secrets; ``strict`` for what nobody wrote on purpose."""
        here = bound()
        for redactor in (self._redactor, *((here.redactor,) if here else ())):
            text = redactor.error(text) if strict else redactor.text(text)
        return text

    def _message(self, record: logging.LogRecord) -> str:
        """The text; Celery would add a job's answer or failure to it, which is not for the log."""
        args = record.args
        if record.name == _CELERYS_TRACE and isinstance(args, dict):
            content = {name: "(not shown)" for name in ("return_value", "exc") if name in args}
            if str(args.get("name")).startswith(TASK_PREFIX) and content:
                return self._hidden(str(record.msg) % {**args, **content})
        return self._hidden(record.getMessage())

    def _traceback(self, record: logging.LogRecord) -> str:
        parts = []
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        elif record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return self._hidden("\n".join(parts), strict=True)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The job that the running code belongs to, and what the record says of itself."""
        here = bound()
        fields: dict[str, Any] = dict(here.fields) if here else {}
        return {**fields, **getattr(record, "fields", {})}


class JsonFormatter(_Redacting):
    """One JSON object a line: ``at``, ``level``, ``logger``, ``message``, ``pid``, and ``job``,
    ``agent``, ``step``, ``event``, ``error`` (a traceback) where there are any.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
            "pid": record.process,
        }
        if event := getattr(record, "event", None):
            line["event"] = event
        for name, value in self._fields(record).items():
            line.setdefault(name, self._hidden(value) if isinstance(value, str) else value)
        if traceback := self._traceback(record):
            line["error"] = traceback
        return json.dumps(line, default=str)


class ConsoleFormatter(_Redacting):
    """Time, level, logger, text, and the job that it belongs to unless the text says so.

    Args:
        color: of warnings and errors.
    """

    def __init__(self, redactor: Redactor, color: bool) -> None:
        super().__init__(redactor)
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        """The record; line breaks in its text are kept and indented."""
        at = datetime.fromtimestamp(record.created).astimezone()
        clock = at.isoformat(sep=" ", timespec="milliseconds")
        text = self._message(record).replace("\n", "\n  ")
        fields = self._fields(record)
        where = "".join(
            f" {name}={fields[name]}"
            for name in ("job", "step")
            if name in fields and str(fields["job"]) not in text
        )
        line = f"{clock} {record.levelname:<8} {record.name}: {text}{where}"
        if traceback := self._traceback(record):
            line += "\n  " + traceback.replace("\n", "\n  ")
        color = _COLORS.get(record.levelno, "") if self._color else ""
        return f"{color}{line}\x1b[0m" if color else line
