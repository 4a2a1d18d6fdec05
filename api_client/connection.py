"""Opening Redis: one place that knows URLs, time-outs and which errors mean "not now".

Takes ``redis://``, ``rediss://`` and ``unix://`` URLs as redis-py defines them, and
``sentinel://host:port,host:port/DB?master=NAME`` for a primary found through Redis Sentinel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel

from api_client.errors import InvalidInput, StoreUnavailable

Client = Any
"""A redis-py client; its replies are typed as unions of every protocol, which helps nobody."""

DEFAULT_URL = "redis://127.0.0.1:6379/0"

_SCHEMES = ("redis", "rediss", "unix", "sentinel")
_NOT_NOW = (
    "READONLY",
    "OOM",
    "LOADING",
    "MASTERDOWN",
    "NOREPLICAS",
    "MISCONF",
    "BUSY",
    "NOAUTH",
    "NOPERM",
    "WRONGPASS",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MAXCLIENTS",
)


def connect(url: str, *, timeout_s: float = 5.0, max_connections: int = 64) -> Client:
    """A client for ``url``; opens no connection yet.

    Args:
        url: see the module's first lines.
        timeout_s: bound on connecting and on each reply, in seconds.
        max_connections: most sockets of this client.

    Raises:
        InvalidInput: the URL has another form.
    """
    options: dict[str, Any] = {
        "protocol": 2,  # one form of replies, whatever the library's default
        "socket_timeout": timeout_s,
        "socket_connect_timeout": min(timeout_s, 3.0),
        "socket_keepalive": True,
        "health_check_interval": 30,
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), 2),
    }
    scheme = urlsplit(url).scheme
    if scheme not in _SCHEMES:
        raise InvalidInput(
            f"Redis URL {describe(url)!r}: begins with none of {', '.join(_SCHEMES)}; "
            "write for example redis://127.0.0.1:6379/0"
        )
    try:
        if scheme == "sentinel":
            return _sentinel(url, options, max_connections)
        if scheme == "unix":
            options.pop("socket_keepalive")
        return redis.Redis.from_url(url, max_connections=max_connections, **options)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"Redis URL {describe(url)!r}: {error}") from None


def _sentinel(url: str, options: dict[str, Any], max_connections: int) -> Client:
    parts = urlsplit(url)
    name = parse_qs(parts.query).get("master", ["mymaster"])[0]
    hosts = [_host_and_port(item) for item in parts.netloc.rpartition("@")[2].split(",")]
    credentials = parts.netloc.rpartition("@")[0].partition(":")
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
        hosts, sentinel_kwargs={"socket_timeout": 1.0}, **options
    )
    return sentinel.master_for(
        name,
        db=int(parts.path.strip("/") or 0),
        username=unquote(credentials[0]) or None,
        password=unquote(credentials[2]) or None,
        max_connections=max_connections,
    )


def _host_and_port(item: str) -> tuple[str, int]:
    host, _, port = item.rpartition(":")
    return (host or item, int(port) if host else 26379)


def describe(url: str) -> str:
    """The URL without user, password and query: what may stand in an error or a log."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn redis-py's errors into ours.

    Raises:
        StoreUnavailable: Redis cannot be reached, or refuses the command for now.
    """
    try:
        yield
    except (RedisConnectionError, RedisTimeoutError) as error:
        raise StoreUnavailable(
            f"cannot reach Redis at {where} ({_first_line(error)}); "
            "check STEPKEEPER_REDIS_URL and that the server runs"
        ) from error
    except ResponseError as error:
        text = _first_line(error)
        if not text.startswith(_NOT_NOW) and not any(f" {word} " in text for word in _NOT_NOW):
            raise
        raise StoreUnavailable(f"Redis at {where} refuses: {text}") from error
    except RedisError as error:
        raise StoreUnavailable(f"Redis at {where}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")[:300]
