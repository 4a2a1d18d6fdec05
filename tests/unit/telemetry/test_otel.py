"""One trace a job, by the conventions for generative AI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import SpanKind, StatusCode

from api_client.contract import Answer, JobSpec
from tests.unit.telemetry.agents import BUSY, SECRET, act, agent, reply
from tests.unit.telemetry.conftest import Lab
from worker.agent import Agent
from worker.ends import Ended
from worker.telemetry.genai import provider_of
from worker.telemetry.observer import JobEnded
from worker.telemetry.otel import OtelObserver, Tracing
from worker.telemetry.trace_ids import job_trace
from worker.tools import tool

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LOOK = act(("look", '{"what": "it"}'), ("fail", '{"what": "private"}'))
ASK = act(("hand_to_human", '{"reason": "May I?"}'))


class Traced:
    """A lab whose spans are kept; runs jobs as a worker would."""

    def __init__(
        self, who: Agent, *, content: bool = False, sampler: Sampler | None = None
    ) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.lab = Lab(who, observer=None)  # type: ignore[arg-type]
        self.observer = self._observer(content)
        self.lab.runner.observer = self.observer

    def _observer(self, content: bool) -> OtelObserver:
        tracer = self.provider.get_tracer("test")
        assert isinstance(tracer, Tracer)
        clock = lambda: self.lab.now * 1_000_000  # noqa: E731
        return OtelObserver(Tracing(tracer, self.lab.store.read, content, clock))

    def another_worker(self) -> None:
        """From here on somebody else runs the job, knowing nothing of what was before."""
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.lab.runner.observer = self.observer = self._observer(False)

    def slice(self) -> Any:
        """Run a slice, and publish its outcome."""
        end = self.lab.slice()
        if isinstance(end, Ended):
            self.observer.note(JobEnded(end.spec, end.status, end.outcome))
        return end

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """All that have ended."""
        return self.exporter.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        """The only one of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


