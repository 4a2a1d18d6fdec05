"""What callers and people do to a store."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from api_client.contract import Answer, JobSpec, JobStatus, Mail, Outcome, Retry, Wish
from api_client.errors import Conflict, JobNotFound
from tests.contract.promises import JOBS, RETENTION, Promised, Promises
from tests.contract.worlds import MINUTE


class Callers(Promises):
    """Submit, cancel, decide; also twice, too late, and to the wrong job."""

    @initialize(delay=st.sampled_from([0, 0, 3 * MINUTE]))
    def begin(self, delay: int) -> None:
        """A job that the rest is mostly about, and one beside it."""
        self.submit(job_id="a", delay=0)
        self.submit(job_id="b", delay=delay)

    @rule(job_id=JOBS, delay=st.just(0))
    def submit(self, job_id: str, delay: int) -> None:
        tenant, seconds = self.tenants.get(job_id, ""), RETENTION // 1000
        spec = JobSpec(job_id=job_id, agent="shop", input="x", retention_s=seconds, tenant=tenant)
        known = self.there(job_id) is not None
        created = self.store.create(spec, delay)
        assert created.new is not known, "rule 1: a job is accepted once"
        if created.new:
            job = self.jobs[job_id] = Promised()
            if delay:
                job.status, job.wait_until = JobStatus.WAITING, self.now + delay

    @rule(job_id=JOBS)
    def cancel(self, job_id: str) -> None:
        job = self.there(job_id)
        if job is None or job.status.ended:
            self._cancel_in_vain(job_id, job)
            return
        pending = job.status is JobStatus.RUNNING and self.is_held(job)
        answer = self.store.cancel(job_id)
        assert answer.pending is pending, "rule 13: a cancel is at once unless a runner is alive"
        job.cancel = True
        if not pending:
            job.epoch += 1
            job.let_go()
            self._cancelled(job)

    def _cancel_in_vain(self, job_id: str, job: Promised | None) -> None:
        try:
            why = "rule 1: what has ended does not change"
            answer = self.unchanged(job_id, lambda: self.store.cancel(job_id), why)
        except JobNotFound:
            assert job is None, f"rule 1: job {job_id} is lost"
        else:
            assert job is not None
            assert answer.status is job.status

    def _cancelled(self, job: Promised) -> None:
        job.end(JobStatus.CANCELLED, Outcome(ok=False, reason="cancelled", text="cancelled"))

    @rule(
        job_id=JOBS,
        which=st.sampled_from(["open", "open", "open", "earlier", "unknown"]),
        accepted=st.sampled_from([True, True, True, False]),
        again=st.booleans(),
        twice=st.booleans(),
    )
    def signal(self, job_id: str, which: str, accepted: bool, again: bool, twice: bool) -> None:
        job = self.there(job_id)
        pauses = job.pauses if job else 0
        pause_id = {"open": f"p{pauses}", "earlier": f"p{pauses - 1}", "unknown": "p99"}[which]
        first = job.signals.get(pause_id) if job else None
        signal_id = first if again and first else f"s{next(self.numbers)}"
        decision = Answer(value=signal_id) if accepted else Retry()

        def send() -> None:
            self.store.signal(job_id, pause_id, decision, signal_id)

        fits = job is not None and job.status is JobStatus.PAUSED and pause_id == job.pause_id
        if job is not None and fits and accepted:
            send()
            job.status, job.tries = JobStatus.QUEUED, 0
            job.signals[pause_id] = job.waiting_signal = signal_id
            if twice:
                self.unchanged(job_id, send, "rule 12: the same signal again changes nothing")
        elif first == signal_id and job is not None and which == "open":
            self.unchanged(job_id, send, "rule 12: the same signal again changes nothing")
        else:
            self._refused(job_id, send)

    def paused(self) -> list[str]:
        return [i for i in self.jobs if self.jobs[i].status is JobStatus.PAUSED]

    @precondition(lambda self: self.paused())
    @rule(twice=st.booleans())
    def answer_a_pause(self, twice: bool) -> None:
        self.signal(job_id=self.paused()[0], which="open", accepted=True, again=False, twice=twice)

    @rule(job_id=JOBS, twice=st.booleans())
    def tell(self, job_id: str, twice: bool) -> None:
        """A person has something to say to the model."""
        job = self.there(job_id)
        text = f"t{next(self.numbers)}"

        def send() -> None:
            self.store.message(job_id, Mail(text=text), text)

        if job is None or job.status.ended:
            self._refused(job_id, send)
            return
        send()
        job.mail.append(text)
        if twice:
            self.unchanged(job_id, send, "rule 2: the same message again changes nothing")

    @rule(job_id=JOBS)
    def want_a_pause(self, job_id: str) -> None:
        """An operator wants the job paused at its next commit."""
        job = self.there(job_id)

        def send() -> None:
            self.store.halt(job_id, Wish(by="anna"))

        if job is None or job.status.ended or job.status is JobStatus.PAUSED:
            self._refused(job_id, send)
            return
        send()
        job.halt = True

    def _refused(self, job_id: str, send: Callable[[], None]) -> None:
        def act() -> str:
            try:
                send()
            except (Conflict, JobNotFound) as error:
                return type(error).__name__
            return "taken"

        answer = self.unchanged(job_id, act, "rule 12: what is refused changes nothing")
        assert answer != "taken", "rule 12: only the first that fits is taken"
