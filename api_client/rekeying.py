"""Sealing what is stored with the first key: after a new key, or when encryption is switched on.

The jobs themselves are in ``rekeying_jobs``; here is what is told of them: announcements, the
events of all jobs, live streams. Results in Celery's backend are in ``rekeying_results``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from api_client.connection import translated
from api_client.contract import Outcome, Pause
from api_client.errors import InvalidInput
from api_client.keys import Keys
from api_client.records import (
    OUTCOME,
    PLAIN_OF_TOLD,
    TRACE,
    stored_outcome,
    stored_pause,
    told_place,
)
from api_client.rekeying_jobs import Rekeyed, RekeyJobs, Remaining
from api_client.scripts import Argument
from api_client.sealing import SETTING, hide, holds_only, keyring, reveal


class RekeyStore(RekeyJobs):
    """The store, for who changes its keys. Jobs may run meanwhile."""

    def rekey(self, *, dry_run: bool = False) -> Rekeyed:
        """Seal everything in the store with the first key that is not yet.

        Live streams are not sealed anew, and are told of.

        Raises:
            InvalidInput: there is no key.
        """
        if not keyring():
            raise InvalidInput(f"{SETTING} is not set: there is no key to encrypt with")
        found, job_ids = Rekeyed(), self.every_job()
        self.rekey_jobs(job_ids, found, dry_run=dry_run)
        # copies of what is in the records, so they come behind these
        for job_id in self._every_announced(job_ids):
            self._rekey_announcements(job_id, found, dry_run=dry_run)
        for keys in self._partitions:
            self._rekey_events(keys, found, dry_run=dry_run)
        self._look_at_live(job_ids, found)
        return found

    # --- announcements -----------------------------------------------------------------------

    def _every_announced(self, job_ids: Sequence[str]) -> list[str]:
        """Ids of jobs that may have announcements, also of jobs that are forgotten."""
        found = dict.fromkeys(job_ids)
        with translated(self._where):
            for keys in self._partitions:
                for name in (keys.outbox, keys.posted):
                    posts = self._redis.zrange(name, 0, -1)
                    found.update(dict.fromkeys(p.decode().rpartition("/")[0] for p in posts))
        return [*found]

    def _rekey_announcements(self, job_id: str, found: Rekeyed, *, dry_run: bool) -> None:
        key = self._keys(job_id).post_prefix + job_id
        with translated(self._where):
            fields: dict[bytes, bytes] = self._redis.hgetall(key)
        changes: list[Argument] = []
        for name in filter(bytes.isdigit, fields):
            try:
                change = _new_announcement(job_id, name, fields)
            except ValueError as error:
                found.unreadable.append(
                    f"announcement {job_id}/{name.decode()}: it cannot be read: {error}"
                )
                continue
            found.announcements += bool(change)
            changes += change
        if changes and not dry_run:
            self._run("rekey", [key], [len(changes) // 3, *changes, 0, ""])

    # --- events of all jobs --------------------------------------------------------------------

    def _rekey_events(self, keys: Keys, found: Rekeyed, *, dry_run: bool) -> None:
        with translated(self._where):
            entries: Any = self._redis.xrange(keys.events)
        changes: list[Argument] = []
        for entry_id, fields in entries:
            try:
                new = _new_told(fields[b"j"].decode(), fields[b"d"])
            except ValueError as error:
                found.unreadable.append(f"event {entry_id.decode()}: it cannot be read: {error}")
                continue
            changes += [entry_id, fields[b"d"], new] if new else []
        found.events += len(changes) // 3
        if changes and not dry_run:
            self._run("rekey_events", [keys.events], changes)

    # --- live streams --------------------------------------------------------------------------

    def _look_at_live(self, job_ids: Sequence[str], found: Rekeyed) -> None:
        """Tell of live streams that hold pieces under another key, or none."""
        old = [left for job_id in job_ids if (left := self._old_live_ms(job_id)) > 0]
        if old:
            what = f"live streams of {len(old)} jobs, an hour longer with each piece that follows"
            found.remaining.append(Remaining(what, self.now_ms() + max(old)))

    def _old_live_ms(self, job_id: str) -> int:
        """Milliseconds until a live stream is forgotten; 0 if all of it has the first key."""
        name, ring = self._keys(job_id).live(job_id), keyring()
        with translated(self._where):
            pieces: Any = self._redis.xrange(name)
            if all(ring.is_first(fields[b"d"]) for _, fields in pieces):
                return 0
            return max(1, int(self._redis.pttl(name)))


def _new_announcement(job_id: str, number: bytes, fields: Mapping[bytes, bytes]) -> list[Argument]:
    """Name, old and new value of each field that changes.

    Raises:
        ValueError: it cannot be opened.
    """
    ring, told, packed = keyring(), json.loads(fields[number]), number + b":payload"
    stored = fields.get(packed) or told["payload"].encode()
    if ring.is_first(stored) or ring.is_first_in(stored):
        return []
    place = told_place(told["event"])
    text = reveal(stored, job_id, place)
    new: str | bytes = (
        stored_outcome(Outcome.model_validate_json(text), job_id)
        if place == OUTCOME
        else stored_pause(Pause.model_validate_json(text), job_id)
    )
    if isinstance(new, bytes):
        told["payload"] = ""
        return [
            *(number, fields[number], json.dumps(told)),
            *(packed, fields.get(packed, b""), new),
        ]
    told["payload"] = new
    return [number, fields[number], json.dumps(told)]


def _new_told(job_id: str, stored: bytes) -> str:
    """What is told of a job, sealed anew; empty if it may stay."""
    if keyring().is_first_in(stored) or holds_only(json.loads(stored), PLAIN_OF_TOLD):
        return ""
    return hide(json.loads(reveal(stored, job_id, TRACE)), ("by",), job_id, TRACE)
