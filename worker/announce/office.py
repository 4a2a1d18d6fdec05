"""The post office of one worker: takes announcements that are due, delivers them, tries again."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery
from celery.canvas import maybe_signature

from api_client.errors import StoreUnavailable
from worker.agent import Agent
from worker.announce.body import body_of
from worker.announce.channels import WEBHOOK, channels_of, signature_of, url_of
from worker.announce.webhook import NotDelivered, post
from worker.forking import no_fork
from worker.settings import Settings
from worker.store.base import CheckpointStore, Post

log = logging.getLogger(__name__)

AT_ONCE = 8
FIRST_DELAY_S = 5.0
LONGEST_DELAY_S = 3600.0

_TASK_IDS = uuid.UUID("7d1c1f0e-8a54-5b0d-9a63-4d7f5c2f8e11")


class PostOffice:
    """Delivers announcements of this worker's agents.

    Args:
        store: a function, because the store belongs to a process.
        clock: seconds since the epoch, for signatures.
    """

    def __init__(
        self,
        app: Celery,
        settings: Settings,
        agents: Mapping[str, Agent],
        store: Callable[[], CheckpointStore],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._settings = settings
        self._agents = agents
        self._store = store
        self._clock = clock

    @property
    def needed(self) -> bool:
        """Whether anything is announced at all."""
        settings = self._settings
        events = ("paused", "finished")
        agents = [None, *self._agents.values()]
        return any(channels_of(agent, event, settings) for agent in agents for event in events)

    def deliver_due(self) -> int:
        """Deliver what is due now, several at once; returns how many attempts were made.

        Raises:
            StoreUnavailable
        """
        # An attempt whose worker died is made again when its time has passed.
        lease_ms = int((3 * self._settings.webhook_timeout_s + 30) * 1000)
        with no_fork():
            posts = self._store().fetch_post(AT_ONCE, lease_ms)
        if len(posts) > 1:
            with ThreadPoolExecutor(len(posts), "stepkeeper-post") as pool:
                list(pool.map(self._deliver, posts))
        elif posts:
            self._deliver(posts[0])
        return len(posts)

    def _deliver(self, one: Post) -> None:
        """One attempt, and a note of what became of it."""
        store = self._store()
        try:
            with no_fork():
                said = body_of(store, one)
            self._send(one, said)
        except StoreUnavailable as away:
            log.warning("announcement %s: %s; it is tried again", one.post_id, away)
        except Exception as failed:  # noqa: BLE001 - whatever a broker or a task raises
            self._failed(store, one, failed)
        else:
            with no_fork():
                store.note_post(one.post_id, "delivered")

    def _failed(self, store: CheckpointStore, one: Post, failed: Exception) -> None:
        error = str(failed) if isinstance(failed, NotDelivered) else repr(failed)[:200]
        log.warning("announcement %s: attempt %d failed: %s", one.post_id, one.tries, error)
        over = one.tries >= self._settings.webhook_attempts
        delay_ms = 0 if over else int(delay_s(one.tries) * 1000)
        with no_fork():
            store.note_post(one.post_id, "given_up" if over else "pending", error, delay_ms)

    def _send(self, one: Post, said: Mapping[str, Any]) -> None:
        agent = self._agents.get(one.agent)
        if one.channel == WEBHOOK:
            settings, url = self._settings, url_of(agent, self._settings)
            if not url:
                raise NotDelivered("no webhook is configured here any more")
            secret = settings.webhook_secret.get_secret_value()
            post(url, said, secret, int(self._clock()), settings.webhook_timeout_s)
            return
        signature = None if agent is None else signature_of(agent, one.event)
        if signature is None:
            raise NotDelivered("the agent has no such signature here")
        task: Any = maybe_signature(signature, app=self._app)  # type: ignore[arg-type]
        task_id = str(uuid.uuid5(_TASK_IDS, one.post_id))
        with no_fork():
            task.clone(args=(dict(said),)).apply_async(task_id=task_id, retry=False)


def delay_s(tries: int) -> float:
    """Seconds between an attempt and the next one."""
    return min(FIRST_DELAY_S * float(2 ** min(tries - 1, 20)), LONGEST_DELAY_S)
