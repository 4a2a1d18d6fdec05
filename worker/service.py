"""The parts of one worker, put together for one Celery app.

The only place that chooses concrete parts. Connections and threads belong to a process: after a
fork everything that cannot be shared is made anew.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from celery import Celery

from api_client.connection import connect, describe
from api_client.contract import JobSpec, JobStatus
from api_client.errors import JobNotFound
from api_client.hints import try_hint
from worker.agent import Agent
from worker.announce.channels import channels_of
from worker.announce.office import PostOffice
from worker.ends import Ended
from worker.eventbus import EventBus
from worker.flags import Generation, StopFlag
from worker.flow.assemble import ledger_on, make_gate
from worker.flow.base import Limit, Use
from worker.flow.book import Tick
from worker.flow.gated import limited_keys
from worker.flow.redis import RedisLedger
from worker.flow.standing import standings
from worker.following import follow_up
from worker.inflight import MOST_THREADS, InFlight
from worker.leases import Leases
from worker.models.base import Model
from worker.redact import environment_secrets, hide_everywhere
from worker.runner import Runner
from worker.settings import Settings
from worker.telemetry.observer import Observer
from worker.telemetry.setup import Telemetry
from worker.telemetry.stores import WatchedStore

log = logging.getLogger(__name__)

LEAST_CONNECTIONS = 100
"""Of the default model; more if more jobs wait for it at once."""


@dataclass(slots=True)
class _Process:
    """What belongs to one process."""

    store: WatchedStore
    leases: Leases
    runner: Runner
    bus: EventBus
    ledger: RedisLedger
    in_flight: InFlight | None


@dataclass
class Service:
    """Stepkeeper inside one Celery app.

    Attributes:
        node: the worker's Celery node name; empty in a program that only submits.
        boot: of this start of the worker; tells a restarted worker from its predecessor.
        stop: this worker takes no job, and hands over those that run at their next commits.
        told: this worker sends events of tasks.
        drained: as ``stop``, until an operator lets it take jobs again.
        code: whether the agents were imported anew since this process did.
        given: agents that were handed over as objects.
        seen_queues: routing keys with which jobs have come to this worker.
        left_queues: queues from which a drained worker takes nothing.
        celerys_first: waits a moment until the events are sent that Celery itself holds back.
    """

    app: Celery
    settings: Settings
    agents: dict[str, Agent]
    node: str = ""
    boot: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    stop: StopFlag = field(default_factory=StopFlag)
    told: StopFlag = field(default_factory=StopFlag)
    drained: StopFlag = field(default_factory=StopFlag)
    code: Generation = field(default_factory=Generation)
    given: tuple[Agent, ...] = ()
    seen_queues: set[str] = field(default_factory=set)
    left_queues: set[str] = field(default_factory=set)
    celerys_first: Callable[[], None] = lambda: None
    limits_tick: Tick = field(default_factory=Tick)
    _parts: dict[int, _Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.telemetry = Telemetry(self.settings)

    def begin(self, node: str, pool: str) -> None:
        """This process becomes a worker's main process.

        Args:
            pool: the name of Celery's pool, such as ``"prefork"``.

        Raises:
            InvalidInput: a setting asks for telemetry that cannot be had.
        """
        self.node = node
        hide_everywhere(environment_secrets(os.environ))
        self.telemetry.start(pool)
        self._parts = {}
        self.stop.clear()
        self.drained.clear()

    @property
    def owner_prefix(self) -> str:
        """How the owners of all leases of this start of the worker begin."""
        return f"{self.node}/{self.boot}/"

    @property
    def owner(self) -> str:
        """The owner of this process's leases."""
        return f"{self.owner_prefix}{os.getpid()}/"

    @property
    def store(self) -> WatchedStore:
        """This process's store."""
        return self._process.store

    @property
    def ledger(self) -> RedisLedger:
        """This process's ledger of model calls."""
        return self._process.ledger

    def limits(self) -> dict[str, tuple[Limit, Use]]:
        """The limits of models and their use, by model key.

        Raises:
            StoreUnavailable
        """
        found = standings(self.ledger, self.settings.model_limits)
        return {one.key: (one.limit, one.use) for one in found}

    @property
    def leases(self) -> Leases:
        """This process's leases."""
        return self._process.leases

    @property
    def runner(self) -> Runner:
        """This process's runner."""
        return self._process.runner

    @property
    def bus(self) -> EventBus:
        """This process's way to Celery's event bus."""
        return self._process.bus

    @property
    def in_flight(self) -> InFlight | None:
        """This process's event loop for jobs, if the settings ask for one."""
        return self._process.in_flight

    @property
    def observer(self) -> Observer:
        """Told of what happens in this process."""
        return self._process.runner.observer

    @property
    def _process(self) -> _Process:
        pid = os.getpid()
        if pid not in self._parts:
            # The parent's parts stay: closing a copied connection pool could wait for ever.
            self._parts[pid] = self._assemble()
        return self._parts[pid]

    def _assemble(self) -> _Process:
        settings = self.settings
        # A slot, and a thread of the event loop, may use one, and one is kept for its commits.
        users = settings.concurrency + (MOST_THREADS if settings.in_flight else 0)
        client = connect(settings.redis_url, max_connections=2 * users + 16)
        store = WatchedStore(
            client,
            partitions=settings.partitions,
            where=describe(settings.redis_url),
            wait_replicas=settings.wait_replicas,
            wait_timeout_s=settings.wait_timeout_s,
        )
        store.on_turn = self.hint
        bus = EventBus(self.app, self.node, self.told.is_set, lambda: self.celerys_first())
        observer = store.observer = self.telemetry.observer(store, bus)
        leases = Leases(store, settings.runner.lease_ms, observer)
        ledger = ledger_on(client, settings)
        runner = Runner(
            store=store,
            agents=dict(self.agents),
            owner=self.owner,
            leases=leases,
            clock_ms=lambda: time.monotonic_ns() // 1_000_000,
            default_model=lambda: self.default_model,
            stopping=self.stopping,
            hint=self.hint,
            channels=lambda agent, event: channels_of(agent, event, settings),
            settings=settings.runner,
            observer=observer,
            gate=make_gate(ledger, settings, self.limits_tick, observer),
        )
        in_flight = self._in_flight(runner) if settings.in_flight else None
        return _Process(store, leases, runner, bus, ledger, in_flight)

    def stopping(self) -> bool:
        """Whether this worker takes no job, and hands over those that it runs."""
        return self.stop.is_set() or self.drained.is_set()

    def change_agents(self, agents: Mapping[str, Agent]) -> None:
        """Slices that begin from now on in this process run these agents; others keep theirs."""
        self.agents.update(agents)
        process = self._process
        process.runner = process.runner.with_agents(self.agents)
        if process.in_flight is not None:
            process.in_flight.change_agents(self.agents)
        for agent in agents.values():
            self.app.tasks[agent.task_name].agent = agent  # type: ignore[attr-defined]

    def queue_of(self, agent: Agent) -> str:
        """The queue to which the app's routes send the agent's jobs; empty if they say nothing."""
        queue = self.app.amqp.router.route({}, agent.task_name).get("queue")
        return getattr(queue, "name", queue) or ""

    def routed_queues(self) -> set[str]:
        """The queues of all agents."""
        return {self.queue_of(agent) for agent in self.agents.values()}

    def _in_flight(self, runner: Runner) -> InFlight:
        settings = replace(
            runner.settings, publishes=False
        )  # results are published by Celery slots
        return InFlight(
            replace(runner, settings=settings),
            self.settings.in_flight,
            partial(follow_up, self),
        )

    def channels(self, agent: str, event: str) -> Sequence[str]:
        """On which channels an event of an agent, by its name, is announced."""
        return channels_of(self.agents.get(agent), event, self.settings)

    def published(self, job_id: str, agent: str) -> None:
        """An outcome has reached the result backend; it is announced as well.

        Raises:
            StoreUnavailable
        """
        self.store.published(job_id, self.channels(agent, "ended"))

    @cached_property
    def office(self) -> PostOffice:
        """Delivers what is announced."""
        return PostOffice(self.app, self.settings, self.agents, lambda: self.store)

    def hint(self, spec: JobSpec, *, again: bool = False) -> None:
        """Tell the workers of a job; a sweep does it if the broker is away.

        Args:
            again: it is not the first time.
        """
        try_hint(self.app, spec, again=again)

    def settle_family(self, end: Ended) -> None:
        """A job has ended: wake the one that waits for it, cancel those it waited for."""
        self._leave_queues(end)
        if end.spec.parent and (parent := self.store.wake(end.spec.parent)):
            self.hint(parent)
        for child in end.children:
            try:
                cancelled = self.store.cancel(
                    child, "stepkeeper", f"job {end.spec.job_id} has ended"
                )
            except JobNotFound:  # the worker died before it was started, or it has been purged
                log.debug("job %s: its sub-job %s is not there", end.spec.job_id, child)
                continue
            if cancelled.status is JobStatus.CANCELLED:
                self.hint(self.store.read(child).spec)

    def _leave_queues(self, end: Ended) -> None:
        """A job that was cancelled may have waited for its turn to call a model."""
        agent, gate = self.agents.get(end.spec.agent), self.runner.gate
        if end.status is JobStatus.CANCELLED and agent and gate and not gate.open:
            model = agent.model or self.default_model
            gate.withdraw(end.spec.job_id, limited_keys(gate, model))

    @cached_property
    def default_model(self) -> Model:
        """The model of agents that name none: OpenAI chat completions from the environment."""
        from worker.models import OpenAIModel

        return OpenAIModel(max_connections=max(LEAST_CONNECTIONS, self.settings.in_flight))
