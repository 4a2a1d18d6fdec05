"""Stepkeeper's client: submit agent jobs, follow them, answer their pauses.

Imports neither Celery nor the worker until something is sent.
"""

from api_client.aio import AsyncAgentClient
from api_client.client import AgentClient
from api_client.contract import (
    AgentInfo,
    Answer,
    Appointment,
    Approve,
    CallDecision,
    Cancel,
    Decide,
    Delivery,
    DidNotHappen,
    Edit,
    Event,
    Extend,
    Fail,
    Finish,
    Happened,
    JobEvent,
    JobSpec,
    JobStatus,
    JobView,
    Outcome,
    Pause,
    PauseKind,
    Reject,
    Retry,
    Signal,
    Usage,
)
from api_client.inbox import InboxFilter, InboxPage
from api_client.lists import JobFilter, JobPage
from api_client.live import LiveRecord
from api_client.workers import WorkerInfo

__all__ = [
    "AgentClient",
    "AgentInfo",
    "Answer",
    "Appointment",
    "Approve",
    "AsyncAgentClient",
    "CallDecision",
    "Cancel",
    "Decide",
    "Delivery",
    "DidNotHappen",
    "Edit",
    "Event",
    "Extend",
    "Fail",
    "Finish",
    "Happened",
    "InboxFilter",
    "InboxPage",
    "JobEvent",
    "JobFilter",
    "JobPage",
    "JobSpec",
    "JobStatus",
    "JobView",
    "LiveRecord",
    "Outcome",
    "Pause",
    "PauseKind",
    "Reject",
    "Retry",
    "Signal",
    "Usage",
    "WorkerInfo",
]
