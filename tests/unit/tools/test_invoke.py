"""Whatever a tool does becomes an observation; nothing of it crosses jobs or shows a secret."""

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from worker.context import ActionContext, CallInfo
from worker.errors import PauseRequested, ToolFailed, ToolRegistrationError, ToolRetry
from worker.redact import Redactor
from worker.texts import TEXTS
from worker.tools import as_tool, build_tool, tool
from worker.tools.threads import crew

DSN = "postgres://svc:s3cret@db.internal/prod"


@dataclass
class Shop(ActionContext):
    visible = ("tenant",)
    database_url: str = DSN
    api_key: str = "k-77777"
    region: str = "north-west-3"
    tenant: str = "tenant-one"
    seen: list[str] = field(default_factory=list)


def test_sync_and_async_functions_run(run: Any) -> None:
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    def now(x: int) -> int:
        return x - 1

    assert run(now, '{"x": 1}').content == "0"
    assert run(later, '{"x": 1}').content == "2"


def test_a_sync_function_may_return_a_coroutine(run: Any) -> None:
    async def later() -> str:
        return "done"

    def start() -> Any:
        return later()

    assert run(start).content == "done"


def test_objects_with_async_call_run(run: Any) -> None:
    class Client:
        async def __call__(self, x: int) -> int:
            return x

    assert run(Client(), '{"x": 3}').content == "3"


def test_rule_7_an_error_is_an_observation_that_says_what_to_do(run: Any) -> None:
    def broken() -> None:
        raise ValueError("no such file: a.md")

    seen = run(broken)
    assert seen.error
    assert seen.content == (
        "Error: ValueError: no such file: a.md\nCorrect the arguments, or go another way."
    )
    assert run(broken, texts=TEXTS["zh"]).content.startswith("错误：ValueError: no such file: a.md")


def test_an_error_without_text_and_one_whose_text_fails(run: Any) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def empty() -> None:
        raise ValueError

    def odd() -> None:
        raise Odd

    assert run(empty).content.startswith("Error: ValueError\n")
    assert run(odd).content.startswith("Error: Odd\n")


def test_a_long_error_is_cut_and_still_says_what_to_do(run: Any) -> None:
    def broken() -> None:
        raise ValueError("x" * 10_000)

    seen = run(broken)
    assert len(seen.content) < 3200
    assert "10000 characters" in seen.content
    assert seen.content.endswith("go another way.")


def test_the_only_error_of_a_group_is_told_itself(run: Any) -> None:
    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async def fail() -> None:
        raise LookupError("inside")

    assert run(grouped).content.startswith("Error: LookupError: inside")


def test_outcomes_that_a_tool_can_raise(run: Any) -> None:
    def retry() -> None:
        raise ToolRetry("give the city in English")

    def failed() -> None:
        raise ToolFailed("order 7 is already sent")

    assert run(retry).content.startswith("Error: give the city in English\nCall the tool again")
    assert run(failed).content.startswith("Error: order 7 is already sent\nCalling the tool again")
    assert run(failed).error


def test_a_tool_can_pause_its_job(run: Any) -> None:
    def refund(ctx: Shop) -> None:
        raise PauseRequested(f"refund with {ctx.api_key}?", {"key": ctx.api_key, "sum": 5})

    with pytest.raises(PauseRequested) as paused:
        run(refund, context=Shop())
    assert paused.value.question == "refund with [hidden]?"
    assert paused.value.data == {"key": "[hidden]", "sum": 5}


def test_a_pause_with_data_that_cannot_be_stored_is_an_error(run: Any) -> None:
    def ask() -> None:
        raise PauseRequested("ok?", object())

    assert run(ask).error


# D1


def fails_with_dsn() -> None:
    raise ConnectionError(f"could not connect to {DSN}")


