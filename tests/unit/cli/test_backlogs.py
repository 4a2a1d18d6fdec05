"""``backlogs``, and what it does to the store."""

from __future__ import annotations

from typing import Any

import pytest

from api_client.contract import AgentInfo
from api_client.errors import BacklogFull, InvalidInput
from tests.unit.cli.conftest import Desk
from worker.cli import backlogs
from worker.cli.submitting import submit
from worker.store.memory import MemoryStore


def test_a_cap_is_set_shown_and_forgotten(desk: Desk) -> None:
    said = desk.run(backlogs.set_cap, 1500, agent="shop")
    assert said.out == "agent shop: at most 1,500 jobs that wait\n"
    assert desk.run(backlogs.set_cap, 0, queue="celery").out == "queue celery: no limit\n"
    desk.run(backlogs.set_cap, 9, agent="*")
    desk.job("a")
    rows = [line.split() for line in desk.run(backlogs.list_backlogs).out.splitlines()]
    assert rows[0] == ["name", "waiting", "at", "most", "set", "by"]
    assert rows[-3:] == [
        ["agent", "shop", "1", "1,500", "command"],
        ["agent", "*", "9", "command"],
        ["queue", "celery", "1", "command"],
    ]
    [found, *_] = desk.run(backlogs.list_backlogs, json=True).value["backlogs"]
    assert found == {
        "kind": "agent",
        "name": "shop",
        "present": 1,
        "cap": 1500,
        "set_by": "command",
    }
    said = desk.run(backlogs.unset_cap, agent="shop")
    assert said.out == "agent shop: its cap is forgotten\n"
    said = desk.run(backlogs.unset_cap, agent="shop")
    assert said.out == "agent shop: it has no cap of its own\n"


def test_a_full_backlog_refuses_a_submission_and_says_what_to_do(desk: Desk) -> None:
    desk.run(backlogs.set_cap, 1, agent="shop")
    desk.run(submit, "shop", "first")
    with pytest.raises(BacklogFull, match=r"stepkeeper backlogs set --agent 'shop' N"):
        desk.run(submit, "shop", "second")


def test_nothing_is_listed_where_nothing_is_known(desk: Desk) -> None:
    desk.store = MemoryStore()
    assert desk.run(backlogs.list_backlogs).out == "no worker has announced an agent\n"
    desk.store.announce([AgentInfo(name="docs")])
    assert "docs" in desk.run(backlogs.list_backlogs).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "name one of them"),
        ({"agent": "a", "queue": "q"}, "name one of them"),
        ({"agent": "a b"}, "agent 'a b'"),
        ({"cap": -1, "queue": "q"}, "backlog of queue 'q': -1"),
    ],
)
def test_what_makes_no_sense_is_refused(desk: Desk, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        desk.run(backlogs.set_cap, **{"cap": 1, **arguments})
