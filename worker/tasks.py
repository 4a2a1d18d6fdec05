"""The Celery tasks: ``agent.NAME`` for each agent, ``stepkeeper.signal``, ``stepkeeper.cancel``.

Thin by design: they turn Celery's calls into calls of the store and the runner, and the end of a
slice into what Celery is told.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from celery import Task, states
from celery.app.task import Context
from celery.exceptions import Ignore
from celery.result import AsyncResult
from kombu.exceptions import OperationalError

from api_client.contract import CANCEL_TASK, SIGNAL_TASK, JobSpec, JobStatus
from api_client.deciding import send_signal
from api_client.errors import JobFailed, StepkeeperError, StoreUnavailable
from api_client.hints import HINT_HEADER, plain_options, try_hint
from api_client.specs import check_same, spec_from_call
from worker.agent import Agent
from worker.ends import Ended, Left, SliceEnd
from worker.following import follow_up
from worker.inline import run_inline
from worker.options import (
    check_options,
    inherited,
    is_passed_on,
    merged,
    start_delay_ms,
    start_within_ms,
    with_trace,
)
from worker.patience import patiently
from worker.publish import publish
from worker.reloading import catch_up
from worker.request import AgentRequest, options_of
from worker.service import Service
from worker.telemetry.observer import JobEnded

log = logging.getLogger(__name__)

PASS_ON_AFTER_S = 0.2

STATES = {
    JobStatus.SUCCEEDED: states.SUCCESS,
    JobStatus.FAILED: states.FAILURE,
    JobStatus.CANCELLED: states.REVOKED,
}
"""What Celery calls the ends of jobs."""


class AgentTask(Task):  # type: ignore[type-arg]
    """The Celery task of one agent: ``agent.shop.delay("I want to return order 1187.")``.

    Takes the input, and ``metadata``, ``tenant``, ``labels`` and ``priority`` as keywords.
    """

    Request = AgentRequest  # type: ignore[assignment]
    typing = False  # arguments are checked by ``spec_from_call``, which says more
    acks_late = False
    reject_on_worker_lost = False
    throws = (StepkeeperError,)  # no bug of ours: Celery logs it in a line, without a traceback
    track_started = False
    ignore_result = False
    abstract = True

    def __init__(self, agent: Agent, service: Service) -> None:
        self.agent = agent
        self.service = service
        self.name = agent.task_name
        self.__doc__ = agent.description or agent.goal

    # --- submitting ------------------------------------------------------------------------

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        producer: Any = None,  # noqa: ARG002 - hints have their own
        link: Any = None,
        link_error: Any = None,
        shadow: str | None = None,
        add_to_parent: bool = True,
        **options: Any,
    ) -> AsyncResult[Any]:
        """Store the job, then hint it; returns its ``AsyncResult``.

        Where Celery itself calls, passing on the result of another task, nobody would see an error
        here: a job that cannot be stored is then sent as a message, and fails by itself.

        Raises:
            InvalidInput: the arguments, or an option that cannot be kept.
            BacklogFull: as many jobs wait already as may.
            StoreUnavailable: nothing was accepted.
        """
        job_id = task_id or str(uuid.uuid4())
        if self.app.conf.task_always_eager:
            options.update(link=link, link_error=link_error)
            return self._apply_eagerly(job_id, args or (), kwargs or {}, options)
        options.update(link=link, link_error=link_error, shadow=shadow)
        if isinstance(options.get("priority"), str):
            kwargs = {**(kwargs or {}), "priority": options.pop("priority")}
        caller = self.app.current_worker_task
        try:
            self._submit(job_id, args or (), kwargs or {}, options)
        except StepkeeperError as error:
            if not is_passed_on(caller, options):
                raise
            log.warning("job %s: submitted by its message alone: %s", job_id, error)
            options["add_to_parent"] = False
            self.app.send_task(self.name, args, dict(kwargs or {}), task_id=job_id, **options)
        result = self.AsyncResult(job_id)
        result.ignored = bool(options.get("ignore_result"))
        if caller is not None and add_to_parent:
            caller.add_trail(result)
        return result

    def _submit(
        self,
        job_id: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """Store the job, then hint it, unless it is for later."""
        own = self._get_exec_options()  # type: ignore[attr-defined]
        wanted = merged(inherited(self.app.current_worker_task), own, options)
        check_options(self.name, wanted)
        delay_ms = start_delay_ms(self.app, wanted)
        spec = spec_from_call(
            job_id,
            self.agent.name,
            args,
            kwargs,
            retention_s=self.service.settings.retention_s,
            start_within_ms=start_within_ms(self.app, wanted.get("expires")),
            message=plain_options(with_trace(wanted)),
        )
        created = self.service.store.create(spec, delay_ms)
        if not created.new:
            check_same(spec, created.spec)
        if not delay_ms and not created.held:
            try_hint(self.app, created.spec)

    def _apply_eagerly(
        self, job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any], options: dict[str, Any]
    ) -> AsyncResult[Any]:
        """Run the whole job here, as Celery does then; what a store would refuse is refused."""
        try:
            check_options(self.name, merged(self._get_exec_options(), options))  # type: ignore[attr-defined]
            self._spec(job_id, args, kwargs)
        except StepkeeperError:
            if not is_passed_on(self.app.current_worker_task, options):
                raise
        result: AsyncResult[Any] = super().apply_async(
            tuple(args), dict(kwargs), task_id=job_id, **options
        )
        return result

    def _spec(self, job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobSpec:
        """A job that runs here and now."""
        retention_s = self.service.settings.retention_s
        return spec_from_call(
            job_id, self.agent.name, args, kwargs, retention_s=retention_s, message={}
        )

    # --- running ---------------------------------------------------------------------------

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One slice of the job that this message names.

        Called directly, or eagerly (``task_always_eager``), it is the whole job, in this process
        and without the store.
        """
        if self.request.called_directly or self.request.is_eager:
            return self._run_here(args, kwargs)
        job_id = str(self.request.id)
        if self.request.get(HINT_HEADER) is None:
            settings = self.service.settings
            patiently(lambda: self.accept(self.request, args, kwargs), settings.patience_s)
        try:
            return self._slice(job_id)
        except StoreUnavailable as error:
            # No failure of the job: the store has it, and a sweep hints it when it can.
            log.warning("job %s: left for a later hint: %s", job_id, error)
            raise Ignore from error

    def _slice(self, job_id: str) -> Any:
        if self.service.stopping():
            self._pass_on(job_id)
        catch_up(self.service)
        end = self._advance(job_id)
        match end:
            case Ended():
                self.service.bus.over(job_id, STATES[end.status])
                self.service.settle_family(end)
                ended = JobEnded(end.spec, end.status, end.outcome, end.again)
                self.service.observer.note(ended)
                return publish(self, end)
            case Left(why="missing"):
                raise JobFailed(
                    f"job {job_id} was accepted, but its record is gone from the store; check "
                    "the server's maxmemory-policy (it must be noeviction)",
                    "state_lost",
                )
        if end is not None:
            follow_up(self.service, end)
        raise Ignore

    def _run_here(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The answer; a pause, which nobody can answer here, is a failure that says so."""
        spec = self._spec(str(self.request.id or uuid.uuid4()), args, kwargs)
        run = run_inline(
            self.agent, spec.input, metadata=spec.metadata, tenant=spec.tenant, job_id=spec.job_id
        )
        return run.answer

    def _advance(self, job_id: str) -> SliceEnd | None:
        """Run a slice here, or hand it to the event loop (``None``)."""
        in_flight = self.service.in_flight
        return self.service.runner.run(job_id) if in_flight is None else in_flight.run(job_id)

    def _pass_on(self, job_id: str) -> NoReturn:
        """This worker takes nothing new; the pause keeps it from its own hint."""
        threading.Event().wait(PASS_ON_AFTER_S)
        try_hint(self.app, self.service.store.read(job_id).spec)
        raise Ignore

    def accept(self, request: Context, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Store the job of a message from a program without this package: now it is as durable.

        Raises:
            InvalidInput, StoreUnavailable
        """
        asked = {"eta": request.eta}
        spec = spec_from_call(
            str(request.id),
            self.agent.name,
            args,
            kwargs,
            retention_s=self.service.settings.retention_s,
            start_within_ms=start_within_ms(self.app, request.expires),
            message=plain_options(options_of(request)),
        )
        self.service.store.create(spec, start_delay_ms(self.app, asked), arrived=True)

    def after_return(
        self,
        status: str,  # noqa: ARG002 - Celery passes them all
        retval: Any,
        task_id: str,
        args: Any,  # noqa: ARG002
        kwargs: Any,  # noqa: ARG002
        einfo: Any,  # noqa: ARG002
    ) -> None:
        """Celery has stored the result and sent the callbacks: the outcome is published.

        Unless the broker took no callback: Celery calls that a failure of the task. The job's
        outcome stays to be published, and replaces it when a sweep finds the job.
        """
        if self.request.is_eager:
            return
        if isinstance(retval, OperationalError):
            log.warning("job %s: its callbacks will be sent later: %s", task_id, retval)
            return
        try:
            self.service.published(task_id, self.agent.name)
        except StoreUnavailable as error:
            log.warning("job %s: published, and will be once more: %s", task_id, error)


def agent_task(agent: Agent, service: Service) -> AgentTask:
    """The task of one agent in one app.

    Of a class of its own: Celery keeps a task's app, the settings that it takes from there, and its
    stack of requests on the class, where a second app of the process would change the first one's.
    """

    class OwnTask(AgentTask):
        """The task in this app."""

    return OwnTask(agent, service)


def signal_task(service: Service) -> Task[Any, Any]:
    """``stepkeeper.signal(job_id, signal, pause_id=None)``: for programs without this package."""

    def run(self: Task[Any, Any], job_id: str, signal: Any, pause_id: str | None = None) -> str:
        signal_id = str(self.request.id)
        view = send_signal(service.store, job_id, signal, pause_id=pause_id, signal_id=signal_id)
        try_hint(service.app, view.spec)
        return "accepted"

    return _bound_task(SIGNAL_TASK, run)


def cancel_task(service: Service) -> Task[Any, Any]:
    """``stepkeeper.cancel(job_id, by="", note="")``: for programs without this package."""

    def run(_self: Task[Any, Any], job_id: str, by: str = "", note: str = "") -> str:
        cancelled = service.store.cancel(job_id, by, note)
        if not cancelled.pending:
            try_hint(service.app, service.store.read(job_id).spec)
        return "requested" if cancelled.pending else str(cancelled.status)

    return _bound_task(CANCEL_TASK, run)


def _bound_task(name: str, run: Callable[..., Any]) -> Task[Any, Any]:
    attributes = {
        "name": name,
        "run": run,
        "acks_late": False,
        "throws": AgentTask.throws,
        "__module__": __name__,
    }
    task_class = type(name.replace(".", "_"), (Task,), attributes)
    task: Task[Any, Any] = task_class()
    return task
