"""What workers do to a store, also those that are late, doubled or dead."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, multiple, precondition, rule

from api_client.contract import JobStatus, Outcome, Pause, PauseKind
from tests.contract.acts import BROKEN, DONE, QUESTION, message, sweep
from tests.contract.callers import Callers
from tests.contract.promises import (
    ENDINGS,
    JOBS,
    LEASE,
    MAX_TRIES,
    OWNERS,
    RETENTION,
    Held,
    Promised,
)
from tests.contract.worlds import MINUTE, run_json
from worker.store.base import (
    Claimed,
    NotClaimed,
    Progress,
    Settlement,
    Ticket,
    ToPublish,
)


class Workers(Callers):
    """Claim, commit, settle, renew, publish, sweep; crash, stall and wake up again."""

    claims: Bundle[Held] = Bundle("claims")

    @rule(target=claims, job_id=JOBS, owner=OWNERS)
    def claim(self, job_id: str, owner: str) -> Any:
        nonce = f"n{next(self.numbers)}"
        job = self.there(job_id)
        answer = self.store.claim(
            job_id, owner=owner, nonce=nonce, lease_ms=LEASE, max_tries=MAX_TRIES
        )
        if isinstance(answer, NotClaimed):
            self._check_refusal(job, answer)
            return multiple()
        assert job is not None, "rule 1: a job that nobody accepted"
        assert not self.is_held(job), "rule 1: one live owner at most"
        job.epoch += 1
        job.nonce, job.owner, job.lease_until = nonce, owner, self.now + LEASE
        if isinstance(answer, ToPublish):
            self._check_publishing(job, answer)
            return multiple()
        self._check_claim(job, answer)
        return Held(job_id, answer.epoch, nonce, answer.seq, answer.signal is not None)

    @rule(target=claims, held=claims, owner=OWNERS, wakes=st.booleans())
    def take_over(self, held: Held, owner: str, wakes: bool) -> Any:
        """A worker stalls for longer than its lease, another one comes, and the first wakes up."""
        self.time_passes(LEASE)
        new = self.claim(job_id=held.job_id, owner=owner)
        if wakes:
            self.commit(held=held, texts=1, takes_up=False, twice=False)
        return new

    def _check_refusal(self, job: Promised | None, answer: NotClaimed) -> None:
        reasons = {
            "missing": job is None,
            "ended": job is not None and job.gone_at is not None,
            "paused": job is not None and job.status is JobStatus.PAUSED,
            "busy": job is not None and self.is_held(job),
            "not_due": job is not None and job.wait_until > self.now,
            "turn": job is not None and len(self.tenants) > 1,
        }
        assert reasons[answer.why], f"rule 1: a job was refused as {answer.why}, which it is not"

    def _check_claim(self, job: Promised, answer: Claimed) -> None:
        assert not job.status.ended, "rule 1: what has ended never runs again"
        assert job.status is not JobStatus.PAUSED, "rule 12: a pause ends by a signal alone"
        assert not job.cancel, "rule 13: what was cancelled does not run"
        assert answer.epoch == job.epoch, "rule 3: each claim raises the epoch by one"
        texts = [item["content"] for item in answer.messages]
        assert texts == job.messages, "rule 2: what was committed is there, once"
        job.tries += 1
        assert answer.tries == job.tries <= MAX_TRIES, "rule 15: tries are counted and bounded"
        signal = getattr(answer.signal, "value", None)
        assert signal == job.waiting_signal, "rule 12: the first signal is the one that counts"
        unheard = [mail.text for mail in answer.mail]
        assert unheard == job.mail[job.heard :], "rule 2: what a person said is heard once"
        assert (answer.halt is not None) is job.halt, "rule 13: a wish to pause is not forgotten"
        job.status, job.wait_until = JobStatus.RUNNING, 0

    def _check_publishing(self, job: Promised, answer: ToPublish) -> None:
        if not job.status.ended and job.cancel:
            self._cancelled(job)
        elif not job.status.ended:
            assert job.tries == MAX_TRIES, "rule 15: it had tries left"
            assert answer.outcome.reason == "poison", "rule 15: the reason is named"
            job.tries += 1
            job.end(JobStatus.FAILED, answer.outcome)
        assert job.gone_at is None, "rule 1: published once"
        assert (answer.status, answer.outcome) == (job.status, job.outcome), (
            "rule 1: a job has one outcome"
        )

    @rule(
        held=claims,
        texts=st.integers(0, 2),
        takes_up=st.booleans(),
        hears=st.booleans(),
        twice=st.booleans(),
    )
    def commit(
        self, held: Held, texts: int, takes_up: bool, hears: bool = False, twice: bool = False
    ) -> None:
        if hears:
            self.tell(job_id=held.job_id, twice=False)
        told = self.jobs[held.job_id] if self.may_write(held) else Promised()
        heard = len(told.mail) if hears and len(told.mail) > told.heard else None
        fresh = [f"m{next(self.numbers)}" for _ in range(texts)]
        takes_up = takes_up and held.signal
        progress = Progress(
            run_json(1), "reply", {}, [message(t) for t in fresh], takes_up, heard=heard
        )
        ticket = Ticket(held.job_id, held.epoch, held.seq + 1)

        def act() -> str:
            return self.store.commit(ticket, progress)

        if not self.may_write(held):
            answer = self.unchanged(held.job_id, act, "rule 3: a stale epoch changes nothing")
            assert answer == "fenced", "rule 3: a stale epoch is refused"
            return
        job = self.jobs[held.job_id]
        job.heard = job.heard if heard is None else heard
        expected = self._verdict(job)
        made = act()
        assert made == expected, f"rule 13: a commit tells what is wanted, {expected}, not {made}"
        self._progressed(job, held, fresh, takes_up)
        held.last, held.answer, held.left = act, made, self.world.raw(held.job_id)
        if twice:
            self.repeat(held=held)

    def _verdict(self, job: Promised) -> str:
        if job.cancel:
            return "cancel"
        if job.halt:
            return "halt"
        return "mail" if job.heard < len(job.mail) else "committed"

    def _progressed(self, job: Promised, held: Held, fresh: list[str], takes_up: bool) -> None:
        job.messages += fresh
        job.tries = 1
        held.seq += 1
        if takes_up:
            job.waiting_signal, held.signal = None, False

    @rule(
        held=claims,
        status=st.sampled_from(ENDINGS),
        texts=st.integers(0, 1),
        first=st.sampled_from(["", "", "", "cancel", "halt"]),
        twice=st.booleans(),
    )
    def settle(
        self, held: Held, status: JobStatus, texts: int, first: str = "", twice: bool = True
    ) -> None:
        if first == "cancel":
            self.cancel(job_id=held.job_id)
        if first == "halt":
            self.want_a_pause(job_id=held.job_id)
        job = self.there(held.job_id)
        fresh = [f"m{next(self.numbers)}" for _ in range(texts)]
        takes_up = held.signal and status is not JobStatus.QUEUED
        pause = self._pause(job or Promised())
        payloads: dict[JobStatus, Pause | Outcome] = {
            JobStatus.PAUSED: pause,
            JobStatus.SUCCEEDED: DONE,
            JobStatus.FAILED: BROKEN,
        }
        payload = payloads.get(status)
        progress = Progress(
            run_json(1), status.value, {}, [message(t) for t in fresh], consumes_signal=takes_up
        )
        ticket = Ticket(held.job_id, held.epoch, held.seq + 1)

        def act() -> JobStatus | None:
            return self.store.settle(ticket, progress, Settlement(status, payload, 3 * MINUTE))

        if job is None or not self.may_write(held):
            answer = self.unchanged(held.job_id, act, "rule 3: a stale epoch changes nothing")
            assert answer is None, "rule 3: a stale epoch is refused"
            return
        made = act()
        wanted = JobStatus.CANCELLED if job.cancel else status
        assert made is wanted, "rule 13: a cancel wins over every other end"
        self._progressed(job, held, fresh, takes_up)
        self._settled(job, wanted, payload)
        held.last, held.answer, held.left = act, made, self.world.raw(held.job_id)
        if twice:
            self.repeat(held=held)

    def _pause(self, job: Promised) -> Pause:
        kind = PauseKind.OPERATOR if job.halt else QUESTION.kind
        return QUESTION.model_copy(update={"id": f"p{job.pauses + 1}", "kind": kind})

    def _settled(self, job: Promised, status: JobStatus, payload: Pause | Outcome | None) -> None:
        job.status, job.tries = status, 0
        if status.ended:
            job.lease_until = self.now + 3 * MINUTE
        else:
            job.let_go()
        if status is JobStatus.CANCELLED:
            self._cancelled(job)
        elif isinstance(payload, Outcome):
            job.end(status, payload)
        elif status is JobStatus.PAUSED:
            job.pauses, job.halt = job.pauses + 1, False
        elif status is JobStatus.WAITING:
            job.wait_until = self.now + 3 * MINUTE

    @rule(held=claims)
    def repeat(self, held: Held) -> None:
        """The reply to the last commit or settlement was lost, so it is sent again."""
        if held.last is None:
            return
        answer = self.unchanged(
            held.job_id, held.last, "rule 2: what is sent twice is written once"
        )
        if self.world.raw(held.job_id) == held.left:
            assert answer == held.answer, "rule 2: what is sent twice is answered alike"

    @rule(held=claims, distance=st.sampled_from([-1, 2, 3]))
    def commit_out_of_turn(self, held: Held, distance: int) -> None:
        ticket = Ticket(held.job_id, held.epoch, held.seq + distance)
        progress = Progress("{}", "reply", {}, [message("never")])

        def act() -> str:
            return self.store.commit(ticket, progress)

        answer = self.unchanged(held.job_id, act, "rule 2: no gap and no step backwards")
        assert answer == "fenced", "rule 2: commits come in their order"

    @rule(held=claims)
    def claim_again(self, held: Held) -> None:
        """The reply to the claim was lost: the same attempt asks again."""
        job = self.there(held.job_id)
        if job is None or job.nonce != held.nonce or job.status is not JobStatus.RUNNING:
            return

        def act() -> Any:
            return self.store.claim(
                held.job_id, owner=job.owner, nonce=held.nonce, lease_ms=LEASE, max_tries=MAX_TRIES
            )

        answer = self.unchanged(held.job_id, act, "rule 1: a claim is made once")
        assert isinstance(answer, Claimed), "rule 1: an attempt finds its own claim"
        assert (answer.epoch, answer.seq) == (held.epoch, held.seq), "rule 3: and its own epoch"

    @rule(held=claims)
    def renew(self, held: Held) -> None:
        job = self.there(held.job_id)
        mine = job is not None and job.epoch == held.epoch and job.nonce == held.nonce
        lease = [(held.job_id, held.epoch)]
        if job is None or not mine:
            why = "rule 3: who lost a job cannot keep it from others"
            answer = self.unchanged(held.job_id, lambda: self.store.renew(lease, LEASE), why)
            assert answer == ["lost"], why
            return
        if job.status.ended:
            why = "a renewal on its way when a job ends keeps nobody from publishing it"
            answer = self.unchanged(held.job_id, lambda: self.store.renew(lease, LEASE), why)
            assert answer == ["renewed"], why
            return
        [answered] = self.store.renew(lease, LEASE)
        told = ("cancel",) if job.cancel else ("renewed", "crowded")
        assert answered in told, "rule 13: a renewal tells of a cancel"
        job.lease_until = self.now + LEASE

    @rule(held=consumes(claims))
    def crash(self, held: Held) -> None:
        """The process is gone; its claim is nobody's any more."""

    @rule(owner=st.sampled_from(["w1/", "w1/boot/2/", "w2/"]))
    def abandon(self, owner: str) -> None:
        freed = sorted(spec.job_id for spec in self.store.abandon(owner))
        dead = [
            job_id
            for job_id, job in sorted(self.jobs.items())
            if job.status is JobStatus.RUNNING and job.owner.startswith(owner)
        ]
        assert freed == dead, "rule 1: a dead process' jobs are free, and only those"
        for job_id in dead:
            self.jobs[job_id].let_go()

    def to_publish(self) -> list[str]:
        ended = [i for i in list(self.jobs) if (job := self.there(i)) and job.status.ended]
        return [i for i in ended if self.jobs[i].gone_at is None and not self.is_held(self.jobs[i])]

    @precondition(lambda self: self.to_publish())
    @rule(owner=OWNERS)
    def publish(self, owner: str) -> None:
        """A worker finds an outcome to publish, and does."""
        job_id = self.to_publish()[0]
        self.claim(job_id=job_id, owner=owner)
        self._published(job_id, self.jobs[job_id])

    def _published(self, job_id: str, job: Promised) -> None:
        self.store.published(job_id)
        job.gone_at = self.now + RETENTION
        job.let_go()

    @rule()
    def sweep(self) -> None:
        free = [i for i in list(self.jobs) if (job := self.there(i)) and not self.is_held(job)]
        due = {i for i in free if (left := self.world.due_in(i)) is not None and left <= 0}
        ready = {i for i in free if "ready" in self.world.places(i)}
        hinted = {hint.spec.job_id: hint.status for hint in sweep(self.world)}
        theirs = {i for i in due | ready if i in self.tenants and not self.jobs[i].status.ended}
        assert set(hinted) - theirs == due - theirs, "rule 1: a sweep hints what is due and free"
        for job_id, status in hinted.items():
            assert status is self.jobs[job_id].status
            left = self.world.due_in(job_id)
            assert left is not None, "rule 1: a hint may be lost, another one must follow"
            assert left > 0, "rule 1: hints do not flood the queue"
