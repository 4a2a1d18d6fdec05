"""Results in Celery's result backend that are encrypted, with the keys of the store.

A serializer of Celery's own kind, so everything that reads results by an app with these settings
goes on as before. The result of a task that is no job is encrypted as well: the backend does not
tell its serializer whose result it is, so here nothing binds a text to its task.
"""

from __future__ import annotations

import base64
from typing import Any

import kombu.serialization
from kombu.utils.json import dumps, loads

from api_client.sealing import IN_THE_CLEAR, CannotOpen, keyring

NAME = "stepkeeper-sealed"
_CONTENT_TYPE = "application/x-stepkeeper-sealed"
_NO_JOB = "*"
_PLACE = "result"


def sealed_results() -> dict[str, Any]:
    """Celery's settings for encrypted results; none if this process has no keys.

    Raises:
        InvalidInput: a key cannot be used.
    """
    if not keyring():
        return {}
    register()
    return {"result_serializer": NAME, "result_accept_content": [NAME, "json"]}


def register() -> None:
    """Let Celery know of the serializer."""
    registry: Any = kombu.serialization.registry  # type: ignore[attr-defined]
    registry.register(NAME, _write, _read, content_type=_CONTENT_TYPE, content_encoding="utf-8")


def _write(value: Any) -> str:
    return seal_result(dumps(value).encode())


def _read(text: str | bytes) -> Any:
    return loads(open_result(text.encode() if isinstance(text, str) else text))


def seal_result(text: bytes) -> str:
    """What is stored in place of a result's JSON."""
    return base64.b64encode(keyring().seal(text, _NO_JOB, _PLACE)).decode()


def open_result(stored: bytes) -> bytes:
    """The JSON of a result; of one that was stored before there were keys, what is stored.

    Raises:
        CannotOpen: its key is not here; or it is not sealed, and must be.
        ValueError: it is neither JSON nor sealed.
    """
    if not stored.startswith((b"{", b"[")):
        return keyring().open(base64.b64decode(stored, validate=True), _NO_JOB, _PLACE)
    if keyring().required:
        raise CannotOpen(IN_THE_CLEAR)
    return stored
