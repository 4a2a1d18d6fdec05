"""What a model is to the loop: a request goes in, a reply comes out, or one kind of error.

Nothing here knows an SDK. Messages have the shape of OpenAI's chat completions and hold JSON only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from api_client.errors import StepkeeperError

Message = dict[str, Any]
"""One chat message: ``role``, ``content`` and whatever else its sender put there."""

Fate = Literal["retry", "wait", "pause", "compact", "fail"]
"""What becomes of a job whose model call failed.

``retry`` try again later; ``wait`` the same, and the call has not been made: it counts as no
failure; ``pause`` a person has to change something first; ``compact`` the history is too long,
shorten it and try again; ``fail`` no repetition can help.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as the provider counted them, or estimated when it did not say."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Tokens in and out; cached ones are part of the prompt already."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that one call sends. The model must not change any of it."""

    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] = ()
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer. ``usage`` is None when the provider gave no complete count."""

    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str = ""


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests.

    ``name`` stands in traces and finds the price. A model may have a ``limit_key``, under which its
    shared limits stand; by default that is its name. ``reply`` blocks, never waits out a retry by
    itself, and raises nothing but `ModelError`. A model may also have
    ``async def areply(request) -> ModelReply`` under the same contract.
    """

    @property
    def name(self) -> str: ...  # pragma: no cover

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer the request, or raise `ModelError`."""
        ...  # pragma: no cover


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply, shown while the rest is still to come.

    Attributes:
        kind: ``text`` and ``refusal`` are pieces of those; ``call`` is a piece of the arguments of
            a call; ``begin`` says that another reply begins, and the pieces before it are void.
        text: the piece. Nothing at all says only that the model's server is alive.
        index: which of the reply's calls, from 0.
        name: of the call's tool, with its first piece.
    """

    kind: Literal["begin", "text", "call", "refusal"]
    text: str = ""
    index: int = 0
    name: str = ""


OnDelta = Callable[[Delta], None]
"""Takes the pieces; raises `StreamStopped` to close the call. It must not block."""

ALIVE = Delta("text")
"""A piece without content."""


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can show its reply while it comes."""

    def stream(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """The same reply as `reply` gives, its pieces shown to ``on_delta`` as they arrive.

        Raises:
            ModelError: as `reply`; a reply that breaks off is none.
            StreamStopped: what ``on_delta`` raised; the call has been closed.
        """
        ...  # pragma: no cover


class StreamStopped(StepkeeperError):
    """Nobody wants the rest of a reply. Raised by what takes its pieces, never by a model.

    Args:
        why: ``"cancel"``: the job is to be cancelled; ``"fenced"``: it runs somewhere else.
    """

    def __init__(self, why: Literal["cancel", "fenced"]) -> None:
        super().__init__(why)
        self.why: Literal["cancel", "fenced"] = why


class ModelError(StepkeeperError):
    """A model call that brought no answer. Holds plain values only, so it may cross processes.

    Args:
        text: what went wrong, in the provider's words where it had any; never a secret.
        fate: what becomes of the job, see `Fate`.
        retry_after: seconds before which the provider wants no other call, None if it did not say.
        status: the HTTP status, None if there was no answer.
        code: a word for programs, the provider's where it gave one.
    """

    def __init__(
        self,
        text: str,
        fate: Fate = "retry",
        retry_after: float | None = None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(text, fate, retry_after, status, code)
        self.text = text
        self.fate: Fate = fate
        self.retry_after = retry_after
        self.status = status
        self.code = code

    def __str__(self) -> str:
        return self.text
