"""Whether the model's API answers, to agents that have their model from the environment."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from worker.doctor.findings import Findings, error, warning

AREA = "model"
DEFAULT_URL = "https://api.openai.com/v1"
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What was found.

    Attributes:
        url: of the API.
        key, model: whether they are given; the model's name.
        status: of the answer to a request for its models; ``None`` if none came.
        failure: why none came.
        models: that the API lists; empty if it does not.
    """

    url: str
    key: bool
    model: str
    status: int | None = None
    failure: str = ""
    models: frozenset[str] = frozenset()


def gather(environment: Mapping[str, str]) -> ModelFacts:
    """Ask the API for its models."""
    url = environment.get("LLM_BASE_URL", "").strip() or DEFAULT_URL
    key, model = (
        environment.get("LLM_API_KEY", "").strip(),
        environment.get("LLM_MODEL", "").strip(),
    )
    if urlsplit(url).scheme not in ("http", "https"):
        return ModelFacts(url, bool(key), model, failure="it is no http:// or https:// address")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(f"{url.rstrip('/')}/models", headers=headers)  # noqa: S310 - checked
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            listed = _ids(response.read())
            return ModelFacts(url, bool(key), model, response.status, models=listed)
    except urllib.error.HTTPError as answer:
        with answer:
            return ModelFacts(url, bool(key), model, answer.code)
    except (OSError, ValueError) as reason:
        return ModelFacts(url, bool(key), model, failure=str(reason))


def _ids(body: bytes) -> frozenset[str]:
    try:
        listed: Any = json.loads(body)
        return frozenset(str(item["id"]) for item in listed["data"])
    except (ValueError, TypeError, KeyError):
        return frozenset()


def check(facts: ModelFacts) -> Findings:
    """All checks of the model."""
    if not facts.key:
        yield error(AREA, "LLM_API_KEY", "there is no key for the model's API", "set it")
    if not facts.model:
        yield error(AREA, "LLM_MODEL", "no model is named", "set it, such as LLM_MODEL=gpt-5")
    place = urlsplit(facts.url).hostname or facts.url
    if facts.status is None:
        yield error(
            AREA, "LLM_BASE_URL", f"the model's API at {place} does not answer: {facts.failure}",
            "correct the address, or open the way to it",
        )  # fmt: skip
    elif facts.status in (401, 403):
        yield error(
            AREA, "LLM_API_KEY", f"the model's API at {place} refuses the key ({facts.status})",
            "set one that is valid there",
        )  # fmt: skip
    elif facts.status >= 500:
        yield warning(
            AREA, "LLM_BASE_URL", f"the model's API at {place} answers with {facts.status}",
            "see its provider's status page; jobs wait and try again",
        )  # fmt: skip
    if facts.models and facts.model and facts.model not in facts.models:
        yield warning(
            AREA, "LLM_MODEL", f"the model's API at {place} does not list {facts.model}",
            "name one that it has",
        )  # fmt: skip
