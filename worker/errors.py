"""Everything that writing, registering and running tools may raise.

    StepkeeperError              from api_client.errors
    ├── AgentDefinitionError     an agent cannot be used as written; names it and the argument
    ├── ToolRegistrationError    a tool or its context cannot be used as written; names both
    ├── ArgumentError            the model's arguments do not fit; its text is for the model
    ├── ToolRetry                raised by a tool: call me again, differently
    ├── ToolFailed               raised by a tool: this did not work, go another way
    └── PauseRequested           raised by a tool: a person must decide before the job goes on

A tool may raise anything at all. ``PauseRequested`` alone leaves ``Tool.invoke``; whatever else
comes out of a tool becomes the observation that the model reads.
"""

from __future__ import annotations

from typing import Any

from api_client.errors import StepkeeperError

__all__ = [
    "AgentDefinitionError",
    "ArgumentError",
    "PauseRequested",
    "StepkeeperError",
    "ToolFailed",
    "ToolRegistrationError",
    "ToolRetry",
]


class AgentDefinitionError(StepkeeperError):
    """An agent cannot run as it is written.

    Raised while a program starts, never while a job runs. Names the agent, the argument and what
    to change.
    """


class ToolRegistrationError(StepkeeperError):
    """A tool cannot be offered to a model as it is written.

    Raised while a program starts, never while a job runs. The message names the tool, the
    parameter where there is one, and what to change.
    """


class _Told(StepkeeperError):
    """An error whose whole content is one text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ArgumentError(_Told):
    """The arguments a model sent cannot be used.

    Args:
        text: the complete observation: what is wrong with which argument, and what to do.
    """


class ToolRetry(_Told):
    """Raised by a tool that wants to be called again with other arguments.

    Args:
        text: what the model should change, for example ``"give the city's name in English"``.
    """


class ToolFailed(_Told):
    """Raised by a tool whose work failed for good.

    Args:
        text: what the model should know, for example ``"order 7 is already sent"``.
    """


class PauseRequested(StepkeeperError):
    """Raised by a tool that cannot go on without a person.

    The job pauses; the person's answer becomes the observation of this call, and the tool is not
    run again.

    Args:
        question: what the person is asked.
        data: JSON value shown beside the question, or ``None``.
    """

    def __init__(self, question: str, data: Any = None) -> None:
        super().__init__(question, data)
        self.question = question
        self.data = data

    def __str__(self) -> str:
        return self.question
