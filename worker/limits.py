"""What happens when a budget is used up."""

from __future__ import annotations

from api_client.contract import PauseKind
from worker import budget
from worker.agent import Agent
from worker.budget import Spent
from worker.effects import End
from worker.job import Job
from worker.pausing import pause


def limit(agent: Agent, job: Job, spent: Spent) -> End:
    """A budget is used up: a person decides, or the job stops."""
    if agent.on_limit == "stop":
        reason = "max_calls" if spent.name.startswith("calls:") else f"max_{spent.name}"
        return job.failed(reason, f"stopped: {budget.describe(spent)} without an answer")
    return pause(
        agent,
        job,
        PauseKind.BUDGET,
        f"The job has used {budget.describe(spent)} without an answer. "
        "Extend the budget, or finish the job with an answer?",
        details={"budget": spent.name, "spent": spent.spent, "limit": spent.limit},
    )
