"""The lesson's shop: a return, a courier, a compensation, and the ways out of the loop."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api_client.contract import Answer, Extend, Finish, JobStatus, Pause, Retry
from tests.support.lessons import german_lines
from worker.agent import Agent
from worker.examples.book import Book
from worker.examples.scripts import (
    COMPENSATION_TASK,
    COURIER_TASK,
    NOT_DELIVERED,
    RETURN_TASK,
    THANKS,
    shop_reply,
)
from worker.examples.shop import shop
from worker.inline import InlineRun, run_inline
from worker.models import ScriptedModel, act, say

OPENED = (
    "Ich habe die Anfrage R-1 zur Rückgabe von Bestellung 1187 geöffnet. "
    "Ein Kollege gibt sie frei und schreibt dir."
)


@pytest.fixture
def requests(tmp_path: Path) -> Book:
    return Book(f"sqlite:///{tmp_path}/shop.sqlite3")


@pytest.fixture
def agent(requests: Book) -> Agent:
    """The shop with a list of requests of its own."""
    return replace(shop, context=requests)


def serve(agent: Agent, task: str, **options: Any) -> InlineRun:
    return run_inline(agent, task, model=shop_reply, **options)


def test_the_model_is_told_what_the_lesson_tells_it() -> None:
    assert shop.goal == (
        "Du bist der Support-Agent eines Online-Shops. "
        "Nutze die Tools; über Geld entscheidet ein Mensch."
    )
    described = {s["function"]["name"]: s["function"]["description"] for s in shop.schemas}
    assert described == {
        "get_order_status": "Status und Datum einer Bestellung nach ihrer Nummer.",
        "estimate_delivery": "Das Lieferdatum, das der Kurier erwartet.",
        "open_return_request": "Öffnet eine Rückgabeanfrage. Ein Kollege gibt sie frei.",
        "hand_to_human": "Übergibt das Gespräch an einen Kollegen, mit dem Grund.",
    }
    fields = [list(s["function"]["parameters"]["properties"]) for s in shop.schemas]
    assert fields == [["order_id"]] * 3 + [["reason"]]


def test_a_return_opens_a_request_and_no_more(agent: Agent, requests: Book) -> None:
    run = serve(agent, RETURN_TASK)

    assert german_lines(run) == [
        "Aufgabe: Die Kopfhörer aus Bestellung 1187 sind kaputt. Ich möchte sie zurückgeben.",
        "  Schritt 1. Plan: Zuerst prüfe ich, ob die Bestellung zugestellt wurde.",
        "    Aktion: get_order_status(1187)",
        "    Beobachtung: 1187 — zugestellt, Lieferung 26. Oktober",
        "  Schritt 2. Plan: Sie ist zugestellt. Ich öffne eine Rückgabeanfrage.",
        "    Aktion: open_return_request(1187)",
        "    Beobachtung: R-1 für 1187 — wartet auf die Freigabe durch einen Kollegen",
        f"  Schritt 3. Ende: {OPENED}",
    ]
    assert requests.entries() == ["für 1187"]
    assert run.view.status is JobStatus.SUCCEEDED


def test_the_second_return_has_the_second_number(agent: Agent, requests: Book) -> None:
    answers = [serve(agent, RETURN_TASK).answer for _ in range(2)]

    assert ["R-1" in answers[0], "R-2" in answers[1]] == [True, True]
    assert requests.entries() == ["für 1187", "für 1187"]


def test_a_return_of_what_is_not_delivered_yet(agent: Agent, requests: Book) -> None:
    """The lesson's last exercise."""
    run = serve(agent, "Ich möchte Bestellung 1042 zurückgeben.")

    assert german_lines(run)[1:] == [
        "  Schritt 1. Plan: Zuerst prüfe ich, ob die Bestellung zugestellt wurde.",
        "    Aktion: get_order_status(1042)",
        "    Beobachtung: 1042 — unterwegs, Lieferung 3. November",
        f"  Schritt 2. Ende: {NOT_DELIVERED}",
    ]
    assert requests.entries() == []


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("1042", "1042 ist noch nicht zugestellt"),
        ("9999", "keine Bestellung 9999"),
    ],
)
def test_a_request_that_cannot_be_opened(
    agent: Agent, requests: Book, order: str, told: str
) -> None:
    model = ScriptedModel([act("", ("open_return_request", {"order_id": order})), say("Nein.")])
    run = run_inline(agent, "Zurück damit.", model=model)

    assert run.observations == [
        f"Fehler: {told}\nEin weiterer Aufruf hilft nicht; wähle einen anderen Weg."
    ]
    assert requests.entries() == []


def test_the_same_action_twice_goes_to_a_colleague(agent: Agent) -> None:
    """The lesson's exercise."""
    run = serve(agent, COURIER_TASK)

    assert german_lines(run) == [
        "Aufgabe: Wann kommt 1042 an? Der Kurier hat gesagt, heute.",
        "  Schritt 1. Plan: Ich frage den Kurier nach dem Termin.",
        "    Aktion: estimate_delivery(1042)",
        "    Beobachtung: 1042 — erwartete Lieferung 3. November, kein neuer Scan",
        "  Schritt 2. Plan: Keine Änderung. Ich frage noch einmal.",
        "    Aktion: estimate_delivery(1042)",
        "  Stopp: dieselbe Aktion zweimal → an einen Kollegen",
    ]
    assert run.view.status is JobStatus.PAUSED


