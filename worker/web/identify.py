"""Finding out who is asking: by an API key, or by sitting at this machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from worker.web.callers import LOCAL, Caller
from worker.web.desk import Desk
from worker.web.parts import Parts
from worker.web.problems import Problem

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_OWN_SITES = ("same-origin", "none")

bearer = HTTPBearer(
    auto_error=False, scheme_name="key", description="An API key: `stepkeeper keys create`."
)


def parts_of(request: Request) -> Parts:
    """The parts of the server that a request has come to."""
    return cast("Parts", request.app.state.parts)


def identify(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Caller:
    """The caller, who has not asked too often.

    Raises:
        Problem: 401 or 429.
        StoreUnavailable
    """
    parts = parts_of(request)
    caller = parts.ring.check(given.credentials) if given else _keyless(parts, request)
    if caller is None:
        take(parts, f"ip:{_address(request)}")
        wrong = "this key is not valid" if given else "send an API key"
        raise Problem(
            401,
            "no-key",
            f"{wrong}: Authorization: Bearer sk_…",
            headers={"WWW-Authenticate": 'Bearer realm="stepkeeper"'},
        )
    take(parts, caller.id or "local")
    return caller


def _keyless(parts: Parts, request: Request) -> Caller | None:
    return LOCAL if parts.settings.keyless_loopback and is_local(request) else None


def is_local(request: Request) -> bool:
    """Whether a request was made on this machine, by a program or by a page of ours.

    A page of another site can't pass: its browser says where it comes from, and a name that only
    pretends to be this machine stands in ``Host``. Nor can anything behind a proxy.
    """
    headers = request.headers
    return (
        _is_loopback(_address(request))
        and urlsplit(f"//{headers.get('host', '')}").hostname in LOCAL_HOSTS
        and not any(name in headers for name in _FORWARDED)
        and is_own_page(headers)
    )


def is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser would have let a page of this very site make the request."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return False
    return headers.get("sec-fetch-site", "none") in _OWN_SITES


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def take(parts: Parts, name: str) -> None:
    """Count one request.

    Raises:
        Problem: 429; says when the next one is welcome.
    """
    wait_s = parts.limit.take(name)
    if wait_s:
        raise Problem(
            429,
            "too-many",
            f"this key has made its requests for now; the next one in {wait_s:.1f} s",
            headers={"Retry-After": str(math.ceil(wait_s))},
        )


def _desk(request: Request, caller: Annotated[Caller, Depends(identify)]) -> Desk:
    return parts_of(request).desk(caller)


PartsHere = Annotated[Parts, Depends(parts_of)]
DeskHere = Annotated[Desk, Depends(_desk)]
