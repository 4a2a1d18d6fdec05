"""Celery's revoke, made durable: it cancels the job in the store, whoever sends it.

A revoke is a broadcast: a worker that is down never learns of it, and one that knows the id
discards later hints. So the store is told as well, by the program that revokes if it has this
package, and by every worker that hears it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from celery.app.control import Control
from celery.utils.functional import maybe_list
from celery.worker.control import Panel, inspect_command

from api_client.contract import TASK_PREFIX
from api_client.errors import JobNotFound, StoreUnavailable
from worker.service import Service
from worker.telemetry.observer import JobEnded

log = logging.getLogger(__name__)

NAMESAKE_S = 0.25
"""Seconds that a living worker of the same name has to answer."""


def with_durable_revoke(base: type[Control], service: Service) -> type[Control]:
    """The app's ``control``, whose ``revoke`` also cancels jobs in the store."""

    class AgentControl(base):  # type: ignore[misc, valid-type]
        def revoke(self, task_id: Any, *args: Any, **kwargs: Any) -> Any:
            cancel_jobs(service, maybe_list(task_id) or [], "revoked")
            return super().revoke(task_id, *args, **kwargs)

    return AgentControl


def cancel_jobs(service: Service, ids: Iterable[str], note: str) -> None:
    """Cancel those of the ids that are jobs; ids of other tasks are passed over."""
    for job_id in ids:
        try:
            service.store.cancel(str(job_id), by="celery", note=note)
        except JobNotFound:
            log.debug("revoke of %s: not a job", job_id)


def note_revoked(sender: Any, request: Any, expired: bool = False, **_: Any) -> None:
    """Celery discarded a job's message as revoked and has recorded REVOKED: so has the store."""
    service = getattr(sender, "service", None)
    if service is None or not sender.name.startswith(TASK_PREFIX):
        return
    try:
        cancel_jobs(service, [request.id], "expired" if expired else "revoked")
        view = service.store.read(request.id)
        if view.outcome is not None:
            service.observer.note(JobEnded(view.spec, view.status, view.outcome))
        service.published(request.id, sender.agent.name)
    except JobNotFound:
        log.debug("job %s: revoked before anything of it was stored", request.id)
    except StoreUnavailable as error:
        log.warning("job %s: revoked, but the store could not be told: %s", request.id, error)


@inspect_command()
def stepkeeper_boot(state: Any) -> str:
    """Which start of the worker this is."""
    service: Service = state.app.stepkeeper
    return service.boot


@contextmanager
def live_namesakes(service: Service) -> Iterator[list[str]]:
    """Other workers of this node name that are alive: their boot ids.

    Over a connection of its own: one of the app's pool would go on waiting for replies, and each
    pool process forked afterwards would, in closing its copy, wait for them as well, until Celery
    kills it for not starting. Closing it takes most of a second on Redis, where a read must end
    first: what follows from the answer goes into the block.
    """
    with service.app.connection_for_write() as connection:
        replies = service.app.control.broadcast(
            stepkeeper_boot.__name__,
            destination=[service.node],
            reply=True,
            timeout=NAMESAKE_S,
            connection=connection,
        )
        boots = [boot for reply in replies or () for boot in reply.values()]
        yield [boot for boot in boots if boot != service.boot]


def listen_for_event_switch(service: Service, on: bool) -> None:
    """Send events of jobs when this worker sends events of tasks, as it does ``on`` its start.

    Whoever watches may switch them on and off: Flower asks for them again and again.
    """
    switch = {True: service.told.set, False: service.told.clear}
    switch[on]()
    for name, value in (("enable_events", True), ("disable_events", False)):
        Panel.data[name] = _switching(Panel.data[name], switch[value])


def _switching(celerys_own: Callable[..., Any], switch: Callable[[], None]) -> Callable[..., Any]:
    def command(state: Any, **kwargs: Any) -> Any:
        switch()
        return celerys_own(state, **kwargs)

    return command


def listen_for_revokes(service: Service) -> None:
    """Make this worker's ``revoke`` command tell the store."""
    celerys_own = Panel.data["revoke"]

    def revoke(state: Any, task_id: Any, terminate: bool = False, **kwargs: Any) -> Any:
        try:
            cancel_jobs(service, maybe_list(task_id) or [], "revoked")
        except StoreUnavailable as error:
            log.warning("revoke of %s: the store could not be told: %s", task_id, error)
        try:
            return celerys_own(state, task_id, terminate=terminate, **kwargs)
        except NotImplementedError:  # threads cannot be killed; the job ends at its next commit
            return celerys_own(state, task_id, terminate=False, **kwargs)

    Panel.data["revoke"] = revoke
