"""What each decision makes of a job: parallel calls, typed answers, taking over. Real slices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from api_client.contract import JobStatus, Pause, PauseKind
from api_client.deciding import parse_signal
from api_client.errors import JobCancelled, JobFailed, SignalRefused
from worker.agent import Agent
from worker.errors import PauseRequested
from worker.models.scripted import act
from worker.testing import InlineClient
from worker.tools import hand_to_human, tool


class Verdict(BaseModel):
    """A person's typed answer."""

    ok: bool
    euro: int = 0


@tool(approval=True)
def refund(euro: int) -> str:
    """Pay back."""
    return f"{euro} € paid"


@tool(approval=lambda given: given["to"] != "me")
def mail(to: str) -> str:
    """Write to somebody."""
    return f"sent to {to}"


@tool
def consult() -> str:
    """Ask a person."""
    raise PauseRequested("what about it?")


TOOLS = (refund, mail, consult, hand_to_human)
ASK = ("hand_to_human", {"reason": "May I?"}, "c1")
REFUND = ("refund", {"euro": 50}, "c1")


class Case:
    """One job and its pauses."""

    def __init__(self, *script: Any, **options: Any) -> None:
        agent = Agent(name="shop", goal="Sell.", tools=TOOLS, **options)
        self.client = InlineClient([agent], model=list(script))
        self.id = self.client.submit("shop", "x")

    @property
    def pause(self) -> Pause:
        pause = self.client.get(self.id).pause
        assert pause is not None, self.client.get(self.id)
        return pause

    def decide(self, kind: str, **fields: Any) -> None:
        self.client.signal(self.id, {"kind": kind, "by": "anna", **fields})

    def decide_unchecked(self, kind: str, **fields: Any) -> None:
        """As a client does that checks nothing."""
        signal = parse_signal({"kind": kind, **fields})
        self.client.worker.store.signal(self.id, self.pause.id, signal, f"{kind}{self.pause.id}")
        self.client.worker.run(self.id)

    def observed(self, call_id: str) -> str:
        (found,) = [
            m["content"] for m in self.client.messages(self.id) if m.get("tool_call_id") == call_id
        ]
        return str(found)

    def roles(self) -> list[str]:
        return [message["role"] for message in self.client.messages(self.id)]

    def result(self) -> Any:
        return self.client.result(self.id, 1)


# --- several calls of one reply --------------------------------------------------------------

THREE = act(
    "", ("refund", {"euro": 1}, "c1"), ("mail", {"to": "you"}, "c2"), ("refund", {"euro": 3}, "c3")
)


def test_all_calls_of_a_reply_that_need_approval_are_one_pause() -> None:
    case = Case(THREE, "done")
    assert [action.call_id for action in case.pause.actions] == ["c1", "c2", "c3"]
    assert case.pause.action == case.pause.actions[0]
    assert case.pause.question == "May the agent run these 3 calls: refund, mail, refund?"
    case.decide("approve")
    assert case.result() == "done"
    assert [case.observed(c) for c in ("c1", "c2", "c3")] == [
        "1 € paid",
        "sent to you",
        "3 € paid",
    ]


def test_a_rejection_is_of_all_of_them() -> None:
    case = Case(THREE, "done")
    case.decide("reject", reason="too much")
    assert case.result() == "done"
    assert all("too much" in case.observed(c) for c in ("c1", "c2", "c3"))


def test_each_call_may_have_a_decision_of_its_own() -> None:
    case = Case(THREE, "done")
    calls = {
        "c1": {"approve": True},
        "c2": {"approve": False, "reason": "nobody reads it"},
        "c3": {"approve": True, "arguments": {"euro": 2}},
    }
    case.decide("decide", calls=calls)
    assert case.result() == "done"
    assert case.observed("c1") == "1 € paid"
    assert "nobody reads it" in case.observed("c2")
    assert case.observed("c3").endswith("2 € paid")
    assert 'changed the arguments to {"euro": 2}' in case.observed("c3")