def ids(span: ReadableSpan) -> tuple[int, int, int]:
    """Trace, span and parent."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id, span.parent.span_id if span.parent else 0


@pytest.fixture
def traced() -> Iterator[Callable[..., Traced]]:
    """Makes labs with spans."""
    made: list[Traced] = []

    def make(*args: Any, **kwargs: Any) -> Traced:
        made.append(Traced(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.provider.shutdown()


def test_a_job_is_one_tree_over_slices_pauses_and_workers(traced: Callable[..., Traced]) -> None:
    script = (reply(LOOK), BUSY, reply(ASK), reply({"content": "Done."}))
    trace = traced(agent(*script))
    lab = trace.lab
    lab.submit(message={"headers": {"traceparent": CALLER}})
    trace.slice()
    trace.another_worker()
    lab.now += 3_600_000
    trace.slice()
    lab.answer(Answer(value="yes"))
    trace.another_worker()
    lab.now += 60_000
    trace.slice()
    root = trace.span("invoke_agent clerk")
    assert ids(root) == (int(CALLER[3:35], 16), job_trace(lab.store.read("job-1").spec).span,
                         int(CALLER[36:52], 16))  # fmt: skip
    rest = [span for span in trace.spans if span is not root]
    assert sorted(span.name for span in rest) == [
        "chat script", "chat script", "chat script", "chat script",
        "execute_tool fail", "execute_tool look", "pause hand_to_human",
    ]  # fmt: skip
    assert {ids(span)[0] for span in rest} == {ids(root)[0]}
    assert {ids(span)[2] for span in rest} == {ids(root)[1]}
    assert len({ids(span)[1] for span in trace.spans}) == len(trace.spans)


def test_the_jobs_own_span_lasts_from_submission_to_end(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply(LOOK), reply({"content": "Done."}, (200, 20))))
    trace.lab.submit(tenant="t1")
    trace.lab.now += 5_000
    trace.slice()
    root = trace.span("invoke_agent clerk")
    assert root.start_time is not None
    assert root.end_time == root.start_time + 5_000 * 1_000_000
    assert root.kind is SpanKind.INTERNAL
    attributes = dict(root.attributes or {})
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "clerk"
    assert attributes["gen_ai.conversation.id"] == "job-1"
    assert attributes["gen_ai.usage.input_tokens"] == 300
    assert attributes["gen_ai.usage.output_tokens"] == 30
    assert attributes["stepkeeper.cost"] == 0.00036
    assert attributes["stepkeeper.tenant"] == "t1"
    assert root.parent is None
    assert root.status.status_code is StatusCode.UNSET


def test_calls_have_the_attributes_of_the_conventions(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply(LOOK), reply({"content": "Done."})))
    trace.lab.submit()
    trace.slice()
    chat = next(span for span in trace.spans if span.name == "chat script")
    assert chat.kind is SpanKind.CLIENT
    attributes = dict(chat.attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "custom"
    assert attributes["gen_ai.request.model"] == "script"
    assert attributes["gen_ai.response.model"] == "scripted-2026"
    assert attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert attributes["gen_ai.usage.input_tokens"] == 100
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 7
    assert attributes["stepkeeper.worker"] == "w@lab/boot/1/"
    tool_span = trace.span("execute_tool look")
    assert tool_span.kind is SpanKind.INTERNAL
    attributes = dict(tool_span.attributes or {})
    assert attributes["gen_ai.tool.name"] == "look"
    assert attributes["gen_ai.tool.call.id"] == "c0"
    assert attributes["gen_ai.tool.type"] == "function"
    assert attributes["gen_ai.tool.description"] == "Look something up."


def test_errors_are_marked_without_secrets(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply(LOOK), BUSY, max_model_attempts=1))
    trace.lab.submit()
    trace.slice()
    failed = trace.span("execute_tool fail")
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "tool_error"
    chat = [span for span in trace.spans if span.name == "chat script"][-1]
    assert (chat.attributes or {})["error.type"] == "429"
    assert chat.status.description is not None
    assert "hunter22" not in chat.status.description


def test_a_job_that_failed_marks_its_own_span(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply(LOOK), reply(LOOK), max_steps=1, on_limit="stop"))
    trace.lab.submit()
    trace.slice()
    root = trace.span("invoke_agent clerk")
    assert root.status.status_code is StatusCode.ERROR
    assert (root.attributes or {})["stepkeeper.status"] == "failed"


def written(spans: Sequence[ReadableSpan]) -> str:
    """Everything that the spans say."""
    return json.dumps([span.to_json() for span in spans])


def test_content_is_off_unless_it_is_wanted(traced: Callable[..., Traced]) -> None:
    script = (reply(LOOK), reply({"content": "the-answer"}))
    quiet = traced(agent(*script))
    quiet.lab.submit("the-task")
    quiet.slice()
    for word in ("the-task", "the-answer", "Help.", "private", SECRET, "I will."):
        assert word not in written(quiet.spans)
    told = traced(agent(*script), content=True)
    told.lab.submit("the-task")
    told.slice()
    first = next(span for span in told.spans if span.name == "chat script")
    attributes = dict(first.attributes or {})
    system = json.loads(str(attributes["gen_ai.system_instructions"]))
    assert system == [{"type": "text", "content": "Help."}]
    shown = json.loads(str(attributes["gen_ai.input.messages"]))
    assert shown == [{"role": "user", "parts": [{"type": "text", "content": "the-task"}]}]
    (said,) = json.loads(str(attributes["gen_ai.output.messages"]))
    assert said["finish_reason"] == "tool_calls"
    assert said["parts"][1] == {
        "type": "tool_call", "id": "c0", "name": "look", "arguments": {"what": "it"},
    }  # fmt: skip
    tools = json.loads(str(attributes["gen_ai.tool.definitions"]))
    assert {each["name"] for each in tools} >= {"look", "fail"}
    look = dict(told.span("execute_tool look").attributes or {})
    assert look["gen_ai.tool.call.arguments"] == '{"what": "it"}'
    assert SECRET in str(look["gen_ai.tool.call.result"])


def test_spans_made_inside_a_tool_stand_under_it(traced: Callable[..., Traced]) -> None:
    trace: Traced

    @tool(effects="safe")
    def deeper() -> str:
        """Makes a span of its own."""
        with trace.provider.get_tracer("library").start_as_current_span("inner"):
            return "ok"

    script = [reply(act(("deeper", "{}"))), reply({"content": "Done."})]
    base = agent(*script)
    trace = traced(Agent(name="clerk", goal="x", tools=[deeper], model=base.model))
    trace.lab.submit()
    trace.slice()
    assert ids(trace.span("inner"))[2] == ids(trace.span("execute_tool deeper"))[1]


def test_a_persons_time_is_a_span(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply(ASK), reply({"content": "Done."})))
    trace.lab.submit()
    trace.slice()
    trace.lab.now += 60_000
    trace.lab.answer(Answer(value="yes"))
    trace.slice()
    pause = trace.span("pause hand_to_human")
    assert (pause.attributes or {})["stepkeeper.signal.kind"] == "answer"


def test_the_callers_decision_not_to_sample_holds(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply({"content": "Done."})))
    trace.lab.submit(message={"headers": {"traceparent": CALLER[:-2] + "00"}})
    trace.slice()
    assert trace.spans == ()


def test_without_a_caller_the_sampler_decides(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply({"content": "Done."})), sampler=ParentBased(ALWAYS_OFF))
    trace.lab.submit()
    trace.slice()
    assert trace.spans == ()


def test_a_sub_job_stands_under_the_job_that_asked(traced: Callable[..., Traced]) -> None:
    trace = traced(agent(reply({"content": "Done."})))
    parent = trace.lab.submit(message={"headers": {"traceparent": CALLER}})
    headers = trace.observer.headers(parent)
    child = JobSpec(job_id="child", agent="clerk", input="x", message={"headers": dict(headers)})
    assert job_trace(child).trace == job_trace(parent).trace
    assert job_trace(child).parent == job_trace(parent).span


@pytest.mark.parametrize(
    "given", ["", "garbage", "00-" + "0" * 32 + "-b7ad6b7169203331-01", CALLER + "-more", 7]
)
def test_a_traceparent_of_another_form_is_no_parent(given: Any) -> None:
    spec = JobSpec(job_id="j", agent="a", input="x", message={"headers": {"traceparent": given}})
    assert job_trace(spec) == job_trace(JobSpec(job_id="j", agent="a", input="x"))
    assert job_trace(spec).parent == 0


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-5.1", "openai"),
        ("openai/gpt-5", "openai"),
        ("claude-opus-5", "anthropic"),
        ("llama-4", "custom"),
    ],
)
def test_a_models_name_tells_its_provider(model: str, provider: str) -> None:
    assert provider_of(model) == provider
