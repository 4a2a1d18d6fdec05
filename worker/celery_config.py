"""Celery settings that jobs need, each with its reason.

``OURS`` is for an app of our own. ``protect`` is for any app: it sets only what would otherwise
break a promise, and only on our tasks where Celery allows that.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.worker.consumer import Consumer

from api_client.celery_urls import for_celery
from api_client.errors import InvalidInput
from api_client.sealed_results import NAME as SEALED_RESULTS
from api_client.sealed_results import sealed_results
from api_client.sealing import keyring
from api_client.signing import SERIALIZER, signed
from worker import watching
from worker.consumer import OneByOne
from worker.settings import Settings

# One place for the socket options of broker and backend: without a time-out, a connection whose
# other end vanished silently hangs the worker for good.
_SOCKETS: dict[str, Any] = {
    "socket_timeout": 5,
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 5,
}
RESULT_EXPIRES_S = 30 * 24 * 3600


def ours(settings: Settings) -> dict[str, Any]:
    """Settings of an app that runs nothing but agents.

    Raises:
        InvalidInput: a URL cannot be used.
    """
    broker = for_celery(settings.broker_url or settings.redis_url)
    backend = for_celery(settings.result_backend or settings.redis_url)
    return {
        "broker_url": broker.url,
        "result_backend": backend.url,
        # JSON only (rule 14).
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        # Early acknowledgement and no prefetch: durability is the store's. Late acknowledgement
        # duplicates running tasks on a mere connection cut.
        "task_acks_late": False,
        "worker_disable_prefetch": broker.is_redis,
        "worker_prefetch_multiplier": 1,
        "worker_consumer": Consumer if broker.is_redis else OneByOne,
        # A stale duplicate must not overwrite a final state with STARTED.
        "task_track_started": False,
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        # Wait for the broker for as long as it takes, and survive its refusals.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_transport_options": broker.options
        | (_SOCKETS if broker.is_redis else {})
        | (watching.TRANSPORT_OPTIONS if settings.watch_only and broker.is_redis else {}),
        "broker_use_ssl": broker.tls,
        "control_exchange": watching.EXCHANGE if settings.watch_only else "celery",
        "result_backend_transport_options": backend.options,
        "redis_socket_timeout": _SOCKETS["socket_timeout"],
        "redis_socket_connect_timeout": _SOCKETS["socket_connect_timeout"],
        "redis_socket_keepalive": _SOCKETS["socket_keepalive"],
        # Without it an outage of the backend turns a finished task into a failed one.
        "result_backend_always_retry": True,
        # A job may be paused for longer than a day.
        "result_expires": RESULT_EXPIRES_S,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        **signed(settings),
        **sealed_results(),
    }


def bare_app(settings: Settings) -> Celery:
    """An app with the settings of our workers, that has no tasks: to ask and to look.

    Raises:
        InvalidInput: a setting cannot be used.
    """
    app = Celery("stepkeeper", set_as_current=False)
    app.conf.update(ours(settings))
    return app


def protect(app: Celery) -> None:
    """Refuse settings of an existing app that would break a promise, and keys that are none.

    Raises:
        InvalidInput: names the setting and the value to give it.
    """
    keyring()
    accepted = set(app.conf.accept_content or ())
    if accepted & {"pickle", "application/x-python-serialize"}:
        raise InvalidInput(
            f"Celery setting accept_content={sorted(accepted)!r}: jobs are JSON only; "
            "set accept_content=['json']"
        )
    readable = app.conf.task_serializer in ("json", SERIALIZER)
    if not readable or app.conf.result_serializer not in ("json", SEALED_RESULTS):
        raise InvalidInput(
            f"Celery settings task_serializer={app.conf.task_serializer!r}, "
            f"result_serializer={app.conf.result_serializer!r}: "
            "set both to 'json' (the first may be 'auth')"
        )


def check_backend(app: Celery) -> None:
    """Refuse a result backend in which nobody would find a job's answer.

    Raises:
        InvalidInput: names the setting, its value and what to use in its place.
    """
    if harm := harm_of_backend(app.conf):
        raise InvalidInput(
            f"Celery setting result_backend={app.conf.result_backend!r}: {harm}; use redis://…, "
            "db+…:// or file://…"
        )


def harm_of_backend(conf: Any) -> str:
    """Why nobody would find an answer in the result backend of these settings; empty if one can."""
    scheme = str(conf.result_backend or "").partition(":")[0]
    if scheme == "rpc":
        return (
            "a result goes as a message to the program that submitted, which may be gone when a "
            "person has answered, and to no other"
        )
    if scheme == "cache+memory" and not str(conf.broker_url or "").startswith("memory:"):
        return "results stay in the memory of the worker"
    return ""


def check_pool(settings: Settings, pool: Any) -> str:
    """Refuse a pool that cannot keep the promises; returns its name, such as ``prefork``.

    Raises:
        InvalidInput: names the pool and what to use in its place.
    """
    name = getattr(pool, "__module__", str(pool)).rpartition(".")[2]
    if name in ("gevent", "eventlet"):
        raise InvalidInput(f"pool {name!r} is not supported; use --pool=threads or --pool=prefork")
    if settings.in_flight and name != "thread":
        raise InvalidInput(
            f"STEPKEEPER_IN_FLIGHT={settings.in_flight} needs --pool=threads, not {name!r}"
        )
    return str(name)
