"""The table of errors and fates. Rows A11, F1, F2, F4, F6."""

from __future__ import annotations

import pickle
from email.utils import formatdate
from typing import Any

import pytest

from worker.models.base import Fate, ModelError
from worker.models.classify import (
    LONGEST_WAIT,
    Failure,
    clean,
    failure_from_body,
    judge,
    retry_after,
)

NOW = 1_700_000_000.0


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529, None])
def test_f6_passing_trouble_is_tried_again(status: int | None) -> None:
    assert judge(Failure("x", status)).fate == "retry"


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 405, 415, 422, 451])
def test_f4_what_a_person_must_change_pauses(status: int) -> None:
    error = judge(Failure("no such model", status))
    assert (error.fate, error.text, error.status) == ("pause", "no such model", status)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("insufficient_quota", None),
        (None, "insufficient_quota"),
        ("billing_hard_limit_reached", None),
        ("account_deactivated", None),
    ],
)
def test_f2_a_spent_quota_pauses_although_its_status_is_429(
    code: str | None, kind: str | None
) -> None:
    error = judge(Failure("you exceeded your quota", 429, code, kind, retry_after=1.0))
    assert (error.fate, error.retry_after) == ("pause", None)


@pytest.mark.parametrize(
    "failure",
    [
        Failure("x", 400, "context_length_exceeded"),
        Failure("x", 400, None, "exceed_context_size_error"),
        Failure("This model's maximum context length is 8192 tokens", 400),
        Failure("prompt is too long: 200001 tokens > 200000 maximum", 400),
        Failure("the request exceeds the available context size", 500),
        Failure("entity too large", 413),
        Failure("Request too large for m on tokens per min (TPM): Limit 1, Requested 2", 429),
    ],
)
def test_too_long_a_history_is_compacted(failure: Failure) -> None:
    assert judge(failure).fate == "compact"


def test_a_rate_limit_that_mentions_tokens_is_still_a_rate_limit() -> None:
    assert judge(Failure("too many tokens this minute, slow down", 429)).fate == "retry"


def test_f1_a_wait_is_handed_on_and_one_beyond_the_ceiling_pauses() -> None:
    assert judge(Failure("busy", 429, retry_after=LONGEST_WAIT)).retry_after == LONGEST_WAIT
    error = judge(Failure("busy", 429, retry_after=LONGEST_WAIT + 1))
    assert (error.fate, error.retry_after) == ("pause", None)
    assert "3601" in error.text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20.0),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"retry-after": "600"}, 600.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7"}, 7.0),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": f"{NOW + 30:.0f}",
            },
            30.0,
        ),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": f"{(NOW + 30) * 1000:.0f}",
            },
            30.0,
        ),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "9s",
            },
            9.0,
        ),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:40Z",
            },
            20.0,
        ),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "6m0s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        (
            {
                "retry-after": "1",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "9s",
            },
            1.0,
        ),
        ({}, None),
    ],
)
def test_f1_every_way_to_ask_for_a_wait_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("body", "fate", "text", "status"),
    [
        ({"error": {"code": 429, "message": "busy"}}, "retry", "busy", 429),
        ({"error": {"code": "503", "message": "down"}}, "retry", "down", 503),
        ({"error": {"code": 401, "message": "who?"}}, "pause", "who?", 401),
        ({"error": {"type": "overloaded_error", "message": "x"}}, "retry", "x", 529),
        ({"error": {"code": "model_not_found", "message": "x"}}, "pause", "x", 404),
        ({"error": {"code": "rate_limit_exceeded", "message": "x"}}, "retry", "x", 429),
        ({"error": "out of memory"}, "retry", "out of memory", None),
        ({"error": {"code": "what", "message": "x"}}, "retry", "x", None),
        ([{"error": {"code": 400, "message": "bad"}}], "pause", "bad", 400),
        ({"error": {"error": {"code": 400, "message": "bad"}}}, "pause", "bad", 400),
    ],
)
def test_a11_an_error_inside_a_good_answer_is_classed_by_its_own_code(
    body: Any, fate: Fate, text: str, status: int | None
) -> None:
    error = judge(failure_from_body(body))
    assert (error.fate, error.text, error.status) == (fate, text, status)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"detail": "not found"}, "not found"),
        ({"detail": [{"loc": ["body"]}]}, "[{'loc': ['body']}]"),
        ({"message": "m"}, "m"),
        ("<html> Bad\n Gateway</html>", "<html> Bad Gateway</html>"),
        ({}, "the provider answered with status 502"),
        ("", "the provider answered with status 502"),
        (None, "the provider answered with status 502"),
    ],
)
def test_the_providers_words_are_found_in_any_body(body: Any, text: str) -> None:
    assert judge(failure_from_body(body, status=502)).text == text


def test_the_http_status_counts_more_than_a_code_in_the_body() -> None:
    failure = failure_from_body({"code": 401, "message": "x"}, status=503)
    assert failure.status == 503


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-abcdef123. See the site.",
        "Incorrect API key provided: sk-proj-****xyz1.",
        "bad header: Authorization: Bearer abc.def-123",
        "bad key my-own-key-42",
    ],
)
def test_f4_no_key_stays_in_a_text(text: str) -> None:
    cleaned = clean(text, ["my-own-key-42", ""])
    assert "[secret]" in cleaned
    for part in ("abcdef", "xyz1", "abc.def", "own-key"):
        assert part not in cleaned


def test_ordinary_words_are_not_taken_for_keys() -> None:
    text = "the task-list of the desk-lamp bearer"
    assert clean(text) == text


def test_a_long_text_is_cut() -> None:
    assert len(clean("x" * 10_000)) == 501


def test_f7_an_error_is_plain_and_crosses_processes() -> None:
    error = ModelError("busy", "retry", 1.5, 429, "rate_limit")
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.args, vars(copied)) == (error.args, vars(error))
    assert str(ModelError(*error.args)) == "busy"
