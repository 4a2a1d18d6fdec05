"""Each test that the threat model names exists, and each page that it leads to."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.workers import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:unit|contract|integration|acceptance)/[\w/.:]+)`", PAGE)))


def test_the_page_names_tests_for_each_part() -> None:
    parts = PAGE.split("\n## ")[2:]
    without = [part.splitlines()[0] for part in parts if not any(n in part for n in NAMED)]
    assert not without
    assert len(NAMED) > 40


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_exists(name: str) -> None:
    path, _, test = name.partition("::")
    file = ROOT / "tests" / path
    assert file.is_file(), f"docs/security.md names {name}"
    if test:
        found = {
            node.name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        assert test in found, f"docs/security.md names {name}"
