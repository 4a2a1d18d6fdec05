"""Loads for tests in which Redis is in trouble, and what must be true after it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from api_client.contract import JobStatus
from api_client.errors import StoreUnavailable
from tests.support.lab import Lab
from tests.support.workers import eventually

SCALE = int(os.environ.get("TEST_SCALE", "1"))
"""How many times the small load of the ordinary run; set it by hand for a longer look."""


class Load:
    """Jobs of the test agent, each with a tag of its own, submitted through thick and thin."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.words: dict[str, str] = {}

    @property
    def ids(self) -> list[str]:
        """Of all jobs that were accepted."""
        return list(self.words)

    def submit(self, count: int, words: str) -> list[str]:
        """Submit jobs; one that could not be stored is submitted again under the same key."""
        return [self._submit(words) for _ in range(count)]

    def _submit(self, words: str) -> str:
        key = uuid.uuid4().hex

        def accepted() -> str:
            try:
                return self._lab.submit(f"{words} @{key}", idempotency_key=key)
            except StoreUnavailable:
                return ""

        job_id: str = eventually(accepted, "the job is accepted")
        self.words[job_id] = words
        return job_id

    def tag(self, job_id: str) -> str:
        """The job's tag in the ledger."""
        return str(self._lab.view(job_id).spec.input).rpartition("@")[2]

    def wait_steps(
        self, since: float, count: int = 1, timeout_s: float = 60, **which: str
    ) -> float:
        """Wait for so many model calls after a ``time.time()``; seconds until the last of them."""

        def late() -> list[float]:
            times = [entry["at"] for entry in self._lab.ledger.entries("model", **which)]
            return sorted(at for at in times if at > since)

        what = f"{count} model calls after {since}"
        times: list[float] = eventually(lambda: len(t := late()) >= count and t, what, timeout_s)
        return times[count - 1] - since

    def check(self, timeout_s: float = 90) -> None:
        """Every accepted job ends with the right answer, published, and never stepped back."""
        for job_id, words in self.words.items():
            view = self._lab.wait_published(job_id, timeout_s)
            assert view.status is JobStatus.SUCCEEDED, f"{job_id}: {view.status} {view.outcome}"
            assert view.outcome is not None
            assert view.outcome.value == _answer(words.split()), job_id
            assert self._lab.plain.AsyncResult(job_id).get(timeout=30) == view.outcome.value
        for job_id in self.words:
            self._check_order(job_id)

    def _check_order(self, job_id: str) -> None:
        """No message was appended twice, and no step was taken again after a later one."""
        committed: list[Any] = [e.data["i"] for e in self._lab.events(job_id) if "i" in e.data]
        assert committed == sorted(set(committed)), f"{job_id}: {committed}"
        asked = [e["step"] for e in self._lab.ledger.entries("model", tag=self.tag(job_id))]
        assert all(a <= b for a, b in pairwise(asked)), f"{job_id}: {asked}"


def _answer(words: Sequence[str]) -> str:
    calls = [f"{name} {step}" for step, word in enumerate(words, 1) for name in word.split("+")]
    return "; ".join(calls)


def refusals(lab: Lab, word: str) -> int:
    """How many commands the server has refused with this error since its start."""
    stats: dict[str, dict[str, int]] = lab.redis.info("errorstats")
    return int(stats.get(f"errorstat_{word}", {}).get("count", 0))