def test_d1_a_secret_in_an_error_is_hidden_without_being_known(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        seen = run(fails_with_dsn)
    assert "ConnectionError" in seen.content
    assert "db.internal" in seen.content
    assert "s3cret" not in seen.content
    assert "s3cret" not in caplog.text
    assert "ConnectionError" in caplog.text


@pytest.mark.parametrize("known", ["database_url", "api_key", "region"])
def test_d1_no_text_of_the_context_is_in_an_error(
    run: Any, caplog: pytest.LogCaptureFixture, known: str
) -> None:
    def leak(ctx: Shop) -> None:
        raise RuntimeError(f"<{getattr(ctx, known)}> for {ctx.tenant}")

    with caplog.at_level(logging.DEBUG):
        seen = run(leak, context=Shop())
    assert getattr(Shop(), known) not in seen.content + caplog.text
    assert "tenant-one" in seen.content


def test_d1_secrets_in_results_are_hidden_in_content_and_value(run: Any) -> None:
    def show(ctx: Shop) -> Any:
        return {
            "url": ctx.database_url,
            "key": [ctx.api_key],
            "region": ctx.region,
            "t": ctx.tenant,
        }

    seen = run(show, context=Shop())
    assert "s3cret" not in seen.content + str(seen.value)
    assert seen.value["key"] == ["[hidden]"]
    assert (seen.value["region"], seen.value["t"]) == ("north-west-3", "tenant-one")


def test_d1_the_operators_own_list_is_hidden_too(run: Any) -> None:
    def show() -> str:
        return "the word is xyzzy!"

    assert run(show, redactor=Redactor(["xyzzy!"])).content == "the word is [hidden]"


def test_d1_the_model_is_shown_no_traceback(run: Any) -> None:
    seen = run(fails_with_dsn)
    assert "Traceback" not in seen.content
    assert __file__ not in seen.content


# D2


def test_d2_a_sync_tool_that_hangs_times_out_and_its_sibling_runs(run: Any) -> None:
    release, ended = threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def slow() -> str:
        release.wait()
        ended.set()
        return "late"

    before = crew().left_behind
    seen = run(slow)
    assert seen.error
    assert "no result within 0.05 seconds" in seen.content
    assert crew().left_behind == before + 1
    assert run(as_tool(good)).content == "fine"
    release.set()
    assert ended.wait(10)


def good() -> str:
    return "fine"


def test_d2_an_async_tool_that_hangs_is_cancelled_and_leaves_nothing_behind(run: Any) -> None:
    cancelled = threading.Event()

    @tool(timeout=0.05)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    before = crew().left_behind
    assert "no result within" in run(slow).content
    assert cancelled.is_set()
    assert crew().left_behind == before


def test_d2_the_default_timeout_is_finite() -> None:
    assert as_tool(good).timeout == 300.0


# D7


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
def test_d7_what_would_end_the_process_is_an_observation(run: Any, error: BaseException) -> None:
    def sync() -> None:
        raise error

    async def later() -> None:
        raise error

    for function in (sync, later):
        seen = run(function)
        assert seen.error
        assert type(error).__name__ in seen.content


def test_d7_sys_exit(run: Any) -> None:
    def leave() -> None:
        sys.exit(3)

    assert run(leave).content.startswith("Error: SystemExit: 3")


# D8


def test_d8_a_tool_gets_copies_of_its_arguments(run: Any) -> None:
    def change(items: list[int], table: dict[str, list[int]]) -> Any:
        items.append(9)
        table["a"].append(9)
        return [items, table]

    built = as_tool(change)
    arguments = built.parse('{"items": [1], "table": {"a": [1]}}')
    first = built.invoke(arguments, None, INFO)
    second = built.invoke(arguments, None, INFO)
    assert first.value == second.value == [[1, 9], {"a": [1, 9]}]
    assert arguments.values == {"items": [1], "table": {"a": [1]}}


def test_d8_a_result_that_the_tool_goes_on_changing_stays_as_it_was(run: Any) -> None:
    kept: list[int] = [1]

    def give() -> list[int]:
        return kept

    seen = run(give)
    kept.append(2)
    assert seen.value == [1]


# D9


INFO = CallInfo("job-1", "call_1", 1, 1, "job-1:call_1")


def test_d9_a_mutable_default_does_not_remember(run: Any) -> None:
    def collect(x: int, into: list[int] = [], by: dict[str, int] = {}) -> Any:  # noqa: B006
        into.append(x)
        by[str(x)] = x
        return [into, by]

    assert run(collect, '{"x": 1}').value == [[1], {"1": 1}]
    assert run(collect, '{"x": 2}').value == [[2], {"2": 2}]


def test_d9_contexts_and_call_infos_of_interleaved_jobs_stay_apart() -> None:
    meet = threading.Barrier(8, timeout=10)

    @tool
    def who(ctx: Shop) -> Any:
        meet.wait()
        return [ctx.tenant, ctx.job_id, ctx.call_id, ctx.step, ctx.attempt, ctx.idempotency_key]

    @tool
    async def who_async(ctx: Shop) -> Any:
        before = ctx.job_id
        await asyncio.sleep(0.01)
        return [ctx.tenant, before, ctx.call_id, ctx.step, ctx.attempt, ctx.idempotency_key]

    def one(number: int, function: Any) -> Any:
        info = CallInfo(f"job-{number}", f"call_{number}", number, 1, f"key-{number}")
        built = as_tool(function)
        return built.invoke(built.parse("{}"), Shop(tenant=f"tenant-{number}"), info).value

    for function in (who, who_async):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n, f=function: one(n, f), range(8)))
        assert found == [
            [f"tenant-{n}", f"job-{n}", f"call_{n}", n, 1, f"key-{n}"] for n in range(8)
        ]


