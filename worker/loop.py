"""The agent loop: ask the model, answer its calls, repeat. A pure generator.

It yields effects and is sent their answers (see ``worker.effects``); the runner performs them.
Every way back in, after a crash, a pause, a spent budget or a deploy, is the same: take up the
person's answer if there is one, answer the calls that have none (``worker.calls``), go on with
the model (``worker.asking``).
"""

from __future__ import annotations

import json
from typing import Any

from api_client.contract import PauseKind
from worker.agent import Agent
from worker.asking import ask
from worker.calls import answer_calls
from worker.effects import Part, Steps
from worker.job import Job
from worker.messages import system, user
from worker.pausing import pause
from worker.resume import resume


def advance(agent: Agent, job: Job) -> Steps:
    """Run a job to its next end: an answer, a failure, a pause or a wait."""
    end = yield from _enter(agent, job)
    while end is None:
        end = yield from answer_calls(agent, job)
        if end is None:
            end = yield from ask(agent, job)
    return end


def _enter(agent: Agent, job: Job) -> Part:
    """Begin a new job, or take up a paused one."""
    if not job.transcript.stored:
        job.transcript.append(system(agent.goal))
        job.transcript.append(user(input_text(job.spec.input)))
        job.state.version = agent.version
    if job.signal is not None:
        end = yield from resume(agent, job)
        if end is not None:
            return end
    if job.state.version != agent.version:
        return (yield from _meet_new_code(agent, job))
    return None


def input_text(value: Any) -> str:
    """A job's input as the model reads it: text as it is, other JSON values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _meet_new_code(agent: Agent, job: Job) -> Part:
    """The job began under another version of the agent."""
    before, job.state.version = job.state.version, agent.version
    if agent.on_version_change == "pause":
        return pause(
            agent,
            job,
            PauseKind.VERSION_CHANGE,
            f"The agent changed from version {before} to {agent.version}. Go on with the new one?",
            details={"before": before, "now": agent.version},
        )
    yield job.commit("version", before=before, now=agent.version)
    return None
