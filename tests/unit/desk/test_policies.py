"""Who may answer, and what happens when nobody does: from the settings to the timetable."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import Answer, Extend, Fail, PauseKind, Reject
from worker.agent import Agent
from worker.errors import AgentDefinitionError
from worker.models.scripted import act
from worker.pauses import Escalate, PausePolicy, merged, timetable
from worker.testing import InlineClient
from worker.tools import hand_to_human, tool


def steps(policy: PausePolicy, accepts: tuple[str, ...] = ("answer", "fail")) -> list[Any]:
    """The timetable, as tuples."""
    return [
        (entry.do, entry.after_s, entry.labels or (entry.signal or {}).get("kind", ""))
        for entry in timetable(policy, accepts)
    ]


def test_without_a_deadline_there_are_only_reminders() -> None:
    assert steps(PausePolicy()) == []
    assert steps(PausePolicy(remind_after_s=(60, 5))) == [("remind", 5, ""), ("remind", 60, "")]


def test_at_the_deadline_the_default_answer_is_given() -> None:
    policy = PausePolicy(deadline_s=90, on_deadline=Answer(value="no"), remind_after_s=(60, 120))
    assert steps(policy) == [("remind", 60, ""), ("decide", 90, "answer")]
    (entry,) = timetable(PausePolicy(deadline_s=1, on_deadline=Answer(value="no")), ("answer",))
    assert entry.signal == {"kind": "answer", "value": "no", "by": "deadline"}


def test_without_a_decision_that_the_pause_takes_the_job_fails() -> None:
    for choice in (None, Extend(amount=1), (Extend(amount=1), Reject(reason="late"))):
        policy = PausePolicy(deadline_s=1, on_deadline=choice)
        assert steps(policy) == [("decide", 1, "fail")]


def test_the_first_decision_that_the_pause_takes_is_chosen() -> None:
    policy = PausePolicy(deadline_s=1, on_deadline=(Extend(amount=1), Answer(value=0)))
    assert steps(policy) == [("decide", 1, "answer")]
    assert steps(policy, ("extend", "fail")) == [("decide", 1, "extend")]


def test_escalations_come_one_after_the_other_each_with_its_own_time() -> None:
    last = Escalate(("board",), within_s=7, then=Answer(value="no"))
    chain = Escalate(("leads",), within_s=50, times=2, then=last)
    policy = PausePolicy(deadline_s=100, on_deadline=chain, remind_after_s=(10,))
    assert steps(policy) == [
        ("remind", 10, ""),
        ("escalate", 100, ("leads",)),
        ("remind", 10, ""),
        ("escalate", 50, ("leads",)),
        ("remind", 10, ""),
        ("escalate", 50, ("board",)),
        ("decide", 7, "answer"),
    ]


def test_an_escalation_without_a_time_gets_as_long_as_those_before() -> None:
    policy = PausePolicy(deadline_s=100, on_deadline=Escalate(("leads",)))
    assert steps(policy) == [("escalate", 100, ("leads",)), ("decide", 100, "fail")]


def test_labels_add_up_and_the_most_special_deadline_counts() -> None:
    special = PausePolicy(labels=("a",), deadline_s=1)
    general = PausePolicy(
        labels=("b", "a"), deadline_s=9, on_deadline=Answer(value=0), remind_after_s=(1,)
    )
    assert merged([special, None, general]) == PausePolicy(("a", "b"), 1, None, (1,))
    assert merged([]) == PausePolicy()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pause_deadline_s": 0}, "deadline_s=0"),
        ({"pause_deadline_s": float("inf")}, "finite"),
        ({"remind_after_s": (-1,)}, "remind_after_s=-1"),
        ({"labels": "sales"}, "tuple of texts"),
        ({"on_deadline": Fail(reason="x")}, "no deadline"),
        ({"pause_deadline_s": 1, "on_deadline": "reject"}, "give a signal, or Escalate"),
        ({"pause_policies": {"lunch": PausePolicy()}}, "lunch"),
        ({"human_answer": object()}, "no JSON schema"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused_at_the_definition(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(AgentDefinitionError, match=said) as caught:
        Agent(name="shop", goal="Sell.", **fields)
    assert "agent 'shop'" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"labels": ()}, "nobody"),
        ({"labels": "leads"}, "tuple of texts"),
        ({"labels": ("a",), "times": 0}, "times=0"),
        ({"labels": ("a",), "within_s": -1}, "within_s=-1"),
        ({"labels": ("a",), "then": 7}, "give a signal"),
    ],
)
def test_an_escalation_that_cannot_be_kept_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentDefinitionError, match=said):
        Escalate(**fields)


@tool(approval=True, labels=("finance",), pause_policy=PausePolicy(deadline_s=5))
def refund(euro: int) -> str:
    """Pay back."""
    return f"{euro} € paid"


def test_tool_kind_agent_and_job_say_together_who_may_answer() -> None:
    agent = Agent(
        name="shop",
        goal="Sell.",
        tools=[refund, hand_to_human],
        labels=("shop",),
        pause_deadline_s=100,
        pause_policies={PauseKind.HAND_TO_HUMAN: PausePolicy(("desk",), 20)},
    )
    script = [act("", ("refund", {"euro": 5}, "c1")), act("", ("hand_to_human", {"reason": "?"}))]
    client = InlineClient([agent], model=script)
    job_id = client.submit("shop", "x", labels=("north",))
    pause = client.get(job_id).pause
    assert pause is not None
    assert set(pause.labels) == {"north", "finance", "shop"}
    assert [entry.after_s for entry in pause.timetable] == [5]
    client.signal(job_id, {"kind": "reject", "reason": "no"}, labels=["finance"])
    pause = client.get(job_id).pause
    assert pause is not None
    assert set(pause.labels) == {"north", "desk", "shop"}
    assert [entry.after_s for entry in pause.timetable] == [20]
    assert pause.deadline == pause.created + 20_000
