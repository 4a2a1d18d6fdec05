"""Celery settings that harm jobs: one line a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from api_client.sealed_results import NAME
from worker.celery_config import harm_of_backend
from worker.doctor.findings import Finding, Findings, Level
from worker.settings import Settings

AREA = "celery"
_PICKLE = {"pickle", "application/x-python-serialize"}
_WEEK_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting.

    Attributes:
        harms: given the value and our settings, whether it does.
        what: what comes of it; ``{value}`` stands for the value.
        fix: the value to give it.
    """

    setting: str
    level: Level
    harms: Callable[[Any, Settings], bool]
    what: str
    fix: str


def _true(value: Any, _: Settings) -> bool:
    return bool(value)


def _false(value: Any, _: Settings) -> bool:
    return not value


def _short_expiry(value: Any, _: Settings) -> bool:
    """Whether results are forgotten within a week; without a value, never."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return bool(seconds) and float(seconds) < _WEEK_S


RULES = (
    Rule(
        "task_acks_late", "error", _true,
        "tasks are acknowledged late: a lost connection runs them twice, and may end the worker",
        "False (give single tasks acks_late=True if they need it)",
    ),
    Rule(
        "task_reject_on_worker_lost", "error", _true,
        "a task that kills its process is queued again without an end",
        "False; jobs count their attempts themselves",
    ),
    Rule(
        "worker_disable_prefetch", "warning", _false,
        "a worker reserves messages that it cannot run yet: others idle, and a lost connection "
        "may end it",
        "True",
    ),
    Rule(
        "worker_prefetch_multiplier", "warning", lambda value, _: value != 1,
        "a worker reserves {value} messages for each slot; long jobs wait behind each other",
        "1",
    ),
    Rule(
        "accept_content", "error", lambda value, _: bool(_PICKLE & set(value or ())),
        "pickled messages are accepted: who may write to the broker may run any code",
        "['json']",
    ),
    Rule(
        "task_serializer", "error", lambda value, _: value not in ("json", "auth"),
        "messages are written as {value}; jobs are JSON only",
        "'json'",
    ),
    Rule(
        "result_serializer", "error", lambda value, _: value not in ("json", NAME),
        "results are written as {value}; jobs are JSON only",
        "'json'",
    ),
    Rule(
        "result_backend", "error", lambda value, _: not value or str(value).startswith("disabled"),
        "there is no result backend: AsyncResult, chains and chords never see an answer",
        "such as redis://…",
    ),
    Rule(
        "result_expires", "warning", _short_expiry,
        "results are forgotten after {value}: a job that is paused for longer looks unknown",
        "2592000 (30 days)",
    ),
    Rule(
        "task_ignore_result", "error", _true,
        "results are thrown away: AsyncResult, chains and chords never see an answer",
        "False",
    ),
    Rule(
        "result_backend_always_retry", "warning", _false,
        "an outage of the result backend turns a job that ended well into a failed task",
        "True",
    ),
    Rule(
        "task_track_started", "warning", _true,
        "a doubled message may overwrite a final state with STARTED",
        "False",
    ),
    Rule(
        "task_always_eager", "error", _true,
        "tasks run in the program that submits them: nothing of a job is durable",
        "False",
    ),
    Rule(
        "broker_connection_max_retries", "warning", lambda value, _: value not in (None, 0),
        "workers give up on the broker after {value} tries",
        "None",
    ),
    Rule(
        "broker_channel_error_retry", "warning", _false,
        "a refusal by the broker, as in a failover, ends the worker",
        "True",
    ),
    Rule(
        "worker_send_task_events", "warning", _false,
        "workers send no events: Flower and `celery events` show no job",
        "True",
    ),
    Rule(
        "worker_enable_remote_control", "warning", _false,
        "workers hear no commands: inspect, control and revoke reach nobody",
        "True",
    ),
    Rule(
        "task_time_limit", "warning", lambda value, _: bool(value),
        "a slice of a job is killed after {value} s, in the middle of a call",
        "None; budget the agent with max_active_s and its tools with timeout",
    ),
    Rule(
        "worker_cancel_long_running_tasks_on_connection_loss", "warning", _true,
        "a lost broker connection kills running calls; jobs do not need that",
        "False",
    ),
)  # fmt: skip


def check(conf: Any, settings: Settings) -> Findings:
    """All rules, over the settings of an app.

    Args:
        conf: ``app.conf``, or anything with the settings as attributes.
    """
    for rule in RULES:
        value = getattr(conf, rule.setting, None)
        if rule.harms(value, settings):
            what = f"{rule.setting}={value!r}: {rule.what.format(value=value)}"
            yield Finding(rule.level, AREA, rule.setting, what, f"{rule.setting} = {rule.fix}")
    yield from _backend(conf)
    yield from _transport(conf, settings)


def _backend(conf: Any) -> Findings:
    """A result backend that stores, but where nobody finds it."""
    if harm := harm_of_backend(conf):
        what = f"result_backend={conf.result_backend!r}: {harm}"
        yield Finding("error", AREA, "result_backend", what, "result_backend = such as redis://…")


def _transport(conf: Any, settings: Settings) -> Findings:
    """Options of a Redis broker's connections."""
    if not str(getattr(conf, "broker_url", "") or "").startswith(("redis", "sentinel", "unix")):
        return
    options = getattr(conf, "broker_transport_options", None) or {}
    visible_s = options.get("visibility_timeout", 3600)
    if visible_s < max(60.0, 2 * settings.lease_s):
        yield Finding(
            "error", AREA, "broker_transport_options",
            f"visibility_timeout={visible_s:g} s, with leases of {settings.lease_s:g} s: messages "
            "of running tasks are delivered again",
            "broker_transport_options['visibility_timeout'] = 3600",
        )  # fmt: skip
    if not options.get("socket_timeout"):
        yield Finding(
            "warning", AREA, "broker_transport_options",
            "no socket_timeout: a connection whose other end vanished hangs the worker for good",
            "broker_transport_options['socket_timeout'] = 5",
        )  # fmt: skip
