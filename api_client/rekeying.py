"""Sealing what is stored with the first key: after a new key, or when encryption is switched on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from api_client.admin import AdminStore
from api_client.connection import translated
from api_client.contract import JobStatus, Outcome, Pause
from api_client.errors import InvalidInput, JobUnreadable
from api_client.records import (
    MAIL,
    MESSAGE,
    PARTLY,
    event_place,
    field_place,
    field_text,
    sealed_run,
    stored_outcome,
    stored_pause,
)
from api_client.refusals import unreadable
from api_client.scripts import Argument
from api_client.sealing import SETTING, Keyring, keyring, reveal, seal, unsealed

_SEALED_FIELDS = ("spec", "run", "signal", "halt", *PARTLY)
_MESSAGES = f"{MAIL}:"
"""How the names of fields begin that hold messages; ``mail`` itself is a number for scripts."""
_ROUNDS = 5


@dataclass(slots=True)
class Rekeyed:
    """What became of the jobs.

    Attributes:
        jobs: that were looked at.
        changed: of which something was, or is to be, sealed anew.
        unreadable: those of which something cannot be opened, and why.
    """

    jobs: int = 0
    changed: int = 0
    unreadable: list[str] = field(default_factory=list)


class RekeyStore(AdminStore):
    """The store, for who changes its keys. Jobs may run meanwhile."""

    def rekey(self, *, dry_run: bool = False) -> Rekeyed:
        """Seal everything with the first key that is not yet.

        Raises:
            InvalidInput: there is no key.
        """
        if not keyring():
            raise InvalidInput(f"{SETTING} is not set: there is no key to encrypt with")
        found = Rekeyed()
        for job_id in self._every_job():
            found.jobs += 1
            try:
                found.changed += self.rekey_job(job_id, dry_run=dry_run)
            except JobUnreadable as error:
                found.unreadable.append(str(error))
        return found

    def _every_job(self) -> list[str]:
        """Ids of all jobs. The lists are read twice: a job may go from one to another meanwhile."""
        found: dict[bytes, None] = {}
        with translated(self._where):
            for keys in self._partitions:
                for status in (*JobStatus, *JobStatus):
                    found.update(dict.fromkeys(self._redis.zrange(keys.index(status), 0, -1)))
        return [job_id.decode() for job_id in found]

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
    if name not in _SEALED_FIELDS and not name.startswith(_MESSAGES):
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
        old = not (ring.is_first(value) or _is_open(value) or ring.is_first_in(value))
        changes = changes or old
        place = event_place(kind.decode())
        text = reveal(unsealed(value, job_id, place), job_id, place) if old else ""
        flat += [entry_id, kind, seal(text, job_id, place) if old else value]
    return [entries[-1][0], len(entries), *flat] if changes else [""]


def _is_open(value: bytes) -> bool:
    """Whether a record holds no text: an empty object, or what scripts write of a claim."""
    if value.startswith(b"\x01"):
        return False
    found = json.loads(value)
    return isinstance(found, dict) and set(found) <= {"worker", "tries", "was"}
