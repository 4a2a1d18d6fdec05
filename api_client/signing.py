"""Celery messages that are signed, by Celery's own serializer ``auth``.

A program that knows nothing of this package signs its messages with three lines of Celery's
configuration, which is why it is that serializer and no header of ours. What it signs is the body
of a message: arguments, and what a command says. The task's name and id stand in headers, which
it does not cover.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api_client.errors import InvalidInput
from api_client.protection import Protection

SERIALIZER = "auth"
_JSON = "application/json"
_FIELDS = ("signing_key", "signing_cert", "signing_cert_store")


def signed(settings: Protection) -> dict[str, Any]:
    """Celery's settings for signed messages; none if they are off.

    Registers the serializer in this process; other apps in it that use it sign in the same way.

    Raises:
        InvalidInput: a setting is missing, or what it names cannot be used; says which.
    """
    given = [name for name in _FIELDS if getattr(settings, name)]
    if not given:
        return {}
    for name in _FIELDS:
        if name not in given:
            raise InvalidInput(
                f"{_variable(given[0])} is set, and {_variable(name)} is not: signed messages "
                "need key, certificate and the folder of accepted certificates"
            )
    _register(settings)
    return {
        "task_serializer": SERIALIZER,
        "accept_content": [SERIALIZER],
        "result_accept_content": ["json"],
        "event_serializer": "json",
    }


def _variable(name: str) -> str:
    return f"STEPKEEPER_{name.upper()}"


def _register(settings: Protection) -> None:
    try:
        from celery.exceptions import SecurityError
        from celery.security.certificate import Certificate, FSCertStore
        from celery.security.key import PrivateKey
    except ImportError as error:
        raise InvalidInput(
            "signed messages need an extra: pip install 'stepkeeper[encryption]' "
            f"({error.name} is missing)"
        ) from None
    folder = Path(settings.signing_cert_store)
    if not folder.is_dir():
        raise InvalidInput(f"{_variable('signing_cert_store')}={str(folder)!r}: no such folder")
    key, cert = _text(settings, "signing_key"), _text(settings, "signing_cert")
    name = ""
    try:
        name = "signing_key"
        private = PrivateKey(key)
        name = "signing_cert"
        certificate = Certificate(cert)
        name = "signing_cert_store"
        store = FSCertStore(str(folder))
    except (SecurityError, ValueError, TypeError, OSError) as error:
        raise InvalidInput(f"{_variable(name)}={getattr(settings, name)!r}: {error}") from None
    _register_serializer(private, certificate, store)


def _register_serializer(key: Any, certificate: Any, store: Any) -> None:
    """Celery's serializer, which here takes nothing but JSON inside of a signed message."""
    import kombu.serialization
    from celery.exceptions import SecurityError
    from celery.security.serialization import SecureSerializer

    class SignedJson(SecureSerializer):  # type: ignore[misc, unused-ignore]
        # The signature does not cover the name of the inner form, so that is not believed.
        def _unpack(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            found: dict[str, Any] = super()._unpack(*args, **kwargs)  # type: ignore[misc]
            if found["content_type"] != _JSON:
                raise SecurityError(f"a signed message holds {found['content_type']!r}, not JSON")
            return found

    serializer = SignedJson(key, certificate, store)
    registry: Any = kombu.serialization.registry  # type: ignore[attr-defined]
    registry.register(
        SERIALIZER,
        serializer.serialize,
        serializer.deserialize,
        content_type="application/data",
        content_encoding="utf-8",
    )


def _text(settings: Protection, name: str) -> str:
    path = getattr(settings, name)
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{_variable(name)}={path!r}: {error}") from None
