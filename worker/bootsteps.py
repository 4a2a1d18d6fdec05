"""What runs beside the pool in every worker: taking over, sweeping, announcing, stopping."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import bootsteps
from celery.signals import worker_process_shutdown, worker_shutdown
from celery.worker.components import Pool
from kombu.exceptions import OperationalError

from api_client.contract import JobStatus
from api_client.errors import StoreUnavailable
from api_client.hints import try_hint
from worker.announcing import announce_agents, announce_slots
from worker.appointments import keep_appointment
from worker.broker import Backlog, reachable
from worker.celery_config import check_backend, check_pool
from worker.consumer import send_celerys_events
from worker.control import listen_for_event_switch, listen_for_revokes, live_namesakes
from worker.flow.book import LOOK_EVERY_S, Lookout
from worker.forking import no_fork
from worker.heartbeat import beat_until
from worker.service import Service
from worker.shutdown import Leaving, pool_children
from worker.store.base import Hint
from worker.telemetry.observer import Swept, TakenOver
from worker.watchdog import replace_process, watch

log = logging.getLogger(__name__)

SWEEP_LIMIT = 500
ANNOUNCE_EVERY_S = 60.0
CELERYS_FIRST_S = 0.5


class Keeper(bootsteps.StartStopStep):
    """A worker's part in keeping every job alive. Executes none itself."""

    label = "Stepkeeper"
    requires = (Pool,)  # it forks its children before there are threads of ours

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        self._service: Service = worker.app.stepkeeper
        check_backend(worker.app)
        pool = check_pool(self._service.settings, worker.pool_cls)
        self._service.begin(worker.hostname, pool)
        self._in_this_process = pool != "prefork"
        self._leaving = Leaving(
            self._service,
            self._service.settings.shutdown_grace_s,
            partial(pool_children, worker),
        )
        self._slots: int = worker.concurrency
        self._done = threading.Event()
        self._sweep_planned_s = time.monotonic()
        self._broker_away = False
        listen_for_revokes(self._service)
        listen_for_event_switch(self._service, on=worker.task_events)
        worker_shutdown.connect(self._on_ended, weak=False)
        worker_process_shutdown.connect(self._on_child_ends, weak=False)

    def _on_ended(self, **_: Any) -> None:
        self._leaving.over()
        self._service.telemetry.close()

    def _on_child_ends(self, **_: Any) -> None:
        self._service.telemetry.close()

    def start(self, worker: Any) -> None:
        """Called when the worker starts."""
        if self._in_this_process:
            consumer = worker.consumer
            self._service.celerys_first = partial(send_celerys_events, consumer, CELERYS_FIRST_S)
        self._service.telemetry.expose(self._service.store, self._service.limits)
        self._leaving.start()
        self._announce()  # before the first message comes: it is claimed by what is known then
        loops: tuple[Callable[[], None], ...] = (
            self._sweep_loop,
            self._announce_loop,
            self._post_loop,
            self._limits_loop,
            partial(self._watch_loop, worker),
            partial(beat_until, self._done, self._service, worker),
        )
        for number, target in enumerate(loops):
            name = f"stepkeeper-keeper-{number}"
            threading.Thread(target=target, name=name, daemon=True).start()

    def close(self, worker: Any) -> None:  # noqa: ARG002
        """Called when the worker begins to end, whoever wants that (rule 16)."""
        self._done.set()
        self._leaving.close()

    def stop(self, worker: Any) -> None:  # noqa: ARG002
        """Called when the worker ends; waits for the event loop's jobs, within the grace time."""
        self._done.set()
        settings = self._service.settings
        in_flight = self._service.in_flight if settings.in_flight else None
        if in_flight is not None and not in_flight.wait_empty(settings.shutdown_grace_s):
            self._leaving.leave()

    def _sweep_loop(self) -> None:
        settings = self._service.settings
        taken_over = False
        while not self._done.wait(settings.sweep_s if taken_over else 0):
            try:
                if not taken_over:
                    with no_fork():
                        self.take_over()
                    taken_over = True
                self.sweep()
            except StoreUnavailable as error:
                log.warning("sweep: %s", error)
                self._done.wait(1.0)
            except OperationalError as error:  # Celery's own lines say where its broker is
                log.warning("sweep: cannot reach the broker: %s", error)
                self._done.wait(1.0)
            except Exception:
                log.exception("sweep failed; the next one tries again")
                self._done.wait(1.0)

    def _watch_loop(self, worker: Any) -> None:
        """Restart this worker if it stalls."""
        restarting = Leaving(self._service, 0, partial(pool_children, worker), end=replace_process)
        watch(
            self._service.app,
            worker.concurrency,
            self._service.settings.stall_s,
            self._done.wait,
            restarting.leave,
        )

    def take_over(self) -> None:
        """Free the jobs that the previous start of this worker held when it died.

        A worker of the same name that is alive holds its jobs rightly: nothing is freed then, and
        each of the two keeps to its own.
        """
        service = self._service
        with live_namesakes(service) as namesakes:
            if namesakes:
                log.error(
                    "another worker called %s is running; its jobs are left alone. Give each "
                    "worker a name of its own (--hostname, or stepkeeper worker --name)",
                    service.node,
                )
                return
            for spec in service.store.abandon(f"{service.node}/", keep=service.owner_prefix):
                service.observer.note(TakenOver(spec))
                service.hint(spec)

    def sweep(self) -> None:
        """Hint what is due."""
        if self._broker_is_away():
            return
        settings, begun_s, count = self._service.settings, time.monotonic(), 0
        late_ms = int(max(0.0, begun_s - self._sweep_planned_s) * 1000)
        backlog = Backlog(self._service.app)
        while True:
            with no_fork():
                hints = self._service.store.sweep(
                    limit=SWEEP_LIMIT,
                    grace_ms=int(settings.hint_grace_s * 1000),
                    cap_ms=int(settings.hint_cap_s * 1000),
                )
            for hint in hints:
                with no_fork():
                    self._try_to_follow(hint, backlog)
                if self._broker_away:
                    break
            count += len(hints)
            if len(hints) < SWEEP_LIMIT or self._broker_away:
                break
        ended_s = time.monotonic()
        self._sweep_planned_s = ended_s + settings.sweep_s
        self._service.observer.note(Swept(count, int((ended_s - begun_s) * 1000), late_ms))

    def _broker_is_away(self) -> bool:
        """Each sweep puts off the next hint of what it finds: without a broker none is made."""
        if self._broker_away:
            with no_fork():
                self._broker_away = not reachable(self._service.app)
        return self._broker_away

    def _try_to_follow(self, hint: Hint, backlog: Backlog) -> None:
        """Hint a job, unless that is no news; one that cannot be routed keeps no other waiting."""
        try:
            if not (hint.again and backlog.holds(hint.spec)):
                self._follow(hint)
        except (StoreUnavailable, OperationalError):
            raise
        except Exception:
            log.exception("job %s: its hint cannot be sent; tried again", hint.spec.job_id)

    def _follow(self, hint: Hint) -> None:
        """Hint a job; if it is paused, first do what its timetable asks for."""
        service, spec = self._service, hint.spec
        if hint.status is JobStatus.PAUSED:
            goes_on = keep_appointment(service.store, spec.job_id, service.channels)
            if goes_on is None:
                return
        self._broker_away = not try_hint(service.app, spec, again=True)

    def _post_loop(self) -> None:
        """Deliver announcements, beside everything else: a slow receiver holds up no job."""
        service = self._service
        while service.office.needed and not self._done.wait(service.settings.sweep_s):
            try:
                while service.office.deliver_due() and not self._done.is_set():
                    continue
            except StoreUnavailable as error:
                log.warning("announcements: %s", error)
            except Exception:
                log.exception("announcements: failed; tried again")

    def _limits_loop(self) -> None:
        """Notice limits of models that were set at run time; the pool's processes read them."""
        service = self._service
        lookout = Lookout(lambda: service.ledger.limits(), service.limits_tick)
        told = ""
        while not self._done.is_set():
            try:
                with no_fork():
                    lookout.look()
                told = ""
            except StoreUnavailable as error:
                if str(error) != told:  # not every two seconds
                    log.warning("limits of models: %s", error)
                told = str(error)
            except Exception:
                log.exception("limits of models: failed; looked at again")
            self._done.wait(LOOK_EVERY_S)

    def _announce_loop(self) -> None:
        while not self._done.wait(ANNOUNCE_EVERY_S):
            self._announce()

    def _announce(self) -> None:
        try:
            with no_fork():
                self.announce()
        except StoreUnavailable as error:
            log.warning("announcing agents: %s", error)

    def announce(self) -> None:
        """Tell callers which agents there are, and to which queue their jobs go."""
        announce_agents(self._service)
        announce_slots(self._service, self._slots)
