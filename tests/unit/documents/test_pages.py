"""What every page keeps to: blocks of a known kind, reasons where one is not run, true commands."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.documents.blocks import Block, blocks_of, pages
from tests.support.documents.commands import named, unknown
from tests.support.workers import ROOT

BLOCKS = [block for page in pages() for block in blocks_of(page)]
LANGUAGES = {"console", "json", "python", "sh", "text", "toml", "yaml"}
NOT_RUN_AT_MOST = 8
READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_of_a_kind_that_is_checked(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block}: say which language it is"
    if block.language in READERS:
        READERS[block.language](block.text)
    if block.language == "console":
        assert block.text.startswith("$ "), f"{block}: begin with a command"
    if block.language == "sh":
        assert block.elsewhere, f"{block}: make it a console block, or say what tests it"


def test_few_blocks_are_not_run_and_say_why() -> None:
    reasons = {str(b): b.marked("not run") for b in BLOCKS if b.marked("not run") is not None}
    assert len(reasons) <= NOT_RUN_AT_MOST, reasons
    assert [where for where, reason in reasons.items() if len(reason or "") < 20] == []


def test_a_block_that_is_tested_elsewhere_names_a_test() -> None:
    named_tests = {test for block in BLOCKS if (test := block.marked("tested"))}
    assert named_tests
    assert [test for test in named_tests if not (ROOT / test).is_file()] == []


@pytest.mark.parametrize("page", [*pages(), ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_a_page_names_only_commands_that_there_are(page: Path) -> None:
    wrong = [f"{words}: {why}" for words in named(page.read_text()) if (why := unknown(words))]
    assert wrong == []