def test_without_that_check_five_steps_are_the_end(agent: Agent) -> None:
    run = serve(replace(agent, max_repeats=None), COURIER_TASK)

    again = [
        "    Aktion: estimate_delivery(1042)",
        "    Beobachtung: 1042 — erwartete Lieferung 3. November, kein neuer Scan",
    ]
    lines = german_lines(run)
    assert lines[1:4] == ["  Schritt 1. Plan: Ich frage den Kurier nach dem Termin.", *again]
    for step in range(2, 6):
        plan = f"  Schritt {step}. Plan: Keine Änderung. Ich frage noch einmal."
        assert lines[3 * step - 2 : 3 * step + 1] == [plan, *again]
    assert lines[16:] == ["  Stopp: 5 Schritte ohne Antwort → an einen Kollegen"]
    assert run.pause is not None
    assert run.pause.details == {"budget": "steps", "spent": 5, "limit": 5}


def test_a_colleague_gives_two_steps_more(agent: Agent) -> None:
    pauses: list[Pause] = []

    def extend_once(pause: Pause) -> Extend | None:
        pauses.append(pause)
        return Extend(amount=2, by="Ada") if len(pauses) == 1 else None

    run = serve(replace(agent, max_repeats=None), COURIER_TASK, answers=extend_once)

    assert [pause.details["spent"] for pause in pauses] == [5, 7]
    assert run.view.steps == 7


def test_a_colleague_lets_the_courier_be_asked_once_more(agent: Agent) -> None:
    decisions = iter([Retry(by="Ada"), Finish(answer="Am 3. November.", by="Ada")])

    run = serve(agent, COURIER_TASK, answers=lambda _: next(decisions))

    assert run.answer == "Am 3. November."
    assert len([o for o in run.observations if "kein neuer Scan" in o]) == 2
    assert run.observations[-1].startswith("(nicht ausgeführt")


def test_a_compensation_waits_for_a_person(agent: Agent) -> None:
    run = serve(agent, COMPENSATION_TASK)

    assert german_lines(run) == [
        "Aufgabe: Ich möchte 20 € Entschädigung, weil 1042 zu spät kommt.",
        "  Schritt 1. Plan: Ich prüfe die Bestellung.",
        "    Aktion: get_order_status(1042)",
        "    Beobachtung: 1042 — unterwegs, Lieferung 3. November",
        "  Schritt 2. Plan: Über eine Entschädigung entscheidet ein Mensch, nicht ich.",
        "    Aktion: hand_to_human(Entschädigung für 1042)",
        "  Stopp: ein Mensch wird gebraucht — Entschädigung für 1042",
    ]
    assert run.outcome is None
    assert run.pause is not None
    assert run.pause.accepts[:2] == ("answer", "finish")


def test_a_compensation_goes_on_with_the_answer(agent: Agent) -> None:
    decision = Answer(value="Ein Gutschein über 15 €.", by="Ada")

    run = serve(agent, COMPENSATION_TASK, answers=lambda _: decision)

    assert run.observations[-1] == "Antwort eines Menschen: Ein Gutschein über 15 €."
    assert run.answer == (
        "Ein Kollege hat über die Entschädigung für 1042 entschieden: Ein Gutschein über 15 €."
    )
    assert run.view.steps == 3
    signals = [event.data for event in run.events if event.kind == "signal"]
    assert [(data["by"], data["kind"]) for data in signals] == [("Ada", "answer")]


def test_thanks_need_no_tool(agent: Agent) -> None:
    run = serve(agent, "Vielen Dank!")
    assert (run.answer, run.view.steps, run.observations) == (THANKS, 1, [])


def words(message: dict[str, Any]) -> int:
    """What the exercise counts of a message: its words, those of its calls included."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    texts = [message["content"], *(f"{c['name']} {c['arguments']}" for c in calls)]
    return sum(len(text.split()) for text in texts)


def test_a_budget_of_300_tokens(agent: Agent) -> None:
    """The exercise: words times 1.3, the whole history at each step; which step is too much?"""
    run = serve(replace(agent, max_repeats=None, max_tokens=300), COURIER_TASK)

    spent, steps, history = 0, 0, 0
    for message in run.messages:
        if message["role"] == "assistant":
            spent += math.ceil(history * 1.3) + math.ceil(words(message) * 1.3)
            steps += 1
        history += words(message)
    assert spent <= 300 < spent + math.ceil(history * 1.3)
    assert (run.view.steps, steps) == (3, 3)
    assert run.view.usage.estimated
    counted = run.view.usage.total_tokens
    assert spent <= counted <= spent + steps  # each count is rounded up by itself
    assert run.pause is not None
    assert run.pause.details == {"budget": "tokens", "spent": counted, "limit": 300}


def test_a_spent_budget_can_end_the_job_instead(agent: Agent) -> None:
    stopping = replace(agent, max_repeats=None, max_tokens=300, on_limit="stop")
    run = serve(stopping, COURIER_TASK)

    assert run.outcome is not None
    assert (run.outcome.ok, run.outcome.reason) == (False, "max_tokens")


def test_the_first_request_holds_the_task_and_the_four_tools(agent: Agent) -> None:
    asked: list[tuple[str, Any]] = []

    def model(messages: Any, tools: Any) -> str:
        asked.append((json.dumps(messages, ensure_ascii=False), tools))
        return THANKS

    run_inline(agent, RETURN_TASK, model=model)

    messages, tools = json.loads(asked[0][0]), asked[0][1]
    assert messages == [
        {"role": "system", "content": shop.goal},
        {"role": "user", "content": RETURN_TASK},
    ]
    assert list(tools) == list(shop.schemas)
