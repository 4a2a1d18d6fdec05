"""Our URLs as Celery and kombu spell them: one setting is enough for store and broker.

``rediss://`` and ``amqps://`` check the server's certificate and name. Files stand in the query of
both: ``?ssl_ca_certs=/ca.pem&ssl_certfile=/me.pem&ssl_keyfile=/me.key``.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from api_client.connection import SentinelUrl, describe
from api_client.errors import InvalidInput

_FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_REQS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL}
_REDIS = ("redis", "rediss", "redis+socket", "sentinel")


@dataclass(frozen=True, slots=True)
class CeleryUrl:
    """A broker or result backend.

    Attributes:
        url: for ``broker_url`` or ``result_backend``.
        options: what belongs beside it into the transport options.
        tls: for ``broker_use_ssl``; ``None`` without TLS.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    tls: dict[str, Any] | None = None

    @property
    def is_redis(self) -> bool:
        """Whether Redis is behind it, so that options of Redis connections apply."""
        return urlsplit(self.url.partition(";")[0]).scheme in _REDIS


def for_celery(url: str) -> CeleryUrl:
    """The URL in Celery's spelling; what is not ours (``amqp://`` …) stays as it is.

    Raises:
        InvalidInput: a ``sentinel://`` URL of another form, or an option of TLS that is none.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sentinel":
        return _sentinel(url)
    if scheme == "unix":
        return CeleryUrl(_socket(url))
    if scheme == "rediss":
        return _checked(url)
    if scheme == "amqps":
        return _amqps(url)
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


def _checked(url: str) -> CeleryUrl:
    """Celery wants to be told that certificates are checked, which is redis-py's default.

    Flower reads the same from ``broker_use_ssl``, and does without the URL's query.
    """
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    reqs = query.setdefault("ssl_cert_reqs", ["required"])[-1]
    tls: dict[str, Any] = {name: values[-1] for name, values in query.items() if name in _FILES}
    tls["ssl_cert_reqs"] = _REQS.get(reqs, ssl.CERT_REQUIRED)
    return CeleryUrl(parts._replace(query=urlencode(query, doseq=True)).geturl(), tls=tls)


def _amqps(url: str) -> CeleryUrl:
    """The query moves into ``broker_use_ssl``, under py-amqp's names; it is not checked without."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if unknown := sorted(set(query) - _FILES):
        raise InvalidInput(
            f"broker URL {describe(url)!r}: {unknown[0]} is no option of it; there are "
            f"{', '.join(sorted(_FILES))}"
        )
    files = {name.removeprefix("ssl_"): value for name, value in query.items()}
    # kombu puts the host's name where there is none, so that it is checked as well.
    tls = {**files, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}
    return CeleryUrl(parts._replace(query="").geturl(), tls=tls)
