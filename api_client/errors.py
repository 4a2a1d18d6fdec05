"""Everything a caller of the client may catch.

    StepkeeperError
    ├── InvalidInput             what was given cannot be accepted; names field, value and advice
    ├── UnknownAgent             no worker has announced an agent of that name
    ├── JobNotFound              no such job, or its retention has passed
    ├── JobUnreadable            its record was written by hand, or by a newer version
    ├── BacklogFull              as many jobs wait already as may; try again later
    ├── StorageFull              the server's memory, or a tenant's quota of it, is used up
    ├── StoreUnavailable         Redis could not be reached or refused to write
    ├── WaitTimeout              the job has not ended within the given time
    ├── Conflict                 the job is not in a state that allows this; nothing was changed
    │   ├── IdempotencyConflict  the same key was used before with another payload
    │   ├── NotPaused            a signal came for a job that waits for nobody
    │   ├── WrongPause           the signal names another pause than the open one
    │   ├── AlreadyAnswered      somebody was first; says who and when
    │   ├── SignalRefused        this pause takes other kinds of answers, or another form of it
    │   └── NotAllowed           this pause is for people of other labels
    └── JobEnded                 raised by ``result()`` and by Celery's ``AsyncResult.get()``
        ├── JobFailed
        └── JobCancelled

Every error can be rebuilt from its positional ``args``, which are plain JSON values: that is how
Celery's JSON result backends carry them from a worker to a caller.
"""

from __future__ import annotations

_SHOWN = 80


def shorten(value: object, limit: int = _SHOWN) -> str:
    """``repr(value)``, cut to ``limit`` characters so that an error stays one line."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


class StepkeeperError(Exception):
    """Base of every error that is ours."""


class InvalidInput(StepkeeperError):
    """Something given to us cannot be accepted.

    Args:
        message: one line that names the field, the value and what to do.
    """


class UnknownAgent(StepkeeperError):
    """No worker has announced an agent of that name."""


class JobNotFound(StepkeeperError):
    """There is no job with that id: it was never issued, or its retention has passed."""


class JobUnreadable(StepkeeperError):
    """What is stored of a job cannot be read: it was written by hand, or by a newer version."""


class BacklogFull(StepkeeperError):
    """As many jobs of the tenant, or of all, wait as may; the job was not accepted."""


class StorageFull(StepkeeperError):
    """The server's memory, or a tenant's quota of it, is used up; the job was not accepted."""


class StoreUnavailable(StepkeeperError):
    """Redis could not be reached, or it refused the command (read-only, out of memory, ACL)."""


class WaitTimeout(StepkeeperError):
    """The job did not end in the time the caller gave it; the job itself goes on."""


class Conflict(StepkeeperError):
    """The job's state does not allow this; nothing was changed."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with another payload."""


class NotPaused(Conflict):
    """A signal came for a job that waits for nobody."""


class WrongPause(Conflict):
    """The signal names another pause than the one that is open."""


class AlreadyAnswered(Conflict):
    """Another signal answered this pause first."""


class SignalRefused(Conflict):
    """The open pause takes other kinds of signals, or the signal's content has the wrong form."""


class NotAllowed(Conflict):
    """The signer has none of the labels that the open pause asks for."""


class JobEnded(StepkeeperError):
    """The job ended without an answer."""


class JobFailed(JobEnded):
    """The job failed.

    Args:
        text: one line for people.
        reason: a word for programs, for example ``"poison"``, ``"max_steps"`` or ``"refused"``.
    """

    def __init__(self, text: str, reason: str = "failed") -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.text} [{self.reason}]"


class JobCancelled(JobEnded):
    """The job was cancelled; says by whom, and why if that was given."""
