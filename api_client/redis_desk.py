"""The human desk's part of the store on Redis: messages, wishes, inbox, events, deliveries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from api_client.connection import Client, translated
from api_client.contract import Delivery, JobEvent, JobStatus, Mail, Wish
from api_client.errors import InvalidInput, JobUnreadable, shorten
from api_client.inbox import INBOX, InboxFilter, InboxPage, Order, check_page
from api_client.keys import Keys
from api_client.lists import (
    EVERY,
    JobFilter,
    JobPage,
    ListName,
    Mark,
    Place,
    Unreadable,
    check_limit,
    order_name,
    read_cursor,
    status_of,
    write_cursor,
)
from api_client.records import EVENT_ID_PATTERN, MAIL, PLAIN_OF_TOLD, TRACE, read_record
from api_client.redis_walk import Walk
from api_client.refusals import not_told
from api_client.scripts import Argument, Scripts
from api_client.sealing import CannotOpen, reveal, seal
from api_client.workers import RedisWorkers

_SCRIPTS = Scripts("api_client")

MAX_UNHEARD = 100
"""Messages of people that may wait in one job."""

MESSAGES_KNOWN = 128
"""How many of a job's messages, the latest, are known again by their ids: more than may wait."""


class RedisDesk(RedisWorkers):
    """Mixed into ``RedisJobStore``, which has the connection."""

    _redis: Client
    _where: str
    _partitions: tuple[Keys, ...]

    def _keys(self, job_id: str) -> Keys:
        raise NotImplementedError

    def _run(
        self,
        name: str,
        keys: Sequence[str],
        args: Sequence[Argument],
        scripts: Scripts = _SCRIPTS,
    ) -> Any:
        raise NotImplementedError

    def message(self, job_id: str, mail: Mail, message_id: str) -> None:
        """See ``JobStore.message``."""
        text = mail.model_dump_json(exclude_defaults=True, exclude={"number"})
        args: list[Argument] = [message_id, seal(text, job_id, MAIL), MAX_UNHEARD, MESSAGES_KNOWN]
        self._tell(job_id, "message", args)

    def halt(self, job_id: str, wish: Wish) -> None:
        """See ``JobStore.halt``."""
        self._tell(job_id, "halt", [seal(wish.model_dump_json(), job_id, "halt")])

    def _tell(self, job_id: str, script: str, args: Sequence[Argument]) -> None:
        reply = self._run(script, self._keys(job_id).of_job(job_id), args)
        answer = [item.decode() for item in reply]
        if answer[0] != "ok":
            raise not_told(job_id, *answer)

    # --- lists -----------------------------------------------------------------------------

    def inbox(
        self,
        chosen: InboxFilter,
        *,
        order: Order = "oldest",
        limit: int = 100,
        cursor: str = "",
    ) -> InboxPage:
        """See ``JobStore.inbox``."""
        check_page(order, limit)
        mark, age = read_cursor(cursor, INBOX, order), chosen.older_than_s
        with translated(self._where):
            latest = None if age is None else self._now_ms() - age * 1000
            walk = Walk(self._redis, self._partitions, JobStatus.PAUSED, chosen, order, latest)
            page, more = self._page(walk, JobStatus.PAUSED, limit, mark)
        return replace(page, next_cursor=write_cursor(INBOX, order, more) if more else "")

    def jobs(
        self,
        name: ListName,
        chosen: JobFilter = EVERY,
        *,
        newest_first: bool = True,
        limit: int = 100,
        cursor: str = "",
    ) -> JobPage:
        """See ``JobStore.jobs``."""
        check_limit(name, limit)
        order = order_name(newest_first)
        mark = read_cursor(cursor, name, order)
        with translated(self._where):
            until = mark.until or self._now_ms()
            walk = Walk(self._redis, self._partitions, name, chosen, order, until)
            page, more = self._page(walk, status_of(name), limit, mark)
        return replace(page, next_cursor=write_cursor(name, order, more, until) if more else "")

    def _page(
        self, walk: Walk, status: JobStatus, limit: int, mark: Mark
    ) -> tuple[JobPage, Place | None]:
        """The jobs of a page that are still in this status, and the place behind which it goes on.

        Jobs are read from the indexes' entries; one whose record has expired is passed over.
        """
        entries, more = walk.page(limit, mark.place)
        pipeline = self._redis.pipeline(transaction=False)
        for place, keys in entries:
            pipeline.hgetall(keys.job(place.job_id))
        items, unreadable = [], []
        for (place, _), raw in zip(entries, pipeline.execute(), strict=True):
            try:
                view = read_record(place.job_id, raw) if raw else None
            except JobUnreadable as error:
                unreadable.append(Unreadable(place.job_id, str(error)))
                continue
            if view is not None and view.status is status:
                items.append(view)
        return JobPage(tuple(items), total=walk.total(), unreadable=tuple(unreadable)), more

    # --- events of all jobs ------------------------------------------------------------------

    def job_events(
        self, after: str = "", count: int = 1000, block_s: float = 0.0
    ) -> list[JobEvent]:
        """See ``JobStore.job_events``. ``block_s`` is cut to two seconds a call: ask again."""
        places = self._places(after)
        streams = {keys.events: place for keys, place in zip(self._partitions, places, strict=True)}
        block_ms = int(min(block_s, 2.0) * 1000) or None
        with translated(self._where):
            reply = self._redis.xread(streams, count=count, block=block_ms) or []
        numbers = {keys.events: n for n, keys in enumerate(self._partitions)}
        found = [
            (entry_id.decode(), numbers[name.decode()], fields)
            for name, entries in reply
            for entry_id, fields in entries
        ]
        found.sort(key=lambda item: tuple(map(int, item[0].split("-"))))
        return [_event(places, *item) for item in found[:count]]

    def job_cursor(self, after: str) -> str:
        """See ``JobStore.job_cursor``."""
        return ",".join(self._places(after))

    def _places(self, after: str) -> list[str]:
        """Where to go on in the stream of each partition.

        Raises:
            InvalidInput: it is no cursor of this store.
        """
        width = len(self._partitions)
        if after == "$":
            return self._ends()
        places = after.split(",") if after else ["0"] * width
        if len(places) != width or not all(map(EVENT_ID_PATTERN.fullmatch, places)):
            raise InvalidInput(f"event cursor {shorten(after)}: give one as it was read")
        return places

    def _ends(self) -> list[str]:
        with translated(self._where):
            last = [self._redis.xrevrange(keys.events, count=1) for keys in self._partitions]
        return [entries[0][0].decode() if entries else "0" for entries in last]

    # --- announcements -----------------------------------------------------------------------

    def deliveries(self, job_id: str = "", limit: int = 100) -> list[Delivery]:
        """See ``JobStore.deliveries``."""
        with translated(self._where):
            if job_id:
                keys = self._keys(job_id)
                found = self._of_post(keys, job_id, self._redis.hgetall(keys.post_prefix + job_id))
            else:
                found = [d for keys in self._partitions for d in self._latest(keys, limit)]
        found.sort(key=lambda delivery: (delivery.at, delivery.id), reverse=True)
        return found[: max(0, limit)]

    def _latest(self, keys: Keys, limit: int) -> list[Delivery]:
        """Announcements of one partition: those that are under way, then those that are over."""
        ids = [
            *self._redis.zrange(keys.outbox, 0, limit - 1, desc=True),
            *self._redis.zrange(keys.posted, 0, limit - 1, desc=True),
        ]
        wanted = {item.decode() for item in ids}
        jobs = sorted({item.rpartition("/")[0] for item in wanted})
        pipeline = self._redis.pipeline(transaction=False)
        for job_id in jobs:
            pipeline.hgetall(keys.post_prefix + job_id)
        found: list[Delivery] = []
        for job_id, raw in zip(jobs, pipeline.execute(), strict=True):
            found += [d for d in self._of_post(keys, job_id, raw) if d.id in wanted]
        return found

    def _of_post(self, keys: Keys, job_id: str, raw: dict[bytes, bytes]) -> list[Delivery]:
        fields = {
            name.decode(): value.decode()
            for name, value in raw.items()
            if not name.endswith(b":payload")
        }
        ids = [f"{job_id}/{number}" for number in fields if number.isdigit()]
        due = self._redis.zmscore(keys.outbox, ids) if ids else []
        return [read_delivery(i, fields, d) for i, d in zip(ids, due, strict=True)]


