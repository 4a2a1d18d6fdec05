"""Texts and JSON from the command line."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from api_client.errors import InvalidInput
from worker.cli import inputs
from worker.cli.command import Common
from worker.cli.session import Session, data_folder


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("first\nsecond\n"))
    assert inputs.read_text("-") == "first\nsecond"
    assert inputs.read_text("--") == "--"


def test_standard_input_that_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", raw)
    with pytest.raises(InvalidInput, match="not text in UTF-8"):
        inputs.read_text("-")


def test_a_value_is_text_unless_json_is_asked_for() -> None:
    assert inputs.read_value("[1]", as_json=False) == "[1]"
    assert inputs.read_value("[1]", as_json=True) == [1]


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "[" * 100_000])
def test_json_is_json_and_no_more(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"the text: (not JSON|nested too deeply)"):
        inputs.parse_json("the text", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{oops", r"--metadata: not JSON: Expecting property name .* \(given: '\{oops'\)"),
        ("[1]", r"--metadata: give a JSON object such as \{\"a\": 1\} \(given: '\[1\]'\)"),
        ("x" * 500, r"… \(502 characters\)"),
    ],
)
def test_bad_json_is_named_and_shown(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        inputs.parse_object("--metadata", text)


def test_no_object_is_no_object() -> None:
    assert inputs.parse_object("--metadata", None) is None
    assert inputs.parse_object("--metadata", '{"a": 1}') == {"a": 1}


def test_a_user_without_a_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)
    monkeypatch.setattr("os.getuid", lambda: 1234)
    assert inputs.user_name() == "uid 1234"


def test_embedded_data_lies_where_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert data_folder("") == Path("/home/anna/.local/share/stepkeeper")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_folder("") == Path("/data/stepkeeper")
    monkeypatch.chdir(tmp_path)
    assert data_folder("here") == tmp_path / "here"
    assert data_folder("~/there") == Path("/home/anna/there")


def test_two_stores_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Session(Common(embedded="", redis_url="redis://other")) as session,
        pytest.raises(InvalidInput, match="--redis-url and --embedded name two stores"),
    ):
        _ = session.url


def test_the_default_store_is_on_this_machine() -> None:
    with Session(Common()) as session:
        assert session.url == "redis://127.0.0.1:6379/0"
