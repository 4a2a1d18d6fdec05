"""Any interleaving of what callers, workers, people, crashes and time do to a store."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping

from hypothesis.stateful import invariant

from api_client.contract import Answer, JobStatus
from tests.contract.acts import sweep
from tests.contract.promises import MAX_TRIES, RETENTION, Held, Promised
from tests.contract.workers import Workers
from tests.contract.worlds import MINUTE, World


class StoreMachine(Workers):
    """Drives one world; looks at everything after every step."""

    def __init__(self, world: World, tenants: Mapping[str, str] | None = None) -> None:
        super().__init__(world, tenants)
        self.baseline = world.left_behind()
        """Of policies and announced slots."""

    @invariant()
    def every_promise_is_kept(self) -> None:
        for job_id in list(self.jobs):
            job = self.there(job_id)
            if job is None:
                self._check_gone(job_id)
            else:
                self._check(job_id, job)

    @invariant()
    def every_turn_is_kept(self) -> None:
        """Each job of a tenant stands in one place, and the counts say how many stand in each."""
        turns: Counter[str] = Counter()
        for job_id, tenant in self.tenants.items():
            job, places = self.there(job_id), self.world.places(job_id)
            turn = self.world.turn(job_id)
            self._check_turn(job_id, job, turn, places)
            turns[f"{turn}:{tenant}"] += turn in ("ready", "hinted", "running")
        assert self.world.turn_counts() == +turns, "turns are counted"

    def _check_turn(self, job_id: str, job: Promised | None, turn: str, places: list[str]) -> None:
        if job is None or job.status.ended or job.status is JobStatus.PAUSED:
            assert turn == "", "what cannot run has no turn"
            assert "ready" not in places
            assert "hinted" not in places
            return
        kept = {"ready": ["ready"], "hinted": ["due", "hinted"]}
        assert places == kept.get(turn, ["due"]), f"{job_id}, {turn}, stands in {places}"
        if self.is_held(job):
            assert turn == "running", "a job that runs is counted"

    def _check_gone(self, job_id: str) -> None:
        assert self.store.messages(job_id) == [], "everything of a job expires together"
        assert self.store.events(job_id) == [], "everything of a job expires together"

    def _check(self, job_id: str, job: Promised) -> None:
        view = self.store.read(job_id)
        assert view.status is job.status, f"rule 1: {job_id} is {view.status}, not {job.status}"
        assert view.epoch == job.epoch, "rule 3: the epoch rises with each claim and never falls"
        assert view.tries == job.tries <= MAX_TRIES + 1, "rule 15: tries are counted and bounded"
        assert view.outcome == job.outcome, "rule 1: a job has one outcome, and keeps it"
        assert view.cancel_requested is job.cancel, "rule 13: a cancel is never forgotten"
        open_pause = job.pause_id if job.status is JobStatus.PAUSED else None
        assert (view.pause.id if view.pause else None) == open_pause, "rule 12: one open pause"
        texts = [item["content"] for item in self.store.messages(job_id)]
        assert texts == job.messages, "rules 2 and 4: what was committed is there, once"
        self._check_due(job_id, job)

    def _check_due(self, job_id: str, job: Promised) -> None:
        left = self.world.due_in(job_id)
        if "ready" in self.world.places(job_id):
            return  # a sweep looks through those that wait for their turn
        if job.status is JobStatus.PAUSED or job.gone_at is not None:
            assert left is None, "rule 1: nobody looks for what waits for a person or is over"
            return
        assert left is not None, f"rule 1: {job_id} is lost, no sweep will ever find it"
        assert (self.world.lease_left(job_id) > 0) is self.is_held(job), "rule 1: the lease is kept"

    def teardown(self) -> None:
        """From wherever it was: every job comes to its end, and nothing stays behind."""
        if sys.exception() is not None:
            return  # what went wrong before is the news
        for _ in range(12):
            self.time_passes(10 * MINUTE)
            for hint in sweep(self.world):
                self._bring_on(hint.spec.job_id)
            for job_id in list(self.jobs):
                job = self.there(job_id)
                if job is not None and job.status is JobStatus.PAUSED:
                    self.store.signal(job_id, job.pause_id, Answer(value="late"), f"end-{job_id}")
                    job.status, job.waiting_signal = JobStatus.QUEUED, "late"
                    job.tries = 0
        left = [i for i in list(self.jobs) if (job := self.there(i)) and job.gone_at is None]
        assert left == [], "rule 1: hints and time bring every job to its end"
        self.time_passes(RETENTION)
        sweep(self.world)
        left = [name for name in self.world.left_behind() if ":used:" not in name]
        assert left == self.baseline, "everything of a job expires together"

    def _bring_on(self, job_id: str) -> None:
        held = self.claim(job_id=job_id, owner="last/boot/1/")
        if isinstance(held, Held):
            end = JobStatus.SUCCEEDED
            self.settle(held=held, status=end, texts=1)
        job = self.there(job_id)
        if job is not None and job.status.ended and job.gone_at is None:
            self._published(job_id, job)
