"""Text for people, JSON for programs."""

from __future__ import annotations

import io
import json
import sys

import pytest

from worker.cli.output import Output


class Terminal(io.StringIO):
    """A stream that says it is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_json_is_readable_where_the_encoding_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, shown in (("utf-8", '"ä中"'), ("ascii", '"\\u00e4\\u4e2d"')):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        Output(as_json=True).value("ä中")
        assert raw.getvalue().decode(encoding) == shown + "\n"


def test_half_a_character_is_still_json(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    Output(as_json=True).value("half \ud83d")
    assert json.loads(raw.getvalue()) == "half \ud83d"


def test_an_answer_goes_into_a_file_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).exactly("\x1b[31mred")
    assert capsys.readouterr().out == "\x1b[31mred\n"


def test_an_answer_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    Output(as_json=False).exactly("\x1b[31mred")
    assert terminal.getvalue() == "\\x1b[31mred\n"


def test_markup_in_a_text_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).result(None, "[bold]x[/bold] :smile: " + "long " * 40)
    assert capsys.readouterr().out == "[bold]x[/bold] :smile: " + "long " * 40 + "\n"


def test_notes_are_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).note("hello")
    assert capsys.readouterr() == ("", "")
    Output(as_json=False).note("hello")
    assert capsys.readouterr() == ("", "hello\n")


def test_color_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    from rich.text import Text

    for no_color, escapes in (("", True), ("1", False)):
        if no_color:
            monkeypatch.setenv("NO_COLOR", no_color)
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        Output(as_json=False).console.print(Text("x", "red"))
        assert ("\x1b[31m" in terminal.getvalue()) is escapes


def test_a_broken_pipe_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Terminal):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        Output(as_json=False).result(None, "x")
