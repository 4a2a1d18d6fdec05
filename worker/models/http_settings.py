"""What the adapters over HTTP are told: times, and settings from the environment."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

from worker.models.base import ModelError


@dataclass(frozen=True, slots=True)
class Times:
    """How long a call may take, in seconds.

    Raises:
        ValueError: for a time that is not a positive, finite number.
    """

    silence: float
    total: float
    connect: float

    def __post_init__(self) -> None:
        given: dict[str, float | None] = {
            "timeout": self.silence,
            "total_timeout": self.total,
            "connect_timeout": self.connect,
        }
        for name, value in given.items():
            if value is None or not math.isfinite(value) or value <= 0:
                raise ValueError(
                    f"{name} must be a positive, finite number of seconds, not {value!r}"
                )

    def for_http(self) -> httpx2.Timeout:
        """The same for the HTTP client; waiting for a free connection may take the whole time."""
        return httpx2.Timeout(self.silence, connect=self.connect, pool=self.total)


def setting(variable: str, meaning: str) -> str:
    """A setting from the environment.

    Raises:
        ModelError: with fate ``pause``, naming the variable, when it is missing or empty.
    """
    value = os.environ.get(variable, "").strip()
    if not value:
        text = f"{variable} is not set: it must hold {meaning}, in the environment of the worker"
        raise ModelError(text, "pause", code="missing_setting")
    return value


def checked_key(key: str) -> str:
    """The key, if it can stand in a header; never shown in an error.

    Raises:
        ModelError: with fate ``pause`` when it cannot.
    """
    if not (key.isascii() and key.isprintable() and " " not in key):
        text = "the API key (LLM_API_KEY) holds a blank or a letter that cannot stand in a header"
        raise ModelError(text, "pause", code="bad_setting")
    return key


def checked_url(url: str) -> str:
    """The address, if it is one that can be called.

    Raises:
        ModelError: with fate ``pause`` when it is not.
    """
    try:
        usable = bool(urlsplit(url).hostname) and httpx2.URL(url).scheme in ("http", "https")
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if not usable:
        text = f"the address of the API (LLM_BASE_URL) is not of the form https://host/v1: {url!r}"
        raise ModelError(text, "pause", code="bad_setting")
    return url


def refuse_elsewhere(url: str) -> None:
    """Let only a server on this machine be called, as tests want it.

    Raises:
        ModelError: with fate ``fail`` when it is another one.
    """
    host = urlsplit(url).hostname or ""
    if not _is_here(host):
        text = (
            f"a test called the model at {host}, and real models are forbidden in tests: give the "
            "agent a scripted model (scripted_model, run_inline(model=…)), or mark the test with "
            "@pytest.mark.real_model"
        )
        raise ModelError(text, "fail", code="real_call_forbidden")


def _is_here(host: str) -> bool:
    """Whether a name or an address means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
