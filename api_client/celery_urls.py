"""Our Redis URLs as Celery and kombu spell them: one setting is enough for store and broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from api_client.connection import SentinelUrl, describe
from api_client.errors import InvalidInput

_REDIS = ("redis", "rediss", "redis+socket", "sentinel")


@dataclass(frozen=True, slots=True)
class CeleryUrl:
    """A broker or result backend.

    Attributes:
        url: for ``broker_url`` or ``result_backend``.
        options: what belongs beside it into the transport options.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_redis(self) -> bool:
        """Whether Redis is behind it, so that options of Redis connections apply."""
        return urlsplit(self.url.partition(";")[0]).scheme in _REDIS


def for_celery(url: str) -> CeleryUrl:
    """The URL in Celery's spelling; what is not ours (``amqp://`` …) stays as it is.

    Raises:
        InvalidInput: a ``sentinel://`` URL of another form.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sentinel":
        return _sentinel(url)
    if scheme == "unix":
        return CeleryUrl(_socket(url))
    if scheme == "rediss":
        return CeleryUrl(_checked(url))
    return CeleryUrl(url)


def _sentinel(url: str) -> CeleryUrl:
    """One URL a sentinel, joined by semicolons; the primary's name stands in the options."""
    try:
        place = SentinelUrl.parse(url)
    except ValueError as error:
        raise InvalidInput(f"Redis URL {describe(url)!r}: {error}") from None
    login = ""
    if place.username or place.password:
        login = f"{quote(place.username or '', '')}:{quote(place.password or '', '')}@"
    urls = [f"sentinel://{login}{_bracketed(host)}:{port}/{place.db}" for host, port in place.hosts]
    options = {"master_name": place.master, "sentinel_kwargs": place.sentinel_options}
    return CeleryUrl(";".join(urls), options)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _socket(url: str) -> str:
    parts = urlsplit(url)
    db = parse_qs(parts.query).get("db", ["0"])[-1]
    return f"redis+socket://{parts.path}?virtual_host={db}"


def _checked(url: str) -> str:
    """Celery wants to be told that certificates are checked, which is redis-py's default."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    query.setdefault("ssl_cert_reqs", ["required"])
    return parts._replace(query=urlencode(query, doseq=True)).geturl()
