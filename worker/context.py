"""What a tool may know that the model may not.

A parameter annotated with ``ActionContext`` or a subclass is filled in by the service. It is in
no schema, no message, no trace and no error text. One instance may serve several calls at once:
what differs between calls is kept in a context variable, not in the instance.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar

_RESERVED = frozenset({"job_id", "call_id", "step", "attempt", "idempotency_key"})


@dataclass(frozen=True, slots=True)
class CallInfo:
    """Which call of which job is running.

    Attributes:
        job_id: the job, the same as its Celery task id.
        call_id: the model's id of this call, unique within the job.
        step: number of the model reply that asked for it, from 1.
        attempt: number of this execution, from 1; above 1 after a crash.
        idempotency_key: the same for every attempt of this call, different for every other call.
    """

    job_id: str
    call_id: str
    step: int
    attempt: int
    idempotency_key: str


current_call: ContextVar[CallInfo | None] = ContextVar("stepkeeper_call", default=None)


def _call() -> CallInfo:
    info = current_call.get()
    if info is None:
        raise RuntimeError(
            "no tool call is running here: job_id, call_id, step, attempt and idempotency_key "
            "of an ActionContext can be read only while a tool runs"
        )
    return info


def _declared(cls: type) -> set[str]:
    """Names that a class body assigns or annotates, without evaluating annotations."""
    if sys.version_info >= (3, 14):
        import annotationlib

        annotations = annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    else:
        annotations = inspect.get_annotations(cls)
    return set(annotations) | set(cls.__dict__)


class ActionContext:
    """Base of the hidden values that an agent's tools share.

    Subclass it, plainly or as a dataclass, with whatever the tools need::

        @dataclass
        class Shop(ActionContext):
            visible = {"currency"}
            database: Database
            api_key: str
            currency: str = "EUR"

    Class attributes:
        visible: names of fields that are no secret, so that a tool may return their values.
        secret: names of fields whose texts are removed from everything that a tool returns.
            Fields that look like secrets by name, type or value need not be listed.

    Error texts are stricter: there every text of the context is removed unless it is ``visible``.
    """

    __slots__ = ()

    visible: ClassVar[Collection[str]] = ()
    secret: ClassVar[Collection[str]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for field in (cls.visible, cls.secret):
            if isinstance(field, str):
                raise TypeError(f"{cls.__qualname__}: write ({field!r},), a collection of names")
        taken = sorted(_RESERVED & _declared(cls))
        if taken:
            raise TypeError(
                f"{cls.__qualname__}: {', '.join(taken)} is filled in by the service for each "
                "call; choose another name for this field"
            )

    @property
    def job_id(self) -> str:
        """Id of the job. RuntimeError outside a tool call, as for the four below."""
        return _call().job_id

    @property
    def call_id(self) -> str:
        """The model's id of the running call."""
        return _call().call_id

    @property
    def step(self) -> int:
        """Number of the model reply that asked for the running call, from 1."""
        return _call().step

    @property
    def attempt(self) -> int:
        """Number of this execution of the running call, from 1."""
        return _call().attempt

    @property
    def idempotency_key(self) -> str:
        """Key to hand to services that ignore a repeated request: equal for every attempt."""
        return _call().idempotency_key
