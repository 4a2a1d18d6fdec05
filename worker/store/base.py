"""What a worker asks of the store, on top of what every caller may ask (``JobStore``).

Any method may raise ``StoreUnavailable``; each may then be called again with the same arguments,
also when the first call did take effect and only its reply was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from api_client.contract import (
    AgentInfo,
    JobSpec,
    JobStatus,
    Mail,
    Outcome,
    Pause,
    Signal,
    Wish,
)
from api_client.store import JobStore
from api_client.workers import WorkerInfo
from worker.messages import Transcript


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of a job: its message list is still the same while a claim finds the job there.

    Attributes:
        nonce: of the last claim. A server that has lost its last second, and a new job of the same
            id, give the other numbers once more, to what others do.
        epoch: of the last claim.
        seq: number of the last commit.
        messages: how many there are.
    """

    nonce: str
    epoch: int
    seq: int
    messages: int

    def __str__(self) -> str:
        return f"{self.nonce} {self.epoch} {self.seq} {self.messages}"


@dataclass(frozen=True, slots=True)
class Claimed:
    """The right to advance a job.

    Attributes:
        epoch: the fencing token; every commit must show it.
        seq: number of the last commit.
        tries: starts at this very step, this one included; above 1, earlier ones died at it.
        run: the loop's state as stored, ``None`` for a job that has not begun.
        pause, signal: of the pause that was answered and whose answer nobody has taken up yet.
        was: the status before; ``running`` if its worker was gone. ``None``: it is not known.
        waited_ms: for how long it could have been claimed, on the store's clock.
        mail: messages of people that the model has not been shown, in their order.
        halt: a person wants the job paused.
        crowded: other tenants wait for the slot that it takes.
        nonce: of this claim.
        unchanged: the caller has the messages already; none is given here.
        transcript: what the caller has, if they are unchanged; no store knows it.
    """

    spec: JobSpec
    epoch: int
    seq: int
    tries: int
    messages: list[dict[str, Any]]
    run: str | None = None
    pause: Pause | None = None
    signal: Signal | None = None
    was: JobStatus | None = None
    waited_ms: int | None = None
    mail: Sequence[Mail] = ()
    halt: Wish | None = None
    crowded: bool = False
    nonce: str = ""
    unchanged: bool = False
    transcript: Transcript | None = None

    def mark(self, seq: int, messages: int) -> Mark:
        """The moment of this claim's commit of this number, with so many messages."""
        return Mark(self.nonce, self.epoch, seq, messages)


@dataclass(frozen=True, slots=True)
class ToPublish:
    """The job has ended and its outcome has not reached the result backend yet."""

    spec: JobSpec
    status: JobStatus
    outcome: Outcome
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """There is nothing to do here: why, and who holds the job or until when it waits.

    ``newer``: a newer program wrote it, and only that can go on with it; ``detail`` is its schema
    version. ``suspect``: it has begun too often without progress to be run beside others like it;
    ``detail`` is how often. ``turn``: it is another tenant's turn; the job is hinted again when its
    own has come. ``locked``: it is encrypted with a key that this program does not have; ``detail``
    says which and what to do. ``unknown``: this worker does not have its agent, which ``detail``
    names.
    """

    why: Literal[
        "missing",
        "ended",
        "paused",
        "not_due",
        "busy",
        "newer",
        "suspect",
        "turn",
        "locked",
        "unknown",
    ]
    detail: str = ""


Claim = Claimed | ToPublish | NotClaimed


@dataclass(slots=True)
class Ticket:
    """A runner's right to write: which job, under which fencing token, as which commit.

    Attributes:
        nonce: of the claim. A server that has lost its last second gives an epoch once more, to
            somebody else's claim; then the epoch alone would fence nobody. Empty: not compared.
    """

    job_id: str
    epoch: int
    seq: int
    nonce: str = ""

    @property
    def token(self) -> str:
        """The fencing token as scripts compare it."""
        return f"{self.epoch} {self.nonce}" if self.nonce else str(self.epoch)


