"""Announcing by HTTP: one signed POST to a configured URL."""

from __future__ import annotations

import ipaddress
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from api_client.records import dumps
from api_client.webhooks import DELIVERY_HEADER, SIGNATURE_HEADER, sign


class NotDelivered(Exception):
    """An attempt failed; says why in one line."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A receiver must not send us to a place that nobody configured."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing: the redirect itself is the answer, and no success."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def post(url: str, said: Mapping[str, Any], secret: str, at: int, timeout_s: float) -> None:
    """Send one announcement; an answer of 200 to 299 accepts it.

    Args:
        at: seconds since the epoch, for the signature.
        timeout_s: bound on connecting and on each wait for an answer.

    Raises:
        NotDelivered
    """
    _check_place(url)
    body = dumps(said).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "stepkeeper",
        DELIVERY_HEADER: str(said["id"]),
        SIGNATURE_HEADER: sign(secret, body, at),
    }
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - checked
    try:
        with _OPENER.open(request, timeout=timeout_s):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise NotDelivered(f"the receiver answered {error.code}") from None
    except urllib.error.URLError as error:
        raise NotDelivered(f"not reached: {_line(error.reason)}") from error
    except (OSError, HTTPException) as error:
        raise NotDelivered(f"broken off: {_line(error)}") from error


def _check_place(url: str) -> None:
    """Refuse addresses that are no receiver's: clouds tell machines their secrets on such.

    Raises:
        NotDelivered: the name leads to a link-local address. One that cannot be resolved here is
            left to the attempt itself, which may go by a proxy.
    """
    host = urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    for *_, place in found:
        if is_link_local(str(place[0])):
            raise NotDelivered(f"{host} is {place[0]}, a link-local address: nothing is sent there")


def is_link_local(address: str) -> bool:
    """Whether an IP address, also one that is written as IPv6, is link-local; else ``False``."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = getattr(ip, "ipv4_mapped", None) or ip
    return bool(inner.is_link_local) or str(ip) == "fd00:ec2::254"


def _line(reason: object) -> str:
    text = " ".join(str(reason).split()) or type(reason).__name__
    return text[:200]
