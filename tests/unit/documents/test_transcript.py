"""What a command printed, against what a page says it prints."""

from __future__ import annotations

import pytest

from tests.support.documents.blocks import Block
from tests.support.documents.transcript import Ids, Said, commands

SHOWN = "f5fe67d3-aef4-4e37-a8ec-cc0c07f775e4"
REAL = "00000000-0000-4000-8000-000000000001"


def test_commands_with_their_output_and_exit_code() -> None:
    text = "$ one\na\nb\n$ two\n[exit code 3]\n$ three\n"
    assert list(commands(text)) == [
        Said("one", "a\nb", 0),
        Said("two", "", 3),
        Said("three", "", 0),
    ]


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("done in 4.9 s", "done in 12 ms"),
        ("at +1 min 5 s", "at +7 ms"),
        ("on 2026-11-30 17:37:09", "on 2027-01-01 00:00:00"),
        ("a  b", "a      b   \n"),
        ("…", ""),
        ("…", "one\ntwo"),
        ("…\nend", "end"),
        ("…\nend", "one\ntwo\nend"),
        ("begin\n…", "begin\nmore"),
        ("at …:0", "at 127.0.0.1:0"),
    ],
)
def test_what_counts_as_equal(expected: str, printed: str) -> None:
    assert Ids().match(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("done", "done\nmore"),
        ("done", ""),
        ("3 steps", "4 steps"),
        ("…\nend", "endless"),
        ("", "x"),
    ],
)
def test_what_does_not(expected: str, printed: str) -> None:
    assert not Ids().match(expected, printed)


def test_an_id_of_the_page_stands_for_one_real_id() -> None:
    ids = Ids()
    assert ids.match(f"job {SHOWN}", f"job {REAL}")
    assert ids.put_in(f"approve {SHOWN}") == f"approve {REAL}"
    assert not ids.match(f"job {SHOWN}", f"job {SHOWN}")


def test_a_block_names_the_file_that_it_is() -> None:
    def file(text: str, language: str = "python") -> object:
        return Block("p", 1, language, text, ()).file

    assert file("# shop.py\nx = 1\n") == ("shop.py", False)
    assert file("# proj.py, at its end\nx = 1\n") == ("proj.py", True)
    assert file("# a comment\nx = 1\n") is None
    assert file("# shop.py\n", "sh") is None