def test_a_partial_decision_leaves_the_others_to_be_asked_for() -> None:
    case = Case(THREE, "done")
    case.decide("decide", calls={"c2": {"approve": False, "reason": "no"}})
    assert (case.pause.id, [a.call_id for a in case.pause.actions]) == ("p2", ["c1", "c3"])
    case.decide("decide", calls={"c3": {"approve": True}})
    assert case.pause.action is not None
    assert (case.pause.id, case.pause.action.call_id, case.pause.actions) == ("p3", "c1", ())
    assert case.observed("c3") == "3 € paid"
    case.decide("approve")
    assert case.result() == "done"


@pytest.mark.parametrize(
    "calls",
    [{"c9": {"approve": True}}, {"c1": {"approve": True, "arguments": {"euro": "much"}}}],
    ids=["unknown call", "wrong arguments"],
)
def test_a_decision_that_does_not_fit_is_refused_at_once_and_by_the_worker(calls: Any) -> None:
    case = Case(THREE, "done")
    with pytest.raises(SignalRefused):
        case.decide("decide", calls=calls)
    assert case.pause.id == "p1"
    case.decide_unchecked("decide", calls=calls)
    assert (case.pause.id, len(case.pause.actions)) == ("p2", 3)
    assert "do not fit" in case.pause.question
    assert case.roles()[-1] == "assistant", "nothing was run or refused"
    case.decide("approve")
    assert case.result() == "done"


def test_a_question_beside_approvals_is_asked_by_itself() -> None:
    case = Case(act("", ("hand_to_human", {"reason": "?"}, "h"), ("refund", {"euro": 1}, "r")), "!")
    kinds = [str(case.pause.kind)]
    case.decide("answer", value="yes")
    kinds.append(str(case.pause.kind))
    assert kinds == ["hand_to_human", "approval"]
    assert case.pause.actions == ()


# --- answers of a type -----------------------------------------------------------------------


def test_the_answer_to_a_question_has_the_type_that_the_agent_asks_for() -> None:
    case = Case(act("", ASK), "done", human_answer=Verdict)
    schema = case.pause.answer_schema["answer"]
    assert schema["properties"]["value"]["properties"].keys() == {"ok", "euro"}
    with pytest.raises(SignalRefused, match="ok"):
        case.decide("answer", value={"euro": 5})
    case.decide("answer", value={"ok": True})
    assert json.loads(case.observed("c1").split(": ", 1)[1]) == {"ok": True, "euro": 0}


def test_an_answer_of_another_type_is_asked_for_again_by_the_worker() -> None:
    case = Case(act("", ASK), "done", human_answer=Verdict)
    for number, value in enumerate(["yes", {"ok": "perhaps"}, 7], start=2):
        case.decide_unchecked("answer", value=value)
        assert case.pause.id == f"p{number}"
        assert case.pause.question.endswith("\nMay I?")
        assert case.pause.question.count("do not fit") == 1
    case.decide("answer", value={"ok": False, "euro": 3})
    assert case.result() == "done"


def test_a_tools_own_question_takes_any_answer() -> None:
    case = Case(act("", ("consult", {}, "c1")), "done", human_answer=Verdict)
    case.decide("answer", value="as you like")
    assert case.result() == "done"


@pytest.mark.parametrize(
    ("output", "good", "stored", "bad"),
    [
        (Verdict, {"ok": True}, {"ok": True, "euro": 0}, {"ok": "perhaps"}),
        (int, 42, 42, "many"),
        (list[int], [1], [1], [1, "x"]),
    ],
)
def test_a_person_finishes_with_an_answer_of_the_agents_type(
    output: Any, good: Any, stored: Any, bad: Any
) -> None:
    case = Case(act("", ASK), "never", output=output)
    with pytest.raises(SignalRefused, match="answer"):
        case.decide("finish", answer=bad)
    case.decide_unchecked("finish", answer=bad)
    assert case.pause.id == "p2"
    case.decide("finish", answer=good)
    assert case.result() == stored


def test_an_agent_of_plain_text_may_be_finished_with_anything() -> None:
    case = Case(act("", ASK), "never")
    case.decide("finish", answer={"a": [1]})
    assert case.result() == {"a": [1]}