@dataclass(slots=True)
class Progress:
    """What a commit makes durable.

    Attributes:
        run: the loop's state, JSON.
        kind, data: the record for the trace.
        messages: new ones only.
        consumes_signal: the person's answer has been taken up.
        heard: number of the last message of a person that this commit shows to the model.
    """

    run: str
    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    messages: Sequence[dict[str, Any]] = ()
    consumes_signal: bool = False
    heard: int | None = None


CommitAnswer = Literal["committed", "cancel", "halt", "mail", "fenced"]
"""``fenced``: nothing was changed. All others: committed; and the job is to be cancelled
(``cancel``), or paused (``halt``), or messages of people wait (``mail``)."""


Underway = Callable[[], CommitAnswer]
"""A commit on its way: waits for the answer, and raises what ``commit`` raises; called again, it
commits again, which changes nothing."""


LiveAnswer = Literal["committed", "cancel", "fenced"]
"""What is said to pieces of a reply: go on, stop because of a cancel, or stop at once."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a slice ends.

    Attributes:
        status: paused, waiting, queued (handed over), succeeded or failed.
        payload: the pause, or the outcome of a job that ended.
        delay_ms: until a sweep looks at the job; until then only its owner may publish an outcome.
        channels: on which a pause is announced.
        steps: of this slice; its tenant's next turn comes the later.
        left_to_hint: the owner leaves it to whoever takes a hint to publish the outcome.
    """

    status: JobStatus
    payload: Pause | Outcome | None = None
    delay_ms: int = 0
    channels: Sequence[str] = ()
    steps: int = 0
    left_to_hint: bool = False


@dataclass(frozen=True, slots=True)
class Hint:
    """A job whose time has come, and where it stood when the sweep found it.

    A paused one is not to be hinted: its timetable asks for something.

    Attributes:
        again: it has been hinted before, not long ago: if no hint was lost or missed, it
            stands in its queue.
    """

    spec: JobSpec
    status: JobStatus
    again: bool = False


PostState = Literal["pending", "delivered", "given_up"]


@dataclass(frozen=True, slots=True)
class Post:
    """An announcement that somebody outside is to be told.

    Attributes:
        post_id: ``JOB/NUMBER``, the same at every attempt.
        event: as in ``JobEvent``.
        at: when it happened, in milliseconds since the epoch.
        payload: the pause or the outcome, JSON.
        tries: attempts begun, this one included.
    """

    post_id: str
    channel: str
    event: str
    at: int
    agent: str
    payload: str
    tries: int

    @property
    def job_id(self) -> str:
        """Of which job."""
        return self.post_id.rpartition("/")[0]


Renewal = Literal["renewed", "crowded", "cancel", "lost"]
"""``crowded``: renewed, and other tenants wait for the slot that the job takes."""


@dataclass(frozen=True, slots=True)
class Slots:
    """From where a worker takes messages, and for what.

    Attributes:
        node: its name.
        slots: how many messages it works on at once.
        queues: the Celery queues that it takes them from.
        agents: the queue of each of its agents.
        kept_ms: for so long this holds, unless it is said again.
        backlogs: most jobs that may wait for an agent, of those whose code says so. This is kept
            until a worker with that agent says otherwise.
    """

    node: str
    slots: int
    queues: Sequence[str]
    agents: Mapping[str, str]
    kept_ms: int
    backlogs: Mapping[str, int] = field(default_factory=dict)


