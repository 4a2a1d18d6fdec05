"""Sealing records, transcripts and traces of jobs with the first key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from api_client.admin import AdminStore
from api_client.connection import translated
from api_client.contract import JobStatus, Outcome, Pause
from api_client.errors import JobUnreadable
from api_client.records import (
    MESSAGE,
    PARTLY,
    event_is_plain,
    event_place,
    event_text,
    field_place,
    field_text,
    is_sealed_field,
    sealed_run,
    stored_outcome,
    stored_pause,
)
from api_client.refusals import unreadable
from api_client.scripts import Argument
from api_client.sealing import Keyring, keyring, seal, unsealed

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Remaining:
    """Something that is not sealed with the first key, and that nobody will seal anew.

    Attributes:
        what: in words.
        until: when the last of it is forgotten, milliseconds on Redis's clock; 0: not by itself.
    """

    what: str
    until: int = 0


@dataclass(slots=True)
class Rekeyed:
    """What became of everything that is sealed.

    Attributes:
        jobs: that were looked at.
        changed: of which something was, or is to be, sealed anew.
        announcements, events, results: the same, of announcements, of what is told of all jobs,
            and of results in Celery's backend.
        unreadable: what cannot be opened, and why.
        remaining: what stays as it is, and until when the keys before the first one are needed.
    """

    jobs: int = 0
    changed: int = 0
    announcements: int = 0
    events: int = 0
    results: int = 0
    unreadable: list[str] = field(default_factory=list)
    remaining: list[Remaining] = field(default_factory=list)


class RekeyJobs(AdminStore):
    """Records, transcripts and traces."""

    def every_job(self) -> list[str]:
        """Ids of all jobs. The lists are read twice: a job may go from one to another meanwhile."""
        found: dict[bytes, None] = {}
        with translated(self._where):
            for keys in self._partitions:
                for status in (*JobStatus, *JobStatus):
                    found.update(dict.fromkeys(self._redis.zrange(keys.index(status), 0, -1)))
        return [job_id.decode() for job_id in found]

    def rekey_jobs(self, job_ids: Iterable[str], found: Rekeyed, *, dry_run: bool) -> None:
        """Seal these jobs anew, and note what became of them."""
        for job_id in job_ids:
            found.jobs += 1
            try:
                found.changed += self.rekey_job(job_id, dry_run=dry_run)
            except JobUnreadable as error:
                found.unreadable.append(str(error))

    def rekey_job(self, job_id: str, *, dry_run: bool = False) -> bool:
        """Seal one job anew; returns whether there was anything to do.

        Raises:
            JobUnreadable: something of it cannot be opened; what was sealed before stays.
        """
        args, changes = self._anew(job_id)
        if dry_run or not changes:
            return bool(changes)
        for _ in range(_ROUNDS):  # what a runner has written meanwhile is read again
            self._run("rekey", self._keys(job_id).of_job(job_id), args)
            args, changes = self._anew(job_id)
            if not changes:
                return True
        raise unreadable(job_id, "record", "it changes too quickly; run rekey again")

    def _anew(self, job_id: str) -> tuple[list[Argument], int]:
        """Arguments of the script, and how much they change."""
        record, messages, trace = self._keys(job_id).of_job(job_id)
        with translated(self._where):
            fields: Any = self._redis.hgetall(record)
            stored: Any = self._redis.lrange(messages, 0, -1)
            entries: Any = self._redis.xrange(trace)
        ring = keyring()
        try:
            new_fields = [
                (name, value, _new_field(job_id, name.decode(), value))
                for name, value in fields.items()
                if _is_old(ring, name.decode(), value)
            ]
            new_messages = [
                (index, value, seal(unsealed(value, job_id, MESSAGE), job_id, MESSAGE))
                for index, value in enumerate(stored)
                if not ring.is_first(value)
            ]
            new_trace = _new_trace(ring, job_id, entries)
        except ValueError as error:
            raise unreadable(job_id, "record, or what belongs to it,", str(error)) from None
        flat: list[Argument] = [len(new_fields)]
        flat += [part for change in new_fields for part in change]
        flat += [len(new_messages), *(part for change in new_messages for part in change)]
        flat += new_trace
        return flat, len(new_fields) + len(new_messages) + (len(new_trace) > 1)


def _is_old(ring: Keyring, name: str, value: bytes) -> bool:
    """Whether a field is to be sealed, and is not yet with the first key."""
    if not is_sealed_field(name):
        return False
    if name == "run":
        return not ring.is_first(value.partition(b" ")[2])
    return not (ring.is_first(value) or (name in PARTLY and ring.is_first_in(value)))


def _new_field(job_id: str, name: str, value: bytes) -> str | bytes:
    text = field_text(job_id, name, value)
    make: dict[str, Callable[[], str | bytes]] = {
        "run": lambda: sealed_run(job_id, text),
        "pause": lambda: stored_pause(Pause.model_validate_json(text), job_id),
        "outcome": lambda: stored_outcome(Outcome.model_validate_json(text), job_id),
        "cancel": lambda: stored_outcome(Outcome.model_validate_json(text), job_id),
    }
    return make.get(name, lambda: seal(text, job_id, field_place(name)))()


def _new_trace(ring: Keyring, job_id: str, entries: Any) -> list[Argument]:
    """The whole trace, if any of it is to be sealed anew; else that it stays."""
    flat: list[Argument] = []
    changes = False
    for entry_id, fields in entries:
        [(kind, value)] = fields.items()
        name = kind.decode()
        old = not (ring.is_first(value) or ring.is_first_in(value) or event_is_plain(name, value))
        changes = changes or old
        text = event_text(job_id, name, value) if old else ""
        flat += [entry_id, kind, seal(text, job_id, event_place(name)) if old else value]
    return [entries[-1][0], len(entries), *flat] if changes else [""]
