"""Commands for jobs, for any Celery tooling: ``celery inspect agent_jobs``, ``control.broadcast``.

A broadcast reaches every worker, some, or none, and each once or more: so whatever changes
something is an operation that changes nothing when it is repeated. Answers are JSON; what cannot be
done is answered, as ``{"error": …}``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from celery.worker import state as worker_state
from celery.worker.control import control_command, inspect_command

from api_client import AgentClient
from api_client.contract import TASK_PREFIX, JobStatus, JobView
from api_client.errors import (
    Conflict,
    InvalidInput,
    JobNotFound,
    JobUnreadable,
    StepkeeperError,
)
from worker.announcing import announce_agents
from worker.reloading import reload_agents
from worker.service import Service

MOST_JOBS = 200

Command = Callable[..., Any]
Kind = Literal["inspect", "control"]


def _command(kind: Kind, signature: str = "", args: Any = None) -> Callable[[Command], Command]:
    """Make a function of the worker's state a command whose refusals are answers."""

    def decorate(function: Command) -> Command:
        name = function.__name__

        @wraps(function)
        def command(state: Any, **given: Any) -> Any:
            try:
                inspect.signature(function).bind(state, **given)
            except TypeError as error:
                return {"error": f"{name}: {error}; it is called as: {name} {signature}".rstrip()}
            if not hasattr(state.app, "stepkeeper"):
                return {"error": f"{name}: this worker's app has no agents (worker.install)"}
            try:
                return function(state, **given)
            except StepkeeperError as error:
                return {"error": f"{name}: {error}"}

        register = inspect_command if kind == "inspect" else control_command
        described = {"signature": signature, "args": args} if signature else {}
        register(**described)(command)
        return command

    return decorate


# --- looking -------------------------------------------------------------------------------


@_command("inspect")
def agent_jobs(state: Any) -> Any:
    """Jobs that this worker runs now."""
    service: Service = state.app.stepkeeper
    ids = jobs_here(service)
    return {
        "count": len(ids),
        "draining": service.drained.is_set(),
        "jobs": [_told(service, job_id) for job_id in ids[:MOST_JOBS]],
    }


def _told(service: Service, job_id: str) -> dict[str, Any]:
    """A job in short; one that cannot be read hides no other."""
    try:
        return _summary(service.store.read(job_id))
    except (JobNotFound, JobUnreadable) as error:
        return {"job": job_id, "error": str(error)}


@_command("inspect", "<job id>", [("job_id", str)])
def agent_job(state: Any, job_id: str) -> Any:
    """Where one job stands, whichever worker has it."""
    service: Service = state.app.stepkeeper
    view = service.store.read(_job_id(job_id))
    return {**_summary(view), **_more(view), "here": view.job_id in jobs_here(service)}


def jobs_here(service: Service) -> list[str]:
    """Ids of the jobs that this worker's processes run."""
    requests = list(worker_state.active_requests)
    active = [request.id for request in requests if request.name.startswith(TASK_PREFIX)]
    return list(dict.fromkeys([*active, *service.leases.jobs]))


def _summary(view: JobView) -> dict[str, Any]:
    return {
        "job": view.job_id,
        "agent": view.spec.agent,
        "tenant": view.spec.tenant,
        "status": str(view.status),
        "step": view.steps,
        "tokens": view.usage.total_tokens,
        "cost": view.usage.cost,
        "active_s": round(view.active_ms / 1000, 3),
        "worker": view.worker,
    }


def _more(view: JobView) -> dict[str, Any]:
    """The rest of what an operator may see: no task, observation or answer."""
    pause, outcome = view.pause, view.outcome
    return {
        "created_ms": view.created,
        "due_ms": view.due,
        "tries": view.tries,
        "cancel_wanted": view.cancel_requested,
        "pause_wanted": view.pause_wanted is not None,
        "pause": pause and {"id": pause.id, "kind": str(pause.kind), "question": pause.question},
        "outcome": outcome and {"ok": outcome.ok, "reason": outcome.reason, "text": outcome.text},
        "published": view.published,
    }


def _job_id(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"job_id: {value!r} is no text; give one job's id")
    return value


# --- changing something --------------------------------------------------------------------


@_command("control", "<job id> [note [by]]", [("job_id", str), ("note", str), ("by", str)])
def agent_pause(state: Any, job_id: str, note: str = "", by: str = "celery control") -> Any:
    """Pause a job at its next commit, until a person lets it go on."""
    service: Service = state.app.stepkeeper
    client = AgentClient(store=service.store, app=state.app)
    try:
        client.pause(_job_id(job_id), by=by, note=note)
    except Conflict:
        if service.store.read(job_id).status is not JobStatus.PAUSED:
            raise
    view = service.store.read(job_id)
    return {"ok": {"job": job_id, "status": str(view.status)}}


@_command("control")
def agent_drain(state: Any) -> Any:
    """Take no more jobs; those that run are handed over when their calls in flight have ended."""
    service: Service = state.app.stepkeeper
    service.drained.set()
    consumed = state.app.amqp.queues.consume_from
    for name in [name for name, queue in list(consumed.items()) if _brings_jobs(service, queue)]:
        service.left_queues.add(name)
        state.consumer.call_soon(state.consumer.cancel_task_queue, name)
    return {"ok": {"queues": sorted(service.left_queues), "jobs": jobs_here(service)}}


def _brings_jobs(service: Service, queue: Any) -> bool:
    """Whether jobs are routed to a queue, or have come through it."""
    return bool({queue.name, queue.routing_key} & (service.routed_queues() | service.seen_queues))


@_command("control")
def agent_undrain(state: Any) -> Any:
    """Take jobs again."""
    service: Service = state.app.stepkeeper
    if service.stop.is_set():
        raise InvalidInput("this worker is shutting down, and takes no job any more")
    queues = sorted(service.left_queues)
    for name in queues:
        state.consumer.call_soon(state.consumer.add_task_queue, name)
    service.left_queues.clear()
    service.drained.clear()
    return {"ok": {"queues": queues}}


@_command("control")
def agent_reload(state: Any) -> Any:
    """Import the agents' modules anew: new code for new slices."""
    service: Service = state.app.stepkeeper
    before = {name: agent.version for name, agent in service.agents.items()}
    reloaded = reload_agents(service)
    service.code.move_on()
    announce_agents(service)
    versions = {
        name: {"version": agent.version, "before": before[name]}
        for name, agent in reloaded.agents.items()
    }
    return {"ok": {"agents": versions, "modules": reloaded.modules, "kept": reloaded.kept}}