def _event(places: list[str], entry_id: str, number: int, fields: dict[bytes, bytes]) -> JobEvent:
    """One event; moves the place in its partition on, so that the cursor is right behind it."""
    places[number] = entry_id
    job_id = fields[b"j"].decode()
    return JobEvent(
        cursor=",".join(places),
        job_id=job_id,
        event=fields[b"e"].decode(),
        at=int(entry_id.partition("-")[0]),
        agent=fields[b"a"].decode(),
        data=_told(job_id, fields[b"d"]),
    )


def _told(job_id: str, stored: bytes) -> dict[str, Any]:
    """What is told of a job; of what cannot be opened, why: followers go on."""
    try:
        told: dict[str, Any] = json.loads(reveal(stored, job_id, TRACE, PLAIN_OF_TOLD))
    except CannotOpen as error:
        return {"unreadable": str(error)}
    return told


def read_delivery(delivery_id: str, fields: dict[str, str], due: float | None = None) -> Delivery:
    """One announcement out of the hash of its job."""
    job_id, _, number = delivery_id.rpartition("/")
    told = json.loads(fields[number])
    return Delivery(
        id=delivery_id,
        job_id=job_id,
        channel=told["channel"],
        event=told["event"],
        at=int(told["at"]),
        state=fields.get(f"{number}:state", "pending"),
        tries=int(fields.get(f"{number}:tries", 0)),
        error=fields.get(f"{number}:error", ""),
        due=None if due is None else int(due),
    )
