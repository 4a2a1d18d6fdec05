"""The pages that are written from the code say what the code says now."""

from __future__ import annotations

import pytest

from tests.support.reference import PAGES
from tests.support.workers import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_up_to_date(name: str) -> None:
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text()
    assert page == PAGES[name](), "run: make reference"
