"""The store on Redis: one Lua script a transition, see ``lua/*.lua`` for their keys."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

from api_client.connection import translated
from api_client.contract import (
    JOB_ID_PATTERN,
    SCHEMA_VERSION,
    SIGNAL,
    JobSpec,
    JobStatus,
    Mail,
    Outcome,
    Pause,
    Wish,
)
from api_client.live import LIVE, LIVE_LENGTH, LIVE_TTL_S
from api_client.records import (
    MESSAGE,
    children_of,
    dumps,
    event_place,
    json_bytes,
    read_mail,
    record_of,
    sealed_run,
    stored_outcome,
    stored_pause,
    texts_of,
)
from api_client.runs import number, numbered, write_event
from api_client.scripts import Argument
from api_client.sealing import CannotOpen, keyring, locked, seal, seal_bytes, unseal
from worker.store.base import (
    Claim,
    Claimed,
    CommitAnswer,
    LiveAnswer,
    Mark,
    NotClaimed,
    Progress,
    Renewal,
    Settlement,
    Ticket,
    ToPublish,
    Underway,
)
from worker.store.committing import CommitCall, Told
from worker.store.outcomes import expired_outcome, poison_outcome
from worker.store.redis_keeping import LOCKED_MS, SCRIPTS, RedisKeeping, read_hints
from worker.store.wire import Head, Wire

log = logging.getLogger(__name__)

_LIVE_ANSWERS: dict[int, LiveAnswer] = {0: "fenced", 1: "committed", 2: "cancel"}
_RENEWALS: dict[int, Renewal] = {0: "lost", 1: "renewed", 2: "cancel", 3: "crowded"}


MOST_HEADS = 4096
"""Of how many claims the beginning of a commit is kept; it is made again for others."""


class RedisCheckpointStore(RedisKeeping):
    """``CheckpointStore`` on Redis.

    Attributes:
        on_turn: see ``CheckpointStore``.
    """

    on_turn: Callable[[JobSpec], object] = staticmethod(lambda _spec: None)

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
        """See ``CheckpointStore.claim``."""
        if not JOB_ID_PATTERN.fullmatch(job_id):
            return NotClaimed("missing")
        poison, poison_record, expired = _ends_by_claim(job_id, max_tries)
        args: list[Argument] = [
            job_id,
            owner,
            nonce,
            lease_ms,
            max_tries,
            poison,
            SCHEMA_VERSION,
            wary_of,
            ",".join(keyring().names),
            "" if known is None else str(known),
            ",".join(agents),
            poison_record,
            expired,
            int(keyring().required),
        ]
        reply = self._call("claim", self._keys(job_id).of_telling(job_id), args)
        kind = reply[0].decode()
        if kind in ("turn", "run", "publish"):
            self._hint_all(reply[5] if kind == "run" else reply[2])
        if kind == "locked":
            return self._left_locked(job_id, locked(reply[1].decode()))
        if kind not in ("run", "publish"):
            return NotClaimed(kind, reply[1].decode() if len(reply) > 1 else "")
        try:
            return self._read_claim(job_id, kind, reply)
        except CannotOpen as error:
            self._call("excuse", [self._keys(job_id).job(job_id)], [nonce, LOCKED_MS])
            return self._left_locked(job_id, str(error))

    def _left_locked(self, job_id: str, why: str) -> NotClaimed:
        log.error("job %s is left alone: %s", job_id, why)
        return NotClaimed("locked", why)

    def _read_claim(self, job_id: str, kind: str, reply: Sequence[Any]) -> Claimed | ToPublish:
        record = record_of(job_id, reply[1])
        if kind == "publish":
            return ToPublish(
                spec=JobSpec.model_validate_json(record["spec"]),
                status=JobStatus(record["status"]),
                outcome=Outcome.model_validate_json(record["outcome"]),
                children=children_of(record),
            )
        was, waited_ms = reply[3].decode(), int(reply[4])
        return replace(
            _claimed(record, [json.loads(unseal(m, job_id, MESSAGE)) for m in reply[2]]),
            was=JobStatus(was) if was else None,
            waited_ms=waited_ms if was else None,
            crowded=bool(reply[6]),
            unchanged=bool(reply[7]),
        )

    def _hint_all(self, found: Sequence[bytes]) -> None:
        """Tell of the jobs whose turn has come: id, status and spec, one behind the other."""
        for hint in read_hints(found):
            self.on_turn(hint.spec)

    @property
    def _told_of_commits(self) -> Told | None:
        """Who is told how long each commit took."""
        return None

    @cached_property
    def _wire(self) -> Wire:
        return Wire(self._redis, SCRIPTS.text("commit"))

    @cached_property
    def _heads(self) -> dict[tuple[str, str], Head]:
        return {}

    def _commit_head(self, job_id: str, token: str) -> Head:
        """What is the same in all commits of a claim; the latest are kept."""
        head = self._heads.get((job_id, token))
        if head is None:
            keys = self._keys(job_id).of_job(job_id)
            words = ["EVALSHA", SCRIPTS.digest("commit"), str(len(keys)), *keys, token]
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            head = self._heads[job_id, token] = Head(words)
        return head

    def commit(self, ticket: Ticket, progress: Progress) -> CommitAnswer:
        """See ``CheckpointStore.commit``."""
        return self._send_commit(ticket, progress, None, hold=False)()

    def begin_commit(
        self, ticket: Ticket, progress: Progress, before: Underway | None = None
    ) -> Underway:
        """See ``CheckpointStore.begin_commit``."""
        known = before if isinstance(before, CommitCall) else None
        return self._send_commit(ticket, progress, known, hold=before is None)

    def _send_commit(
        self, ticket: Ticket, progress: Progress, before: CommitCall | None, *, hold: bool
    ) -> CommitCall:
        args = [
            b"%d" % ticket.seq,
            *_stored_progress(ticket, progress),
            b"1" if progress.consumes_signal else b"0",
            b"" if progress.heard is None else b"%d" % progress.heard,
            *_stored_messages(ticket, progress),
        ]
        general = partial(self._commit_by_general_way, ticket, args)
        call = CommitCall(general, self._where, self._told_of_commits)
        command = self._commit_head(ticket.job_id, ticket.token).packed(args)
        call.send(self._wire, command, before, hold)
        return call

    def _commit_by_general_way(self, ticket: Ticket, args: Sequence[bytes]) -> Any:
        keys = self._keys(ticket.job_id).of_job(ticket.job_id)
        return self._call("commit", keys, [ticket.token, *args])

    def settle(
        self, ticket: Ticket, progress: Progress, settlement: Settlement
    ) -> JobStatus | None:
        """See ``CheckpointStore.settle``."""
        payload = settlement.payload
        run, *event = _stored_progress(ticket, progress)
        args: list[Argument] = [
            ticket.job_id,
            ticket.token,
            ticket.seq,
            run,
            settlement.status,
            _stored(payload, ticket.job_id),
            settlement.delay_ms,
            *event,
            int(progress.consumes_signal),
            ",".join(settlement.channels),
            settlement.steps,
            int(settlement.left_to_hint),
            *_stored_messages(ticket, progress),
        ]
        keys = self._keys(ticket.job_id).of_telling(ticket.job_id)
        answer = self._call("settle", keys, args)
        status = answer[0].decode()
        self._hint_all(answer[1] if len(answer) > 1 else ())
        return None if status == "fenced" else JobStatus(status)

    def renew(self, leases: Sequence[tuple[str, int]], lease_ms: int) -> list[Renewal]:
        """See ``CheckpointStore.renew``; one round trip a partition."""
        answers: dict[tuple[str, int], Renewal] = {}
        for keys in self._partitions:
            mine = [(job_id, epoch) for job_id, epoch in leases if self._keys(job_id) is keys]
            if mine:
                names = [keys.due, *(keys.job(job_id) for job_id, _ in mine)]
                flat = [item for pair in mine for item in pair]
                reply = self._call("renew", names, [lease_ms, *flat])
                answers.update({mine[i]: _RENEWALS[code] for i, code in enumerate(reply)})
        return [answers[lease] for lease in leases]

    def mail(self, job_id: str) -> list[Mail]:
        """See ``CheckpointStore.mail``."""
        key = self._keys(job_id).job(job_id)
        with translated(self._where):
            raw = self._redis.hgetall(key)
        return read_mail(texts_of(job_id, raw))

    def emit(self, job_id: str, epoch: int, records: Sequence[Mapping[str, Any]]) -> LiveAnswer:
        """See ``CheckpointStore.emit``."""
        keys = self._keys(job_id)
        args: list[Argument] = [epoch, LIVE_LENGTH, LIVE_TTL_S]
        args += [seal(dumps(record), job_id, LIVE) for record in records]
        return _LIVE_ANSWERS[self._call("emit", [keys.job(job_id), keys.live(job_id)], args)]


def _claimed(record: dict[str, str], messages: list[dict[str, Any]]) -> Claimed:
    seq, run = numbered(record.get("run"))
    signal = record.get("signal")
    pause = record.get("pause")
    return Claimed(
        spec=JobSpec.model_validate_json(record["spec"]),
        epoch=int(record["epoch"]),
        seq=seq,
        tries=int(record["tries"]),
        messages=messages,
        run=run,
        pause=None if signal is None or pause is None else Pause.model_validate_json(pause),
        signal=None if signal is None else SIGNAL.validate_json(signal),
        mail=tuple(read_mail(record)),
        halt=Wish.model_validate_json(record["halt"]) if "halt" in record else None,
        nonce=record["nonce"],
    )


def _stored_progress(ticket: Ticket, progress: Progress) -> list[bytes]:
    """The run state, and kind and data of the trace record, as they are stored."""
    job_id, place = ticket.job_id, event_place(progress.kind)
    run = sealed_run(job_id, number(ticket.seq, progress.run))
    kind, data = write_event(
        progress.kind, progress.data, lambda value: seal_bytes(json_bytes(value), job_id, place)
    )
    return [run.encode() if isinstance(run, str) else run, kind.encode(), data]


def _stored_messages(ticket: Ticket, progress: Progress) -> list[bytes]:
    job_id = ticket.job_id
    return [seal_bytes(json_bytes(message), job_id, MESSAGE) for message in progress.messages]


def _stored(payload: Pause | Outcome | None, job_id: str) -> str | bytes:
    """A pause, or an outcome, of which scripts can read what they need."""
    if isinstance(payload, Pause):
        return stored_pause(payload, job_id)
    return "" if payload is None else stored_outcome(payload, job_id)


def _ends_by_claim(job_id: str, max_tries: int) -> tuple[str | bytes, ...]:
    """What a claim may end a job with: the outcome of poison, its trace record, that it expired."""
    if not keyring():
        return _plain_ends(max_tries)
    poison = poison_outcome(max_tries)
    return (
        stored_outcome(poison, job_id),
        seal(poison.model_dump_json(), job_id, event_place("failed")),
        stored_outcome(expired_outcome(), job_id),
    )


@cache
def _plain_ends(max_tries: int) -> tuple[str, ...]:
    """The same in the clear, where it is the same for all jobs."""
    poison = poison_outcome(max_tries).model_dump_json()
    return poison, poison, expired_outcome().model_dump_json()
