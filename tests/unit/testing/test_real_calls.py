"""No test calls a real model by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from worker.agent import Agent
from worker.inline import run_inline
from worker.models import (
    AnthropicModel,
    FallbackModel,
    FunctionModel,
    ModelError,
    ModelRequest,
    OpenAIModel,
    OpenAIResponsesModel,
)
from worker.models.http import HttpModel
from worker.models.http_settings import refuse_elsewhere
from worker.real_calls import forbid_real_calls, real_calls, real_calls_forbidden

REQUEST = ModelRequest([{"role": "user", "content": "hi"}])
ASK: dict[str, Callable[[HttpModel], Any]] = {
    "reply": lambda model: model.reply(REQUEST),
    "areply": lambda model: asyncio.run(model.areply(REQUEST)),
    "stream": lambda model: model.stream(REQUEST, lambda _: None),
}


@pytest.fixture(autouse=True)
def _forbidden() -> Any:
    with real_calls(forbidden=True):
        yield


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
@pytest.mark.parametrize("kind", [OpenAIModel, OpenAIResponsesModel, AnthropicModel])
def test_a_call_elsewhere_is_refused_in_words(kind: Any, ask: Callable[[Any], Any]) -> None:
    model = kind("m", api_key="sk-test")
    with pytest.raises(ModelError) as caught:
        ask(model)
    model.close()
    assert (caught.value.fate, caught.value.code) == ("fail", "real_call_forbidden")
    assert "@pytest.mark.real_model" in caught.value.text
    assert "a test called the model at api." in caught.value.text


def test_the_address_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_BASE_URL", "https://models.example.com/v1")
    model = OpenAIModel("m", api_key="sk-test")
    with pytest.raises(ModelError, match=r"the model at models\.example\.com"):
        model.reply(REQUEST)
    model.close()


def test_a_job_ends_with_these_words_whatever_stands_behind() -> None:
    real = OpenAIModel("m", api_key="sk-test")
    model = FallbackModel([real, FunctionModel(lambda _: "hi")])
    run = run_inline(Agent(name="a", goal="g", model=model), "hi")
    real.close()
    assert run.outcome is not None
    assert run.outcome.reason == "real_call_forbidden"


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:1/v1",
        "http://models.localhost/v1",
        "http://127.0.0.1:8000/v1",
        "http://127.8.9.1/v1",
        "http://[::1]:8000/v1",
    ],
)
def test_this_machine_may_be_called(url: str) -> None:
    refuse_elsewhere(url)


@pytest.mark.parametrize(
    "url", ["http://localhost.example.com", "http://10.0.0.1", "http://0.0.0.0", "http://[::2]"]
)
def test_no_other_may(url: str) -> None:
    with pytest.raises(ModelError):
        refuse_elsewhere(url)


def test_the_switch_goes_back_to_where_it_was() -> None:
    with real_calls(forbidden=False):
        assert not real_calls_forbidden()
        assert forbid_real_calls() is False
    assert real_calls_forbidden()