def test_one_context_serves_parallel_calls() -> None:
    meet = threading.Barrier(4, timeout=10)
    shared = Shop()

    @tool
    def who(ctx: Shop) -> str:
        meet.wait()
        return ctx.call_id

    built = as_tool(who)

    def one(number: int) -> str:
        info = CallInfo("job", f"call_{number}", 1, 1, "key")
        return built.invoke(built.parse("{}"), shared, info).content

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == [f"call_{n}" for n in range(4)]


def test_nothing_of_a_call_stays_in_its_helper_thread(run: Any) -> None:
    def call() -> Any:
        from worker.context import current_call

        return current_call.get() is not None

    assert run(call).value is True
    assert crew().run(lambda: _call_outside(), _empty_context(), 10).value is None


def _call_outside() -> Any:
    from worker.context import current_call

    return current_call.get()


def _empty_context() -> Any:
    import contextvars

    return contextvars.Context()


# Contexts


def test_a_missing_context_is_ours_to_solve_and_not_the_models(run: Any) -> None:
    def use(ctx: Shop) -> None: ...

    with pytest.raises(ToolRegistrationError, match=r"'use'.*Shop.*none"):
        run(use)
    with pytest.raises(ToolRegistrationError, match=r"Shop.*ActionContext"):
        run(use, context=ActionContext())


def test_a_plain_context_is_always_there(run: Any) -> None:
    def use(ctx: ActionContext) -> str:
        return ctx.idempotency_key

    assert run(use).content == "job-1:call_1"


def test_an_optional_context_may_be_absent(run: Any) -> None:
    def use(ctx: Shop | None = None) -> str:
        return str(ctx)

    assert run(use).content == "None"


def test_built_in_tools_are_not_run(run: Any) -> None:
    from worker.tools import hand_to_human

    with pytest.raises(RuntimeError, match="answered by the loop"):
        run(hand_to_human, '{"reason": "x"}')


def test_options_are_kept(run: Any) -> None:
    built = build_tool(fails_with_dsn, name="x", effects="once", max_calls=2, approval=True)
    assert (built.effects, built.max_calls, built.approval, built.isolate) == (
        "once",
        2,
        True,
        False,
    )
    assert built.origin == f"{__name__}:fails_with_dsn"
