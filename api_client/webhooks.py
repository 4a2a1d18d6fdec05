"""Signatures of webhooks: HMAC-SHA256 over the time of sending and the body.

The header ``Stepkeeper-Signature`` is ``t=SECONDS,v1=HEX``. ``HEX`` is the HMAC-SHA256, under the
shared secret, of the ASCII digits of ``SECONDS`` (since the epoch), a full stop, and the bytes of
the body. A receiver computes it anew and compares; ``verify`` does both:

    body = verify(secret, request.headers["Stepkeeper-Signature"], request.body)

``Stepkeeper-Delivery`` is the announcement's id, the same at every attempt.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from typing import Any

from api_client.errors import InvalidInput

SIGNATURE_HEADER = "Stepkeeper-Signature"
DELIVERY_HEADER = "Stepkeeper-Delivery"

_FORM = re.compile(r"t=(\d{1,15}),v1=([0-9a-f]{64})", re.ASCII)


def sign(secret: str, body: bytes, at: int) -> str:
    """The signature header.

    Args:
        at: seconds since the epoch.
    """
    return f"t={at},v1={_digest(secret, body, str(at))}"


def verify(
    secret: str, signature: str, body: bytes, *, tolerance_s: float = 300, now: float | None = None
) -> dict[str, Any]:
    """Check a signature and read the body.

    Args:
        tolerance_s: how old it may be, in seconds, against announcements that are sent again by
            somebody else.
        now: seconds since the epoch; this machine's clock, if not given.

    Raises:
        InvalidInput: it is missing or malformed, too old, or not of this secret and body.
    """
    found = _FORM.fullmatch(signature)
    if found is None:
        raise InvalidInput(f"{SIGNATURE_HEADER}: the form is t=SECONDS,v1=HEX")
    age = (time.time() if now is None else now) - int(found[1])
    if abs(age) > tolerance_s:
        raise InvalidInput(f"{SIGNATURE_HEADER}: {age:.0f} s old, at most {tolerance_s:g} allowed")
    if not hmac.compare_digest(_digest(secret, body, found[1]), found[2]):
        raise InvalidInput(f"{SIGNATURE_HEADER}: not the signature of this body")
    said: dict[str, Any] = json.loads(body)
    return said


def _digest(secret: str, body: bytes, at: str) -> str:
    return hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
