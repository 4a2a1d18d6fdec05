"""A client whose jobs run in this process: for the tests of services that submit jobs."""

from __future__ import annotations

from collections.abc import Iterable

from api_client.client import AgentClient
from api_client.contract import JobSpec, JobStatus
from worker.agent import Agent
from worker.inline import Answers, InlineStore, InlineWorker, ModelSource


class InlineClient(AgentClient):
    """An ``AgentClient`` with a store in memory and a worker that is called, not waited for.

    What a worker would be told is done before ``submit``, ``signal`` or ``cancel`` returns; or,
    on demand, by ``run_jobs``. Waits, such as that after a model's error, are skipped.

    Args:
        agents: that there are.
        store: a new one, if not given.
        model: in place of the agents' own.
        answers: called with each pause, in the place of a person; without it, or where it gives
            ``None``, a job stays paused for the test to signal.
        on_demand: jobs wait for ``run_jobs``.
    """

    _at_once = 1  # jobs run one after the other, in the order of their inputs

    def __init__(
        self,
        agents: Iterable[Agent],
        *,
        store: InlineStore | None = None,
        model: ModelSource = None,
        answers: Answers | None = None,
        on_demand: bool = False,
    ) -> None:
        self.worker = InlineWorker(agents, store=store, model=model, answers=answers)
        self.worker.store.announce([agent.info() for agent in self.worker.agents.values()])
        self._on_demand = on_demand
        super().__init__(store=self.worker.store)

    def _hint(self, spec: JobSpec) -> None:
        if not self._on_demand:
            self.worker.run(spec.job_id)

    def run_jobs(self) -> list[str]:
        """Run everything that waits for a worker, delayed jobs as well; returns their ids."""
        store, ran = self.worker.store, []
        for status in (JobStatus.QUEUED, JobStatus.WAITING):
            for view in store.list_jobs(status):
                if view.due is not None:
                    store.skip(max(0.0, (view.due - store.now()) / 1000))
                self.worker.run(view.job_id)
                ran.append(view.job_id)
        return ran