class CheckpointStore(JobStore, Protocol):
    """The store as workers see it.

    Attributes:
        on_turn: told of jobs whose turn has come by a claim or a settlement, and that are to be
            hinted now; a sweep finds them if this does nothing. (Sweeps return theirs.)
    """

    on_turn: Callable[[JobSpec], object]

    def claim(
        self,
        job_id: str,
        *,
        owner: str,
        nonce: str,
        lease_ms: int,
        max_tries: int,
        wary_of: int = 0,
        known: Mark | None = None,
        agents: Collection[str] = (),
    ) -> Claim:
        """Take a job, raising its epoch.

        A job out of tries becomes a failure to publish, one whose cancel is pending becomes
        cancelled. The same nonce again finds the claim that it made.

        Args:
            wary_of: leave a job alone that has begun so many times without progress, for somebody
                who runs no other such job; 0 takes every job.
            known: the messages of this moment are known to the caller: they need not be read.
            agents: leave jobs of all others alone, unless only their outcome is to be published;
                none given: take those of every agent.
        """

    def commit(self, ticket: Ticket, progress: Progress) -> CommitAnswer:
        """Append progress while holding the lease; ``ticket.seq`` is the last commit's plus 1."""

    def begin_commit(
        self, ticket: Ticket, progress: Progress, before: Underway | None = None
    ) -> Underway:
        """Send the same commit on its way, without waiting for the answer. Raises nothing.

        What follows soon should be sent behind it. The kernel may hold it back for that, for a
        fifth of a second, but not beyond the death of this process.

        Args:
            before: the commit before it, which is on its way too and whose answer must be waited
                for first. This one is not held back.
        """

    def settle(
        self, ticket: Ticket, progress: Progress, settlement: Settlement
    ) -> JobStatus | None:
        """Append the last progress and give the lease back.

        Returns the status the job now has (``cancelled`` wins over all others), ``None`` if
        fenced.
        """

    def renew(self, leases: Sequence[tuple[str, int]], lease_ms: int) -> list[Renewal]:
        """Renew leases, given as (job id, epoch)."""

    def published(self, job_id: str, channels: Sequence[str] = ()) -> None:
        """The outcome has reached the result backend; the job's keys expire from now on.

        Args:
            channels: on which the outcome is announced, once.
        """

    def mail(self, job_id: str) -> list[Mail]:
        """Messages of people that the model has not been shown, in their order."""

    def pace(
        self,
        job_id: str,
        pause_id: str,
        kept: int,
        labels: Sequence[str] | None = None,
        channels: Sequence[str] = (),
    ) -> bool:
        """Keep one appointment of a pause: a reminder, or an escalation to other ``labels``.

        Args:
            kept: how many appointments have been kept before this one.

        Returns whether this is what the pause was waiting for; if not, nothing was changed.
        """

    def fetch_post(self, limit: int, lease_ms: int) -> list[Post]:
        """Take announcements whose time has come; for ``lease_ms`` nobody else gets them."""

    def note_post(self, post_id: str, state: PostState, error: str = "", delay_ms: int = 0) -> None:
        """Note what became of an attempt; a pending one is taken again after ``delay_ms``."""

    def emit(self, job_id: str, epoch: int, records: Sequence[Mapping[str, Any]]) -> LiveAnswer:
        """Append to the job's live stream while holding the lease; changes nothing of the job.

        Sent twice it appends twice. Without records it only tells how the job stands.

        Args:
            records: the fields of ``LiveRecord`` without its id.
        """

    def wake(self, job_id: str) -> JobSpec | None:
        """A sub-job has ended: let its parent look.

        Returns the parent's spec if it waits and should be hinted. One that is running looks
        again before it waits.
        """

    def missed(self, job_id: str) -> None:
        """A hint has come to somebody who could do nothing with it: there may be no other.

        The next one is no repetition, however soon it comes (``Hint.again``).
        """

    def sweep(self, *, limit: int, grace_ms: int, cap_ms: int) -> list[Hint]:
        """Find due work and note that it is being hinted; forget what has expired.

        Args:
            limit: most jobs to look at, in each partition.
            grace_ms, cap_ms: a hint's time before the next; it doubles with each, up to the cap.
        """

    def abandon(
        self, owner_prefix: str, *, keep: str = "", job_id: str = "", delay_ms: int = 0
    ) -> list[JobSpec]:
        """End the leases of owners that start with ``owner_prefix`` (but not with ``keep``).

        Args:
            job_id: only this job's; by default those of all running jobs.
            delay_ms: until a sweep hints them.

        Returns the jobs that were freed.
        """

    def announce_slots(self, slots: Slots) -> None:
        """Tell how many messages of which queues a worker works on."""

    def beat(self, info: WorkerInfo) -> WorkerInfo:
        """Note that a worker is alive; returns what was noted, with its times."""

    def part(self, name: str) -> None:
        """Forget a worker that ends."""

    def announce(self, agents: Sequence[AgentInfo]) -> None:
        """Tell callers which agents there are."""
