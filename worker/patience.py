"""Trying a store call again while Redis is away.

Safe because every call of the store may be repeated with the same arguments (``store.base``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from api_client.errors import StoreUnavailable

T = TypeVar("T")


def patiently(call: Callable[[], T], patience_s: float) -> T:
    """The call's result; ``StoreUnavailable`` is tried again for up to ``patience_s`` seconds.

    Raises:
        StoreUnavailable: Redis stayed away for longer.
    """
    try:
        return call()
    except StoreUnavailable:
        return Retrying(
            retry=retry_if_exception_type(StoreUnavailable),
            stop=stop_after_delay(patience_s),
            wait=wait_random_exponential(multiplier=0.05, max=1.0),
            reraise=True,
        )(call)