# --- approving with other arguments ------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"euro": "much"}, {"euro": 1, "x": 1}], ids=str)
def test_arguments_that_do_not_fit_leave_the_job_paused(arguments: dict[str, Any]) -> None:
    """E5."""
    case = Case(act("", REFUND), "done")
    with pytest.raises(SignalRefused):
        case.decide("approve", arguments=arguments)
    case.decide_unchecked("approve", arguments=arguments)
    assert case.pause.id == "p2"
    assert case.pause.action is not None
    assert case.pause.action.arguments == {"euro": 50}
    case.decide("approve", arguments={"euro": 5})
    assert case.result() == "done"
    assert case.observed("c1").endswith("5 € paid")


# --- taking over -------------------------------------------------------------------------------


def test_a_person_may_answer_in_a_tools_place() -> None:
    case = Case(THREE, "done")
    case.decide("edit", answers={"c1": "paid by hand", "c3": {"paid": 3}}, message="Be brief.")
    assert [a.call_id for a in case.pause.actions or [case.pause.action] if a] == ["c2"]
    case.decide("approve")
    assert case.result() == "done"
    assert case.observed("c1") == "paid by hand"
    assert json.loads(case.observed("c3")) == {"paid": 3}
    last_user = [m for m in case.client.messages(case.id) if m["role"] == "user"][-1]
    assert last_user["content"] == "Be brief."
    assert case.roles()[-2:] == ["user", "assistant"], (
        "read before the next reply, behind all calls"
    )


def test_a_question_answered_by_taking_over_reads_like_an_answer() -> None:
    case = Case(act("", ASK), "done")
    case.decide("edit", answers={"c1": "no"})
    assert case.observed("c1") == "Answer of a person: no"
    assert case.result() == "done"


def test_taking_over_without_an_answer_asks_again_and_keeps_the_message() -> None:
    case = Case(act("", ASK), "done")
    case.decide("edit", message="Ask less.")
    assert case.pause.id == "p2"
    case.decide("answer", value="yes")
    assert case.result() == "done"
    assert case.client.messages(case.id)[-2]["content"] == "Ask less."


def test_only_open_calls_may_be_answered() -> None:
    case = Case(act("", ASK), "done")
    with pytest.raises(SignalRefused, match="c9"):
        case.decide("edit", answers={"c9": "x"})
    case.decide_unchecked("edit", answers={"c9": "x"})
    assert "'c9' is no open call; there are: c1" in case.pause.question


# --- ends ----------------------------------------------------------------------------------------


def test_a_person_may_fail_a_job() -> None:
    case = Case(act("", ASK), "never")
    case.decide("fail", reason="the customer is gone")
    with pytest.raises(JobFailed, match="the customer is gone") as caught:
        case.result()
    assert caught.value.reason == "failed_by_person"


def test_a_person_may_cancel_a_pause_they_looked_at() -> None:
    case = Case(act("", ASK), "never")
    case.decide("cancel", note="sent twice")
    with pytest.raises(JobCancelled, match="cancelled by anna: sent twice"):
        case.result()
    assert case.client.get(case.id).status is JobStatus.CANCELLED


def test_who_when_and_why_stays_in_the_trace() -> None:
    case = Case(act("", REFUND), "done")
    case.decide("approve", note="a good customer")
    (event,) = [e for e in case.client.trace(case.id) if e.kind == "signal"]
    assert (event.data["by"], event.data["note"]) == ("anna", "a good customer")
    assert event.at > 0


def test_approvals_that_cannot_be_decided_by_their_rule_are_asked_for() -> None:
    """A rule that fails counts as yes."""
    broken = tool(approval=lambda given: given["nothing"])
    agent = Agent(name="shop", goal="Sell.", tools=[broken(_careless)])
    client = InlineClient([agent], model=[act("", ("_careless", {"x": 1})), "done"])
    view = client.get(client.submit("shop", "x"))
    assert view.pause is not None
    assert view.pause.kind is PauseKind.APPROVAL


def _careless(x: int) -> str:
    """Do something."""
    return str(x)
