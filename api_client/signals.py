"""Signals: what people decide about a job that waits for them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, field_validator, model_validator

from api_client.shapes import Contract

MAX_NAME_CHARACTERS = 200
MAX_NOTE_CHARACTERS = 10_000
MAX_MESSAGE_CHARACTERS = 100_000

BY_DEADLINE = "deadline"
"""Who decides when nobody did in time."""


class _Decision(Contract):
    """Who decided, and why. Both go into the trace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str = Field(default="", max_length=MAX_NAME_CHARACTERS)
    note: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)


class Answer(_Decision):
    """The answer to a question; the model reads it as the observation of its call."""

    kind: Literal["answer"] = "answer"
    value: JsonValue

    @field_validator("value")
    @classmethod
    def _not_empty(cls, value: JsonValue) -> JsonValue:
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError("the answer is empty")
        return value


class Approve(_Decision):
    """Run the proposed action, with ``arguments`` in place of the model's if they are given.

    Of a pause about several actions it approves all of them, and takes no arguments.
    """

    kind: Literal["approve"] = "approve"
    arguments: dict[str, JsonValue] | None = None


class Reject(_Decision):
    """Do not run the proposed action (or any of several); the model reads ``reason``."""

    kind: Literal["reject"] = "reject"
    reason: str = Field(min_length=1, max_length=MAX_NOTE_CHARACTERS)


class CallDecision(Contract):
    """The decision about one of several proposed actions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approve: bool
    arguments: dict[str, JsonValue] | None = None
    reason: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)

    @model_validator(mode="after")
    def _fits(self) -> CallDecision:
        if not self.approve and not self.reason.strip():
            raise ValueError("a rejection needs a reason, which the model reads")
        if not self.approve and self.arguments is not None:
            raise ValueError("a rejected call takes no arguments")
        return self


class Decide(_Decision):
    """A decision for each of several proposed actions, by call id.

    Calls that are not named stay undecided: the job goes on with the others and pauses again.
    """

    kind: Literal["decide"] = "decide"
    calls: dict[str, CallDecision] = Field(min_length=1)


class Extend(_Decision):
    """Raise the spent budget by ``amount`` in its own unit (steps, tokens, money, seconds)."""

    kind: Literal["extend"] = "extend"
    amount: float = Field(gt=0, le=1e12, allow_inf_nan=False)


class Finish(_Decision):
    """End the job with this answer."""

    kind: Literal["finish"] = "finish"
    answer: JsonValue


class Retry(_Decision):
    """Go on as if the pause had not happened; what failed is tried again."""

    kind: Literal["retry"] = "retry"


class Happened(_Decision):
    """The call in doubt did take effect; ``result`` is what the model reads of it."""

    kind: Literal["happened"] = "happened"
    result: JsonValue = "done"


class DidNotHappen(_Decision):
    """The call in doubt took no effect; it is run now."""

    kind: Literal["did_not_happen"] = "did_not_happen"


class Edit(_Decision):
    """Take over: answer open calls in the tools' place, tell the model something, or both.

    Attributes:
        answers: what the model reads of its calls, by call id; those calls are not run.
        message: what the model reads before its next reply.
    """

    kind: Literal["edit"] = "edit"
    answers: dict[str, JsonValue] = Field(default_factory=dict)
    message: str = Field(default="", max_length=MAX_MESSAGE_CHARACTERS)

    @model_validator(mode="after")
    def _not_empty(self) -> Edit:
        if not self.answers and not self.message.strip():
            raise ValueError("give answers, a message, or both")
        return self


class Fail(_Decision):
    """End the job as failed."""

    kind: Literal["fail"] = "fail"
    reason: str = Field(min_length=1, max_length=MAX_NOTE_CHARACTERS)


class Cancel(_Decision):
    """End the job as cancelled, unless somebody has decided otherwise first."""

    kind: Literal["cancel"] = "cancel"


Signal = Annotated[
    Answer
    | Approve
    | Reject
    | Decide
    | Extend
    | Finish
    | Retry
    | Happened
    | DidNotHappen
    | Edit
    | Fail
    | Cancel,
    Field(discriminator="kind"),
]
SIGNAL: TypeAdapter[Signal] = TypeAdapter(Signal)

SIGNAL_MODELS: dict[str, type[_Decision]] = {
    "answer": Answer,
    "approve": Approve,
    "reject": Reject,
    "decide": Decide,
    "extend": Extend,
    "finish": Finish,
    "retry": Retry,
    "happened": Happened,
    "did_not_happen": DidNotHappen,
    "edit": Edit,
    "fail": Fail,
    "cancel": Cancel,
}


class AnsweredPause(Contract):
    """Which signal closed a pause."""

    pause_id: str
    by: str = ""
    kind: str = ""
    at: int = 0


class Wish(Contract):
    """Who wants something of a job, and why."""

    by: str = Field(default="", max_length=MAX_NAME_CHARACTERS)
    note: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)


class Mail(Contract):
    """A message that a person has added to a job; the model reads ``text`` as a user message.

    Attributes:
        number: from 1, in the order in which they came.
    """

    text: str = Field(min_length=1, max_length=MAX_MESSAGE_CHARACTERS)
    by: str = Field(default="", max_length=MAX_NAME_CHARACTERS)
    note: str = Field(default="", max_length=MAX_NOTE_CHARACTERS)
    number: int = 0
