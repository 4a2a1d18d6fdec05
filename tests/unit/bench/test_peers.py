"""The peers' benchmark: what can be said of it without the peers.

Its scripts need packages that only ``make peers`` installs, so here they are compiled and not run.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.peers import load, servers
from tests.peers.contenders import CONTENDERS, Contender
from tests.peers.rounds import measure_in_turns
from tests.peers.script import Asked, Figures, NotDone, Peer, check, measure
from tests.peers.servers import PeerMissing, ServerFailed
from tests.peers.table import compared, rows, table
from tests.support.workers import ROOT
from worker.bench.load import OBSERVATION, observation_message, reply_message

FOLDER = ROOT / "tests" / "peers"
SCRIPTS = {"langgraph_postgres", "langgraph_redis", "dbos_postgres", "restate", "temporal"}
ALONE = SCRIPTS | {"__init__", "langgraph_agent", "load", "script", "stored"}
"""What runs in the venv of the peers, where Stepkeeper is not."""

ASKED = Asked("server", Path("folder"), one=(10, 20), jobs=4, steps=5)
FIGURES = Figures({10: 100.0, 20: 50.0}, {10: 14_000}, 200.0, "fsync on", {"peer": "1.0"})


def test_peers_have_our_messages_to_the_letter() -> None:
    for number in (1, 77):
        call = load.calling(number)
        assert call == reply_message(number)
        observed = load.observed(call["tool_calls"][0], load.OBSERVATION)
        assert observed == observation_message(number)
        assert load.page_of(call["tool_calls"][0]) == number
    assert load.OBSERVATION == OBSERVATION


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_model_of_peers_takes_the_steps_and_ends(steps: int) -> None:
    messages = [load.question(steps)]
    while messages[-1]["role"] != "assistant" or "tool_calls" in messages[-1]:
        said = load.reply(messages, steps)
        answers = [load.observed(call, load.OBSERVATION) for call in said.get("tool_calls", ())]
        messages += [said, *answers]
    assert len(messages) == load.message_count(steps)
    written = [json.dumps(message, separators=(",", ":")) for message in messages[1:-1]]
    assert load.messages_bytes(steps) == sum(map(len, written))


@pytest.mark.parametrize("name", sorted(ALONE))
def test_what_runs_beside_the_peers_imports_nothing_of_ours(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    compile(tree, name, "exec")
    imported = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    ours = {one for one in imported if one.partition(".")[0] in ("worker", "api_client", "tests")}
    assert ours <= {f"tests.peers.{alone}" for alone in ALONE}


def test_what_the_scripts_import_is_pinned() -> None:
    lines = (FOLDER / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins == sorted(pins, key=lambda pin: re.split(r"[\[=]", pin)[0])
    assert all(re.fullmatch(r"[a-z-]+(\[[a-z,]+\])?==[\d.]+", pin) for pin in pins)
    pinned = {re.split(r"[\[=]", pin)[0].replace("-", "_") for pin in pins}
    imported = {
        str(node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for name in ALONE
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    packages = {"restate": "restate_sdk"}
    foreign = imported - sys.stdlib_module_names - {"tests"}
    assert {packages.get(name, name) for name in foreign} <= pinned


def test_each_script_is_measured() -> None:
    measured = {str(word) for one in CONTENDERS for word in getattr(one.measure, "args", ())}
    assert measured >= SCRIPTS
    assert {one.ours for one in CONTENDERS} == {True, False}


def test_a_script_is_asked_by_words() -> None:
    asked = replace(ASKED, at_once=3, processes=2, variant="delta")
    assert Asked.read(asked.words()) == asked


def test_figures_come_back_from_their_line() -> None:
    assert Figures.read(FIGURES.line()) == FIGURES


class Counting(Peer):
    """Runs jobs that take no time, or do not take their steps."""

    def __init__(self, missing: int = 0) -> None:
        self._missing = missing
        self.ran: list[int] = []

    def one(self, steps: int) -> int:
        self.ran.append(steps)
        return load.message_count(steps) - self._missing

    def many(self, jobs: int, steps: int) -> float:
        return jobs * steps / 200

    def stored(self) -> int | None:
        return 1000 * sum(self.ran)

    def durability(self) -> str:
        return "none"

    def versions(self) -> dict[str, str]:
        return {}


def test_a_peer_is_measured_by_its_steps() -> None:
    peer = Counting()
    figures = measure(peer, ASKED)
    assert peer.ran == [5, 10, 20]
    assert figures.stored == {10: 10_000, 20: 20_000}
    assert figures.many == pytest.approx(200)
    assert set(figures.one) == {10, 20}


def test_a_peer_that_cannot_tell_what_it_stores_is_measured_without() -> None:
    peer = Counting()
    peer.stored = lambda: None  # type: ignore[method-assign]
    assert measure(peer, ASKED).stored == {}


def test_a_job_that_does_not_take_its_steps_is_no_figure() -> None:
    with pytest.raises(NotDone, match="5 steps ended with 11 messages"):
        measure(Counting(missing=1), ASKED)
    check(12, 5)


def contender(name: str, *results: Figures | Exception, ours: bool = False) -> Contender:
    """One that gives these results, one after the other."""
    coming = iter(results)

    def measured(asked: Asked) -> Figures:
        result = next(coming)
        if isinstance(result, Exception):
            raise result
        return result

    return Contender(name, measured, ASKED, ours)


def test_contenders_are_measured_in_turns() -> None:
    said: list[str] = []
    both = [contender("a", FIGURES, FIGURES), contender("b", FIGURES, FIGURES)]
    found = measure_in_turns(both, 2, said.append)
    assert said == [
        "round 1 of 2: a",
        "round 1 of 2: b",
        "round 2 of 2: a",
        "round 2 of 2: b",
    ]
    assert [len(one.samples) for one in found] == [2, 2]


def test_who_is_not_there_is_listed_with_the_reason_and_not_tried_again() -> None:
    said: list[str] = []
    both = [
        contender("gone", PeerMissing("it is not installed")),
        contender("broken", FIGURES, ServerFailed("port\nin use")),
        contender("there", FIGURES, FIGURES, FIGURES),
    ]
    found = measure_in_turns(both, 3, said.append)
    assert said.count("it is not installed") == 1
    assert [one.why_not for one in found] == ["it is not installed", "port\nin use", ""]
    lines = list(table(rows(found)))
    assert lines[2] == "| gone | it is not installed | – | – | – | – | – |"
    assert lines[3] == "| broken | port in use | – | – | – | – | – |"
    assert compared(rows(found[:2])) == {}


def test_the_table_has_medians_and_what_is_stored_by_the_messages() -> None:
    size = load.messages_bytes(10)
    samples = [
        replace(FIGURES, one={10: value, 20: 1.0}, stored={10: 3 * size}, many=value * 10)
        for value in (100.0, 300.0, 121.0)
    ]
    found = measure_in_turns([contender("a", *samples)], 3, lambda _line: None)
    assert list(table(rows(found))) == [
        "|  | durability | one job of 10 | one job of 20 | many jobs | stored, 10 | stored, 20 |",
        "|-|-|-|-|-|-|-|",
        "| a | fsync on | 121 (100 … 300) | 1 (1 … 1) | 1,210 (1,000 … 3,000) | 3.0 × | – |",
    ]


def test_ours_are_compared_with_the_best_of_the_others() -> None:
    alone = replace(FIGURES, many=None)
    found = measure_in_turns(
        [
            contender("slow", FIGURES),
            contender("fast", replace(FIGURES, many=400.0)),
            contender("ours", replace(FIGURES, many=1000.0), ours=True),
            contender("one process", alone, ours=True),
        ],
        1,
        lambda _line: None,
    )
    assert compared(rows(found)) == {
        "best": "fast",
        "many": 400.0,
        "ratios": {"ours, fsync on": 2.5},
    }


def test_a_server_that_is_not_installed_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "BUILD", tmp_path)
    for opens in (servers.redis_with_modules, servers.restate_server, servers.temporal_server):
        with pytest.raises(PeerMissing, match="make peers"), opens():
            pass
