"""Performing what the loop asks of the outside world: models, tools, sub-jobs.

Commits are not among it: they are the slice's own.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from api_client.contract import JobSpec, JobView, Outcome
from api_client.errors import InvalidInput
from api_client.specs import make_spec
from worker.agent import Agent
from worker.context import ActionContext
from worker.effects import (
    CallModel,
    CallTool,
    CallTools,
    ModelAnswer,
    StartJobs,
    SubJob,
    SubResult,
    ToolAnswer,
)
from worker.errors import PauseRequested
from worker.flow.gate import Caller, Gate
from worker.flow.gated import behind
from worker.live import LiveWriter
from worker.models.base import (
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    OnDelta,
    StreamStopped,
)
from worker.models.renamed import renamed
from worker.models.streaming import stream_or_show
from worker.parallel import side_by_side
from worker.patience import patiently
from worker.redact import Redactor
from worker.state import Tokens
from worker.store.base import CheckpointStore
from worker.telemetry.watch import SliceWatch

log = logging.getLogger(__name__)

_REDACTOR = Redactor()

Outside = CallModel | CallTool | CallTools | StartJobs


@dataclass(frozen=True, slots=True)
class Performer:
    """Performs the effects of one slice.

    Attributes:
        epoch: of the claim.
        default_model: for agents that name none.
        clock_ms: monotonic milliseconds, for measuring calls.
        hint: tells the workers of a new sub-job.
        patience_s: how long a store call is tried again while Redis is away.
        watch: told of each call.
        gate: where model calls wait their turn; ``None``: nothing limits them.
    """

    spec: JobSpec
    epoch: int
    agent: Agent
    context: ActionContext | None
    store: CheckpointStore
    default_model: Callable[[], Model]
    clock_ms: Callable[[], int]
    hint: Callable[[JobSpec], object]
    patience_s: float
    watch: SliceWatch
    gate: Gate | None = None

    def perform(self, effect: Outside) -> Any:
        """Perform an effect; returns what the loop is sent."""
        match effect:
            case CallModel(request=request, model=named, live=None):
                model = self._model(named)
                return self._ask(model, request, partial(_ask, model, request))
            case CallModel(request=request, model=named, live=int(step)):
                return self._ask_live(self._model(named), request, step)
            case CallTool():
                return self._tool_call(effect)()
            case CallTools(calls=calls):
                return side_by_side([self._tool_call(call) for call in calls])
            case StartJobs(jobs=jobs):
                return tuple(self._start(sub) for sub in jobs)

    def asynchronous(self, effect: Outside) -> Awaitable[ModelAnswer] | None:
        """The same as an awaitable, where that saves a thread: models with ``areply``."""
        if not isinstance(effect, CallModel) or effect.live is not None:
            return None
        model = self._model(effect.model)
        areply = getattr(model, "areply", None)
        return self._await_model(model, areply, effect.request) if areply else None

    def _ask_live(
        self, model: Model, request: ModelRequest, step: int
    ) -> ModelAnswer | StreamStopped:
        """Ask a model and show its reply while it comes; also says that nobody wants the rest."""
        emit = partial(self.store.emit, self.spec.job_id, self.epoch)
        try:
            with LiveWriter(emit, step) as show:
                return self._ask(model, request, partial(_ask, model, request, show))
        except StreamStopped as stopped:
            return stopped

    def _ask(
        self, model: Model, request: ModelRequest, ask: Callable[[], ModelReply | ModelError]
    ) -> ModelAnswer:
        if self.watch.nobody:
            return self._timed(ask, ModelAnswer)  # type: ignore[no-any-return]
        call = self.watch.asks(model.name, request)
        with self.watch.around(call):
            return self.watch.answered(call, self._timed(ask, ModelAnswer))

    async def _await_model(
        self, model: Model, areply: Callable[..., Any], request: ModelRequest
    ) -> ModelAnswer:
        start = self.clock_ms()
        call = self.watch.asks(model.name, request)
        with self.watch.around(call):
            try:
                result: ModelReply | ModelError = await areply(request)
            except ModelError as error:
                result = _silent(error)
            except Exception as error:  # noqa: BLE001 - becomes a pause
                result = _bug(model, error)
            return self.watch.answered(call, ModelAnswer(result, self.clock_ms() - start))

    def _model(self, named: Model | None) -> Model:
        model = named or self._own_model()
        if self.gate is None or self.gate.open:
            return model
        spec = self.spec
        caller = Caller(spec.job_id, spec.tenant, self.agent.count_tokens)
        return behind(self.gate, model, caller)

    def _own_model(self) -> Model:
        own = self.agent.model or self.default_model()
        return renamed(own, self.spec.model) if self.spec.model else own

    def overdue(self, call: CallTool) -> ToolAnswer:
        """The answer to a call that has been left behind."""
        agent, tool = self.agent, call.tool
        observation = tool.overdue(
            self.context, texts=agent.texts, max_observation=agent.max_observation
        )
        answer = ToolAnswer(observation, round(tool.timeout * 1000))
        told = self.watch.runs(call)
        with self.watch.around(told):
            return self.watch.ended_with(told, answer)

    def _tool_call(self, call: CallTool) -> Callable[[], ToolAnswer]:
        return partial(self._run, call, partial(_invoke, self.agent, call, self.context))

    def _run(self, call: CallTool, run: Callable[[], Any]) -> ToolAnswer:
        if self.watch.nobody:
            return self._timed(run, ToolAnswer)  # type: ignore[no-any-return]
        told = self.watch.runs(call)
        with self.watch.around(told):
            return self.watch.ended_with(told, self._timed(run, ToolAnswer))

    def _timed(self, action: Callable[[], Any], wrap: Callable[[Any, int], Any]) -> Any:
        start = self.clock_ms()
        result = action()
        return wrap(result, self.clock_ms() - start)

    def _start(self, sub: SubJob) -> SubResult | None:
        """Start a sub-job unless it exists; its result if it has ended, or cannot be started."""
        try:
            spec = self._sub_spec(sub)
        except InvalidInput as error:
            refused = Outcome(ok=False, reason="invalid_input", text=f"it was not started: {error}")
            return SubResult(refused, Tokens(), 0)
        created = patiently(lambda: self.store.create(spec), self.patience_s)
        if created.new and not created.held:
            self.hint(spec)
        view = patiently(lambda: self.store.read(sub.job_id), self.patience_s)
        return None if view.outcome is None else _result_of(view.outcome, view)

    def _sub_spec(self, sub: SubJob) -> JobSpec:
        parent, headers = self.spec, self.watch.headers()
        spec = make_spec(
            job_id=sub.job_id,
            agent=sub.agent,
            input=sub.input,
            metadata=parent.metadata,
            tenant=parent.tenant,
            labels=parent.labels,
            priority=parent.priority,
            retention_s=parent.retention_s,
            message={"headers": dict(headers)} if headers else {},
        )
        return spec.model_copy(update={"parent": parent.job_id, "caps": dict(sub.caps)})


def _result_of(outcome: Outcome, view: JobView) -> SubResult:
    usage = view.usage
    tokens = Tokens(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens,
        usage.estimated,
        round((usage.cost or 0) * 1e6),
    )
    return SubResult(outcome, tokens, view.active_ms)


def _ask(
    model: Model, request: ModelRequest, show: OnDelta | None = None
) -> ModelReply | ModelError:
    """The model's reply, or its error as a value."""
    try:
        return model.reply(request) if show is None else stream_or_show(model, request, show)
    except StreamStopped:
        raise
    except ModelError as error:
        return _silent(error)
    except Exception as error:  # noqa: BLE001 - becomes a pause
        return _bug(model, error)


def _silent(error: ModelError) -> ModelError:
    """The error without secrets: its words are stored, and told to people."""
    text = _REDACTOR.text(error.text)
    if text == error.text:
        return error
    return ModelError(text, error.fate, error.retry_after, error.status, error.code)


def _bug(model: Model, error: Exception) -> ModelError:
    """A model's own bug waits for a person."""
    log.error("model %s raised something that is no ModelError", model.name, exc_info=error)
    return ModelError(f"the model adapter raised {type(error).__name__}", "pause")


def _invoke(agent: Agent, call: CallTool, context: ActionContext | None) -> Any:
    try:
        return call.tool.invoke(
            call.arguments,
            context,
            call.info,
            texts=agent.texts,
            max_observation=agent.max_observation,
        )
    except PauseRequested as wish:
        return wish
