"""Opening Redis: one place that knows URLs, time-outs and which errors mean "not now".

Takes ``redis://``, ``rediss://`` and ``unix://`` URLs as redis-py defines them, and
``sentinel://USER:PASSWORD@host:port,host:port/DB?master=NAME`` for a primary found through Redis
Sentinel (``sentinel_username`` and ``sentinel_password`` in the query, if the sentinels ask).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel

from api_client.errors import InvalidInput, StoreUnavailable

Client = Any
"""A redis-py client; its replies are typed as unions of every protocol, which helps nobody."""

DEFAULT_URL = "redis://127.0.0.1:6379/0"
SENTINEL_PORT = 26379
SENTINEL_TIMEOUT_S = 1.0

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
# What the server says of a command inside a script is another line, without the word.
_REFUSED_INSIDE = re.compile(r"ACL failure|The user executing the script can't")
# redis-py cuts the word off the text of the errors for which it has a class.
_CUT_OFF: tuple[tuple[type[ResponseError], str], ...] = (
    (ReadOnlyError, "READONLY"),
    (OutOfMemoryError, "OOM"),
    (NoPermissionError, "NOPERM"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
    (TryAgainError, "TRYAGAIN"),
)


def connect(url: str, *, timeout_s: float = 5.0, max_connections: int = 64) -> Client:
    """A client for ``url``; opens no connection yet.

    Each call comes back within ``timeout_s``, or twice that where an idle connection is checked
    first: a refused or broken connection is tried again at once, but a silent server is not asked
    a second time. Whoever can wait for longer does it outside.

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
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), 2, (RedisConnectionError,)),
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
        else:
            _database(url)
        client = redis.Redis.from_url(url, max_connections=max_connections, **options)
        _try_options(client)
        return client
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"Redis URL {describe(url)!r}: {error}") from None


def _database(url: str) -> int:
    """The number of the database that the path names; redis-py passes over what is no number.

    Raises:
        ValueError: the path is something else.
    """
    name = urlsplit(url).path.strip("/")
    if name and not (name.isascii() and name.isdigit()):
        raise ValueError(f"database {name!r} is no number; write for example /0")
    return int(name or 0)


def _try_options(client: Client) -> None:
    """Make a connection, which opens nothing yet but refuses unknown options of the URL.

    Raises:
        ValueError: there is such an option.
    """
    pool = client.connection_pool
    try:
        pool.connection_class(**pool.connection_kwargs)
    except TypeError as error:
        name = str(error).rpartition(" ")[2].strip("'")
        raise ValueError(f"{name!r} is no option of a Redis connection") from None


def _sentinel(url: str, options: dict[str, Any], max_connections: int) -> Client:
    place = SentinelUrl.parse(url)
    sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
        place.hosts, sentinel_kwargs=place.sentinel_options, **options
    )
    return sentinel.master_for(
        place.master,
        db=place.db,
        username=place.username,
        password=place.password,
        max_connections=max_connections,
    )


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """What a ``sentinel://`` URL says.

    Attributes:
        hosts: of the sentinels, with their ports.
        master: the name under which they watch the primary.
        db, username, password: of the primary.
        sentinel_options: redis-py's options for the connections to the sentinels themselves.
    """

    hosts: tuple[tuple[str, int], ...]
    master: str
    db: int
    username: str | None
    password: str | None
    sentinel_options: dict[str, Any]

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read a URL of the form in the module's first lines.

        Raises:
            ValueError: a port or the database is no number, or no host is named.
        """
        parts = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        options: dict[str, Any] = {
            "socket_timeout": SENTINEL_TIMEOUT_S,
            "socket_connect_timeout": SENTINEL_TIMEOUT_S,
        }
        for name in ("username", "password"):
            if f"sentinel_{name}" in query:
                options[name] = query[f"sentinel_{name}"]
        return cls(
            hosts=tuple(map(_host_and_port, parts.netloc.rpartition("@")[2].split(","))),
            master=query.get("master", "mymaster"),
            db=_database(url),
            username=unquote(user) or None,
            password=unquote(password) or None,
            sentinel_options=options,
        )


def _host_and_port(item: str) -> tuple[str, int]:
    place = urlsplit(f"//{item}")
    if not place.hostname:
        raise ValueError(f"{item!r} names no host; write sentinel://host:port,host:port/0?master=…")
    return place.hostname, place.port or SENTINEL_PORT


def describe(url: str) -> str:
    """The URL without user, password and query: what may stand in an error or a log."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@contextmanager
def translated(where: str, act: str = "") -> Iterator[None]:
    """Turn redis-py's errors into ours.

    Args:
        act: what is done to jobs (``api_client.permits``), for who is not allowed to.

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
        text = _whole_line(error)
        if text.startswith("NOPERM") or _REFUSED_INSIDE.search(text):
            raise StoreUnavailable(f"Redis at {where} refuses: {text}; {_needed(act)}") from error
        if not text.startswith(_NOT_NOW) and not any(f" {word} " in text for word in _NOT_NOW):
            raise
        raise StoreUnavailable(f"Redis at {where} refuses: {text}") from error
    except RedisError as error:
        raise StoreUnavailable(f"Redis at {where}: {_first_line(error)}") from error


def _needed(act: str) -> str:
    """What a user lacks, and where it would be given."""
    lacks = (
        f"the permission to {act}, ~{{sk:*}}:may:{act}, or a key or command of it"
        if act
        else ("the permission for that command or key")
    )
    return f"this user lacks {lacks}. Connect as one that has it, see deploy/redis/users.acl"


def _whole_line(error: ResponseError) -> str:
    """The server's own words, the word for programs first."""
    text = _first_line(error)
    for kind, word in _CUT_OFF:
        if isinstance(error, kind) and not text.startswith(word):
            return f"{word} {text}"
    return text


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")[:300]
