"""Model calls behind the gate: what passes, what waits here, what sends its job away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from api_client.errors import StoreUnavailable
from worker.estimate import count_tokens
from worker.flow.base import Ask, Granted, Limit, Settled, Verdict
from worker.flow.book import LimitBook, Lookout, Tick
from worker.flow.gate import FIRST_OUTPUT, Caller, Gate
from worker.flow.gated import behind
from worker.flow.memory import MemoryLedger
from worker.models import (
    FallbackModel,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    OpenAIModel,
    ScriptedModel,
    Usage,
)
from worker.models.base import Delta, StreamingModel
from worker.models.function import FunctionModel
from worker.telemetry.observer import LimitRefused, LimitWaited, Moment, Observer

REQUEST = ModelRequest([{"role": "user", "content": "one two three"}])
CALLER = Caller("job-1", "", count_tokens)


class Notes(Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def note(self, moment: Moment) -> None:
        self.moments.append(moment)


class Bench:
    """A gate over a ledger in memory, and its clock."""

    def __init__(self, **limits: Limit) -> None:
        self.now = 1_700_000_000_000
        self.ledger = MemoryLedger(lambda: self.now)
        self.notes = Notes()
        book = LimitBook(limits, self.ledger.limits, Tick())
        self.gate = Gate(self.ledger, book, observer=self.notes)

    def behind(self, model: Model, job: str = "job-1") -> Any:
        return behind(self.gate, model, Caller(job, "", count_tokens))


def answering(text: str = "yes", name: str = "m", usage: Usage | None = None) -> FunctionModel:
    return FunctionModel(
        lambda _: ModelReply({"role": "assistant", "content": text}, usage), name=name
    )


def failing(error: ModelError, name: str = "m") -> FunctionModel:
    def reply(_: Any) -> Any:
        raise error

    return FunctionModel(reply, name=name)


def refusal(act: Callable[[], object]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        act()
    return caught.value


def test_a_model_without_a_limit_is_left_as_it_is() -> None:
    bench = Bench(other=Limit(rpm=1))
    model = answering()
    assert bench.behind(model) is model
    assert not bench.gate.open
    assert Bench().gate.open


def test_a_call_is_reserved_and_settled_with_what_it_took() -> None:
    bench = Bench(m=Limit(tpm=10_000))
    seen = []

    def reply(_: Any) -> ModelReply:
        seen.append(bench.ledger.use("m"))
        return ModelReply({"role": "assistant", "content": "y"}, Usage(40, 2), "stop")

    assert bench.behind(FunctionModel(reply, name="m")).reply(REQUEST).usage == Usage(40, 2)
    [during] = seen
    assert (during.requests, during.in_flight) == (1, 1)
    assert during.tokens == count_tokens(REQUEST.messages) + FIRST_OUTPUT
    after = bench.ledger.use("m")
    assert (after.tokens, after.in_flight) == (42, 0)


def test_the_length_of_replies_is_learned() -> None:
    bench = Bench(m=Limit(tpm=1_000_000))
    for _ in range(50):
        bench.behind(answering(usage=Usage(3, 2000))).reply(REQUEST)
    entry = bench.gate.entry("m", Limit(tpm=1_000_000), CALLER, REQUEST)
    assert 1900 < entry.ask.tokens < 2010


def test_without_a_limit_of_tokens_none_are_counted() -> None:
    def never(_: Any) -> int:
        raise AssertionError("counted")

    gate = Bench().gate
    assert gate.entry("m", Limit(rpm=1), Caller("j", "", never), REQUEST).ask.tokens == 0


def test_a_long_wait_sends_the_job_away_with_a_time() -> None:
    bench = Bench(m=Limit(rpm=1))
    bench.behind(answering()).reply(REQUEST)
    error = refusal(lambda: bench.behind(answering(), "job-2").reply(REQUEST))
    assert error.fate == "wait"
    assert error.retry_after is not None
    assert 59 <= error.retry_after <= 62
    assert "model m: its shared limit is used" in error.text
    assert bench.notes.moments == [LimitWaited("m", round(error.retry_after * 1000), here=False)]
    other = refusal(lambda: bench.behind(answering(), "job-3").reply(REQUEST))
    assert "1 jobs are before this one" in other.text


class Short:
    """A ledger that lets everybody wait for a moment."""

    def __init__(self, *waits: int) -> None:
        self.inner = MemoryLedger(lambda: 0)
        self.waits = list(waits)
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def reserve(self, key: str, limit: Limit, ask: Ask) -> Verdict:
        from worker.flow.base import Wait

        self.asked += 1
        return Wait(self.waits.pop(0), 0) if self.waits else self.inner.reserve(key, limit, ask)


@pytest.mark.parametrize("how", ["reply", "areply"])
def test_a_short_wait_is_waited_out_here(how: str) -> None:
    ledger, notes = Short(20, 10), Notes()
    book = LimitBook({"m": Limit(rpm=5)}, ledger.limits, Tick())
    gate = Gate(ledger, book, observer=notes)
    model: Any = behind(gate, ScriptedModel(["yes"], name="m"), CALLER)
    reply = model.reply(REQUEST) if how == "reply" else asyncio.run(model.areply(REQUEST))
    assert reply.message["content"] == "yes"
    assert ledger.asked == 3
    assert notes.moments == [LimitWaited("m", 30, here=True)]


def test_many_short_waits_are_a_long_one() -> None:
    ledger = Short(400, 400, 400)
    gate = Gate(ledger, LimitBook({"m": Limit(rpm=5)}, ledger.limits, Tick()))
    model: Any = behind(gate, answering(), CALLER)
    assert refusal(lambda: model.reply(REQUEST)).fate == "wait"
    assert ledger.asked == 3


def test_a_call_that_no_wait_helps_pauses_and_says_what_to_change() -> None:
    bench = Bench(m=Limit(tpm=3))
    error = refusal(lambda: bench.behind(answering()).reply(REQUEST))
    assert (error.fate, error.code) == ("pause", "limit_too_small")
    assert "stepkeeper limits set m --tpm" in error.text
    assert bench.notes.moments == [LimitRefused("m", "too_large")]


def test_a_usual_reply_may_not_make_a_call_too_large() -> None:
    bench = Bench(m=Limit(tpm=20))
    assert bench.behind(answering(usage=Usage(4, 1))).reply(REQUEST)


@pytest.mark.parametrize(("wait", "closed_ms"), [(7.5, 7500), (None, 1000)])
def test_a_429_closes_the_key_for_all(wait: float | None, closed_ms: int) -> None:
    bench = Bench(m=Limit(rpm=100))
    busy = ModelError("busy", "retry", wait, 429)
    assert refusal(lambda: bench.behind(failing(busy)).reply(REQUEST)) is busy
    assert bench.ledger.use("m").closed_ms == closed_ms
    assert bench.notes.moments == [LimitRefused("m", "provider")]
    bench.now += closed_ms - 1001 if closed_ms > 1001 else 0
    bench.ledger.settle("m", Settled("x", 0, 0, 0, 60_000))
    error = refusal(lambda: bench.behind(answering(), "job-2").reply(REQUEST))
    assert "its provider has asked all callers to wait" in error.text


def test_a_spent_quota_closes_nothing() -> None:
    bench = Bench(m=Limit(rpm=100))
    spent = ModelError("no credit", "pause", None, 429, "insufficient_quota")
    refusal(lambda: bench.behind(failing(spent)).reply(REQUEST))
    assert bench.ledger.use("m").closed_ms == 0


@pytest.mark.parametrize(("status", "kept"), [(400, 0), (429, 0), (503, None), (None, None)])
def test_tokens_of_a_refused_request_are_given_back(status: int | None, kept: int | None) -> None:
    bench = Bench(m=Limit(tpm=10_000))
    refusal(lambda: bench.behind(failing(ModelError("x", "retry", 1.0, status))).reply(REQUEST))
    use = bench.ledger.use("m")
    reserved = count_tokens(REQUEST.messages) + FIRST_OUTPUT
    assert use.tokens == (reserved if kept is None else kept)
    assert use.in_flight == 0


def test_even_a_bug_gives_the_place_back() -> None:
    bench = Bench(m=Limit(in_flight=1))

    def broken(_: Any) -> Any:
        raise ZeroDivisionError

    model: Any = FunctionModel(broken, name="m")
    model.reply = broken
    with pytest.raises(ZeroDivisionError):
        bench.behind(model).reply(REQUEST)
    assert bench.ledger.use("m").in_flight == 0


class Away(MemoryLedger):
    """A ledger whose server is away, for everything that is named."""

    def __init__(self, *names: str) -> None:
        super().__init__(lambda: 0)
        self.names = names

    def reserve(self, key: str, limit: Limit, ask: Ask) -> Verdict:
        if "reserve" in self.names:
            raise StoreUnavailable("gone")
        return super().reserve(key, limit, ask)

    def settle(self, key: str, settled: Settled) -> None:
        if "settle" in self.names:
            raise StoreUnavailable("gone")
        super().settle(key, settled)


def test_a_store_that_is_away_makes_the_job_wait_and_loses_no_reply() -> None:
    def gate(ledger: Away) -> Gate:
        return Gate(ledger, LimitBook({"m": Limit(rpm=1)}, ledger.limits, Tick()))

    error = refusal(lambda: behind(gate(Away("reserve")), answering(), CALLER).reply(REQUEST))
    assert (error.fate, error.code) == ("wait", "limits_away")
    assert behind(gate(Away("settle")), answering(), CALLER).reply(REQUEST)


def test_it_streams_what_the_model_streams() -> None:
    bench = Bench(m=Limit(in_flight=1))
    shown: list[Delta] = []
    model = bench.behind(answering("whole"))
    assert isinstance(model, StreamingModel)
    assert model.stream(REQUEST, shown.append).message["content"] == "whole"
    assert shown == [Delta("text", "whole")]
    assert bench.ledger.use("m").requests == 1


def test_only_a_model_that_can_be_awaited_is_awaitable() -> None:
    bench = Bench(m=Limit(rpm=5), s=Limit(rpm=5))

    class Blocking:
        name = "m"

        def reply(self, request: ModelRequest) -> ModelReply:
            raise NotImplementedError

    assert not hasattr(bench.behind(Blocking()), "areply")
    model = bench.behind(ScriptedModel(["yes"], name="s"))
    assert asyncio.run(model.areply(REQUEST)).message["content"] == "yes"
    assert bench.ledger.use("s").requests == 1


# --- several models as one -------------------------------------------------------------------


def test_the_next_model_is_asked_while_the_first_must_wait() -> None:
    bench = Bench(a=Limit(rpm=1))
    both = FallbackModel([answering("first", "a"), answering("second", "b")])
    assert bench.behind(both).reply(REQUEST).message["content"] == "first"
    assert bench.behind(both).reply(REQUEST).message["content"] == "second"
    bench.now += 62_000
    assert bench.behind(both).reply(REQUEST).message["content"] == "first"


def test_if_all_must_wait_the_job_waits_for_the_earliest() -> None:
    bench = Bench(a=Limit(rpm=1), b=Limit(rpm=1))
    both = FallbackModel([answering("first", "a"), answering("second", "b")])
    bench.behind(both).reply(REQUEST)
    bench.now += 20_000
    bench.behind(both).reply(REQUEST)
    error = refusal(lambda: bench.behind(both, "job-2").reply(REQUEST))
    assert error.fate == "wait"
    assert error.retry_after is not None
    assert 39 <= error.retry_after <= 42


def test_a_job_that_another_model_has_answered_waits_nowhere_any_more() -> None:
    both = FallbackModel([answering("first", "a"), answering("second", "b")])
    for bench in (Bench(a=Limit(rpm=1), b=Limit(rpm=9)), Bench(a=Limit(rpm=1))):
        for _ in range(3):
            bench.behind(both).reply(REQUEST)
        assert (bench.ledger.use("a").requests, bench.ledger.use("a").waiting) == (1, 0)


def test_a_failure_beside_a_wait_is_a_failure() -> None:
    bench = Bench(a=Limit(rpm=1))
    down = failing(ModelError("down", "retry", None, 503), "b")
    both = FallbackModel([answering("first", "a"), down])
    bench.behind(both).reply(REQUEST)
    assert refusal(lambda: bench.behind(both).reply(REQUEST)).fate == "retry"


# --- keys ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "api.openai.com/gpt-x"),
        ({"base_url": "https://u:secret@proxy.test:8443/v1?key=x"}, "proxy.test:8443/gpt-x"),
        ({"limit_key": "shared"}, "shared"),
        ({"base_url": "nonsense"}, "unknown/gpt-x"),
    ],
)
def test_the_key_is_host_and_model(options: dict[str, str], key: str) -> None:
    assert OpenAIModel("gpt-x", **options).limit_key == key  # type: ignore[arg-type]


def test_a_model_of_another_name_has_another_key_unless_one_was_given() -> None:
    assert OpenAIModel("a").named("b").limit_key == "api.openai.com/b"
    assert OpenAIModel("a", limit_key="k").named("b").limit_key == "k"


def test_what_cannot_stand_in_a_key_is_replaced() -> None:
    from worker.flow import limit_key

    assert limit_key(answering(name="a {b}\n")) == "a__b__"


# --- which limits hold -----------------------------------------------------------------------


def test_the_store_is_asked_when_there_is_news_and_else_never() -> None:
    asked = 0
    stored = {"m": Limit(rpm=2)}

    def read() -> dict[str, Limit]:
        nonlocal asked
        asked += 1
        return dict(stored)

    tick = Tick()
    book = LimitBook({"m": Limit(rpm=1), "own": Limit(rpm=9)}, read, tick)
    lookout = Lookout(lambda: dict(stored), tick)
    lookout.look()
    for _ in range(100):
        assert book.get("m") == Limit(rpm=2)
        assert book.get("own") == Limit(rpm=9)
    assert asked == 1
    del stored["m"]
    lookout.look()
    assert book.get("m") == Limit(rpm=1)
    lookout.look()
    assert book.get("none") is None
    assert asked == 2


def test_a_limit_set_before_the_first_look_is_news_to_a_child_that_read_earlier() -> None:
    stored: dict[str, Limit] = {}
    tick = Tick()
    book = LimitBook({}, lambda: dict(stored), tick)
    assert book.get("m") is None
    stored["m"] = Limit(rpm=1)
    Lookout(lambda: dict(stored), tick).look()
    assert book.get("m") == Limit(rpm=1)


def test_a_tick_goes_round() -> None:
    tick = Tick()
    seen = set()
    for _ in range(300):
        before = tick.value
        tick.raise_()
        assert tick.value != before
        seen.add(tick.value)
    assert 0 not in seen


def test_limits_known_before_hold_while_the_store_is_away() -> None:
    asked = 0

    def away() -> dict[str, Limit]:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("gone")

    book = LimitBook({"m": Limit(rpm=1)}, away, Tick())
    for _ in range(5):
        assert book.get("m") == Limit(rpm=1)
    assert asked == 1  # no call waits for a server that has just been found away


def test_a_granted_verdict_is_renewed_while_the_call_lasts() -> None:
    bench = Bench(m=Limit(in_flight=1))

    def slow(_: Any) -> str:
        bench.now += 10_000
        bench.gate._holds.renew()
        bench.now += 10_000
        verdict = bench.ledger.reserve("m", Limit(in_flight=1), Ask("other", "j", "", 0))
        assert not isinstance(verdict, Granted)
        return "yes"

    assert bench.behind(FunctionModel(slow, name="m")).reply(REQUEST)
