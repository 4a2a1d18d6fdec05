"""An agent: a goal, tools, a model and limits, declared once.

Registering ``Agent(name="shop", …)`` with a Celery app makes the task ``agent.shop``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from api_client.backlogs import MOST
from api_client.contract import AGENT_NAME_PATTERN, AgentInfo, JobSpec, PauseKind, task_name
from worker.budget import Limits, Price
from worker.context import ActionContext
from worker.contexts import ContextSource, make_source
from worker.errors import AgentDefinitionError
from worker.estimate import count_tokens
from worker.memory import EVERYTHING, Memory
from worker.messages import Message
from worker.models.base import Model
from worker.pauses import OnDeadline, PausePolicy
from worker.texts import Texts, texts_for
from worker.tools import Tool, ToolBox, terminate_tool
from worker.tools.answer_type import AnswerType

Language = Literal["en", "de", "zh"]


@dataclass(frozen=True, eq=False)
class Agent:
    """What a job of this name does.

    Attributes:
        name: 1 to 64 of ``A-Z a-z 0-9 _ -``; the Celery task is ``agent.NAME``.
        goal: the system message.
        tools: functions (decorated with ``@tool`` or not) and ``Tool`` objects.
        model: answers the messages; ``None`` means ``OpenAIModel()`` from the environment.
        output: ``None``: a reply without tool calls is the answer. ``str``: the same, or the
            built-in tool ``terminate``. Any other type: only ``terminate``, whose parameters are
            the schema of that type.
        terminal: names of the tools whose success ends the job *for this agent*; their result is
            the answer. At most one, and not together with ``output``.
        context: the hidden context of the tools: an instance, or a function of the ``JobSpec``
            with an annotated return type. Closed after each slice if it has ``close()``.
        max_steps: model replies.
        max_tokens: input and output tokens.
        max_cost: money; needs ``price``.
        max_active_s: seconds in model and tool calls; waiting for people does not count.
        max_backlog: jobs of this agent that may wait to run; one more is refused
            (``BacklogFull``), unless an operator has set another cap (``stepkeeper backlogs``).
        max_repeats: the same action (name and equal arguments) with the same observation may be
            asked for this many times in a row; the last of them is not run. ``None``: no check.
        on_limit: a spent budget or a repeated action pauses the job for a person (``"pause"``)
            or ends it without an answer (``"stop"``).
        max_observation: characters; longer ones are cut and say so.
        max_model_attempts: model errors in a row before the job pauses.
        max_bad_turns: replies in a row of which nothing could be used, before the job fails.
        strict: ``True`` sends the strict form (OpenAI's structured outputs) of each schema that
            allows it; ``False`` says that none is strict; ``None`` says nothing.
        parallel_safe: calls of ``safe`` tools that stand side by side in one reply run at once.
        stream: replies are shown while they come, in the job's live stream
            (``AgentClient.live``); the reply itself is the same.
        labels: who may answer the pauses, besides those with a label of the job; anybody, if
            neither has any.
        pause_deadline_s, on_deadline, remind_after_s: what happens when nobody answers a pause,
            see ``worker.pauses.PausePolicy``.
        pause_policies: the same for one kind of pause, which goes before.
        human_answer: type of the answers to ``hand_to_human``; any JSON value, if not given.
        on_pause, on_end: Celery signatures that are sent, with the announcement as their first
            argument, when a job pauses (also when people are reminded or others are asked) and
            when it has ended.
        webhook_url: where this agent's pauses and ends are announced; by default where the
            setting ``STEPKEEPER_WEBHOOK_URL`` says.
        memory: what the model sees of a long transcript.
        language: of every text that we write for the model.
        on_version_change: a job that began under another ``version`` goes on with this code
            (``"continue"``) or pauses first (``"pause"``).
        version: of this code; computed from goal, tools and output if not given.
        count_tokens: estimates tokens of messages where a provider reports none.
    """

    name: str
    goal: str
    tools: Sequence[Callable[..., Any] | Tool] = ()
    model: Model | None = None
    output: Any = None
    terminal: Sequence[str | Callable[..., Any]] = ()
    context: ActionContext | Callable[[JobSpec], ActionContext] | None = None
    max_steps: int | None = 20
    max_tokens: int | None = None
    max_cost: float | None = None
    max_active_s: float | None = None
    max_backlog: int | None = None
    max_repeats: int | None = 3
    on_limit: Literal["pause", "stop"] = "pause"
    max_observation: int = 3000
    max_model_attempts: int = 5
    max_bad_turns: int = 5
    price: Price | None = None
    language: Language = "en"
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    parallel_safe: bool = False
    strict: bool | None = None
    stream: bool = False
    labels: Sequence[str] = ()
    pause_deadline_s: float | None = None
    on_deadline: OnDeadline = None
    remind_after_s: Sequence[float] = ()
    pause_policies: Mapping[str, PausePolicy] = field(default_factory=dict)
    human_answer: Any = None
    on_pause: Any = None
    on_end: Any = None
    webhook_url: str = ""
    memory: Memory = EVERYTHING
    on_version_change: Literal["continue", "pause"] = "continue"
    version: str = ""
    description: str = ""
    count_tokens: Callable[[Iterable[Message]], int] = count_tokens

    toolbox: ToolBox = field(init=False, repr=False)
    limits: Limits = field(init=False, repr=False)
    texts: Texts = field(init=False, repr=False)
    contexts: ContextSource = field(init=False, repr=False)
    terminal_names: frozenset[str] = field(init=False, repr=False)
    schemas: tuple[dict[str, Any], ...] = field(init=False, repr=False)
    pause_policy: PausePolicy = field(init=False, repr=False)
    policies: dict[PauseKind, PausePolicy] = field(init=False, repr=False)
    human: AnswerType | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not AGENT_NAME_PATTERN.fullmatch(self.name):
            raise AgentDefinitionError(
                f"agent name {self.name!r}: use 1 to 64 of the characters A-Z a-z 0-9 _ -"
            )
        self._set("texts", texts_for(self.language))
        self._set("toolbox", ToolBox([*self.tools, *self._terminate()]))
        self._set("terminal_names", frozenset(map(_tool_name, self.terminal)))
        self._set("schemas", tuple(self.toolbox.schemas(self.strict)))
        self._set("contexts", make_source(self.name, self.context, self.toolbox))
        self._set("limits", self._limits())
        self._set_pauses()
        self._check_exits()
        self._set("version", self.version or self._fingerprint())

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _set_pauses(self) -> None:
        try:
            policy = PausePolicy(
                self.labels, self.pause_deadline_s, self.on_deadline, self.remind_after_s
            )
            policies = {PauseKind(kind): one for kind, one in self.pause_policies.items()}
            human = None if self.human_answer is None else AnswerType(self.human_answer)
        except (AgentDefinitionError, ValueError) as error:
            raise AgentDefinitionError(f"agent {self.name!r}: {error}") from error
        self._set("pause_policy", policy)
        self._set("policies", policies)
        self._set("human", human)

    def _terminate(self) -> list[Tool]:
        return [] if self.output is None else [terminate_tool(self.output, texts=self.texts)]

    def _limits(self) -> Limits:
        if self.max_cost is not None and self.price is None:
            raise AgentDefinitionError(
                f"agent {self.name!r}: max_cost={self.max_cost} needs price=Price(…), because "
                "without a price nothing would hold the limit"
            )
        limits = Limits(self.max_steps, self.max_tokens, self.max_cost, self.max_active_s)
        for name in ("steps", "tokens", "cost", "active_s"):
            value = getattr(limits, name)
            if value is not None and value <= 0:
                raise AgentDefinitionError(f"agent {self.name!r}: max_{name}={value} must be > 0")
        if self.max_backlog is not None and not 1 <= self.max_backlog <= MOST:
            raise AgentDefinitionError(
                f"agent {self.name!r}: max_backlog={self.max_backlog} must be from 1 to {MOST:,}, "
                "or None"
            )
        if self.max_repeats is not None and self.max_repeats < 2:
            raise AgentDefinitionError(
                f"agent {self.name!r}: max_repeats={self.max_repeats} must be 2 or more, or None"
            )
        return limits

    def _check_exits(self) -> None:
        names = sorted(self.terminal_names)
        for name in names:
            if self.toolbox.get(name) is None:
                known = ", ".join(self.toolbox.names)
                raise AgentDefinitionError(
                    f"agent {self.name!r}: terminal tool {name!r} is not among its tools: {known}"
                )
        if names and self.output is not None:
            raise AgentDefinitionError(
                f"agent {self.name!r}: output and terminal tools {names} exclude each other; "
                "drop output, or the terminal marks"
            )
        if len(names) > 1:
            raise AgentDefinitionError(
                f"agent {self.name!r}: {names} are all terminal; an agent has exactly one exit, "
                "so that its answer has one type"
            )

    def _fingerprint(self) -> str:
        tools = [[tool.schema()["function"], tool.effects] for tool in self.toolbox]
        text = json.dumps([self.goal, tools, sorted(self.terminal_names)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def tool(self, name: str) -> Tool:
        """A tool that the agent has.

        Raises:
            KeyError: it has none of that name.
        """
        tool = self.toolbox.get(name)
        if tool is None:
            raise KeyError(name)
        return tool

    @property
    def task_name(self) -> str:
        """``agent.NAME``."""
        return task_name(self.name)

    @property
    def ends_by_text(self) -> bool:
        """Whether a reply without tool calls is an answer."""
        return (self.output is None and not self.terminal_names) or self.output is str

    def info(self, queue: str = "") -> AgentInfo:
        """What workers announce of this agent."""
        return AgentInfo(
            name=self.name,
            version=self.version,
            description=self.description or self.goal.strip().splitlines()[0][:200],
            queue=queue,
            limits={name: value for name, value in asdict(self.limits).items() if value},
        )


def _tool_name(item: str | Callable[..., Any] | Tool) -> str:
    if isinstance(item, str):
        return item
    return item.name if isinstance(item, Tool) else item.__name__


def by_name(agents: Iterable[Agent]) -> dict[str, Agent]:
    """Agents by their names."""
    return {agent.name: agent for agent in agents}
